"""An etcd and a belfryd in front of it, for more than one test."""
from belfryd import Belfryd
from differential import Store
from etcd import Cluster


class Pair:
    """Processes that outlive the test in which they were started: whoever makes one closes it."""

    def __init__(self, folder, members=1, flags=()):
        self.folder, self.made, self.store = folder, [], None
        (folder / "etcd").mkdir()
        self.cluster = Cluster(folder / "etcd", members, keep=True, flags=list(flags)).start()
        self.etcd = self.cluster.members[0].endpoint

    def serve(self, *flags, metadata=(), rights=None):
        self.flags = ["--progress-interval", "1s", "--advertise", self.cluster.members[0].url, *flags]  # `members` aside
        self.rights = rights
        self.tier = self.new_tier(keep=True)
        self.store = Store(self.etcd, metadata)
        return self

    def new_tier(self, keep=False):
        folder = self.folder / f"tier{len(self.made)}"
        folder.mkdir()
        self.made.append(Belfryd(folder, self.cluster.members[0].url, self.flags, keep=keep, rights=self.rights))
        return self.made[-1].start()

    def close(self):
        if self.store:
            self.store.close()
        for tier in self.made:
            if tier.is_running():
                tier.kill()
        self.cluster.close()
