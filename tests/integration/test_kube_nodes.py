"""Hollow nodes of a real cluster on tiers in front of its API servers (kube_nodes.py): what kubelets and kube-proxies watch costs the
API servers the same for any number of nodes, and through faults pods run, and stores are the API server's. The programs are built
outside this tree; without them this is skipped."""
import time

import needs
import netns
import procs
import pytest
from kube import fingerprint, name
from kube_clients import Informers
from kube_nodes import (DEPLOYMENTS, FOLLOWED, NODES, OF_PROXIES, PODS, PROXY, SERVICES, SLICES, Churn, NodeCluster, deployment, needs_nodes,
                        node_name, node_user, scale, service)
from kube_tier import STANDS_IN, tier_of, wait_served, watchers_of

APPS = ["a", "b", "c"]
NAMED = "!service.kubernetes.io/service-proxy-name"
AS_PROXIES = ((SERVICES, NAMED, "spec.clusterIP!=None"), (SLICES, f"!service.kubernetes.io/headless,{NAMED}", ""))  # kube-proxy's selectors
SETTLED_S = 1.5  # client-go lists when a watch ended within its first second
RUNNING_S = 240
BOOKMARK_S = 75  # an API server has sent one by then


class Bed:
    def __init__(self, folder, etcd, rng):
        self.rng = rng
        self.cluster = NodeCluster(folder / "kube", etcd, 2).start()
        self.servers, self.etcd = self.cluster.servers, etcd
        self.tiers = [tier_of(folder / f"tier{i}", self.cluster, FOLLOWED).start() for i in range(2)]
        for tier in self.tiers:
            wait_served(tier, PODS)
        self.informers = []

    def add_nodes(self, n_kubelets, n_proxies):
        """So many more, divided among the tiers."""
        for i, tier in enumerate(self.tiers):
            self.cluster.add_kubelets((n_kubelets + 1 - i) // 2, tier.url)
            self.cluster.add_proxies((n_proxies + 1 - i) // 2, tier.url)
        n = self.cluster.n_of["kubelet"]
        procs.wait_until(lambda: len(self.ready_nodes()) == n, RUNNING_S, 0.5, lambda: f"{len(self.ready_nodes())} of {n} nodes ready: {self.logs()}")
        for part in self.cluster.of_kind("proxy"):
            procs.wait_until(lambda part=part: listings(part).keys() >= {kind.kind for kind in OF_PROXIES}, RUNNING_S, 0.5,
                             lambda part=part: f"{part.name} follows {listings(part)}: {part.log()[-1500:]}")

    def ready_nodes(self):
        return [name(node) for node in self.servers[-1].call("GET", NODES.path()).items
                if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))]

    def watches(self):
        """resource -> how many watches all API servers have."""
        return {kind.plural: sum(watchers_of(server, kind) for server in self.servers) for kind in FOLLOWED}

    def deploy(self, replicas):
        for app in APPS:
            for kind, obj in ((DEPLOYMENTS, deployment(app, replicas)), (SERVICES, service(app, app))):
                made = self.servers[0].call("POST", kind.path("default"), obj=obj)
                assert made.code == 201, made.body

    def wait_settled(self):
        """Every pod that is wanted runs."""
        def wanted():
            return sum(d["spec"]["replicas"] for d in self.servers[-1].call("GET", DEPLOYMENTS.path("default")).items)

        def running():
            pods = self.servers[-1].call("GET", PODS.path("default")).items
            return [pod["status"]["phase"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        procs.wait_until(lambda: running() == ["Running"] * wanted(), RUNNING_S, 0.5, lambda: f"{running()} of {wanted()}: {self.logs()}")

    def follow_as_proxies(self, n):
        """Informers of client-go with the selectors of kube-proxy, whose rules nobody can look at."""
        for tier in self.tiers:
            for kind, labels, fields in AS_PROXIES:
                fleet = Informers(tier, kind, labels=labels, fields=fields, count=n, token=self.cluster.identity.tokens[PROXY],
                                  cacert=self.cluster.identity.cacert)
                fleet.wait_synced()
                self.informers.append((kind, {"labelSelector": labels, **({"fieldSelector": fields} if fields else {})}, fleet))

    def judge(self):
        for kind, selectors, fleet in self.informers:
            got = self.servers[-1].call("GET", kind.path(), selectors)
            fleet.wait_stores({f'{o["metadata"]["namespace"]}/{name(o)}': [o["metadata"]["resourceVersion"], fingerprint(o)]
                               for o in got.items}, 60)
            fleet.assert_right()

    def settle(self):
        procs.wait_until(lambda: all(tier._is_ready() for tier in self.tiers), 60, 0.2, "tiers ready")
        time.sleep(SETTLED_S)

    def relists(self):
        """(process, type) -> how often it began anew with a list, besides once."""
        return {(part.name, kind): n - 1 for part in self.cluster.of_kind("proxy") + self.cluster.of_kind("kubelet")
                for kind, n in listings(part).items() if n > 1 and kind != "ConfigMap"} | {
            ("informer", kind): n for kind, _, fleet in self.informers if (n := fleet.relists())}

    def logs(self):
        return [part.log()[-300:] for part in self.cluster.parts if part.proc.poll() is not None][:3]

    def close(self):
        for _, _, fleet in self.informers:
            fleet.close()
        self.cluster.kill()
        for tier in self.tiers:
            if tier.proc.poll() is None:
                tier.kill()
            if not STANDS_IN:
                tier.assert_sound()

    # what can happen

    def tier_kill(self):
        tier = self.rng.choice(self.tiers)
        tier.kill()
        time.sleep(self.rng.random())
        tier.start()

    def api_kill(self):
        """One that is restarted has no history before its start. Of a type without changes a tier learns later versions from bookmarks;
        if both servers are restarted before one came, clients must list anew, as they must without a tier."""
        server = self.rng.choice(self.servers)
        server.kill()
        time.sleep(self.rng.random() * 2)
        server.start()


def listings(part):
    """The name of a type -> how often client-go began to list and watch it, by the process's own log."""
    found = {}
    for line in part.log().splitlines():
        if '"Listing and watching"' in line:
            kind = line.split('type="')[1].split('"')[0].rsplit(".", 1)[1]
            found[kind] = found.get(kind, 0) + 1
    return found


@pytest.fixture
def bed(tmp_path, cluster, rng):
    needs_nodes()
    made = Bed(tmp_path, cluster, rng)
    yield made
    made.close()


@pytest.fixture
def networks():
    """Two of them, for kube-proxies."""
    reason = netns.why_not()
    if reason:
        needs.missing(f"the right to make network namespaces: {reason}")
    with netns.alone() as one, netns.alone() as other:
        yield one, other


def test_a_kube_proxy_on_a_tier_makes_the_rules_of_one_at_the_api_server(networks, bed, soak, figure):
    """Real ones, in networks of their own, while pods and services come and go, and tiers are killed."""
    bed.add_nodes(1, 0)
    bed.deploy(6)
    bed.wait_settled()
    direct, through = (bed.cluster.add_real_proxy(server, ns) for server, ns in zip((bed.servers[0], bed.tiers[0]), networks))
    n_rules = []
    for _ in range(20 if soak else 2):
        churn = Churn(bed.servers, bed.rng, APPS, 6, 5)
        time.sleep(5)
        bed.tiers[0].kill()
        time.sleep(bed.rng.random())
        bed.tiers[0].start()
        time.sleep(3)
        churn.stop()
        bed.wait_settled()
        procs.wait_until(lambda: direct.rules() == through.rules() and len(direct.rules()) > 50, 60, 0.5,
                         lambda: f"at the API server only {set(direct.rules()) - set(through.rules())}, on a tier only "
                                 f"{set(through.rules()) - set(direct.rules())}, of {len(direct.rules())} rules")
        n_rules.append(len(direct.rules()))
    figure("kube_proxy_rules", n_rules[-1])
    assert len(set(n_rules)) > 1 or not soak


def n_relayed(tier):
    return sum(n for name, n in tier.metrics().items() if name.startswith("belfry_kube_relayed_total"))


def test_a_node_reads_the_pods_of_its_own_name_only(bed):
    """The API server authorises by selectors, and a tier answers as it does."""
    def asked(server, selector):
        query = {"resourceVersion": 0, **({"fieldSelector": f"spec.nodeName={selector}"} if selector else {})}
        return [server.call("GET", PODS.path(), {**query, **more}, user=node_user(0)).code for more in ({}, {"watch": 1, "timeoutSeconds": 1})]
    tier = bed.tiers[0]
    relayed = n_relayed(tier)
    for selector, code in ((node_name(0), 200), (node_name(1), 403), ("", 403)):
        assert asked(bed.servers[0], selector) == asked(tier, selector) == [code, code], selector
    assert n_relayed(tier) == relayed  # the tier has asked about rights, and answered itself


def test_nodes_on_tiers_through_faults(bed, soak, figure):
    """Their watches at the API servers do not grow with their number; pods run; the stores are the API server's."""
    n_kubelets, n_proxies, minutes, pause_s = (20, 60, 20, 15) if soak else (4, 6, 0.5, 4)
    replicas = n_kubelets
    bed.add_nodes(2, 2)
    bed.deploy(replicas)
    bed.wait_settled()
    few = bed.watches()
    bed.add_nodes(n_kubelets - 2, n_proxies - 2)
    bed.follow_as_proxies(2)
    procs.wait_until(lambda: bed.watches() == few, 30, 0.5, lambda: f"watches with 2 nodes {few}, with {n_kubelets} {bed.watches()}")

    churn, faults, until = Churn(bed.servers, bed.rng, APPS, replicas, 10 if soak else 5), 0, time.monotonic() + minutes * 60
    killed = time.monotonic() - BOOKMARK_S  # when an API server was
    while time.monotonic() < until or faults < 2:
        time.sleep(pause_s)
        is_of_api = faults % 2 == 1 and time.monotonic() - killed >= BOOKMARK_S
        (bed.api_kill if is_of_api else bed.tier_kill)()
        bed.settle()
        killed = time.monotonic() if is_of_api else killed
        faults += 1
    churn.stop()
    for app in APPS:
        scale(bed.servers[-1], app, replicas)
    bed.wait_settled()
    bed.judge()
    for what, n in (("kubelets", n_kubelets), ("proxies", n_proxies), ("changes", churn.done), ("faults", faults)):
        figure(f"kube_nodes_{what}", n)
    for resource, n in sorted(bed.watches().items()):
        figure(f"kube_nodes_watches_{resource}", int(n))
    assert not bed.relists()
    procs.wait_until(lambda: bed.watches() == few, 30, 0.5, lambda: f"watches before {few}, in the end {bed.watches()}")
    assert all(few.values()), few
