"""Every wait for a client ends, after the time that its option says, and is counted by what was waited for. Whatever waits in good
order stays."""
import contextlib
import os
import re
import resource
import socket
import stat
import time

import hostile
import procs
import pytest
import rawh2
from certs import Certs
from client import binary
from hostile import Peer, Watchers, number, pump, text
from ports import free_port
from rawh2 import DATA, HEADERS, frame

TIMES = ("--greet-time", "1s", "--message-time", "1s", "--unread-time", "1s", "--idle-time", "1s")
HEALTH = b"/grpc.health.v1.Health/Check"
CONTINUATION, NO_ERROR, CALM = 9, 0, 11


def rejected(tier, reason):
    return tier.metrics()[f'belfry_rejected_total{{reason="{reason}"}}']


def is_closed(sock, seconds=15):
    sock.settimeout(seconds)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def run_until(peers, over, seconds=15):
    end = time.monotonic() + seconds
    while not over() and time.monotonic() < end:
        pump(peers, 0.05)
    return over()


class End:
    """How a stream ended: by which frame."""

    def __init__(self):
        self.kind = self.over = None

    def __call__(self, kind, flags, payload):
        if kind is None or kind == hostile.RST_STREAM or flags & hostile.END_STREAM:
            self.kind, self.over = kind, True


def test_greetings_and_handshakes_end(cluster, make_tier, tmp_path):
    certs, secure = Certs(tmp_path / "certs"), free_port()
    plain = free_port()
    tier = make_tier(cluster, *TIMES, listen=[f"http://127.0.0.1:{plain}",
                                              f"https://127.0.0.1:{secure},cert={certs.path('server.pem')},key={certs.path('server.key')}"])
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in (plain, plain, secure, secure)]
    sockets[1].sendall(b"PRI * HTTP/2.0\r\n\r\n")  # and no more
    sockets[3].sendall(b"\x16\x03\x01")            # the beginning of a record
    for sock in sockets:
        assert is_closed(sock)
        sock.close()
    assert rejected(tier, "unfinished_greeting") == 2
    assert rejected(tier, "unfinished_handshake") == 2
    assert rejected(tier, "handshake") == 0


