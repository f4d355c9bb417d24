"""The faults: what each does, how it is mended, how long it may last, and what must hold afterwards.

That every watcher is given what is written after it, within CATCH_UP_S, must hold after each of them (machine.py). A fault
gets the machine and its target: a tier ("t2"), a way between two nodes or levels ("t1-t2"), or "" where it finds its own.
begin() may return something, which end() and holds() are given."""
import time
from collections import namedtuple

import procs
from client import CANNOT_ASK, CLIENTV3, ETCD3, GATEWAY, LIBBELFRY, SSE

# targets: what may be drawn, "tier", "node", "above" (a way from a tier, or from the clients, to what is above them) or None;
# short_s and long_s: how long it lasts beside what begin() takes, (from, to), in a short run (None: never) and with --soak;
# share: how often it is drawn in about 200.
Harm = namedtuple("Harm", "name targets short_s long_s share begin end holds", defaults=(None,))


def nothing(machine, target, begun):
    pass


# ---- tiers

def tier_kill(machine, target):
    machine.end_tier(machine.tree.tier(target), "kill")


def tier_term(machine, target):
    machine.end_tier(machine.tree.tier(target), "stop")


def tier_start(machine, target, _):
    machine.tree.tier(target).start()


def warm(machine, target, _):
    """Nothing was compacted: it goes on where it was, and lists nothing."""
    listings = machine.tree.tier(target).numbers()["upstream"]["follower"]["listings"]
    assert listings == 0, f"{target} listed its upstream anew after a restart"


def tier_stop(machine, target):
    machine.tree.tier(target).pause()


def tier_cont(machine, target, _):
    machine.tree.tier(target).cont()


def disk_fill(machine, target):
    """Full, and more keys than before to be kept."""
    machine.tree.tier(target).fill_disk()
    machine.grow()


def disk_free(machine, target, _):
    machine.tree.tier(target).free_disk()
    machine.shrink()


def disk_well(machine, target, _):
    tier = machine.tree.tier(target)
    procs.wait_until(lambda: not tier.numbers()["upstream"]["disk_trouble"], 30, 0.2, f"{target} writes its disk again")


def tier_away(machine, target):
    """What happened while it was away is gone everywhere when it comes back: above it, by much that was written since,
    and from etcd, by a compaction."""
    tier = machine.tree.tier(target)
    place = tier.numbers()["upstream"]["revision"]
    machine.end_tier(tier, "kill")
    machine.burst(place, machine.tree.tiers[:machine.tree.tiers.index(tier)])
    machine.compact(10)


def listed_anew(machine, target, _):
    """Unless a tier above had read the same from its disk for somebody slow, and still has that: then it was given
    everything, as the judgement will show. Over a full run each must have listed anew for this (machine.PATHS)."""
    follower = machine.tree.tier(target).numbers()["upstream"]["follower"]
    assert follower["relists_compacted"] >= 1 or (follower["listings"] == 0 and follower["overlaps"] >= 1), \
        f"{target} neither found out that its place is compacted nor was given what it missed: {follower}"


def tier_behind(machine, target):
    """So much is written while it is away that it must replay in windows."""
    machine.end_tier(machine.tree.tier(target), "kill")
    machine.write("mode=put", "prefix=/behind/", "count=5000", "size=40", "inflight=64")


# ---- members

def member_kill(machine, _):
    m = machine.tree.member_in_use()
    m.kill()
    return m


def leader_kill(machine, _):
    m = procs.wait_until(machine.cluster.leader, 30, 0.2, "a leader")
    m.kill()
    return m


def member_start(machine, _, m):
    m.restart()


def member_stop(machine, _):
    m = machine.tree.member_in_use()
    m.stop()
    return m


def member_cont(machine, _, m):
    m.cont()


def member_cont_left(machine, _, m):
    """Stopped for so long, it must have been left by then."""
    now = machine.tree.member_in_use()
    m.cont()
    assert now is not m, f"t1 still holds on to {m.name}"


def members_kill(machine, _):
    for m in machine.cluster.members:
        m.kill()


def members_start(machine, _, begun):
    for m in machine.cluster.members:
        m.restart(wait=False)
    for m in machine.cluster.members:
        m.wait_healthy()


def member_alone(machine, _):
    """The member in use loses the others and keeps t1, which must not sit there in silence."""
    m = machine.tree.member_in_use()
    for other in machine.cluster.members:
        if other is not m:
            machine.star.drop_both(m.name, other.name)
    return m


def member_together(machine, _, m):
    for other in machine.cluster.members:
        if other is not m:
            machine.star.drop_both(m.name, other.name, 0)


def lagging(machine, _):
    """Failover to a member that is behind what t1 has, and stays so for a while: one follower is stopped while writes go on,
    then let go without a way to the other members, and is the only one that t1 can reach when the member in use dies."""
    members, star = machine.cluster.members, machine.star
    used = machine.tree.member_in_use()
    leader = procs.wait_until(machine.cluster.leader, 30, 0.2, "a leader")
    behind = next(m for m in members if m is not used and m is not leader)
    third = next(m for m in members if m is not used and m is not behind)
    behind.stop()
    time.sleep(1.5)
    for other in (used, third):
        star.drop_both(behind.name, other.name)
    star.refuse("t1", third.client_host)
    behind.cont()
    used.kill()
    limit = time.monotonic() + 4  # it forgets its leader after that, and sends its client away
    while time.monotonic() < limit:
        if (behind.client_host, behind.client_port) in procs.connections(machine.tree.tiers[0].pid):
            machine.counts["landed on a lagging member"] += 1
            break
        time.sleep(0.02)
    return used, behind, third


