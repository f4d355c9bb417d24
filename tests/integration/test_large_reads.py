"""Ranges that are too large for one piece of memory, and RangeStream, from a tier's replica: the bytes that etcd answers, at one
revision, whatever is written meanwhile, in little memory, at the pace of the client.

An etcd before 3.7 has no RangeStream. Its chunks, merged, must be what etcd answers to the same Range."""
import threading
import time

import grpc
import procs
import pytest
import rawh2
from differential import Store, channel, decode
from etcd import version_of
from kv_requests import RANGE, encode
from stack import Stack, total
from test_range_differential import MAY_DIFFER, Answer, Side, split_fields

N_KEYS, VALUE = 8_000, b"v" * 256  # 2.5 MB: more than a tier answers in one piece
STREAM = "/etcdserverpb.KV/RangeStream"
PREFIX = [("key", b"/large/"), ("range_end", b"/large0")]


def key(i):
    return b"/large/%08d" % i


def fill(store, n):
    for first in range(0, n, 100):  # a transaction has at most 128 operations
        store.txn(*((key(i), VALUE) for i in range(first, first + 100)))


def compared(answer):
    """As Answer.compared(), for answers that are too long to take all their rows apart: the header is first."""
    _, head, payload = next(split_fields(answer.raw), (0, b"", b""))
    header = {k: v for k, v in decode("ResponseHeader", payload).items() if k not in MAY_DIFFER}
    return answer.code, answer.message, header, answer.raw[len(head):]


class Bed:
    """Two tiers, one on the other, on an etcd with many keys."""

    def __init__(self, cluster, make_tier):
        self.store = Store(cluster.members[0].endpoint)
        fill(self.store, N_KEYS)
        self.etcd = Side(cluster.members[0].endpoint)
        self.stack = Stack(make_tier, cluster, 2)
        self.sides = [Side(tier.endpoint) for tier in self.stack.tiers]
        self.channels = [channel(tier.endpoint) for tier in self.stack.tiers]
        self.settle()

    def settle(self):
        for tier in self.stack.tiers:
            procs.wait_until(lambda: tier.numbers()["upstream"]["revision"] >= self.store.revision, 30, 0.02, "the tier has it all")

    def relayed(self):
        return [sum(total(tier, "reads", f"upstream_{how}") for how in ("linearizable", "serializable")) for tier in self.stack.tiers]

    def close(self):
        for side in (self.etcd, *self.sides):
            side.close()
        for c in self.channels:
            c.close()
        self.store.close()


@pytest.fixture
def bed(cluster, make_tier):
    made = Bed(cluster, make_tier)
    yield made
    made.close()


class Writer(threading.Thread):
    """Changes, deletes and creates keys of the range until it is stopped."""

    def __init__(self, endpoint, rng):
        super().__init__(daemon=True)
        self.store, self.rng, self.over, self.n = Store(endpoint), rng, threading.Event(), 0

    def run(self):
        while not self.over.is_set():
            i = self.rng.randrange(2 * N_KEYS)
            if self.rng.randrange(3) == 0:
                self.store.delete(key(i))
            else:
                self.store.put(key(i), VALUE[:self.rng.randrange(256)])
            self.n += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.store.close()


# ---- chunks

def response_of(chunk):
    """The RangeResponse of a RangeStreamResponse."""
    (number, _, response), = split_fields(chunk)
    assert number == 1
    return response


def merge(chunks):
    """One RangeResponse, as proto.Merge() gives it: the last chunk has the header, more and count."""
    *before, last = [response_of(chunk) for chunk in chunks]
    number, head, _ = next(split_fields(last))
    assert number == 1
    return head + b"".join(before) + last[len(head):]


def n_rows(chunk):
    return sum(number == 2 for number, _, _ in split_fields(response_of(chunk)))


def stream(chan, message, timeout=60):
    """(answer, chunks)"""
    chunks = []
    try:
        chunks = list(chan.unary_stream(STREAM)(encode(RANGE, message), timeout=timeout))
        return Answer(0, "", merge(chunks)), chunks
    except grpc.RpcError as e:
        return Answer(e.code().value[0], e.details(), b""), chunks


