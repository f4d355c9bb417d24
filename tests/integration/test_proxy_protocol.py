"""A tier behind HAProxy: clients have their own addresses, before TLS and over a Unix socket too; only the balancer is believed."""
import json
import os
import socket
import tempfile

import hostile
import procs
import pytest
import rawh2
from certs import Certs
from haproxy import Balancer
from hostile import text
from ports import free_port

BALANCER, CLIENT, OTHER = "127.0.0.1", "127.0.0.7", "127.0.0.8"
REFUSED = 'belfry_rejected_total{reason="proxy_head"}'
FORGED = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([203, 0, 113, 9, 192, 0, 2, 1, 0x12, 0x67, 0x5c, 0xee])


@pytest.fixture
def make_balancer(tmp_path):
    made = []

    def make(target, **kw):
        made.append(Balancer(tmp_path, target, **kw))
        return made[-1]
    yield make
    for balancer in made:
        balancer.close()


def watch(port, source):
    """A watch from that address; (connection, the address as the kernel has it)."""
    peer = rawh2.Connection(port, source=source)
    peer.open(hostile.WATCH, text(1, text(1, b"/behind")))
    while True:
        kind, _, _, payload = peer.read(10)
        if kind == rawh2.DATA and payload:
            return peer, "%s:%d" % peer.socket.getsockname()


def peers_of(tier):
    return sorted(row["peer"] for row in json.loads(tier.get("/debug/watchers")[1])["rows"])


def is_closed(connection):
    """The server ends it, with or without an answer."""
    connection.settimeout(5)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_clients_behind_a_balancer_have_their_own_addresses(cluster, make_tier, make_balancer):
    port = free_port()
    tier = make_tier(cluster, listen=[f"http://127.0.0.1:{port},proxy-from={BALANCER}"])
    balancer = make_balancer(f"127.0.0.1:{port}")
    (first, first_name), (second, second_name) = watch(balancer.port, CLIENT), watch(balancer.port, OTHER)
    assert peers_of(tier) == sorted([first_name, second_name])
    direct, direct_name = watch(port, CLIENT)  # not from the balancer: its own address, and no head
    assert peers_of(tier) == sorted([first_name, second_name, direct_name])
    for peer in first, second, direct:
        peer.close()
    assert tier.metrics()[REFUSED] == 0, "a health check of the balancer, or one of its clients, was refused"


def test_only_the_balancer_is_believed_and_must_name_its_client(cluster, make_tier, make_balancer):
    port = free_port()
    tier = make_tier(cluster, listen=[f"http://127.0.0.1:{port},proxy-from={BALANCER}"])
    with socket.create_connection(("127.0.0.1", port), source_address=(CLIENT, 0)) as forger:
        forger.sendall(FORGED + b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert forger.recv(4096).startswith(b"HTTP/1.1 400 ")
    assert tier.metrics()[REFUSED] == 0
    with socket.create_connection(("127.0.0.1", port)) as mute:
        mute.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert is_closed(mute)
    assert tier.metrics()[REFUSED] == 1
    old = make_balancer(f"127.0.0.1:{port}", options="send-proxy")  # version 1
    with socket.create_connection(("127.0.0.1", old.port)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert is_closed(client)
    procs.wait_until(lambda: "version 1: set the balancer to version 2" in tier.log(), 10, 0.05, tier.log)
    assert tier.metrics()[REFUSED] > 1


def test_the_head_comes_before_tls(make_cluster, make_tier, make_balancer, tmp_path):
    certs, port = Certs(tmp_path / "certs", client_auth=True), free_port()
    cluster = make_cluster()
    tier = make_tier(cluster, listen=[f"https://127.0.0.1:{port},cert={certs.path('server.pem')},"
                                      f"key={certs.path('server.key')},client-ca={certs.path('ca.pem')},"
                                      f"proxy-from={BALANCER}"])
    balancer = make_balancer(f"127.0.0.1:{port}")
    etcdctl = ["etcdctl", "--endpoints", f"https://{balancer.endpoint}", *certs.ctl_flags()]
    assert procs.run([*etcdctl, "put", "/behind", "tls"], timeout=30).stdout == b"OK\n"
    assert procs.run([*etcdctl, "get", "--print-value-only", "/behind"], timeout=30).stdout == b"tls\n"
    assert tier.metrics()[REFUSED] == 0


def test_a_balancer_on_a_unix_socket(cluster, make_tier, make_balancer):
    with tempfile.TemporaryDirectory(prefix="belfry-") as folder:  # the path of a socket is short
        path = os.path.join(folder, "s")
        tier = make_tier(cluster, listen=[f"unix://{path},proxy-from=unix"])
        balancer = make_balancer(f"unix@{path}")
        peer, name = watch(balancer.port, CLIENT)
        assert peers_of(tier) == [name]
        peer.close()
        assert tier.metrics()[REFUSED] == 0
