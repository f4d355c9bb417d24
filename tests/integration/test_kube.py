"""Clients of Kubernetes' API that others wrote, unmodified, and the objects that are in etcd: kubectl,
python3-kubernetes, client-go's and client-node's informers."""
import http.server
import json
import threading
import time
from types import SimpleNamespace

import needs
import procs
import pytest
import yaml
from client import binary
from kube import (CONFIGS, PODS, WIDGETS, ZONES, belfryd_only, brief, etcd_with_a_past, fingerprint, name, pod, rv,
                  widget)
from kube_clients import Informers, Kubectl

kubernetes = needs.module("kubernetes", "python3-kubernetes")
import kubernetes.watch  # noqa: E402

pytest_plugins = ["kube_fixtures"]

PODS_NAME = PODS.full_name  # "pods" alone may be somebody else's


@pytest.fixture
def kubectl(kube, tmp_path):
    return Kubectl(kube.url, tmp_path, namespace="prod")


# ---- the tutorial

@belfryd_only
def test_a_value_that_is_no_object_is_seen_by_kubectl(kube, kubectl):
    """From an empty etcd, with an unmodified CustomResourceDefinition: docs/kubernetes.md."""
    watch = kubectl.spawn("get", "configs", "-n", "prod", "-w")
    time.sleep(1)
    kube.cluster.ctl("put", "/config/prod/web", '{"replicas":3}')
    assert watch.line().split() == ["NAME", "REPLICAS"]
    assert watch.line().split() == ["web", "3"]
    kube.cluster.ctl("put", "/config/prod/web", '{"replicas":4}')
    assert watch.line().split() == ["web", "4"]
    kube.cluster.ctl("put", "/config/staging/web", '{"replicas":1}')
    watch.nothing()
    watch.close()
    assert kubectl.rows("get", "configs") == [["NAME", "REPLICAS"], ["web", "4"]]
    assert kubectl.rows("get", "configs", "-A") == [["NAMESPACE", "NAME", "REPLICAS"], ["prod", "web", "4"],
                                                   ["staging", "web", "1"]]
    got = kubectl.json("get", "configs", "web")
    assert (got["kind"], got["apiVersion"], got["spec"]) == ("Config", "demo.example.com/v1", {"replicas": 4})
    assert (got["metadata"]["name"], got["metadata"]["namespace"]) == ("web", "prod") and got["metadata"]["uid"]


@belfryd_only
def test_wrapped_values_keep_their_uid_until_they_are_made_anew(kube):
    def uid():
        return kube.get(CONFIGS.path("prod", "web")).json["metadata"]["uid"]
    kube.store.put(b"/config/prod/web", b'{"replicas":1}')
    first = uid()
    kube.store.put(b"/config/prod/web", b'{"replicas":2}')
    assert uid() == first
    kube.store.delete(b"/config/prod/web")
    kube.store.put(b"/config/prod/web", b'{"replicas":2}')
    assert uid() != first


@belfryd_only
def test_what_cannot_be_wrapped_is_left_out_and_counted(kube):
    """Keys that do not fit the template or are no valid names; values that are no JSON objects."""
    skipped, undecodable = kube.counted("skipped"), kube.counted("undecodable")
    for each, value in {"a": b'{"x":1}', "b": b' { "y" : [1, 2] } ', "c": b"{}"}.items():
        kube.store.put(b"/config/prod/" + each.encode(), value)
    for key in (b"/config/prod", b"/config/prod/x/y", b"/config/prod/UPPER", b"/config/Bad/x", b"/config/prod/"):
        kube.store.put(key, b"{}")
    for i, value in enumerate((b"{", b"[1,2]", b'"text"', b"17", b"null", b"", b"k8s\0\n")):
        kube.store.put(f"/config/prod/broken{i}".encode(), value)
    items = kube.list(CONFIGS).items
    assert [(name(i), i["spec"]) for i in items] == [("a", {"x": 1}), ("b", {"y": [1, 2]}), ("c", {})]
    assert kube.counted("skipped") > skipped and kube.counted("undecodable") > undecodable


