"""Users of a Kubernetes cluster with rights of every kind, and requests that try to read more than they may."""
import base64
import json
import re
import socket
import struct
import subprocess
import threading
import time

import procs
import rawh2

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
DELEGATOR = f"{RBAC}/clusterrolebindings/tier-system-auth-delegator"  # by it a tier may ask about others
ISSUER = "https://kubernetes.default.svc"
LEEWAY_S = 60  # for so long after its end kube-apiserver accepts a service account's token
MARK = re.compile(rb"MARK-([a-z0-9.-]+)-END")


def _b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def made(server, path, obj):
    answer = server.call("POST", path, obj=obj)
    assert answer.code in (201, 409), answer.body
    return answer.json


class Accounts:
    """Service accounts of the namespace `default` of a KubeCluster, and what they may."""

    def __init__(self, cluster):
        self.servers, self.identity, self.uids = cluster.servers, cluster.identity, {}
        self.rights = {DELEGATOR: ("tier", {"verb": "create", "group": "authentication.k8s.io", "resource": "tokenreviews"})}
        self.api = self.servers[0]

    def add(self, name):
        obj = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.uids[name] = made(self.api, "/api/v1/namespaces/default/serviceaccounts", obj)["metadata"]["uid"]
        return self.token(name)

    def token(self, name, accepted_s=3600):
        """One that the API server accepts for so long."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": [ISSUER], "iat": now - 200, "nbf": now - 200, "exp": now - LEEWAY_S + accepted_s,
                  "sub": f"system:serviceaccount:default:{name}", "nonce": time.time_ns(),
                  "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": name, "uid": self.uids[name]}}}
        text = _b64(b'{"alg":"RS256"}') + "." + _b64(json.dumps(claims).encode())
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.identity.path("sa.key")], input=text.encode(),
                                capture_output=True, check=True, timeout=60).stdout
        return f"{text}.{_b64(signed)}"

    def allow(self, name, verbs, resources, namespace=None, names=(), group=""):
        """`namespace` None: in the whole cluster. Returns the path of the binding: without it the right is gone. Each API server
        learns of it by itself; when this returns, all have."""
        kind = "Role" if namespace else "ClusterRole"
        where = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
        rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs),
                **({"resourceNames": list(names)} if names else {})}
        title = f"{name}-{'-'.join(resources)}"
        made(self.api, f"{where}roles", {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": title}, "rules": [rule]})
        made(self.api, f"{where}rolebindings", {
            "apiVersion": f"{GROUP}/v1", "kind": f"{kind}Binding", "metadata": {"name": title},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": title},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
        binding = f"{where}rolebindings/{title}"
        self.rights[binding] = (f"system:serviceaccount:default:{name}", {
            "verb": verbs[0], "group": group, "resource": resources[0], "namespace": namespace or "", "name": names[0] if names else ""})
        procs.wait_until(lambda: all(self._say(binding)), 30, 0.02, f"every API server allows {title}")
        return binding

    def revoke(self, binding):
        """Returns when the right was gone at every API server."""
        answer = self.api.call("DELETE", binding)
        assert answer.code == 200, answer.body
        procs.wait_until(lambda: not any(self._say(binding)), 30, 0.02, f"every API server has revoked {binding}")
        return time.monotonic()

    def _say(self, binding):
        """Does it give its right? What each API server says."""
        user, right = self.rights[binding]
        said = self._review("authorization.k8s.io", "SubjectAccessReview", {"user": user, "resourceAttributes": right})
        return [status["allowed"] for status in said]

    def is_known(self, token):
        """Does any API server still accept it? Each remembers for itself, for 10 s, that it was good."""
        said = self._review("authentication.k8s.io", "TokenReview", {"token": token})
        return any(status.get("authenticated") for status in said)

    def _review(self, group, kind, spec):
        """The status of a review, of each API server."""
        obj = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        return [server.call("POST", f"/apis/{group}/v1/{kind.lower()}s", obj=obj).json["status"] for server in self.servers]


def config_map(namespace, name):
    """Its mark is in its data and in its metadata."""
    mark = f"MARK-{namespace}.{name}-END"
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"mark": mark},
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {"mark": mark}}}


def pod(namespace, name, node):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {"mark": f"MARK-{namespace}.{name}-END"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}


def marks(raw):
    """The objects whose marks are in these bytes."""
    return {found.decode() for found in MARK.findall(raw)}


def exchange(server, raw, seconds=5):
    """Sends bytes on one connection, and returns all that comes back until it is closed."""
    got, end = b"", time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as plain:
        with server.identity.tls.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            tls.sendall(raw)
            while time.monotonic() < end:
                tls.settimeout(max(0.05, end - time.monotonic()))
                try:
                    more = tls.recv(1 << 16)
                except TimeoutError:
                    break
                if not more:
                    break
                got += more
    return got


def head(method, path, token=None, *more):
    lines = [f"{method} {path} HTTP/1.1", "Host: tier", *more]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _h2_field(name, value):
    def text(raw):
        size = bytes([len(raw)]) if len(raw) < 127 else b"\x7f" + _varint(len(raw) - 127)
        return size + raw
    return b"\x00" + text(name.encode()) + text(value.encode())


def _varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def h2_get(server, requests, seconds=5):
    """[(path, token or None)] on one HTTP/2 connection, all at once: what came on the stream of each."""
    tls = type(server.identity.tls)(server.identity.tls.protocol)
    tls.load_verify_locations(server.identity.cacert)
    tls.set_alpn_protocols(["h2"])
    bodies, ended = [b""] * len(requests), set()
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as plain:
        with tls.wrap_socket(plain, server_hostname="127.0.0.1") as s:
            assert s.selected_alpn_protocol() == "h2"
            raw = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rawh2.frame(rawh2.SETTINGS, 0, 0, struct.pack(">HI", rawh2.INITIAL_WINDOW, 1 << 24))
            raw += rawh2.frame(rawh2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24))
            for i, (path, token) in enumerate(requests):
                fields = [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "tier")]
                fields += [("authorization", f"Bearer {token}")] if token else []
                raw += rawh2.frame(rawh2.HEADERS, rawh2.END_HEADERS | 1, 2 * i + 1, b"".join(_h2_field(*f) for f in fields))
            s.sendall(raw)
            buffer, end = b"", time.monotonic() + seconds
            while len(ended) < len(requests) and time.monotonic() < end:
                s.settimeout(max(0.05, end - time.monotonic()))
                try:
                    more = s.recv(1 << 16)
                except TimeoutError:
                    break
                if not more:
                    break
                buffer += more
                while len(buffer) >= 9 and len(buffer) >= 9 + int.from_bytes(buffer[:3], "big"):
                    length = int.from_bytes(buffer[:3], "big")
                    kind, flags, stream = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big")
                    if kind == rawh2.DATA:
                        bodies[stream // 2] += buffer[9:9 + length]
                    if kind in (rawh2.DATA, rawh2.HEADERS) and flags & 1:
                        ended.add(stream)
                    buffer = buffer[9 + length:]
    return bodies


class Watcher:
    """A watch in a thread: when each event came, and what it was."""

    def __init__(self, server, path, token, since="", **query):
        self.events, self.error, self.ended = [], None, None
        self._args = server, path, token, since, query
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        server, path, token, since, query = self._args
        try:
            for event in server.watch(path, since, 120, token, **query):
                self.events.append((time.monotonic(), event))
                if event["type"] == "ERROR":
                    self.error = event["object"]
        finally:
            self.ended = time.monotonic()

    def wait(self, what, seconds=30):
        procs.wait_until(what, seconds, 0.05, lambda: f"{len(self.events)} events, {self.error}, ended {self.ended}")

    @property
    def last(self):
        """When the last object came."""
        return max((at for at, event in self.events if event["type"] != "ERROR"), default=0)
