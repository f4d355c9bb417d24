"""Tiers in a chain: what one tier promises holds through two and three of them, and a chain that cannot work says so."""
import json
import os
import re
import threading
import time

import history
import procs
import pytest
from belfryd import Belfryd
from checker import Spec, check_file
from client import Recorder, Writer, binary, write
from etcd import PATIENT
from patience import within
from proxy import Proxy
from stack import Stack, core, follower, is_ready, total, tree, wait_down
from test_identity import restore

CLOSED = 'belfry_streams_closed_total{dialect="grpc",reason="%s"}'
COMPACTED = "BELFRY_ERR_COMPACTED"


def follow(tier, path, number=0, **options):
    recorder = Recorder(tier.url, path)
    recorder.open(Spec(number, "prefix", b"", rev="1", **options))
    return recorder


def judge(recorder, specs, truth):
    verdict = check_file(recorder.record, specs, truth)
    assert verdict.n_violations == 0, str(verdict)
    return verdict


# ---- who is above and below ----

def test_an_empty_etcd_behind_tiers_is_live_at_once(make_cluster, make_tier):
    cluster = make_cluster()
    assert cluster.revision() == 1, "the test has lost its point"
    stack = Stack(make_tier, cluster, 1)
    for _ in range(2):
        with within(4):
            stack.tiers.append(make_tier(stack.leaf.url, "--name", f"t{len(stack.tiers)}"))
        assert stack.leaf.numbers()["upstream"]["revision"] == 1


def test_the_tree_shows_every_level(cluster, make_tier, figure):
    stack = Stack(make_tier, cluster, 3)
    for i in range(60):
        cluster.put("/a", str(i))

    def measured():
        levels = tree(stack.leaf)["above"]
        return len(levels) == 3 and "hop" in levels[1] and levels[2].get("hop") == "measured"
    procs.wait_until(measured, 10, 0.2, lambda: f"levels: {tree(stack.leaf)}")
    last = cluster.revision()
    procs.wait_until(lambda: all(level["revision"] == last for level in tree(stack.leaf)["above"]), 10, 0.2, "same revision")
    seen = tree(stack.leaf)
    assert [level["name"] for level in seen["above"]] == ["etcd", "t0", "t1"]
    assert [level["level"] for level in seen["above"]] == [3, 2, 1]
    etcd, top, middle, leaf = seen["above"] + [seen["self"]]
    assert etcd["version"].startswith("3.") and top["version"].startswith("belfryd/")
    assert middle["endpoint"] == stack.tiers[1].url and "endpoint" not in top and "endpoint" not in etcd, \
        "addresses are not told to those below"
    assert tree(stack.top)["above"][0]["endpoint"] == cluster.members[0].url
    assert "hop" not in etcd and top["hop"] == "half_trip", "etcd does not tell when it published"
    for level in (middle, leaf):
        assert level["hop"] == "measured" and level["standing"] == "ready" and level["lag"] == 0
        assert level["hop_us"] < 1_000_000 and 0 < level["hop_error_us"] < 1_000_000
    figure("stack.hop_us", leaf["hop_us"], f"+- {leaf['hop_error_us']} us (on a busy machine, sanitized or not)")
    below = tree(stack.top)["below"]
    assert [b["name"] for b in below] == ["t1"] and below[0]["position"] == last and below[0]["lag"] == 0
    assert tree(stack.leaf)["below"] == []
    assert [t.metrics()["belfry_tiers_above"] for t in stack.tiers] == [0, 1, 2]
    assert [t.metrics()["belfry_tiers_below"] for t in stack.tiers] == [1, 1, 0]
    assert 0 < stack.leaf.metrics()["belfry_hop_latency_seconds"] < 1
    assert "belfry_hop_latency_seconds" not in stack.top.metrics(), "a guess is no measurement"
    admin = f"http://127.0.0.1:{stack.leaf.admin_port}"
    said = procs.run([binary("belfryctl"), "tree", "--admin", admin, "--output", "json"]).stdout
    assert [level["name"] for level in json.loads(said)["above"]] == ["etcd", "t0", "t1"]
    text = procs.run([binary("belfryctl"), "tree", "--admin", admin]).stdout.decode()
    assert re.search(r"3 +etcd .*\n +2 +t0 .*rtt/2.*\n +1 +t1 .* \+- .*\n +0 +t2 .* \+- ", text), text
    none = procs.run([binary("belfryctl"), "tree", "--admin", "http://127.0.0.1:1"], check=False)
    assert none.returncode == 3 and b"--admin" in none.stderr