def test_heads_end_however_they_are_begun(cluster, make_tier):
    tier = make_tier(cluster, *TIMES)
    peers = [Peer(tier.port) for _ in range(3)]
    assert not run_until(peers, lambda: False, 0.3)  # SETTINGS are acknowledged: nothing may come inside a head
    peers[0].send(frame(HEADERS, 0, 1, rawh2.grpc_head(hostile.RANGE)))
    peers[1].send(frame(HEADERS, 0, 1))              # not even a field
    peers[2].send(frame(HEADERS, 0, 1, rawh2.grpc_head(hostile.RANGE)) + frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y"))
    assert run_until(peers, lambda: all(peer.closed for peer in peers))
    for peer in peers:
        assert peer.goaway[0] == CALM and b"head was begun" in peer.goaway[1]
    assert rejected(tier, "unfinished_head") == 3


def test_messages_end_and_streams_in_good_order_stay(cluster, make_tier):
    tier = make_tier(cluster, *TIMES)
    peer, half, bare, health = Peer(tier.port), End(), End(), End()
    watch, keepalive = End(), End()
    peer.send(frame(DATA, 0, peer.open(hostile.WATCH, None, half), b"\0\0\0\0\x10half"))
    peer.open(hostile.RANGE, None, bare)
    peer.open(HEALTH, None, health)
    peer.open(hostile.WATCH, None, watch)
    peer.open(hostile.KEEPALIVE, None, keepalive)
    assert run_until([peer], lambda: half.over and bare.over and health.over)
    assert half.kind == bare.kind == health.kind == HEADERS  # a status, not a reset
    assert not run_until([peer], lambda: watch.over or keepalive.over or peer.closed, 2)
    assert rejected(tier, "unfinished_watch") == rejected(tier, "unfinished_call") == rejected(tier, "unfinished_health") == 1
    peer.close()


@pytest.fixture
def narrow(tmp_path):
    """A belfryd with room for a hundred connections or so."""
    from client import binary
    path = tmp_path / "belfryd"
    path.write_text(f"#!/bin/sh\nulimit -n 200\nexec {os.path.abspath(binary('belfryd'))} \"$@\"\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_idle_connections_leave_while_there_are_many(cluster, make_tier, narrow):
    tier = make_tier(cluster, *TIMES, "--workers", "1", "--client-share", "100", program=narrow)
    old = socket.create_connection(("127.0.0.1", tier.port))
    old.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert is_closed(old)  # HTTP/1.1: always
    assert tier.metrics()["belfry_connections_idle_ended_total"] == 1
    first = [Peer(tier.port) for _ in range(10)]
    assert not run_until(first, lambda: any(peer.goaway for peer in first), 3), "there were few"
    busy = Peer(tier.port)
    busy.open(hostile.WATCH, Watchers.create(), lambda *_: None)
    crowd = []
    while len(crowd) < 500 and not any(peer.goaway for peer in first):
        crowd.append(Peer(tier.port))
        pump(first + crowd + [busy], 0.01)
        crowd = [peer for peer in crowd if not peer.closed]
    assert run_until(first + crowd + [busy], lambda: any(peer.goaway for peer in first))
    gone = [peer for peer in first if peer.goaway]
    assert all(peer.goaway[0] == NO_ERROR for peer in gone)
    assert busy.goaway is None and not busy.closed
    for peer in first + crowd + [busy]:
        peer.close()


def test_unread_output_ends_while_memory_is_short(cluster, make_tier):
    for i in range(10):
        cluster.put(f"/large/{i}", "x" * 100000)
    tier = make_tier(cluster, *TIMES, "--workers", "1", "--memory-bytes", "16MiB", "--log-bytes", "1MiB",
                     "--client-share", "100")
    healthy = Peer(tier.port)
    healthy.open(hostile.WATCH, Watchers.create(), lambda *_: None)
    stalled = []

    def stall():
        """A watch with 1 MB to read, of which nothing is read."""
        peer = rawh2.Connection(tier.port, stream_window=hostile.LARGE, window=hostile.LARGE)
        peer.open(hostile.WATCH, text(1, text(1, b"/large/") + text(2, b"/large0") + number(3, 1)))
        stalled.append(peer)
    for _ in range(10):
        stall()
    assert not run_until([healthy], lambda: rejected(tier, "unread") > 0, 3), "memory was not short"
    for _ in range(8):  # 43 KB each, of 8 MiB; less, if the kernel takes more of it after a while
        with contextlib.suppress(ConnectionError):  # on a slow machine the tier ends the first before the last has come
            for _ in range(175):
                stall()
        if run_until([healthy], lambda: rejected(tier, "unread") > 0, 5):
            break
    assert rejected(tier, "unread") > 0
    assert not healthy.closed and healthy.goaway is None
    for peer in stalled:
        peer.close()


CREATE = b'{"create_request":{"key":"L3F1aWV0"}}'
LASTING = {"events": b"GET /v1/events?prefix=%2Fquiet%2F HTTP/1.1\r\nhost: localhost\r\n\r\n",
           "gateway": b"POST /v3/watch HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(CREATE), CREATE)}


@pytest.mark.parametrize("request_of", LASTING)
@pytest.mark.parametrize("leave", ["close", "send_no_more"])
def test_a_watch_over_http1_ends_with_its_client_though_nothing_happens(cluster, make_tier, request_of, leave):
    """Nothing is written that could fail: the end of what the client sends is the only sign, as it is with kube-apiserver and etcd."""
    tier = make_tier(cluster)
    before = tier.metrics()["belfry_connections"]
    watches = [socket.create_connection(("127.0.0.1", tier.port)) for _ in range(20)]
    for watch in watches:
        watch.sendall(LASTING[request_of])
    for watch in watches:
        assert watch.recv(4096).startswith(b"HTTP/1.1 200 "), request_of
    assert tier.metrics()["belfry_connections"] == before + len(watches)
    for watch in watches:
        if leave == "close":
            watch.close()
        else:
            watch.shutdown(socket.SHUT_WR)
            assert is_closed(watch)
    end = time.monotonic() + 15
    while tier.metrics()["belfry_connections"] > before and time.monotonic() < end:
        time.sleep(0.1)
    assert tier.metrics()["belfry_connections"] == before


@pytest.mark.parametrize("reason", ["connection_memory", "descriptors"])
def test_a_crowd_of_connections_without_room_is_answered_and_not_reset(cluster, make_tier, tmp_path, reason):
    """A client opens a hundred connections too many at once, and asks on each a moment later. Its share is full, or the
    descriptors of the process are used up."""
    limited = tmp_path / "belfryd-limited"
    limited.write_text(f"#!/bin/sh\nulimit -n 4096\nexec {binary('belfryd')} \"$@\"\n")
    limited.chmod(0o755)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    is_share = reason == "connection_memory"
    options = ("--max-connections", "12") if is_share else ("--client-share", "100", "--greet-time", "1m")
    tier = make_tier(cluster, "--workers", "1", *options, program=str(limited))
    most = 6 if is_share else int(re.search(r"event=limits .*connections=(\d+)", tier.log())[1])
    with contextlib.ExitStack() as held:
        def connect():
            return held.enter_context(socket.create_connection(("127.0.0.1", tier.port), 10))

        def ask(peer):
            peer.sendall(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")

        for _ in range(most):
            connect()
        procs.wait_until(lambda: tier.metrics()["belfry_connections"] == most, 20, 0.05, tier.metrics)
        peers = [connect() for _ in range(100)]
        time.sleep(0.02)
        for peer in peers:
            ask(peer)
        for peer in peers:
            answer = b""
            while piece := peer.recv(4096):  # a reset raises
                answer += piece
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n"), answer
        assert rejected(tier, reason) == 100


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_without_room_is_answered_and_not_reset(cluster, make_tier, when):
    """A client that holds as many connections as it may is told so in its protocol, whether its request arrived with the
    connection or later. It never sees a reset, and the watches that it has go on."""
    tier = make_tier(cluster, "--workers", "1", "--max-connections", "12")
    watches = [socket.create_connection(("127.0.0.1", tier.port)) for _ in range(6)]
    for watch in watches:
        watch.sendall(LASTING["events"])
        assert watch.recv(4096).startswith(b"HTTP/1.1 200 ")
    before = rejected(tier, "connection_memory")
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", tier.port)) as more:
            if when == "after":
                time.sleep(0.02)
            more.sendall(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
            more.settimeout(10)
            answer = b""
            while piece := more.recv(4096):  # a reset raises
                answer += piece
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"\r\nretry-after: 1\r\n" in answer, answer
        assert b"no room for one more connection" in answer
    assert rejected(tier, "connection_memory") == before + 20
    peer = Peer(tier.port)
    assert run_until([peer], lambda: peer.goaway is not None)
    assert peer.goaway[0] == CALM and b"no room for one more connection" in peer.goaway[1], peer.goaway
    cluster.put("/quiet/key", "x")
    for watch in watches:
        watch.settimeout(10)
        assert b"/quiet/key" in watch.recv(65536) or b"/quiet/key" in watch.recv(65536)
        watch.close()
