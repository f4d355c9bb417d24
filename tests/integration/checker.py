"""Judges what watches were given against what happened: the published guarantees of an etcd watch, and more.

Every violation is (property, watch, text). The properties:

  filter        an event outside the range, or of a kind that was filtered away
  ordered       an event older than the one before it
  unique        the same key at the same revision twice
  atomic        a revision in more than one batch (but for parts that say so), or two revisions in one batch
  bookmarkable  an event at or below a progress before it; progress that goes back, or is below an event before it
  resumable     the first event is not the first that the watch should have had
  is_create     an event that says the key was created when it was there already, or the reverse
  reliable      the events are not those of the history between the first and the last
  prev_kv       a previous value that is not the one before, or one that nobody asked for
  progress      progress to a revision while an event at or below it has not been given
  content       value, version, lease or revisions are not those of the history
  header        a batch whose header is of an earlier revision than the batch, or of another cluster
  end           anything after the end of a watch, or an end that nobody expected
  alive         something that happened before the last revision of the history never came

Streaming: one pass over the record, one small state for each watch."""
import bisect
from collections import Counter, namedtuple

from history import Event

PROPERTIES = ("filter", "ordered", "unique", "atomic", "bookmarkable", "resumable", "is_create", "reliable", "prev_kv",
              "progress", "content", "header", "end", "alive")
VIOLATIONS_MAX = 200  # kept as text; all are counted

Batch = namedtuple("Batch", "kind rev n part last us hdr_rev member cluster")


class Spec:
    """One watch as it was asked for. `first` is the revision from which on it must have everything."""

    bare = False  # its events say key, value and revision, and nothing else

    def __init__(self, number, kind, key=b"", end=b"", first=1, follow=False, may_end=None, **options):
        self.number, self.kind, self.key, self.end, self.first = number, kind, key, end, first
        self.follow, self.may_end = follow, may_end
        self.options = {k.replace("_", "-"): v for k, v in options.items()}

    def on(self, name):
        return self.options.get(name) == "true"

    def command(self):
        words = ["follow" if self.follow else "watch", str(self.number), self.kind, self.key.hex() or "-",
                 self.end.hex() or "-"]
        return " ".join(words + [f"{k}={v}" for k, v in self.options.items()])

    def has_key(self, key):
        if self.kind == "key":
            return key == self.key
        if self.kind == "prefix":
            return key.startswith(self.key)
        return key >= self.key and (self.kind == "from" or key < self.end)

    def has_op(self, op):
        return not self.on("no-put" if op == "P" else "no-delete")

    def expected(self, history):
        match = {k: self.has_key(raw) for k, raw in history.raw.items()}
        return [e for e in history.events[bisect.bisect_left(history.revs, self.first):]
                if match[e.key] and self.has_op(e.op)]


def bare(event):
    return event.op, event.key, event.len, event.crc, event.mod


class Verdict:
    def __init__(self):
        self.counts = Counter()
        self.texts = []
        self.places = []  # (revision, property) of as many: where in the history each watch was
        self.n_events = 0
        self.n_batches = 0
        self.n_progress = 0

    def blame(self, prop, watch, text, rev=0):
        assert prop in PROPERTIES
        self.counts[prop] += 1
        if len(self.texts) < VIOLATIONS_MAX:
            self.texts.append(f"{prop}: watch {watch}: {text}")
            self.places.append((rev, prop))

    @property
    def n_violations(self):
        return sum(self.counts.values())

    def __str__(self):
        return f"{dict(self.counts)}\n" + "\n".join(self.texts[:30])


