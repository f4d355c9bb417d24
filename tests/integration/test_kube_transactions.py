"""Several objects in one revision: every change of an object is shown under a version above all of its states before, and a
connection that breaks between two of them loses nothing, on whichever tier the client goes on (docs/decisions/0019)."""
import json
import os
import threading
from types import SimpleNamespace

import needs
import procs
import pytest
from belfryd import Belfryd
from informer import Informer
from kube import PODS, Watch, belfryd_only, brief, name, pod, rv
from kube_clients import Informers
from proxy import Proxy

kubernetes = needs.module("kubernetes", "python3-kubernetes")
import kubernetes.watch  # noqa: E402

pytest_plugins = ["kube_fixtures"]


def key(each):
    return PODS.key("x", each).encode()


def put(each, i, **labels):
    return key(each), json.dumps(pod("x", each, {"i": str(i), **labels})).encode()


def play(kube):
    """Consecutive transactions over the same objects: changed, deleted, made again, and all deleted at once."""
    txn = kube.store.txn
    kube.store.put(*put("a", 1))
    txn(put("a", 2), put("b", 2))
    txn(put("a", 3), put("b", 3, odd="yes"), put("c", 3))
    txn((key("a"),), put("b", 4), put("c", 4, odd="yes"))
    txn(put("a", 5, odd="yes"), put("b", 5), (key("c"),))
    kube.store.put(*put("b", 6, odd="yes"))
    txn(put("d", 7), put("e", 7, odd="yes"), put("a", 7))
    txn(put("d", 8, odd="yes"), put("e", 8), put("b", 8))
    kube.store.delete(key(""), key("") + b"\xff")
    return txn(put("a", 10), put("b", 10, odd="yes"), put("c", 10, odd="yes"))


class Holder:
    """What a client holds, from the events that it was given; it resumes from the version of the last one."""

    def __init__(self):
        self.last, self.objects, self.shown = 0, {}, {}

    def take(self, event):
        each, version, text = name(event["object"]), rv(event["object"]), json.dumps(event, sort_keys=True)
        assert version >= self.last, (brief(event), self.last)
        before, was = self.shown.get(each, (0, None))
        assert version > before or (version, text) == (before, was), f"{text} at {version}, but {was} was at {before}"
        self.shown[each], self.last = (version, text), version
        self.objects[each] = event["object"]
        if event["type"] == "DELETED":
            del self.objects[each]
        return self


def held(events):
    holder = Holder()
    for event in events:
        holder.take(event)
    return holder


VIEWS = {"everything": "", "a selector": "&labelSelector=odd%3Dyes", "one name": "&fieldSelector=metadata.name%3Db"}


def watch(endpoint, version, view):
    return Watch(endpoint, PODS.path("x"), f"watch=1&resourceVersion={version}{view}")


def played(kube, view):
    """The events of play() in this view."""
    with watch(kube.endpoint, kube.put(pod("x", "first")), "" if "name" in view else view) as w:
        play(kube)
        kube.put(pod("x", "last", {"odd": "yes"}))
        found = [w.event()]
        while name(found[-1]["object"]) != "last":
            found.append(w.event())
    return [e for e in found[:-1] if "name" not in view or name(e["object"]) == "b"]


def broken_everywhere(endpoint, events, view):
    """The connection breaks behind each event in turn; what is held in the end is what it is without that."""
    whole = held(events)
    for n in range(1, len(events) + 1):
        holder = held(events[:n])
        with watch(endpoint, holder.last, view) as w:
            while holder.shown != whole.shown:
                holder.take(w.event())
            assert holder.objects == whole.objects


@belfryd_only
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_connection_that_breaks_anywhere_misses_nothing(kube, view):
    events = played(kube, view)
    assert len(events) >= 8 and len({rv(e["object"]) for e in events}) >= 6
    broken_everywhere(kube.endpoint, events, view)


@pytest.fixture
def another_tier(kube, tmp_path):
    """another_tier(): one more, on the same etcd, that has listed just now."""
    made = []

    def make():
        config = os.path.join(kube.folder, "tier", "belfryd.yaml")
        folder = tmp_path / f"tier{len(made)}"
        folder.mkdir()
        made.append(Belfryd(str(folder), kube.cluster.members[0].url, ["--config", config]).start())
        return made[-1]
    yield make
    for tier in made:
        tier.kill()


