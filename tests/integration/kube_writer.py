"""A process of its own that changes objects in etcd through any fault, so that it can be in a namespace of the network.

    python3 kube_writer.py ENDPOINT,... SEED COUNT RATE [USER:PASSWORD]

Pods p0..p49 in four namespaces, whose labels and nodes flip; one change in ten is a delete. A change is one key: of a
revision with several keys a Kubernetes client may see a part when its connection is cut, and goes on behind it. Ends
after COUNT changes that were confirmed (0: at the end of its input), and prints how many they were."""
import json
import random
import select
import sys
import time

from differential import Store, grpc
from kube import PODS, pod

NAMESPACES, NAMES, NODES = 4, 50, 20


def change(store, rng, i):
    namespace, each = f"ns{rng.randrange(NAMESPACES)}", f"p{rng.randrange(NAMES)}"
    key = PODS.key(namespace, each).encode()
    if rng.random() < 0.1:
        return store.delete(key)
    labels = {"in": rng.choice(["yes", "no"]), "group": f"g{rng.randrange(10)}", "i": str(i)}
    return store.put(key, json.dumps(pod(namespace, each, labels, node=f"n{rng.randrange(NODES)}")).encode())


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
    store, due = connect(endpoints[0]), time.monotonic()
    while count == 0 or done < count:
        due = max(due + 1 / rate, time.monotonic() - 1)
        ready, _, _ = select.select([sys.stdin], [], [], max(0, due - time.monotonic()))
        if ready and not sys.stdin.read():
            break
        try:
            change(store, rng, done)
            done += 1
        except grpc.RpcError:
            failed += 1
            at += 1
            store.close()
            store = reconnect(endpoints, at)
    print(json.dumps({"done": done, "failed": failed}))


main()
