"""Who answers: another cluster, a cluster restored from an older backup, a member that lags."""
import time

import history
import procs
from checker import Spec, check_file, parse
from client import Recorder, Writer, write
from faults import Faults
from ports import free_port
from test_compaction import ends, etcd_state, replayed_state


def test_another_cluster_behind_the_endpoint(cluster, tmp_path):
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    recorder.open(Spec(0, "prefix", b"/a/", rev="1"))
    recorder.open(Spec(1, "prefix", b"/a/", follow=True))
    first = cluster.put("/a/1", "one")
    recorder.wait_rev({0: first, 1: first}, 10)
    cluster.forget()
    cluster.token = "somebody-else"
    cluster.start()
    cluster.put("/a/2", "not ours")
    for number in (0, 1):
        recorder.wait_state(number, "ended", 20)
    recorder.quit()
    found = ends(recorder)
    assert found[0][0] == found[1][0] == "BELFRY_ERR_CLUSTER"
    with open(recorder.record) as f:
        assert [e.mod for r in parse(f) if r[0] == "B" and r[1] == 0 for e in r[3]] == [first]


def restore(cluster, snapshot):
    """The same names, token and addresses: so the same cluster id and member id."""
    m = cluster.members[0]
    cluster.forget()
    procs.run(["etcdutl", "snapshot", "restore", str(snapshot), "--data-dir", m.data_dir, "--name", m.name,
               "--initial-cluster", cluster.initial_cluster, "--initial-cluster-token", cluster.token,
               "--initial-advertise-peer-urls", m.peer_url])


def rewind(cluster, tmp_path, recorder_specs):
    """A snapshot at some revision, then more writes that the client sees, then the snapshot is restored."""
    cluster_id = cluster.members[0].status()["header"]["cluster_id"]
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for spec in recorder_specs:
        recorder.open(spec)
    for i in range(20):
        cluster.put(f"/a/{i}", "before")
    snapshot = tmp_path / "snapshot.db"
    cluster.ctl("snapshot", "save", str(snapshot))
    for i in range(40):
        last = cluster.put(f"/a/{i}", "after")
    recorder.wait_rev({s.number: last for s in recorder_specs}, 10)
    restore(cluster, snapshot)
    return recorder, cluster_id, last


def check_rewound(recorder, cluster, cluster_id, timeout=30):
    assert cluster.members[0].status()["header"]["cluster_id"] == cluster_id, "the test has lost its point"
    recorder.wait_state(0, "ended", timeout)
    last = cluster.put("/a/end", "end")

    def follow_is_there():
        return recorder.status()[1]["rev"] == last
    procs.wait_until(follow_is_there, 30, 0.2, lambda: f"follow at {last}: {recorder.status()[1]}")
    recorder.quit()
    assert ends(recorder)[0][0] == "BELFRY_ERR_REWOUND"
    state, n_synced, n_deletes = replayed_state(recorder, 1)
    assert state == etcd_state(cluster, "/a/")
    assert n_synced == 2


SPECS = [Spec(0, "prefix", b"/a/", rev="1"), Spec(1, "prefix", b"/a/", follow=True)]


def test_restore_of_an_older_backup_ends_a_watch_and_relists_a_follow(cluster, tmp_path):
    recorder, cluster_id, _ = rewind(cluster, tmp_path, SPECS)
    cluster.members[0].start()
    check_rewound(recorder, cluster, cluster_id)


def test_restored_backup_that_was_written_past_our_place_is_found_out(cluster, tmp_path):
    """When the client comes back the revision is higher than its own again: only what was written tells."""
    recorder, cluster_id, last = rewind(cluster, tmp_path, SPECS)
    m = cluster.members[0]
    port = m.client_port
    m.start(client_port=free_port())
    write(cluster.endpoints, "mode=put", "prefix=/a/other/", "count=100", "inflight=1")
    assert cluster.revision() > last
    m.kill()
    m.restart(client_port=port)
    check_rewound(recorder, cluster, cluster_id, timeout=10)


def test_member_that_lags_is_not_an_error(make_net, make_cluster, tmp_path, figure, rng):
    cluster = make_cluster(3, net=make_net(3))
    recorder = Recorder(cluster.endpoints, tmp_path / "record", ns=cluster.ns)
    specs = [Spec(0, "prefix", b"/a/", rev="1"), Spec(1, "prefix", b"/a/", follow=True), Spec(2, "prefix", b"/a/")]
    for spec in specs:
        recorder.open(spec)
    recorder.wait_connected(3)
    writer = Writer(cluster.endpoints, "mode=mix", "prefix=/a/", "rate=300", ns=cluster.ns)
    faults = Faults(cluster, recorder, rng, 18)
    for _ in range(3):
        time.sleep(1)
        faults.lagging()
        recorder.wait_rev({0: cluster.put("/a/mark", str(time.monotonic()))}, 60)
    writer.stop()
    cluster.outlast_leases("/a/mark")
    cluster.ctl_retry("put", "/a/end", "end")
    last = cluster.revision()
    recorder.wait_rev({s.number: last for s in specs}, 60)
    assert all(w["state"] == "open" for w in recorder.status().values())
    stats = recorder.stats()
    recorder.quit()
    figure("identity.landed_on_lagging_member", faults.n_lagging_landed)
    assert faults.n_lagging_landed >= 1, "never landed on the lagging member: the test has lost its point"
    verdict = check_file(recorder.record, specs, history.read(cluster, last))
    assert verdict.n_violations == 0, str(verdict)
    assert stats["lists"] == 1, "a lagging member made the follow list anew"
