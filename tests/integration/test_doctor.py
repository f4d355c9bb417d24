"""belfryctl doctor: twenty troubles, each planted in real servers, and each named in the first line that is not ok."""
import json
import re
import resource

import needs
import procs
import pytest
from certs import Certs
from client import binary, write
from ports import free_port
from proxy import Proxy
from stack import Stack, tree
from test_disk_full import fill, small_disk  # noqa: F401 (a fixture)
from test_old_etcd import old_etcd  # noqa: F401 (a fixture)
from test_pools import greedy_watches
from test_security import READER, ROOT, enable_auth
from test_top import Tmux

BAD = ("warn", "fail")
PATIENT = ["--dial-timeout", "10s", "--command-timeout", "20s"]  # a busy machine exceeds 2 s and 5 s


def run(*args):
    return procs.run([binary("belfryctl"), "doctor", *args], check=False, text=True)


def steps_of(tier, *args, endpoints=None, patience=PATIENT):
    """The lines of --output json, and the exit code."""
    done = run("--endpoints", endpoints or tier.url, "--admin", f"http://127.0.0.1:{tier.admin_port}", "--output", "json",
               *patience, *args)
    assert done.returncode in (0, 1) and done.stderr == "", done
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    bad = [line["result"] for line in lines if line.get("result") in BAD]
    assert lines[-1] == {"failures": bad.count("fail"), "warnings": bad.count("warn")}
    assert done.returncode == (1 if "fail" in bad else 0)
    for line in lines[:-1]:
        assert line["result"] not in BAD or line["remedy"], line
        assert line["result"] != "skip" or line["step"] in ("tier", "members") or "what" not in line, "one word"
    return lines[:-1]


def first_trouble(tier, *args, **kw):
    """(result, step, what). etcd 3.5.16, with which the tests run, has a known bug; that line comes last."""
    for line in steps_of(tier, *args, **kw):
        if line["result"] in BAD:
            return line["result"], line["step"], line["what"]
    return "ok", "", ""


def assert_trouble(found, result, step, *words):
    assert found[:2] == (result, step) and all(re.search(word, found[2]) for word in words), found


# ---- the way to the endpoint ----


def tls_tier(make_tier, cluster, certs, name="server"):
    port = free_port()
    tier = make_tier(cluster, listen=[f"https://127.0.0.1:{port},cert={certs.path(name + '.pem')},key={certs.path(name + '.key')}"])
    tier.port = port
    return tier, f"https://127.0.0.1:{port}"


@pytest.fixture
def certs(tmp_path):
    return Certs(tmp_path / "certs")


def test_a_wrong_ca_is_named(cluster, make_tier, certs):
    tier, url = tls_tier(make_tier, cluster, certs)
    found = first_trouble(tier, "--cacert", certs.path("other.pem"), endpoints=url)
    assert_trouble(found, "fail", "tls", "local issuer|signature failure", 'signed by "ca"')
    good = steps_of(tier, "--cacert", certs.path("ca.pem"), endpoints=url)
    assert [s["result"] for s in good if s["step"] in ("tls", "certificate", "identity")] == ["ok"] * 3


def test_an_expired_certificate_is_named(cluster, make_tier, certs):
    procs.run(["openssl", "x509", "-req", "-in", certs.path("server.csr"), "-CA", certs.path("ca.pem"), "-CAkey", certs.path("ca.key"),
               "-CAcreateserial", "-days", "-1", "-extfile", certs.path("server.ext"), "-out", certs.path("server.pem")])
    tier, url = tls_tier(make_tier, cluster, certs)
    assert_trouble(first_trouble(tier, "--cacert", certs.path("ca.pem"), endpoints=url), "fail", "tls", "has expired")


def test_a_certificate_for_another_name_is_named(cluster, make_tier, certs):
    certs._signed("elsewhere", "/CN=elsewhere", "subjectAltName=DNS:elsewhere.example")
    tier, url = tls_tier(make_tier, cluster, certs, "elsewhere")
    found = first_trouble(tier, "--cacert", certs.path("ca.pem"), endpoints=url)
    assert_trouble(found, "fail", "tls", "mismatch", "it is for elsewhere.example")


