"""Reads through one, two and three tiers are linearizable, whatever happens to tiers and members; serializable ones do not
go back on one connection. A restored backup begins a new history, of which no answer of the old one is a part."""
import time
from collections import Counter

import procs
import pytest
from etcd import Cluster
from registers import KEYS, Clients, judge
from stack import Stack

N_READERS = (5, 5, 6)  # through one, two and three tiers


# ---- that the judge finds faults

GOOD = """put 1 11 5 100 200
get 1 11 5 5 210 220
put 1 12 6 230 240
delete 1 1 7 250 260
get 1 0 0 7 270 280
delete 1 0 7 290 300
put 2 13 8 310 320
serializable 0 1 7 100 110
serializable 0 1 7 120 130
serializable 0 2 5 140 150
"""


@pytest.mark.parametrize("more, name", [
    ("", None),
    ("get 2 13 8 8 330 340\n", None),
    ("get 2 13 8 8 315 316\n", None),
    ("put 2 14 0 330 -\nget 2 13 8 8 340 350\nget 2 14 9 9 360 370\n", None),
    ("get 1 11 5 8 330 340\n", "linearizable"),                    # stale
    ("get 1 13 8 8 330 340\n", "linearizable"),                    # a value of another key
    ("get 2 0 0 8 330 340\n", "linearizable"),                     # a lost write
    ("get 2 13 8 7 300 305\n", "linearizable"),                    # of the future
    ("get 2 13 9 9 330 340\n", "linearizable"),                    # another mod revision
    ("put 2 14 0 330 -\nget 2 14 9 9 340 350\nget 2 13 8 9 360 370\n", "linearizable"),  # there and back
    ("delete 1 1 9 330 340\n", "linearizable"),                    # deleted twice
    ("put 3 14 9 330 400\nput 3 15 10 330 400\nget 3 15 10 10 340 350\nget 3 14 9 10 360 370\n", "linearizable"),  # two orders
    ("get 1 0 0 7 330 340\n", "recent"),                           # right for the key, old for the store
    ("put 3 14 8 330 340\n", "recent"),                            # a revision that was told before it was called
    ("serializable 0 2 4 160 170\n", "forward"),
])
def test_judge_finds_one_planted_fault(tmp_path, more, name):
    (tmp_path / "record").write_text(GOOD + more)
    verdict = judge(tmp_path / "record")
    assert verdict.names == ({name} if name else set()), str(verdict)


@pytest.mark.parametrize("line", ["put 1 2 3 4", "get 1 2 3 4 5 -", "get 1 x 3 4 5 6", "put 1 2 0 5 6", "ask 1 2 3 4 5", "put"])
def test_judge_refuses_a_line_that_it_does_not_understand(tmp_path, line):
    (tmp_path / "record").write_text(GOOD + line + "\n")
    with pytest.raises(AssertionError, match="record:11: not understood"):
        judge(tmp_path / "record")


def test_serializable_reads_of_a_member_without_the_others_are_found_out(make_net, make_cluster, tmp_path, seed):
    """A real fault in a real recording: clients that read what a cut-off member still has, and call it linearizable."""
    net = make_net(3)
    cluster = make_cluster(3, net=net)
    leader = procs.wait_until(cluster.leader, 30, 0.2, "a leader")
    behind = next(m for m in cluster.members if m is not leader)
    clients = Clients(tmp_path / "record", {"writer": [leader.url] * 2, "liar": [behind.url] * 2}, seed, ns=cluster.ns)
    clients.wait_more("writes", 50)
    net.cut(behind.index, "p")
    clients.wait_more("writes", 50)
    clients.wait_more("reads", 50)
    clients.stop()
    verdict = judge(clients.record)
    assert {"linearizable", "recent"} <= verdict.names, str(verdict)


# ---- through tiers and faults

LOST = ("event=upstream_looking", "event=upstream_stale")


def state_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


