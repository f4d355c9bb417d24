"""WATCH of Kubernetes' API, byte by byte: how it starts, what its events are, bookmarks, errors, how it ends. Most of
it also runs against a real kube-apiserver (BELFRY_KUBE_PEER=1)."""
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import needs
import procs
import pytest
from etcd import Cluster
from kube import (INITIAL_END, PODS, WIDGETS, ZONES, Watch, bare, belfryd_only, brief, etcd_with_a_past, pod, rv,
                  widget)
from patience import Patience, within

pytest_plugins = ["kube_fixtures"]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
NO_INITIAL = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"


def two_pods(kube):
    """Their revisions; "b" was written first, so that order by name is not order by revision."""
    b = kube.put(pod("x", "b"))
    a = kube.put(pod("x", "a"))
    kube.wait_for(a)
    return a, b


def is_end_of_state(event):
    metadata = event["object"]["metadata"]
    return event["type"] == "BOOKMARK" and metadata.get("annotations", {}).get(INITIAL_END) == "true"


# ---- how it starts (3.1)

@pytest.mark.parametrize("query", ["", "resourceVersion=0", "resourceVersion="])
def test_without_a_resource_version_the_state_comes_first(kube, query):
    a, b = two_pods(kube)
    with kube.watch(query) as w:
        assert sorted(w.briefs(2)) == [("ADDED", "a", a), ("ADDED", "b", b)], "each with its own revision"
        w.quiet()
        rev = kube.put(pod("x", "a", node="n2"))
        assert w.briefs(1) == [("MODIFIED", "a", rev)]


def test_from_a_resource_version_only_what_is_newer(kube):
    a, b = two_pods(kube)
    c = kube.put(pod("x", "c"))
    with kube.watch(f"resourceVersion={a}") as w:
        assert w.briefs(1) == [("ADDED", "c", c)]
        gone = kube.delete("x", "b")
        assert w.briefs(1) == [("DELETED", "b", gone)]
    with kube.watch(f"resourceVersion={b}") as w:
        assert w.briefs(3) == [("ADDED", "a", a), ("ADDED", "c", c), ("DELETED", "b", gone)]


@pytest.mark.parametrize("at", ["", "&resourceVersion=0", "&resourceVersion={a}"])
def test_initial_events_end_with_a_bookmark(kube, at):
    a, b = two_pods(kube)
    with kube.watch(INITIAL + at.format(a=a)) as w:
        events = w.take(3)
        assert sorted(brief(e) for e in events[:2]) == [("ADDED", "a", a), ("ADDED", "b", b)]
        assert is_end_of_state(events[2]) and rv(events[2]["object"]) >= a, events[2]
        assert (events[2]["object"]["kind"], events[2]["object"]["apiVersion"]) == ("Pod", PODS.api_version)
        rev = kube.put(pod("x", "c"))
        assert w.briefs(1) == [("ADDED", "c", rev)]


def test_initial_events_of_an_empty_resource_end_too(kube):
    with kube.watch(INITIAL) as w:
        assert is_end_of_state(w.event())
        w.quiet()


def test_initial_events_not_older_than_a_revision_wait_for_it(kube):
    a, _ = two_pods(kube)
    later = threading.Timer(1, kube.put, [pod("x", "c")])  # a server may keep its headers for so long
    later.start()
    with kube.watch(f"{INITIAL}&resourceVersion={a + 1}") as w:
        events = w.take(4)
    later.join()
    assert sorted(brief(e)[1] for e in events[:3]) == ["a", "b", "c"]
    assert is_end_of_state(events[3]) and rv(events[3]["object"]) >= a + 1


def test_without_bookmarks_initial_events_have_no_end_mark(kube):
    two_pods(kube)
    with kube.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan") as w:
        assert sorted(e["type"] for e in w.take(2)) == ["ADDED", "ADDED"]
        w.quiet()
        kube.put(pod("x", "c"))
        assert brief(w.event())[:2] == ("ADDED", "c")


@pytest.mark.parametrize("at", ["", "&resourceVersion=0", "&resourceVersion={a}"])
def test_without_initial_events_it_starts_with_what_comes(kube, at):
    a, _ = two_pods(kube)
    with kube.watch(NO_INITIAL + at.format(a=a)) as w:
        w.quiet()
        c = kube.put(pod("x", "c"))
        assert w.briefs(1) == [("ADDED", "c", c)]


