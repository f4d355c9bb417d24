"""A process of its own that changes objects in etcd through any fault, so that it can be in a namespace of the network.

    python3 kube_writer.py ENDPOINT,... SEED COUNT RATE [USER:PASSWORD]

Pods p0..p49 in four namespaces, whose labels and nodes flip; one change in ten is a delete. Every third revision changes
several pods in one transaction, most of them those that the revision before has changed too: a client whose connection is
cut between two of them must see the rest. Ends after COUNT revisions that were confirmed (0: at the end of its input),
and prints how many they were."""
import json
import random
import select
import sys
import time

from differential import Store, grpc
from kube import PODS, pod

NAMESPACES, NAMES, NODES, TOGETHER = 4, 50, 20, 6


def operation(rng, place, i):
    """A put or a delete, as Store.txn() takes them."""
    key = PODS.key(*place).encode()
    if rng.random() < 0.1:
        return (key,)
    labels = {"in": rng.choice(["yes", "no"]), "group": f"g{rng.randrange(10)}", "i": str(i)}
    return key, json.dumps(pod(*place, labels, node=f"n{rng.randrange(NODES)}")).encode()


def places(rng, last):
    """Whose turn it is: one pod, or several, of which most had theirs in the last revision."""
    found = {(f"ns{rng.randrange(NAMESPACES)}", f"p{rng.randrange(NAMES)}")
             for _ in range(rng.randrange(2, TOGETHER) if rng.random() < 0.33 else 1)}
    if len(found) > 1 and rng.random() < 0.7:
        found |= set(last)
    return sorted(found)[:2 * TOGETHER]


def change(store, rng, i, last):
    """The pods that were changed, in one revision."""
    now = places(rng, last)
    operations = [operation(rng, place, i) for place in now]
    if len(operations) > 1:
        store.txn(*operations)
    elif len(operations[0]) == 1:
        store.delete(*operations[0])
    else:
        store.put(*operations[0])
    return now


def connect(endpoint):
    """With auth on, each store has a token of its own: those of a member that was restarted are gone."""
    if len(sys.argv) < 6:
        return Store(endpoint)
    store = Store(endpoint)
    store.metadata = (("token", store.token(*sys.argv[5].split(":"))),)
    return store


def reconnect(endpoints, at):
    while True:
        time.sleep(0.2)
        try:
            return connect(endpoints[at % len(endpoints)])
        except grpc.RpcError:
            at += 1


def main():
    endpoints, seed, count, rate = sys.argv[1].split(","), *map(int, sys.argv[2:5])
    rng, at, done, failed = random.Random(seed), 0, 0, 0
    store, due, last = connect(endpoints[0]), time.monotonic(), []
    while count == 0 or done < count:
        due = max(due + 1 / rate, time.monotonic() - 1)
        ready, _, _ = select.select([sys.stdin], [], [], max(0, due - time.monotonic()))
        if ready and not sys.stdin.read():
            break
        try:
            last = change(store, rng, done, last)
            done += 1
        except grpc.RpcError:
            failed += 1
            at += 1
            store.close()
            store = reconnect(endpoints, at)
    print(json.dumps({"done": done, "failed": failed}))


main()
