"""One hostile connection for each worker, of each kind that once worked, beside clients in good order: leases that are
kept alive, watches, gets. Quiet times and attacks take turns, so that both are measured on the same machine."""
import os
import socket
import struct
import sys
import time

import hostile
import procs
import pytest
import rawh2
from checker import Spec
from client import Recorder
from hostile import Gets, Leases, Peer, Watchers, call, fields, log_in, number, pump, text
from rawh2 import DATA, HEADERS, frame
from test_security import ROOT, enable_auth

WORKERS = 2
FLOOR_S = 0.020  # below this a p99 says more of the machine than of belfryd
N_LEASES, N_WATCHERS, TTL = 100, 200, 5
CONNECTIONS = {"heads": 2 * WORKERS, "halves": 2 * WORKERS, "streams": 3 * WORKERS, "packed": 10 * WORKERS, "bombs": 15 * WORKERS}


@pytest.fixture
def guarded(make_cluster, make_tier, tmp_path):
    """Auth is on upstream; memory is short, so that streams can fill it."""
    cluster = make_cluster()
    enable_auth(cluster)
    cluster.put("/hostile/0", "value")
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), "--workers",
                     str(WORKERS), "--memory-bytes", "96MiB", "--log-bytes", "16MiB", rights="upstream")
    return cluster, tier


def p99(took):
    return sorted(took)[int(len(took) * 0.99)] if took else float("inf")


