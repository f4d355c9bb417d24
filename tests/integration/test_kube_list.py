"""LIST and GET of Kubernetes' API: which state is read, pages, forms, and what a list costs. Most of it also runs
against a real kube-apiserver (BELFRY_KUBE_PEER=1)."""
import gzip
import json
import os
import shutil
import socket
import threading
import time

import pytest
from kube import BY_PEER, PODS, WIDGETS, ZONES, bare, belfryd_only, continue_token, pod, rv, widget
from patience import within

pytest_plugins = ["kube_fixtures"]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TABLE_FIRST = TABLE + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def history(kube):
    """Revisions of: a there, b there, a changed, b gone, c there."""
    steps = [kube.put(pod("x", "a")), kube.put(pod("x", "b")), kube.put(pod("x", "a", node="n2")),
             kube.delete("x", "b"), kube.put(pod("x", "c"))]
    kube.wait_for(steps[-1])
    return steps


# ---- which state is read (2.2)

@pytest.mark.parametrize("query", ["", "resourceVersion=", "resourceVersion=0",
                                   "resourceVersion=0&resourceVersionMatch=NotOlderThan",
                                   "resourceVersion={0}", "resourceVersion={4}",
                                   "resourceVersion={0}&resourceVersionMatch=NotOlderThan", "limit=0", "limit=10",
                                   "resourceVersion=0&limit=1", "resourceVersion={4}&limit=2",
                                   "resourceVersion={4}&resourceVersionMatch=Exact", "limit=10&resourceVersion=0",
                                   "resourceVersion={2}&resourceVersionMatch=NotOlderThan&limit=2"])
def test_the_newest_state(kube, query):
    revs = history(kube)
    answer = kube.list(query=query.format(*revs))
    assert answer.code == 200 and answer.names == ["a", "c"], answer.body
    assert answer.rv >= revs[4] and "continue" not in answer.json["metadata"]
    assert [rv(item) for item in answer.items] == [revs[2], revs[4]]


@pytest.mark.parametrize("step,names", [(0, ["a"]), (1, ["a", "b"]), (2, ["a", "b"]), (3, ["a"]), (4, ["a", "c"])])
@pytest.mark.parametrize("query", ["resourceVersion={}&resourceVersionMatch=Exact", "resourceVersion={}&limit=10",
                                   "resourceVersion={}&resourceVersionMatch=Exact&limit=10"])
def test_the_state_at_a_revision(kube, query, step, names):
    revs = history(kube)
    answer = kube.list(query=query.format(revs[step]))
    assert (answer.code, answer.rv, answer.names) == (200, revs[step], names), answer.body
    assert rv(answer.items[0]) == (revs[2] if step >= 2 else revs[0])


def test_a_list_sees_every_write_before_it(kube):
    for i in range(50):
        rev = kube.put(pod("x", f"p{i:02}"))
        answer = kube.list()
        assert answer.rv >= rev and len(answer.items) == i + 1, "most recent"
        assert rv(kube.get(PODS.path("x", f"p{i:02}")).json) == rev


def test_the_newest_state_though_only_others_are_written(kube):
    kube.put(pod("x", "a"))
    for i in range(5):
        rev = kube.store.put(b"/elsewhere", str(i).encode())
        with within(3):
            assert kube.list().rv >= rev


@pytest.mark.parametrize("query,failure", [
    ("resourceVersionMatch=Exact", (422, "Invalid")), ("resourceVersionMatch=NotOlderThan", (422, "Invalid")),
    ("resourceVersion=0&resourceVersionMatch=Exact", (422, "Invalid")),
    ("resourceVersion=5&resourceVersionMatch=Bogus", (422, "Invalid")),
    ("sendInitialEvents=true", (422, "Invalid")), ("sendInitialEvents=false", (422, "Invalid")),
    ("resourceVersion=abc", (400, "BadRequest")), ("resourceVersion=-1", (400, "BadRequest")),
    ("resourceVersion=99999999999999999999999", (400, "BadRequest")),
    ("limit=abc", (400, "BadRequest")), ("continue=abc", (400, "BadRequest")), ("continue=%21", (400, "BadRequest")),
    ("labelSelector=a%3D%3D%3Db", (400, "BadRequest")), ("fieldSelector=bogus%3D1", (400, "BadRequest")),
    ("shardSelector=x", (400, "BadRequest")),
])
def test_what_is_no_list(kube, query, failure):
    assert kube.list(query=query).failure == failure


