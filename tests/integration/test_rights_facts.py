"""What belfryd builds on when it asks etcd about rights (docs/explanation/rights-end.md), on every etcd that is here."""
import subprocess
import time

import pytest
from differential import encode
from rights import AUTHENTICATE, Caller
from test_old_etcd import TOOL

import needs
import procs

ROOT, READER, OTHER = ("root", "r"), ("reader", "p"), ("other", "o")
FUTURE = (11, "etcdserver: mvcc: required revision is a future revision")
DENIED = (7, "etcdserver: permission denied")
BAD_TOKEN = (16, "etcdserver: invalid auth token")
OLD = (3, "etcdserver: revision of auth store is old")
OURS, THEIRS = (b"/a/", b"/a0"), (b"/b/", b"/b0")


def jwt_flags(folder):
    key, pub = f"{folder}/jwt.key", f"{folder}/jwt.pub"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", pub], check=True, capture_output=True)
    return ["--auth-token", f"jwt,pub-key={pub},priv-key={key},sign-method=RS256,ttl=10m"]


def enable_auth(cluster):
    """reader and other may read /a/, each by a role of its own."""
    for user, role in ((READER, "reading"), (OTHER, "others")):
        cluster.ctl("role", "add", role)
        cluster.ctl("role", "grant-permission", "--prefix=true", role, "read", "/a/")
        cluster.ctl("user", "add", ":".join(user))
        cluster.ctl("user", "grant-role", user[0], role)
    cluster.ctl("user", "add", ":".join(ROOT))
    cluster.ctl("user", "grant-role", "root", "root")
    cluster.ctl("auth", "enable")
    cluster.auth = ROOT


@pytest.fixture(params=["3.5-simple", "3.5-jwt", "3.4-simple", "3.4-jwt"])
def etcd(request, make_cluster, tmp_path):
    version, kind = request.param.split("-")
    binary = "etcd"
    if version == "3.4":
        done = subprocess.run(["bash", TOOL], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            needs.missing(f"etcd 3.4: {done.stderr.strip()}")
        binary = done.stdout.strip()
    cluster = make_cluster(1, binary=binary, flags=jwt_flags(tmp_path) if kind == "jwt" else [])
    cluster.version, cluster.kind = version, kind
    return cluster


def test_what_etcd_answers_to_a_question_about_rights(etcd):
    caller = Caller(etcd.members[0].endpoint)
    nameless = encode("AuthenticateRequest", {})
    assert caller.call(AUTHENTICATE, nameless) == (9, "etcdserver: authentication is not enabled")
    enable_auth(etcd)
    assert caller.call(AUTHENTICATE, nameless)[0] == 3, "on"
    token = caller.login(READER)
    proposals = etcd.members[0].metric("etcd_server_proposals_committed_total")
    for _ in range(20):
        assert caller.ask(token, OURS) == FUTURE
        assert caller.ask(token, *[(b"/a/%d" % i, b"") for i in range(128)]) == FUTURE
        assert caller.ask(token, *[(b"/a/%d" % i, b"") for i in range(127)], THEIRS) == DENIED
        assert caller.ask(token, (b"/a/", b"\0")) == DENIED, "from a key on is not the single key"
        assert caller.ask(token, (b"\0", b"\0")) == DENIED
        assert caller.ask("abcdefghijklmnop.1", OURS) == BAD_TOKEN
        assert caller.ask(None, OURS) == (3, "etcdserver: user name is empty")
        assert caller.call(AUTHENTICATE, nameless)[0] == 3
    assert etcd.members[0].metric("etcd_server_proposals_committed_total") == proposals, "asking proposes nothing"
    assert caller.ask(token, *[(b"/a/%d" % i, b"") for i in range(129)]) == (
        3, "etcdserver: too many operations in txn request")
    began = time.monotonic()
    assert caller.ask("x.999999999", OURS, timeout=1)[0] in (4, 16)
    assert (time.monotonic() - began > 0.9) == (etcd.kind == "simple"), "a simple token of the future hangs until the deadline"
    caller.close()


def test_how_rights_end(etcd):
    caller = Caller(etcd.members[0].endpoint)
    enable_auth(etcd)
    token, other = caller.login(READER), caller.login(OTHER)
    etcd.ctl("user", "revoke-role", "reader", "reading")
    expected = (DENIED, FUTURE) if etcd.kind == "simple" else (OLD, OLD)
    assert (caller.ask(token, OURS), caller.ask(other, OURS)) == expected, "a revocation that was confirmed is seen at once"
    token, other = caller.login(READER), caller.login(OTHER)
    assert (caller.ask(token, OURS), caller.ask(other, OURS)) == (DENIED, FUTURE)
    etcd.ctl("user", "delete", "other")
    assert caller.ask(other, OURS) == (BAD_TOKEN if etcd.kind == "simple" else OLD)
    etcd.ctl("auth", "disable")
    etcd.auth = None
    procs.wait_until(lambda: caller.call(AUTHENTICATE, b"")[0] == 9, 5, 0.1, "auth is off")
    if etcd.version == "3.5":
        assert caller.ask("abcdefghijklmnop.1", THEIRS) == FUTURE, "with auth off every token may"
    caller.close()