class Faults:
    """Of members and of tiers. Each does its harm, lets it last, and mends it again. `landed` counts those whose harm was seen: a fault
    that met nobody shows nothing."""

    def __init__(self, cluster, tiers, rng):
        self.cluster, self.net, self.tiers, self.rng = cluster, cluster.net, tiers, rng
        self.counts, self.landed = Counter(), Counter()

    def do(self, kind):
        self.landed[kind] += bool(getattr(self, kind)())
        self.counts[kind] += 1

    def is_cut_off(self, member):
        """It does not answer a linearizable read, which the others must confirm."""
        done = self.cluster.ctl("get", "nothing", "--command-timeout", "1s", "--dial-timeout", "1s", member=member, check=False)
        return done.returncode != 0

    def has_noticed(self, what, since):
        """The first tier has logged that it lost its member."""
        return procs.wait_until(lambda: any(event in self.tiers[0].log()[since:] for event in LOST), 20, 0.05, what)

    def leader(self):
        return procs.wait_until(self.cluster.leader, 30, 0.1, "a leader")

    def in_use(self):
        """The member that the first tier follows."""
        def member():
            endpoint = self.tiers[0].numbers()["upstream"]["endpoint"]
            return next((m for m in self.cluster.members if m.url == endpoint), None)
        return procs.wait_until(member, 60, 0.05, "the first tier follows a member")

    def leader_moves(self):
        before = self.leader()
        self.cluster.move_leader_off(before)
        return self.leader() is not before

    def leader_kill(self):
        m = self.leader()
        m.kill()
        is_gone = not m.is_running()
        time.sleep(self.rng.uniform(0.5, 1.5))
        m.restart()
        return is_gone

    def member_kill(self):
        m, since = self.in_use(), len(self.tiers[0].log())
        m.kill()
        time.sleep(self.rng.uniform(0.2, 1))
        m.restart()
        return self.has_noticed("the tier has lost the member that was killed", since)

    def member_stop(self):
        m = self.in_use()
        m.stop()
        is_silent = self.is_cut_off(m)
        time.sleep(self.rng.uniform(0.5, 2))
        m.cont()
        return is_silent

    def partition(self):
        """The member in use is cut off from the others and keeps its clients: it must not answer from what it has."""
        m = self.in_use()
        self.net.cut(m.index, "p")
        is_alone = self.is_cut_off(m)
        time.sleep(self.rng.uniform(0.5, 2))
        self.net.heal(m.index, "p")
        return is_alone

    def leader_partition(self):
        m = self.leader()
        self.net.cut(m.index, "p")
        is_alone = self.is_cut_off(m)
        time.sleep(self.rng.uniform(1, 2))
        self.net.heal(m.index, "p")
        return is_alone

    def black_hole(self):
        m = self.in_use()
        self.net.cut(m.index, "c")
        is_silent = self.is_cut_off(m)
        time.sleep(self.rng.uniform(0, 1))
        self.net.heal(m.index, "c")
        return is_silent

    def lagging(self):
        """The only member that the first tier can reach is behind what the tier has, and does not know it."""
        used = self.in_use()
        self.cluster.move_leader_off(used)
        leader = self.leader()
        behind = next(m for m in self.cluster.members if m not in (used, leader))
        behind.stop()
        time.sleep(0.6)
        self.net.cut(behind.index, "p")
        self.net.refuse(leader.index)
        behind.cont()
        used.kill()
        has_landed = False
        try:
            limit = time.monotonic() + 2
            while time.monotonic() < limit:
                if (behind.client_host, behind.client_port) in procs.connections(self.tiers[0].pid):
                    has_landed = True
                    time.sleep(0.5)
                    break
                time.sleep(0.02)
        finally:
            self.net.heal(behind.index, "p")
            self.net.accept(leader.index)
        used.restart()
        return has_landed

    def tier_kill(self):
        tier = self.rng.choice(self.tiers)
        before = tier.pid
        tier.kill()
        time.sleep(self.rng.uniform(0, 0.5))
        tier.start(wait=False)
        return tier.pid != before

    def tier_stop(self):
        tier = self.rng.choice(self.tiers)
        tier.pause()
        procs.wait_until(lambda: state_of(tier.pid) == "T", 5, 0.02, "the tier is stopped")
        time.sleep(self.rng.uniform(0.5, 2))
        tier.cont()
        return True


KINDS = ["leader_moves", "leader_kill", "member_kill", "member_stop", "partition", "leader_partition", "black_hole", "lagging",
         "tier_kill", "tier_stop"]
SHORT = ["leader_moves", "member_kill", "partition", "lagging", "tier_kill", "tier_stop"]


def reads_of(tiers):
    """name{labels} -> reads, over all tiers; empty where a tier relays every read and does not count them."""
    found = Counter()
    for tier in tiers:
        found.update({name: n for name, n in tier.metrics().items() if name.startswith("belfry_reads_total")})
    return found