def test_the_tree_names_the_broken_link(make_cluster, make_tier):
    cluster = make_cluster()
    stack = Stack(make_tier, cluster, 3)
    admin = f"http://127.0.0.1:{stack.leaf.admin_port}"

    def seen():
        return tree(stack.leaf)

    def standings():
        return [level.get("standing") for level in seen()["above"]] + [seen()["self"]["standing"]]

    def all_is_well():
        procs.wait_until(lambda: standings() == [None, "ready", "ready", "ready"], 30, 0.2, lambda: str(seen()))
        assert "broken" not in seen()
    cluster.put("/a", "1")
    all_is_well()
    cluster.members[0].kill()
    procs.wait_until(lambda: standings() == [None, "stale", "stale", "stale"], 30, 0.2, lambda: str(seen()))
    broken = seen()["broken"]
    assert (broken["level"], broken["name"], broken["above"]) == (2, "t0", "etcd") and broken["for_ms"] > 4000, broken
    text = procs.run([binary("belfryctl"), "tree", "--admin", admin]).stdout.decode()
    assert re.search(r"\nbroken: t0 cannot connect to etcd, for [\d.]+ s\n", text), text
    assert cluster.members[0].url not in json.dumps(seen()), "addresses are not told to those below"
    cluster.members[0].restart()
    all_is_well()

    stack.tiers[1].kill()
    procs.wait_until(lambda: seen()["above"][2]["standing"] == "?", 30, 0.2, lambda: str(seen()))
    middle, broken = seen()["above"][2], seen()["broken"]
    assert middle["last_standing"] == "ready" and middle["age_ms"] > 2000, middle
    assert (broken["level"], broken["above"]) == (0, "t1") and stack.tiers[1].url in broken["why"], broken
    text = procs.run([binary("belfryctl"), "tree", "--admin", admin]).stdout.decode()
    assert re.search(r" +1 t1 +\S+ +ready\? +\d+\.\d s ", text) and "broken: t2 cannot connect to t1" in text, text
    stack.tiers[1].start()
    all_is_well()


# ---- chains that cannot work ----

def tier_at(tmp_path, name, upstream="http://127.0.0.1:1"):
    folder = tmp_path / name
    folder.mkdir()
    return Belfryd(folder, upstream, ["--name", name])


def exited(tiers, timeout=30):
    procs.wait_until(lambda: any(not t.is_running() for t in tiers), timeout, 0.1,
                     lambda: "somebody stops:\n" + "\n".join(t.log()[-1500:] for t in tiers))
    gone = next(t for t in tiers if not t.is_running())
    assert gone.proc.returncode == 1, gone.log()
    lines = [line for line in gone.log().splitlines() if "level=error" in line]
    assert len(lines) == 1 and "event=upstream_circle" in lines[0], gone.log()
    return gone, lines[0]


@pytest.mark.parametrize("n", [2, 3])
def test_tiers_in_a_circle_stop_and_say_which(tmp_path, n):
    tiers = [tier_at(tmp_path, name) for name in ("a", "b", "c")[:n]]
    for i, tier in enumerate(tiers):
        tier.upstream = tiers[(i + 1) % n].url
        tier.start(wait=False)
    gone, line = exited(tiers)
    names = [t.flags[1] for t in tiers]
    at = names.index(gone.flags[1])
    chain = " > ".join(names[at:] + names[:at + 1])
    assert f"belfry: tiers in a circle: {chain}; give each tier its own --name" in line, line
    assert not any(t.is_running() and is_ready(t) for t in tiers)