@pytest.mark.parametrize("query,fields", [
    ("sendInitialEvents=true", {"resourceVersionMatch"}),
    ("sendInitialEvents=false", {"resourceVersionMatch"}),
    ("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", {"resourceVersionMatch"}),
    ("resourceVersionMatch=NotOlderThan", {"resourceVersionMatch"}),
    ("resourceVersionMatch=NotOlderThan&resourceVersion=1", {"resourceVersionMatch"}),
    ("resourceVersionMatch=Exact&resourceVersion=1", {"resourceVersionMatch"}),
])
def test_options_that_do_not_go_together_are_invalid(kube, query, fields):
    answer = kube.list(query="watch=1&" + query)
    assert answer.failure == (422, "Invalid"), answer.body
    details = answer.json["details"]
    assert (details["group"], details["kind"]) == ("meta.k8s.io", "ListOptions")
    assert {cause["field"] for cause in details["causes"]} == fields, details


def test_a_future_resource_version_is_waited_for_in_silence(kube):
    a, _ = two_pods(kube)
    with kube.watch(f"resourceVersion={a + 2}") as w:
        kube.put(pod("x", "c"))
        kube.put(pod("x", "d"))
        w.quiet()
        e = kube.put(pod("x", "e"))
        assert w.briefs(1) == [("ADDED", "e", e)]


def test_limit_and_continue_do_not_matter(kube):
    two_pods(kube)
    with kube.watch("limit=1") as w:
        assert len(w.take(2)) == 2


@pytest.mark.parametrize("query", ["watch", "watch=", "watch=1", "watch=True", "watch=yes"])
def test_whatever_is_not_false_is_true(kube, query):
    a, b = two_pods(kube)
    with Watch(kube.endpoint, PODS.path(), f"{query}&resourceVersion={b}") as w:
        assert w.briefs(1) == [("ADDED", "a", a)]


@pytest.mark.parametrize("query", ["watch=0", "watch=false", "watch=False", ""])
def test_what_is_false_is_a_list(kube, query):
    two_pods(kube)
    assert kube.list(query=query).names == ["a", "b"]


def test_the_old_path_for_watches(kube):
    a, b = two_pods(kube)
    with Watch(kube.endpoint, f"/apis/{PODS.api_version}/watch/namespaces/x/pods", f"resourceVersion={b}") as w:
        assert w.briefs(1) == [("ADDED", "a", a)]
    with Watch(kube.endpoint, f"/apis/{PODS.api_version}/watch/namespaces/x/pods/a", "resourceVersion=0") as w:
        assert w.briefs(1) == [("ADDED", "a", a)]
        kube.put(pod("x", "b", node="n2"))
        w.quiet()


def test_a_name_in_the_path_is_no_watch(kube):
    a, _ = two_pods(kube)
    answer = kube.get(PODS.path("x", "a"), "watch=1")
    assert (answer.code, answer.json["kind"], answer.rv) == (200, "Pod", a)


# ---- its form (3.3)

def test_headers_come_before_any_event(kube):
    patience = Patience(3)
    with kube.watch(f"resourceVersion={kube.store.revision}", timeout=5) as w:
        assert not patience.is_over()
        assert w.code == 200 and w.headers["content-type"].split(";")[0] == "application/json"
        assert w.headers["transfer-encoding"] == "chunked" and "content-length" not in w.headers
        assert "content-encoding" not in w.headers
        w.quiet()


def test_an_event_is_one_compact_line_whoever_asks(kube):
    rev = kube.put(pod("x", "a"))
    headers = {"User-Agent": "curl/7.88.1", "Accept-Encoding": "gzip", "Accept": "*/*"}
    with kube.watch("resourceVersion=0&pretty=true", headers=headers) as w:
        text = w.line()
        event = json.loads(text)
        assert brief(event) == ("ADDED", "a", rev)
        assert list(event) == ["type", "object"]
        assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Pod", PODS.api_version)
        assert text == json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(), text


NUMBERS = b'{"big":12345678901234567890123,"float":1.10,"exp":1e3,"minus":-0.0,"nested":{"z":1,"a":[1,2.50,{}]}}'
TEXT = "\u00e9 \u2028 <&> \" \\ \n \U0001f514"


