"""A program for test_patroni.py: N members of Patroni clusters as far as the key-value store sees them, made with Patroni's own class:
each has a watch, a copy of its cluster's state, and a lease. Patroni alone, no PostgreSQL.

    patroni_watchers.py HOST:PORT,... N SCOPES [USER PASSWORD]     members are spread over that many clusters

Prints "ready R of N", then for each line VALUE of stdin, which the test has written to every cluster's config, "seen S of N". At the end of stdin,
"rebuilt R": how often copies of the state were made anew."""
import json
import logging
import sys
import threading
import time

from patroni.dcs import get_dcs

READY_S, SEEN_S = 120, 60


class Count(logging.Handler):
    """Of lines about copies that are made anew."""
    n = 0

    def emit(self, record):
        if "watchprefix failed" in record.getMessage() or "KVCache.run" in record.getMessage():
            self.n += 1
            print(record.getMessage(), file=sys.stderr)


def make(etcd3, scope, name):
    return get_dcs({"etcd3": dict(etcd3), "scope": scope, "name": name, "namespace": "/service/", "ttl": 30, "loop_wait": 10,
                    "retry_timeout": 10})


def wait(is_true, all_of, seconds):
    """How many of them it is true for, when it is true for all or time is over."""
    until, left = time.monotonic() + seconds, list(all_of)
    while left and time.monotonic() < until:
        left = [one for one in left if not is_true(one)]
        time.sleep(0.05)
    return len(all_of) - len(left)


def is_ready(dcs):
    with dcs._client._kv_cache.condition:
        return dcs._client._kv_cache.is_ready()


def sees(dcs, value):
    config = is_ready(dcs) and dcs.get_cluster().config
    return bool(config) and config.data.get("belfry") == value


def main(endpoints, n, scopes, user=None, password=None):
    n, scopes, count, made = int(n), int(scopes), Count(), []
    etcd3 = {"hosts": endpoints.split(","), **({"username": user, "password": password} if user else {})}
    logging.getLogger("patroni").addHandler(count)
    threading.stack_size(256 * 1024)
    makers = [threading.Thread(target=lambda i=i: made.append(make(etcd3, f"c{i % scopes}", f"n{i}")), daemon=True) for i in range(n)]
    for maker in makers:  # all at once
        maker.start()
    until = time.monotonic() + READY_S
    for maker in makers:
        maker.join(max(0, until - time.monotonic()))
    print("ready", wait(is_ready, made, max(1, until - time.monotonic())), "of", n, flush=True)
    for line in sys.stdin:
        value = json.loads(line)
        print("seen", wait(lambda dcs: sees(dcs, value), made, SEEN_S), "of", n, flush=True)
    print("rebuilt", count.n, flush=True)


main(*sys.argv[1:])
