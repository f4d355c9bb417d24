"""Real etcd members in temporary folders, and what a test does to them."""
import base64
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request

import procs
from ports import free_port

PROGRAM = os.environ.get("BELFRY_ETCD") or "etcd"  # the server of all tests that need no certain one
START_TIMEOUT = 30
# A lone member elects itself. With etcd's own second it would do so a second after each start; nothing can outvote it meanwhile.
LONE = ["--heartbeat-interval", "10", "--election-timeout", "100"]
PATIENT = ["--command-timeout", "60s", "--dial-timeout", "30s"]  # of etcdctl, whose own 5 s and 2 s a busy machine exceeds


@functools.cache
def version_of(program=PROGRAM):
    """(major, minor, patch)"""
    said = procs.run([program, "--version"]).stdout.decode()
    return tuple(int(n) for n in re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", said).groups())


def named_as_in(version, argv):
    """With the names that flags have in that version: tests use those of 3.5. From 3.6 on they are no longer experimental."""
    return [arg.replace("--experimental-", "--", 1) for arg in argv] if version >= (3, 6) else argv


class Member:
    """One etcd process and the place it lives in; the process comes and goes, the place stays."""

    def __init__(self, cluster, index, name, client_host, client_port, peer_host, peer_port, ns):
        self.cluster, self.index, self.name, self.ns = cluster, index, name, ns
        self.client_host, self.client_port = client_host, client_port
        self.peer_url = f"http://{peer_host}:{peer_port}"
        self.data_dir = os.path.join(cluster.folder, f"{name}.etcd")
        self.log_path = os.path.join(cluster.folder, f"{name}.log")
        self.proc = None
        self.stopped = False
        self._id = None

    @property
    def endpoint(self):
        return f"{self.client_host}:{self.client_port}"

    @property
    def url(self):
        return f"{self.cluster.scheme}://{self.endpoint}"

    def start(self, state="new", client_port=None, wait=True):
        if client_port is not None:
            self.client_port = client_port
        c = self.cluster
        argv = [c.binary, "--name", self.name, "--data-dir", self.data_dir,
                "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                "--initial-cluster", c.initial_cluster, "--initial-cluster-token", c.token,
                "--initial-cluster-state", state, "--unsafe-no-fsync", "--log-level", "error",
                "--experimental-watch-progress-notify-interval", c.progress_interval,
                "--quota-backend-bytes", str(8 << 30), "--bcrypt-cost", "4",
                *(LONE if len(c.members) == 1 else []), *c.flags]
        argv = named_as_in(c.version, argv)
        with open(self.log_path, "ab") as log:
            self.proc = procs.spawn(argv, ns=self.ns, stdin=subprocess.DEVNULL, stdout=log, stderr=log, keep=c.keep)
        self.stopped = False
        if wait:
            self.wait_healthy()

    def is_running(self):
        return self.proc is not None and self.proc.poll() is None

    def wait_healthy(self, timeout=START_TIMEOUT):
        def healthy():
            if not self.is_running():
                raise AssertionError(f"etcd {self.name} exited: {self.log_tail()}")
            return self.cluster.ctl("endpoint", "health", member=self, check=False).returncode == 0
        procs.wait_until(healthy, timeout, 0.05, lambda: f"etcd {self.name} healthy: {self.log_tail()}")

    def log_tail(self):
        with open(self.log_path, "rb") as f:
            return f.read()[-1500:].decode(errors="replace")

    def kill(self):
        """SIGKILL, stopped or not."""
        if self.proc is not None:
            procs.end(self.proc)
        self.proc, self.stopped = None, False

    def stop(self):
        os.kill(self.proc.pid, signal.SIGSTOP)
        self.stopped = True

    def cont(self):
        if self.is_running():
            os.kill(self.proc.pid, signal.SIGCONT)
        self.stopped = False

    def restart(self, **kw):
        self.start(state="existing", **kw)

    def status(self):
        """The Status answer as a dict, or None when it does not come."""
        done = self.cluster.ctl("endpoint", "status", "-w", "json", member=self, check=False)
        try:
            return json.loads(done.stdout)[0]["Status"] if done.returncode == 0 else None
        except (ValueError, IndexError, KeyError):
            return None

    @property
    def id(self):
        """The member id; asked for once, since it never changes."""
        if self._id is None:
            self._id = self.status()["header"]["member_id"]
        return self._id

    def metric(self, name):
        """A number from /metrics; plain-text members on loopback only."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise AssertionError(f"no metric {name}")


class Cluster:
    """n members; on loopback with free ports, or each in a namespace of `net`."""

    def __init__(self, folder, n=1, net=None, flags=(), token="belfry-test", tls=None, progress_interval="1s",
                 keep=False, binary=PROGRAM):
        self.folder, self.net, self.flags, self.token, self.tls = str(folder), net, list(flags), token, tls
        self.progress_interval = progress_interval
        self.binary, self.version = binary, version_of(binary)
        self.keep = keep  # outlives the test that started it; close() ends it
        self.scheme = "https" if tls else "http"
        self.auth = None  # (user, password) for etcdctl once auth is on
        self.ns = net.hub if net else None
        self.members = []
        for i in range(n):
            name = f"m{i}"
            if net:
                m = Member(self, i, name, net.client_host(i), 2379, net.peer_host(i), 2380, net.members[i])
            else:
                m = Member(self, i, name, "127.0.0.1", free_port(), "127.0.0.1", free_port(), None)
            self.members.append(m)
        self.initial_cluster = ",".join(f"{m.name}={m.peer_url}" for m in self.members)
        if tls:
            self.flags += tls.server_flags()

    def start(self):
        for m in self.members:
            m.start(wait=False)
        for m in self.members:
            m.wait_healthy()
            m._id = None  # data may be new: another cluster has other ids
        for m in self.members:
            m.id
        return self

    def close(self):
        for m in self.members:
            m.kill()

    def forget(self):
        """Throws the data away; to be started again as another cluster, or after a restore."""
        for m in self.members:
            m.kill()
            shutil.rmtree(m.data_dir, ignore_errors=True)

    @property
    def endpoints(self):
        return ",".join(m.url for m in self.members)

    def ctl(self, *args, member=None, timeout=90, check=True, **kw):
        """etcdctl; bytes in and out. Who can bear a failure gets it soon."""
        usable = [m for m in self.members if m.is_running() and not m.stopped] or self.members
        endpoints = member.endpoint if member else ",".join(m.endpoint for m in usable)
        argv = ["etcdctl", "--endpoints", endpoints]
        argv += PATIENT if check else ["--command-timeout", "10s", "--dial-timeout", "10s"]
        if self.tls:
            argv += self.tls.ctl_flags()
        if self.auth:
            argv += ["--user", ":".join(self.auth)]
        for left in (2, 1, 0):
            try:
                return procs.run(argv + list(args), ns=self.ns, timeout=timeout, check=check, **kw)
            except AssertionError as error:
                # Once in some thousand calls etcd 3.5 denies root, and a moment later it does not. Nothing is between it and us.
                if left == 0 or not self.auth or self.auth[0] != "root" or "permission denied" not in str(error):
                    raise
                print("etcd denied root:", error, flush=True)
                time.sleep(0.2)

    def ctl_retry(self, *args, tries=20, **kw):
        """For commands that may meet an election; they must be harmless to repeat."""
        for left in range(tries, 0, -1):
            done = self.ctl(*args, check=left == 1, **kw)
            if done.returncode == 0:
                return done
            time.sleep(0.5)

    def put(self, key, value, *flags, **kw):
        """The revision of the put. Like all writes here it is repeated when an election came between."""
        out = self.ctl_retry("put", "-w", "json", *flags, "--", key, value, **kw).stdout
        return json.loads(out)["header"]["revision"]

    def delete(self, key, *flags, **kw):
        out = self.ctl_retry("del", "-w", "json", *flags, "--", key, **kw).stdout
        return json.loads(out)["header"]["revision"]

    def revision(self, member=None):
        """The revision that a linearizable read sees."""
        out = self.ctl_retry("get", "-w", "json", "revision-probe", member=member).stdout
        return json.loads(out)["header"]["revision"]

    def outlast_leases(self, probe, member=None):
        """Returns when no lease is left, so that nothing but the test itself writes from then on.

        A member lists the leases that it knows of, and one that is behind does not know the newest: the put of `probe`
        brings it up to date first. What was expired is then in the store, and before anything written later."""
        member = member or next(m for m in self.members if m.is_running() and not m.stopped)
        self.put(probe, "leases", member=member)
        procs.wait_until(lambda: b"found 0 leases" in self.ctl_retry("lease", "list", member=member).stdout, 60, 0.5,
                         "leases expired")

    def compact(self, rev):
        self.ctl("compaction", str(rev))

    def state(self, prefix=""):
        """key -> (value, mod revision), both keys and values as bytes, by etcdctl."""
        out = self.ctl_retry("get", "--prefix", "-w", "json", "--", prefix, timeout=120).stdout
        kvs = json.loads(out).get("kvs", [])
        return {base64.b64decode(kv["key"]): (base64.b64decode(kv.get("value", "")), kv["mod_revision"]) for kv in kvs}

    def leader(self):
        """The member that leads, or None."""
        for m in self.members:
            if m.is_running() and not m.stopped:
                s = m.status()
                if s and s.get("leader"):
                    return self.member_by_id(s["leader"])
        return None

    def member_by_id(self, member_id):
        return next((m for m in self.members if m.id == member_id), None)

    def move_leader_off(self, member):
        if self.leader() is not member:
            return
        other = next(m for m in self.members if m is not member and m.is_running())
        target = format(other.id, "x")
        self.ctl("move-leader", target, member=member)
        procs.wait_until(lambda: self.leader() is other, 10, 0.1, "leader moved")
