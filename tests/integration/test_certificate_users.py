"""Clients with a certificate and no password, in front of a real etcd on JWT: the tier next to etcd signs tokens for their users,
and tiers below pass their names on."""
import http.client
import json
import socket
import ssl
import subprocess
import threading
import time

import procs
import pytest
from certs import Certs
from kube import CRDS
from kube_clients import kubectl_path
from ports import free_port
from rights import Caller, Ticker, TokenWatch
from test_rights_facts import ROOT, jwt_flags

PERIOD = 2
OURS, THEIRS = (b"/a/", b"/a0"), (b"/b/", b"/b0")
LIST = "/apis/demo.example.com/v1/configs"
THEIR_LIST = "/apis/demo.example.com/v1/widgets"
DENIED = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
TIER = ("belfry", "b")


class Clients(Certs):
    """An authority and a certificate per user."""

    def __init__(self, folder, *names):
        super().__init__(folder)
        for name in names:
            self._signed(name, f"/CN={name}", "extendedKeyUsage=clientAuth")

    def of(self, name):
        return self.path("ca.pem"), self.path(f"{name}.pem"), self.path(f"{name}.key")

    def flags(self, name, prefix=""):
        authority, cert, key = self.of(name)
        return [f"--{prefix}cacert", authority, f"--{prefix}cert", cert, f"--{prefix}key", key]

    def listen(self, port, *options):
        return ",".join([f"https://127.0.0.1:{port}", f"cert={self.path('server.pem')}", f"key={self.path('server.key')}",
                         f"client-ca={self.path('ca.pem')}", *options])


