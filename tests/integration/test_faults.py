"""Sixteen watches on one session, writers, and faults: nothing lost, doubled, reordered or split."""
import time

import history
import procs
from checker import Spec, check_file
from client import Recorder, Writer
from faults import Faults

SPECS = [
    Spec(0, "prefix", b"", prev_kv="true"),
    Spec(1, "from", b"", fragment="false"),
    Spec(2, "prefix", b"/w/", progress_notify="true"),
    Spec(3, "prefix", b"/w/", no_put="true"),
    Spec(4, "prefix", b"/w/", no_delete="true", prev_kv="true"),
    Spec(5, "prefix", b"/w/g0/", prev_kv="true", progress_notify="true"),
    Spec(6, "prefix", b"/w/g1/", unmerged="true"),
    Spec(7, "prefix", b"/w/g2/", rev="1"),
    Spec(8, "prefix", b"/w/g3/", no_delete="true", fragment="false"),
    Spec(9, "interval", b"/w/g4/", b"/w/g6/", prev_kv="true"),
    Spec(10, "key", b"/w/g0/k000", prev_kv="true", progress_notify="true"),
    Spec(11, "key", b"/w/g1/k001"),
    Spec(12, "key", b"/w/g2/k002", no_put="true"),
    Spec(13, "key", b"/w/g7/k059", no_delete="true"),
    Spec(14, "from", b"/w/g6/", progress_notify="true"),
    Spec(15, "prefix", b"/w/g7/k0", prev_kv="true", pause_bytes="64KiB"),
]
# Each spec has one of these in its range: the last things that are written, so that nobody may stop early.
LAST_KEYS = ["/w/g0/k000", "/w/g1/k001", "/w/g2/k002", "/w/g3/k003", "/w/g4/k004", "/w/g5/k005", "/w/g6/k006",
             "/w/g7/k059"]

SHORT = ["kill", "slow_consumer", "lagging", "stop_long", "partition"]
FULL = (["kill"] * 5 + ["stop_short"] * 5 + ["stop_long"] * 5 + ["leader_loss"] * 3 + ["no_leader"] * 2
        + ["partition"] * 3 + ["black_hole"] * 2 + ["lagging"] * 4 + ["slow_consumer"] * 3 + ["all_killed"] * 2
        + ["client_stopped"] * 2)


def wait_caught_up(cluster, recorder, timeout=60):
    """After each fault: what is written now arrives. Returns how long that took."""
    begin = time.monotonic()
    rev = cluster.put("/w/mark", str(begin))
    recorder.wait_rev({0: rev, 2: rev}, timeout)
    return time.monotonic() - begin


def put_retry(cluster, key):
    cluster.ctl_retry("put", key, "last")


def write_the_last(cluster):
    """Leases run out first, so that nothing happens after the last write."""
    cluster.outlast_leases("/w/mark")
    for key in LAST_KEYS:
        put_retry(cluster, key)
    for key in LAST_KEYS:
        cluster.ctl_retry("del", key)
    put_retry(cluster, "/w/end")
    return cluster.revision()


def test_sixteen_watches_through_faults(make_net, make_cluster, tmp_path, figure, rng, seed, soak):
    net = make_net(3)
    cluster = make_cluster(3, net=net)
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ns=cluster.ns)
    for spec in SPECS:
        recorder.open(spec)
    recorder.wait_connected(len(SPECS))

    writers = [Writer(cluster.endpoints, "mode=mix", f"seed={seed + i}", "rate=150", "size=1500", ns=cluster.ns)
               for i in range(2)]
    plan = list(FULL if soak else SHORT)
    rng.shuffle(plan)
    faults = Faults(cluster, recorder, rng, 40 if soak else 18)
    slowest = 0.0
    for kind in plan:
        time.sleep(rng.uniform(0.5, 2))
        print(f"fault: {kind}", flush=True)
        recorder.command("progress")  # its answer comes from wherever the fault has driven the client
        faults.do(kind)
        recorder.command("progress")
        slowest = max(slowest, wait_caught_up(cluster, recorder))
    wanted = 100_000 if soak else 6_000
    procs.wait_until(lambda: cluster.revision() >= wanted, 900, 0.5, f"{wanted} revisions")
    written = [w.stop() for w in writers]

    last = write_the_last(cluster)
    truth = history.read(cluster, last)
    needed = {}
    for spec in SPECS:
        needed[spec.number] = spec.expected(truth)[-1].mod
    recorder.wait_rev(needed, 60)
    stats = recorder.stats()
    recorder.quit()
    verdict = check_file(recorder.record, SPECS, truth)

    for kind, n in sorted(faults.counts.items()):
        figure(f"faults.{kind}", n)
    figure("faults.total", sum(faults.counts.values()))
    figure("faults.landed_on_lagging_member", faults.n_lagging_landed)
    figure("faults.slowest_catch_up", slowest, "s")
    figure("faults.revisions", last)
    figure("faults.writes", sum(w["writes"] for w in written))
    figure("faults.writes_failed", sum(w["failed"] for w in written))
    figure("faults.connects", stats["connects"])
    figure("faults.resumes", stats["resumes"])
    figure("faults.parked", stats["parked"])
    figure("faults.events_checked", verdict.n_events)
    figure("faults.progress_checked", verdict.n_progress)
    figure("faults.violations", verdict.n_violations)
    assert verdict.n_violations == 0, str(verdict)
    assert verdict.n_events > last and verdict.n_progress > len(SPECS)
    assert stats["resumes"] >= len(SPECS)
    assert last >= wanted
