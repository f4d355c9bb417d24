"""Field selectors in front of API servers: what the tier selects by itself is what the API server selects, and what it does not know
is relayed, counted and logged. The servers are built outside this tree; without them this is skipped."""
import base64
import itertools
import re
import urllib.parse

import procs
import pytest
from etcd import Cluster
from kube import rv
from kube_apiserver import KubeCluster, version_of
from kube_tier import DEFINITIONS, NODES, PODS, SERVICES, STANDS_IN, WIDGETS36, KubeTier, Type, define, needs_servers, wait_served

EVENTS = Type("events", "Event")
NEW_EVENTS = Type("events", "Event", "events.k8s.io")
NAMESPACES = Type("namespaces", "Namespace", namespaced=False)
SECRETS = Type("secrets", "Secret")
CONTROLLERS = Type("replicationcontrollers", "ReplicationController")
JOBS = Type("jobs", "Job", "batch")
CRON_JOBS = Type("cronjobs", "CronJob", "batch", "v1beta1")
SIGNINGS = Type("certificatesigningrequests", "CertificateSigningRequest", "certificates.k8s.io", namespaced=False)
APISERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
AT_0 = "resourceVersion=0"
COUNTED = re.compile(r'belfry_kube_relayed_fields_total\{resource="([^"]+)",field="([^"]+)"\}')

# Of each type: by which fields the tier selects at a server of 1.20, with values; and what it must leave to the server.
IS_NEW = version_of() >= (1, 31)
FIELDS = {
    PODS: {"spec.nodeName": ["n1"], "spec.host": ["n1"], "spec.restartPolicy": ["Always", "Never"], "status.phase": ["Pending"],
           "spec.schedulerName": ["default-scheduler", "other"], "spec.serviceAccountName": ["s"], "status.podIP": ["10.0.0.7"],
           "status.podIPs": ["10.0.0.7"], "status.nominatedNodeName": ["n1"], "metadata.namespace": ["default"]},
    NODES: {"spec.unschedulable": ["true", "false"], "metadata.name": ["n1"]},
    NAMESPACES: {"status.phase": ["Active"], "metadata.name": ["default"]},
    SECRETS: {"type": ["Opaque", "example.com/x"]},
    SERVICES: {"metadata.name": ["plain"], "metadata.namespace": ["default"]},
    CONTROLLERS: {"status.replicas": ["0", "2"]},
    EVENTS: {"involvedObject.kind": ["Pod"], "involvedObject.namespace": ["default"], "involvedObject.name": ["a"], "reason": ["Old", "New"],
             "involvedObject.uid": ["u"], "involvedObject.apiVersion": ["v1"], "involvedObject.resourceVersion": ["7"],
             "involvedObject.fieldPath": ["f"], "reportingComponent": ["reporter"], "source": ["reporter", "component"], "type": ["Normal"]},
    NEW_EVENTS: {"regarding.kind": ["Pod"], "regarding.namespace": ["default"], "regarding.name": ["a"], "regarding.uid": ["u"],
                 "regarding.apiVersion": ["v1"], "regarding.resourceVersion": ["7"], "regarding.fieldPath": ["f"], "reason": ["Old", "New"],
                 "reportingController": ["reporter"], "type": ["Normal"]},
    JOBS: {"status.successful": ["0", "1"]},
    SIGNINGS: {"spec.signerName": ["example.com/a", "example.com/b"]},
}
LEFT = {PODS: ["spec.hostNetwork", "spec.bogus"], NODES: ["metadata.namespace"], NAMESPACES: ["metadata.namespace"], SIGNINGS: ["metadata.namespace"],
        EVENTS: ["regarding.kind"], NEW_EVENTS: ["source", "involvedObject.kind"]}
if IS_NEW:
    LEFT[PODS].remove("spec.hostNetwork")
    FIELDS[PODS]["spec.hostNetwork"] = ["true", "false"]
    FIELDS[SERVICES] |= {"spec.clusterIP": ["None"], "spec.type": ["ClusterIP", "NodePort"]}
else:
    FIELDS[CRON_JOBS] = {"status.successful": ["0"]}
    LEFT[SERVICES] = ["spec.clusterIP", "spec.type"]


def made(server, kind, obj, status=None):
    answer = server.call("POST", kind.path("default"), obj=obj)
    assert answer.code == 201, answer.body
    if status:
        patched = server.call("PATCH", f"{kind.path('default', obj['metadata']['name'])}/status", obj={"status": status},
                              headers={"Content-Type": "application/merge-patch+json"})
        assert patched.code == 200, patched.body