def test_http_instead_of_https_is_named_and_the_other_way_round(cluster, make_tier, certs):
    tier, url = tls_tier(make_tier, cluster, certs)
    found = first_trouble(tier, endpoints=url.replace("https", "http"))
    assert_trouble(found, "fail", "tls", "the server speaks TLS, and the endpoint says http")
    plain = make_tier(cluster)
    found = first_trouble(plain, endpoints=plain.url.replace("http", "https"))
    assert_trouble(found, "fail", "tls", "the server speaks plain HTTP, and the endpoint says https")


def test_a_name_that_does_not_resolve_is_named(tier):
    found = first_trouble(tier, endpoints=f"http://nowhere.invalid:{tier.port}")
    assert_trouble(found, "fail", "name", "nowhere.invalid does not resolve")


def test_one_endpoint_of_two_that_is_away_is_a_warning(tier):
    lines = steps_of(tier, endpoints=f"http://127.0.0.1:{free_port()},{tier.url}")
    found = {line["step"]: line["result"] for line in lines}
    assert found["connect"] == "warn" and found["identity"] == "ok", lines


def test_a_port_without_a_server_is_named(tier):
    assert_trouble(first_trouble(tier, endpoints=f"http://127.0.0.1:{free_port()}"), "fail", "connect", "refused")


def test_a_client_without_a_certificate_is_told_to_show_one(cluster, make_tier, certs):
    port = free_port()
    files = f"cert={certs.path('server.pem')},key={certs.path('server.key')},client-ca={certs.path('ca.pem')}"
    tier = make_tier(cluster, listen=[f"https://127.0.0.1:{port},{files}"])
    url, ca = f"https://127.0.0.1:{port}", ["--cacert", certs.path("ca.pem")]
    assert_trouble(first_trouble(tier, *ca, endpoints=url, patience=["--command-timeout", "3s"]), "fail", "identity", "certificate")
    good = steps_of(tier, *ca, "--cert", certs.path("client.pem"), "--key", certs.path("client.key"), endpoints=url)
    assert [(s["result"], s["what"].split(" (")[0]) for s in good if s["step"] == "identity"] == [("ok", "a certificate")]


def test_members_that_only_the_tier_can_ask_are_no_trouble(make_cluster, make_tier, tmp_path):
    certs = Certs(tmp_path / "etcd", client_auth=True)
    cluster = make_cluster(tls=certs)
    tier = make_tier(cluster, "--upstream-cacert", certs.path("ca.pem"), "--upstream-cert", certs.path("client.pem"),
                     "--upstream-key", certs.path("client.key"), rights="open")
    lines = steps_of(tier, patience=["--command-timeout", "3s"])
    assert {line["step"] for line in lines if line["result"] in BAD} <= {"versions"}, lines
    assert [line["result"] for line in lines if line["step"] == "members"] == ["skip"]


# ---- rights ----


@pytest.fixture
def guarded(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    return make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), rights="upstream")


def test_missing_rights_are_named(guarded):
    user = ["--user", ":".join(READER)]
    assert_trouble(first_trouble(guarded, *user, "--prefix", "/b/"), "fail", "rights", "reader", "/b/", "permission denied")
    assert [s["result"] for s in steps_of(guarded, *user, "--prefix", "/a/") if s["step"] == "rights"] == ["ok"]
    assert_trouble(first_trouble(guarded, "--user", "reader:wrong", "--prefix", "/a/"), "fail", "identity", "invalid user")


def test_auth_that_is_off_is_named(cluster, make_tier):
    tier = make_tier(cluster, rights="upstream", wait=False)
    procs.wait_until(lambda: re.fullmatch(r"\[-\]rights: auth is off.*\nnot ready\n", tier.get("/readyz")[1]), 30, 0.1, tier.log)
    found = first_trouble(tier, patience=["--command-timeout", "2s"])
    assert_trouble(found, "fail", "auth", "auth is off upstream", "rights=upstream")


