"""Linearizable reads through tiers with a scope: what is written outside of it moves the revision that they wait for."""
import threading
import time

import grpc
import procs
import pytest
from differential import Store, channel, decode, encode
from registers import Clients, judge
from stack import Stack

RANGE = "/etcdserverpb.KV/Range"
SCOPE = "/register/"


def source_counts(tier):
    """(answered here, relayed) of linearizable reads"""
    metrics = tier.metrics()
    return tuple(metrics[f'belfry_reads_total{{source="{source}",consistency="linearizable"}}'] for source in ("replica", "upstream"))


class Elsewhere(threading.Thread):
    """Writes outside of the scope until it is told to end; a write that meets an election is left out."""

    def __init__(self, endpoint, rest_s):
        super().__init__(daemon=True)
        self.store, self.rest_s, self.ending, self.n = Store(endpoint), rest_s, threading.Event(), 0
        self.start()

    def run(self):
        while not self.ending.wait(self.rest_s):
            try:
                self.store.put(b"/elsewhere", str(self.n).encode())
                self.n += 1
            except grpc.RpcError:
                pass

    def end(self):
        self.ending.set()
        self.join(20)
        return self.n


def test_linearizable_read_has_a_revision_outside_the_scope(cluster, make_tier):
    tier = make_tier(cluster, "--scope", SCOPE)
    store, call = Store(cluster.members[0].endpoint), channel(tier.endpoint).unary_unary(RANGE)
    took = []
    for i in range(50):
        store.put(f"{SCOPE}{i % 3}".encode() if i % 2 else b"/elsewhere", b"v")
        began = time.monotonic()
        answer = decode("Answer", call(encode("RangeRequest", {"key": b"/register/1"}), timeout=10))
        took.append(time.monotonic() - began)
        assert answer["header"]["revision"] >= store.revision
    assert source_counts(tier) == (50, 0)
    assert sorted(took)[25] < 0.3, took  # it does not wait for the progress that is asked for once a second


@pytest.mark.parametrize("depth", [1, 2])
def test_reads_through_scoped_tiers_are_linearizable(make_cluster, make_tier, tmp_path, figure, seed, depth, soak):
    cluster = make_cluster(3)
    tiers = Stack(make_tier, cluster, depth, "--scope", SCOPE).tiers
    elsewhere = [Elsewhere(m.endpoint, 0.003) for m in cluster.members[:2]]
    levels = [Clients(tmp_path / "level0", {"writer": [cluster.endpoints] * 2}, seed)]
    for i, tier in enumerate(tiers):
        levels.append(Clients(tmp_path / f"level{i + 1}", {"writer": [tier.url], "reader": [tier.url] * 4, "stale": [tier.url]}, seed))
    def kill_leader():
        leader = procs.wait_until(cluster.leader, 30, 0.1, "a leader")
        leader.kill()
        time.sleep(0.5)
        leader.restart()

    def kill_first_tier():
        tiers[0].kill()
        time.sleep(0.2)
        tiers[0].start(wait=False)
    for fault in (kill_leader, kill_first_tier):
        for level in levels[1:]:
            level.wait_more("reads", 2000 if soak else 200)
        fault()
        for level in levels:
            level.wait_more("writes", 5)
        for level in levels[1:]:
            level.wait_more("reads", 50)
    reads = sum(level.stop()["reads"] for level in levels)
    written = sum(writer.end() for writer in elsewhere)
    verdict = judge(*(level.record for level in levels))
    figure(f"scoped_reads.reads_through_{depth}", reads)
    figure(f"scoped_reads.written_elsewhere_{depth}", written)
    assert not verdict.names, str(verdict)
    assert reads > 400 and written > 50
    for tier in tiers:  # some are relayed: while it was not ready
        here, relayed = source_counts(tier)
        assert here > relayed, (here, relayed)
