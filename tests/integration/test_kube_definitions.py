"""CustomResourceDefinitions that lie in etcd: served live, changed, removed; what is not concerned goes on."""
import base64
import concurrent.futures
import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import procs

CRDS = os.path.join(os.path.dirname(__file__), "crds")
UNDER = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
GROUP = "live.example.com"


def definition(plural, kind=None, old=False, status=None, **version):
    """As kube-apiserver keeps it: with metadata of its own, a status, and in the older form if asked for."""
    kind = kind or plural[:-1].capitalize()
    versions = [dict({"name": "v1", "served": True, "storage": True}, **version)]
    spec = {"group": GROUP, "scope": "Namespaced", "conversion": {"strategy": "None"}, "versions": versions,
            "names": {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": kind + "List"}}
    if old:
        spec.update(version="v1", preserveUnknownFields=False, subresources={"status": {}},
                    validation={"openAPIV3Schema": {"type": "object"}},
                    additionalPrinterColumns=[{"name": "Size", "type": "integer", "JSONPath": ".spec.size"}])
    return json.dumps({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/" + ("v1beta1" if old else "v1"),
        "metadata": {"name": f"{plural}.{GROUP}", "uid": "11111111-2222-4333-8444-555555555555", "generation": 1,
                     "creationTimestamp": "2024-01-01T00:00:00Z",
                     "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}]},
        "spec": spec,
        "status": status or {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}})


def put_definition(cluster, plural, **kw):
    return cluster.put(f"{UNDER}{plural}.{GROUP}", definition(plural, **kw))


def put_object(cluster, plural, name, size=1):
    return cluster.put(f"/registry/{GROUP}/{plural}/default/{name}", json.dumps(
        {"apiVersion": f"{GROUP}/v1", "kind": "X", "metadata": {"name": name, "namespace": "default"},
         "spec": {"size": size}}))


def get(tier, path, accept="application/json", timeout=20):
    request = urllib.request.Request(tier.url + path, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"{}")


def path_of(plural, group=GROUP):
    return f"/apis/{group}/v1/{plural}"


def served(tier, group=GROUP):
    """plural -> kind, as discovery has it."""
    status, body = get(tier, f"/apis/{group}/v1")
    return {r["name"]: r["kind"] for r in body["resources"] if "/" not in r["name"]} if status == 200 else {}


def wait_served(tier, plural, kind=None, group=GROUP):
    def there():
        return served(tier, group).get(plural) == (kind or plural[:-1].capitalize())
    procs.wait_until(there, 10, 0.02, lambda: f"{plural} served: {served(tier, group)} {tier.log()[-1000:]}")


def wait_gone(tier, plural):
    procs.wait_until(lambda: plural not in served(tier), 10, 0.02, lambda: f"{plural} gone: {served(tier)}")


class Watch:
    """A watch whose events come to a list; `ended` when its body does."""

    def __init__(self, tier, path, timeout=40):
        self.events, self.ended, self.failed = [], threading.Event(), None
        self.answer = urllib.request.urlopen(f"{tier.url}{path}?watch=1&resourceVersion=0", timeout=timeout)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.answer:
                self.events.append(json.loads(line))
        except Exception as e:  # a body that breaks is told where the test looks
            self.failed = e
        self.ended.set()

    def names(self):
        return [(e["type"], e["object"]["metadata"].get("name")) for e in self.events]

    def wait_for(self, *event):
        procs.wait_until(lambda: event in self.names(), 10, 0.02, lambda: f"{event}: {self.names()} {self.failed}")


def follow(*more):
    return ["--resources", f"crds-under={UNDER}", *more]


def test_definitions_are_served_changed_and_removed(cluster, make_tier):
    put_definition(cluster, "apples", old=True)
    put_object(cluster, "apples", "red", 7)
    tier = make_tier(cluster, *follow())
    wait_served(tier, "apples")
    status, body = get(tier, path_of("apples"))
    assert status == 200 and body["kind"] == "AppleList"
    assert [o["metadata"]["name"] for o in body["items"]] == ["red"]
    status, table = get(tier, path_of("apples"), "application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [c["name"] for c in table["columnDefinitions"]][:2] == ["Name", "Size"] and table["rows"][0]["cells"][1] == 7

    put_definition(cluster, "pears")
    wait_served(tier, "pears")
    assert get(tier, path_of("pears"))[1]["items"] == []
    put_definition(cluster, "pears", kind="Quince")
    wait_served(tier, "pears", "Quince")
    assert get(tier, path_of("pears"))[1]["kind"] == "QuinceList"
    cluster.delete(f"{UNDER}apples.{GROUP}")
    wait_gone(tier, "apples")
    assert get(tier, path_of("apples"))[0] == 404
    cluster.delete(UNDER, "--prefix")
    wait_gone(tier, "pears")
    assert tier.stop() == 0


def test_watches_of_what_did_not_change_go_on(cluster, make_tier):
    for plural in ("apples", "pears", "plums"):
        put_definition(cluster, plural)
    tier = make_tier(cluster, *follow())
    for plural in ("apples", "pears", "plums"):
        wait_served(tier, plural)
    stays, touched, changed = (Watch(tier, path_of(p)) for p in ("apples", "pears", "plums"))
    put_definition(cluster, "figs")
    put_definition(cluster, "pears", status={"conditions": [{"type": "Established", "status": "True"},
                                                            {"type": "NamesAccepted", "status": "True"}]})
    put_definition(cluster, "plums", subresources={"status": {}})
    wait_served(tier, "figs")
    assert changed.ended.wait(20), "a watch of what is served in another way ends"
    assert changed.failed is None, "and cleanly"
    time.sleep(1)
    assert not stays.ended.is_set() and not touched.ended.is_set()
    put_object(cluster, "apples", "a")
    put_object(cluster, "pears", "b")
    stays.wait_for("ADDED", "a")
    touched.wait_for("ADDED", "b")


def test_what_makes_no_sense_is_left_out_and_told_once(cluster, make_tier):
    put_definition(cluster, "apples")
    cluster.put(UNDER + "bad", "kind: Pod")
    cluster.put(UNDER + "bomb", "%TAG !a! b\n" * 1000 + "---\na: b\n")
    tier = make_tier(cluster, *follow())
    wait_served(tier, "apples")
    for plural in ("pears", "plums"):
        put_definition(cluster, plural)
        wait_served(tier, plural)
    told = [line for line in tier.log().splitlines() if "definition_left_out" in line]
    assert len(told) == 2 and "/bad" in told[0] and "/bomb" in told[1], told
    put_definition(cluster, "bad")  # under another key; and now the bad one is mended
    cluster.put(UNDER + "bad", definition("goods"))
    wait_served(tier, "goods")


def test_a_file_and_etcd_together(cluster, make_tier):
    tier = make_tier(cluster, *follow("--resources", os.path.join(CRDS, "widgets.yaml")))
    wait_served(tier, "widgets", "Widget", "demo.example.com")
    widgets = Watch(tier, path_of("widgets", "demo.example.com"))
    put_definition(cluster, "apples")
    wait_served(tier, "apples")
    text = definition("widgets", "Impostor").replace(GROUP, "demo.example.com")
    cluster.put(f"{UNDER}widgets.demo.example.com", text)
    put_definition(cluster, "pears")
    wait_served(tier, "pears")
    assert served(tier, "demo.example.com")["widgets"] == "Widget", "the file wins"
    assert len([line for line in tier.log().splitlines() if "definition_left_out" in line]) == 1
    cluster.put("/registry/demo.example.com/widgets/default/w", json.dumps({"metadata": {}, "spec": {"size": 1}}))
    widgets.wait_for("ADDED", "w")


def test_a_storm_of_definitions_holds_nobody_up(cluster, make_tier, figure):
    """A thousand definitions as fast as they can be written; meanwhile a list takes what a list takes."""
    put_definition(cluster, "apples")
    for i in range(20):
        put_object(cluster, "apples", f"a{i}")
    tier = make_tier(cluster, *follow())
    wait_served(tier, "apples")
    stop, slowest = threading.Event(), [0.0]

    def list_all_the_time():
        while not stop.is_set():
            began = time.monotonic()
            status, body = get(tier, path_of("apples"))
            assert status == 200 and len(body["items"]) == 20
            slowest[0] = max(slowest[0], time.monotonic() - began)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        lister = pool.submit(list_all_the_time)
        for first in range(0, 1000, 50):
            write_definitions(cluster, range(first, first + 50))
        wait_served(tier, "t0999s", "T0999")
        stop.set()
        lister.result()
    assert len(served(tier)) == 1001
    figure("slowest_list_in_a_storm_of_definitions", slowest[0] * 1000, "ms")
    assert slowest[0] < 2


def write_definitions(cluster, numbers):
    """Each in a transaction of its own, so that each is a revision."""
    def b64(text):
        return base64.b64encode(text.encode()).decode()
    for i in numbers:
        plural = f"t{i:04d}s"
        body = json.dumps({"key": b64(f"{UNDER}{plural}.{GROUP}"), "value": b64(definition(plural))}).encode()
        urllib.request.urlopen(cluster.members[0].url + "/v3/kv/put", body, timeout=10).read()


def test_a_warm_start_serves_them_at_once_without_upstream_yet(cluster, make_tier):
    put_definition(cluster, "apples")
    put_object(cluster, "apples", "a")
    tier = make_tier(cluster, *follow())
    wait_served(tier, "apples")
    for _ in range(5):
        assert tier.stop() == 0
        tier.start()
        wait_served(tier, "apples")
        assert len(get(tier, path_of("apples"))[1]["items"]) == 1


def test_it_ends_in_the_middle_of_everything(cluster, make_tier):
    """Lists that nobody reads, lists that wait, watches and a storm of definitions: one SIGTERM, and then another."""
    put_definition(cluster, "apples")
    for i in range(40):
        put_object(cluster, "apples", f"a{i}", "x" * 60000)
    for twice in (False, True):
        tier = make_tier(cluster, *follow("--drain", "2s", "--workers", "2"))
        wait_served(tier, "apples")
        watches = [Watch(tier, path_of("apples")) for _ in range(20)]
        socks = []
        for i in range(200):
            s = socket.create_connection((tier.host, tier.port))
            query = "?resourceVersion=0" if i % 2 else ""
            s.sendall(f"GET {path_of('apples')}{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            socks.append(s)
        write_definitions(cluster, range(20))
        os.kill(tier.pid, signal.SIGTERM)
        if twice:
            time.sleep(0.05)
            os.kill(tier.pid, signal.SIGTERM)
        assert tier.proc.wait(30) == 0, tier.log()[-2000:]
        for s in socks:
            s.close()
        for watch in watches:
            assert watch.ended.wait(5)
