"""The same requests to an API server and to a tier in front of it (or to a second API server), and how their answers differ.

The requests are those of kube_differential.py for each type, and more of the whole: forms, writes that only pretend, errors.
Both sides have one etcd, so objects are compared as they are, with their resourceVersions. Left out is what each server decides
for itself: the version of a list that is not asked for at one, continue tokens, when bookmarks come, and numbers in texts.
"""
import copy
import gzip
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import procs
import yaml
from kube import INITIAL_END, target
from kube import PODS as CASE_PODS
from kube_differential import METADATA, METADATA_LIST, TABLE, WATCHES, Watched
from kube_tier import MAPS, NODES, PODS, SERVICES, SLICES, WIDGETS, WIDGETS36

NAMESPACES = ("x", "y", "z")
HEADERS = ("content-type", "cache-control", "content-encoding", "retry-after", "warning", "www-authenticate", "allow")
PROTOBUF = "application/vnd.kubernetes.protobuf"
SETTLE_S = 1.0
OPEN_S = 30
ENDLESS_S = 6  # more than an API server waits for a version
AT_ONCE = 16
SPECS = {
    PODS: {"spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}},
    MAPS: {"data": {"k": "v", "text": 'quoted "text" <&> \u00e9\u2028'}},
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    NODES: {"spec": {"podCIDR": "10.1.0.0/24"}},
    SLICES: {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
             "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    WIDGETS: {"spec": {"color": "red", "size": 3}},
    WIDGETS36: {"spec": {"color": "red", "size": 3}},
}


# ---- what there is

class World:
    """Objects of one type, their past and what happens to them next; all of it is written at one API server."""

    def __init__(self, server, kind):
        self.server, self.kind = server, kind

    def made(self, namespace, name, labels=None):
        return self.kind.object(namespace, self.name(namespace, name), labels, **copy.deepcopy(SPECS[self.kind]))

    def name(self, namespace, name):
        return name if self.kind.namespaced or namespace == "x" else namespace + name

    def put(self, namespace, name, labels=None):
        """Created, or given other labels. The resourceVersion."""
        obj = self.made(namespace, name, labels)
        answer = self.server.call("POST", self.kind.path(namespace), obj=obj)
        if answer.code == 409:
            path = self.kind.path(namespace, self.name(namespace, name))
            there = self.server.call("GET", path).json
            there["metadata"]["labels"] = labels or {}
            answer = self.server.call("PUT", path, obj=there)
        assert answer.code in (200, 201), answer.body
        return answer.rv

    def delete(self, namespace, name):
        path = self.kind.path(namespace, self.name(namespace, name))
        answer = self.server.call("DELETE", path, {"gracePeriodSeconds": 0})
        assert answer.code == 200, answer.body
        return self.server.call("GET", self.kind.path(), {"limit": 1}).rv

    def begin(self):
        """As world() of kube_differential.py: the names of its versions, for the queries."""
        before = self.server.call("GET", self.kind.path()).rv
        revs = [self.put("x", "a", {"app": "web"}), self.put("x", "b", {"app": "db"}),
                self.put("x", "a", {"app": "web", "v": "2"}), self.delete("x", "b"),
                self.put("x", "c", {"app": "db", "n": "5"}), self.put("y", "a")]
        named = {f"r{i}": rev for i, rev in enumerate(revs)}
        return {**named, "before": before, "now": revs[-1], "next": revs[-1] + 1, "future": revs[-1] + 1000000}

    def play(self):
        self.put("x", "d", {"app": "web"})
        self.put("x", "d", {"app": "db"})
        self.delete("x", "d")
        self.put("y", "a", {"app": "web"})
        self.delete("x", "a")
        return self.put("z", "end", {"app": "end", "at": str(time.time_ns())})  # another object each time

    def clear(self):
        for namespace in NAMESPACES:
            answer = self.server.call("DELETE", self.kind.path(namespace), {"gracePeriodSeconds": 0}) if self.kind.namespaced else None
            assert answer is None or answer.code == 200, answer.body


def wait_for(servers, kind, version):
    """Until a list of the cache of each is not older."""
    for server in servers:
        procs.wait_until(lambda s=server: s.call("GET", kind.path(), {"resourceVersion": version, "limit": 1}).code == 200, 30, 0.2,
                         f"{kind} at {version}")


# ---- requests

class Ask:
    def __init__(self, name, path, query="", headers=None, method="GET", body=None, user="admin", exact=False, watch=None):
        self.name, self.path, self.query, self.method = name, path, query, method
        self.headers, self.body, self.user, self.exact, self.watch = headers or {}, body, user, exact, watch

    def __repr__(self):
        return f"{self.method} {target(self.path, self.query)} {self.headers or ''}"


def of_case(case, kind, revs):
    """A case of kube_differential.py for another type; None where there is no such thing."""
    path = case.path.replace(f"/apis/{CASE_PODS.api_version}", kind.base).replace("/pods", f"/{kind.plural}")
    if not kind.namespaced:
        path = re.sub(r"/namespaces/[^/]+", "", path)
    query = case.query.format(**revs)
    if isinstance(case, Watched):
        return Ask(case.name, path, "watch=1" + (f"&{query}" if query else ""), case.headers, watch=case)
    return Ask(case.name, path, query, case.headers, exact=case.exact)


def of_table(table, kind, revs):
    return [of_case(case, kind, revs) for case in table if case.method == "GET"]


FIELDS = {
    PODS: ("spec.nodeName%3Dn1", "spec.nodeName%21%3Dn1", "spec.nodeName%3D", "status.phase%3DPending", "status.phase%21%3DPending",
           "spec.restartPolicy%3DAlways", "spec.schedulerName%3Ddefault-scheduler", "spec.serviceAccountName%3D", "status.podIP%3D",
           "status.nominatedNodeName%3D", "spec.nodeName%3Dn1,metadata.name%3Da", "spec.hostNetwork%3Dfalse", "spec.containers%3Dc",
           "status.podIPs%3D", "status.podIPs%3D1"),
    NODES: ("spec.unschedulable%3Dfalse", "spec.unschedulable%3Dtrue", "metadata.name%3Da", "metadata.namespace%3D"),
    SERVICES: ("spec.clusterIP%3DNone", "spec.clusterIP%21%3DNone", "spec.type%3DClusterIP"),
    MAPS: ("data.k%3Dv",), SLICES: ("addressType%3DIPv4",),
    WIDGETS: ("spec.color%3Dred",),
    WIDGETS36: ("spec.color%3Dred", "spec.color%3Dblue", "spec.size%3D3", "spec.nodeName%3D", "status.phase%3DX"),
}


def more_lists(kind, revs):
    path, within, one = kind.path(), kind.path("x"), kind.path("x", "a")
    exact = "resourceVersionMatch=Exact"
    asks = [Ask(f"fields: {text}{at}", path, f"fieldSelector={text}{at}") for text in FIELDS[kind]
            for at in ("", "&resourceVersion=0", f"&resourceVersion={revs['r4']}")]
    asks += [
        Ask("labels at 0", path, "resourceVersion=0&labelSelector=app%3Dweb"),
        Ask("labels at a version", path, f"resourceVersion={revs['r1']}&{exact}&labelSelector=app%3Dweb", exact=True),
        Ask("labels at 0 with a limit", path, "resourceVersion=0&labelSelector=app&limit=1"),
        Ask("one namespace at 0", within, "resourceVersion=0"), Ask("an empty namespace at 0", kind.path("z"), "resourceVersion=0"),
        Ask("a namespace that is not there at 0", kind.path("nowhere"), "resourceVersion=0"),
        Ask("one namespace at a version", within, f"resourceVersion={revs['r2']}&{exact}", exact=True),
        Ask("at the version before all", path, f"resourceVersion={revs['before']}&{exact}&limit=500", exact=True),
        Ask("at version 1", path, f"resourceVersion=1&{exact}"), Ask("not older than 1", path, "resourceVersion=1"),
        Ask("one that is gone at 0", kind.path("x", "b"), "resourceVersion=0"),
        Ask("one that was never at 0", kind.path("x", "none"), "resourceVersion=0"),
        Ask("one in a namespace that is not there at 0", kind.path("nowhere", "a"), "resourceVersion=0"),
        Ask("one not older", one, f"resourceVersion={revs['now']}"),
        Ask("one with what only lists know", one, "resourceVersion=0&labelSelector=app%3Dnone&limit=1"),
        Ask("pretty", path, "resourceVersion=0&pretty=true"), Ask("pretty one", one, "resourceVersion=0&pretty=1"),
        Ask("for curl", path, "resourceVersion=0", {"User-Agent": "curl/8.0"}),
        Ask("gzip", path, "resourceVersion=0", {"Accept-Encoding": "gzip"}),
        Ask("HEAD", path, "resourceVersion=0", method="HEAD"), Ask("HEAD of one", one, "resourceVersion=0", method="HEAD"),
        Ask("OPTIONS", path, method="OPTIONS"), Ask("a slash at the end", path + "/", "resourceVersion=0"),
        Ask("two slashes", path.replace(f"/{kind.plural}", f"//{kind.plural}"), "resourceVersion=0"),
        Ask("a version that is not served", path.replace(f"/{kind.version}/", "/v9/"), "resourceVersion=0"),
        Ask("an escaped path", path[:-1] + "%73", "resourceVersion=0"),
        Ask("a bad escape in the query", path, "resourceVersion=0&labelSelector=%zz"),
        Ask("a bad escape in another word", path, "resourceVersion=0&x=%zz"),
        Ask("a semicolon in the query", path, "resourceVersion=0;limit=1"),
        Ask("a word twice", path, "resourceVersion=0&resourceVersion=5"), Ask("an empty word", path, "resourceVersion=0&&limit="),
        Ask("a subresource", one + "/status"), Ask("a subresource that is none", one + "/none", "resourceVersion=0"),
        Ask("a name of capital letters", kind.path("x", "A"), "resourceVersion=0"),
        Ask("limit 0", path, "resourceVersion=0&limit=0"), Ask("limit too large", path, "limit=" + "9" * 20),
        Ask("limit in the next word", path, "resourceVersion=0&limit=1x"),
        Ask("timeout", path, "resourceVersion=0&timeoutSeconds=3"),
        Ask("version with a sign", path, "resourceVersion=%2B1"), Ask("version with zeros", path, f"resourceVersion=00{revs['now']}"),
        Ask("version with spaces", path, "resourceVersion=+1"), Ask("empty version", path, "resourceVersion="),
        Ask("watch that is none", path, "resourceVersion=0&watch=maybe"),
    ]
    return asks


def more_forms(kind, revs):
    path, one = kind.path(), kind.path("x", "a")
    beta, metadata = TABLE.replace("v=v1;", "v=v1beta1;"), f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    forms = (TABLE, METADATA, METADATA_LIST, beta, METADATA_LIST.replace("v=v1;", "v=v1beta1;"), PROTOBUF, f"{PROTOBUF}, */*",
             f"{PROTOBUF}, application/json", f"application/json, {PROTOBUF}", "application/yaml", "text/html", "*/*;q=0.1",
             "application/json;q=0", "application/json;stream=watch", f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io", "",
             f"{TABLE},application/json", f"{beta},{TABLE},application/json", "application/json; charset=utf-8",
             f"{metadata},{METADATA_LIST},application/json", "nonsense", "a/b/c, application/json")
    asks = []
    for form in forms:
        for text, where in (("list", path), ("one", one), ("none", kind.path("x", "none"))):
            asks.append(Ask(f"{text} at 0 as {form}", where, "resourceVersion=0", {"Accept": form}))
    asks += [Ask(f"pages as {form}", path, "limit=1", {"Accept": form}) for form in (TABLE, METADATA_LIST, PROTOBUF)]
    return asks


def users(kind, revs):
    """Who may not, and who is nobody."""
    at_0 = "resourceVersion=0"
    wanted = (("list", kind.path(), ""), ("list at 0", kind.path(), at_0), ("list of a namespace", kind.path("x"), at_0),
              ("list of prod", kind.path("prod"), at_0), ("one", kind.path("x", "a"), at_0),
              ("one that is none", kind.path("x", "none"), at_0), ("watch", kind.path(), f"watch=1&timeoutSeconds=1&{at_0}"),
              ("by name", kind.path("x"), f"{at_0}&fieldSelector=metadata.name%3Da"))
    return [Ask(f"{text} by {user or 'nobody'}", path, query, user=user)
            for user in ("alice", "no token", "", "tier") for text, path, query in wanted]


def writes(kind, world):
    """Which only pretend to."""
    path, one, dry = kind.path("x"), kind.path("x", "a"), "dryRun=All"
    labels = {"metadata": {"labels": {"p": "q"}}}
    applied = {"apiVersion": kind.api_version, "kind": kind.kind, **labels}
    new, there, none = (world.made("x", name) for name in ("new", "a", "none"))

    def patch(name, form, body, query=dry):
        return Ask(name, one, query, {"Content-Type": form}, "PATCH", body)
    return [
        Ask("create", path, dry, method="POST", body=new), Ask("create what is there", path, dry, method="POST", body=there),
        Ask("create nonsense", path, dry, method="POST", body={"kind": "Nothing"}),
        Ask("create without rights", path, dry, method="POST", body=new, user="alice"),
        Ask("replace what is not there", kind.path("x", "none"), dry, method="PUT", body=none),
        patch("patch", "application/merge-patch+json", labels), patch("patch in no known way", "text/plain", labels),
        patch("apply", "application/apply-patch+yaml", applied, f"{dry}&fieldManager=t"),
        Ask("delete", one, f"{dry}&gracePeriodSeconds=0", method="DELETE"),
        Ask("delete what is not there", kind.path("x", "none"), dry, method="DELETE"),
        Ask("delete all of them", path, f"{dry}&labelSelector=app%3Dnone", method="DELETE"),
        Ask("POST to one", one, dry, method="POST", body=there), Ask("PUT to all", path, dry, method="PUT", body=there),
    ]


ELSEWHERE = [Ask(path, path, user=user) for user in ("admin", "alice") for path in (
    "/", "/api", "/api/v1", "/apis", "/apis/discovery.k8s.io", "/apis/discovery.k8s.io/v1beta1", "/apis/demo.example.com/v1",
    "/apis/nothing", "/apis/nothing/v1", "/version", "/healthz", "/livez", "/readyz", "/openapi/v2", "/api/v1/secrets",
    "/api/v1/namespaces", "/api/v1/namespaces/x", "/api/v1/componentstatuses/none", "/nowhere", "/logs",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=2", "/api/v1/namespaces/x/nothings", "/apis/apps/v1/deployments",
    "/api/v1/namespaces/x/pods/none/log", "/api/v1/nodes/none/proxy/")]


# ---- answers

def ask(server, what):
    try:
        answer = server.call(what.method, what.path, what.query, what.body, ENDLESS_S, what.user, what.headers)
    except TimeoutError:
        return "no end"
    body = gzip.decompress(answer.body) if answer.headers.get("content-encoding") == "gzip" else answer.body
    said = {"code": answer.code, "headers": {k: answer.headers[k] for k in HEADERS if k in answer.headers}}
    if answer.headers.get("content-type", "").startswith("application/json") and body:
        said["body"] = settled(json.loads(body), what.exact) if "watch=1" not in what.query or answer.code != 200 else state_of(body)
        said["is_pretty"] = b"\n  " in body
    elif answer.headers.get("content-type", "").startswith("application/yaml"):
        said["body"] = settled(yaml.safe_load(body), what.exact)
    elif answer.headers.get("content-type", "").startswith(PROTOBUF):
        said["body"] = len(body)
    else:
        said["body"] = re.sub(r"\d+", "N", body.decode("utf-8", "replace")) if len(body) < 4096 else len(body)
    return said


def state_of(body):
    """The first events of a watch, which are in no order."""
    return sorted((json.dumps(json.loads(line), sort_keys=True) for line in body.splitlines()))


def settled(got, exact):
    """Without what each server decides for itself."""
    if not isinstance(got, dict):
        return got
    got.pop("serverAddressByClientCIDRs", None)
    metadata = got.get("metadata")
    if got.get("kind") == "Status":
        got["message"] = re.sub(r"\d+", "N", got.get("message", ""))
        for cause in (got.get("details") or {}).get("causes") or []:
            cause["message"] = re.sub(r"\d+", "N", cause.get("message", ""))
    elif isinstance(metadata, dict) and ("items" in got or "rows" in got):
        metadata["continue"] = bool(metadata.get("continue"))
        if not exact:  # lists of the cache of 1.20 are in no order
            metadata["resourceVersion"] = metadata.get("resourceVersion") not in (None, "", "0")
            for objects in (got.get("items"), got.get("rows")):
                if objects:
                    objects.sort(key=lambda o: json.dumps(o.get("metadata") or o.get("object") or o.get("cells"), sort_keys=True))
        for row in got.get("rows") or []:
            row["cells"] = [cell if not isinstance(cell, str) else re.sub(r"^\d+m?\d*[smh]$", "AGE", cell) for cell in row["cells"]]
    elif isinstance(metadata, dict) and got.get("kind") not in ("APIResourceList", "APIGroup"):
        for field in ("uid", "creationTimestamp", "managedFields") if metadata.get("name") == "new" else ():
            metadata.pop(field, None)
        if metadata.get("name") == "new" and "clusterIP" in got.get("spec", {}):
            got["spec"].pop("clusterIP"), got["spec"].pop("clusterIPs", None)
        metadata.pop("deletionTimestamp", None)
        for entry in metadata.get("managedFields") or []:
            entry.pop("time", None)
    return got


def ask_both(servers, asks):
    """[(what, the API server's answer, ours)]"""
    with ThreadPoolExecutor(AT_ONCE) as pool:  # some wait for seconds
        return list(zip(asks, *([*pool.map(lambda what, s=server: ask(s, what), asks)] for server in servers)))


def pages(server, path, limit, query="", headers=None):
    """Names and counts, page by page."""
    found, token, rest = [], "", "" if "resourceVersion" in query else query
    while True:
        got = server.call("GET", path, f"limit={limit}" + (f"{rest}&continue={token}" if token else query), headers=headers)
        assert got.code == 200, got.body
        metadata = got.json["metadata"]
        found.append((got.items, metadata.get("remainingItemCount"), metadata["resourceVersion"]))
        token = metadata.get("continue")
        if not token:
            return found


# ---- watches

class Reader(threading.Thread):
    """One watch, read to its end or until it is let go."""

    def __init__(self, server, what):
        super().__init__(daemon=True)
        self.server, self.what, self.events, self.end, self.connection = server, what, [], "open", None
        self.code = self.body = None
        self.is_open = threading.Event()
        self.start()

    def run(self):
        try:
            self.connection = self.server._send("GET", self.what.path, self.what.query, None, OPEN_S, self.what.user, self.what.headers)
            response = self.connection.getresponse()
            self.code, self.type = response.status, response.getheader("content-type")
            if self.code != 200:
                self.body = settled(json.loads(response.read()), False)
            self.is_open.set()
            for line in response if self.code == 200 else ():
                self.events.append(json.loads(line))
            self.end = "clean"
        except (OSError, ValueError, AttributeError) as e:
            self.error = e
        finally:
            self.is_open.set()

    def let_go(self):
        if self.connection and self.connection.sock and self.end == "open":
            try:
                self.connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.join(10)

    def said(self, now):
        if self.code != 200:
            return {"code": self.code, "body": self.body}
        events = [settled_event(e) for e in self.events]
        events = [e for e in events if e["object"] != "passing"]
        if not re.search(r"resourceVersion=[1-9]", self.what.query):  # it begins with the state, in no order
            n = next((i for i, e in enumerate(events) if version_of(e) > now or e["type"] == "BOOKMARK"), len(events))
            events = sorted(events[:n], key=lambda e: json.dumps(e, sort_keys=True)) + events[n:]
        return {"code": 200, "type": self.type, "events": events, "end": self.end}


def settled_event(event):
    if "type" not in event:
        return {"type": "no event", "object": settled(event, False)}
    obj = event["object"]
    if event["type"] == "BOOKMARK":
        ends = obj["metadata"].get("annotations", {}).get(INITIAL_END) == "true"
        if obj["kind"] == "Table":
            return {"type": "BOOKMARK", "object": "end" if ends else "passing"}
        return {"type": "BOOKMARK", "object": {"kind": obj["kind"], "apiVersion": obj["apiVersion"]} if ends else "passing"}
    if obj.get("kind") == "Table":
        for row in obj["rows"]:
            row["cells"] = [cell if not isinstance(cell, str) else re.sub(r"^\d+m?\d*[smh]$", "AGE", cell) for cell in row["cells"]]
        obj["metadata"].pop("resourceVersion", None)
        obj.pop("columnDefinitions", None)  # which come once
    return {"type": event["type"], "object": settled(obj, False) if obj.get("kind") == "Status" else obj}


def version_of(event):
    obj = event["object"]
    if not isinstance(obj, dict):
        return 0
    metadata = obj["rows"][0].get("object", {}).get("metadata", {}) if obj.get("rows") else obj.get("metadata", {})
    return int(metadata.get("resourceVersion") or 0)


def watch_both(servers, asks, world, now):
    """[(what, the API server's answer, ours)], after what the world does while they run."""
    readers = [[Reader(server, what) for server in servers] for what in asks]
    for reader in (r for pair in readers for r in pair):
        reader.is_open.wait(OPEN_S)
    time.sleep(SETTLE_S)  # the state is what was there before
    last = world.play()
    wait_for(servers, world.kind, last)
    time.sleep(SETTLE_S)
    ending = [r for pair in readers for r in pair if r.what.watch.until_end]
    procs.wait_until(lambda: all(not r.is_alive() for r in ending), 30, 0.1, lambda: f"ends: {[r.what for r in ending if r.is_alive()]}")
    for reader in (r for pair in readers for r in pair):
        reader.let_go()
    return [(what, *alike([r.said(now) for r in pair], what)) for what, pair in zip(asks, readers)]


def alike(sides, what):
    """Watches that end by the clock may end anywhere: what both were given is compared."""
    if "timeoutSeconds" in what.query and all("events" in said for said in sides):
        n = min(len(said["events"]) for said in sides)
        for said in sides:
            del said["events"][n:]
    return sides


def of_watches(kind, revs):
    asks = of_table(WATCHES, kind, revs)
    for text in FIELDS[kind]:
        for at in ("0", revs["now"], revs["r1"]):
            case = Watched(f"watch by {text} from {at}")
            asks.append(Ask(case.name, kind.path(), f"watch=1&resourceVersion={at}&fieldSelector={text}", watch=case))
    for name, path, query, headers in (
            ("watch one by its path", kind.path("x", "a"), "watch=1&resourceVersion=0", {}),
            ("watch one by the old path", kind.path("x", "a").replace(kind.base, f"{kind.base}/watch"), "resourceVersion=0", {}),
            ("watch from 1", kind.path(), "watch=1&resourceVersion=1", {}),
            ("watch as protobuf or JSON", kind.path(), f"watch=1&resourceVersion={revs['now']}", {"Accept": f"{PROTOBUF}, application/json"}),
            ("watch as stream of JSON", kind.path(), f"watch=1&resourceVersion={revs['now']}", {"Accept": "application/json;stream=watch"}),
            ("watch that is 'true'", kind.path(), f"watch=true&resourceVersion={revs['now']}", {}),
            ("watch that is 't'", kind.path(), f"watch=t&resourceVersion={revs['now']}", {})):
        if name != "watch as protobuf or JSON" or kind.is_custom:
            asks.append(Ask(name, path, query, headers, watch=Watched(name)))
    return asks


# ---- differences

def first_difference(real, ours, at=""):
    """Where two values differ first: "path: theirs | ours"."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in [*real, *(k for k in ours if k not in real)]:
            if real.get(key, "(absent)") != ours.get(key, "(absent)"):
                return first_difference(real.get(key, "(absent)"), ours.get(key, "(absent)"), f"{at}.{key}")
    if isinstance(real, list) and isinstance(ours, list):
        for i, (a, b) in enumerate(zip(real, ours)):
            if a != b:
                return first_difference(a, b, f"{at}[{i}]")
        return f"{at}: {len(real)} of them | {len(ours)}: {str((real + ours)[min(len(real), len(ours))])[:300]}"
    return f"{at}: {str(real)[:400]} | {str(ours)[:400]}"
