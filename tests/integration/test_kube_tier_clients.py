"""Real clients through a tier in front of a kube-apiserver: kubectl prints what it prints at the API server itself, and informers of
client-go (two versions), client-node and python3-kubernetes see the same objects. The servers are built outside this tree; without
them this is skipped."""
import json
import re
import threading

import needs
import procs
import pytest
from etcd import Cluster
from kube import fingerprint
from kube_apiserver import KubeCluster
from kube_clients import Informers, Kubectl
from kube_tier import ALL_TYPES, MAPS, NODES, PODS, SLICES, STANDS_IN, WIDGETS, WIDGETS36, define, needs_servers, tier_of, wait_served
from kube_tier_differential import World

kubernetes = needs.module("kubernetes", "python3-kubernetes")
import kubernetes.watch  # noqa: E402

pytest_plugins = ["kube_fixtures"]


class Bed:
    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 1, crds=True, keep=True).start()
        self.api = self.cluster.servers[0]
        define(self.api, WIDGETS)
        define(self.cluster.crds, WIDGETS36)
        self.cluster.aggregate()
        for kind in (WIDGETS, WIDGETS36):
            wait_served(self.api, kind)
        for namespace in ("x", "y", "z"):
            assert self.api.call("POST", "/api/v1/namespaces", obj={"metadata": {"name": namespace}}).code == 201
        self.tier = tier_of(folder / "tier", self.cluster, ALL_TYPES, keep=True).start()
        for kind in ALL_TYPES:
            wait_served(self.tier, kind)

    def kubectls(self, folder):
        """Of the API server and of the tier."""
        made = []
        for where, server in (("api", self.api), ("tier", self.tier)):
            (folder / where).mkdir()
            made.append(Kubectl(server.url, folder / where, config=self.cluster.identity.kubeconfig(server.url)))
        return made

    def close(self):
        self.tier.kill()
        self.cluster.kill()
        self.etcd.close()
        if not STANDS_IN:
            self.tier.assert_sound()


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers(crds=True)
    made = Bed(tmp_path_factory.mktemp("kube"))
    yield made
    made.close()


def settled(text):
    """Without ages."""
    return re.sub(r"\b(\d+[dhms])+\b|<unknown>", "AGE", re.sub(r" {2,}", "  ", text))


def printed(done, args, server):
    """What kubectl said. It describes the data of a configmap in a new order each time, so that the lines are compared and not their order."""
    out = settled(done.stdout.decode())
    if args[:2] == ["describe", "configmap"]:
        out = sorted(out.splitlines())
    return done.returncode, out, settled(done.stderr.decode()).replace(str(server.port), "PORT")


READS = [
    ["get", "pods", "-A"], ["get", "pods", "-A", "-o", "wide"], ["get", "pods", "-n", "x", "-o", "yaml"], ["get", "pod", "a", "-n", "x", "-o", "json"],
    ["get", "pods", "-A", "--field-selector", "spec.nodeName=n1"], ["get", "pods", "-A", "-l", "app=web", "--show-labels"],
    ["get", "nodes"], ["get", "services", "-A"], ["get", "endpointslices", "-A"], ["get", "widgets.demo.example.com", "-A"],
    ["get", "widgets.demo36.example.com", "-A"], ["get", "configmaps", "-n", "x", "--chunk-size", "1"], ["get", "pods", "nothing", "-n", "x"],
    ["get", "nothings"], ["get", "all", "-n", "x"], ["describe", "pod", "a", "-n", "x"], ["describe", "configmap", "a", "-n", "x"],
    ["describe", "node", "a"], ["get", "secrets", "-A"], ["get", "namespaces"], ["api-resources"], ["api-versions"], ["version", "-o", "json"],
    ["explain", "pods.spec"], ["auth", "can-i", "list", "pods"], ["auth", "can-i", "create", "pods", "--as", "alice"],
    ["get", "--raw", "/api/v1/namespaces/x/pods?limit=1"], ["logs", "a", "-n", "x"], ["top", "nodes"], ["cluster-info", "dump", "--namespaces", "z"],
]


def test_kubectl_prints_the_same(bed, tmp_path):
    for kind in ALL_TYPES:
        World(bed.api, kind).begin()
    differ = []
    kubectls = bed.kubectls(tmp_path)
    for args in READS:
        real, ours = (k.run(*args, check=False) for k in kubectls)
        said = [printed(done, args, server) for done, server in ((real, bed.api), (ours, bed.tier))]
        if said[0] != said[1]:
            differ.append((args, *said))
    assert not differ, "\n".join(map(str, differ))


