"""tree: three members of etcd, three tiers one on the other, and their clients; each in its own namespace (star.py)."""
import os
import subprocess

import procs
from belfryd import Belfryd
from etcd import Cluster
from star import Star

CACHE_BYTES = 96 << 20  # of each tier's file system: small, so that it can be filled
PORT = 2379


class Tier(Belfryd):
    """A belfryd whose cache folder is a small file system of its own."""

    def __init__(self, name, folder, star, upstream, flags):
        super().__init__(folder, upstream, ["--name", name, "--insecure-listen", *flags], ns=star.ns(name),
                         host=star.host(name))
        self.name, self.node, self.paused = name, name, False
        self.port, self.admin_port = PORT, PORT + 1  # nobody else is there
        self.listen = [f"http://{self.host}:{self.port}"]
        os.makedirs(self.cache)
        self.ballast = os.path.join(self.cache, "ballast")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={CACHE_BYTES},mode=0700", "tmpfs", self.cache], check=True)

    def numbers(self):
        """Of every thread: one that is kept from running does not answer in time, and is asked again."""
        def whole():
            now = super(Tier, self).numbers()
            return now if now["upstream"]["answered"] and all(w["answered"] for w in now["workers"]) else None
        return procs.wait_until(whole, 60, 0.2, f"{self.name} tells all its numbers")

    def pause(self):
        super().pause()
        self.paused = True

    def cont(self):
        super().cont()
        self.paused = False

    def fill_disk(self):
        """Not a byte is left."""
        with open(self.ballast, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 20))
            except OSError:
                pass

    def free_disk(self):
        os.unlink(self.ballast)

    def crash(self):
        """What a sanitizer or an assertion has said, or how it ended by itself; "" when all is well."""
        said = [line for line in self.log().splitlines() if "Sanitizer" in line or "Assertion" in line]
        if self.proc is not None and self.proc.poll() not in (None, 0, -9, -15):
            said.append(f"exit status {self.proc.returncode}")
        return "; ".join(said[:3])

    def close(self):
        if self.is_running():
            self.kill()
        subprocess.run(["umount", "-l", self.cache], check=False)


class Tree:
    def __init__(self, folder, levels, flags, steady=False):
        """levels: how many tiers there are, 1 to 3. steady: one more below them, which lives as long as the tree."""
        self.tiers, self.steady = [], None
        self.star = Star()
        try:
            os.makedirs(folder / "etcd")
            self.cluster = Cluster(folder / "etcd", 3, net=self.star).start()
            upstream = self.cluster.endpoints
            for level in range(1, levels + 1):
                self.tiers.append(self._tier(f"t{level}", folder, upstream, flags))
                upstream = self.tiers[-1].url
            if steady:
                self.steady = self._tier("s", folder, upstream, flags)
        except BaseException:
            self.close()
            raise

    def _tier(self, name, folder, upstream, flags):
        os.makedirs(folder / name)
        return Tier(name, folder / name, self.star, upstream, flags).start()

    @property
    def all(self):
        return self.tiers + ([self.steady] if self.steady else [])

    def tier(self, name):
        return next(t for t in self.tiers if t.name == name)

    def nodes_above(self, name):
        """Those that a tier, or the clients, get things from."""
        if name == "t1":
            return [f"m{i}" for i in range(3)]
        return [t.name for t in self.tiers] if name == "c" else [f"t{int(name[1]) - 1}"]

    def member_in_use(self):
        """The member that t1 follows."""
        def member():
            endpoint = self.tiers[0].numbers()["upstream"]["endpoint"]
            return next((m for m in self.cluster.members if m.url == endpoint), None)
        return procs.wait_until(member, 60, 0.1, "t1 follows a member")

    def close(self):
        for tier in self.all:
            tier.close()
        if hasattr(self, "cluster"):
            self.cluster.close()
        procs.kill_all()
        self.star.close()
