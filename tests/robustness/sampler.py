"""Where everybody is, twice a second, in threads beside the faults: the head of etcd and each tier's place. A node that does
not answer has no place."""
import json
import threading
import time
import urllib.request

import growth
import netns

ANSWER_S = 1.5


class Sampler:
    def __init__(self, tree, began, every_s):
        self.tree, self.began, self.every_s = tree, began, every_s
        self.seen = {"etcd": [], **{t.name: [] for t in tree.all}}  # (seconds, revision or None)
        self.most = {t.name: {} for t in tree.all}                  # the largest of what goes up and down
        self.sizes = {t.name: [] for t in tree.all}                 # (seconds, bytes of memory, of the replica's file)
        self._over = threading.Event()
        jobs = [(self._head, "etcd")] + [(lambda t=t: self._place(t), t.name) for t in tree.all]
        self._threads = [threading.Thread(target=self._run, args=job, daemon=True) for job in jobs]
        self._threads.append(threading.Thread(target=self._weigh, daemon=True))
        for thread in self._threads:
            thread.start()

    def _run(self, what, name):
        while not self._over.wait(self.every_s):
            at = time.monotonic() - self.began
            try:
                rev = what()
            except (OSError, ValueError, KeyError, AssertionError):
                rev = None
            self.seen[name].append((at, rev))

    def _weigh(self):
        while not self._over.wait(growth.EVERY_S):
            for tier in self.tree.all:
                now = growth.sizes(tier)
                if now:
                    self.sizes[tier.name].append((time.monotonic() - self.began, *now))

    def _head(self):
        heads = []
        for m in self.tree.cluster.members:
            if not m.is_running() or m.stopped:
                continue
            try:
                ask = urllib.request.Request(f"{m.url}/v3/maintenance/status", data=b"{}")
                with netns.inside(self.tree.cluster.ns), urllib.request.urlopen(ask, timeout=ANSWER_S) as answer:
                    heads.append(int(json.load(answer)["header"]["revision"]))
            except OSError:
                pass
        return max(heads, default=None)

    def _place(self, tier):
        if not tier.is_running() or tier.paused:
            return None
        status, body = tier.get("/debug/numbers", timeout=ANSWER_S)
        if status != 200:
            return None
        numbers = json.loads(body)
        most = self.most[tier.name]
        for name, now in (("parked", sum(w["core"]["parked"] for w in numbers["workers"] if w["answered"])),
                          ("backfills", numbers["upstream"]["backfills"])):
            most[name] = max(most.get(name, 0), now)
        return numbers["upstream"]["revision"]

    def stop(self):
        self._over.set()
        for thread in self._threads:
            thread.join(10)
