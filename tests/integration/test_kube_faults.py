"""Informers of client-go and client-node through faults of etcd, belfryd, the network and themselves: every store is
etcd's state in the end, every transition was right, and nobody had to list again where history was there."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import procs
from kube import BY_PEER, belfryd_only, name, pod
from kube_clients import Informers

WRITER = os.path.join(os.path.dirname(__file__), "kube_writer.py")
CATCH_UP_S = 120

pytest_plugins = ["kube_fixtures"]


def label(obj, key):
    return obj["metadata"]["labels"][key]


def is_in(obj):
    return label(obj, "in") == "yes"


WIDE = [(dict(), lambda o: True), (dict(labels="in=yes"), is_in),
        (dict(labels="in!=yes,group in (g1,g2,g3)"),
         lambda o: not is_in(o) and label(o, "group") in ("g1", "g2", "g3")),
        (dict(namespace="ns1"), lambda o: o["metadata"]["namespace"] == "ns1"),
        (dict(namespace="ns2", labels="in"), lambda o: o["metadata"]["namespace"] == "ns2"),
        (dict(fields="metadata.name=p7"), lambda o: name(o) == "p7")]


def selector(i):
    """What informer i asks for, and what that is. After the first dozen it is little, as with most informers of a large
    cluster: client-go needs 0.1 ms of CPU for an event, and there are hundreds of them."""
    if i < 2 * len(WIDE):
        return WIDE[i % len(WIDE)]
    if i % 2:
        return dict(fields=f"metadata.name=p{i % 50}"), lambda o: name(o) == f"p{i % 50}"
    return dict(labels=f"group=g{i % 10},in=yes"), lambda o: label(o, "group") == f"g{i % 10}" and is_in(o)


class Bed:
    """A server, informers with several selectors, writers, and what can happen to them."""

    def __init__(self, server, seed, n_go, n_node, rate, pause):
        self.server, self.cluster, self.seed, self.rate, self.pause = server, server.cluster, seed, rate, pause
        self.fleets, self.matches, self.compacted = [], [], 0
        for node, n in ((False, n_go), (True, n_node)):
            if n:
                self.fleets.append(self._fleet(node, n))
        self.writer = None

    def _fleet(self, node, n):
        fleet = Informers(self.server, node=node, count=0)
        chosen = [selector(i) for i in range(n)]
        for spec, _ in chosen:
            fleet.add(**spec)
        fleet.wait_synced()
        self.matches.append([match for _, match in chosen])
        return fleet

    def write(self):
        endpoints = ",".join(m.endpoint for m in self.cluster.members)
        self.writer = procs.spawn([sys.executable, WRITER, endpoints, self.seed, 0, self.rate], ns=self.cluster.ns,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def settle(self, seconds=None):
        time.sleep(seconds or self.pause)

    def stop_writing(self):
        out, _ = self.writer.communicate(timeout=60)
        procs.end(self.writer)
        return json.loads(out)["done"]

    def relists(self):
        return [fleet.relists() for fleet in self.fleets]

    def judge(self):
        for fleet, matches in zip(self.fleets, self.matches):
            objects = self.server.objects()
            fleet.wait_stores([self.server.expected(match=match, objects=objects) for match in matches], CATCH_UP_S)
            fleet.assert_right()

    # what can happen

    def member_kill(self):
        victim = self.cluster.members[self.seed % len(self.cluster.members)]
        victim.kill()
        self.settle()
        victim.restart()

    def member_stop(self):
        victim = self.cluster.members[(self.seed + 1) % len(self.cluster.members)]
        victim.stop()
        self.settle()
        victim.cont()

    def tier_stop(self):
        os.kill(self.server.pid, signal.SIGSTOP)
        self.settle()
        os.kill(self.server.pid, signal.SIGCONT)

    def tier_kill(self):
        (self.server.tier or self.server.peer).kill()
        self.settle(1)
        (self.server.tier or self.server.peer).start()

    def partition(self):
        """Long enough for belfryd to know that it is stale."""
        for i in range(len(self.cluster.members)):
            self.cluster.net.cut(i, "c")
        self.settle(7)
        for i in range(len(self.cluster.members)):
            self.cluster.net.heal(i, "c")

    def client_stall(self):
        for fleet in self.fleets:
            os.kill(fleet.lines.proc.pid, signal.SIGSTOP)
        self.settle()
        for fleet in self.fleets:
            os.kill(fleet.lines.proc.pid, signal.SIGCONT)

    def compact_near(self):
        """Of what everybody has seen."""
        least = self.compacted + 100
        procs.wait_until(lambda: self.cluster.revision() > least, 30, 0.5, f"revision {least} is written")
        self.compacted = self.cluster.revision() - 20
        self.cluster.compact(self.compacted)
        self.settle(1)

    def history_lost(self):
        """belfryd and its replica are gone, and so is etcd's history: there is nothing to resume from."""
        serving = self.server.tier or self.server.peer
        serving.kill()
        self.settle(2)
        self.cluster.compact(self.cluster.revision())
        if self.server.tier:
            shutil.rmtree(self.server.tier.cache)
        serving.start()


