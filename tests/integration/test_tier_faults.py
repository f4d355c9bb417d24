"""One belfryd between three etcd members and many watchers, and faults of all of them: no event lost, doubled,
reordered or split, and nobody told of a compaction that did not concern him."""
import time
import zlib

import history
import procs
import pytest
from checker import Spec, check_file
from client import CLIENTV3, LIBBELFRY, Recorder, Writer
from fleet import Fleet, TierSpec, Truth, check_record, check_records, write_the_last
from tier_faults import TierFaults

SHORT = ["member_kill", "client_stall", "tier_kill", "partition", "tier_stop", "compact_near",
         "tier_killed_over_compaction"]
# Those of which the order is drawn; the compactions have their places, since each needs revisions before it.
FULL = (["member_kill"] * 3 + ["leader_kill"] + ["member_stop"] * 3 + ["member_stop_long"] * 2 + ["tier_kill"] * 4
        + ["tier_stop"] * 3 + ["tier_stop_long"] * 2 + ["partition"] * 3 + ["black_hole"] * 2 + ["client_stall"] * 2)
FULL_PLACES = {10: "compact_far", 16: "compact_near", 20: "client_stall_over_compaction",
               24: "tier_killed_over_compaction", 29: "compact_far"}


def draw_plan(rng, soak):
    if not soak:
        plan = SHORT[:-2]
        rng.shuffle(plan)
        return plan + SHORT[-2:]
    plan = list(FULL)
    rng.shuffle(plan)
    for place, kind in FULL_PLACES.items():
        plan.insert(place, kind)
    return plan


def test_many_watchers_through_faults(make_net, make_cluster, make_tier, tmp_path, figure, rng, seed, soak):
    net = make_net(3)
    cluster = make_cluster(3, net=net)
    tier = make_tier(cluster, "--log-bytes", "1MiB", "--history-bytes", "4MiB" if soak else "2MiB",
                     "--progress-interval", "1s")
    n_c, n_go, per = (8, 2, 100) if soak else (4, 1, 20)
    fleet = Fleet(tmp_path, [(tier, LIBBELFRY)] * n_c + [(tier, CLIENTV3)] * n_go, per, tier.ns)
    truth = Truth()
    faults = TierFaults(cluster, tier, fleet, truth, rng, *((40, 60) if soak else (18, 8)))
    writers = [Writer(cluster.endpoints, "mode=mix", f"seed={seed + i}", f"rate={200 if soak else 150}", "size=1500",
                      ns=cluster.ns) for i in range(2)]
    slowest = 0.0
    for i, kind in enumerate(draw_plan(rng, soak)):
        time.sleep(rng.uniform(0.5, 2))
        begin = time.monotonic()
        print(f"fault {i}: {kind}", flush=True)
        faults.do(kind)
        done = time.monotonic()
        caught_up = faults.catch_up()
        slowest = max(slowest, caught_up)
        if not soak or i % 3 == 0:
            faults.newcomers(i)
        print(f"  lasted {done - begin:.1f} s, caught up in {caught_up:.1f} s, revision {truth.last_rev()} read, "
              f"opened again {faults.n_reopened}, paths {dict(faults.paths)}", flush=True)
    wanted = 100_000 if soak else 6_000
    procs.wait_until(lambda: cluster.revision() >= wanted, 900, 0.5, f"{wanted} revisions")
    written = [w.stop() for w in writers]

    last = write_the_last(cluster)
    truth.extend(cluster, last)
    assert truth.last_rev() == last, "not at rest"

    faults.wait(lambda w: w.ends(truth), 120)
    faults.tally.read()
    fleet.quit()
    verdicts = check_records(fleet.jobs(truth, faults.compactions))

    sums = faults.tally.sums
    for kind, n in sorted(faults.counts.items()):
        figure(f"tier_faults.{kind}", n)
    figure("tier_faults.total", sum(faults.counts.values()))
    figure("tier_faults.watchers", sum(len(w.current) for w in fleet.all))
    figure("tier_faults.revisions", last)
    figure("tier_faults.writes", sum(w["writes"] for w in written))
    figure("tier_faults.writes_failed", sum(w["failed"] for w in written))
    figure("tier_faults.slowest_catch_up", slowest, "s")
    figure("tier_faults.parked_at_once", faults.max_parked, "streams")
    for name in sorted(sums):
        figure(f"tier_faults.{name}", sums[name])
    for path, n in sorted(faults.paths.items()):
        figure(f"tier_faults.newcomers_from_{path}", n)
    figure("tier_faults.told_compacted", sum(n for _, _, n in verdicts))
    figure("tier_faults.events_checked", sum(v.n_events for _, v, _ in verdicts))
    figure("tier_faults.progress_checked", sum(v.n_progress for _, v, _ in verdicts))
    figure("tier_faults.violations", sum(v.n_violations for _, v, _ in verdicts))
    bad = [f"{record}: {v}" for record, v, _ in verdicts if v.n_violations]
    assert not bad, "\n".join(bad)
    assert last >= wanted
    assert sums["parks"] > 0 and sums["unparks"] > 0
    for path in ("log", "history", "upstream"):
        assert faults.paths[path] > 0, f"nobody was served from {path}: {faults.paths}"
    assert sums["breaches"] == 0 and sums["relists_rewritten"] == 0 and sums["io_errors"] == 0


