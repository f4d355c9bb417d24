"""kube_apiservers: a whole kube-apiserver of the peers' folder on an etcd, a belfryd in front of it, and how objects are written there: for
bench/kubetier. Certificates, keys and tokens are made for each run."""
import http.client
import json
import os
import pathlib
import re
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import stage

READY_S = 120
NAMESPACE = "bench"
RBAC = "rbac.authorization.k8s.io"
FOLLOWED = ("endpointslices.discovery.k8s.io", "pods", "widgets.demo.example.com")
WIDGETS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.demo.example.com"},
           "spec": {"group": "demo.example.com", "scope": "Namespaced",
                    "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
BENCH_GROUP = "example.apiserver.k8s.io"  # of the objects of belfry-bench
BENCH_PATH, BENCH_PREFIX = f"/apis/{BENCH_GROUP}/v1/pods", f"/registry/{BENCH_GROUP}/pods/"
BENCH_PODS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
              "metadata": {"name": f"pods.{BENCH_GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a benchmark"}},
              "spec": {"group": BENCH_GROUP, "scope": "Namespaced",
                       "names": {"plural": "pods", "singular": "pod", "kind": "Pod", "listKind": "PodList"},
                       "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                           "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
SLICES = "/apis/discovery.k8s.io/v1beta1/endpointslices"
PODS = "/api/v1/pods"
WIDGET_PATH = "/apis/demo.example.com/v1/widgets"


class Identity:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.tokens = {"admin": secrets.token_hex(16), "tier": secrets.token_hex(16)}
        self.path("tokens.csv").write_text("".join(f'{token},{user},{user},"{"system:masters" if user == "admin" else user}"\n'
                                                   for user, token in self.tokens.items()))
        self.path("token").write_text(self.tokens["tier"])
        self.path("token").chmod(0o600)
        self.path("admin").write_text(self.tokens["admin"] + "\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.openssl("req", "-x509", *curve, "-days", "2", "-subj", "/CN=bench", "-keyout", "ca.key", "-out", "ca.pem")
        self.openssl("req", *curve, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
        self.path("ext").write_text("subjectAltName=IP:127.0.0.1\n")
        self.openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                     "-extfile", "ext", "-out", "server.pem")
        self.openssl("genrsa", "-out", "sa.key", "2048")
        self.openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        self.tls = ssl.create_default_context(cafile=self.path("ca.pem"))

    def path(self, name):
        return self.folder / name

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.folder, check=True, capture_output=True)


class Client:
    """One connection to an API server or a tier."""

    def __init__(self, identity, port, user="admin"):
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=identity.tls)
        self.token = identity.tokens[user]

    def call(self, method, path, obj=None, form="application/json", accept="application/json"):
        self.connection.request(method, path, None if obj is None else json.dumps(obj),
                                {"Authorization": f"Bearer {self.token}", "Content-Type": form, "Accept": accept})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def make(self, path, obj):
        code, body = self.call("POST", path, obj)
        if code not in (201, 409):
            raise stage.Failure(f"POST {path}: {code} {body[:200]!r}")

    def touch(self, path):
        """One change of one object."""
        code, body = self.call("PATCH", path, {"metadata": {"annotations": {"at": str(time.time_ns())}}}, "application/merge-patch+json")
        if code != 200:
            raise stage.Failure(f"PATCH {path}: {code} {body[:200]!r}")


def slice_of(i):
    addresses = [{"addresses": [f"10.1.{i % 250}.{n}"], "conditions": {"ready": True}} for n in range(5)]
    return {"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice", "metadata": {"name": f"s{i}"}, "addressType": "IPv4",
            "endpoints": addresses, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}


def pod_of(i, node):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}


