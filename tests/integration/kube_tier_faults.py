"""API servers, tiers in front of them, informers of real clients behind those, a writer, and what can happen to all of them.

    etcd <- API servers <- links that can be held up <- tiers <- doors <- informers

A door leads to a tier, or to an API server: both give the same resourceVersions, so a client may be moved while it watches. What
the API servers were asked, and by whom, is in their audit logs, which outlive them.
"""
import contextlib
import http.client
import json
import os
import threading
import time

import procs
from kube import fingerprint, name
from kube_apiserver import KubeCluster, version_of
from kube_clients import Informers
from kube_tier import MAPS, STANDS_IN, tier_of, wait_served, watchers_of
from proxy import Proxy

NAMESPACES = ("prod", "default", "other")
CATCH_UP_S = 90
STREAMS = (1, 32)  # from then on servers send lists as the first events of a watch; older ones are asked for it once
SETTLED_S = 1.5  # client-go lists when a watch has ended within its first second: a fault before that shows client-go's rule, not a tier's
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
         "rules": [{"level": "Metadata", "users": ["tier"], "verbs": ["list", "watch", "get"]}, {"level": "None"}]}


def label(obj, key):
    return obj["metadata"].get("labels", {}).get(key)


WIDE = ((dict(), lambda o: True), (dict(labels="in=yes"), lambda o: label(o, "in") == "yes"),
        (dict(labels="in!=yes,group in (g1,g2)"), lambda o: label(o, "in") != "yes" and label(o, "group") in ("g1", "g2")),
        (dict(namespace="prod"), lambda o: o["metadata"]["namespace"] == "prod"),
        (dict(namespace="other", labels="in"), lambda o: o["metadata"]["namespace"] == "other" and label(o, "in") is not None),
        (dict(fields="metadata.name=m7"), lambda o: name(o) == "m7"))


