"""The tier's own identity is never lent: whatever is in the certificate that it presents to etcd, now or after a rotation, a
client without a token is answered as etcd answers an anonymous client."""
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
import urllib.request

import procs
import pytest
import rawh2
from certs import Certs
from client import go_binary
from etcd import version_of
from kube import CRDS, request
from proxy import Proxy
from test_security import ROOT, enable_auth

UNNAMED, NAMED, OTHER = "unnamed", "named", "other"  # certificates: without a common name; CN=root; CN=belfryd, which is no user
FIELD = "grpcgateway-accept"
ORDINARY = ["KV/Range", "KV/Put", "KV/DeleteRange", "KV/Txn", "Lease/LeaseGrant", "Lease/LeaseKeepAlive", "Lease/LeaseLeases",
            "Cluster/MemberList", "Maintenance/Status", "Watch/Watch"]
LISTED = "/apis/demo.example.com/v1/widgets"  # under /b/
SLOW_MACHINE = ("took too long", "slow fdatasync", "failed to send out heartbeat", "is overloaded")


@pytest.fixture
def certs(tmp_path):
    made = Certs(tmp_path / "certs", client_auth=True)
    for name, subject in ((UNNAMED, "/O=belfry"), (NAMED, "/CN=root"), (OTHER, "/CN=belfryd")):
        made._signed(name, subject, "extendedKeyUsage=clientAuth")
    return made


