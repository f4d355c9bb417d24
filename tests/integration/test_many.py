"""Ten thousand watches on one stream: created, and created again after the member in use is killed."""
import time

import procs
from client import Recorder, write

N = 10_000


def seconds_of_etcd(endpoints, record, since):
    """What etcd takes to bring as many watches of a new client from since to its head: the bare limit, on this machine now."""
    recorder = Recorder(endpoints, record)
    begin_us = int(recorder.command(f"many 0 {N} /many/ rev={since + 1}"))
    recorder.command(f"until {since}")
    spent = int(recorder.news(60)[2]) - begin_us
    recorder.quit()
    return spent / 1e6


def test_ten_thousand_watches_survive_the_kill_of_their_member(make_cluster, tmp_path, figure):
    cluster = make_cluster(3)
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.command(f"created {N}")
    begin_us = int(recorder.command(f"many 0 {N} /many/ rev=1"))
    created_s = (int(recorder.news(30)[2]) - begin_us) / 1e6
    used = next(m for m in cluster.members if m.metric("etcd_debugging_mvcc_watcher_total") > 0)
    assert used.metric("etcd_debugging_mvcc_watch_stream_total") == 1
    procs.wait_until(lambda: used.metric("etcd_debugging_mvcc_watcher_total") == N, 10, 0.05, "etcd counts them all")

    recorder.command("until 1")
    write(cluster.endpoints, "mode=fill", f"count={N}", "prefix=/many/", "per=100", "inflight=8", "size=32")
    recorder.news(60)  # each of them has had an event
    cluster.move_leader_off(used)  # an election is etcd's time, not ours

    before = cluster.revision()
    recorder.command(f"until {before}")
    killed_at = time.monotonic()
    used.kill()
    others = ",".join(m.url for m in cluster.members if m is not used)
    write(others, "mode=fill", f"count={N}", "prefix=/many/", "per=100", "inflight=8", "size=32")
    written_s = time.monotonic() - killed_at
    resumed_s = int(recorder.news(60)[2]) / 1e6 - killed_at
    stats = recorder.stats()
    now = recorder.member_in_use(cluster)
    figure("many.watches", N)
    figure("many.created", created_s, "s")
    figure("many.resumed_after_kill", resumed_s, f"s, the writing {written_s:.1f} s of them")
    figure("many.resumes", stats["resumes"])
    figure("many.rss", procs.rss_bytes(recorder.pid) / 2**20, "MiB")
    assert now is not used and len(procs.connections(recorder.pid)) <= 2, "one for watches, one for calls"
    assert now.metric("etcd_debugging_mvcc_watch_stream_total") == 1
    assert stats["resumes"] >= N
    status = recorder.status()
    assert all(w["state"] == "open" and w["n_events"] == 2 for w in status.values()), "an event lost or doubled"
    recorder.quit()
    bare_s = seconds_of_etcd(others, tmp_path / "bare", before)
    figure("many.bare", bare_s, "s for a new client, of etcd's own time")
    assert created_s < bare_s
    assert resumed_s < written_s + 2 * bare_s + 1, "a watch that resumes costs what a new one costs"
