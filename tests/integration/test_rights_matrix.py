"""The matrix of rights: every dialect, both kinds of tokens, and all that can happen to a right. One line per case is shown at
the end of a run: how often each dialect gave something, and how often it did so later than a period after the right was gone.

    tools/itest rights_matrix            the cases of seconds
    tools/itest --soak rights_matrix     and those in which upstream is away for a minute
"""
import time

import procs
import pytest
from kube import CRDS
from rights import Caller, Ticker, TokenWatch
from rights_client import DIALECTS, OURS, Client
from test_rights_facts import OTHER, READER, ROOT, enable_auth, jwt_flags

import needs

PERIOD = 2
OLD_S = 60  # within which a stream of an old token ends (docs/explanation/rights-end.md)
TTL = 6  # of tokens, where they expire


@pytest.fixture(params=["simple", "jwt"])
def kind(request):
    return request.param


@pytest.fixture
def stand(make_cluster, make_tier, tmp_path, kind):
    """stand(members, ttl=..., auth=...): a cluster, a tier before it, and a key that is written ten times per second."""
    made = []
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)

    def make(n=1, ttl=None, auth=True, ticking=True, flags=()):
        more = [f.replace("ttl=10m", f"ttl={ttl}s") if ttl else f for f in jwt_flags(tmp_path)] if kind == "jwt" else []
        more += ["--auth-token-ttl", str(ttl)] if ttl and kind == "simple" else []
        cluster = make_cluster(n, flags=more)
        cluster.put("/a/prod/web", '{"replicas":1}')
        cluster.put("/b/prod/web", '{"secret":"x"}')
        if auth:
            enable_auth(cluster)
        login = ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)] if auth else []
        tier = make_tier(cluster, *login, "--rights-period", f"{PERIOD}s", "--resources",
                         f"{CRDS}/configs.yaml,prefix=/a/,wrap=spec", *flags, rights="upstream" if auth else None)
        caller = Caller(cluster.members[0].endpoint)
        root = Root(Caller(cluster.members[0].endpoint), auth)
        made.extend((caller, root.caller))
        if ticking:
            made.append(Ticker(cluster.members[0].endpoint, root.token, b"/a/prod/web"))
        return cluster, tier, caller, root
    yield make
    for one in reversed(made):
        one.stop() if isinstance(one, Ticker) else one.close()


class Root:
    """A token of root, renewed once per second: roles change, and tokens expire. For one thread."""

    def __init__(self, caller, on):
        self.caller, self.on, self.until, self.value = caller, on, 0, None

    def token(self):
        if self.on and time.monotonic() > self.until:
            self.value, self.until = self.caller.login(ROOT), time.monotonic() + 1
        return self.value


@pytest.fixture
def clients(figure, kind):
    """clients(tier, token): a client that is given everything by now; clients.judge(...) says what was found."""
    made = []

    def make(tier, token, wait=True):
        made.append(Client(tier, token))
        if wait:
            procs.wait_until(lambda: all(made[-1].given(d) for d in DIALECTS), 15, 0.05,
                             lambda: {d: len(made[-1].given(d)) for d in DIALECTS})
        return made[-1]

    def judge(case, client, gone=None):
        """`gone`: when its right ended; None: never. Shows and returns what came later than a period after."""
        counts = {d: (len(client.given(d)), sum(t > gone + PERIOD for t in client.given(d)) if gone is not None else 0)
                  for d in DIALECTS}
        line = "; ".join(f"{d} {n} given, {late} late" for d, (n, late) in counts.items())
        figure(f"rights matrix, {kind} tokens, {case}", f"{line}; {client.cancelled()} cancelled")
        return {d: late for d, (_, late) in counts.items() if late}
    make.judge = judge
    yield make
    for client in made:
        client.close()


def assert_told(client, gone, within=PERIOD):
    """Every stream of a client has ended within a period of the end of its right, and half a second for the word to arrive."""
    late = {d: when and when - gone for d, when in client.told().items() if when is None or when > gone + within + 0.5}
    assert not late, (late, client.sse.said[-3:], client.lines.said[-3:])


def pass_time(seconds):
    """Events are noted meanwhile; what is judged is when they came."""
    until = time.monotonic() + seconds
    procs.wait_until(lambda: time.monotonic() >= until, seconds + 5, 0.05, "time")


@pytest.mark.parametrize("what", ["none", "wrong"])
def test_without_a_right_nothing_is_given(stand, kind, clients, what):
    _, tier, caller, _ = stand()
    good = caller.login(READER)
    wrong = "abcdefghijklmnop.1" if kind == "simple" else good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")
    client = clients(tier, None if what == "none" else wrong, wait=False)
    pass_time(2 * PERIOD)
    assert not clients.judge(what, client, gone=0)
    assert not any(client.given(d) for d in DIALECTS)
    assert client.watch.cancels and client.kube.code == 401 and client.sse.code == 401
    assert client.lines.has_said(b'"canceled":true') or client.lines.code == 401, client.lines.said
    assert all(client.refused(d, 0) > 3 for d in client.answers), client.answers