class Writer(threading.Thread):
    """Creates, changes and deletes config maps at whatever API server answers, until it is stopped."""

    def __init__(self, servers, rng, rate=60, n_names=20, kind=MAPS, prefix="m"):
        super().__init__(daemon=True)
        self.servers, self.rng, self.rate, self.n_names, self.kind, self.prefix = servers, rng, rate, n_names, kind, prefix
        self.done, self.is_over, self.connection = 0, threading.Event(), None
        self.start()

    def run(self):
        while not self.is_over.wait(1 / self.rate):
            try:
                self.change()
            except (OSError, http.client.HTTPException, ValueError):
                self.connection = None  # a server that is away

    def call(self, method, path, obj=None):
        if self.connection is None:
            server = self.rng.choice(self.servers)
            self.token = server.token
            self.connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=3, context=server.identity.tls)
        self.connection.request(method, path, None if obj is None else json.dumps(obj),
                                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        answer = self.connection.getresponse()
        answer.read()
        if answer.status in (200, 201):
            self.done += 1
        return answer.status

    def change(self):
        namespace, number = self.rng.choice(NAMESPACES), self.rng.randrange(self.n_names)
        labels = {"in": self.rng.choice(("yes", "no")), "group": f"g{self.rng.randrange(4)}"}
        obj = self.kind.object(namespace, f"{self.prefix}{number}", labels, data={"n": str(self.done), "text": "x" * self.rng.choice((9, 999))})
        path = self.kind.path(namespace, name(obj))
        if self.rng.random() < 0.15:
            self.call("DELETE", path)
        elif self.call("PUT", path, obj) == 404:
            self.call("POST", self.kind.path(namespace), obj)

    def stop(self):
        self.is_over.set()
        self.join(30)


class Compactor(threading.Thread):
    """Compacts etcd again and again, as an API server's own compaction does it, until it is stopped."""

    def __init__(self, etcd, every_s):
        super().__init__(daemon=True)
        self.etcd, self.every_s, self.done, self.is_over = etcd, every_s, 0, threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(self.every_s):
            done = self.etcd.ctl("compaction", str(self.etcd.revision()), check=False)  # refused when nothing was written since
            self.done += done.returncode == 0

    def stop(self):
        self.is_over.set()
        self.join(30)
        return self.done


class Link:
    """A way to an API server that can be held up; what a tier takes for the server."""

    def __init__(self, server):
        self.proxy, self.identity = Proxy(f"127.0.0.1:{server.port}"), server.identity

    @property
    def url(self):
        return f"https://{self.proxy.endpoint}"


class Door:
    """Where clients go: it leads to a server, and can lead elsewhere."""

    def __init__(self, server):
        self.server, self.proxy = server, Proxy(f"127.0.0.1:{server.port}")

    @property
    def url(self):
        return f"https://{self.proxy.endpoint}"

    def move(self, server):
        self.server = server
        self.proxy.lead_to(f"127.0.0.1:{server.port}")
        self.proxy.cut()


class Bed:
    def __init__(self, folder, etcd, rng, n_servers=2, stacked=False, kind=MAPS):
        self.etcd, self.rng, self.kind = etcd, rng, kind
        policy = os.path.join(str(folder), "audit.json")
        with open(policy, "w") as f:
            json.dump(AUDIT, f)
        self.cluster = KubeCluster(folder / "kube", etcd, n_servers, flags=[f"--audit-policy-file={policy}"])
        for server in self.cluster.servers:
            server.flags = [*server.flags, f"--audit-log-path={server.folder}/audit.log"]
        self.cluster.start()
        self.servers = self.cluster.servers
        made = self.servers[0].call("POST", "/api/v1/namespaces", obj={"metadata": {"name": "other"}})
        assert made.code == 201, made.body
        self.links = [Link(server) for server in self.servers]
        self.tiers = [tier_of(folder / "tier0", self.cluster, [kind], self.links).start()]
        if stacked:
            self.tiers.append(tier_of(folder / "tier1", self.cluster, [kind], [self.tiers[0]]).start())
        for tier in self.tiers:
            wait_served(tier, kind)
        self.doors = [Door(tier) for tier in self.tiers]
        self.fleets, self.matches, self.writer = [], [], None

    def add_informers(self, n, **kw):
        """n of them at each door, with several selectors."""
        for door in self.doors:
            fleet = Informers(door, self.kind, count=0, token=self.servers[0].token, cacert=self.cluster.identity.cacert, **kw)
            for i in range(n):
                fleet.add(**WIDE[i % len(WIDE)][0])
            fleet.wait_synced()
            self.fleets.append(fleet)
            self.matches.append([WIDE[i % len(WIDE)][1] for i in range(n)])

    def watches(self, server):
        """How many it has, of clients and of tiers."""
        is_tier = server in self.tiers and not STANDS_IN
        return server.metrics()['belfry_streams{dialect="kube"}'] if is_tier else watchers_of(server, self.kind)

    def settle(self, of_tiers=None):
        """Until every client has watched for more than a second where it is now: if a watch ends earlier, client-go lists.
        of_tiers: how many watches of tiers the server has besides; None: as many as there are tiers behind the tier."""
        for server in {door.server for door in self.doors}:
            others = int(server is not self.tiers[-1]) if of_tiers is None else of_tiers
            n = others + sum(fleet.count for door, fleet in zip(self.doors, self.fleets) if door.server is server)
            procs.wait_until(lambda server=server, n=n: self.watches(server) >= n, 60, 0.1,
                             lambda server=server, n=n: f"{self.watches(server)} of {n} watches")
        time.sleep(SETTLED_S)

    def write(self):
        self.writer = Writer(self.servers, self.rng, kind=self.kind)

    def changes(self, n):
        """Until so many more were written."""
        before = self.writer.done
        procs.wait_until(lambda: self.writer.done >= before + n, 60, 0.05, f"{n} more changes")

    def stop_writing(self):
        self.writer.stop()
        return self.writer.done

    def objects(self):
        answer = next(a for a in (s.call("GET", self.kind.path()) for s in self.servers if s.proc.poll() is None) if a.code == 200)
        return answer.items

    def judge(self):
        """Every informer has what the API server has, and was told nothing wrong on the way."""
        objects = self.objects()
        for fleet, matches in zip(self.fleets, self.matches):
            wanted = [{f'{o["metadata"]["namespace"]}/{name(o)}': [o["metadata"]["resourceVersion"], fingerprint(o)]
                       for o in objects if match(o)} for match in matches]
            fleet.wait_stores(wanted, CATCH_UP_S)
            if not fleet.node:
                fleet.assert_right()

    def relists(self):
        return sum(fleet.relists() for fleet in self.fleets)

    def upstream_lists(self):
        """Lists of the type that tiers have asked API servers for, with objects in them: first pages, and no probes of one object. From
        newer servers they come as the first events of a watch."""
        found = []
        for path in (f"{server.folder}/audit.log" for server in self.servers):
            with open(path) if os.path.exists(path) else contextlib.nullcontext([]) as lines:
                for line in lines:
                    event = json.loads(line)
                    about = event.get("objectRef", {})
                    uri = event["requestURI"]
                    is_list = event["verb"] == "list" and not is_part(uri) or (version_of() >= STREAMS and "sendInitialEvents=true" in uri)
                    if is_list and about.get("resource") == self.kind.plural:
                        found.append(uri)
        return found

    def close(self):
        for fleet in self.fleets:
            fleet.close()
        for tier in self.tiers:
            if tier.proc.poll() is None:
                tier.kill()
        for way in [*self.links, *self.doors]:
            way.proxy.close()
        self.cluster.kill()
        for tier in [] if STANDS_IN else self.tiers:
            tier.assert_sound()

    # what can happen

    def tier_kill(self):
        tier = self.rng.choice(self.tiers)
        tier.kill()
        time.sleep(self.rng.random())
        tier.start()

    def tier_stop(self):
        tier = self.rng.choice(self.tiers)
        tier.stop()
        time.sleep(3)
        tier.cont()

    def api_kill(self):
        """Not the last one, so that its history is kept somewhere."""
        server = self.rng.choice(self.servers[:-1])
        server.kill()
        time.sleep(self.rng.random() * 2)
        server.start()

    def api_kill_all(self):
        """No API server has any history after that."""
        for server in self.servers:
            server.kill()
        for server in self.servers:
            server.start()

    def api_stop(self):
        server = self.rng.choice(self.servers)
        server.stop()
        time.sleep(8)
        server.cont()

    def partition(self):
        """Of the tiers from all API servers."""
        for link in self.links:
            link.proxy.stall()
        time.sleep(6)
        for link in self.links:
            link.proxy.go()

    def cut(self):
        """Of one API server from the tiers, and of all clients."""
        self.rng.choice(self.links).proxy.cut()
        for door in self.doors:
            door.proxy.cut()

    def move(self):
        """All clients go to the last API server, and back to their tiers, while they watch."""
        of_tiers = self.watches(self.servers[-1])
        for door in self.doors:
            door.move(self.servers[-1])
        self.settle(of_tiers)
        self.changes(20)
        for door, tier in zip(self.doors, self.tiers):
            door.move(tier)

    def compact(self):
        self.etcd.compact(self.etcd.revision())


def is_part(uri):
    """Of a list: a later page, or a probe."""
    return "continue=" in uri or "limit=1&" in uri + "&" or "belfry-probe" in uri


FAULTS = ("tier_kill", "tier_stop", "api_kill", "api_stop", "partition", "cut", "move", "compact")
SHORT = ("tier_kill", "api_kill", "partition", "move", "compact")  # of a run that is not of full length
