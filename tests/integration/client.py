"""The programs of tests/programs, driven from here."""
import os
import queue
import signal
import subprocess
import threading

import procs
from patience import Patience

BIN = os.environ.get("BELFRY_BIN") or os.path.join(os.path.dirname(__file__), "..", "..", "build", "release", "bin")


def binary(*path):
    """A binary of this build; missing is a failure that says what to do, never a skip."""
    full = os.path.abspath(os.path.join(BIN, *path))
    assert os.access(full, os.X_OK), f"{full} is missing: build first (cmake --build), or set BELFRY_BIN"
    return full


def go_binary(name):
    full = os.path.abspath(os.path.join(BIN, "tests", name))
    assert os.access(full, os.X_OK), f"{full} is missing: tools/go-root {os.path.dirname(full)} builds it"
    return full


# who a recorder may be made with
LIBBELFRY, CLIENTV3, ETCD3, GATEWAY, SSE = "libbelfry", "clientv3", "python3-etcd3", "the JSON gateway", "Server-Sent Events"
PYTHON = {ETCD3: "pyrecorder.py", GATEWAY: "gwrecorder.py", SSE: "sserecorder.py"}
CANNOT_ASK = (ETCD3, SSE)  # for progress


def recorder_argv(client):
    if client in PYTHON:
        return ["/usr/bin/python3", os.path.join(os.path.dirname(__file__), "..", "programs", PYTHON[client])]
    return [go_binary("gorecorder") if client == CLIENTV3 else binary("tests", "recorder")]


def to_hex(key):
    return key.hex() or "-"


class Recorder:
    """tests/programs/recorder: one session, its watches, and a record of all they were given. With go=True the same by
    etcd's own clientv3 (tests/go/gorecorder), with client=ETCD3 by python3-etcd3 (tests/programs/pyrecorder.py), with client=GATEWAY
    over the JSON gateway (tests/programs/gwrecorder.py), with client=SSE by Server-Sent Events (tests/programs/sserecorder.py): these know
    only some of the commands."""

    def __init__(self, endpoints, record, options=(), ns=None, go=False, client=LIBBELFRY):
        self.record = str(record)
        self.stderr_path = self.record + ".err"
        with open(self.stderr_path, "wb") as err:
            argv = recorder_argv(CLIENTV3 if go else client)
            self.proc = procs.spawn([*argv, endpoints, self.record, *options], ns=ns,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err)
        self._answers, self._news = queue.Queue(), queue.Queue()
        self._n_owed = 1  # answers that are still to come: one says that it is there
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._answer(10)

    @property
    def pid(self):
        return self.proc.pid

    def _read(self):
        for line in self.proc.stdout:
            text = line.decode().rstrip("\n")
            (self._news if text.startswith("!") else self._answers).put(text)
        self._answers.put(None)
        self._news.put(None)

    def _stderr(self):
        with open(self.stderr_path, errors="replace") as f:
            return f.read()[-2000:]

    def _answer(self, timeout):
        """That of the newest command: one that came too late for those before is not taken for it."""
        patience, text = Patience(timeout), ""
        while self._n_owed > 0 and text is not None:
            try:
                text = self._answers.get(timeout=1)
                self._n_owed -= 1
            except queue.Empty:
                assert not patience.is_over(), f"recorder does not answer within {timeout} s; stderr: {self._stderr()}"
        if text is None:
            raise AssertionError(f"recorder exited with {self.proc.wait(5)}; stderr: {self._stderr()}")
        assert text.startswith("ok"), f"recorder said: {text}; stderr: {self._stderr()}"
        return text[3:]

    def command(self, line, timeout=20):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()
        self._n_owed += 1
        return self._answer(timeout)

    def news(self, timeout):
        """The next line that began with "!", without it, as words."""
        try:
            text = self._news.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"recorder: no news within {timeout} s")
        assert text is not None, f"recorder exited; stderr: {self._stderr()}"
        return text[1:].split()

    def open(self, spec):
        self.command(spec.command())

    def status(self):
        """number -> dict(state, rev, n_events, place, member, err)"""
        found = {}
        for word in self.command("status").split():
            n, state, rev, n_events, place, member, err = word.split(":")
            found[int(n)] = dict(state=state, rev=int(rev), n_events=int(n_events), place=int(place),
                                 member=int(member), err=err)
        return found

    def stats(self):
        return {k: int(v) for k, v in (word.split("=") for word in self.command("stats").split())}

    def wait_rev(self, wanted, timeout):
        """wanted: watch number -> revision that its newest event must reach, all of that revision included."""
        state = {}

        def reached():
            state.update(self.status())
            return all(state[n]["rev"] >= rev for n, rev in wanted.items())
        procs.wait_until(reached, timeout, 0.1, lambda: "watches behind: " + str(
            {n: (state[n], rev) for n, rev in wanted.items() if state[n]["rev"] < rev}))

    def wait_place(self, wanted, timeout):
        """wanted: watch number -> revision that its newest batch must reach; progress is one, too."""
        procs.wait_until(lambda: all(self.status()[n]["place"] >= rev for n, rev in wanted.items()), timeout, 0.1,
                         lambda: f"places {wanted}: {self.status()}")

    def wait_state(self, number, wanted, timeout):
        procs.wait_until(lambda: self.status()[number]["state"] == wanted, timeout, 0.05,
                         lambda: f"watch {number} {wanted}: {self.status()[number]}")

    def wait_connected(self, n_watches, timeout=10):
        procs.wait_until(lambda: self.stats()["creates"] >= n_watches, timeout, 0.05,
                         lambda: f"{n_watches} watches created: {self.stats()}")

    def member_in_use(self, cluster, number=0):
        """The member that sent the newest batch of watch `number`, or None before the first."""
        return cluster.member_by_id(self.status()[number]["member"])

    def is_connected_to(self, member):
        """By the sockets the process holds, not by what the library says."""
        return (member.client_host, member.client_port) in procs.connections(self.pid)

    def stop(self):
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self):
        os.kill(self.pid, signal.SIGCONT)

    def quit(self, timeout=30):
        """Ends it; the record is whole afterwards. A crash or a sanitizer report is a failure."""
        if self.proc.poll() is None:
            try:
                self.proc.stdin.write(b"quit\n")
                self.proc.stdin.flush()
            except BrokenPipeError:
                pass
            self.proc.wait(timeout)
        code = self.proc.returncode
        procs.end(self.proc)
        assert code == 0, f"recorder exited with {code}; stderr: {self._stderr()}"


class Writer:
    """tests/programs/writer in the background; stop() returns what it printed as a dict."""

    def __init__(self, endpoints, *args, ns=None):
        self.proc = procs.spawn([binary("tests", "writer"), endpoints, *args], ns=ns,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait(self, timeout):
        out, err = self.proc.communicate(timeout=timeout)
        procs.end(self.proc)
        assert self.proc.returncode == 0, f"writer exited with {self.proc.returncode}: {err.decode()[-2000:]}"
        return {k: int(v) for k, v in (word.split("=") for word in out.decode().split())}

    def stop(self, timeout=60):
        return self.wait(timeout)  # communicate() closes its input, which ends it


def write(endpoints, *args, ns=None, timeout=120):
    """Runs the writer to its end."""
    w = Writer(endpoints, *args, ns=ns)
    try:
        return w.wait(timeout)
    except subprocess.TimeoutExpired:
        procs.end(w.proc)
        raise AssertionError(f"writer {args}: not done within {timeout} s")
