"""Clients that hold a token: single calls, and a watch that notes when it was sent what."""
import queue
import threading
import time

from differential import decode, encode
import grpc

RANGE, TXN, AUTHENTICATE = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn", "/etcdserverpb.Auth/Authenticate"
WATCH = "/etcdserverpb.Watch/Watch"
NEVER = (1 << 63) - 1  # a revision that never comes


def metadata(token):
    return (("token", token),) if token is not None else ()


def channel_to(endpoint, credentials=None):
    """A connection of its own; `credentials`: (authority, certificate, key), as files."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    if credentials is None:
        return grpc.insecure_channel(endpoint, options=options)
    authority, certificate, key = (open(path, "rb").read() for path in credentials)
    return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(authority, key, certificate), options=options)


class Caller:
    def __init__(self, endpoint, credentials=None, metadata=()):
        """`metadata`: what every call has."""
        self.channel, self.metadata = channel_to(endpoint, credentials), metadata

    def close(self):
        self.channel.close()

    def call(self, path, message, token=None, timeout=10):
        """(code, text) of the answer, whose body is in `body`."""
        self.body = b""
        try:
            self.body = self.channel.unary_unary(path)(message, metadata=metadata(token) + self.metadata, timeout=timeout)
            return 0, ""
        except grpc.RpcError as e:
            return e.code().value[0], e.details()

    def range(self, token=None, key=b"/a/", end=b"", **more):
        fields = {"key": key, **({"range_end": end} if end else {}), **{k: v for k, v in more.items() if k != "timeout"}}
        return self.call(RANGE, encode("RangeRequest", fields), token, more.get("timeout", 10))

    def put(self, key, value, token=None, timeout=10):
        return self.call("/etcdserverpb.KV/Put", encode("PutRequest", {"key": key, "value": value}), token, timeout)

    def ask(self, token, *ranges, timeout=10):
        """The question that a tier asks: may this token read all these ranges?"""
        ops = [{"request_range": {"key": key, **({"range_end": end} if end else {}), "revision": NEVER}} for key, end in ranges]
        return self.call(TXN, encode("TxnRequest", {"success": ops}), token, timeout)

    def login(self, user):
        code, text = self.call(AUTHENTICATE, encode("AuthenticateRequest", {"name": user[0], "password": user[1]}))
        assert code == 0, (code, text)
        return decode("AuthenticateResponse", self.body)["token"]


class TokenWatch:
    """One stream with one or more watches; `events` are (when, watch id, key, value), `cancels` (when, watch id, reason)."""

    def __init__(self, endpoint, token, *ranges, credentials=None, more=()):
        """`more`: fields of the request."""
        self.channel = channel_to(endpoint, credentials)
        self._requests = queue.Queue()
        self.events, self.created, self.cancels, self.end = [], [], [], None
        for key, range_end in ranges:
            self.create(key, range_end)
        self._call = self.channel.stream_stream(WATCH)(iter(self._requests.get, None), metadata=metadata(token) + more)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def create(self, key, range_end=b""):
        self._requests.put(encode("WatchRequest", {"create_request": {"key": key, "range_end": range_end}}))

    def _read(self):
        try:
            for raw in self._call:
                now, answer = time.monotonic(), decode("WatchResponse", raw)
                number = answer.get("watch_id", 0)
                if answer.get("canceled"):
                    self.cancels.append((now, number, answer.get("cancel_reason", "")))
                elif answer.get("created"):
                    self.created.append(number)
                for event in answer.get("events", []):
                    self.events.append((now, number, event["kv"]["key"], event["kv"].get("value", b"")))
            self.end = (time.monotonic(), 0, "")
        except grpc.RpcError as e:
            self.end = (time.monotonic(), e.code().value[0], e.details())

    def is_healthy(self):
        return self.end is None and not self.cancels

    def close(self):
        self._requests.put(None)
        self._call.cancel()
        self._thread.join(10)
        self.channel.close()


class Ticker:
    """Writes the time to a key, ten times a second."""

    def __init__(self, endpoint, token, key):
        self._caller, self._token, self._key, self._stop = Caller(endpoint), token, key, threading.Event()
        self.n = self.failed = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.1):
            value = encode("PutRequest", {"key": self._key, "value": b'{"t":%f}' % time.monotonic()})
            code, _ = self._caller.call("/etcdserverpb.KV/Put", value, self._token(), 5)
            self.n += code == 0
            self.failed += code != 0

    def stop(self):
        self._stop.set()
        self._thread.join(10)
        self._caller.close()