@belfryd_only  # kubepeer has a type for its objects
def test_numbers_are_as_they_were_written(kube):
    value = (b'{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"name":"n","namespace":"x",'
             b'"annotations":{"t":' + json.dumps(TEXT).encode() + b'}},"spec":' + NUMBERS + b"}")
    rev = kube.put_raw("x", "n", value, WIDGETS)
    kube.wait_for(rev, WIDGETS)
    with kube.watch("resourceVersion=0", WIDGETS) as w:
        line = w.line()
        assert NUMBERS in line and json.loads(line)["object"]["metadata"]["annotations"] == {"t": TEXT}
    assert NUMBERS in kube.get(WIDGETS.path("x", "n")).body
    answer = kube.list(WIDGETS)
    assert NUMBERS in answer.body and answer.items[0]["metadata"]["annotations"] == {"t": TEXT}


# ---- events (3.4)

def test_an_object_comes_changes_and_goes(kube):
    with kube.watch(f"resourceVersion={kube.store.revision}") as w:
        one, two = pod("x", "a", {"k": "1"}), pod("x", "a", {"k": "2"})
        revs = [kube.put(one), kube.put(two), kube.delete("x", "a"), kube.put(one)]
        events = w.take(4)
        assert [brief(e) for e in events] == [(t, "a", rev) for t, rev in
                                              zip(["ADDED", "MODIFIED", "DELETED", "ADDED"], revs)]
        wanted = [bare(o) for o in (one, two, two, one)]
        assert [bare(e["object"]) for e in events] == wanted, "DELETED: the last state"


def test_a_label_edit_is_a_change_and_selectors_see_transitions(kube):
    start = kube.store.revision
    on, off, other = (pod("x", "a", labels) for labels in ({"app": "web"}, {"app": "db"}, {"app": "web", "more": "1"}))
    with kube.watch(f"resourceVersion={start}&labelSelector=app%3Dweb") as w, \
         kube.watch(f"resourceVersion={start}&labelSelector=app%21%3Dweb") as negative:
        kube.put(off)                                  # 0 0
        first = kube.put(on)                           # 0 1: starts matching
        second = kube.put(other)                       # 1 1
        third = kube.put(off)                          # 1 0: stops matching
        kube.put(off)                                  # 0 0
        kube.delete("x", "a")                          # 0 0, by a delete
        fourth = kube.put(on)
        fifth = kube.delete("x", "a")                  # 1 0, by a delete
        events = w.take(5)
        assert [brief(e) for e in events] == [("ADDED", "a", first), ("MODIFIED", "a", second),
                                              ("DELETED", "a", third),
                                              ("ADDED", "a", fourth), ("DELETED", "a", fifth)]
        assert bare(events[2]["object"]) == bare(other), "DELETED: the last that matched, at the revision of the change"
        w.quiet()
        assert [t for t, _, _ in negative.briefs(5)] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]


def test_many_flips_in_and_out_of_a_selector(kube):
    start, said, inside = kube.store.revision, [], False
    for i in range(200):
        matches = i % 3 != 0
        rev = kube.put(pod("x", "a", {"in": "yes" if matches else "no", "i": str(i)}))
        if matches or inside:
            said.append(("MODIFIED" if inside and matches else "ADDED" if matches else "DELETED", "a", rev))
        inside = matches
    for resource_version in (start, start + 50):
        want = [s for s in said if s[2] > resource_version]
        with kube.watch(f"resourceVersion={resource_version}&labelSelector=in%3Dyes") as w:
            assert w.briefs(len(want)) == want
            w.quiet()


@pytest.mark.parametrize("selector,matching", [
    ("k", "ab"), ("!k", "c"), ("k=1", "a"), ("k==1", "a"), ("k!=1", "bc"), ("k in (1,2)", "ab"), ("k notin (1)", "bc"),
    ("k in (1), other", "a"), ("k>1", "b"), ("k<2", "a"), ("k=", ""), ("", "abc"),
])
def test_label_selectors_choose_the_state_and_the_changes(kube, selector, matching):
    labels = {"a": {"k": "1", "other": "x"}, "b": {"k": "2"}, "c": {"z": "1"}}
    for each, its in labels.items():
        rev = kube.put(pod("x", each, its))
    kube.wait_for(rev)
    with kube.watch({"labelSelector": selector, "resourceVersion": "0"}) as w:
        assert sorted(brief(e)[1] for e in w.take(len(matching))) == sorted(matching)
        for each, its in labels.items():
            rev = kube.put(pod("x", each, its, node="n2"))
            if each in matching:
                assert w.briefs(1) == [("MODIFIED", each, rev)]
        w.quiet()
    assert kube.list(query={"labelSelector": selector}).names == sorted(matching)


