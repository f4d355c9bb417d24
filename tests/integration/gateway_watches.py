"""Watches of the JSON gateway, made at random, on both sides of a pair: what each has been told."""
import contextlib
import http.client
import json
import socket
import threading

import procs
from gateway import b64
from gateway_pair import masked

LAST = 4611686018427387903  # the id of the watch that ends every body: who is told of it has read all that was before
LAST_KEY = b"last"
LEAST = -9223372036854775808
LAST_CREATE = json.dumps({"create_request": {"key": b64(LAST_KEY), "watch_id": str(LAST)}})


class Told:
    """One request, and a thread that keeps the lines of its response."""

    def __init__(self, port, body):
        self.status, self.lines, self.has_ended = None, [], False
        raw = body.encode("utf-8", "surrogatepass")
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(b"POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            answer = http.client.HTTPResponse(self._socket)
            answer.begin()
            self.status = answer.status
            while line := answer.readline():
                self.lines.append(json.loads(line))
        self.has_ended = True

    def results(self):
        return [line["result"] for line in list(self.lines) if "result" in line]

    def error(self):
        return next((line["error"] for line in list(self.lines) if "error" in line), None)

    def is_read(self):
        return any(int(r.get("watch_id", 0)) == LAST and r.get("created") for r in self.results())

    def has_last(self):
        return any(int(r.get("watch_id", 0)) == LAST and r.get("events") for r in self.results())

    def view(self):
        """Of each watch what was said, and its events in one; progress is a matter of when."""
        out = {}
        for r in self.results():
            watch = out.setdefault(r.get("watch_id", "0"), {"said": [], "events": []})
            if r.get("created") or r.get("canceled"):
                watch["said"].append({k: v for k, v in masked(r, "/watch").items() if k != "events"})
            watch["events"] += r.get("events", [])
        return {number: watch for number, watch in out.items() if watch["said"] or watch["events"]}

    def text(self):
        """In short: of each watch what was said, and its events' revisions."""
        watches = {n: (w["said"], [int(e["kv"]["mod_revision"]) for e in w["events"]]) for n, w in self.view().items()}
        return f"{self.status} {watches} {self.error() or ''}"

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


def same(etcd, tier):
    """'' if both were told the same; '=' and a name of docs/compatibility.md; else what differs."""
    if tier.error():
        is_known = tier.error()["code"] == 3 and tier.error()["grpc_code"] == 3 and not etcd.is_read() and not etcd.error()
        return "=gateway-malformed" if is_known else "error"
    if etcd.error() and etcd.error()["code"] == 13 and "failed to unmarshal" in etcd.error()["message"]:
        return "=gateway-filters"
    theirs, ours = etcd.view(), tier.view()
    if str(LEAST) in theirs and str(LEAST) not in ours:  # refused, under the number that says so
        del theirs[str(LEAST)]
        said = ours.pop("-1", {"said": [{}]})["said"][0]
        return "=watch-id-least" if theirs == ours and "this watch id cannot be used" in said.get("cancel_reason", "") else "what was told"
    return "" if theirs == ours else "what was told"


def write_some(pair, rng, keys):
    for _ in range(10):
        key = rng.choice(keys) or b"a"
        path, body = rng.choice([("put", {"key": b64(key), "value": b64(rng.randbytes(3))}), ("deleterange", {"key": b64(key)}),
                                 ("txn", {"success": [{"request_put": {"key": b64(key), "value": "eA=="}}, {"request_delete_range": {"key": b64(b"foo" + key)}}]})])
        for side in pair.sides:
            side.json(f"/v3/kv/{path}", body)


def ask_watches(pair, maker, bodies, keys, wait_s=20):
    """Opens all of them on both sides, writes, and waits for both to be told the same: [(body, what etcd told, what the tier did)]."""
    write_some(pair, maker.rng, keys)
    revisions = pair.revisions()
    assert revisions[0] == revisions[1]
    told = [[Told(side.port, body + LAST_CREATE) for body in bodies] for side in pair.sides]
    both = list(zip(*told))
    try:
        procs.wait_until(lambda: all(t.is_read() or t.error() for t in told[1]), wait_s, 0.02, "the tier has read all")
        with contextlib.suppress(AssertionError):  # who has not, differs
            procs.wait_until(lambda: all(e.is_read() or e.error() for e, t in both if t.is_read()), wait_s, 0.02)
        write_some(pair, maker.rng, keys)
        for side in pair.sides:
            side.json("/v3/kv/put", {"key": b64(LAST_KEY)})
        procs.wait_until(lambda: all(t.has_last() for t in told[1] if t.is_read()), wait_s, 0.02, "the tier's watches have the last event")
        for _ in range(2):  # and it stays so
            with contextlib.suppress(AssertionError):
                procs.wait_until(lambda: all(same(*p)[:1] in ("", "=") for p in both), wait_s, 0.3)
    finally:
        for t in told[0] + told[1]:
            t.close()
    return [(body, etcd, tier) for body, (etcd, tier) in zip(bodies, both)]


def report(body, etcd, tier):
    return f"/v3/watch {body!r}: {same(etcd, tier)}\n  etcd: {etcd.text()}\n  tier: {tier.text()}"
