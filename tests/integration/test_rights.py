"""Rights end: with a real etcd and auth, no dialect is sent anything later than one period after a right was revoked, and
no watch that has its right is disturbed."""
import contextlib
import re
import time

import grpc
import needs
import procs
import pytest
import rawh2
from checker import Spec
from client import Recorder
from differential import encode
from kube import CRDS, Watch, request
from proxy import Proxy
from rights import WATCH, Caller, Ticker, TokenWatch, channel_to, metadata
from test_kube_auth import SECRET, SEEN, bearer
from test_rights_facts import OTHER, READER, ROOT, enable_auth, jwt_flags

PERIOD = 2
DENIED = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
OURS = (b"/a/", b"/a0")


class KubeEvents:
    """A watch of Kubernetes, read by hand: `events` are (when, type), and what it ended with."""

    def __init__(self, tier, token):
        self.watch = Watch(tier.endpoint, SEEN, "watch=1", bearer(token) if token else None)
        self.code, self.events, self.error = self.watch.code, [], None

    def read(self, until):
        """Reads until that time."""
        while time.monotonic() < until:
            if self.watch.end is not None and b"\n" not in self.watch._body:
                time.sleep(0.1)
                continue
            try:
                line = self.watch.line(timeout=0.1)
            except AssertionError as e:
                if "no event within" in str(e):
                    continue
                raise
            if line is None:
                continue
            kind = re.search(rb'"type":"(\w+)"', line).group(1).decode()
            self.events.append((time.monotonic(), kind))
            if kind == "ERROR":
                self.error = int(re.search(rb'"code":(\d+)', line).group(1))

    def close(self):
        self.watch.socket.close()


@pytest.fixture(params=["simple", "jwt"])
def kind(request):
    return request.param


@pytest.fixture
def stand(make_cluster, make_tier, tmp_path, kind):
    """stand(members, ...): a cluster with auth on, and a tier that is a user of its own; proxied: by a way that can be cut."""
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)

    def make(n=1, flags=(), auth=True, proxied=False):
        cluster = make_cluster(n, flags=jwt_flags(tmp_path) if kind == "jwt" else [])
        cluster.put("/a/prod/web", '{"replicas":1}')
        cluster.put("/b/prod/web", '{"secret":"x"}')
        if auth:
            enable_auth(cluster)
        login = ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)] if auth else []
        proxy = Proxy(cluster.members[0].endpoint) if proxied else None
        tier = make_tier(proxy.url if proxied else cluster, *login, "--rights-period", f"{PERIOD}s",
                         "--resources", f"{CRDS}/configs.yaml,prefix=/a/,wrap=spec",
                         "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec", *flags,
                         rights="upstream" if auth else None)
        return (cluster, tier, proxy) if proxied else (cluster, tier)
    return make


def watching(tier, token):
    watch = TokenWatch(tier.endpoint, token, OURS)
    procs.wait_until(lambda: watch.created, 10, 0.05, "created")
    return watch


def all_follow(kube, *watches):
    """Until each has been given some of what is written meanwhile."""
    def follow():
        kube.read(time.monotonic() + 0.2)
        return all(len(one.events) > 5 for one in (kube, *watches))
    procs.wait_until(follow, 10, 0, lambda: f"events: {[len(one.events) for one in (kube, *watches)]}")


def late(events, revoked, period=PERIOD):
    return [e for e in events if e[0] > revoked + period]


def n_asked(tier):
    return sum(w["permit"]["asked"] for w in tier.numbers()["workers"])


def test_nothing_is_given_to_who_has_no_right(stand, kind):
    """dialect x (none, wrong, right) at the beginning."""
    cluster, tier = stand()
    caller = Caller(tier.endpoint)
    right = caller.login(READER)
    wrong = "abcdefghijklmnop.1" if kind == "simple" else right[:-4] + "AAAA"
    for token, code in ((None, 3), (wrong, 16)):
        watch = TokenWatch(tier.endpoint, token, OURS)
        procs.wait_until(lambda: watch.cancels, 10, 0.05, "refused")
        assert not watch.events and not watch.created
        assert ("user name is empty" if token is None else "invalid auth token") in watch.cancels[0][2]
        watch.close()
        assert caller.range(token, *OURS)[0] == code
        for path in (SEEN, SECRET, "/apis/demo.example.com/v1"):
            answer = request(tier.endpoint, path, None, bearer(token) if token else None)
            assert answer.code == 401 and b"web" not in answer.body, (path, answer.body)
    watch = TokenWatch(tier.endpoint, right, OURS, (b"/b/", b"/b0"), (b"/a/", b"\0"), (b"\0", b"\0"), (b"/b/prod/web", b""))
    procs.wait_until(lambda: watch.created and len(watch.cancels) == 4, 10, 0.05, "one of five")
    assert {reason for _, _, reason in watch.cancels} == {DENIED}
    assert caller.range(right, *OURS)[0] == 0 and caller.range(right, b"/b/prod/web")[0] == 7
    assert request(tier.endpoint, SEEN, None, bearer(right)).code == 200
    assert request(tier.endpoint, SECRET, None, bearer(right)).code == 403
    cluster.put("/b/prod/web", "secret")
    cluster.put("/a/prod/web", '{"replicas":2}')
    procs.wait_until(lambda: watch.events, 10, 0.05, "an event")
    assert [key for _, _, key, _ in watch.events] == [b"/a/prod/web"]
    watch.close()
    caller.close()