MANIFEST = [MAPS.object("x", "made", {"app": "made"}, data={"k": "1"}),
            PODS.object("x", "made", {"app": "made"}, spec={"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}),
            WIDGETS.object("x", "made", spec={"color": "red", "size": 1})]


def test_kubectl_writes_waits_and_watches(bed, tmp_path):
    kubectl = bed.kubectls(tmp_path)[1]
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": MANIFEST}))
    watch = kubectl.spawn("get", "widgets.demo.example.com", "-n", "x", "--watch", "--output-watch-events")
    assert kubectl.run("apply", "-f", str(path)).returncode == 0
    procs.wait_until(lambda: watch.line(20).split()[:2] == ["ADDED", "made"], 30, 0.01, "it is added")
    waits = kubectl.spawn("wait", "-n", "x", "widgets.demo.example.com/made", "--for=jsonpath={.spec.color}=blue", "--timeout=60s")
    MANIFEST[2]["spec"]["color"] = "blue"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": MANIFEST}))
    assert "configured" in kubectl.text("apply", "-f", str(path))
    assert waits.ended() == 0, waits.stderr()
    assert "condition met" in waits.line()
    assert watch.line(20).split()[:3] == ["MODIFIED", "made", "blue"]
    assert kubectl.run("apply", "--server-side", "--force-conflicts", "-f", str(path)).returncode == 0
    assert kubectl.run("label", "-n", "x", "configmap", "made", "more=yes").returncode == 0
    assert kubectl.json("get", "-n", "x", "configmap", "made")["metadata"]["labels"]["more"] == "yes", "a write is read"
    gone = kubectl.spawn("wait", "-n", "x", "pod/made", "--for=delete", "--timeout=60s")
    assert kubectl.run("delete", "-f", str(path), "--force", "--grace-period=0", "--wait=true").returncode == 0
    assert gone.ended() == 0, gone.stderr()
    assert kubectl.run("get", "-n", "x", "pod", "made", check=False).returncode == 1


@pytest.mark.skipif(STANDS_IN, reason=needs.BY_PEER + "an API server does it")
def test_upgrades_are_refused_with_a_reason(bed, tmp_path):
    World(bed.api, PODS).put("x", "a")
    runs = bed.api.call("PATCH", PODS.path("x", "a") + "/status", obj={"status": {"phase": "Running"}},
                        headers={"Content-Type": "application/merge-patch+json"})
    assert runs.code == 200, runs.body
    kubectl = bed.kubectls(tmp_path)[1]
    for args in (["exec", "-n", "x", "a", "--", "true"], ["port-forward", "-n", "x", "a", "1:1"], ["attach", "-n", "x", "a"]):
        done = kubectl.run(*args, check=False)
        assert done.returncode != 0 and b"kube-apiserver" in done.stderr.lower() + done.stdout.lower(), (args, done.stderr)


def stores(bed, kind, match=lambda o: True):
    return {f'{o["metadata"].get("namespace", "")}/{o["metadata"]["name"]}': [o["metadata"]["resourceVersion"], fingerprint(o)]
            for o in bed.api.call("GET", kind.path()).items if match(o)}


def informers_see_the_same(bed, kind, **kw):
    world = World(bed.api, kind)
    world.begin()
    everything = Informers(bed.tier, kind, count=3, token=bed.api.token, cacert=bed.cluster.identity.cacert, **kw)
    everything.add(labels="app=web")
    everything.wait_synced()
    world.play()
    wanted, web = stores(bed, kind), stores(bed, kind, lambda o: o["metadata"].get("labels", {}).get("app") == "web")
    everything.wait_stores([wanted] * 3 + [web])
    if not everything.node:
        everything.assert_right()
    status = everything.status()
    assert [s["lists"] for s in status] == [1] * 4, status
    everything.close()
    return status


@pytest.mark.parametrize("kind", [PODS, NODES, SLICES, WIDGETS, WIDGETS36], ids=str)
def test_client_go(bed, kind):
    informers_see_the_same(bed, kind)


@pytest.mark.parametrize("kind", [PODS, SLICES, WIDGETS36], ids=str)
def test_the_newest_client_go(bed, newest_informer, kind):
    status = informers_see_the_same(bed, kind, program=newest_informer)
    assert STANDS_IN or [s["watches"] for s in status] == [1] * 4, "it lists by watching"


@pytest.mark.parametrize("kind", [WIDGETS, WIDGETS36], ids=str)
def test_client_node(bed, kind):
    informers_see_the_same(bed, kind, node=True)


def test_python_kubernetes(bed):
    config = kubernetes.client.Configuration(host=bed.tier.url)
    config.ssl_ca_cert = bed.cluster.identity.cacert
    config.api_key = {"authorization": f"Bearer {bed.api.token}"}
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(config))
    world = World(bed.api, PODS)
    world.begin()
    listed = api.list_pod_for_all_namespaces(resource_version="0")
    assert {p.metadata.name for p in listed.items} >= {"a", "c"}
    seen, watch = [], kubernetes.watch.Watch()

    def follow():
        for event in watch.stream(api.list_pod_for_all_namespaces, resource_version=listed.metadata.resource_version, timeout_seconds=30):
            seen.append((event["type"], event["object"].metadata.name))
            if event["object"].metadata.name == "end":
                watch.stop()
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    world.play()
    thread.join(40)
    assert seen[-1][1] == "end" and ("DELETED", "d") in seen, seen
    made = api.create_namespaced_config_map("x", {"metadata": {"name": "by-python"}, "data": {"a": "b"}})
    assert api.read_namespaced_config_map("by-python", "x").metadata.resource_version == made.metadata.resource_version
    with pytest.raises(kubernetes.client.ApiException) as e:
        api.list_pod_for_all_namespaces(resource_version="0", field_selector="spec.nonsense=1")
    assert e.value.status == 400
    assert api.delete_namespaced_config_map("by-python", "x").status == "Success"