@pytest.mark.parametrize("selector,matching", [
    ("metadata.name=a", ["x/a", "y/a"]), ("metadata.namespace=x", ["x/a", "x/b"]), ("metadata.name!=a", ["x/b"]),
    ("metadata.name=a,metadata.namespace=y", ["y/a"]), ("metadata.name=none", []), ("", ["x/a", "x/b", "y/a"]),
])
def test_field_selectors_of_every_resource(kube, selector, matching):
    for namespace, each in (("x", "a"), ("x", "b"), ("y", "a")):
        rev = kube.put(pod(namespace, each))
    kube.wait_for(rev)
    with kube.watch({"fieldSelector": selector, "resourceVersion": "0"}) as w:
        got = [e["object"]["metadata"] for e in w.take(len(matching))]
        assert sorted(f"{m['namespace']}/{m['name']}" for m in got) == matching
        w.quiet()
    got = [item["metadata"] for item in kube.list(query={"fieldSelector": selector}).items]
    assert [f"{m['namespace']}/{m['name']}" for m in got] == matching


@belfryd_only
@pytest.mark.parametrize("selector,before,after,said", [
    ("spec.color=blue", {"color": "red"}, {"color": "blue"}, "ADDED"),
    ("spec.color=blue", {"color": "blue"}, {"color": "blue", "size": 2}, "MODIFIED"),
    ("spec.color=blue", {"color": "blue"}, {"color": "red"}, "DELETED"),
    ("spec.color=blue", {"color": "blue"}, {}, "DELETED"),
    ("spec.color=blue", {"color": "red"}, {"color": "green"}, None),
    ("spec.color!=blue", {"color": "blue"}, {}, "ADDED"),
    ("spec.color=", {"color": "blue"}, {}, "ADDED"),
    ("spec.size=7", {"size": 6}, {"size": 7}, "ADDED"),
    ("spec.color=blue,spec.size=7", {"color": "blue"}, {"color": "blue", "size": 7}, "ADDED"),
    ("spec.color=blue,spec.nodeName=n1", {"color": "blue", "nodeName": "n1"}, {"color": "blue", "nodeName": "n2"},
     "DELETED"),
])
def test_selectable_fields_see_transitions(kube, selector, before, after, said):
    start = kube.put(widget("x", "a", **before), WIDGETS)
    with kube.watch({"fieldSelector": selector, "resourceVersion": start}, WIDGETS) as w:
        rev = kube.put(widget("x", "a", **after), WIDGETS)
        if said is None:
            w.quiet()
            return
        event = w.event()
        assert brief(event) == (said, "a", rev)
        assert event["object"]["spec"] == (before if said == "DELETED" else after)


@belfryd_only
def test_each_watcher_of_its_own_node_gets_its_own(kube):
    start = kube.store.revision
    watches = [kube.watch(f"resourceVersion={start}&fieldSelector=spec.nodeName%3Dn{i}", WIDGETS) for i in range(50)]
    try:
        first = [kube.put(widget("x", f"w{i}", nodeName=f"n{i}"), WIDGETS) for i in range(50)]
        moved = [kube.put(widget("x", f"w{i}", nodeName=f"n{(i + 1) % 50}"), WIDGETS) for i in range(50)]
        for i, w in enumerate(watches):
            came = (i - 1) % 50
            want = sorted([("ADDED", f"w{i}", first[i]), ("DELETED", f"w{i}", moved[i]),
                           ("ADDED", f"w{came}", moved[came])],
                          key=lambda e: e[2])
            assert w.briefs(3) == want
    finally:
        for w in watches:
            w.close()


def test_a_namespace_has_its_own_events(kube):
    start = kube.store.revision
    with kube.watch(f"resourceVersion={start}",
                    namespace="x") as w, kube.watch(f"resourceVersion={start}") as all_of_them:
        kube.put(pod("xx", "a"))
        rev = kube.put(pod("x", "a"))
        kube.put(pod("w", "a"))
        assert w.briefs(1) == [("ADDED", "a", rev)]
        w.quiet()
        assert [e["object"]["metadata"]["namespace"] for e in all_of_them.take(3)] == ["xx", "x", "w"]


