"""One belfryd in front of etcd: it starts, follows, serves, is drained, killed and restarted."""
import json
import os
import shutil
import signal
import subprocess
import time

import procs
from checker import Spec, check_file
from client import Recorder, Writer, binary, go_binary, write
import history
from etcd import PATIENT
from patience import within

WATCHERS = "etcd_debugging_mvcc_watcher_total"


def ctl(tier, *args, **kw):
    return procs.run(["etcdctl", "--endpoints", tier.endpoint, *PATIENT, *args], ns=tier.ns, **kw)


def follow(tier, path, go=False, **options):
    recorder = Recorder(tier.endpoint if go else tier.url, path, go=go)
    recorder.open(Spec(0, "prefix", b"", rev="1", **options))
    return recorder


def test_etcdctl_works_through_it(cluster, tier):
    assert ctl(tier, "put", "a", "1").stdout == b"OK\n"
    assert ctl(tier, "get", "a").stdout == b"a\n1\n"
    assert cluster.ctl("get", "a").stdout == b"a\n1\n", "the write is etcd's"
    watch = procs.spawn(["etcdctl", "--endpoints", tier.endpoint, "watch", "--rev", "1", "--prefix", ""],
                        stdout=subprocess.PIPE)
    assert [watch.stdout.readline() for _ in range(3)] == [b"PUT\n", b"a\n", b"1\n"]
    ctl(tier, "del", "a")
    assert [watch.stdout.readline() for _ in range(2)] == [b"DELETE\n", b"a\n"]
    procs.end(watch)


def test_clientv3_recipes_work_through_it(tier):
    out = procs.run([go_binary("goclient"), tier.endpoint], timeout=90).stdout.decode()
    assert out.splitlines()[-1] == "all ok", out


