"""belfryctl verify: finds nothing wrong with belfryd and with etcd itself, whatever happens to them; finds what etcd's
grpc-proxy loses, and each lie of a tier that lies."""
import itertools
import json
import signal
import subprocess
import time

import procs
import pytest
from certs import Certs
from client import Writer, binary, write
from etcd import PROGRAM as ETCD
from liar import LIES, WAIT, Liar
from pair import Pair
from patience import SCALE
from ports import free_port
from test_identity import restore
from test_security import READER, ROOT, enable_auth

LOSS = {"reliable", "resumable", "progress", "alive"}


def seconds(n):
    """As a flag: more of them when a run is repeated because the machine was not ours."""
    return f"{int(n * SCALE * 1000)}ms"


class Verify:
    """belfryctl verify in the background; result() is its exit code and its object."""

    def __init__(self, reference, tier, *args, form="json"):
        self.proc = procs.spawn([binary("belfryctl"), "verify", "--reference", reference, "--endpoints", tier,
                                 "--output", form, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def end(self, timeout=180):
        """Exit code and both outputs."""
        out, err = self.proc.communicate(timeout=timeout)
        procs.end(self.proc)
        return self.proc.returncode, out.decode(), err.decode()

    def result(self, timeout=180):
        code, out, err = self.end(timeout)
        assert out, f"verify exited with {code}: {err}"
        return code, json.loads(out)


def found(said):
    return {p: n for p, n in said["by_property"].items() if n}


def assert_clean(code, said):
    assert code == 0 and said["violations"] == 0, json.dumps(said, indent=1)
    assert said["not_judged"] == 0 and said["gaps"] == 0 and not said["reference_late"], said


@pytest.fixture(scope="module")
def make_pair(tmp_path_factory):
    """make_pair(): an etcd and a belfryd for several tests."""
    made = []

    def make():
        made.append(Pair(tmp_path_factory.mktemp("verify")))
        return made[-1].serve()
    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def pair(make_pair):
    """For those who leave it as it was."""
    return make_pair()


def test_nothing_is_wrong_with_belfryd_through_faults(cluster, make_tier, soak, seed, figure):
    """Transactions, deletes and leases; belfryd killed, drained and restarted; etcd compacted. A window so small that
    old revisions come from the log, from the replica and from upstream."""
    tier = make_tier(cluster, "--log-bytes", "1MiB", "--history-bytes", "4MiB", "--progress-interval", "1s",
                     "--drain", "2s")
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=2000", "size=1500")
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "rate=200", "size=1500")
    verify = Verify(cluster.endpoints, tier.url, "--for", "10m" if soak else "9s", "--watchers", "16",
                    "--max-lag", "2m")  # what is late is for others to find: this machine may be busy
    for how in (tier.kill, tier.stop) * (20 if soak else 1):
        mark = cluster.put("/w/mark", "x")  # a put: a delete there may be forgotten by etcd before 3.5.18
        time.sleep(6 if soak else 2.5)
        how()
        time.sleep(1)
        tier.start(wait=False)
        tier.wait_ready(120)
        cluster.compact(mark)
    code, said = verify.result(timeout=1200)
    writer.stop()
    assert_clean(code, said)
    assert said["events"] > 5000 and said["prev_kv"] > 500 and said["progress"] > 0, said
    assert said["old_starts"] > 10 and said["losses"]["tier"] > 0, said
    assert said["lag_ms"]["events"] > 200, said
    figure("verify.belfryd.events", said["events"])
    figure("verify.belfryd.violations", said["violations"])
    figure("verify.belfryd.prev_kv_missing", said["prev_kv_missing"])
    figure("verify.belfryd.lag_p50", said["lag_ms"]["p50"], "ms")
    figure("verify.belfryd.lag_p99", said["lag_ms"]["p99"], "ms")
    figure("verify.belfryd.unreachable", said["unreachable_ms"], "ms")
    figure("verify.itself.held_up", said["held_up_ms"], "ms")


def test_nothing_is_wrong_with_etcd_itself(make_cluster, soak, seed, figure):
    """Three members, so that the tier's watchers are not where the reference is. Compactions are told and agreed on; the
    member that the reference is on is killed, and it goes on elsewhere."""
    cluster = make_cluster(3)
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=1000", "size=300")
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "rate=200", "size=300")
    verify = Verify(cluster.endpoints, ",".join(m.url for m in cluster.members[1:]), "--for", "2m" if soak else "5s")
    for victim in itertools.cycle(cluster.members):
        if verify.proc.poll() is not None:
            break
        mark = cluster.put("/w/mark", "x")
        time.sleep(5 if soak else 1)
        victim.kill()
        victim.restart()
        cluster.compact(mark)
    code, said = verify.result()
    writer.stop()
    assert code == 0 and said["violations"] == 0, json.dumps(said, indent=1)
    assert said["events"] > 2000 and said["old_starts"] > 5, said
    figure("verify.etcd.events", said["events"])
    figure("verify.etcd.losses", said["losses"])
    figure("verify.etcd.prev_kv_missing", said["prev_kv_missing"])
    figure("verify.etcd.compacted", said["compacted"])


