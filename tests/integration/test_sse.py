"""Server-Sent Events: what a client is told, and that what it has is always what etcd has."""
import http.client
import subprocess
import time

import pytest
import procs
from sse import Page, State, Stream, query
from test_identity import restore
from test_kube_auth import token
from test_security import READER, ROOT, enable_auth

A = ("prefix", "/a/")
PERIOD_S = 10  # of rights
PROMISED_S = PERIOD_S + 2  # in which a right that was revoked ends, on a busy machine as well


@pytest.fixture
def tier(cluster, make_tier):
    return make_tier(cluster)


def txn(cluster, *puts):
    """One revision."""
    script = "\n" + "".join(f"put {k} {v}\n" for k, v in puts) + "\n\n"
    cluster.ctl("txn", input=script.encode())
    return cluster.revision()


def kv(cluster, *prefixes):
    return {k: v for p in prefixes for k, v in etcd_state(cluster, p).items()}


def etcd_state(cluster, prefix):
    return {key: value for key, (value, _) in cluster.state(prefix).items()}


# ---- messages

def test_a_state_and_what_follows(cluster, tier):
    cluster.put("/a/1", "one")
    cluster.put("/b/1", '{"x": [1,\t2.50]}')
    cluster.put("/c/1", "not wanted")
    stream = Stream(tier.url, query(A, ("key", "/b/1"), snapshot=1, value="json"))
    assert stream.status == 200 and stream.answer.getheader("content-type") == "text/event-stream"
    assert stream.answer.getheader("cache-control") == "no-store" and stream.answer.getheader("x-accel-buffering") == "no"
    assert stream.answer.getheader("access-control-allow-origin") is None
    reset = stream.next()
    assert (reset.event, reset.id, reset.data) == ("reset", "0", {"reason": "snapshot"})
    state = [stream.next(), stream.next()]
    assert [e for m in state for e in m.data["events"]] == [
        {"op": "put", "key": "/a/1", "value_b64": "b25l"}, {"op": "put", "key": "/b/1", "value": {"x": [1, 2.5]}}]
    assert all(m.event == "state" and m.id is None for m in state)
    synced = stream.next()
    assert synced.event == "synced" and synced.data == {"rev": cluster.revision(), "n": 2}
    assert synced.id.startswith(f"{cluster.revision()}-")
    cluster.put("/c/1", "still not wanted")
    rev = txn(cluster, ("/a/2", "2"), ("/c/2", "x"), ("/b/1", "true"))
    both = stream.next()
    assert both.event == "message" and both.data == {"rev": rev, "events": [
        {"op": "put", "key": "/a/2", "value": 2}, {"op": "put", "key": "/b/1", "value": True}]}
    rev = cluster.delete("/a/1")
    assert stream.next().data == {"rev": cluster.revision(), "events": [{"op": "delete", "key": "/a/1"}]}
    stream.close()


def test_values_and_keys_that_are_no_text(cluster, tier):
    at = cluster.revision()
    cluster.ctl("put", "--", "/a/\udcff", input=b"\xfe\x00z")
    cluster.put("/a/t", "täxt\n\"")
    expected = {
        "auto": [{"key_b64": "L2Ev/w==", "value_b64": "/gB6"}, {"key": "/a/t", "value": "täxt\n\""}],
        "text": [{"key_b64": "L2Ev/w==", "value": "�\x00z"}, {"key": "/a/t", "value": "täxt\n\""}],
        "base64": [{"key_b64": "L2Ev/w==", "value_b64": "/gB6"}, {"key": "/a/t", "value_b64": "dMOkeHQKIg=="}],
        "none": [{"key_b64": "L2Ev/w=="}, {"key": "/a/t"}]}
    for value, events in expected.items():
        stream = Stream(tier.url, query(A, value=value, last_event_id=at))
        assert [m.data["events"] for m in stream.take(2)] == [[{"op": "put", **e}] for e in events]
        stream.close()


