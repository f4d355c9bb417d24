"""belfryd in front of kube-apiservers: what it follows it answers itself, by the rights of each client; the rest is relayed. It
starts warm, changes servers, drains, and finds resources that are defined later. The large comparisons are in the other
test_kube_tier_*.py. The servers are built outside this tree; without them this is skipped."""
import json
import os
import signal
import time

import procs
import pytest
from client import binary
from etcd import Cluster
from kube import rv
from kube_apiserver import KubeCluster, version_of
from kube_tier import (DEFINITIONS, MAPS, PODS, SERVICES, STANDS_IN, WIDGETS, KubeTier, Type, define, needs_servers, requests_of,
                       wait_served)
from test_kube_cluster import config_map

LISTED = {"resourceVersion": 0}
PROD = MAPS.path("prod")


class Bed:
    """Two API servers, and a tier in front of them."""

    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 2, keep=True).start()
        self.api = self.cluster.servers[0]
        self.tier = KubeTier(folder / "tier", self.cluster.servers, (MAPS, PODS, SERVICES, WIDGETS), ("--drain", "4s"), keep=True)

    def close(self):
        if self.tier.proc and self.tier.proc.poll() is None:
            self.tier.kill()
        self.cluster.kill()
        self.etcd.close()


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers()
    if STANDS_IN:
        pytest.skip("it is about belfryd alone")
    made = Bed(tmp_path_factory.mktemp("kube"))
    yield made
    made.close()


@pytest.fixture
def tier(bed):
    if bed.tier.proc is None or bed.tier.proc.poll() is not None:
        bed.tier.start()
    yield bed.tier
    bed.tier.assert_sound()


def stop(tier):
    os.kill(tier.proc.pid, signal.SIGTERM)
    assert tier.proc.wait(40) == 0, tier.log()[-2000:]


def resource(tier, kind):
    status, body = tier.admin("/debug/numbers")
    assert status == 200, body
    return next(r for r in json.loads(body)["resources"] if r["name"] == kind.full_name)


def put(server, name, **data):
    """Returns its version."""
    made = server.call("POST", PROD, obj=config_map(name, **data), user="alice")
    if made.code == 409:
        made = server.call("PUT", f"{PROD}/{name}", obj=config_map(name, **data), user="alice")
    assert made.code in (200, 201), made.body
    return rv(made.json)


def sees(tier, version):
    """The tier has this version of the config maps."""
    procs.wait_until(lambda: resource(tier, MAPS)["resource_version"] >= version, 20, 0.05, f"version {version}")


def test_what_is_followed_is_answered_here(bed, tier):
    version = put(tier, "one", k="1")  # relayed, with alice's credential
    sees(tier, version)
    before = requests_of(bed.api, MAPS)
    listed = tier.call("GET", PROD, LISTED, user="alice")
    assert [o["metadata"]["name"] for o in listed.json["items"]] == ["one"], listed.body
    assert tier.call("GET", f"{PROD}/one", LISTED, user="alice").json["data"] == {"k": "1"}
    events = tier.watch(PROD, version, user="alice")
    put(bed.api, "one", k="2")
    event = next(events)
    assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"k": "2"})
    events.close()
    more = {verb: n - before.get(verb, 0) for verb, n in requests_of(bed.api, MAPS).items() if n != before.get(verb, 0)}
    assert not {"GET", "LIST", "WATCH"} & set(more), f"clients of the tier cost upstream {more}"


def test_each_client_has_its_own_rights(tier):
    assert tier.call("GET", MAPS.path(), LISTED, user="tier").code == 200
    refused = tier.call("GET", MAPS.path(), LISTED, user="alice")
    assert refused.code == 403 and 'User "alice" cannot list resource "configmaps"' in refused.json["message"]
    assert tier.call("GET", PROD, LISTED, user="no token").code == 401
    watched = tier.call("GET", MAPS.path(), {"watch": 1, **LISTED}, user="alice")
    assert watched.code == 403, watched.body