def start_proxy(cluster, folder):
    port = free_port()
    with open(folder / "proxy.log", "wb") as log:
        procs.spawn([ETCD, "grpc-proxy", "start", "--endpoints", cluster.members[0].endpoint, "--listen-addr",
                     f"127.0.0.1:{port}", "--advertise-client-url", ""], stdout=log, stderr=subprocess.STDOUT)
    procs.wait_until(lambda: procs.run(["etcdctl", "--endpoints", f"127.0.0.1:{port}", "get", "x"],
                                       check=False).returncode == 0, 20, 0.2, "grpc-proxy answers")
    return f"http://127.0.0.1:{port}"


def test_the_loss_of_grpc_proxy_is_found(cluster, make_tier, tmp_path, soak, figure):
    """Watchers join at old revisions of one key (docs/spec/etcd-watch.md 6.4). Where writes go on, the gap is seen when
    the next event comes; where they have ended, when nothing comes any more. A belfryd runs in the same conditions."""
    keys = {"go_on": "/lost/1", "have_ended": "/lost/2"}
    for key in keys.values():
        write(cluster.endpoints, "mode=one", "count=6000", f"prefix={key}", "size=100", "inflight=64")
    writer = Writer(cluster.endpoints, "mode=one", f"prefix={keys['go_on']}", "rate=50")
    tier, proxy = make_tier(cluster), start_proxy(cluster, tmp_path)
    flags = ["--prefix", "--history", "20000", "--for", "30s" if soak else "5s"]

    def beside(key):
        return Verify(cluster.endpoints, proxy, key, *flags, "--max-lag", "4s")
    runs = {writes: (beside(key), Verify(cluster.endpoints, tier.url, key, *flags, "--max-lag", "1m"))
            for writes, key in keys.items()}
    for writes, (other, ours) in runs.items():
        code, said = other.result()
        for _ in range(5):  # it loses when one joins while another is being given old revisions: not always in so short a time
            if not set(found(said)) & LOSS:
                code, said = beside(keys[writes]).result()
        assert code == 1 and said["violations"] > 0, said
        figure(f"verify.grpc_proxy.violations_when_writes_{writes}", found(said))
        assert set(found(said)) & LOSS, found(said)
        first = next(v for v in said["first"] if v["property"] in LOSS)
        assert first["rev"] > 0 and first["key"] == keys[writes] and first["watcher"] > 1, first
        code, said = ours.result()
        assert_clean(code, said)
        assert said["events"] > 6000 and said["old_starts"] > 3, said
    writer.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_every_lie_is_found_and_no_other_fault(pair, soak, figure):
    """A tier that once says what is not so, in each way there is, through all that libbelfry would mend for a client."""
    writer = Writer(pair.cluster.endpoints, "mode=mix", "rate=40")
    liars = {name: Liar(pair.etcd, lie) for name, (lie, _) in LIES.items()}
    runs = {name: Verify(pair.cluster.endpoints, liar.url, "--prefix", "/w/", "--watchers", "1", "--for",
                         seconds(30 if soak else 5), "--max-lag", seconds(4 if name in WAIT else 30), "--history", "10")
            for name, liar in liars.items()}
    wrong = {}
    for name, run in runs.items():
        code, said = run.result()
        violated, expected = set(found(said)), LIES[name][1]
        if not (liars[name].state["lied"] and violated <= expected and code == bool(expected) == bool(violated)):
            wrong[name] = code, liars[name].state["lied"], said
        figure(f"verify.lie.{name.replace(' ', '_')}", found(said))
    writer.stop()
    for liar in liars.values():
        liar.close()
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.fixture(scope="module")
def nobody():
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def short_runs(pair, make_pair, nobody, tmp_path_factory):
    """Runs that do not concern each other, all at once; the tests below read what each of them said."""
    etcd, tier, still, gone = pair.cluster.endpoints, pair.tier.url, pair.new_tier(keep=True), pair.new_tier(keep=True)
    restored, lost, snapshot = make_pair(), make_pair(), tmp_path_factory.mktemp("snapshot") / "snapshot"

    def writing(at, name, *args, form="json", reference=etcd):
        return Verify(reference, at, "--write", "100", "--write-prefix", f"/{name}/", "--prefix", f"/{name}/", *args,
                      form=form)

    at_rest = ["--prefix", "/nothing/", "--for", seconds(1)]
    runs = {"own": writing(tier, "own", "--for", seconds(4)),
            "ctrl-c": writing(tier, "ctrl-c", form="table"),
            "at rest": Verify(etcd, tier, *at_rest),
            "at rest, table": Verify(etcd, tier, *at_rest, form="table"),
            "prefix=": Verify(etcd, tier, "--prefix=/own/", "--for", seconds(1)),
            "no reference": Verify(nobody, tier, "--command-timeout", seconds(3)),
            "no tier": Verify(etcd, nobody, "--command-timeout", seconds(3)),
            "still": writing(still.url, "still", "--for", seconds(6), "--max-lag", seconds(2)),
            "gone": writing(gone.url, "gone", "--for", seconds(5), "--max-lag", seconds(2)),
            "held up": writing(tier, "held", "--for", seconds(10), "--max-lag", seconds(2.5)),
            "restored": writing(restored.tier.url, "own", "--for", seconds(12), "--max-lag", seconds(4),
                                reference=restored.cluster.endpoints),
            "lost": writing(lost.tier.url, "own", "--for", seconds(3), "--max-lag", seconds(3), "--command-timeout", seconds(2),
                            reference=lost.cluster.endpoints)}
    time.sleep(2 * SCALE)
    gone.kill()
    still.pause()
    lost.cluster.members[0].kill()
    runs["ctrl-c"].proc.send_signal(signal.SIGINT)
    restored.cluster.ctl("snapshot", "save", str(snapshot))
    write(restored.cluster.endpoints, "mode=one", "count=3000", "prefix=/gone", "size=10", "inflight=64")
    time.sleep(1 * SCALE)  # far beyond the backup, so that its writes cannot overtake who comes back to it
    restore(restored.cluster, snapshot)
    restored.cluster.members[0].restart()
    for _ in range(2):
        runs["held up"].proc.send_signal(signal.SIGSTOP)
        time.sleep(2.8 * SCALE)
        runs["held up"].proc.send_signal(signal.SIGCONT)
        time.sleep(0.5 * SCALE)
    said = {name: run.end() for name, run in runs.items()}
    still.cont()
    return said


