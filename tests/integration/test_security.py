"""TLS, client certificates, users and passwords, tokens that expire, and rights that were not granted."""
import time

import pytest

import procs
from certs import Certs
from checker import Spec, parse
from client import Recorder
from test_compaction import ends

ROOT = ("root", "secret-root")
READER = ("reader", "secret-reader")


def events(recorder, number):
    with open(recorder.record) as f:
        return [(r[2].rev, e.op, e.key) for r in parse(f) if r[0] == "B" and r[1] == number for e in r[3]]


def enable_auth(cluster):
    """root may do all; reader may read /a/ only."""
    for args in (("user", "add", ":".join(ROOT)), ("user", "grant-role", "root", "root"),
                 ("role", "add", "reading"), ("role", "grant-permission", "--prefix=true", "reading", "read", "/a/"),
                 ("user", "add", ":".join(READER)), ("user", "grant-role", "reader", "reading"), ("auth", "enable")):
        cluster.ctl(*args)
    cluster.auth = ROOT


@pytest.mark.parametrize("client_auth", [False, True], ids=["tls", "mtls"])
def test_watch_over_tls_survives_a_restart(make_cluster, tmp_path, client_auth):
    certs = Certs(tmp_path / "certs", client_auth)
    cluster = make_cluster(tls=certs)
    recorder = Recorder(cluster.endpoints, tmp_path / "record", certs.options())
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    recorder.open(Spec(1, "prefix", b"/a/", follow=True))
    recorder.wait_connected(2)
    first = cluster.put("/a/1", "x" * 100_000)
    recorder.wait_rev({0: first, 1: first}, 10)
    cluster.members[0].kill()
    cluster.members[0].restart()
    last = cluster.put("/a/2", "two")
    recorder.wait_rev({0: last, 1: last}, 20)
    recorder.quit()
    assert [rev for rev, _, _ in events(recorder, 0)] == [first, last]


def test_server_of_an_unknown_authority_is_not_believed(make_cluster, tmp_path):
    certs = Certs(tmp_path / "certs")
    cluster = make_cluster(tls=certs)
    cluster.put("/a/1", "one")
    recorder = Recorder(cluster.endpoints, tmp_path / "record", [f"cacert={certs.path('other.pem')}"])
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    time.sleep(3)
    assert recorder.status()[0]["n_events"] == 0
    recorder.quit()
    with open(recorder.record) as f:
        assert [1 for line in f if line.startswith("L 0 ") or line.startswith("X 0 ")], "nobody was told"


def test_token_that_expires_during_a_watch(make_cluster, tmp_path, figure):
    cluster = make_cluster(flags=["--auth-token", "simple", "--auth-token-ttl", "2"])
    enable_auth(cluster)
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ["user=" + ":".join(READER)])
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    first = cluster.put("/a/1", "one")
    recorder.wait_rev({0: first}, 10)
    time.sleep(5)  # the token is gone now, the stream is not
    second = cluster.put("/a/2", "two")
    recorder.wait_rev({0: second}, 10)
    recorder.open(Spec(1, "prefix", b"/a/", rev="1"))  # on a session whose token has expired
    recorder.wait_rev({1: second}, 15)
    time.sleep(4)
    cluster.members[0].kill()
    cluster.members[0].restart()
    third = cluster.put("/a/3", "three")
    recorder.wait_rev({0: third, 1: third}, 20)
    stats = recorder.stats()
    recorder.quit()
    figure("security.log_ins", stats["log_ins"])
    assert stats["log_ins"] >= 2
    for number in (0, 1):
        assert [rev for rev, _, _ in events(recorder, number)] == [first, second, third]


def test_range_that_was_not_granted_is_denied_alone(make_cluster, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ["user=" + ":".join(READER)])
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    recorder.open(Spec(1, "prefix", b"/b/"))
    recorder.open(Spec(2, "prefix", b""))
    recorder.open(Spec(3, "prefix", b"/b/", follow=True))
    for number in (1, 2, 3):
        recorder.wait_state(number, "ended", 15)
    last = cluster.put("/a/1", "one")
    recorder.wait_rev({0: last}, 10)
    recorder.quit()
    found = ends(recorder)
    assert {n: found[n][0] for n in (1, 2, 3)} == {n: "BELFRY_ERR_DENIED" for n in (1, 2, 3)}
    assert found[1][2]


@pytest.mark.parametrize("follow", [False, True], ids=["watch", "follow"])
def test_wrong_password_ends_with_auth(make_cluster, tmp_path, follow):
    cluster = make_cluster()
    enable_auth(cluster)
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ["user=reader", "password=wrong"])
    recorder.open(Spec(0, "prefix", b"/a/", follow=follow))
    recorder.wait_state(0, "ended", 15)
    recorder.quit()
    assert ends(recorder)[0][0] == "BELFRY_ERR_AUTH"


def test_no_credentials_where_they_are_needed_end_with_auth_or_denied(make_cluster, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.open(Spec(0, "prefix", b"/a/"))
    recorder.wait_state(0, "ended", 15)
    recorder.quit()
    assert ends(recorder)[0][0] in ("BELFRY_ERR_AUTH", "BELFRY_ERR_DENIED")


def test_password_file_is_read_again_at_each_log_in(make_cluster, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    secret = tmp_path / "secret"
    secret.write_text(READER[1] + "\n")
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ["user=reader", f"password-file={secret}"])
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    first = cluster.put("/a/1", "one")
    recorder.wait_rev({0: first}, 10)
    cluster.ctl("user", "passwd", "reader", "--interactive=false", input=b"changed\n")
    secret.write_text("changed\n")
    cluster.members[0].kill()
    cluster.members[0].restart()
    last = cluster.put("/a/2", "two")
    recorder.wait_rev({0: last}, 20)
    recorder.quit()
    procs.kill_all()