@belfryd_only
def test_objects_of_no_namespace(kube):
    rev = kube.put(ZONES.object(None, "north"), ZONES)
    kube.wait_for(rev, ZONES)
    with kube.watch("resourceVersion=0&fieldSelector=metadata.name%3Dnorth", ZONES) as w:
        event = w.event()
        assert brief(event) == ("ADDED", "north", rev) and "namespace" not in event["object"]["metadata"]
        gone = kube.delete(None, "north", ZONES)
        assert w.briefs(1) == [("DELETED", "north", gone)]
    with kube.watch("resourceVersion=0&fieldSelector=metadata.namespace%3D", ZONES) as w:
        kube.put(ZONES.object(None, "south"), ZONES)
        assert brief(w.event())[:2] == ("ADDED", "south")


def test_many_objects_of_one_revision_come_all(kube):
    start = kube.store.revision
    with kube.watch(f"resourceVersion={start}&labelSelector=in") as w:
        rev = kube.put_many([pod("x", f"p{i:02}", {"in": "1"} if i % 2 else None) for i in range(40)])
        assert sorted(w.briefs(20)) == [("ADDED", f"p{i:02}", rev) for i in range(1, 40, 2)]
        w.quiet()


@belfryd_only
def test_a_key_that_is_none_of_its_objects_is_not_seen(kube):
    skipped = kube.counted("skipped")
    with kube.watch(f"resourceVersion={kube.store.revision}", WIDGETS) as w:
        value = json.dumps(widget("x", "a")).encode()
        for key in (b"a", b"x/a/b", b"x/UPPER", b"x/-a", b"x/", b"X/a", b"x/a b", b"x/\xff"):
            kube.store.put(WIDGETS.prefix.encode() + key, value)
        rev = kube.put(widget("x", "last"), WIDGETS)
        assert w.briefs(1) == [("ADDED", "last", rev)]
    assert kube.counted("skipped") > skipped
    kube.wait_for(rev, WIDGETS)
    assert kube.list(WIDGETS).names == ["last"]


# ---- what cannot be decoded

BROKEN = [b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap", b"not json", b"", b"[1]", b'{"metadata":', b'"text"',
          b"k8s:enc:aescbc:v1:k:xyz",
          b'{"kind":"Widget","apiVersion":"demo.example.com/v1","metadata":{"name":"a","namespace":"x"},"spec":{}}}']


@belfryd_only
@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: repr(b[:12]))
def test_a_value_that_breaks_is_deleted_and_one_that_heals_is_added(kube, broken):
    start = kube.store.revision
    counted = kube.counted("undecodable")
    good = widget("x", "a", {"in": "1"}, color="blue")
    with kube.watch(f"resourceVersion={start}", WIDGETS) as w, \
         kube.watch(f"resourceVersion={start}&labelSelector=in", WIDGETS) as chosen:
        kube.put_raw("x", "a", broken, WIDGETS)         # never was one
        first = kube.put(good, WIDGETS)                 # heals
        second = kube.put_raw("x", "a", broken, WIDGETS)
        kube.put_raw("x", "a", broken + b" ", WIDGETS)  # still broken
        third = kube.put(good, WIDGETS)
        kube.put_raw("x", "a", broken, WIDGETS)
        fifth = kube.delete("x", "a", WIDGETS)          # of what was not there
        last = kube.put(good, WIDGETS)
        want = [("ADDED", "a", first), ("DELETED", "a", second), ("ADDED", "a", third), ("DELETED", "a", fifth - 1),
                ("ADDED", "a", last)]
        for each in (w, chosen):
            events = each.take(5)
            assert [brief(e) for e in events] == want
            assert bare(events[1]["object"]) == bare(good), "DELETED: the last that could be decoded"
            each.quiet()
    assert kube.counted("undecodable") > counted
    kube.wait_for(last, WIDGETS)
    kube.put(widget("x", "b"), WIDGETS)
    kube.put_raw("x", "a", broken, WIDGETS)
    assert kube.list(WIDGETS).names == ["b"]
    assert kube.get(WIDGETS.path("x", "a")).failure == (404, "NotFound")