@pytest.fixture
def make_pair(make_cluster, make_tier, certs, tmp_path):
    """make_pair(certificate, auth=..., logs=True): an etcd that knows users by their certificates, a way to it that can be
    cut, and a tier; with logs=True etcd logs warnings."""
    proxies = []

    def make(certificate, auth, logs=False):
        cluster = make_cluster(1, tls=certs, flags=["--log-level", "warn"] if logs else [])
        cluster.put("/b/prod/web", '{"secret":"x"}')
        if auth:
            enable_auth(cluster)
        password = tmp_path / "password"
        password.write_text(ROOT[1] + "\n")
        password.chmod(0o600)
        rotate(certs, certificate)
        proxies.append(Proxy(cluster.members[0].endpoint))
        user = ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)] if auth else []
        tier = make_tier(f"https://{proxies[-1].endpoint}", "--upstream-cacert", certs.path("ca.pem"), "--upstream-cert",
                         certs.path("tier.pem"), "--upstream-key", certs.path("tier.key"), *user, "--resources",
                         f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec", rights="upstream" if auth else "open+writes")
        return cluster, proxies[-1], tier
    yield make
    for proxy in proxies:
        proxy.close()


def rotate(certs, name):
    for suffix in ("key", "pem"):
        shutil.copy(certs.path(f"{name}.{suffix}"), certs.path(f"fresh.{suffix}"))
        os.replace(certs.path(f"fresh.{suffix}"), certs.path(f"tier.{suffix}"))


def token(cluster, certs, user):
    """As Authenticate gives it, by etcd's JSON gateway."""
    context = ssl.create_default_context(cafile=certs.path("ca.pem"))
    context.load_cert_chain(certs.path(f"{UNNAMED}.pem"), certs.path(f"{UNNAMED}.key"))
    body = json.dumps({"name": user[0], "password": user[1]}).encode()
    url = f"{cluster.members[0].url}/v3/auth/authenticate"
    with urllib.request.urlopen(url, body, timeout=10, context=context) as answer:
        return json.load(answer)["token"]


def each_once(endpoint, *options):
    """method -> (code, message), of every method of etcd's API."""
    out = procs.run([go_binary("goeverycall"), endpoint, "once", *options], timeout=300).stdout
    return {method: (found["code"], found["message"]) for method, found in json.loads(out).items()}


def direct_once(cluster, certs, certificate, *options):
    return each_once(cluster.members[0].endpoint, f"cacert={certs.path('ca.pem')}", f"cert={certs.path(certificate + '.pem')}",
                     f"key={certs.path(certificate + '.key')}", *options)


class Load:
    """Methods called again and again, by goeverycall."""

    def __init__(self, endpoint, *options):
        self.proc = procs.spawn([go_binary("goeverycall"), endpoint, "load", *options], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)

    def counts(self):
        """method -> {outcome: times}; an outcome is "0", or a code and its message."""
        self.proc.stdin.write(b"count\n")
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def total(self):
        return sum(n for outcomes in self.counts().values() for n in outcomes.values())

    def end(self):
        self.proc.stdin.close()
        counts = json.loads(self.proc.stdout.readline())
        self.proc.wait(30)
        procs.end(self.proc)
        return counts


def good(counts):
    return {method: outcomes["0"] for method, outcomes in counts.items() if "0" in outcomes}


class Lists(threading.Thread):
    """Kubernetes lists and watches without a token, again and again."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.endpoint, self.codes, self.is_over = endpoint, {}, False
        self.start()

    def run(self):
        while not self.is_over:
            for query in (None, "resourceVersion=0", "watch=1&resourceVersion=1&timeoutSeconds=1"):
                code = request(self.endpoint, LISTED, query).code
                self.codes[code] = self.codes.get(code, 0) + 1
            time.sleep(0.02)

    def end(self):
        self.is_over = True
        self.join(40)
        return self.codes


def log_lines(cluster):
    """Of etcd's log, without what it says of a machine that is busy."""
    with open(cluster.members[0].log_path, errors="replace") as f:
        return [line for line in f if not any(text in line for text in SLOW_MACHINE)]


def ignored(cluster):
    return sum("ignoring common name" in line for line in log_lines(cluster))


def test_etcd_ignores_the_common_name_where_the_field_is(make_pair, certs):
    """What all of this relies on."""
    cluster, _, _ = make_pair(NAMED, auth=True, logs=True)
    open_to_all = "Lease/LeaseGrant" if version_of() < (3, 7) else "Auth/AuthStatus"
    only = f"only=KV/Range,KV/Put,{open_to_all},Auth/UserList"
    assert set(direct_once(cluster, certs, NAMED, only).values()) == {(0, "")}
    assert ignored(cluster) == 0
    found = direct_once(cluster, certs, NAMED, only, f"field={FIELD}")
    assert found.pop(open_to_all) == (0, ""), "etcd answers it to everybody"
    assert set(found.values()) == {(3, "etcdserver: user name is empty")}
    assert ignored(cluster) == 4


@pytest.mark.parametrize("certificate", [NAMED, OTHER])
def test_anonymous_client_is_answered_as_by_etcd(make_pair, certs, certificate):
    """Method by method: in the same words, those included that etcd answers without a user."""
    cluster, _, tier = make_pair(certificate, auth=True)
    cluster.compact(1)
    by_etcd = direct_once(cluster, certs, NAMED, f"field={FIELD}")
    by_tier = each_once(tier.endpoint)
    assert by_tier == by_etcd
    granted = {method for method, (code, _) in by_tier.items() if code == 0}
    assert granted & {"Maintenance/Status", "Auth/AuthStatus"} and not granted & {"KV/Range", "KV/Put", "Auth/UserList", "Maintenance/Snapshot"}


@pytest.mark.parametrize("auth", [True, False], ids=["auth", "open"])
def test_rotation_under_load(make_pair, certs, auth, soak, figure):
    """No common name, CN=root, no common name, while clients with and without tokens go on."""
    cluster, proxy, tier = make_pair(UNNAMED, auth, logs=True)
    seconds, rounds = (10, 15) if soak else (2, 1)
    everyone = set()
    if auth:
        for options in ((UNNAMED,), (NAMED, f"field={FIELD}")):
            everyone |= {m for m, (code, _) in direct_once(cluster, certs, *options).items() if code == 0}
        assert "KV/Put" not in everyone and "KV/Range" not in everyone
    only = [] if auth else ["only=" + ",".join(ORDINARY)]
    anonymous, lists = Load(tier.endpoint, *only), Lists(tier.endpoint)
    known = Load(tier.endpoint, "only=" + ",".join(ORDINARY), *([f"token={token(cluster, certs, ROOT)}"] if auth else []))
    cuts = 0

    def lent():
        """What anonymous calls were given that etcd gives to nobody, which is what they got by the tier's certificate."""
        return {method: n for method, n in good(anonymous.counts()).items() if auth and method not in everyone}
    for certificate in [UNNAMED, NAMED] * rounds + [UNNAMED]:
        rotate(certs, certificate)
        for _ in range(2):  # what was under way is caught at another moment each time
            proxy.cut()
            before = good(known.counts())
            time.sleep(seconds / 2)
            assert lent() == {}, certificate
            procs.wait_until(lambda: all(good(known.counts()).get(m, 0) > before.get(m, 0) for m in ORDINARY), 30, 0.2,
                             lambda: f"{certificate}: calls go on: {before} {known.counts()}")
            cuts += 1
    n_lent = sum(lent().values())
    served, refused, codes = good(known.end()), anonymous.end(), lists.end()
    calls = sum(n for outcomes in refused.values() for n in outcomes.values())
    figure(f"identity.rotation.{'auth' if auth else 'open'}.calls", sum(served.values()))
    figure(f"identity.rotation.{'auth' if auth else 'open'}.anonymous_calls", calls)
    figure(f"identity.rotation.{'auth' if auth else 'open'}.cuts", cuts)
    if auth:
        figure("identity.rotation.anonymous_calls_that_succeeded", n_lent)
        figure("identity.rotation.anonymous_lists", sum(codes.values()))
        assert n_lent == 0
        assert set(codes) <= {401, 429, 503} and codes[401] > 0, codes
        assert ignored(cluster) > 0, "CN=root was never presented"
    else:
        assert set(good(refused)) == set(ORDINARY), refused
        assert codes.get(200, 0) > 0 and 401 not in codes, codes


@pytest.mark.parametrize("certificate", [NAMED, OTHER])
@pytest.mark.parametrize("auth", [True, False], ids=["auth", "open"])
def test_etcds_log_does_not_grow(make_pair, certs, auth, certificate, figure):
    """The field makes etcd log a warning for each call, so it is sent only where it matters."""
    cluster, _, tier = make_pair(certificate, auth, logs=True)
    options = ["only=" + ",".join(ORDINARY), "pause=5ms"] + ([f"token={token(cluster, certs, ROOT)}"] if auth else [])
    before = log_lines(cluster)
    load = Load(tier.endpoint, *options)
    procs.wait_until(lambda: load.total() >= 1000, 60, 0.1, "1,000 calls")
    counts = load.end()
    assert set(good(counts)) == set(ORDINARY), counts
    figure("identity.log.calls", sum(n for outcomes in counts.values() for n in outcomes.values()))
    assert log_lines(cluster)[len(before):] == []


def test_request_that_is_held_back_is_not_carried_out_when_auth_is_on(make_pair, certs):
    """etcd looks for the user when it has the whole request, whose head went up while auth was off. The request is too
    large for belfryd to keep until it is whole."""
    cluster, _, tier = make_pair(NAMED, auth=False)
    put = rawh2.message(b"\x0a\x07/b/held\x12\xc0\xb8\x02" + b"x" * 40000)  # a PutRequest
    client = rawh2.Connection(tier.port)
    client.send(rawh2.frame(rawh2.HEADERS, rawh2.END_HEADERS, 1, rawh2.grpc_head(b"/etcdserverpb.KV/Put")))
    for at in range(0, len(put) - 1, 10000):
        client.send(rawh2.frame(rawh2.DATA, 0, 1, put[at:min(at + 10000, len(put) - 1)]))
    time.sleep(0.5)  # it is with etcd, but for its last byte
    enable_auth(cluster)
    while client.read(8)[0] != rawh2.HEADERS:
        pass
    client.send(rawh2.frame(rawh2.DATA, 1, 1, put[-1:]))
    time.sleep(0.3)
    client.close()
    assert cluster.ctl("get", "/b/held").stdout == b""


def test_lock_that_waits_does_not_outlive_auth_being_turned_on(make_pair, certs):
    """It would be taken with the rights of the tier's certificate, which nobody looked at when it was asked for."""
    cluster, _, tier = make_pair(NAMED, auth=False)
    leases = [json.loads(cluster.ctl("lease", "grant", "600", "-w", "json").stdout)["ID"] for _ in range(2)]
    assert each_once(tier.endpoint, "only=Lock/Lock", f"lease={leases[0]}") == {"Lock/Lock": (0, "")}
    waiting = procs.spawn([go_binary("goeverycall"), tier.endpoint, "once", "only=Lock/Lock", f"lease={leases[1]}"],
                          stdout=subprocess.PIPE)
    procs.wait_until(lambda: cluster.ctl("get", "--prefix", "/b/lock", "--keys-only").stdout.count(b"/b/lock") == 2, 10, 0.1,
                     "the second waits")
    enable_auth(cluster)
    out, _ = waiting.communicate(timeout=30)
    found = json.loads(out)["Lock/Lock"]
    assert found == {"code": 3, "message": "etcdserver: user name is empty"}
