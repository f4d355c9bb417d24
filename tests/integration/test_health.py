"""belfryctl health, for probes, and belfryctl completion."""
import json
import os
import subprocess
import time

import procs
import pytest
from client import binary
from ports import free_port

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def belfryctl(*args):
    return procs.run([binary("belfryctl"), *args], check=False, text=True)


def health(tier, *args):
    return belfryctl("health", "--admin", f"http://127.0.0.1:{tier.admin_port}", *args)


def test_a_tier_that_follows_is_alive_and_ready(tier):
    done = health(tier)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
    done = health(tier, "--ready")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    assert json.loads(health(tier, "--ready", "--output", "json").stdout) == {"ok": True, "verdict": "ready"}


def test_a_tier_without_upstream_is_alive_and_not_ready_and_says_why(make_tier):
    lone = make_tier(f"http://127.0.0.1:{free_port()}", wait=False)
    procs.wait_until(lambda: health(lone).returncode == 0, 30, 0.05, "belfryd alive")
    done = health(lone, "--ready")
    assert done.returncode == 1 and done.stdout.startswith("not ready: upstream"), done
    assert done.stdout.count("\n") == 1, "a probe's log has one line for it"
    document = json.loads(health(lone, "--ready", "--output", "json").stdout)
    assert document["ok"] is False and "upstream" in document["why"]


def test_wait_asks_until_the_tier_is_ready(cluster, make_tier):
    tier = make_tier(cluster, wait=False)
    done = health(tier, "--ready", "--wait", "30s")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")


def test_wait_ends_with_the_last_answer(make_tier):
    lone = make_tier(f"http://127.0.0.1:{free_port()}", wait=False)
    procs.wait_until(lambda: health(lone).returncode == 0, 30, 0.05, "belfryd alive")
    began = time.monotonic()
    done = health(lone, "--ready", "--wait", "700ms")
    assert done.returncode == 1 and done.stdout.startswith("not ready: upstream") and done.stdout.count("\n") == 1, done
    assert time.monotonic() - began > 0.5
    done = belfryctl("health", "--wait", "300ms", "--admin", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "is a belfryd running?" in done.stderr, "it ends though nobody ever answers"
    assert belfryctl("health", "--wait", "60s", "--admin", "https://127.0.0.1:1").returncode == 2, "wrong usage does not wait"


def test_no_answer_is_exit_1_and_wrong_usage_2():
    done = belfryctl("health", "--admin", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1 and "is a belfryd running?" in done.stderr and done.stdout == ""
    assert belfryctl("health", "--admin", "https://127.0.0.1:1").returncode == 2
    assert belfryctl("health", "-w", "json").returncode == 2


def test_a_server_that_is_no_belfryd_is_not_alive(tmp_path):
    port = free_port()
    procs.spawn(["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)], cwd=tmp_path,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ask = ["health", "--admin", f"http://127.0.0.1:{port}"]
    procs.wait_until(lambda: "answered 404: is that the admin address of a belfryd?" in belfryctl(*ask).stdout, 30)
    assert belfryctl(*ask).returncode == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_is_installed(shell):
    with open(os.path.join(TOP, "packaging", "completion", f"belfryctl.{shell}")) as f:
        assert belfryctl("completion", shell).stdout == f.read()


def test_completion_works_when_bash_sources_it():
    script = (f'source <({binary("belfryctl")} completion bash); COMP_WORDS=(belfryctl completion ""); COMP_CWORD=2; '
              '_belfryctl; echo "${COMPREPLY[*]}"')
    assert procs.run(["bash", "-c", script], text=True).stdout == "bash zsh fish\n"


def test_completion_of_another_shell_is_wrong_usage():
    done = belfryctl("completion", "tcsh")
    assert done.returncode == 2 and "bash, zsh or fish" in done.stderr