def test_a_revision_that_is_too_large_comes_in_parts(cluster, tier):
    stream = Stream(tier.url, query(A))
    assert stream.next().event == "progress"
    rev = txn(cluster, *((f"/a/{i:03}", f"{i % 10}" * 5000) for i in range(100)))
    state, parts = State(), 0
    while state.rev < rev:
        message = stream.next()
        parts += 1
        assert (message.id is None) == bool(message.data.get("more"))
        assert state.keys == {}, "a part is applied with the last"
        state.take(message)
    assert parts > 5 and state.keys == etcd_state(cluster, "/a/")
    cluster.put("/a/x", "y")
    assert stream.next().data["rev"] == rev + 1
    stream.close()


def test_a_large_state_is_one_revision(cluster, tier):
    for i in range(0, 2000, 100):
        txn(cluster, *((f"/a/{j:05}", "x" * 1000) for j in range(i, i + 100)))
    want = cluster.revision()
    stream, state = Stream(tier.url, query(A, ("prefix", "/a/01"), snapshot=1)), State()
    state.take(stream.next())
    n = 0
    while state.rev == 0:
        state.take(stream.next())
        n += 1
        if n in (3, 10):
            cluster.put(f"/a/{n}", "later")  # not in the state; comes after it
    assert state.rev == want and len(state.keys) == 2000 and n > 20
    while state.rev < want + 2:
        state.take(stream.next())
    assert state.keys == etcd_state(cluster, "/a/")
    stream.close()


def test_where_a_stream_begins(cluster, tier):
    revs = [cluster.put("/a/k", str(i)) for i in range(5)]
    now = Stream(tier.url, query(A))
    first = now.next()
    assert (first.event, first.data) == ("progress", {"rev": revs[-1]})
    tag = first.id.split("-")[1]
    for text, headers in [(query(A, last_event_id=revs[1]), {}), (query(A, snapshot=1, last_event_id=f"{revs[1]}-{tag}"), {}),
                          (query(A, snapshot=1, last_event_id=revs[3]), {"Last-Event-ID": f"{revs[1]}-{tag}"})]:
        stream = Stream(tier.url, text, headers)
        assert [m.data["rev"] for m in stream.take(3)] == revs[2:], text
        stream.close()
    zero = Stream(tier.url, query(A, snapshot=1, last_event_id=revs[1]), {"Last-Event-ID": "0"})
    assert zero.next().data == {"reason": "snapshot"}, "a client that lost its state begins anew"
    zero.close()
    now.close()


def test_the_same_over_http2(cluster, tier):
    rev = cluster.put("/a/1", "one")
    answer = subprocess.run(["curl", "-sN", "--http2-prior-knowledge", "--max-time", "2", f"{tier.url}/v1/events?{query(A, last_event_id=rev - 1)}"],
                            capture_output=True, text=True)
    assert answer.returncode == 28, answer.stderr  # it went on until its time was over
    assert f'data: {{"rev":{rev},"events":[{{"op":"put","key":"/a/1","value":"one"}}]}}\n\n' in answer.stdout


@pytest.mark.parametrize("text, headers, status", [
    ("", {}, 400), ("prefx=a", {}, 400), ("prefix=%zz", {}, 400), ("prefix=a", {"Last-Event-ID": "x"}, 400),
    ("prefix=a&value=xml", {}, 400), ("&".join(["key=k"] * 17), {}, 400)])
def test_what_will_never_be_served_is_refused(tier, text, headers, status):
    stream = Stream(tier.url, text, headers)
    assert stream.status == status
    assert stream.answer.read().decode().endswith("\n")


def test_only_get(tier):
    conn = http.client.HTTPConnection(tier.url.split("//")[1], timeout=10)
    conn.request("POST", "/v1/events?prefix=a")
    answer = conn.getresponse()
    assert answer.status == 405 and "GET" in answer.getheader("allow")