@belfryd_only
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_it_goes_on_at_a_tier_that_has_listed_since(kube, another_tier, view):
    """That tier has nothing of those revisions but what etcd still has."""
    events = played(kube, view)
    broken_everywhere(another_tier().endpoint, events, view)


@belfryd_only
def test_it_goes_on_at_a_tier_that_comes_there_later(kube, another_tier):
    slow = another_tier()
    slow.pause()
    events = played(kube, "")
    slow.cont()
    broken_everywhere(slow.endpoint, events, "")


@belfryd_only
def test_what_is_given_again_is_a_revision_of_several_objects_and_no_other(kube):
    one = kube.put(pod("x", "a"))
    with kube.watch(f"resourceVersion={one}") as w:
        w.quiet()
    several = kube.put_many([pod("x", "a", {"i": "2"}), pod("x", "b"), pod("y", "c")])
    again = [("ADDED", "b", several), ("MODIFIED", "a", several)]
    with kube.watch(f"resourceVersion={several}", namespace="x") as w:
        assert sorted(w.briefs(2)) == again
        w.quiet()
    for alone in (dict(namespace="y"), dict(query="&fieldSelector=metadata.name%3Da", namespace="x")):
        with kube.watch(f"resourceVersion={several}" + alone.get("query", ""), namespace=alone["namespace"]) as w:
            w.quiet()
    with kube.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                    f"&resourceVersion={several}") as w:
        assert [e["type"] for e in w.take(4)] == ["ADDED"] * 3 + ["BOOKMARK"]
        w.quiet()


@belfryd_only
def test_a_revision_that_etcd_has_compacted_is_410_where_no_tier_has_it(kube, another_tier):
    several = kube.put_many([pod("x", "a"), pod("x", "b")])
    after = kube.put(pod("x", "c"))
    kube.store.compact(after)
    fresh = another_tier()
    with watch(fresh.endpoint, several, "") as w:
        event = w.event()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    with watch(kube.endpoint, several, "") as w:  # this tier has it
        assert sorted(w.briefs(3)) == [("ADDED", "a", several), ("ADDED", "b", several), ("ADDED", "c", after)]


@belfryd_only
def test_a_tier_that_listed_at_what_etcd_has_compacted_is_watched_from_there(kube, another_tier):
    """etcd keeps the revision that it is compacted at: nobody lists for ever."""
    for count in (1, 3):
        rev = kube.put_many([pod("x", f"p{i}", {"count": str(count)}) for i in range(count)])
        kube.store.compact(rev)
        fresh = another_tier()
        with watch(fresh.endpoint, rev, "") as w:
            if count > 1:
                assert {name(e["object"]): rv(e["object"]) for e in w.take(3)} == {f"p{i}": rev for i in range(3)}
            w.quiet()
            next_rev = kube.put(pod("x", "later", {"count": str(count)}))
            assert brief(w.event())[1:] == ("later", next_rev)


@belfryd_only
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_what_was_there_before_is_gone_where_a_watch_resumes(kube, another_tier, view):
    """Nobody knows whether an object was of this view before the revision: it is taken out, known or not. A client that were
    told to list would be told so again, until something is written."""
    kube.put_many([pod("x", each, {"odd": odd}) for each, odd in (("a", "yes"), ("b", "yes"), ("c", "no"), ("d", "no"))])
    kube.put(pod("x", "e"))
    rev = kube.store.txn((key("a"),), put("b", 2, odd="no"), put("c", 2, odd="yes"), (key("d"),))
    kube.store.compact(rev)
    fresh = another_tier()
    with watch(fresh.endpoint, rev, view) as w:
        if "name" not in view:
            events = {name(e["object"]): (e["type"], rv(e["object"]), e["object"]["kind"]) for e in w.take(4)}
            kept = {"b": "MODIFIED" if view == "" else "DELETED", "c": "MODIFIED"}
            assert events == {each: (kept.get(each, "DELETED"), rev, PODS.kind) for each in "abcd"}
        w.quiet()
        assert kube.put(pod("x", "b", {"odd": "yes"})) == brief(w.event())[2]


# ---- clients that others wrote

