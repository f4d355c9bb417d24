"""The same reads, as bytes, to etcd and to a tier in front of it, on the same data: the same bytes come back.

Two fields of the header may differ. `member_id`: a tier answers for a cluster, and need not name the member that a direct call
reaches. `raft_term`: a tier may tell one that is up to a second old. All the rest of the answer must be equal, byte for byte, and so must
status and message. One member and no writes while requests are under way, so both sides see one state.

Two things more may differ (docs/compatibility.md). Rows that are equal in what they are sorted by: their order is not defined in
etcd, and a limit takes some of them. A revision that etcd has compacted: a tier may still have it."""
import itertools
import random
from collections import Counter

import grpc
import procs
import pytest
from differential import Store, channel, decode, varint
from etcd import version_of
from kv_requests import PATHS, TXN, Draw, encode, shrink, text
from ports import free_port
from stack import Stack

MAY_DIFFER = ("member_id", "raft_term")
AT_ONCE = 100
TIMEOUT_S = 60
HUGE = b"h" * 40_000  # over 32 KiB
KEYS = [b"a", b"b", b"aa", b"\0", b"\0\0", b"\xff", b"\xff\xff", b"/p", b"/p/", HUGE, HUGE[:33_000] + b"\xff",
        *(b"/p/%03d" % i for i in range(30)), *(b"/q/%d" % i for i in range(5))]
VALUES = [b"", b"a", b"b", b"\0", b"\xff", b"value", b"v" * 300, b"large" * 3000]


# ---- answers

