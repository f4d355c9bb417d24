"""One table of requests for two servers on one etcd, a real kube-apiserver and a belfryd, and what each answered.

Both see the same revisions, so resourceVersions are compared as they are, wherever Kubernetes determines them. A case
says what the real server answers; where belfryd answers otherwise on purpose it also says that, and under which name
docs/compatibility.md gives the reason.
"""
import json
import time
from concurrent.futures import ThreadPoolExecutor

from kube import INITIAL_END, PODS, WAIT, Watch, fingerprint, pod, request

QUIET = 0.4
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
STATE = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
BOOKMARKS = "allowWatchBookmarks=true"


def world(server, endpoints):
    """What is in etcd when a case begins: the names of its revisions, for the cases' queries."""
    server.empty()
    revs = [server.put(pod("x", "a", {"app": "web"})), server.put(pod("x", "b", {"app": "db"})),
            server.put(pod("x", "a", {"app": "web", "v": "2"})), server.delete("x", "b"),
            server.put(pod("x", "c", {"app": "db", "n": "5"})), server.put(pod("y", "a"))]
    for endpoint in endpoints:
        server.wait_for(revs[-1], endpoint=endpoint)
    named = {f"r{i}": rev for i, rev in enumerate(revs)}
    return {**named, "now": revs[-1], "next": revs[-1] + 1, "future": revs[-1] + 1000}


def play(server):
    """What happens while a watch is open."""
    server.put(pod("x", "d", {"app": "web"}))
    server.put(pod("x", "d", {"app": "db"}))
    server.delete("x", "d")
    server.put(pod("y", "a", {"app": "web"}))
    server.delete("x", "a")


PLAYED = ["ADDED x/d", "MODIFIED x/d", "DELETED x/d", "MODIFIED y/a", "DELETED x/a"]
IN_STATE = ["ADDED x/a", "ADDED x/c", "ADDED y/a"]
END_OF_STATE = "BOOKMARK end"


class Case:
    """`want` is the real server's answer: (code, reason) of a failure, the names of a list's items, a watch's events.
    `ours`, with `differs`: belfryd's."""

    def __init__(self, name, query="", want=None, path=None, headers=None, exact=False, differs=None, ours=None,
                 method="GET",
                 cause=None):
        self.name, self.query, self.want, self.headers, self.exact = name, query, want, headers, exact
        self.path, self.method, self.differs, self.ours, self.cause = path or PODS.path(), method, differs, ours, cause

    def __repr__(self):
        return self.name

    def url(self, revs):
        return self.path, self.query.format(**revs)


class Get(Case):
    def run(self, endpoints, server, revs):
        path, query = self.url(revs)
        with ThreadPoolExecutor(len(endpoints)) as pool:  # some wait for seconds
            return list(pool.map(lambda e: self.ask(e, path, query), endpoints))

    def ask(self, endpoint, path, query):
        body = json.dumps(pod("x", "new")) if self.method in ("POST", "PUT") else None
        headers = {"Content-Type": "application/json", **(self.headers or {})}
        answer = request(endpoint, path, query, headers, method=self.method, body=body)
        said = {"code": answer.code, "type": answer.headers.get("content-type", "").split(";")[0]}
        if said["type"] != "application/json":
            return said
        got = answer.json
        if got["kind"] == "Status":
            return {**said, **of_status(got)}
        return {**said, **of_object(got, self.exact)}

    def judge(self, said, want):
        if isinstance(want, tuple):
            return (said["code"], said.get("reason", "")) == want and (not self.cause or said["causes"] == self.cause)
        return said["code"] == 200 and (want is None or said["names"] == want)


