#!/usr/bin/python3
"""gwrecorder: what tests/programs/recorder does with libbelfry, done over the JSON gateway with nothing but sockets: it writes down everything
that watches are given, in the same form, for the same checker.

    gwrecorder.py ENDPOINT RECORD

Commands on stdin, each answered with "ok ..." or "no ...": watch N KIND KEY END [NAME=VALUE ...], progress, status, stats, quit. Keys in hex,
"-" being the empty one. Options of a watch: rev, prev-kv, progress-notify, no-put, no-delete.

Each watch is a POST on a connection of its own, whose body stays open, so that it can ask for progress. When it breaks, it is opened again from
behind what it has. A line that did not come whole was not given."""
import base64
import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import time
import zlib

RETRY_S = 0.2
CONNECT_S = 5
KEY_HEX_MAX = 64
# A peer that is silently gone is noticed by the kernel: after about 11 s, or when what was asked is not taken for as long.
KEEPALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
             (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3), (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 11_000)]


def us():
    return time.monotonic_ns() // 1000


def b64(raw):
    return base64.b64encode(raw).decode()


def key_text(key):
    return f"*{len(key)},{zlib.crc32(key)}" if len(key) > KEY_HEX_MAX else key.hex() or "-"


def kv_numbers(kv):
    value = base64.b64decode(kv.get("value", ""))
    return len(value), zlib.crc32(value), *(kv.get(name, "0") for name in ("create_revision", "mod_revision", "version", "lease"))


def end_of_prefix(key):
    """The first key behind all that begin with `key`; one zero byte: there is none."""
    cut = key.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else b"\0"


def chunk(request):
    raw = json.dumps(request).encode()
    return b"%x\r\n%s\r\n" % (len(raw), raw)


class Watch:
    """One watch, with a thread that opens it again and again. `recorder.lock` guards all but the socket's reading."""

    def __init__(self, recorder, number, kind, key, end, options):
        self.recorder, self.number = recorder, number
        self.create = {"key": b64(key or b"\0"), "fragment": False}
        range_end = {"key": b"", "prefix": end_of_prefix(key), "from": b"\0", "interval": end}[kind]
        self.create["range_end"] = b64(range_end)
        self.create["prev_kv"] = options.get("prev-kv") == "true"
        self.create["progress_notify"] = options.get("progress-notify") == "true"
        self.create["filters"] = [f for f, name in (("NOPUT", "no-put"), ("NODELETE", "no-delete")) if options.get(name) == "true"]
        self.next_rev = int(options.get("rev", 0))
        self.rev = self.place = self.n_events = self.member = 0
        self.state, self.err = "open", "BELFRY_OK"
        self.socket, self.is_created = None, False
        threading.Thread(target=self.run, daemon=True).start()

    # ---- the connection ----

    def run(self):
        while self.state == "open":
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.follow()
            with self.recorder.lock:
                if self.socket is not None:
                    self.socket.close()
                self.socket, self.is_created = None, False
            time.sleep(RETRY_S)

    def follow(self):
        recorder = self.recorder
        sock = socket.create_connection((recorder.host, recorder.port), CONNECT_S)
        for option in KEEPALIVE:
            sock.setsockopt(*option)
        sock.settimeout(None)
        with recorder.lock:
            self.socket = sock
            sock.sendall(f"POST /v3/watch HTTP/1.1\r\nHost: {recorder.host}:{recorder.port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            sock.sendall(chunk({"create_request": {**self.create, "start_revision": str(self.next_rev)}}))
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        while (line := answer.readline()).endswith(b"\n"):
            said = json.loads(line)
            with recorder.lock:
                if "result" not in said or not self.take(said["result"]):
                    return

    def ask_progress(self):
        """Under the lock. Who is not connected will be again, and is asked again; who takes nothing has enough to do."""
        if self.socket is None or not self.is_created:
            return
        with contextlib.suppress(OSError):
            raw = chunk({"progress_request": {}})
            if self.socket.send(raw, socket.MSG_DONTWAIT) < len(raw):
                self.socket.shutdown(socket.SHUT_RDWR)  # half of it is worse than nothing

    # ---- what it is given ----

    def take(self, r):
        """Under the lock. False: the watch is over, in this life or for good."""
        if r.get("canceled"):
            if "compact_revision" in r or "compacted" in r.get("cancel_reason", ""):
                self.recorder.record.write(f"X {self.number} {us()} BELFRY_ERR_COMPACTED {r.get('compact_revision', 0)} {self.rev} compacted\n")
                self.state, self.err = "ended", "compacted"
            return False
        if r.get("created"):
            self.is_created = True
            self.recorder.creates += 1
            self.next_rev = self.next_rev or int(r["header"]["revision"]) + 1
            return True
        self.note(r)
        return True

    def note(self, r):
        header, record = r["header"], self.recorder.record
        tail = f"1 {us()} {header['revision']} {header['member_id']} {header['cluster_id']}\n"
        self.member = int(header["member_id"])
        events = r.get("events", [])
        if not events:
            place = int(header["revision"])
            record.write(f"B {self.number} P {place} 0 0 {tail}")
            self.place, self.next_rev = place, place + 1
        i = 0
        while i < len(events):
            rev, n = events[i]["kv"]["mod_revision"], i
            while n < len(events) and events[n]["kv"]["mod_revision"] == rev:
                n += 1
            record.write(f"B {self.number} C {rev} {n - i} 0 {tail}")
            for event in events[i:n]:
                self.note_event(event)
            self.rev = self.place = int(rev)
            self.next_rev, i = int(rev) + 1, n
        self.n_events += len(events)

    def note_event(self, event):
        kv, prev = event["kv"], event.get("prev_kv")
        before = ",".join(map(str, kv_numbers(prev))) if prev is not None else "-"
        op = "D" if event.get("type") == "DELETE" else "P"
        self.recorder.record.write(f"E {op} {key_text(base64.b64decode(kv['key']))} {' '.join(map(str, kv_numbers(kv)))} {before} -\n")


class Recorder:
    def __init__(self, endpoint, path):
        self.host, port = endpoint.rsplit(":", 1)
        self.port = int(port)
        self.lock = threading.Lock()  # guards what follows
        self.record = open(path, "w", buffering=1 << 20)
        self.watches, self.creates = {}, 0

    def open(self, number, kind, key, end, *options):
        keys = [b"" if text == "-" else bytes.fromhex(text) for text in (key, end)]
        with self.lock:
            self.record.write(f"O {number} {us()}\n")
            self.watches[int(number)] = Watch(self, int(number), kind, *keys, dict(o.split("=", 1) for o in options))
        return "ok"

    def status(self):
        with self.lock:
            return "ok" + "".join(f" {w.number}:{w.state}:{w.rev}:{w.n_events}:{w.place}:{w.member}:{w.err}"
                                  for _, w in sorted(self.watches.items()))

    def ask_progress(self):
        with self.lock:
            for w in self.watches.values():
                w.ask_progress()
        return "ok"

    def obey(self, words):
        if words[0] == "watch":
            return self.open(*words[1:])
        if words[0] == "progress":
            return self.ask_progress()
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
