"""belfryd in front of an etcd with mTLS and auth on: everybody gets what upstream grants to their own token."""
import shlex
import time

import procs
import pytest
from certs import Certs
from checker import Spec
from client import Recorder
from etcd import PATIENT
from test_security import READER, ROOT, enable_auth

TTL = 3


@pytest.fixture
def guarded(make_cluster, make_tier, tmp_path):
    """Three members with mTLS, auth and tokens that expire; a tier with a certificate and a user of its own. Its questions
    keep the tokens of running watches alive, as long as its period is shorter than they live."""
    certs = Certs(tmp_path / "certs", client_auth=True)
    certs._signed("tier", "/CN=belfryd", "extendedKeyUsage=clientAuth")
    cluster = make_cluster(3, tls=certs, flags=["--auth-token", "simple", "--auth-token-ttl", str(TTL)])
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-cacert", certs.path("ca.pem"), "--upstream-cert", certs.path("tier.pem"),
                     "--upstream-key", certs.path("tier.key"), "--upstream-user", ROOT[0], "--upstream-password-file",
                     str(password), "--rights-period", f"{TTL - 1}s", rights="upstream")
    return cluster, tier


@pytest.mark.parametrize("scope", ["", "/app/"], ids=["everything", "scope"])
def test_a_tier_without_rights_says_how_to_grant_them(make_cluster, make_tier, tmp_path, scope):
    cluster = make_cluster()
    enable_auth(cluster)
    cluster.ctl("user", "add", "tier:secret")
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o600)
    flags = ["--upstream-user", "tier", "--upstream-password-file", str(password)]
    tier = make_tier(cluster, *flags, *(["--scope", scope] if scope else []), wait=False, rights="upstream")

    def denied():
        return [line for line in tier.log().splitlines() if "event=upstream_denied" in line]
    procs.wait_until(denied, 5, 0.1, lambda: f"a line about rights: {tier.log()}")
    assert "level=error" in denied()[0] and "permission denied" in denied()[0]
    time.sleep(5)
    assert len(denied()) == 1, "said once, tried again and again"
    assert "permission denied" in tier.get("/readyz")[1]
    commands = denied()[0].split("as root: ")[1].rstrip('"').split("; ")
    assert len(commands) == 3 and all(c.startswith("etcdctl ") for c in commands), commands
    for command in commands:
        cluster.ctl(*shlex.split(command)[1:])
    tier.wait_ready()
    assert len(denied()) == 1


def test_a_tier_without_a_user_says_what_it_needs(make_cluster, make_tier):
    cluster = make_cluster()
    enable_auth(cluster)
    tier = make_tier(cluster, wait=False)
    procs.wait_until(lambda: "event=upstream_denied" in tier.log(), 5, 0.1, lambda: f"a line about users: {tier.log()}")
    time.sleep(3)
    lines = [line for line in tier.log().splitlines() if "event=upstream_denied" in line]
    assert len(lines) == 1 and "level=error" in lines[0] and "--upstream-user" in lines[0], lines
    assert "user name is empty" in tier.get("/readyz")[1]


def ctl(tier, *args, user=None, **kw):
    flags = ["--user", ":".join(user)] if user else []
    return procs.run(["etcdctl", "--endpoints", tier.endpoint, *PATIENT, *flags, *args], check=False, **kw)


def ended(recorder, number=0, timeout=15):
    recorder.wait_state(number, "ended", timeout)
    return recorder.status()[number]


def test_rights_are_those_of_the_client(guarded, tmp_path):
    cluster, tier = guarded
    cluster.put("/a/1", "seen")
    cluster.put("/b/1", "secret")
    assert ctl(tier, "get", "/a/1", user=READER).stdout == b"/a/1\nseen\n"
    assert b"permission denied" in ctl(tier, "get", "/b/1", user=READER).stderr
    assert ctl(tier, "get", "/a/1").returncode != 0, "without a token the tier's own certificate must not count"
    assert b"user name is empty" in ctl(tier, "get", "/a/1").stderr

    user = ["user=" + READER[0], "password=" + READER[1]]
    allowed = Recorder(tier.endpoint, tmp_path / "allowed", user, go=True)
    allowed.open(Spec(0, "prefix", b"/a/", rev="1"))
    forbidden = [Spec(1, "prefix", b"/b/", rev="1"), Spec(2, "from", b"/a/1", rev="1"), Spec(3, "prefix", b"", rev="1"),
                 Spec(4, "key", b"/b/1", rev="1"), Spec(5, "interval", b"/a/", b"/b/2", rev="1")]
    for spec in forbidden:
        recorder = Recorder(tier.endpoint, tmp_path / f"forbidden{spec.number}", user, go=True)
        recorder.open(spec)
        state = ended(recorder, spec.number)
        assert "permission_denied" in state["err"] and state["n_events"] == 0, state
        recorder.quit()
    nobody = Recorder(tier.endpoint, tmp_path / "nobody", go=True)
    nobody.open(Spec(0, "prefix", b"/a/", rev="1"))
    state = ended(nobody)
    assert "user_name_is_empty" in state["err"] and state["n_events"] == 0, state
    nobody.quit()
    last = cluster.put("/a/2", "seen")
    allowed.wait_rev({0: last}, 10)
    allowed.quit()


def test_tokens_expire_and_the_leader_is_killed(guarded, tmp_path):
    cluster, tier = guarded
    recorders = [Recorder(tier.endpoint, tmp_path / "go", ["user=" + READER[0], "password=" + READER[1]], go=True),
                 Recorder(tier.url, tmp_path / "c", ["user=" + ":".join(READER)])]
    for r in recorders:
        r.open(Spec(0, "prefix", b"/a/", rev="1"))
    written = []
    for i in range(3):
        time.sleep(TTL + 1)
        leader = procs.wait_until(cluster.leader, 30, 0.2, "a leader")
        leader.kill()
        written.append(cluster.put("/a/x", str(i)))
        for r in recorders:
            r.wait_rev({0: written[-1]}, 30)
        leader.restart()
        late = Recorder(tier.url, tmp_path / f"late{i}", ["user=" + ":".join(READER)])
        late.open(Spec(0, "prefix", b"/a/", rev="1"))
        late.wait_rev({0: written[-1]}, 30)
        late.quit()
    for r in recorders:
        assert r.status()[0]["n_events"] == 3
        r.quit()
    assert tier.is_running()


def test_auth_turned_on_is_noticed_within_a_second(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    tier = make_tier(cluster)
    cluster.put("/b/1", "open")
    before = Recorder(tier.url, tmp_path / "before")
    before.open(Spec(0, "prefix", b"/b/", rev="1"))
    before.wait_rev({0: cluster.revision()}, 10)
    enable_auth(cluster)
    time.sleep(1.5)
    after = Recorder(tier.url, tmp_path / "after")
    after.open(Spec(0, "prefix", b"/b/", rev="1"))
    assert ended(after)["n_events"] == 0
    after.quit()
    before.quit()