# ---- sizes

def test_objects_of_three_mebibytes(kube):
    big, small = pod("x", "big", hostname="h" * (3 << 20)), pod("x", "small")
    with kube.watch(f"resourceVersion={kube.store.revision}") as w:
        revs = [kube.put(big), kube.put(small), kube.put({**big, "spec": {**big["spec"], "nodeName": "n2"}}),
                kube.delete("x", "big")]
        events = w.take(4, timeout=60)
        assert [brief(e) for e in events] == list(zip(["ADDED", "ADDED", "MODIFIED", "DELETED"],
                                                      ["big", "small", "big", "big"], revs))
        assert [len(e["object"]["spec"].get("hostname", "")) for e in events] == [3 << 20, 0, 3 << 20, 3 << 20]
    rev = kube.put(big)
    kube.wait_for(rev)
    assert kube.get(PODS.path("x", "big"), timeout=60).json["spec"] == big["spec"]
    assert kube.list(timeout=60).names == ["big", "small"]


@belfryd_only
def test_a_reader_that_stalls_is_not_ended_and_misses_nothing(kube):
    start, n = kube.store.revision, 1500
    with kube.watch(f"resourceVersion={start}", WIDGETS, receive_buffer=4096) as slow, \
         kube.watch(f"resourceVersion={start}", WIDGETS) as quick:
        filler = "f" * 10000
        revs = [kube.put(widget("x", f"w{i % 10}", color=filler, size=i), WIDGETS) for i in range(n)]
        assert [rv(e["object"]) for e in quick.take(n, 60)] == revs
        events = slow.take(n, 60)
        assert [rv(e["object"]) for e in events] == revs
        assert [e["type"] for e in events] == ["ADDED"] * 10 + ["MODIFIED"] * (n - 10)


# ---- bookmarks and duration (3.2, 3.5)

def test_the_deadline_is_a_clean_end(kube):
    with within(6, at_least_s=1.5), kube.watch(f"resourceVersion={kube.store.revision}&timeoutSeconds=2") as w:
        rev = kube.put(pod("x", "a"))
        assert [brief(e) for e in w.rest()] == [("ADDED", "a", rev)], "no ERROR, and no bookmark that nobody wanted"


def test_a_bookmark_comes_before_the_deadline(kube):
    start = kube.put(pod("x", "a"))
    with kube.watch(f"resourceVersion={start}&timeoutSeconds=6&allowWatchBookmarks=true") as w:
        rev = kube.put(pod("x", "b"))
        events = w.rest()
    assert brief(events[0]) == ("ADDED", "b", rev)
    assert len(events) >= 2 and {e["type"] for e in events[1:]} == {"BOOKMARK"}, events
    bookmark = events[-1]["object"]
    assert rv(bookmark) >= rev
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("Pod", PODS.api_version)
    assert "name" not in bookmark["metadata"] and INITIAL_END not in bookmark["metadata"].get("annotations", {})
    with kube.watch(f"resourceVersion={rv(bookmark)}") as w:  # a bookmark is a place to resume from
        w.quiet()
        rev = kube.put(pod("x", "c"))
        assert w.briefs(1) == [("ADDED", "c", rev)]


def test_a_bookmark_moves_on_though_the_resource_is_quiet(kube):
    kube.put(pod("x", "a"))
    with kube.watch("timeoutSeconds=6&allowWatchBookmarks=true") as w:
        assert w.event()["type"] == "ADDED"
        for i in range(20):
            rev = kube.store.put(b"/elsewhere", str(i).encode())
        bookmarks = w.rest()
    assert bookmarks and bookmarks[-1]["type"] == "BOOKMARK" and rv(bookmarks[-1]["object"]) >= rev, bookmarks


def test_bookmarks_come_about_once_a_minute(kube, soak):
    if not soak:
        needs.full_length("it takes more than a minute: with BELFRY_SOAK=1 only")
    start = kube.store.revision
    with kube.watch(f"resourceVersion={start}&allowWatchBookmarks=true") as w, \
         kube.watch(f"resourceVersion={start}") as none:
        begin = time.monotonic()
        assert w.event(90)["type"] == "BOOKMARK"
        assert 20 < time.monotonic() - begin < 90
        none.quiet()