@belfryd_only
def test_a_template_of_ones_own(make_kube, tmp_path):
    """Name first, and the value under another field than spec; beside it a glob of manifests."""
    crd = {**CONFIGS.in_config(), "prefix": "/settings/", "wrap": {"key": "{name}/in/{namespace}", "field": "data"}}
    kube = make_kube(resources=[crd, WIDGETS.in_config().replace("widgets.yaml", "[wz]*.yaml")])
    rev = kube.store.put(b"/settings/web/in/prod", b'{"a":1}')
    kube.wait_for(rev, CONFIGS)
    got = kube.get(CONFIGS.path("prod", "web")).json
    assert got["data"] == {"a": 1} and "spec" not in got
    assert kube.list(CONFIGS, "prod").names == ["web"] and kube.list(CONFIGS, "other").names == []
    for resource in (WIDGETS, ZONES):
        assert kube.list(resource).code == 200


DEFINITIONS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


@belfryd_only
def test_definitions_in_etcd_are_followed(make_kube):
    kube = make_kube(resources=[{"crds-under": DEFINITIONS}])
    with open(WIDGETS.in_config()) as f:
        manifest = yaml.safe_load(f)
    assert kube.list(WIDGETS).code == 404
    kube.put(widget("x", "a", color="blue"), WIDGETS)
    key = (DEFINITIONS + manifest["metadata"]["name"]).encode()
    kube.store.put(key, json.dumps(manifest).encode())
    procs.wait_until(lambda: kube.list(WIDGETS).code == 200, 10, 0.1, "served once it is defined")
    assert kube.list(WIDGETS).names == ["a"]
    kube.store.put(DEFINITIONS.encode() + b"broken.demo.example.com", b"{")  # logged, and nobody else's matter
    with kube.watch("resourceVersion=0", WIDGETS) as w:
        assert brief(w.event())[:2] == ("ADDED", "a")
        kube.put(widget("x", "b"), WIDGETS)
        assert brief(w.event())[:2] == ("ADDED", "b")
        kube.store.delete(key)
        assert w.rest() == [], "its watches end cleanly"
    procs.wait_until(lambda: kube.list(WIDGETS).code == 404, 10, 0.1, "not served any more")
    kube.store.put(key, json.dumps(manifest).encode())
    procs.wait_until(lambda: kube.list(WIDGETS).code == 200, 10, 0.1, "served again")
    assert kube.list(WIDGETS).names == ["a", "b"]


@belfryd_only
def test_belfryctl_prints_a_configuration_for_kubectl(kube, kubectl):
    kube.put(widget("prod", "a"), WIDGETS)
    text = procs.run([binary("belfryctl"), "kube", "config", "--server", kube.url, "--namespace", "prod"]).stdout
    with open(kubectl.config, "wb") as f:
        f.write(text)
    assert kubectl.text("get", "widgets", "-o", "name") == "widget.demo.example.com/a\n"


# ---- kubectl

def test_kubectl_get(kube, kubectl):
    kube.put(pod("prod", "a", {"app": "web"}))
    kube.put(pod("prod", "b", {"app": "db"}))
    kube.put(pod("test", "c", {"app": "web"}))
    assert [row[0] for row in kubectl.rows("get", PODS_NAME)] == ["NAME", "a", "b"]
    assert [row[:2] for row in kubectl.rows("get", PODS_NAME, "-A", "--no-headers")] == [
        ["prod", "a"], ["prod", "b"], ["test", "c"]]
    assert [row[0] for row in kubectl.rows("get", PODS_NAME, "b", "--no-headers")] == ["b"]
    assert kubectl.text("get", PODS_NAME, "-o", "name") == f"pod.{PODS.group}/a\npod.{PODS.group}/b\n"
    assert [name(i) for i in kubectl.json("get", PODS_NAME, "-l", "app=web", "-A")["items"]] == ["a", "c"]
    assert [name(i) for i in kubectl.json("get", PODS_NAME, "-l", "app notin (web)")["items"]] == ["b"]
    assert [name(i) for i in kubectl.json("get", PODS_NAME, "--field-selector", "metadata.name=b")["items"]] == ["b"]
    assert "name: a\n" in kubectl.text("get", PODS_NAME, "a", "-o", "yaml")
    assert kubectl.text("get", PODS_NAME, "a", "-o", "jsonpath={.spec.nodeName}") == "n1"
    assert kubectl.run("get", PODS_NAME, "a", "-o", "wide").returncode == 0
    assert kubectl.text("get", PODS_NAME, "-n", "empty") == ""