class Healthy:
    """All of them, on one loop."""

    def __init__(self, cluster, tier):
        self.tier, self.token = tier, log_in(tier.port, *ROOT)
        self.ids = [fields(self.call(hostile.GRANT, number(1, TTL)))[2] for _ in range(N_LEASES)]
        self.leases = Leases(tier.port, self.token, self.ids)
        self.watchers = Watchers(tier.port, self.token, N_WATCHERS)
        self.gets = Gets(tier.port, self.token)
        self.parts = self.leases, self.watchers, self.gets
        self.run(1)
        assert self.watchers.created == N_WATCHERS, "not every watch was created"

    def call(self, path, raw):
        answer = call(self.tier.port, path, raw, self.token)
        assert answer is not None, f"{path} was not answered"
        return answer

    def run(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            for part in self.parts:
                part.turn(time.monotonic())
            pump(self.leases.peers + self.watchers.all_peers() + self.gets.all_peers(), 0.002)

    def phase(self, seconds):
        """(times of gets that succeeded, gets that failed)"""
        self.gets.begin_phase()
        self.run(seconds)
        return self.gets.took, self.gets.failed

    def leases_lost(self, cluster):
        there = cluster.ctl("lease", "list").stdout.decode().split()
        return sum(f"{lease:x}" not in there and f"{lease:016x}" not in there for lease in self.ids)

    def every_watch_hears(self):
        before = self.watchers.events
        self.call(hostile.PUT, text(1, b"/hostile/watched") + text(2, b"x"))
        self.run(10, lambda: self.watchers.events >= before + N_WATCHERS)
        return self.watchers.events - before


def attack(tier, kind, seconds):
    script = os.path.join(os.path.dirname(__file__), "hostile.py")
    return procs.spawn([sys.executable, script, kind, str(tier.port), str(CONNECTIONS[kind]), str(seconds)],
                       stdout=-1, stderr=-1)


@pytest.mark.parametrize("kind", ["heads", "halves", "streams", "packed", "bombs"])
def test_healthy_clients_do_not_notice(guarded, kind, soak, figure):
    cluster, tier = guarded
    healthy = Healthy(cluster, tier)
    rounds, quiet_s, attack_s = (3, 10, 20) if soak else (1, 2, 4)  # bench/attacks is the longer of both in the gate
    quiet, attacked, failed = [], [], 0
    for _ in range(rounds):
        took, missed = healthy.phase(quiet_s)
        assert missed == 0, "gets failed before anything was attacked"
        quiet += took
        proc = attack(tier, kind, attack_s)
        took, missed = healthy.phase(attack_s)
        attacked += took
        failed += missed
        out, err = proc.communicate(timeout=30)
        print(kind, out.decode().strip(), err.decode()[-500:], flush=True)
    share = len(attacked) / (len(attacked) + failed)
    lost, heard = healthy.leases_lost(cluster), healthy.every_watch_hears()
    rejected = {name: value for name, value in tier.metrics().items() if "unfinished" in name and value}
    figure(f"hostile.{kind}.gets", len(attacked) + failed)
    figure(f"hostile.{kind}.succeeded", 100 * share, "%")
    figure(f"hostile.{kind}.p99_quiet", 1000 * p99(quiet), "ms")
    figure(f"hostile.{kind}.p99_attacked", 1000 * p99(attacked), "ms")
    figure(f"hostile.{kind}.p99_ratio", p99(attacked) / p99(quiet))
    figure(f"hostile.{kind}.longest_get", 1000 * max(attacked), "ms")
    figure(f"hostile.{kind}.leases_lost", lost)
    figure(f"hostile.{kind}.keep_alives_cut", healthy.leases.cut)
    figure(f"hostile.{kind}.watches_cut", healthy.watchers.cut)
    figure(f"hostile.{kind}.new_watches", f"{healthy.watchers.made}/{healthy.watchers.tried}")
    print(rejected, flush=True)
    assert lost == 0 and healthy.leases.cut == 0
    assert healthy.watchers.cut == 0 and heard == N_WATCHERS
    assert healthy.watchers.made >= healthy.watchers.tried - 2, "new watches were refused"  # the newest may be on its way
    assert share >= 0.999, f"{failed} gets failed"
    if kind in ("packed", "bombs"):  # a turn of a worker took a second, or two
        assert p99(attacked) < 0.5, f"{p99(attacked)} s"
    if soak:  # in the gate other tests run beside this one, and a p99 of 4 s is theirs: it is printed, not judged
        assert p99(attacked) <= max(3 * p99(quiet), FLOOR_S), f"{p99(quiet)} s became {p99(attacked)} s"
    assert tier.get("/readyz")[0] == 200


class Seen:
    """How a stream ended: when, and by which frame."""

    def __init__(self):
        self.ended, self.after = None, None
        self.began = time.monotonic()

    def __call__(self, kind, flags, payload):
        if kind is None or kind == hostile.RST_STREAM or flags & hostile.END_STREAM:
            self.ended, self.after = kind, time.monotonic() - self.began


def test_half_a_request_ends_after_ten_seconds(tier):
    """What waits in good order does not."""
    peer, begun, other = Peer(tier.port), Peer(tier.port), Peer(tier.port)
    call_, half, idle_watch, idle_lease, half_lease = Seen(), Seen(), Seen(), Seen(), Seen()
    peer.open(hostile.RANGE, None, call_)
    stream = peer.open(hostile.WATCH, None, half)
    peer.send(frame(DATA, 0, stream, b"\0\0\0\0\x10half"))
    peer.open(hostile.WATCH, None, idle_watch)
    peer.open(hostile.KEEPALIVE, None, idle_lease)
    stream = other.open(hostile.KEEPALIVE, None, half_lease)
    other.send(frame(DATA, 0, stream, b"\0\0\0\0\x10half"))
    for _ in range(5):
        pump([peer, begun, other], 0.1)  # SETTINGS are acknowledged: nothing may come between HEADERS and their rest
    begun.send(frame(HEADERS, 0, 1, rawh2.grpc_head(hostile.RANGE)))  # END_HEADERS never comes
    end = time.monotonic() + 20
    while time.monotonic() < end and not (call_.after and half.after and half_lease.after and begun.closed):
        pump([peer, begun, other], 0.1)
    for seen in (call_, half, half_lease):
        assert seen.ended == HEADERS and 9.5 < seen.after < 19, (seen.ended, seen.after)  # a status, not a reset
    assert begun.closed and b"head was begun" in begun.goaway[1]
    assert idle_watch.after is None and idle_lease.after is None
    metrics = tier.metrics()
    assert metrics['belfry_rejected_total{reason="unfinished_call"}'] == 2
    assert metrics['belfry_rejected_total{reason="unfinished_watch"}'] == 1
    assert metrics['belfry_rejected_total{reason="unfinished_head"}'] == 1
    assert metrics['belfry_rejected_total{reason="unfinished_largest"}'] == 0
    assert metrics['belfry_memory_bytes{pool="relay"}'] < 2048  # the head of the keep-alive that waits


def test_a_goodbye_of_a_go_client_is_no_flood(cluster, tier, tmp_path):
    recorder = Recorder(tier.endpoint, tmp_path / "record", go=True)
    recorder.open(Spec(0, "prefix", b"/a/"))
    recorder.wait_rev({0: cluster.put("/a/1", "x")}, 10)
    recorder.quit()
    peer = Peer(tier.port)
    peer.open(hostile.WATCH, Watchers.create(), lambda *_: None)
    peer.send(frame(rawh2.GOAWAY, 0, 0, struct.pack(">II", 1, 0)))
    procs.wait_until(lambda: tier.metrics()["belfry_connections"] == 0, 10, 0.1, "both have left")
    assert tier.metrics()['belfry_rejected_total{reason="flood"}'] == 0


def ask(port, name, path="/health", head=""):
    """The status line of plain HTTP/1.1 that names that host."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {name}\r\n{head}Connection: close\r\n\r\n".encode())
        return s.makefile("rb").read().decode()


def test_plain_http_is_asked_by_the_tiers_own_names(cluster, make_tier):
    tier = make_tier(cluster, "--advertise", "http://tier.example:1", "--allowed-hosts", "a.example,b.example")
    for port, path in ((tier.port, "/health"), (tier.admin_port, "/metrics")):
        for name in (f"127.0.0.1:{port}", "[::1]", f"localhost:{port}", "Tier.Example", "b.example:80"):
            assert " 200 " in ask(port, name, path).splitlines()[0], name
        for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example"):
            answer = ask(port, name, path)
            assert " 421 " in answer.splitlines()[0] and "--allowed-hosts" in answer, name
    grpc = ask(tier.port, "127.0.0.1", "/etcdserverpb.KV/Range", "Content-Type: application/grpc\r\n")
    assert " 505 " in grpc.splitlines()[0] and "gRPC requires HTTP/2" in grpc
    metrics = tier.metrics()
    assert metrics['belfry_rejected_total{reason="host"}'] == 3
    assert metrics['belfry_rejected_total{reason="grpc_over_http1"}'] == 1
