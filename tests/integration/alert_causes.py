"""The real cause of each alert of packaging/prometheus/belfry.rules.yml, on a tree of two tiers under a real etcd.

A cause is a generator: it builds a tree that is well, yields it, makes the trouble, yields, and mends it again. Where the trouble
must go on while Prometheus looks, it runs beside (Bed.beside)."""
import contextlib
import os
import socket
import subprocess
import threading
import time

import hostile
import held_thread
import procs
import rawh2
from certs import Certs
from client import binary, write
from hostile import text
from ports import free_port
from proxy import Proxy
from test_damage import data_file

CAUSES = {}


class Cause:
    def __init__(self, what, make, scrape_s):
        self.what, self.make, self.scrape_s = what, make, scrape_s


def cause_of(alert, what, scrape_s=1):
    def note(function):
        CAUSES[alert] = Cause(what, function, scrape_s)
        return function
    return note


class Bed:
    """What causes are made of."""

    def __init__(self, make_cluster, make_tier, tmp_path):
        self.make_cluster, self.make_tier, self.tmp_path = make_cluster, make_tier, tmp_path
        self.prometheus = None  # there when the tree is well
        self.ends = contextlib.ExitStack()

    def tree(self, *flags, leaf_flags=(), proxied=False, **kw):
        """Root and leaf; `proxied`: with a way between them that can be cut."""
        self.cluster = self.make_cluster()
        self.cluster.put("/alerts/key", "value")
        self.root = self.make_tier(self.cluster, "--name", "root", *flags, **kw)
        upstream = self.root.url
        if proxied:
            self.proxy = Proxy(self.root.endpoint)
            self.ends.callback(self.proxy.close)
            upstream = self.proxy.url
        self.leaf = self.make_tier(upstream, "--name", "leaf", *leaf_flags)
        return [self.root, self.leaf]

    @contextlib.contextmanager
    def beside(self, work):
        """work() is repeated in a thread of its own until the end."""
        over, faults = threading.Event(), []

        def run():
            try:
                while not over.is_set():
                    work()
            except BaseException as e:
                faults.append(e)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        assert not faults, faults


@cause_of("BelfryDown", "a tier is killed (SIGKILL)")
def tier_is_killed(bed):
    yield bed.tree()
    bed.leaf.kill()
    yield
    bed.leaf.start()


@cause_of("BelfryRestarting", "a tier is killed and started three times")
def tier_is_restarted(bed):
    yield bed.tree()
    for _ in range(3):
        bed.leaf.kill()
        bed.leaf.start()
        bed.prometheus.wait_scraped(bed.leaf)
    yield


@cause_of("BelfryUpstreamLost", "etcd is killed")
def etcd_is_killed(bed):
    yield bed.tree()
    bed.cluster.members[0].kill()
    yield
    bed.cluster.members[0].restart()


@cause_of("BelfryAuthOff", "auth is turned off in etcd, and the tier's listener has rights=upstream")
def auth_is_turned_off(bed):
    bed.cluster = bed.make_cluster()
    for args in (("user", "add", "root:root"), ("user", "grant-role", "root", "root"), ("auth", "enable")):
        bed.cluster.ctl(*args)
    password = bed.tmp_path / "password"
    password.write_text("root\n")
    bed.root = bed.make_tier(bed.cluster, "--upstream-user", "root", "--upstream-password-file", str(password),
                             "--rights-period", "2s", rights="upstream")
    yield [bed.root]
    bed.cluster.ctl("--user", "root:root", "auth", "disable")
    yield
    bed.cluster.ctl("auth", "enable")


@cause_of("BelfryLinkUnstable", "the connection between root and leaf is cut seven times")
def link_is_cut_again_and_again(bed):
    yield bed.tree(proxied=True)

    def is_cut():
        bed.proxy.cut()
        return bed.leaf.metrics()["belfry_upstream_losses_total"] >= 7
    procs.wait_until(is_cut, 60, 0.3, "it is lost seven times")
    yield


@cause_of("BelfryLagging", "the link between root and leaf carries 20 kB/s, and etcd is written faster")
def link_is_slow(bed):
    yield bed.tree(proxied=True)
    bed.proxy.rate = 20_000
    with bed.beside(lambda: write(bed.cluster.endpoints, "mode=put", "prefix=/alerts/", "count=40", "size=4000")):
        yield
    bed.proxy.rate = 0