KEEP_HISTORY = ["member_kill", "member_stop", "tier_stop", "tier_kill", "partition", "client_stall", "compact_near"]


def test_informers_through_faults(make_net, make_cluster, make_kube, rng, seed, soak, figure):
    if BY_PEER:
        cluster, plan = make_cluster(3), [kind for kind in KEEP_HISTORY if kind != "partition"]
    else:
        cluster, plan = make_cluster(3, net=make_net(3)), list(KEEP_HISTORY)
    server = make_kube(cluster=cluster)
    bed = Bed(server, seed, *((480, 20, 120, 6) if soak else (24, 6, 150, 3)))
    plan = plan * (3 if soak else 1)
    rng.shuffle(plan)
    bed.write()
    changes, relists = 0, {}
    for kind in plan:
        bed.settle(1)
        print(f"fault: {kind}", flush=True)
        before = bed.relists()
        getattr(bed, kind)()
        bed.settle()
        changes += bed.stop_writing()
        bed.judge()
        relists[kind] = relists.get(kind, 0) + sum(bed.relists()) - sum(before)
        bed.write()
    while soak and changes < 50000:
        bed.settle(20)
        changes += bed.stop_writing()
        bed.judge()
        bed.write()
    before = bed.relists()
    bed.history_lost()
    bed.settle()
    changes += bed.stop_writing()
    bed.judge()
    lost = sum(bed.relists()) - sum(before)
    figure("kube_fault_changes", changes)
    figure("kube_fault_informers", sum(fleet.count for fleet in bed.fleets))
    for kind, n in sorted(relists.items()):
        figure(f"kube_relists_{kind}", n)
    figure("kube_relists_history_lost", lost)
    assert changes > (50000 if soak else 500)
    assert lost > 0, "the history was gone, but nobody listed again"
    if not BY_PEER:  # whose history ends with its process
        assert not any(relists.values()), relists


@belfryd_only
def test_informers_know_nothing_of_a_warm_restart(make_kube):
    """The tier is killed and started again while nothing is written: it has all its history, and nobody lists."""
    server = make_kube()
    for i in range(500):
        server.put(pod("ns1", f"p{i % 20}", {"i": str(i)}))
    server.wait_for(server.store.revision)
    fleets = [Informers(server, count=10), Informers(server, count=3, node=True)]
    for fleet in fleets:
        fleet.wait_synced()
    time.sleep(1.5)  # a watch that ends in its first second counts as failed with client-go, and is a reason to list
    for i in range(2):
        server.tier.kill()
        server.tier.start()
        server.put(pod("ns1", f"after{i}"))
        for fleet in fleets:
            fleet.wait_stores(server.expected(), 60)
            fleet.assert_right()
        time.sleep(1.5)
    assert [fleet.relists() for fleet in fleets] == [0, 0]
