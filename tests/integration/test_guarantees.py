"""docs/guarantees.md: promises that no other file shows, and that each promise names tests that exist."""
import re
import urllib.request
from pathlib import Path

import hostile
import procs
import pytest
import rawh2
from differential import Stream, watch_create
from hostile import text

TOP = Path(__file__).parents[2]
GREEDY, OTHER = "127.0.0.1", "10.77.0.1"
MIB = 1 << 20


def test_each_promise_names_tests_that_exist():
    table = (TOP / "docs/guarantees.md").read_text().partition("| shown by |\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [line.strip("| ").split(" | ") for line in table]
    promises = {row[0]: [name.strip() for name in row[-1].split(",")] for row in rows}
    assert len(promises) > 15
    wrong = [f"{promise}: {name}" for promise, names in promises.items() for name in names
             if name != "sim" and not (TOP / f"tests/integration/{name}.py").is_file()]
    assert not wrong, wrong


# ---- bounded memory

def open_streams(peer, n):
    """So many watch streams on one connection, each answered in one way or another. A hundred at a time: who has 256 KiB of requests that
    are not whole may be ended for it."""
    for first in range(0, n, 100):
        asked = {peer.open(hostile.WATCH, text(1, text(1, b"/greedy/%d" % (first + i)))) for i in range(100)}
        while asked:
            kind, _, stream, _ = peer.read(20)
            if kind in (rawh2.HEADERS, hostile.RST_STREAM):
                asked.discard(stream)


def refusals(tier):
    """Of all pools."""
    return sum(n for name, n in tier.metrics().items() if name.startswith("belfry_pool_refused_total{"))


@pytest.mark.usefixtures("own_network")
def test_over_the_limit_new_work_is_refused_and_what_runs_goes_on(cluster, make_tier, figure):
    """A client asks for streams until it is refused. The process stays within its memory, the refusal has a reason, the client's own
    streams go on, and another client is served."""
    limit = 32 * MIB
    tier = make_tier(cluster, "--workers", "1", "--memory-bytes", "32MiB", "--log-bytes", "1MiB")
    before = Stream(tier.endpoint)
    before.send(watch_create(key=b"/kept"))
    assert before.wait(lambda got, status: got)
    peers = []
    while refusals(tier) == 0 and len(peers) < 40:
        peers.append(rawh2.Connection(tier.port, source=GREEDY, window=1 << 24))
        open_streams(peers[-1], 1000)
    assert refusals(tier) > 0, f"{len(peers)} connections with 1,000 streams each, and none was refused"
    n = refusals(tier)
    for _ in range(3):
        peers.append(rawh2.Connection(tier.port, source=GREEDY, window=1 << 24))
        open_streams(peers[-1], 1000)
    assert refusals(tier) >= n + 3000, "it has its share"
    rss = procs.rss_bytes(tier.pid)
    figure("guarantees.rss_at_the_limit", rss / MIB, "MiB")
    assert rss < limit * 1.25, f"{rss / MIB:.0f} MiB of {limit / MIB:.0f}"
    more = Stream(tier.endpoint)
    more.send(watch_create(key=b"/more"))
    assert more.wait(lambda got, status: status or got and got[0].get("canceled"), 10)
    reason = more.status[1] if more.status else more.got[0]["cancel_reason"]
    assert reason.startswith("belfry: "), (more.got, more.status)
    more.close()
    procs.wait_until(lambda: re.search(r"^\[!\]pools: .*clients refused.*127.0.0.0/8 holds most", tier.get("/readyz?verbose")[1], re.M), 10, 0.1,
                     lambda: tier.get("/readyz?verbose")[1])

    other, n = rawh2.Connection(tier.port, source=OTHER, window=1 << 20), refusals(tier)
    open_streams(other, 100)
    assert refusals(tier) == n, "another client is served"
    rev = cluster.put("/kept", "x")
    assert before.wait(lambda got, status: any(event["kv"]["mod_revision"] == rev for response in got for event in response.get("events", [])), 10)
    before.close()
    for one in *peers, other:
        one.close()


# ---- no silent fallback

UNARY = re.compile(r'^grpc_server_started_total\{grpc_method="(\w+)",.*\} (\S+)$', re.M)
OF_THE_TIER = ("Status", "Watch")  # its watch, and the question of each second whether the member is there


def asked_of(member):
    """method -> how often etcd was asked, by whomever."""
    with urllib.request.urlopen(f"{member.url}/metrics", timeout=10) as answer:
        return {method: float(n) for method, n in UNARY.findall(answer.read().decode())}


def counted_by(tier):
    """What the tier says that it has asked."""
    metrics = tier.metrics()
    return {"relayed": metrics['belfry_upstream_fallbacks_total{reason="relay"}'], "points": metrics["belfry_read_points_total"],
            "auth": metrics["belfry_auth_asked_total"], "lists": metrics['belfry_upstream_fallbacks_total{reason="list"}']}


CALLS = [("get", "/k/1"), ("get", "/k/1", "--consistency=s"), ("get", "/k/", "--prefix"), ("get", "/k/", "--prefix", "--rev", "3"),
         ("put", "/k/1", "x"), ("del", "/k/2"), ("lease", "grant", "10"), ("lease", "list"), ("member", "list"), ("alarm", "list"),
         ("role", "list"), ("user", "list"), ("get", "/k/1", "--limit", "1"), ("compaction", "2")]


def test_all_that_is_asked_of_upstream_is_counted(cluster, make_tier):
    """By etcd's own count, of every method: nobody else asks it. What a tier answers itself is asked by nobody."""
    member = cluster.members[0]
    for i in range(5):
        cluster.put(f"/k/{i}", "v")
    tier = make_tier(cluster)
    assert counted_by(tier)["lists"] == 1
    before, counted = asked_of(member), counted_by(tier)
    for call in CALLS:
        procs.run(["etcdctl", "--endpoints", tier.endpoint, *call])

    def sums():
        asked = {method: n - before.get(method, 0) for method, n in asked_of(member).items()}
        own = {name: n - counted[name] for name, n in counted_by(tier).items()}
        return asked, own, sum(n for method, n in asked.items() if method not in OF_THE_TIER), sum(own.values())
    procs.wait_until(lambda: sums()[2] == sums()[3], 10, 0.1, lambda: f"etcd and the tier count differently: {sums()}")
    asked, own, total, _ = sums()
    assert own["relayed"] >= 10 and own["points"] >= 2 and total >= 12, (asked, own)
    assert own["lists"] == 0 and asked["Watch"] == 0, (asked, own)
    tier.kill()
    before = asked_of(member)
    tier.start()
    assert counted_by(tier)["lists"] == 0, "a warm start lists nothing"
    assert asked_of(member).get("Range", 0) - before.get("Range", 0) <= 2, "and asks only where upstream is"
