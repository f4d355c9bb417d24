"""What starts at a tier without a version is not older than its request, and a thousand starts at once cost the API server as much
as one: kube-apiserver 1.20, whose caches stand still while a resource is quiet. The servers are built outside this tree; without
them this is skipped."""
import asyncio
import json
import time

import pytest
from etcd import Cluster
from gateway import Gateway, b64
from kube import rv
from kube_apiserver import KubeCluster
from kube_tier import MAPS, NODES, PODS, SERVICES, SLICES, STANDS_IN, KubeTier, needs_servers, requests_of
from ports import free_port
from test_kube_cluster import config_map

PROD = MAPS.path("prod")
STREAMED = {"resourceVersion": "", "sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
INITIAL_END = "k8s.io/initial-events-end"
STARTS = 1000
FOLLOWED = (MAPS, PODS, SERVICES, NODES, SLICES)


class Bed:
    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 1, keep=True).start()
        self.api = self.cluster.servers[0]
        self.plain_port = free_port()
        self.tier = KubeTier(folder / "tier", self.cluster.servers, FOLLOWED,
                             ("--listen", f"http://127.0.0.1:{self.plain_port}"), keep=True)
        for i in range(20):
            self.write(i, "0")
        self.tier.start()

    def write(self, number, text):
        """At the API server. Returns its version."""
        obj, path = config_map(f"m{number}", text=text), f"{PROD}/m{number}"
        made = self.api.call("PUT", path, obj=obj)
        if made.code == 404:
            made = self.api.call("POST", PROD, obj=obj)
        assert made.code in (200, 201), made.body
        return rv(made.json)

    def close(self):
        self.tier.kill()
        self.cluster.kill()
        self.etcd.close()


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers()
    if STANDS_IN:
        pytest.skip("1.20 has no WatchList")
    made = Bed(tmp_path_factory.mktemp("kube"))
    yield made
    made.tier.assert_sound()
    made.close()


class Unavailable(Exception):
    """The tier could not prove that it is fresh, and said so: no answer, and none that is stale."""


def start(tier):
    """A WatchList: name -> version of the objects that came first, and the version that they are of."""
    objects, events = {}, tier.watch(PROD, "", user="alice", **{k: v for k, v in STREAMED.items() if k != "resourceVersion"})
    for event in events:
        obj = event["object"]
        if event["type"] == "BOOKMARK" and obj["metadata"].get("annotations", {}).get(INITIAL_END):
            break
        if event["type"] == "ERROR" and obj["code"] in (503, 504):
            events.close()
            raise Unavailable(obj["message"])
        assert event["type"] == "ADDED", event
        objects[obj["metadata"]["name"]] = rv(obj)
    events.close()
    return objects, rv(obj)


def started(tier, refused):
    """start(), again if it is refused."""
    while len(refused) < 20:
        try:
            return start(tier)
        except Unavailable as e:
            refused.append(f"{time.strftime('%H:%M:%S')} {e}")
            print(f"refused: {refused[-1]}\n{tier.log()[-2000:]}", flush=True)
    raise AssertionError(f"refused again and again: {refused}")


async def start_on(connection, request, began):
    """As start(), on a connection that is open. Returns the highest version among the objects, how many, and how long it took."""
    reader, writer = connection
    writer.write(request)
    status = await reader.readline()
    assert b" 200 " in status, status
    newest = n = 0
    while True:
        line = await reader.readline()
        assert line, f"the watch ended after {n} objects"
        if not line.startswith(b"{"):
            continue  # fields, sizes of chunks
        obj = json.loads(line)["object"]
        if obj["metadata"].get("annotations", {}).get(INITIAL_END):
            writer.transport.abort()
            return newest, n, time.monotonic() - began
        newest, n = max(newest, rv(obj)), n + 1


