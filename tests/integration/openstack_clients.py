"""A program for test_openstack.py: OpenStack's clients of etcd's JSON gateway, etcd3gw and tooz, in what services use them for.

    openstack_clients.py PORT TEST     runs one of the functions below against 127.0.0.1:PORT; exit 0: all is as it should be

It imports nothing of the tests, because it also runs in a root of another Debian (tools/gateway-clients)."""
import base64
import inspect
import queue
import sys
import threading
import time

import etcd3gw
from etcd3gw import exceptions

WAIT_S = 60  # for what comes soon; a busy machine is no failure


# Newer ones ask for the server's version and know the path by it; bookworm's have to be told.
IS_OLD = inspect.signature(etcd3gw.Etcd3Client).parameters["api_path"].default is not None


def client(port):
    return etcd3gw.Etcd3Client(host="127.0.0.1", port=port, timeout=WAIT_S, **({"api_path": "/v3/"} if IS_OLD else {}))


def b64(raw):
    return base64.b64encode(raw).decode()


# ---- etcd3gw

def keys(port):
    c = client(port)
    assert c.get("none") == [] and c.put("a/1", "one") and c.put("a/2", b"\0\xff")
    assert c.get("a/1") == [b"one"] and c.get("a/2") == [b"\0\xff"]
    assert [(v, m["key"]) for v, m in c.get_prefix("a/", sort_order="descend", sort_target="key")] == [(b"\0\xff", b"a/2"), (b"one", b"a/1")]
    assert c.create("a/3", "x") and not c.create("a/3", "y") and c.replace("a/3", "x", "z") and not c.replace("a/3", "x", "q")
    assert c.get("a/3") == [b"z"]
    assert c.delete("a/3") and not c.delete("a/3") and c.delete_prefix("a/") and c.get_prefix("a/") == []
    assert "version" in c.status() and c.members()[0]["clientURLs"] == [f"http://127.0.0.1:{port}"]
    try:
        c.put("", "no key")
        raise AssertionError("a put without a key went through")
    except exceptions.Etcd3Exception as e:
        assert "key is not provided" in e.detail_text, e.detail_text


def leases(port):
    c = client(port)
    lease = c.lease(ttl=600)
    c.put("leased", "v", lease=lease)
    assert 0 < lease.ttl() <= 600 and lease.refresh() == 600 and lease.keys() == [b"leased"]
    assert lease.revoke() and c.get("leased") == []
    assert lease.refresh() == -1  # it has no TTL field


def locks(port):
    c, d = client(port), client(port)
    mine, other = c.lock("l", ttl=60), d.lock("l", ttl=60)
    assert mine.acquire() and mine.is_acquired() and not other.acquire() and not other.is_acquired()
    assert mine.refresh() == 60
    assert mine.release() and not mine.release() and other.acquire() and other.release()
    with c.lock("l") as held:
        assert held.is_acquired()


def watches(port):
    """Many events in short order, and those of the past."""
    c = client(port)
    events, cancel = c.watch_prefix("w/")
    got = queue.Queue()
    threading.Thread(target=lambda: [got.put(e) for e in events], daemon=True).start()
    values = [b"%d" % i for i in range(300)]
    for i, value in enumerate(values):
        c.put("w/%d" % i, value)
    c.delete("w/0")
    for i, value in enumerate(values):
        kv = got.get(timeout=WAIT_S)["kv"]
        assert (kv["key"], kv["value"]) == (b"w/%d" % i, value), kv
    assert got.get(timeout=WAIT_S)["type"] == "DELETE"
    cancel()
    begin = int(c.get("w/1", metadata=True)[0][1]["mod_revision"])
    events, cancel = c.watch_prefix("w/", start_revision=begin)
    assert next(events)["kv"]["key"] == b"w/1" and next(events)["kv"]["key"] == b"w/2"
    cancel()
    threading.Timer(0.2, lambda: client(port).put("once", "now")).start()
    assert c.watch_once("once", timeout=WAIT_S)["kv"]["value"] == b"now"
    try:
        c.watch_once("never", timeout=0.1)
        raise AssertionError("an event of a key that nobody wrote")
    except exceptions.WatchTimedOut:
        pass


def large_watches(port):
    """etcd3gw takes every chunk of HTTP for a line. A tier sends a line as one chunk; etcd sends the end of one that is longer than 2 KiB as a
    second, after which the watch is silent."""
    c = client(port)
    events, cancel = c.watch("large")
    for i in range(1, 60):
        c.put("large", b"%d" % (i % 10) * 200 * i)
    for i in range(1, 60):
        assert next(events)["kv"]["value"] == b"%d" % (i % 10) * 200 * i
    cancel()


