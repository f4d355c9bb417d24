"""The eight bugs of watches that etcd's own robustness tests have found in etcd, each through belfryd: a tier that has an
etcd above it which may have them, and has a log, a history and a replay of its own in which to make them again.

    #15220  progress that was asked for overtakes events
    #15271  a watch goes back in time when a member was cut off, and restores a snapshot of its leader
    #17247  an event of a transaction comes twice
    #17529  a watch that is slow skips what was compacted, and goes on as if whole
    #18089  a delete is missing when its own revision is compacted
    #19179  a delete is missing when a watch opens at its revision while that is compacted
    #20221  a watch of a revision in the future is given what is older (twice: events, and progress)

Each with clients of libbelfry and of clientv3 side by side."""
import shutil
import threading
import time

import procs
import pytest
from checker import Spec, parse
from client import CLIENTV3, LIBBELFRY, Recorder, Writer, write
from fleet import TierSpec, Truth, check_record

SMALL = ("--log-bytes", "1MiB", "--history-bytes", "1MiB", "--progress-interval", "100ms")


def connect(tier, folder, name="record"):
    """A recorder of each kind."""
    return [Recorder(tier.url if client == LIBBELFRY else tier.endpoint, folder / f"{name}.{client}", ns=tier.ns, client=client)
            for client in (LIBBELFRY, CLIENTV3)]


def open_all(recorders, *specs):
    for recorder in recorders:
        for spec in specs:
            recorder.open(spec)


def ask_progress(recorders, times=1):
    for _ in range(times):
        for recorder in recorders:
            recorder.command("progress")


def batches(recorder, number=0):
    """(kind, revision, [(op, key)]) of all that the watch was given; the recorder has quit."""
    with open(recorder.record) as f:
        return [(r[2].kind, r[2].rev, [(e.op, bytes.fromhex(e.key)) for e in r[3]])
                for r in parse(f) if r[0] == "B" and r[1] == number]


def history_of(cluster, last):
    truth = Truth()
    truth.extend(cluster, last)
    assert truth.last_rev() == last
    return truth


def judge(recorders, specs, truth, compactions=frozenset({0})):
    """Waits until each watch has its last event, and returns (events, progress) of all."""
    ends = {s.number: events[-1].mod for s in specs if (events := s.expected(truth))}
    n_events = n_progress = 0
    for recorder in recorders:
        now = recorder.status()
        recorder.wait_rev({n: rev for n, rev in ends.items() if now[n]["state"] != "ended"}, 30)
        recorder.quit()
        verdict, _ = check_record(recorder.record, specs, truth, compactions)
        assert verdict.n_violations == 0, f"{recorder.record}: {verdict}"
        n_events, n_progress = n_events + verdict.n_events, n_progress + verdict.n_progress
    return n_events, n_progress


# ---- #15220

def test_15220_progress_that_was_asked_for_does_not_overtake_events(cluster, make_tier, tmp_path, figure):
    """Asked for again and again while events come live, while others replay the past, and with the stream full."""
    tier = make_tier(cluster, *SMALL)
    first = cluster.put("/w/first", "1")
    since = {"first": first, "rev": str(first)}
    recorders = connect(tier, tmp_path)
    specs = [TierSpec(0, "prefix", b"", **since), TierSpec(1, "prefix", b"/nothing/", progress_notify="true", **since)]
    open_all(recorders, *specs)
    writer = Writer(cluster.endpoints, "mode=mix", "rate=800", "size=2000")
    for number in range(2, 20):
        specs.append(TierSpec(number, "prefix", b"/w/g%d/" % (number % 8), **since))
        open_all(recorders, specs[-1])
        ask_progress(recorders, 10)
        time.sleep(0.1)
    for recorder in recorders:
        recorder.stop()  # its window fills, and the answer to what was asked before waits behind events
    time.sleep(1)
    for recorder in recorders:
        recorder.cont()
    ask_progress(recorders, 50)
    writer.stop()
    cluster.outlast_leases("/w/mark")
    _, n_progress = judge(recorders, specs, history_of(cluster, cluster.put("/w/last", "x")))
    figure("watch_bugs.15220.progress_checked", n_progress)
    assert n_progress > 50, "nobody was given progress: this tests nothing"


# ---- #15271 and #20221: a member that restores a snapshot of its leader