def widget_of(i, size):
    return {"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": {"name": f"w{i:06}", "namespace": NAMESPACE, "uid": f"uid-{i}",
            "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 1}, "spec": {"text": "x" * size}}


class Stage(stage.Stage):
    """etcd, one kube-apiserver, and a belfryd when it is asked for."""

    def __init__(self, tools):
        self.admin = None
        super().__init__(tools, [])

    def start_apiserver(self):
        program = stage.peers() / "kube-apiserver"
        if not os.access(program, os.X_OK):
            raise stage.Failure("there is no kube-apiserver in the peers' folder")
        self.identity = Identity(f"{self.folder.name}/identity")
        made, self.port = self.identity, stage.free_port()
        argv = [str(program), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
                f"--etcd-servers=http://{self.processes['etcd'].address}", f"--tls-cert-file={made.path('server.pem')}",
                f"--tls-private-key-file={made.path('server.key')}", f"--token-auth-file={made.path('tokens.csv')}",
                f"--cert-dir={self.folder.name}/api", "--authorization-mode=RBAC", f"--service-account-key-file={made.path('sa.pub')}",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-signing-key-file={made.path('sa.key')}",
                "--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
                "--max-requests-inflight=8000", "--max-mutating-requests-inflight=2000", "--enable-priority-and-fairness=false"]
        self.api = self.processes["kube-apiserver"] = stage.Process("kube-apiserver", argv, f"127.0.0.1:{self.port}",
                                                                    f"{self.folder.name}/kube-apiserver.log")
        self.wait("kube-apiserver", lambda: Client(made, self.port).call("GET", "/readyz")[0] == 200)
        client = Client(made, self.port)
        client.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        client.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        reads = {"apiGroups": ["", "discovery.k8s.io", "demo.example.com", BENCH_GROUP], "verbs": ["get", "list", "watch"],
                 "resources": ["pods", "endpointslices", "widgets"]}
        client.make(f"/apis/{RBAC}/v1/clusterroles", {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "tier"}, "rules": [reads]})
        for role in ("tier", "system:auth-delegator"):
            client.make(f"/apis/{RBAC}/v1/clusterrolebindings", {
                "apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "tier-" + role.replace(":", "-")},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "tier"}]})
        self.wait("widgets", lambda: client.call("GET", WIDGET_PATH)[0] == 200)

    def start_tier(self, *flags, follow=FOLLOWED):
        """All of `follow` must be defined: a tier is not ready while one was never found."""
        if self.tools.belfryd is None:
            raise stage.Failure("belfryd: not built")
        made, self.tier_port, self.plain_port, admin = self.identity, stage.free_port(), stage.free_port(), stage.free_port()
        self.admin = f"127.0.0.1:{admin}"
        argv = [self.tools.belfryd, "--upstream-kube", f"https://127.0.0.1:{self.port}", "--upstream-cacert", str(made.path("ca.pem")),
                "--upstream-token-file", str(made.path("token")), "--follow", ",".join(follow),
                "--listen", f"https://127.0.0.1:{self.tier_port},cert={made.path('server.pem')},key={made.path('server.key')}",
                "--listen", f"http://127.0.0.1:{self.plain_port}",
                "--admin", f"http://{self.admin}", "--cache-dir", f"{self.folder.name}/cache", *flags]
        self.tier = self.processes["belfryd"] = stage.Process("belfryd", argv, f"127.0.0.1:{self.tier_port}", f"{self.folder.name}/belfryd.log")
        self.wait("belfryd", self.tier_is_ready)

    def stop_tier(self):
        self.processes.pop("belfryd").stop()

    def tier_is_ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.admin}/readyz", timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def wait(self, name, is_ready):
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            process = self.processes.get(name)
            if process and process.popen.poll() is not None:
                log = pathlib.Path(f"{self.folder.name}/{name}.log").read_text(errors="replace")
                raise stage.Failure(f"{name}: ended (exit {process.popen.returncode}): {log[-500:]}")
            try:
                if is_ready():
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise stage.Failure(f"{name}: not ready after {READY_S} s")

    def metrics(self):
        """(name, verb, resource, value) of each line of the API server's metrics that has a verb and a resource."""
        for line in Client(self.identity, self.port).call("GET", "/metrics", accept="*/*")[1].decode().splitlines():
            name, _, value = line.rpartition(" ")
            labels = dict(re.findall(r'[{,](verb|resource)="([^"]*)"', name))
            if len(labels) == 2:
                yield name.split("{")[0], labels["verb"], labels["resource"], float(value)

    def requests(self, resource):
        """verb -> requests for it that the API server has had, and "watchers" that it has now, by its own metrics."""
        found = {}
        for name, verb, of, value in self.metrics():
            if of == resource and name == "apiserver_request_total":
                found[verb] = found.get(verb, 0) + value
            elif of == resource and name == "apiserver_longrunning_gauge" and verb == "WATCH":
                found["watchers"] = found.get("watchers", 0) + value
        return found

    def asked(self):
        """kind -> requests of tiers that the API server has had: probes of followed resources, and reviews. All lists count as probes, so that
        no other client may list meanwhile."""
        followed, found = [name.split(".")[0] for name in FOLLOWED], {"probe": 0, "tokenreviews": 0, "subjectaccessreviews": 0}
        for name, verb, resource, value in self.metrics():
            if name == "apiserver_request_total" and verb == "LIST" and resource in followed:
                found["probe"] += value
            elif name == "apiserver_request_total" and verb == "POST" and resource in found:
                found[resource] += value
        return found