async def start_many(bed, before):
    """All connections first; then `before` is called, and all start at once. Without TLS, whose handshakes take longer than all
    the rest."""
    port = bed.plain_port
    query = "&".join(f"{k}={v}" for k, v in STREAMED.items())
    request = (f"GET {PROD}?watch=1&{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
               f"Authorization: Bearer {bed.tier.identity.tokens['alice']}\r\n\r\n").encode()
    connections = []
    for _ in range(STARTS // 50):
        connections += await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(50)))
    found, began = before(), time.monotonic()
    return found, await asyncio.gather(*(start_on(c, request, began) for c in connections))


def test_a_thousand_starts_on_a_quiet_resource_cost_a_handful_of_requests(bed, figure):
    version = bed.write(3, "quiet")

    def wait_quiet():
        time.sleep(1.5)
        bed.etcd.ctl("put", "/elsewhere", "1")
        return requests_of(bed.api, MAPS)

    before, answers = asyncio.run(start_many(bed, wait_quiet))
    after = requests_of(bed.api, MAPS)
    cost = sum(after.values()) - sum(before.values())
    figure("kube_tier.starts", len(answers))
    figure("kube_tier.starts_cost", cost, "requests")
    figure("kube_tier.starts_s", max(took for _, _, took in answers), "s")
    assert len(answers) == STARTS and all(newest >= version and n == 20 for newest, n, _ in answers)
    took = max(took for _, _, took in answers)
    assert cost <= 10 + 5 * took, (before, after, took)  # four a second, and probes of the tier


def test_a_thousand_starts_after_a_write_all_have_it(bed):
    version, answers = asyncio.run(start_many(bed, lambda: bed.write(4, "just now")))
    stale = sum(newest < version for newest, _, _ in answers)
    assert stale == 0, f"{stale} of {len(answers)} starts do not have a write that was answered before"


def test_quiet_resources_share_the_probes_of_their_server(bed, figure):
    """One every 2 s or more for all of them; and each has one of its own per minute."""
    def lists():
        return sum(requests_of(bed.api, kind).get("LIST", 0) for kind in FOLLOWED)

    before, began = lists(), time.monotonic()
    time.sleep(12)
    cost, took = lists() - before, time.monotonic() - began
    figure("kube_tier.probes", cost / took, "/s")
    assert 1 <= cost <= took / 2 + len(FOLLOWED) + 1, f"{cost} probes of {len(FOLLOWED)} resources in {took:.0f} s"
    assert bed.tier.admin("/readyz")[0] == 200


def test_a_controller_reads_its_writes(bed, rng, soak, figure):
    """Pairs of a write to the API server and a start, or a get, at the tier. A start that is refused is sent again, as clients do."""
    stale, took, refused = 0, [], []
    etcd = Gateway(bed.etcd.members[0].client_port)
    for i in range(100000 if soak else 80):
        number = rng.randrange(20)
        version = bed.write(number, f"w{i}")
        if rng.random() < 0.2:
            # of no resource, so that the watch does not show it: a start waits 20 ms for that, and then lists the versions
            etcd.json("/v3/kv/put", {"key": b64(b"/elsewhere")})
        if rng.random() < (0.0005 if soak else 0.02):
            time.sleep(1.5)  # quiet
        began = time.monotonic()
        if rng.random() < 0.8:
            seen = started(bed.tier, refused)[0].get(f"m{number}", 0)
        else:
            seen = rv(bed.tier.call("GET", f"{PROD}/m{number}", user="alice").json)
        took.append(time.monotonic() - began)
        if seen < version:
            stale += 1
            print(f"stale: pair {i}: {seen}, and {version} was written", flush=True)
        if i % 10000 == 9999:
            print(f"{i + 1} pairs, {stale} stale, {len(refused)} refused", flush=True)
    assert stale == 0, f"{stale} of {len(took)} reads do not have the write before"
    assert len(refused) <= max(1, len(took) // 10000), refused
    etcd.close()
    figure("kube_tier.pairs", len(took))
    figure("kube_tier.pairs_refused", len(refused))
    figure("kube_tier.pair_ms", sorted(took)[len(took) // 2] * 1000, "ms")
