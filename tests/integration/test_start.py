"""A program has its first event soon: nothing is worth a wait on loopback."""
import statistics

import procs
from client import binary

RUNS = 20
LIMIT_MS = 20


def test_first_event_comes_within_twenty_milliseconds(cluster, figure):
    cluster.put("/services/web", "10.0.0.1:80")
    first, synced = [], []
    for _ in range(RUNS):
        done = procs.run([binary("tests", "firstevent"), cluster.members[0].url, "/services/"])
        us = [int(word) for word in done.stdout.split()]
        first.append(us[0] / 1000)
        synced.append(us[1] / 1000)
    figure("start.first_event_median", statistics.median(first), f"ms from main(), of {RUNS} runs")
    figure("start.first_event_slowest", max(first), "ms")
    figure("start.synced_median", statistics.median(synced), "ms from main()")
    assert statistics.median(first) < LIMIT_MS, sorted(first)
