"""The machine: a tree of tiers with watchers on every level, writers, and one fault after the other; then the judgement."""
import contextlib
import json
import random
import time
from collections import Counter
from pathlib import Path

import evidence
import growth
import procs
from client import CANNOT_ASK, CLIENTV3, ETCD3, GATEWAY, LIBBELFRY, SSE, Writer, write
from fleet import GROUPS, Fleet, Tally, TierSpec, Truth, check_records, write_the_last
from patience import Patience
from sampler import Sampler
from tree import Tree

N_WRITERS = 2
CATCH_UP_S = 60  # much more than it takes: this is for machines that have more to do
FOLLOWED = 400   # writes a second that python3-etcd3 can follow with its 70 watches
PIECES_S = 300   # etcd looks at every event once for each before it while it cuts a revision into pieces
NOT_HELD = Exception  # a fault in here is told, too, and not the end of the judgement
ENDS_S = 300
# What a tier can do, by its own counters (fleet.Tally): a full run must have made each do all of it, and none of NEVER.
PATHS = ["connects", "losses", "gaps", "stale", "replays", "listings", "relists_compacted", "relists_rewritten",
         "backfills_done", "backfill_revisions", "history_reads", "fetches", "handovers", "rows_swept", "parks", "unparks",
         "compacted", "io_errors"]
NEVER = ["breaches"]