def test_two_tiers_of_one_name_are_told_to_take_another(cluster, make_tier, tmp_path):
    top = make_tier(cluster, "--name", "host")
    other = tier_at(tmp_path, "other", top.url)
    other.flags = ["--name", "host"]
    other.start(wait=False)
    gone, line = exited([other])
    assert "belfry: tiers in a circle: host > host; give each tier its own --name" in line
    assert is_ready(top)


def test_a_tier_that_lists_itself_goes_on_with_the_others(cluster, tmp_path):
    """A list that was copied to everybody, themselves among them by another name: told as an error, and of no other harm."""
    member = cluster.members[0]
    member.kill()
    tier = tier_at(tmp_path, "a")
    itself = Proxy(tier.endpoint)
    tier.upstream = f"{itself.url},{member.url}"
    tier.start(wait=False)
    procs.wait_until(lambda: "event=upstream_circle" in tier.log(), 20, 0.1, lambda: tier.log())
    member.restart()
    tier.wait_ready()
    errors = [line for line in tier.log().splitlines() if "level=error" in line]
    assert len(errors) == 1 and "tiers in a circle: a > a; give each tier its own --name" in errors[0], errors
    assert errors[0].rstrip().endswith(f"endpoint={itself.url}")
    procs.wait_until(lambda: [level["endpoint"] for level in tree(tier)["above"]] == [member.url], 10, 0.2,
                     lambda: str(tree(tier)))
    accepted = itself.n_accepted
    for i in range(8):  # who has no pin takes turns between endpoints: never that one
        procs.run(["etcdctl", "--endpoints", tier.endpoint, *PATIENT, "put", "/a", str(i)])
    member.kill()
    time.sleep(3)
    assert tier.is_running(), "rather nobody than itself"
    assert itself.n_accepted <= accepted, "and it is not tried again"
    member.restart()
    tier.wait_ready()
    itself.close()


def test_a_tier_may_be_called_etcd(cluster, make_tier):
    top = make_tier(cluster, "--name", "top")
    leaf = make_tier(top.url, "--name", "etcd")
    procs.wait_until(lambda: len(tree(leaf)["above"]) == 2, 10, 0.2, lambda: str(tree(leaf)))
    time.sleep(1.5)
    assert leaf.is_running() and is_ready(leaf), leaf.log()
    assert leaf.metrics()["belfry_tiers_above"] == 1


def test_tiers_that_were_live_and_are_turned_into_a_circle_stop(cluster, make_tier):
    """Both are warm, and each is what the other needs: nothing in them would ever run dry by itself."""
    stack = Stack(make_tier, cluster, 2)
    cluster.put("/a", "1")
    top, leaf = stack.tiers
    top.kill()
    top.upstream = leaf.url
    top.start(wait=False)
    gone, line = exited(stack.tiers)
    assert "belfry: tiers in a circle: t" in line
    time.sleep(6)
    assert not any(t.is_running() and is_ready(t) for t in stack.tiers)


def test_a_ninth_tier_is_refused(cluster, make_tier, tmp_path):
    stack = Stack(make_tier, cluster, 8, "--workers", "1")
    procs.wait_until(lambda: len(tree(stack.leaf)["above"]) == 8, 15, 0.2, "all levels are known")
    ninth = tier_at(tmp_path, "t8", stack.leaf.url).start(wait=False)
    gone, line = exited([ninth])
    chain = " > ".join(f"t{i}" for i in range(8, -1, -1))
    assert f"belfry: more than 8 tiers: {chain}; " in line, line
    warm = tier_at(tmp_path, "warm", stack.top.url).start()  # it has nothing to list, and nothing to ask etcd for
    warm.kill()
    warm.upstream = stack.leaf.url
    warm.start(wait=False)
    gone, line = exited([warm])
    assert f"belfry: more than 8 tiers: {chain.replace('t8', 'warm')}; " in line, line
    assert is_ready(stack.leaf)


# ---- faults of etcd, through tiers ----