@pytest.mark.parametrize("query", ["timeout=32s", "fieldManager=x", "pretty=false", "unknown=1", "a&b=&=c&&",
                                   "allowWatchBookmarks=true", "limit=500&resourceVersion=0&timeoutSeconds=30"])
def test_what_is_not_known_is_ignored(kube, query):
    kube.wait_for(kube.put(pod("x", "a")))
    assert kube.list(query=query).names == ["a"]


@pytest.mark.parametrize("query", ["resourceVersion={}", "resourceVersion={}&resourceVersionMatch=NotOlderThan",
                                   "resourceVersion={}&resourceVersionMatch=Exact"])
def test_a_revision_that_does_not_come_is_a_timeout(kube, query):
    with within(8, at_least_s=2):
        answer = kube.list(query=query.format(kube.store.revision + 1000))
    assert answer.failure == (504, "Timeout")
    details = answer.json["details"]
    assert [c["reason"] for c in details["causes"]] == ["ResourceVersionTooLarge"] and details["retryAfterSeconds"] >= 1


def test_a_revision_that_comes_is_waited_for(kube):
    kube.put(pod("x", "a"))
    later = threading.Timer(1, kube.put, [pod("x", "b")])
    later.start()
    answer = kube.list(query=f"resourceVersion={kube.store.revision + 1}")
    later.join()
    assert answer.names == ["a", "b"]


def test_a_revision_that_is_gone_is_expired(make_kube):
    kube = make_kube()
    old = kube.put(pod("x", "a"))
    for i in range(10):
        rev = kube.put(pod("x", "a", {"i": str(i)}))
    if not BY_PEER:
        kube.tier.stop()
        kube.store.compact(rev)
        shutil.rmtree(kube.tier.cache)
        kube.tier.start()
    else:
        kube.peer.kill()
        kube.store.compact(rev)
        kube.peer.start()
    for query in (f"resourceVersion={old}&resourceVersionMatch=Exact", f"resourceVersion={old}&limit=5",
                  {"continue": continue_token(old, "x/a\0"), "limit": 5}):
        assert kube.list(query=query).failure == (410, "Expired")
    assert kube.list().names == ["a"]


# ---- one object

def test_one_object(kube):
    obj = pod("x", "a", {"k": "v"})
    rev = kube.put(obj)
    for query in ("", "resourceVersion=0", f"resourceVersion={rev}", "resourceVersion="):
        if query:
            kube.wait_for(rev)
        answer = kube.get(PODS.path("x", "a"), query)
        assert (answer.code, rv(answer.json), bare(answer.json)) == (200, rev, bare(obj))
        assert (answer.json["kind"], answer.json["apiVersion"]) == ("Pod", PODS.api_version)
        assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert kube.get(PODS.path("x", "a"), f"resourceVersion={rev + 1000}").failure == (504, "Timeout")


def test_an_object_that_is_not_there(kube):
    answer = kube.get(PODS.path("x", "none"))
    assert answer.failure == (404, "NotFound")
    assert {k: answer.json["details"].get(k) for k in ("name", "group", "kind")} == {
        "name": "none", "group": PODS.group, "kind": "pods"}
    for path in (f"/apis/{PODS.api_version}/nothings", f"/apis/{PODS.api_version}/namespaces/x/nothings/a",
                 "/apis/none.example.com/v1/pods", f"/apis/{PODS.group}/v9/pods"):
        assert kube.get(path).code == 404, path


# ---- the answer (2.3)

