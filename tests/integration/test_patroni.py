"""Patroni on a tier's JSON gateway: whole clusters with PostgreSQL (full length only), and many watchers made with its own client class."""
import json
import os
import subprocess
import sys
import time

import needs
import procs
import pytest
from patroni_cluster import TTL_S, PatroniCluster, root_of, version_of

needs.module_of_programs("patroni", "patroni and python3-etcd")
WATCHERS = os.path.join(os.path.dirname(__file__), "patroni_watchers.py")
# What Patroni says when its copy of the state has to be made anew, and when it cannot be.
REBUILDS = r"watchprefix failed|KVCache\.run|Failed to get list of machines"
full_length = pytest.mark.skipif(os.environ.get("BELFRY_SOAK") != "1", reason=needs.LENGTH + "with --soak, whole clusters, and the newest Patroni")
DEMOTIONS = r"(?i)demoting (self|primary)|demoted self"


# ---- whole clusters

@pytest.fixture
def make_patroni(tmp_path):
    made = []

    def make(root, endpoints):
        folder = tmp_path / "patroni"
        folder.mkdir()
        made.append(PatroniCluster(root, folder, endpoints))
        return made[-1].start()
    yield make
    for cluster in made:
        cluster.close()


def stay_as_they_are(patroni, turns=4):
    """The nodes go through their loop some times, and the primary and the timeline stay."""
    primary, timeline, demotions = patroni.primary(), patroni.timeline(), patroni.lines(DEMOTIONS)
    until = patroni.turns() + turns * len(patroni.nodes)
    procs.wait_until(lambda: patroni.turns() >= until, 60, 0.5, "Patroni's loop goes on")
    assert patroni.wait_whole() is primary and patroni.timeline() == timeline
    assert patroni.lines(DEMOTIONS) == demotions, "demoted without need"


def move_leader(cluster):
    leader = cluster.leader()
    cluster.move_leader_off(leader)
    assert cluster.leader() is not leader


def watches_made(tier):
    return tier.metrics()['belfry_watch_creates_total{dialect="grpc"}']


@full_length
@pytest.mark.parametrize("suite", ["bookworm", "sid"])
def test_a_cluster_lives_on_a_tier_alone(suite, make_cluster, make_tier, make_patroni, figure):
    root = root_of(suite)
    etcd = make_cluster(3)
    tier = make_tier(etcd)
    patroni = make_patroni(root, tier.endpoint)
    print(f"Patroni {version_of(root, 'patroni')}")
    first = patroni.wait_whole()
    assert patroni.lines(DEMOTIONS) == 0
    first.sql("create table t (n int primary key)")
    first.sql("insert into t select generate_series(1, 100)")

    # switchover
    second = next(node for node in patroni.nodes if node is not first)
    status, said = first.ask("/switchover", {"leader": first.name, "candidate": second.name})
    assert status == 200, said
    procs.wait_until(lambda: patroni.primary() is second, 60, 0.5, "switchover")
    assert patroni.wait_whole() is second
    figure(f"patroni.{suite}.demotions_of_the_switchover", patroni.lines(DEMOTIONS))
    second.sql("insert into t values (101)")
    stay_as_they_are(patroni)

    # what must not matter: another leader of etcd, a tier that restarts, a tier that is killed
    rebuilds = patroni.lines(REBUILDS)
    move_leader(etcd)
    stay_as_they_are(patroni)
    figure(f"patroni.{suite}.rebuild_lines_of_a_leader_change", patroni.lines(REBUILDS) - rebuilds)
    rebuilds = patroni.lines(REBUILDS)
    assert tier.stop() == 0
    tier.start()
    stay_as_they_are(patroni)
    figure(f"patroni.{suite}.rebuild_lines_of_a_restart", patroni.lines(REBUILDS) - rebuilds)
    tier.kill()
    tier.start()
    stay_as_they_are(patroni)

    # the primary's power is cut, and in the middle of the failover etcd's leader changes and the tier restarts
    demotions, began = patroni.lines(DEMOTIONS), time.monotonic()
    second.kill()
    procs.wait_until(lambda: time.monotonic() > began + TTL_S / 2, TTL_S, 0.1)
    move_leader(etcd)
    tier.kill()
    tier.start()
    third = procs.wait_until(patroni.primary, TTL_S + 60, 0.2, lambda: f"failover: {patroni.members()}")
    assert third is not second
    figure(f"patroni.{suite}.failover", f"{time.monotonic() - began:.1f} s")
    patroni.wait_whole()
    assert third.sql("select count(*) from t") == "101"
    third.sql("insert into t values (102)")
    second.start()  # it comes back as a replica
    assert patroni.wait_whole() is third
    procs.wait_until(lambda: second.sql("select count(*) from t") == "102", 60, 0.5, "the old primary follows")
    assert patroni.lines(DEMOTIONS) == demotions

    # then there is calm: copies of the state stay, and every connection is to the tier
    rebuilds, creates = patroni.lines(REBUILDS), watches_made(tier)
    stay_as_they_are(patroni, 6)
    assert patroni.lines(REBUILDS) == rebuilds and watches_made(tier) == creates
    assert tier.metrics()['belfry_streams{dialect="grpc"}'] == len(patroni.nodes)
    ports = set().union(*(node.peers() for node in patroni.nodes))
    assert tier.port in ports and not ports & {m.client_port for m in etcd.members}
    assert patroni.lines("Connected to Etcd node with term") == 0  # from 4.0.6 on it leaves an endpoint whose term goes back
    figure(f"patroni.{suite}.rebuild_lines", rebuilds)


