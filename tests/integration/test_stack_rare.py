"""Rare situations in a tree of tiers, which fresh seeds of belfry-sim found first, with real processes."""
import threading
import time

import history
import procs
from checker import Spec
from client import Recorder, write
from ports import free_port
from proxy import Proxy
from stack import Stack, core, total, wait_down
from test_identity import restore
from test_stack import follow, judge

SMALL = ("--log-bytes", "1MiB", "--history-bytes", "1MiB", "--workers", "1")


def compacted_told(tier):
    return total(tier, "core", "compacted")


def twin_of(cluster, make_cluster, snapshot):
    """The cluster as it comes back from a backup, on addresses of its own: the same ids, while the old one is still there."""
    twin = make_cluster(start=False, token=cluster.token)
    member = twin.members[0]
    member.peer_url = cluster.members[0].peer_url
    twin.initial_cluster = cluster.initial_cluster
    twin.flags += ["--listen-peer-urls", f"http://127.0.0.1:{free_port()}"]
    restore(twin, snapshot)
    member.start()
    return twin


def test_a_compaction_of_the_past_that_ended_is_not_believed(cluster, make_cluster, make_tier, tmp_path):
    """The cluster is restored from a backup. One tier has found out, its sibling has not and still tells of a compaction that
    the backup does not have. The tier below lists with the first and reads older history from the second."""
    for i in range(20):
        cluster.put(f"/a/{i}", "before")
    snapshot = tmp_path / "snapshot.db"
    cluster.ctl("snapshot", "save", str(snapshot))
    for i in range(40):
        last = cluster.put(f"/a/{i}", "lost")
    cluster.compact(last - 5)
    twin = twin_of(cluster, make_cluster, snapshot)
    ids = [c.members[0].status()["header"] for c in (cluster, twin)]
    assert ids[0]["cluster_id"] == ids[1]["cluster_id"] and ids[0]["member_id"] == ids[1]["member_id"], "no twins"
    for i in range(5):
        head = twin.put(f"/a/{i}", "another history")
    assert head < last - 5, "the test has lost its point"

    knows, ignorant = make_tier(twin, "--name", "knows"), make_tier(cluster, "--name", "ignorant")
    way = Proxy(knows.endpoint)
    leaf = make_tier(way.url, "--name", "leaf", *SMALL)
    way.lead_to(ignorant.endpoint)  # for the stream that reads history: it is made when it is needed first
    recorder = Recorder(leaf.url, tmp_path / "r")
    spec = Spec(0, "prefix", b"/a/", rev="5", first=5, prev_kv="true")
    accepted = way.n_accepted
    recorder.open(spec)
    procs.wait_until(lambda: way.n_accepted > accepted or compacted_told(leaf), 10, 0.1, "history is asked for")
    for _ in range(10):
        time.sleep(0.3)
        assert recorder.status()[0]["state"] != "ended", f"{recorder.status()[0]}: nothing of its past was compacted"
    way.lead_to(knows.endpoint)  # the sibling has found out, or the link has gone elsewhere
    way.cut()
    recorder.wait_rev({0: twin.put("/a/end", "x")}, 30)
    recorder.quit()
    judge(recorder, [spec], history.read(twin, twin.revision()))
    assert compacted_told(leaf) == 0
    way.close()