@cause_of("BelfryRelisted", "etcd compacts while a tier is away, past all that the tier has")
def etcd_compacts_meanwhile(bed):
    yield bed.tree()
    bed.root.kill()
    write(bed.cluster.endpoints, "mode=put", "prefix=/alerts/", "count=50")
    bed.cluster.compact(bed.cluster.revision())
    bed.root.start()
    yield


@cause_of("BelfryReplicaDamaged", "bits are flipped in a tier's replica while it is down")
def replica_is_damaged(bed):
    yield bed.tree()
    bed.leaf.kill()
    with open(data_file(bed.leaf.cache), "r+b") as f:
        data = f.read()
        f.seek(len(data) // 2)
        f.write(bytes(byte ^ 0x55 for byte in data[len(data) // 2:]))
    bed.leaf.start()
    yield


@cause_of("BelfryDiskTrouble", "the disk under the replica is full")
def disk_is_full(bed):
    disk = bed.tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True, capture_output=True)
    bed.ends.callback(lambda: subprocess.run(["umount", "-l", str(disk)], check=False))
    tiers = bed.tree()
    bed.leaf.kill()
    bed.leaf.cache = str(disk / "cache")
    bed.leaf.start()
    yield tiers
    with open(disk / "filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"\0" * 4096)
    bed.cluster.put("/alerts/large", "x" * 20000)  # more than the free pages of the file take
    yield
    os.unlink(disk / "filler")


@cause_of("BelfryPoolFull", "a client holds 95 of the 100 watchers that all clients may have")
def pool_is_full(bed):
    yield bed.tree("--workers", "1", "--max-watchers", "100", "--client-share", "99")
    peer = rawh2.Connection(bed.root.port, window=1 << 20)
    stream = peer.open(hostile.WATCH, text(1, text(1, b"/alerts/0")))
    for i in range(1, 95):
        peer.send(rawh2.frame(rawh2.DATA, 0, stream, rawh2.message(text(1, text(1, b"/alerts/%d" % i)))))
    yield
    peer.close()


@cause_of("BelfryDescriptorsShort", "a tier with 128 descriptors gets more connections than these allow")
def descriptors_are_used_up(bed):
    limited = bed.tmp_path / "belfryd-limited"
    limited.write_text(f"#!/bin/sh\nulimit -n 128\nexec {binary('belfryd')} \"$@\"\n")
    limited.chmod(0o755)
    yield bed.tree("--client-share", "100", program=str(limited))  # all connections are of one client

    def connect():
        with contextlib.ExitStack() as opened:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    opened.enter_context(socket.create_connection(("127.0.0.1", bed.root.port), 5))
            time.sleep(1)
    with bed.beside(connect):
        yield


@cause_of("BelfryWorkerStuck", "a worker thread hangs (held by ptrace)", scrape_s=4)  # the tier waits 2 s for its numbers
def worker_hangs(bed):
    yield bed.tree("--workers", "2")
    with held_thread.held(held_thread.threads(bed.root.pid, "belfry-worker")[0]):
        yield


@cause_of("BelfryDeliverySlow", "the workers get no processor for 1.5 s of every 2 s (held by ptrace)")
def workers_are_starved(bed):
    yield bed.tree("--workers", "1")
    worker = held_thread.threads(bed.root.pid, "belfry-worker")[0]

    def starve():
        with held_thread.held(worker):
            bed.cluster.put("/alerts/key", "late")
            time.sleep(1.5)
        time.sleep(0.5)
    with bed.beside(starve):
        yield


def sign(certs, days):
    """A new server certificate in the place of the old one."""
    fresh = certs.path("fresh.pem")
    procs.run(["openssl", "x509", "-req", "-in", certs.path("server.csr"), "-CA", certs.path("ca.pem"), "-CAkey",
               certs.path("ca.key"), "-CAcreateserial", "-days", str(days), "-extfile", certs.path("server.ext"), "-out", fresh])
    os.replace(fresh, certs.path("server.pem"))


@cause_of("BelfryCertificateExpires", "a listener's certificate is replaced by one of two days")
def certificate_is_short(bed):
    certs = Certs(bed.tmp_path / "certs")
    sign(certs, 90)
    bed.cluster = bed.make_cluster()
    bed.root = bed.make_tier(bed.cluster, "--listen",
                             f"https://127.0.0.1:{free_port()},cert={certs.path('server.pem')},key={certs.path('server.key')}")
    yield [bed.root]
    sign(certs, 2)
    yield
    sign(certs, 90)