def test_an_empty_list(kube):
    answer = kube.list()
    got = answer.json
    assert (got["kind"], got["apiVersion"], got["items"]) == ("PodList", PODS.api_version, [])
    assert int(got["metadata"]["resourceVersion"]) >= kube.store.revision
    assert not got["metadata"].get("continue")


def test_objects_are_in_order_of_their_keys(kube):
    wanted = [("a", "b"), ("a", "b-c"), ("a", "b.c"), ("a", "bb"), ("a-b", "a"), ("ab", "a"), ("b", "a")]
    for namespace, each in reversed(wanted):
        rev = kube.put(pod(namespace, each))
    kube.wait_for(rev)
    got = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in kube.list().items]
    assert got == sorted(wanted, key=lambda k: f"{k[0]}/{k[1]}")
    assert kube.list(namespace="a").names == ["b", "b-c", "b.c", "bb"], "not those of a-b and ab"
    assert kube.list(namespace="none").names == []


@belfryd_only  # built-in types leave it out
def test_items_say_what_they_are(kube):
    kube.put(pod("x", "a"))
    for item in kube.list().items:
        assert (item["kind"], item["apiVersion"]) == ("Pod", PODS.api_version)


@belfryd_only
def test_objects_of_no_namespace(kube):
    kube.put(ZONES.object(None, "north"), ZONES)
    rev = kube.put(ZONES.object(None, "south"), ZONES)
    answer = kube.list(ZONES)
    assert answer.names == ["north", "south"] and answer.json["kind"] == "ZoneList"
    assert rv(kube.get(ZONES.path(None, "south")).json) == rev


# ---- pages (2.4)

def pages(kube, query, between=lambda page: None, resource=PODS, namespace=None):
    """Of each page: the answer as JSON."""
    found, token = [], None
    while True:
        answer = kube.list(resource, namespace, query={**query, **({"continue": token} if token else {})})
        assert answer.code == 200, answer.body
        found.append(answer.json)
        token = answer.json["metadata"].get("continue")
        if not token:
            return found
        assert len(found) < 1000
        between(len(found))


def names_of(found):
    return [f"{i['metadata']['namespace']}/{i['metadata']['name']}" for page in found for i in page["items"]]


