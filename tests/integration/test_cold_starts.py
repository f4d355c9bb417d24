"""Empty tiers list from the tier above, which answers from its replica: etcd sees the root alone. bench/coldstart has the figures of
two hundred of them."""
import urllib.request

from differential import Store

N_KEYS = 5000
N_LEAVES = 5
BIG = b"x" * 3000  # a page of a thousand of them is more than a tier answers in one piece


def metrics_of(member):
    """name{labels} -> value, of etcd"""
    with urllib.request.urlopen(member.url + "/metrics", timeout=10) as answer:
        lines = (line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}


def ranges(member):
    """Range calls that etcd has answered"""
    return sum(n for name, n in metrics_of(member).items()
               if name.startswith("grpc_server_handled_total{") and 'grpc_method="Range"' in name)


def reads(tier, source):
    return sum(n for name, n in tier.metrics().items() if name.startswith("belfry_reads_total") and f'source="{source}"' in name)


def test_leaves_that_start_empty_cost_etcd_no_list(cluster, make_tier, figure):
    etcd = cluster.members[0]
    store = Store(etcd.endpoint)
    for i in range(N_KEYS // 50):
        store.txn(*((f"/cold/{i:04}/{j:02}".encode(), BIG if i < 40 else b"v") for j in range(50)))
    root = make_tier(cluster, "--name", "root")
    before, asked = ranges(etcd), root.metrics()["belfry_read_points_total"]
    leaves = [make_tier(root.url, "--name", f"leaf{i}", wait=False) for i in range(N_LEAVES)]
    for leaf in leaves:
        leaf.wait_ready(60)
        assert leaf.numbers()["upstream"]["revision"] >= store.revision
    seen, questions = ranges(etcd) - before, root.metrics()["belfry_read_points_total"] - asked
    figure("cold_starts.ranges_of_etcd", seen)
    pages = sum(leaf.numbers()["upstream"]["follower"]["pages"] for leaf in leaves)
    assert pages >= N_LEAVES * N_KEYS / 1000
    assert reads(root, "upstream") == 0 and reads(root, "replica") >= pages
    assert seen == questions <= 2 * N_LEAVES  # the revision that a list begins with, and its first page: counts of one key
    assert metrics_of(etcd)["etcd_debugging_mvcc_watcher_total"] == 1
