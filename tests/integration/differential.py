"""The same requests to etcd and to a belfryd in front of it, at the same time, and what each of them answered.

Both sides see one store: revisions, ids and terms are compared as they are. Messages are encoded and decoded here, by
tables of field numbers, so that nothing stands between a case and the wire: no library's defaults, no field that its
generated code is too old to know.
"""
import copy
import difflib
import json
import queue
import select
import socket
import struct
import threading
import time

import hpack
import procs
import grpc

WAIT = 10  # for what must come
QUIET = 0.15  # for what must not: more than a round of etcd's replay loop

# name -> {field number: (field name, type)}; a type is a scalar, the name of a message, or either in a list
SCHEMA = {
    "ResponseHeader": {1: ("cluster_id", "uint"), 2: ("member_id", "uint"), 3: ("revision", "int"),
    4: ("raft_term", "uint")},
    "KeyValue": {1: ("key", "bytes"), 2: ("create_revision", "int"), 3: ("mod_revision", "int"), 4: ("version", "int"),
                 5: ("value", "bytes"), 6: ("lease", "int")},
    "Event": {1: ("type", "int"), 2: ("kv", "KeyValue"), 3: ("prev_kv", "KeyValue")},
    "WatchRequest": {1: ("create_request", "WatchCreateRequest"), 2: ("cancel_request", "WatchCancelRequest"),
                     3: ("progress_request", "Empty")},
    "WatchCreateRequest": {1: ("key", "bytes"), 2: ("range_end", "bytes"), 3: ("start_revision", "int"),
                           4: ("progress_notify", "int"), 5: ("filters", ["int"]), 6: ("prev_kv", "int"),
                           7: ("watch_id", "int"), 8: ("fragment", "int")},
    "WatchCancelRequest": {1: ("watch_id", "int")},
    "WatchResponse": {1: ("header", "ResponseHeader"), 2: ("watch_id", "int"), 3: ("created", "int"),
    4: ("canceled", "int"),
                      5: ("compact_revision", "int"), 6: ("cancel_reason", "str"), 7: ("fragment", "int"),
                      11: ("events", ["Event"])},
    "Empty": {},
    "PutRequest": {1: ("key", "bytes"), 2: ("value", "bytes"), 3: ("lease", "int"), 4: ("prev_kv", "int")},
    "DeleteRangeRequest": {1: ("key", "bytes"), 2: ("range_end", "bytes")},
    "RangeRequest": {1: ("key", "bytes"), 2: ("range_end", "bytes"), 3: ("limit", "int"), 4: ("revision", "int"),
                     7: ("serializable", "int")},
    "RequestOp": {1: ("request_range", "RangeRequest"), 2: ("request_put", "PutRequest"), 3: ("request_delete_range", "DeleteRangeRequest")},
    "TxnRequest": {2: ("success", ["RequestOp"])},
    "CompactionRequest": {1: ("revision", "int"), 2: ("physical", "int")},
    "LeaseGrantRequest": {1: ("TTL", "int"), 2: ("ID", "int")},
    "LeaseGrantResponse": {1: ("header", "ResponseHeader"), 2: ("ID", "int"), 3: ("TTL", "int"), 4: ("error", "str")},
    "LeaseRevokeRequest": {1: ("ID", "int")},
    "AuthenticateRequest": {1: ("name", "str"), 2: ("password", "str")},
    "AuthenticateResponse": {1: ("header", "ResponseHeader"), 2: ("token", "str")},
    "Answer": {1: ("header", "ResponseHeader")},  # any response, as far as its header goes
}


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def encode(message, fields):
    """Only what is given is written, zeros too: a case may say explicitly what others leave out."""
    out = b""
    for number, (name, kind) in SCHEMA[message].items():
        if name not in fields:
            continue
        values, kind = (fields[name], kind[0]) if isinstance(kind, list) else ([fields[name]], kind)
        for value in values:
            if kind in ("int", "uint"):
                out += varint(number << 3) + varint(int(value))
            else:
                raw = value if kind == "bytes" else value.encode() if kind == "str" else encode(kind, value)
                out += varint(number << 3 | 2) + varint(len(raw)) + raw
    return out


