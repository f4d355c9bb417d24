"""A kube-apiserver whose --etcd-servers is a tier: what it stores, lists and watches is what one on etcd itself has,
and its reads are answered by replicas. The servers are built outside this tree ("kubepeer", and a whole
kube-apiserver); without them this is skipped."""
import json

import kube_apiserver
import needs
import procs
import pytest
from kube import PODS, Peer, Watch, bare, brief, name, pod, request, rv, why_no_peer
from stack import Stack

NAMESPACE = "default"
JSON = {"Content-Type": "application/json"}
SOURCES = ("replica", "upstream")


class Api:
    """Pods of one kube-apiserver."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    def call(self, method, name=None, query=None, obj=None):
        body = None if obj is None else json.dumps(obj)
        return request(self.endpoint, PODS.path(NAMESPACE, name), query, JSON, method, body)

    def create(self, name, **spec):
        answer = self.call("POST", obj=pod(NAMESPACE, name, **spec))
        assert answer.code == 201, answer.body
        return answer.json

    def update(self, obj):
        return self.call("PUT", name(obj), obj=obj)

    def delete(self, name):
        answer = self.call("DELETE", name)
        assert answer.code == 200, answer.body

    def list(self, **query):
        answer = self.call("GET", query=query)
        assert answer.code == 200, answer.body
        return answer

    def pages(self, limit):
        """The names, page by page."""
        query = {"limit": limit}
        while True:
            page = self.list(**query)
            yield page.names
            query["continue"] = page.json["metadata"].get("continue")
            if not query["continue"]:
                return

    def watch(self, since):
        return Watch(self.endpoint, PODS.path(NAMESPACE), f"watch=1&resourceVersion={since}")


def folder(tmp_path, name):
    (tmp_path / name).mkdir()
    return str(tmp_path / name)


def reads(tier):
    """Ranges of all consistencies, by source."""
    found = tier.metrics()
    return {source: sum(n for text, n in found.items() if text.startswith(f'belfry_reads_total{{source="{source}"'))
            for source in SOURCES}


@pytest.fixture
def stack(cluster, make_tier):
    return Stack(make_tier, cluster, 2)


@pytest.fixture
def peers(tmp_path, cluster, stack):
    """kubepeers on the lower of two tiers, and on etcd itself."""
    if why_no_peer():
        needs.peer(why_no_peer())
    for i in range(30):
        cluster.put(PODS.key(NAMESPACE, f"old-{i:02}"), json.dumps(pod(NAMESPACE, f"old-{i:02}")))
    made = [Peer(folder(tmp_path, "tiered"), stack.leaf.endpoint),
            Peer(folder(tmp_path, "direct"), cluster.members[0].endpoint)]
    for peer in made:
        peer.start()
    yield made
    for peer in made:
        peer.kill()


@pytest.fixture
def apis(peers):
    return [Api(peer.endpoint) for peer in peers]


def same(tiered, direct):
    """Both list the same objects."""
    ours, theirs = tiered.list(), direct.list()
    assert [(name(o), rv(o), bare(o)) for o in ours.items] == [(name(o), rv(o), bare(o)) for o in theirs.items]


def test_objects_are_created_listed_watched_and_deleted(apis, cluster, stack):
    tiered, direct = apis
    before = reads(stack.leaf)
    assert len(tiered.list().items) == 30
    watch = tiered.watch(tiered.list().rv)
    made = tiered.create("new", node="n1")
    assert PODS.key(NAMESPACE, "new").encode() in cluster.state("/registry/")
    assert "new" in tiered.list().names
    changed = tiered.update({**made, "spec": {"nodeName": "n2"}})
    assert changed.code == 200
    assert tiered.update({**made, "spec": {"nodeName": "n3"}}).failure == (409, "Conflict"), "made is old by now"
    same(tiered, direct)
    tiered.delete("new")
    seen = watch.take(3)
    assert [brief(e)[:2] for e in seen] == [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]
    assert [rv(e["object"]) for e in seen] == sorted(rv(e["object"]) for e in seen)
    assert "new" not in tiered.list().names
    assert tiered.call("GET", "new").failure == (404, "NotFound")
    same(tiered, direct)
    after = reads(stack.leaf)
    assert after["replica"] > before["replica"] and after["upstream"] == before["upstream"], (before, after)


def test_what_another_kube_apiserver_wrote_is_read_at_once(apis, soak):
    """A GET is a linearizable read of etcd, whatever the cache has."""
    tiered, direct = apis
    for i in range(500 if soak else 50):
        made = direct.create(f"pod-{i}")
        got = tiered.call("GET", f"pod-{i}")
        assert got.code == 200 and rv(got.json) == rv(made), got.body
        assert f"pod-{i}" in tiered.list().names
        direct.delete(f"pod-{i}")
        assert tiered.call("GET", f"pod-{i}").code == 404
        assert f"pod-{i}" not in tiered.list().names


def test_pages_have_every_object_once(apis, stack):
    tiered, direct = apis
    pages = list(tiered.pages(7))
    assert [len(page) for page in pages] == [7, 7, 7, 7, 2]
    assert [n for page in pages for n in page] == direct.list().names
    assert reads(stack.leaf)["upstream"] == 0


def test_a_start_lists_from_the_replica(peers, apis, stack, cluster):
    """All that a kube-apiserver reads when it starts, and etcd is not asked for it."""
    before = [reads(tier) for tier in stack.tiers]
    peers[0].kill()
    peers[0].start()
    same(*apis)
    after = [reads(tier) for tier in stack.tiers]
    assert after[1]["replica"] > before[1]["replica"]
    assert [a["upstream"] for a in after] == [b["upstream"] for b in before], (before, after)


def test_a_compaction_ends_old_watches_and_nothing_else(peers, apis, cluster):
    tiered, direct = apis
    old = tiered.list().rv
    watch = tiered.watch(old)
    for i in range(5):
        direct.create(f"pod-{i}")
    cluster.compact(cluster.revision())
    assert [brief(e)[1] for e in watch.take(5)] == [f"pod-{i}" for i in range(5)], "a watch that runs goes on"
    peers[0].kill()
    peers[0].start()  # its cache begins after the compaction
    gone = tiered.watch(old)
    event = gone.event() if gone.code == 200 else {"type": "ERROR", "object": json.loads(gone.body())}
    assert event["type"] == "ERROR" and event["object"]["code"] == 410, event
    same(tiered, direct)
    since = tiered.list().rv
    tiered.create("after")
    assert brief(tiered.watch(since).event())[:2] == ("ADDED", "after")
    same(tiered, direct)


def test_a_tier_that_is_killed_is_back_before_anyone_gives_up(apis, stack):
    tiered, direct = apis
    watch = tiered.watch(tiered.list().rv)
    stack.leaf.kill()
    direct.create("meanwhile")
    stack.leaf.start()
    assert brief(watch.event(30))[:2] == ("ADDED", "meanwhile")
    procs.wait_until(lambda: tiered.call("GET", "meanwhile").code == 200, 30, 0.2, "it reads again")
    same(tiered, direct)


# ---- a whole kube-apiserver

NAMESPACES = "/api/v1/namespaces"
CONFIGMAPS = f"{NAMESPACES}/own/configmaps"


@pytest.fixture
def whole(tmp_path, stack):
    """It compacts etcd itself, as ever; here once per 2 s and not once per 5 min."""
    if kube_apiserver.why_none():
        needs.peer(kube_apiserver.why_none())
    made = kube_apiserver.KubeApiserver(tmp_path / "whole", stack.leaf.url, "--etcd-compaction-interval=2s").start()
    yield made
    made.kill()


def configmap(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def compacted(cluster):
    return cluster.members[0].metric("etcd_debugging_mvcc_compact_revision")


def test_a_whole_kube_apiserver_runs_on_a_tier(whole, cluster, stack, figure):
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}}
    assert whole.call("POST", NAMESPACES, obj=own).code == 201
    listed = whole.call("GET", CONFIGMAPS)
    assert listed.code == 200, listed.body
    watch = whole.watch(CONFIGMAPS, listed.rv)
    assert whole.call("POST", CONFIGMAPS, obj=configmap("a", k="1")).code == 201
    assert b"/registry/configmaps/own/a" in cluster.state("/registry/configmaps/")
    changed = whole.call("PUT", f"{CONFIGMAPS}/a", obj=configmap("a", k="2"))
    assert changed.code == 200 and changed.json["data"] == {"k": "2"}
    assert whole.call("GET", CONFIGMAPS).names == [*listed.names, "a"]
    assert whole.call("DELETE", f"{CONFIGMAPS}/a").code == 200
    assert [brief(next(watch))[:2] for _ in range(3)] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert whole.call("GET", f"{CONFIGMAPS}/a").code == 404
    for i in range(30):
        assert whole.call("POST", CONFIGMAPS, obj=configmap(f"b-{i:02}")).code == 201
    first = whole.call("GET", CONFIGMAPS, {"limit": 10})
    second = whole.call("GET", CONFIGMAPS, {"limit": 10, "continue": first.json["metadata"]["continue"]})
    assert first.names + second.names == whole.call("GET", CONFIGMAPS).names[:20]

    procs.wait_until(lambda: compacted(cluster) >= changed.rv, 30, 0.2, "it has compacted its etcd")
    whole.kill()
    whole.start()
    assert whole.call("GET", CONFIGMAPS).names == [*listed.names, *(f"b-{i:02}" for i in range(30))]
    for source, n in reads(stack.leaf).items():
        figure(f"kube_apiserver.reads_{source}", n)
    assert reads(stack.leaf)["replica"] > 0 and reads(stack.leaf)["upstream"] == 0
