"""Busy programs on the clients that people use, Go's, Python's and npm's, with many cancels and pings that measure bandwidth:
none of them comes near a limit. With --soak for ten minutes."""
import os
import subprocess
import threading
import time

import needs
import nodejs
import procs
import pytest
from client import go_binary

etcd3 = needs.module("etcd3", "python3-etcd3")

# python3-etcd3's watch thread outlives its closed channel for a moment, and complains
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

# Whatever says that a client was refused, ended or slowed down for a limit.
LIMITS = ("_rejected_total", "_refused_total", "_yielded_total", "_expelled_total", "_kube_slow_total", "_connections_dead_total")
REASONS = ('reason="slow"', 'reason="memory"', 'reason="late"', 'reason="bad_request"')


class Python:
    """A busy program on python3-etcd3, in threads of this process."""

    def __init__(self, tier, seconds):
        self.tier, self.end = tier, time.monotonic() + seconds
        self.reads = self.watches = 0
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(what,)) for what in (self.read, self.watch, self.watch)]
        for thread in self.threads:
            thread.start()

    def run(self, what):
        client = etcd3.client(host=self.tier.host, port=self.tier.port, timeout=10)
        try:
            while time.monotonic() < self.end:
                what(client)
        except Exception as e:  # reported by the test
            self.failures.append(repr(e))
        client.close()

    def read(self, client):
        client.put("/python-busy/0", "x" * 1000)
        client.get("/python-busy/0")
        self.reads += 1
        time.sleep(0.005)

    def watch(self, client):
        events, cancel = client.watch_prefix("/python-busy/")
        client.put("/python-busy/1", "x")  # else the last of these would wait for ever
        next(events)
        cancel()
        self.watches += 1

    def join(self):
        for thread in self.threads:
            thread.join(max(0, self.end - time.monotonic()) + 60)
            assert not thread.is_alive(), "a thread of python3-etcd3 hangs"


def touched(metrics):
    return {name: value for name, value in metrics.items()
            if value and (any(part in name for part in LIMITS) or any(part in name for part in REASONS))}


def counted(line):
    return {name: int(value) for name, value in (pair.split("=") for pair in line.split())}


def test_clients_in_normal_use_touch_no_limit(tier, soak, figure):
    seconds = 600 if soak else 6
    assert touched(tier.metrics()) == {}
    env = {**os.environ, "BELFRY_NODE": nodejs.installed()}
    go = procs.spawn([go_binary("gobusy"), tier.endpoint, str(seconds)], stdout=subprocess.PIPE,
                     stderr=subprocess.DEVNULL)  # it logs each call that it gave up
    node = procs.spawn(["node", nodejs.program("busy.js"), tier.endpoint, str(seconds)], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, env=env)
    python = Python(tier, seconds)
    python.join()
    said, _ = go.communicate(timeout=60)
    assert go.returncode == 0, said
    node_said, node_err = node.communicate(timeout=60)
    assert node.returncode == 0, node_err
    assert python.failures == []
    go_did, node_did = counted(said.decode()), counted(node_said.decode())
    for name, n in {**{f"go.{k}": v for k, v in go_did.items()}, **{f"node.{k}": v for k, v in node_did.items()},
                    "python.reads": python.reads, "python.watches": python.watches}.items():
        figure(f"normal_use.{name}", n)
        assert n > 0, f"{name}: it did nothing"
    assert touched(tier.metrics()) == {}, "a limit was touched"