def test_a_wrong_scope_is_named(cluster, make_tier):
    tier = make_tier(cluster, "--scope", "/a/")
    assert_trouble(first_trouble(tier, "--prefix", "/b/"), "fail", "scope", "/b/ is outside of what the tier follows, /a/")
    assert [s["result"] for s in steps_of(tier, "--prefix", "/a/x/") if s["step"] in ("scope", "rights")] == ["ok", "ok"]


# ---- the tier's machine ----


def test_a_full_disk_is_named(cluster, make_tier, small_disk):  # noqa: F811
    tier = make_tier(cluster, wait=False)
    tier.kill()
    tier.cache = str(small_disk / "cache")
    tier.start()
    fill(small_disk)
    write(cluster.endpoints, "mode=mix", "seed=1", "prefix=/k/", "count=2000", "inflight=4", "size=4000")
    procs.wait_until(lambda: tier.numbers()["upstream"]["disk_trouble"], 30, 0.1, tier.log)
    assert_trouble(first_trouble(tier), "fail", "disk", "disk full", re.escape(str(small_disk)))


def test_a_clock_that_is_off_by_a_minute_is_named(cluster, make_tier):
    """Nobody may set the clock of this machine. The tier runs with a libc whose time of day is a minute ahead."""
    shifted = {"LD_PRELOAD": binary("tests", "shifted_clock.so"), "BELFRY_SHIFT_S": "60"}
    assert_trouble(first_trouble(make_tier(cluster, env=shifted)), "fail", "clock", "60 s ahead of that of this machine")


def test_too_few_descriptors_are_named(tier):
    resource.prlimit(tier.pid, resource.RLIMIT_NOFILE, (256, 256))
    assert_trouble(first_trouble(tier), "warn", "descriptors", "256 allowed; there are ")


@pytest.mark.usefixtures("own_network")
def test_a_full_pool_is_named_with_the_client_that_holds_most(cluster, make_tier):
    tier = make_tier(cluster, "--workers", "1", "--max-watchers", "100")
    peer = greedy_watches(tier.port)
    procs.wait_until(lambda: "[!]pools" in tier.get("/readyz?verbose")[1], 20, 0.05, tier.log)
    assert_trouble(first_trouble(tier), "warn", "pools", "watchers", "10.77.0.9 holds most")
    peer.close()


# ---- upstream ----


def test_an_old_etcd_is_named(make_cluster, make_tier, old_etcd):  # noqa: F811
    tier = make_tier(make_cluster(binary=old_etcd))
    assert_trouble(first_trouble(tier), "warn", "versions", r"etcd 3\.4\.", "back in time")


def test_a_cut_link_is_named(cluster, make_tier, soak):
    if not soak:
        needs.full_length("a tier notices it after 5 s, as it does in the test of a stale replica")
    link = Proxy(cluster.members[0].endpoint)
    tier = make_tier(link.url)
    link.refuse()
    procs.wait_until(lambda: tier.get("/readyz")[0] != 200, 30, 0.1, tier.log)
    found = first_trouble(tier, patience=["--command-timeout", "2s"])
    assert_trouble(found, "fail", "upstream", "cut off from upstream", re.escape(link.url), "refused")
    link.close()


def step(lines, name):
    return next(line for line in lines if line["step"] == name)


def test_a_connection_that_is_just_lost_is_named(make_cluster, make_tier):
    cluster = make_cluster()
    tier = make_tier(cluster)
    cluster.members[0].kill()
    procs.wait_until(lambda: tier.numbers()["upstream"]["endpoint"] == "", 10, 0.02, tier.log)
    said = step(steps_of(tier, patience=["--dial-timeout", "500ms", "--command-timeout", "500ms"]), "upstream")
    assert said["result"] in BAD and re.search(re.escape(cluster.members[0].url) + ".*(refused|reset)", said["what"]), said