def lagging_end(machine, _, begun):
    used, behind, third = begun
    for other in (used, third):
        machine.star.drop_both(behind.name, other.name, 0)
    machine.star.accept("t1", third.client_host)
    used.restart()


# ---- ways

def ends_of(machine, target):
    """"t1-t2" -> [("t1", "t2")]; members and clients' tiers are several."""
    above, below = target.split("-")
    return [(a, below) for a in (machine.tree.nodes_above(below) if above in ("m", "t") else [above])]


def cut(machine, target):
    for above, below in ends_of(machine, target):
        machine.star.drop_both(above, below)


def cut_down(machine, target):
    """What is above is not heard any more, but hears."""
    for above, below in ends_of(machine, target):
        machine.star.drop(above, below)


def cut_up(machine, target):
    for above, below in ends_of(machine, target):
        machine.star.drop(below, above)


def lose(machine, target):
    for above, below in ends_of(machine, target):
        machine.star.drop_both(above, below, 0.1)


def mend(machine, target, _):
    for above, below in ends_of(machine, target):
        machine.star.drop_both(above, below, 0)


def delay(machine, target):
    machine.star.delay(target, 60)


def undelay(machine, target, _):
    machine.star.undelay(target)


# ---- the store

def compact_near(machine, _):
    machine.compact(10)


def compact_far(machine, _):
    machine.compact(machine.far)


def nobody_told(machine, _, begun):
    # Who knows no progress by asking may resume from long ago, which is rightly gone.
    n = sum(w.reopen_ended(machine.compacted) for w in machine.fleet.awake() if w.client not in CANNOT_ASK)
    assert n == 0, f"{n} watches were told of a compaction that did not concern them"


def restore(machine, _):
    machine.restore()


def large_transactions(machine, _):
    machine.large_transactions()


def delete_many(machine, _):
    machine.delete_many()


# ---- clients

def stall(machine, _):
    """One client of each kind hangs, on tiers that the seed decides."""
    kinds = (LIBBELFRY, CLIENTV3, ETCD3, GATEWAY, SSE)
    chosen = [machine.rng.choice([w for w in machine.fleet.all if w.client == kind]) for kind in kinds]
    for w in chosen:
        w.recorder.stop()
        w.stalled = True


def unstall(machine, *_):
    machine.fleet.thaw()


def stall_over_compaction(machine, target):
    stall(machine, target)
    machine.burst(machine.cluster.revision(), machine.tree.tiers)
    machine.compact(10)


TABLE = [
    Harm("tier killed", "tier", (0, 1), (0, 3), 16, tier_kill, tier_start, warm),
    Harm("tier stopped by SIGTERM", "tier", (0, 1), (0, 3), 8, tier_term, tier_start, warm),
    Harm("tier frozen", "tier", (1, 3), (1, 6), 16, tier_stop, tier_cont),
    Harm("tier frozen for long", "tier", (7, 8), (40, 41), 3, tier_stop, tier_cont),
    Harm("tier away over a compaction", "tier", (0, 0), (0, 1), 5, tier_away, tier_start, listed_anew),
    Harm("tier far behind", "tier", (0, 0), (0, 0), 5, tier_behind, tier_start, warm),
    Harm("disk full", "tier", (1, 2), (2, 6), 8, disk_fill, disk_free, disk_well),
    Harm("member killed", None, (0, 1), (0, 3), 12, member_kill, member_start),
    Harm("leader killed", None, (0, 1), (0, 3), 8, leader_kill, member_start),
    Harm("member frozen", None, (1, 3), (1, 6), 8, member_stop, member_cont),
    Harm("member frozen for long", None, None, (40, 41), 2, member_stop, member_cont_left),
    Harm("all members killed", None, (0, 0), (0, 2), 3, members_kill, members_start),
    Harm("member alone", None, (3, 4), (4, 9), 8, member_alone, member_together),
    Harm("lagging member", None, (0, 0), (0, 0), 5, lagging, lagging_end),
    Harm("way cut", "above", (2, 3), (2, 9), 18, cut, mend),
    Harm("way down cut", "above", (2, 3), (2, 9), 12, cut_down, mend),
    Harm("way up cut", "above", (2, 3), (2, 9), 12, cut_up, mend),
    Harm("10 % lost", "above", (2, 3), (4, 9), 10, lose, mend),
    Harm("60 ms late", "node", (2, 3), (4, 9), 10, delay, undelay),
    Harm("compaction near the head", None, (1, 1), (1, 1), 5, compact_near, nothing, nobody_told),
    Harm("compaction far behind", None, (1, 1), (1, 1), 5, compact_far, nothing, nobody_told),
    Harm("large transactions", None, (0, 0), (0, 0), 8, large_transactions, nothing),
    Harm("many keys deleted at once", None, (0, 0), (0, 0), 2, delete_many, nothing),
    Harm("clients frozen", None, (2, 3), (4, 12), 8, stall, unstall),
    Harm("clients frozen over a compaction", None, (0, 0), (0, 1), 3, stall_over_compaction, unstall),
    Harm("backup restored", None, (0, 0), (0, 0), 3, restore, nothing),
]
