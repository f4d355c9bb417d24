"""Kubernetes' API as the tests use it: resources and their objects in etcd, a server in front of it, raw HTTP.

What is assumed of belfryd, all of it here:
- `--config FILE` with `resources:`, a list; an item is the path (or glob) of CustomResourceDefinition manifests, or a
  mapping {crd: FILE, prefix: ..., wrap: {key: ..., field: ...}}, or {crds-under: PREFIX} for manifests in etcd. Without
  a prefix objects are at /registry/GROUP/PLURAL/[NAMESPACE/]NAME.
- `belfryctl kube config --server URL --namespace NAMESPACE` prints a kubeconfig.
- The API is at the client address, in HTTP/1.1, beside everything else that is served there.
- /readyz of the admin address is 200 only when the resources are known.
- What cannot be decoded is counted in a metric with "undecodable" in its name, keys that are no objects in one with
  "skipped" in it.
- `--history-age` and `--history-bytes` bound how long a watch at an old resourceVersion is served.

With BELFRY_KUBE_PEER=1 the tests that use PODS run against a real kube-apiserver instead ("kubepeer": the watch cache
of k8s.io/apiserver with its example Pod type, built outside this tree): they are then judged by it.
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import socket
import subprocess
import urllib.parse

import needs
import procs
import pytest
from belfryd import Belfryd
from differential import Store
from etcd import Cluster
from patience import Patience
from ports import free_port

CRDS = os.path.join(os.path.dirname(__file__), "crds")
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
PEERS = os.environ.get("PEERS") or os.path.join(CACHE, "belfry-peers")
BY_PEER = os.environ.get("BELFRY_KUBE_PEER") == "1"
WAIT = 10  # for what must come
QUIET = 0.5  # for what must not
INITIAL_END = "k8s.io/initial-events-end"

belfryd_only = pytest.mark.skipif(BY_PEER, reason=needs.BY_PEER + "kubepeer does not do this")


def why_no_peer():
    """None when there is a kubepeer here, otherwise the reason."""
    path = os.path.join(PEERS, "kubepeer")
    return None if os.access(path, os.X_OK) else f"no kubepeer at {path} (PEERS says where it is)"


class Resource:
    def __init__(self, group, plural, kind, prefix=None, version="v1", namespaced=True, wrap=None):
        self.group, self.version, self.plural, self.kind = group, version, plural, kind
        self.api_version = f"{group}/{version}"
        self.prefix = prefix or f"/registry/{group}/{plural}/"
        self.own_prefix, self.wrap, self.namespaced = prefix, wrap, namespaced

    @property
    def full_name(self):
        return f"{self.plural}.{self.group}"

    @property
    def gvr(self):
        return f"{self.api_version}/{self.plural}"

    def path(self, namespace=None, name=None):
        within = f"namespaces/{namespace}/" if namespace else ""
        return f"/apis/{self.api_version}/{within}{self.plural}" + (f"/{name}" if name else "")

    def key(self, namespace, name):
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def object(self, namespace, name, labels=None, **fields):
        """As it lies in etcd: no resourceVersion."""
        metadata = {"name": name, "uid": f"uid-{namespace}-{name}", "creationTimestamp": "2024-01-01T00:00:00Z"}
        if self.namespaced:
            metadata["namespace"] = namespace
        if labels:
            metadata["labels"] = labels
        return {"kind": self.kind, "apiVersion": self.api_version, "metadata": metadata, **fields}

    def in_config(self):
        crd = os.path.join(CRDS, f"{self.plural}.yaml")
        given = {"crd": crd, "prefix": self.own_prefix, "wrap": self.wrap}
        given = {name: value for name, value in given.items() if value}
        return crd if len(given) == 1 else given


PODS = Resource("example.apiserver.k8s.io", "pods", "Pod", prefix="/registry/pods/")
WIDGETS = Resource("demo.example.com", "widgets", "Widget")
ZONES = Resource("demo.example.com", "zones", "Zone", namespaced=False)
CONFIGS = Resource("demo.example.com", "configs", "Config", prefix="/config/",
                   wrap={"key": "{namespace}/{name}", "field": "spec"})


def pod(namespace, name, labels=None, node="n1", **spec):
    return PODS.object(namespace, name, labels, spec={"nodeName": node, **spec}, status={})


def widget(namespace, name, labels=None, status=None, **spec):
    return WIDGETS.object(namespace, name, labels, spec=spec, **({"status": status} if status else {}))


def bare(obj):
    """The object without what a server adds or, in lists, may leave out: what is compared with etcd."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    if not metadata.get("creationTimestamp"):
        metadata.pop("creationTimestamp", None)
    rest = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion", "metadata")}
    if rest.get("status") == {}:
        del rest["status"]
    return {"metadata": metadata, **rest}


