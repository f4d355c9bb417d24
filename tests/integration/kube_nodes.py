"""A cluster with nodes: its API servers, a controller manager, a scheduler, and hollow nodes: kubemark's kubelets, with a container
runtime that runs nothing, and its kube-proxies, which set no rules. At the API they do what real ones do. All programs are those of
one release of Kubernetes, in the folder `newest` of the one that PEERS names, or beside BELFRY_KUBE_APISERVER."""
import http.client
import os
import re
import shutil
import subprocess
import threading

import kube_apiserver
import needs
import procs
from kube import PEERS
from kube_apiserver import KubeApiserver, KubeCluster
from kube_tier import Type
from ports import free_port
from proxy import Proxy

NEWEST = os.path.join(PEERS, "newest")
FOLDER = os.path.dirname(kube_apiserver.PROGRAM) if os.environ.get("BELFRY_KUBE_APISERVER") else NEWEST
PROGRAMS = [os.path.join(FOLDER, name) for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubemark",
                                                         "kube-proxy")]

PODS = Type("pods", "Pod")
NODES = Type("nodes", "Node", namespaced=False)
SERVICES = Type("services", "Service")
MAPS = Type("configmaps", "ConfigMap")
SLICES = Type("endpointslices", "EndpointSlice", "discovery.k8s.io")
DEPLOYMENTS = Type("deployments", "Deployment", "apps")
CIDRS = Type("servicecidrs", "ServiceCIDR", "networking.k8s.io", namespaced=False)
DRIVERS = Type("csidrivers", "CSIDriver", "storage.k8s.io", namespaced=False)
REQUESTS = Type("podcertificaterequests", "PodCertificateRequest", "certificates.k8s.io")
CLASSES = Type("runtimeclasses", "RuntimeClass", "node.k8s.io", namespaced=False)
OF_PROXIES = (SERVICES, SLICES, CIDRS)  # hollow ones; a real one watches its node, too
OF_KUBELETS = (PODS, NODES, SERVICES, MAPS, DRIVERS, CLASSES, REQUESTS)
FOLLOWED = tuple(dict.fromkeys(OF_PROXIES + OF_KUBELETS))

MOST_NODES = 100
PROXY = "system:kube-proxy"


def node_name(i):
    return f"hollow-{i}"


def node_user(i):
    return f"system:node:{node_name(i)}"


def needs_nodes():
    absent = kube_apiserver.why_none(*PROGRAMS)
    if absent:
        needs.peer(absent)


class NodeApiserver(KubeApiserver):
    AUTHORIZERS, ADMISSION = "Node,RBAC", "--enable-admission-plugins=NodeRestriction"

    def argv(self):
        return [PROGRAMS[0], *super().argv()[1:], "--allow-privileged=true"]


class Part:
    """A program of the cluster that is a client of its API."""

    ns = None  # its network: the test's

    def __init__(self, folder, name, argv, keep):
        self.name, self.log_path, self.keep = name, os.path.join(folder, f"{name}.log"), keep
        self.argv, self.proc = argv, None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.proc = procs.spawn(self.argv, ns=self.ns, stdin=subprocess.DEVNULL, stdout=log, stderr=log, keep=self.keep)

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def end(self):
        procs.end(self.proc)
        for left in re.findall(r"Using (/tmp/hollow-kubelet\.\d+) as root dir", self.log()):  # wherever TMPDIR is
            shutil.rmtree(left, ignore_errors=True)


class RealProxy(Part):
    """A kube-proxy in a network of its own, where it makes its rules; it reaches the API by a way into the test's."""

    def __init__(self, cluster, server, number, network):
        self.ns, self.way = network, Proxy(f"127.0.0.1:{server.port}", ns=network)
        config = cluster.identity.kubeconfig(f"https://{self.way.endpoint}", PROXY)
        super().__init__(cluster.folder, f"real-proxy-{number}", [
            PROGRAMS[4], f"--kubeconfig={config}", "--proxy-mode=nftables", f"--hostname-override={node_name(0)}", "--cluster-cidr=10.244.0.0/16",
            "--conntrack-max-per-core=0", "--conntrack-min=0", "--bind-address=127.0.0.1", "--nodeport-addresses=127.0.0.0/8", "--v=4"], cluster.keep)

    def rules(self):
        """Every rule, chain and element of a set that it made, without their order; but for one that it makes an hour late if it knew
        services before service CIDRs."""
        text = procs.run(["nft", "--stateless", "list", "ruleset"], ns=self.ns).stdout.decode()
        return sorted(part.strip() for part in re.split(r"[,\n]", text) if part.strip(" {}") and "unallocated ClusterIPs" not in part)

    def end(self):
        super().end()
        self.way.close()


