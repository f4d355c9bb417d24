"""Clean roots of Debian suites: what a package or a page does there, it does as on an operator's machine."""
import functools
import glob
import itertools
import os
import shutil
import subprocess

import needs
import netns
import procs
from unit import Unit

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SUITES = ["bookworm", "trixie"]
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
       "DEBIAN_FRONTEND": "noninteractive"}
_count = itertools.count()


def tool(*argv, timeout=3600):
    """The last line that a tool of this tree prints."""
    done = subprocess.run(["bash", os.path.join(TOP, "tools", argv[0]), *argv[1:]], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"tools/{' '.join(argv)}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    return done.stdout.strip().split("\n")[-1]


@functools.lru_cache  # once per run: a build takes minutes
def packages(suite, *flags, out=None):
    """Paths of the packages for users that tools/package makes, without those of debug symbols. With BELFRY_PACKAGES, a folder, those of this
    tree are taken from there, from one folder per suite: to repeat a test without a build."""
    kept = os.environ.get("BELFRY_PACKAGES")
    if kept and not flags:
        out = os.path.join(kept, suite)
    else:
        tool("package", "deb", "--suite", suite, *flags, *(["--out", str(out)] if out else []))
    found = glob.glob(os.path.join(out or os.path.join(TOP, "build/package/deb", suite), "*.deb"))
    assert found, f"no packages in {out}"
    return sorted(path for path in found if "-dbgsym" not in path)


class Root:
    """A copy of a suite's minimal root, with /proc. Its services see a loopback of their own, unless `own_loopback` is False."""

    def __init__(self, folder, suite, own_loopback=True):
        if os.geteuid() != 0:
            needs.missing("the right to use chroot")
        self.path, self.suite = str(folder), suite
        self.units = {}
        self.ns = f"belfry-{os.getpid()}-root{next(_count)}" if own_loopback else None
        subprocess.run(["cp", "-a", tool("suite-root", suite), self.path], check=True)
        if self.ns:
            netns.ip("netns", "add", self.ns)
            netns.ip("-n", self.ns, "link", "set", "lo", "up")
        subprocess.run(["mount", "-t", "proc", "proc", self.file("proc")], check=True)

    def file(self, path):
        return os.path.join(self.path, path.lstrip("/"))

    def read(self, path):
        with open(self.file(path)) as f:
            return f.read()

    def has(self, path):
        return os.path.lexists(self.file(path))

    def sh(self, command, cwd="/root", ns=None, check=True, timeout=600):
        """Runs a line of shell in the root, in the machine's own network unless told otherwise; its output, both streams together."""
        done = procs.run(["chroot", self.path, "bash", "-c", f"cd {cwd} && {command}"], ns=ns, env=ENV, check=False, timeout=timeout,
                         stdin=subprocess.DEVNULL)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert not check or done.returncode == 0, f"{self.suite}: {command}: {done.returncode} {said[-4000:]}"
        return said

    def put(self, paths, folder="/root"):
        for path in paths:
            shutil.copy(path, self.file(folder))

    def unit(self, name):
        return self.units.setdefault(name, Unit(self.path, name, self.ns))

    def close(self):
        for unit in self.units.values():
            unit.stop()
        subprocess.run(["umount", self.file("proc")], check=True)
        if self.ns:
            netns.ip("netns", "del", self.ns, check=False)
        shutil.rmtree(self.path)