@pytest.mark.parametrize("how", ["role revoked", "permission revoked", "user deleted"])
def test_a_right_that_is_revoked_ends_within_a_period(stand, kind, how, soak, figure):
    if kind == "jwt" and how != "role revoked" and not soak:
        needs.full_length("a JWT that is old is sent away within a minute: with BELFRY_SOAK=1 only")
    cluster, tier = stand()
    caller = Caller(cluster.members[0].endpoint)
    token, other = caller.login(READER), caller.login(OTHER)
    root = [caller.login(ROOT)]
    ticker = Ticker(cluster.members[0].endpoint, lambda: root[0], b"/a/prod/web")
    watch, healthy, kube = watching(tier, token), watching(tier, other), KubeEvents(tier, token)
    all_follow(kube, watch, healthy)
    revoke = {"role revoked": ("user", "revoke-role", "reader", "reading"),
              "permission revoked": ("role", "revoke-permission", "--prefix=true", "reading", "/a/"),
              "user deleted": ("user", "delete", "reader")}[how]
    cluster.ctl(*revoke)
    revoked = time.monotonic()
    root[0] = caller.login(ROOT)
    kube.read(revoked + 2 * PERIOD)
    assert not late(watch.events, revoked) and not late([e for e in kube.events if e[1] != "ERROR"], revoked)
    assert caller.range(token, *OURS)[0] != 0
    figure(f"rights.{kind}.last_event_after_ms", max([0] + [int((e[0] - revoked) * 1000) for e in watch.events]))
    if kind == "jwt":  # everybody's token is old: paused, then sent away to log in again, within a minute
        assert not watch.cancels and not healthy.cancels
        procs.wait_until(lambda: watch.end and healthy.end, 65, 0.5, "ended")
        assert watch.end[1] == 14 and healthy.end[1] == 14
        healthy.close()
        healthy = watching(tier, caller.login(OTHER))
    elif how == "user deleted":
        assert watch.end and watch.end[1] == 14 and not watch.cancels, watch.end
        assert kube.error == 401
    else:
        assert watch.cancels and watch.cancels[0][2] == DENIED and watch.end is None
        assert kube.error == 403
    if kind == "simple":
        assert healthy.is_healthy()
    n = len(healthy.events)
    procs.wait_until(lambda: len(healthy.events) > n + 10, 10, 0.1, "the other goes on")
    ticker.stop()
    for one in (watch, healthy, kube, caller):
        one.close()


def test_somebody_elses_change_disturbs_nobody(stand, kind):
    if kind == "jwt":
        pytest.skip("by peer: etcd makes every JWT old (test_a_right_that_is_revoked_ends_within_a_period)")
    cluster, tier = stand()
    caller = Caller(cluster.members[0].endpoint)
    watch = watching(tier, caller.login(READER))
    kube = KubeEvents(tier, caller.login(READER))
    for i in range(3):
        cluster.ctl("user", "add", f"new{i}:x")
        cluster.ctl("user", "grant-role", f"new{i}", "others")
        cluster.put("/a/prod/web", '{"replicas":%d}' % i)
        kube.read(time.monotonic() + PERIOD)
    assert watch.is_healthy() and len(watch.events) == 3
    assert kube.error is None and len(kube.events) == 4
    for one in (watch, kube, caller):
        one.close()


def test_auth_turned_on_meanwhile(stand, kind):
    """Whoever has no right then is sent nothing later than a period after."""
    cluster, tier = stand(auth=False)
    watch, kube = watching(tier, None), KubeEvents(tier, None)
    caller = Caller(cluster.members[0].endpoint)
    root = [None]
    ticker = Ticker(cluster.members[0].endpoint, lambda: root[0], b"/a/prod/web")
    all_follow(kube, watch)
    enable_auth(cluster)
    turned = time.monotonic()
    root[0] = caller.login(ROOT)
    kube.read(turned + 2 * PERIOD)
    assert not late(watch.events, turned) and not late([e for e in kube.events if e[1] != "ERROR"], turned)
    assert watch.end and watch.end[1] == 14 and not watch.cancels
    assert kube.error == 401
    assert ticker.n > 0
    ticker.stop()
    for one in (watch, kube, caller):
        one.close()


