"""docs/guarantees.md: promises that no other file shows, and that each promise names tests that exist."""
import collections
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

STARTED = re.compile(r'^grpc_server_started_total\{grpc_method="(\w+)",grpc_service="etcdserverpb\.\w+",.*\} (\S+)$', re.M)  # not health's Watch
PERIODIC = {"Status", "Authenticate"}  # whether the member is there, each second; whether auth is on: counted, and compared as a whole


def asked_of(member):
    """method -> how often etcd was asked, by whomever."""
    with urllib.request.urlopen(f"{member.url}/metrics", timeout=10) as answer:
        return collections.Counter({method: int(n) for method, n in STARTED.findall(answer.read().decode())})


def counted_by(tier):
    """What the tier says that it has asked."""
    metrics = tier.metrics()
    return collections.Counter({name: int(metrics[metric]) for name, metric in (
        ("relayed", 'belfry_upstream_fallbacks_total{reason="relay"}'), ("backfills", 'belfry_upstream_fallbacks_total{reason="backfill"}'),
        ("lists", 'belfry_upstream_fallbacks_total{reason="list"}'), ("points", "belfry_read_points_total"))})


def both_count(member, tier, doing, asked, counted):
    """What is done makes etcd count these methods, and the tier these kinds: no more and no others."""
    before = asked_of(member), counted_by(tier)
    doing()

    def grown():
        return [{name: n for name, n in (now - then).items() if name not in PERIODIC}
                for then, now in zip(before, (asked_of(member), counted_by(tier)))]
    procs.wait_until(lambda: grown() == [asked, counted], 10, 0.1, lambda: f"{grown()}, and not {[asked, counted]}")


CALLS = [  # words of etcdctl; what etcd counts; what the tier counts
    (("get", "/k/1"), {"Range": 1}, {"points": 1}),
    (("get", "/k/1", "--consistency=s"), {}, {}),
    (("get", "/k/", "--prefix"), {"Range": 1}, {"points": 1}),
    (("get", "/k/", "--prefix", "--rev", "3"), {"Range": 2}, {"points": 1, "relayed": 1}),
    (("put", "/k/1", "x"), {"Put": 1}, {"relayed": 1}),
    (("del", "/k/2"), {"DeleteRange": 1}, {"relayed": 1}),
    (("lease", "grant", "10"), {"LeaseGrant": 1}, {"relayed": 1}),
    (("lease", "list"), {"LeaseLeases": 1}, {"relayed": 1}),
    (("member", "list"), {"MemberList": 1}, {"relayed": 1}),
    (("alarm", "list"), {"Alarm": 1}, {"relayed": 1}),
    (("role", "list"), {"RoleList": 1}, {"relayed": 1}),
    (("user", "list"), {"UserList": 1}, {"relayed": 1}),
    (("get", "/k/1", "--limit", "1"), {"Range": 1}, {"points": 1}),
    (("compaction", "2"), {"Compact": 1}, {"relayed": 1})]


def test_all_that_is_asked_of_upstream_is_counted(cluster, make_tier):
    """By etcd's own count, of every method and kind: nobody else asks it. What a tier answers itself is asked by nobody."""
    member = cluster.members[0]
    for i in range(5):
        cluster.put(f"/k/{i}", "v")
    before = asked_of(member)
    tier = make_tier(cluster)
    procs.wait_until(lambda: asked_of(member)["Authenticate"] == tier.metrics()["belfry_auth_asked_total"] > 0, 10, 0.1, "auth is asked about")
    began = asked_of(member) - before
    assert counted_by(tier) == {"lists": 1, "relayed": 0, "backfills": 0, "points": 0}
    assert set(began) - PERIODIC == {"Range", "Watch"} and began["Watch"] == 1, began
    for words, asked, counted in CALLS:
        both_count(member, tier, lambda words=words: procs.run(["etcdctl", "--endpoints", tier.endpoint, *words]), asked, counted)
    procs.wait_until(lambda: asked_of(member)["Authenticate"] == tier.metrics()["belfry_auth_asked_total"], 10, 0.1, "auth is asked about")
    tier.kill()
    before = asked_of(member)
    tier.start()
    assert counted_by(tier)["lists"] == 0, "a warm start lists nothing"
    assert (asked_of(member) - before)["Range"] == counted_by(tier)["points"], "and asks only where upstream is"


def test_a_backfill_is_counted(cluster, make_tier):
    """A tier that begins now has no history: it asks etcd by a watch of its own. The second watcher has the same history from memory."""
    member = cluster.members[0]
    for i in range(5):
        cluster.put(f"/k/{i}", "v")
    tier, watchers = make_tier(cluster), []

    def watch():
        watchers.append(Stream(tier.endpoint))
        watchers[-1].send(watch_create(key=b"/k/", range_end=b"/k0", start_revision=2))
        assert watchers[-1].wait(lambda got, status: sum(len(response.get("events", [])) for response in got) == 5, 20), watchers[-1].status
    both_count(member, tier, watch, {"Watch": 1}, {"backfills": 1})
    both_count(member, tier, watch, {}, {})
    for watcher in watchers:
        watcher.close()