@pytest.mark.parametrize("n", [2, 3])
def test_silence_of_etcd_reaches_every_tier(cluster, make_tier, tmp_path, n):
    stack = Stack(make_tier, cluster, n)
    recorder = follow(stack.leaf, tmp_path / "r", progress_notify="true")
    recorder.wait_rev({0: cluster.put("/a", "1")}, 10)
    before = [t.metrics()[CLOSED % "no_leader"] for t in stack.tiers]
    cluster.members[0].stop()
    with within(5 + 1.5 * n, at_least_s=3, why="5 s, and a second or so for each hop"):
        wait_down(stack, 12)
    for tier in stack.tiers:
        text = tier.get("/readyz?verbose")[1]
        assert "[-]upstream" in text, text
    after = [t.metrics()[CLOSED % "no_leader"] for t in stack.tiers]
    assert all(b > a for a, b in zip(before, after)), "streams that ask for a leader end at every level"
    progress = [total(t, "core", "progress") for t in stack.tiers]
    time.sleep(2.5)
    assert [total(t, "core", "progress") for t in stack.tiers] == progress, "nobody says that nothing is missing"
    cluster.members[0].cont()
    stack.wait_ready()
    recorder.wait_rev({0: cluster.put("/a", "2")}, 20)
    recorder.quit()
    assert stack.listings() == [1] * n, "it was silence, not loss"


def test_a_restored_backup_is_told_through_three_tiers_once(cluster, make_tier, tmp_path):
    stack = Stack(make_tier, cluster, 3)
    for i in range(20):
        cluster.put(f"/a/{i}", "before")
    snapshot = tmp_path / "snapshot.db"
    cluster.ctl("snapshot", "save", str(snapshot))
    recorder = Recorder(stack.leaf.endpoint, tmp_path / "go", go=True)
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    recorder.open(Spec(1, "prefix", b"/b/", rev="1"))
    for i in range(40):
        last = cluster.put(f"/a/{i}", "lost")
    recorder.wait_rev({0: last}, 10)
    restore(cluster, snapshot)
    cluster.members[0].start()
    for i in range(60):
        now = cluster.put(f"/a/{i}", "another history")
    stack.wait_ready(60)
    for number in (0, 1):
        recorder.wait_state(number, "ended", 30)
        assert "compacted" in recorder.status()[number]["err"].lower()
    recorder.open(Spec(2, "prefix", b"/a/", rev=str(now)))
    recorder.wait_rev({2: now}, 20)
    recorder.quit()
    with open(recorder.record) as f:
        ends = [line.split()[1] for line in f if line.startswith("X ") and "COMPACTED" in line]
    assert sorted(ends) == ["0", "1"], "each is told once"
    for tier in stack.tiers:
        assert follower(tier)["relists_rewritten"] == 1, f"{tier.flags[1]}: {follower(tier)}"
    state = cluster.state()
    for tier in stack.tiers:
        def at_head():
            return tier.numbers()["upstream"]["revision"] >= now
        procs.wait_until(at_head, 20, 0.1, f"{tier.flags[1]} at {now}")
    assert len(state) == 60


def test_history_that_a_leaf_has_lost_comes_through_the_tiers(cluster, make_tier, tmp_path):
    stack = Stack(make_tier, cluster, 2, leaf_flags=("--log-bytes", "1MiB", "--history-bytes", "1MiB"))
    write(cluster.endpoints, "mode=put", "prefix=/h/", "keys=50", "count=6000", "size=1000")
    last = cluster.put("/h/last", "x")
    procs.wait_until(lambda: stack.leaf.numbers()["upstream"]["revision"] >= last, 30, 0.1, "the leaf is at the head")
    oldest = stack.leaf.numbers()["replica"]["history_oldest"]
    assert oldest > 2000, "the test has lost its point"
    recorder = follow(stack.leaf, tmp_path / "r")
    recorder.wait_rev({0: last}, 60)
    recorder.quit()
    truth = history.read(cluster, last)
    verdict = judge(recorder, [Spec(0, "prefix", b"", rev="1")], truth)
    assert verdict.n_events == len(truth.events)
    assert core(stack.leaf)["backfills_done"] > 0
    assert core(stack.top)["backfills_done"] == 0, "what the tier above has it gives from its own window"


# ---- restarts ----

