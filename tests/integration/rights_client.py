"""One client that uses every dialect with one token: a gRPC watch, relayed reads, Kubernetes lists and watches, discovery, Server-Sent
Events, reads and watches of the JSON gateway. It notes what it was given, and when."""
import contextlib
import http.client
import json
import re
import select
import socket
import threading
import time

from gateway import b64
from kube import Watch, request
from rights import Caller, TokenWatch
from test_kube_auth import SEEN, bearer

OURS = (b"/a/", b"/a0")
DISCOVERY = "/apis/demo.example.com/v1"
POLL_S = 0.1
DIALECTS = ("gRPC watch", "relay", "Kubernetes watch", "Kubernetes list", "discovery", "SSE", "gateway watch", "gateway read")
RANGE_JSON = {"key": b64(OURS[0]), "range_end": b64(OURS[1])}
KEY_JSON = b64(b"/a/prod/web").encode()


def post_bytes(path, body, token):
    """A request over HTTP/1.1 with a token, as bytes."""
    raw = json.dumps(body).encode() if body is not None else b""
    head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(raw)}"]
    head += [f"Authorization: {token}"] if token else []
    return "\r\n".join([*head, "", ""]).encode() + raw


class LineReader:
    """A response over HTTP/1.1 that goes on, which a thread reads line by line: `events` are the times of those that name the key,
    `said` are the others."""

    def __init__(self, port, raw, word):
        self.word, self.events, self.said, self.code, self.end, self._stop = word, [], [], None, None, False
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.sendall(raw)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        rest = b""
        while not self._stop:
            if not select.select([self.socket], [], [], 0.2)[0]:
                continue
            try:
                piece = self.socket.recv(65536)
            except OSError:
                piece = b""
            if not piece:
                self.end = time.monotonic()
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if self.code is None:
                    self.code = int(line.split()[1])
                elif self.word in line:
                    self.events.append(time.monotonic())
                elif line.strip():
                    self.said.append((time.monotonic(), line.strip()))

    def has_said(self, word):
        """When it first said so; None: never."""
        return next((when for when, line in self.said if word in line), None)

    def told(self, *words):
        """When it said one of these or ended; None: never."""
        return min((when for when in (self.end, *map(self.has_said, words)) if when is not None), default=None)

    def close(self):
        self._stop = True
        self._thread.join(10)
        self.socket.close()


class KubeReader:
    """A Kubernetes watch that a thread reads: `events` are (when, type), `error` the code of an ERROR event."""

    def __init__(self, endpoint, token):
        self.watch = Watch(endpoint, SEEN, "watch=1", bearer(token) if token else None)
        self.code, self.events, self.error, self.end, self._stop = self.watch.code, [], None, None, False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while self.code == 200 and self.end is None and not self._stop:
            try:
                line = self.watch.line(timeout=0.2)
            except AssertionError as e:
                if "no event within" not in str(e):
                    self.end = time.monotonic(), str(e)
                continue
            except OSError as e:
                self.end = time.monotonic(), str(e)
                continue
            if line is None:
                self.end = time.monotonic(), ""
                return
            kind = re.search(rb'"type":"(\w+)"', line).group(1).decode()
            if kind == "ERROR":
                self.error = int(re.search(rb'"code":(\d+)', line).group(1))
            else:
                self.events.append((time.monotonic(), kind))

    def close(self):
        self._stop = True
        self._thread.join(10)
        self.watch.socket.close()


class Client:
    """`answers` by dialect: (when it was asked for or came, whether it had anything of the keys in it)."""

    def __init__(self, tier, token):
        self.tier, self.token = tier, token
        self.answers = {"relay": [], "Kubernetes list": [], "discovery": [], "gateway read": []}
        self.watch, self.kube = TokenWatch(tier.endpoint, token, OURS), KubeReader(tier.endpoint, token)
        self.sse = LineReader(tier.port, post_bytes("/v1/events?prefix=%2Fa%2F", None, token), b"/a/prod/web")
        self.lines = LineReader(tier.port, post_bytes("/v3/watch", {"create_request": RANGE_JSON}, token), KEY_JSON)
        self._caller, self._stop = Caller(tier.endpoint), threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _note(self, dialect, asked, body, code, word):
        assert (word in body) <= (code in (0, 200)), (dialect, code, body)
        self.answers[dialect].append((asked, word in body))

    def _poll(self):
        headers = bearer(self.token) if self.token else None
        while not self._stop.wait(POLL_S):
            asked = time.monotonic()
            code, _ = self._caller.range(self.token, *OURS, timeout=5)
            self._note("relay", asked, self._caller.body, code, b"web")
            for dialect, path, word in (("Kubernetes list", SEEN, b"web"), ("discovery", DISCOVERY, b"configs")):
                asked = time.monotonic()
                with contextlib.suppress(OSError, AssertionError):
                    answer = request(self.tier.endpoint, path, None, headers)
                    self._note(dialect, asked, answer.body, answer.code, word)
            asked = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._note("gateway read", asked, *self._gateway_read(), KEY_JSON)

    def _gateway_read(self):
        """(body, status)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.tier.port, timeout=5)
        try:
            connection.request("POST", "/v3/kv/range", json.dumps(RANGE_JSON), {"Authorization": self.token} if self.token else {})
            answer = connection.getresponse()
            return answer.read(), answer.status
        finally:
            connection.close()

    def given(self, dialect):
        """When it was given something: for answers the time at which they were asked for."""
        if dialect == "gRPC watch":
            return [e[0] for e in self.watch.events]
        if dialect == "Kubernetes watch":
            return [e[0] for e in self.kube.events]
        if dialect in ("SSE", "gateway watch"):
            return list((self.sse if dialect == "SSE" else self.lines).events)
        return [when for when, has in self.answers[dialect] if has]

    def refused(self, dialect, since):
        """How many answers had nothing, of those that were asked for since then."""
        return sum(when >= since and not has for when, has in self.answers[dialect])

    def told(self):
        """When each stream was told that it is over, by its end or by a last word; None: never."""
        return {"gRPC watch": min([self.watch.end] * bool(self.watch.end) + self.watch.cancels, default=[None])[0],
                "Kubernetes watch": self.kube.end and self.kube.end[0],
                "SSE": self.sse.told(b"event: denied"), "gateway watch": self.lines.told(b'"canceled":true', b'"error":{')}

    def cancelled(self):
        """Watches that were ended as if their right were gone."""
        return (len(self.watch.cancels) + (self.kube.error == 403) + (self.sse.has_said(b"does not allow") is not None)
                + (self.lines.has_said(b"PermissionDenied") is not None))

    def close(self):
        self._stop.set()
        self._thread.join(20)
        for one in (self.watch, self.kube, self.sse, self.lines, self._caller):
            one.close()
