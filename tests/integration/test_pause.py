"""One of sixteen watches on a stream is paused under write load: it costs memory and neighbours nothing.

Whether the neighbours lose time is judged against a second client with the same watches, none of them paused, on the
same member in the same seconds. Comparing with the time before the pause would not do: with nothing paused at all the
delay grows as the store does, and with whatever else the machine is doing."""
import time

import history
import procs
from checker import Spec, check_file, delays_us
from client import Recorder, Writer

PAUSED = 7


def percentile(sorted_values, p):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * p))]


def test_paused_watch_costs_nothing_and_loses_nothing(cluster, tmp_path, figure, soak, seed):
    seconds = 60 if soak else 6
    specs = [Spec(i, "prefix", b"/w/") for i in range(16)]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(16)
    control = Recorder(cluster.endpoints, tmp_path / "control")
    for spec in specs:
        control.open(spec)
    control.wait_connected(16)
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "inflight=16", "size=4000", "rate=1500")
    time.sleep(seconds / 2)

    recorder.command(f"pause {PAUSED}")
    recorder.wait_state(PAUSED, "paused", 5)
    time.sleep(0.5)
    rss_before, begin, at_pause = procs.rss_bytes(recorder.pid), time.monotonic(), recorder.status()[0]["n_events"]
    rss_most = rss_before
    while time.monotonic() < begin + seconds:
        time.sleep(0.2)
        rss_most = max(rss_most, procs.rss_bytes(recorder.pid))
    end, during = time.monotonic(), recorder.status()
    assert during[PAUSED]["state"] == "paused"
    recorder.command(f"resume {PAUSED}")
    time.sleep(1)
    writer.stop()
    cluster.outlast_leases("/w/end")
    last = cluster.put("/w/end", "end")
    recorder.wait_rev({i: last for i in range(16)}, 60)
    control.wait_rev({i: last for i in range(16)}, 60)
    stats = recorder.stats()
    recorder.quit()
    control.quit()
    verdict = check_file(recorder.record, specs, history.read(cluster, last))

    def delays(path):
        return sorted(d for us, d in delays_us(path, skip=(PAUSED,)) if begin * 1e6 <= us < end * 1e6)
    neighbours, unpaused = delays(recorder.record), delays(control.record)
    figure("pause.seconds", end - begin, "s")
    figure("pause.rss_growth", (rss_most - rss_before) / 2**20, "MiB")
    figure("pause.events_to_each_neighbour", during[0]["n_events"] - at_pause)
    for name, values in (("neighbour", neighbours), ("control", unpaused)):
        for label, p in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
            figure(f"pause.{name}_delay_{label}", percentile(values, p) / 1000, "ms")
    figure("pause.parked", stats["parked"])
    figure("pause.events_checked", verdict.n_events)
    figure("pause.violations", verdict.n_violations)
    assert verdict.n_violations == 0, str(verdict)
    assert stats["parked"] >= 1, "the pause was too short to matter"
    assert rss_most - rss_before < 16 * 2**20
    for p in (0.5, 0.99, 1):
        assert percentile(neighbours, p) <= 1.5 * percentile(unpaused, p) + 50_000, f"neighbours lose time at {p}"