def test_watcher_below_the_window_catches_up_while_writes_go_on(cluster, make_tier, tmp_path, figure, seed):
    """The window's oldest revision moves on as fast as etcd is written to: what is read from upstream up to there is
    below it again when it arrives. Who starts below must get ahead of that, not follow it for ever."""
    tier = make_tier(cluster, "--log-bytes", "1MiB", "--history-bytes", "4MiB")
    writers = [Writer(cluster.endpoints, "mode=mix", f"seed={seed + i}", "rate=200", "size=1500") for i in range(2)]
    procs.wait_until(lambda: tier.numbers()["replica"]["history_oldest"] > 1000, 60, 0.2, "a window that moves")
    recorder = Recorder(tier.url, tmp_path / "record")
    begin = time.monotonic()
    recorder.open(Spec(0, "prefix", b"", rev="1", prev_kv="true"))

    def lag():
        return tier.numbers()["upstream"]["revision"] - recorder.status()[0]["rev"]
    procs.wait_until(lambda: lag() < 50, 20, 0.2,
                     lambda: f"caught up; still {lag()} behind, {tier.numbers()['upstream']}")
    figure("tier.catch_up_from_below_the_window", time.monotonic() - begin, "s")
    for w in writers:
        w.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/end", "end")
    recorder.wait_rev({0: last}, 20)
    numbers = tier.numbers()
    recorder.quit()
    truth = history.read(cluster, last)
    verdict = check_file(recorder.record, [Spec(0, "prefix", b"", rev="1", prev_kv="true")], truth)
    assert verdict.n_violations == 0, str(verdict)
    # Each is one watch from there on upstream, which reads much more than it gives: a few are enough.
    figure("tier.backfills_from_below_the_window", numbers["upstream"]["backfills_done"])


def said(events, end=None):
    """A record: of each (revision, with its previous value?) a batch, and the end if there was one."""
    lines = ["O 0 1"]
    for rev, prev in events:
        before = f"1,{CRC[rev - 1]},2,{rev - 1},{rev - 2},0" if prev else "-"
        lines += [f"B 0 C {rev} 1 0 1 {rev} {rev} 7 8", f"E P 61 1 {CRC[rev]} 2 {rev} {rev - 1} 0 {before} -"]
    return "\n".join(lines + ([f"X 0 99 {end}"] if end else [])) + "\n"


CRC = {rev: zlib.crc32(b"%d" % (rev % 10)) for rev in range(2, 12)}  # key "a" at revisions 2 to 11
UP_TO_5 = [(rev, rev > 2) for rev in range(2, 6)]
TOLD_8 = "BELFRY_ERR_COMPACTED 8 5 compacted"


@pytest.mark.parametrize("events, end, blamed", [
    (UP_TO_5, TOLD_8, {}),
    (UP_TO_5 + [(6, True)], TOLD_8, {}),
    (UP_TO_5 + [(6, True), (7, True)], TOLD_8, {"end": 1}),                # revision 8 itself can still be had
    (UP_TO_5, "BELFRY_ERR_COMPACTED 7 5 compacted", {}),                   # a tier that lags tells its own next one
    (UP_TO_5, "BELFRY_ERR_COMPACTED 9 5 compacted", {"end": 1}),           # there was no such compaction
    (UP_TO_5, "BELFRY_ERR_REFUSED 0 5 no", {"end": 1}),
    (UP_TO_5, None, {"alive": 1}),
    (UP_TO_5[:-1], TOLD_8, {}),
    (UP_TO_5[:2] + UP_TO_5[3:], TOLD_8, {"reliable": 1}),
    ([(rev, 2 < rev != 8) for rev in range(2, 12)], None, {}),             # what was before 8 is gone at 8
    ([(rev, 2 < rev != 9) for rev in range(2, 12)], None, {"prev_kv": 1}),
])
def test_who_is_told_of_a_compaction_is_judged(tmp_path, events, end, blamed):
    truth = Truth()
    for rev in range(2, 12):
        truth.feed("P", b"a", b"%d" % (rev % 10), 2, rev, rev - 1, 0)
    (tmp_path / "record").write_text(said(events, end))
    verdict, _ = check_record(tmp_path / "record", [TierSpec(0, "key", b"a", prev_kv="true")], truth, {0, 8})
    assert dict(verdict.counts) == blamed, str(verdict)