def test_with_a_right_everything_is_given_and_goes_on(stand, clients):
    _, tier, caller, _ = stand()
    client = clients(tier, caller.login(READER))
    pass_time(3 * PERIOD)
    assert not clients.judge("right", client)
    assert client.watch.is_healthy() and client.kube.end is None and client.cancelled() == 0
    assert client.sse.end is None and client.lines.end is None
    assert all(len(client.given(d)) > 30 for d in ("gRPC watch", "Kubernetes watch", "SSE", "gateway watch"))
    assert all(client.refused(d, 0) == 0 for d in client.answers)


REVOCATIONS = {"role revoked": ("user", "revoke-role", "reader", "reading"),
               "permission revoked": ("role", "revoke-permission", "--prefix=true", "reading", "/a/"),
               "user deleted": ("user", "delete", "reader")}


@pytest.mark.parametrize("how", REVOCATIONS)
def test_a_right_ends_within_a_period_in_every_dialect(stand, kind, clients, how, soak):
    cluster, tier, caller, _ = stand()
    client, healthy = clients(tier, caller.login(READER)), clients(tier, caller.login(OTHER))
    cluster.ctl(*REVOCATIONS[how])
    gone = time.monotonic()
    pass_time(2.5 * PERIOD)
    assert not clients.judge(how, client, gone)
    clients.judge(f"{how}, of another user", healthy)
    assert all(client.refused(d, gone + PERIOD) > 3 for d in client.answers)
    assert healthy.cancelled() == 0
    if kind == "simple":
        assert_told(client, gone)
        assert client.sse.has_said(b"event: denied"), client.sse.said[-3:]
        assert healthy.watch.is_healthy() and healthy.kube.end is None
        assert healthy.sse.end is None and healthy.lines.end is None
        assert all(healthy.refused(d, gone) == 0 for d in healthy.answers)
        ended = client.watch.end and client.watch.end[1] == 14 if how == "user deleted" else client.watch.cancels
        assert ended and client.kube.error == (401 if how == "user deleted" else 403)
    else:  # every JWT is old: nobody is judged to be without rights, and all log in again
        assert client.cancelled() == 0
        again = clients(tier, caller.login(OTHER))
        assert again.watch.is_healthy()
        if how == "role revoked" or soak:  # a stream that is paused by an old token ends within a minute, at a random time
            procs.wait_until(lambda: all({**client.told(), "another's": all(healthy.told().values())}.values()), PERIOD + OLD_S + 5, 0.1,
                             lambda: f"{client.told()}, {healthy.told()}")
            for one in (client, healthy):
                assert_told(one, gone, PERIOD + OLD_S)
                assert one.watch.end[1] == 14 and one.kube.error == 401
            assert not clients.judge(f"{how}, to the end", client, gone)
        assert again.watch.is_healthy()


def test_a_token_that_expires_ends_what_it_was_used_for(stand, kind, clients):
    """A simple token lives while it is used, and a tier uses it for its watches. Then it is refused when it was not used."""
    _, tier, caller, _ = stand(ttl=TTL)
    made = time.monotonic()
    token = caller.login(READER)
    if kind == "jwt":
        client = clients(tier, token)
        pass_time(made + TTL + 1 + 2.5 * PERIOD - time.monotonic())
        assert not clients.judge("token expired", client, gone=made + TTL + 1)  # its time is in whole seconds
        assert_told(client, made + TTL + 1)
        assert client.watch.end and client.watch.end[1] == 14 and client.kube.error == 401
    else:
        used = clients(tier, caller.login(OTHER))
        pass_time(TTL + 3)
        client = clients(tier, token, wait=False)
        pass_time(PERIOD)
        assert not clients.judge("token expired", client, gone=0)
        assert client.sse.code == 401 and client.lines.told(b'"canceled":true', b'"error":{'), (client.sse.said, client.lines.said)
        clients.judge("token in use", used)
        assert used.watch.is_healthy() and used.kube.end is None
        assert "invalid auth token" in client.watch.cancels[0][2] and client.kube.code == 401
    assert client.cancelled() == len(client.watch.cancels), (client.sse.said, client.lines.said)


def test_auth_that_is_turned_on_ends_what_nobody_granted(stand, kind, clients):
    cluster, tier, _, root = stand(auth=False)
    client = clients(tier, None)
    enable_auth(cluster)
    gone = time.monotonic()
    root.on = True
    pass_time(2.5 * PERIOD)
    assert not clients.judge("auth turned on", client, gone)
    assert_told(client, gone)
    assert client.watch.end and client.watch.end[1] == 14 and client.kube.error == 401


