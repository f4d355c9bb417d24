"""Requests that a tier in front of API servers passes on: with their client's credential and no other, through hostile clients beside
them, and through the loss of an API server. The servers are built outside this tree; without them this is skipped."""
import collections
import http.client
import json
import select
import socket
import ssl
import struct
import threading
import time

import needs
import procs
import pytest
import rawh2
from etcd import Cluster
from kube_apiserver import KubeCluster
from kube_tier import MAPS, STANDS_IN, needs_servers, tier_of
from ports import free_port
from shows import shows

pytestmark = pytest.mark.skipif(STANDS_IN, reason=needs.BY_PEER + "an API server passes nothing on")

SECRETS = "/api/v1/namespaces/prod/secrets"  # no tier follows them
N_SECRETS, SECRET_BYTES = 150, 30000
ORIGIN = "https://pages.example"  # API servers take no WebSocket without one
END_HEADERS_AND_STREAM = 5
RST_STREAM = 3


class Bed:
    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 2, flags=[f"--client-ca-file={folder}/kube/identity/ca.pem"], keep=True).start()
        certs, self.certified_port = self.cluster.identity.certs, free_port()  # a listener of the tier that takes certificates of clients
        self.tier = tier_of(folder / "tier", self.cluster, [MAPS], keep=True, flags=[
            "--cors-origins", ORIGIN, "--listen", f"https://127.0.0.1:{self.certified_port},cert={certs.path('server.pem')},key={certs.path('server.key')},"
                        f"client-ca={certs.path('ca.pem')}"]).start()
        for i in range(N_SECRETS):
            made = self.cluster.servers[0].call("POST", SECRETS, obj={"metadata": {"name": f"s{i}"}, "data": {"x": "eHl6" * (SECRET_BYTES // 4)}})
            assert made.code == 201, made.body

    def close(self):
        self.tier.kill()
        self.cluster.kill()
        self.etcd.close()
        self.tier.assert_sound()

    def token(self, user="admin"):
        return self.cluster.identity.tokens[user]

    def ask(self, method, path, fields=None, body=None, port=None, tls=None):
        """(status, fields, body) without anything that the test does not say. Of the tier, unless the port is another's."""
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.tier.port, timeout=60, context=tls or self.cluster.identity.tls)
        try:
            connection.request(method, path, body, fields or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def as_user(self, user, **more):
        return {"Authorization": f"Bearer {self.token(user)}", **{name.replace("_", "-"): value for name, value in more.items()}}

    def raw(self, alpn=None):
        context = ssl.create_default_context(cafile=self.cluster.identity.cacert)
        if alpn:
            context.set_alpn_protocols([alpn])
        return context.wrap_socket(socket.create_connection(("127.0.0.1", self.tier.port)), server_hostname="127.0.0.1")

    def begin_list(self):
        """A list of all secrets over HTTP/1.1, of which nothing is read."""
        stream = self.raw()
        stream.sendall(f"GET {SECRETS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token()}\r\n\r\n".encode())
        return stream

    def revive(self):
        for server in self.cluster.servers:
            if server.proc.poll() is not None:
                server.start()
        procs.wait_until(lambda: self.ask("GET", SECRETS + "/s0", self.as_user("admin"))[0] == 200, 30, 0.1, "it is answered again")


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers()
    made = Bed(tmp_path_factory.mktemp("relay"))
    yield made
    made.close()


def message(answer):
    return json.loads(answer[2])["message"]


# ---- credentials ----

def test_a_request_has_its_clients_credential_and_no_other(bed):
    answer = bed.ask("GET", SECRETS)
    assert answer[0] == 403 and '"system:anonymous"' in message(answer)
    answer = bed.ask("GET", SECRETS, {"Authorization": "Bearer nonsense"})
    assert answer[0] == 401
    answer = bed.ask("GET", SECRETS, bed.as_user("alice"))
    assert answer[0] == 403 and '"alice"' in message(answer)
    assert bed.ask("GET", MAPS.path("prod"), bed.as_user("alice"))[0] == 200
    assert bed.ask("GET", SECRETS + "/s0", bed.as_user("admin"))[0] == 200


@shows("follow-impersonation")
def test_impersonation_is_passed_on_and_no_field_of_the_connection_takes_it_away(bed, differs):
    for more in ({}, {"Connection": "impersonate-user, authorization"}):
        answer = bed.ask("GET", SECRETS, {**bed.as_user("admin", Impersonate_User="alice"), **more})
        assert answer[0] == 403 and '"alice"' in message(answer), answer
    real, ours = (bed.ask("GET", MAPS.path("prod") + "?resourceVersion=0", bed.as_user("admin", Impersonate_User="alice"), port=port)
                  for port in (bed.cluster.servers[0].port, bed.tier.port))
    assert real[0] == 200 and ours[0] == 403 and "impersonation" in message(ours)
    differs("follow-impersonation", real[0], ours[0])


@shows("follow-certificates")
def test_a_certificate_names_nobody_and_a_token_beside_it_does(bed, differs):
    certs = bed.cluster.identity.certs
    tls = ssl.create_default_context(cafile=certs.path("ca.pem"))
    tls.load_cert_chain(certs.path("client.pem"), certs.path("client.key"))
    for path in (SECRETS, MAPS.path("prod")):  # of which the second is followed
        real, ours = (bed.ask("GET", path, port=port, tls=tls) for port in (bed.cluster.servers[0].port, bed.certified_port))
        assert real[0] == 403 and '"reader"' in message(real), real
        assert ours[0] == 401 and "a client certificate cannot be passed on" in message(ours), ours
        assert bed.ask("GET", path, bed.as_user("admin"), port=bed.certified_port, tls=tls)[0] == 200
    differs("follow-certificates", message(real), message(ours))


@shows("follow-upgrades")
def test_a_watch_over_websocket_is_refused_with_the_reason(bed, differs):
    """And so is exec, which test_kube_tier_clients asks for by kubectl."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
               "Origin": ORIGIN, **bed.as_user("admin")}
    real, ours = (bed.ask("GET", SECRETS + "?watch=1&timeoutSeconds=1", upgrade, port=port)
                  for port in (bed.cluster.servers[0].port, bed.tier.port))
    assert real[0] == 101 and real[1]["Upgrade"].lower() == "websocket", real
    assert ours[0] == 400 and "does not pass on exec, attach, port-forward" in message(ours), ours
    differs("follow-upgrades", real[0], ours[0])


def test_a_name_in_a_field_is_nobodys_right(bed):
    answer = bed.ask("GET", SECRETS, {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
    assert answer[0] == 403 and '"system:anonymous"' in message(answer)


def test_documents_are_copied_and_asked_about_for_each_client(bed):
    fields = {"Accept": "application/json"}
    first = bed.ask("GET", "/openapi/v2", {**bed.as_user("admin"), **fields})
    before = bed.tier.metrics()["belfry_kube_copies_sent_total"]
    answers = [bed.ask("GET", "/openapi/v2", {**bed.as_user("admin"), **fields}) for _ in range(8)]  # a worker has its own copies
    assert all(a[0] == 200 and a[2] == first[2] and a[1]["etag"] == first[1]["etag"] for a in answers)
    assert bed.tier.metrics()["belfry_kube_copies_sent_total"] > before
    assert bed.ask("GET", "/openapi/v2", fields)[0] == 403, "a copy gives no right"
    has = bed.ask("GET", "/openapi/v2", {**bed.as_user("admin"), **fields, "If-None-Match": first[1]["etag"]})
    assert has[0] == 304 and not has[2]


# ---- hostile clients ----

def test_requests_that_are_slow_large_or_unclear_are_refused(bed):
    stream = bed.raw()
    stream.settimeout(60)
    stream.sendall(f"POST {SECRETS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bed.token()}\r\nContent-Length: 9999\r\n\r\n{{".encode())
    assert b" 504 " in stream.recv(4096).split(b"\r\n")[0]
    assert bed.ask("GET", SECRETS, {"x": "a" * 40000})[0] == 431
    stream = bed.raw()
    stream.sendall(f"POST {SECRETS} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode())
    assert b" 400 " in stream.recv(4096).split(b"\r\n")[0]


def test_readers_that_stand_still_hold_nobody(bed):
    stalled = [bed.begin_list() for _ in range(60)]
    procs.wait_until(lambda: bed.tier.metrics()["belfry_kube_relays"] >= 60, 60, 0.1, "all are under way")
    for _ in range(20):
        assert bed.ask("GET", SECRETS + "/s0", bed.as_user("admin"))[0] == 200
    held = bed.tier.metrics()['belfry_memory_bytes{pool="kube_relays"}']
    assert held < 60 * 400 * 1024, held
    response = http.client.HTTPResponse(stalled[0])
    response.begin()
    assert len(json.loads(response.read())["items"]) == N_SECRETS, "it gets every byte, later"
    for stream in stalled:
        stream.close()
    procs.wait_until(lambda: bed.tier.metrics()["belfry_kube_relays"] == 0, 60, 0.1, "nothing is left of them")


class Streams:
    """Watches of secrets on one connection of HTTP/2."""

    def __init__(self, bed, n, since):
        self.n, self.buffer, self.heads, self.data, self.resets = n, b"", 0, 0, 0
        self.socket = bed.raw("h2")
        fields = ((b":method", b"GET"), (b":scheme", b"https"), (b":path", f"{SECRETS}?watch=1&resourceVersion={since}".encode()),
                  (b":authority", b"tier"), (b"authorization", f"Bearer {bed.token()}".encode()))
        head = b"".join(b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rawh2.frame(rawh2.SETTINGS, 0, 0)
                            + rawh2.frame(rawh2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 28)))
        self.socket.sendall(b"".join(rawh2.frame(rawh2.HEADERS, END_HEADERS_AND_STREAM, 1 + 2 * i, head) for i in range(n)))
        self.socket.setblocking(False)

    def take(self):
        try:
            while (got := self.socket.recv(1 << 16)):
                self.buffer += got
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + (length := int.from_bytes(self.buffer[:3], "big")):
            kind, flags, payload = self.buffer[3], self.buffer[4], self.buffer[9:9 + length]
            self.buffer = self.buffer[9 + length:]
            self.heads += kind == rawh2.HEADERS
            self.data += kind == rawh2.DATA and length > 0
            self.resets += kind == RST_STREAM
            if kind in (rawh2.SETTINGS, rawh2.PING) and not flags & rawh2.ACK:
                self.socket.setblocking(True)
                self.socket.sendall(rawh2.frame(kind, rawh2.ACK, 0, payload if kind == rawh2.PING else b""))
                self.socket.setblocking(False)


def test_thousands_of_watches_are_passed_on(bed, soak, figure):
    n, per = (10000, 100) if soak else (1000, 100)
    since = bed.cluster.servers[0].call("GET", SECRETS, {"limit": 1}).json["metadata"]["resourceVersion"]
    began = time.monotonic()
    connections = [Streams(bed, per, since) for _ in range(n // per)]

    def wait(count, what):
        def there():
            ready = select.select([c.socket for c in connections], [], [], 0.2)[0]
            for connection in connections:
                if connection.socket in ready:
                    connection.take()
            return sum(map(count, connections)) >= n
        procs.wait_until(there, 180, 0, lambda: f"{what}: {sum(map(count, connections))} of {n}")
    wait(lambda c: c.heads, "watches that have begun")
    figure("kube_relayed_watches_open_s", round(time.monotonic() - began, 1))
    assert bed.tier.metrics()["belfry_kube_relays"] >= n
    assert bed.cluster.servers[0].call("POST", SECRETS, obj={"metadata": {"name": "told"}}).code == 201
    wait(lambda c: c.data, "watches that were told")
    assert sum(c.resets for c in connections) == 0
    for connection in connections:
        connection.socket.close()
    assert bed.cluster.servers[0].call("DELETE", SECRETS + "/told").code == 200
    procs.wait_until(lambda: bed.tier.metrics()["belfry_kube_relays"] == 0, 60, 0.1, "nothing is left of them")


# ---- API servers that are lost ----

@shows("follow-lost")
def test_an_answer_that_is_cut_is_cut_and_never_ended(bed, differs):
    stream = bed.begin_list()
    response = http.client.HTTPResponse(stream)
    response.begin()
    response.read(1000)
    for server in bed.cluster.servers:
        server.kill()
    with pytest.raises((http.client.IncompleteRead, ConnectionError, ssl.SSLError)):
        response.read()
    said = []
    for port in (bed.cluster.servers[0].port, bed.tier.port):
        try:
            answer = bed.ask("GET", SECRETS, bed.as_user("admin"), port=port)
            said.append((answer[0], answer[1]["retry-after"]))
        except ConnectionError:
            said.append("a broken connection")
    assert said == ["a broken connection", (503, "1")], said
    differs("follow-lost", *said)
    bed.revive()


def test_the_loss_of_one_server_of_two_is_told_as_it_is(bed):
    said, ending = collections.Counter(), threading.Event()
    patch = {"Content-Type": "application/merge-patch+json", **bed.as_user("admin")}

    def go_on(method):
        while not ending.is_set():
            body = json.dumps({"metadata": {"labels": {"at": str(time.monotonic())}}}) if method == "PATCH" else None
            status, fields, _ = bed.ask(method, SECRETS + "/s1", patch, body)
            said[method, status, fields["retry-after"]] += 1
    threads = [threading.Thread(target=go_on, args=(method,)) for method in ("GET", "GET", "GET", "PATCH", "PATCH")]
    for thread in threads:
        thread.start()
    time.sleep(1)
    bed.cluster.servers[1].kill()
    time.sleep(3)
    ending.set()
    for thread in threads:
        thread.join(60)
    expected = {("GET", 200, None), ("GET", 503, "1"), ("PATCH", 200, None), ("PATCH", 504, None), ("PATCH", 503, "1")}
    assert set(said) <= expected, said
    assert said["GET", 503, "1"] + said["PATCH", 504, None] + said["PATCH", 503, "1"] <= 10, said  # one each at most, when it happens
    bed.revive()
