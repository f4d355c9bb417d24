"""A tier whose replica was damaged while it was down: it starts, and neither a list nor a watch gives a wrong value or lacks one.

The damage is what tests/stress/ingestkill.c does, here under a real belfryd with etcd above it. Of each case the master is
the same replica, left by SIGTERM or by SIGKILL in turn."""
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import threading

import kube
import procs
from patience import Patience

pytest_plugins = ["kube_fixtures"]

OBJECTS = 250
PAGE = 4096
DEATHS = 2  # in a row that are allowed


def damage(path, rng):
    """Says what it did."""
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        pages = len(data) // PAGE
        kind = rng.choice(["truncated", "one bit", "one bit of a page's head", "many bits", "a page over another"])
        if kind == "truncated":
            f.truncate(rng.randrange(len(data)))
            return kind
        if kind == "a page over another":
            a, b = rng.randrange(pages) * PAGE, rng.randrange(pages) * PAGE
            data[a:a + PAGE] = data[b:b + PAGE]
        elif kind == "one bit of a page's head":
            data[rng.randrange(pages) * PAGE + rng.randrange(64)] ^= 1 << rng.randrange(8)
        else:
            for _ in range(1 if kind == "one bit" else rng.randrange(2, 200)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        f.seek(0)
        f.write(data)
        return kind


def data_file(cache):
    found = [os.path.join(cache, name, "data.mdb") for name in os.listdir(cache) if name.startswith("data-")]
    assert len(found) == 1, found
    return found[0]


class Unwell(Exception):
    """No answer, or not all of it."""


def watch_all(endpoint, first, last, expected=None, timeout=30):
    """Every event from `first` to `last`, with what was before it, as etcdctl prints them. With `expected` each is compared when
    it comes."""
    proc = procs.spawn(["etcdctl", "--endpoints", endpoint, "watch", "--prefix", "", "--prev-kv", "--rev", str(first), "-w",
                        "json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    timer = threading.Timer(timeout, proc.kill)
    timer.start()
    events = []
    try:
        for line in proc.stdout:
            answer = json.loads(line)
            if answer.get("Canceled"):
                raise Unwell(answer)
            events += answer.get("Events") or []
            if expected is not None:
                assert events == expected[:len(events)], "the watch gave something else"
            if events and events[-1]["kv"]["mod_revision"] >= last:
                return events
    finally:
        timer.cancel()
        procs.end(proc)
    raise Unwell(f"etcdctl ended after {len(events)} events")


def start_until_it_lives(tier):
    """How often it died before it was ready."""
    for deaths in range(DEATHS + 1):
        tier.start(wait=False)
        patience = Patience(30)
        while tier.is_running() and tier.get("/readyz")[0] != 200:
            assert not patience.is_over(), tier.log()[-2000:]
        if tier.is_running():
            return deaths
        assert tier.proc.returncode in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT), tier.log()[-2000:]
    raise AssertionError(f"it dies again and again: {tier.log()[-3000:]}")


class Bed:
    """A tier with a replica of its own, and what etcd says."""

    def __init__(self, server, masters):
        self.server, self.tier, self.masters = server, server.tier, masters
        self.first = self.fill()
        self.last = server.store.revision
        server.wait_for(self.last)
        self.body = server.list().body
        assert len(server.list().items) == OBJECTS
        self.etcd = server.cluster.members[0].endpoint
        self.events = watch_all(self.etcd, self.first, self.last)
        assert watch_all(self.tier.endpoint, self.first, self.last) == self.events
        self.tier.kill()
        self.keep("killed")
        self.tier.start()
        assert self.tier.numbers()["upstream"]["follower"]["listings"] == 0, "a kill is followed by a warm start"
        assert self.tier.stop() == 0
        self.keep("ended")

    def fill(self):
        """The tier sees all of it come, so that its replica has history."""
        first = None
        for i in range(OBJECTS):
            rev = self.server.put(kube.pod("ns", f"pod-{i:03}", text="x" * (i * 37 % 900)))
            first = first or rev
        for i in range(0, OBJECTS, 3):
            self.server.put(kube.pod("ns", f"pod-{i:03}", text="y" * (i * 61 % 900)))
        return first

    def keep(self, name):
        shutil.copytree(self.tier.cache, self.masters / name)

    def run_case(self, name, rng):
        shutil.rmtree(self.tier.cache)
        shutil.copytree(self.masters / name, self.tier.cache)
        kind = damage(data_file(self.tier.cache), rng)
        deaths = start_until_it_lives(self.tier) + self.compare(kind)
        assert deaths <= DEATHS, f"{kind}: {deaths} deaths"
        self.tier.stop()
        return deaths

    def look(self):
        """Everything, twice. Whatever is given must be right; there may be none."""
        for _ in range(2):
            try:
                answer = self.server.list()
            except (OSError, http.client.HTTPException) as e:
                raise Unwell(e) from e
            if answer.code != 200:
                raise Unwell(answer.body)
            assert answer.body == self.body, "the list is another"
            watch_all(self.tier.endpoint, self.first, self.last, self.events)

    def compare(self, kind):
        """Until all of it was read: the tier may find damage only now, or die of it."""
        deaths = 0
        for _ in range(DEATHS + 2):
            try:
                self.look()
                return deaths
            except Unwell as e:
                why = e
            if not self.tier.is_running():
                deaths += 1 + start_until_it_lives(self.tier)
                continue
            assert self.tier.numbers()["replica"]["damages"] > 0, f"{kind}: {why}, and no damage was found"
            self.tier.wait_ready()
        raise AssertionError(f"{kind}: it does not get well: {why}: {self.tier.log()[-3000:]}")


def drop_lmdbs_last_words(path):
    """LMDB's assertions are deaths that were counted; any other line of that kind is for the fixture to find."""
    with open(path, "rb") as f:
        lines = f.readlines()
    with open(path, "wb") as f:
        f.writelines(line for line in lines if not line.startswith(b"mdb.c:"))


def test_damaged_replica_gives_nothing_wrong_and_no_crash_loop(make_kube, tmp_path, soak, seed, figure):
    cases = 1000 if soak else 12
    bed = Bed(make_kube(flags=["--drain", "0s"]), tmp_path)
    rng = random.Random(seed)
    deaths = sum(bed.run_case("ended" if i % 2 == 0 else "killed", rng) for i in range(cases))
    figure("damage.cases", cases)
    figure("damage.deaths", deaths)
    figure("damage.discarded", bed.tier.log().count("event=replica_discarded"))
    figure("damage.found_while_serving", bed.tier.log().count("event=replica_damaged"))
    drop_lmdbs_last_words(bed.tier.log_path)
