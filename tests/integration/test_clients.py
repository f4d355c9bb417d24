"""Clients that others wrote, through belfryd: etcdctl 3.4, Python's etcd3, npm's etcd3. (etcdctl 3.5 is all of
test_differential.py; clientv3 with its concurrency package is goclient, in test_tier.py.)"""
import os
import subprocess
import threading
import time

import needs
import nodejs
import procs
import pytest
from pair import Pair

etcd3 = needs.module("etcd3", "python3-etcd3")

# python3-etcd3's watch thread outlives its closed channel for a moment, and complains
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

HERE = os.path.dirname(__file__)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("clients")).serve()
    yield made
    made.close()


@pytest.fixture
def cluster(pair):
    return pair.cluster


@pytest.fixture
def tier(pair):
    """Empty, for each test."""
    pair.store.delete(b"\0", b"\0")
    return pair.tier


# ---- Python

@pytest.fixture
def python(tier):
    client = etcd3.client(host=tier.host, port=tier.port, timeout=10)
    yield client
    client.close()


def test_python_etcd3_keys(python, cluster):
    python.put("/a", "1")
    assert python.get("/a")[0] == b"1"
    assert cluster.ctl("get", "/a").stdout == b"/a\n1\n", "the write is etcd's"
    python.put("/b", "2")
    assert [(m.key, v) for v, m in python.get_prefix("/")] == [(b"/a", b"1"), (b"/b", b"2")]
    assert python.replace("/a", "1", "3") and not python.replace("/a", "1", "4")
    done, answers = python.transaction(compare=[python.transactions.value("/a") == "3"],
                                       success=[python.transactions.put("/c", "5"), python.transactions.get("/b")],
                                       failure=[python.transactions.delete("/b")])
    assert done and answers[1][0][0] == b"2"
    assert python.delete("/b") and not python.delete("/b")
    python.compact(python.get("/c")[1].mod_revision)


def test_python_etcd3_watches(python):
    called = []
    enough = threading.Event()

    def note(response):
        called.extend(response.events)
        if len(called) == 3:
            enough.set()
    by_callback = python.add_watch_prefix_callback("/w/", note)
    events, stop = python.watch_prefix("/w/", prev_kv=True)
    python.put("/w/a", "1")
    python.put("/w/a", "2")
    python.delete("/w/a")
    seen = [next(events) for _ in range(3)]
    assert [type(e).__name__ for e in seen] == ["PutEvent", "PutEvent", "DeleteEvent"]
    assert [(e.key, e.value, e.prev_value) for e in seen] == [(b"/w/a", b"1", b""), (b"/w/a", b"2", b"1"),
        (b"/w/a", b"", b"2")]
    assert enough.wait(10)
    assert [(type(e).__name__, e.value) for e in called] == [("PutEvent", b"1"), ("PutEvent", b"2"),
        ("DeleteEvent", b"")]
    stop()
    python.cancel_watch(by_callback)
    assert python.get("/w/a") == (None, None), "gone, but its history is not"
    again, stop = python.watch("/w/a", start_revision=seen[0].mod_revision)
    assert [next(again).value for _ in range(3)] == [b"1", b"2", b""]
    stop()
    with pytest.raises(etcd3.exceptions.WatchTimedOut):
        python.watch_once("/w/nothing", timeout=0.3)


def test_python_etcd3_watch_of_compacted_history(python, pair):
    for i in range(5):
        python.put("/k", str(i))
    last = python.get("/k")[1].mod_revision
    python.compact(last)
    later = pair.new_tier()  # the first one still has what etcd threw away
    client = etcd3.client(host=later.host, port=later.port, timeout=10)
    events, stop = client.watch("/k", start_revision=1)
    with pytest.raises(etcd3.exceptions.RevisionCompactedError) as e:
        next(events)
    assert 1 < e.value.compacted_revision <= last
    stop()
    client.close()


def test_python_etcd3_leases_and_locks(python):
    lease = python.lease(30)
    python.put("/leased", "x", lease=lease)
    assert 0 < lease.remaining_ttl <= 30 and lease.keys == [b"/leased"]
    assert list(lease.refresh())[0].TTL == 30
    events, stop = python.watch("/leased")
    lease.revoke()
    assert isinstance(next(events), etcd3.events.DeleteEvent)
    stop()
    assert python.get("/leased")[0] is None
    # no second one waits for the lock: with Debian's tenacity this client cannot, whatever it talks to
    with python.lock("turn", ttl=10) as lock:
        assert lock.is_acquired()
        assert python.get(lock.key)[0] == lock.uuid
        lock.refresh()
    assert not lock.is_acquired()