# ---- its client class alone

class Members:
    """patroni_watchers.py."""

    def __init__(self, python, endpoint, n, scopes, log_path, *user):
        with open(WATCHERS) as f:
            argv = [*python, "-c", f.read(), endpoint, str(n), str(scopes), *user]
        self.log_path = log_path
        with open(log_path, "w") as log:
            self.proc = procs.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def next(self, word):
        """The number that follows the word."""
        line = self.proc.stdout.readline().split()
        assert line and line[0] == word, f"{line} instead of {word}: {self.log()}"
        return int(line[1])

    def log(self):
        with open(self.log_path) as f:
            return f.read()[-3000:]

    def seen(self, value):
        print(json.dumps(value), file=self.proc.stdin, flush=True)
        return self.next("seen")

    def rebuilt(self):
        self.proc.stdin.close()
        return self.next("rebuilt")


def write_configs(cluster, scopes, value):
    for i in range(scopes):
        cluster.put(f"/service/c{i}/config", json.dumps({"belfry": value}))


def check_members(cluster, tier, python, n, log_path, figure, name):
    scopes = 10
    began = time.monotonic()
    members = Members(python, tier.endpoint, n, scopes, log_path)
    assert members.next("ready") == n, members.log()
    figure(f"{name}.ready", f"{time.monotonic() - began:.1f} s for {n}")
    procs.wait_until(lambda: tier.metrics()['belfry_streams{dialect="grpc"}'] == n, 60, 0.1, "a watch by each")
    for value in (1, 2):
        began = time.monotonic()
        write_configs(cluster, scopes, value)
        assert members.seen(value) == n
        figure(f"{name}.seen", f"{time.monotonic() - began:.1f} s by {n}")
    assert watches_made(tier) == n  # each of them once
    tier.kill()
    tier.start()
    write_configs(cluster, scopes, 3)
    assert members.seen(3) == n
    rebuilt = members.rebuilt()
    figure(f"{name}.rebuilt_after_a_kill", rebuilt)
    assert watches_made(tier) <= 2 * n and rebuilt <= 10 * n  # not endless


def test_many_watchers_of_patronis_own(cluster, make_tier, tmp_path, soak, figure):
    """patroni#3674: 500 to 1,000 of them were too many for an etcd."""
    check_members(cluster, make_tier(cluster), [sys.executable], 1000 if soak else 100, tmp_path / "log", figure, "patroni.members")


def test_members_go_to_another_tier(cluster, make_tier, tmp_path):
    """A tier's list of members has its own address alone, which is then all that Patroni keeps of `hosts`. When it is gone, Patroni reads
    them again."""
    tiers = [make_tier(cluster), make_tier(cluster)]
    members = Members([sys.executable], ",".join(tier.endpoint for tier in tiers), 30, 1, tmp_path / "log")
    assert members.next("ready") == 30, members.log()
    for gone, value in zip(tiers, (1, 2)):
        gone.kill()
        write_configs(cluster, 1, value)
        assert members.seen(value) == 30, members.log()
        gone.start()


def test_members_with_a_password(cluster, make_tier, tmp_path):
    """A user who may do what it likes in one cluster's prefix, and nothing else."""
    for args in (("user", "add", "root:r"), ("user", "grant-role", "root", "root"), ("role", "add", "c0"),
                 ("role", "grant-permission", "c0", "--prefix=true", "readwrite", "/service/c0/"), ("user", "add", "patroni:p"),
                 ("user", "grant-role", "patroni", "c0"), ("auth", "enable")):
        cluster.ctl(*args)
    cluster.auth = "root", "r"
    password = tmp_path / "password"
    password.write_text("r")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", "root", "--upstream-password-file", str(password), rights="upstream")
    members = Members([sys.executable], tier.endpoint, 10, 1, tmp_path / "log", "patroni", "p")
    assert members.next("ready") == 10, members.log()
    write_configs(cluster, 1, 1)
    assert members.seen(1) == 10, members.log()
    tier.kill()
    tier.start()
    write_configs(cluster, 1, 2)
    assert members.seen(2) == 10, members.log()


@full_length
def test_many_watchers_of_the_newest_patroni(cluster, make_tier, tmp_path, figure):
    root = root_of("sid")
    python = ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "python3"]
    check_members(cluster, make_tier(cluster), python, 1000, tmp_path / "log", figure, "patroni.members_sid")