def test_the_broken_link_of_a_stack_is_named(make_cluster, make_tier):
    cluster = make_cluster()
    stack = Stack(make_tier, cluster, 2)
    procs.wait_until(lambda: len(tree(stack.leaf)["above"]) == 2, 10, 0.1, lambda: str(tree(stack.leaf)))
    cluster.members[0].kill()
    procs.wait_until(lambda: tree(stack.leaf)["self"]["standing"] == "stale" and tree(stack.leaf)["broken"]["level"] == 1, 30, 0.1,
                     lambda: str(tree(stack.leaf)))
    lines = steps_of(stack.leaf, patience=["--dial-timeout", "500ms", "--command-timeout", "500ms"])
    said = step(lines, "upstream")
    assert said["result"] == "fail" and said["what"].startswith("t0 cannot connect to etcd, for "), said
    assert said["remedy"].startswith("run belfryctl doctor on t0"), said
    assert "cannot answer" in step(lines, "members")["what"], "the tier above is up"


def test_members_that_reject_doctor_are_not_called_down(make_cluster, make_tier, guarded, tmp_path):
    away = f"http://127.0.0.1:{free_port()}"
    certs = Certs(tmp_path / "etcd", client_auth=True)
    secured = make_cluster(tls=certs)
    asks = ["--endpoints", guarded.url, "--admin", away, "--output", "json", "--command-timeout", "3s"]
    done = run(*asks, "--upstream", secured.members[0].url, "--cacert", certs.path("ca.pem"))
    said = step([json.loads(line) for line in done.stdout.splitlines()[:-1]], "members")
    assert said["result"] == "fail" and "TLS" in said["what"] and "--cert" in said["remedy"], said
    done = run(*asks, "--upstream", guarded.upstream, "--user", "reader:wrong")
    said = step([json.loads(line) for line in done.stdout.splitlines()[:-1]], "members")
    assert said["result"] == "fail" and "rejects the credentials" in said["what"] and "--user" in said["remedy"], said


def test_a_stale_replica_is_named(cluster, make_tier):
    tier = make_tier(cluster)
    cluster.members[0].stop()
    try:
        procs.wait_until(lambda: tier.numbers()["upstream"]["standing"] == "stale", 30, 0.1, tier.log)
        found = first_trouble(tier, patience=["--dial-timeout", "500ms", "--command-timeout", "1s"])
    finally:
        cluster.members[0].cont()
    # connections that a stopped member does not answer are given up after a while: then the tier is cut off as well
    assert_trouble(found, "fail", found[1], "replica is stale")
    assert found[1] in ("replica", "upstream"), found


def test_a_lag_is_named_with_its_level(cluster, make_tier):
    link = Proxy(cluster.members[0].endpoint)
    tier = make_tier(link.url, "--name", "edge")
    link.rate = 20000
    write(cluster.endpoints, "mode=mix", "seed=1", "prefix=/k/", "count=6000", "inflight=16")
    found = first_trouble(tier, "--upstream", cluster.members[0].url)
    assert_trouble(found, "warn", "lag", r"edge is \d+ revisions behind")
    link.close()


def test_a_circle_is_named(cluster, make_tier):
    tier = make_tier(cluster, wait=False)
    tier.kill()
    itself = Proxy(tier.endpoint)
    tier.upstream = f"{itself.url},{cluster.members[0].url}"
    cluster.members[0].kill()
    tier.start(wait=False)
    procs.wait_until(lambda: "event=upstream_circle" in tier.log(), 30, 0.1, tier.log)
    cluster.members[0].restart()
    tier.wait_ready()
    assert_trouble(first_trouble(tier), "warn", "upstream", re.escape(itself.url), "in a circle")
    itself.close()


