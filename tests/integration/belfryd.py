"""belfryd itself: a tier in front of a cluster, started, stopped and asked by a test."""
import http.client
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

import netns
import procs
from client import binary
from ports import free_port

START_TIMEOUT = 30


class Belfryd:
    """One belfryd process and the place it lives in; the process comes and goes, ports and cache folder stay."""

    def __init__(self, folder, upstream, flags=(), ns=None, listen=None, host="127.0.0.1", env=None,
                 keep=False, program=None, rights=None):
        """`rights`: of the listener, which needs it if the flags have credentials for upstream."""
        self.folder, self.upstream, self.flags, self.ns = str(folder), upstream, list(flags), ns
        self.host, self.port, self.admin_port = host, free_port(), free_port()
        self.listen = listen or [f"http://{host}:{self.port}" + (f",rights={rights}" if rights else "")]
        self.log_path = os.path.join(self.folder, "belfryd.log")
        self.cache = os.path.join(self.folder, "cache")
        self.env = env
        self.program = program or binary("belfryd")
        self.keep = keep  # outlives the test that started it, which then ends it
        self.proc = None

    @property
    def endpoint(self):
        return f"{self.host}:{self.port}"

    @property
    def url(self):
        return f"http://{self.endpoint}"

    @property
    def pid(self):
        return self.proc.pid

    def start(self, wait=True):
        argv = [self.program, "--upstream", self.upstream, "--admin", f"http://127.0.0.1:{self.admin_port}",
                "--cache-dir", self.cache]
        for listen in self.listen:
            argv += ["--listen", listen]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ETCD", "BELFRY"))}
        env.update(self.env or {})
        with open(self.log_path, "ab") as log:
            self.proc = procs.spawn(argv + self.flags, ns=self.ns, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                    keep=self.keep)
        if wait:
            self.wait_ready()
        return self

    def is_running(self):
        return self.proc is not None and self.proc.poll() is None

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def get(self, path, timeout=10):
        """(status, body) of the admin address."""
        request = f"http://127.0.0.1:{self.admin_port}{path}"
        try:
            with netns.inside(self.ns), urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except (OSError, http.client.HTTPException) as e:
            return 0, str(e)

    def numbers(self):
        status, body = self.get("/debug/numbers")
        assert status == 200, f"/debug/numbers: {status} {body}"
        return json.loads(body)

    def metrics(self):
        """name{labels} -> value"""
        status, body = self.get("/metrics")
        assert status == 200, f"/metrics: {status} {body}"
        lines = (line.rsplit(" ", 1) for line in body.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def wait_ready(self, timeout=START_TIMEOUT):
        def ready():
            assert self.is_running(), f"belfryd exited with {self.proc.returncode}: {self.log()[-3000:]}"
            return self.get("/readyz")[0] == 200
        procs.wait_until(ready, timeout, 0.05, lambda: f"belfryd ready: {self.get('/readyz?verbose')} {self.log()[-2000:]}")

    def kill(self):
        procs.end(self.proc)

    def stop(self, timeout=40):
        """SIGTERM; returns the exit code."""
        proc = self.proc
        if proc.poll() is None:
            os.kill(proc.pid, signal.SIGTERM)
            proc.wait(timeout)
        code = proc.returncode
        procs.end(proc)
        return code

    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self):
        os.kill(self.pid, signal.SIGCONT)