def signing_request(folder):
    key, out = folder / "csr.key", folder / "csr.pem"
    procs.run(["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-subj", "/CN=x", "-out", str(out)])
    return base64.b64encode(out.read_bytes()).decode()


def fill(server, folder):
    """Two or three objects of each type, which differ in every field."""
    containers = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": containers}
    job = {"template": {"spec": {**containers, "restartPolicy": "Never"}}}
    made(server, NODES, NODES.object(None, "n1"))
    made(server, NODES, NODES.object(None, "n2", spec={"unschedulable": True}))
    made(server, PODS, PODS.object("default", "a", spec=containers))
    made(server, PODS, PODS.object("default", "b", spec={**containers, "nodeName": "n1", "restartPolicy": "Never", "hostNetwork": True,
                                                         "serviceAccountName": "s", "schedulerName": "other"}),
         {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]})
    made(server, PODS, PODS.object("default", "c", spec=containers), {"nominatedNodeName": "n1"})
    made(server, SECRETS, SECRETS.object("default", "a"))
    made(server, SECRETS, SECRETS.object("default", "b", type="example.com/x"))
    made(server, SERVICES, SERVICES.object("default", "plain", spec={"ports": [{"port": 80}]}))
    made(server, SERVICES, SERVICES.object("default", "headless", spec={"ports": [{"port": 80}], "clusterIP": "None"}))
    for name, status in (("a", None), ("b", {"replicas": 2})):
        made(server, CONTROLLERS, CONTROLLERS.object("default", name, spec={"replicas": 0, "selector": {"a": "b"}, "template": template}), status)
    for name, status in (("a", None), ("b", {"succeeded": 1})):
        made(server, JOBS, JOBS.object("default", name, spec=job), status)
    if not IS_NEW:
        made(server, CRON_JOBS, CRON_JOBS.object("default", "a", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}))
    about = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u", "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "f"}
    made(server, EVENTS, EVENTS.object("default", "old", involvedObject=about, reason="Old", type="Normal", source={"component": "component"}))
    made(server, EVENTS, EVENTS.object("default", "bare", involvedObject={"namespace": "default"}))
    made(server, NEW_EVENTS, NEW_EVENTS.object("default", "new", regarding={**about, "name": "b"}, reason="New", type="Warning", action="act",
                                               reportingController="reporter", reportingInstance="r-1", eventTime="2026-01-01T00:00:00.000000Z"))
    asked = signing_request(folder)
    for name in "ab":
        made(server, SIGNINGS, SIGNINGS.object(None, name, spec={"request": asked, "signerName": f"example.com/{name}", "usages": ["client auth"]}))


class Bed:
    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 1, crds=True, keep=True).start()
        self.api, self.folder = self.cluster.servers[0], folder
        self.tiers = []

    def tier(self, name, servers, follow, user="admin"):
        """`user`: whose token the tier has."""
        tier = KubeTier(self.folder / name, servers, follow, keep=True)
        with open(tier.token_file, "w") as f:
            f.write(self.cluster.identity.tokens[user] + "\n")
        self.tiers.append(tier)
        return tier.start()

    def close(self):
        for tier in self.tiers:
            tier.kill()
            tier.assert_sound()
        self.cluster.kill()
        self.etcd.close()


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers(crds=True)
    if STANDS_IN:
        pytest.skip("it is about belfryd alone")
    made_bed = Bed(tmp_path_factory.mktemp("kube"))
    yield made_bed
    made_bed.close()


def listed(server, kind, selector="", query=AT_0):
    """(status, names) of what it selects."""
    query += f"&fieldSelector={urllib.parse.quote(selector)}" if selector else ""
    answer = server.call("GET", f"{kind.path()}?{query}")
    return answer.code, sorted(o["metadata"]["name"] for o in answer.json.get("items", []))


def versions(server, kind, query=""):
    return sorted((o["metadata"]["name"], rv(o)) for o in server.call("GET", f"{kind.path()}?{query}").json["items"])


def relayed(tier):
    """(resource, field) -> how many requests."""
    counted = ((COUNTED.fullmatch(name), value) for name, value in tier.metrics().items())
    return {match.groups(): int(value) for match, value in counted if match}


def test_built_in_types_are_selected_as_the_api_server_does(bed):
    fill(bed.api, bed.folder)
    tier = bed.tier("builtin", bed.cluster.servers, list(FIELDS))
    for kind in FIELDS:
        procs.wait_until(lambda kind=kind: versions(tier, kind, AT_0) == versions(bed.api, kind), 30, 0.1, f"{kind}")
    different = []
    for kind, fields in FIELDS.items():
        found = set()
        for field, values in fields.items():
            for op, value in itertools.product(("=", "!="), [*values, "", "none"]):
                real, ours = (listed(server, kind, f"{field}{op}{value}") for server in (bed.api, tier))
                different += [(kind, field, op, value, real, ours)] if real != ours or real[0] != 200 else []
                found.add(str(real))
        assert len(found) > 1 or kind is CRON_JOBS, f"{kind}: every selector has the same objects"
    assert not different, different
    assert relayed(tier) == {}, "the tier has asked the API server"


