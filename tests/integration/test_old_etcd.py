"""etcd 3.4, where the wire is older: no member of it knows what 3.5 added, and its watches have bugs of their own."""
import os
import subprocess
import time

import history
import needs
import pytest
from checker import Spec, check_file
from client import Recorder, Writer, write

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "old-etcd")


@pytest.fixture(scope="module")
def old_etcd():
    done = subprocess.run(["bash", TOOL], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        needs.missing(f"etcd 3.4: {done.stderr.strip()}")
    return done.stdout.strip()


def test_watches_and_follows_hold_through_the_loss_of_a_member(make_cluster, old_etcd, tmp_path, seed, figure):
    cluster = make_cluster(3, binary=old_etcd)
    assert cluster.members[0].status()["version"].startswith("3.4.")
    specs = [Spec(0, "prefix", b"", rev="1", prev_kv="true"), Spec(1, "prefix", b"/k/", rev="1", no_put="true"),
             Spec(2, "key", b"/k/1", rev="1", progress_notify="true"), Spec(3, "prefix", b"/k/", follow=True)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "prefix=/k/", "count=1500", "inflight=4")
    used = recorder.member_in_use(cluster)
    used.kill()
    others = ",".join(m.url for m in cluster.members if m is not used)
    write(others, "mode=mix", f"seed={seed + 1}", "prefix=/k/", "count=1500", "inflight=4")
    other = next(m for m in cluster.members if m is not used)
    cluster.outlast_leases("/k/1", member=other)
    end = cluster.delete("/k/1", member=other)  # the one thing that all of them are given
    recorder.wait_rev({s.number: end for s in specs}, 30)
    last = cluster.put("/end", "end", member=other)
    recorder.wait_rev({0: last}, 30)
    recorder.wait_place({2: last, 3: last}, 30)  # by the periodic progress, which waits its turn behind events
    stats = recorder.stats()
    recorder.quit()
    verdict = check_file(recorder.record, specs, history.read(cluster, last))
    figure("old_etcd.resumes", stats["resumes"])
    assert stats["resumes"] >= len(specs)
    assert verdict.n_violations == 0, str(verdict)


def test_progress_asked_for_under_load_loses_nothing(make_cluster, old_etcd, tmp_path, seed, figure):
    """Before 3.4.25 the answer to a progress request overtakes events that are queued (etcd#15220): whoever believes it
    takes them for old news. So no such server is asked."""
    cluster = make_cluster(1, binary=old_etcd)
    assert cluster.members[0].status()["version"] in {f"3.4.{patch}" for patch in range(25)}
    specs = [Spec(n, "prefix", b"/k/", rev="1") for n in range(8)] + [Spec(8, "prefix", b"/k/", follow=True)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(len(specs))
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "prefix=/k/", "inflight=32", "size=2000")
    end = time.monotonic() + 4
    while time.monotonic() < end:
        recorder.command("progress")
        time.sleep(0.01)
    writer.stop()
    cluster.outlast_leases("/k/1")
    last = cluster.delete("/k/1")
    recorder.wait_rev({s.number: last for s in specs}, 30)
    stats = recorder.stats()
    recorder.quit()
    verdict = check_file(recorder.record, specs, history.read(cluster, last))
    figure("old_etcd.progress_load_events", verdict.n_events)
    assert verdict.n_violations == 0, str(verdict)
    assert stats["stale_events"] == 0