def split_fields(raw):
    """(number, the field's bytes, its payload) of each field."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at, value, shift = at + 1, value | (byte & 0x7f) << shift, shift + 7
            if byte < 0x80:
                return value
    while at < len(raw):
        begin, tag = at, number()
        value = number()
        payload = None
        if tag & 7 == 2:
            payload, at = raw[at:at + value], at + value
        yield tag >> 3, raw[begin:at], payload


class Answer:
    def __init__(self, code, message, raw):
        self.code, self.message, self.raw = code, message, raw

    def compared(self):
        """(status, message, header without what may differ, the other bytes)"""
        header, rest = {}, b""
        for number, field, payload in split_fields(self.raw):
            if number == 1:
                header = decode("ResponseHeader", payload)
            else:
                rest += field
        return self.code, self.message, {k: v for k, v in header.items() if k not in MAY_DIFFER}, rest

    def __str__(self):
        code, message, header, rest = self.compared()
        return f"{code} {message!r} header {header}, {len(rest)} bytes {rest[:400]!r}"


class Side:
    """One server. `plant` changes an answer, so that a test of the test has something to find."""

    def __init__(self, endpoint, plant=None):
        self._channel, self.plant = channel(endpoint), plant

    def begin(self, kind, message, compression=None):
        path, schema = PATHS[kind]
        return self._channel.unary_unary(path).future(encode(schema, message), timeout=TIMEOUT_S, compression=compression)

    def end(self, call):
        try:
            answer = Answer(0, "", call.result())
        except grpc.RpcError as e:
            answer = Answer(e.code().value[0], e.details(), b"")
        return self.plant(answer) if self.plant else answer

    def ask(self, kind, message, compression=None):
        return self.end(self.begin(kind, message, compression))

    def close(self):
        self._channel.close()


def same(a, b, message=()):
    if a.compared() == b.compared():
        return True
    is_alike = a.compared()[:3] == b.compared()[:3]
    return is_alike and (txns_same_but_for_ties if is_txn(message) else same_but_for_ties)(a.raw, b.raw, message)


def is_txn(message):
    return any(name in TXN for name, _ in message)


SORTED_BY = {1: "version", 2: "create_revision", 3: "mod_revision", 4: "value"}


def same_but_for_ties(a, b, asked):
    """Rows with equal sort keys may change places; of the last of them a limit may have taken others."""
    by = SORTED_BY.get(dict(asked).get("sort_target", 0) & 0xffffffff)  # an enum has 32 bits
    if by is None:
        return False

    def parts(answer):
        fields = list(split_fields(answer))
        rows = [(decode("KeyValue", payload).get(by, 0 if by != "value" else b""), field) for n, field, payload in fields if n == 2]
        return rows, [field for n, field, _ in fields if n > 2]
    (ours, our_rest), (theirs, their_rest) = parts(a), parts(b)
    if our_rest != their_rest or [key for key, _ in ours] != [key for key, _ in theirs]:
        return False
    cut = ours[-1][0] if ours and 3 in [n for n, _, _ in split_fields(a)] else None  # `more`
    return sorted(row for row in ours if row[0] != cut) == sorted(row for row in theirs if row[0] != cut)


def txns_same_but_for_ties(a, b, asked):
    """The same, of each Range of the branch that was taken."""
    def parts(answer):
        fields = list(split_fields(answer))
        succeeded = [field for n, field, _ in fields if n == 2]
        ops = [next(split_fields(payload)) for n, _, payload in fields if n == 3]
        return succeeded, [(n, payload) for n, _, payload in ops]
    (ours, our_ops), (theirs, their_ops) = parts(a), parts(b)
    wanted = [value[-1] for name, value in asked if name == ("success" if ours else "failure")]

    def header(raw):
        return [field for n, field, _ in split_fields(raw) if n == 1]
    return ours == theirs and len(our_ops) == len(their_ops) == len(wanted) and all(
        one == other or number == 1 and header(one) == header(other) and same_but_for_ties(one, other, request)
        for (number, one), (_, other), (_, request) in zip(our_ops, their_ops, wanted))


def pins(message):
    """The revisions that it asks for, at any depth."""
    for name, value in message:
        if isinstance(value, list):
            yield from pins(value)
        elif name == "revision":
            yield value


def is_kept(a, b, message):
    """etcd has compacted the revision, and the tier has not lost it. In a Txn another one may then be of the future."""
    revisions = sorted(rev for rev in pins(message) if rev > 0)
    answers = b.code == 0 or b.code == 11 and "future" in b.message and len(revisions) > 1 and revisions[0] != revisions[-1]
    return a.code == 11 and "compacted" in a.message and answers and len(revisions) > 0


# ---- the data

class Data:
    """Random writes to etcd, and what a draw has to know about them."""

    def __init__(self, store, rng):
        self.store, self.rng, self.draw, self.leases = store, rng, Draw(rng, KEYS), []

    def change(self, n):
        for _ in range(n):
            getattr(self, self.rng.choice(["put"] * 8 + ["delete", "delete", "delete_many", "txn", "txn", "lease", "revoke"]))()
        self.draw.head = self.store.put(b"a", b"last")  # of which everyone hears

    def put(self, lease=0):
        self.store.put(self.rng.choice(KEYS), self.rng.choice(VALUES), lease)

    def delete(self):
        self.store.delete(self.rng.choice(KEYS))

    def delete_many(self):
        self.store.delete(b"/p/01", b"/p/02")

    def txn(self):
        keys = self.rng.sample(KEYS, self.rng.randint(2, 5))
        self.store.txn(*((key, self.rng.choice(VALUES)) if self.rng.randrange(3) else (key,) for key in keys))

    def lease(self):
        self.leases.append(self.store.grant(100_000))
        for _ in range(3):
            self.put(self.leases[-1])

    def revoke(self):
        if self.leases:
            self.store.revoke(self.leases.pop(self.rng.randrange(len(self.leases))))

    def compact(self):
        self.draw.compacted = self.rng.randint(self.draw.compacted + 1, self.draw.head)
        self.store.compact(self.draw.compacted)


class Bed:
    """A store with some history, then two tiers one on the other, whose windows begin there."""

    def __init__(self, cluster, make_tier, rng):
        self.store = Store(cluster.members[0].endpoint)
        self.data = Data(self.store, rng)
        self.data.change(300)
        self.data.draw.below = self.data.draw.head
        self.stack = Stack(make_tier, cluster, 2)
        self.etcd = Side(cluster.members[0].endpoint)
        self.sides = [Side(tier.endpoint) for tier in self.stack.tiers]

    def settle(self):
        """The tiers have what etcd has."""
        for tier in self.stack.tiers:
            procs.wait_until(lambda: tier.numbers()["upstream"]["revision"] >= self.data.draw.head, 30, 0.02, "the tier has it all")

    def close(self):
        for side in (self.etcd, *self.sides):
            side.close()
        self.store.close()


@pytest.fixture
def bed(cluster, make_tier, rng):
    made = Bed(cluster, make_tier, rng)
    yield made
    made.close()


# ---- comparing

def first_difference(etcd, tier, kind, messages, seen):
    """The first message that is answered differently, or None; what is answered is counted in `seen`."""
    calls = [(message, etcd.begin(kind, message), tier.begin(kind, message)) for message in messages]
    found = None
    for message, one, other in calls:
        a, b = etcd.end(one), tier.end(other)
        seen[f"{kind} {a.code}"] += 1
        seen[f"{kind} with content"] += len(a.compared()[3]) > 10
        seen[f"{kind} kept"] += is_kept(a, b, message)
        if found is None and differ(a, b, message):
            found = message
    return found


def differ(a, b, message):
    return not same(a, b, message) and not is_kept(a, b, message)


def report(etcd, tier, kind, message, where):
    """What is shown to people: the smallest request that still differs, and both answers."""
    less = shrink(message, lambda m: differ(etcd.ask(kind, m), tier.ask(kind, m), m))
    return (f"{kind} through {where}: {text(less)}\n  etcd:    {etcd.ask(kind, less)}\n  belfryd: {tier.ask(kind, less)}\n"
            f"  as drawn: {text(message)}")


def reads_of(tier):
    """source -> reads that it has answered, or relayed"""
    found = Counter()
    for name, n in tier.metrics().items():
        if name.startswith("belfry_reads_total{"):
            found[name.split('source="')[1].split('"')[0]] += int(n)
    return found


def draw_messages(draw, kind, n):
    return [draw.range_request() if kind == "Range" else draw.txn_request() for _ in range(n)]


@pytest.mark.parametrize("kind", ["Range", "Txn"])
def test_generated_reads_are_answered_as_by_etcd(bed, kind, rng, figure, soak):
    n_requests, per_state = (100_000, 1_000) if soak else (3_000, 300)
    seen, draw = Counter(), bed.data.draw
    for n_states in range(n_requests // per_state):
        bed.data.change(20)
        if n_states % 3 == 2:
            bed.data.compact()
        bed.settle()
        for n in range(per_state // AT_ONCE):
            where = n % len(bed.sides)
            found = first_difference(bed.etcd, bed.sides[where], kind, draw_messages(draw, kind, AT_ONCE), seen)
            assert found is None, report(bed.etcd, bed.sides[where], kind, found, f"{where + 1} tiers") + (
                f"\n  revisions: head {draw.head}, compacted {draw.compacted}, tiers began at {draw.below}")
    for name, n in sorted(seen.items()):
        figure(f"range_differential.{name.replace(' ', '_')}", n)
    # A test that draws only errors, or none, or is answered by etcd itself, compares nothing. What may be relayed: requests that etcd
    # refuses, revisions below the tiers' windows, and for Txns those whose ranges are refused one by one (docs/reads.md).
    answered = sum((reads_of(tier) for tier in bed.stack.tiers), Counter())
    for source, n in answered.items():
        figure(f"range_differential.{kind}_from_{source}", n)
    share = answered["replica"] / sum(answered.values())
    figure(f"range_differential.{kind}_share_of_the_replica", share)
    assert share > {"Range": 0.6, "Txn": 0.35}[kind], answered
    assert seen[f"{kind} with content"] > n_requests / 4
    assert seen[f"{kind} 3"] > 0 and seen[f"{kind} 11"] > 0


@pytest.mark.parametrize("target", range(5))
def test_leases_of_keys_only_are_as_in_etcds_version(bed, target):
    """etcd tells them up to 3.6, later ones only in a Range that is sorted by value."""
    lease = bed.store.grant(100_000)
    bed.data.draw.head = bed.store.put(b"/p/leased", b"v", lease)
    bed.settle()
    message = [("key", b"/p/leased"), ("keys_only", 1), ("sort_target", target)]
    for kind, asked in (("Range", message), ("Txn", [("success", [("range", message)])])):
        etcd = bed.etcd.ask(kind, asked)
        for side in bed.sides:
            assert side.ask(kind, asked).compared() == etcd.compared(), (kind, str(etcd))
    rows = [decode("KeyValue", payload) for n, _, payload in split_fields(bed.etcd.ask("Range", message).raw) if n == 2]
    assert [row.get("lease") for row in rows] == [lease if version_of() < (3, 7) or target == 4 else None], rows


KEY, PREFIX = [("key", b"/p/003")], [("key", b"/p/"), ("range_end", b"/p0")]
SERIALIZABLE = [("serializable", 1)]
SHAPES = {
    "a key": lambda draw: KEY, "an absent key": lambda draw: [("key", b"absent")], "a prefix": lambda draw: PREFIX,
    "everything": lambda draw: [("key", b"\0"), ("range_end", b"\0")], "from a key": lambda draw: [("key", b"/q"), ("range_end", b"\0")],
    "limited": lambda draw: [*PREFIX, ("limit", 3)], "keys only": lambda draw: [*PREFIX, ("keys_only", 1)],
    "counted": lambda draw: [*PREFIX, ("count_only", 1)], "sorted down by key": lambda draw: [*PREFIX, ("sort_order", 2)],
    "sorted by version": lambda draw: [*PREFIX, ("sort_order", 1), ("sort_target", 1)],
    "filtered": lambda draw: [*PREFIX, ("min_mod_revision", draw.below)],
    "at a revision": lambda draw: [*PREFIX, ("revision", draw.rng.randint(draw.below + 1, draw.head))],
}


@pytest.mark.parametrize("consistency", ["linearizable", "serializable"])
@pytest.mark.parametrize("kind", ["Range", "Txn"])
def test_each_kind_of_read_is_answered_by_the_replica(bed, kind, consistency):
    """One kind after the other: the answer is etcd's, byte for byte, and every tier has counted it as its own. A read that a tier
    relays would pass every comparison: it is etcd's answer."""
    bed.data.change(50)
    bed.settle()
    more = SERIALIZABLE if consistency == "serializable" else []
    wrong = []
    for name, shape in SHAPES.items():
        for side, tier in zip(bed.sides, bed.stack.tiers):
            message = [*shape(bed.data.draw), *more]
            message = message if kind == "Range" else [("success", [("range", message)])]
            before = reads_of(tier)
            etcd, belfryd = bed.etcd.ask(kind, message), side.ask(kind, message)
            assert not differ(etcd, belfryd, message), report(bed.etcd, side, kind, message, name)
            by = {source: n for source, n in (reads_of(tier) - before).items() if n}
            if by != {"replica": 1}:
                wrong.append(f"{name}: {by}")
    assert not wrong, wrong