def draw(rng, head):
    """A Range that RangeStream allows too."""
    a, b = sorted(rng.sample(range(N_KEYS + 100), 2))
    message = [("key", key(a)), ("range_end", key(b))] if rng.randrange(3) else list(PREFIX)
    if rng.randrange(3) == 0:
        message.append(("limit", rng.choice([1, 9, 10, 11, 30, 6_000, N_KEYS, N_KEYS + 1])))
    if rng.randrange(3) == 0:
        message.append(("revision", head - rng.randrange(50)))
    for name in ("serializable", "keys_only"):
        if rng.randrange(3) == 0:
            message.append((name, 1))
    if rng.randrange(10) == 0:
        message.append(("count_only", 1))
    return message


# ---- tests

def test_large_ranges_are_answered_as_by_etcd(bed, rng):
    """And by the replica: none is relayed, unless it must be sorted."""
    head = bed.store.revision
    before = bed.relayed()
    cases = [[*PREFIX], [*PREFIX, ("keys_only", 1)], [*PREFIX, ("limit", 6_000)], [*PREFIX, ("limit", N_KEYS)],
             [*PREFIX, ("serializable", 1)], [*PREFIX, ("revision", head)], [*PREFIX, ("sort_order", 1)],
             [*PREFIX, ("min_mod_revision", head - 3)], [*PREFIX, ("max_mod_revision", head - 3)],
             [*PREFIX, ("max_mod_revision", head - 3), ("limit", 5_000)], [*PREFIX, ("min_create_revision", head + 1)],
             [("key", b"\0"), ("range_end", b"\0")], *(draw(rng, head) for _ in range(6))]
    for message in cases:
        right = bed.etcd.ask("Range", message)
        for side in bed.sides:
            assert compared(side.ask("Range", message)) == compared(right), message
    old = [m for m in cases if dict(m).get("revision", head) < head]  # below the window: the tiers have just listed
    assert [a - b for a, b in zip(bed.relayed(), before)] in ([2 * len(old), len(old)], [len(old), len(old)], [0, 0])
    assert all(total(tier, "reads", "parts") > 200 for tier in bed.stack.tiers)


def test_chunks_merged_are_what_etcd_answers_to_range(bed, rng):
    for n in range(12):
        bed.store.put(key(rng.randrange(N_KEYS)), b"changed")
        bed.settle()
        message = draw(rng, bed.store.revision)
        right = bed.etcd.ask("Range", message)
        answer, chunks = stream(bed.channels[n % 2], message)
        if dict(message).get("revision", bed.store.revision) < bed.store.revision - n and version_of() < (3, 7):
            continue  # below the window: relayed to an etcd that has no RangeStream
        assert compared(answer) == compared(right), (message, answer.code, answer.message)
        rows = [n_rows(chunk) for chunk in chunks]
        assert rows[0] <= 10 and all(n <= 2 * max(rows[:i]) for i, n in enumerate(rows) if i > 0), rows
        assert all(number == 2 for chunk in chunks[:-1] for number, _, _ in split_fields(response_of(chunk)))


def test_large_answers_show_one_revision_while_others_write(bed, cluster, rng, figure):
    """The header says which; etcd, asked for that revision, has the same rows."""
    n, before = 0, bed.relayed()
    with Writer(cluster.members[0].endpoint, rng) as writer:
        while n < 6:
            side = n % 2
            ranged = bed.sides[side].ask("Range", [*PREFIX])
            streamed, _ = stream(bed.channels[side], [*PREFIX])
            for answer in (ranged, streamed):
                assert answer.code == 0, answer.message
                code, _, header, rows = compared(answer)
                right = bed.etcd.ask("Range", [*PREFIX, ("revision", header["revision"])])
                assert (code, rows) == (0, compared(right)[3])
            n += 1
    figure("large_reads.writes_meanwhile", writer.n)
    assert writer.n > 20
    assert bed.relayed() == before


