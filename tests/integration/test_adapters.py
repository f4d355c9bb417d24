"""The examples on other people's loops: each follows, ends cleanly when told to, and costs nothing while idle."""
import os
import signal
import subprocess
import time

import pytest

import procs
from client import binary

LOOPS = ["loop_libevent", "loop_glib", "loop_libuv", "loop_sd_event"]
IDLE_SECONDS = 2
IDLE_LIMIT_MS = 20


def start(name, cluster, tmp_path):
    with open(tmp_path / f"{name}.out", "wb") as out:
        return procs.spawn([binary("examples", name), cluster.members[0].url, "/services/"], stdin=subprocess.DEVNULL,
                           stdout=out, stderr=subprocess.STDOUT)


def output(name, tmp_path):
    return (tmp_path / f"{name}.out").read_text(errors="replace")


@pytest.mark.parametrize("name", LOOPS)
def test_loop_follows_and_ends_cleanly_and_idles_for_free(cluster, tmp_path, figure, name):
    cluster.put("/services/before", "there")
    proc = start(name, cluster, tmp_path)
    procs.wait_until(lambda: "live from here" in output(name, tmp_path), 10, message=lambda: output(name, tmp_path))
    assert "put /services/before=there" in output(name, tmp_path)
    cluster.put("/services/web", "10.0.0.2:80")
    cluster.put("/elsewhere", "no")
    procs.wait_until(lambda: "put /services/web=10.0.0.2:80" in output(name, tmp_path), 10,
                     message=lambda: output(name, tmp_path))

    time.sleep(0.5)  # what the put brought about is over
    before = procs.cpu_ticks(proc.pid)
    time.sleep(IDLE_SECONDS)
    idle_ms = (procs.cpu_ticks(proc.pid) - before) * 1000 / os.sysconf("SC_CLK_TCK")
    figure(f"adapters.{name}_idle_{IDLE_SECONDS}s", idle_ms, "ms of CPU")
    assert idle_ms < IDLE_LIMIT_MS

    proc.send_signal(signal.SIGTERM)
    assert proc.wait(5) == 0, output(name, tmp_path)
    assert "/elsewhere" not in output(name, tmp_path)


@pytest.mark.parametrize("name", LOOPS)
def test_loop_goes_on_after_a_restart(cluster, tmp_path, name):
    proc = start(name, cluster, tmp_path)
    procs.wait_until(lambda: "live from here" in output(name, tmp_path), 10, message=lambda: output(name, tmp_path))
    cluster.members[0].kill()
    cluster.members[0].restart()
    cluster.put("/services/after", "there")
    procs.wait_until(lambda: "/services/after" in output(name, tmp_path), 15, message=lambda: output(name, tmp_path))
    proc.send_signal(signal.SIGINT)
    assert proc.wait(5) == 0, output(name, tmp_path)
