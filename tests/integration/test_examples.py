"""The examples do what they say, with a host name, in one thread, and cost nothing when idle."""
import os
import subprocess
import time

import pytest

import procs
from client import binary


def start(name, cluster, tmp_path):
    out = open(tmp_path / f"{name}.out", "wb")
    endpoints = ",".join(f"http://localhost:{m.client_port}" for m in cluster.members)
    return procs.spawn([binary("examples", name), endpoints, "/services/"], stdin=subprocess.PIPE, stdout=out,
                       stderr=subprocess.STDOUT)


def output(name, tmp_path):
    return (tmp_path / f"{name}.out").read_text(errors="replace")


@pytest.mark.parametrize("name", ["follow", "poll_watch"])
def test_example_sees_changes_in_one_thread_and_idles_for_free(cluster, tmp_path, figure, soak, name):
    cluster.put("/services/before", "10.0.0.1:80")
    proc = start(name, cluster, tmp_path)
    procs.wait_until(lambda: procs.connections(proc.pid), 10, message="example connected")
    time.sleep(0.5)
    for i in range(3):
        cluster.put(f"/services/web{i}", f"10.0.0.2:{i}")
    cluster.delete("/services/web0")
    cluster.put("/elsewhere", "no")
    procs.wait_until(lambda: "/services/web2" in output(name, tmp_path), 10, message=lambda: output(name, tmp_path))
    assert procs.n_threads(proc.pid) == 1
    time.sleep(0.5)
    seconds = 10 if soak else 3
    before = procs.cpu_ticks(proc.pid)
    time.sleep(seconds)
    ticks = procs.cpu_ticks(proc.pid) - before
    figure(f"examples.{name}_idle_{seconds}s", ticks, "ticks of 1/%d s" % os.sysconf("SC_CLK_TCK"))
    assert ticks <= 1
    assert procs.n_threads(proc.pid) == 1
    text = output(name, tmp_path)
    assert "/elsewhere" not in text and text.count("/services/web0") == 2
    assert ("/services/before" in text) == (name == "follow")
    assert proc.poll() is None


@pytest.mark.parametrize("name", ["follow", "poll_watch"])
def test_example_goes_on_after_a_restart(cluster, tmp_path, name):
    proc = start(name, cluster, tmp_path)
    procs.wait_until(lambda: procs.connections(proc.pid), 10, message="example connected")
    time.sleep(0.5)
    cluster.members[0].kill()
    cluster.members[0].restart()
    cluster.put("/services/after", "there")
    procs.wait_until(lambda: "/services/after" in output(name, tmp_path), 15, message=lambda: output(name, tmp_path))
    procs.end(proc)
