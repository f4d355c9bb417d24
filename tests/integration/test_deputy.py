"""The deputy rule: a listener that does not authenticate its clients, before credentials for upstream, says which rights they have;
otherwise belfryd does not start."""
import json
import socket
import subprocess
import time

import procs
import pytest
from certs import Certs
from checker import Spec
from client import Recorder, binary
from kube import CRDS, request
from ports import free_port
from test_security import READER, ROOT, enable_auth

NONE, CN, UNNAMED, USER = "none", "certificate with a name", "certificate without a name", "user and password"
RIGHTS = ["", "upstream", "open", "open+writes"]


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    made = Certs(tmp_path_factory.mktemp("certs"), client_auth=True)
    made._signed("named", "/CN=root", "extendedKeyUsage=clientAuth")
    made._signed("unnamed", "/O=belfry", "extendedKeyUsage=clientAuth")
    return made


@pytest.fixture(scope="module")
def password(tmp_path_factory):
    path = tmp_path_factory.mktemp("password") / "password"
    path.write_text(ROOT[1] + "\n")
    path.chmod(0o600)
    return path


def credentials(kind, certs, password):
    tls = ["--upstream-cacert", certs.path("ca.pem")]
    return {NONE: [], USER: ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)],
            CN: [*tls, "--upstream-cert", certs.path("named.pem"), "--upstream-key", certs.path("named.key")],
            UNNAMED: [*tls, "--upstream-cert", certs.path("unnamed.pem"), "--upstream-key", certs.path("unnamed.key")]}[kind]


