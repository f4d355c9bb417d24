"""clientv3's concurrency package (tests/go/gorecipes) through tiers: locks, elections and software transactions of
contenders who are on etcd itself, on a tier and on one below it. The program judges; its reads are the replicas'."""
import subprocess
import time

import ports
import procs
from client import go_binary
from stack import Stack

REPLICA = 'belfry_reads_total{source="replica",consistency="linearizable"}'
DONE = ("additions", "terms", "observed", "transfers", "sums")


class Recipes:
    def __init__(self, seconds, *endpoints, ns=None):
        self.seconds = seconds
        self.proc = procs.spawn([go_binary("gorecipes"), str(seconds), *endpoints], ns=ns, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def is_running(self):
        return self.proc.poll() is None

    def counts(self):
        """When it has ended."""
        out, err = self.proc.communicate(timeout=self.seconds + 90)
        assert self.proc.returncode == 0, out.decode() + err.decode()[-2000:]
        return {name: int(n) for name, n in (word.split("=") for word in out.decode().split())}


def endpoints(cluster, tiers):
    return [cluster.members[0].endpoint, *(tier.endpoint for tier in tiers)]


def judge(counts, tiers, figure):
    for name, n in counts.items():
        figure(f"concurrency.{name}", n)
    assert all(counts[name] > 0 for name in DONE), counts
    for tier in tiers:
        assert tier.metrics()[REPLICA] > 0, "it has relayed all reads"


def test_recipes_hold_through_two_tiers(cluster, make_tier, figure, soak):
    tiers = Stack(make_tier, cluster, 2).tiers
    recipes = Recipes(60 if soak else 6, *endpoints(cluster, tiers))
    counts = recipes.counts()
    judge(counts, tiers, figure)
    assert counts["failures"] == 0 and counts["additions"] >= 20, counts


def test_reads_that_are_behind_are_found_out(cluster, make_tier):
    """A listener that answers every read as a serializable one, which programs like these must not use."""
    port = ports.free_port()
    lax = make_tier(cluster, listen=[f"http://127.0.0.1:{port},consistency=serializable"])
    recipes = Recipes(20, cluster.members[0].endpoint, f"127.0.0.1:{port}")
    out, _ = recipes.proc.communicate(timeout=110)
    assert recipes.proc.returncode == 1 and out.startswith((b"FAILED lock", b"FAILED election")), out
    assert lax.is_running()


def test_recipes_hold_while_tiers_and_the_leader_change(make_cluster, make_tier, figure, rng, soak):
    """A tier that is killed and started again, one that stands still, a leader that moves: calls fail, nothing else."""
    cluster = make_cluster(3)
    tiers = Stack(make_tier, cluster, 2).tiers
    recipes = Recipes(90 if soak else 15, *endpoints(cluster, tiers))

    def reads():
        return sum(tier.metrics()[REPLICA] for tier in tiers)

    def wait_reads(more=50):
        before = reads()
        procs.wait_until(lambda: reads() >= before + more or not recipes.is_running(), 30, 0.1, "reads go on")

    faults = ["kill", "stop", "leader"] * (10 if soak else 1)
    rng.shuffle(faults)
    for fault in faults:
        wait_reads()
        tier = rng.choice(tiers)
        if fault == "kill":
            tier.kill()
            tier.start()
        elif fault == "stop":
            tier.pause()
            time.sleep(rng.uniform(0.5, 1.5))
            tier.cont()
        else:
            cluster.move_leader_off(procs.wait_until(cluster.leader, 30, 0.1, "a leader"))
    judge(recipes.counts(), tiers, figure)
