"""The lock and the election of examples/, among themselves and with etcdctl's: never two at once, in the order they came."""
import os
import signal
import subprocess
import threading
import time

import pytest

import history
import procs
from client import binary

CRITICAL = """
echo "+ $1 $ETCD_LOCK_KEY" >> "$2"; sleep "$3"; echo "- $1 $ETCD_LOCK_KEY" >> "$2"
"""


def endpoints(cluster):
    return ",".join(m.url for m in cluster.members)


def lock_argv(cluster, whose, ttl, name):
    if whose == "ours":
        return [binary("examples", "lock"), "-e", endpoints(cluster), "-t", str(ttl), name]
    return ["etcdctl", "--endpoints", ",".join(m.endpoint for m in cluster.members), "lock", "--ttl", str(ttl),
            "--", name]


def elect_argv(cluster, whose, name, *proposal):
    if whose == "ours":
        return [binary("examples", "elect"), "-e", endpoints(cluster), "-t", "5",
                *(["-l", name] if not proposal else [name, *proposal])]
    return ["etcdctl", "--endpoints", ",".join(m.endpoint for m in cluster.members), "elect",
            *(["-l", name] if not proposal else [name, *proposal])]


class Lines:
    """A process whose lines on stdout are read as they come."""

    def __init__(self, argv, ns=None):
        self.lines = []
        self.proc = procs.spawn(argv, ns=ns, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.proc.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def wait_lines(self, n, timeout=15):
        procs.wait_until(lambda: len(self.lines) >= n, timeout, message=lambda: f"{n} lines: {self.lines}")
        return self.lines

    def end(self, sig=signal.SIGINT, timeout=15):
        os.kill(self.proc.pid, sig)
        code = self.proc.wait(timeout)
        self._reader.join(5)
        return code


def queue(cluster, name):
    """(create revision, key) of those who stand in a queue, the first first."""
    return sorted((rev, key) for key, (_, rev) in cluster.state(name + "/").items())


def wait_queue(cluster, name, n, timeout=15):
    procs.wait_until(lambda: len(queue(cluster, name)) == n, timeout,
                     message=lambda: f"{n} in the queue: {queue(cluster, name)}")
    return queue(cluster, name)


def check_exclusion(cluster, path, n):
    """Each + is followed by its own -, in the order in which the keys were created. Returns who held, in order."""
    lines = path.read_text().splitlines()
    assert len(lines) == 2 * n, lines
    held = []
    for plus, minus in zip(lines[::2], lines[1::2]):
        assert plus[0] == "+" and minus == "-" + plus[1:], f"two at once: {plus} {minus}"
        held.append(plus.split()[1:])
    happened = history.read(cluster, cluster.revision())
    created = {happened.raw[e.key].decode(): e.create for e in happened.events if e.op == "P"}
    revs = [created[key] for _, key in held]
    assert revs == sorted(revs), f"not in the order they came: {held}"
    return [who for who, _ in held]


@pytest.mark.parametrize("holder,waiter", [("ours", "ours"), ("ours", "etcdctl"), ("etcdctl", "ours")])
def test_who_holds_the_lock_keeps_out_the_other(cluster, holder, waiter):
    first = Lines(lock_argv(cluster, holder, 5, "l"))
    key = first.wait_lines(1)[0]
    assert key.startswith("l/") and [k.decode() for _, k in queue(cluster, "l")] == [key]
    second = Lines(lock_argv(cluster, waiter, 5, "l"))
    standing = wait_queue(cluster, "l", 2)
    time.sleep(1)
    assert second.lines == []
    first.end()
    assert second.wait_lines(1)[0] == standing[1][1].decode()
    second.end()
    wait_queue(cluster, "l", 0)


def test_ctrl_c_gives_the_lock_back_at_once(cluster):
    lock = Lines(lock_argv(cluster, "ours", 60, "l"))
    lock.wait_lines(1)
    assert lock.end(signal.SIGINT) == 130
    assert queue(cluster, "l") == [] and b"found 0 leases" in cluster.ctl("lease", "list").stdout


def test_one_who_waits_may_give_up(cluster):
    first = Lines(lock_argv(cluster, "ours", 5, "l"))
    first.wait_lines(1)
    second, third = (Lines(lock_argv(cluster, "ours", 5, "l")) for _ in range(2))
    wait_queue(cluster, "l", 3)
    assert second.end(signal.SIGTERM) == 143
    wait_queue(cluster, "l", 2)
    time.sleep(0.5)
    assert third.lines == [], "who waited for one that left must go on waiting for the holder"
    first.end()
    third.wait_lines(1)


@pytest.mark.parametrize("command,code", [(["true"], 0), (["false"], 1), (["sh", "-c", "exit 7"], 7),
                                          (["sh", "-c", "kill -9 $$"], 137), (["/no/such/command"], 127)])
def test_exit_code_is_the_commands(cluster, command, code):
    done = procs.run([*lock_argv(cluster, "ours", 5, "l"), *command], check=False)
    assert done.returncode == code
    assert queue(cluster, "l") == []


def test_command_is_told_its_key_as_etcdctl_tells_it(cluster):
    script = ["sh", "-c", "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV"]
    for whose in ("ours", "etcdctl"):
        before = cluster.revision()
        key, rev = procs.run([*lock_argv(cluster, whose, 5, "l"), *script]).stdout.decode().split()
        assert key.startswith("l/") and int(rev) == before + 1


def test_ctrl_c_is_the_commands_to_end_and_the_lock_is_held_until_then(cluster, tmp_path):
    out, go = tmp_path / "out", tmp_path / "go"
    script = f"trap 'echo caught >> {out}; until [ -e {go} ]; do sleep 0.05; done; echo done >> {out}; exit 3' INT; " \
             f"echo ready >> {out}; while :; do sleep 0.1; done"
    lock = Lines([*lock_argv(cluster, "ours", 5, "l"), "bash", "-c", script])
    procs.wait_until(lambda: out.exists(), 10, message="the command runs")
    lock.proc.send_signal(signal.SIGINT)
    procs.wait_until(lambda: "caught" in out.read_text(), 5, message="the command hears of it")
    assert len(queue(cluster, "l")) == 1
    go.touch()
    assert lock.proc.wait(10) == 3
    assert out.read_text().split() == ["ready", "caught", "done"] and queue(cluster, "l") == []


def test_many_contenders_are_never_two_at_once_and_come_in_order(make_cluster, tmp_path, figure, soak):
    cluster = make_cluster(3)
    path, n = tmp_path / "critical", 40 if soak else 16
    path.touch()
    running = []
    for i in range(n):
        argv = lock_argv(cluster, "etcdctl" if i % 4 == 3 else "ours", 20, "busy")
        running.append(procs.spawn([*argv, "sh", "-c", CRITICAL, "-", str(i), str(path), "0.05"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    begun = time.monotonic()
    for proc in running:
        assert proc.wait(120) == 0, proc.stderr.read()
    figure("recipes.lock_handover", (time.monotonic() - begun) * 1000 / n, "ms each, critical section of 50 ms included")
    assert sorted(check_exclusion(cluster, path, n), key=int) == [str(i) for i in range(n)]
    assert queue(cluster, "busy") == []


def test_holder_killed_is_replaced_when_its_time_is_over(cluster, tmp_path):
    ttl = 3
    first = Lines([*lock_argv(cluster, "ours", ttl, "l"), "sleep", "1000"])
    wait_queue(cluster, "l", 1)
    second = Lines(lock_argv(cluster, "ours", ttl, "l"))
    wait_queue(cluster, "l", 2)
    children = procs.run(["pgrep", "-P", str(first.proc.pid)]).stdout.split()
    begun = time.monotonic()
    os.kill(first.proc.pid, signal.SIGKILL)
    second.wait_lines(1, timeout=ttl + 10)
    assert time.monotonic() - begun > ttl / 2, "nobody gave it back: it is free when the lease has expired"
    assert children and not any(os.path.exists(f"/proc/{pid.decode()}/exe") for pid in children), "the command lives on"


def test_key_taken_away_is_a_lock_lost_and_the_command_is_killed(cluster, tmp_path):
    out = tmp_path / "alive"
    lock = Lines([*lock_argv(cluster, "ours", 5, "l"), "sh", "-c", f"while :; do echo . >> {out}; sleep 0.05; done"])
    procs.wait_until(lambda: out.exists(), 10, message="the command runs")
    cluster.delete("l/", "--prefix")
    assert lock.proc.wait(5) == 1
    size = out.stat().st_size
    assert b"killed" in lock.proc.stderr.read()
    time.sleep(0.5)
    assert out.stat().st_size == size, "the command goes on without the lock"


def test_partition_longer_than_the_ttl_kills_the_command_before_another_holds_the_lock(make_cluster, make_net, tmp_path):
    net = make_net(3)
    cluster = make_cluster(3, net=net)
    path, ttl = tmp_path / "critical", 4
    script = f"trap '' TERM INT; while :; do echo first >> {path}; sleep 0.02; done"
    first = Lines([*lock_argv(cluster, "ours", ttl, "l"), "sh", "-c", script], ns=net.hub)
    procs.wait_until(lambda: path.exists(), 15, message="the first runs")
    member = cluster.members[0]
    second = procs.spawn(["etcdctl", "--endpoints", member.endpoint, "lock", "--", "l", "sh", "-c",
                          f"echo second >> {path}"],
                         ns=member.ns, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_queue(cluster, "l", 2)
    for i in range(3):
        net.cut(i, "c")
    assert first.proc.wait(ttl + 5) == 1
    assert second.wait(20) == 0, second.stderr.read()
    lines = path.read_text().split()
    assert lines.count("second") == 1 and lines[-1] == "second", "two held it at once"


def test_lock_survives_the_loss_of_members(make_cluster, tmp_path):
    cluster = make_cluster(3)
    lock = Lines(lock_argv(cluster, "ours", 8, "l"))
    lock.wait_lines(1)
    waiter = Lines(lock_argv(cluster, "ours", 8, "l"))
    wait_queue(cluster, "l", 2)
    for member in cluster.members:
        member.kill()
        time.sleep(1)
        member.restart()
    assert lock.proc.poll() is None and waiter.proc.poll() is None and waiter.lines == []
    lock.end()
    waiter.wait_lines(1)


@pytest.mark.parametrize("args", [[], ["-t", "0", "name"], ["-z"]])
def test_wrong_usage_exits_2(args):
    for name in ("lock", "elect"):
        done = procs.run([binary("examples", name), *args], check=False)
        assert done.returncode == 2 and b"usage" in done.stderr


@pytest.mark.parametrize("first,second", [("ours", "ours"), ("ours", "etcdctl"), ("etcdctl", "ours")])
def test_one_leads_at_a_time_and_the_next_in_line_follows(cluster, first, second):
    listeners = [Lines(elect_argv(cluster, "ours", "e")), Lines(elect_argv(cluster, "etcdctl", "e"))]
    leader = Lines(elect_argv(cluster, first, "e", "one"))
    assert leader.wait_lines(2)[1] == "one"
    heir = Lines(elect_argv(cluster, second, "e", "two"))
    standing = wait_queue(cluster, "e", 2)
    third = Lines(elect_argv(cluster, "ours", "e", "three"))
    wait_queue(cluster, "e", 3)
    time.sleep(0.5)
    assert heir.lines == [] and third.lines == []
    for listener in listeners:
        listener.wait_lines(2)  # who leads only between two looks of a listener is not told: so with etcdctl, too
    leader.end()
    assert heir.wait_lines(2) == [standing[1][1].decode(), "two"]
    assert third.lines == []
    for listener in listeners:
        listener.wait_lines(4)
    heir.end()
    assert third.wait_lines(2)[1] == "three"
    for listener in listeners:
        listener.wait_lines(6)
        assert listener.lines[1::2] == ["one", "two", "three"], "what was listened to"
        assert listener.lines[2] == standing[1][1].decode()
    assert third.end() == 0
    wait_queue(cluster, "e", 0)


def test_leader_that_is_killed_is_succeeded(cluster):
    leader = Lines(elect_argv(cluster, "ours", "e", "one"))
    leader.wait_lines(2)
    heir = Lines(elect_argv(cluster, "ours", "e", "two"))
    wait_queue(cluster, "e", 2)
    os.kill(leader.proc.pid, signal.SIGKILL)
    assert heir.wait_lines(2, timeout=15)[1] == "two"


def test_lock_and_election_of_one_name_are_one_queue(cluster):
    lock = Lines(lock_argv(cluster, "ours", 5, "x"))
    lock.wait_lines(1)
    leader = Lines(elect_argv(cluster, "etcdctl", "x", "v"))
    wait_queue(cluster, "x", 2)
    assert leader.lines == []
    lock.end()
    leader.wait_lines(2)


def test_recipes_work_as_plain_c99(cluster, tmp_path):
    """As a user builds them with -std=c99: a function without a declaration would cut pointers in half."""
    source = os.path.join(os.path.dirname(__file__), "..", "..")
    examples = os.path.join(source, "examples")
    flags = ["-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", f"-I{source}/include", f"-I{examples}"]
    modules = procs.run(["pkg-config", "--cflags", "glib-2.0", "libuv", "libevent_core", "libsystemd"]).stdout.decode().split()
    flags += [word.replace("-I", "-isystem", 1) for word in modules]
    for folder in (examples, os.path.join(examples, "recipes")):
        for name in sorted(n for n in os.listdir(folder) if n.endswith(".c")):
            procs.run(["cc", *flags, "-fsyntax-only", os.path.join(folder, name)])
    lib = os.path.abspath(os.path.join(os.path.dirname(binary("belfryd")), "..", "lib"))
    lock = str(tmp_path / "lock")
    procs.run(["cc", *flags, "-o", lock, f"{examples}/lock.c", f"{examples}/recipes/queue.c", f"-L{lib}", "-lbelfry",
               f"-Wl,-rpath,{lib}"])
    done = procs.run([lock, "-e", endpoints(cluster), "-t", "5", "plain", "echo", "held"])
    assert done.stdout == b"held\n"