class Stand:
    """etcd on JWT with users that have no password, and tiers in front of it."""

    def __init__(self, make_cluster, make_tier, folder):
        self.make_cluster, self.make_tier, self.folder = make_cluster, make_tier, folder
        self.certs = Clients(folder / "certs", "alice", "bob", "root", "leaf", "middle", "mallory")
        self.password = folder / "password"
        self.set_password(TIER[1])
        self.key = f"{folder}/jwt.key"

    def set_password(self, password):
        self.password.write_text(password + "\n")
        self.password.chmod(0o600)

    def etcd(self, n=1, flags=None):
        self.cluster = cluster = self.make_cluster(n, flags=jwt_flags(self.folder) if flags is None else flags)
        cluster.put("/a/prod/web", '{"replicas":1}')
        cluster.put("/b/prod/web", '{"secret":"x"}')
        for role, permission, prefix in (("apps", "readwrite", "/a/"), ("others", "read", "/a/"), ("all", "read", "")):
            cluster.ctl("role", "add", role)
            cluster.ctl("role", "grant-permission", "--prefix=true", role, permission, prefix)
        cluster.ctl("user", "add", ":".join(TIER))
        for user, role in (("alice", "apps"), ("bob", "others"), ("leaf", "all"), ("middle", "all"), (TIER[0], "all")):
            if user != TIER[0]:
                cluster.ctl("user", "add", user, "--no-password")
            cluster.ctl("user", "grant-role", user, role)
        cluster.ctl("user", "add", ":".join(ROOT))
        cluster.ctl("user", "grant-role", "root", "root")
        cluster.ctl("auth", "enable")
        cluster.auth = ROOT
        return cluster

    def tier(self, *flags, upstream=None, listen=(), more=()):
        """A tier with one https listener; `more`: listeners besides."""
        port = free_port()
        tier = self.make_tier(upstream or self.cluster, "--rights-period", f"{PERIOD}s",
                              "--resources", f"{CRDS}/configs.yaml,prefix=/a/,wrap=spec",
                              "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec", *flags,
                              listen=[self.certs.listen(port, *listen), *more])
        tier.port = port
        return tier

    def log_in(self):
        return ["--upstream-user", TIER[0], "--upstream-password-file", str(self.password)]

    def keyed(self, *flags, **kw):
        return self.tier(*self.log_in(), "--upstream-token-key", self.key, *flags, **kw)

    def below(self, above, name, *flags, **kw):
        """A tier that passes its clients' users on, by the certificate `name`."""
        return self.tier("--name", name, "--pass-users", *self.certs.flags(name, "upstream-"), *flags,
                         upstream=f"https://{above.endpoint}", **kw)

    def caller(self, tier, name, **kw):
        return Caller(tier.endpoint, self.certs.of(name), **kw)

    def watch(self, tier, name, *ranges, **kw):
        return TokenWatch(tier.endpoint, None, *(ranges or (OURS,)), credentials=self.certs.of(name), **kw)

    def watching(self, tier, name):
        watch = self.watch(tier, name)
        procs.wait_until(lambda: watch.created, 10, 0.05, lambda: f"created: {watch.cancels} {watch.end} {tier.log()[-2000:]}")
        return watch

    def refused(self, tier, name, *, ranges=(OURS,), **kw):
        """The reason for which a watch is refused."""
        watch = self.watch(tier, name, *ranges, **kw)
        procs.wait_until(lambda: watch.cancels or watch.end, 10, 0.05, "refused")
        assert not watch.created and not watch.events
        reason = watch.cancels[0][2] if watch.cancels else f"{watch.end[1]} {watch.end[2]}"
        watch.close()
        return reason

    def ctl(self, tier, name, *args, timeout=20):
        """(exit code, standard output and error) of etcdctl with the certificate alone."""
        done = subprocess.run(["etcdctl", "--endpoints", f"https://{tier.endpoint}", *self.certs.flags(name), *args], text=True,
                              timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def get(self, tier, name, path, headers=None):
        """(status, body) of a request by HTTP."""
        connection = self.https(tier, name)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def https(self, tier, name):
        authority, cert, key = self.certs.of(name)
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(cert, key)
        return http.client.HTTPSConnection(tier.endpoint, context=context, timeout=30)


class KubeWatch:
    """A watch of Kubernetes with a certificate: `events` are (when, type, object)."""

    def __init__(self, stand, tier, name):
        self.connection = stand.https(tier, name)
        self.connection.request("GET", LIST + "?watch=1")
        self.answer = self.connection.getresponse()
        self.code, self.events = self.answer.status, []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            for line in self.answer:
                event = json.loads(line)
                self.events.append((time.monotonic(), event["type"], event["object"]))
        except (OSError, ValueError, http.client.HTTPException):
            pass

    def close(self):
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close() would wait for
        self.connection.close()


@pytest.fixture
def stand(make_cluster, make_tier, tmp_path):
    return Stand(make_cluster, make_tier, tmp_path)


def late(events, since):
    return [e for e in events if e[0] > since + PERIOD]


def values(watch):
    return [value for _, _, _, value in watch.events]


def test_a_certificate_alone_works_in_every_dialect(stand):
    stand.etcd()
    tier = stand.keyed()
    assert stand.ctl(tier, "alice", "put", "/a/prod/web", '{"replicas":2}') == (0, "OK\n")
    assert stand.ctl(tier, "alice", "get", "/a/prod/web") == (0, '/a/prod/web\n{"replicas":2}\n')
    for args in (("get", "/b/prod/web"), ("put", "/b/x", "y"), ("get", "", "--prefix")):
        code, text = stand.ctl(tier, "alice", *args)
        assert code != 0 and "permission denied" in text and "secret" not in text
    code, text = stand.ctl(tier, "bob", "put", "/a/prod/web", "no")
    assert code != 0 and "permission denied" in text  # bob may read
    code, text = stand.ctl(tier, "mallory", "get", "/a/", "--prefix")
    assert code != 0 and "permission denied" in text  # no such user
    etcdctl = subprocess.Popen(["etcdctl", "--endpoints", f"https://{tier.endpoint}", *stand.certs.flags("alice"), "watch", "/a/",
                                "--prefix", "--rev", "1"], stdout=subprocess.PIPE, text=True)
    assert [etcdctl.stdout.readline().strip() for _ in range(3)] == ["PUT", "/a/prod/web", '{"replicas":1}']
    etcdctl.kill()
    watch = stand.watch(tier, "alice", OURS, THEIRS, (b"\0", b"\0"))
    procs.wait_until(lambda: watch.created and len(watch.cancels) == 2, 10, 0.05, "one of three")
    assert {reason for _, _, reason in watch.cancels} == {DENIED}
    shown = json.loads(tier.get("/debug/watchers?limit=10")[1])
    assert "cert:alice" in json.dumps(shown)
    status, body = stand.get(tier, "alice", LIST)
    assert status == 200 and json.loads(body)["items"][0]["spec"] == {"replicas": 2}
    assert stand.get(tier, "alice", THEIR_LIST)[0] == 403
    status, body = stand.get(tier, "alice", "/apis/demo.example.com/v1")
    assert status == 200 and [r["name"] for r in json.loads(body)["resources"]] == ["configs"]
    kube = KubeWatch(stand, tier, "alice")
    assert kube.code == 200
    stand.cluster.put("/a/prod/web", '{"replicas":3}')
    procs.wait_until(lambda: watch.events and kube.events, 10, 0.05, "the change")
    procs.wait_until(lambda: kube.events[-1][2]["spec"] == {"replicas": 3}, 10, 0.05, "the change")
    assert values(watch) == [b'{"replicas":3}']
    caller = stand.caller(tier, "bob")
    token = Caller(stand.cluster.members[0].endpoint).login(TIER)
    assert caller.range(None, *THEIRS)[0] == 7
    assert caller.range(token, *THEIRS)[0] == 0  # a token wins
    assert caller.range("nonsense", *OURS)[0] == 16
    kube.close()
    watch.close()
    caller.close()


@pytest.mark.parametrize("how", ["role revoked", "permission revoked", "user deleted"])
def test_a_right_that_is_revoked_ends_within_a_period(stand, how):
    cluster = stand.etcd()
    tier = stand.keyed()
    root = [Caller(cluster.members[0].endpoint).login(ROOT)]
    ticker = Ticker(cluster.members[0].endpoint, lambda: root[0], b"/a/prod/web")
    watch, healthy, kube = stand.watching(tier, "alice"), stand.watching(tier, "bob"), KubeWatch(stand, tier, "alice")
    procs.wait_until(lambda: len(watch.events) > 5 and len(kube.events) > 5, 10, 0.05, "events")
    cluster.ctl(*{"role revoked": ("user", "revoke-role", "alice", "apps"),
                  "permission revoked": ("role", "revoke-permission", "--prefix=true", "apps", "/a/"),
                  "user deleted": ("user", "delete", "alice")}[how])
    revoked = time.monotonic()
    root[0] = Caller(cluster.members[0].endpoint).login(ROOT)
    procs.wait_until(lambda: watch.cancels, 2 * PERIOD + 5, 0.05, lambda: f"a cancel: {watch.end}")
    time.sleep(max(0, revoked + 2 * PERIOD - time.monotonic()))
    assert not late(watch.events, revoked) and not late([e for e in kube.events if e[1] != "ERROR"], revoked)
    assert watch.cancels[0][2] == DENIED
    assert kube.events[-1][1] == "ERROR" and kube.events[-1][2]["code"] == 403
    assert stand.caller(tier, "alice").range(None, *OURS)[0] == 7
    n = len(healthy.events)
    procs.wait_until(lambda: len(healthy.events) > n + 5, 10, 0.05, "the other watch goes on")
    assert healthy.is_healthy()
    ticker.stop()
    watch.close()
    healthy.close()
    kube.close()


def test_changes_of_other_roles_lose_no_event_and_cancel_no_watch(stand, figure):
    """Each change makes every token old."""
    cluster = stand.etcd()
    tier = stand.keyed()
    watch, kube = stand.watching(tier, "alice"), KubeWatch(stand, tier, "alice")
    caller = stand.caller(tier, "alice")
    assert caller.range(None, *OURS)[0] == 0
    n, old = 0, 0
    for i in range(6):
        cluster.ctl("role", "add", f"role{i}")
        end = time.monotonic() + 1
        while time.monotonic() < end:  # the writes go through the tier, too
            code, text = caller.put(b"/a/prod/web", b'{"n":%d}' % (n + 1))
            n += code == 0
            old += code != 0
            assert code == 0 or "revision of auth store is old" in text, (code, text)
            time.sleep(0.02)
    procs.wait_until(lambda: len(watch.events) == n, 3 * PERIOD + 5, 0.05, lambda: f"{n} events: {len(watch.events)} {watch.cancels}")
    assert values(watch) == [b'{"n":%d}' % (i + 1) for i in range(n)]
    procs.wait_until(lambda: kube.events[-1][2]["spec"] == {"n": n}, 10, 0.05, "Kubernetes' last event")
    assert watch.is_healthy() and not [e for e in kube.events if e[1] == "ERROR"]
    log_ins = tier.metrics()["belfry_tier_log_ins_total"]
    figure("certificate_users_old", f"{old}/{n + old}", f"writes answered with 'old' after 6 changes of roles; {log_ins:.0f} log-ins")
    assert 2 <= log_ins <= 8  # not one per watch, client or worker
    assert old <= 12  # the calls come one after another: each change meets one of them, or two
    watch.close()
    kube.close()
    caller.close()


def test_root_needs_to_be_allowed(stand):
    stand.etcd()
    tier = stand.keyed()
    for reason in (stand.refused(tier, "root"), stand.ctl(tier, "root", "get", "/a/prod/web")[1],
                   stand.get(tier, "root", LIST)[1].decode()):
        assert "the user root cannot be used by a client certificate here" in reason and "--allow-root" in reason
    assert stand.get(tier, "root", LIST)[0] == 401
    allowed = stand.keyed("--allow-root")
    assert stand.ctl(allowed, "root", "get", "/b/prod/web")[0] == 0
    assert "alice" in stand.ctl(allowed, "root", "user", "list")[1]


def test_a_tier_without_a_key_says_why(stand):
    """And no client comes back again and again."""
    stand.etcd()
    tier = stand.tier(*stand.log_in())
    why = "cannot tell etcd the user of a client certificate"
    assert why in stand.refused(tier, "alice")
    for path in (LIST, LIST + "?watch=1", "/apis/demo.example.com/v1"):
        status, body = stand.get(tier, "alice", path)
        assert status == 401 and why in json.loads(body)["message"]
    code, text = stand.caller(tier, "alice").range(None, *OURS)
    assert code == 16 and why in text
    before = tier.metrics()['belfry_upstream_fallbacks_total{reason="relay"}']
    for args in (("get", "/a/", "--prefix"), ("put", "/a/x", "y"), ("watch", "/a/", "--prefix")):
        code, text = stand.ctl(tier, "alice", *args)
        assert (code != 0 or args[0] == "watch") and why in text, (args, code, text)
    assert tier.metrics()['belfry_upstream_fallbacks_total{reason="relay"}'] - before <= 6
    assert stand.ctl(tier, "alice", "endpoint", "status")[0] == 0  # what etcd answers to everyone


def test_tokens_that_etcd_does_not_take_are_explained(stand, tmp_path):
    stand.etcd()
    other = tmp_path / "other.key"
    procs.run(["openssl", "genrsa", "-out", str(other), "2048"])
    other.chmod(0o600)
    tier = stand.tier(*stand.log_in(), "--upstream-token-key", str(other))
    why = "etcd does not accept the token that this tier has signed"
    assert why in stand.refused(tier, "alice")
    assert why in json.loads(stand.get(tier, "alice", LIST)[1])["message"]


def test_simple_tokens_are_explained(stand):
    jwt_flags(stand.folder)  # a key that fits nothing
    stand.etcd(flags=[])
    tier = stand.keyed()
    why = "etcd's tokens are no JWTs"
    assert why in stand.refused(tier, "alice")
    code, text = stand.caller(tier, "alice").range(None, *OURS)
    assert code == 16 and why in text
    assert tier.log().count("event=no_certificate_users") == 1
    assert stand.caller(tier, "alice").range(stand.caller(tier, "alice").login(TIER), *OURS)[0] == 0


def test_a_tier_that_is_locked_out_pauses_and_says_so(stand):
    cluster = stand.etcd()
    tier = stand.keyed()
    watch = stand.watching(tier, "alice")
    caller = stand.caller(tier, "alice")
    assert caller.range(None, *OURS)[0] == 0
    subprocess.run(["etcdctl", "--endpoints", cluster.members[0].url, "--user", ":".join(ROOT), "user", "passwd", TIER[0],
                    "--interactive=false"], input="other\n", text=True, check=True, capture_output=True)
    caller.range(None, *OURS)  # its token is old, so the tier logs in

    def is_told():
        code, text = caller.range(None, *OURS)
        return code == 14 and "this tier cannot log in to upstream" in text
    procs.wait_until(is_told, 10, 0.1, lambda: f"unavailable: {caller.range(None, *OURS)}")
    time.sleep(PERIOD)
    assert watch.is_healthy()
    stand.set_password("other")
    procs.wait_until(lambda: caller.range(None, *OURS)[0] == 0, 30, 0.2, "it can log in again")
    cluster.put("/a/prod/web", "again")
    procs.wait_until(lambda: values(watch)[-1:] == [b"again"], 30, 0.05, "the watch goes on")
    assert watch.is_healthy()
    watch.close()


def test_users_come_through_tiers(stand):
    """etcd, a tier with the key, one that passes names on, and a leaf that does."""
    cluster = stand.etcd()
    top = stand.keyed("--name", "top", listen=("users-from=middle+other",))
    middle = stand.below(top, "middle", listen=("users-from=leaf",))
    leaf = stand.below(middle, "leaf", more=(f"http://127.0.0.1:{(plain := free_port())},rights=upstream",))
    assert stand.ctl(leaf, "alice", "put", "/a/prod/web", '{"replicas":4}') == (0, "OK\n")
    assert stand.ctl(leaf, "alice", "get", "/a/prod/web") == (0, '/a/prod/web\n{"replicas":4}\n')
    code, text = stand.ctl(leaf, "alice", "get", "/b/prod/web")
    assert code != 0 and "permission denied" in text
    assert json.loads(stand.get(leaf, "alice", LIST)[1])["items"][0]["spec"] == {"replicas": 4}
    assert stand.get(leaf, "alice", THEIR_LIST)[0] == 403
    assert stand.refused(leaf, "alice", ranges=(THEIRS,)) == DENIED
    assert "the user root cannot be used" in stand.refused(leaf, "root")
    code, text = stand.ctl(leaf, "root", "get", "/a/prod/web")
    assert code != 0 and "the user root cannot be used" in text
    # A client without anything has nothing: not even the rights of the tiers on the way, which may read all.
    anonymous = Caller(f"127.0.0.1:{plain}")
    assert anonymous.range(None, *OURS) == (3, "etcdserver: user name is empty")
    assert anonymous.put(b"/a/x", b"y") == (3, "etcdserver: user name is empty")
    assert stand.caller(top, "leaf").range(None, *THEIRS)[0] == 0  # a tier's own certificate is its own user
    watch = stand.watching(leaf, "alice")
    cluster.ctl("role", "add", "another")
    for i in range(20):
        cluster.put("/a/prod/web", f"{i}")
        time.sleep(PERIOD / 10)
    procs.wait_until(lambda: len(watch.events) == 20, 10, 0.05, lambda: f"20 events: {len(watch.events)}")
    assert watch.is_healthy()
    cluster.ctl("user", "revoke-role", "alice", "apps")
    revoked = time.monotonic()
    procs.wait_until(lambda: watch.cancels, 2 * PERIOD + 5, 0.05, lambda: f"a cancel: {watch.end}")
    assert watch.cancels[0][2] == DENIED and watch.cancels[0][0] < revoked + PERIOD + 0.5
    watch.close()


def test_a_user_is_taken_from_named_tiers_only(stand):
    stand.etcd()
    tier = stand.keyed(listen=("users-from=leaf",))
    forged = (("belfry-user", '"alice"'),)
    own = stand.caller(tier, "leaf", metadata=forged)
    assert own.range(None, *OURS)[0] == 0 and own.range(None, *THEIRS)[0] == 7  # as alice, not as leaf
    for name in ("mallory", "bob", "alice"):
        caller = stand.caller(tier, name, metadata=forged)
        for call in (caller.range, lambda *_: caller.put(b"/a/x", b"y")):
            code, text = call(None, *OURS)
            assert code == 16 and "belfry-user is taken only from tiers" in text and caller.body == b""
        assert "belfry-user is taken only from tiers" in stand.refused(tier, name, more=forged)
        status, body = stand.get(tier, name, LIST, {"Belfry-User": '"alice"'})
        assert status == 401 and b"web" not in body
        caller.close()
    token = Caller(stand.cluster.members[0].endpoint).login(TIER)
    code, text = own.range(token, *OURS)
    assert code == 16 and "not both" in text
    for value in ("alice", '"', '""', '"a"b"', '"' + 256 * "a" + '"'):
        code, text = stand.caller(tier, "leaf", metadata=(("belfry-user", value),)).range(None, *OURS)
        assert code == 16 and "no name" in text, (value, code, text)
    code, text = stand.caller(tier, "leaf", metadata=forged + forged).range(None, *OURS)
    assert code == 16
    assert stand.caller(tier, "bob", metadata=(("grpcgateway-accept", "x"),)).range(None, *OURS)[0] == 3  # as in etcd
    assert tier.metrics()['belfry_rejected_total{reason="belfry_user"}'] >= 15


def test_members_fail_over(stand):
    cluster = stand.etcd(3)
    tier = stand.keyed()
    watch, caller = stand.watching(tier, "alice"), stand.caller(tier, "alice")
    assert caller.range(None, *OURS)[0] == 0
    n = 0
    for member in cluster.members[:2]:
        member.kill()
        cluster_up = [m for m in cluster.members if m is not member]
        procs.wait_until(lambda: caller.range(None, *OURS, timeout=5)[0] == 0, 30, 0.2, "calls work")
        writer = Caller(cluster_up[0].endpoint)
        procs.wait_until(lambda: writer.put(b"/a/prod/web", b"%d" % n, writer.login(ROOT))[0] == 0, 30, 0.2, "a write")
        n += 1
        other = stand.watching(tier, "bob")
        procs.wait_until(lambda: len(watch.events) == n, 30, 0.05, "the event")
        other.close()
        writer.close()
        member.start(state="existing")
        time.sleep(2 * PERIOD)
    assert watch.is_healthy()
    watch.close()



def test_kubectl_works_by_a_certificate_and_reads_why_it_may_not(stand, tmp_path):
    stand.etcd()
    authority, cert, key = stand.certs.of("alice")

    def kubectl(tier, *args):
        flags = ["--server", f"https://{tier.endpoint}", "--certificate-authority", authority, "--client-certificate", cert,
                 "--client-key", key, "--kubeconfig", "/dev/null", "--cache-dir", str(tmp_path / f"cache{tier.port}")]
        done = subprocess.run([kubectl_path(), *flags, *args], text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout + done.stderr
    code, text = kubectl(stand.keyed(), "get", "configs", "-A", "-o", "name")
    assert (code, text) == (0, "config.demo.example.com/web\n")
    tier = stand.tier(*stand.log_in())
    began = time.monotonic()
    code, text = kubectl(tier, "get", "--raw", LIST)
    assert code != 0 and time.monotonic() - began < 30, text
    assert "cannot tell etcd the user of a client certificate" in text or "provide credentials" in text, text


def test_a_ticket_is_of_the_user_of_its_certificate(stand, tmp_path):
    """Whoever brings it, and on a tier below, too. The certificate of the connection does not count besides."""
    keys = tmp_path / "ticket.keys"
    keys.write_text("00112233445566778899aabbccddeeff" * 2 + "\n")
    keys.chmod(0o600)
    stand.etcd()
    above = stand.keyed("--ticket-key-file", str(keys), listen=["users-from=leaf"])
    tiers = [above, stand.below(above, "leaf", "--ticket-key-file", str(keys))]

    def ticket(tier, name):
        connection = stand.https(tier, name)
        connection.request("POST", "/v1/ticket")
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status == 200, body
        return json.loads(body)["ticket"]

    def status(tier, name, prefix, text):
        connection = stand.https(tier, name)
        connection.request("GET", f"/v1/events?prefix={prefix}&ticket={text}")
        code = connection.getresponse().status
        connection.close()
        return code
    of_alice, of_middle, of_root = ticket(above, "alice"), ticket(tiers[1], "middle"), ticket(above, "root")
    for tier in tiers:
        assert status(tier, "bob", "/a/", of_alice) == 200
        assert status(tier, "middle", "/b/", of_alice) == 403, "middle may read it, alice may not"
        assert status(tier, "alice", "/b/", of_middle) == 200
        assert status(tier, "alice", "/a/", of_root) == 401, "not without --allow-root"
    stand.cluster.ctl("user", "revoke-role", "alice", "apps")
    procs.wait_until(lambda: status(above, "bob", "/a/", of_alice) == 403, 20, 0.2, "a ticket keeps no right alive")
