#!/usr/bin/python3
"""sserecorder: what tests/programs/recorder does with libbelfry, done with Server-Sent Events and nothing but sockets: it writes down everything
that watches are given, in the same form, for the same checker. An event says key, value and revision: what else a record has is 0.

    sserecorder.py ENDPOINT RECORD

Commands on stdin, each answered with "ok ..." or "no ...": watch N KIND KEY END [rev=R], follow N KIND KEY END, close N,
status, stats, quit. Keys in hex, "-"
being the empty one. A follow begins with the state, and is given it anew when its place is lost.

Each watch is a GET on a connection of its own. When it breaks, it is opened again with the id of its last message. Every second one asks for its range
in two halves, which must make no difference."""
import base64
import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
import zlib

RETRY_S = 0.2
CONNECT_S = 5
SILENCE_S = 60  # heartbeats come more often
KEY_HEX_MAX = 64


def us():
    return time.monotonic_ns() // 1000


def key_text(key):
    return f"*{len(key)},{zlib.crc32(key)}" if len(key) > KEY_HEX_MAX else key.hex() or "-"


def end_of_prefix(key):
    """The first key behind all that begin with `key`; empty: there is none."""
    cut = key.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else b""


def bytes_of(event, name):
    return base64.b64decode(event[f"{name}_b64"]) if f"{name}_b64" in event else event[name].encode()


def pairs_of(kind, key, end, halves):
    if kind == "key":
        return [("key", key)]
    if not halves:
        return {"prefix": [("prefix", key)], "from": [("from", key)], "interval": [("from", key), ("to", end)]}[kind]
    last = {"prefix": end_of_prefix(key), "from": b"", "interval": end}[kind]
    middle = key + b"/w/g3/k05" if not key else key + b"5"
    if last and middle >= last:
        return [("from", key), ("to", last)]
    return [("from", middle), ("to", last), ("from", key), ("to", middle)]