class Starved:
    """Three members that keep few entries; a tier on the first of them alone."""

    def __init__(self, make_net, make_cluster, make_tier):
        self.net = make_net(3)
        self.cluster = make_cluster(3, net=self.net, flags=["--snapshot-count", "20", "--log-level", "info",
                                                            "--experimental-snapshot-catchup-entries", "20"])
        self.member = self.cluster.members[0]
        self.cluster.move_leader_off(self.member)
        self.first = self.cluster.put("/w/first", "1")
        self.tier = make_tier(self.member.url, *SMALL, ns=self.cluster.ns)

    def n_restored(self):
        """How many snapshots of its leader the member has applied."""
        with open(self.member.log_path) as f:
            return f.read().count('"msg":"applied snapshot"')

    def starve(self, n):
        """The member is away from the others while they write n times. They are started again meanwhile, or what they write
        would wait in their connections to it: so they can only send it a snapshot."""
        before = self.n_restored()
        others = self.cluster.members[1:]
        self.net.cut(self.member.index, "p")
        for m in others:
            m.kill()
        for m in others:
            m.restart(wait=False)
        for m in others:
            m.wait_healthy()
        write(",".join(m.url for m in others), "mode=put", "prefix=/w/away/", f"count={n}", "size=20", "inflight=1",
              ns=self.cluster.ns)
        head = self.cluster.revision(member=others[0])
        self.net.heal(self.member.index, "p")
        procs.wait_until(lambda: self.cluster.revision(member=self.member) >= head, 30, 0.2, "the member is back")
        assert self.n_restored() > before, "it caught up without a snapshot: this tests nothing"


@pytest.fixture
def starved(make_net, make_cluster, make_tier):
    return Starved(make_net, make_cluster, make_tier)


def test_15271_watch_does_not_go_back_in_time_after_a_snapshot_of_the_leader(starved, tmp_path):
    cluster = starved.cluster
    since = {"first": starved.first, "rev": str(starved.first), "prev_kv": "true"}
    specs = [TierSpec(0, "prefix", b"", **since), TierSpec(1, "prefix", b"/w/away/", progress_notify="true", **since)]
    recorders = connect(starved.tier, tmp_path)
    open_all(recorders, *specs)
    starved.starve(150)
    mark = cluster.put("/w/mark", "back")
    for recorder in recorders:
        recorder.wait_rev({0: mark}, 40)
    ask_progress(recorders)
    n_events, _ = judge(recorders, specs, history_of(cluster, cluster.put("/w/away/last", "x")))
    assert n_events > 2 * 2 * 150


# ---- #17247