@pytest.mark.parametrize("kind", [NONE, CN, UNNAMED, USER])
@pytest.mark.parametrize("rights", RIGHTS)
@pytest.mark.parametrize("where", ["http", "unix", "https", "client-ca"])
def test_belfryd_starts_only_when_the_rights_of_clients_are_clear(where, rights, kind, certs, password, tmp_path):
    port = free_port()
    tls = f",cert={certs.path('server.pem')},key={certs.path('server.key')}"
    url = {"http": f"http://127.0.0.1:{port}", "unix": f"unix://{tmp_path}/socket", "https": f"https://127.0.0.1:{port}{tls}",
           "client-ca": f"https://127.0.0.1:{port}{tls},client-ca={certs.path('ca.pem')}"}[where]
    upstream = "https://127.0.0.1:1" if kind in (CN, UNNAMED) else "http://127.0.0.1:1"
    log = open(tmp_path / "log", "wb")
    proc = procs.spawn([binary("belfryd"), "--upstream", upstream, *credentials(kind, certs, password), "--listen",
                        url + (f",rights={rights}" if rights else ""), "--admin", f"http://127.0.0.1:{free_port()}",
                        "--cache-dir", str(tmp_path / "cache")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def said():
        return (tmp_path / "log").read_text()
    if kind == NONE or where == "client-ca" or rights:
        procs.wait_until(lambda: proc.poll() is None and "event=listening" in said(), 20, 0.05, said)
        assert f" rights={rights or 'asked'}\n" in said().replace('"', "")
    else:
        assert proc.wait(20) == 2, said()
        lines = said().splitlines()
        assert len(lines) == 1 and url.split(",")[0] in lines[0], lines
        assert ("(upstream-user)" if kind == USER else "(upstream-cert)") in lines[0]
        assert ",rights=upstream" in lines[0] and ",rights=open" in lines[0] and "client-ca" in lines[0]
    procs.end(proc)


def put(endpoint, key="/b/1"):
    """(code, message) of a Put without a token."""
    out = procs.run(["etcdctl", "--endpoints", endpoint, "--command-timeout", "5s", "put", key, "x"], check=False)
    return out.returncode, out.stderr.decode()


def test_listener_with_rights_upstream_serves_only_while_auth_is_on(make_cluster, make_tier, certs, tmp_path):
    cluster = make_cluster(1, tls=certs)
    cluster.put("/a/1", "secret")
    tier = make_tier(cluster, *credentials(UNNAMED, certs, None), "--resources", f"{CRDS}/widgets.yaml,prefix=/a/,wrap=spec",
                     rights="upstream", wait=False)

    def unready():
        status, body = tier.get("/readyz")
        return status == 503 and f"auth is off upstream, and http://127.0.0.1:{tier.port} has rights=upstream" in body
    procs.wait_until(unready, 20, 0.1, lambda: f"not ready: {tier.get('/readyz?verbose')} {tier.log()}")
    procs.wait_until(lambda: "[+]upstream ok" in tier.get("/readyz?verbose")[1], 20, 0.1, "it follows all the same")
    procs.wait_until(lambda: "event=listener_not_ready" in tier.log(), 5, 0.1, tier.log)
    answer = request(tier.endpoint, "/health")
    assert answer.code == 503 and "auth is off" in json.loads(answer.body)["reason"]
    assert request(tier.endpoint, "/readyz").code == 503
    answer = request(tier.endpoint, "/apis/demo.example.com/v1/widgets")
    assert answer.code == 503 and b"secret" not in answer.body and b"auth is off" in answer.body
    code, message = put(tier.endpoint)
    assert code != 0 and "has rights=upstream" in message
    watcher = Recorder(tier.url, tmp_path / "watcher")
    watcher.open(Spec(0, "prefix", b"/a/", rev="1"))
    time.sleep(2)
    assert watcher.status()[0]["n_events"] == 0
    watcher.quit()
    assert cluster.ctl("get", "--prefix", "/b/").stdout == b""


def test_listener_with_rights_upstream_gets_ready_when_auth_is_turned_on(make_cluster, make_tier, password, tmp_path):
    cluster = make_cluster()
    for args in (("user", "add", ":".join(ROOT)), ("user", "grant-role", "root", "root")):
        cluster.ctl(*args)
    period = 2
    # without credentials, to see auth off first
    tier = make_tier(cluster, "--rights-period", f"{period}s", rights="upstream", wait=False)
    procs.wait_until(lambda: "event=listener_not_ready" in tier.log(), 20, 0.1, tier.log)
    assert put(tier.endpoint)[0] != 0
    tier.kill()
    cluster.ctl("auth", "enable")
    cluster.auth = ROOT
    tier.flags += ["--upstream-user", ROOT[0], "--upstream-password-file", str(password)]
    tier.start()
    procs.wait_until(lambda: "event=listener_ready" in tier.log(), 10, 0.1, tier.log)  # said by the next look, after /readyz
    assert request(tier.endpoint, "/health").code == 200
    code, message = put(tier.endpoint)
    assert code != 0 and "user name is empty" in message
    watcher = Recorder(tier.endpoint, tmp_path / "watcher", ["user=" + ROOT[0], "password=" + ROOT[1]], go=True)
    watcher.open(Spec(0, "prefix", b"/a/", rev="1"))
    watcher.wait_rev({0: cluster.put("/a/1", "while auth is on")}, 10)
    cluster.ctl("auth", "disable")
    cluster.auth = None
    procs.wait_until(lambda: tier.get("/readyz")[0] == 503, 20, 0.1, lambda: tier.get("/readyz?verbose"))
    procs.wait_until(lambda: "has rights=upstream" in put(tier.endpoint)[1], 10, 0.2, lambda: put(tier.endpoint))
    time.sleep(period)
    cluster.put("/a/2", "for nobody")
    time.sleep(3)
    assert watcher.status()[0]["n_events"] == 1, "a watch from before is sent nothing while auth is off"
    watcher.quit()


@pytest.mark.parametrize("auth", [False, True], ids=["off", "on"])
def test_open_listener_lets_everyone_read_what_the_tier_may(make_cluster, make_tier, certs, password, tmp_path, auth):
    cluster = make_cluster(1, tls=certs)
    last = cluster.put("/a/1", "seen")
    if auth:
        enable_auth(cluster)
    tls = credentials(CN, certs, None)
    tier = make_tier(cluster, *tls, "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec", rights="open")
    anyone = Recorder(tier.url, tmp_path / "anyone")
    anyone.open(Spec(0, "prefix", b"/a/", rev="1"))
    anyone.wait_rev({0: last}, 10)
    anyone.quit()
    answer = request(tier.endpoint, "/apis/demo.example.com/v1/widgets")
    assert answer.code == 200, answer.body
    code, message = put(tier.endpoint)
    assert code != 0 and "read-only" in message
    if auth:  # a token has the rights of its user
        reader = Recorder(tier.endpoint, tmp_path / "reader", ["user=" + READER[0], "password=" + READER[1]], go=True)
        reader.open(Spec(0, "prefix", b"/b/", rev="1"))
        reader.wait_state(0, "ended", 15)
        assert "permission_denied" in reader.status()[0]["err"]
        reader.quit()
    else:
        writable = make_tier(cluster, *tls, rights="open+writes")
        assert put(writable.endpoint)[0] == 0


@pytest.mark.parametrize("address,flags,starts", [("127.0.0.1", [], True), ("0.0.0.0", [], False),
                                                  ("0.0.0.0", ["--insecure-listen"], True)])
def test_socket_that_is_handed_over_counts_by_its_real_address(cluster, tmp_path, address, flags, starts):
    with socket.create_server((address, 0)) as listening:
        log = open(tmp_path / "log", "wb")
        script = 'exec 3<&%d; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"' % listening.fileno()
        proc = procs.spawn(["bash", "-c", script, "bash", binary("belfryd"), "--upstream", cluster.members[0].url, "--listen",
                            "http://127.0.0.1:1", "--admin", f"http://127.0.0.1:{free_port()}", "--cache-dir",
                            str(tmp_path / "cache"), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           pass_fds=[listening.fileno()])

        def said():
            return (tmp_path / "log").read_text()
        if starts:
            shown = f"event=handed_over address={address}:{listening.getsockname()[1]} listen=http://127.0.0.1:1"
            procs.wait_until(lambda: shown in said() and "event=listening" in said(), 20, 0.05, said)
        else:
            assert proc.wait(20) != 0
            assert f"handed over {address}:" in said() and "--insecure-listen" in said(), said()
        procs.end(proc)


def test_identity_is_shown_and_a_token_is_not(make_cluster, make_tier, certs, password, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    port = free_port()
    tls = f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')},client-ca={certs.path('ca.pem')}"
    tier = make_tier(cluster, *credentials(USER, certs, password), "--listen", tls + ",rights=open", "--log-level", "debug",
                     rights="upstream")
    by_token = Recorder(tier.endpoint, tmp_path / "token", ["user=" + READER[0], "password=" + READER[1]], go=True)
    by_cert = Recorder(f"https://127.0.0.1:{port}", tmp_path / "cert", certs.options())
    for recorder in (by_token, by_cert):
        recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    last = cluster.put("/a/1", "x")
    for recorder in (by_token, by_cert):
        recorder.wait_rev({0: last}, 10)
    rows = json.loads(tier.get("/debug/watchers")[1])["rows"]
    shown = sorted(row["identity"] for row in rows)
    assert shown[0] == "cert:reader" and shown[1].startswith("token:") and len(shown[1]) == 12, rows
    out = procs.run([binary("belfryctl"), "top", "--once", "--admin", f"http://127.0.0.1:{tier.admin_port}"]).stdout.decode()
    assert all(identity in out for identity in shown), out
    for recorder in (by_token, by_cert):
        recorder.quit()
    assert tier.stop() == 0


def test_a_tier_with_a_password_alone_says_how_to_list_on_an_open_listener(make_cluster, make_tier, certs, password):
    """Upstream does not tell it its newest revision: it has no certificate with the name of its user."""
    cluster = make_cluster()
    cluster.put("/b/prod/web", '{"replicas":1}')
    enable_auth(cluster)
    tier = make_tier(cluster, *credentials(USER, certs, password), "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec",
                     rights="open")
    path = "/apis/demo.example.com/v1/widgets"
    refused = request(tier.endpoint, path)
    assert refused.code == 403 and "add resourceVersion=0" in refused.json["message"], refused.body
    assert b"add resourceVersion=0" in request(tier.endpoint, path, "watch=1&timeoutSeconds=1").body
    assert request(tier.endpoint, path, "resourceVersion=0").names == ["web"]