def _read_varint(raw, at):
    value = shift = 0
    while True:
        value |= (raw[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if raw[at - 1] < 0x80:
            return value, at


def decode(message, raw):
    """A dict; what the table does not know is kept as `?number`, so that it is compared too."""
    out, at = {}, 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        if tag & 7 == 0:
            value, at = _read_varint(raw, at)
        elif tag & 7 == 2:
            size, at = _read_varint(raw, at)
            value, at = raw[at:at + size], at + size
        else:
            raise ValueError(f"wire type {tag & 7} in {message}")
        name, kind = SCHEMA[message].get(tag >> 3, (f"?{tag >> 3}", "bytes"))
        listed, kind = isinstance(kind, list), kind[0] if isinstance(kind, list) else kind
        if kind == "int" and value >> 63:
            value -= 1 << 64
        elif kind == "str":
            value = value.decode()
        elif kind in SCHEMA:
            value = decode(kind, value)
        if listed:
            out.setdefault(name, []).append(value)
        else:
            out[name] = value
    return out


def frame(message, flag=0):
    return struct.pack(">BI", flag, len(message)) + message


def watch_create(**fields):
    return encode("WatchRequest", {"create_request": fields})


def watch_cancel(watch_id):
    return encode("WatchRequest", {"cancel_request": {"watch_id": watch_id}})


WATCH_PROGRESS = encode("WatchRequest", {"progress_request": {}})
WATCH = "/etcdserverpb.Watch/Watch"


def channel(endpoint):
    return grpc.insecure_channel(endpoint, options=[("grpc.max_receive_message_length", -1),
        ("grpc.enable_http_proxy", 0),
                                                    ("grpc.max_send_message_length", -1)])


class Store:
    """Writes to etcd itself, the way a test means them."""

    def __init__(self, endpoint, metadata=()):
        self._channel, self.metadata = channel(endpoint), metadata
        self.revision = 0  # the newest that an answer has shown

    def call(self, path, message, fields, answer="Answer"):
        raw = self._channel.unary_unary(path)(encode(message, fields), timeout=WAIT, metadata=self.metadata)
        got = decode(answer, raw)
        self.revision = max(self.revision, got["header"].get("revision", 0))
        return got

    def put(self, key, value, lease=0):
        fields = {"key": key, "value": value, "lease": lease}
        return self.call("/etcdserverpb.KV/Put", "PutRequest", fields)["header"]["revision"]

    def put_many(self, key, value, times):
        """At once, when there are many: they are all the same."""
        raw = encode("PutRequest", {"key": key, "value": value})
        put = self._channel.unary_unary("/etcdserverpb.KV/Put")
        calls = [put.future(raw, timeout=WAIT, metadata=self.metadata) for _ in range(times)]
        for call in calls:
            self.revision = max(self.revision, decode("Answer", call.result())["header"]["revision"])

    def delete(self, key, range_end=b""):
        fields = {"key": key, "range_end": range_end}
        return self.call("/etcdserverpb.KV/DeleteRange", "DeleteRangeRequest", fields)["header"]["revision"]

    def txn(self, *ops):
        """ops: (key, value) puts, (key,) deletes"""
        success = [{"request_put": {"key": op[0], "value": op[1]}} if len(op) == 2
                   else {"request_delete_range": {"key": op[0]}} for op in ops]
        return self.call("/etcdserverpb.KV/Txn", "TxnRequest", {"success": success})["header"]["revision"]

    def compact(self, revision):
        self.call("/etcdserverpb.KV/Compact", "CompactionRequest", {"revision": revision, "physical": 1})

    def grant(self, ttl):
        return self.call("/etcdserverpb.Lease/LeaseGrant", "LeaseGrantRequest", {"TTL": ttl},
            "LeaseGrantResponse")["ID"]

    def revoke(self, lease):
        self.call("/etcdserverpb.Lease/LeaseRevoke", "LeaseRevokeRequest", {"ID": lease})

    def token(self, name, password):
        fields = {"name": name, "password": password}
        return self.call("/etcdserverpb.Auth/Authenticate", "AuthenticateRequest", fields,
            "AuthenticateResponse")["token"]

    def close(self):
        self._channel.close()


class Stream:
    """One Watch RPC: a thread reads it to its end and keeps every response."""

    def __init__(self, endpoint, metadata=()):
        self.got, self.status = [], None
        self._channel, self._to_send = channel(endpoint), queue.Queue()
        self._changed = threading.Condition()
        self._call = self._channel.stream_stream(WATCH)(iter(self._to_send.get, None), metadata=metadata)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for raw in self._call:
                self._note(decode("WatchResponse", raw))
        except grpc.RpcError:
            pass
        with self._changed:
            self.status = (self._call.code().value[0], self._call.details())
            self._changed.notify_all()

    def _note(self, response):
        with self._changed:
            self.got.append(response)
            self._changed.notify_all()

    def send(self, raw):
        self._to_send.put(raw)

    def half_close(self):
        self._to_send.put(None)

    def wait(self, what, timeout=WAIT):
        """Until what(responses, status) holds; False if it does not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: what(self.got, self.status), timeout)

    def close(self):
        self._call.cancel()
        self._to_send.put(None)
        self._thread.join(WAIT)
        self._channel.close()


# ---- what is compared

def _plain(value):
    if isinstance(value, bytes):
        return value.decode("latin-1") if len(value) < 100 else f"{len(value)} bytes of {value[:1]!r}"
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in sorted(value.items())}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _join(responses):
    """Responses with events that follow each other as one: what was delivered, not how it was cut."""
    out = []
    for r in responses:
        if r.get("events") and out and out[-1].get("events"):
            out[-1]["events"] += r["events"]
        else:
            out.append(copy.deepcopy(r))
        if r.get("events"):
            out[-1].pop("fragment", None)
            out[-1]["header"].pop("revision", None)
    return out


def view(stream, joined=False):
    """The answers in the order that etcd promises: creates in theirs, each watcher's own in theirs. Between watchers,
    and between progress for all (-1) and created, it promises none."""
    watchers = {}
    for r in stream.got:
        watchers.setdefault(r.get("watch_id", 0), []).append(r)
    if joined:
        watchers = {i: _join(rs) for i, rs in watchers.items()}
    out = {"created": [r.get("watch_id", 0) for r in stream.got if r.get("created")],
           "watchers": {str(i): rs for i, rs in sorted(watchers.items())}}
    if stream.status:
        out["status"] = list(stream.status)
    return _plain(out)


def difference(etcd, belfryd):
    """What differs between two views, line by line; empty when nothing does."""
    lines = [json.dumps(v, indent=1, sort_keys=True).splitlines() for v in (etcd, belfryd)]
    return "\n".join(difflib.unified_diff(*lines, "etcd", "belfryd", lineterm="", n=4))


# ---- raw requests

class Request:
    """One request as bytes: what a gRPC library would not let through. `differs` and `becomes` as for a Case."""

    def __init__(self, name, path, body, *headers, method="POST", kind="application/grpc", te="trailers", differs=None,
                 becomes=None):
        self.name, self.path, self.body, self.method = name, path, body, method
        headers = [tuple(h.split(": ")) for h in headers] + ([("te", te)] if te else [])
        self.headers = ([("content-type", kind)] if kind else []) + list(headers)
        self.differs, self.becomes = differs, becomes


DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
WINDOW = (1 << 31) - 1


class Exchange:
    """One HTTP/2 connection and its one request: no library in between that knows better."""

    def __init__(self, endpoint, timeout):
        host, port = endpoint.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.decoder = hpack.Decoder()
        self.received, self.window, self.stream_window, self.initial = b"", 65535, 65535, 65535
        self.blocks, self.data, self.end = [], b"", None
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.write(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW))
        self.write(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW - 65535))

    def write(self, kind, flags, stream, payload):
        head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
        try:
            self.socket.sendall(head + payload)
        except OSError:
            pass  # it has been answered already, or will be seen to be closed

    def read(self):
        """Takes in one frame; False at the end of the connection."""
        while len(self.received) < 9 or len(self.received) < 9 + int.from_bytes(self.received[:3], "big"):
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionError:
                more = b""
            if not more:
                self.end = self.end or "connection closed"
                return False
            self.received += more
        size, kind, flags = int.from_bytes(self.received[:3], "big"), self.received[3], self.received[4]
        stream = int.from_bytes(self.received[5:9], "big")
        payload, self.received = self.received[9:9 + size], self.received[9 + size:]
        self.take(kind, flags, stream, payload)
        return True

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == 4:
                    self.stream_window, self.initial = self.stream_window + value - self.initial, value
            self.write(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self.write(PING, ACK, 0, payload)
        elif kind == HEADERS:
            self.blocks.append(dict(self.decoder.decode(payload)))
        elif kind == DATA:
            self.data += payload
        elif kind == RST_STREAM:
            self.end = self.end or f"reset {int.from_bytes(payload, 'big')}"
        elif kind == WINDOW_UPDATE:
            n = int.from_bytes(payload, "big")
            self.window, self.stream_window = self.window + n * (stream == 0), self.stream_window + n * (stream != 0)
        elif kind == GOAWAY:
            self.end = self.end or f"goaway {int.from_bytes(payload[4:8], 'big')}"
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self.end = "end of stream"

    def upload(self, body):
        """As fast as the windows allow, and only while nobody has answered."""
        while body and self.end is None:
            n = min(len(body), 16384, self.window, self.stream_window)
            if n > 0:
                self.write(DATA, 0, 1, body[:n])
                body, self.window, self.stream_window = body[n:], self.window - n, self.stream_window - n
            if (n == 0 or select.select([self.socket], [], [], 0)[0]) and not self.read():
                return
        self.write(DATA, END_STREAM, 1, b"")


def post(endpoint, path, body, headers, method="POST", timeout=15):
    """What came back. One block of headers: the status was in the first; two: it came after the messages. What follows
    an end of stream (a reset, so that the client stops sending) is not part of the answer."""
    exchange = Exchange(endpoint, timeout)
    try:
        fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", endpoint), *headers]
        upload = method == "POST"
        exchange.write(HEADERS, END_HEADERS | (0 if upload else END_STREAM), 1,
        hpack.Encoder().encode(fields, huffman=False))
        if upload:
            exchange.upload(body)
        while exchange.end is None and exchange.read():
            pass
    finally:
        exchange.socket.close()
    for block in exchange.blocks:
        block.pop("date", None)
    return {"headers": exchange.blocks, "body": exchange.data.hex(), "end": exchange.end}


def both(*calls):
    """Runs the calls side by side and gives their results in order."""
    results, threads = [None] * len(calls), []

    def run(i, call):
        try:
            results[i] = call()
        except BaseException as e:  # told in the test's own thread
            results[i] = e
    for i, call in enumerate(calls):
        threads.append(threading.Thread(target=run, args=(i, call)))
        threads[-1].start()
    for t in threads:
        t.join()
    for r in results:
        if isinstance(r, BaseException):
            raise r
    return results


# ---- running a case

class Run:
    """A case on its way: two streams, opened at the first request, and the revision at which it began."""

    def __init__(self, store, etcd, tier, make_tier=None, metadata=()):
        self.store, self.etcd, self.tier, self.make_tier = store, etcd, tier, make_tier
        self.metadata = tuple(metadata)
        self.streams, self.lease, self.settled = {}, 0, 0
        self.base = store.delete(b"\0", b"\0")  # the same empty store for every case

    def revision(self, rev):
        return self.base + rev.n if isinstance(rev, Rev) else rev

    def open(self):
        if not self.streams:
            endpoints = {"etcd": self.etcd, "belfryd": self.tier.endpoint}
            self.streams = {name: Stream(e, self.metadata) for name, e in endpoints.items()}

    def settle(self):
        """Until the tier is where etcd is: that it may be behind is no difference to look for here."""
        if self.settled == self.store.revision:
            return

        def there():
            return all(w["position"] >= self.store.revision for w in self.tier.numbers()["workers"])
        self.settled = self.store.revision
        procs.wait_until(there, WAIT, 0.005,
        lambda: f"the tier follows to {self.store.revision}: {self.tier.numbers()}")

    def send(self, raw):
        self.open()
        self.settle()
        for stream in self.streams.values():
            stream.send(raw)

    def wait(self, what, said):
        """etcd must bring it, or the case is wrong; whether belfryd does is seen in the comparison."""
        self.open()
        came = {name: stream.wait(what) for name, stream in self.streams.items()}
        assert came["etcd"], f"etcd itself does not answer with {said}: {view(self.streams['etcd'])}"

    def close(self):
        for stream in self.streams.values():
            stream.close()


class Rev:
    """A revision counted from where the case begins: Rev(1) is its first write."""

    def __init__(self, n):
        self.n = n


def n_events(got):
    return sum(len(r.get("events", [])) for r in got)


def create(key=b"", end=None, rev=None, **fields):
    def step(run):
        fields["key"] = key
        if end is not None:
            fields["range_end"] = end
        if rev is not None:
            fields["start_revision"] = run.revision(rev)
        run.send(watch_create(**fields))
    return step


def cancel(watch_id):
    return lambda run: run.send(watch_cancel(watch_id))


def progress():
    return lambda run: run.send(WATCH_PROGRESS)


def raw(message):
    return lambda run: run.send(message)


def half_close():
    return lambda run: [s.half_close() for s in run.streams.values()]


def expect(n):
    """n responses in all."""
    return lambda run: run.wait(lambda got, status: len(got) >= n, f"{n} responses")


def expect_events(n):
    """n events in all, in any number of responses."""
    return lambda run: run.wait(lambda got, status: n_events(got) >= n, f"{n} events")


def expect_end():
    return lambda run: run.wait(lambda got, status: status is not None, "the stream's end")


def quiet(seconds=QUIET):
    return lambda run: time.sleep(seconds)


def put(key, value=b"v", times=1):
    return lambda run: run.store.put_many(key, value, times)


def put_leased(key, value=b"v"):
    def step(run):
        run.lease = run.lease or run.store.grant(600)
        run.store.put(key, value, run.lease)
    return step


def revoke():
    return lambda run: run.store.revoke(run.lease)


def delete(key, end=b""):
    return lambda run: run.store.delete(key, end)


def txn(*ops):
    return lambda run: run.store.txn(*ops)


def compact(rev):
    return lambda run: run.store.compact(run.revision(rev))


def new_tier():
    """From here on belfryd is another one, just started, which has seen nothing of what came before."""
    def step(run):
        assert not run.streams
        run.tier, run.settled = run.make_tier(), 0
    return step


class Case:
    """Steps, run on both sides; `joined` compares what was delivered and not how it was cut into responses. A case that
    `differs` names its line in docs/compatibility.md and gives a function of etcd's answer: belfryd's."""

    def __init__(self, name, *steps, joined=False, differs=None, becomes=None, metadata=(), stale=False,
                 jwt=False):
        self.name, self.steps, self.joined = name, steps, joined
        self.differs, self.becomes = differs, becomes
        self.metadata = metadata
        self.stale, self.jwt = stale, jwt or stale  # its token is from before a change of rights; is a JWT, too


def run_case(case, store, etcd, tier, make_tier=None, metadata=None):
    """(etcd's view, belfryd's view, the revision at which the case began)"""
    run = Run(store, etcd, tier, make_tier, case.metadata if metadata is None else metadata)
    try:
        for step in case.steps:
            step(run)
        time.sleep(QUIET)
        return tuple(view(run.streams[name], case.joined) for name in ("etcd", "belfryd")) + (run.base,)
    finally:
        run.close()