def test_17247_no_event_of_a_transaction_comes_twice(cluster, make_tier, tmp_path):
    """Transactions that put, delete and read, take their other branch, change nothing, and repeat one another; live, and
    read again from upstream, the history and the log."""
    tier = make_tier(cluster, *SMALL)
    first = cluster.put("/t/a", "0")
    recorders = connect(tier, tmp_path)
    specs = [TierSpec(0, "prefix", b"/t/", first=first, rev=str(first), prev_kv="true")]
    open_all(recorders, *specs)
    for i in range(20):
        failed = f'mod("/t/a") = "0"\n\nput /t/never 1\n\nput /t/b {i}\nget /t/a\ndel /t/c\n\n'
        mixed = f"\nput /t/c {i}\ndel /t/b\nput /t/a {i}\nget --prefix /t/\n\n\n"
        empty = "\nget /t/a\ndel /t/nobody\n\n\n"
        for text in (failed, mixed, empty, failed, mixed):
            cluster.ctl("txn", input=text.encode())
        if i == 9:  # what was before is out of the log and the history
            write(cluster.endpoints, "mode=put", "prefix=/fill/", "count=400", "size=10000")
    last = cluster.put("/t/last", "x")
    for number, rev in ((1, first), (2, (first + last) // 2), (3, last - 1)):
        specs.append(TierSpec(number, "prefix", b"/t/", first=rev, rev=str(rev)))
        open_all(recorders, specs[-1])
    n_events, _ = judge(recorders, specs, history_of(cluster, last))
    assert n_events > 500


# ---- #17529

def test_17529_a_slow_watch_is_told_of_what_was_compacted_and_never_skips_it(cluster, make_tier, tmp_path, figure):
    """It hangs while much more is written than the tier keeps, and etcd compacts that: what it is given when it reads again
    is whole up to where it ends, and it is told. Its neighbours, who read, are not."""
    tier = make_tier(cluster, *SMALL)
    first = cluster.put("/s/first", "1")
    slow, quick = connect(tier, tmp_path, "slow"), connect(tier, tmp_path, "quick")
    spec = TierSpec(0, "prefix", b"/s/", first=first, rev=str(first))
    open_all(slow + quick, spec)
    for recorder in slow + quick:
        recorder.wait_rev({0: first}, 10)
    for recorder in slow:
        recorder.stop()
    # more than the 64 MiB of backfills that a tier keeps for the next who needs them: quick ones may have fallen behind, too
    write(cluster.endpoints, "mode=put", "prefix=/s/", "count=2500", "size=40000", "inflight=16")
    truth = history_of(cluster, cluster.revision())
    compacted = truth.last_rev() - 5
    for recorder in quick:
        recorder.wait_rev({0: truth.last_rev()}, 30)
    cluster.compact(compacted)
    again = spec.from_rev(1, compacted)
    for recorder in slow:
        recorder.cont()
        recorder.wait_state(0, "ended", 60)
        recorder.open(again)
    truth.extend(cluster, cluster.put("/s/last", "x"))
    judge(slow, [spec, again], truth, {0, compacted})
    judge(quick, [spec], truth, {0, compacted})
    for recorder in slow:
        given = sum(len(events) for _, _, events in batches(recorder))
        figure(f"watch_bugs.17529.given_before_it_was_told.{recorder.record.rsplit('.')[-1]}", given, "events")
        assert 1 <= given < 2500, "it has never been behind: this tests nothing"


# ---- #18089 and #19179

def test_18089_a_delete_whose_own_revision_is_compacted_is_still_given(cluster, make_tier, tmp_path):
    """By a tier that was there and was started again, and by one that has only what etcd still has."""
    there = make_tier(cluster)
    cluster.put("/d/a", "1")
    deleted = cluster.delete("/d/a")
    procs.wait_until(lambda: there.numbers()["upstream"]["committed"] >= deleted, 10, 0.05, "the tier has it")
    cluster.compact(deleted)
    after = cluster.put("/d/b", "2")
    there.kill()
    there.start()
    for tier, name in ((there, "there"), (make_tier(cluster), "cold")):
        recorders = connect(tier, tmp_path, name)
        open_all(recorders, Spec(0, "prefix", b"/d/", rev=str(deleted)))
        for recorder in recorders:
            recorder.wait_rev({0: after}, 10)
            recorder.quit()
            changes = [b for b in batches(recorder) if b[0] == "C"]
            assert changes == [("C", deleted, [("D", b"/d/a")]), ("C", after, [("P", b"/d/b")])], (recorder.record, changes)


def test_19179_a_watch_opened_at_a_delete_while_that_is_compacted_is_given_it(cluster, tier, tmp_path):
    recorders = connect(tier, tmp_path)
    deletes = []
    for number in range(25):
        cluster.put("/d/a", str(number))
        deletes.append(cluster.delete("/d/a"))
        compaction = threading.Thread(target=cluster.compact, args=(deletes[-1],))
        compaction.start()
        open_all(recorders, Spec(number, "key", b"/d/a", rev=str(deletes[-1])))
        compaction.join()
    for recorder in recorders:
        recorder.wait_rev(dict(enumerate(deletes)), 10)
        recorder.quit()
        for number, deleted in enumerate(deletes):
            changes = [b for b in batches(recorder, number) if b[0] == "C"]
            assert changes[0] == ("C", deleted, [("D", b"/d/a")]), (recorder.record, number, deleted, changes[:2])


# ---- #20221, twice

def watch_the_future(starved, folder, ahead):
    """(recorders, the revision at which their watch begins, `ahead` from now)."""
    future = starved.cluster.revision() + ahead
    recorders = connect(starved.tier, folder)
    open_all(recorders, TierSpec(0, "prefix", b"", first=future, rev=str(future), progress_notify="true"))
    return recorders, future


def disturb(starved, recorders):
    """Writes below that revision, while everything is restored: the member by its leader, the tier by a cold start."""
    for i in range(5):
        starved.cluster.put("/w/below", str(i))
        ask_progress(recorders)
    starved.starve(100)
    ask_progress(recorders)
    starved.tier.kill()
    shutil.rmtree(starved.tier.cache)
    starved.tier.start()
    for i in range(5):
        starved.cluster.put("/w/below", str(i))
        time.sleep(0.15)  # the tier's own interval of progress


def test_20221_a_watch_of_the_future_is_given_no_older_events(starved, tmp_path):
    recorders, future = watch_the_future(starved, tmp_path, 150)
    disturb(starved, recorders)
    now = starved.cluster.revision()
    assert now < future, "the future came too early: this tests nothing"
    write(starved.cluster.endpoints, "mode=one", "prefix=/w/then", f"count={future - now + 20}", "inflight=1",
          ns=starved.cluster.ns)
    last = starved.cluster.put("/w/last", "x")
    n_events, _ = judge(recorders, [TierSpec(0, "prefix", b"", first=future, progress_notify="true")],
                        history_of(starved.cluster, last))
    assert n_events == 2 * (last - future + 1)


def test_20221_a_watch_of_the_future_is_given_no_progress_before_it(starved, tmp_path):
    recorders, future = watch_the_future(starved, tmp_path, 10_000)
    disturb(starved, recorders)
    for _ in range(10):
        ask_progress(recorders)
        time.sleep(0.1)
    assert starved.cluster.revision() < future
    for recorder in recorders:
        assert recorder.status()[0]["state"] == "open"
        recorder.quit()
        assert batches(recorder) == [], f"{recorder.record}: told of what is before {future}"