class Watched(Case):
    def __init__(self, *args, play=play, state=0, until_end=False, **kw):
        super().__init__(*args, **kw)
        self.play, self.state, self.until_end = play, state, until_end

    def run(self, endpoints, server, revs):
        path, query = self.url(revs)
        query = "watch=1" + ("&" + query if query else "")
        with ThreadPoolExecutor(len(endpoints)) as pool:
            opened = list(pool.map(lambda e: Watch(e, path, query, self.headers), endpoints))
            try:
                if self.play and opened[0].code == 200:
                    if self.state:
                        time.sleep(0.3)  # the state is what was there before
                    self.play(server)
                return list(pool.map(self.collect, opened, range(len(opened))))
            finally:
                for w in opened:
                    w.close()

    def collect(self, w, side):
        if w.code != 200:
            return {"code": w.code, **of_status(json.loads(w.body()))}
        want = self.ours if side and self.differs else self.want
        events, ended = [], False
        limit = time.monotonic() + WAIT
        while not ended and time.monotonic() < limit:
            enough = not self.until_end and isinstance(want, list) and len(events) >= len(want)
            try:
                event = w.event(QUIET if enough else WAIT)
            except AssertionError:
                break  # quiet
            ended = event is None
            if event:
                events.append(event)
        said = without_passing_bookmarks([of_event(e) for e in events], ended)
        return {"code": 200, "events": sorted(said[:self.state]) + said[self.state:],
                "end": "clean" if ended else "open"}

    def judge(self, said, want):
        if isinstance(want, tuple):
            return (said["code"], said.get("reason", "")) == want
        return [e.split("@")[0] for e in said.get("events", [])] == want and said["end"] == (
            "clean" if self.until_end else "open")


def without_passing_bookmarks(said, ended):
    """When they come is a matter of the server's clock; that there is one before the end is not."""
    last = ["BOOKMARK"] if ended and said[-1:] == ["BOOKMARK"] else []
    return [e for e in said if e != "BOOKMARK"] + last


def of_status(status):
    details = status.get("details") or {}
    return {"reason": status.get("reason", ""), "status_code": status.get("code"), "kind": "Status",
            "causes": sorted((c.get("reason", ""), c.get("field", "")) for c in details.get("causes") or []),
            "about": {k: details[k] for k in ("name", "group", "kind") if details.get(k)},
            "retry": bool(details.get("retryAfterSeconds"))}


def of_object(got, exact):
    """A list, a table, one object: what they are, and of what. The list's own revision only where it is determined."""
    said = {"kind": got["kind"], "apiVersion": got["apiVersion"]}
    metadata = got["metadata"]
    if "items" in got:
        objects = got["items"]
    elif "rows" in got:
        objects = [row.get("object") or {"metadata": {"name": row["cells"][0], "resourceVersion": "0"}}
                   for row in got["rows"]]
    else:
        objects = [got]
    said["names"] = [of_name(o["metadata"]) for o in objects]
    said["revisions"] = [o["metadata"]["resourceVersion"] for o in objects]
    said["contents"] = [fingerprint(o) for o in objects]
    if objects != [got]:
        said.update(more=bool(metadata.get("continue")), remaining=metadata.get("remainingItemCount"))
        own = metadata["resourceVersion"]
        said["resourceVersion"] = own if exact else own not in ("", "0")
    return said


def of_name(metadata):
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def of_event(event):
    """TYPE ns/name@RV and what it was; a bookmark's revision is the server's own."""
    obj = event["object"]
    if event["type"] == "ERROR":
        return f"ERROR {obj['code']} {obj['reason']}"
    if event["type"] == "BOOKMARK":
        ends = obj["metadata"].get("annotations", {}).get(INITIAL_END) == "true"
        return "BOOKMARK end" if ends else "BOOKMARK"
    if obj["kind"] == "Table":
        obj = obj["rows"][0]["object"]
    return f"{event['type']} {of_name(obj['metadata'])}@{obj['metadata']['resourceVersion']} {fingerprint(obj)}"


ALL = ["x/a", "x/c", "y/a"]
BAD, INVALID, EXPIRED, TIMEOUT = (400, "BadRequest"), (422, "Invalid"), (410, "Expired"), (504, "Timeout")
MATCH = "resourceVersionMatch"
FORBIDDEN_MATCH = [("FieldValueForbidden", MATCH)]
ONE = PODS.path("x", "a")