class NodeCluster(KubeCluster):
    """KubeCluster with controllers and nodes. `tier` may read what nodes watch."""

    SERVER = NodeApiserver
    USERS = {**KubeCluster.USERS, "system:kube-controller-manager": "system:kube-controller-manager",
             "system:kube-scheduler": "system:kube-scheduler", PROXY: PROXY, **{node_user(i): "system:nodes" for i in range(MOST_NODES)}}
    READS = {"apiGroups": sorted({kind.group for kind in FOLLOWED}), "verbs": ["get", "list", "watch"],
             "resources": [kind.plural for kind in FOLLOWED]}

    def __init__(self, folder, etcd, n=1, keep=False, **kw):
        super().__init__(folder, etcd, n, keep=keep, **kw)
        self.folder, self.keep, self.parts, self.n_of = str(folder), keep, [], {"kubelet": 0, "proxy": 0}

    def start(self):
        super().start()
        made, url = self.identity, self.servers[0].url
        serving = ["--bind-address=127.0.0.1", "--leader-elect=false", f"--tls-cert-file={made.certs.path('server.pem')}",
                   f"--tls-private-key-file={made.certs.path('server.key')}", "--kube-api-qps=200", "--kube-api-burst=400"]
        self._begin("kube-controller-manager", [PROGRAMS[1], *serving, f"--secure-port={free_port()}",
                                                f"--kubeconfig={made.kubeconfig(url, 'system:kube-controller-manager')}",
                                                "--use-service-account-credentials=true", f"--root-ca-file={made.cacert}",
                                                f"--service-account-private-key-file={made.path('sa.key')}",
                                                "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"])
        self._begin("kube-scheduler", [PROGRAMS[2], *serving, f"--secure-port={free_port()}",
                                       f"--kubeconfig={made.kubeconfig(url, 'system:kube-scheduler')}"])
        account = "/api/v1/namespaces/default/serviceaccounts/default"  # without it no pod is admitted
        procs.wait_until(lambda: self.servers[0].call("GET", account).code == 200, 60, 0.2, "the service account of the pods")
        return self

    def _begin(self, name, argv):
        self._run(Part(self.folder, name, argv, self.keep))

    def _run(self, part):
        self.parts.append(part)
        part.start()

    def _add(self, kind, n, url, user):
        for i in range(self.n_of[kind], self.n_of[kind] + n):
            self._begin(f"{kind}-{i}", [PROGRAMS[3], f"--morph={kind}", f"--name={node_name(i)}", f"--kubelet-port={free_port()}",
                                        "--kubelet-read-only-port=0", "--use-host-image-service=false", "--v=4",
                                        f"--kubeconfig={self.identity.kubeconfig(url, user(i))}"])
        self.n_of[kind] += n

    def add_kubelets(self, n, url):
        """n more, with the API at that address."""
        self._add("kubelet", n, url, node_user)

    def add_proxies(self, n, url):
        self._add("proxy", n, url, lambda i: PROXY)

    def add_real_proxy(self, server, network):
        proxy = RealProxy(self, server, len(self.parts), network)
        self._run(proxy)
        return proxy

    def of_kind(self, kind):
        return [part for part in self.parts if part.name.startswith(f"{kind}-")]

    def kill(self):
        for part in reversed(self.parts):
            part.end()
        super().kill()


def deployment(name, replicas):
    labels = {"app": name}
    return DEPLOYMENTS.object("default", name, spec={
        "replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "none", "ports": [{"containerPort": 80}]}]}}})


def service(name, app, headless=False):
    return SERVICES.object("default", name, spec={"selector": {"app": app}, "ports": [{"port": 80}],
                                                  **({"clusterIP": "None"} if headless else {})})


class Churn(threading.Thread):
    """Scales deployments, deletes pods, makes and deletes services and config maps, until it is stopped."""

    def __init__(self, servers, rng, apps, replicas, rate):
        super().__init__(daemon=True)
        self.servers, self.rng, self.apps, self.replicas, self.rate = servers, rng, apps, replicas, rate
        self.done, self.n_services, self.is_over = 0, 0, threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(1 / self.rate):
            try:
                self.change(self.rng.choice(self.servers))
                self.done += 1
            except (OSError, http.client.HTTPException, ValueError):
                pass  # a server that is away

    def change(self, server):
        app, number = self.rng.choice(self.apps), self.rng.randrange(20)
        match self.rng.randrange(4):
            case 0:
                n = self.rng.randrange(self.replicas // 2, self.replicas + 1)
                scale(server, app, n)
            case 1:
                pods = server.call("GET", PODS.path("default"), {"labelSelector": f"app={app}", "limit": 5}, timeout=5).items
                if pods:
                    name = self.rng.choice(pods)["metadata"]["name"]
                    server.call("DELETE", PODS.path("default", name), {"gracePeriodSeconds": 0}, timeout=5)
            case 2:
                if server.call("DELETE", SERVICES.path("default", f"s{number}"), timeout=5).code == 404:
                    server.call("POST", SERVICES.path("default"), obj=service(f"s{number}", app, headless=number % 4 == 0), timeout=5)
            case 3:
                path, obj = MAPS.path("default", f"m{number}"), MAPS.object("default", f"m{number}", data={"n": str(self.done)})
                if server.call("PUT", path, obj=obj, timeout=5).code == 404:
                    server.call("POST", MAPS.path("default"), obj=obj, timeout=5)

    def stop(self):
        self.is_over.set()
        self.join(30)


def scale(server, app, n):
    answer = server.call("PATCH", DEPLOYMENTS.path("default", app), obj={"spec": {"replicas": n}}, timeout=10,
                         headers={"Content-Type": "application/merge-patch+json"})
    assert answer.code == 200, answer.body
