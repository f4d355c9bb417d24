"""belfryd behind belfryd behind etcd: a chain of tiers, from the one below etcd to the leaf."""
import json

import procs
from tier_faults import Tally


class Stack:
    def __init__(self, make_tier, cluster, n, *flags, leaf_flags=(), wait=True):
        self.cluster, self.tiers, upstream = cluster, [], ",".join(m.url for m in cluster.members)
        for i in range(n):
            more = leaf_flags if i == n - 1 else ()
            self.tiers.append(make_tier(upstream, "--name", f"t{i}", *flags, *more, wait=wait))
            upstream = self.tiers[-1].url

    @property
    def top(self):
        return self.tiers[0]

    @property
    def leaf(self):
        return self.tiers[-1]

    def wait_ready(self, timeout=30):
        for tier in self.tiers:
            tier.wait_ready(timeout)

    def listings(self):
        return [follower(tier)["listings"] for tier in self.tiers]


def follower(tier):
    return tier.numbers()["upstream"]["follower"]


def tree(tier):
    status, body = tier.get("/debug/tree")
    assert status == 200, body
    return json.loads(body)


def is_ready(tier):
    return tier.get("/readyz")[0] == 200


def total(tier, part, name):
    """A counter of the workers, added up."""
    return sum(w[part][name] for w in tier.numbers()["workers"])


def core(tier):
    return Tally.of(tier.numbers())


def wait_down(stack, timeout):
    for tier in stack.tiers:
        procs.wait_until(lambda: not is_ready(tier), timeout, 0.1, lambda: f"{tier.flags[1]} is not ready: {tier.log()[-800:]}")