class Watch:
    """One watch, with a thread that opens it again and again. `recorder.lock` guards all but the socket's reading."""

    def __init__(self, recorder, number, kind, key, end, options, follow):
        self.recorder, self.number, self.follow = recorder, number, follow
        pairs = pairs_of(kind, key, end, number % 2 == 1) + [("value", "base64")] + ([("snapshot", b"1")] if follow else [])
        self.query = "&".join(f"{name}={urllib.parse.quote_from_bytes(v if isinstance(v, bytes) else v.encode())}" for name, v in pairs)
        self.id = str(int(options["rev"]) - 1) if int(options.get("rev", 0)) > 1 else None
        self.rev = self.place = self.n_events = 0
        self.state, self.err, self.is_created = "open", "BELFRY_OK", False
        self.keys, self.coming = {}, None  # of a follow: what it has; the state that is coming
        self.parts = []                    # of a revision that is not whole
        threading.Thread(target=self.run, daemon=True).start()

    # ---- the connection ----

    def run(self):
        while self.state == "open":
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.read_stream()
            self.parts = []
            time.sleep(RETRY_S)

    def read_stream(self):
        recorder = self.recorder
        sock = socket.create_connection((recorder.host, recorder.port), CONNECT_S)
        with sock:
            sock.settimeout(SILENCE_S)
            resume = f"Last-Event-ID: {self.id}\r\n" if self.id else ""
            sock.sendall(f"GET /v1/events?{self.query} HTTP/1.1\r\nHost: {recorder.host}:{recorder.port}\r\n{resume}\r\n".encode())
            answer = http.client.HTTPResponse(sock)
            answer.begin()
            assert answer.status == 200, answer.read()
            with recorder.lock:
                recorder.creates += not self.is_created
                self.is_created = True  # where it begins is known before the head is sent
            fields = {}
            while (raw := answer.readline()).endswith(b"\n"):
                name, _, value = raw[:-1].decode().partition(": ")
                if raw != b"\n":
                    fields[name] = value
                    continue
                with recorder.lock:
                    if "data" in fields and not self.take(fields.get("event", "message"), fields.get("id"), json.loads(fields["data"])):
                        return
                fields = {}

    # ---- what it is given ----

    def take(self, event, id, data):
        """Under the lock. False: the watch is over."""
        if self.state != "open":
            return False
        if event == "reset" and not self.follow:
            needed = int(self.id.split("-")[0]) + 2 if self.id else 1
            self.recorder.record.write(f"X {self.number} {us()} BELFRY_ERR_COMPACTED {needed} {self.rev} compacted\n")
            self.state, self.err = "ended", "compacted"
            return False
        if event == "reset":
            self.coming = {}
        elif event == "state":
            for e in data["events"]:
                self.coming[bytes_of(e, "key")] = bytes_of(e, "value")
        elif event == "synced":
            self.note_state(data["rev"])
        elif event == "progress":
            self.note("P", data["rev"], [])
        else:
            self.parts += data["events"]
            if not data.get("more"):
                self.note("C", data["rev"], self.parts)
                self.rev, self.parts = data["rev"], []
        if id is not None:
            self.id = id
        return True

    def note(self, kind, rev, events):
        record = self.recorder.record
        if kind == "P" and self.follow:
            self.place = rev
            return
        record.write(f"B {self.number} {kind} {rev} {len(events)} 0 1 {us()} {rev} 1 1\n")
        for event in events:
            key = bytes_of(event, "key")
            value = bytes_of(event, "value") if event["op"] == "put" else None
            self.note_event(key, value, rev)
            if self.follow and value is not None:
                self.keys[key] = value
            elif self.follow:
                self.keys.pop(key, None)
        self.place = rev
        self.n_events += len(events)

    def note_event(self, key, value, rev):
        op, value = ("P", value) if value is not None else ("D", b"")
        self.recorder.record.write(f"E {op} {key_text(key)} {len(value)} {zlib.crc32(value)} 0 {rev} 0 0 - -\n")

    def note_state(self, rev):
        """The whole state takes the place of what was there."""
        gone = [key for key in self.keys if key not in self.coming]
        record = self.recorder.record
        record.write(f"B {self.number} S {rev} {len(gone) + len(self.coming)} 0 1 {us()} {rev} 1 1\n")
        for key in gone:
            self.note_event(key, None, rev)
        for key, value in self.coming.items():
            self.note_event(key, value, rev)
        record.write(f"B {self.number} Y {rev} 0 0 1 {us()} {rev} 1 1\n")
        self.keys, self.coming = self.coming, None
        self.rev = self.place = rev


class Recorder:
    def __init__(self, endpoint, path):
        self.host, port = endpoint.rsplit(":", 1)
        self.port = int(port)
        self.lock = threading.Lock()  # guards what follows
        self.record = open(path, "w", buffering=1 << 20)
        self.watches, self.creates = {}, 0

    def open(self, follow, number, kind, key, end, *options):
        keys = [b"" if text == "-" else bytes.fromhex(text) for text in (key, end)]
        with self.lock:
            self.record.write(f"O {number} {us()}\n")
            self.watches[int(number)] = Watch(self, int(number), kind, *keys, dict(o.split("=", 1) for o in options), follow)
        return "ok"

    def status(self):
        with self.lock:
            return "ok" + "".join(f" {w.number}:{w.state}:{w.rev}:{w.n_events}:{w.place}:0:{w.err}" for _, w in sorted(self.watches.items()))

    def close(self, number):
        with self.lock:
            self.watches[number].state = "closed"
        return "ok"

    def obey(self, words):
        if words[0] in ("watch", "follow"):
            return self.open(words[0] == "follow", *words[1:])
        if words[0] == "close":
            return self.close(int(words[1]))
        if words[0] == "status":
            return self.status()
        return f"ok creates={self.creates}" if words[0] == "stats" else f"no such command: {words[0]}"


def main():
    recorder = Recorder(*sys.argv[1:3])
    print("ok", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        print(recorder.obey(words), flush=True)
    recorder.lock.acquire()  # for good: nothing is written behind this
    recorder.record.close()
    os._exit(0)  # threads that read are not waited for


main()