def test_kubectl_get_of_what_is_not_there(kube, kubectl):
    done = kubectl.run("get", PODS_NAME, "none", check=False)
    assert done.returncode == 1 and "(NotFound)" in done.stderr.decode()
    done = kubectl.run("get", "nothings", check=False)
    assert done.returncode == 1 and "doesn't have a resource type" in done.stderr.decode()
    assert kubectl.text("get", PODS_NAME, "none", "--ignore-not-found") == ""


def test_kubectl_get_in_pages(kube, kubectl):
    kube.put_many([pod("prod", f"p{i:04}") for i in range(1200)])
    kube.wait_for(kube.store.revision)
    rows = kubectl.rows("get", PODS_NAME, "--no-headers")
    assert [row[0] for row in rows] == [f"p{i:04}" for i in range(1200)]
    rows = kubectl.rows("get", PODS_NAME, "--no-headers", "--chunk-size", "100", "-l", "!none")
    assert len(rows) == 1200


def test_kubectl_watch(kube, kubectl):
    rev = kube.put(pod("prod", "a"))
    kube.wait_for(rev)
    watch = kubectl.spawn("get", PODS_NAME, "-w", "-o", "json", "--output-watch-events")
    text = ""

    def event():
        """kubectl prints each over many lines."""
        nonlocal text
        while True:
            text += watch.line() + "\n"
            try:
                got, text = json.loads(text), ""
                return got
            except ValueError:
                continue
    assert event()["type"] == "ADDED"
    kube.put(pod("prod", "b"))
    changed = kube.put(pod("prod", "a", {"k": "v"}))
    gone = kube.delete("prod", "b")
    got = [event() for _ in range(3)]
    assert [(e["type"], name(e["object"])) for e in got] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert [rv(e["object"]) for e in got[1:]] == [changed, gone]
    watch.nothing()
    watch.close()


def test_kubectl_watch_prints_rows(kube, kubectl):
    kube.wait_for(kube.put(pod("prod", "a")))
    watch = kubectl.spawn("get", PODS_NAME, "-w")
    assert watch.line().split()[0] == "NAME" and watch.line().split()[0] == "a"
    kube.put(pod("prod", "b"))
    assert watch.line().split()[0] == "b"
    kube.delete("prod", "b")
    assert watch.line().split()[0] == "b"
    watch.nothing(1)
    watch.close()
    only = kubectl.spawn("get", PODS_NAME, "--watch-only", "-o", "name")
    time.sleep(1)
    kube.put(pod("prod", "c"))
    assert only.line() == f"pod.{PODS.group}/c"
    only.close()


def test_kubectl_watch_of_one_object_and_a_selector(kube, kubectl):
    kube.put(pod("prod", "a", {"app": "web"}))
    kube.wait_for(kube.put(pod("prod", "b", {"app": "db"})))
    one = kubectl.spawn("get", PODS_NAME, "a", "-w", "--no-headers")
    chosen = kubectl.spawn("get", PODS_NAME, "-l", "app=web", "-w", "--no-headers")
    assert one.line().split()[0] == "a" and chosen.line().split()[0] == "a"
    time.sleep(1)  # from the list to the watch
    kube.put(pod("prod", "b", {"app": "web"}))
    assert chosen.line().split()[0] == "b"
    one.nothing()
    kube.put(pod("prod", "a", {"app": "db"}))
    assert one.line().split()[0] == "a", "kubectl takes the first event for the state that it has"
    assert chosen.line().split()[0] == "a"
    one.close()
    chosen.close()


