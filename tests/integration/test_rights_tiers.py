"""Rights through tiers: a tier answers the questions of the tiers below from its own table, with the age of its answers. So a
right ends one period after it was revoked at any depth, and a token costs etcd the same however many tiers have its clients."""
import random
import time
import urllib.request

import procs
import pytest
from differential import encode
from rights import NEVER, RANGE, TXN, Caller, Ticker, TokenWatch, grpc
from test_rights_facts import BAD_TOKEN, FUTURE, OTHER, READER, ROOT, enable_auth, jwt_flags

PERIOD = 3
DENIED = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
OURS, THEIRS = (b"/a/", b"/a0"), (b"/b/", b"/b0")


@pytest.fixture(params=["simple", "jwt"])
def kind(request):
    return request.param


@pytest.fixture
def make_stack(make_cluster, make_tier, tmp_path, kind):
    """make_stack(members, depth, leaves): a cluster with auth on, a chain of tiers, and the leaves below its last."""
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)

    def make(n=1, depth=2, leaves=1, periods=None):
        cluster = make_cluster(n, flags=jwt_flags(tmp_path) if kind == "jwt" else [])
        cluster.put("/a/k", "0")
        cluster.put("/b/k", "secret")
        enable_auth(cluster)
        login = ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)]
        tiers, upstream = [], cluster

        def add(upstream, i):
            period = f"{(periods or [PERIOD] * 9)[i]}s"
            tiers.append(make_tier(upstream, *login, "--rights-period", period, "--name", f"tier-{len(tiers)}", rights="upstream"))
            return tiers[-1].url
        for i in range(depth):
            upstream = add(upstream, i)
        for _ in range(leaves):
            add(upstream, depth)
        return cluster, tiers
    return make


def created(watch, timeout=10):
    procs.wait_until(lambda: watch.created or watch.cancels or watch.end, timeout, 0.02, "created")
    assert watch.created and watch.is_healthy(), (watch.cancels, watch.end)
    return watch


def watching(tier, token, *ranges):
    return created(TokenWatch(tier.endpoint, token, *(ranges or [OURS])))