def test_heartbeats_and_progress(cluster, tier):
    """One of these comes at least every 30 s; a quiet stream learns how far the cluster is."""
    stream = Stream(tier.url, query(A), timeout=40)
    begin = time.monotonic()
    assert stream.next().event == "progress"
    cluster.put("/b/1", "elsewhere")
    assert next(m for m in stream._messages if m is None or m.data) is None
    assert time.monotonic() - begin < 40
    stream.close()


# ---- what is lost

def test_after_a_compaction_the_stream_says_so_and_goes_on(cluster, make_tier):
    tier = make_tier(cluster, "--history-bytes", "1MiB")
    old = cluster.put("/a/1", "one")
    for i in range(40):
        last = cluster.put("/a/big", str(i) * 40000)
    cluster.compact(last)
    cluster.put("/a/2", "two")
    end = cluster.revision()
    procs.wait_until(lambda: tier.numbers()["replica"]["history_oldest"] > old + 1, 20, 0.1, lambda: str(tier.numbers()["replica"]))
    tier.stop()
    tier.start()  # what it had in memory is gone, too
    stream, state = Stream(tier.url, query(A, snapshot=1, last_event_id=old)), State()
    while state.rev < end:
        state.take(stream.next())
    assert state.resets == ["compacted"] and state.keys == etcd_state(cluster, "/a/")
    plain = Stream(tier.url, query(A, last_event_id=old))
    reset = plain.next()
    assert (reset.event, reset.data) == ("reset", {"rev": end, "reason": "compacted"}) and reset.id.startswith(f"{end}-")
    after = cluster.put("/a/3", "three")
    assert plain.next().data["rev"] == after
    stream.close()
    plain.close()


def test_a_restored_backup_resets_everybody(cluster, make_tier, tmp_path):
    tier = make_tier(cluster)
    cluster.put("/a/1", "one")
    cluster.ctl("snapshot", "save", str(tmp_path / "db"))
    for i in range(20):
        cluster.put(f"/a/ghost{i}", "x")
    last = cluster.revision()
    page = Page([tier.url], query(A, snapshot=1))
    page.wait_rev(last)
    restore(cluster, tmp_path / "db")
    cluster.start()
    procs.wait_until(lambda: tier.get("/readyz")[0] == 200, 30, 0.1, "the tier follows the restored cluster")
    procs.wait_until(lambda: page.state.keys == etcd_state(cluster, "/a/"), 30, 0.1,
                     lambda: f"{page.state.keys} {page.state.resets}")
    cluster.put("/a/2", "two")
    procs.wait_until(lambda: page.state.keys == etcd_state(cluster, "/a/"), 30, 0.1, lambda: str(page.state.keys))
    assert page.state.resets[-1] == "rewritten"
    tag = page.state.id.split("-")[1]
    late = Stream(tier.url, query(A, snapshot=1), {"Last-Event-ID": f"99999-{tag}"})
    assert late.next().data == {"reason": "ahead"}, "an id that upstream never reached"
    other = Stream(tier.url, query(A), {"Last-Event-ID": "1-00000000"})
    assert other.next().data["reason"] == "rewritten", "an id of another cluster"
    for stream in (late, other):
        stream.close()
    page.quit()


def test_an_id_above_a_tier_that_lags_is_waited_for(make_cluster, make_tier):
    cluster = make_cluster()
    ahead = make_tier(cluster)
    lags = make_tier(cluster)
    cluster.put("/a/1", "one")
    procs.wait_until(lambda: lags.numbers()["upstream"]["revision"] == cluster.revision(), 10, 0.05, "both are there")
    first = Stream(ahead.url, query(A))
    cluster.put("/a/2", "two")
    while (message := first.next()).event != "message":
        pass
    resumed = Stream(lags.url, query(A), {"Last-Event-ID": message.id})
    after = cluster.put("/a/3", "three")
    assert resumed.next().data == {"rev": after, "events": [{"op": "put", "key": "/a/3", "value": "three"}]}
    for stream in (first, resumed):
        stream.close()


