#!/usr/bin/python3
"""pyrecorder: what tests/programs/recorder does with libbelfry, done with python3-etcd3: it writes down everything that the
watches of one client are given, in the same form, for the same checker.

    pyrecorder.py ENDPOINT RECORD

Commands on stdin, each answered with "ok ..." or "no ...": watch N KIND KEY END [NAME=VALUE ...], progress, status,
stats, quit. Keys in hex, "-" being the empty one. Options of a watch: rev (needed), prev-kv and
progress-notify. This client's filters do not work, and it cannot ask for progress: that command does nothing.

python3-etcd3 does not resume: when a stream breaks each watch is told, and it is for its user to go on. What a careful
user does is done here: a new client, and every watch again from behind what it has."""
import os
import queue
import sys
import threading
import time
import zlib

import etcd3
import grpc

RETRY_S = 0.2
OPTIONS = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 6_000),
           ("grpc.keepalive_permit_without_calls", 0), ("grpc.http2.max_pings_without_data", 0),
           ("grpc.max_receive_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 200),
           ("grpc.max_reconnect_backoff_ms", 1000), ("grpc.use_local_subchannel_pool", 1)]
KEY_HEX_MAX = 64
DELETE = 1  # mvccpb.Event's


def us():
    return time.monotonic_ns() // 1000


def key_text(key):
    return f"*{len(key)},{zlib.crc32(key)}" if len(key) > KEY_HEX_MAX else key.hex() or "-"


def kv_numbers(kv):
    return len(kv.value), zlib.crc32(kv.value), kv.create_revision, kv.mod_revision, kv.version, kv.lease


def end_of_prefix(key):
    """The first key behind all that begin with `key`; one zero byte: there is none."""
    cut = key.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else b"\0"


class Watch:
    def __init__(self, number, kind, key, end, options):
        self.number = number
        self.key = key or b"\0"
        self.end = {"key": None, "prefix": end_of_prefix(key), "from": b"\0", "interval": end}[kind]
        self.next_rev = int(options["rev"])
        self.prev_kv = options.get("prev-kv") == "true"
        self.progress = options.get("progress-notify") == "true"
        self.rev = self.place = self.n_events = self.member = 0
        self.state, self.err = "open", "BELFRY_OK"


class Recorder:
    def __init__(self, endpoint, path):
        self.host, port = endpoint.rsplit(":", 1)
        self.port = int(port)
        self.lock = threading.Lock()  # guards what follows
        self.record = open(path, "w", buffering=1 << 20)
        self.watches, self.creates = {}, 0
        self.wanted = queue.Queue()   # (life, watch): to be created; a life is one client, which begins at 1
        self.life, self.client = 0, None
        threading.Thread(target=self._create, daemon=True).start()

    # ---- what a client says ----

    def _take(self, life, w, said):
        """The callback of one watch in one life."""
        with self.lock:
            if life != self.life or w.state != "open":
                return
            if isinstance(said, etcd3.exceptions.RevisionCompactedError):
                self._end(w, said.compacted_revision)
            elif isinstance(said, Exception):
                self._begin_anew()
            else:
                self._note(w, said)

    def _end(self, w, compact_rev):
        self.record.write(f"X {w.number} {us()} BELFRY_ERR_COMPACTED {compact_rev} {w.rev} compacted\n")
        w.state, w.err = "ended", "compacted"

    def _note(self, w, response):
        header = response.header
        tail = f"1 {us()} {header.revision} {header.member_id} {header.cluster_id}\n"
        w.member = header.member_id
        if not response.events:
            self.record.write(f"B {w.number} P {header.revision} 0 0 {tail}")
            w.place, w.next_rev = header.revision, header.revision + 1
            return
        events = [e._event for e in response.events]
        i = 0
        while i < len(events):
            rev, n = events[i].kv.mod_revision, i
            while n < len(events) and events[n].kv.mod_revision == rev:
                n += 1
            self.record.write(f"B {w.number} C {rev} {n - i} 0 {tail}")
            for e in events[i:n]:
                self._note_event(e)
            w.rev = w.place = rev
            w.next_rev, i = rev + 1, n
        w.n_events += len(events)

    def _note_event(self, e):
        op = "D" if e.type == DELETE else "P"
        prev = ",".join(map(str, kv_numbers(e.prev_kv))) if e.HasField("prev_kv") else "-"
        self.record.write(f"E {op} {key_text(e.kv.key)} {' '.join(map(str, kv_numbers(e.kv)))} {prev} -\n")

    # ---- clients come and go ----

    def _begin_anew(self):
        """Under the lock. The rest of what the old client says is not heard any more."""
        self.life += 1
        for w in self.watches.values():
            if w.state == "open":
                self.wanted.put((self.life, w))

    def _create(self):
        """The one thread that makes clients and creates watches: in a callback this client cannot."""
        mine = 0
        while True:
            life, w = self.wanted.get()
            with self.lock:
                if life != self.life or w.state != "open":
                    continue
            if mine != life:
                time.sleep(RETRY_S if mine else 0)
                self._connect()
                mine = life
            self._create_one(life, w)

    def _connect(self):
        if self.client is not None:
            self.client.close()
        self.client = etcd3.client(host=self.host, port=self.port, grpc_options=OPTIONS)

    def _create_one(self, life, w):
        try:
            self.client.add_watch_callback(w.key, lambda said: self._take(life, w, said), range_end=w.end,
                                           start_revision=w.next_rev, progress_notify=w.progress, prev_kv=w.prev_kv)
            with self.lock:
                self.creates += 1
        except (grpc.RpcError, etcd3.Etcd3Exception) as e:
            with self.lock:
                if life != self.life:
                    return
                if isinstance(e, etcd3.exceptions.RevisionCompactedError):
                    self._end(w, e.compacted_revision)
                else:
                    self._begin_anew()

    # ---- commands ----

    def open(self, number, kind, key, end, *options):
        keys = [b"" if text == "-" else bytes.fromhex(text) for text in (key, end)]
        w = Watch(int(number), kind, *keys, dict(o.split("=", 1) for o in options))
        with self.lock:
            self.watches[w.number] = w
            self.record.write(f"O {w.number} {us()}\n")
            self.life = self.life or 1
            self.wanted.put((self.life, w))
        return "ok"

    def status(self):
        with self.lock:
            return "ok" + "".join(f" {w.number}:{w.state}:{w.rev}:{w.n_events}:{w.place}:{w.member}:{w.err}"
                                  for _, w in sorted(self.watches.items()))

    def obey(self, words):
        if words[0] == "watch":
            return self.open(*words[1:])
        if words[0] == "status":
            return self.status()
        if words[0] == "stats":
            return f"ok creates={self.creates}"
        return "ok" if words[0] == "progress" else f"no such command: {words[0]}"

    def close(self):
        with self.lock:
            self.life = -1
            self.record.close()


def main():
    threading.excepthook = lambda args: None  # the watch thread of a closed client complains and ends, which is right
    recorder = Recorder(*sys.argv[1:3])
    print("ok", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        print(recorder.obey(words), flush=True)
    recorder.close()
    os._exit(0)  # grpc's threads are not waited for


main()