def put_then_transactions(kube):
    for i in range(5):
        kube.put(pod("x", "a", {"i": f"{i}"}))
        kube.put_many([pod("x", "a", {"i": f"{i}.1"}), pod("x", "b", {"i": f"{i}.1"})])
        kube.put_many([pod("x", "b", {"i": f"{i}.2"}), pod("x", "a", {"i": f"{i}.2"}), pod("x", f"c{i}")])
        kube.delete("x", "b")
        kube.put_many([pod("x", "b", {"i": f"{i}.3"}), pod("x", "a", {"i": f"{i}.3"})])


@pytest.mark.parametrize("node", [False, True], ids=["client-go", "client-node"])
def test_informers_have_the_newest_state_of_a_transaction_behind_a_put(kube, node):
    kube.put(pod("x", "a"))
    kube.wait_for(kube.store.revision)
    informers = Informers(kube, node=node)
    informers.wait_synced()
    put_then_transactions(kube)
    informers.wait_stores(kube.expected())
    informers.assert_right()
    assert informers.relists() == 0
    informers.close()


def test_libbelfry_has_the_newest_state_of_a_transaction_behind_a_put(kube):
    kube.put(pod("x", "a"))
    kube.wait_for(kube.store.revision)
    informer = Informer.of_resource(kube.url, PODS)
    informer.wait_synced()
    put_then_transactions(kube)
    informer.wait_store(kube.expected())
    assert informer.stats()["relists"] == 0
    informer.quit()


def test_python_kubernetes_sees_rising_versions_of_a_transaction_behind_a_put(kube):
    config = kubernetes.client.Configuration()
    config.host = kube.url
    api = kubernetes.client.CustomObjectsApi(kubernetes.client.ApiClient(config))
    start = kube.put(pod("x", "a", {"i": "0"}))
    kube.wait_for(start)

    def write():
        put_then_transactions(kube)
        kube.put(pod("x", "last"))
    writer = threading.Timer(0.5, write)
    writer.start()
    w, holder = kubernetes.watch.Watch(), Holder()
    for event in w.stream(api.list_namespaced_custom_object, PODS.group, "v1", "x", "pods",
                          resource_version=str(start), timeout_seconds=30):
        holder.take({"type": event["type"], "object": event["raw_object"]})
        if name(event["raw_object"]) == "last":
            w.stop()
    writer.join()
    versions = {f"x/{each}": str(rv(obj)) for each, obj in holder.objects.items()}
    assert versions == {each: version for each, (version, _) in kube.expected().items()}


@belfryd_only
def test_informers_of_a_list_at_a_transaction_are_told_nothing_twice(kube):
    """What a watch gives again has the bytes of the list: libbelfry takes it for what it is."""
    kube.wait_for(kube.put_many([pod("x", f"p{i}") for i in range(5)]))
    informer = Informer.of_resource(kube.url, PODS, "--watch-list=false")
    informer.wait_synced()
    rev = kube.put(pod("x", "last"))
    informer.wait_news("added", "x/last")
    assert len(informer.brief()) == 6, (rev, informer.brief())
    informer.quit()


@belfryd_only
@pytest.mark.parametrize("node", [False, True], ids=["client-go", "client-node"])
def test_informers_whose_connection_is_cut_between_objects_of_a_transaction(kube, node):
    proxy = Proxy(kube.endpoint)
    behind = SimpleNamespace(url=proxy.url, cluster=kube.cluster)
    kube.put_many([pod("x", f"p{i}") for i in range(8)])
    kube.wait_for(kube.store.revision)
    informers = Informers(behind, node=node)
    informers.wait_synced()
    procs.wait_until(lambda: informers.status()[0]["watches"] > 0, 20, 0.1, "it watches")
    for i in range(5):
        proxy.cut_after(400 + 500 * i)  # a line has 300 bytes: behind the first, the third, the fifth, ...
        kube.put_many([pod("x", f"p{n}", {"i": f"{i}"}) for n in range(8)])
        kube.put_many([pod("x", f"p{n}", {"i": f"{i}.1"}) for n in range(7, 0, -1)])
        informers.wait_stores(kube.expected(), 30)
    informers.assert_right()
    status = informers.status()[0]
    assert status["watches"] > 5 and status["lists"] <= (6 if node else 1), status
    informers.close()
    proxy.close()