def test_the_rest_is_relayed(tier):
    assert tier.call("GET", PROD, user="alice").json["kind"] == "ConfigMapList"  # consistent
    assert tier.call("GET", "/api/v1/namespaces").code == 200
    assert tier.call("GET", "/api/v1/namespaces", user="alice").code == 403
    assert tier.call("GET", "/version").json["minor"] == str(version_of()[1])


def test_it_counts_by_resource(tier):
    assert tier.call("GET", PROD, LISTED, user="alice").code == 200
    metrics = tier.metrics()
    for kind in (MAPS, PODS, SERVICES):
        assert metrics[f'belfry_resource_ready{{resource="{kind}"}}'] == 1
        assert metrics[f'belfry_resource_watches_total{{resource="{kind}"}}'] >= 1
    assert metrics[f'belfry_resource_ready{{resource="{WIDGETS}"}}'] == 0
    assert metrics['belfry_reviews_total{kind="access"}'] > 0
    assert resource(tier, WIDGETS)["state"] == "absent"
    status, body = tier.admin("/readyz")  # it was named, and is not there
    assert status == 503 and f"{WIDGETS} is not followed yet: upstream does not have the resource" in body, body


def ranges(tier):
    status, body = tier.admin("/debug/watchers")
    assert status == 200, body
    return sorted(row["range"] for row in json.loads(body)["rows"])


def test_watchers_of_every_resource_are_shown(tier):
    state = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watches = [tier.watch(path, 0, user="tier", **state) for path in (MAPS.path(), PODS.path(), PROD)]
    for events in watches:
        assert next(events)["type"] in ("ADDED", "BOOKMARK")
    expected = ["configmaps -A", "configmaps -n prod", "pods -A"]
    assert set(expected) <= set(ranges(tier))
    rows = json.loads(tier.admin("/debug/watchers")[1])["rows"]
    assert rows and all(row["identity"].startswith("user:") for row in rows), "a review names the user"
    shown = procs.run([binary("belfryctl"), "top", "--once", "--admin", f"http://127.0.0.1:{tier.admin_port}"], text=True).stdout
    assert "configmaps -n prod" in shown and "token:" not in shown, shown
    for events in watches:
        events.close()


def test_a_restart_is_warm_and_watches_go_on(bed, tier):
    version = put(bed.api, "warm", k="1")
    sees(tier, version)
    stop(tier)
    later = put(bed.api, "warm", k="2")
    tier.start()
    sees(tier, later)
    assert resource(tier, MAPS)["listings"] == 0, tier.log()[-3000:]
    event = next(tier.watch(PROD, version, user="alice"))
    assert (event["type"], rv(event["object"])) == ("MODIFIED", later)


def test_another_server_is_asked_when_one_is_gone(bed, tier):
    version = put(bed.api, "moved", k="1")
    sees(tier, version)
    events = tier.watch(PROD, version, user="alice", seconds=60)
    bed.cluster.servers[0].kill()
    try:
        last = put(bed.cluster.servers[1], "moved", k="2")
        assert rv(next(events)["object"]) == last
        sees(tier, last)
        assert resource(tier, MAPS)["listings"] <= 1
    finally:
        bed.cluster.servers[0].start()


def test_a_resource_that_is_defined_later_is_found(bed, tier):
    define(bed.api, WIDGETS)
    procs.wait_until(lambda: resource(tier, WIDGETS)["ready"] == 1, 60, 0.2, lambda: f"widgets: {resource(tier, WIDGETS)}")
    listed = tier.call("GET", WIDGETS.path(), LISTED)
    assert (listed.code, listed.json["kind"]) == (200, "WidgetList")
    assert tier.admin("/readyz") == (200, "ok\n")


def test_a_resource_that_is_misspelt_is_not_ready(bed, tmp_path):
    tier = KubeTier(tmp_path, bed.cluster.servers, ["pod", "nosuch.example.com", "deployment.apps"])
    tier.start(wait=False)
    try:
        procs.wait_until(lambda: tier.log().count("event=resource_absent") == 3, 30, 0.1, tier.log)
        status, body = tier.admin("/readyz")
        assert status == 503 and "pod is not followed yet: upstream does not have the resource: did you mean pods?" in body, body
        assert "did you mean deployments.apps?" in tier.log()
    finally:
        tier.kill()


