"""History that is gone: a watch ends with the right word and revision, a follow goes on, siblings do not notice."""
import zlib

import history
import procs
from checker import Spec, check_file, parse
from client import Recorder, write
from history import key_id
from ports import free_port

COMPACTED = "BELFRY_ERR_COMPACTED"


def ends(recorder):
    """watch -> (error, compact revision, sentence)"""
    with open(recorder.record) as f:
        return {r[1]: (r[2][1], int(r[2][2]), " ".join(r[2][4:])) for r in parse(f) if r[0] == "X"}


def replayed_state(recorder, number):
    """What a program that applies all that a follow gives would hold: key id -> (len, crc, mod)."""
    state, n_synced, n_listed_deletes = {}, 0, 0
    with open(recorder.record) as f:
        for r in parse(f):
            if r[0] != "B" or r[1] != number:
                continue
            for e in r[3]:
                if e.op == "P":
                    state[e.key] = (e.len, e.crc, e.mod)
                else:
                    n_listed_deletes += r[2].kind == "S"
                    assert state.pop(e.key, None) is not None, f"delete of {e.key}, which was not there"
            n_synced += r[2].kind == "Y"
    return state, n_synced, n_listed_deletes


def etcd_state(cluster, prefix):
    return {key_id(k): (len(v), zlib.crc32(v), mod) for k, (v, mod) in cluster.state(prefix).items()}


def test_compaction_under_a_lagging_watch_ends_it_alone(cluster, tmp_path):
    specs = [Spec(0, "prefix", b"/w/", pause_bytes="64KiB", may_end=COMPACTED), Spec(1, "prefix", b"/w/"),
             Spec(2, "prefix", b"/w/", prev_kv="true")]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(3)
    recorder.command("pause 0")
    cluster.put("/w/first", "1")
    recorder.wait_state(0, "paused", 10)
    write(cluster.endpoints, "mode=put", "prefix=/w/", "count=2000", "size=1000")
    procs.wait_until(lambda: recorder.stats()["parked"] >= 1, 10, message="the paused watch let go of its place")
    before = cluster.revision()
    recorder.wait_rev({1: before, 2: before}, 20)
    truth = history.read(cluster, before)
    compact_rev = before - 10
    cluster.compact(compact_rev)
    recorder.command("resume 0")
    recorder.wait_state(0, "ended", 20)
    last = cluster.put("/w/end", "end")
    recorder.wait_rev({1: last, 2: last}, 20)
    stats = recorder.stats()
    recorder.quit()
    err, rev, why = ends(recorder)[0]
    assert (err, rev) == (COMPACTED, compact_rev) and why
    assert stats["losses"] == 0, "the siblings' connection was lost"
    truth.feed("P", b"/w/end", b"end", last, last, 1, 0)
    verdict = check_file(recorder.record, specs, truth)
    assert verdict.n_violations == 0, str(verdict)


def test_watch_from_a_compacted_revision_ends_at_once(cluster, tmp_path):
    for i in range(20):
        cluster.put("/a", str(i))
    cluster.compact(15)
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.open(Spec(0, "key", b"/a", rev="3"))
    recorder.open(Spec(1, "key", b"/a", rev="15"))
    recorder.wait_state(0, "ended", 10)
    recorder.wait_rev({1: 21}, 10)
    recorder.quit()
    assert ends(recorder)[0][:2] == (COMPACTED, 15)
    with open(recorder.record) as f:
        got = [e.mod for r in parse(f) if r[0] == "B" and r[1] == 1 for e in r[3]]
    assert got == list(range(15, 22)), "the compacted revision itself can still be had"


def compact_out_of_sight(cluster, n_writes=500):
    """Kills the member, and brings it back at its port only after writes, deletes and a compaction elsewhere."""
    m = cluster.members[0]
    port = m.client_port
    m.kill()
    m.restart(client_port=free_port())
    write(cluster.endpoints, "mode=put", "prefix=/s/new/", f"count={n_writes}", "size=100")
    cluster.delete("/s/old/", "--prefix")
    cluster.put("/s/keep", "changed")
    rev = cluster.revision()
    cluster.compact(rev)
    m.kill()
    m.restart(client_port=port)
    return rev


def test_compaction_while_disconnected(cluster, tmp_path):
    for i in range(50):
        cluster.put(f"/s/old/{i}", "x")
    cluster.put("/s/keep", "first")
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.open(Spec(0, "prefix", b"/s/"))
    recorder.open(Spec(1, "prefix", b"/s/", follow=True))
    recorder.open(Spec(2, "prefix", b"/s/", follow=True, page_bytes="1KiB"))
    recorder.wait_connected(3)
    base = cluster.put("/s/base", "base")
    recorder.wait_rev({0: base, 1: base, 2: base}, 10)

    compact_rev = compact_out_of_sight(cluster)
    recorder.wait_state(0, "ended", 30)
    last = cluster.put("/s/end", "end")
    recorder.wait_rev({1: last, 2: last}, 30)
    stats = recorder.stats()
    recorder.quit()
    assert ends(recorder)[0][:2] == (COMPACTED, compact_rev)
    assert stats["lists"] >= 4, "each follow listed at its start and after the loss"
    for number in (1, 2):
        state, n_synced, n_deletes = replayed_state(recorder, number)
        assert state == etcd_state(cluster, "/s/")
        assert n_synced == 2 and n_deletes == 50


def test_follow_gives_state_then_changes(cluster, tmp_path, seed):
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=2000", "size=400")
    specs = [Spec(0, "prefix", b"/w/", follow=True), Spec(1, "prefix", b"/w/g1/", follow=True, page_bytes="2KiB"),
             Spec(2, "key", b"/w/g0/k001", follow=True), Spec(3, "prefix", b"/nothing/", follow=True)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    write(cluster.endpoints, "mode=mix", f"seed={seed + 1}", "count=3000", "size=400")
    cluster.outlast_leases("/w/g1/end")
    cluster.put("/w/g0/k001", "end")
    last = cluster.put("/w/g1/end", "end")
    truth = history.read(cluster, last)
    recorder.wait_rev({s.number: s.expected(truth)[-1].mod for s in specs[:3]}, 30)
    recorder.quit()
    verdict = check_file(recorder.record, specs, truth)
    assert verdict.n_violations == 0, str(verdict)


def test_follow_once_ends_when_synced(cluster, tmp_path):
    cluster.put("/s/a", "1")
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.open(Spec(0, "prefix", b"/s/", follow=True, once="true"))
    recorder.wait_state(0, "ended", 10)
    recorder.quit()
    assert ends(recorder)[0][0] == "BELFRY_OK"
    assert replayed_state(recorder, 0)[0] == etcd_state(cluster, "/s/")
