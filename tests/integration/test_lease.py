"""A kept lease against real members: what is held is held, and what may be lost is told in time."""
import os
import queue
import signal
import subprocess
import threading
import time

import pytest

import procs
from client import binary
from patience import Patience


class Holder:
    """tests/programs/leaseholder, its lines read by a thread with the time at which they came."""

    def __init__(self, endpoints, ttl, *options, ns=None):
        self.proc = procs.spawn([binary("tests", "leaseholder"), endpoints, ttl, *options], ns=ns,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self._queue = [], queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self._queue.put(line.decode().rstrip("\n").split(" ", 2))
        self._queue.put(None)

    def next(self, kind, timeout):
        """The next line of a kind, as (seconds of the clock, rest); others are passed over and kept in .lines."""
        patience = Patience(timeout)
        while True:
            try:
                line = self._queue.get(timeout=patience.left() or 0.01)
            except queue.Empty:
                assert not patience.is_over(), f"no {kind} within {timeout} s: {self.lines[-5:]}"
                continue
            assert line is not None, f"leaseholder ended without {kind}: {self.lines[-5:]} {self.proc.stderr.read()}"
            self.lines.append(line)
            if line[1] == kind:
                return int(line[0]) / 1000, line[2]

    def kinds(self):
        return [line[1] for line in self.lines]

    def held(self):
        """Waits until it is held; the id as etcdctl writes it, and the ttl."""
        _, rest = self.next("held", 15)
        lease, ttl = rest.split()
        return lease, int(ttl)

    def say(self, command):
        self.proc.stdin.write(command.encode() + b"\n")
        self.proc.stdin.flush()

    def left_ms(self):
        self.say("left")
        return int(self.next("left", 5)[1])

    def stop(self):
        os.kill(self.proc.pid, signal.SIGSTOP)

    def cont(self):
        os.kill(self.proc.pid, signal.SIGCONT)

    def wait(self, timeout=15):
        assert self.proc.wait(timeout) == 0, self.proc.stderr.read()


def endpoints(cluster):
    return ",".join(m.url for m in cluster.members)


def is_there(cluster, lease, member=None):
    """None: nobody could say."""
    done = cluster.ctl("lease", "timetolive", lease, member=member, check=False)
    return None if done.returncode != 0 else b"already expired" not in done.stdout


def attach(cluster, lease, key="/leased"):
    cluster.put(key, "v", "--lease", lease)


def test_lease_is_kept_beyond_its_ttl(cluster):
    holder = Holder(endpoints(cluster), 2)
    lease, ttl = holder.held()
    attach(cluster, lease)
    assert ttl == 2
    end = time.monotonic() + 3 * ttl
    while time.monotonic() < end:
        holder.next("renewed", ttl)
        assert 0 < holder.left_ms() <= ttl * 1000
    assert is_there(cluster, lease) and "late" not in holder.kinds()
    holder.say("revoke")
    holder.wait()
    assert not is_there(cluster, lease) and cluster.state("/leased") == {}


def test_lease_that_is_left_expires_by_itself(cluster):
    holder = Holder(endpoints(cluster), 2)
    lease, _ = holder.held()
    holder.say("leave")
    holder.wait()
    assert is_there(cluster, lease)
    procs.wait_until(lambda: not is_there(cluster, lease), 10, message="expired")


def test_server_may_grant_more_than_was_asked_for(make_cluster):
    cluster = make_cluster(flags=["--heartbeat-interval", "100", "--election-timeout", "1000"])  # etcd's own
    holder = Holder(endpoints(cluster), 1)
    _, ttl = holder.held()
    assert ttl >= 2  # etcd's least is made of its election timeout
    holder.next("renewed", ttl)
    assert holder.left_ms() > 1000


def test_lease_revoked_by_another_ends_with_not_found(cluster):
    holder = Holder(endpoints(cluster), 3)
    lease, ttl = holder.held()
    cluster.ctl("lease", "revoke", lease)
    _, why = holder.next("end", ttl)
    assert why.startswith("BELFRY_ERR_NOT_FOUND ")
    holder.wait()


@pytest.mark.parametrize("victim", ["leader", "follower", "each in turn"])
def test_lease_lives_through_the_loss_of_a_member(make_cluster, victim):
    cluster = make_cluster(3)
    holder = Holder(endpoints(cluster), 10)
    lease, ttl = holder.held()
    attach(cluster, lease)
    if victim == "each in turn":
        victims = cluster.members
    else:
        leader = cluster.leader()
        victims = [leader] if victim == "leader" else [m for m in cluster.members if m is not leader][:1]
    for member in victims:
        member.kill()
        for _ in range(2):
            holder.next("renewed", ttl)
        member.restart()
    survivor = next(m for m in cluster.members if m.is_running())
    assert is_there(cluster, lease, survivor) and b"/leased" in cluster.state("/leased")
    assert "end" not in holder.kinds()


def test_lease_lives_through_a_stop_of_all_members_that_is_shorter_than_its_ttl(make_cluster):
    cluster = make_cluster(3)
    holder = Holder(endpoints(cluster), 12)
    lease, ttl = holder.held()
    attach(cluster, lease)
    holder.next("renewed", ttl)
    for member in cluster.members:
        member.stop()
    time.sleep(ttl / 2)
    for member in cluster.members:
        member.cont()
    for _ in range(2):
        holder.next("renewed", ttl)
    assert "late" in holder.kinds() and "end" not in holder.kinds()
    assert is_there(cluster, lease) and b"/leased" in cluster.state("/leased")


class Deletion:
    """When etcd itself let a key go, as `etcdctl watch` hears it on a member's own side of a partition."""

    def __init__(self, member, key):
        self.at, self.ready = None, threading.Event()
        self.proc = procs.spawn(["etcdctl", "--endpoints", member.endpoint, "watch", "--rev", "1", key], ns=member.ns,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.ready.set()
            if line == b"DELETE\n":
                self.at = time.monotonic()
                return


def test_partition_longer_than_the_ttl_is_told_before_etcd_lets_the_lease_go(make_cluster, make_net, figure):
    net = make_net(3)
    cluster = make_cluster(3, net=net)
    holder = Holder(endpoints(cluster), 6, ns=net.hub)
    lease, ttl = holder.held()
    attach(cluster, lease)
    deletion = Deletion(cluster.members[0], "/leased")
    assert deletion.ready.wait(10)
    holder.next("renewed", ttl)
    cut_at = time.monotonic()
    for i in range(3):  # the members go on among themselves
        net.cut(i, "c")
    ended, why = holder.next("end", ttl + 1)
    assert why.startswith("BELFRY_ERR_TIMEOUT ") and "late" in holder.kinds()
    assert ended - cut_at < ttl, "it was renewed before the cut"
    holder.wait()
    procs.wait_until(lambda: deletion.at is not None, 15, message="etcd lets it go")
    assert ended < deletion.at, "told as lost only after it was gone"
    figure("lease.told_before_etcd_lets_go", deletion.at - ended, "s")


def test_process_that_was_stopped_longer_than_the_ttl_knows_it(cluster):
    holder = Holder(endpoints(cluster), 3)
    lease, ttl = holder.held()
    holder.next("renewed", ttl)
    holder.stop()
    procs.wait_until(lambda: is_there(cluster, lease) is False, 15, message="expired")
    seen = len(holder.lines)
    holder.cont()
    _, why = holder.next("end", 2)
    news = [line for line in holder.lines[seen:] if line[1] != "renewed" or int(line[2].split()[1]) > 0]
    assert [line[1] for line in news] == ["end"], "nothing is said to be held after a stop"
    assert why.split()[0] in ("BELFRY_ERR_TIMEOUT", "BELFRY_ERR_NOT_FOUND")
    holder.wait()


def test_process_that_was_stopped_shortly_keeps_it(cluster):
    holder = Holder(endpoints(cluster), 6)
    lease, ttl = holder.held()
    holder.next("renewed", ttl)
    holder.stop()
    time.sleep(ttl / 2)
    holder.cont()
    holder.next("renewed", 2)
    assert is_there(cluster, lease) and "end" not in holder.kinds()


def test_lease_cannot_be_had_without_a_server(cluster):
    cluster.members[0].kill()
    holder = Holder(endpoints(cluster), 5, "command-timeout=1s")
    _, why = holder.next("end", 5)
    assert why.startswith("BELFRY_ERR_UNAVAILABLE ")
    holder.wait()


def test_lease_is_kept_through_belfryd(cluster, make_tier):
    tier = make_tier(cluster)
    holder = Holder(tier.url, 2)
    lease, ttl = holder.held()
    for _ in range(5):
        holder.next("renewed", ttl)
    assert is_there(cluster, lease)
    holder.say("revoke")
    holder.wait()
    assert not is_there(cluster, lease)