def test_etcd_carries_one_watcher_whatever_the_number(cluster, tier, tmp_path, soak, figure):
    procs.wait_until(lambda: cluster.members[0].metric(WATCHERS) == 1, 10, 0.1, "one watcher upstream")
    recorders = []
    n_watches = 20_000 if not soak else 100_000
    per = 10_000
    for i in range(n_watches // per):
        recorder = Recorder(tier.url, tmp_path / f"record{i}")
        recorder.command(f"many 0 {per} /many/", timeout=60)
        recorders.append(recorder)
    for recorder in recorders:
        recorder.wait_connected(per, timeout=60)
    assert cluster.members[0].metric(WATCHERS) == 1
    last = cluster.put("/many/000007", "x")
    for recorder in recorders:
        recorder.wait_rev({7: last}, 10)
    assert tier.metrics()['belfry_watchers{dialect="grpc",state="synced"}'] >= n_watches
    figure("tier.watchers", n_watches)
    figure("tier.upstream_watchers", int(cluster.members[0].metric(WATCHERS)))
    for recorder in recorders:
        recorder.quit()


def test_restart_is_warm_and_nobody_notices(cluster, make_tier, tmp_path):
    tier = make_tier(cluster, "--drain", "3s")
    writer = Writer(cluster.endpoints, "mode=mix", "rate=500", "size=300")
    recorders = [follow(tier, tmp_path / "c"), follow(tier, tmp_path / "go", go=True)]
    for how in (tier.kill, tier.stop, tier.kill):
        time.sleep(1)
        how()
        tier.start()
        assert tier.numbers()["upstream"]["follower"]["listings"] == 0, "a warm start lists nothing"
    written = writer.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/last", "x")
    truth = history.read(cluster, last)
    for recorder in recorders:
        recorder.wait_rev({0: last}, 30)
        recorder.quit()
        verdict = check_file(recorder.record, [Spec(0, "prefix", b"", rev="1")], truth)
        assert verdict.n_violations == 0, str(verdict)
        assert verdict.n_events >= written["writes"] // 2


def test_drain_ends_streams_so_that_clients_resume(cluster, make_tier, tmp_path):
    first, second = make_tier(cluster, "--drain", "2s"), make_tier(cluster)
    recorder = Recorder(f"{first.endpoint},{second.endpoint}", tmp_path / "go", go=True)
    recorder.open(Spec(0, "prefix", b"", rev="1"))
    recorder.wait_rev({0: cluster.put("/a", "1")}, 10)
    with within(5):
        assert first.stop() == 0
    recorder.wait_rev({0: cluster.put("/a", "2")}, 10)
    recorder.quit()
    assert "draining" in first.log()


def test_second_signal_ends_it_at_once(cluster, make_tier, tmp_path):
    tier = make_tier(cluster)
    recorder = follow(tier, tmp_path / "c")
    recorder.wait_rev({0: cluster.put("/a", "1")}, 10)
    os.kill(tier.pid, signal.SIGTERM)
    time.sleep(0.3)
    os.kill(tier.pid, signal.SIGTERM)
    assert tier.proc.wait(5) == 0
    recorder.quit()


def client_urls(tier):
    """As a client sees them that syncs its endpoints with the cluster."""
    members = json.loads(ctl(tier, "member", "list", "-w", "json").stdout)["members"]
    return [url for member in members for url in member["clientURLs"]]


def test_clients_that_sync_stay_with_the_tier(make_cluster, make_tier):
    cluster = make_cluster(3)
    tier = make_tier(cluster)
    assert client_urls(tier) == [tier.url] * 3
    assert f"event=advertise url={tier.url}" in tier.log() and "no_advertise" not in tier.log()
    asked = json.loads(ctl(tier, "endpoint", "status", "--cluster", "-w", "json").stdout)
    assert {status["Endpoint"] for status in asked} == {tier.url}, "etcdctl goes where MemberList says"


def test_a_tier_on_every_address_warns_that_clients_leave_it(cluster, make_tier):
    tier = make_tier(cluster, "--insecure-listen", wait=False)
    tier.kill()
    tier.listen = [f"http://0.0.0.0:{tier.port}"]
    tier.start()
    assert client_urls(tier) == [cluster.members[0].url], "nothing is guessed"
    warned = [line for line in tier.log().splitlines() if "event=no_advertise" in line]
    assert len(warned) == 1 and "level=warn" in warned[0] and "--advertise" in warned[0] and "0.0.0.0" in warned[0], warned
    tier.kill()
    tier.flags += ["--advertise", tier.url]
    tier.start()
    assert client_urls(tier) == [tier.url]
    assert len([line for line in tier.log().splitlines() if "event=no_advertise" in line]) == 1


def test_upstream_down_at_start_is_waited_for(make_cluster, make_tier):
    cluster = make_cluster()
    member = cluster.members[0]
    member.kill()
    tier = make_tier(cluster, wait=False)
    procs.wait_until(lambda: tier.get("/readyz?verbose")[0] == 503, 10, 0.1, "not ready")
    status, text = tier.get("/readyz?verbose")
    assert "refused" in text or "no answer" in text, text
    assert tier.get("/livez")[0] == 200
    time.sleep(3)
    looking = [line for line in tier.log().splitlines() if "upstream_looking" in line]
    assert len(looking) <= 2, "one line for a change of state, not for every try"
    member.restart()
    tier.wait_ready()
    assert ctl(tier, "put", "a", "1").stdout == b"OK\n"


def test_silence_of_upstream_is_noticed_and_told(cluster, tier, tmp_path):
    """A stopped etcd closes no connection."""
    recorder = follow(tier, tmp_path / "c")
    leader = Recorder(tier.endpoint, tmp_path / "go", options=["hasleader=true"], go=True)
    leader.open(Spec(0, "prefix", b"", rev="1"))
    plain = follow(tier, tmp_path / "go2", go=True)
    rev = cluster.put("/a", "1")
    for r in (recorder, leader, plain):
        r.wait_rev({0: rev}, 10)
    cluster.members[0].stop()
    with within(9, at_least_s=3):
        procs.wait_until(lambda: tier.get("/readyz")[0] == 503, 15, 0.1, "not ready")
    leader.wait_state(0, "ended", 5)
    assert "no_leader" in leader.status()[0]["err"]
    assert plain.status()[0]["state"] == "open"
    cluster.members[0].cont()
    tier.wait_ready()
    rev = cluster.put("/a", "2")
    for r in (recorder, plain):
        r.wait_rev({0: rev}, 20)
        r.quit()
    leader.quit()


def test_history_older_than_the_window_comes_from_upstream(cluster, make_tier, tmp_path):
    tier = make_tier(cluster, "--log-bytes", "1MiB", "--history-bytes", "1MiB")
    write(cluster.endpoints, "mode=put", "count=20000", "size=200", "prefix=/h/")
    recorder = follow(tier, tmp_path / "c", prev_kv="true")
    last = cluster.put("/h/last", "x")
    recorder.wait_rev({0: last}, 60)
    recorder.quit()
    truth = history.read(cluster, last)
    verdict = check_file(recorder.record, [Spec(0, "prefix", b"", rev="1", prev_kv="true")], truth)
    assert verdict.n_violations == 0, str(verdict)
    assert tier.numbers()["upstream"]["backfills_done"] > 0
    cluster.compact(last - 5)
    tier.kill()  # what it had read ahead it might still give
    tier.start()
    recorder = follow(tier, tmp_path / "old")
    recorder.wait_state(0, "ended", 20)
    assert "COMPACTED" in recorder.status()[0]["err"]
    recorder.quit()


def test_past_rewritten_upstream_cancels_every_watch(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    for i in range(20):
        cluster.put("/a", str(i))
    tier = make_tier(cluster)
    recorder = follow(tier, tmp_path / "c")
    recorder.wait_rev({0: cluster.revision()}, 10)
    cluster.forget()
    cluster.start()
    for i in range(3):
        cluster.put("/b", str(i))
    recorder.wait_state(0, "ended", 30)
    assert recorder.status()[0]["err"] in ("BELFRY_ERR_COMPACTED", "BELFRY_ERR_REWOUND", "BELFRY_ERR_CLUSTER")
    recorder.quit()
    tier.wait_ready()
    again = follow(tier, tmp_path / "again")
    again.wait_rev({0: cluster.put("/b", "last")}, 10)
    again.quit()


def test_health_and_version_on_the_client_port(cluster, tier):
    def get(path, *flags):
        done = procs.run(["curl", "-s", *flags, "-w", "\n%{http_code}", tier.url + path])
        body, _, status = done.stdout.decode().rpartition("\n")
        return int(status), body
    for flags in ((), ("--http2-prior-knowledge",)):
        status, body = get("/health", *flags)
        assert (status, json.loads(body)["health"]) == (200, "true")
        assert json.loads(get("/version", *flags)[1])["etcdserver"].startswith("3.")
        assert get("/nowhere", *flags)[0] == 404
    cluster.members[0].stop()
    procs.wait_until(lambda: get("/health")[0] == 503, 12, 0.2, "not healthy")
    cluster.members[0].cont()


def test_every_prometheus_sees_the_longest_turn(tier):
    """It was the longest since the last question: one server took it away from the others."""
    name = "belfry_worker_longest_turn_seconds"
    first = tier.metrics()[name]
    assert first > 0
    assert all(tier.metrics()[name] >= first for _ in range(3))


def test_range_outside_the_scope_is_refused(cluster, make_tier, tmp_path):
    tier = make_tier(cluster, "--scope", "/a/")
    inside = Recorder(tier.url, tmp_path / "inside")
    inside.open(Spec(0, "prefix", b"/a/", rev="1"))
    inside.open(Spec(1, "key", b"/a/1", rev="1"))
    outside = [Spec(0, "prefix", b"/b/", rev="1"), Spec(1, "prefix", b"", rev="1"), Spec(2, "from", b"/a/1", rev="1")]
    recorder = Recorder(tier.url, tmp_path / "outside")
    for spec in outside:
        recorder.open(spec)
        recorder.wait_state(spec.number, "ended", 10)
        assert "REFUSED" in recorder.status()[spec.number]["err"]
    recorder.quit()
    cluster.put("/b/1", "x")
    last = cluster.put("/a/1", "y")
    inside.wait_rev({0: last, 1: last}, 10)
    inside.quit()


def test_old_reads_are_answered_while_etcd_is_away(cluster, make_tier):
    """Auth is off, no client has asked for a while, and etcd dies: reads that may be old are answered at any time."""
    tier = make_tier(cluster)
    revision = cluster.put("kept", "1")
    procs.wait_until(lambda: tier.numbers()["upstream"]["revision"] >= revision, 10)
    time.sleep(8)  # longer than "auth is off" is valid for new questions; nothing asks meanwhile
    for member in cluster.members:
        member.kill()
    dead, asked = time.monotonic(), []
    while time.monotonic() < dead + 20:
        for program in ("etcdctl", binary("belfryctl")):  # belfryctl sends hasleader with every call that needs a leader
            began = time.monotonic()
            done = procs.run([program, "--endpoints", tier.endpoint, "--command-timeout=2s", "get", "kept", "--consistency", "s"],
                             ns=tier.ns, check=False)
            asked.append((program, began - dead, time.monotonic() - began, done.stdout, done.stderr[-300:]))
        time.sleep(1)
    assert all(answer[3] == b"kept\n1\n" for answer in asked), asked
    assert "stale" in tier.get("/readyz")[1]
    assert tier.metrics()["belfry_reads_stale_total"] >= len(asked) // 3


def test_port_that_is_taken_is_noticed_before_upstream_is_asked(cluster, make_tier):
    """A belfryd that is restarted in a loop must not list etcd each time."""
    first = make_tier(cluster)
    second = make_tier(cluster, wait=False)
    second.cache += "-new"
    own, admin = second.listen, second.admin_port
    for listen, admin_port in (([first.url], admin), (own, first.admin_port)):
        second.kill()
        before = len(second.log())
        second.listen, second.admin_port = listen, admin_port
        second.start(wait=False)
        procs.wait_until(lambda: "event=failed" in second.log()[before:], 10, message=second.log)
        said = second.log()[before:]
        assert "(Address already in use)" in said and "upstream_" not in said, said
        assert not os.path.exists(second.cache), "the replica was not opened"


def test_etcd_that_is_replaced_by_an_empty_one_is_an_error(make_cluster, make_tier):
    """What was lost is said in the log, by /readyz and by doctor, and the tier is ready: it follows what is there."""
    cluster = make_cluster(1)
    for i in range(20):
        cluster.put(f"lost/{i}", "x")
    last = cluster.put("lost/last", "x")
    tier = make_tier(cluster)
    member = cluster.members[0]
    member.kill()
    shutil.rmtree(member.data_dir)
    member.start(client_port=member.client_port)
    procs.wait_until(lambda: "event=upstream_lost" in tier.log(), 30, 0.1, tier.log)
    line = next(line for line in tier.log().splitlines() if "event=upstream_lost" in line)
    assert "level=error" in line and f"rev_before={last} rev=1 keys=0 " in line, line
    status, body = tier.get("/readyz?verbose")
    assert status == 200 and f"s ago: revision {last} became 1, with 0 keys\n" in body, body
    assert f"revision {last} became 1" in tier.numbers()["summary"]["warnings"][0]["why"]
    done = procs.run([binary("belfryctl"), "doctor", "--endpoints", tier.url, "--admin", f"http://127.0.0.1:{tier.admin_port}"], check=False)
    assert f"revision {last} became 1" in done.stdout.decode(), done.stdout.decode()
