"""Network namespaces for a cluster: one for the clients, one for each member, and links that can be cut.

A member has two links into the clients' namespace: one over which clients reach it, one over which the members reach
each other. Each can be cut alone and silently: nothing is reset, packets just stop. All addresses live inside these
namespaces; the machine's own network is not touched."""
import contextlib
import ctypes
import itertools
import os
import subprocess

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_count = itertools.count()


def ip(*args, check=True):
    done = subprocess.run(["ip", *args], capture_output=True, text=True, timeout=20)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(args)}: {done.stderr.strip()}")
    return done


@contextlib.contextmanager
def inside(ns):
    """The calling thread, and it alone, is in namespace `ns` meanwhile, which is a name or the path of one; None: stays where it is."""
    if ns is None:
        yield
        return
    with open("/proc/thread-self/ns/net") as home, open(os.path.join("/run/netns", ns)) as there:
        _enter(there)
        try:
            yield
        finally:
            _enter(home)


def _enter(file):
    if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {file.name}")


def why_not():
    """None when namespaces and links can be made here, otherwise the reason."""
    name = f"belfry-{os.getpid()}-probe"
    try:
        ip("netns", "add", name)
        ip("-n", name, "link", "add", "a0", "type", "veth", "peer", "name", "b0")
        ip("-n", name, "link", "add", "bridge0", "type", "bridge")
        return None
    except (OSError, subprocess.SubprocessError) as e:
        return str(e)
    finally:
        try:
            ip("netns", "del", name, check=False)
        except (OSError, subprocess.SubprocessError):
            pass


@contextlib.contextmanager
def alone():
    """A namespace with a loopback interface and nothing else; its name."""
    ns = f"belfry-{os.getpid()}-{next(_count)}"
    ip("netns", "add", ns)
    try:
        ip("-n", ns, "link", "set", "lo", "up")
        yield ns
    finally:
        ip("netns", "del", ns, check=False)


@contextlib.contextmanager
def many_addresses():
    """Likewise, in which every address of 10.77.0.0/16 is its own."""
    with alone() as ns:
        ip("-n", ns, "addr", "add", "10.77.0.1/16", "dev", "lo")
        yield ns


class Net:
    def __init__(self, n_members):
        self.tag = f"belfry-{os.getpid()}-{next(_count)}"
        self.hub = f"{self.tag}-hub"
        self.members = [f"{self.tag}-m{i}" for i in range(n_members)]
        self._made = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self):
        for ns in [self.hub] + self.members:
            ip("netns", "add", ns)
            self._made.append(ns)
            ip("-n", ns, "link", "set", "lo", "up")
        for bridge in ("brc", "brp"):
            ip("-n", self.hub, "link", "add", bridge, "type", "bridge")
            ip("-n", self.hub, "link", "set", bridge, "up")
        ip("-n", self.hub, "addr", "add", "10.77.1.254/24", "dev", "brc")
        for i, ns in enumerate(self.members):
            for side, subnet in (("c", 1), ("p", 2)):
                ip("-n", self.hub, "link", "add", f"{side}{i}", "type", "veth",
                    "peer", "name", f"{side}0", "netns", ns)
                ip("-n", self.hub, "link", "set", f"{side}{i}", "master", f"br{side}")
                ip("-n", self.hub, "link", "set", f"{side}{i}", "up")
                ip("-n", ns, "addr", "add", f"10.77.{subnet}.{i + 1}/24", "dev", f"{side}0")
                ip("-n", ns, "link", "set", f"{side}0", "up")

    def client_host(self, i):
        return f"10.77.1.{i + 1}"

    def peer_host(self, i):
        return f"10.77.2.{i + 1}"

    def cut(self, i, side):
        """side "c": clients no longer reach member i; "p": the other members no longer do."""
        ip("-n", self.hub, "link", "set", f"{side}{i}", "down")

    def heal(self, i, side):
        ip("-n", self.hub, "link", "set", f"{side}{i}", "up")

    def refuse(self, i):
        """Clients that connect to member i are told at once that they cannot."""
        ip("-n", self.hub, "route", "add", "unreachable", f"{self.client_host(i)}/32")

    def accept(self, i):
        ip("-n", self.hub, "route", "del", "unreachable", f"{self.client_host(i)}/32")

    def close(self):
        for ns in reversed(self._made):
            ip("netns", "del", ns, check=False)
        self._made = []