def test_a_client_that_sends_no_more_has_left(kube):
    """Nothing happens that could be written, so that the end of what it sends is the only sign of it."""
    a, _ = two_pods(kube)
    with kube.watch(f"resourceVersion={a}") as w:
        w.quiet()
        w.socket.shutdown(socket.SHUT_WR)
        w.socket.settimeout(15)
        while w.socket.recv(4096):  # kube-apiserver still sends the last chunk
            pass


# ---- errors (3.6)

@pytest.mark.parametrize("query,failure", [
    ("labelSelector=a%3D%3D%3Db", (400, "BadRequest")), ("labelSelector=a+in+b", (400, "BadRequest")),
    ("labelSelector=a%3Db,", (400, "BadRequest")), ("fieldSelector=metadata.name", (400, "BadRequest")),
    ("fieldSelector=spec.bogus%3D1", (400, "BadRequest")), ("timeoutSeconds=abc", (400, "BadRequest")),
])
def test_what_cannot_be_understood_is_refused_before_it_starts(kube, query, failure):
    assert kube.list(query="watch=1&" + query).failure == failure


@belfryd_only  # where kubepeer says 500 without a reason
def test_a_resource_version_that_is_none_is_invalid(kube):
    assert kube.list(query="watch=1&resourceVersion=abc").failure == (422, "Invalid")


def test_there_is_no_such_resource(kube):
    for path in (f"/apis/{PODS.api_version}/nothings", "/apis/none.example.com/v1/pods",
                 f"/apis/{PODS.group}/v9/pods"):
        assert kube.get(path, "watch=1").code == 404


def test_no_form_of_ours_is_acceptable(kube):
    answer = kube.list(query="watch=1&timeoutSeconds=1", headers={"Accept": "image/png"})
    assert answer.failure == (406, "NotAcceptable")


def test_too_large_a_revision_with_initial_events_is_an_error_event(kube):
    a, _ = two_pods(kube)
    with kube.watch(f"{INITIAL}&resourceVersion={a + 1000}") as w:
        assert w.code == 200
        event, = w.rest()
    status = event["object"]
    assert (event["type"], status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 504, "Timeout")
    assert [c["reason"] for c in status["details"]["causes"]] == ["ResourceVersionTooLarge"]


def expired(w):
    """The one event of a watch whose history is gone, and its clean end."""
    assert w.code == 200, w.code
    event, = w.rest()
    status = event["object"]
    assert (event["type"], status["kind"], status["apiVersion"]) == ("ERROR", "Status", "v1"), event
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 410, "Expired"), event


def test_history_that_is_compacted_away_is_an_error_event_and_then_the_end(make_kube, tmp_path):
    cluster, revs = etcd_with_a_past(tmp_path)
    kube = make_kube(cluster=cluster)
    for query in (f"resourceVersion={revs[0]}",
                  f"resourceVersion={revs[0]}&allowWatchBookmarks=true&timeoutSeconds=300",
                  "resourceVersion=1&labelSelector=i%3D1"):
        with kube.watch(query) as w:
            expired(w)
    with kube.watch(f"resourceVersion={revs[4]}") as w:  # and others go on
        rev = kube.put(pod("x", "b"))
        assert w.briefs(1) == [("ADDED", "b", rev)]


@belfryd_only
def test_history_that_etcd_has_is_fetched_from_there(make_kube, tmp_path):
    cluster, revs = etcd_with_a_past(tmp_path, compact=False)
    kube = make_kube(cluster=cluster)
    with kube.watch(f"resourceVersion={revs[0] - 1}") as w:
        assert w.briefs(5) == list(zip(["ADDED"] + ["MODIFIED"] * 4, "aaaaa", revs))
    with kube.watch(f"resourceVersion={revs[0]}&labelSelector=i%3D1") as w:
        assert w.briefs(4) == list(zip(["ADDED", "DELETED"] * 2, "aaaa", revs[1:]))


@belfryd_only
def test_a_selector_that_needs_what_is_compacted_away_does_not_guess(make_kube, tmp_path):
    cluster, revs = etcd_with_a_past(tmp_path)
    kube = make_kube(cluster=cluster)
    # what was before revs[3] is not known to anybody: did the object match?
    with kube.watch(f"resourceVersion={revs[3] - 1}&labelSelector=i%3D0") as w:
        expired(w)


