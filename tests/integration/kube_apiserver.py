"""A whole kube-apiserver (1.20, all built-in types) on an etcd or a tier: built outside this tree, in the folder that
PEERS names."""
import http.client
import json
import os
import secrets
import ssl
import subprocess

import procs
from certs import Certs
from kube import PEERS, Answer, target
from patience import Patience
from ports import free_port

PROGRAM = os.path.join(PEERS, "kube-apiserver")
START_S = 180


def why_none():
    """None when there is one here, otherwise the reason."""
    return None if os.access(PROGRAM, os.X_OK) else f"no kube-apiserver at {PROGRAM} (PEERS says where it is)"


class KubeApiserver:
    """With one user, who may do everything. No controller runs beside it."""

    def __init__(self, folder, etcd, *flags):
        self.folder, self.etcd, self.flags, self.proc = str(folder), etcd, flags, None
        self.port, self.token = free_port(), secrets.token_hex(16)
        self.certs = Certs(self.folder)
        with open(self._path("tokens.csv"), "w") as f:
            f.write(f'{self.token},admin,admin,"system:masters"\n')
        procs.run(["openssl", "genrsa", "-out", self._path("sa.key"), "2048"])
        procs.run(["openssl", "rsa", "-in", self._path("sa.key"), "-pubout", "-out", self._path("sa.pub")])
        self.tls = ssl.create_default_context(cafile=self.certs.path("ca.pem"))

    def _path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        argv = [PROGRAM, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
                f"--etcd-servers={self.etcd}", f"--tls-cert-file={self.certs.path('server.pem')}",
                f"--tls-private-key-file={self.certs.path('server.key')}",
                f"--token-auth-file={self._path('tokens.csv')}",
                "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self._path('sa.pub')}",
                f"--service-account-signing-key-file={self._path('sa.key')}",
                "--service-cluster-ip-range=10.96.0.0/24", "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount", *self.flags]
        with open(self._path("kube-apiserver.log"), "ab") as log:
            self.proc = procs.spawn(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        procs.wait_until(self._is_ready, START_S, 0.5, lambda: f"kube-apiserver is ready: {self.log()[-2000:]}")
        return self

    def log(self):
        with open(self._path("kube-apiserver.log"), errors="replace") as f:
            return f.read()

    def kill(self):
        procs.end(self.proc)

    def _is_ready(self):
        assert self.proc.poll() is None, self.log()[-2000:]
        try:
            return self.call("GET", "/readyz").code == 200
        except OSError:
            return False

    def _send(self, method, path, query, obj, timeout):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.tls)
        connection.request(method, target(path, query), None if obj is None else json.dumps(obj),
                           {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        return connection

    def call(self, method, path, query=None, obj=None, timeout=30):
        connection = self._send(method, path, query, obj, timeout)
        try:
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def watch(self, path, since, seconds=30):
        """Its events as they come, until it is closed."""
        patience = Patience(seconds)
        connection = self._send("GET", path, {"watch": 1, "resourceVersion": since}, None, patience.left())
        try:
            for line in connection.getresponse():
                yield json.loads(line)
        finally:
            connection.close()
