"""Real clients of Kubernetes' API, unmodified: kubectl, and informers of client-go and client-node."""
import json
import os
import queue
import subprocess
import threading
import time

import needs
import nodejs
import procs
from client import go_binary
from kube import PODS

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "kubectl")
SYNC_S = 60
ANSWER_S = 120  # hundreds of informers in one process are behind for a while after a fault

_found = []


def kubectl_path():
    if not _found:
        done = subprocess.run(["bash", TOOL], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            needs.missing(f"kubectl: {done.stderr.strip()}")
        _found.append(done.stdout.strip())
    return _found[0]


class Kubectl:
    """kubectl with a configuration of its own, and a discovery cache that nobody used before."""

    def __init__(self, url, folder, namespace="default", config=None):
        """`config`: a kubeconfig that is there."""
        self.program, self.folder = kubectl_path(), str(folder)
        self.config = config or self._config(url, namespace)
        self.cache = os.path.join(self.folder, "kubectl-cache")
        self.env = {"PATH": os.environ["PATH"], "HOME": self.folder, "KUBECONFIG": self.config}

    def _config(self, url, namespace):
        path = os.path.join(self.folder, "kubeconfig")
        with open(path, "w") as f:  # JSON is YAML
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [],
                       "clusters": [{"name": "c", "cluster": {"server": url}}],
                       "contexts": [{"name": "x", "context": {"cluster": "c", "user": "", "namespace": namespace}}]},
                      f)
        return path

    def _argv(self, args):
        return [self.program, "--cache-dir", self.cache, *args]

    def run(self, *args, check=True, timeout=60):
        return procs.run(self._argv(args), env=self.env, timeout=timeout, check=check)

    def text(self, *args, **kw):
        return self.run(*args, **kw).stdout.decode()

    def json(self, *args, **kw):
        return json.loads(self.run(*args, "-o", "json", **kw).stdout)

    def rows(self, *args, **kw):
        """The printed table, split into words."""
        return [line.split() for line in self.text(*args, **kw).splitlines()]

    def spawn(self, *args):
        return Lines(self._argv(args), env=self.env)


class Lines:
    """A process whose lines are taken one by one, each with a time limit."""

    def __init__(self, argv, **kw):
        self.proc = procs.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        self._lines, self._errors = queue.Queue(), []
        self._readers = [threading.Thread(target=self._read, args=(pipe, take), daemon=True) for pipe, take in
                         ((self.proc.stdout, self._lines.put), (self.proc.stderr, self._errors.append))]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe, take):
        try:
            for line in pipe:
                take(line.decode().rstrip("\n"))
        except ValueError:
            pass  # closed by the end of the test
        if pipe is self.proc.stdout:
            take(None)

    def stderr(self):
        return "\n".join(self._errors[-20:])

    def line(self, timeout=15):
        try:
            text = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"nothing printed within {timeout} s; stderr: {self.stderr()}") from None
        assert text is not None, f"it ended with {self.proc.wait(10)}; stderr: {self.stderr()}"
        return text

    def nothing(self, seconds=0.5):
        try:
            text = self._lines.get(timeout=seconds)
        except queue.Empty:
            return
        raise AssertionError(f"nothing should be printed, but: {text}")

    def ended(self, timeout=30):
        """The exit code. All that it has printed is there then."""
        code = self.proc.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def send(self, text):
        self.proc.stdin.write(text.encode() + b"\n")
        self.proc.stdin.flush()

    def close(self):
        procs.end(self.proc)


class Informers:
    """Many informers in one process: tests/go/kubeinformer or tests/node/kubeinformer.mjs."""

    def __init__(self, server, resource=PODS, namespace="", labels="", fields="", count=1, node=False,
                 program="kubeinformer",
                 env=None, token="", cacert=""):
        """`server`: has a url, and may have a cluster, in whose namespace of the network they then are."""
        self.node = node
        if node:
            env = {**os.environ, "BELFRY_NODE": nodejs.installed(), "BELFRY_KUBE_TOKEN": token, "BELFRY_KUBE_CACERT": cacert}
            argv = ["node", nodejs.program("kubeinformer.mjs"), server.url, resource.gvr, namespace, labels, fields,
                    count]
        else:
            argv = [program if os.path.sep in program else go_binary(program), "-server", server.url,
                    "-resource", resource.gvr, "-namespace", namespace, "-labels", labels, "-fields", fields,
                    "-count", count, "-token", token, "-cacert", cacert]
            env = {**os.environ, **(env or {})}
        cluster = getattr(server, "cluster", None)
        self.lines = Lines(argv, env=env, ns=cluster.ns if cluster else None)
        self.count, self.synced = count, set()

    def _answer(self, kind, timeout=ANSWER_S):
        until = time.monotonic() + timeout
        while True:
            got = json.loads(self.lines.line(max(0.1, until - time.monotonic())))
            if got["kind"] == "synced":
                self.synced.add(got["informer"])
            elif got["kind"] == kind:
                return got
            else:
                raise AssertionError(f"wanted {kind}, got {got}; stderr: {self.lines.stderr()}")
            if kind == "synced" and len(self.synced) == self.count:
                return got

    def add(self, **spec):
        self.lines.send("add " + json.dumps(spec))
        self.count = self._answer("added")["count"]

    def wait_synced(self, timeout=SYNC_S):
        if len(self.synced) < self.count:
            self._answer("synced", timeout)

    def status(self):
        self.lines.send("status")
        return self._answer("status")["informers"]

    def stores(self):
        """Of each informer: "ns/name" -> [resourceVersion, fingerprint]."""
        self.lines.send("dump")
        found = [self._answer("store")["objects"] for _ in range(self.count)]
        self._answer("dumped")
        return found

    def wait_stores(self, expected, timeout=30):
        """`expected`: one store for all of them, or a list with one of each."""
        wanted = expected if isinstance(expected, list) else [expected] * self.count
        got = []

        def equal():
            got[:] = self.stores()
            return got == wanted

        def difference():
            for i, (have, want) in enumerate(zip(got, wanted)):
                if have != want:
                    wrong = {k: (have.get(k),
                                 want.get(k)) for k in have.keys() | want.keys() if have.get(k) != want.get(k)}
                    return (f"informer {i} of {self.count}: {len(wrong)} objects differ (has, should have): "
                            f"{dict(list(wrong.items())[:5])}; {self.status()[i]}; stderr: {self.lines.stderr()}")
            return "stores equal"
        procs.wait_until(equal, timeout, 0.3, difference)

    def assert_right(self):
        """No transition that the server should not have sent; client-node does not tell."""
        wrong = [(i, s["wrong"]) for i, s in enumerate(self.status()) if s["nWrong"]]
        assert not wrong, wrong[:5]

    def relists(self):
        return sum(max(0, s["lists"] - 1) for s in self.status())

    def close(self):
        self.lines.close()
