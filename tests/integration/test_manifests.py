"""packaging/kubernetes: what kustomize makes of it is accepted by a real API server, and its configurations run: central and edge
tiers with Secrets as kubelet lays them out, and certificates that are replaced."""
import os
import re
import shutil
import socket
import ssl

import pytest
import yaml

import kube_apiserver
import needs
import procs
from certs import Certs
from client import binary
from ports import free_port
from prometheus import ROOT, RULES

models = needs.module("kubernetes.client.models", "python3-kubernetes")
KUSTOMIZE = os.path.abspath(os.path.join(ROOT, "packaging", "kubernetes"))
TREE = ("central", "edge")
OVERLAYS = (*TREE, "kube")
# What the manifests use of the Prometheus operator's own definitions, which are thousands of lines
MONITOR = """{type: object, required: [selector, endpoints], properties: {
  jobLabel: {type: string}, selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}},
  endpoints: {type: array, items: {type: object, properties: {
    port: {type: string}, interval: {type: string}, scrapeTimeout: {type: string},
    relabelings: {type: array, items: {type: object, properties: {targetLabel: {type: string}, replacement: {type: string}}}}}}}}}"""
RULE = """{type: object, properties: {groups: {type: array, items: {type: object, required: [name], properties: {
  name: {type: string}, rules: {type: array, items: {type: object, required: [expr], properties: {
    alert: {type: string}, expr: {type: string}, for: {type: string}, labels: {type: object, additionalProperties: {type: string}},
    annotations: {type: object, additionalProperties: {type: string}}}}}}}}}}"""