def test_a_member_that_fails_disturbs_nobody(stand, kind):
    """A token that its member has lost is known to the others."""
    cluster, tier = stand(3)
    caller = Caller(cluster.members[0].endpoint)
    watch = watching(tier, caller.login(READER))
    kube = KubeEvents(tier, caller.login(READER))
    time.sleep(PERIOD)
    for member in cluster.members:
        member.kill()
        time.sleep(PERIOD)
        member.restart()
        time.sleep(PERIOD)
    last = cluster.put("/a/prod/web", '{"last":1}')
    procs.wait_until(lambda: watch.events, 15, 0.1, lambda: f"the last event, {last}: {watch.end} {watch.cancels}")
    kube.read(time.monotonic() + 1)
    assert watch.is_healthy() and kube.error is None and kube.events[-1][1] == "MODIFIED"
    for one in (watch, kube, caller):
        one.close()


def test_a_token_that_is_not_known_any_more_ends_the_stream_for_a_login(stand, kind):
    """As when it expires: a changed password makes etcd forget the tokens of its user."""
    if kind == "jwt":
        pytest.skip("by peer: a JWT is not forgotten, it becomes old")
    cluster, tier = stand()
    caller = Caller(cluster.members[0].endpoint)
    watch, kube = watching(tier, caller.login(READER)), KubeEvents(tier, caller.login(READER))
    cluster.ctl("user", "passwd", READER[0], "--interactive=false", input=b"new")
    kube.read(time.monotonic() + PERIOD)
    procs.wait_until(lambda: watch.end, PERIOD, 0.1, "ended")
    assert watch.end[1] == 14 and not watch.cancels and kube.error == 401
    for one in (watch, kube, caller):
        one.close()


def test_upstream_away_ends_no_stream_and_leaks_nothing(stand, kind, soak, figure):
    """Delivery pauses when the last answer ends; what was revoked meanwhile is not delivered afterwards."""
    away = (5 if soak else 3) * PERIOD
    cluster, tier, proxy = stand(proxied=True)
    caller = Caller(cluster.members[0].endpoint)
    watch, healthy, kube = (watching(tier, caller.login(READER)), watching(tier, caller.login(OTHER)),
                            KubeEvents(tier, caller.login(OTHER)))
    kube.read(time.monotonic() + PERIOD)
    proxy.refuse()
    gone = time.monotonic()
    time.sleep(PERIOD)
    if kind == "simple":
        cluster.ctl("user", "revoke-role", "reader", "reading")
    last = cluster.put("/a/prod/web", '{"secret":1}')
    time.sleep(away)
    proxy.accept()
    procs.wait_until(lambda: healthy.events, 20, 0.1, lambda: f"revision {last}: {healthy.end} {healthy.cancels}")
    kube.read(time.monotonic() + 2 * PERIOD)
    figure(f"rights.{kind}.resumed_after_s", round(healthy.events[-1][0] - gone - PERIOD - away, 1))
    assert healthy.is_healthy() and len(healthy.events) == 1
    assert kube.error is None and kube.events[-1][1] == "MODIFIED"
    assert watch.end is None
    if kind == "simple":
        assert not watch.events and watch.cancels[0][2] == DENIED
    else:
        assert len(watch.events) == 1 and not watch.cancels
    for one in (watch, healthy, kube, caller, proxy):
        one.close()


def test_an_idle_tree_does_not_move_rafts_index(stand, kind, make_tier, tmp_path):
    """A root and a leaf, nothing is written, and 200 watches are held: rights are asked for without a proposal."""
    cluster, root = stand()
    leaf = make_tier(root.url, "--name", "leaf", "--upstream-user", ROOT[0], "--upstream-password-file", str(tmp_path / "password"),
                     "--rights-period", f"{PERIOD}s", rights="upstream")
    caller = Caller(cluster.members[0].endpoint)
    tokens = [caller.login(READER), caller.login(OTHER)]
    streams = [TokenWatch(tier.endpoint, token, *[(b"/a/%d" % i, b"") for i in range(50)])
               for tier in (root, leaf) for token in tokens]
    procs.wait_until(lambda: all(len(s.created) == 50 for s in streams), 20, 0.1, "created")
    time.sleep(PERIOD)
    before, asked = cluster.members[0].metric("etcd_server_proposals_committed_total"), n_asked(leaf)
    time.sleep(3 * PERIOD)
    assert n_asked(leaf) > asked, "the leaf asks"
    assert cluster.members[0].metric("etcd_server_proposals_committed_total") == before
    assert all(s.is_healthy() for s in streams)
    for one in (*streams, caller):
        one.close()