@pytest.mark.parametrize("limit", [1, 3, 7, 20, 21, 100])
def test_pages_are_one_list(kube, limit):
    wanted = [f"{namespace}/p{i:02}" for namespace in "xy" for i in range(10)]
    rev = kube.put_many([pod(*each.split("/")) for each in wanted])
    kube.wait_for(rev)
    found = pages(kube, {"limit": limit})
    assert names_of(found) == wanted
    assert [len(page["items"]) for page in found] == [limit] * (20 // limit) + ([20 % limit] if 20 % limit else [])
    assert len({page["metadata"]["resourceVersion"] for page in found}) == 1
    left = [page["metadata"].get("remainingItemCount") for page in found]
    assert left == [20 - limit * (i + 1) for i in range(len(found) - 1)] + [None]


def test_pages_do_not_see_what_is_written_between(kube):
    kube.put_many([pod("x", f"p{i:02}") for i in range(10)])
    rev = kube.store.revision
    kube.wait_for(rev)

    def between(page):
        kube.put(pod("x", f"p{page * 2:02}", {"changed": "yes"}))  # behind and ahead
        kube.put(pod("x", f"p{9 - page:02}", {"changed": "yes"}))
        kube.delete("x", f"p{9 - page:02}")
        kube.put(pod("x", f"p{page * 2:02}-new"))
        kube.wait_for(kube.store.revision)
    found = pages(kube, {"limit": 2}, between)
    assert names_of(found) == [f"x/p{i:02}" for i in range(10)]
    assert {page["metadata"]["resourceVersion"] for page in found} == {found[0]["metadata"]["resourceVersion"]}
    assert all("labels" not in item["metadata"] for page in found for item in page["items"])
    assert all(rv(item) <= rev for page in found for item in page["items"])


def test_pages_with_a_selector(kube):
    kube.put_many([pod("x", f"p{i:02}", {"in": "1"} if i % 3 == 0 else None) for i in range(30)])
    kube.wait_for(kube.store.revision)
    found = pages(kube, {"limit": 3, "labelSelector": "in"})
    assert names_of(found) == [f"x/p{i:02}" for i in range(0, 30, 3)]
    assert all("remainingItemCount" not in page["metadata"] for page in found)
    assert [len(page["items"]) for page in found[:3]] == [3, 3, 3]


def test_pages_of_one_namespace(kube):
    kube.put_many([pod(namespace, f"p{i}") for namespace in ("a", "b", "c") for i in range(5)])
    kube.wait_for(kube.store.revision)
    found = pages(kube, {"limit": 2}, namespace="b")
    assert names_of(found) == [f"b/p{i}" for i in range(5)]
    assert [page["metadata"].get("remainingItemCount") for page in found] == [3, 1, None]


def test_pages_at_an_exact_revision(kube):
    rev = kube.put_many([pod("x", f"p{i}") for i in range(5)])
    kube.delete("x", "p3")
    kube.wait_for(kube.store.revision)
    first = kube.list(query={"limit": 2, "resourceVersion": rev, "resourceVersionMatch": "Exact"}).json
    assert int(first["metadata"]["resourceVersion"]) == rev
    rest = kube.list(query={"limit": 10, "continue": first["metadata"]["continue"]}).json
    assert names_of([first, rest]) == [f"x/p{i}" for i in range(5)]
    assert int(rest["metadata"]["resourceVersion"]) == rev


def test_a_token_goes_with_nothing_else(kube):
    kube.put_many([pod("x", f"p{i}") for i in range(5)])
    kube.wait_for(kube.store.revision)
    token = kube.list(query={"limit": 2}).json["metadata"]["continue"]
    assert kube.list(query={"limit": 2, "continue": token, "resourceVersion": 5}).failure == (400, "BadRequest")
    assert kube.list(query={"limit": 2, "continue": token, "resourceVersion": 5,
                            "resourceVersionMatch": "NotOlderThan"}).failure == (422, "Invalid")
    # at revision 0 it goes on; whether the limit then counts is nobody's promise
    assert kube.list(query={"limit": 2, "continue": token, "resourceVersion": 0}).names[:2] == ["p2", "p3"]


@pytest.mark.parametrize("rv,start", [(0, "x/p1\0"), (5, ""), (5, "../p1\0"), (5, "x/../../p1\0")])
def test_a_token_that_was_tampered_with(kube, rv, start):
    assert kube.list(query={"limit": 2, "continue": continue_token(rv, start)}).failure == (400, "BadRequest")


def test_a_token_of_the_newest_state(kube):
    """rv -1: what a client gets that was told 410 in the middle of its pages."""
    kube.put_many([pod("x", f"p{i}") for i in range(5)])
    rev = kube.delete("x", "p3")
    kube.wait_for(rev)
    answer = kube.list(query={"limit": 10, "continue": continue_token(-1, "x/p1\0")})
    assert answer.names == ["p2", "p4"] and answer.rv >= rev


# ---- forms (1.5) and compression (2.6)

def test_a_table(kube):
    kube.put(pod("x", "a"))
    rev = kube.put(pod("x", "b"))
    for accept in (TABLE, TABLE_FIRST):
        answer = kube.list(headers={"Accept": accept})
        table = answer.json
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1") and answer.rv >= rev
        assert table["columnDefinitions"][0]["name"] == "Name" and table["columnDefinitions"][0]["format"] == "name"
        assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
        assert {row["object"]["kind"] for row in table["rows"]} == {"PartialObjectMetadata"}
        assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
    whole = kube.list(query="includeObject=Object", headers={"Accept": TABLE}).json
    assert [row["object"]["spec"]["nodeName"] for row in whole["rows"]] == ["n1", "n1"]
    none = kube.list(query="includeObject=None", headers={"Accept": TABLE}).json
    assert all(row.get("object") is None for row in none["rows"])
    one = kube.get(PODS.path("x", "b"), headers={"Accept": TABLE}).json
    assert one["kind"] == "Table" and [row["cells"][0] for row in one["rows"]] == ["b"]


def test_tables_have_pages(kube):
    kube.put_many([pod("x", f"p{i}") for i in range(5)])
    kube.wait_for(kube.store.revision)
    first = kube.list(query={"limit": 3}, headers={"Accept": TABLE}).json
    assert [row["cells"][0] for row in first["rows"]] == ["p0", "p1", "p2"]
    assert first["metadata"]["remainingItemCount"] == 2
    rest = kube.list(query={"limit": 3, "continue": first["metadata"]["continue"]}, headers={"Accept": TABLE}).json
    assert [row["cells"][0] for row in rest["rows"]] == ["p3", "p4"]


@belfryd_only
def test_a_table_has_the_columns_of_its_definition(kube):
    kube.put(widget("x", "a", color="blue", size=7, nodeName="n1"), WIDGETS)
    kube.put(widget("x", "b"), WIDGETS)
    table = kube.list(WIDGETS, headers={"Accept": TABLE}).json
    assert [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]] == [
        ("Name", "string", 0), ("Color", "string", 0), ("Size", "integer", 0), ("Node", "string", 1),
        ("Age", "date", 0)]
    a, b = (row["cells"] for row in table["rows"])
    assert a[:4] == ["a", "blue", 7, "n1"] and b[0] == "b" and b[1:4] in ([None] * 3, [""] * 3)


