"""Requests of KV/Range and of read-only KV/Txn, drawn at random, as bytes and as text, and made smaller while they still fail.

A message is a list of (field name, value), in the order in which the fields are written: an int is a varint, bytes are bytes, a
list is a message. So a request may have a field twice, in any order, or with an explicit zero, which no library would write."""
from differential import varint

RANGE = {"key": 1, "range_end": 2, "limit": 3, "revision": 4, "sort_order": 5, "sort_target": 6, "serializable": 7,
         "keys_only": 8, "count_only": 9, "min_mod_revision": 10, "max_mod_revision": 11, "min_create_revision": 12,
         "max_create_revision": 13, "unknown": 99}
COMPARE = {"result": 1, "target": 2, "key": 3, "version": 4, "create_revision": 5, "mod_revision": 6, "value": 7, "lease": 8,
           "range_end": 64}
TXN = {"compare": (1, COMPARE)}
PUT = {"key": 1, "value": 2}
OP = {"range": (1, RANGE), "put": (2, PUT), "txn": (4, TXN)}
TXN |= {"success": (2, OP), "failure": (3, OP)}
PATHS = {"Range": ("/etcdserverpb.KV/Range", RANGE), "Txn": ("/etcdserverpb.KV/Txn", TXN)}

MOST = (1 << 63) - 1
TXN_OPS_MAX = 128  # etcd's --max-txn-ops


def encode(schema, message):
    out = b""
    for name, value in message:
        number, below = schema[name] if isinstance(schema[name], tuple) else (schema[name], None)
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        raw = value if below is None else encode(below, value)
        out += varint(number << 3 | 2) + varint(len(raw)) + raw
    return out


def text(message):
    """For people, on one line."""
    def word(value):
        if isinstance(value, bytes):
            return repr(value)[1:] if len(value) < 80 else f"{value[:1]!r}*{len(value)}"
        return str(value) if isinstance(value, int) else "{" + text(value) + "}"
    return ", ".join(f"{name}={word(value)}" for name, value in message)


# ---- smaller ones

