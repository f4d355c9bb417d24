"""examples/python: the library can be bound, and driven by asyncio, which is somebody else's loop in somebody else's
language."""
import os
import signal
import subprocess
import time

import procs
from client import BIN

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python")
LIBRARIES = os.path.abspath(os.path.join(BIN, "..", "lib"))


def start(tmp_path, name, *words, **env):
    with open(tmp_path / "out", "wb") as out:
        return procs.spawn(["/usr/bin/python3", os.path.join(EXAMPLES, name), *words], stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.STDOUT, env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, **env})


def wait_for(tmp_path, text):
    output = tmp_path / "out"
    procs.wait_until(lambda: text in output.read_text(), 15, message=lambda: f"{text!r} in {output.read_text()!r}")


def ends_cleanly(proc, tmp_path):
    proc.send_signal(signal.SIGTERM)
    assert proc.wait(10) == 0, (tmp_path / "out").read_text()
    assert "Traceback" not in (tmp_path / "out").read_text()


def test_python_follows_a_prefix_in_one_thread_and_ends_cleanly(cluster, tmp_path):
    cluster.put("/services/before", "there")
    proc = start(tmp_path, "belfry_follow.py", cluster.members[0].url, "/services/")
    wait_for(tmp_path, "put /services/before=there\n")
    wait_for(tmp_path, "live from here")
    cluster.put("/services/web", "10.0.0.1:80")
    cluster.delete("/services/before")
    wait_for(tmp_path, "put /services/web=10.0.0.1:80\n")
    wait_for(tmp_path, "del /services/before=\n")
    assert procs.n_threads(proc.pid) == 1
    before = procs.cpu_ticks(proc.pid)
    time.sleep(2)
    assert procs.cpu_ticks(proc.pid) - before <= 1
    ends_cleanly(proc, tmp_path)


def test_python_is_told_what_was_wrong(tmp_path):
    proc = start(tmp_path, "belfry_follow.py", "ftp://127.0.0.1:1", "/services/")
    assert proc.wait(10) == 1
    assert "ftp" in (tmp_path / "out").read_text()


def test_python_example_is_small():
    with open(os.path.join(EXAMPLES, "belfry_follow.py")) as f:
        assert len(f.readlines()) <= 115