def test_a_definition_that_is_deleted_is_relayed(bed, tier, soak):
    procs.wait_until(lambda: resource(tier, WIDGETS)["ready"] == 1, 60, 0.2, lambda: f"widgets: {resource(tier, WIDGETS)}")
    assert bed.api.call("DELETE", f"{DEFINITIONS}/{WIDGETS.full_name}").code == 200
    procs.wait_until(lambda: tier.call("GET", WIDGETS.path(), LISTED).code == 404, 60, 0.5, lambda: f"widgets: {resource(tier, WIDGETS)}")
    assert tier.admin("/readyz")[0] == 200
    assert resource(tier, WIDGETS)["state"] == "absent"
    if soak:
        define(bed.api, WIDGETS)
        procs.wait_until(lambda: resource(tier, WIDGETS)["ready"] == 1, 120, 0.2, lambda: f"widgets: {resource(tier, WIDGETS)}")
        assert tier.call("GET", WIDGETS.path(), LISTED).json["kind"] == "WidgetList"


def many_types(api, n):
    """n custom resources, which the API server has after a while."""
    kinds = [Type(f"things{i}", f"Thing{i}", "many.example.com", is_custom=True) for i in range(n)]
    version = {"name": "v1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    for kind in kinds:
        names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
        made = api.call("POST", DEFINITIONS, obj={
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": kind.full_name},
            "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}})
        assert made.code in (201, 409), made.body
    for kind in (kinds[0], kinds[-1]):
        wait_served(api, kind)
    return kinds


def test_many_resources_are_followed_by_one_process(bed, tmp_path, soak, figure):
    kinds = many_types(bed.api, 198 if soak else 20)
    followed = [MAPS, PODS, *kinds]
    flags = [word for kind in followed[50:] for word in ("--follow", str(kind))]
    tier = KubeTier(tmp_path, bed.cluster.servers, followed[:50], ("--memory-bytes", "512MiB", "--log-bytes", "64MiB", *flags))
    with open(tier.token_file, "w") as f:
        f.write(bed.cluster.identity.tokens["admin"])  # who may read all of them
    began = time.monotonic()
    tier.start()
    try:
        figure("kube_tier.ready_s", time.monotonic() - began, f"s until {len(followed)} resources are ready")
        figure("kube_tier.rss_mb", procs.rss_bytes(tier.proc.pid) >> 20, f"MB with {len(followed)} resources")
        last = kinds[-1]
        events = tier.watch(last.path(), 0, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
        assert next(events)["type"] == "BOOKMARK"
        made = bed.api.call("POST", last.path("prod"), obj=last.object("prod", "one"))
        assert made.code == 201, made.body
        assert rv(next(events)["object"]) == made.rv
        assert all(resource(tier, kind)["listings"] == 1 for kind in (MAPS, kinds[0], last))
        gone = bed.api.call("DELETE", last.path("prod", "one"))
        assert gone.code == 200 and next(events)["type"] == "DELETED"
    finally:
        stop(tier)
    tier.assert_sound()


def test_sighup_and_drain(bed, tier):
    sees(tier, put(bed.api, "drained", k="1"))
    os.kill(tier.proc.pid, signal.SIGHUP)
    procs.wait_until(lambda: "event=reloaded" in tier.log() or "event=reload" in tier.log(), 10, 0.1, "reloaded")
    events = tier.watch(PROD, 0, user="alice", seconds=60)
    assert next(events)["type"] == "ADDED"
    os.kill(tier.proc.pid, signal.SIGTERM)
    procs.wait_until(lambda: tier.admin("/readyz")[0] == 503 or tier.proc.poll() is not None, 10, 0.05, "it is not ready")
    assert [e["type"] for e in events if e["type"] == "ERROR"] == []  # a clean end
    assert tier.proc.wait(40) == 0
