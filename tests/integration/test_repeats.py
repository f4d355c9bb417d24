"""Transactions that change a key more than once. etcd refuses them, but not when they delete all keys from one on; its watches then give each change.
A tier gives the same, from memory and from its disk, to tiers below it, too; and passes none on that would end etcd."""
import contextlib
import json

import procs
import pytest
from gateway import Gateway, b64
from gateway_pair import masked
from gateway_watches import Told
from ports import free_port

KEYS = [b"a", b"b", b"c", b"d", b"e"]
FROM_KEY = b64(b"\0")
EVERYTHING = {"key": FROM_KEY, "range_end": FROM_KEY}
REVISIONS, REVISIONS_SOAK = 150, 3000


def delete_from(key):
    return {"request_delete_range": {"key": b64(key), "range_end": FROM_KEY}}


def put(key, value=b"", **more):
    return {"request_put": {"key": b64(key), "value": b64(value), **more}}


class Side:
    """A server, what a watch of everything tells from the beginning, and what it can be asked."""

    def __init__(self, port):
        self.gateway = Gateway(port)
        self.live = self.watch(1)

    def watch(self, revision):
        return Told(self.gateway.port, json.dumps({"create_request": EVERYTHING | {"prev_kv": True, "start_revision": revision}}))

    def close(self):
        self.live.close()
        self.gateway.close()


def events(told):
    return [masked(event, "/watch") for result in list(told.results()) for event in result.get("events", [])]


@pytest.fixture
def tree(cluster, make_tier):
    """([etcd, a tier, one below it], each a Side; the tiers)."""
    ports = [free_port(), free_port()]
    first = make_tier(cluster, listen=[f"http://127.0.0.1:{ports[0]}"])
    second = make_tier(f"http://127.0.0.1:{ports[0]}", "--name", "second", listen=[f"http://127.0.0.1:{ports[1]}"])
    sides = [Side(int(cluster.members[0].url.rsplit(":", 1)[1])), *(Side(port) for port in ports)]
    yield sides, (first, second)
    for side in sides:
        side.close()


def random_txn(rng):
    """Puts and deletes of the few keys there are. Which are the same ones, etcd may refuse."""
    def one():
        kind, key = rng.random(), rng.choice(KEYS)
        if kind < 0.4:
            return delete_from(key)
        return put(key, rng.randbytes(rng.choice([0, 3, 40]))) if kind < 0.9 else {"request_delete_range": {"key": b64(key)}}

    def nested():  # what one of them deletes, etcd does not compare with what an earlier one puts
        return {"request_txn": {"success": [one()]}} if rng.random() < 0.3 else one()
    return {"success": [nested() for _ in range(rng.randrange(1, 6))]}


def repeats(told):
    seen = [(e["kv"]["mod_revision"], e["kv"]["key"]) for e in told]
    return len(seen) - len(set(seen))


def agree(told):
    """Waits until all have told as much as the first, and compares. Returns what they told."""
    want = events(told[0])
    for t in told[1:]:
        procs.wait_until(lambda t=t: len(events(t)) >= len(want), 30, 0.05, "all events")
        assert events(t) == want
    return want


def test_each_change_is_told_in_order(tree, rng, soak, figure):
    sides, tiers = tree
    etcd = sides[0].gateway
    head = n_refused = 0
    while head < (REVISIONS_SOAK if soak else REVISIONS):
        status, _, raw = etcd.post("/v3/kv/txn", random_txn(rng))
        n_refused += status != 200
        head = int(json.loads(raw)["header"]["revision"]) if status == 200 else head
    procs.wait_until(lambda: any(int(e["kv"]["mod_revision"]) == head for e in events(sides[0].live)), 30, 0.05, "the last event")
    want = agree([side.live for side in sides])
    figure("repeats.events", len(want))
    figure("repeats.repeated", repeats(want))
    assert repeats(want) > head / 10 and n_refused > 0
    for side in sides:
        side.close()
    for tier in tiers:  # from disk, and none of them has listed again
        assert "upstream_diverged" not in tier.log()
        tier.kill()
        tier.start()
    for revision in (1, head // 2, head):
        told = [side.watch(revision) for side in sides]
        procs.wait_until(lambda told=told: events(told[0]) and int(events(told[0])[-1]["kv"]["mod_revision"]) == head, 30, 0.05, "the last event")
        agree(told)
        for t in told:
            t.close()
    for revision in range(head, max(head - 100, 2), -1):
        answers = [masked(side.gateway.json("/v3/kv/range", EVERYTHING | {"revision": revision}), "/kv/range") for side in sides]
        assert answers[1] == answers[0] and answers[2] == answers[0], revision


KILLING = {"ignores its value": [delete_from(b"b"), put(b"bb", ignore_value=True)],
           "ignores its lease": [delete_from(b"\0"), put(b"bb", b"x", ignore_lease=True)],
           "in a Txn": [delete_from(b"b"), {"request_txn": {"success": [put(b"bb", ignore_value=True)]}}],
           "deleted in a Txn": [{"request_txn": {"failure": [delete_from(b"b")]}}, put(b"bb", ignore_value=True)]}


@pytest.mark.parametrize("operations", KILLING.values(), ids=KILLING)
def test_transactions_that_would_end_etcd_are_refused(cluster, make_tier, operations):
    port = free_port()
    make_tier(cluster, listen=[f"http://127.0.0.1:{port}"])
    with contextlib.closing(Gateway(port)) as tier:
        tier.json("/v3/kv/put", {"key": b64(b"bb"), "value": b64(b"1")})
        status, _, raw = tier.post("/v3/kv/txn", {"success": operations})
        assert (status, json.loads(raw)["code"], json.loads(raw)["message"]) == (400, 3, "etcdserver: duplicate key given in txn request")
        assert cluster.members[0].is_running()
        assert tier.json("/v3/kv/txn", {"success": [operations[-1]]})["succeeded"]  # it lives, and the key is there