def from_replica(tier, consistency="linearizable"):
    return tier.metrics().get(f'belfry_reads_total{{source="replica",consistency="{consistency}"}}', 0)


def start_clients(cluster, tiers, tmp_path, seed, rest_ms):
    """By level: one process on etcd itself, then one on each tier."""
    levels = [Clients(tmp_path / "level0", {"writer": [cluster.endpoints] * 2}, seed, cluster.ns, rest_ms)]
    for i, (tier, n) in enumerate(zip(tiers, N_READERS)):
        roles = {"writer": [tier.url] * 2, "reader": [tier.url] * n, "stale": [tier.url]}
        levels.append(Clients(tmp_path / f"level{i + 1}", roles, seed, cluster.ns, rest_ms))
    return levels


def test_reads_through_tiers_are_linearizable_through_faults(make_net, make_cluster, make_tier, tmp_path, figure, rng, seed, soak):
    cluster = make_cluster(3, net=make_net(3))

    def make(upstream, *flags, **kw):
        return make_tier(upstream, *flags, ns=cluster.ns, **kw)
    tiers = Stack(make, cluster, 3).tiers
    levels = start_clients(cluster, tiers, tmp_path, seed, 1 if soak else 5)
    faults = Faults(cluster, tiers, rng)
    kinds = list(KINDS if soak else SHORT)
    n_faults = 0
    while n_faults < len(kinds) or soak and sum(level.counts()["reads"] for level in levels) < 200_000:
        if n_faults % len(kinds) == 0:
            rng.shuffle(kinds)
        kind = kinds[n_faults % len(kinds)]
        n_faults += 1
        print(f"fault: {kind}, {[level.counts() for level in levels]}", flush=True)
        for _ in range(4):  # a tier may have connected to another member than the one that lags
            faults.do(kind)
            for level in levels:  # everyone goes on, before the next fault
                level.wait_more("writes", 3)
            for level, tier in zip(levels[1:], tiers):
                before = from_replica(tier)
                level.wait_more("reads", 200 if soak else 20)
                level.wait_more("serializable", 1)
                procs.wait_until(lambda: from_replica(tier) > before, 60, 0.1, f"answers of the replica after {kind}")
            if faults.landed[kind]:
                break
        assert faults.landed[kind], f"{kind}: in 4 tries it met nobody"
    counts = Counter()
    for level in levels:
        counts.update(level.stop())
    reads = reads_of(tiers)
    begin = time.monotonic()
    verdict = judge(*(level.record for level in levels))
    for kind, n in sorted(faults.counts.items()):
        figure(f"linearizable.{kind}", n)
    for name, n in sorted(counts.items()):
        figure(f"linearizable.calls_{name}", n)
    for name, n in sorted(reads.items()):
        figure(f"linearizable.{name}", n)
    for kind, n in sorted(faults.landed.items()):
        figure(f"linearizable.landed_{kind}", n)
    figure("linearizable.judged_in", time.monotonic() - begin, "s")
    figure("linearizable.violations", len(verdict.names))
    figure("linearizable.serializable_went_back", sum(line.startswith("forward:") for line in verdict.lines))
    assert not verdict.names, str(verdict)
    assert verdict.counts["reads"] == counts["reads"] and verdict.counts["keys"] == KEYS
    assert counts["reads"] >= (200_000 if soak else 1_000)
    assert set(faults.landed) == set(kinds) and all(faults.landed.values())
    share = Counter()  # since the last start of each tier
    for name, n in reads.items():
        if 'consistency="linearizable"' in name:
            share['source="replica"' in name] += n
    figure("linearizable.share_of_the_replica", share[True] / (share[True] + share[False]))
    assert share[True] > share[False], f"most reads were relayed, which compares etcd with itself: {reads}"
    assert counts["txns"] > counts["reads"] / 5 and counts["torn"] == 0


# ---- a restored backup

def lines_of(levels):
    """[verb, numbers ..., call, end or None] of each call on a register"""
    for level in levels:
        with open(level.record) as f:
            for line in f:
                verb, *words, call, end = line.split()
                if verb != "serializable":
                    yield [verb, *map(int, words), int(call), None if end == "-" else int(end)]


def opened(line):
    """The same write, without its answer."""
    return line[:2] + [line[2] if line[0] == "put" else 0, 0, line[-2], None]


def text(lines):
    return "".join(" ".join("-" if word is None else str(word) for word in line) + "\n" for line in lines)


