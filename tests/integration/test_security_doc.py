"""docs/security.md: the commands of each set-up are run as they stand there; pages.py says what its blocks mean. A command behind a # is
a server that the reader has already; it is started, too."""
import os
import re
import shlex
import subprocess

import pages
import procs
import pytest
from client import binary
from ports import free_port

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SETUPS = {"users": ["etcd with users"],
          "certificates": ["etcd that trusts certificates, open to readers", "clients with certificates"],
          "certificate users": ["users by certificate"]}
PORTS = ("2379", "23790")


def steps(title):
    """(command, what it prints, whether it must fail)"""
    with open(os.path.join(ROOT, "docs", "security.md")) as f:
        text = f.read().split(f"### Set-up: {title}\n")[1].split("\n## ")[0].split("\n### ")[0]
    return [(command.removeprefix("# "), printed, fails) for command, printed, fails in pages.commands(text)]


class Shell:
    """Runs commands in a folder, on ports of its own; the last belfryd that was started is the one that runs."""

    def __init__(self, folder):
        self.folder, self.tier, self.n_servers = folder, None, 0
        self.ports = {port: str(free_port()) for port in PORTS}
        self.admin = free_port()
        self.env = {"PATH": f"{os.path.dirname(binary('belfryd'))}:{os.environ['PATH']}", "HOME": str(folder), "ETCDCTL_API": "3"}

    def moved(self, command):
        if command.startswith("etcdctl") and "--endpoints" not in command:
            command += " --endpoints 127.0.0.1:2379"
        return re.sub(r":(2379|23790)\b", lambda m: ":" + self.ports[m[1]], command)

    def start(self, command):
        self.n_servers += 1
        with open(self.folder / f"server{self.n_servers}.log", "wb") as log:
            return procs.spawn(["bash", "-c", "exec " + command], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                               stderr=log)

    def log(self):
        return (self.folder / f"server{self.n_servers}.log").read_text(errors="replace")

    def etcd(self, command):
        peer = f"http://127.0.0.1:{free_port()}"
        self.start(f"{self.moved(command)} --data-dir {self.folder}/etcd --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} "
                   f"--initial-cluster default={peer}")
        procs.wait_until(lambda: "ready to serve client requests" in self.log(), 30, 0.1, self.log)

    def belfryd(self, command):
        if self.tier:
            procs.end(self.tier)
        command = self.moved(command.rstrip("& "))
        if " --upstream " not in command:
            command += f" --upstream http://127.0.0.1:{self.ports['2379']}"
        self.tier = self.start(f"{command} --admin http://127.0.0.1:{self.admin} --cache-dir {self.folder}/cache")
        ready = ["curl", "-sf", f"http://127.0.0.1:{self.admin}/readyz"]
        procs.wait_until(lambda: procs.run(ready, check=False).returncode == 0, 30, 0.2, self.log)

    def run(self, command, printed, fails):
        done = procs.run(["bash", "-c", self.moved(command)], env=self.env, cwd=self.folder, timeout=60, check=False)
        out, err = done.stdout.decode(), done.stderr.decode()
        if fails:
            assert done.returncode != 0 and printed[0] in out + err, f"{command}: {done.returncode} {out} {err}"
        else:
            assert done.returncode == 0, f"{command}: {done.returncode} {out} {err}"
            assert not printed or out.splitlines() == printed, f"{command}: {out}"


@pytest.mark.parametrize("titles", SETUPS.values(), ids=SETUPS)
def test_set_up_does_what_the_page_says(tmp_path, titles):
    shell, ran = Shell(tmp_path), []
    for command, printed, fails in (step for title in titles for step in steps(title)):
        words = shlex.split(command)
        ran.append(words[0])
        if words[0] == "etcd":
            shell.etcd(command)
        elif words[0] == "belfryd" and words[-1] == "&":
            shell.belfryd(command)
        else:
            shell.run(command, printed, fails)
    assert "etcd" in ran and "belfryd" in ran and ran.count("etcdctl") >= 3