def test_a_tier_that_stands_still_is_found(short_runs):
    code, said = short_runs["still"][0], json.loads(short_runs["still"][1])
    assert code == 1 and said["by_property"]["alive"] > 0, said
    assert said["by_property"]["alive"] == said["violations"], said


def test_a_tier_that_goes_away_is_not_called_wrong_but_not_verified(short_runs, pair):
    """Killed, and not started again: what it has not given is nobody's violation, and nobody's proof."""
    code, out, err = short_runs["gone"]
    assert code == 3 and "belfryctl: tier: it cannot be reached any more" in err and "--endpoints" in err, (code, err)
    said = json.loads(out)
    assert said["violations"] == 0 and said["unreachable_ms"] > 1000, said
    assert pair.cluster.state("/gone/") == {}


def test_whoever_is_held_up_himself_blames_nobody(short_runs):
    """verify stopped for longer than --max-lag, twice, while writes go on."""
    code, said = short_runs["held up"][0], json.loads(short_runs["held up"][1])
    assert code == 0 and said["violations"] == 0, said
    assert said["held_up_ms"] > 2500 * SCALE and said["events"] > 100, said


def test_a_restored_backup_is_no_violation(short_runs):
    code, said = short_runs["restored"][0], json.loads(short_runs["restored"][1])
    assert code == 0 and said["violations"] == 0, json.dumps(said, indent=1)
    assert said["rewinds"] == 1, said