# ---- restarts

def test_a_page_outlives_restarts_and_moves(cluster, make_tier):
    tiers = [make_tier(cluster) for _ in range(2)]
    page = Page([t.url for t in tiers], query(A, ("prefix", "/b/"), ("key", "/c"), snapshot=1))
    revs = []
    for round in range(4):
        for i in range(30):
            revs.append(cluster.put(f"/a/{i % 7}", f"{round} {i}"))
            if i == 15:
                tier = tiers[round % 2]
                tier.kill() if round < 2 else tier.stop()
                tier.start()
        revs.append(txn(cluster, ("/b/1", f"{round}"), ("/c", f"{round}"), ("/d", "x")))
    page.wait_rev(revs[-1])
    page.quit()
    assert page.state.keys == kv(cluster, "/a/", "/b/") | {b"/c": b"3"}
    assert page.state.resets == ["snapshot"], "no place was lost"
    first = next(i for i, r in enumerate(revs) if r in page.state.seen)
    assert page.state.seen == revs[first:], "each revision once, in order"


def test_what_may_pass_is_told_to_come_again(cluster, make_tier, tmp_path):
    """Any status but 200 would end an EventSource for good."""
    tier = make_tier("http://127.0.0.1:1", wait=False)
    procs.wait_until(lambda: tier.get("/livez")[0] == 200, 10, 0.1, "it runs")
    stream = Stream(tier.url, query(A))
    assert stream.status == 200
    only = list(stream._messages)
    assert len(only) == 1 and only[0].data is None and 1000 <= int(only[0].retry) <= 3000
    live = make_tier(cluster, "--drain", "2s")
    open_stream = Stream(live.url, query(A))
    assert open_stream.next().event == "progress"
    live.stop()
    assert all(m.data is None for m in open_stream._messages if m is not None), "a clean end, with when to come again"


def test_who_does_not_read_costs_nobody_and_loses_nothing(cluster, tier):
    page, slow = Page([tier.url], query(A)), Stream(tier.url, query(A))
    assert slow.next().event == "progress"
    page.wait_rev(cluster.revision())
    revs = [cluster.put("/a/k", f"{i:05}" * 20000) for i in range(40)]
    page.wait_rev(revs[-1])
    assert [slow.next().data["rev"] for _ in revs] == revs
    page.quit()
    slow.close()


# ---- rights

def test_rights_are_the_users_own(cluster, make_tier, tmp_path, figure):
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), rights="upstream")
    reader = token(cluster, READER)
    for text, headers, status in [
            (query(A), {}, 401), (query(A), {"Authorization": "wrong.1"}, 401), (query(A), {"Authorization": reader}, 200),
            (query(A), {"Authorization": f"Bearer {reader}"}, 200), (query(A, ("prefix", "/b/")), {"Authorization": reader}, 403),
            (query(("prefix", "")), {"Authorization": reader}, 403)]:
        stream = Stream(tier.url, text, headers)
        assert stream.status == status, (text, headers, stream.answer.read())
        stream.close()
    stream = Stream(tier.url, query(A, snapshot=1), {"Authorization": reader})
    assert [m.event for m in stream.take(2)] == ["reset", "synced"]
    rev = cluster.put("/a/1", "x")
    assert stream.next().data["rev"] == rev
    cluster.ctl("role", "revoke-permission", "reading", "/a/", "/a0")
    revoked = time.monotonic()
    denied = stream.next()
    assert denied.event == "denied" and stream.next() is None
    took = time.monotonic() - revoked
    figure("sse.a_revoked_right_ends_after", took, "s")
    assert took < PROMISED_S, "a right that was revoked ends within its period"
    # another worker may have an answer of its own, which ends with its period
    procs.wait_until(lambda: Stream(tier.url, query(A), {"Authorization": reader}).status == 403, PROMISED_S - took, 0.2, "it is refused")