def fingerprint(obj):
    """As tests/go/kubeinformer and tests/node/kubeinformer.mjs make it."""
    text = json.dumps(bare(obj), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rv(obj):
    return int(obj["metadata"]["resourceVersion"])


def name(obj):
    return obj["metadata"]["name"]


def brief(event):
    """(type, name, resourceVersion): what a sequence of events is told by."""
    return event["type"], event["object"]["metadata"].get("name", ""), rv(event["object"])


def continue_token(rv, start):
    """As Kubernetes writes one."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


# ---- HTTP

def target(path, query):
    if not query:
        return path
    return path + "?" + (query if isinstance(query, str) else urllib.parse.urlencode(query))


class Answer:
    def __init__(self, response, body):
        self.code, self.body = response.status, body
        self.headers = {k.lower(): v for k, v in response.getheaders()}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def items(self):
        return self.json["items"]

    @property
    def names(self):
        return [name(item) for item in self.items]

    @property
    def rv(self):
        return rv(self.json)

    @property
    def failure(self):
        """(code, reason), and that the body is the Status that says so."""
        status = self.json
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure"), status
        assert status["code"] == self.code, (self.code, status)
        return self.code, status.get("reason", "")


def request(endpoint, path, query=None, headers=None, method="GET", body=None, timeout=30):
    host, port = endpoint.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
    try:
        connection.request(method, target(path, query), body, {"User-Agent": "belfry-test", **(headers or {})})
        response = connection.getresponse()
        return Answer(response, response.read())
    finally:
        connection.close()


class Watch:
    """One watch over a socket of its own, read to the byte: how its body ends is part of what is judged."""

    def __init__(self, endpoint, path, query=None, headers=None, timeout=WAIT, receive_buffer=None):
        host, port = endpoint.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self._raw, self._body, self.end, self.chunks = b"", b"", None, []
        lines = [f"GET {target(path, query)} HTTP/1.1", f"Host: {endpoint}", "User-Agent: belfry-test"]
        lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._read_head(Patience(timeout))

    def _more(self, patience):
        """False at the end of the connection; fails when the time is over."""
        while left := patience.left():
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                data = self.socket.recv(1 << 16)
                self._raw += data
                return bool(data)
        raise TimeoutError

    def _read_head(self, patience):
        while b"\r\n\r\n" not in self._raw:
            assert self._more(patience), f"the connection ended in the head: {self._raw!r}"
        head, self._raw = self._raw.split(b"\r\n\r\n", 1)
        first, *rest = head.decode("latin-1").split("\r\n")
        self.code = int(first.split()[1])
        self.headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in rest)}

    def _read_chunks(self):
        """Moves what is complete from _raw to _body."""
        while self.end is None and b"\r\n" in self._raw:
            size, rest = self._raw.split(b"\r\n", 1)
            n = int(size.split(b";")[0], 16)
            if len(rest) < n + 2:
                return
            assert rest[n:n + 2] == b"\r\n", rest[n:n + 2]
            if n == 0:
                self.end = "clean"
            self.chunks.append(n)
            self._body, self._raw = self._body + rest[:n], rest[n + 2:]

    def line(self, timeout=WAIT):
        """The next line; None at a clean end of the body."""
        assert self.headers.get("transfer-encoding") == "chunked", self.headers
        patience = Patience(timeout)
        while True:
            self._read_chunks()
            if b"\n" in self._body:
                text, self._body = self._body.split(b"\n", 1)
                return text
            if self.end == "clean":
                assert not self._body, f"a last line without its newline: {self._body!r}"
                return None
            try:
                assert self._more(patience), f"the connection ended inside the body, after {self._body[-200:]!r}"
            except TimeoutError:
                raise AssertionError(f"no event within {timeout} s") from None

    def event(self, timeout=WAIT):
        text = self.line(timeout)
        return None if text is None else json.loads(text)

    def take(self, n, timeout=WAIT):
        return [self.event(timeout) for _ in range(n)]

    def briefs(self, n, timeout=WAIT):
        return [brief(e) for e in self.take(n, timeout)]

    def quiet(self, seconds=QUIET):
        """Nothing comes, and it does not end."""
        self.socket.settimeout(seconds)
        assert b"\n" not in self._body and self.end is None
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            return
        raise AssertionError(f"it should be quiet, but: {data!r}")

    def rest(self, timeout=WAIT):
        """All events up to the clean end of the body."""
        events = []
        while (e := self.event(timeout)) is not None:
            events.append(e)
        return events

    def body(self, timeout=WAIT):
        """Of an answer that is no watch: a Status, by its length."""
        patience = Patience(timeout)
        if self.headers.get("transfer-encoding") == "chunked":
            while self.end is None:
                self._read_chunks()
                assert self.end or self._more(patience), "the connection ended inside the body"
            return self._body
        n = int(self.headers["content-length"])
        while len(self._raw) < n:
            assert self._more(patience), "the connection ended inside the body"
        return self._raw[:n]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- servers

class Peer:
    """kubepeer: a real kube-apiserver's watch cache on an etcd."""

    def __init__(self, folder, etcd, keep=False):
        self.etcd, self.keep, self.port, self.proc = etcd, keep, free_port(), None
        self.log_path = os.path.join(folder, "kubepeer.log")

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        with open(self.log_path, "ab") as log:
            self.proc = procs.spawn([os.path.join(PEERS, "kubepeer"), self.etcd, self.endpoint], keep=self.keep,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        procs.wait_until(self._answers, 60, 0.2, "kubepeer answers")
        return self

    def _answers(self):
        assert self.proc.poll() is None, open(self.log_path, errors="replace").read()[-2000:]
        try:
            return request(self.endpoint, PODS.path(), timeout=5).code == 200
        except OSError:
            return False

    def kill(self):
        procs.end(self.proc)


class Server:
    """An etcd, what serves its objects as Kubernetes' API, and the store itself. `resources` in the config of belfryd;
    kubepeer has its own."""

    def __init__(self, folder, resources=(PODS, WIDGETS, ZONES, CONFIGS), flags=(), etcd_flags=(), keep=False,
                 peer=BY_PEER,
                 cluster=None, wait=True, rights=None):
        self.folder = str(folder)
        if cluster is None:
            os.makedirs(os.path.join(self.folder, "etcd"))
            cluster = Cluster(os.path.join(self.folder, "etcd"), keep=keep, flags=list(etcd_flags)).start()
        self.cluster = cluster
        self.store = Store(self.cluster.members[0].endpoint)
        self.tier = self.peer = None
        if peer:
            self.peer = Peer(self.folder, self.cluster.members[0].endpoint, keep).start()
        else:
            self.tier = self._belfryd(resources, flags, keep, rights).start(wait)

    def _belfryd(self, resources, flags, keep, rights):
        place = os.path.join(self.folder, "tier")
        os.makedirs(place)
        config = os.path.join(place, "belfryd.yaml")
        with open(config, "w") as f:  # JSON is YAML
            json.dump({"resources": [r.in_config() if isinstance(r, Resource) else r for r in resources]}, f, indent=2)
        upstream = ",".join(m.url for m in self.cluster.members)
        return Belfryd(place, upstream, ["--config", config, *flags], keep=keep, ns=self.cluster.ns, rights=rights)

    @property
    def endpoint(self):
        return (self.tier or self.peer).endpoint

    @property
    def url(self):
        return f"http://{self.endpoint}"

    @property
    def pid(self):
        return (self.tier or self.peer).proc.pid

    def get(self, path, query=None, headers=None, **kw):
        return request(self.endpoint, path, query, headers, **kw)

    def list(self, resource=PODS, namespace=None, query=None, headers=None, **kw):
        return self.get(resource.path(namespace), query, headers, **kw)

    def watch(self, query="", resource=PODS, namespace=None, headers=None, **kw):
        """`query` without its watch=1."""
        text = query if isinstance(query, str) else urllib.parse.urlencode(query)
        return Watch(self.endpoint, resource.path(namespace), "watch=1" + ("&" + text if text else ""), headers, **kw)

    def put(self, obj, resource=PODS):
        """The revision."""
        metadata = obj["metadata"]
        key = resource.key(metadata.get("namespace"), metadata["name"])
        return self.store.put(key.encode(), json.dumps(obj, separators=(",", ":")).encode())

    def put_raw(self, namespace, name, value, resource=PODS):
        return self.store.put(resource.key(namespace, name).encode(), value)

    def put_many(self, objects, resource=PODS, per=100):
        """In transactions, so that many objects have one revision."""
        batch = [(resource.key(o["metadata"].get("namespace"), name(o)).encode(),
                  json.dumps(o).encode()) for o in objects]
        for i in range(0, len(batch), per):
            self.store.txn(*batch[i:i + per])
        return self.store.revision

    def delete(self, namespace, name, resource=PODS):
        return self.store.delete(resource.key(namespace, name).encode())

    def empty(self):
        """Nothing in etcd any more, and the server knows. The newest revision is of no object: a watch from one that has
        deleted several of them would be given that again."""
        self.store.delete(b"\0", b"\0")
        self.store.put(b"/nothing", b"")
        self.wait_for(self.store.delete(b"/nothing"))

    def wait_for(self, rev, resource=PODS, endpoint=None):
        """The cache (of another server, too) has reached `rev`."""
        query = {"resourceVersion": rev, "resourceVersionMatch": "NotOlderThan", "limit": 1}

        def reached():
            answer = request(endpoint or self.endpoint, resource.path(), query)
            return answer.code == 200 and answer.rv >= rev
        procs.wait_until(reached, 20, 0.1, f"the server has revision {rev}")

    def counted(self, word):
        """The sum of belfryd's metrics with `word` in their name."""
        return sum(value for metric, value in self.tier.metrics().items() if word in metric.split("{")[0])

    def objects(self, resource=PODS):
        """(object, its revision, its fingerprint) of all that etcd has, by etcdctl."""
        found = []
        for value, rev in self.cluster.state(resource.prefix).values():
            try:
                obj = json.loads(value)
                found.append((obj, rev, fingerprint(obj)))
            except ValueError:
                continue  # not an object
        return found

    def expected(self, resource=PODS, match=lambda obj: True, objects=None):
        """What an informer's store must be: "ns/name" -> [resourceVersion, fingerprint]."""
        return {f"{obj['metadata'].get('namespace', '')}/{name(obj)}": [str(rev), text]
                for obj, rev, text in (self.objects(resource) if objects is None else objects) if match(obj)}

    def close(self):
        self.store.close()
        if self.peer:
            self.peer.kill()
        if self.tier and self.tier.is_running():
            self.tier.kill()
        self.cluster.close()
        if self.tier:
            crashed = [line for line in self.tier.log().splitlines() if "Sanitizer" in line or "Assertion" in line]
            assert not crashed, crashed[:5]


def etcd_with_a_past(folder, compact=True, keep=False):
    """The revisions of five changes of one object; the first three are compacted away."""
    (folder / "past").mkdir()
    cluster = Cluster(folder / "past", keep=keep).start()
    revs = [cluster.put(PODS.key("x", "a"), json.dumps(pod("x", "a", {"i": str(i % 2)}))) for i in range(5)]
    if compact:
        cluster.compact(revs[3])
    return cluster, revs