class Machine:
    def __init__(self, folder, seed, levels, watchers, soak, last_s=0, rate=None, say=print):
        """last_s: the faults are spread over so many seconds, and a tier is there that nothing is done to; 0: one comes after
        the other. rate: writes a second."""
        self.folder, self.seed, self.levels, self.soak, self.say = Path(folder), seed, levels, soak, say
        self.n_watchers, self.last_s = watchers, last_s
        self.rate = (rate or (300 if soak else 200)) // N_WRITERS
        self.rng = random.Random(seed + 1)  # for what is decided on the way; the schedule has its own
        self.history_bytes = (4 if soak else 2) << 20
        self.far = 20_000 if soak else 1_000
        self.n_deleted = 100_000 if soak else 2_000
        self.counts, self.paths = Counter(), Counter()
        self.rows, self.trouble = [], []   # of the report: faults, and what did not hold: (seconds, text)
        self.jobs = []                     # for the checker: of fleets that are gone
        self.truth, self.compactions = Truth(), {0}
        self.writers, self.written = [], Counter()
        self.n_fleets = self.n_reopened = 0
        self.began = time.monotonic()
        # Windows so small that watchers fall out of them, and so everything that is there for that case is used.
        flags = ["--log-bytes", "1MiB", "--history-bytes", f"{self.history_bytes}", "--progress-interval", "1s", "--drain", "1s"]
        self.tree = Tree(self.folder, max(levels), flags, steady=last_s > 0)
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self):
        self.cluster, self.star = self.tree.cluster, self.tree.star
        self.tallies = {t.name: Tally(t) for t in self.tree.tiers}
        if self.last_s:
            self.delete_many()  # what the largest needs is then there from the beginning
        self.open_fleet(self.cluster.revision() + 1)
        self.sampler = Sampler(self.tree, self.began, 1 if self.soak else 0.5)
        self.start_writers()

    def seconds(self):
        return time.monotonic() - self.began

    @property
    def compacted(self):
        return max(self.compactions)

    # ---- watchers ----

    def open_fleet(self, first):
        kinds = [LIBBELFRY, CLIENTV3, ETCD3, GATEWAY, SSE] + ([LIBBELFRY] if self.soak else [])
        places = [(self.tree.tiers[level - 1], kind) for kind in kinds for level in self.levels]
        if self.tree.steady:
            places += [(self.tree.steady, LIBBELFRY), (self.tree.steady, CLIENTV3)]
        folder = self.folder / f"histories{self.n_fleets}"
        folder.mkdir()
        self.n_fleets += 1
        self.fleet = Fleet(folder, places, max(8, self.n_watchers // len(places)), self.star.ns("c"), first)
        self.counts["watchers"] = sum(len(w.current) for w in self.fleet.all)

    def retire_fleet(self, rewound=False):
        self.fleet.quit()
        self.jobs += self.fleet.jobs(self.truth, frozenset(self.compactions), rewound)

    def catch_up(self):
        """What is written now arrives, at everybody: each watch shows that it is there, by an event or by progress. Returns
        how long that took at each level."""
        begin, patience = time.monotonic(), Patience(CATCH_UP_S)
        rev = self.cluster.put("/w/mark", str(begin))
        took, waiting = {}, list(self.fleet.awake())
        while waiting:
            late = [w for w in waiting if not self.is_at(w, rev)]
            for level in {w.tier.name for w in waiting} - {w.tier.name for w in late}:
                took[level] = time.monotonic() - begin
            waiting = late
            if patience.is_over():
                raise AssertionError("; ".join(self.lateness(w, rev) for w in late))
            time.sleep(0.05 if waiting else 0)
        for tally in self.tallies.values():
            tally.read()
        return took

    def is_at(self, w, rev):
        self.n_reopened += w.reopen_ended(self.compacted)
        if w.behind({0: rev}):
            return False
        if w.client in CANNOT_ASK:
            return True
        each = {n: rev for n, spec in w.current.items() if not spec.follow}
        if not w.behind(each, "place"):
            return True
        w.recorder.command("progress", timeout=60)
        return False

    def lateness(self, w, rev):
        late = w.behind({n: rev for n, spec in w.current.items() if not spec.follow}, "place")
        return f"{w.recorder.record} ({w.client} on {w.tier.name}): after {CATCH_UP_S} s {len(late)} watches are behind: " + \
            str(dict(list(late.items())[:3]))

    def newcomer(self, i):
        """A watch that begins in the past: in the log, in the history on disk, or below that, on a level of its turn."""
        can_ask = [w for w in self.fleet.all if w.client not in CANNOT_ASK]  # for progress, by which is seen that it has caught up
        w = can_ask[i % len(can_ask)]
        numbers = w.tier.numbers()
        oldest, log = numbers["replica"]["history_oldest"], numbers["log"]["oldest"]
        places = {"log": max(log, numbers["log"]["newest"] - 20)}
        if 0 < oldest < log - 1:
            places["history"] = oldest + (log - oldest) // 2
        if oldest > max(self.compacted, 1) + 10:
            # Not from far below: etcd gives 1,000 revisions at a time, and looks through all that follow for each of them.
            places["upstream"] = max(self.compacted, 1, oldest - 3000)
        path = list(places)[i // len(can_ask) % len(places)] if self.soak else list(places)[-1]
        spec = TierSpec(w.next_number(), "prefix", b"/w/g%d/k0" % (i % GROUPS), first=places[path], rev=str(places[path]),
                        prev_kv="true")
        w.add(spec)
        w.current[spec.number] = spec
        self.paths[f"{w.tier.name} from {path}"] += 1

    # ---- what faults are made of ----

    def end_tier(self, tier, how):
        self.tallies[tier.name].read()
        getattr(tier, how)()
        self.tallies[tier.name].begin_anew()

    def compact(self, back):
        """At head - back, or half way there; the truth has read what goes."""
        self.truth.extend(self.cluster, self.cluster.revision())
        head = self.truth.last_rev()
        rev = head - back if head - back > self.compacted else (head + self.compacted) // 2
        self.compactions.add(rev)
        self.cluster.ctl_retry("compaction", str(rev), tries=3)

    def write(self, *args):
        return write(self.cluster.endpoints, *args, f"seed={self.rng.randrange(1 << 30)}", ns=self.cluster.ns)

    def burst(self, rev, tiers):
        """So much in large values that `rev` is driven out of the windows of these tiers."""
        def oldest():
            return min((t.numbers()["replica"]["history_oldest"] for t in tiers), default=rev + 1)
        for _ in range(20):
            self.write("mode=put", "prefix=/burst/", "count=60", "size=50000", "inflight=8")
            if oldest() > rev:
                return
        raise AssertionError(f"the windows of the tiers still begin at {oldest()}, before {rev}")

    def grow(self):
        """Keys that were not there before."""
        self.counts["grown"] += 1
        self.write("mode=put", f"prefix=/grow/{self.counts['grown']}/", "count=60", "size=50000", "inflight=8")

    def large_transactions(self):
        for i in range(4):
            puts = "".join(f"put /w/g{(i + k) % GROUPS}/k{k % 60:03} {'x' * 8000}{i}\n" for k in range(100))
            self.cluster.ctl_retry("txn", input=f"\n{puts}\n\n".encode(), timeout=60)

    def delete_many(self):
        self.write("mode=fill", "prefix=/many/", f"count={self.n_deleted}", "size=20", "inflight=4")
        self.cluster.ctl_retry("del", "--prefix", "/many/", timeout=120)
        rev, patience = self.cluster.revision(), Patience(PIECES_S)
        while any(t.numbers()["upstream"]["revision"] < rev for t in self.tree.all):
            assert not patience.is_over(), f"a delete of {self.n_deleted} keys has not come through"
            time.sleep(0.2)

    def shrink(self):
        """What grow() brought goes: the disk is as full as before."""
        self.cluster.ctl_retry("del", "--prefix", "/grow/", timeout=120)

    def start_writers(self, rate=None, n=N_WRITERS):
        rate = rate or self.rate
        self.writers += [Writer(self.cluster.endpoints, "mode=mix", f"seed={self.rng.randrange(1 << 30)}", f"rate={rate}",
                                f"size={1500 if self.soak else 1200}", ns=self.cluster.ns) for _ in range(n)]

    def stop_writers(self):
        for w in self.writers:
            self.written.update({k: v for k, v in w.stop().items() if k in ("writes", "failed")})
        self.writers = []

    def restore(self):
        """A backup, more writes that all are given, and the backup restored: another past behind the same names. Every watch
        must be told so, after all of the first past and before anything of the second."""
        snapshot = self.folder / "snapshot.db"
        self.cluster.ctl("snapshot", "save", str(snapshot), member=self.cluster.members[0])
        time.sleep(0.5)
        self.come_to_rest()
        for w in self.fleet.all:
            for origin, spec in w.current.items():
                if spec.follow:  # it lists anew and goes on, in the other past
                    w.recorder.command(f"close {spec.number}")
        head = self.restore_members(snapshot)
        self.wait_all_told()
        self.retire_fleet(rewound=True)
        self.truth = self.truth.until(head)
        assert self.truth.last_rev() == head, f"the backup is of {head}, history has {self.truth.last_rev()}"
        self.compactions = {c for c in self.compactions if c <= head}
        self.open_fleet(head + 1)
        self.fleet.created_by(self.cluster.revision())  # leases run out meanwhile
        self.start_writers()

    def come_to_rest(self):
        """Nobody writes, and everybody has everything."""
        self.stop_writers()
        last = write_the_last(self.cluster)
        self.truth.extend(self.cluster, last)
        assert self.truth.last_rev() == last, "not at rest"
        self.n_reopened += self.fleet.wait(lambda w: w.ends(self.truth), self.compacted, ENDS_S)

    def restore_members(self, snapshot):
        """Returns the revision that the backup has: the members go on from there at once, by leases that run out."""
        cluster = self.cluster
        head = json.loads(procs.run(["etcdutl", "snapshot", "status", str(snapshot), "-w", "json"]).stdout)["revision"]
        was = cluster.members[0].status()["header"]["cluster_id"]
        cluster.forget()
        for m in cluster.members:
            procs.run(["etcdutl", "snapshot", "restore", str(snapshot), "--data-dir", m.data_dir, "--name", m.name,
                       "--initial-cluster", cluster.initial_cluster, "--initial-cluster-token", cluster.token,
                       "--initial-advertise-peer-urls", m.peer_url])
        snapshot.unlink()
        cluster.start()
        assert cluster.members[0].status()["header"]["cluster_id"] == was, "another cluster: this tests something else"
        return head

    def wait_all_told(self):
        patience = Patience(CATCH_UP_S)
        for w in self.fleet.all:
            while True:
                status = w.recorder.status()
                open_ones = [s.number for s in w.current.values() if not s.follow and status[s.number]["state"] != "ended"]
                if not open_ones:
                    break
                assert not patience.is_over(), (f"{w.recorder.record} ({w.client} on {w.tier.name}): {len(open_ones)} "
                                                  f"watches were not told that their past is gone: {status[open_ones[0]]}")
                time.sleep(0.1)

    # ---- a run ----

    def do(self, i, n, step):
        h = step.harm
        time.sleep(max(step.pause_s, self.last_s * i / n - self.seconds()))
        row = {"n": i, "fault": h.name, "target": step.target, "begin_s": self.seconds()}
        self.rows.append(row)
        self.fleet.ask_progress()  # its answer comes from wherever the fault has driven the tiers
        begun = None
        try:
            begun = h.begin(self, step.target)
            time.sleep(step.last_s)
        except NOT_HELD:
            with contextlib.suppress(Exception):  # half begun: mended as far as can be, so that the rest can be judged
                h.end(self, step.target, begun)
            self.fleet.thaw()
            raise
        h.end(self, step.target, begun)
        row["end_s"] = self.seconds()
        row["caught_up_s"] = self.catch_up()
        if h.holds:
            h.holds(self, step.target, begun)
        self.newcomer(i)
        row["rev"] = self.truth.last_rev()

    def run(self, plan):
        """When something does not hold after a fault it goes on if everybody is well within as long again; what came before
        is judged in any case."""
        for i, step in enumerate(plan):
            try:
                self.do(i, len(plan), step)
            except NOT_HELD as e:
                self.trouble.append((self.seconds(), f"fault {i}, {step.harm.name} {step.target}: {e}"))
                self.keep_evidence()
                self.say(f"NOT HELD: {self.trouble[-1][1]}")
                if not self.is_well():
                    return False
                continue
            row = self.rows[-1]
            caught = " ".join(f"{k} {v:.1f}" for k, v in sorted(row["caught_up_s"].items()))
            self.say(f"{row['begin_s']:7.1f} s  {i + 1}: {step.harm.name} {step.target}, {row['end_s'] - row['begin_s']:.1f} s; "
                     f"caught up in {caught}")
        return True

    def is_well(self):
        try:
            self.catch_up()
        except NOT_HELD as e:
            self.say(f"NOT WELL: {e}")
            return False
        return True

    def keep_evidence(self):
        """What each tier says of itself and its watchers, beside its log."""
        for tier in self.tree.all:
            for path in ("numbers", "watchers"):
                (self.folder / tier.name / f"{path}.json").write_text(tier.get(f"/debug/{path}", timeout=5)[1])

    def finish(self, revisions):
        """Writes on to so many revisions, lets all come to rest, judges, and counts. Returns the verdicts."""
        try:
            if self.cluster.revision() < revisions:
                self.stop_writers()
                self.start_writers(rate=FOLLOWED, n=1)
                procs.wait_until(lambda: self.cluster.revision() >= revisions, 3600, 0.5, f"{revisions} revisions")
            self.stop_writers()
            self.catch_up()
            self.come_to_rest()
        except NOT_HELD as e:
            self.trouble.append((self.seconds(), f"at the end: {e}"))
            self.keep_evidence()
            self.stop_writers()
            self.fleet.quit()
            self.truth.extend(self.cluster, self.cluster.revision())
        for name, tally in self.tallies.items():
            if self.tree.tier(name).is_running():
                tally.read()
        self.sampler.stop()
        self.retire_fleet()
        for tier in self.tree.all:
            if tier.crash():
                self.trouble.append((self.seconds(), f"{tier.name}: {tier.crash()}"))
        for name, tally in self.tallies.items():
            self.trouble += [(self.seconds(), f"{name} counts {tally.sums[c]} {c}") for c in NEVER if tally.sums[c]]
        if self.tree.steady:
            grew = growth.judge(self.sampler.sizes["s"], self.seconds())
            self.trouble += [(self.seconds(), f"s: its {name} is not flat: {v}") for name, v in grew.items() if not v["flat"]]
        evidence.keep(self.jobs, self.folder)
        return check_records(self.jobs)

    def unused(self):
        """Paths that no tier, or not every tier, was driven through: (tier, path)."""
        return [(name, path) for name, tally in self.tallies.items() for path in PATHS if tally.sums[path] == 0]

    def close(self):
        self.tree.close()