def test_a_period_longer_than_tokens_live_loses_no_watch(make_cluster, make_tier, tmp_path, soak):
    """Then etcd has forgotten a simple token when the tier asks again. Clients are sent away to log in, and go on."""
    ttl, period = 2, 8
    cluster = make_cluster(flags=["--auth-token-ttl", str(ttl)])
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), "--rights-period",
                     f"{period}s", rights="upstream")
    go = ["user=" + READER[0], "password=" + READER[1]]
    recorders = [Recorder(tier.endpoint, tmp_path / "go", go, go=True),
                 Recorder(tier.url, tmp_path / "c", ["user=" + ":".join(READER)])]
    for recorder in recorders:
        for number in range(3):
            recorder.open(Spec(number, "prefix", b"/a/%d/" % number, rev="1"))

    def n_sent_away():
        return sum(v for k, v in tier.metrics().items() if k.startswith("belfry_streams_closed_total") and 'reason="rights"' in k)

    def write():
        nonlocal n
        n += 1
        return {number: cluster.put(f"/a/{number}/x", str(n)) for number in range(3)}
    n, rounds = 0, 3 if soak else 1
    for i in range(1, rounds + 1):  # both clients have gone, each with the token that it had
        procs.wait_until(lambda: write() and n_sent_away() >= i * len(recorders), 2 * period + 5, ttl / 2, "etcd has forgotten tokens")
    last = write()
    for recorder in recorders:
        recorder.wait_rev(last, 30)
        assert [recorder.status()[number]["n_events"] for number in range(3)] == [n] * 3
        recorder.quit()


def test_asking_proposes_nothing(stand, kind, soak):
    periods = 5 if soak else 3
    cluster, tier = stand()
    caller = Caller(cluster.members[0].endpoint)
    token = caller.login(READER)
    streams = [TokenWatch(tier.endpoint, token, *[(b"/a/%d/%d" % (i, j), b"") for j in range(50)]) for i in range(4)]
    procs.wait_until(lambda: all(len(s.created) == 50 for s in streams), 20, 0.1, "created")
    time.sleep(PERIOD)
    before, asked = cluster.members[0].metric("etcd_server_proposals_committed_total"), n_asked(tier)
    time.sleep(periods * PERIOD)
    calls = n_asked(tier) - asked
    assert cluster.members[0].metric("etcd_server_proposals_committed_total") == before
    assert all(s.is_healthy() for s in streams)
    n_workers = min(len(streams), len(tier.numbers()["workers"]))  # each asks for the streams that it has
    assert periods <= calls <= periods * 3 * 2 * n_workers, calls  # 50 to 200 ranges are one question or two
    for one in (*streams, caller):
        one.close()


def test_tokens_that_hang_do_not_delay_other_clients(stand, kind, figure):
    """A simple token from the future hangs in etcd until the deadline of the question. 900 of them come by one connection."""
    cluster, tier = stand(flags=("--workers", "1"))
    caller = Caller(cluster.members[0].endpoint)
    hostile = rawh2.Connection(int(tier.endpoint.rsplit(":", 1)[1]))
    create = encode("WatchRequest", {"create_request": {"key": OURS[0], "range_end": OURS[1]}})
    for i in range(900):
        hostile.open(WATCH.encode(), create, (b"token", b"x%d.999999999" % i))
    procs.wait_until(lambda: n_asked(tier) >= 80, 10, 0.01, "they hang")
    took = []
    for i in range(5):
        token, began = caller.login(READER), time.monotonic()
        watch = TokenWatch(tier.endpoint, token, OURS)
        procs.wait_until(lambda: watch.created or watch.cancels or watch.end, 10, 0.005, "an answer")
        took.append(time.monotonic() - began)
        assert watch.created and watch.is_healthy(), (watch.cancels, watch.end)
        watch.close()
    figure(f"rights.{kind}.created_beside_900_hanging_ms", round(max(took) * 1000))
    assert max(took) < 2, took
    hostile.close()
    caller.close()


def test_an_election_that_is_observed_ends_with_its_right(stand):
    cluster, tier = stand()
    cluster.put("/a/el/1", "one")
    token = Caller(cluster.members[0].endpoint).login(READER)
    channel = channel_to(tier.endpoint)

    def observe():
        return channel.unary_stream("/v3electionpb.Election/Observe")(b"\x0a\x05/a/el", metadata=metadata(token), timeout=30)

    began, values = time.monotonic(), []
    with pytest.raises(grpc.RpcError) as ended:
        for value in observe():
            values.append(value)
    assert len(values) == 1 and ended.value.code() == grpc.StatusCode.UNAVAILABLE, ended.value
    assert time.monotonic() - began < PERIOD + 1
    assert next(observe()), "the right is still there"
    cluster.ctl("user", "revoke-role", READER[0], "reading")
    values.clear()
    with contextlib.suppress(grpc.RpcError):  # etcd ends such a call with or without an error
        values.extend(iter(observe()))
    assert values == []
    channel.close()
