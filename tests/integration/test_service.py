"""The service: the installed unit, run as systemd would run it, and --check-config, which tries what a start would."""
import os
import shlex
import signal
import socket
import subprocess

import procs
import pytest
from certs import Certs
from client import BIN, binary
from ports import free_port

BUILD = os.path.abspath(os.path.join(BIN, ".."))
READY_S = 30


def install(prefix, root=None):
    """`cmake --install`; says what it has put where."""
    env = {**os.environ, **({"DESTDIR": str(root)} if root else {})}
    return procs.run(["cmake", "--install", BUILD, "--prefix", str(prefix)], env=env, timeout=120).stdout.decode()


def command(root, name):
    """A command of the unit below `root`, in words."""
    unit, = root.glob("**/systemd/system/belfryd.service")
    line, = (line for line in unit.read_text().splitlines() if line.startswith(f"{name}="))
    return shlex.split(line.removeprefix(f"{name}="))


def exec_start(root):
    return command(root, "ExecStart")


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
        config.write_text(config.read_text() + "log-level: debug\n")
        procs.run([word.replace("$MAINPID", str(proc.pid)) for word in command(tmp_path, "ExecReload")], timeout=10)
        procs.wait_until(lambda: "log-level: info -> debug" in (tmp_path / "log").read_text(), 10)
        proc.terminate()
        assert proc.wait(40) == 0
    assert "name=as-installed" in (tmp_path / "log").read_text()

    assert f"Kept: {config}" in install(tmp_path)
    assert config.read_text().endswith(own + "log-level: debug\n")


@pytest.mark.parametrize("prefix,folder", [("/usr", "/etc/belfry"), ("/usr/local", "/usr/local/etc/belfry"),
                                           ("/opt/belfry", "/etc/opt/belfry/belfry")])
def test_unit_names_files_where_they_were_installed(tmp_path, prefix, folder):
    install(prefix, tmp_path)
    program, flag, config = exec_start(tmp_path)
    assert (program, flag, config) == (f"{prefix}/sbin/belfryd", "--config", f"{folder}/belfryd.yaml")
    for path in (program, config):
        assert os.path.isfile(f"{tmp_path}{path}"), path


def check_config(folder, *flags):
    """(status, what was printed), with addresses, rights and a cache folder that a start could use."""
    usable = ["--listen", f"http://127.0.0.1:{free_port()},rights=open", "--admin", f"http://127.0.0.1:{free_port()}",
              "--cache-dir", str(folder / "not" / "there" / "yet")]
    done = procs.run([binary("belfryd"), *usable, "--check-config", *flags], check=False, timeout=30)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_check_config_ends_with_2_for_what_a_start_could_not_use(tmp_path):
    certs = Certs(tmp_path / "certs")
    junk, empty = tmp_path / "junk.pem", tmp_path / "empty"
    junk.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    empty.touch()
    before = sorted(tmp_path.rglob("*"))

    def listen(cert="server.pem", key="server.key", ca="ca.pem"):
        files = [os.path.join(certs.folder, name) for name in (cert, key, ca)]
        return "--listen", "https://127.0.0.1:{},cert={},key={},client-ca={}".format(free_port(), *files)
    upstream = "--upstream", "https://127.0.0.1:1", "--upstream-cacert", certs.path("ca.pem")
    user = "--upstream-user", "belfry", "--upstream-password-file"
    assert check_config(tmp_path, *listen(), *upstream)[0] == 0
    for flags in (listen(cert=junk), listen(cert="missing"), listen(key="client.key"), listen(ca=empty),
                  (*upstream, "--upstream-cacert", str(junk)),
                  (*upstream, "--upstream-cert", certs.path("client.pem"), "--upstream-key", certs.path("server.key")),
                  (*user, str(tmp_path / "missing")), (*user, str(empty)), ("--cache-dir", str(junk / "cache")),
                  ("--admin", f"unix://{tmp_path}/missing/socket"), ("--resources", str(junk)),
                  ("--listen", "http://192.0.2.7:23790", "--insecure-listen")):
        status, said = check_config(tmp_path, *flags)
        assert status == 2 and "belfryd: --" in said and "configuration ok" not in said, (flags, said)
    assert sorted(tmp_path.rglob("*")) == before  # nothing was made


def test_check_config_of_a_running_tier_warns_of_its_own_address(tier, tmp_path):
    status, said = check_config(tmp_path, "--admin", f"http://127.0.0.1:{tier.admin_port}", "--cache-dir", tier.cache)
    assert status == 0 and said.count("another process listens there") == 1 and said.endswith("configuration ok\n"), said
    assert tier.get("/readyz")[0] == 200


def test_hangup_never_ends_it(cluster, make_tier):
    tier = make_tier(cluster, "--drain", "2s", wait=False)
    hangups = 0

    def hangup_while(going_on):
        nonlocal hangups
        while going_on() and hangups < 20000:
            os.kill(tier.pid, signal.SIGHUP)
            hangups += 1
    procs.wait_until(lambda: "event=start " in tier.log(), 10, 0.001)
    hangup_while(lambda: tier.is_running() and tier.get("/readyz")[0] != 200)  # while it starts
    before = len(tier.log())

    def is_logged():  # while it serves; lines that come too fast are held back for a moment
        os.kill(tier.pid, signal.SIGHUP)
        return "level=info event=signal name=SIGHUP" in tier.log()[before:]
    procs.wait_until(is_logged, 10, 0.5)
    assert tier.is_running() and tier.get("/readyz")[0] == 200
    os.kill(tier.pid, signal.SIGTERM)
    hangup_while(tier.is_running)  # while it drains and ends
    assert tier.proc.wait(10) == 0, tier.log()[-2000:]
    assert hangups > 10