# ---- what would end etcd

LETHAL = ("range", [("key", b"a"), ("sort_target", 5)])
PUT = ("put", [("key", b"a"), ("value", random.Random(1).randbytes(300_000))])  # more than a tier keeps of a request


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
@pytest.mark.parametrize("policy", ["replica", "relay"])
def test_requests_that_would_end_etcd_are_refused(cluster, make_tier, policy, compression):
    """etcd before 3.6 (etcd-io/etcd#13554). Wherever the Range is, whatever the listener says of reads, compressed or not."""
    port = free_port()
    make_tier(cluster, listen=[f"http://127.0.0.1:{port},reads={policy}"])
    side = Side(f"127.0.0.1:{port}")
    deep = [("success", [LETHAL])]
    for _ in range(20):
        deep = [("failure", [("txn", deep)])]
    for kind, message in (("Range", LETHAL[1]), ("Txn", [("success", [LETHAL])]), ("Txn", [("failure", [LETHAL])]), ("Txn", deep),
                          ("Txn", [("success", [PUT]), ("success", [LETHAL])]), ("Txn", [("success", [PUT]), ("failure", deep[0][1])])):
        answer = side.ask(kind, message, compression)
        assert (answer.code, answer.message) == (3, "etcdserver: invalid sort option"), f"{text(message)[:200]}: {answer}"
    assert side.ask("Txn", [("success", [PUT])], compression).code == 0
    assert side.ask("Range", [("key", b"a")], compression).raw.endswith(PUT[1][1][1][-100:] + b"\x20\x01")
    assert cluster.members[0].is_running()
    side.close()


