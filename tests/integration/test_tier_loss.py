"""Watchers at old revisions of one key: what etcd's grpc-proxy loses, and belfryd must not.

6,000 writes to one key; watchers that start 0, 2,500, 4,500 and 100 revisions into them, one at a time, two and four
together, by etcd's own clientv3. A watch is incomplete when it has not been given every revision from its start to the
last, each once and in order."""
import subprocess
import time

import procs
import pytest
from client import CLIENTV3, LIBBELFRY, Recorder, write
from checker import Spec
from etcd import PROGRAM as ETCD
from patience import Patience
from ports import free_port

WRITES = 6000
OFFSETS = [0, 2500, 4500, 100]
GROUPS = [[0], [2500], [4500], [100]] + [[0, 2500]] * 4 + [OFFSETS] * 6  # 4 + 8 + 24 watches


def revisions(record):
    """watch number -> the revisions it was given, in the order in which they came."""
    given = {}
    with open(record) as f:
        for line in f:
            words = line.split()
            if words[0] == "B" and words[2] == "C":
                given.setdefault(int(words[1]), []).append(int(words[3]))
    return given


def run_group(endpoint, path, first, last, offsets, go):
    """How many of the group's watches are incomplete."""
    recorders = [Recorder(endpoint, f"{path}.{i}", go=go) for i in range(len(offsets))]
    for i, offset in enumerate(offsets):
        recorders[i].open(Spec(i, "key", b"/lost", rev=str(first + offset)))
    patience = Patience(15)
    waiting = set(range(len(offsets)))
    while waiting and not patience.is_over():
        waiting -= {i for i in waiting if recorders[i].status()[i]["rev"] >= last}
        time.sleep(0.05)
    incomplete = 0
    for i, offset in enumerate(offsets):
        recorders[i].quit()
        got = revisions(recorders[i].record).get(i, [])
        incomplete += got != list(range(first + offset, last + 1))
    return incomplete


def run_all(endpoint, folder, first, last, go=True):
    incomplete = watches = 0
    for n, offsets in enumerate(GROUPS):
        incomplete += run_group(endpoint, folder / f"r{n}{go}", first, last, offsets, go)
        watches += len(offsets)
    return incomplete, watches


def write_half(cluster):
    write(cluster.endpoints, "mode=one", f"count={WRITES // 2 - 1}", "prefix=/lost", "size=100", "inflight=64")


@pytest.fixture
def written(cluster):
    """A cluster with WRITES revisions of one key, and the first and the last of them."""
    first = cluster.put("/lost", "first")
    write_half(cluster)
    write_half(cluster)
    last = cluster.put("/lost", "last")
    assert last - first == WRITES - 1, (first, last)
    return cluster, first, last


def test_no_watch_loses_anything_through_belfryd(written, make_tier, tmp_path, figure):
    cluster, first, last = written
    tier = make_tier(cluster)
    incomplete, watches = run_all(tier.endpoint, tmp_path, first, last)
    figure("loss.belfryd.clientv3", f"{incomplete} of {watches}", "watches incomplete")
    assert incomplete == 0
    incomplete, watches = run_all(tier.url, tmp_path, first, last, go=False)
    figure("loss.belfryd.libbelfry", f"{incomplete} of {watches}", "watches incomplete")
    assert incomplete == 0


def test_no_watch_loses_anything_through_three_tiers(cluster, make_tier, tmp_path, figure):
    """The tiers come when half is written: the first half each must read from the one above, and that again, to etcd; the
    second half all of them have; and a watch that begins in the first crosses over."""
    first = cluster.put("/lost", "first")
    write_half(cluster)
    tier = make_tier(cluster, "--name", "t1")
    for name in ("t2", "t3"):
        tier = make_tier(tier.url, "--name", name)
    write_half(cluster)
    last = cluster.put("/lost", "last")
    assert last - first == WRITES - 1, (first, last)
    for client, endpoint in ((LIBBELFRY, tier.url), (CLIENTV3, tier.endpoint)):
        incomplete, watches = run_all(endpoint, tmp_path, first, last, go=client == CLIENTV3)
        figure(f"loss.three_tiers.{client}", f"{incomplete} of {watches}", "watches incomplete")
        assert incomplete == 0


def test_grpc_proxy_beside_it(written, tmp_path, figure):
    """Not a test of ours: the figure that stands beside it. It fails only if nothing could be measured."""
    cluster, first, last = written
    port = free_port()
    log = open(tmp_path / "proxy.log", "wb")
    proxy = procs.spawn([ETCD, "grpc-proxy", "start", "--endpoints", cluster.members[0].endpoint, "--listen-addr",
                         f"127.0.0.1:{port}", "--advertise-client-url", ""], stdout=log, stderr=subprocess.STDOUT)
    procs.wait_until(lambda: procs.run(["etcdctl", "--endpoints", f"127.0.0.1:{port}", "get", "x"], check=False).returncode
                     == 0, 20, 0.2, "grpc-proxy answers")
    groups = GROUPS[:4] + [[0, 2500]] * 2 + [OFFSETS]  # each incomplete one is waited for: a few are enough
    incomplete = watches = 0
    for n, offsets in enumerate(groups):
        incomplete += run_group(f"127.0.0.1:{port}", tmp_path / f"p{n}", first, last, offsets, go=True)
        watches += len(offsets)
    procs.end(proxy)
    figure("loss.grpc_proxy.clientv3", f"{incomplete} of {watches}", "watches incomplete")
    assert watches == 12
