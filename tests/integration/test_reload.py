"""systemctl reload: SIGHUP reads the configuration again; what can change without a restart changes, and the log says what."""
import json
import os
import re
import shlex
import signal
import socket
import urllib.error
import urllib.request

import procs
import pytest

NAME = "tier.example"


class Reloaded:
    """A tier with a configuration file, and what each reload logs."""

    def __init__(self, cluster, make_tier, folder, text, *flags, env=None):
        self.file = folder / "belfryd.yaml"
        self.file.write_text(text)
        self.tier = make_tier(cluster, "--config", str(self.file), *flags, env=env)

    def reload(self, text):
        """Replaces the file as an editor does; returns the lines from the signal on."""
        before = len(self.tier.log())
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.file)
        os.kill(self.tier.pid, signal.SIGHUP)
        procs.wait_until(lambda: re.search(r"event=reload(ed|_failed) .*\n", self.tier.log()[before:]), 10)
        return self.tier.log()[before:]

    def ask(self, port, path):
        """The status of a plain request that names the tier as a browser would."""
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": NAME})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code


@pytest.fixture
def reloaded(cluster, make_tier, tmp_path):
    return Reloaded(cluster, make_tier, tmp_path, "log-level: info\nworkers: 2\n")


def test_names_change_for_clients_and_admin(reloaded):
    tier = reloaded.tier
    addresses = ((tier.port, "/health"), (tier.admin_port, "/livez"))
    for text, status, said in (("allowed-hosts: [tier.example]\nworkers: 2\n", 200, "allowed-hosts: none -> tier.example"),
                               ("workers: 2\n", 421, "allowed-hosts: tier.example -> none")):
        assert f'event=reloaded changed="{said}"' in reloaded.reload(text)
        for port, path in addresses * 4:  # connections of all workers
            assert reloaded.ask(port, path) == status, (port, text)


def test_log_level_changes_while_it_runs(reloaded):
    assert 'level=info event=reloaded changed="log-level: info -> debug"' in reloaded.reload("log-level: debug\nworkers: 2\n")
    assert 'event=reloaded changed="log-level: debug -> error"' in reloaded.reload("log-level: error\nworkers: 2\n")
    before = len(reloaded.tier.log())
    assert "level=error event=reload_failed" in reloaded.reload("log-level: loud\n")
    assert "level=info" not in reloaded.tier.log()[before:]


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_quotes_in_a_value_do_not_end_it(cluster, make_tier, tmp_path, form):
    """What a file, a peer or an API server says may have quotes: the line has the pairs that it had without them."""
    reloaded = Reloaded(cluster, make_tier, tmp_path, "log-level: info\n", "--log-format", form)
    before = len(reloaded.tier.log())
    reloaded.file.write_text("log-level: 'lo\"ud n=1'\n")
    os.kill(reloaded.tier.pid, signal.SIGHUP)
    line = procs.wait_until(lambda: re.search(r'.*reload_failed.*\n', reloaded.tier.log()[before:]), 10)[0]
    if form == "json":
        fields = json.loads(line)
    else:
        fields = {name: value for name, value in (pair.split("=", 1) for pair in shlex.split(line))}
    assert set(fields) == {"ts", "level", "event", "why", "hint"}, line
    assert 'lo"ud n=1' in fields["why"] and fields["hint"] == "all settings stay as they were", line


def are_closed(sockets):
    """Do they end within ten seconds?"""
    for sock in sockets:
        sock.settimeout(10)
        try:
            if sock.recv(1) != b"":
                return False
        except TimeoutError:
            return False
    return True


def test_times_change_for_those_who_wait_already(reloaded):
    tier = reloaded.tier
    silent = [socket.create_connection(("127.0.0.1", tier.port)) for _ in range(4)]  # connections of all workers
    procs.wait_until(lambda: tier.metrics()["belfry_connections"] >= 4, 10)
    said = reloaded.reload("workers: 2\ngreet-time: 1h\n")
    assert 'event=reloaded changed="greet-time: 10s -> 1h"' in said and "restart_needed" not in said
    said = reloaded.reload("workers: 2\ngreet-time: 100ms\nmessage-time: 2s\nunread-time: 3s\nidle-time: 4s\n")
    assert ('changed="greet-time: 1h -> 100ms; message-time: 10s -> 2s; unread-time: 1m -> 3s; idle-time: 5m -> 4s"') in said
    assert are_closed(silent)
    assert tier.metrics()['belfry_rejected_total{reason="unfinished_greeting"}'] == 4


def test_other_settings_are_named_and_wait_for_a_restart(reloaded):
    said = reloaded.reload("workers: 3\ndrain: 1s\n")
    assert 'level=warn event=restart_needed settings="workers, drain"' in said
    assert 'event=reloaded changed="nothing"' in said
    assert reloaded.tier.get("/readyz")[0] == 200
    assert "restart_needed" not in reloaded.reload("workers: 2\n")


def test_a_wrong_file_keeps_everything(reloaded):
    said = reloaded.reload("allowed-hosts: [tier.example]\nworkres: 2\n")
    assert f'level=error event=reload_failed why="{reloaded.file}:2: ' in said and "workers" in said, said
    assert "event=reloaded" not in said
    assert reloaded.ask(reloaded.tier.port, "/health") == 421
    reloaded.file.unlink()
    before = len(reloaded.tier.log())
    os.kill(reloaded.tier.pid, signal.SIGHUP)
    procs.wait_until(lambda: "cannot be opened" in reloaded.tier.log()[before:], 10)
    assert reloaded.tier.get("/readyz")[0] == 200
    assert "allowed-hosts: none -> tier.example" in reloaded.reload("allowed-hosts: [tier.example]\nworkers: 2\n")


def test_flags_and_environment_stay_above_the_file(cluster, make_tier, tmp_path):
    for name, flags, env in (("flag", ("--log-level", "info"), None), ("environment", (), {"BELFRYD_LOG_LEVEL": "info"})):
        folder = tmp_path / name
        folder.mkdir()
        reloaded = Reloaded(cluster, make_tier, folder, "log-level: info\n", *flags, env=env)
        said = reloaded.reload("log-level: debug\nallowed-hosts: [tier.example]\n")
        assert 'event=reloaded changed="allowed-hosts: none -> tier.example"' in said
