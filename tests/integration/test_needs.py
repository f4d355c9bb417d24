"""What is missing here: a skip for a person at work, a failure in the gate; and what is installed once for all."""
import os
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from etcd import named_as_in

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.join(HERE, "..", "..", "tools")
TESTS = """
import needs, pytest

@pytest.fixture(scope="module")
def tool():
    needs.missing("a tool")

def test_missing(): needs.missing("a tool")
def test_fixture(tool): pass
def test_other(): pytest.skip("any reason")
@pytest.mark.skipif(True, reason="any reason")
def test_mark(): pass
def test_peer(): needs.peer("no such server")
def test_length(): needs.full_length("too long")
def test_version(): needs.by_version("range-stream", "this etcd has none")
@pytest.mark.xfail(reason="a known bug")
def test_known(): assert False
def test_good(): pass
"""
WHOLE = "import pytest\npytest.importorskip('no_such_module')\ndef test_never(): pass\n"
HOOKS = f"""
import sys
sys.path.insert(0, {HERE!r})
import needs, pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    needs.judge((yield).get_result())

@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    needs.judge((yield).get_result())
"""


def run(folder, ci):
    """name -> its verdict, of a run of these files with the hooks of this folder's conftest.py."""
    (folder / "test_it.py").write_text(TESTS)
    (folder / "test_whole.py").write_text(WHOLE)
    (folder / "conftest.py").write_text(HOOKS)
    junit = folder / "junit.xml"
    env = {**os.environ, "CI": ci}
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors",
                    f"--junitxml={junit}", str(folder)],
                   env=env, capture_output=True, cwd=folder, timeout=60)
    cases = xml.etree.ElementTree.parse(junit).iter("testcase")
    return {case.get("name"): case[0].tag if len(case) else "passed" for case in cases}


def test_what_is_missing_is_a_failure_in_the_gate_alone(tmp_path):
    at_work = run(tmp_path, "")
    assert at_work.pop("test_good") == "passed" and set(at_work.values()) == {"skipped"} and len(at_work) == 9
    gate = run(tmp_path, "true")
    assert {name for name, verdict in gate.items() if verdict == "skipped"} == {"test_peer", "test_length", "test_version", "test_known"}
    assert {name for name, verdict in gate.items() if verdict in ("failure", "error")} == {
        "test_missing", "test_fixture", "test_other", "test_mark", "test_whole"}
    assert gate["test_good"] == "passed"


ONCE = """
set -euo pipefail
. "$TOOLS/devcache.sh"
fill() { echo begun >>"$COUNT"; sleep 0.2; [ ! -e "$BROKEN" ] || exit 7; touch "$1/whole"; }
devcache_once some/thing fill
test -e "$devcache/some/thing/whole"
"""


def test_what_is_installed_is_installed_once_and_whole(tmp_path):
    count, broken = tmp_path / "count", tmp_path / "broken"
    env = {**os.environ, "TOOLS": TOOLS, "COUNT": str(count), "BROKEN": str(broken), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def at_once(n):
        each = [subprocess.Popen(["bash", "-c", ONCE], env=env) for _ in range(n)]
        return [proc.wait(30) for proc in each]
    broken.touch()
    assert at_once(2) == [7, 7]  # a part is not taken for the whole, and each tries for itself
    assert not (tmp_path / "cache" / "belfry-dev" / "some" / "thing").exists()
    broken.unlink()
    count.unlink()
    assert at_once(8) == [0] * 8
    assert count.read_text() == "begun\n"
    assert not (tmp_path / "cache" / "belfry").exists()  # which is belfryd's


def fake_server(path, said):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return path


def test_a_server_is_chosen_by_its_version_or_path(tmp_path):
    newest, installed = tmp_path / "peers" / "newest", fake_server(tmp_path / "bin" / "etcd", "etcd Version: 3.5.16")
    etcds = {name: fake_server(newest / name, f"etcd Version: {version}") for name, version in
             {"etcd": "3.7.1", "etcd-3.6": "3.6.14", "etcd-3.5.30": "3.5.30", "etcd-main": "3.8.0-alpha.0"}.items()}
    kube = fake_server(newest / "kube-apiserver", "Kubernetes v1.37.0-rc.1")
    old_kube = fake_server(newest.parent / "kube-apiserver", "Kubernetes v1.20.2")

    def chosen(server, which):
        env = {**os.environ, "PEERS": str(tmp_path / "peers"), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", os.path.join(TOOLS, "server-program"), server, which], env=env, capture_output=True, text=True, timeout=30)
        return done.stdout.strip() or done.stderr
    assert chosen("etcd", "3.5") == str(installed)
    for which, name in {"3.6": "etcd-3.6", "3.7": "etcd", "3.7.1": "etcd", "3.5.30": "etcd-3.5.30", "main": "etcd-main"}.items():
        assert chosen("etcd", which) == str(etcds[name]), which
    assert chosen("etcd", str(installed)) == str(installed)
    assert chosen("kube-apiserver", "1.37") == chosen("kube-apiserver", "1.37.0-rc.1") == str(kube)
    assert chosen("kube-apiserver", "1.20") == str(old_kube)
    for server, which in [("etcd", "3.8"), ("etcd", "3.7.2"), ("etcd", "nonsense"), ("kube-apiserver", "1.3"), ("kube-apiserver", "main")]:
        assert chosen(server, which).startswith(f"server-program: there is no {server} {which} in {newest}"), which
    for which in ("", "--help", "./nothing"):
        assert chosen("etcd", which).startswith("server-program: "), which
    assert chosen("kubelet", "1.37").startswith("server-program: name etcd or kube-apiserver")


def test_flags_have_the_names_of_the_servers_version():
    argv = ["etcd", "--name", "experimental", "--experimental-watch-progress-notify-interval", "1s"]
    assert named_as_in((3, 5, 30), argv) == named_as_in((3, 4, 23), argv) == argv
    assert named_as_in((3, 6, 0), argv)[3] == named_as_in((3, 8, 0), argv)[3] == "--watch-progress-notify-interval"
    assert named_as_in((3, 7, 1), argv)[:3] == argv[:3]


@pytest.mark.parametrize("tool", ["kubectl", "old-etcd", "node-packages", "go-root", "test-tools"])
def test_tool_looks_into_the_cache_folder_of_tests(tool, tmp_path):
    """An empty one has nothing, whatever belfryd's has."""
    (tmp_path / "belfry" / "kubectl" / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "belfry" / "kubectl" / "usr" / "bin" / "kubectl").touch(mode=0o755)
    done = subprocess.run(["bash", os.path.join(TOOLS, tool), "--check"], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
                          capture_output=True, timeout=30)
    assert done.returncode == 1, done
    assert [p.name for p in tmp_path.iterdir()] == ["belfry"]