LISTS = [
    # 2.2: resourceVersion x resourceVersionMatch x paging
    Get("list", "", ALL), Get("list at 0", "resourceVersion=0", ALL),
    Get("list at an old revision", "resourceVersion={r0}", ALL),
    Get("list at the newest revision", "resourceVersion={now}", ALL),
    Get("list at a future revision", "resourceVersion={future}", TIMEOUT, cause=[("ResourceVersionTooLarge", "")]),
    Get("list with a limit", "limit=2", ["x/a", "x/c"]), Get("list with a limit that is enough", "limit=3", ALL),
    Get("list at 0 with a limit", "resourceVersion=0&limit=1", ALL),
    Get("list at a revision with a limit", "resourceVersion={r1}&limit=10", ["x/a", "x/b"], exact=True),
    Get("list at a revision with a short limit", "resourceVersion={r1}&limit=1", ["x/a"], exact=True),
    Get("match exact", f"{MATCH}=Exact", INVALID, cause=FORBIDDEN_MATCH),
    Get("match not older than", f"{MATCH}=NotOlderThan", INVALID, cause=FORBIDDEN_MATCH),
    Get("match exact at 0", f"resourceVersion=0&{MATCH}=Exact", INVALID, cause=FORBIDDEN_MATCH),
    Get("match not older than 0", f"resourceVersion=0&{MATCH}=NotOlderThan", ALL),
    Get("match not older than 0 with a limit", f"resourceVersion=0&{MATCH}=NotOlderThan&limit=1", ALL),
    *[Get(f"match exact at {r}", f"resourceVersion={{{r}}}&{MATCH}=Exact", names, exact=True) for r, names in
      (("r0", ["x/a"]), ("r1", ["x/a", "x/b"]), ("r2", ["x/a", "x/b"]), ("r3", ["x/a"]), ("r4", ["x/a", "x/c"]),
       ("now", ALL))],
    Get("match exact with a limit", f"resourceVersion={{r2}}&{MATCH}=Exact&limit=1", ["x/a"], exact=True),
    Get("match exact in the future", f"resourceVersion={{future}}&{MATCH}=Exact", TIMEOUT,
        cause=[("ResourceVersionTooLarge", "")]),
    Get("match not older than a revision", f"resourceVersion={{r0}}&{MATCH}=NotOlderThan", ALL),
    Get("match not older than a revision with a limit", f"resourceVersion={{r0}}&{MATCH}=NotOlderThan&limit=1",
        ["x/a"]),
    Get("match not older than the future", f"resourceVersion={{future}}&{MATCH}=NotOlderThan", TIMEOUT),
    Get("match that is none", f"resourceVersion={{r0}}&{MATCH}=Bogus", INVALID,
        cause=[("FieldValueNotSupported", MATCH)]),
    Get("sendInitialEvents on a list", "sendInitialEvents=true", INVALID,
        cause=[("FieldValueForbidden", "sendInitialEvents")]),
    Get("resourceVersion that is none", "resourceVersion=abc", BAD),
    Get("resourceVersion below 0", "resourceVersion=-1", BAD),
    Get("resourceVersion of 30 digits", "resourceVersion=" + "9" * 30, BAD),
    Get("limit that is none", "limit=abc", BAD), Get("limit below 0", "limit=-1", ALL),
    Get("continue that is none", "continue=abc", BAD),
    Get("continue with a revision", "continue=abc&resourceVersion={r0}", BAD),
    Get("continue with a match", f"continue=abc&resourceVersion={{r0}}&{MATCH}=Exact", INVALID, cause=FORBIDDEN_MATCH),
    Get("timeoutSeconds that is none", "timeoutSeconds=abc", BAD),
    Get("what is unknown", "unknown=1&fieldManager=x&timeout=32s", ALL),
    Get("watch that is false", "watch=False", ALL), Get("watch that is 0", "watch=0", ALL),
    # where
    Get("one namespace", "", ["x/a", "x/c"], path=PODS.path("x")),
    Get("a namespace without any", "", [], path=PODS.path("z")),
    Get("a resource that is not there", "", (404, "NotFound"), path=f"/apis/{PODS.api_version}/nothings"),
    # one object
    Get("one", "", ["x/a"], path=ONE), Get("one at 0", "resourceVersion=0", ["x/a"], path=ONE),
    Get("one at a revision", "resourceVersion={r0}", ["x/a"], path=ONE),
    Get("one in the future", "resourceVersion={future}", TIMEOUT, path=ONE),
    Get("one that is not there", "", (404, "NotFound"), path=PODS.path("x", "none")),
    Get("one that is not there any more", "", (404, "NotFound"), path=PODS.path("x", "b")),
    Get("one at a revision that is none", "resourceVersion=abc", (500, ""), path=ONE, differs="kube-get-version",
        ours=BAD),
    Get("one with watch", "watch=1", ["x/a"], path=ONE),
]