def test_a_reference_that_goes_away_is_no_proof(short_runs):
    """The tier goes on without it, with nothing to compare it with."""
    code, out, err = short_runs["lost"]
    assert code == 3 and "belfryctl: reference: it does not answer any more" in err and "--reference" in err, (code, err)
    assert "could not be deleted" in err and "del --prefix '/own/verify-'" in err, err
    said = json.loads(out)
    assert said["violations"] == 0 and said["reference_silent_ms"] > 1000 and said["writes_failed"] > 0, said


def test_its_own_writes_verify_a_system_at_rest_and_are_deleted(short_runs, pair):
    code, said = short_runs["own"][0], json.loads(short_runs["own"][1])
    assert_clean(code, said)
    assert said["writes"] > 50 and said["writes_failed"] == 0 and said["events"] > 100, said
    assert said["prev_kv"] > 50 and said["prev_kv_missing"] == 0, said
    assert 0 < said["lag_ms"]["p50"] <= said["lag_ms"]["p99"] <= said["lag_ms"]["max"], said
    assert pair.cluster.state("/own/") == {}


def test_ctrl_c_ends_it_with_the_sum(short_runs, pair):
    code, out, err = short_runs["ctrl-c"]
    assert code == 0 and err == "", err
    assert "events checked" in out and "violations        none" in out, out
    assert pair.cluster.state("/ctrl-c/") == {}


def test_without_writes_nothing_is_claimed(short_runs):
    code, said = short_runs["at rest"][0], json.loads(short_runs["at rest"][1])
    assert code == 0 and said["events"] == 0 and said["lag_ms"]["events"] == 0, said
    code, out, _ = short_runs["at rest, table"]
    assert code == 0 and "nothing was written either" in out, out


def test_a_prefix_is_understood_in_both_forms(short_runs):
    assert json.loads(short_runs["at rest"][1])["range"] == 'prefix "/nothing/"'
    assert json.loads(short_runs["prefix="][1])["range"] == 'prefix "/own/"'


@pytest.mark.parametrize("side, flag", [("reference", "--reference"), ("tier", "--endpoints")])
def test_no_answer_exits_3_names_the_side_and_says_what_to_do(short_runs, nobody, side, flag):
    code, out, err = short_runs[f"no {side}"]
    assert code == 3 and out == "", (code, out)
    assert f"belfryctl: {side}: " in err and nobody in err and f"named with {flag}" in err, err


def test_rights_of_a_user_are_enough_for_what_he_may_read(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), rights="upstream")
    write(cluster.endpoints, "mode=one", "count=20", "prefix=/a/1", "--user=" + ":".join(ROOT))
    user = ["--user", ":".join(READER), "--for", "1s", "--command-timeout", "30s"]
    runs = [Verify(cluster.endpoints, tier.url, "--prefix", "/a/", *user),
            Verify(cluster.endpoints, tier.url, "--prefix", "/b/", *user)]
    code, said = runs[0].result()
    assert_clean(code, said)
    assert said["events"] >= 20, said
    code, out, err = runs[1].end()
    assert code == 4 and out == "", (code, out, err)


