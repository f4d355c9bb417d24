"""Short forms of bench/reads and bench/listwatch: what etcd hears of many reads through two tiers. Costs are the
benches' to judge."""
import json

import procs
import pytest
from client import binary
from stack import Stack

RANGES = 'grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}'
KEYS = 1000


def bench(mode, *options):
    argv = [binary("belfry-bench"), mode, "--output", "json", "--settle", "0ms", *options]
    return json.loads(procs.run(argv, timeout=180).stdout)


@pytest.fixture
def stack(cluster, make_tier):
    bench("put", "--target", cluster.members[0].endpoint, "--puts", str(KEYS))
    return Stack(make_tier, cluster, 2)


class Heard:
    """Ranges that etcd has had since then: questions of the root how far it is, and others."""

    def __init__(self, cluster, stack):
        self.cluster, self.stack = cluster, stack
        self.before = self._now()

    def _now(self):
        return self.cluster.members[0].metric(RANGES), self.stack.top.metrics()["belfry_read_points_total"]

    def since(self):
        ranges, questions = (now - before for now, before in zip(self._now(), self.before))
        return questions, ranges - questions


@pytest.mark.parametrize("options,reads", [([], 20000), (["--limit", "100"], 2000),
                                           (["--limit", "100", "--pages"], 2000)], ids=["one key", "range", "pages"])
@pytest.mark.parametrize("level", ["linearizable", "serializable"])
def test_reads_of_a_leaf_are_questions_at_most(cluster, stack, figure, level, options, reads):
    more = ["--serializable"] if level == "serializable" else []
    heard = Heard(cluster, stack)
    figures = bench("read", "--target", stack.leaf.endpoint, "--keys", str(KEYS), "--reads", str(reads), *options,
                    *more)
    questions, others = heard.since()
    figure(f"read_load.{level}{''.join(options)}", figures["reads_per_s"], f"reads/s, {questions:.0f} questions")
    assert figures["reads"] == reads and figures["failed"] == 0, figures
    assert others == 0, f"etcd has had {others:.0f} Ranges of {reads}"
    if level == "serializable":
        assert questions == 0
    else:
        assert 0 < questions <= reads / 10, "one question is for all reads that wait"
    if "--pages" in options:
        assert figures["pinned"] > reads / 2


def test_a_fleet_that_lists_and_watches_is_not_heard_by_etcd(cluster, stack, figure, soak):
    clients = 5000 if soak else 300
    heard = Heard(cluster, stack)
    figures = bench("listwatch", "--target", stack.leaf.endpoint, "--write-target", cluster.members[0].endpoint,
                    "--keys", str(KEYS), "--connections", "10", "--streams", str(clients // 10),
                    "--puts", "5")
    questions, others = heard.since()
    figure("read_load.clients_per_s", figures["clients_per_s"],
           f"clients/s, {questions:.0f} questions for {clients} lists")
    assert figures["clients"] == clients and figures["kvs"] == clients * KEYS, figures
    assert figures["deliveries"] == 5 * clients, figures
    assert others == 0, f"etcd has had {others:.0f} Ranges for {clients} lists"