SHARD = "shardSelector=shardRange(object.metadata.uid,+'0x0',+'0x8000000000000000')"
SELECTORS = [
    *[Get(f"labels: {text}", "labelSelector=" + query, want) for text, query, want in (
        ("equal", "app%3Dweb", ["x/a"]), ("double equal", "app%3D%3Dweb", ["x/a"]),
        ("not equal", "app%21%3Dweb", ["x/c", "y/a"]),
        ("there", "app", ["x/a", "x/c"]), ("not there", "%21app", ["y/a"]), ("in", "app+in+(web,db)", ["x/a", "x/c"]),
        ("not in", "app+notin+(web)", ["x/c", "y/a"]), ("empty value", "app%3D", []), ("in nothing", "app+in+()", []),
        ("in with an empty one", "app+in+(,web)", ["x/a"]), ("and", "app%3Dweb,v%3D2", ["x/a"]),
        ("greater", "n%3E4", ["x/c"]),
        ("less", "n%3C5", []), ("greater than what is no number", "n%3Ea", BAD), ("spaces", "+app+%3D+web+", ["x/a"]),
        ("keyword as key", "in+in+(in)", []), ("prefix", "example.com/app", []), ("nothing", "", ALL),
        ("three equal", "app%3D%3D%3Dweb", BAD), ("in without a set", "app+in+web", BAD),
        ("comma at the end", "app,", BAD),
        ("comma twice", "app,,v", BAD), ("open set", "app+in+(web", BAD), ("key of bad letters", "a%20b", BAD),
        ("value too long", "app%3D" + "a" * 64, BAD), ("key too long", "a" * 64 + "%3Db", BAD),
        ("two slashes", "a/b/c", BAD),
        ("only the first counts", "app%3Dweb&labelSelector=app%3Ddb", ["x/a"]))],
    *[Get(f"fields: {text}", "fieldSelector=" + query, want) for text, query, want in (
        ("name", "metadata.name%3Da", ["x/a", "y/a"]), ("double equal", "metadata.name%3D%3Da", ["x/a", "y/a"]),
        ("not", "metadata.name%21%3Da", ["x/c"]), ("namespace", "metadata.namespace%3Dx", ["x/a", "x/c"]),
        ("both", "metadata.name%3Da,metadata.namespace%3Dy", ["y/a"]), ("none", "metadata.name%3Dnone", []),
        ("nothing", "", ALL),
        ("empty value", "metadata.name%3D", []), ("empty terms", ",metadata.name%3Dc,,", ["x/c"]),
        ("escaped", "metadata.name%3Da%5C%2Cb", []), ("unknown", "spec.bogus%3D1", BAD),
        ("no operator", "metadata.name", BAD),
        ("bad escape", "metadata.name%3Da%5Cb", BAD), ("backslash at the end", "metadata.name%3Da%5C", BAD),
        ("no key", "%3Da", BAD))],
    Get("fields and labels", "fieldSelector=metadata.name%3Da&labelSelector=app", ["x/a"]),
    Get("fields in another namespace", "fieldSelector=metadata.namespace%3Dy", [], path=PODS.path("x")),
    Get("a selector with a limit", "labelSelector=app&limit=1", ["x/a"]),
    Get("a shard", SHARD, ALL, differs="kube-shards", ours=BAD), Get("a shard that is empty", "shardSelector=", ALL),
    Get("one of a shard", SHARD, ["x/a"], path=ONE),
]

