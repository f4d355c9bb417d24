"""The fault machine (tests/robustness): one run of it, and that its own parts do what they say."""
import os
import random
import re
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree

import needs
import netns
import procs
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
MACHINE = os.path.join(HERE, "..", "robustness")
sys.path.insert(1, MACHINE)

import growth  # noqa: E402
import picture  # noqa: E402
import report  # noqa: E402
import schedule  # noqa: E402
import star  # noqa: E402
from harms import TABLE  # noqa: E402
from machine import PATHS  # noqa: E402

SHORT_FAULTS = 20


def test_faults_through_one_two_and_three_tiers(seed, soak, figure, tmp_path):
    argv = [os.path.join(MACHINE, "run"), "--seed", str(seed), "--out", str(tmp_path / "report")]
    argv += ["--soak"] if soak else ["--faults", str(SHORT_FAULTS)]
    proc = procs.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = proc.communicate(timeout=3 * 3600 if soak else 300)
    except subprocess.TimeoutExpired:
        proc.terminate()  # it takes its namespaces down
        said, _ = proc.communicate(timeout=60)
        raise AssertionError(f"the machine did not end: {said[-3000:]}")
    print(said)
    if proc.returncode == 77:
        needs.missing(said.strip().splitlines()[-1])
    for name, value in re.findall(r"^figure: (\S+)=(.*)$", said, re.M):
        figure(name, *value.split(" ", 1))
    assert proc.returncode == 0, said[-4000:]
    if not soak:
        judged_again_is_judged_the_same_until_something_is_missing(tmp_path / "report", said)


def judged_again_is_judged_the_same_until_something_is_missing(folder, said):
    argv = [os.path.join(MACHINE, "run"), "--judge", folder]
    again = procs.run(argv, timeout=120).stdout.decode()
    assert [line for line in said.splitlines() if "checked" in line] == [line for line in again.splitlines() if "checked" in line]
    record = folder / "histories0" / "record0"
    lines = record.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("B ") and line.split()[2:5:2] == ["C", "1"])
    record.write_text("".join(lines[:at] + lines[at + 2:]))
    lost = procs.run(argv, timeout=120, check=False)
    assert lost.returncode == 1 and b"VIOLATION" in lost.stdout, lost.stdout.decode()[-2000:]


def test_schedule_follows_from_the_seed_and_leaves_nothing_out():
    def plan(seed, soak=False, n=60):
        return [(s.harm.name, *s[1:]) for s in schedule.draw(random.Random(seed), n, 3, soak)]
    assert plan(1) == plan(1) and plan(1) != plan(2)
    assert {step[0] for step in plan(1, soak=True, n=210)} == {h.name for h in TABLE}
    ways = {step[1] for step in plan(1, soak=True, n=210) if "cut" in step[0]}
    assert ways == {"m-t1", "t1-t2", "t2-t3", "t1-c", "t2-c", "t3-c", "t-c"}


@pytest.fixture
def network():
    reason = star.why_not()
    if reason:
        needs.missing(f"the right to make a network: {reason}")
    made = star.Star()
    yield made
    made.close()


class Ends:
    """A socket in each of two nodes, and how many of n small packets arrive."""

    def __init__(self, network, a, b):
        self.at, self.sent = {}, 0
        for node in (a, b):
            with netns.inside(network.ns(node)):
                self.at[node] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.at[node].bind((network.host(node), 999))
            self.at[node].settimeout(1)

    def send(self, sender, receiver, n=1):
        got, before = 0, self.sent
        for _ in range(n):
            self.sent += 1
            self.at[sender].sendto(b"%d" % self.sent, self.at[receiver].getsockname())
        try:
            while got < n:
                got += int(self.at[receiver].recv(10)) > before  # one that was late is not of these
        except TimeoutError:
            pass
        return got

    def delay_s(self, sender, receiver):
        """The shortest of five: the rest of a longer one is the machine's."""
        def one():
            begin = time.monotonic()
            assert self.send(sender, receiver) == 1
            return time.monotonic() - begin
        return min(one() for _ in range(5))

    def wait_delay(self, sender, receiver, least_s, most_s):
        """Never shorter, and not longer either, when the machine is at leisure."""
        def is_so():
            took_s = self.delay_s(sender, receiver)
            assert took_s >= least_s
            return took_s < most_s
        procs.wait_until(is_so, 10, 0, f"a delay under {most_s} s")


