"""belfryd in front of API servers (kube_apiserver.py): followed resources are answered by it, the rest is relayed.

With BELFRY_TIER_STANDIN=1 an API server stands where the tier would: the tests that only ask are then judged themselves.
"""
import json
import os
import urllib.error
import urllib.request

import needs
import procs
import yaml
from client import binary
from kube import CRDS
from kube_apiserver import CRD_PROGRAM, PROGRAM, ApiServer, KubeApiserver, KubeCluster, version_of, why_none
from ports import free_port

STANDS_IN = os.environ.get("BELFRY_TIER_STANDIN") == "1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY_S = 60


class Type:
    """A resource of a Kubernetes API: `group` is empty for the core."""

    def __init__(self, plural, kind, group="", version="v1", namespaced=True, is_custom=False):
        self.plural, self.kind, self.group, self.version, self.namespaced = plural, kind, group, version, namespaced
        self.is_custom = is_custom

    def __repr__(self):
        return self.full_name

    @property
    def full_name(self):
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self):
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base(self):
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def gvr(self):
        """As tests/go/kubeinformer takes it."""
        return f"{self.group}/{self.version}/{self.plural}"

    def path(self, namespace=None, name=None):
        within = f"namespaces/{namespace}/" if namespace and self.namespaced else ""
        return f"{self.base}/{within}{self.plural}" + (f"/{name}" if name else "")

    def object(self, namespace, name, labels=None, **fields):
        metadata = {"name": name, **({"namespace": namespace} if self.namespaced else {}), **({"labels": labels} if labels else {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}


PODS = Type("pods", "Pod")
MAPS = Type("configmaps", "ConfigMap")
SERVICES = Type("services", "Service")
NODES = Type("nodes", "Node", namespaced=False)
SLICES = Type("endpointslices", "EndpointSlice", "discovery.k8s.io", "v1" if version_of() >= (1, 21) else "v1beta1")
WIDGETS = Type("widgets", "Widget", "demo.example.com", is_custom=True)
WIDGETS36 = Type("widgets", "Widget", KubeCluster.AGGREGATED, is_custom=True)
ALL_TYPES = (PODS, MAPS, SERVICES, NODES, SLICES, WIDGETS, WIDGETS36)


def define(server, kind):
    """A custom resource like widgets.yaml, of that group."""
    with open(os.path.join(CRDS, "widgets.yaml")) as f:
        crd = yaml.safe_load(f)
    crd["metadata"]["name"], crd["spec"]["group"] = kind.full_name, kind.group
    made = server.call("POST", DEFINITIONS, obj=crd)
    assert made.code in (201, 409), made.body


def wait_served(server, kind):
    procs.wait_until(lambda: server.call("GET", kind.path()).code == 200, 60, 0.2, f"{kind} are served")


class KubeTier(ApiServer):
    """One belfryd in this mode, and the place it lives in. `servers`: of which it follows the types."""

    def __init__(self, folder, servers, follow, flags=(), keep=False, identity=None):
        super().__init__(folder, identity or servers[0].identity, "belfryd.log", keep)
        self.servers, self.follow, self.flags = list(servers), list(follow), list(flags)
        self.admin_port, self.cache = free_port(), self._path("cache")
        self.token_file = self._path("token")
        with open(self.token_file, "w") as f:
            f.write(self.identity.tokens["tier"] + "\n")
        os.chmod(self.token_file, 0o600)

    def argv(self):
        certs = self.identity.certs
        return [binary("belfryd"), "--upstream-kube", ",".join(s.url for s in self.servers),
                "--upstream-cacert", self.identity.cacert, "--upstream-token-file", self.token_file,
                "--follow", ",".join(map(str, self.follow)), "--cache-dir", self.cache, "--name", os.path.basename(self.folder),
                "--listen", f"{self.url},cert={certs.path('server.pem')},key={certs.path('server.key')}",
                "--admin", f"http://127.0.0.1:{self.admin_port}", *self.flags]

    def admin(self, path, timeout=10):
        """(status, body) of the admin address."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def metrics(self):
        status, body = self.admin("/metrics")
        assert status == 200, body
        lines = (line.rsplit(" ", 1) for line in body.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def wait_ready(self):
        """Every resource that upstream has is ready."""
        procs.wait_until(self._is_ready, READY_S, 0.1, lambda: f"belfryd: {self.admin('/readyz?verbose')} {self.log()[-3000:]}")

    def _is_ready(self):
        assert self.proc.poll() is None, f"belfryd exited with {self.proc.returncode}: {self.log()[-3000:]}"
        status, body = self.admin("/debug/numbers")
        resources = json.loads(body).get("resources", []) if status == 200 else []
        return self.admin("/readyz")[0] == 200 or any(r["ready"] for r in resources) and all(
            r["ready"] or r["state"] == "absent" for r in resources)

    def assert_sound(self):
        crashed = [line for line in self.log().splitlines() if "Sanitizer" in line or "Assertion" in line]
        assert not crashed, crashed[:5]


def tier_of(folder, cluster, follow, servers=None, keep=False, **kw):
    """A tier in front of the cluster's API servers; by STANDS_IN one more of them."""
    if STANDS_IN:
        return KubeApiserver(folder, cluster.etcd.members[0].url, identity=cluster.identity, keep=keep)
    return KubeTier(folder, servers or cluster.servers, follow, keep=keep, **kw)


def needs_servers(crds=False):
    absent = why_none(PROGRAM, *([CRD_PROGRAM] if crds else []))
    if absent:
        needs.peer(absent)


def requests_of(server, kind):
    """verb -> how many requests for the type the API server has had, by its own metrics."""
    found = {}
    for name, value in server.metrics().items():
        if name.startswith("apiserver_request_total{") and f'resource="{kind.plural}"' in name and f'group="{kind.group}"' in name:
            verb = name.split('verb="')[1].split('"')[0]
            found[verb] = found.get(verb, 0) + int(value)
    return found


def watchers_of(server, kind):
    """How many watches of the type the API server has now, its own among them. (1.20 counts a watch of one name as a GET, and
    has another name for the number.)"""
    return sum(value for name, value in server.metrics().items()
               if name.startswith(("apiserver_longrunning_requests{", "apiserver_longrunning_gauge{"))
               and f'resource="{kind.plural}"' in name and f'group="{kind.group}"' in name and 'subresource=""' in name)
