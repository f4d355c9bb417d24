"""The examples do what they say, with a host name, in one thread, and cost nothing when idle."""
import os
import subprocess
import time

import pytest

import procs
from client import binary
from kube import WIDGETS, belfryd_only, widget

pytest_plugins = ["kube_fixtures"]
NAMES = ["follow", "poll_watch", "informer_keys"]  # that take endpoints, and look at /services/


def run(name, words, tmp_path, **env):
    """Standard output is by lines, as a reader at a terminal sees it."""
    with open(tmp_path / f"{name}.out", "wb") as out:
        return procs.spawn(["stdbuf", "-oL", binary("examples", name), *words], stdin=subprocess.PIPE, stdout=out,
                           stderr=subprocess.STDOUT, env={**os.environ, **env})


def start(name, cluster, tmp_path):
    return run(name, [",".join(f"http://localhost:{m.client_port}" for m in cluster.members)], tmp_path)


def output(name, tmp_path):
    return (tmp_path / f"{name}.out").read_text(errors="replace")


def wait_for(name, tmp_path, text):
    procs.wait_until(lambda: text in output(name, tmp_path), 15, message=lambda: f"{text!r} in {output(name, tmp_path)!r}")


@pytest.mark.parametrize("name", NAMES)
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
    assert ("/services/before" in text) == (name != "poll_watch")
    assert proc.poll() is None


@pytest.mark.parametrize("name", NAMES)
def test_example_goes_on_after_a_restart(cluster, tmp_path, name):
    proc = start(name, cluster, tmp_path)
    procs.wait_until(lambda: procs.connections(proc.pid), 10, message="example connected")
    time.sleep(0.5)
    cluster.members[0].kill()
    cluster.members[0].restart()
    cluster.put("/services/after", "there")
    wait_for(name, tmp_path, "/services/after")
    procs.end(proc)


def test_follow_says_that_nobody_answers(tmp_path):
    proc = run("follow", ["http://127.0.0.1:9"], tmp_path)
    wait_for("follow", tmp_path, "-- no endpoint answers: ")
    procs.end(proc)


@pytest.mark.parametrize("name", NAMES)
def test_example_says_why_it_cannot_begin(tmp_path, name):
    proc = run(name, ["ftp://nowhere"], tmp_path)
    assert proc.wait(10) == 1
    assert f"{name}: " in output(name, tmp_path) and "ftp" in output(name, tmp_path)


def test_informer_keys_tells_what_changed(cluster, tmp_path):
    cluster.put("/services/before", "1")
    proc = start("informer_keys", cluster, tmp_path)
    wait_for("informer_keys", tmp_path, "added /services/before=1\n")
    wait_for("informer_keys", tmp_path, "-- 1 objects, live from here --")
    cluster.put("/services/before", "2")
    wait_for("informer_keys", tmp_path, "updated /services/before=2\n")
    cluster.delete("/services/before")
    wait_for("informer_keys", tmp_path, "removed /services/before=2\n")
    procs.end(proc)


@belfryd_only
def test_informer_resource_tells_what_changed(kube, tmp_path):
    kube.wait_for(kube.put(widget("prod", "before"), WIDGETS), WIDGETS)
    config = tmp_path / "kubeconfig"
    config.write_bytes(procs.run([binary("belfryctl"), "kube", "config", "--server", kube.url]).stdout)
    proc = run("informer_resource", [WIDGETS.api_version, WIDGETS.plural, "prod"], tmp_path, KUBECONFIG=str(config))
    wait_for("informer_resource", tmp_path, "added Widget prod/before\n")
    wait_for("informer_resource", tmp_path, "-- 1 objects, live from here --")
    kube.put(widget("prod", "before", size=2), WIDGETS)
    wait_for("informer_resource", tmp_path, "updated Widget prod/before\n")
    kube.delete("prod", "before", WIDGETS)
    wait_for("informer_resource", tmp_path, "removed Widget prod/before\n")
    procs.end(proc)


def test_informer_resource_says_why_it_finds_no_server(tmp_path):
    proc = run("informer_resource", [], tmp_path, KUBECONFIG=str(tmp_path / "none"), HOME=str(tmp_path))
    assert proc.wait(10) == 1
    assert str(tmp_path / "none") in output("informer_resource", tmp_path)