# ---- that a difference is found

def without(number):
    """An answer that lacks a field."""
    return lambda answer: Answer(answer.code, answer.message, b"".join(f for n, f, _ in split_fields(answer.raw) if n != number))


def reverse_keys(answer):
    fields = list(split_fields(answer.raw))
    keys = [f for n, f, _ in fields if n == 2]
    return Answer(answer.code, answer.message, b"".join(keys.pop() if n == 2 else f for n, f, _ in fields))


def count_one_less(answer):
    return Answer(answer.code, answer.message, b"".join(varint(4 << 3) + varint(f[1] - 1) if n == 4 and f[1] > 1 else f
                                                        for n, f, _ in split_fields(answer.raw)))


def older_header(answer):
    def changed(payload):
        fields = b"".join(f for n, f, _ in split_fields(payload) if n != 3) + varint(3 << 3) + varint(2)
        return varint(1 << 3 | 2) + varint(len(fields)) + fields
    return Answer(answer.code, answer.message, b"".join(changed(p) if n == 1 else f for n, f, p in split_fields(answer.raw)))


def other_words(answer):
    return Answer(answer.code, answer.message.replace("compacted", "lost"), answer.raw)


def other_status(answer):
    return Answer(9 if answer.code == 11 else answer.code, answer.message, answer.raw)