def test_one_side_may_speak_tls_and_the_other_not(make_cluster, make_tier, tmp_path):
    certs = Certs(tmp_path / "certs")
    cluster = make_cluster(tls=certs)
    tier = make_tier(cluster, "--upstream-cacert", certs.path("ca.pem"))
    code, said = Verify(cluster.endpoints, tier.url, "--cacert", certs.path("ca.pem"), "--write", "100",
                        "--write-prefix", "/own/", "--for", "1s").result()
    assert_clean(code, said)
    assert said["events"] > 5, said


def test_each_side_may_have_credentials_of_its_own(make_cluster, make_tier, tmp_path):
    """etcd wants its own client certificates, and the tier has another authority and wants none."""
    at_etcd, at_tier = Certs(tmp_path / "etcd", client_auth=True), Certs(tmp_path / "tier")
    cluster, port = make_cluster(tls=at_etcd), free_port()
    make_tier(cluster, "--upstream-cacert", at_etcd.path("ca.pem"), "--upstream-cert", at_etcd.path("client.pem"),
              "--upstream-key", at_etcd.path("client.key"),
              listen=[f"https://127.0.0.1:{port},cert={at_tier.path('server.pem')},key={at_tier.path('server.key')},rights=open"])
    reference = ["--reference-cacert", at_etcd.path("ca.pem"), "--reference-cert", at_etcd.path("client.pem"),
                 "--reference-key", at_etcd.path("client.key")]
    code, said = Verify(cluster.endpoints, f"https://127.0.0.1:{port}", "--cacert", at_tier.path("ca.pem"), *reference,
                        "--write", "100", "--write-prefix", "/own/", "--for", "1s").result()
    assert_clean(code, said)
    assert said["events"] > 5, said


def test_each_side_may_have_a_user_of_its_own(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    root = [ROOT[0], str(password)]
    tier = make_tier(cluster, "--upstream-user", root[0], "--upstream-password-file", root[1], rights="upstream")
    own = ["--reference-user", root[0], "--reference-password-file", root[1]]
    code, said = Verify(cluster.endpoints, tier.url, "--prefix", "/a/", "--user", ":".join(READER), *own, "--write", "100",
                        "--write-prefix", "/a/own/", "--for", "1s", "--command-timeout", "30s").result()  # READER may not write
    assert_clean(code, said)
    assert said["events"] > 5, said


@pytest.mark.parametrize("args", [["--reference-cert", "a"], ["--reference-password-file", "a"], ["--reference-user", "a"],
                                  ["--kube", "v1/pods", "--reference-user", "a:b"]], ids=" ".join)
def test_credentials_for_the_reference_are_checked(args):
    done = procs.run([binary("belfryctl"), "verify", "--reference", "http://127.0.0.1:1", *args], check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and done.stdout == b"" and b"--reference-" in done.stderr, done


def test_another_cluster_is_not_verified(pair, make_cluster):
    other = make_cluster(token="other")
    code, out, err = Verify(pair.cluster.endpoints, other.endpoints, "--for", "1s").end()
    assert code == 1 and "another cluster" in err and "--reference must be" in err, (code, out, err)


@pytest.mark.parametrize("args", [[], ["--reference", "x:1", "--endpoints", "x:1"],
                                  ["--reference", "x:1", "--write", "5"], ["--reference", "x:1", "--watchers", "0"],
                                  ["--reference", "x:1", "--write", "5", "--write-prefix", "/b", "--prefix", "/a"],
                                  ["--reference", "x:1", "--write", "5", "--write-prefix", "/a", "/a"],
                                  ["--reference", "x:1", "-w", "json"], ["--reference", "x:1", "--max-lag", "1ms"]],
                         ids=" ".join)
def test_mistakes_are_told_on_one_line(args):
    done = procs.run([binary("belfryctl"), "verify", *args], check=False)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done