def leaders(port):
    """etcd's elections: the second is elected when the first has resigned."""
    c = client(port)
    ask = lambda path, body: c.post(c.get_url(f"/election/{path}"), json=body)
    name, elected = b64(b"boss"), queue.Queue()
    first = ask("campaign", {"name": name, "lease": c.lease(60).id, "value": b64(b"first")})["leader"]
    d, lease = client(port), c.lease(60).id
    second = {"name": name, "lease": lease, "value": b64(b"second")}
    threading.Thread(target=lambda: elected.put(d.post(d.get_url("/election/campaign"), json=second)), daemon=True).start()
    assert ask("leader", {"name": name})["kv"]["value"] == b64(b"first")
    ask("proclaim", {"leader": first, "value": b64(b"still first")})
    assert ask("leader", {"name": name})["kv"]["value"] == b64(b"still first") and elected.empty()
    ask("resign", {"leader": first})
    assert elected.get(timeout=WAIT_S)["leader"]["lease"] == str(lease)
    assert ask("leader", {"name": name})["kv"]["value"] == b64(b"second")


# ---- tooz

def coordinator(port, name, options="timeout=60", has_heart=True):
    from tooz import coordination
    if "api_path" not in inspect.signature(etcd3gw.client).parameters:
        etcd3gw.client = etcd3gw.Etcd3Client  # bookworm's tooz asks for an argument that bookworm's etcd3gw.client() has not
    c = coordination.get_coordinator(f"etcd3+http://127.0.0.1:{port}?{'api_version=v3&' if IS_OLD else ''}{options}", name)
    c.start(start_heart=has_heart)
    return c


def tooz_locks(port):
    a, b = coordinator(port, b"a"), coordinator(port, b"b")
    mine, other = a.get_lock(b"l"), b.get_lock(b"l")
    assert mine.acquire() and mine.acquired and not other.acquire(blocking=False)
    assert mine.heartbeat() and not other.heartbeat()
    threading.Timer(0.3, mine.release).start()
    assert other.acquire(blocking=WAIT_S) and not mine.acquired
    assert other.release() and not other.release()
    with a.get_lock(b"l"):
        assert not other.acquire(blocking=False)
    a.stop(), b.stop()


def tooz_groups(port):
    from tooz import coordination
    a, b = coordinator(port, b"a"), coordinator(port, b"b")
    a.create_group(b"g").get(WAIT_S)
    try:
        b.create_group(b"g").get(WAIT_S)
        raise AssertionError("a group was made twice")
    except coordination.GroupAlreadyExist:
        pass
    a.join_group(b"g", b"can").get(WAIT_S)
    b.join_group(b"g").get(WAIT_S)
    assert set(b.get_members(b"g").get(WAIT_S)) == {b"a", b"b"} and b"g" in a.get_groups().get(WAIT_S)
    assert b.get_member_capabilities(b"g", b"a").get(WAIT_S) == b"can"
    b.update_capabilities(b"g", b"more").get(WAIT_S)
    assert a.get_member_capabilities(b"g", b"b").get(WAIT_S) == b"more"
    assert a.heartbeat() > 0
    b.leave_group(b"g").get(WAIT_S)
    assert set(a.get_members(b"g").get(WAIT_S)) == {b"a"}
    a.leave_group(b"g").get(WAIT_S)
    a.delete_group(b"g").get(WAIT_S)
    a.stop(), b.stop()


def tooz_member_dies(port):
    """A member that does not tell leaves with its lease."""
    a = coordinator(port, b"a")
    a.create_group(b"dying").get(WAIT_S)
    b = coordinator(port, b"b", "membership_timeout=1", has_heart=False)
    b.join_group(b"dying").get(WAIT_S)
    assert set(a.get_members(b"dying").get(WAIT_S)) == {b"b"}
    until = time.monotonic() + WAIT_S
    while a.get_members(b"dying").get(WAIT_S):
        assert time.monotonic() < until, "it is still a member"
        time.sleep(0.1)
    a.stop()


TESTS = {f.__name__: f for f in (keys, leases, locks, watches, large_watches, leaders, tooz_locks, tooz_groups, tooz_member_dies)}

if __name__ == "__main__":
    TESTS[sys.argv[2]](int(sys.argv[1]))
