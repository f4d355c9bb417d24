"""hostile_upstream: an upstream that turns hostile, for bench/attacks: what belfryd must bear from an etcd, or from a tier above, that is
broken or taken over.

A proxy stands between belfryd and what it follows. While it is honest it passes everything on; then it ends all connections and
is hostile to new ones, in one of the ways below, and then honest again. Its bytes are made by hand."""
import contextlib
import http.client
import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import attack_stage
import stage

LAG_S = 2         # --ready-lag
HOSTILE_S = 5     # of each kind: longer than that, after which /readyz must say why
BACK_S = 30       # until the tier is ready again
RATE_S = 0.002    # between two of endless frames of 16 KiB: 8 MiB/s
SHORT_S = 2       # for an answer of what is known
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, CONTINUATION = 0, 1, 4, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FIELDS = b"\x88\x00\x0ccontent-type\x10application/grpc"  # :status 200
TRAILERS = b"\x00\x0bgrpc-status\x010"


def frame(kind, flags, stream_id, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream_id) + payload


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(revision):
    """A header and that revision, which every answer of etcd has; for a watch: created, and for a range a count of 0."""
    header = b"\x08\x01\x10\x01\x18" + varint(revision) + b"\x20\x01"
    body = b"\x0a" + varint(len(header)) + header + b"\x18\x01"
    return b"\0" + struct.pack(">I", len(body)) + body


# ---- what it does when a stream is opened: a generator of bytes ----

def half_frames(stream_id):
    yield frame(HEADERS, END_HEADERS, stream_id, FIELDS)
    yield frame(DATA, 0, stream_id, message(1) * 1000)[:700]  # the rest does not come


def huge_messages(stream_id):
    yield frame(HEADERS, END_HEADERS, stream_id, FIELDS)
    yield frame(DATA, 0, stream_id, b"\0\xff\xff\xff\xff")  # of 4 GiB
    while True:
        yield frame(DATA, 0, stream_id, bytes(16384))


def wrong_revisions(stream_id):
    yield frame(HEADERS, END_HEADERS, stream_id, FIELDS)
    for revision in ((1 << 63) - 1, 1, 1 << 62, 2, 0):
        yield frame(DATA, 0, stream_id, message(revision))
    yield frame(HEADERS, END_HEADERS | END_STREAM, stream_id, TRAILERS)


def endless_headers(stream_id):
    yield frame(HEADERS, 0, stream_id, FIELDS)
    while True:
        yield frame(CONTINUATION, 0, stream_id, (b"\x00\x01a\x7f\x00" + b"b" * 127) * 124)


def garbage(stream_id):
    for seed in range(64):
        yield bytes((seed * 31 + i * i * 7 + i) & 255 for i in range(1024))


def silence(_):
    return iter(())


# It says well-formed that it is another cluster, and that it is anywhere: reads are relayed to it, as to an etcd that was replaced.
BELIEVED = (wrong_revisions,)
KINDS = (half_frames, huge_messages, wrong_revisions, endless_headers, garbage, silence)