PLANTS = {"no more": without(3), "no count": without(4), "other order": reverse_keys, "wrong count": count_one_less,
          "older header": older_header, "other words": other_words, "other status": other_status}


def test_planted_differences_are_found_and_made_small(bed):
    bed.data.compact()
    bed.settle()
    tier, draw = bed.sides[0], bed.data.draw
    for name, plant in PLANTS.items():
        tier.plant, seen, found = plant, Counter(), None
        for _ in itertools.takewhile(lambda n: found is None, range(20)):
            found = first_difference(bed.etcd, tier, "Range", draw_messages(draw, "Range", AT_ONCE), seen)
        assert found is not None, f"{name}: {seen}"
        less = shrink(found, lambda m: differ(bed.etcd.ask("Range", m), tier.ask("Range", m), m))
        assert len(less) <= 4, f"{name}: {text(less)}"
        assert text(less) in report(bed.etcd, tier, "Range", found, "a plant")


def test_what_may_differ_is_only_that():
    """member_id and raft_term, and nothing else of a header."""
    def answer(**fields):
        raw = b"".join(varint(n << 3) + varint(v) for n, v in zip((1, 2, 3, 4), fields.values()))
        return Answer(0, "", varint(1 << 3 | 2) + varint(len(raw)) + raw)
    one = answer(cluster_id=1, member_id=2, revision=3, raft_term=4)
    assert same(one, answer(cluster_id=1, member_id=9, revision=3, raft_term=9))
    assert not same(one, answer(cluster_id=9, member_id=2, revision=3, raft_term=4))
    assert not same(one, answer(cluster_id=1, member_id=2, revision=9, raft_term=4))
