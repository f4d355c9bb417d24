"""A client certificate that expires, is revoked, or whose authority is removed ends its live connections within one period; others
go on, and new connections are judged at once."""
import datetime
import http.client
import os
import ssl
import subprocess
import time

import procs
import pytest
from certs import Certs
from checker import Spec
from client import Recorder
from kube import CRDS
from ports import free_port

PERIOD = 6  # seconds
CA = """[ca]
default_ca = ca
[ca]
database = {folder}/index.txt
serial = {folder}/serial
crlnumber = {folder}/crlnumber
new_certs_dir = {folder}
certificate = {folder}/ca.pem
private_key = {folder}/ca.key
default_md = sha256
default_crl_days = 1
policy = any
[any]
commonName = supplied
"""


class Authority(Certs):
    """Certs that can expire soon, and a list of those that are revoked."""

    def __init__(self, folder):
        super().__init__(folder, client_auth=True)
        with open(self.path("ca.cnf"), "w") as f:
            f.write(CA.format(folder=self.folder))
        for name, text in (("index.txt", ""), ("crlnumber", "01\n")):
            with open(self.path(name), "w") as f:
                f.write(text)
        self.publish()

    def client(self, name, seconds=None):
        self._signed(name, f"/CN={name}", "extendedKeyUsage=clientAuth")
        if seconds:
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
            with open(self.path("serial"), "w") as f:
                f.write(f"{int(time.time() * 1000):032X}\n")
            self._openssl("ca", "-batch", "-notext", "-config", self.path("ca.cnf"), "-in", self.path(f"{name}.csr"), "-out",
                          self.path(f"{name}.pem"), "-startdate", "20200101000000Z", "-enddate", end.strftime("%Y%m%d%H%M%SZ"))

    def revoke(self, name):
        self._openssl("ca", "-batch", "-config", self.path("ca.cnf"), "-revoke", self.path(f"{name}.pem"))
        self.publish()

    def publish(self):
        self._openssl("ca", "-config", self.path("ca.cnf"), "-gencrl", "-out", self.path("fresh.crl"))
        os.replace(self.path("fresh.crl"), self.path("ca.crl"))

    def options_of(self, name):
        return [f"cacert={self.path('ca.pem')}", f"cert={self.path(name + '.pem')}", f"key={self.path(name + '.key')}"]


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certs")


@pytest.fixture
def make_listener(cluster, make_tier, authority):
    def make(*options):
        port = free_port()
        listen = ",".join([f"https://127.0.0.1:{port}", f"cert={authority.path('server.pem')}", f"key={authority.path('server.key')}",
                           f"client-ca={authority.path('clients.pem')}", *options])
        tier = make_tier(cluster, "--rights-period", f"{PERIOD}s", "--listen", listen, "--resources", f"{CRDS}/widgets.yaml,prefix=/a/,wrap=spec")
        tier.https = f"https://127.0.0.1:{port}"
        return tier
    with open(authority.path("ca.pem")) as a, open(authority.path("other.pem")) as b, open(authority.path("clients.pem"), "w") as f:
        f.write(a.read() + b.read())
    return make


def watch(tier, authority, name, tmp_path):
    recorder = Recorder(tier.https, tmp_path / name, authority.options_of(name))
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    recorder.wait_connected(1)
    return recorder


class Kube:
    """A watch of Kubernetes over HTTP/1.1, as the lines that it was sent."""

    def __init__(self, tier, authority, name):
        context = ssl.create_default_context(cafile=authority.path("ca.pem"))
        context.load_cert_chain(authority.path(f"{name}.pem"), authority.path(f"{name}.key"))
        self.conn = http.client.HTTPSConnection(tier.https[8:], context=context, timeout=60)
        self.conn.request("GET", "/apis/demo.example.com/v1/widgets?watch=1&resourceVersion=0")
        self.answer = self.conn.getresponse()
        assert self.answer.status == 200

    def wait_end(self):
        try:
            while self.answer.read1(65536):
                pass
        except (OSError, http.client.HTTPException):
            pass


def ended(tier):
    return tier.metrics()["belfry_connections_certificate_ended_total"]


def wait_ended(tier, n, timeout):
    procs.wait_until(lambda: ended(tier) >= n, timeout, 0.1, lambda: f"{n} ends: {ended(tier)} {tier.log()[-2000:]}")


