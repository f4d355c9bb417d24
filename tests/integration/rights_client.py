"""One client that uses every dialect with one token: a gRPC watch, relayed reads, Kubernetes lists and watches, discovery.
It notes what it was given, and when."""
import contextlib
import re
import threading
import time

from kube import Watch, request
from rights import Caller, TokenWatch
from test_kube_auth import SEEN, bearer

OURS = (b"/a/", b"/a0")
DISCOVERY = "/apis/demo.example.com/v1"
POLL_S = 0.1
DIALECTS = ("gRPC watch", "relay", "Kubernetes watch", "Kubernetes list", "discovery")


class KubeReader:
    """A Kubernetes watch that a thread reads: `events` are (when, type), `error` the code of an ERROR event."""

    def __init__(self, endpoint, token):
        self.watch = Watch(endpoint, SEEN, "watch=1", bearer(token) if token else None)
        self.code, self.events, self.error, self.end, self._stop = self.watch.code, [], None, None, False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while self.code == 200 and self.end is None and not self._stop:
            try:
                line = self.watch.line(timeout=0.2)
            except AssertionError as e:
                if "no event within" not in str(e):
                    self.end = time.monotonic(), str(e)
                continue
            except OSError as e:
                self.end = time.monotonic(), str(e)
                continue
            if line is None:
                self.end = time.monotonic(), ""
                return
            kind = re.search(rb'"type":"(\w+)"', line).group(1).decode()
            if kind == "ERROR":
                self.error = int(re.search(rb'"code":(\d+)', line).group(1))
            else:
                self.events.append((time.monotonic(), kind))

    def close(self):
        self._stop = True
        self._thread.join(10)
        self.watch.socket.close()


class Client:
    """`answers` by dialect: (when it was asked for or came, whether it had anything of the keys in it)."""

    def __init__(self, tier, token):
        self.tier, self.token = tier, token
        self.answers = {"relay": [], "Kubernetes list": [], "discovery": []}
        self.watch, self.kube = TokenWatch(tier.endpoint, token, OURS), KubeReader(tier.endpoint, token)
        self._caller, self._stop = Caller(tier.endpoint), threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _note(self, dialect, asked, body, code, word):
        assert (word in body) <= (code in (0, 200)), (dialect, code, body)
        self.answers[dialect].append((asked, word in body))

    def _poll(self):
        headers = bearer(self.token) if self.token else None
        while not self._stop.wait(POLL_S):
            asked = time.monotonic()
            code, _ = self._caller.range(self.token, *OURS, timeout=5)
            self._note("relay", asked, self._caller.body, code, b"web")
            for dialect, path, word in (("Kubernetes list", SEEN, b"web"), ("discovery", DISCOVERY, b"configs")):
                asked = time.monotonic()
                with contextlib.suppress(OSError, AssertionError):
                    answer = request(self.tier.endpoint, path, None, headers)
                    self._note(dialect, asked, answer.body, answer.code, word)

    def given(self, dialect):
        """When it was given something: for answers the time at which they were asked for."""
        if dialect == "gRPC watch":
            return [e[0] for e in self.watch.events]
        if dialect == "Kubernetes watch":
            return [e[0] for e in self.kube.events]
        return [when for when, has in self.answers[dialect] if has]

    def refused(self, dialect, since):
        """How many answers had nothing, of those that were asked for since then."""
        return sum(when >= since and not has for when, has in self.answers[dialect])

    def cancelled(self):
        """Watches that were ended as if their right were gone."""
        return len(self.watch.cancels) + (self.kube.error == 403)

    def close(self):
        self._stop.set()
        self._thread.join(20)
        for one in (self.watch, self.kube, self._caller):
            one.close()
