"""The same informer program on keys of etcd and on a resource of belfryd (with BELFRY_KUBE_PEER=1: of a real kube-apiserver)
through faults: its store is etcd's own content after each of them, nothing it told was wrong, and its counters show that
every way was gone: resumed, listed anew, logged in again.

A bed is one source: its server, its writer, its informer behind a proxy that can be held up and cut, and what can happen to
them. Everything is at stake in each: TLS with a client's certificate, and a password or a token that is asked for."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import needs
import procs
import pytest
from certs import Certs
from client import Writer
from informer import Informer
from kube import BY_PEER, PODS, why_no_peer
from ports import free_port
from proxy import Proxy, server_tls
from test_kube_auth import token
from test_security import READER, ROOT, enable_auth

pytest_plugins = ["kube_fixtures"]

KUBE_WRITER = os.path.join(os.path.dirname(__file__), "kube_writer.py")
KINDS = ["server_killed", "server_stopped", "partitioned", "history_lost", "secret_rotated", "certificates_rotated"]
CATCH_UP_S = 90
RATE = 300  # changes a second


def replace(path, text):
    """As whoever rotates secrets does it: by rename."""
    with open(f"{path}.new", "w") as f:
        f.write(text)
    os.rename(f"{path}.new", path)


class Bed:
    """What all sources have in common. Of a source: start_server, kill_server, pid, forget_history, state, rotate_secret,
    rotate_certificates, start_writer, stop_writer."""

    def __init__(self, folder, cluster, certs, seed, rng, soak):
        self.folder, self.cluster, self.certs = str(folder), cluster, certs
        self.seed, self.rng, self.counts = seed, rng, Counter()
        self.changes, self.slowest = 0, 0.0
        self.stop_s, self.stall_s = (10, 20) if soak else (2.5, 2)
        self.secret = os.path.join(self.folder, "secret")

    def client_tls(self):
        return [f"--{option}" for option in self.certs.options()]

    # writing and judging

    def write(self):
        self.seed += 1
        self.start_writer()

    def judge(self):
        """Nobody writes any more: the store must become what etcd has."""
        self.changes += self.stop_writer()
        began = time.monotonic()
        self.wait_equal()
        self.slowest = max(self.slowest, time.monotonic() - began)
        assert not self.informer.violations(), self.informer.violations()[:5]

    def wait_changes(self, n):
        """So many revisions are written from now on."""
        goal = self.cluster.revision() + n
        procs.wait_until(lambda: self.cluster.revision() >= goal, 60, 0.2, f"{n} changes")

    def do(self, kind):
        getattr(self, kind)()
        self.counts[kind] += 1

    # what can happen

    def server_killed(self):
        self.kill_server()
        time.sleep(self.rng.uniform(0.2, 1))
        self.start_server()

    def server_stopped(self):
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(self.stop_s)
        os.kill(self.pid, signal.SIGCONT)

    def partitioned(self):
        """Nothing comes and nothing goes; then the connections turn out to be gone."""
        self.proxy.stall()
        time.sleep(self.stall_s)
        self.proxy.cut()
        self.proxy.go()

    def history_lost(self):
        """It is away while things change, and when it comes back nobody remembers what it missed."""
        self.proxy.refuse()
        self.wait_changes(100)
        self.forget_history()
        self.wait_changes(50)
        self.proxy.accept()

    def secret_rotated(self):
        self.rotate_secret()

    def certificates_rotated(self):
        """Of the server and of the client, whose files are replaced while it runs."""
        self.proxy.refuse()
        self.rotate_certificates()
        self.proxy.accept()

    def finish(self):
        stats = self.informer.stats()
        self.informer.quit()
        self.proxy.close()
        return stats


class KeysBed(Bed):
    """A prefix of etcd: TLS, client certificates, auth."""

    def __init__(self, folder, make_cluster, seed, rng, soak):
        certs = Certs(os.path.join(folder, "certs"), client_auth=True)
        super().__init__(folder, make_cluster(tls=certs), certs, seed, rng, soak)
        enable_auth(self.cluster)
        self.password = READER[1]
        replace(self.secret, self.password + "\n")
        self.proxy = Proxy(self.cluster.members[0].endpoint)
        self.informer = Informer.of_keys(f"https://{self.proxy.endpoint}", "/a/", f"--user={READER[0]}",
                                         f"--password-file={self.secret}", *self.client_tls())

    @property
    def pid(self):
        return self.cluster.members[0].proc.pid

    def start_server(self):
        self.cluster.members[0].restart()

    def kill_server(self):
        self.cluster.members[0].kill()

    def start_writer(self):
        self.before = self.cluster.revision()
        self.writer = Writer(self.cluster.endpoints, "mode=mix", "prefix=/a/", f"seed={self.seed}", f"rate={RATE}", "size=300",
                             f"--user={':'.join(ROOT)}", *self.client_tls())

    def stop_writer(self):
        self.writer.stop()
        return self.cluster.revision() - self.before

    def wait_equal(self):
        """Keys whose lease runs out go on going: etcd is asked each time."""
        self.informer.wait_keys(lambda: self.cluster.state("/a/"), CATCH_UP_S)

    def forget_history(self):
        self.cluster.compact(self.cluster.revision())

    def rotate_secret(self):
        """A new password ends the tokens of its user; the file is replaced while nobody can come in."""
        self.proxy.refuse()
        self.password += "x"
        self.cluster.ctl("user", "passwd", READER[0], "--interactive=false", input=self.password.encode() + b"\n")
        replace(self.secret, self.password + "\n")
        self.proxy.accept()

    def rotate_certificates(self):
        """etcd reads its files at each handshake. The session has read its own when it was opened, and the authority is
        the same: what it has stays good."""
        self.certs.renew()

    def assert_ways(self, stats):
        assert stats["resumes"] > 0 and stats["losses"] > 0 and stats["relists"] > 0, stats
        assert stats["log_ins"] > 1, stats


class ResourceBed(Bed):
    """The way of belfryd and of kubepeer: a writer of objects, and a store of objects."""

    def start_informer(self):
        self.informer = Informer.of_resource(f"https://{self.proxy.endpoint}", PODS, f"--token-file={self.secret}",
                                             *self.client_tls())

    def writer_auth(self):
        return []

    def start_writer(self):
        self.writer = procs.spawn([sys.executable, KUBE_WRITER, self.cluster.members[0].endpoint, self.seed, 0, RATE,
                                   *self.writer_auth()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def stop_writer(self):
        out, _ = self.writer.communicate(timeout=60)
        procs.end(self.writer)
        return json.loads(out)["done"]

    def wait_equal(self):
        self.informer.wait_store(self.server.expected, CATCH_UP_S)

    def assert_ways(self, stats):
        assert stats["relists"] > 0 and stats["losses"] > 0, stats
        assert stats["watches"] > stats["lists"], f"no watch went on where it was: {stats}"
        assert stats["token_reads"] > 1 and stats["decode_errors"] == 0 and stats["undecoded"] == 0, stats


class TierBed(ResourceBed):
    """belfryd over https with HTTP/2, client certificates, and tokens that etcd is asked about."""

    def __init__(self, folder, make_cluster, make_kube, seed, rng, soak):
        cluster = make_cluster(flags=["--auth-token", "simple", "--auth-token-ttl", "7200"])
        super().__init__(folder, cluster, Certs(os.path.join(folder, "certs"), client_auth=True), seed, rng, soak)
        enable_auth(cluster)
        cluster.ctl("role", "grant-permission", "--prefix=true", "reading", "read", PODS.prefix)
        upstream = os.path.join(self.folder, "upstream-password")
        replace(upstream, ROOT[1] + "\n")
        os.chmod(upstream, 0o600)
        self.user = READER
        replace(self.secret, token(cluster, self.user) + "\n")
        port = free_port()
        listen = ",".join([f"https://127.0.0.1:{port}"] + [
            f"{name}={certs}" for name, certs in (("cert", self.certs.path("server.pem")),
                                                  ("key", self.certs.path("server.key")),
                                                  ("client-ca", self.certs.path("ca.pem")))])
        self.server = make_kube(cluster=cluster, resources=(PODS,), rights="upstream", flags=[
            "--upstream-user", ROOT[0], "--upstream-password-file", upstream, "--listen", listen])
        self.proxy = Proxy(f"127.0.0.1:{port}")
        self.start_informer()

    @property
    def pid(self):
        return self.server.tier.pid

    def start_server(self):
        self.server.tier.start()

    def kill_server(self):
        self.server.tier.kill()

    def writer_auth(self):
        return [":".join(ROOT)]

    def forget_history(self):
        self.kill_server()
        self.cluster.compact(self.cluster.revision())
        shutil.rmtree(self.server.tier.cache)
        self.start_server()

    def rotate_secret(self):
        """The old token is refused before the new one is there, and told so."""
        told = len(self.informer.told)
        self.user = (READER[0], self.user[1] + "x")
        self.cluster.ctl("user", "passwd", READER[0], "--interactive=false", input=self.user[1].encode() + b"\n")
        self.proxy.cut()
        self.informer.wait_link("401", told, 30)
        replace(self.secret, token(self.cluster, self.user) + "\n")

    def rotate_certificates(self):
        """Another authority: whoever still shows or believes the old is not let in."""
        self.kill_server()
        self.certs.renew(authority=True)
        self.start_server()

    def assert_ways(self, stats):
        super().assert_ways(stats)
        assert stats["http2"] == stats["connections"] == 1, stats


class PeerBed(ResourceBed):
    """A real kube-apiserver, in HTTP/1.1. It has no TLS and asks for nothing: the proxy has the certificates, and a token
    that is rotated is only seen to be read."""

    def __init__(self, folder, make_cluster, make_kube, seed, rng, soak):
        super().__init__(folder, make_cluster(), Certs(os.path.join(folder, "certs"), client_auth=True), seed, rng, soak)
        replace(self.secret, "token-0\n")
        self.server = make_kube(cluster=self.cluster)
        self.proxy = Proxy(self.server.endpoint, server_tls(self.certs))
        self.n_tokens = 0
        self.start_informer()

    @property
    def pid(self):
        return self.server.peer.proc.pid

    def start_server(self):
        self.server.peer.start()

    def kill_server(self):
        self.server.peer.kill()

    def forget_history(self):
        self.kill_server()
        self.cluster.compact(self.cluster.revision())
        self.start_server()

    def rotate_secret(self):
        self.n_tokens += 1
        replace(self.secret, f"token-{self.n_tokens}\n")
        time.sleep(1.2)  # the file is looked at once a second
        self.proxy.cut()

    def rotate_certificates(self):
        self.certs.renew(authority=True)
        self.proxy.change_tls(server_tls(self.certs))


def make_bed(source, folder, make_cluster, make_kube, *rest):
    if source == "keys":
        return KeysBed(folder, make_cluster, *rest)
    if not BY_PEER:
        return TierBed(folder, make_cluster, make_kube, *rest)
    if why_no_peer():
        needs.peer(why_no_peer())
    return PeerBed(folder, make_cluster, make_kube, *rest)


@pytest.mark.parametrize("source", ["keys", "resource"])
def test_store_is_etcds_content_after_every_fault(source, tmp_path, make_cluster, make_kube, rng, seed, soak, figure):
    bed = make_bed(source, str(tmp_path), make_cluster, make_kube, seed, rng, soak)
    wanted, plan = (50_000, KINDS * 5) if soak else (2_000, list(KINDS))
    rng.shuffle(plan)
    bed.informer.wait_synced()
    for kind in plan:
        bed.write()
        time.sleep(rng.uniform(1, 2))
        print(f"fault: {kind}", flush=True)
        bed.do(kind)
        time.sleep(rng.uniform(0.5, 1))
        bed.judge()
    while bed.changes < wanted:
        bed.write()
        bed.wait_changes(min(2000, wanted - bed.changes))
        bed.judge()
    stats = bed.finish()
    name = source if source == "keys" else "peer" if BY_PEER else "belfryd"
    figure(f"informer_faults.{name}.changes", bed.changes)
    figure(f"informer_faults.{name}.faults", sum(bed.counts.values()))
    figure(f"informer_faults.{name}.slowest_catch_up", bed.slowest, "s")
    for counter in ("changes", "lists", "relists", "watches", "retries", "losses"):
        figure(f"informer_faults.{name}.told.{counter}", stats[counter])
    assert bed.changes >= wanted and stats["violations"] == 0
    bed.assert_ways(stats)