class WatchCheck:
    def __init__(self, spec, history, verdict):
        self.spec, self.history, self.verdict = spec, history, verdict
        self.expected = spec.expected(history)
        self.exp_revs = [e.mod for e in self.expected]
        self.at = 0             # expected[at] comes next
        self.n_given = 0
        self.last_rev = 0       # of the newest event
        self.seen = set()       # keys given at last_rev
        self.progress = 0
        self.open_part = False  # the batch before said that more of its revision follows
        self.ended = False
        self.cluster = None

    def blame(self, prop, text):
        self.verdict.blame(prop, self.spec.number, text, max(self.last_rev, self.progress))

    def batch(self, b, events):
        if self.ended:
            self.blame("end", f"a batch at {b.rev} after the end")
        self.check_header(b)
        if b.kind == "P":
            self.take_progress(b.rev)
        elif b.kind == "C":
            self.check_atomic(b, events)
            for e in events:
                self.event(e)
            self.open_part = b.part == 1
        else:
            self.blame("content", f"a batch of kind {b.kind} on a watch")

    def check_header(self, b):
        if b.hdr_rev < b.rev:
            self.blame("header", f"header revision {b.hdr_rev} below batch revision {b.rev}")
        if self.cluster is not None and b.cluster != self.cluster:
            self.blame("header", f"cluster {b.cluster} after {self.cluster}")
        self.cluster = b.cluster

    def check_atomic(self, b, events):
        if not events:
            self.blame("atomic", f"no events at {b.rev}")
            return
        if any(e.mod != b.rev for e in events):
            self.blame("atomic", f"a batch at {b.rev} holds {sorted({e.mod for e in events})}")
        if b.part and not self.spec.on("unmerged"):
            self.blame("atomic", f"a part of {b.rev} without being asked for parts")
        continues = events[0].mod == self.last_rev
        if continues and not self.open_part:
            self.blame("atomic", f"revision {b.rev} is split")
        if self.open_part and not continues:
            self.blame("atomic", f"the rest of revision {self.last_rev} did not follow")

    def take_progress(self, rev):
        if rev < self.progress or rev < self.last_rev:
            self.blame("bookmarkable", f"progress {rev} after progress {self.progress} and event {self.last_rev}")
        if self.open_part:
            self.blame("atomic", f"progress {rev} inside revision {self.last_rev}")
        if self.at < len(self.expected) and self.exp_revs[self.at] <= rev:
            self.blame("progress", f"progress {rev} before the event at {self.exp_revs[self.at]}")
        self.progress = max(self.progress, rev)

    def event(self, e):
        if not self.spec.has_key(self.history.raw.get(e.key, b"")) or not self.spec.has_op(e.op):
            self.blame("filter", f"{e}")
        if e.mod < self.last_rev:
            self.blame("ordered", f"{e.mod} after {self.last_rev}")
        if e.mod != self.last_rev:
            self.seen.clear()
        if e.key in self.seen:
            self.blame("unique", f"{e.key} at {e.mod} again")
        self.seen.add(e.key)
        if e.mod <= self.progress:
            self.blame("bookmarkable", f"event {e.mod} after progress {self.progress}")
        want = self.expected[self.at] if self.at < len(self.expected) else None
        if self.n_given == 0 and (want is None or (e.mod, e.key) != (want.mod, want.key)):
            self.blame("resumable", f"first event is {e.mod}, not {want.mod if want else 'any'}")
        self.compare(e, want)
        self.last_rev = e.mod
        self.n_given += 1

    def compare(self, e, want):
        if want is None or (want.mod, want.key, want.op) != (e.mod, e.key, e.op):
            self.blame("reliable", f"got {e.op} {e.key} at {e.mod}, should be "
                       + (f"{want.op} {want.key} at {want.mod}" if want else "nothing"))
            self.catch_up(e)
            return
        self.at += 1
        if self.spec.bare:
            if bare(e) != bare(want):
                self.blame("content", f"{bare(e)} should be {bare(want)}")
            return
        if e.op == "P" and (e.create == e.mod) != (want.prev is None):
            self.blame("is_create", f"{e.key} at {e.mod}: create revision {e.create}")
        if e[:8] != want[:8]:
            self.blame("content", f"{e[:8]} should be {want[:8]}")
        self.check_prev(e, want)

    def check_prev(self, e, want):
        if e.prev is not None and (e.prev != want.prev or not self.spec.on("prev-kv")):
            self.blame("prev_kv", f"{e.key} at {e.mod}: {e.prev} should be {want.prev}")
        if e.prev is None and want.prev is not None and self.spec.on("prev-kv"):
            self.blame("prev_kv", f"{e.key} at {e.mod}: missing, and nothing was compacted")

    def catch_up(self, e):
        """After a difference: go on behind the event that came, so that one fault is told once."""
        i = bisect.bisect_left(self.exp_revs, e.mod)
        while i < len(self.expected) and self.exp_revs[i] == e.mod:
            if self.expected[i].key == e.key:
                self.at = max(self.at, i + 1)
                return
            i += 1

    def end(self, err):
        if self.spec.may_end != err:
            self.blame("end", f"ended with {err}")
        self.ended = True

    def finish(self):
        if self.open_part:
            self.blame("atomic", f"the rest of revision {self.last_rev} never came")
        if self.at < len(self.expected) and not (self.ended and self.spec.may_end):
            self.blame("alive", f"{len(self.expected) - self.at} events from {self.exp_revs[self.at]} on never came")


