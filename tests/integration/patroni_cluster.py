"""Patroni with PostgreSQL, as Debian has them: the nodes of one cluster, on loopback. Each node is a process tree with numbers of its
own, so that a SIGKILL takes Patroni and PostgreSQL at the same moment, as a power cut would."""
import glob
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import debian
import needs
import procs
import yaml
from ports import free_port

TTL_S, LOOP_S, RETRY_S = 20, 2, 6  # Patroni asks that the first is at least LOOP_S + 2 * RETRY_S
START_TIMEOUT = 120
PLACE = "/mnt"  # the test's folder in the root


def root_of(suite):
    """A root of that suite with Patroni and PostgreSQL. Nobody writes into it: nodes have the test's own folder."""
    if os.geteuid() != 0:
        needs.missing("the right to use chroot")
    return debian.tool("gateway-clients", suite)


def version_of(root, package):
    out = subprocess.run(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f=${Version}", package],
                         capture_output=True, text=True, check=True)
    return out.stdout


def descendants(pid):
    found, left = [], [pid]
    while left:
        pid = left.pop()
        found.append(pid)
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                left += map(int, f.read().split())
        except OSError:
            pass
    return found


class Node:
    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.api_port, self.sql_port = free_port(), free_port()
        self.proc = None
        self.log_path = os.path.join(cluster.folder, f"{name}.log")
        with open(os.path.join(cluster.folder, f"{name}.yml"), "w") as f:
            yaml.safe_dump(self._config(), f)

    def _config(self):
        place, api, sql = f"{PLACE}/{self.name}", f"127.0.0.1:{self.api_port}", f"127.0.0.1:{self.sql_port}"
        return {
            "scope": "belfry", "name": self.name,
            "restapi": {"listen": api, "connect_address": api},
            "etcd3": {"hosts": self.cluster.endpoints},
            "bootstrap": {
                "dcs": {"ttl": TTL_S, "loop_wait": LOOP_S, "retry_timeout": RETRY_S, "maximum_lag_on_failover": 1 << 20,
                        "postgresql": {"use_pg_rewind": True, "parameters": {"wal_keep_size": "64MB"}}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]},
            "postgresql": {
                "listen": sql, "connect_address": sql, "data_dir": f"{place}/data", "bin_dir": self.cluster.bin_dir, "pgpass": f"{place}/pgpass",
                "authentication": {"superuser": {"username": "postgres", "password": "p"}, "replication": {"username": "replicator", "password": "r"},
                                   "rewind": {"username": "rewinder", "password": "w"}},
                "parameters": {"unix_socket_directories": place, "fsync": "off", "shared_buffers": "16MB", "max_connections": 20}}}

    def start(self):
        place = os.path.join(self.cluster.folder, self.name)
        os.makedirs(place, exist_ok=True)
        os.chmod(place, 0o700)
        os.chown(place, self.cluster.uid, self.cluster.uid)
        root = self.cluster.root
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc", *self.cluster.inside("patroni"),
                f"{PLACE}/{self.name}.yml"]
        with open(self.log_path, "ab") as log:
            self.proc = procs.spawn(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def kill(self):
        procs.end(self.proc)

    def is_running(self):
        return self.proc is not None and self.proc.poll() is None

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def ask(self, path, body=None):
        """(status, text) of its REST API; status 0: no answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.api_port}{path}", body and json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def peers(self):
        """Ports that Patroni and its PostgreSQL are connected to."""
        ports = set()
        for pid in descendants(self.proc.pid):
            try:
                ports |= {port for _, port in procs.connections(pid)}
            except OSError:
                pass  # it has ended
        return ports

    def sql(self, command):
        done = procs.run([*self.cluster.inside("psql"), "-XAtq", "-h", "127.0.0.1", "-p", self.sql_port, "-U", "postgres", "-c", command])
        return done.stdout.decode().strip()


class PatroniCluster:
    def __init__(self, root, folder, endpoints, n=3):
        self.root, self.folder, self.endpoints = root, str(folder), endpoints
        with open(f"{root}/etc/passwd") as f:
            self.uid = int(next(line for line in f if line.startswith("postgres:")).split(":")[2])
        self.bin_dir = sorted(glob.glob(f"{root}/usr/lib/postgresql/*/bin"))[-1][len(root):]
        os.chmod(self.folder, 0o755)
        for what, where in ((self.folder, PLACE), ("/dev/shm", "/dev/shm")):
            os.makedirs(root + where, exist_ok=True)
            subprocess.run(["mount", "--bind", what, root + where], check=True)
        self.nodes = [Node(self, f"n{i}") for i in range(n)]

    def inside(self, program):
        """argv that runs a program in the root, as PostgreSQL's user."""
        return ["chroot", f"--userspec={self.uid}:{self.uid}", self.root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp",
                "PYTHONDONTWRITEBYTECODE=1", program]

    def start(self):
        for node in self.nodes:
            node.start()
        self.wait_whole(START_TIMEOUT)
        return self

    def close(self):
        for node in self.nodes:
            if node.is_running():
                node.kill()
        for where in (PLACE, "/dev/shm"):
            subprocess.run(["umount", "--lazy", self.root + where], check=True)

    def members(self):
        """name -> what a node that answers says of it."""
        for node in self.nodes:
            status, text = node.ask("/cluster") if node.is_running() else (0, "")
            if status == 200:
                return {m["name"]: m for m in json.loads(text)["members"]}
        return {}

    def primary(self):
        """The one node that says it is; None: no node, or more than one."""
        found = [node for node in self.nodes if node.is_running() and node.ask("/primary")[0] == 200]
        return found[0] if len(found) == 1 else None

    def is_whole(self):
        members = self.members()
        running = [node.name for node in self.nodes if node.is_running()]
        roles = sorted(members.get(name, {}).get("role", "") for name in running)
        return (roles == ["leader"] + ["replica"] * (len(running) - 1) and self.primary() is not None
                and all(members[name]["state"] in ("running", "streaming") for name in running)
                and len({members[name].get("timeline") for name in running}) == 1)

    def wait_whole(self, timeout=START_TIMEOUT):
        """One primary, and every node that runs is up and on its timeline."""
        procs.wait_until(self.is_whole, timeout, 0.5, lambda: f"Patroni: {self.members()} {[n.log()[-1500:] for n in self.nodes]}")
        return self.primary()

    def timeline(self):
        return {m.get("timeline") for m in self.members().values()}

    def lines(self, pattern):
        """How many lines of all logs have it."""
        return sum(len(re.findall(pattern, node.log())) for node in self.nodes)

    def turns(self):
        """How often the nodes have gone through their loop."""
        return self.lines(r"no action\.|following|I am \(")
