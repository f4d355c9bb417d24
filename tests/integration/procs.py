"""Processes that never outlive the test: their own sessions, a death signal, and a list to kill at the end."""
import ctypes
import os
import signal
import struct
import subprocess
import time

from patience import Patience

PR_SET_PDEATHSIG = 1
CLONE_NEWNS, MS_REC, MS_SLAVE = 0x20000, 0x4000, 0x80000
_libc = ctypes.CDLL(None, use_errno=True)
_live = []


def own_mounts():
    """What is mounted from now on is seen by this process and its children alone, and goes with the last of them, however they
    end. Without the right to do that, tests unmount what they can."""
    if _libc.unshare(CLONE_NEWNS) == 0:
        _libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None)


def _child():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _clean_env():
    return {k: v for k, v in os.environ.items() if not k.startswith(("ETCD", "BELFRYCTL_"))}


def in_namespace(argv, ns):
    return (["ip", "netns", "exec", ns] if ns else []) + [a if isinstance(a, bytes) else str(a) for a in argv]


class Process(subprocess.Popen):
    """One whose limits of time are those of patience."""

    def wait(self, timeout=None):
        return self._patiently(super().wait, timeout)

    def communicate(self, input=None, timeout=None):
        said = [input]  # at the first try only
        return self._patiently(lambda timeout: super(Process, self).communicate(said.pop() if said else None, timeout), timeout)

    @staticmethod
    def _patiently(what, timeout):
        patience = timeout and Patience(timeout)
        while True:
            try:
                return what(timeout=patience.left() if patience else timeout)
            except subprocess.TimeoutExpired:
                if not patience or patience.is_over():
                    raise


def spawn(argv, ns=None, keep=False, **kw):
    """A process in a session of its own; killed by kill_all() if nobody ended it before, unless `keep`."""
    kw.setdefault("env", _clean_env())
    proc = Process(in_namespace(argv, ns), start_new_session=True, preexec_fn=_child, **kw)
    if not keep:
        _live.append(proc)
    return proc


def run(argv, ns=None, timeout=90, check=True, **kw):
    """Runs to its end and returns the CompletedProcess, with both outputs as bytes."""
    kw.setdefault("env", _clean_env())
    given = kw.pop("input", None)
    kw.setdefault("stdin", subprocess.DEVNULL if given is None else subprocess.PIPE)
    with Process(in_namespace(argv, ns), stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_child, **kw) as proc:
        try:
            out, err = proc.communicate(given, timeout)
        except BaseException:
            proc.kill()
            raise
    if check and proc.returncode != 0:
        raise AssertionError(f"{argv} exited {proc.returncode}: {err.decode(errors='replace')[-2000:]}")
    return subprocess.CompletedProcess(argv, proc.returncode, out, err)


def end(proc, sig=signal.SIGKILL, timeout=10):
    """Ends one process (and what it started) and waits for it."""
    if proc.poll() is None:
        try:
            os.killpg(proc.pid, signal.SIGCONT)
            os.killpg(proc.pid, sig)
        except ProcessLookupError:
            pass
        try:
            proc.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(proc.pid, signal.SIGKILL)
            proc.wait(timeout)
    for pipe in (proc.stdin, proc.stdout, proc.stderr):
        if pipe:
            try:
                pipe.close()
            except OSError:
                pass
    if proc in _live:
        _live.remove(proc)


def kill_all():
    for proc in list(_live):
        end(proc)


def wait_until(what, timeout, step=0.05, message="condition"):
    """Calls what() until it is true, and returns its result; fails after `timeout` seconds that the machine was ours."""
    patience = Patience(timeout)
    while True:
        got = what()
        if got:
            return got
        if patience.is_over():
            said = message() if callable(message) else message
            raise AssertionError(f"{said}: not within {timeout} s")
        time.sleep(step)


def rss_bytes(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def n_threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def _address(text):
    """'0100007F:0050' -> ('127.0.0.1', 80); IPv6 in the same way, mapped addresses as IPv4."""
    host, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
    if len(raw) == 16 and raw[:12] == b"\0" * 10 + b"\xff\xff":
        raw = raw[12:]
    name = ".".join(map(str, raw)) if len(raw) == 4 else raw.hex()
    return name, int(port, 16)


def connections(pid):
    """The peers (host, port) of the established TCP connections that the process holds."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as f:
            next(f)
            for line in f:
                fields = line.split()
                if fields[3] == "01" and fields[9] in inodes:
                    found.append(_address(fields[2]))
    return found