FORMS = [
    Get("a table", "", ALL, headers={"Accept": TABLE}),
    Get("one as a table", "", ["x/a"], headers={"Accept": TABLE}, path=ONE),
    Get("a table with objects", "includeObject=Object", ALL, headers={"Accept": TABLE}),
    Get("a table without objects", "includeObject=None", ["/a", "/c", "/a"], headers={"Accept": TABLE}),
    Get("includeObject that is none", "includeObject=Bogus", BAD, headers={"Accept": TABLE}),
    Get("metadata alone", "", ALL, headers={"Accept": METADATA_LIST}),
    Get("metadata of one", "", ["x/a"], headers={"Accept": METADATA}, path=ONE),
    Get("a form that is unknown, then JSON", "", ALL,
        headers={"Accept": "application/json;as=Bogus;v=v1;g=g,application/json"}),
    Get("a form that is unknown", "", (406, "NotAcceptable"),
        headers={"Accept": "application/json;as=Bogus;v=v1;g=g"}),
    Get("what cannot be had", "", (406, "NotAcceptable"), headers={"Accept": "image/png"}),
    Get("anything", "", ALL, headers={"Accept": "*/*"}),
    Get("any application", "", (406, "NotAcceptable"), headers={"Accept": "application/*"}, differs="kube-accept",
        ours=ALL),
    Get("an error for who wants a table", "", (404, "NotFound"), headers={"Accept": TABLE + ",application/json"},
        path=PODS.path("x", "none")),
    Get("create", "", (201, ""), method="POST", path=PODS.path("x"), differs="kube-writes",
        ours=(405, "MethodNotAllowed")),
    Get("delete", "", (200, ""), method="DELETE", path=ONE, differs="kube-writes", ours=(405, "MethodNotAllowed")),
]