def smaller(message):
    """Every message that is this one with one thing less."""
    for i, (name, value) in enumerate(message):
        before, after = message[:i], message[i + 1:]
        yield before + after
        if isinstance(value, list):
            yield from (before + [(name, less)] + after for less in smaller(value))
        elif isinstance(value, bytes) and len(value) > 1:
            yield before + [(name, value[:len(value) // 2])] + after
            yield before + [(name, value[:-1])] + after
        elif isinstance(value, int) and abs(value) > 1:
            yield before + [(name, 1)] + after


def shrink(message, fails, tries=500):
    """The smallest that still fails, as far as one thing less at a time leads."""
    found = True
    while found and tries > 0:
        found = False
        for candidate in smaller(message):
            tries -= 1
            if fails(candidate):
                message, found = candidate, True
                break
            if tries == 0:
                break
    return message


# ---- random ones

class Draw:
    """`known`: keys that are or were there. The revisions follow the store: `head`, `compacted`, and `below`, at which the tiers
    have begun."""

    def __init__(self, rng, known):
        self.rng, self.known = rng, known
        self.head = self.compacted = self.below = 1

    def key(self):
        key = self.rng.choice(self.known)
        return self.rng.choice([key, key, key, key, key[:-1], key + b"\0", key + b"z", key[:len(key) // 2], b"absent"])

    def range(self):
        """The fields key and range_end."""
        a, b = sorted((self.key(), self.key()))
        prefix = self.rng.choice([b"/p/", b"/p", b"/", b"a", b"/p/01", b"\xff", a])
        end = prefix[:-1] + bytes([min(prefix[-1] + 1, 255)]) if prefix else b""
        if self.rng.randrange(40) == 0:  # refused
            return self.rng.choice([[], [("range_end", b)], [("key", b""), ("range_end", b"\0")]])
        kind = self.rng.randrange(20)
        if kind < 5:
            return [("key", a)]
        if kind < 10:
            return [("key", prefix), ("range_end", end)]
        return [[("key", a), ("range_end", b"\0")], [("key", b"\0"), ("range_end", b"\0")], [("key", b), ("range_end", a)],
                [("key", a), ("range_end", a)], [("key", a), ("range_end", b"")], [("key", b"\0"), ("range_end", a)],
                *[[("key", a), ("range_end", b)]] * 4][kind - 10]

    def revision(self):
        return self.rng.choice([0, 1, self.compacted - 1, self.compacted, self.compacted + 1, self.below - 1, self.below,
                                self.below + 1, self.head - 1, self.head, self.rng.randint(1, self.head),
                                self.rng.randint(self.compacted, self.head), self.rng.randint(self.compacted, self.head),
                                self.rng.randint(self.below, self.head)])

    def pinned(self):
        """A future one makes a serializable read wait for it: a few are enough."""
        if self.rng.randrange(25) == 0:
            return self.rng.choice([self.head + 1, self.head + 1000, MOST])
        return -1 if self.rng.randrange(50) == 0 else self.revision()

    def filter(self):
        return self.rng.choice([self.revision(), self.revision(), self.revision(), -1, MOST, self.head + 1])

    def enum(self, n):
        """One of n values; now and then one that does not exist, or does only in its lower 32 bits."""
        if self.rng.randrange(12) == 0:
            return self.rng.choice([n, n + 1, -1, 1 << 31, 1 << 32, (1 << 32) + 1, MOST])
        return self.rng.randrange(n)

    def sort_target(self):
        """One that exists, if only in its lower 32 bits: etcd before 3.6 dies when it is asked to sort by another (etcd-io/etcd#13554)."""
        return self.rng.choice([1 << 32, (1 << 32) + 4]) if self.rng.randrange(20) == 0 else self.rng.randrange(5)

    def maybe(self, chance, name, value):
        return [(name, value())] if self.rng.random() < chance else []

    def range_request(self):
        fields = self.range()
        fields += self.maybe(0.4, "limit", lambda: self.rng.choice([0, 1, 2, 3, 5, 10, 1000, -1, MOST]))
        fields += self.maybe(0.4, "revision", self.pinned)
        fields += self.maybe(0.3, "sort_order", lambda: self.enum(3))
        fields += self.maybe(0.3, "sort_target", self.sort_target)
        fields += self.maybe(0.5, "serializable", lambda: self.rng.choice([1, 1, 1, 1, 0, 2]))
        fields += self.maybe(0.15, "keys_only", lambda: self.rng.choice([1, 1, 0]))
        fields += self.maybe(0.1, "count_only", lambda: self.rng.choice([1, 1, 0]))
        for name in ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision"):
            fields += self.maybe(0.12, name, self.filter)
        return self.written_oddly(fields)

    def written_oddly(self, fields):
        """Seldom: in another order, a field twice, a field that nobody knows."""
        if self.rng.randrange(20) == 0:
            self.rng.shuffle(fields)
        if fields and self.rng.randrange(30) == 0:
            fields.append((fields[0][0], self.key() if fields[0][0] in ("key", "range_end") else 1))
        return fields + self.maybe(0.03, "unknown", lambda: 1)

    def compare(self):
        fields = self.maybe(0.95, "key", self.key) + self.maybe(0.15, "range_end", lambda: self.rng.choice([b"\0", self.key()]))
        fields += self.maybe(0.8, "result", lambda: self.enum(4)) + self.maybe(0.8, "target", lambda: self.enum(5))
        for name, value in (("version", lambda: self.rng.randrange(4)), ("create_revision", self.revision),
                            ("mod_revision", self.revision), ("value", self.key), ("lease", lambda: self.rng.randrange(3))):
            fields += self.maybe(0.25, name, value)
        return fields

    def operations(self, branch, depth):
        n = self.rng.choice([0, 1, 1, 1, 2, 3])
        if self.rng.randrange(100) == 0:
            n = self.rng.choice([TXN_OPS_MAX, TXN_OPS_MAX + 1])
        out = []
        for _ in range(n):
            is_nested = depth < 2 and self.rng.randrange(25) == 0
            out.append((branch, [("txn", self.txn_request(depth + 1))] if is_nested else [("range", self.range_request())]))
        return out

    def txn_request(self, depth=0):
        compares = [("compare", self.compare()) for _ in range(self.rng.choice([0, 0, 1, 1, 2]))]
        return compares + self.operations("success", depth) + self.operations("failure", depth)