def definition(kind, spec):
    plural = f"{kind.lower()}s"
    return yaml.safe_dump({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                 "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "properties": {"spec": yaml.safe_load(spec)}}}}]}}).encode()


@pytest.fixture(scope="module")
def kubectl():
    return procs.run(["bash", os.path.join(ROOT, "tools", "kubectl")], timeout=300).stdout.decode().strip()


@pytest.fixture(scope="module")
def rendered(kubectl):
    """overlay -> [object]"""
    return {overlay: render(kubectl, os.path.join(KUSTOMIZE, "overlays", overlay)) for overlay in OVERLAYS}


def render(kubectl, folder):
    return list(yaml.safe_load_all(procs.run([kubectl, "kustomize", folder]).stdout))


def one(objects, *kinds):
    found = [obj for obj in objects if obj["kind"] in kinds]
    assert len(found) == 1, f"{kinds}: {[obj['kind'] for obj in objects]}"
    return found[0]


def pod_of(objects):
    return one(objects, "Deployment", "DaemonSet")["spec"]["template"]["spec"]


def configuration(objects):
    return yaml.safe_load(one(objects, "ConfigMap")["data"]["belfryd.yaml"])


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def test_overlays_are_what_they_should_be(kubectl, rendered):
    assert one(rendered["edge"], "DaemonSet", "Deployment")["kind"] == "DaemonSet"
    assert one(rendered["central"], "DaemonSet", "Deployment")["kind"] == "Deployment"
    assert one(rendered["central"], "PodDisruptionBudget")["apiVersion"] == "policy/v1"
    assert one(rendered["edge"], "Service")["spec"]["internalTrafficPolicy"] == "Local"
    assert one(rendered["kube"], "DaemonSet", "Deployment")["kind"] == "Deployment"
    base = render(kubectl, os.path.join(KUSTOMIZE, "base"))
    assert sorted(obj["kind"] for obj in base) == ["ConfigMap", "Deployment", "Service", "ServiceAccount"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pod_is_restricted(rendered, overlay):
    """As Pod Security's level "restricted" asks, and more."""
    pod = pod_of(rendered[overlay])
    container, = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is (overlay == "kube"), "only this one asks something of the API server"
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert not pod.get("hostNetwork") and not [port for port in container["ports"] if "hostPort" in port]
    with open(os.path.join(ROOT, "VERSION")) as f:
        assert container["image"] == f"belfry:{f.read().strip()}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_time_to_end_is_longer_than_the_drain(rendered, overlay):
    drain_s = seconds(configuration(rendered[overlay])["drain"])
    assert pod_of(rendered[overlay])["terminationGracePeriodSeconds"] >= drain_s + 10


def test_what_is_followed_may_be_read(rendered):
    """And reviews may be asked for."""
    allowed = {f"{plural}.{group}" if group else plural for rule in one(rendered["kube"], "ClusterRole")["rules"]
               for group in rule["apiGroups"] for plural in rule["resources"] if {"get", "list", "watch"} == set(rule["verbs"])}
    assert set(configuration(rendered["kube"])["follow"]) == allowed
    bindings = [obj for obj in rendered["kube"] if obj["kind"] == "ClusterRoleBinding"]
    assert {b["roleRef"]["name"] for b in bindings} == {one(rendered["kube"], "ClusterRole")["metadata"]["name"], "system:auth-delegator"}
    account = one(rendered["kube"], "ServiceAccount")["metadata"]
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_choose_the_pods(rendered, overlay):
    labels = one(rendered[overlay], "Deployment", "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    for obj in rendered[overlay]:
        spec = obj.get("spec", {})
        selector = {"Service": spec.get("selector"), "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels"),
                    "PodDisruptionBudget": spec.get("selector", {}).get("matchLabels")}.get(obj["kind"], labels)
        assert selector == labels, f"{obj['kind']}: {selector}"
        if obj["kind"] == "ServiceMonitor":
            chosen = [s for s in rendered[overlay] if s["kind"] == "Service" and
                      spec["selector"]["matchLabels"].items() <= s["metadata"]["labels"].items()]
            assert [s["spec"]["ports"][0]["name"] for s in chosen] == [spec["endpoints"][0]["port"]] == ["admin"]
            assert chosen[0]["metadata"]["labels"][spec["jobLabel"]] == "belfry", "the job that the rules look for"


def with_component(tmp_path, overlay, component):
    """A kustomization of an operator's own."""
    folder = tmp_path / "kubernetes"
    if not folder.exists():
        shutil.copytree(KUSTOMIZE, folder)
    mine = tmp_path / f"my-{overlay}-{component}"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(yaml.safe_dump({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [f"../kubernetes/overlays/{overlay}"], "components": [f"../kubernetes/components/{component}"]}))
    return str(mine)


def test_alerts_are_those_of_the_rules(rendered):
    procs.run([os.path.join(ROOT, "tools", "prometheus-rule"), "--check"])
    with open(RULES) as f:
        assert one(rendered["central"], "PrometheusRule")["spec"] == yaml.safe_load(f)


def test_edge_can_be_monitored_too(kubectl, tmp_path):
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUSTOMIZE, folder)
    path = folder / "overlays" / "edge" / "kustomization.yaml"
    path.write_text(path.read_text().replace("# components:\n#   -", "components:\n  -"))
    objects = render(kubectl, str(path.parent))
    assert {"ServiceMonitor", "NetworkPolicy", "DaemonSet"} <= {obj["kind"] for obj in objects}
    names = [variable["name"] for variable in pod_of(objects)["containers"][0]["env"]]
    assert "BELFRYD_ADMIN" in names


def unknown_fields(value, kind, path=""):
    """Those that the types of Kubernetes 1.22, as python3-kubernetes has them, do not have."""
    many = re.fullmatch(r"(list\[|dict\(str, )(\w+)[\])]", kind)
    if many:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [name for key, item in items for name in unknown_fields(item, many[2], f"{path}.{key}")]
    model = getattr(models, kind, None)
    if model is None:
        return []
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    found = []
    for key, item in value.items():
        found += unknown_fields(item, types[key], f"{path}.{key}") if key in types else [f"{path}.{key}"]
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_fields_are_those_of_kubernetes(rendered, overlay):
    """Also of what an API server of 1.20 does not know: policy/v1, internalTrafficPolicy."""
    for obj in rendered[overlay]:
        if not obj["apiVersion"].startswith("monitoring.coreos.com/"):
            assert unknown_fields(obj, f"V1{obj['kind']}") == [], obj["kind"]
    wrong = one(rendered[overlay], "Service") if overlay == "edge" else one(rendered[overlay], "PodDisruptionBudget")
    assert unknown_fields({**wrong, "spec": {**wrong["spec"], "minimum": 1}}, f"V1{wrong['kind']}") == [".spec.minimum"]


# ---- a real API server ----

def apply(kubectl, server, namespace=None, **kw):
    return procs.run([kubectl, "--server", f"https://127.0.0.1:{server.port}", "--certificate-authority",
                      server.identity.cacert, "--token", server.token, "apply", "-o", "name", "-f", "-",
                      *(["--dry-run=server"] if namespace else [])], timeout=120, **kw)


def test_every_object_is_accepted_by_an_api_server(kubectl, cluster, tmp_path):
    if kube_apiserver.why_none():
        needs.peer(kube_apiserver.why_none())
    (tmp_path / "api").mkdir()
    server = kube_apiserver.KubeApiserver(tmp_path / "api", cluster.members[0].url).start()
    for kind, spec in (("ServiceMonitor", MONITOR), ("PrometheusRule", RULE)):
        apply(kubectl, server, input=definition(kind, spec))
    apply(kubectl, server, input=b"apiVersion: v1\nkind: Namespace\nmetadata: {name: belfry}")
    for plural in ("servicemonitors", "prometheusrules"):
        path = f"/apis/monitoring.coreos.com/v1/{plural}"
        procs.wait_until(lambda: server.call("GET", path).code == 200, 30, 0.2, f"{plural} are served")
    for overlay in OVERLAYS:
        objects = render(kubectl, with_component(tmp_path, overlay, "before-1.22"))
        for obj in objects:
            done = apply(kubectl, server, "belfry", input=yaml.safe_dump(obj).encode(), check=False)
            assert done.returncode == 0 and obj["metadata"]["name"] in done.stdout.decode(), f"{obj['kind']}: {done.stderr}"
        workload = one(objects, "Deployment", "DaemonSet")
        workload["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = 70000
        done = apply(kubectl, server, "belfry", input=yaml.safe_dump(workload).encode(), check=False)
        assert done.returncode != 0 and b"must be between 1 and 65535" in done.stderr, "the server has looked at the others, too"
    server.kill()


# ---- real tiers, by the rendered configurations ----

class Secret:
    """A folder as kubelet makes it: files are links into ..data, which is a link to the newest folder, replaced as a whole."""

    def __init__(self, folder):
        self.folder, self.n = str(folder), 0
        os.makedirs(self.folder)

    def put(self, **files):
        """Copies files: tls_crt=PATH is tls.crt."""
        self.n += 1
        newest = f"..{self.n}"
        os.mkdir(os.path.join(self.folder, newest))
        for name, source in files.items():
            name = name.replace("_", ".")
            shutil.copy(source, os.path.join(self.folder, newest, name))
            if self.n == 1:
                os.symlink(os.path.join("..data", name), os.path.join(self.folder, name))
        os.symlink(newest, os.path.join(self.folder, "..fresh"))
        os.replace(os.path.join(self.folder, "..fresh"), os.path.join(self.folder, "..data"))


def secret_of(folder, certs, name, authority="ca.pem"):
    made = Secret(folder)
    made.put(tls_crt=certs.path(f"{name}.pem"), tls_key=certs.path(f"{name}.key"), ca_crt=certs.path(authority))
    return made


def placed(objects, folder, replaced):
    """The configuration as a file, with the paths and addresses of this machine."""
    text = one(objects, "ConfigMap")["data"]["belfryd.yaml"].replace("/etc/belfry/", f"{folder}/")
    for old, new in replaced.items():
        assert old in text, f"{old} is not in {text}"
        text = text.replace(old, new)
    path = os.path.join(folder, "belfryd.yaml")
    with open(path, "w") as f:
        f.write(text)
    return path


def serial(port, certs):
    context = ssl.create_default_context(cafile=certs.path("ca.pem"))
    context.load_cert_chain(certs.path("client.pem"), certs.path("client.key"))
    with socket.create_connection(("127.0.0.1", port), 10) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
        return tls.getpeercert()["serialNumber"]


class Tier:
    """A belfryd with a file of configuration, an admin address of its own, and the pod's environment."""

    def __init__(self, folder, config, port, extra):
        self.folder, self.port, self.admin = folder, port, f"http://127.0.0.1:{free_port()}"
        self.argv = [binary("belfryd"), "--config", config, "--admin", self.admin]
        self.env = {"PATH": os.environ["PATH"], "BELFRYD_CACHE_DIR": os.path.join(folder, "cache"), **extra}

    def start(self):
        done = procs.run([*self.argv, "--check-config"], env=self.env, check=False)
        assert done.returncode == 0, done.stderr.decode()
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.proc = procs.spawn(self.argv, env=self.env, stdout=log, stderr=log)

    def log(self):
        with open(os.path.join(self.folder, "log")) as f:
            return f.read()

    def probe(self, command):
        """A probe of the pod: its program is this build's, and it asks this tier."""
        assert command[0] == "/usr/bin/belfryctl"
        return procs.run([binary("belfryctl"), *command[1:], "--admin", self.admin], check=False).returncode == 0


def test_rendered_configurations_make_a_tree(rendered, make_cluster, tmp_path):
    certs = Certs(tmp_path / "certs", client_auth=True)
    cluster = make_cluster(tls=certs)
    ports, tiers, listener = {overlay: free_port() for overlay in TREE}, {}, {}
    for overlay in TREE:
        folder = tmp_path / overlay
        folder.mkdir()
        listener[overlay] = secret_of(folder / "tls", certs, "server")
        secret_of(folder / "upstream", certs, "client")
        replaced = {"https://0.0.0.0:23790": f"https://127.0.0.1:{ports[overlay]}"}
        if overlay == "central":
            replaced |= {"https://etcd-0.etcd.etcd.svc:2379": cluster.members[0].url, "  - https://etcd-1.etcd.etcd.svc:2379\n": "",
                         "  - https://etcd-2.etcd.etcd.svc:2379\n": ""}
        else:
            replaced["https://belfry-central.belfry.svc:23790"] = f"https://127.0.0.1:{ports['central']}"
        tiers[overlay] = Tier(str(folder), placed(rendered[overlay], str(folder), replaced), ports[overlay],
                              {"BELFRYD_NAME": f"belfry-{overlay}-0"})
    for overlay in TREE:
        container, = pod_of(rendered[overlay])["containers"]
        alive, ready = (container[name]["exec"]["command"] for name in ("livenessProbe", "readinessProbe"))
        tier = tiers[overlay]
        assert not tier.probe(alive) and not tier.probe(ready)
        tier.start()
        procs.wait_until(lambda: tier.probe(ready), 30, 0.2, tier.log)
        assert tier.probe(alive)
    cluster.put("/manifests/key", "value")
    client = ["--cacert", certs.path("ca.pem"), "--cert", certs.path("client.pem"), "--key", certs.path("client.key")]
    get = [binary("belfryctl"), "--endpoints", f"https://127.0.0.1:{ports['edge']}", *client, "get", "/manifests/key"]
    assert procs.run(get).stdout == b"/manifests/key\nvalue\n"
    # kubelet replaces a changed Secret
    for overlay in TREE:
        before = serial(ports[overlay], certs)
        certs.renew()
        listener[overlay].put(tls_crt=certs.path("server.pem"), tls_key=certs.path("server.key"), ca_crt=certs.path("ca.pem"))
        procs.wait_until(lambda: serial(ports[overlay], certs) != before, 20, 0.2, tiers[overlay].log)
        assert "event=tls_reloaded" in tiers[overlay].log()
    assert procs.run(get[:3] + client + get[-2:]).stdout == b"/manifests/key\nvalue\n"
    for tier in tiers.values():
        procs.end(tier.proc)
