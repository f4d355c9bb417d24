"""Large values, long keys, large revisions, long histories."""
import time

import history
from checker import Spec, check_file, parse
from client import Recorder, write
from patience import Patience

MIB = 1 << 20


def judge(recorder, cluster, specs, last, timeout=60):
    """Waits for everything up to `last`, ends the recorder, and holds it against etcd's own history."""
    truth = history.read(cluster, last)
    recorder.wait_rev({s.number: s.expected(truth)[-1].mod for s in specs}, timeout)
    recorder.quit()
    verdict = check_file(recorder.record, specs, truth)
    assert verdict.n_violations == 0, str(verdict)
    return verdict


def batches(recorder, number):
    with open(recorder.record) as f:
        return [r[2] for r in parse(f) if r[0] == "B" and r[1] == number]


def test_events_of_three_mebibytes_arrive_whole(make_cluster, tmp_path, figure):
    cluster = make_cluster(flags=["--max-request-bytes", str(16 * MIB)])
    specs = [Spec(0, "prefix", b"/big/", prev_kv="true"), Spec(1, "prefix", b"/big/", fragment="false"),
             Spec(2, "prefix", b"/big/", rev="1", prev_kv="true", fragment="false")]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    for _ in range(3):
        write(cluster.endpoints, "mode=put", "prefix=/big/", "count=4", f"size={3 * MIB}", "inflight=2")
    last = cluster.delete("/big/", "--prefix")  # with prev_kv: 12 MiB in one revision
    verdict = judge(recorder, cluster, specs, last)
    figure("sizes.three_mebibyte_events_checked", verdict.n_events)


def test_keys_of_one_to_a_hundred_thousand_bytes(cluster, tmp_path):
    keys = [b"k" * n for n in (1, 2, 63, 64, 65, 127, 128, 129, 1000, 16383, 16384, 65535, 65536, 100_000)]
    specs = [Spec(0, "prefix", b"k", prev_kv="true")] + [Spec(i + 1, "key", k) for i, k in enumerate(keys)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    for i, key in enumerate(keys):
        cluster.put(key, f"one {i}")
        cluster.put(key, f"two {i}")
    last = cluster.delete("k", "--prefix")
    judge(recorder, cluster, specs, last)


def test_fragments_inside_a_revision_are_put_together(cluster, tmp_path):
    """340 keys of 100 KiB deleted at once: 33 MiB of previous values are more than is asked for whole, so they are asked for
    again, in pieces; and the watch that allows none gets them whole all the same."""
    specs = [Spec(0, "prefix", b"/f/", prev_kv="true"),
             Spec(1, "prefix", b"/f/", prev_kv="true", unmerged="true"),
             Spec(2, "prefix", b"/f/", prev_kv="true", fragment="false")]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    write(cluster.endpoints, "mode=put", "prefix=/f/", "count=340", f"size={100 * 1024}")
    last = cluster.delete("/f/", "--prefix")
    judge(recorder, cluster, specs, last)
    assert [b.n for b in batches(recorder, 0) if b.rev == last] == [340]
    assert [b.n for b in batches(recorder, 2) if b.rev == last] == [340]
    parts = [b for b in batches(recorder, 1) if b.rev == last]
    assert len(parts) > 1, "the server did not split it: the test has lost its point"
    assert [b.part for b in parts] == [1] * (len(parts) - 1) + [0] and sum(b.n for b in parts) == 340


def test_fragments_of_a_replay_are_put_together(cluster, tmp_path):
    """400 puts of 100 KiB replayed, 39 MiB: the server fills 2 MiB pieces and cuts where it likes."""
    write(cluster.endpoints, "mode=fill", "prefix=/r/", "count=400", f"size={100 * 1024}", "per=12", "inflight=1")
    last = cluster.put("/r/end", "end")
    specs = [Spec(0, "prefix", b"/r/", rev="1"), Spec(1, "prefix", b"/r/", rev="1", unmerged="true"),
             Spec(2, "prefix", b"/r/", rev="1", fragment="false")]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    judge(recorder, cluster, specs, last)


def test_whole_responses_for_paused_watches_are_bounded(cluster, tmp_path, figure):
    """Eight watches that are paused at once, and a replay of 24 MiB under way to each of them."""
    write(cluster.endpoints, "mode=fill", "prefix=/p/", "count=240", f"size={100 * 1024}", "per=12", "inflight=1")
    last = cluster.put("/p/end", "end")
    specs = [Spec(i, "prefix", b"/p/", rev="1") for i in range(8)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    cluster.members[0].stop()
    for spec in specs:
        recorder.open(spec)
        recorder.command(f"pause {spec.number}")
    cluster.members[0].cont()
    most, quiet = 0, Patience(3)
    while not quiet.is_over():
        held = recorder.stats()["held_bytes"]
        quiet = Patience(3) if held > most else quiet
        most = max(most, held)
    figure("sizes.held_for_paused_watches", most / MIB, "MiB, for 8 replays of 24 MiB")
    assert 24 * MIB < most < 110 * MIB, "something was held, and not all of it"
    for spec in specs:
        recorder.command(f"resume {spec.number}")
    judge(recorder, cluster, specs, last)


def test_revision_of_a_hundred_thousand_deletes_is_one_batch(cluster, tmp_path, figure):
    """Nothing is asked for in pieces: etcd 3.5 splits in time that grows with the square, 97 s for the second."""
    n = 100_000
    specs = [Spec(0, "prefix", b"/d/", no_put="true"),
             Spec(1, "prefix", b"/d/", no_put="true", prev_kv="true")]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    write(cluster.endpoints, "mode=fill", "prefix=/d/", f"count={n}", "per=120", "inflight=8", "size=32")
    begin = time.monotonic()
    last = cluster.delete("/d/", "--prefix")
    recorder.wait_rev({0: last, 1: last}, 60)
    figure("sizes.hundred_thousand_deletes", time.monotonic() - begin, "s from the delete to the last of two watches")
    judge(recorder, cluster, specs, last)
    for number in (0, 1):
        assert [b.n for b in batches(recorder, number) if b.rev == last] == [n]


def test_replay_of_fifty_thousand_revisions(cluster, tmp_path, figure, seed):
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=58000", "inflight=64", "size=64")
    cluster.outlast_leases("/w/end")
    last = cluster.put("/w/end", "end")
    assert last > 50_000
    specs = [Spec(0, "prefix", b"", rev="1", prev_kv="true"), Spec(1, "prefix", b"/w/g3/", rev="1"),
             Spec(2, "prefix", b"/w/", rev=str(last - 20_000), first=last - 20_000)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    begin = time.monotonic()
    for spec in specs:
        recorder.open(spec)
    recorder.wait_rev({0: last}, 120)
    figure("sizes.replay_revisions", last)
    figure("sizes.replay", time.monotonic() - begin, "s")
    truth = history.read(cluster, cluster.put("/w/g3/k000", "end"))
    recorder.wait_rev({s.number: s.expected(truth)[-1].mod for s in specs}, 60)
    recorder.quit()
    verdict = check_file(recorder.record, specs, truth)
    assert verdict.n_violations == 0, str(verdict)
