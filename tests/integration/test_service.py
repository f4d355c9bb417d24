"""The installed service: what its unit says is run as systemd would run it."""
import os
import shlex
import socket
import subprocess

import procs
import pytest
from client import BIN
from ports import free_port

BUILD = os.path.abspath(os.path.join(BIN, ".."))
READY_S = 30


def install(prefix, root=None):
    """`cmake --install`; says what it has put where."""
    env = {**os.environ, **({"DESTDIR": str(root)} if root else {})}
    return procs.run(["cmake", "--install", BUILD, "--prefix", str(prefix)], env=env, timeout=120).stdout.decode()


def exec_start(root):
    """The command of the unit below `root`, in words."""
    unit, = root.glob("**/systemd/system/belfryd.service")
    line, = (line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.removeprefix("ExecStart="))


def notified(notify, wanted):
    """Waits until the service manager hears a line."""
    notify.settimeout(READY_S)
    heard = []
    while wanted not in heard:
        heard += notify.recv(4096).decode().split("\n")


def test_installed_command_starts_with_the_installed_configuration(cluster, tmp_path):
    install(tmp_path)
    argv = exec_start(tmp_path)
    config = tmp_path / "etc" / "belfry" / "belfryd.yaml"
    assert argv[0] == str(tmp_path / "sbin" / "belfryd") and argv[-1] == str(config)
    own = (f"upstream: [{cluster.members[0].url}]\nlisten: [http://127.0.0.1:{free_port()}]\n"
           f"admin: http://127.0.0.1:{free_port()}\nname: as-installed\n")
    config.write_text(config.read_text() + own)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(tmp_path / "log", "wb") as log:
        notify.bind(str(tmp_path / "notify"))
        env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(tmp_path / "notify"),
               "CACHE_DIRECTORY": str(tmp_path / "cache")}
        proc = procs.spawn(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            notified(notify, "READY=1")
        except TimeoutError:
            raise AssertionError(f"status {proc.poll()}: {(tmp_path / 'log').read_text()}") from None
        proc.terminate()
        assert proc.wait(40) == 0
    assert "name=as-installed" in (tmp_path / "log").read_text()

    assert f"Kept: {config}" in install(tmp_path)
    assert config.read_text().endswith(own)


@pytest.mark.parametrize("prefix,folder", [("/usr", "/etc/belfry"), ("/usr/local", "/usr/local/etc/belfry"),
                                           ("/opt/belfry", "/etc/opt/belfry/belfry")])
def test_unit_names_files_where_they_were_installed(tmp_path, prefix, folder):
    install(prefix, tmp_path)
    program, flag, config = exec_start(tmp_path)
    assert (program, flag, config) == (f"{prefix}/sbin/belfryd", "--config", f"{folder}/belfryd.yaml")
    for path in (program, config):
        assert os.path.isfile(f"{tmp_path}{path}"), path