class FollowCheck:
    """Applies what a follow gives; at each SYNCED, and at the end, that must be the state of the server."""

    def __init__(self, spec, history, verdict):
        self.spec, self.history, self.verdict = spec, history, verdict
        self.state = {}
        self.synced = 0
        self.expected = spec.expected(history)
        self.exp_revs = [e.mod for e in self.expected]
        self.at = 0

    def blame(self, prop, text):
        self.verdict.blame(prop, self.spec.number, text)

    def batch(self, b, events):
        for e in events:
            if e.op == "P":
                self.state[e.key] = (e.len, e.crc, e.mod)
            else:
                self.state.pop(e.key, None)
        if b.kind == "S":
            self.synced = 0
        elif b.kind == "Y":
            self.synced = b.rev
            self.at = bisect.bisect_right(self.exp_revs, b.rev)
            self.compare(b.rev)
        elif b.kind == "C" and self.synced:
            said = bare if self.spec.bare else lambda e: tuple(e[:8])
            got, want = [said(e) for e in events], []
            while self.at < len(self.expected) and self.exp_revs[self.at] <= b.rev:
                want.append(said(self.expected[self.at]))
                self.at += 1
            if got != want:
                self.blame("reliable", f"changes at {b.rev} are {got[:3]}, should be {want[:3]}")

    def compare(self, rev):
        want = {k: v for k, v in self.history.state_at(rev).items() if self.spec.has_key(self.history.raw[k])}
        if self.spec.bare:  # a state does not say when a key was written
            want = {k: v[:2] for k, v in want.items()}
        have = {k: v[:2] for k, v in self.state.items()} if self.spec.bare else self.state
        if have != want:
            wrong = [k for k in set(want) | set(have) if want.get(k) != have.get(k)]
            self.blame("content", f"the state at {rev} differs in {len(wrong)} keys, such as {wrong[:3]}")

    def end(self, err):
        if self.spec.may_end != err:
            self.blame("end", f"ended with {err}")

    def finish(self):
        if not self.synced:
            self.blame("alive", "never synced")
        self.compare(self.history.last_rev())


def _event(words):
    prev = None if words[9] == "-" else tuple(map(int, words[9].split(",")))
    return Event(words[1], words[2], *map(int, words[3:9]), prev)


def parse(lines):
    """Yields ("B", watch, Batch, [Event]) and (letter, watch, words) for the rest."""
    lines = iter(lines)
    for line in lines:
        words = line.split(" ")
        if words[0] != "B":
            yield words[0], int(words[1]), [w.strip() for w in words[2:]]
            continue
        b = Batch(words[2], *map(int, words[3:]))
        yield "B", int(words[1]), b, [_event(next(lines).split()) for _ in range(b.n)]


def check(records, specs, history):
    """records: what parse() yields. Returns the Verdict."""
    verdict = Verdict()
    checks = {s.number: (FollowCheck if s.follow else WatchCheck)(s, history, verdict) for s in specs}
    for letter, watch, *rest in records:
        if letter == "B":
            verdict.n_batches += 1
            verdict.n_progress += rest[0].kind == "P"
            verdict.n_events += len(rest[1])
            checks[watch].batch(*rest)
        elif letter == "X":
            if rest[0][1] != "BELFRY_ERR_CANCELED":  # that is belfry_close(), at the end of the record
                checks[watch].end(rest[0][1])
    for c in checks.values():
        c.finish()
    return verdict


def check_file(path, specs, history):
    with open(path) as f:
        return check(parse(f), specs, history)


def delays_us(path, skip=()):
    """(time, delay) of each event that carried its time, both in microseconds."""
    found = []
    with open(path) as f:
        watch = us = 0
        for line in f:
            words = line.split(" ")
            if words[0] == "B":
                watch, us = int(words[1]), int(words[7])
            elif words[0] == "E" and watch not in skip and not words[10].startswith("-"):
                found.append((us, int(words[10])))
    return found