def test_what_the_server_does_not_know_is_relayed_and_told(bed):
    tier = next(t for t in bed.tiers if t.folder.endswith("builtin"))
    expected = {}
    for kind, fields in LEFT.items():
        for field in fields:
            assert listed(bed.api, kind, f"{field}!=x")[0] == 400
            for _ in range(2):
                assert listed(tier, kind, f"{field}!=x") == listed(bed.api, kind, f"{field}!=x")
            assert tier.call("GET", f"{kind.path()}?watch=1&{AT_0}&fieldSelector={field}%3Dx").code == 400
            expected[str(kind), field] = 3
    assert relayed(tier) == expected
    told = [line for line in tier.log().splitlines() if "selector_relayed" in line]
    assert len(told) == len(expected) and all("each such watch is one at the API server" in line for line in told), told


@pytest.fixture(scope="module")
def widgets(bed):
    """Custom resources of 1.36 with their definitions behind the API server, which passes requests for both on."""
    crds, service = bed.cluster.crds, f"{APISERVICES}/v1.apiextensions.k8s.io"
    define(crds, WIDGETS36)
    wait_served(crds, WIDGETS36)
    bed.cluster.aggregate()
    own = bed.api.call("GET", service).json
    aggregated = bed.api.call("GET", f"{APISERVICES}/v1.{bed.cluster.AGGREGATED}").json["spec"]
    own["spec"] |= {key: aggregated[key] for key in ("service", "insecureSkipTLSVerify")}
    assert bed.api.call("PUT", service, obj=own).code == 200
    procs.wait_until(lambda: bed.api.call("GET", f"{DEFINITIONS}/{WIDGETS36.full_name}").code == 200, 30, 0.1, "definitions of 1.36")
    wait_served(bed.api, WIDGETS36)
    for name, color, size in (("a", "red", 1), ("b", "blue", 2), ("c", None, 2)):
        spec = {"size": size, **({"color": color} if color else {})}
        answer = crds.call("POST", WIDGETS36.path("default"), obj=WIDGETS36.object("default", name, spec=spec))
        assert answer.code == 201, answer.body


def test_a_custom_resource_is_selected_by_the_fields_of_its_definition(bed, widgets):
    tier, crds = bed.tier("definition", bed.cluster.servers, [WIDGETS36]), bed.cluster.crds
    for selector in ("spec.color=red", "spec.color!=red", "spec.color=", "spec.size=2", "spec.size!=2", "spec.color=blue,spec.size=2",
                     "spec.nodeName=", "metadata.name=a"):
        assert listed(tier, WIDGETS36, selector) == listed(crds, WIDGETS36, selector), selector
    assert relayed(tier) == {}
    assert listed(tier, WIDGETS36, "spec.region=x")[0] == 400
    assert relayed(tier) == {(str(WIDGETS36), "spec.region"): 1}


def test_a_definition_that_changes_changes_what_is_selected(bed, widgets):
    tier, crds = next(t for t in bed.tiers if t.folder.endswith("definition")), bed.cluster.crds
    path = f"{DEFINITIONS}/{WIDGETS36.full_name}"
    changed = crds.call("GET", path).json
    changed["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.color"}]
    watching = tier.watch(WIDGETS36.path(), 0)
    assert {next(watching)["object"]["metadata"]["name"] for _ in range(3)} == {"a", "b", "c"}
    assert crds.call("PUT", path, obj=changed).code == 200
    assert all(event["type"] == "ERROR" for event in watching)  # it ends, as at the API server, whose cache begins anew
    procs.wait_until(lambda: listed(tier, WIDGETS36, "spec.size=2")[0] == 400, 30, 0.2, "the field is not selectable any more")
    assert listed(tier, WIDGETS36, "spec.color=red") == (200, ["a"])
    assert (str(WIDGETS36), "spec.color") not in relayed(tier)


def test_without_the_right_to_the_definition_selectors_are_relayed(bed, widgets):
    tier = bed.tier("no-right", bed.cluster.servers, [WIDGETS36], user="tier")
    assert listed(tier, WIDGETS36, "spec.color=red") == (200, ["a"])
    assert relayed(tier) == {(str(WIDGETS36), "spec.color"): 1}