def rights_calls(cluster, method):
    """Questions that etcd has allowed, as it counts them: Range (about one range) or Txn (about several)."""
    n = 0
    for member in cluster.members:
        with urllib.request.urlopen(f"{member.url}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                labels = ('grpc_code="OutOfRange"', f'grpc_method="{method}"')
                if line.startswith("grpc_server_handled_total{") and all(label in line for label in labels):
                    n += int(float(line.split()[-1]))
    return n


def total(tier, part, name):
    return sum(worker[part][name] for worker in tier.numbers()["workers"])


def n_pauses(tiers):
    return sum(total(tier, "permit", "pauses") for tier in tiers)


def late(events, revoked, period=PERIOD):
    return [round(e[0] - revoked, 3) for e in events if e[0] > revoked + period]


def question(key, end=b"", **more):
    return encode("RangeRequest", {"key": key, **({"range_end": end} if end else {}), "revision": NEVER, **more})


def test_a_right_ends_one_period_after_it_was_revoked_at_the_third_tier(make_stack, kind, soak, seed, figure):
    cluster, tiers = make_stack()
    rng = random.Random(seed)
    caller = Caller(cluster.members[0].endpoint)
    root, last = [caller.login(ROOT)], []
    ticker = Ticker(cluster.members[0].endpoint, lambda: root[0], b"/a/k")
    for _ in range((20 if soak else 2) if kind == "simple" else (5 if soak else 1)):
        token = caller.login(READER)
        watches = [watching(tier, token) for tier in tiers]
        # with JWTs the tiers' own tokens are old, too, and the streams by which they follow end within a minute
        procs.wait_until(lambda: all(len(w.events) > 5 for w in watches), 90, 0.1,
                         lambda: f"all follow: {[(len(w.events), w.end, w.cancels) for w in watches]}")
        time.sleep(PERIOD + rng.random() * PERIOD)
        assert all(w.is_healthy() for w in watches)
        cluster.ctl("user", "revoke-role", "reader", "reading")
        revoked = time.monotonic()
        root[0] = caller.login(ROOT)
        time.sleep(2 * PERIOD)
        for watch in watches:
            assert not late(watch.events, revoked), (late(watch.events, revoked), watch.cancels, watch.end)
            last.append(max(e[0] for e in watch.events) - revoked)
        if kind == "simple":
            assert all(w.cancels and w.cancels[0][2] == DENIED and w.end is None for w in watches)
        else:  # every token is old: paused, and sent away within a minute
            assert not any(w.cancels for w in watches)
        for watch in watches:
            watch.close()
        cluster.ctl("user", "grant-role", "reader", "reading")
        root[0] = caller.login(ROOT)
    figure(f"rights_tiers.{kind}.last_event_after_ms", int(1000 * max(last)))
    assert ticker.n > 0
    ticker.stop()
    caller.close()


def test_leaves_with_one_token_cost_etcd_three_calls_per_period(make_stack, kind, soak, figure):
    """And nobody who has its right is disturbed. The clients' token is asked about with several ranges; each leaf's own token,
    by which it follows the tier above, with one."""
    cluster, tiers = make_stack(depth=1, leaves=4)
    caller = Caller(cluster.members[0].endpoint)
    token, root = caller.login(READER), caller.login(ROOT)
    ticker = Ticker(cluster.members[0].endpoint, lambda: root, b"/a/k")
    watches = [watching(tier, token, OURS, (b"/a/own/%d" % i, b"")) for i in range(5) for tier in tiers]
    time.sleep(2 * PERIOD)
    periods, most = (20, 3) if soak else (4, 5)  # over few periods a question of the one before counts, and one that came late
    began = time.monotonic()
    etcd, leaves = rights_calls(cluster, "Txn"), rights_calls(cluster, "Range")
    above, below = total(tiers[0], "permit", "asked"), total(tiers[0], "relay", "inquiries")
    n_events = [len(w.events) for w in watches]
    time.sleep(periods * PERIOD)
    etcd, leaves = rights_calls(cluster, "Txn") - etcd, rights_calls(cluster, "Range") - leaves
    above, below = total(tiers[0], "permit", "asked") - above, total(tiers[0], "relay", "inquiries") - below
    periods = (time.monotonic() - began) / PERIOD
    figure(f"rights_tiers.{kind}.calls_per_period", etcd / periods)
    figure(f"rights_tiers.{kind}.inquiries_per_period", below / periods)
    figure(f"rights_tiers.{kind}.calls_per_period_and_leafs_own_token", leaves / periods / 4)
    assert etcd + leaves <= above + 1, "etcd is asked by the upper tier alone"
    assert 1 <= etcd / periods <= most, (etcd, leaves, above, below, periods)
    assert leaves / periods / 4 <= most, (etcd, leaves, above, below, periods)
    assert below / periods > 4, "the leaves ask, each for itself"
    assert total(tiers[0], "relay", "inquiries_relayed") == 0
    assert all(w.is_healthy() for w in watches) and n_pauses(tiers) == 0
    assert all(len(w.events) > n + 5 * periods * PERIOD for w, n in zip(watches, n_events))
    ticker.stop()
    for one in (*watches, caller):
        one.close()


def test_healthy_watches_at_the_third_tier_are_never_disturbed(make_stack, kind, soak):
    cluster, tiers = make_stack(periods=[PERIOD, 2 * PERIOD, 1])
    caller = Caller(cluster.members[0].endpoint)
    token, root = caller.login(READER), caller.login(ROOT)
    watches = [watching(tier, token) for tier in (*tiers, tiers[-1])]
    ticker = Ticker(cluster.members[0].endpoint, lambda: root, b"/a/k")
    time.sleep(60 if soak else 7)
    ticker.stop()
    procs.wait_until(lambda: all(len(w.events) == ticker.n for w in watches), 10, 0.05,
                     lambda: f"{ticker.n} events: {[len(w.events) for w in watches]}")
    assert all(w.is_healthy() for w in watches) and n_pauses(tiers) == 0 and ticker.failed == 0
    for one in (*watches, caller):
        one.close()


def test_a_cluster_that_stands_still_ends_no_stream(make_stack, kind, soak, figure):
    cluster, tiers = make_stack(n=3)
    caller = Caller(cluster.members[0].endpoint)
    token, root = caller.login(READER), caller.login(ROOT)
    watches = [watching(tier, token) for tier in tiers]
    cluster.put("/a/k", "before")
    procs.wait_until(lambda: all(len(w.events) == 1 for w in watches), 10, 0.05, "the event before")
    for member in cluster.members:
        member.stop()
    time.sleep(60 if soak else 4 * PERIOD)
    assert all(w.end is None and not w.cancels and len(w.events) == 1 for w in watches)
    for member in cluster.members:
        member.cont()
    went_on = time.monotonic()
    procs.wait_until(lambda: caller.call("/etcdserverpb.KV/Put", encode("PutRequest", {"key": b"/a/k", "value": b"after"}),
                                         root, 5)[0] == 0, 30, 0.2, "a write after it went on")
    procs.wait_until(lambda: all(len(w.events) >= 2 for w in watches), 20, 0.05,
                     lambda: f"all go on: {[(len(w.events), w.end, w.cancels) for w in watches]}")
    figure(f"rights_tiers.{kind}.went_on_after_s", time.monotonic() - went_on)
    assert all(w.is_healthy() and w.events[-1][3] == b"after" for w in watches)
    for one in (*watches, caller):
        one.close()


def test_one_member_that_stands_still_disturbs_nobody(make_stack, kind, soak, figure):
    """A member by which no tier follows: questions that go to it are asked elsewhere. (While the member stands still by which the
    first tier follows, tiers are not ready until that is noticed, and refuse new watches with 14.)"""
    cluster, tiers = make_stack(n=3)
    followed = tiers[0].numbers()["upstream"]["endpoint"]
    victim = next(m for m in cluster.members if m.url != followed)
    other_members = [m for m in cluster.members if m is not victim]
    caller = Caller(other_members[0].endpoint)
    token, other, root = caller.login(READER), caller.login(OTHER), caller.login(ROOT)
    running = [watching(tier, token) for tier in tiers]
    victim.stop()
    procs.wait_until(lambda: caller.call("/etcdserverpb.KV/Put", encode("PutRequest", {"key": b"/a/k", "value": b"x"}),
                                         root, 5)[0] == 0, 30, 0.1, "the others have a leader")
    longest = 0
    for i in range(20 if soak else 3):
        for tier in tiers:
            began = time.monotonic()
            created(TokenWatch(tier.endpoint, other, (b"/a/%d/%f" % (i, began), b"")), 10).close()
            longest = max(longest, time.monotonic() - began)
        time.sleep(PERIOD / 4)
    ticker = Ticker(other_members[0].endpoint, lambda: root, b"/a/k")
    procs.wait_until(lambda: all(len(w.events) > 20 for w in running), 30, 0.1,
                     lambda: f"running watches go on: {[(len(w.events), w.end, w.cancels) for w in running]}")
    ticker.stop()
    figure(f"rights_tiers.{kind}.created_with_a_member_still_s", longest)
    assert all(w.is_healthy() for w in running)
    victim.cont()
    for one in (*running, caller):
        one.close()


def test_a_client_that_asks_as_a_tier_does_learns_what_etcd_would_say(make_stack, kind):
    """With the field of tiers or without it, the answer is the same; and whatever is not such a question is relayed."""
    cluster, tiers = make_stack(depth=1, leaves=0)
    direct, through = Caller(cluster.members[0].endpoint), Caller(tiers[0].endpoint)
    token = direct.login(READER)

    def ask(caller, path, message, token):
        meta = (("belfry-rights", "1000"), *((("token", token),) if token else ()))
        try:
            return 0, caller.channel.unary_unary(path)(message, metadata=meta, timeout=10)
        except grpc.RpcError as e:
            return e.code().value[0], e.details()
    wrong = "abcdefghijklmnop.1" if kind == "simple" else token[:-4] + "AAAA"
    put = {"request_put": {"key": b"/a/k", "value": b"x"}}
    own, others = ({"request_range": {"key": k, "range_end": e, "revision": NEVER}} for k, e in (OURS, THEIRS))
    cases = [(RANGE, question(*OURS), token), (RANGE, question(*THEIRS), token), (RANGE, question(*OURS), None),
             (RANGE, question(*OURS), wrong), (RANGE, question(b"/a/", b"\0"), token),
             (RANGE, question(*OURS, limit=1), token), (RANGE, question(b"/b/k", serializable=True), token),
             (TXN, encode("TxnRequest", {"success": [own]}), token),
             (TXN, encode("TxnRequest", {"success": [own, others]}), token),
             (TXN, encode("TxnRequest", {"success": [own, put]}), token),
             (TXN, encode("TxnRequest", {"success": [own] * 129}), token), (TXN, b"", token), (RANGE, b"\xff", token)]
    for path, message, with_token in cases:
        expected = ask(direct, path, message, with_token)
        assert ask(through, path, message, with_token)[0] == expected[0], (path, message, with_token, expected)
    assert ask(through, RANGE, question(*OURS), token) == FUTURE
    assert ask(through, RANGE, question(*OURS), wrong) == BAD_TOKEN
    code, body = ask(through, RANGE, encode("RangeRequest", {"key": b"/a/k"}), token)
    assert code == 0 and b"/a/k" in body, "a read with that field is a read"
    assert total(tiers[0], "relay", "inquiries") > 0 and total(tiers[0], "relay", "inquiries_relayed") > 0
    direct.close()
    through.close()