def test_kubectl_raw(kube, kubectl):
    rev = kube.put(pod("prod", "a"))
    kube.wait_for(rev)
    assert [name(i) for i in json.loads(kubectl.text("get", "--raw", PODS.path("prod")))["items"]] == ["a"]
    watch = kubectl.spawn("get", "--raw", PODS.path() + f"?watch=1&resourceVersion={rev}&timeoutSeconds=3")
    time.sleep(0.5)
    kube.put(pod("prod", "b"))
    assert json.loads(watch.line())["object"]["metadata"]["name"] == "b"
    assert watch.ended() == 0


def test_kubectl_wait(kube, kubectl):
    rev = kube.put(pod("prod", "a"))
    kube.wait_for(rev)
    waiting = kubectl.spawn("wait", f"{PODS_NAME}/a", "--for=jsonpath={.spec.nodeName}=n9", "--timeout=20s")
    gone = kubectl.spawn("wait", f"{PODS_NAME}/a", "--for=delete", "--timeout=20s")
    time.sleep(1.5)
    assert waiting.proc.poll() is None and gone.proc.poll() is None
    kube.put(pod("prod", "a", node="n9"))
    assert "condition met" in waiting.line() and waiting.ended() == 0
    kube.delete("prod", "a")
    assert gone.ended() == 0, gone.stderr()


@belfryd_only
def test_kubectl_wait_for_a_condition(kube, kubectl):
    kube.put(widget("prod", "a"), WIDGETS)
    waiting = kubectl.spawn("wait", "widget/a", "--for=condition=Ready", "--timeout=20s")
    time.sleep(1.5)
    assert waiting.proc.poll() is None
    kube.put(widget("prod", "a", status={"conditions": [{"type": "Ready", "status": "True"}]}), WIDGETS)
    assert "condition met" in waiting.line() and waiting.ended() == 0


@belfryd_only
def test_kubectl_shows_columns_short_names_and_categories(kube, kubectl):
    kube.put(widget("prod", "a", color="blue", size=7, nodeName="n1"), WIDGETS)
    for word in ("widgets", "widget", "wd", "widgets.demo.example.com", "widgets.v1.demo.example.com", "gadgets"):
        rows = kubectl.rows("get", word)
        assert rows[0] == ["NAME", "COLOR", "SIZE", "AGE"] and rows[1][:3] == ["a", "blue", "7"], word
    wide = kubectl.rows("get", "wd", "-o", "wide")
    assert wide[0] == ["NAME", "COLOR", "SIZE", "NODE", "AGE"] and wide[1][:4] == ["a", "blue", "7", "n1"]
    assert [name(i) for i in kubectl.json("get", "wd", "--field-selector", "spec.color=blue")["items"]] == ["a"]
    assert kubectl.json("get", "wd", "--field-selector", "spec.color=red")["items"] == []
    kube.put(ZONES.object(None, "north"), ZONES)
    assert [row[0] for row in kubectl.rows("get", "zones")] == ["NAME", "north"]


def test_kubectl_api_resources_and_version(kube, kubectl):
    rows = kubectl.rows("api-resources", "--no-headers", "--api-group", PODS.group)
    assert [(r[0], r[-3], r[-2], r[-1]) for r in rows] == [("pods", PODS.api_version, "true", "Pod")]
    assert PODS.api_version in kubectl.text("api-versions").split()


@belfryd_only
def test_kubectl_knows_what_is_served(kube, kubectl):
    rows = kubectl.rows("api-resources", "--no-headers", "--api-group", "demo.example.com", "-o", "wide")
    assert {row[0] for row in rows} == {"configs", "widgets", "zones"}
    row = next(r for r in rows if r[0] == "widgets")
    assert row[1:5] == ["wd", "demo.example.com/v1", "true",
                        "Widget"] and row[5] == "get,list,watch" and row[6] == "gadgets"
    assert [r[3] for r in rows if r[0] == "zones"] == ["Zone"] or "false" in next(r for r in rows if r[0] == "zones")
    done = kubectl.run("version", "-o", "json")
    version = json.loads(done.stdout)["serverVersion"]
    assert version["major"] == "1" and version["gitVersion"].startswith("v1.")
    assert b"WARNING" not in done.stderr, done.stderr


