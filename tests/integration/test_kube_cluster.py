"""The cluster of API servers that other tests follow (kube_apiserver.py): two kube-apiservers on one etcd, users with tokens and
RBAC, and the custom-resource half of 1.36 beside them. The servers are built outside this tree; without them this is skipped."""
import os

import kube_apiserver
import needs
import procs
import pytest
import yaml
from kube import CRDS, INITIAL_END, WIDGETS, brief

MAPS = "/api/v1/namespaces/prod/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def cluster_of_apis(tmp_path, cluster):
    absent = kube_apiserver.why_none(kube_apiserver.PROGRAM, kube_apiserver.CRD_PROGRAM)
    if absent:
        needs.peer(absent)
    made = kube_apiserver.KubeCluster(tmp_path / "kube", cluster, 2, crds=True).start()
    yield made
    made.kill()


def review(server, token):
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = server.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", obj=spec, user="tier")
    assert answer.code == 201, answer.body
    return answer.json["status"]


def is_allowed(server, user, verb, namespace):
    attributes = {"verb": verb, "resource": "configmaps", "namespace": namespace}
    spec = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes}}
    answer = server.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", obj=spec, user="tier")
    assert answer.code == 201, answer.body
    return answer.json["status"]["allowed"]


def custom_resources_of_1_36(server):
    with open(os.path.join(CRDS, "widgets.yaml")) as f:
        assert server.call("POST", DEFINITIONS, obj=yaml.safe_load(f)).code == 201
    procs.wait_until(lambda: server.call("GET", WIDGETS.path("prod")).code == 200, 60, 0.2, "widgets are served")
    made = server.call("POST", WIDGETS.path("prod"), obj=WIDGETS.object("prod", "w1", spec={"color": "red"}))
    assert made.code == 201, made.body
    assert server.call("GET", WIDGETS.path(), user="tier").names == ["w1"]
    assert server.call("GET", WIDGETS.path(), user="alice").code == 403
    assert server.call("GET", WIDGETS.path(), user="no token").code == 401
    events = server.watch(WIDGETS.path(), "", user="tier", sendInitialEvents="true", allowWatchBookmarks="true",
                          resourceVersionMatch="NotOlderThan")
    assert brief(next(events))[:2] == ("ADDED", "w1")
    assert next(events)["object"]["metadata"]["annotations"] == {INITIAL_END: "true"}


def test_servers_of_one_cluster_share_objects_users_and_rights(cluster_of_apis):
    first, second = cluster_of_apis.servers
    made = first.call("POST", MAPS, obj=config_map("a", k="1"), user="alice")
    assert made.code == 201, made.body
    assert second.call("GET", f"{MAPS}/a", user="tier").json["metadata"]["uid"] == made.json["metadata"]["uid"]
    events = second.watch(MAPS, made.rv, user="tier")
    assert first.call("DELETE", f"{MAPS}/a", user="alice").code == 200
    assert brief(next(events))[:2] == ("DELETED", "a")

    assert first.call("POST", MAPS, obj=config_map("b"), user="tier").code == 403
    assert first.call("GET", "/api/v1/secrets", user="tier").code == 403
    assert first.call("GET", "/api/v1/configmaps", user="alice").code == 403
    assert first.call("GET", "/api/v1/configmaps", user="no token").code == 401
    for server in (first, second):
        token = cluster_of_apis.identity.tokens["alice"]
        assert review(server, token)["user"]["username"] == "alice"
        assert not review(server, "no token").get("authenticated")
        assert is_allowed(server, "alice", "watch", "prod") and not is_allowed(server, "alice", "watch", "default")
    custom_resources_of_1_36(cluster_of_apis.crds)
