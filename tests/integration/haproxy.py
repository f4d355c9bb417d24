"""A balancer in front of tiers or API servers: HAProxy, which passes bytes on and may name its clients by the PROXY protocol."""
import os
import shutil
import socket
import subprocess

import needs
import procs
from ports import free_port

CONFIG = """global
    maxconn 2000
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
frontend clients
    bind 127.0.0.1:{port}
    default_backend tiers
backend tiers
    balance roundrobin
{servers}
"""


class Balancer:
    """`targets`: each HOST:PORT, or unix@PATH; connections go to them in turn. `options`: of its servers; send-proxy-v2 names
    clients."""

    def __init__(self, folder, *targets, options="send-proxy-v2"):
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            needs.missing("haproxy: tools/bootstrap installs it")
        self.port = free_port()
        path = os.path.join(str(folder), f"haproxy-{self.port}.cfg")
        with open(path, "w") as f:
            servers = "\n".join(f"    server s{i} {target} {options} check inter 100ms" for i, target in enumerate(targets))
            f.write(CONFIG.format(port=self.port, servers=servers))
        self.proc = procs.spawn([program, "-db", "-f", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        procs.wait_until(self._listens, 10, 0.05, lambda: f"HAProxy on port {self.port}")

    def _listens(self):
        assert self.proc.poll() is None, f"HAProxy exited with {self.proc.returncode}"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def close(self):
        procs.end(self.proc)