def test_ways_are_cut_in_one_direction_or_both_and_lose_what_they_should(network):
    ends = Ends(network, "t1", "t2")
    assert ends.send("t1", "t2") == 1 and ends.send("t2", "t1") == 1
    network.drop("t1", "t2")
    assert ends.send("t1", "t2") == 0 and ends.send("t2", "t1") == 1
    network.drop("t1", "t2", 0)
    network.drop_both("t1", "t2")
    network.drop("t3", "t2", 0.5)  # a second rule at the same place, which is another's
    assert ends.send("t1", "t2") == 0 and ends.send("t2", "t1") == 0
    network.drop_both("t1", "t2", 0)
    assert ends.send("t1", "t2", 100) == 100
    network.drop("t1", "t2", 0.3)
    assert 100 < ends.send("t1", "t2", 400) - 100 < 250, "about 280 of 400"
    assert ends.send("t2", "t1", 100) == 100


def test_a_delayed_node_is_late_both_ways_and_afterwards_no_more(network):
    ends = Ends(network, "t1", "t2")
    ends.wait_delay("t1", "t2", 0, 0.05)
    network.delay("t2", 80)
    procs.wait_until(lambda: ends.send("t1", "t2") == 1, 10, 0.1, "the wire carries")
    ends.wait_delay("t1", "t2", 0.08, 0.19)
    ends.wait_delay("t2", "t1", 0.08, 0.19)
    network.undelay("t2")
    ends.wait_delay("t1", "t2", 0, 0.05)
    assert ends.send("t2", "t1", 50) == 50


def a_result(**changes):
    counters = {t: {p: 1 for p in PATHS} for t in ("t1", "t2", "t3")}
    rows = [{"n": 0, "fault": "tier killed", "target": "t2", "begin_s": 1.0, "end_s": 2.0,
             "caught_up_s": {"t1": 0.1, "t2": 0.5}},
            {"n": 1, "fault": "way cut", "target": "t-c", "begin_s": 4.0}]
    samples = {"etcd": [(i / 2, i * 10) for i in range(20)], "t1": [(i / 2 + 0.1, i * 10) for i in range(20)],
               "t2": [(i / 2 + 0.1, None if 2 < i < 6 else i * 9) for i in range(20)], "t3": []}
    r = {"seed": 5, "levels": [1, 2, 3], "watchers": 9, "again": "run --seed 5", "when": "2026-01-01", "machine": "Linux, 2 cores",
         "belfryd": "belfryd <1>", "etcd": "etcd", "seconds": 10.0, "revisions": 190, "rows": rows, "samples": samples,
         "by_property": {"reliable": 0}, "violations": [], "trouble": [], "events": 1000, "progress": 10, "told_compacted": 1,
         "counters": counters, "landed_lagging": 1, "unused": [], "growth": {}}
    return {**r, **changes}


@pytest.mark.parametrize("changes, said, crosses", [
    ({}, "no violation", 0),
    ({"violations": [{"property": "reliable", "rev": 50, "at_s": 2.5, "text": "reliable: <lost>", "record": "r"}],
      "by_property": {"reliable": 1}}, "VIOLATED", 1),
    ({"violations": [{"property": "alive", "rev": 0, "at_s": None, "text": "alive", "record": "r"}], "by_property": {"alive": 1},
      "trouble": [(3.0, "t1 did not catch up")]}, "VIOLATED", 2),
    ({"unused": [("t3", "stale")]}, "stale of t3", 0),
])
def test_report_says_what_was_violated_and_the_picture_shows_where(changes, said, crosses):
    r = a_result(**changes)
    assert said in report.page(r)
    tree = xml.etree.ElementTree.fromstring(picture.draw(r))
    assert len([p for p in tree.iter() if p.tag.endswith("}path")]) == crosses
    bars = [t.text for t in tree.iter() if t.tag.endswith("}title")]
    assert "0: tier killed t2, 1.0 s" in bars and "1: way cut t-c, 6.0 s" in bars


def test_what_grows_is_told_from_what_goes_up_and_down():
    def sized(memory):
        return growth.judge([(float(s), memory(s), 50 << 20) for s in range(0, 1000, growth.EVERY_S)], 1000)["memory"]
    assert sized(lambda s: 10_000_000 + s % 100 * 10_000)["flat"], "a saw"
    assert sized(lambda s: 20_000_000 if s > 100 else 10_000_000)["flat"], "taken once, early, and kept"
    leak = sized(lambda s: 10_000_000 + s * 2_000)
    assert not leak["flat"] and leak["bytes_an_hour"] == 7_200_000
    assert growth.judge([(1.0, 1, 1)], 10) == {}, "too little to say"


def test_lag_is_of_those_who_answer():
    runs = picture.lags(a_result()["samples"], "t2")
    assert [len(run) for run in runs] == [3, 14]
    assert runs[1][-1][1] == 190 - 19 * 9