def test_python_etcd3_cluster_and_snapshot(python, cluster, tmp_path):
    assert [m.id for m in python.members] == [cluster.members[0].id]
    status = python.status()
    assert status.version == cluster.members[0].status()["version"] and status.leader.id == cluster.members[0].id
    assert list(python.list_alarms()) == []
    python.put("/s", "1")
    with open(tmp_path / "snapshot", "wb") as f:
        python.snapshot(f)
    assert procs.run(["etcdutl", "snapshot", "status", str(tmp_path / "snapshot"), "-w", "json"]).returncode == 0
    python.defragment()
    assert python.hash() != 0


# ---- npm

@pytest.fixture(scope="module")
def node():
    return nodejs.installed()


def test_npm_etcd3(tier, node):
    env = {**os.environ, "BELFRY_NODE": node}
    done = procs.run(["node", nodejs.program("client.js"), tier.endpoint], timeout=60, env=env, check=False)
    assert done.stdout.decode().splitlines()[-1:] == ["all ok"], (done.stdout + done.stderr).decode()[-3000:]


# ---- etcdctl 3.4

@pytest.fixture(scope="module")
def old_etcdctl():
    done = subprocess.run(["bash", os.path.join(HERE, "..", "..", "tools", "old-etcd"), "etcdctl"], capture_output=True,
                          text=True, timeout=300)
    if done.returncode != 0:
        needs.missing(f"etcdctl 3.4: {done.stderr.strip()}")
    path = done.stdout.strip()
    assert b"etcdctl version: 3.4." in procs.run([path, "version"], env={**os.environ, "ETCDCTL_API": "3"}).stdout
    return path


def test_etcdctl_3_4(cluster, tier, old_etcdctl, tmp_path):
    env = {**os.environ, "ETCDCTL_API": "3"}

    def ctl(*args, **kw):
        return procs.run([old_etcdctl, "--endpoints", tier.endpoint, *args], env=env, **kw).stdout.decode()
    first = cluster.revision() + 1
    assert ctl("put", "a", "1") == "OK\n"
    assert ctl("get", "a") == "a\n1\n"
    assert ctl("del", "a") == "1\n"
    assert ctl("txn", input=b'version("a") = "0"\n\nput a 2\n\nget a\n\n') == "SUCCESS\n\nOK\n"
    watch = procs.spawn([old_etcdctl, "--endpoints", tier.endpoint, "watch", "--prev-kv", "--rev", str(first), "a"],
    env=env,
                        stdout=subprocess.PIPE)
    lines = [watch.stdout.readline() for _ in range(10)]
    assert lines == [b"PUT\n", b"a\n", b"1\n", b"DELETE\n", b"a\n", b"1\n", b"a\n", b"\n", b"PUT\n", b"a\n"], lines
    procs.end(watch)
    lease = ctl("lease", "grant", "60").split()[1]
    assert "keepalived with TTL(60)" in ctl("lease", "keep-alive", "--once", lease)
    assert "granted with TTL(60s)" in ctl("lease", "timetolive", lease)
    assert lease in ctl("lease", "list")
    assert "revoked" in ctl("lease", "revoke", lease)
    assert ctl("lock", "turn", "echo", "mine") == "mine\n"
    elect = procs.spawn([old_etcdctl, "--endpoints", tier.endpoint, "elect", "leader", "me"], env=env,
    stdout=subprocess.PIPE)
    assert elect.stdout.readline().startswith(b"leader/") and elect.stdout.readline() == b"me\n"
    procs.end(elect)
    assert "started" in ctl("member", "list")
    assert cluster.members[0].status()["version"] in ctl("endpoint", "status")
    done = procs.run([old_etcdctl, "--endpoints", tier.endpoint, "endpoint", "health"], env=env)
    assert b"is healthy" in done.stdout + done.stderr
    ctl("snapshot", "save", str(tmp_path / "snapshot"))
    assert "HASH" in procs.run(["etcdutl", "snapshot", "status", str(tmp_path / "snapshot"), "-w",
        "table"]).stdout.decode()
    ctl("user", "add", "root:secret")
    ctl("user", "grant-role", "root", "root")
    ctl("role", "add", "reader")
    ctl("role", "grant-permission", "reader", "read", "a")
    ctl("user", "add", "eve:secret")
    ctl("user", "grant-role", "eve", "reader")
    ctl("auth", "enable")
    time.sleep(1.1)  # for so long "auth is off" is believed
    assert ctl("--user", "eve:secret", "get", "a") == "a\n2\n"
    done = procs.run([old_etcdctl, "--endpoints", tier.endpoint, "--user", "eve:secret", "put", "a", "3"], env=env,
    check=False)
    assert b"permission denied" in done.stderr
    assert "Authentication Disabled" in ctl("--user", "root:secret", "auth", "disable")