def test_a_member_that_is_away_is_named(make_cluster, make_tier):
    cluster = make_cluster(3)
    tier = make_tier(cluster)
    needed = tier.numbers()["upstream"]["endpoint"], cluster.leader().url
    away = next(m for m in cluster.members if m.url not in needed)
    away.kill()
    cluster.ctl_retry("put", "/a", "1", member=next(m for m in cluster.members if m is not away))
    tier.wait_ready()
    found = first_trouble(tier, patience=["--command-timeout", "10s"])
    assert_trouble(found, "warn", "members", f"{away.url} does not answer", "refused")


def test_a_slow_member_is_named(cluster, make_tier, soak):
    if not soak:
        needs.full_length("it answers slowly")
    slow = Proxy(cluster.members[0].endpoint)
    slow.refuse()
    tier = make_tier(f"{cluster.members[0].url},{slow.url}")
    slow.accept()
    slow.rate = 100
    found = first_trouble(tier, patience=["--dial-timeout", "20s", "--command-timeout", "60s"])
    assert_trouble(found, "warn", "members", f"{slow.url} is slow")
    slow.close()


def test_a_missing_advertise_is_named(cluster, make_tier):
    ports = free_port(), free_port()
    tier = make_tier(cluster, listen=[f"http://127.0.0.1:{port}" for port in ports])
    found = first_trouble(tier, endpoints=f"http://127.0.0.1:{ports[0]}")
    assert_trouble(found, "warn", "advertise", "leave it for upstream")


# ---- no trouble ----


def test_a_write_is_followed_down_all_tiers(cluster, make_tier):
    leaf = Stack(make_tier, cluster, 2).leaf
    lines = steps_of(leaf, "--write-key", "/tmp/doctor")
    assert {line["step"] for line in lines if line["result"] in BAD} <= {"versions"}, lines
    said = lines[-1]
    assert said["step"] == "write" and said["result"] == "ok"
    assert re.search(r"upstream sent it after [\d.]+ ms, this tier after [\d.]+ ms; hops: \S+ > t0 [\d.]+ ms.* > t1 [\d.]+ ms$",
                     said["what"]), said
    assert cluster.ctl("get", "/tmp/doctor").stdout == b"", "it is deleted again"
    cluster.put("/tmp/mine", "mine")
    assert steps_of(leaf, "--write-key", "/tmp/mine")[-1]["what"] == "/tmp/mine exists: nothing was written"
    assert cluster.ctl("get", "/tmp/mine", "--print-value-only").stdout == b"mine\n"


def test_lines_for_people(tier):
    admin = f"http://127.0.0.1:{tier.admin_port}"
    done = run("--endpoints", tier.url, "--admin", admin, *PATIENT)
    assert done.returncode == 0 and re.search(r"^ok    upstream        follows http", done.stdout, re.M), done
    assert done.stdout.endswith("0 failures, 1 warning\n") or done.stdout.endswith("0 failures, 0 warnings\n"), done
    done = run("--endpoints", "http://nowhere.invalid:1", *PATIENT)
    assert done.returncode == 1 and "\nskip  connect, tls, certificate\nskip  tier" in done.stdout, done
    assert "the tier is on another machine" in done.stdout and done.stdout.endswith("1 failure, 0 warnings\n"), done


def test_lines_are_broken_where_the_terminal_ends(tmp_path):
    doctor = f"{binary('belfryctl')} doctor --endpoints http://nowhere.invalid:1 --dial-timeout 10s; sleep 60"
    t = Tmux(tmp_path, None, 80, command=doctor)
    try:
        lines = t.wait("1 failure, 0 warnings")
    finally:
        t.end()
    assert "skip  disk, upstream, replica, lag, clock, descriptors, pools, auth, ready," in lines
    assert "      identity, advertise" in lines and " " * 22 + "itself" in lines, lines


@pytest.mark.parametrize("args", [["-w", "json"], ["--write-key", ""], ["--upstream", "ftp://a"], ["a", "b", "c"], ["b", "a"]])
def test_wrong_usage_is_exit_2(args):
    done = run(*args)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("belfryctl: "), done
