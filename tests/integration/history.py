"""What really happened, told by etcd itself: every event of every revision, read with etcdctl, and the state that
follows from it. Nothing here goes through libbelfry."""
import base64
import bisect
import json
import os
import selectors
import subprocess
import zlib
from collections import namedtuple

import procs
from patience import Patience

KEY_HEX_MAX = 64

# key is the id that recorder writes; prev is None or (len, crc, create, mod, version, lease)
Event = namedtuple("Event", "op key len crc create mod version lease prev")


def key_id(raw):
    if len(raw) > KEY_HEX_MAX:
        return f"*{len(raw)},{zlib.crc32(raw)}"
    return raw.hex() or "-"


class History:
    """Events in order, and for each what was there before. feed() takes them as etcd gave them."""

    def __init__(self):
        self.events = []  # in order of revision, and within one as in the transaction
        self.revs = []    # parallel: their revisions
        self.raw = {}     # key id -> key
        self.state = {}   # key id -> (len, crc, create, mod, version, lease)

    def feed(self, op, key, value, create, mod, version, lease):
        k = key_id(key)
        self.raw[k] = key
        before = self.state.get(k)
        assert not self.revs or mod >= self.revs[-1], f"history goes back at {mod}"
        if op == "P":
            now = (len(value), zlib.crc32(value), create, mod, version, lease)
            assert version == (before[4] + 1 if before else 1), f"history has a gap before {mod} of {key!r}"
            assert create == (before[2] if before else mod), f"history has a gap before {mod} of {key!r}"
            self.state[k] = now
            self.events.append(Event("P", k, *now, before))
        else:
            assert before is not None, f"history deletes nothing at {mod}"
            del self.state[k]
            self.events.append(Event("D", k, 0, 0, 0, mod, 0, 0, before))
        self.revs.append(mod)

    def last_rev(self):
        return self.revs[-1] if self.revs else 0

    def state_at(self, rev):
        """key id -> (len, crc, mod)"""
        state = {}
        for e in self.events[:bisect.bisect_right(self.revs, rev)]:
            if e.op == "P":
                state[e.key] = (e.len, e.crc, e.mod)
            else:
                state.pop(e.key, None)
        return state


def _feed_json(history, event):
    kv = event["kv"]
    history.feed("D" if event.get("type") in (1, "DELETE") else "P", base64.b64decode(kv["key"]),
                 base64.b64decode(kv.get("value", "")), kv.get("create_revision", 0), kv["mod_revision"],
                 kv.get("version", 0), kv.get("lease", 0))


def read(cluster, last_rev, timeout=120):
    """The whole history up to last_rev, the last of which must be an event, from one member of the cluster.

    Nothing may happen after last_rev, such as the end of a lease: whether that were in the history would be a matter of
    when it is read, and a recorder that has ended could not have been given it."""
    member = next(m for m in cluster.members if m.is_running() and not m.stopped)
    argv = ["etcdctl", "--endpoints", member.endpoint]
    if cluster.tls:
        argv += cluster.tls.ctl_flags()
    if cluster.auth:
        argv += ["--user", ":".join(cluster.auth)]
    argv += ["watch", "--prefix", "", "--rev", "1", "-w", "json"]
    proc = procs.spawn(argv, ns=cluster.ns, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL)
    history = History()
    try:
        _read_until(history, proc.stdout, last_rev, timeout)
    finally:
        procs.end(proc)
    assert history.last_rev() == last_rev, f"not at rest: the history goes on to {history.last_rev()} past {last_rev}"
    return history


class Interrupted(AssertionError):
    """The member had no leader for a moment, and let its client go."""


def _read_until(history, pipe, last_rev, timeout):
    patience = Patience(timeout)
    sel = selectors.DefaultSelector()
    sel.register(pipe, selectors.EVENT_READ)
    pending = []
    while history.last_rev() < last_rev:
        assert not patience.is_over(), f"etcd's history stops at {history.last_rev()}, before {last_rev}"
        if not sel.select(timeout=1):
            continue
        data = os.read(pipe.fileno(), 1 << 20)
        assert data, "etcdctl watch ended"
        pending.append(data)
        if b"\n" not in data:
            continue
        *lines, rest = b"".join(pending).split(b"\n")
        pending = [rest] if rest else []
        for line in lines:
            answer = json.loads(line)
            if answer.get("Canceled"):
                kind = AssertionError if answer.get("CompactRevision") else Interrupted
                raise kind(f"etcdctl watch was cancelled: {line[:200]}")
            for event in answer.get("Events") or ():
                _feed_json(history, event)