WATCHES = [
    # 3.1
    Watched("watch", "", IN_STATE + PLAYED, state=3),
    Watched("watch from 0", "resourceVersion=0", IN_STATE + PLAYED, state=3),
    Watched("watch from the newest", "resourceVersion={now}", PLAYED),
    Watched("watch from the past", "resourceVersion={r1}",
            ["MODIFIED x/a", "DELETED x/b", "ADDED x/c", "ADDED y/a"] + PLAYED),
    Watched("watch from the future", "resourceVersion={next}", PLAYED[1:]),
    Watched("watch with the state", STATE, IN_STATE + PLAYED, state=3),
    Watched("watch with the state and its end", f"{STATE}&{BOOKMARKS}", IN_STATE + [END_OF_STATE] + PLAYED, state=3),
    Watched("watch with the state at 0", f"{STATE}&{BOOKMARKS}&resourceVersion=0", IN_STATE + [END_OF_STATE] + PLAYED,
            state=3),
    Watched("watch with the state at a revision", f"{STATE}&{BOOKMARKS}&resourceVersion={{r0}}",
            IN_STATE + [END_OF_STATE] + PLAYED,
            state=3),
    Watched("watch with the state in the future", f"{STATE}&{BOOKMARKS}&resourceVersion={{future}}",
            ["ERROR 504 Timeout"],
            until_end=True),
    *[Watched(f"watch without the state {text}", f"sendInitialEvents=false&{MATCH}=NotOlderThan{query}",
              PLAYED) for text, query in
      (("", ""), ("at 0", "&resourceVersion=0"), ("at a revision", "&resourceVersion={now}"))],
    *[Watched(f"watch: {text}", query, INVALID) for text, query in (
        ("state without match", "sendInitialEvents=true"), ("no state without match", "sendInitialEvents=false"),
        ("state with exact", f"sendInitialEvents=true&{MATCH}=Exact&resourceVersion={{r0}}"),
        ("match alone", f"{MATCH}=NotOlderThan"),
        ("match at a revision", f"{MATCH}=NotOlderThan&resourceVersion={{r0}}"),
        ("exact at a revision", f"{MATCH}=Exact&resourceVersion={{r0}}"),
        ("match that is none", f"{MATCH}=Bogus&resourceVersion={{r0}}"))],
    Watched("watch with a limit", "limit=1&resourceVersion=0", IN_STATE + PLAYED, state=3),
    Watched("watch with a token", "continue=abc&resourceVersion={now}", PLAYED),
    Watched("watch from what is none", "resourceVersion=abc", (500, ""), differs="kube-watch-version", ours=INVALID),
    Watched("watch of one namespace", "resourceVersion={now}", [e for e in PLAYED if " x/" in e], path=PODS.path("x")),
    Watched("watch by the old path", "resourceVersion={now}", PLAYED, path=f"/apis/{PODS.api_version}/watch/pods"),
    Watched("watch of nothing", "", (404, "NotFound"), path=f"/apis/{PODS.api_version}/nothings"),
    # 3.2, 3.5
    Watched("watch that ends", "resourceVersion={now}&timeoutSeconds=2", PLAYED, until_end=True),
    Watched("watch that ends with bookmarks", f"resourceVersion={{now}}&timeoutSeconds=4&{BOOKMARKS}",
            PLAYED + ["BOOKMARK"],
            until_end=True),
    # 3.4, 8
    Watched("watch by label", "resourceVersion={now}&labelSelector=app%3Dweb",
            ["ADDED x/d", "DELETED x/d", "ADDED y/a", "DELETED x/a"]),
    Watched("watch by label from 0", "resourceVersion=0&labelSelector=app%3Dweb",
            ["ADDED x/a", "ADDED x/d", "DELETED x/d", "ADDED y/a", "DELETED x/a"], state=1),
    Watched("watch by label from the past", "resourceVersion={r0}&labelSelector=app%3Ddb",
            ["ADDED x/b", "DELETED x/b", "ADDED x/c", "ADDED x/d", "DELETED x/d"]),
    Watched("watch by no label", "resourceVersion={now}&labelSelector=app%21%3Dweb",
            ["ADDED x/d", "DELETED x/d", "DELETED y/a"]),
    Watched("watch by name", "resourceVersion={now}&fieldSelector=metadata.name%3Dd",
            ["ADDED x/d", "MODIFIED x/d", "DELETED x/d"]),
    Watched("watch by name from 0", "resourceVersion=0&fieldSelector=metadata.name%3Da",
            ["ADDED x/a", "ADDED y/a", "MODIFIED y/a", "DELETED x/a"], state=2),
    Watched("watch by label with the state", f"{STATE}&{BOOKMARKS}&labelSelector=app%3Dweb",
            ["ADDED x/a", END_OF_STATE, "ADDED x/d", "DELETED x/d", "ADDED y/a", "DELETED x/a"], state=1),
    Watched("watch by what cannot be read", "labelSelector=a%3D%3D%3Db", BAD),
    Watched("watch by an unknown field", "fieldSelector=spec.bogus%3D1", BAD),
    # 1.5
    Watched("watch as tables", "resourceVersion={now}", PLAYED, headers={"Accept": TABLE}),
    Watched("watch of metadata alone", "resourceVersion={now}", PLAYED, headers={"Accept": METADATA}),
    Watched("watch as what cannot be had", "timeoutSeconds=1", (406, "NotAcceptable"),
            headers={"Accept": "image/png"}),
]

# on an etcd with a past of which a part is compacted away, and servers that were started afterwards
PAST = [
    Watched("watch from what is compacted away", "resourceVersion={r0}", ["ERROR 410 Expired"], play=None,
            until_end=True),
    Watched("watch from 1", "resourceVersion=1", ["ERROR 410 Expired"], play=None, until_end=True),
    Watched("watch by label from what is compacted away", "resourceVersion={r0}&labelSelector=i%3D1",
            ["ERROR 410 Expired"], play=None,
            until_end=True),
    Get("list at what is compacted away", f"resourceVersion={{r0}}&{MATCH}=Exact", EXPIRED),
    Get("list at what is compacted away, with a limit", "resourceVersion={r0}&limit=2", EXPIRED),
    Get("list not older than what is compacted away", "resourceVersion={r0}", ["x/a"]),
]