def test_a_middle_tier_is_restarted_and_nobody_notices(cluster, make_tier, tmp_path):
    stack = Stack(make_tier, cluster, 3, "--drain", "2s")
    middle = stack.tiers[1]
    writer = Writer(cluster.endpoints, "mode=mix", "rate=300", "size=200")
    recorders = [follow(stack.leaf, tmp_path / "c"), Recorder(stack.leaf.endpoint, tmp_path / "go", go=True)]
    recorders[1].open(Spec(0, "prefix", b"", rev="1"))
    for how in (middle.kill, middle.stop, middle.kill):
        time.sleep(1)
        how()
        middle.start()
        mark = cluster.put("/w/mark", "x")
        procs.wait_until(lambda: stack.leaf.numbers()["upstream"]["revision"] >= mark, 20, 0.1, "the leaf goes on")
        assert follower(middle)["listings"] == 0, "a warm start lists nothing"
    writer.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/last", "x")
    truth = history.read(cluster, last)
    for recorder in recorders:
        recorder.wait_rev({0: last}, 30)
        recorder.quit()
        judge(recorder, [Spec(0, "prefix", b"", rev="1")], truth)
    assert stack.listings() == [1, 0, 1], "nobody lists again: not above, not below"
    assert total(stack.leaf, "core", "compacted") == 0
    assert follower(stack.leaf)["overlaps"] >= 3, "each time it has compared where it was"


def test_a_leaf_with_many_watchers_is_restarted_without_a_storm(cluster, make_tier, tmp_path, figure):
    """Two leaves below one tier; all clients are on the first, know the second, and the first is drained."""
    top = make_tier(cluster, "--name", "top")
    leaves = [make_tier(top.url, "--name", f"leaf{i}", "--drain", "6s") for i in range(2)]
    per, n = 100, 20
    recorders = []
    for i in range(n):
        recorder = Recorder(f"{leaves[0].url},{leaves[1].url}", tmp_path / f"r{i}", options=["dial-timeout=2s"])
        recorder.command(f"many 0 {per} /many/", timeout=60)
        recorders.append(recorder)
    for recorder in recorders:
        recorder.wait_connected(per, timeout=60)
    first = cluster.put("/many/000007", "x")
    for recorder in recorders:
        recorder.wait_rev({7: first}, 10)
    loaded = max(leaves, key=lambda t: core_watchers(t))  # libbelfry begins with an endpoint of its choice
    other = next(t for t in leaves if t is not loaded)
    connections = top.numbers()["listeners"]["accepted"]
    ticks = procs.cpu_ticks(top.pid)
    samples, over = [], threading.Event()

    def sample():
        while not over.is_set():
            samples.append((time.monotonic(), other.numbers()["listeners"]["accepted"]))
            time.sleep(0.1)
    sampler = threading.Thread(target=sample)
    sampler.start()
    began = time.monotonic()
    assert loaded.stop() == 0
    loaded.start()
    took = time.monotonic() - began
    over.set()
    sampler.join()
    last = cluster.put("/many/000007", "y")
    for recorder in recorders:
        recorder.wait_rev({7: last}, 20)
        recorder.quit()
    used = (procs.cpu_ticks(top.pid) - ticks) / os.sysconf("SC_CLK_TCK")
    burst = max(0.5 * (b - a) / (then - at) for at, a, then, b in windows(samples, 0.5))
    figure("stack.restart_accepts_in_half_a_second", burst, f"of {n} connections, drain 6 s")
    figure("stack.restart_upstream_cpu", used, f"s of CPU in {took:.1f} s")
    assert burst <= n // 2 + 2, "clients come over the time of the drain, not at once"
    assert top.numbers()["listeners"]["accepted"] - connections <= 8, "what is above sees the tier come back, not its clients"
    assert used < took * 0.5
    assert follower(loaded)["listings"] == 0 and follower(top)["listings"] == 1


def windows(samples, length):
    """Of (time, count): from each of them to the first that is `length` seconds later or more."""
    for i, (at, count) in enumerate(samples):
        later = next(((t, n) for t, n in samples[i:] if t - at >= length), None)
        if later:
            yield at, count, *later


def core_watchers(tier):
    return total(tier, "core", "watchers")
