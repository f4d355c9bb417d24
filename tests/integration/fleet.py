"""Watchers by the hundred: what they were asked, what they were given, and the judgement afterwards. The counters of the
tiers that served them, added up over their lives."""
import bisect
import multiprocessing
import subprocess
import time
from collections import Counter

import history
import procs
from checker import FollowCheck, Spec, Verdict, WatchCheck, parse
from client import CANNOT_ASK, ETCD3, LIBBELFRY, SSE, Recorder
from patience import Patience

COMPACTED, REWOUND = "BELFRY_ERR_COMPACTED", "BELFRY_ERR_REWOUND"
GROUPS, KEYS = 8, 60  # what the writer's mix writes: /w/gG/kNNN
CATCH_UP_S = 90


class Truth(history.History):
    """etcd's history, read on before each compaction takes some of it away; indexed, since a thousand watches ask."""

    def __init__(self):
        super().__init__()
        self.by_key = {}  # key id -> places in events

    def feed(self, op, key, *rest):
        super().feed(op, key, *rest)
        self.by_key.setdefault(self.events[-1].key, []).append(len(self.events) - 1)

    def until(self, rev):
        """The same history as it was at `rev`: what a snapshot of then has when it is restored."""
        earlier = Truth()
        for e in self.events[:bisect.bisect_right(self.revs, rev)]:
            earlier.raw[e.key] = self.raw[e.key]
            earlier.by_key.setdefault(e.key, []).append(len(earlier.events))
            earlier.events.append(e)
            earlier.revs.append(e.mod)
            if e.op == "P":
                earlier.state[e.key] = tuple(e[2:8])
            else:
                del earlier.state[e.key]
        return earlier

    def extend(self, cluster, rev, timeout=600):
        """Reads on until it has `rev`, and whatever came with it."""
        patience = Patience(timeout)
        while self.last_rev() < rev:
            try:
                self._extend(cluster, rev, timeout)
            except history.Interrupted:
                assert not patience.is_over(), f"etcd lets its client go again and again, at {self.last_rev()}"
                time.sleep(0.2)

    def _extend(self, cluster, rev, timeout):
        member = next(m for m in cluster.members if m.is_running() and not m.stopped)
        proc = procs.spawn(["etcdctl", "--endpoints", member.endpoint, "watch", "--prefix", "", "--rev",
                            str(self.last_rev() + 1), "-w", "json"], ns=cluster.ns, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            history._read_until(self, proc.stdout, rev, timeout)
        finally:
            procs.end(proc)


class TierSpec(Spec):
    latest = 0  # of one from now, without a revision: it was created when the cluster was here at most

    def __init__(self, *args, **kw):
        super().__init__(*args, may_end=COMPACTED, **kw)

    def expected(self, truth):
        places = sorted(i for k, at in truth.by_key.items() if self.has_key(truth.raw[k]) for i in at)
        begin = bisect.bisect_left(truth.revs, self.first)
        return [truth.events[i] for i in places if i >= begin and self.has_op(truth.events[i].op)]

    def from_rev(self, number, rev):
        """The same watch again, from `rev` on."""
        options = {**self.options, "rev": str(rev)}
        again = TierSpec(number, self.kind, self.key, self.end, first=rev, follow=self.follow, **options)
        again.bare = self.bare
        return again


LAG = 1000  # revisions


class TierCheck(WatchCheck):
    """A watch may be told that its revision is compacted, if that is true. With `rewound` a backup was restored when all
    had everything: then it may also be told that its past is gone, after all of that past and before anything else."""

    def __init__(self, spec, truth, verdict, compactions, rewound=False):
        super().__init__(spec, truth, verdict)
        self.compactions, self.rewound = compactions, rewound

    def batch(self, b, events):
        self.head = b.hdr_rev
        self.begin(b.rev + (b.kind == "P"))
        super().batch(b, events)

    def finish(self):
        self.begin(self.spec.latest + 1)
        super().finish()

    def begin(self, rev):
        """What was there before a watch from now was created is not given: up to spec.latest that may be anything."""
        before = min(rev, self.spec.latest + 1)
        while self.n_given == 0 and self.at < len(self.expected) and self.exp_revs[self.at] < before:
            self.at += 1

    def check_prev(self, e, want):
        """etcd looks for a previous value when it sends: what was compacted by then, up to the compacted revision itself, goes
        without (test_previous_values). So it may be missing where the header shows that a compaction above the event can
        have happened, a tier being behind by LAG at most."""
        if e.prev is None and any(e.mod <= rev <= self.head + LAG for rev in self.compactions):
            return
        super().check_prev(e, want)

    def was_compacted(self, rev):
        """Is all below it gone? A tier that lags tells its own next revision, if upstream was compacted above that."""
        return any(rev <= compacted for compacted in self.compactions)

    def end_at(self, err, compact_rev):
        has_all = self.at == len(self.expected)
        is_lost = err == COMPACTED and compact_rev not in self.compactions and (has_all or not self.was_compacted(compact_rev))
        if self.rewound and (err == REWOUND or is_lost):
            self.ended = True
            if self.at < len(self.expected):
                self.blame("alive", f"its past was rewritten before it had the event at {self.exp_revs[self.at]}")
            return
        self.end(err)
        following = max(self.last_rev, self.progress, self.spec.first - 1) + 1
        if err == COMPACTED and not self.was_compacted(compact_rev):
            self.blame("end", f"told of a compaction at {compact_rev}, but they were at {sorted(self.compactions)}")
        elif err == COMPACTED and following >= compact_rev:
            self.blame("end", f"told of a compaction at {compact_rev}, but it goes on at {following}")


class TierFollowCheck(FollowCheck):
    def end_at(self, err, compact_rev):
        self.verdict.blame("end", self.spec.number, f"a follow ended with {err} ({compact_rev})")


def check_record(path, specs, truth, compactions, rewound=False):
    """(Verdict, how many watches were told that their revision is compacted)."""
    verdict, n_compacted = Verdict(), 0
    checks = {s.number: TierFollowCheck(s, truth, verdict) if s.follow else TierCheck(s, truth, verdict, compactions,
                                                                                                rewound)
              for s in specs}
    with open(path) as f:
        for letter, number, *rest in parse(f):
            if letter == "B":
                verdict.n_batches += 1
                verdict.n_progress += rest[0].kind == "P"
                verdict.n_events += len(rest[1])
                checks[number].batch(*rest)
            elif letter == "X" and rest[0][1] != "BELFRY_ERR_CANCELED":  # that is the end of the recorder itself
                n_compacted += rest[0][1] == COMPACTED
                checks[number].end_at(rest[0][1], int(rest[0][2]))
    for c in checks.values():
        c.finish()
    return verdict, n_compacted


_shared = None  # what forked checkers inherit


def _check_one(i):
    return check_record(*_shared[i])


def check_records(jobs):
    """jobs: what check_record() takes. The verdicts of all, on two processes: (file, Verdict, number told "compacted")."""
    global _shared
    _shared = jobs
    with multiprocessing.get_context("fork").Pool(2) as pool:
        verdicts = pool.map(_check_one, range(len(jobs)), chunksize=1)
    _shared = None
    return [(job[0], *v) for job, v in zip(jobs, verdicts)]


class Watchers:
    """One recorder and the specs of its watches; one that was told "compacted" is opened again behind that."""

    def __init__(self, tier, client, path, specs, ns):
        self.recorder = Recorder(tier.url if client == LIBBELFRY else tier.endpoint, path, ns=ns, client=client)
        self.tier, self.client, self.stalled = tier, client, False
        self.specs = list(specs)                   # all that ever were
        self.current = {s.number: s for s in specs}  # number as first opened -> the spec that stands for it now
        for spec in specs:
            self.recorder.open(spec)

    def next_number(self):
        return max(s.number for s in self.specs) + 1

    def add(self, spec):
        self.specs.append(spec)
        self.recorder.open(spec)

    def reopen_ended(self, compacted):
        """Returns how many."""
        status, n = self.recorder.status(), 0
        for origin, spec in list(self.current.items()):
            now = status[spec.number]
            if now["state"] != "ended":
                continue
            assert "compacted" in now["err"].lower(), f"watch {spec.number} of {self.recorder.record} ended: {now}"
            again = spec.from_rev(self.next_number(), compacted)
            self.add(again)
            self.current[origin] = again
            n += 1
        return n

    def behind(self, wanted, what="rev"):
        """wanted: first number -> revision. Those that have not got there: number now -> (revision it has, wanted).
        what: "rev" by its newest event, "place" by its newest batch of any kind."""
        status = self.recorder.status()
        now = {origin: status[spec.number][what] for origin, spec in self.current.items()}
        return {self.current[n].number: (now[n], rev) for n, rev in wanted.items() if now[n] < rev}

    def ends(self, truth):
        """first number -> the revision of the last event that it must be given."""
        expected = {n: spec.expected(truth) for n, spec in self.current.items()}
        return {n: events[-1].mod for n, events in expected.items() if events}


def specs_of(index, n, client=LIBBELFRY, first=1):
    """The n watches of recorder `index`: one on everything, some on groups, the most on a key or a few. `first`: where
    they begin, which is what happens next: python3-etcd3 must be told, of the others every second is if it is not 1."""
    options = [{}, {"prev_kv": "true"}, {"no_put": "true"}, {"no_delete": "true"}, {"progress_notify": "true"},
               {"prev_kv": "true", "progress_notify": "true"}, {"prev_kv": "true", "no_delete": "true"}]
    if client == SSE:  # it has no such options
        options = [{}]
    if client == ETCD3:  # its filters do not work
        options = [o for o in options if "no_put" not in o and "no_delete" not in o]
    whole = {} if client == SSE else {"prev_kv": "true"} if index % 2 == 0 else {"progress_notify": "true"}

    def begin(i):
        return {"first": first, **({"rev": str(first)} if client == ETCD3 or (first > 1 and i % 2) else {})}
    specs = [TierSpec(0, "prefix" if index % 3 else "from", b"", **begin(index), **whole)]
    for i in range(1, n):
        group, key = (index + i) % GROUPS, (index * 7 + i) % KEYS
        chosen = {**begin(i), **options[i % len(options)]}
        if i < 5:
            specs.append(TierSpec(i, "prefix", b"/w/g%d/" % group, **chosen))
        elif i == 5:
            specs.append(TierSpec(i, "interval", b"/w/g%d/k05" % group, b"/w/g%d/k" % (group + 1), **chosen))
        elif i == 6 and client in (LIBBELFRY, SSE):
            specs.append(TierSpec(i, "prefix", b"/w/g%d/" % group, follow=True, first=first))
        elif i % 10 == 7:
            specs.append(TierSpec(i, "prefix", b"/w/g%d/k%02d" % (group, key // 10), **chosen))
        else:
            specs.append(TierSpec(i, "key", b"/w/g%d/k%03d" % (group, key), **chosen))
    for spec in specs:
        spec.bare = client == SSE
    return specs


def write_the_last(cluster):
    """Into each watch's range a put and a delete, so that nobody may stop early; leases run out first, so that nothing
    happens after them."""
    cluster.outlast_leases("/w/mark")
    for group in range(GROUPS):
        puts = "".join(f"put /w/g{group}/k{key:03} last\n" for key in range(KEYS))
        cluster.ctl_retry("txn", input=f"\n{puts}\n\n".encode())
    for group in range(GROUPS):
        cluster.ctl_retry("del", "--prefix", f"/w/g{group}/")
    return cluster.put("/w/end", "end")


class Fleet:
    """places: for each recorder the tier it watches and the client that it is made with; `per` watches each."""

    def __init__(self, folder, places, per, ns, first=1):
        self.all = [Watchers(tier, client, folder / f"record{i}", specs_of(i, per, client, first), ns)
                    for i, (tier, client) in enumerate(places)]
        for w in self.all:
            follows = sum(s.follow for s in w.specs)  # what they need first is a list
            w.recorder.wait_connected(per - follows, timeout=60)

    def created_by(self, rev):
        """The cluster was at `rev` when all watches were there: those from now have what comes after it, at the latest."""
        for w in self.all:
            for spec in w.specs:
                if "rev" not in spec.options:
                    spec.latest = rev

    def awake(self):
        return [w for w in self.all if not w.stalled]

    def reopen_ended(self, compacted):
        return sum(w.reopen_ended(compacted) for w in self.awake())

    def ask_progress(self):
        for w in self.awake():
            if w.client not in CANNOT_ASK:
                w.recorder.command("progress")

    def wait(self, wanted, compacted, timeout=CATCH_UP_S):
        """wanted(watchers) -> {first number: revision}. Returns how many were opened again meanwhile."""
        n, patience = 0, Patience(timeout)
        for w in self.awake():
            goal = wanted(w)
            while True:
                n += w.reopen_ended(compacted)
                behind = w.behind(goal)
                if not behind:
                    break
                assert not patience.is_over(), f"{w.recorder.record}: behind after {timeout} s: {behind}"
                time.sleep(0.2)
        return n

    def thaw(self):
        for w in self.all:
            if w.stalled:
                w.recorder.cont()
                w.stalled = False

    def quit(self):
        self.thaw()
        for w in self.all:
            w.recorder.quit()

    def jobs(self, truth, compactions, rewound=False):
        """For check_records()."""
        return [(w.recorder.record, w.specs, truth, compactions, rewound) for w in self.all]


class Tally:
    """Counters of belfryd added up over its lives."""

    def __init__(self, tier):
        self.tier, self.sums, self.last = tier, Counter(), Counter()

    @staticmethod
    def of(numbers):
        found = Counter()
        for worker in numbers["workers"]:
            for name in ("parks", "unparks", "handovers", "fetches", "rows_swept", "overslept", "compacted"):
                found[name] += worker["core"][name]
        for name in ("backfills_done", "backfill_revisions", "connects", "losses"):
            found[name] = numbers["upstream"][name]
        for name in ("listings", "relists_compacted", "relists_rewritten", "breaches", "replays", "stale", "gaps"):
            found[name] = numbers["upstream"]["follower"][name]
        found["history_reads"] = numbers["replica"]["reads"] + numbers["replica"]["reads_shared"]
        found["io_errors"] = numbers["replica"]["io_errors"]
        return found

    def read(self):
        """What was added since the last reading."""
        now = self.of(self.tier.numbers())
        added = Counter({k: v - self.last[k] for k, v in now.items()})
        self.sums.update(added)
        self.last = now
        return added

    def begin_anew(self):
        """belfryd was started again: it counts from 0."""
        self.last = Counter()
