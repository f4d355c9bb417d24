"""docs/library.md: its programs do what the page says."""
import os
import re
import signal
import subprocess

import pytest

import procs
from client import BIN
from doc_programs import LIBRARIES, ROOT, Program


def url(cluster):
    return cluster.members[0].url


def test_follow_shows_the_state_and_then_changes(cluster, tmp_path):
    cluster.put("/services/before", "1")
    program = Program(tmp_path, "follow", url(cluster)).start()
    program.wait_for("put /services/before\n")
    cluster.delete("/services/before")
    program.wait_for("del /services/before\n")


def test_watch_shows_what_was_and_what_is(cluster, tmp_path):
    cluster.put("/services/web", "1")
    program = Program(tmp_path, "watch", url(cluster)).start()
    program.wait_for("-- connected to ")
    rev = cluster.put("/services/web", "2")
    program.wait_for(f"{rev} /services/web: 1 -> 2\n")
    rev = cluster.delete("/services/web")
    program.wait_for("/services/web: 2 -> \n")


def test_watch_of_compacted_history_says_so_and_ends(cluster, tmp_path):
    first = cluster.put("/services/web", "1")
    last = cluster.put("/services/web", "2")
    cluster.compact(last)
    program = Program(tmp_path, "watch", url(cluster)).start(str(first))
    program.wait_for(f"-- nothing before revision {last} can be had any more --")
    assert program.proc.wait(10) == 0


def test_watch_says_what_an_option_cannot_take(cluster, tmp_path):
    program = Program(tmp_path, "watch", url(cluster)).start("yesterday")
    assert program.proc.wait(10) == 1
    assert "rev" in program.output()


def test_write_puts_and_claims_once(cluster, tmp_path):
    program = Program(tmp_path, "write", url(cluster))
    assert program.start("first").proc.wait(10) == 0
    assert "put at revision" in program.output() and "it is ours" in program.output()
    assert program.start("second").proc.wait(10) == 0
    assert "somebody was here before:\nfirst\n" in program.output()


def test_lease_holds_its_key_until_the_program_ends(cluster, tmp_path):
    program = Program(tmp_path, "lease", url(cluster)).start()
    program.wait_for("registered\n")
    assert list(cluster.state("/services/")) == [b"/services/me"]
    procs.end(program.proc)
    procs.wait_until(lambda: not cluster.state("/services/"), 20, message="the lease ended by itself")


def test_pause_works_on_one_revision_after_the_other(cluster, tmp_path):
    program = Program(tmp_path, "pause", url(cluster)).start()
    for i in range(3):
        cluster.put(f"/jobs/{i}", "x")
    for i in range(3):
        program.wait_for(f"working on /jobs/{i}\n")
    procs.wait_until(lambda: not cluster.state("/jobs/"), 10, message="every job was done")
    assert program.proc.poll() is None


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_program_in_good_order(cluster, tmp_path, signo):
    cluster.put("/services/web", "1")
    program = Program(tmp_path, "stop", url(cluster)).start()
    procs.wait_until(lambda: procs.connections(program.proc.pid), 10, message="it is connected")
    program.proc.send_signal(signo)
    assert program.proc.wait(10) == 0
    assert " events\n" in program.output()


def test_own_loop_ends_at_a_key(cluster, tmp_path):
    program = Program(tmp_path, "own_loop", url(cluster)).start()
    cluster.put("/services/web", "1")
    program.wait_for(": 1 changes\n")
    program.proc.stdin.write(b"\n")
    program.proc.stdin.flush()
    assert program.proc.wait(10) == 0


def test_static_program_runs(cluster, tmp_path):
    """As the page says, with and without tables for unwinding."""
    folder = procs.run(["bash", os.path.join(ROOT, "tools", "yyjson-archive")], timeout=300).stdout.decode().strip()
    package = os.path.abspath(os.path.join(BIN, "..", "lib", "pkgconfig"))
    libs = procs.run(["pkg-config", "--static", "--libs", "belfry"], env={**os.environ, "PKG_CONFIG_PATH": package}).stdout.decode().split()
    small = f"-Wl,-T,{ROOT}/examples/static/no-unwind.ld"
    cluster.put("/services/before", "1")
    for name, more in (("plain", []), ("small", ["-Wl,--gc-sections", small])):
        (tmp_path / name).mkdir()
        program = Program(tmp_path / name, "follow", url(cluster).replace("127.0.0.1", "localhost"), ["-static", *more, f"-L{folder}", *libs])
        assert b"not a dynamic" in subprocess.run(["ldd", tmp_path / name / "follow"], capture_output=True, check=False).stderr
        out = open(tmp_path / name / "out", "wb")
        # stdbuf cannot preload into it: what it writes comes when it ends, or at a terminal
        proc = procs.spawn(["script", "-qfc", str(tmp_path / name / "follow"), "/dev/null"], stdin=subprocess.DEVNULL, stdout=out,
                           stderr=subprocess.STDOUT)
        program.wait_for("put /services/before")
        procs.end(proc)


def test_cmake_of_the_page_finds_the_library_and_builds(tmp_path):
    """The block of the page, to the letter, against what this build installs."""
    with open(os.path.join(ROOT, "docs", "library.md")) as f:
        block = re.search(r"^```cmake\n(.*?)^```$", f.read(), re.M | re.S)[1]
    prefix, source = tmp_path / "prefix", tmp_path / "source"
    source.mkdir()
    procs.run(["cmake", "--install", os.path.dirname(LIBRARIES), "--prefix", prefix])
    procs.run(["/usr/bin/python3", os.path.join(ROOT, "tools", "doc-programs"), tmp_path / "doc", os.path.join(ROOT, "docs", "library.md")])
    find, link = block.splitlines()
    (source / "prog.c").write_text((tmp_path / "doc" / "follow.c").read_text())
    (source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.18)\nproject(prog C)\n{find}\nadd_executable(prog prog.c)\n{link}\n")
    procs.run(["cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"])
    procs.run(["cmake", "--build", tmp_path / "build"], timeout=120)
    assert (tmp_path / "build" / "prog").exists()


def test_example_of_the_manual_page_is_the_first_program():
    with open(os.path.join(ROOT, "docs", "man", "libbelfry.3")) as f:
        shown = f.read().partition(".RS 4\n")[2].partition(".RE\n")[0]
    with open(os.path.join(ROOT, "examples", "follow.c")) as f:
        assert shown.replace("\\-", "-").replace("\\e", "\\") == f.read()


@pytest.mark.parametrize("name,most", [("follow", 30), ("informer_keys", 40), ("informer_resource", 40)])
def test_promised_lengths_are_kept(name, most):
    with open(os.path.join(ROOT, "docs", "library.md")) as f:
        assert f"<!-- program: {name}.c; at most {most} lines -->" in f.read()  # tools/doc-programs counts
