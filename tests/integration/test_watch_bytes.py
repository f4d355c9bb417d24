"""One client asks for watches and lists that are small on the wire and large in memory, in every dialect. The others do not
notice, memory stays within its bound, and the pool, the client and the reason are named."""
import gzip
import http.client
import os
import struct

import procs
import pytest
import rawh2
from hostile import END_STREAM, WATCH, log_in, text, varint
from rawh2 import DATA, END_HEADERS, HEADERS, frame
from test_security import READER, ROOT, enable_auth

pytestmark = pytest.mark.usefixtures("own_network")
GREEDY, OTHER = "10.77.0.9", "10.77.0.1"
MEMORY = 64  # MiB
PODS = "/apis/example.apiserver.k8s.io/v1/pods"
CRD = os.path.join(os.path.dirname(__file__), "../../bench/kube-pods.yaml")
FLAGS = ("--workers", "2", "--memory-bytes", f"{MEMORY}MiB", "--log-bytes", "8MiB", "--resources", f"{CRD},prefix=/registry/pods/")
EACH = 10  # of everything that the healthy client asks for
KEY_BYTES = 31000
COMMAS = b"," * 3850  # as values of a selector: 60 KB


def packed(n, bits, first):
    """An integer of HPACK."""
    most = (1 << bits) - 1
    if n < most:
        return bytes([first | n])
    return bytes([first | most]) + varint(n - most)


def gets(peer, path, n):
    """n GETs of one path, which is sent once: the later ones name it by HPACK's table. Reads nothing."""
    out = b""
    for i in range(n):
        named = b"\x44" + packed(len(path), 7, 0) + path if i == 0 else b"\xbe"
        head = b"\x82\x86\x01\x09localhost" + named
        out += frame(HEADERS, END_HEADERS | END_STREAM, peer.next_stream, head)
        peer.next_stream += 2
    peer.send(out)


def large_watches(peer, number, n, fields=()):
    """Watches of spans with long keys, ten on a stream, packed with gzip."""
    for i in range(n):
        raw = text(1, text(1, b"/a/%06d" % (number * n + i) + b"k" * KEY_BYTES) + text(2, b"/a/z" + b"z" * KEY_BYTES))
        small = gzip.compress(raw)
        message = b"\x01" + struct.pack(">I", len(small)) + small
        if i % 10 == 0:
            stream = peer.next_stream
            peer.next_stream += 2
            peer.send(frame(HEADERS, END_HEADERS, stream, rawh2.grpc_head(WATCH, (b"grpc-encoding", b"gzip"), *fields)))
        peer.send(frame(DATA, 0, stream, message))


SSE_PATH = b"/v1/events?" + b"&".join(b"prefix=%2F" + bytes([97 + i]) * 225 for i in range(16))
KINDS = {  # what the attacker sends on each of its connections, its windows, the pool that it fills, and what it is told
    "kube": (lambda peer, i: gets(peer, PODS.encode() + b"?watch=1&resourceVersion=0&labelSelector=a+in+(" + COMMAS + b")", 300),
             1 << 20, ("watch_bytes", "list_bytes"), b"TooManyRequests"),
    "etcd": (lambda peer, i: large_watches(peer, i, 150), 1 << 20, ("watch_bytes",), b"hold as much memory as they may"),
    "sse": (lambda peer, i: gets(peer, SSE_PATH, 1000), 1 << 20, ("watch_bytes",), b": belfry: the streams of this client"),
    "lists": (lambda peer, i: gets(peer, PODS.encode() + b"?resourceVersion=0&labelSelector=a+notin+(" + COMMAS + b")", 500),
              0, ("list_bytes",), None),
}


class Greedy:
    """Eight connections of the attacker, all of which stay."""

    def __init__(self, port, kind):
        attack, window, self.pools, self.reason = KINDS[kind]
        self.peers = [rawh2.Connection(port, source=GREEDY, stream_window=window, window=1 << 24) for _ in range(8)]
        for i, peer in enumerate(self.peers):
            attack(peer, i)
        self.told = b""

    def read(self):
        """Whatever it was answered by now."""
        for peer in self.peers:
            try:
                while True:
                    kind, _, _, payload = peer.read(0.3)
                    self.told += payload if kind == DATA else b""
            except (TimeoutError, AssertionError, OSError):
                pass

    def close(self):
        for peer in self.peers:
            peer.close()


def status(port, path):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(OTHER, 0))
    client.request("GET", path)
    answer = client.getresponse()
    code, first = answer.status, answer.read(1)
    client.close()
    return code if first else 0


