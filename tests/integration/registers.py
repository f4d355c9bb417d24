"""Clients that write and read a few keys (tests/programs/registers), and the judgement of what they were answered
(tests/stress/linearizable.c, src/judge/judge_register.h)."""
import queue
import subprocess
import threading

import procs
from client import binary
from patience import Patience

KEYS = 8
VALUES = 1 << 40  # of each process: values are never the same twice


class Clients:
    """One process with several clients. `roles`: role -> [endpoints, ...], one client each."""
    n_made = 0

    def __init__(self, record, roles, seed, ns=None, rest_ms=5):
        Clients.n_made += 1
        self.record = str(record)
        argv = [binary("tests", "registers"), self.record, f"seed={seed + Clients.n_made}", f"keys={KEYS}", f"rest={rest_ms}",
                f"first={Clients.n_made * VALUES}"]
        argv += [f"{role}={endpoints}" for role, each in roles.items() for endpoints in each]
        with open(self.record + ".err", "wb") as err:
            self.proc = procs.spawn(argv, ns=ns, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        self._answers = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self.proc.stdout:
            self._answers.put(dict((name, int(n)) for name, n in (word.split("=") for word in line.decode().split())))
        self._answers.put(None)

    def _answer(self):
        patience = Patience(30)
        while not patience.is_over():
            try:
                got = self._answers.get(timeout=max(0.01, patience.left()))
            except queue.Empty:
                continue
            assert got is not None, f"registers ended: {open(self.record + '.err').read()}"
            return got
        raise AssertionError("registers does not answer")

    def counts(self):
        self.proc.stdin.write(b"\n")
        self.proc.stdin.flush()
        return self._answer()

    def wait_more(self, name, n, timeout=60):
        """Until so many more calls of this kind have ended well."""
        wanted = self.counts()[name] + n
        procs.wait_until(lambda: self.counts()[name] >= wanted, timeout, 0.05,
                         lambda: f"{n} more {name} of {self.record}: {self.counts()}")

    def stop(self):
        """Waits for the calls under way; the record is whole then."""
        self.proc.stdin.close()
        counts = self._answer()
        assert self.proc.wait(30) == 0
        return counts


class Verdict:
    def __init__(self, done):
        assert done.returncode in (0, 1), f"the record cannot be judged: {done.stderr.decode()}"
        *self.lines, last = done.stdout.decode().splitlines()
        self.counts = dict((name, int(n)) for name, n in (word.split("=") for word in last.split()))
        self.names = {line.split(":")[0] for line in self.lines if not line.startswith(" ")}
        assert (done.returncode == 1) == (self.counts["violations"] > 0) == bool(self.names)

    def __str__(self):
        return "\n".join(self.lines[:60] + [str(self.counts)])


def judge(*records):
    return Verdict(procs.run([binary("tests", "linearizable"), *records], check=False, timeout=300))
