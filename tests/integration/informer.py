"""tests/programs/informer, driven from here: one process, its informers, what they told, and what it found wrong with it."""
import json
import subprocess
import threading

import procs
from client import binary
from kube import fingerprint
from patience import Patience

CHANGES = ("added", "updated", "removed")
UNASKED = CHANGES + ("synced", "link", "end", "paused", "violation", "all-synced")
ANSWER_S = 30


class Informer:
    def __init__(self, *argv, ns=None, env=None):
        extra = {} if env is None else {"env": env}
        self.proc = procs.spawn([binary("tests", "informer"), *argv], ns=ns, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **extra)
        self.told = []  # unasked lines, in order
        self._answers, self._errors, self._over = [], [], False
        self._changed = threading.Condition()
        for read in (self._read, self._read_errors):
            threading.Thread(target=read, daemon=True).start()
        self.usage_before = self._answer()

    # how the two sources are asked for

    @classmethod
    def of_keys(cls, endpoints, prefix, *options, **kw):
        return cls("keys", endpoints, prefix, *options, **kw)

    @classmethod
    def of_resource(cls, server, resource, *options, namespace=None, **kw):
        where = [f"--server={server}"] if server else []
        return cls("resource", resource.api_version, resource.plural, *([namespace] if namespace else []), *where,
                   *options, **kw)

    @property
    def pid(self):
        return self.proc.pid

    def stderr(self):
        return "".join(self._errors[-40:])

    def _read(self):
        try:
            for line in self.proc.stdout:
                got = json.loads(line)
                with self._changed:
                    (self.told if got["kind"] in UNASKED else self._answers).append(got)
                    self._changed.notify_all()
        except ValueError:
            pass  # closed by the end of the test, or a line that was cut by its death
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _read_errors(self):
        try:
            for line in self.proc.stderr:
                self._errors.append(line.decode(errors="replace"))
        except ValueError:
            pass

    def _wait(self, what, timeout, message):
        """Until what() is true, looked at after each line; its result."""
        patience = Patience(timeout)
        with self._changed:
            while True:
                got = what()
                if got:
                    return got
                left = patience.left()
                if self._over or not left:
                    said = message() if callable(message) else message
                    why = "it ended" if self._over else f"not within {timeout} s"
                    raise AssertionError(f"{said}: {why}; last told: {self.told[-5:]}; stderr: {self.stderr()}")
                self._changed.wait(min(left, 1))

    def _answer(self, timeout=ANSWER_S):
        return self._wait(lambda: self._answers and self._answers.pop(0), timeout, "an answer")

    def send(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def command(self, line, timeout=ANSWER_S):
        self.send(line)
        return self._answer(timeout)

    def ok(self, line):
        got = self.command(line)
        assert got["kind"] != "no", f"{line}: {got}"
        return got

    def stats(self, number=0):
        return self.ok(f"stats {number}")

    def usage(self):
        return self.ok("usage")

    def keys(self, line):
        """Of "by INDEX VALUE" and "under PREFIX"."""
        return self.ok(line)["keys"]

    def add(self, *options):
        """The number of the new handler."""
        return self.ok(" ".join(["add", *options]))["handler"]

    def pause(self):
        """It is paused after the next news."""
        self.ok("pause")

    # what was told

    def news(self, handler=0, kinds=CHANGES):
        with self._changed:
            return [t for t in self.told if t.get("handler") == handler and t["kind"] in kinds]

    def brief(self, handler=0, kinds=CHANGES):
        """(kind, key) of each."""
        return [(t["kind"], t["key"]) for t in self.news(handler, kinds)]

    def wait_told(self, what, timeout=ANSWER_S, message="news"):
        """what(list of all lines that came unasked) is true; its result."""
        return self._wait(lambda: what(self.told), timeout, message)

    def wait_synced(self, timeout=60):
        self.wait_told(lambda told: any(t["kind"] == "all-synced" for t in told), timeout, "all are synced")

    def wait_handler_synced(self, handler, times=1, timeout=60):
        def enough(told):
            return sum(t["kind"] == "synced" and t["handler"] == handler for t in told) >= times
        self.wait_told(enough, timeout, f"handler {handler} is synced")

    def wait_news(self, kind, key, handler=0, timeout=ANSWER_S, **fields):
        """The first such news that has all `fields`."""
        def found(told):
            return next((t for t in told if t["kind"] == kind and t.get("key") == key and t["handler"] == handler
                         and all(t[name] == value for name, value in fields.items())), None)
        return self.wait_told(found, timeout, f"{kind} of {key}")

    def wait_link(self, text, after=0, timeout=ANSWER_S):
        """A LINK that says `text`, among those told after the first `after`."""
        def found(told):
            return any(t["kind"] == "link" and text in t["why"] for t in told[after:])
        self.wait_told(found, timeout, lambda: f"a link that says {text!r}: "
                       f"{[t['why'] for t in self.told if t['kind'] == 'link'][-5:]}")

    def violations(self):
        with self._changed:
            return [t for t in self.told if t["kind"] == "violation"]

    # its stores

    def dump(self, number=0, timeout=60):
        """key -> (version, value), the value as bytes, the key as text of bytes (latin-1)."""
        head = self.command(f"dump {number}", timeout)
        assert head["kind"] == "store", head
        found = {}
        while (got := self._answer(timeout))["kind"] != "stored":
            found[got["key"]] = (got["version"], got["value"].encode("latin-1"))
        assert len(found) == head["count"], f"{head['count']} are counted, {len(found)} are there"
        return found

    def objects(self, number=0):
        """Of a resource: "ns/name" -> [resourceVersion, fingerprint], as kube.Server.expected() has it."""
        return {key: [version, fingerprint(json.loads(value))] for key, (version, value) in self.dump(number).items()}

    def wait_store(self, expected, timeout=60, number=0, read=None):
        """`expected` is a store, or a function that gives it: etcd may be asked again and again."""
        got = {}

        def equal():
            got["have"] = (read or self.objects)(number)
            got["want"] = expected() if callable(expected) else expected
            return got["have"] == got["want"]

        def difference():
            have, want = got["have"], got["want"]
            wrong = {k: (have.get(k), want.get(k)) for k in have.keys() | want.keys() if have.get(k) != want.get(k)}
            return (f"informer {number}: {len(wrong)} of {len(want)} differ (has, should have): "
                    f"{dict(list(wrong.items())[:5])}; {self.stats(number)}; links: "
                    f"{[t['why'] for t in self.told if t['kind'] == 'link'][-5:]}")
        procs.wait_until(equal, timeout, 0.2, difference)

    def wait_keys(self, expected, timeout=60):
        """`expected`: key -> (value, mod revision), as etcd.Cluster.state() has it."""
        def wanted():
            state = expected() if callable(expected) else expected
            return {key.decode("latin-1"): (str(rev), value) for key, (value, rev) in state.items()}
        self.wait_store(wanted, timeout, read=self.dump)

    def quit(self, timeout=30):
        """Ends it in good order: a violation, a crash or a sanitizer's report is a failure."""
        if self.proc.poll() is None:
            try:
                self.send("quit")
            except BrokenPipeError:
                pass
            self.proc.wait(timeout)
        code = self.proc.returncode
        self._wait(lambda: self._over, 10, "its end was read")
        wrong = self.violations()
        procs.end(self.proc)
        assert not wrong, f"{len(wrong)} violations: {wrong[:5]}"
        assert code == 0, f"informer exited with {code}; stderr: {self.stderr()}"

    def close(self):
        procs.end(self.proc)