@belfryd_only
def test_kubectl_explain(kube, kubectl):
    text = kubectl.text("explain", "widgets")
    assert "KIND:       Widget" in text and "A widget is what the tests turn." in text and "spec\t<Object>" in text
    text = kubectl.text("explain", "widget.spec.color")
    assert "color <string>" in text and "The colour it shall have." in text
    assert "In millimetres." in kubectl.text("explain", "wd", "--recursive") + kubectl.text("explain", "wd.spec")


@belfryd_only
def test_kubectl_describe_and_what_it_cannot_do(kube, kubectl):
    kube.put(widget("prod", "a", color="blue"), WIDGETS)
    assert "Color:  blue" in kubectl.text("describe", "widget", "a")
    for command in (("delete", "widget", "a", "--wait=false"), ("label", "widget", "a", "k=v"),
                    ("patch", "widget", "a", "--type=merge", "-p", '{"spec":{"color":"red"}}')):
        done = kubectl.run(*command, check=False)
        assert done.returncode == 1 and b"etcd" in done.stderr, (command, done.stderr)


# ---- discovery, as it is on the wire (1.2, 1.3)

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_discovery_aggregated(kube):
    answer = kube.get("/apis", headers={"Accept": AGGREGATED + ",application/json"})
    assert answer.headers["content-type"].replace(" ", "") == AGGREGATED
    got = answer.json
    assert (got["kind"], got["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    group = next(g for g in got["items"] if g["metadata"]["name"] == PODS.group)
    resource = next(r for r in group["versions"][0]["resources"] if r["resource"] == "pods")
    assert group["versions"][0]["version"] == "v1"
    assert resource["responseKind"]["kind"] == "Pod" and resource["scope"] == "Namespaced"
    assert {"get", "list", "watch"} <= set(resource["verbs"])


def test_discovery_as_it_was_before(kube):
    answer = kube.get("/apis")
    assert answer.headers["content-type"] == "application/json" and answer.json["kind"] == "APIGroupList"
    group = next(g for g in answer.json["groups"] if g["name"] == PODS.group)
    assert group["preferredVersion"] == {"groupVersion": PODS.api_version, "version": "v1"}
    got = kube.get(f"/apis/{PODS.group}").json
    assert (got["kind"], got["name"]) == ("APIGroup", PODS.group)
    got = kube.get(f"/apis/{PODS.api_version}").json
    assert (got["kind"], got["groupVersion"]) == ("APIResourceList", PODS.api_version)
    entry = next(r for r in got["resources"] if r["name"] == "pods")
    assert (entry["namespaced"], entry["kind"]) == (True, "Pod") and {"get", "list", "watch"} <= set(entry["verbs"])
    assert kube.get("/apis/none.example.com").code == 404


@belfryd_only
def test_what_else_a_client_may_ask_for(kube):
    got = kube.get("/version").json
    assert got["major"] == "1" and got["gitVersion"].startswith("v1.")
    got = kube.get("/api", headers={"Accept": AGGREGATED + ",application/json"})
    assert got.code in (200, 404)
    paths = kube.get("/openapi/v3").json["paths"]
    document = kube.get(paths["apis/demo.example.com/v1"]["serverRelativeURL"]).json
    kinds = [gvk["kind"] for schema in document["components"]["schemas"].values()
             for gvk in schema.get("x-kubernetes-group-version-kind", [])]
    assert "Widget" in kinds
    assert kube.get("/openapi/v2",
                    headers={"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}).code == 404
    for path in ("/healthz", "/livez", "/readyz"):
        answer = kube.get(path)
        assert (answer.code, answer.body) == (200, b"ok"), path


# ---- python3-kubernetes

def python_api(server):
    config = kubernetes.client.Configuration()
    config.host = server.url
    return kubernetes.client.CustomObjectsApi(kubernetes.client.ApiClient(config))


def test_python_kubernetes_watch(kube):
    api = python_api(kube)
    rev = kube.put(pod("prod", "a"))
    kube.wait_for(rev)
    listed = api.list_namespaced_custom_object(PODS.group, "v1", "prod", "pods")
    assert [name(i) for i in listed["items"]] == ["a"]
    assert rv(api.get_namespaced_custom_object(PODS.group, "v1", "prod", "pods", "a")) == rev
    with pytest.raises(kubernetes.client.ApiException) as e:
        api.get_namespaced_custom_object(PODS.group, "v1", "prod", "pods", "none")
    assert (e.value.status, json.loads(e.value.body)["reason"]) == (404, "NotFound")
    done = []

    def write():
        time.sleep(0.5)
        done.extend([kube.put(pod("prod", "b")), kube.put(pod("prod", "b", {"k": "v"})), kube.delete("prod", "b")])
    writer = threading.Thread(target=write)
    writer.start()
    w = kubernetes.watch.Watch()
    seen = []
    for event in w.stream(api.list_namespaced_custom_object, PODS.group, "v1", "prod", "pods",
                          resource_version=listed["metadata"]["resourceVersion"], timeout_seconds=20):
        seen.append((event["type"], name(event["object"]), rv(event["object"])))
        if len(seen) == 3:
            w.stop()
    writer.join()
    assert seen == list(zip(["ADDED", "MODIFIED", "DELETED"], "bbb", done))


def test_python_kubernetes_is_told_that_history_is_gone(make_kube, tmp_path):
    cluster, revs = etcd_with_a_past(tmp_path)
    api = python_api(make_kube(cluster=cluster))
    with pytest.raises(kubernetes.client.ApiException) as e:
        for _ in kubernetes.watch.Watch().stream(api.list_namespaced_custom_object, PODS.group, "v1", "x", "pods",
                                                 resource_version=str(revs[0]), timeout_seconds=5):
            pass
    assert e.value.status == 410


# ---- informers

def play(kube):
    """Changes of every sort; ends with nothing under way."""
    for i in range(60):
        kube.put(pod("prod", f"p{i % 15}", {"in": "yes" if i % 2 else "no", "i": str(i)}, node=f"n{i % 4}"))
        if i % 7 == 3:
            kube.delete("prod", f"p{(i * 3) % 15}")
    kube.put(pod("test", "elsewhere", {"in": "yes"}))


def in_yes(obj):
    return obj["metadata"].get("labels", {}).get("in") == "yes"


@pytest.mark.parametrize("node", [False, True], ids=["client-go", "client-node"])
def test_informers_have_what_etcd_has(kube, node):
    kube.put_many([pod("prod", f"p{i}", {"in": "yes"}) for i in range(10)])
    kube.wait_for(kube.store.revision)
    informers = Informers(kube, count=2, node=node)
    informers.add(labels="in=yes", count=2)
    informers.add(namespace="prod", labels="in!=yes")
    informers.add(fields="metadata.name=p3")
    informers.add(namespace="test")
    informers.wait_synced()
    play(kube)
    everything = kube.expected()
    assert len(everything) > 5
    informers.wait_stores([everything, everything, kube.expected(match=in_yes), kube.expected(match=in_yes),
                           kube.expected(match=lambda o: o["metadata"]["namespace"] == "prod" and not in_yes(o)),
                           kube.expected(match=lambda o: name(o) == "p3"),
                           kube.expected(match=lambda o: o["metadata"]["namespace"] == "test")])
    informers.assert_right()
    status = informers.status()
    assert [s["lists"] for s in status] == [1] * 7 and all(s["failed"] == 0 for s in status), status
    assert sum(s["updated"] for s in status) > 20
    informers.close()


def test_informers_need_no_second_list(kube):
    informers = Informers(kube, count=3)
    informers.wait_synced()
    for _ in range(3):
        play(kube)
        informers.wait_stores(kube.expected())
    informers.assert_right()
    assert informers.relists() == 0
    informers.close()


@belfryd_only
def test_informers_of_selectable_fields(kube):
    informers = Informers(kube, WIDGETS, fields="spec.color=blue", count=2)
    informers.add(fields="spec.color!=blue")
    informers.wait_synced()
    for i in range(100):
        kube.put(widget("x", f"w{i % 10}", color=["blue", "red", "green"][i % 3], size=i), WIDGETS)
    blue = kube.expected(WIDGETS, lambda o: o["spec"]["color"] == "blue")
    rest = kube.expected(WIDGETS, lambda o: o["spec"]["color"] != "blue")
    informers.wait_stores([blue, blue, rest])
    informers.assert_right()
    assert informers.relists() == 0
    informers.close()


def test_the_judge_of_informers_can_tell(kube):
    """An informer's store that is not what etcd has is found out."""
    kube.wait_for(kube.put(pod("prod", "a")))
    informers = Informers(kube)
    informers.wait_synced()
    right = kube.expected()
    informers.wait_stores(right)
    for wrong in ({}, {**right, "prod/b": right["prod/a"]}, {"prod/a": [right["prod/a"][0], "0" * 16]},
                  {"prod/a": ["1", right["prod/a"][1]]}):
        with pytest.raises(AssertionError):
            informers.wait_stores(wrong, timeout=0)
    informers.close()


class Liar(http.server.BaseHTTPRequestHandler):
    """A server whose watch says what it must not: of a pod "a" at 5, which it has listed."""
    protocol_version = "HTTP/1.1"
    lies = [("ADDED", "a", 6), ("MODIFIED", "b", 7), ("DELETED", "c", 8), ("ADDED", "d", 7), ("MODIFIED", "a", 6)]

    def do_GET(self):
        a = pod("x", "a")
        a["metadata"]["resourceVersion"] = "5"
        listed = {"kind": "PodList", "apiVersion": PODS.api_version, "metadata": {"resourceVersion": "5"},
                  "items": [a]}
        text = json.dumps(listed) if "watch" not in self.path else ""
        if not text:
            for kind, each, rev in self.lies:
                obj = pod("x", each)
                obj["metadata"]["resourceVersion"] = str(rev)
                text += json.dumps({"type": kind, "object": obj}) + "\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
        if "watch" in self.path:
            time.sleep(5)

    def log_message(self, *args):
        pass


def test_the_judge_of_transitions_can_tell(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        informers = Informers(SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}",
                                              cluster=SimpleNamespace(ns=None)))
        informers.wait_synced()
        procs.wait_until(lambda: informers.status()[0]["nWrong"] >= 5, 10, 0.1,
                         lambda: f"found out: {informers.status()}")
        said = informers.status()[0]["wrong"]
        with pytest.raises(AssertionError):
            informers.assert_right()
        informers.close()
        server.shutdown()
    assert [text.split(",")[0] for text in said[:5]] == [
        "ADDED of x/a at 6", "MODIFIED of x/b at 7", "DELETED of x/c at 8", "ADDED of x/d at 7 after 8",
        "MODIFIED of x/a at 6 after 7"], said


@pytest.mark.parametrize("feature", ["true", "false"])
def test_client_go_asks_for_the_state_in_either_way(kube, feature):
    """client-go has the watch that begins with the state behind a switch; from 1.35 on it is how informers start."""
    kube.put_many([pod("prod", f"p{i}") for i in range(20)])
    kube.wait_for(kube.store.revision)
    informers = Informers(kube, count=2, env={"KUBE_FEATURE_WatchListClient": feature})
    informers.wait_synced(20)
    play(kube)
    informers.wait_stores(kube.expected())
    informers.assert_right()
    assert [s["lists"] for s in informers.status()] == [1, 1]
    informers.close()


def test_fingerprints_do_not_see_what_a_server_adds():
    obj = pod("x", "a", {"k": "v"})
    served_one = {**obj, "metadata": {**obj["metadata"], "resourceVersion": "7", "managedFields": []}}
    assert fingerprint(served_one) == fingerprint(obj)
    assert fingerprint({**obj, "spec": {"nodeName": "n2"}}) != fingerprint(obj)
    assert fingerprint(pod("x", "a", {"k": "w"})) != fingerprint(obj)
