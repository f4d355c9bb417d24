"""What belfryd gives up before it serves anyone, seen from outside; and cache folders that it does not trust."""
import os
import pathlib
import subprocess

import pytest
from belfryd import Belfryd
from client import binary

EXIT_FAILED, EXIT_USAGE = 1, 2


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def threads_of(pid):
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


@pytest.fixture
def tier(cluster, tmp_path):
    def make(*flags):
        return Belfryd(tmp_path, cluster.members[0].url, flags).start()
    return make


def test_every_thread_is_hardened_and_serves(tier, cluster):
    belfryd = tier()
    threads = threads_of(belfryd.pid)
    assert len(threads) > 1
    for thread in threads:
        status = status_of(thread)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), thread
    assert os.stat(f"/proc/{belfryd.pid}/mem").st_uid == 0  # as for every process that is not dumpable
    assert "hardened no_new_privs=yes not_dumpable=yes" in belfryd.log().replace("event=", "")
    cluster.put("/hard", "1")
    done = subprocess.run(["etcdctl", "--endpoints", belfryd.endpoint, "get", "/hard", "--print-value-only"],
                          capture_output=True, text=True, timeout=20, env={**os.environ, "ETCDCTL_API": "3"})
    assert done.stdout.strip() == "1", done.stderr
    assert belfryd.stop() == 0


def test_it_can_be_switched_off(tier):
    belfryd = tier("--harden=false")
    status = status_of(belfryd.pid)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("0", "0")
    assert "filter=no" in belfryd.log()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be warned of being root")
def test_root_is_warned(tier):
    assert "runs_as_root" in tier().log()


def refusal(cluster, cache, *flags):
    done = subprocess.run([binary("belfryd"), "--upstream", cluster.members[0].url, "--cache-dir", cache,
                           "--listen", f"unix://{cache}.sock", "--admin", f"unix://{cache}.admin", *flags],
                          capture_output=True, text=True, timeout=20)
    return done.returncode, done.stderr


def test_a_cache_folder_that_others_may_write_to_is_refused(cluster, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    for flags, wanted in (([], EXIT_FAILED), (["--check-config"], EXIT_USAGE)):
        code, said = refusal(cluster, str(cache), *flags)
        assert code == wanted and "others may write to it: chmod go-w it" in said, (code, said)
    assert list(cache.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_folder_of_another_user_is_refused(cluster, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    os.chown(cache, 65534, 65534)
    code, said = refusal(cluster, str(cache))
    assert code == EXIT_FAILED and "belongs to another user" in said, (code, said)