def test_range_stream_refuses_what_etcd_refuses(bed):
    table = [([("sort_order", 2)], 12, "RangeStream does not support custom sort orders"),
             ([("sort_order", 1), ("sort_target", 3)], 12, "RangeStream does not support custom sort orders"),
             ([("min_mod_revision", 5)], 12, "RangeStream does not support revision filters"),
             ([("sort_target", 9)], 3, "etcdserver: invalid sort option"),
             ([("revision", bed.store.revision + 1000)], 11, "etcdserver: mvcc: required revision is a future revision")]
    for more, code, words in table:
        answer, _ = stream(bed.channels[1], [*PREFIX, *more])
        assert (answer.code, answer.message) == (code, words)
    # What a tier cannot answer is relayed: an etcd without RangeStream says so, another one answers.
    answer, _ = stream(bed.channels[1], [*PREFIX, ("revision", 2)])
    if version_of() < (3, 7):
        assert answer.code == 12 and "RangeStream" in answer.message, answer.message
    else:
        assert compared(answer) == compared(bed.etcd.ask("Range", [*PREFIX, ("revision", 2)]))


def anonymous_bytes(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


@pytest.mark.parametrize("path", ["/etcdserverpb.KV/Range", STREAM])
def test_clients_that_stop_reading_cost_little_and_others_are_served(bed, path, figure):
    """A hundred of them, on twenty connections whose windows are never opened."""
    tier = bed.stack.leaf
    before = anonymous_bytes(tier.pid)
    stuck = [rawh2.Connection(tier.port) for _ in range(20)]
    for connection in stuck:
        for _ in range(5):
            connection.open(path.encode(), encode(RANGE, [*PREFIX, ("serializable", 1)]), end=True)
    procs.wait_until(lambda: total(tier, "reads", "parts") >= 100, 30, 0.05, "their answers have begun")
    right = bed.etcd.ask("Range", PREFIX)
    assert compared(bed.sides[1].ask("Range", PREFIX)) == compared(right)
    grown = anonymous_bytes(tier.pid) - before
    figure(f"large_reads.stuck_{path.rsplit('/')[-1]}", grown / 2**20, "MiB")
    assert grown < 100 * 192 * 1024
    for connection in stuck:
        connection.socket.close()
    procs.wait_until(lambda: total(tier, "relay", "running") == 0, 30, 0.05, "they are gone")


def test_several_large_readers_need_little_memory(bed, figure):
    """Sixteen at once, 2.5 MB each."""
    tier = bed.stack.leaf
    before, most = anonymous_bytes(tier.pid), 0
    channels = [channel(tier.endpoint) for _ in range(4)]
    ask = [c.unary_unary("/etcdserverpb.KV/Range") for c in channels]
    calls = [ask[i % 4].future(encode(RANGE, PREFIX), timeout=60) for i in range(16)]
    while not all(call.done() for call in calls):
        most = max(most, anonymous_bytes(tier.pid))
    assert len({compared(Answer(0, "", call.result()))[3] for call in calls}) == 1
    figure("large_reads.several_readers", (most - before) / 2**20, "MiB")
    assert most - before < 16 << 20
    for c in channels:
        c.close()


def test_a_read_without_a_window_is_read_when_it_has_one(cluster, make_tier):
    cluster.put("/k", "v")
    tier = make_tier(cluster)
    answered = 'belfry_reads_total{source="replica",consistency="linearizable"}'
    peer = rawh2.Connection(tier.port, stream_window=0)
    stream = peer.open(b"/etcdserverpb.KV/Range", b"\x0a\x02/k")
    peer.send(rawh2.frame(rawh2.DATA, 1, stream))  # its end
    time.sleep(0.5)
    assert tier.metrics()[answered] == 0
    peer.give(1 << 16, stream)
    while True:
        kind, flags, of, payload = peer.read(5)
        if kind == rawh2.DATA and of == stream:
            break
    assert b"/k" in payload and tier.metrics()[answered] == 1
    peer.close()
