"""A fleet of watchers on one belfryd, faults of etcd, belfryd and clients, and the judgement afterwards."""
import bisect
import multiprocessing
import subprocess
import time
from collections import Counter

import history
import procs
from checker import FollowCheck, Spec, Verdict, WatchCheck, parse
from client import Recorder

COMPACTED = "BELFRY_ERR_COMPACTED"
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

    def extend(self, cluster, rev, timeout=180):
        """Reads on until it has `rev`, and whatever came with it."""
        if self.last_rev() >= rev:
            return
        member = next(m for m in cluster.members if m.is_running() and not m.stopped)
        proc = procs.spawn(["etcdctl", "--endpoints", member.endpoint, "watch", "--prefix", "", "--rev",
                            str(self.last_rev() + 1), "-w", "json"], ns=cluster.ns, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            history._read_until(self, proc.stdout, rev, timeout)
        finally:
            procs.end(proc)


class TierSpec(Spec):
    def __init__(self, *args, **kw):
        super().__init__(*args, may_end=COMPACTED, **kw)

    def expected(self, truth):
        places = sorted(i for k, at in truth.by_key.items() if self.has_key(truth.raw[k]) for i in at)
        begin = bisect.bisect_left(truth.revs, self.first)
        return [truth.events[i] for i in places if i >= begin and self.has_op(truth.events[i].op)]

    def from_rev(self, number, rev):
        """The same watch again, from `rev` on."""
        options = {**self.options, "rev": str(rev)}
        return TierSpec(number, self.kind, self.key, self.end, first=rev, follow=self.follow, **options)


class TierCheck(WatchCheck):
    """A watch may be told that its revision is compacted, if that is true."""

    def __init__(self, spec, truth, verdict, compactions):
        super().__init__(spec, truth, verdict)
        self.compactions = compactions

    def check_prev(self, e, want):
        """etcd gives no previous value at the compacted revision itself: the revision before it is gone."""
        if e.prev is None and e.mod in self.compactions:
            return
        super().check_prev(e, want)

    def end_at(self, err, compact_rev):
        self.end(err)
        following = max(self.last_rev, self.progress, self.spec.first - 1) + 1
        if err == COMPACTED and compact_rev not in self.compactions:
            self.blame("end", f"told of a compaction at {compact_rev}, but they were at {sorted(self.compactions)}")
        elif err == COMPACTED and following >= compact_rev:
            self.blame("end", f"told of a compaction at {compact_rev}, but it goes on at {following}")


class TierFollowCheck(FollowCheck):
    def end_at(self, err, compact_rev):
        self.verdict.blame("end", self.spec.number, f"a follow ended with {err} ({compact_rev})")


def check_record(path, specs, truth, compactions):
    """(Verdict, how many watches were told that their revision is compacted)."""
    verdict, n_compacted = Verdict(), 0
    checks = {s.number: TierFollowCheck(s, truth, verdict) if s.follow else TierCheck(s, truth, verdict, compactions)
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
    jobs, truth, compactions = _shared
    return check_record(*jobs[i], truth, compactions)


class Watchers:
    """One recorder and the specs of its watches; one that was told "compacted" is opened again behind that."""

    def __init__(self, endpoint, path, specs, ns, go):
        self.recorder = Recorder(endpoint, path, ns=ns, go=go)
        self.go, self.stalled = go, False
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

    def behind(self, wanted):
        """wanted: first number -> revision. Those that have not got there: number now -> (revision it has, wanted)."""
        status = self.recorder.status()
        now = {origin: status[spec.number]["rev"] for origin, spec in self.current.items()}
        return {self.current[n].number: (now[n], rev) for n, rev in wanted.items() if now[n] < rev}


def specs_of(index, n, go):
    """The n watches of recorder `index`: one on everything, some on groups, the most on a key or a few."""
    options = [{}, {"prev_kv": "true"}, {"no_put": "true"}, {"no_delete": "true"}, {"progress_notify": "true"},
               {"prev_kv": "true", "progress_notify": "true"}, {"prev_kv": "true", "no_delete": "true"}]
    whole = {"prev_kv": "true"} if index % 2 == 0 else {"progress_notify": "true"}
    specs = [TierSpec(0, "prefix" if index % 3 else "from", b"", **whole)]
    for i in range(1, n):
        group, key = (index + i) % GROUPS, (index * 7 + i) % KEYS
        chosen = options[i % len(options)]
        if i < 5:
            specs.append(TierSpec(i, "prefix", b"/w/g%d/" % group, **chosen))
        elif i == 5:
            specs.append(TierSpec(i, "interval", b"/w/g%d/k05" % group, b"/w/g%d/k" % (group + 1), **chosen))
        elif i == 6:
            specs.append(TierSpec(i, "prefix", b"/w/g%d/" % group, follow=not go))
        elif i % 10 == 7:
            specs.append(TierSpec(i, "prefix", b"/w/g%d/k%02d" % (group, key // 10), **chosen))
        else:
            specs.append(TierSpec(i, "key", b"/w/g%d/k%03d" % (group, key), **chosen))
    return specs


class Fleet:
    def __init__(self, tier, folder, n_c, n_go, per):
        self.all = []
        for i in range(n_c + n_go):
            go = i >= n_c
            self.all.append(Watchers(tier.endpoint if go else tier.url, folder / f"record{i}", specs_of(i, per, go),
                                     tier.ns, go))
        for w in self.all:
            follows = sum(s.follow for s in w.specs)  # what they need first is a list
            w.recorder.wait_connected(per - follows, timeout=60)

    def awake(self):
        return [w for w in self.all if not w.stalled]

    def reopen_ended(self, compacted):
        return sum(w.reopen_ended(compacted) for w in self.awake())

    def ask_progress(self):
        for w in self.awake():
            w.recorder.command("progress")

    def wait(self, wanted, compacted, timeout=CATCH_UP_S):
        """wanted(watchers) -> {first number: revision}. Returns how many were opened again meanwhile."""
        n, limit = 0, time.monotonic() + timeout
        for w in self.awake():
            goal = wanted(w)
            while True:
                n += w.reopen_ended(compacted)
                behind = w.behind(goal)
                if not behind:
                    break
                assert time.monotonic() < limit, f"{w.recorder.record}: behind after {timeout} s: {behind}"
                time.sleep(0.2)
        return n

    def quit(self):
        for w in self.all:
            w.recorder.quit()

    def check(self, truth, compactions):
        """The verdicts of all records, on two processes: (file, Verdict, number compacted)."""
        global _shared
        _shared = [(w.recorder.record, w.specs) for w in self.all], truth, compactions
        with multiprocessing.get_context("fork").Pool(2) as pool:
            verdicts = pool.map(_check_one, range(len(self.all)), chunksize=1)
        _shared = None
        return [(w.recorder.record, *v) for w, v in zip(self.all, verdicts)]


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


class TierFaults:
    """Each fault does its harm, lets it last, and mends it again."""

    def __init__(self, cluster, tier, fleet, truth, rng, long_stop_s, stall_s):
        self.cluster, self.tier, self.fleet, self.truth, self.rng = cluster, tier, fleet, truth, rng
        self.long_stop_s, self.stall_s = long_stop_s, stall_s
        self.net = cluster.net
        self.tally = Tally(tier)
        self.counts, self.paths = Counter(), Counter()
        self.compactions = {0}
        self.n_reopened = self.max_parked = 0

    @property
    def compacted(self):
        return max(self.compactions)

    def do(self, kind):
        self.fleet.ask_progress()  # its answer comes from wherever the fault has driven belfryd
        getattr(self, kind)()
        self.counts[kind] += 1

    def catch_up(self):
        """What is written now arrives, at everybody. Returns how long that took."""
        begin = time.monotonic()
        rev = self.cluster.put("/w/mark", str(begin))
        self.wait(lambda w: {0: rev})
        self.tally.read()
        return time.monotonic() - begin

    def wait(self, wanted, timeout=CATCH_UP_S):
        """As the fleet's; when somebody is late, what belfryd says about it is kept beside its log."""
        try:
            self.n_reopened += self.fleet.wait(wanted, self.compacted, timeout)
        except AssertionError:
            for path in ("numbers", "watchers"):
                with open(f"{self.tier.folder}/{path}.json", "w") as f:
                    f.write(self.tier.get(f"/debug/{path}")[1])
            raise

    # ---- members of etcd ----

    def in_use(self):
        def member():
            endpoint = self.tier.numbers()["upstream"]["endpoint"]
            return next((m for m in self.cluster.members if m.url == endpoint), None)
        return procs.wait_until(member, 60, 0.1, "belfryd follows a member")

    def member_kill(self):
        m = self.in_use()
        m.kill()
        time.sleep(self.rng.uniform(0.2, 2))
        m.restart()

    def leader_kill(self):
        m = procs.wait_until(self.cluster.leader, 30, 0.2, "a leader")
        m.kill()
        time.sleep(self.rng.uniform(1, 3))
        m.restart()

    def member_stop(self):
        m = self.in_use()
        m.stop()
        time.sleep(self.rng.uniform(2, 8))
        m.cont()

    def _left(self, m, how):
        now = self.in_use()
        assert now is not m, f"belfryd still holds on to {m.name}, {how} for {self.long_stop_s} s"

    def member_stop_long(self):
        m = self.in_use()
        m.stop()
        time.sleep(self.long_stop_s)
        try:
            self._left(m, "stopped")
        finally:
            m.cont()

    def partition(self):
        """The member in use loses the others and keeps belfryd, which must not sit there in silence."""
        m = self.in_use()
        self.net.cut(m.index, "p")
        time.sleep(self.rng.uniform(5, 9))
        self.net.heal(m.index, "p")

    def black_hole(self):
        """Packets between belfryd and the member in use vanish; nothing is reset."""
        m = self.in_use()
        self.net.cut(m.index, "c")
        time.sleep(self.long_stop_s)
        try:
            self._left(m, "unreachable")
        finally:
            self.net.heal(m.index, "c")

    # ---- belfryd ----

    def _end_tier(self):
        self.tally.read()
        self.tier.kill()
        self.tally.begin_anew()

    def tier_kill(self):
        self._end_tier()
        time.sleep(self.rng.uniform(0, 2))
        self.tier.start()

    def tier_stop(self):
        self.tier.pause()
        time.sleep(self.rng.uniform(2, 6))
        self.tier.cont()

    def tier_stop_long(self):
        """Longer than a client waits for an answer to its pings."""
        self.tier.pause()
        time.sleep(self.long_stop_s)
        self.tier.cont()

    # ---- compaction ----

    def _compact(self, back):
        """At head - back; the truth has read what goes."""
        procs.wait_until(lambda: self.cluster.revision() - back > self.compacted, 180, 1,
                         f"{back} revisions to compact")
        self.truth.extend(self.cluster, self.cluster.revision())
        rev = self.truth.last_rev() - back
        self.compactions.add(rev)
        self.cluster.ctl_retry("compaction", str(rev), tries=3)

    def compact_near(self):
        """belfryd has what etcd throws away: nobody notices."""
        self._compact(10)
        time.sleep(1)
        n = self.fleet.reopen_ended(self.compacted)
        assert n == 0, f"{n} watches were told of a compaction that did not concern them"

    def compact_far(self):
        self._compact(20_000)
        time.sleep(1)
        n = self.fleet.reopen_ended(self.compacted)
        assert n == 0, f"{n} watches were told of a compaction that did not concern them"

    def tier_killed_over_compaction(self):
        """When belfryd comes back, what happened meanwhile is gone: who needs that must be told."""
        self._end_tier()
        time.sleep(self.rng.uniform(2, 4))
        self._compact(10)
        self.tier.start()

    # ---- clients ----

    def _stall(self, meanwhile):
        """Two clients, one of each kind, hang."""
        chosen = [self.rng.choice([w for w in self.fleet.all if w.go == go]) for go in (False, True)]
        for w in chosen:
            w.recorder.stop()
            w.stalled = True
        until = time.monotonic() + self.stall_s
        meanwhile()
        while time.monotonic() < until:
            parked = sum(worker["core"]["parked"] for worker in self.tier.numbers()["workers"])
            self.max_parked = max(self.max_parked, parked)
            time.sleep(1)
        for w in chosen:
            w.recorder.cont()
            w.stalled = False

    def client_stall(self):
        self._stall(lambda: None)

    def client_stall_over_compaction(self):
        def compact():
            time.sleep(self.stall_s * 0.8)
            self._compact(10)
        self._stall(compact)

    # ---- newcomers: each way to catch up, by itself ----

    def newcomers(self, number_of_faults):
        """A watch that starts in the log, one in the history on disk, one below that; what each must have cost."""
        self.catch_up()
        n = self.tier.numbers()
        log, oldest, compacted = n["log"], n["replica"]["history_oldest"], self.compacted
        places = {"log": max(log["oldest"], log["newest"] - 20)}
        if 0 < oldest < log["oldest"] - 1:
            places["history"] = oldest + (log["oldest"] - oldest) // 2
        if oldest > max(compacted, 1) + 10:
            places["upstream"] = max(compacted, 1)
        for i, (path, rev) in enumerate(places.items()):
            w = self.fleet.all[(number_of_faults + i) % len(self.fleet.all)]
            spec = TierSpec(w.next_number(), "prefix", b"/w/g%d/k0" % (number_of_faults % GROUPS), first=rev,
                            rev=str(rev), prev_kv="true")
            self.tally.read()
            w.add(spec)
            w.current[spec.number] = spec
            mark = self.cluster.put(f"/w/g{number_of_faults % GROUPS}/k000", "newcomer")
            self.wait(lambda x: {spec.number: mark} if x is w else {})
            cost = self.tally.read()
            self.paths[path] += {"log": cost["handovers"] > 0 and cost["fetches"] == 0,
                                 "history": cost["history_reads"] > 0 and cost["backfill_revisions"] == 0,
                                 "upstream": cost["backfill_revisions"] > 0}[path]