@belfryd_only
def test_a_watch_lives_through_a_compaction_of_what_it_has_seen(kube):
    start = kube.put(pod("x", "a"))
    with kube.watch(f"resourceVersion={start}") as w:
        for i in range(5):
            rev = kube.put(pod("x", "a", {"i": str(i)}))
        kube.store.compact(rev)
        again = kube.put(pod("x", "a", {"i": "again"}))
        assert w.briefs(6)[-1] == ("MODIFIED", "a", again)


@belfryd_only
def test_a_tier_that_is_not_ready_holds_and_then_says_when_to_come_again(make_kube, tmp_path):
    (tmp_path / "down").mkdir()
    cluster = Cluster(tmp_path / "down")  # not started
    kube = make_kube(cluster=cluster, wait=False)
    procs.wait_until(lambda: kube.tier.get("/healthz")[0], 20, 0.1, "belfryd is up")
    with within(15, at_least_s=5, why="held up to 10 s"), ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda query: kube.list(query=query), ["watch=1", "", "watch=1&resourceVersion=5"]))
    for answer in answers:
        assert answer.failure == (429, "TooManyRequests"), answer.body
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert answer.json["details"]["retryAfterSeconds"] == int(answer.headers["retry-after"])
    # one that is held when upstream comes is served
    with socket.create_connection((kube.tier.host, kube.tier.port)) as s:
        s.sendall(f"GET {PODS.path()}?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        cluster.start()
        rev = kube.put(pod("x", "a"))
        s.settimeout(20)
        text = b""
        while b'"ADDED"' not in text:
            got = s.recv(65536)
            assert got, text
            text += got
        assert text.startswith(b"HTTP/1.1 200") and f'"{rev}"'.encode() in text


@belfryd_only
def test_running_watches_end_cleanly_when_the_server_stops(make_kube):
    kube = make_kube(flags=["--drain", "2s"])
    rev = kube.put(pod("x", "a"))
    watches = [kube.watch("resourceVersion=0") for _ in range(10)]
    for w in watches:
        assert w.briefs(1) == [("ADDED", "a", rev)]
    os.kill(kube.pid, signal.SIGTERM)
    for w in watches:
        assert w.rest(timeout=20) == [], "a clean end, no event"
        w.close()
    kube.tier.proc.wait(30)
    assert kube.tier.proc.returncode == 0


@belfryd_only
@pytest.mark.parametrize("method,path", [("POST", PODS.path("x")), ("PUT", PODS.path("x", "a")),
                                         ("PATCH", PODS.path("x", "a")),
                                         ("DELETE", PODS.path("x", "a")), ("DELETE", PODS.path("x"))])
def test_writes_are_refused_with_a_reason(kube, method, path):
    rev = kube.put(pod("x", "a"))
    kube.wait_for(rev)
    answer = kube.get(path, method=method, body=json.dumps(pod("x", "a")),
                      headers={"Content-Type": "application/json"})
    assert answer.failure == (405, "MethodNotAllowed") and "etcd" in answer.json["message"]
    assert kube.store.revision == rev


# ---- other forms (1.5)

def test_a_watch_as_tables_has_its_columns_once(kube):
    start = kube.store.revision
    with kube.watch(f"resourceVersion={start}", headers={"Accept": TABLE}) as w:
        revs = [kube.put(pod("x", "a")), kube.put(pod("x", "a", {"k": "v"})), kube.delete("x", "a")]
        events = w.take(3)
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    for event, rev in zip(events, revs):
        table = event["object"]
        assert (table["kind"], table["apiVersion"], len(table["rows"])) == ("Table", "meta.k8s.io/v1", 1)
        row, = table["rows"]
        assert row["cells"][0] == "a"
        assert row["object"]["kind"] == "PartialObjectMetadata" and rv(row["object"]) == rev
    assert [bool(e["object"].get("columnDefinitions")) for e in events] == [True, False, False]


def test_a_watch_of_metadata_alone(kube):
    start = kube.store.revision
    with kube.watch(f"resourceVersion={start}", headers={"Accept": METADATA}) as w:
        rev = kube.put(pod("x", "a", {"k": "v"}))
        event = w.event()
    assert brief(event) == ("ADDED", "a", rev)
    obj = event["object"]
    assert (obj["kind"], obj["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert obj["metadata"]["labels"] == {"k": "v"} and "spec" not in obj
