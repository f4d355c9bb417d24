"""One client fills a pool: /readyz, /metrics, the log, /debug and belfryctl top all name it, and another client is served."""
import json
import re

import hostile
import procs
import pytest
import rawh2
from client import binary
from hostile import text

GREEDY, OTHER = "10.77.0.9", "10.77.0.1"
pytestmark = pytest.mark.usefixtures("own_network")
LIMIT, SHARE = 100, 50  # watchers; what one client may have of them
ASKED = SHARE + 20


def greedy_watches(port):
    """Asks for more watches than it may have, all on one stream, and stays."""
    peer = rawh2.Connection(port, source=GREEDY, window=1 << 20)
    stream = peer.open(hostile.WATCH, text(1, text(1, b"/greedy/0")))
    for i in range(1, ASKED):
        peer.send(rawh2.frame(rawh2.DATA, 0, stream, rawh2.message(text(1, text(1, b"/greedy/%d" % i)))))
    return peer


def pools_lines(tier):
    status, body = tier.get("/readyz?verbose")
    return status, [line for line in body.splitlines() if "pools" in line]


def top(tier, *args):
    address = f"http://127.0.0.1:{tier.admin_port}"
    return procs.run([binary("belfryctl"), "top", "--once", "--admin", address, *args]).stdout.decode()


def test_a_full_pool_names_the_client_that_holds_most(cluster, make_tier):
    cluster.put("/pools/key", "value")
    tier = make_tier(cluster, "--workers", "1", "--max-watchers", str(LIMIT))
    assert pools_lines(tier) == (200, ["[+]pools ok"])
    assert "\npools " not in top(tier)
    peer = greedy_watches(tier.port)

    procs.wait_until(lambda: tier.metrics()['belfry_pool_refused_total{pool="watchers"}'] == ASKED - SHARE, 20, 0.05, tier.log)
    metrics = tier.metrics()
    assert metrics['belfry_pool_used{pool="watchers"}'] == metrics['belfry_pool_largest{pool="watchers"}'] == SHARE
    assert metrics['belfry_pool_limit{pool="watchers"}'] == LIMIT
    assert not [name for name in metrics if GREEDY in name], "a client is no label"

    trouble = (f"watchers: clients refused or ended in the last minute; {SHARE} % of {LIMIT} in use; "
               f"{GREEDY} holds most, {SHARE} %")
    procs.wait_until(lambda: pools_lines(tier) == (200, [f"[!]pools: {trouble}"]), 10, 0.05, lambda: pools_lines(tier))
    assert re.search(rf'^pools +{re.escape(trouble)}$', top(tier), re.M)
    assert tier.metrics()['belfry_pool_in_trouble{pool="watchers"}'] == 1
    pool = json.loads(tier.get("/debug/numbers")[1])["pools"]["watchers"]
    assert (pool["client"], pool["largest"], pool["trouble"]) == (GREEDY, SHARE, trouble)

    lines = [line for line in tier.log().splitlines() if "event=pool_full" in line]
    assert len(lines) == 1, "once a minute"
    assert f'pool=watchers used={SHARE} limit={LIMIT} client="{GREEDY}" holds={SHARE}' in lines[0]
    assert "--max-watchers" in lines[0]

    other = rawh2.Connection(tier.port, source=OTHER)
    other.open(hostile.WATCH, text(1, text(1, b"/pools/key")))
    got = procs.run(["etcdctl", "--endpoints", f"http://127.0.0.1:{tier.port}", "get", "/pools/key", "--print-value-only"])
    assert got.stdout == b"value\n"
    procs.wait_until(lambda: tier.metrics()['belfry_pool_used{pool="watchers"}'] == SHARE + 1, 10, 0.05, tier.log)
    for one in peer, other:
        one.close()


def test_all_loopback_addresses_are_one_client(cluster, make_tier):
    """A process has 16 million of them: with a share for each, it would have everything."""
    cluster.put("/pools/key", "value")
    tier = make_tier(cluster, "--workers", "1", "--max-connections", "40")
    peers = [rawh2.Connection(tier.port, source=f"127.1.0.{i + 1}") for i in range(40)]
    procs.wait_until(lambda: tier.metrics()['belfry_pool_refused_total{pool="connections"}'] == 20, 10, 0.05, tier.metrics)
    assert tier.metrics()['belfry_pool_largest{pool="connections"}'] == 20
    other = rawh2.Connection(tier.port, source=OTHER)
    stream = other.open(hostile.RANGE, text(1, b"/pools/key"), end=True)
    answers = iter(lambda: other.read(10), None)
    assert b"value" in next(payload for kind, _, on, payload in answers if (kind, on) == (rawh2.DATA, stream))
    for one in *peers, other:
        one.close()


def test_what_clients_cost_is_shown_by_what_is_asked_for(cluster, make_tier):
    tier = make_tier(cluster, "--workers", "2")
    watcher = greedy_watches(tier.port)
    callers = [rawh2.Connection(tier.port, source=OTHER) for _ in range(3)]
    for caller in callers:
        for i in range(20):
            caller.open(hostile.RANGE, text(1, b"/pools/%d" % i), end=True)

    def rows(sort):
        document = json.loads(top(tier, "--output", "json", "--clients", "--sort", sort))
        return {row["client"]: row for row in document["clients"]["rows"]}

    procs.wait_until(lambda: rows("cpu").get(OTHER, {}).get("calls_per_s", 0) > 1 and
                     rows("cpu").get(GREEDY, {}).get("watchers", 0) == ASKED, 20, 0.1, lambda: rows("cpu"))
    found = rows("connections")
    assert list(found) == [OTHER, GREEDY] and found[OTHER]["connections"] == 3 and found[GREEDY]["connections"] == 1
    assert list(rows("calls"))[0] == OTHER and rows("calls")[OTHER]["calls_per_s"] > 0
    assert all(row["memory_bytes"] > 0 for row in rows("memory").values())
    found = rows("cpu")
    assert found[OTHER]["cpu_percent"] > found[GREEDY]["cpu_percent"] > 0
    assert 99 < sum(row["cpu_percent"] for row in found.values()) < 101
    assert re.search(rf"^ *[0-9.]+  .*  {GREEDY}$", top(tier, "--clients"), re.M)
    for one in watcher, *callers:
        one.close()