def split(lines, killed_ns, began_ns, backup):
    """The histories before and after. `backup`: key -> (value, mod revision). What ended before the members were killed is of
    the old one; what was called after the new ones began is of the new one. A write between may be of either, and a read
    between is left out."""
    old = []
    new = [["put", key, value, mod, began_ns - 2, began_ns - 1] for key, (value, mod) in backup.items()]
    kept = {value for value, _ in backup.values()}
    for line in lines:
        verb, call, end = line[0], line[-2], line[-1]
        if end is not None and end < killed_ns:
            old.append(line)
        elif call > began_ns:
            new.append(line)
        elif verb != "get":
            old.append(opened(line))
            if verb == "delete" or line[2] not in kept:
                new.append(opened(line))
    return old, new


def content(folder, snapshot):
    """What the snapshot has of the registers, as a cluster that nobody else sees."""
    folder.mkdir()
    scratch = Cluster(folder, 1, token="scratch")
    restore(scratch, snapshot)
    try:
        scratch.start()
        out = scratch.state("/register/")
    finally:
        scratch.close()
    return {int(key.rsplit(b"/")[-1]): (int(value), mod) for key, (value, mod) in out.items()}


def restore(cluster, snapshot):
    """The same names, token and addresses: so the same cluster and member ids."""
    for m in cluster.members:
        procs.run(["etcdutl", "snapshot", "restore", str(snapshot), "--data-dir", m.data_dir, "--name", m.name,
                   "--initial-cluster", cluster.initial_cluster, "--initial-cluster-token", cluster.token,
                   "--initial-advertise-peer-urls", m.peer_url])


def test_split_finds_an_answer_of_the_old_past_in_the_new_one(tmp_path):
    """The test below, with a history by hand: a backup with revision 5, killed at 1000, begun at 2000."""
    lines = [["put", 1, 11, 5, 100, 200], ["put", 1, 12, 6, 300, 400], ["put", 2, 13, 0, 900, None],
             ["get", 1, 12, 6, 6, 990, 1500],
             ["get", 1, 11, 5, 5, 2100, 2200], ["put", 1, 14, 6, 2300, 2400], ["get", 2, 13, 7, 7, 2500, 2600]]
    for more, names in (([], set()),
                        (["get", 1, 12, 6, 6, 2410, 2420], {"linearizable"}),
                        (["get", 3, 0, 0, 6, 2050, 2060], {"recent"})):
        old, new = split(lines + ([more] if more else []), 1000, 2000, {1: (11, 5)})
        (tmp_path / "old").write_text(text(old))
        (tmp_path / "new").write_text(text(new))
        assert not judge(tmp_path / "old").names
        verdict = judge(tmp_path / "new")
        assert verdict.names == names, str(verdict)


def test_restored_backup_begins_a_new_history(make_cluster, make_tier, tmp_path, figure, seed, soak):
    """etcd itself loses acknowledged writes there. What must hold: whatever is asked after the new members began is answered
    from the new past, or not at all."""
    cluster = make_cluster(3)
    tiers = Stack(make_tier, cluster, 3).tiers
    levels = start_clients(cluster, tiers, tmp_path, seed, 5)
    for round_ in range(5 if soak else 1):
        if round_ > 0:  # a history begins with keys that are absent
            cluster.delete("/register/", "--prefix")
            levels = start_clients(cluster, tiers, tmp_path, seed, 5)
        for level in levels:
            level.wait_more("writes", 20)
        snapshot = tmp_path / f"snapshot{round_}.db"
        cluster.ctl("snapshot", "save", str(snapshot), member=cluster.members[0])
        for level in levels:
            level.wait_more("writes", 20)
        backup = content(tmp_path / f"scratch{round_}", snapshot)
        killed_ns = time.monotonic_ns()
        cluster.forget()
        restore(cluster, snapshot)
        began_ns = time.monotonic_ns()
        cluster.start()
        for level in levels:
            level.wait_more("writes", 20)
        for level in levels[1:]:
            level.wait_more("reads", 50)
        for level in levels:
            level.stop()
        old, new = split(lines_of(levels), killed_ns, began_ns, backup)
        for name, lines in (("old", old), ("new", new)):
            (tmp_path / name).write_text(text(lines))
            verdict = judge(tmp_path / name)
            figure(f"restored.{name}_reads", verdict.counts["reads"])
            assert not verdict.names, f"the {name} history: {verdict}"
            assert verdict.counts["reads"] > 50