def test_watchers_behind_every_window_are_never_told_compacted(cluster, make_tier, tmp_path):
    """Three tiers that hold next to nothing; writes go on while watchers start from everywhere and the way between two
    tiers is slow. etcd has everything, so all of it reaches everybody."""
    stack = Stack(make_tier, cluster, 2, *SMALL)
    way = Proxy(stack.leaf.endpoint)
    leaf = make_tier(way.url, "--name", "t2", *SMALL)
    write(cluster.endpoints, "mode=put", "prefix=/h/", "keys=50", "count=2500", "size=1000")
    procs.wait_until(lambda: leaf.numbers()["replica"]["history_oldest"] > 602, 60, 0.1, "half of it is out of the window")
    way.rate = 4_000_000
    recorders = []
    for i in range(4):
        first = 2 + i * 600
        spec = Spec(0, "prefix", b"", rev=str(first), first=first, prev_kv="true" if i % 2 else "false")
        recorders.append((Recorder(leaf.url, tmp_path / f"r{i}"), spec))
        recorders[-1][0].open(spec)
    write(cluster.endpoints, "mode=put", "prefix=/h/", "keys=50", "count=2500", "size=1000")
    last = cluster.put("/h/last", "x")
    truth = history.read(cluster, last)
    for recorder, spec in recorders:
        recorder.wait_rev({0: last}, 120)
        recorder.quit()
        judge(recorder, [spec], truth)
    for tier in (*stack.tiers, leaf):
        assert compacted_told(tier) == 0, tier.flags[1]
    assert core(leaf)["backfills_done"] > 0, "the test has lost its point"
    way.close()


def test_a_huge_revision_that_left_the_window_reaches_a_slow_reader(cluster, make_tier, tmp_path):
    """One delete of 18,000 keys, more than 16 MiB with what was before, is an extent: it is read from disk once to measure
    the response and once more to write it. Between the two it leaves the tiers' windows, and etcd forgets what was before."""
    keys = 18_000
    stack = Stack(make_tier, cluster, 2, *SMALL)
    write(cluster.endpoints, "mode=put", "prefix=/h/", f"keys={keys}", f"count={keys}", "size=1000", "inflight=64", timeout=180)
    readers = [Recorder(tier.url, tmp_path / f"r{i}") for i, tier in enumerate(stack.tiers * 2)]
    start = cluster.revision() + 1
    for reader in readers:
        reader.open(Spec(0, "prefix", b"/h/", rev=str(start), prev_kv="true"))
        reader.wait_connected(1)
    for reader in readers:
        reader.stop()
    huge = cluster.delete("/h/", "--prefix")
    procs.wait_until(lambda: stack.leaf.numbers()["upstream"]["revision"] >= huge, 60, 0.1, "the leaf has it")
    write(cluster.endpoints, "mode=put", "prefix=/more/", "keys=50", "count=4000", "size=1000")
    mark = cluster.put("/h/mark", "x")
    for tier in stack.tiers:
        procs.wait_until(lambda: tier.numbers()["replica"]["history_oldest"] > huge, 30, 0.1, "out of the window")
    cluster.compact(huge)
    for reader in readers:
        reader.cont()
    for reader in readers:
        reader.wait_rev({0: mark}, 120)
        assert reader.status()[0]["n_events"] == keys + 1, reader.status()
        reader.quit()
    for tier in stack.tiers:
        assert compacted_told(tier) == 0, tier.flags[1]


def test_progress_that_is_asked_for_without_end_is_not_told_by_stale_tiers(cluster, make_tier, tmp_path):
    stack = Stack(make_tier, cluster, 3)
    recorders = [follow(tier, tmp_path / f"r{i}", progress_notify="true") for i, tier in enumerate(stack.tiers)]
    last = cluster.put("/a", "1")
    over = threading.Event()

    def ask(recorder):
        while not over.is_set():
            recorder.command("progress")
            time.sleep(0.02)

    def told():
        return [total(t, "core", "progress") for t in stack.tiers]
    for recorder in recorders:
        recorder.wait_rev({0: last}, 10)
    threads = [threading.Thread(target=ask, args=[recorder]) for recorder in recorders]
    for thread in threads:
        thread.start()
    try:
        procs.wait_until(lambda: min(told()) >= 10, 20, 0.1, lambda: f"progress is told: {told()}")
        cluster.members[0].stop()
        wait_down(stack, 30)
        before = told()
        time.sleep(2.5)
        assert told() == before, "nobody says that nothing is missing"
    finally:
        over.set()
        for thread in threads:
            thread.join()
        cluster.members[0].cont()
    stack.wait_ready()
    for recorder in recorders:
        recorder.wait_rev({0: cluster.put("/a", "2")}, 20)
        recorder.quit()
