"""Whole kube-apiservers on an etcd or a tier, and the custom-resource half of 1.36: built outside this tree, in the folder that PEERS
names. BELFRY_KUBE_APISERVER is another kube-apiserver."""
import functools
import http.client
import json
import os
import re
import secrets
import signal
import ssl
import subprocess

import procs
from certs import Certs
from kube import PEERS, Answer, target
from patience import Patience
from ports import free_port

PROGRAM = os.environ.get("BELFRY_KUBE_APISERVER") or os.path.join(PEERS, "kube-apiserver")
CRD_PROGRAM = os.path.join(PEERS, "crdserver36")
START_S = 180


def why_none(*programs):
    """None when there is one here, otherwise the reason."""
    absent = next((p for p in programs or (PROGRAM,) if not os.access(p, os.X_OK)), None)
    return f"no {os.path.basename(absent)} at {absent} (PEERS says where it is)" if absent else None


@functools.cache
def version_of(program=PROGRAM):
    """(major, minor); of no program that of the oldest server."""
    if why_none(program):
        return 1, 20
    return tuple(int(n) for n in re.search(r"v(\d+)\.(\d+)", procs.run([program, "--version"]).stdout.decode()).groups())


class Identity:
    """Certificates, the keys of service accounts and the users' tokens: what the servers of one cluster share. `users`: the name of
    each, and its group; there is always an admin, who may do everything."""

    def __init__(self, folder, users=None):
        self.folder = str(folder)
        self.certs = Certs(self.folder)
        groups = {"admin": "system:masters", **(users or {})}
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        with open(self.path("tokens.csv"), "w") as f:
            for user, token in self.tokens.items():
                f.write(f'{token},{user},{user},"{groups[user]}"\n')
        procs.run(["openssl", "genrsa", "-out", self.path("sa.key"), "2048"])
        procs.run(["openssl", "rsa", "-in", self.path("sa.key"), "-pubout", "-out", self.path("sa.pub")])
        self.cacert = self.certs.path("ca.pem")
        self.tls = ssl.create_default_context(cafile=self.cacert)

    def path(self, name):
        return os.path.join(self.folder, name)

    def front_proxy(self):
        """Flags of a server that believes those with the client certificate of this authority which user a request is of."""
        return [f"--requestheader-client-ca-file={self.cacert}", "--requestheader-allowed-names=reader", "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-"]

    def kubeconfig(self, url, user="admin"):
        """The path of one for this server and user."""
        path = self.path(f"kubeconfig-{user.replace(':', '-')}-{url.rsplit(':', 1)[1]}")
        named = {"cluster": {"server": url, "certificate-authority": self.cacert}, "name": "c"}
        with open(path, "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [named], "current-context": "c",
                       "users": [{"name": user, "user": {"token": self.tokens[user]}}],
                       "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}]}, f)
        return path


class ApiServer:
    """A server of Kubernetes' API: a program with a port, its users, and a place for its log. The program comes and goes."""

    def __init__(self, folder, identity, log, keep=False):
        """`keep`: it outlives the test that started it, whose fixture ends it."""
        self.folder, self.identity, self.proc, self.keep = str(folder), identity, None, keep
        self.port, self.log_name = free_port(), log
        os.makedirs(self.folder, exist_ok=True)

    def argv(self):
        raise NotImplementedError

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    @property
    def token(self):
        return self.identity.tokens["admin"]

    def _path(self, name):
        return os.path.join(self.folder, name)

    def start(self, wait=True):
        with open(self._path(self.log_name), "ab") as log:
            self.proc = procs.spawn(self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, keep=self.keep)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        procs.wait_until(self._is_ready, START_S, 0.2, lambda: f"{self.log_name}: not ready: {self.log()[-2000:]}")

    def log(self):
        with open(self._path(self.log_name), errors="replace") as f:
            return f.read()

    def kill(self):
        procs.end(self.proc)

    def stop(self):
        os.kill(self.proc.pid, signal.SIGSTOP)

    def cont(self):
        os.kill(self.proc.pid, signal.SIGCONT)

    def _is_ready(self):
        assert self.proc.poll() is None, self.log()[-2000:]
        try:
            return self.call("GET", "/readyz").code == 200
        except OSError:
            return False

    def _send(self, method, path, query, obj, timeout, user, headers=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.identity.tls)
        fields = {"Content-Type": "application/json", **(headers or {})}
        if user:
            fields["Authorization"] = f"Bearer {self.identity.tokens.get(user, user)}"
        connection.request(method, target(path, query), None if obj is None else json.dumps(obj), fields)
        return connection

    def call(self, method, path, query=None, obj=None, timeout=30, user="admin", headers=None):
        """`user`: the name of one, or a token; empty: no credential."""
        connection = self._send(method, path, query, obj, timeout, user, headers)
        try:
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def metrics(self):
        """name{labels} -> value"""
        lines = (line.rsplit(" ", 1) for line in self.call("GET", "/metrics").body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def watch(self, path, since, seconds=30, user="admin", **query):
        """Its events as they come, until it is closed."""
        patience = Patience(seconds)
        connection = self._send("GET", path, {"watch": 1, "resourceVersion": since, **query}, None, patience.left(), user)
        try:
            for line in connection.getresponse():
                yield json.loads(line)
        finally:
            connection.close()


class KubeApiserver(ApiServer):
    """Without an identity it has one user, who may do everything. No controller runs beside it."""

    AUTHORIZERS, ADMISSION = "RBAC", "--disable-admission-plugins=ServiceAccount"

    def __init__(self, folder, etcd, *flags, identity=None, keep=False):
        super().__init__(folder, identity or Identity(folder), "kube-apiserver.log", keep)
        self.etcd, self.flags = etcd, flags

    def argv(self):
        made = self.identity
        return [PROGRAM, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
                f"--etcd-servers={self.etcd}", f"--tls-cert-file={made.certs.path('server.pem')}",
                f"--tls-private-key-file={made.certs.path('server.key')}",
                f"--token-auth-file={made.path('tokens.csv')}", f"--cert-dir={self.folder}",
                f"--authorization-mode={self.AUTHORIZERS}", "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={made.path('sa.pub')}",
                f"--service-account-signing-key-file={made.path('sa.key')}",
                "--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none",
                f"--proxy-client-cert-file={made.certs.path('client.pem')}",
                f"--proxy-client-key-file={made.certs.path('client.key')}", *made.front_proxy(),
                self.ADMISSION, *self.flags]


class CrdServer36(ApiServer):
    """The custom-resource half of kube-apiserver 1.36, with its objects in a part of its own of the same etcd. It asks
    `core` about users and rights, and believes it about users of requests that it passes on."""

    def __init__(self, folder, etcd, core, keep=False):
        super().__init__(folder, core.identity, "crdserver36.log", keep)
        self.etcd, self.core = etcd, core

    def argv(self):
        made, asked = self.identity, self.identity.kubeconfig(self.core.url)
        return [CRD_PROGRAM, "--bind-address=127.0.0.1", f"--secure-port={self.port}", f"--etcd-servers={self.etcd}",
                "--etcd-prefix=/ext36", f"--tls-cert-file={made.certs.path('server.pem')}",
                f"--tls-private-key-file={made.certs.path('server.key')}", f"--cert-dir={self.folder}",
                "--authentication-skip-lookup", f"--kubeconfig={asked}", f"--authentication-kubeconfig={asked}",
                f"--authorization-kubeconfig={asked}", "--enable-priority-and-fairness=false", *made.front_proxy(),
                "--disable-admission-plugins=ValidatingAdmissionPolicy,MutatingAdmissionPolicy"]


class KubeCluster:
    """API servers of one cluster on one etcd, with RBAC and tokens, and a crdserver36 beside them if it is wanted. The user
    `tier` may read what a tier follows, and ask about users and rights; `alice` may handle config maps in the namespace prod."""

    SERVER, USERS = KubeApiserver, {"tier": "tier", "alice": "alice"}
    AGGREGATED = "demo36.example.com"  # a group of the crdserver36 that the others serve, too
    READS = {"apiGroups": ["", "discovery.k8s.io", "demo.example.com", AGGREGATED], "verbs": ["get", "list", "watch"],
             "resources": ["configmaps", "pods", "services", "nodes", "endpointslices", "widgets"]}
    HANDLES = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}

    def __init__(self, folder, etcd, n=1, crds=False, flags=(), keep=False):
        self.etcd = etcd
        self.identity = Identity(os.path.join(str(folder), "identity"), self.USERS)
        url = etcd.members[0].url
        self.servers = [self.SERVER(os.path.join(str(folder), f"api{i}"), url, *flags, identity=self.identity, keep=keep)
                        for i in range(n)]
        self.crds = CrdServer36(os.path.join(str(folder), "crds"), url, self.servers[0], keep) if crds else None

    def start(self):
        self.servers[0].start()  # the first makes what the others need in etcd
        self._grant()
        for server in self.servers[1:]:
            server.start(wait=False)
        if self.crds:
            self.crds.start(wait=False)
        for server in self.all():
            server.wait_ready()
        return self

    def aggregate(self):
        """The API servers pass requests for AGGREGATED on to the crdserver36."""
        port = self.crds.port
        self._made("/api/v1/namespaces/default/services", {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "crds"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}})
        self._made("/apis/apiregistration.k8s.io/v1/apiservices", {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"v1.{self.AGGREGATED}"},
            "spec": {"group": self.AGGREGATED, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
                     "insecureSkipTLSVerify": True, "service": {"namespace": "default", "name": "crds", "port": port}}})

    def all(self):
        return [*self.servers, *([self.crds] if self.crds else [])]

    def kill(self):
        for server in self.all():
            if server.proc:
                server.kill()

    def _made(self, path, obj):
        answer = self.servers[0].call("POST", path, obj=obj)
        assert answer.code in (201, 409), answer.body

    def _grant(self):
        rbac, version = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1"
        self._made("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
        self._made(f"{rbac}/clusterroles", {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "tier"},
                                            "rules": [self.READS]})
        self._made(f"{rbac}/namespaces/prod/roles", {"apiVersion": version, "kind": "Role", "metadata": {"name": "maps"},
                                                     "rules": [self.HANDLES]})
        for role in ("tier", "system:auth-delegator"):
            self._made(f"{rbac}/clusterrolebindings", self._binding("ClusterRoleBinding", f"tier-{role}", "ClusterRole", role, "tier"))
        self._made(f"{rbac}/namespaces/prod/rolebindings", self._binding("RoleBinding", "alice", "Role", "maps", "alice"))

    @staticmethod
    def _binding(kind, name, role_kind, role, user):
        group = "rbac.authorization.k8s.io"
        return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name.replace(":", "-")},
                "roleRef": {"apiGroup": group, "kind": role_kind, "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}]}