class Proxy:
    def __init__(self, target):
        self.target, self.kind, self.sent, self.met = target, None, 0, 0
        self.sockets, self.lock = set(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            with self.lock:
                self.sockets.add(client)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def turn(self, kind):
        """From now on; None: honest."""
        with self.lock:
            self.kind, ended, self.sockets = kind, self.sockets, set()
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.listener.close()
        self.turn(None)

    def serve(self, client):
        with contextlib.suppress(OSError, struct.error), client:
            if self.kind is None:
                self.pass_on(client)
            else:
                self.be_hostile(client, self.kind)

    def pass_on(self, client):
        host, port = self.target.split(":")
        with socket.create_connection((host, int(port)), 5) as server:
            server.settimeout(None)
            with self.lock:
                self.sockets.add(server)
            back = threading.Thread(target=self.copy, args=(server, client), daemon=True)
            back.start()
            self.copy(client, server)
            back.join()

    @staticmethod
    def copy(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def be_hostile(self, client, kind):
        if self.exactly(client, len(PREFACE)) != PREFACE:
            return
        self.met += 1
        client.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        while True:
            head = self.exactly(client, 9)
            self.exactly(client, int.from_bytes(head[:3], "big"))
            if head[3] == HEADERS:
                threading.Thread(target=self.answer, args=(client, kind, struct.unpack(">I", head[5:])[0]), daemon=True).start()

    def answer(self, client, kind, stream_id):
        with contextlib.suppress(OSError):
            for data in kind(stream_id):
                client.sendall(data)
                self.sent += len(data)
                time.sleep(RATE_S)

    @staticmethod
    def exactly(client, n):
        data = b""
        while len(data) < n:
            more = client.recv(n - len(data))
            if not more:
                raise OSError("closed")
            data += more
        return data


class Stage(attack_stage.Stage):
    """belfryd follows etcd through the proxy."""

    proxy = None

    def above(self):
        return self.processes["etcd"].address

    def argv(self, name, port):
        self.asked = [*super().argv(name, port), "--ready-lag", f"{LAG_S}s"]
        return self.asked

    def upstream(self):
        if self.proxy is None:
            self.proxy = Proxy(self.above())
        return self.proxy.address

    def stop(self):
        if self.proxy:
            self.proxy.stop()
        super().stop()

    # ---- while it is hostile ----

    def be_hostile(self):
        watch = self.open_watch()
        with watch:
            for kind in KINDS:
                self.proxy.met, name = 0, kind.__name__
                known = self.answer(self.belfryd.address, serializable=True)
                self.proxy.turn(kind)
                self.bear(name, None if kind in BELIEVED else known)
                self.proxy.turn(None)
                self.recover(name)
            watch.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while data := watch.recv(65536):
                    if b"event: belfry" in data:
                        break
                if not data:
                    self.wrongs.append("a watch that was there before has ended")

    def bear(self, name, known):
        """What is known (None: it is not judged) is served, and /readyz says in the end why nothing is new."""
        until, code, why = time.monotonic() + HOSTILE_S, 0, []
        while time.monotonic() < until:
            with self.noting(f"{name}: what is known is not served"):
                if known and self.answer(self.belfryd.address, serializable=True) != known:
                    self.wrongs.append(f"{name}: another answer than what was known")
            with self.noting(f"{name}: /readyz does not answer"):
                code, why = attack_stage.readyz(self.admin)
            time.sleep(0.2)
        if self.belfryd.popen.poll() is not None:
            self.wrongs.append(f"{name}: belfryd has ended ({self.belfryd.popen.returncode})")
        if code == 200 or not any(line.startswith(("[-]upstream", "[-]lag")) for line in why):
            self.wrongs.append(f"{name}: /readyz says {code} {why}")
        if self.proxy.met == 0:
            self.wrongs.append(f"{name}: belfryd did not come")

    def recover(self, name):
        """As etcd is: no lie is kept."""
        began = time.monotonic()
        while time.monotonic() < began + BACK_S:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if attack_stage.readyz(self.admin)[0] == 200 and self.answer(self.belfryd.address) == self.answer(self.processes["etcd"].address):
                    return
            time.sleep(0.2)
        self.wrongs.append(f"{name}: not ready, or not as etcd, {BACK_S} s after it")

    @contextlib.contextmanager
    def noting(self, what):
        try:
            yield
        except (OSError, ValueError, http.client.HTTPException) as e:
            body = e.read().decode() if isinstance(e, urllib.error.HTTPError) else ""
            self.wrongs.append(f"{what}: {e} {body}")

    @staticmethod
    def answer(address, **more):
        """Of some keys: how many there are, and which was written when."""
        asked = json.dumps({"key": "L2JlbmNoLw==", "range_end": "L2JlbmNoLzI=", **more}).encode()  # /bench/ to /bench/2
        with urllib.request.urlopen(f"http://{address}/v3/kv/range", asked, timeout=SHORT_S) as answer:
            found = json.load(answer)
            return found["count"], [(kv["key"], kv["mod_revision"]) for kv in found["kvs"]]

    def open_watch(self):
        host, port = self.belfryd.address.split(":")
        watch = socket.create_connection((host, int(port)), 5)
        watch.sendall(b"GET /v1/events?key=/bench/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        if b" 200 " not in watch.recv(4096):
            raise stage.Failure("the watch is refused")
        return watch

    def told(self):
        return {"told": {}, "bytes_out": self.proxy.sent, "bytes_in": 0}


class ParentStage(Stage):
    """The same with a tier in between: etcd, the parent, the proxy, belfryd."""

    parent = None

    def above(self):
        port = stage.free_port()
        self.parent = stage.Process("parent", [
            self.tools.belfryd, "--name", "parent", "--upstream", f"http://{self.processes['etcd'].address}", "--listen", f"http://127.0.0.1:{port}",
            "--admin", f"http://127.0.0.1:{stage.free_port()}", "--cache-dir", f"{self.folder.name}/parent"],
            f"127.0.0.1:{port}", f"{self.folder.name}/parent.log")
        self.parent.await_ready(self.tools.bench, [])
        return self.parent.address

    def stop(self):
        if self.parent:
            self.parent.stop()
        super().stop()
