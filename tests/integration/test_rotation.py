"""Certificates, authorities and lists of revoked certificates are replaced again and again under TLS watchers, towards upstream too:
no watcher is dropped, and each replacement is in force."""
import json
import os
import signal
import socket
import ssl
import subprocess

import procs
import pytest
from certs import Certs
from client import binary
from ports import free_port

PERIOD_S = 1
CA = """[ca]
default_ca = ca
[ca]
database = {folder}/index.txt
crlnumber = {folder}/crlnumber
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
default_md = sha256
default_crl_days = 1
crl_extensions = crl
[crl]
authorityKeyIdentifier = keyid:always
"""  # all authorities have one name: without the identifier it is not said whose list it is (RFC 5280, 5.2.1)


class Authority(Certs):
    """One generation of the listener: an authority, its server, a client that is good and one that will be revoked."""

    def __init__(self, folder, authority=None):
        super().__init__(folder, authority=authority)
        self._signed("revoked", "/CN=revoked", "extendedKeyUsage=clientAuth")
        for name, text in (("ca.cnf", CA.format(folder=self.folder)), ("index.txt", ""), ("crlnumber", "01\n")):
            with open(self.path(name), "w") as f:
                f.write(text)
        self.publish()

    def publish(self):
        self._openssl("ca", "-config", self.path("ca.cnf"), "-gencrl", "-out", self.path("ca.crl"))

    def revoke(self):
        self._openssl("ca", "-batch", "-config", self.path("ca.cnf"), "-revoke", self.path("revoked.pem"))
        self.publish()

    def connect(self, name, port):
        """A connection that has been answered, and that trusts this generation only."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        conn = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="127.0.0.1")
        conn.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert conn.recv(4096).startswith(b"HTTP/1.1 200")
        return conn


class Listener:
    """The files of a listener, replaced by rename, as an operator does."""

    def __init__(self, folder, first):
        self.folder, self.first = folder, first
        self.follow(first)

    def path(self, name):
        return str(self.folder / name)

    def replace(self, name, *sources):
        with open(self.path("fresh"), "w") as fresh:
            for source in sources:
                with open(source) as f:
                    fresh.write(f.read())
        os.replace(self.path("fresh"), self.path(name))

    def follow(self, now):
        """The watchers' certificates are of the first authority, so that stays beside the newest."""
        both = [self.first] if now is self.first else [self.first, now]
        self.replace("clients.pem", *(authority.path("ca.pem") for authority in both))
        self.replace("clients.crl", *(authority.path("ca.crl") for authority in both))
        self.replace("server.key", now.path("server.key"))
        self.replace("server.pem", now.path("server.pem"))


@pytest.fixture
def upstream(make_cluster, tmp_path):
    return make_cluster(tls=Certs(tmp_path / "etcd-certs", client_auth=True))


@pytest.fixture
def first(upstream, tmp_path):
    """etcd's authority is the watchers' too: belfry-bench shows tier and etcd the same certificate."""
    return Authority(tmp_path / "generation0", upstream.tls.folder)


@pytest.fixture
def listener(first, tmp_path):
    (tmp_path / "listener").mkdir()
    return Listener(tmp_path / "listener", first)


@pytest.fixture
def tier(upstream, listener, make_tier):
    port = free_port()
    url = (f"https://127.0.0.1:{port},cert={listener.path('server.pem')},key={listener.path('server.key')},"
           f"client-ca={listener.path('clients.pem')},crl={listener.path('clients.crl')}")
    certs = upstream.tls
    tier = make_tier(upstream, "--rights-period", f"{PERIOD_S}s", "--upstream-cacert", certs.path("ca.pem"), "--upstream-cert",
                     certs.path("client.pem"), "--upstream-key", certs.path("client.key"), listen=[url])
    tier.tls_port = port
    return tier


def start_watchers(tier, upstream, first, n, seconds):
    """Their puts go to etcd at a rate; it ends with 1 when an event is lost or doubled, or a connection ends."""
    argv = [binary("belfry-bench"), "fanout", "--output", "json", "--target", f"https://127.0.0.1:{tier.tls_port}",
            "--write-target", upstream.members[0].url, "--cacert", first.path("ca.pem"), "--cert", first.path("client.pem"),
            "--key", first.path("client.key"), "--connections", str(n), "--rate", "10", "--puts", str(10 * seconds),
            "--timeout", f"{seconds + 120}s"]
    watchers = procs.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    procs.wait_until(lambda: connections(tier) >= n or watchers.poll() is not None, 60)
    return watchers


def connections(tier):
    return sum(worker["inbound"]["connections"] for worker in tier.numbers()["workers"])


def ended(tier):
    return tier.metrics()["belfry_connections_certificate_ended_total"]


def is_served(authority, port):
    try:
        authority.connect("client", port).close()
        return True
    except OSError:  # those of ssl are such
        return False


def shows(member, path):
    """Does the server at etcd's address show the certificate in the file?"""
    with open(path) as f:
        wanted = ssl.PEM_cert_to_DER_cert(f.read())
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((member.client_host, member.client_port))) == wanted


def rotate(n, tier, upstream, listener, folder):
    """Every file of the listener and of upstream; each is awaited to be in force."""
    now = Authority(folder / f"generation{n}")
    listener.follow(now)
    if n % 2 == 0:
        os.kill(tier.pid, signal.SIGHUP)  # else the change itself is found
    procs.wait_until(lambda: is_served(now, tier.tls_port), 20, 0.1, lambda: f"rotation {n}: {tier.log()[-1000:]}")
    doomed = now.connect("revoked", tier.tls_port)
    now.revoke()
    listener.follow(now)
    assert doomed.recv(1) == b"", "the list is in force"
    procs.wait_until(lambda: ended(tier) >= n, 10)
    upstream.tls.renew()
    procs.wait_until(lambda: shows(upstream.members[0], upstream.tls.path("server.pem")), 10)


def test_watchers_outlive_rotations(upstream, first, listener, tier, tmp_path, soak, figure):
    n_watchers, n_rotations, seconds = (1000, 20, 150) if soak else (200, 4, 25)
    watchers = start_watchers(tier, upstream, first, n_watchers, seconds)
    for n in range(1, n_rotations + 1):
        rotate(n, tier, upstream, listener, tmp_path)
    assert watchers.poll() is None, f"the rotations took too long, or: {watchers.communicate()[1].decode()}"
    out, err = watchers.communicate(timeout=seconds + 120)
    assert watchers.returncode == 0, err.decode()
    seen = json.loads(out)
    assert seen["lost"] == 0 and seen["deliveries"] == n_watchers * 10 * seconds, seen
    assert ended(tier) == n_rotations, "the revoked clients, and no watcher"
    figure("rotation_watchers", n_watchers)
    figure("rotations", n_rotations)

    upstream.tls.renew(authority=True)  # etcd reads its authority at start only
    upstream.members[0].kill()
    upstream.members[0].restart()
    revision = upstream.put("/bench/last", "x")
    procs.wait_until(lambda: tier.numbers()["upstream"]["revision"] >= revision, 30, 0.1, lambda: tier.log()[-2000:])
