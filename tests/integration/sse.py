"""A client of Server-Sent Events over HTTP/1.1, with the state that a page would have."""
import base64
import http.client
import json
import threading
import time
import urllib.parse

TIMEOUT_S = 30


def bytes_of(event, name):
    """A key or a value, as bytes."""
    if f"{name}_b64" in event:
        return base64.b64decode(event[f"{name}_b64"])
    value = event[name]
    return (value if isinstance(value, str) else json.dumps(value)).encode()


class Message:
    def __init__(self, fields):
        self.event = fields.get("event", "message")
        self.id = fields.get("id")
        self.retry = fields.get("retry")
        self.data = json.loads(fields["data"]) if "data" in fields else None

    def __repr__(self):
        return f"<{self.event} id={self.id} {self.data}>"


def messages(stream):
    """The messages of a byte stream of lines, and None for each comment."""
    fields = {}
    for raw in iter(stream.readline, b""):
        line = raw.decode().rstrip("\n")
        if line == "":
            if fields:
                yield Message(fields)
            fields = {}
        elif line.startswith(":"):
            yield None
        else:
            name, _, value = line.partition(": ")
            fields[name] = value


def query(*ranges, **more):
    """query(("prefix", "/a/"), snapshot=1)."""
    return urllib.parse.urlencode([*ranges, *((k.replace("_", "-"), v) for k, v in more.items())])


class Stream:
    """One response."""

    def __init__(self, url, text, headers=None, timeout=TIMEOUT_S):
        host = url.split("//")[1]
        self.conn = http.client.HTTPConnection(host, timeout=timeout)
        self.conn.request("GET", f"/v1/events?{text}", headers=headers or {})
        self.answer = self.conn.getresponse()
        self.status = self.answer.status
        self._messages = messages(self.answer)

    def next(self):
        """The next message that is not only a retry; None: the end."""
        for message in self._messages:
            if message is not None and message.data is not None:
                return message
        return None

    def take(self, n):
        return [self.next() for _ in range(n)]

    def close(self):
        self.conn.close()
        if self.conn.sock is None and self.answer.fp is not None:
            self.answer.close()


class State:
    """What a page knows: nothing of a state or a revision until all of it is there."""

    def __init__(self):
        self.keys = {}
        self.rev = 0
        self.id = None
        self.resets = []
        self.seen = []  # of revisions, in the order in which they were applied
        self._state = None
        self._parts = []

    def take(self, message):
        data = message.data
        if message.event == "reset":
            self.resets.append(data["reason"])
            self._state, self._parts = ({}, []) if "rev" not in data else (None, [])
            if "rev" in data:
                self.rev = data["rev"]
        elif message.event == "state":
            self._apply(self._state, data["events"])
        elif message.event == "synced":
            assert len(self._state) == data["n"]
            self.keys, self._state, self.rev = self._state, None, data["rev"]
        elif message.event == "progress":
            assert data["rev"] >= self.rev, f"progress went back from {self.rev}: {message}"
            self.rev = data["rev"]
        elif message.event == "message":
            assert data["rev"] > self.rev, f"a revision came again after {self.rev}: {message}"
            self._parts += data["events"]
            if not data.get("more"):
                self._apply(self.keys, self._parts)
                self._parts, self.rev = [], data["rev"]
                self.seen.append(data["rev"])
                assert message.id is not None
        if message.id is not None:
            self.id = message.id

    @staticmethod
    def _apply(keys, events):
        for event in events:
            key = bytes_of(event, "key")
            if event["op"] == "put":
                keys[key] = bytes_of(event, "value")
            else:
                keys.pop(key, None)


class Page:
    """Streams one after the other, as a browser keeps them, on a thread of its own."""

    def __init__(self, urls, text, headers=None):
        self.urls, self.text, self.headers = urls, text, headers or {}
        self.state, self.error, self.n_streams = State(), None, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._over.is_set():
                try:
                    self._follow(self.urls[self.n_streams % len(self.urls)])
                except (OSError, http.client.HTTPException, ValueError):
                    pass
                self._over.wait(0.2)
        except AssertionError as e:
            self.error = e

    def _follow(self, url):
        self.n_streams += 1
        self.state._parts = []
        resume = {"Last-Event-ID": self.state.id} if self.state.id else {}
        stream = Stream(url, self.text, {**self.headers, **resume}, timeout=90)
        assert stream.status == 200, stream.answer.read()
        try:
            while not self._over.is_set() and (message := stream.next()) is not None:
                self.state.take(message)
        finally:
            stream.close()

    def wait_rev(self, rev, timeout=30):
        end = time.monotonic() + timeout
        while self.state.rev < rev:
            assert self.error is None, self.error
            assert time.monotonic() < end, f"at {self.state.rev}, wanted {rev}; resets {self.state.resets}"
            time.sleep(0.02)

    def quit(self):
        self._over.set()
        assert self.error is None, self.error
