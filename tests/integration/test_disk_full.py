"""A full disk under the replica. Delivery goes on from memory, readiness and one log line say why, and the tier recovers."""
import json
import os
import subprocess
import time

import pytest

import history
import procs
from checker import Spec, check_file
from client import Recorder, binary, write
from patience import within
from test_page import Page

CLOSED = 'belfry_streams_closed_total{dialect="grpc",reason="%s"}'


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True, capture_output=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(folder):
    path = folder / "filler"
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"\0" * 4096)
        except OSError:
            pass
    return path


def make(make_tier, cluster, small_disk, *flags):
    tier = make_tier(cluster, "--log-level", "info", *flags, wait=False)
    tier.kill()
    tier.cache = str(small_disk / "cache")
    return tier.start()


def watchers(tier, tmp_path):
    """One of libbelfry, and one of etcd's client that leaves when there is no leader, as etcdctl does."""
    recorders = [Recorder(tier.url, tmp_path / "c"), Recorder(tier.endpoint, tmp_path / "go", ["hasleader=true"], go=True)]
    for recorder in recorders:
        recorder.open(Spec(0, "prefix", b"", rev="1"))
    return recorders


def disk_lines(tier):
    return [line for line in tier.log().splitlines() if "event=disk_" in line or "event=replica_" in line]


def write_until(cluster, recorders, end, wait_s=5):
    """Each change arrives soon after it was written. Returns how many there were, and the last revision."""
    n, last = 0, 0
    while time.monotonic() < end:
        write(cluster.endpoints, "mode=put", "prefix=/disk/", "count=20", "size=2000")
        last = cluster.put("/disk/mark", str(n))
        n += 21
        for recorder in recorders:
            recorder.wait_rev({0: last}, wait_s)
    return n, last


def check(recorders, cluster, last):
    truth = history.read(cluster, last)
    for recorder in recorders:
        recorder.wait_rev({0: last}, 20)
        recorder.quit()
        verdict = check_file(recorder.record, [Spec(0, "prefix", b"", rev="1")], truth)
        assert verdict.n_violations == 0, str(verdict)


def assert_one_verdict(tier, page, verdict, why):
    """/readyz, the page, its numbers, /metrics, belfryctl top and doctor say the same of the tier."""
    status, text = tier.get("/readyz")
    assert (status == 200) == (verdict == "ready") and f"[-]{why}" in text if why else text == "ok\n", text
    summary = tier.numbers()["summary"]
    assert (summary["verdict"], summary["why"]) == (verdict, why) and summary["ready"] == (verdict == "ready")
    checks = [name for name in tier.metrics() if name.startswith("belfry_ready{")]
    assert all(tier.metrics()[name] == 1 for name in checks) == (verdict == "ready")
    top = procs.run([binary("belfryctl"), "top", "--admin", f"http://127.0.0.1:{tier.admin_port}", "--once"]).stdout.decode()
    shown = f"  {verdict.upper()}: {why}  " if why else f"  {verdict.upper()}  "
    assert shown in top.splitlines()[0], top
    page.wait_js(f"document.getElementById('verdict').textContent === '{verdict.capitalize()}'", 20)
    doctor = procs.run([binary("belfryctl"), "doctor", "--endpoints", tier.url, "--admin", f"http://127.0.0.1:{tier.admin_port}",
                        "--output", "json", "--command-timeout", "20s"], check=False)
    steps = [json.loads(line) for line in doctor.stdout.splitlines()]
    told = [(step["result"], step["what"], step["remedy"]) for step in steps if step.get("step") == "ready"]
    assert told == ([("fail", f"{verdict}: {why}", summary["hint"])] if why else []), steps
    assert doctor.returncode == (1 if why else 0) and bool(summary["hint"]) == bool(why), steps


def test_delivery_goes_on_from_memory_while_the_disk_is_full(cluster, make_tier, small_disk, tmp_path, soak, figure, browser):
    tier = make(make_tier, cluster, small_disk)
    page = Page(browser, tier).load()
    recorders = watchers(tier, tmp_path)
    write_until(cluster, recorders, time.monotonic() + 1)
    before = len(disk_lines(tier))
    filler = fill(small_disk)
    last = cluster.put("/disk/first", "x" * 20000)  # more than the free pages of the file take
    procs.wait_until(lambda: tier.get("/readyz")[0] == 503, 3, 0.02, lambda: f"not ready: {tier.get('/readyz?verbose')}")
    assert f"disk full: {tier.cache}" in tier.get("/readyz")[1]
    for recorder in recorders:
        recorder.wait_rev({0: last}, 5)
    n, last = write_until(cluster, recorders, time.monotonic() + (30 if soak else 8))
    assert tier.get("/readyz")[0] == 503
    assert tier.numbers()["upstream"]["standing"] == "ready", "etcd is well, and is followed"
    assert_one_verdict(tier, page, "not ready", f"replica: disk full: {tier.cache}")
    cluster.put("/disk/read", "now")
    for consistency in ("l", "s"):  # the replica stands still, so reads are relayed
        got = procs.run(["etcdctl", "--endpoints", tier.endpoint, "--command-timeout=4s", "get", "/disk/read", "--consistency", consistency])
        assert got.stdout == b"/disk/read\nnow\n", got.stdout
    newcomer = Recorder(tier.url, tmp_path / "new")
    newcomer.open(Spec(0, "prefix", b"", rev=str(last)))
    newcomer.wait_rev({0: last}, 5)
    newcomer.quit()
    told = disk_lines(tier)[before:]
    assert len(told) == 1 and "level=error" in told[0] and f"disk full: {tier.cache}" in told[0], told
    os.unlink(filler)
    with within(20):
        tier.wait_ready()
    assert_one_verdict(tier, page, "ready", "")
    told = disk_lines(tier)[before:]
    assert len(told) == 2 and "event=disk_recovered" in told[1], told
    last = cluster.put("/disk/last", "x")
    procs.wait_until(lambda: tier.numbers()["upstream"]["committed"] >= last, 10, 0.1, "all is on the disk")
    assert tier.metrics()[CLOSED % "no_leader"] == 0
    figure("disk_full.changes_from_memory", n, f"{len(told)} log lines")
    check(recorders, cluster, last)
    tier.kill()
    tier.start()
    assert tier.numbers()["upstream"]["follower"]["listings"] == 0, "a warm start: the replica is whole"


def test_full_disk_and_full_memory_is_not_called_a_lost_leader(cluster, make_tier, small_disk, tmp_path):
    tier = make(make_tier, cluster, small_disk, "--log-bytes", "1MiB")
    recorders = watchers(tier, tmp_path)
    write_until(cluster, recorders, time.monotonic() + 1)
    filler = fill(small_disk)
    write(cluster.endpoints, "mode=put", "prefix=/disk/", "count=2000", "size=2000")
    last = cluster.put("/disk/last", "x")
    procs.wait_until(lambda: tier.numbers()["upstream"]["standing"] == "not ready", 10, 0.1,
                     lambda: f"not ready: {tier.numbers()['upstream']}")
    time.sleep(8)  # longer than the silence that makes a tier stale
    status, text = tier.get("/readyz?verbose")
    assert status == 503 and f"disk full: {tier.cache}" in text
    assert tier.numbers()["upstream"]["standing"] == "not ready"
    assert len([line for line in disk_lines(tier) if "disk_trouble" in line]) == 2, "when it began, and when memory was full"
    os.unlink(filler)
    with within(20):
        tier.wait_ready()
    assert tier.metrics()[CLOSED % "no_leader"] == 0
    check(recorders, cluster, last)