def is_refused(tier, authority, name):
    out = procs.run(["curl", "-s", "--cacert", authority.path("ca.pem"), "--cert", authority.path(f"{name}.pem"), "--key",
                     authority.path(f"{name}.key"), f"{tier.https}/health"], check=False, timeout=20)
    return out.returncode != 0


def test_expired_certificate_ends_its_connections(cluster, make_listener, authority, tmp_path):
    authority.client("steady")
    tier = make_listener()
    authority.client("brief", seconds=8)
    expires = time.time() + 8
    brief, steady, kube = watch(tier, authority, "brief", tmp_path), watch(tier, authority, "steady", tmp_path), Kube(
        tier, authority, "brief")
    first = cluster.put("/a/1", "x")
    for recorder in (brief, steady):
        recorder.wait_rev({0: first}, 5)
    kube.wait_end()
    assert -1 < time.time() - expires < PERIOD, "within one period"
    wait_ended(tier, 2, PERIOD)
    assert time.time() - expires < PERIOD
    last = cluster.put("/a/2", "late")
    steady.wait_rev({0: last}, 5)
    time.sleep(2)
    assert brief.status()[0]["n_events"] == 1, "nothing is sent after the end"
    assert is_refused(tier, authority, "brief") and not is_refused(tier, authority, "steady")
    lines = [line for line in tier.log().splitlines() if "event=certificate_ended" in line]
    assert "user=brief" in lines[0].replace('"', "") and "certificate has expired" in lines[0], lines
    assert ended(tier) == 2
    steady.quit()
    brief.quit()


def test_revoked_certificate_ends_its_connections(cluster, make_listener, authority, tmp_path):
    for name in ("good", "bad"):
        authority.client(name)
    with open(authority.path("ca.pem")) as a, open(authority.path("clients.pem"), "w") as f:
        f.write(a.read())
    tier = make_listener(f"crl={authority.path('ca.crl')}")
    good, bad, kube = watch(tier, authority, "good", tmp_path), watch(tier, authority, "bad", tmp_path), Kube(tier, authority, "bad")
    first = cluster.put("/a/1", "x")
    for recorder in (good, bad):
        recorder.wait_rev({0: first}, 5)
    authority.revoke("bad")
    at = time.monotonic()
    kube.wait_end()
    wait_ended(tier, 2, PERIOD)
    assert time.monotonic() - at < PERIOD
    last = cluster.put("/a/2", "late")
    good.wait_rev({0: last}, 5)
    time.sleep(2)
    assert bad.status()[0]["n_events"] == 1 and ended(tier) == 2
    assert is_refused(tier, authority, "bad") and not is_refused(tier, authority, "good")
    assert "certificate revoked" in tier.log() and "event=tls_reloaded" in tier.log()
    good.quit()
    bad.quit()


def test_removed_authority_ends_the_connections_of_its_clients(cluster, make_listener, authority, tmp_path):
    authority.client("client1")
    tier = make_listener()
    one = watch(tier, authority, "client1", tmp_path)
    first = cluster.put("/a/1", "x")
    one.wait_rev({0: first}, 5)
    os.replace(authority.path("other.pem"), authority.path("clients.pem"))
    at = time.monotonic()
    wait_ended(tier, 1, PERIOD)
    assert time.monotonic() - at < PERIOD
    cluster.put("/a/2", "late")
    time.sleep(2)
    assert one.status()[0]["n_events"] == 1
    assert is_refused(tier, authority, "client1")
    one.quit()


def test_server_certificate_is_followed_and_clients_stay(cluster, make_listener, authority, tmp_path):
    authority.client("client1")
    tier = make_listener()
    one = watch(tier, authority, "client1", tmp_path)
    first = cluster.put("/a/1", "x")
    one.wait_rev({0: first}, 5)

    def serial():
        shown = procs.run(["openssl", "s_client", "-connect", tier.https[8:], "-cert", authority.path("client1.pem"), "-key",
                           authority.path("client1.key")], stdin=subprocess.DEVNULL, check=False, timeout=10).stdout
        return procs.run(["openssl", "x509", "-noout", "-serial"], input=shown).stdout
    before = serial()
    authority.renew()
    procs.wait_until(lambda: serial() != before, PERIOD, 0.3, tier.log)
    time.sleep(PERIOD)
    last = cluster.put("/a/2", "y")
    one.wait_rev({0: last}, 5)
    assert one.status()[0]["n_events"] == 2 and ended(tier) == 0
    one.quit()
