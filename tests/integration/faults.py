"""Faults for a running cluster with a client on it. Each does its harm, lets it last, and mends it again."""
import time
from collections import Counter

import procs


class Faults:
    def __init__(self, cluster, recorder, rng, long_stop_s):
        self.cluster, self.recorder, self.rng, self.long_stop_s = cluster, recorder, rng, long_stop_s
        self.net = cluster.net
        self.counts = Counter()
        self.n_lagging_landed = 0

    def in_use(self):
        return procs.wait_until(lambda: self.recorder.member_in_use(self.cluster), 60, 0.1, "client connected")

    def do(self, kind):
        getattr(self, kind)()
        self.counts[kind] += 1

    def kill(self):
        m = self.in_use()
        m.kill()
        time.sleep(self.rng.uniform(0.2, 2))
        m.restart()

    def stop_short(self):
        m = self.in_use()
        m.stop()
        time.sleep(self.rng.uniform(2, 8))
        m.cont()

    def stop_long(self):
        """Longer than any keepalive: the client must have left it for another by then."""
        m = self.in_use()
        m.stop()
        time.sleep(self.long_stop_s)
        now = self.recorder.member_in_use(self.cluster)
        m.cont()
        assert now is not m, f"the client still holds on to {m.name}, stopped for {self.long_stop_s} s"

    def leader_loss(self):
        m = procs.wait_until(self.cluster.leader, 30, 0.2, "a leader")
        m.kill()
        time.sleep(self.rng.uniform(1, 3))
        m.restart()

    def no_leader(self):
        """The member in use stays, but the other two are gone for longer than an election."""
        m = self.in_use()
        others = [o for o in self.cluster.members if o is not m]
        for o in others:
            o.stop()
        time.sleep(self.rng.uniform(4, 7))
        for o in others:
            o.cont()

    def partition(self):
        """The member in use loses the others and keeps its client, which must not sit there in silence."""
        m = self.in_use()
        self.net.cut(m.index, "p")
        time.sleep(self.rng.uniform(5, 9))
        self.net.heal(m.index, "p")

    def black_hole(self):
        """Packets between the client and the member in use vanish; nothing is reset."""
        m = self.in_use()
        self.net.cut(m.index, "c")
        time.sleep(self.long_stop_s)
        now = self.recorder.member_in_use(self.cluster)
        self.net.heal(m.index, "c")
        assert now is not m, f"the client still holds on to {m.name}, unreachable for {self.long_stop_s} s"

    def all_killed(self):
        for m in self.cluster.members:
            m.kill()
        for m in self.cluster.members:
            m.restart(wait=False)
        for m in self.cluster.members:
            m.wait_healthy()

    def lagging(self):
        """Failover to a member that is behind what the client has, and stays so for a while.

        One follower is stopped while writes go on, then let go without a way to the other members, and is the only one
        that the client can reach after the member in use is killed."""
        used = self.in_use()
        leader = procs.wait_until(self.cluster.leader, 30, 0.2, "a leader")
        behind = next(m for m in self.cluster.members if m is not used and m is not leader)
        third = next(m for m in self.cluster.members if m is not used and m is not behind)
        behind.stop()
        time.sleep(2)
        self.net.cut(behind.index, "p")
        self.net.refuse(third.index)
        behind.cont()
        used.kill()
        limit = time.monotonic() + 4  # it forgets its leader after that, and sends its client away
        while time.monotonic() < limit:
            if self.recorder.is_connected_to(behind):
                self.n_lagging_landed += 1
                time.sleep(0.3)
                break
            time.sleep(0.02)
        self.net.heal(behind.index, "p")
        self.net.accept(third.index)
        used.restart()

    def slow_consumer(self):
        """Three watches, one of them with a small bound, are paused and resumed under load."""
        chosen = sorted({15, *self.rng.sample(range(15), 2)})
        for n in chosen:
            self.recorder.command(f"pause {n}")
        time.sleep(self.rng.uniform(4, 8))
        for n in chosen:
            self.recorder.command(f"resume {n}")

    def client_stopped(self):
        """The client itself sleeps, as on a laptop whose lid was closed."""
        self.recorder.stop()
        time.sleep(self.rng.uniform(3, 12))
        self.recorder.cont()