def test_a_member_that_fails_costs_nobody_its_watch(stand, clients):
    cluster, tier, caller, _ = stand(3, ticking=False)
    client = clients(tier, caller.login(READER), wait=False)
    procs.wait_until(lambda: client.watch.created and client.kube.events, 15, 0.05, "watches")
    for i, member in enumerate(cluster.members):
        member.kill()
        pass_time(PERIOD)
        last = cluster.put("/a/prod/web", '{"replicas":%d}' % i, member=cluster.members[(i + 1) % 3])
        member.restart()
        procs.wait_until(lambda: len(client.watch.events) == i + 1, 20, 0.1,
                         lambda: f"revision {last}: {client.watch.end} {client.watch.cancels} {client.watch.events}")
    procs.wait_until(lambda: len(client.kube.events) == 4, 20, 0.1, lambda: str(client.kube.events))
    assert not clients.judge("member failover", client)
    assert client.watch.is_healthy() and client.kube.end is None and client.cancelled() == 0
    assert all(client.given(d) for d in client.answers)


def test_a_role_of_somebody_else_changes(stand, kind, clients):
    cluster, tier, caller, _ = stand()
    client = clients(tier, caller.login(READER))
    began = time.monotonic()
    for i in range(3):
        cluster.ctl("user", "add", f"new{i}:x")
        cluster.ctl("user", "grant-role", f"new{i}", "others")
        pass_time(PERIOD)
    clients.judge("another user's role changed", client)
    assert client.cancelled() == 0
    if kind == "simple":
        assert client.watch.is_healthy() and client.kube.end is None
        assert all(client.refused(d, began) == 0 for d in client.answers)
    else:  # etcd makes every JWT old; whoever logs in again goes on
        assert clients(tier, caller.login(READER)).watch.is_healthy()


# ---- upstream away ----

AWAY = 60


class Killed:
    def __init__(self, cluster):
        self.cluster = cluster

    def begin(self):
        for member in self.cluster.members:
            member.kill()

    def end(self):
        for member in self.cluster.members:
            member.start("existing", wait=False)
        for member in self.cluster.members:
            member.wait_healthy()


class Stopped(Killed):
    def begin(self):
        for member in self.cluster.members:
            member.stop()

    def end(self):
        for member in self.cluster.members:
            member.cont()


@pytest.mark.parametrize("how", [Stopped, Killed], ids=["stopped", "killed"])
def test_upstream_away_for_a_minute_ends_no_stream_and_gives_nothing(stand, kind, clients, how, soak, figure):
    """Streams that asked for a leader are the exception. After a restart etcd knows those simple tokens again whose logins it
    finds in its log. With others, clients log in again."""
    if not soak:
        needs.full_length(f"upstream is away for {AWAY} s: with BELFRY_SOAK=1 only")
    cluster, tier, caller, _ = stand(3, ticking=False)
    client = clients(tier, caller.login(READER), wait=False)
    leader = TokenWatch(tier.endpoint, caller.login(OTHER), OURS, more=(("hasleader", "true"),))
    procs.wait_until(lambda: client.watch.created and client.kube.events and leader.created, 15, 0.05, "watches")
    outage = how(cluster)
    outage.begin()
    gone = time.monotonic()
    pass_time(AWAY)
    assert client.watch.end is None and client.kube.end is None and client.cancelled() == 0
    assert not [t for d in DIALECTS for t in client.given(d) if t > gone + PERIOD]
    assert leader.end and leader.end[1:] == (14, "etcdserver: no leader"), leader.end
    outage.end()
    back = time.monotonic()
    cluster.ctl_retry("put", "/a/prod/web", '{"replicas":9}')

    def resumed():
        return client.watch.events and len(client.kube.events) == 2

    def sent_away():
        return client.watch.end and client.kube.error
    procs.wait_until(lambda: resumed() or sent_away(), 30, 0.1,
                     lambda: f"{client.watch.end} {client.watch.cancels} {client.kube.events} {client.kube.error}")
    if sent_away():
        assert how is Killed and kind == "simple"
        assert client.watch.end[1] == 14 and client.kube.error == 401 and not client.watch.events
    else:
        assert client.watch.is_healthy() and client.kube.end is None
    figure(f"rights matrix, {kind} tokens, upstream {how.__name__.lower()} for {AWAY} s, "
           f"{'sent away to log in' if sent_away() else 'resumed'} after", time.monotonic() - back, "s")
    clients.judge(f"upstream {how.__name__.lower()} for {AWAY} s", client)
    assert client.cancelled() == 0
    leader.close()
