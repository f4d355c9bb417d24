"""Faults of etcd, of one belfryd and of its clients."""
import time
from collections import Counter

import procs
from client import CLIENTV3, LIBBELFRY
from fleet import CATCH_UP_S, GROUPS, Tally, TierSpec


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
        chosen = [self.rng.choice([w for w in self.fleet.all if w.client == c]) for c in (LIBBELFRY, CLIENTV3)]
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
