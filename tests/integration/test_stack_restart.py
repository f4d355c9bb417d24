"""Restarts in a tree of tiers, read from the counters of both sides: nobody lists, and who is far behind serves meanwhile."""
import json
import time
import urllib.request

import history
import procs
import pytest
from checker import Spec
from client import Recorder, Writer, write
from etcd import PATIENT
from patience import Patience
from proxy import Proxy
from stack import Stack, core, follower, is_ready, total, tree
from test_stack import CLOSED, follow, judge

LISTS = ("listings", "pages", "relists_compacted", "relists_rewritten")


def etcd_ranges(member):
    """Range calls that etcd has answered, by any code."""
    with urllib.request.urlopen(f"{member.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.startswith("grpc_server_handled_total") and 'grpc_method="Range"' in line)


def lists_of(tier):
    return {name: follower(tier)[name] for name in LISTS}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_any_tier_of_three_is_restarted_and_nobody_lists(cluster, make_tier, tmp_path, how):
    stack = Stack(make_tier, cluster, 3, "--drain", "1s")
    keys = 3000  # a listing of them would be several pages
    write(cluster.endpoints, "mode=put", "prefix=/k/", f"keys={keys}", f"count={keys}", "size=100", timeout=120)
    recorder = follow(stack.leaf, tmp_path / "r")
    recorder.wait_rev({0: cluster.put("/k/mark", "0")}, 30)
    writer = Writer(cluster.endpoints, "mode=mix", "rate=200", "size=100")
    for i, tier in enumerate(stack.tiers):
        others = [t for t in stack.tiers if t is not tier]
        before, ranges = [lists_of(t) for t in others], etcd_ranges(cluster.members[0])
        getattr(tier, how)()
        tier.start()
        stack.wait_ready()
        last = cluster.put("/k/mark", str(i + 1))
        for t in stack.tiers:
            procs.wait_until(lambda: t.numbers()["upstream"]["revision"] >= last, 20, 0.1, f"{t.flags[1]} at {last}")
        assert lists_of(tier) == dict.fromkeys(LISTS, 0), f"t{i} lists nothing upstream: {follower(tier)}"
        assert follower(tier)["overlaps"] >= 1, "it has compared where it was"
        assert [lists_of(t) for t in others] == before, "and nobody else lists, above or below"
        asked = etcd_ranges(cluster.members[0]) - ranges
        assert asked <= 10, f"etcd was asked {asked} times for a range: a listing of {keys} keys is more"
        assert all(total(t, "core", "compacted") == 0 for t in stack.tiers), "nobody below is told to list"
    writer.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/last", "x")
    recorder.wait_rev({0: last}, 30)
    recorder.quit()
    judge(recorder, [Spec(0, "prefix", b"", rev="1")], history.read(cluster, last))


def read_through(tier, *flags):
    patience = Patience(3)
    out = procs.run(["etcdctl", "--endpoints", tier.endpoint, *PATIENT, "get", "/a", "-w", "json", *flags]).stdout
    return json.loads(out), patience.used()


def test_a_leaf_far_behind_serves_while_it_replays(cluster, make_tier, tmp_path, figure):
    """50,000 revisions behind, over a slow way, so that there is a meanwhile."""
    top = make_tier(cluster, "--name", "top")
    way = Proxy(top.endpoint)
    leaf = make_tier(way.url, "--name", "leaf")
    old = follow(leaf, tmp_path / "old")
    began_at = cluster.put("/a", "1")
    old.wait_rev({0: began_at}, 10)
    leaf.kill()
    write(cluster.endpoints, "mode=put", "prefix=/h/", "keys=50", "count=50000", "size=300", timeout=300)
    last = cluster.put("/h/last", "x")
    way.rate = 700_000
    leaf.start(wait=False)

    def state():
        upstream = leaf.numbers()["upstream"]
        return upstream["state"], upstream["revision"]
    procs.wait_until(lambda: leaf.get("/debug/numbers")[0] == 200 and state()[0] == "replaying" and
                     state()[1] > began_at, 30, 0.02, lambda: f"replaying: {leaf.log()[-1500:]}")
    refused = leaf.metrics()[CLOSED % "not_ready"]
    seen = Recorder(leaf.url, tmp_path / "new")
    seen.open(Spec(0, "prefix", b"/h/", rev=str(began_at)))  # what it has of that is given now
    seen.open(Spec(1, "prefix", b"/h/"))  # from now on: libbelfry asks etcd where that is, and the leaf is not there yet
    seen.wait_connected(2, 5)
    procs.wait_until(lambda: seen.status()[0]["n_events"] > 0, 5, 0.05, lambda: f"events: {seen.status()} {state()}")
    answer, took = read_through(leaf, "--consistency", "s")
    assert answer["count"] == 1 and took < 3
    status, why = leaf.get("/readyz?verbose")
    assert state()[0] == "replaying", "the test has lost its point"
    at = state()[1]
    assert status == 503 and "[+]upstream ok" in why and "[-]lag" in why, f"it serves, and says that it is behind: {why}"
    assert seen.status()[0]["rev"] < last and seen.status()[1]["state"] != "ended"
    figure("stack.served_when_behind_by", last - at, "revisions, while it replays")
    assert leaf.metrics()[CLOSED % "not_ready"] == refused, "nobody was sent away since it knows whose past it has"
    way.rate = 0
    leaf.wait_ready(60)
    last = cluster.put("/h/last", "y")
    old.wait_rev({0: last}, 60)
    seen.wait_rev({0: last, 1: last}, 60)
    old.quit()
    seen.quit()
    truth = history.read(cluster, last)
    judge(old, [Spec(0, "prefix", b"", rev="1")], truth)
    judge(seen, [Spec(0, "prefix", b"/h/", rev=str(began_at), first=began_at), Spec(1, "prefix", b"/h/", first=last)],
          truth)
    assert follower(leaf)["replays"] >= 1 and follower(leaf)["windows"] >= 40
    assert follower(leaf)["listings"] == 0 and core(top)["backfills_done"] == 0
    way.close()


def test_what_a_tier_has_missed_is_no_measure_of_its_hop(cluster, make_tier):
    stack = Stack(make_tier, cluster, 2)
    cluster.put("/a", "1")
    stack.leaf.kill()
    write(cluster.endpoints, "mode=put", "prefix=/h/", "keys=50", "count=3500", "size=1000", timeout=120)
    last = cluster.put("/a", "2")
    time.sleep(2)
    stack.leaf.start()
    procs.wait_until(lambda: stack.leaf.numbers()["upstream"]["revision"] >= last, 20, 0.1, "caught up")
    procs.wait_until(lambda: len(tree(stack.leaf)["above"]) == 2, 10, 0.1, "it has been told")
    time.sleep(2.5)
    self = tree(stack.leaf)["self"]
    assert "hop" not in self or self["hop_us"] < 1_000_000, f"what was published 2 s before it came: {self}"
    for i in range(20):
        cluster.put("/a", str(i))
    procs.wait_until(lambda: tree(stack.leaf)["self"].get("hop") == "measured", 10, 0.1, "what is live is measured")
    assert tree(stack.leaf)["self"]["hop_us"] < 1_000_000


# ---- drains ----

def test_a_drain_with_nobody_there_is_over_at_once(cluster, make_tier):
    tier = make_tier(cluster)  # 30 s
    patience = Patience(5)
    assert tier.stop() == 0
    assert not patience.is_over()


def test_a_drain_of_no_time_is_over_at_once_and_clients_resume(cluster, make_tier, tmp_path):
    top = make_tier(cluster, "--name", "top", "--drain", "0s")
    leaf = make_tier(top.url, "--name", "leaf", "--drain", "0s")
    recorder = follow(leaf, tmp_path / "r")
    recorder.wait_rev({0: cluster.put("/a", "1")}, 10)
    for tier in (top, leaf):
        patience = Patience(5)
        assert tier.stop() == 0
        assert not patience.is_over()
        tier.start()
    leaf.wait_ready()
    last = cluster.put("/a", "2")
    recorder.wait_rev({0: last}, 20)
    recorder.quit()
    judge(recorder, [Spec(0, "prefix", b"", rev="1")], history.read(cluster, last))
    assert follower(top)["listings"] == 0 and follower(leaf)["listings"] == 0


def test_a_tier_below_one_that_drains_follows_to_the_end(cluster, make_tier, tmp_path):
    """It has nobody else to go to: its stream goes on until its time comes, in the second half."""
    stack = Stack(make_tier, cluster, 2, "--drain", "6s")
    recorder = follow(stack.leaf, tmp_path / "r")
    recorder.wait_rev({0: cluster.put("/a", "1")}, 10)
    procs.run(["kill", "-TERM", str(stack.top.pid)])
    time.sleep(1.5)
    assert stack.top.is_running() and not is_ready(stack.top)
    recorder.wait_rev({0: cluster.put("/a", "2")}, 2)
    assert is_ready(stack.leaf)
    assert stack.top.proc.wait(10) == 0
    stack.top.start()
    stack.wait_ready()
    last = cluster.put("/a", "3")
    recorder.wait_rev({0: last}, 20)
    recorder.quit()
    assert stack.listings() == [0, 1]