def etcd_watch(port, key, *fields):
    """What the first message of a new watch has: "created", or why not."""
    peer = rawh2.Connection(port, source=OTHER)
    peer.open(WATCH, text(1, text(1, key)), *fields)
    while True:
        kind, flags, _, payload = peer.read(10)
        if kind == DATA:
            peer.close()
            return "created" if b"belfry" not in payload else payload
        assert not (kind == HEADERS and flags & END_STREAM), payload


def await_answers(peer, n):
    """n answers to creates, or the end of their stream."""
    while n > 0:
        kind, flags, _, payload = peer.read(20)
        if kind == HEADERS and flags & END_STREAM:
            return
        while kind == DATA and payload:
            n -= 1
            payload = payload[5 + int.from_bytes(payload[1:5], "big"):]


def healthy(port):
    """What another client notices: all it asks for must be answered."""
    found = {"etcd watches": [etcd_watch(port, b"/other/%d" % i) for i in range(EACH)],
             "Kubernetes watches": [status(port, f"{PODS}?watch=1&timeoutSeconds=5&resourceVersion=0") for _ in range(EACH)],
             "Kubernetes lists": [status(port, f"{PODS}?resourceVersion=0&fieldSelector=metadata.name%3Dw1") for _ in range(EACH)],
             "streams of events": [status(port, "/v1/events?prefix=%2Fother%2F") for _ in range(EACH)]}
    return {name: what for name, what in found.items() if set(what) - {"created", 200}}


def rss_mib(tier):
    with open(f"/proc/{tier.proc.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def pool_lines(tier):
    return [line for line in tier.get("/readyz?verbose")[1].splitlines() if "pools" in line]


def stand(make_tier, cluster, **more):
    for i in range(5):
        cluster.put(f"/registry/pods/default/w{i}", '{"apiVersion":"example.apiserver.k8s.io/v1","kind":"Pod","metadata":'
                                                   f'{{"name":"w{i}","namespace":"default"}}}}')
    return make_tier(cluster, *FLAGS, **more)


@pytest.mark.parametrize("kind", list(KINDS))
def test_large_watches_of_one_client_shut_out_nobody(cluster, make_tier, kind, figure):
    tier = stand(make_tier, cluster)
    assert healthy(tier.port) == {}
    assert pool_lines(tier) == ["[+]pools ok"]
    greedy = Greedy(tier.port, kind)

    def is_told():
        refused = tier.metrics()
        return any(refused[f'belfry_pool_refused_total{{pool="{pool}"}}'] > 0 for pool in greedy.pools)
    procs.wait_until(is_told, 20, 0.1, tier.log)
    assert healthy(tier.port) == {}
    procs.wait_until(lambda: any(f" {pool}" in line and f"{GREEDY} holds most" in line for pool in greedy.pools
                                 for line in pool_lines(tier)), 10, 0.2, lambda: pool_lines(tier))
    peak = rss_mib(tier)
    figure(f"watch_bytes.{kind}.rss", peak, "MiB")
    assert peak <= 1.25 * MEMORY
    if greedy.reason:
        greedy.read()
        assert greedy.reason in greedy.told
    greedy.close()
    procs.wait_until(lambda: tier.metrics()['belfry_pool_used{pool="watch_bytes"}'] < 1 << 20, 20, 0.1, tier.metrics)


def test_rights_of_one_user_shut_out_nobody(make_cluster, make_tier, tmp_path, figure):
    cluster = make_cluster()
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), *FLAGS[:6], rights="upstream")
    token, root = (b"token", log_in(tier.port, *READER)), (b"token", log_in(tier.port, *ROOT))
    peers = [rawh2.Connection(tier.port, source=GREEDY, stream_window=1 << 20, window=1 << 24) for _ in range(8)]
    for i in range(60):  # four watches each, as fast as etcd answers for them: otherwise the pool of requests is full first
        large_watches(peers[i % 8], i, 4, [token])
        await_answers(peers[i % 8], 4)

    def named():
        return [line for line in pool_lines(tier) if "pools: watch_bytes" in line and f"{GREEDY} holds most" in line]
    procs.wait_until(named, 30, 0.2, lambda: pool_lines(tier))
    assert [etcd_watch(tier.port, b"/secret/%d" % i, root) for i in range(EACH)] == ["created"] * EACH
    peak = rss_mib(tier)
    figure("watch_bytes.rights.rss", peak, "MiB")
    assert peak <= 1.25 * MEMORY
    for peer in peers:
        peer.close()
    procs.wait_until(lambda: tier.metrics()['belfry_pool_used{pool="watch_bytes"}'] < 1 << 20, 20, 0.1, tier.metrics)