def test_metadata_alone(kube):
    kube.put(pod("x", "a", {"k": "v"}))
    answer = kube.list(headers={"Accept": METADATA_LIST})
    got = answer.json
    assert (got["kind"], got["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert answer.names == ["a"] and got["items"][0]["metadata"]["labels"] == {"k": "v"}
    assert "spec" not in got["items"][0]
    one = kube.get(PODS.path("x", "a"), headers={"Accept": METADATA}).json
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["name"] == "a" and "spec" not in one


@pytest.mark.parametrize("accept,kind", [
    ("", "PodList"), ("*/*", "PodList"), ("application/json", "PodList"),
    ("application/json, */*;q=0.8", "PodList"),
    ("application/vnd.kubernetes.protobuf;as=Bogus;v=v1;g=x,application/json", "PodList"),
    ("application/json;as=Bogus;v=v1;g=meta.k8s.io,application/json", "PodList"), (TABLE_FIRST, "Table"),
    ("application/json;charset=utf-8", "PodList"),
])
def test_the_first_form_that_can_be_had(kube, accept, kind):
    answer = kube.list(headers={"Accept": accept} if accept else None)
    assert (answer.code, answer.json["kind"]) == (200, kind)


@pytest.mark.parametrize("accept", ["image/png", "application/json;as=Bogus;v=v1;g=meta.k8s.io"])
def test_no_form_that_can_be_had(kube, accept):
    assert kube.list(headers={"Accept": accept}).failure == (406, "NotAcceptable")


def test_large_lists_are_compressed_for_who_wants_that(kube):
    small = kube.list(headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers
    kube.put_many([pod("x", f"p{i:04}", hostname="h" * 200) for i in range(2000)])
    kube.wait_for(kube.store.revision)
    plain = kube.list()
    packed = kube.list(headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip" and "Accept-Encoding" in packed.headers["vary"]
    assert len(packed.body) < len(plain.body) / 3
    unpacked = json.loads(gzip.decompress(packed.body))
    assert unpacked["items"] == plain.items and len(plain.items) == 2000


# ---- what a list costs

def raw_list(server, resource, receive_buffer=8192):
    """A socket on which a list has been asked for, and nothing read."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    host, port = server.endpoint.rsplit(":", 1)
    s.connect((host, int(port)))
    s.sendall(f"GET {resource.path()}?resourceVersion=0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return s


def replica_bytes(tier):
    return sum(os.stat(os.path.join(folder, f)).st_blocks * 512 for folder, _,
               files in os.walk(tier.cache) for f in files)


def body_of(raw):
    """The chunked body; None when it was cut before its end."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    if b"chunked" not in head.lower():
        return rest
    out = b""
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        n = int(size, 16)
        if n == 0:
            return out
        if len(rest) < n + 2:
            return None
        out, rest = out + rest[:n], rest[n + 2:]


@belfryd_only
def test_a_slow_reader_of_a_list_does_not_make_the_replica_grow(make_kube, figure, soak):
    """10 KB/s while 10,000 writes go on. It is right in the end, or ended by its deadline."""
    kube = make_kube(flags=["--history-bytes", "8MiB", "--log-bytes", "4MiB"])
    n, seconds, writes = (20000, 60, 10000) if soak else (2000, 10, 2000)
    kube.put_many([widget("x", f"w{i:05}", color="c" * 200, size=0) for i in range(n)], WIDGETS)
    listed_at = kube.store.revision
    kube.wait_for(listed_at, WIDGETS)

    def churn(count):
        for i in range(count):
            kube.put(widget("x", f"w{i % n:05}", color="d" * 200, size=i + 1), WIDGETS)
    churn(writes)  # what the churn alone makes of the file
    kube.wait_for(kube.store.revision, WIDGETS)
    before = replica_bytes(kube.tier)
    begin, raw = time.monotonic(), b""
    with raw_list(kube, WIDGETS) as s:
        writer = threading.Thread(target=churn, args=(writes,))
        writer.start()
        try:
            while time.monotonic() - begin < seconds:
                got = s.recv(1024)
                if not got:
                    break
                raw += got
                time.sleep(0.1)
        finally:
            writer.join()
        kube.wait_for(kube.store.revision, WIDGETS)
        grown = replica_bytes(kube.tier) - before
        s.settimeout(30)
        while got := s.recv(1 << 16):
            raw += got
    figure("kube_slow_list_replica_growth", grown, "bytes")
    assert grown < 16 << 20, grown
    body = body_of(raw)
    if body is None:
        figure("kube_slow_list", "ended by its deadline")
        return
    got = json.loads(body)
    at = int(got["metadata"]["resourceVersion"])
    assert len(got["items"]) == n and all(rv(item) <= at for item in got["items"])
    exact = kube.list(WIDGETS, query={"resourceVersion": at, "resourceVersionMatch": "Exact"}, timeout=60)
    if exact.code == 200:
        assert exact.json["items"] == got["items"], "the list is one state"
    else:
        assert exact.failure == (410, "Expired")
    figure("kube_slow_list", "complete")


def peak_bytes(pid):
    """RssAnon: the pages of LMDB's file are the kernel's to take back."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


def test_a_list_of_100_000_objects_costs_no_memory(make_kube, figure):
    kube, n = make_kube(), 100000
    labels = {"app": "web", "tier": "front"}
    for i in range(0, n, 5000):
        kube.put_many([pod(f"ns{j % 100:02}", f"p{j:06}", labels) for j in range(i, i + 5000)])
    kube.wait_for(kube.store.revision)
    before = peak = peak_bytes(kube.pid)
    done = threading.Event()

    def look():
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, peak_bytes(kube.pid))
    looker = threading.Thread(target=look)
    looker.start()
    try:
        begin = time.monotonic()
        answer = kube.list(timeout=120)
        took = time.monotonic() - begin
    finally:
        done.set()
        looker.join()
    items = answer.items
    assert len(items) == n
    got = [f"{i['metadata']['namespace']}/{i['metadata']['name']}" for i in items]
    assert got == sorted(got) and len(set(got)) == n
    figure("kube_list_100000_seconds", took, "s")
    figure("kube_list_100000_bytes", len(answer.body), "bytes")
    figure("kube_list_100000_extra_memory", (peak - before) // 1024, "KiB")
    if not BY_PEER:
        assert peak - before < 64 << 20
