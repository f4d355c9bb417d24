"""belfryd's Kubernetes API is the real one's: the same requests to a kube-apiserver ("kubepeer") and to a belfryd,
both on one etcd (kube_differential.py), and every difference is in docs/compatibility.md. Not part of the default
gate: it needs a kubepeer, which is built outside this tree; without one it is skipped. With BELFRY_KUBE_PEER=1
kubepeer alone is asked, to see that the table says what the real server does.

Besides, the newest client-go, whose informers begin with a watch: built in the folder in which kubepeer was."""
import os

import needs
import pytest
from kube import BY_PEER, PODS, Peer, Server, etcd_with_a_past, pod, request, why_no_peer
from kube_clients import Informers
from kube_differential import FORMS, LISTS, PAST, SELECTORS, WATCHES, world

HERE = os.path.dirname(__file__)
COMPATIBILITY = os.path.join(HERE, "..", "..", "docs", "compatibility.md")

pytest_plugins = ["kube_fixtures"]
pytestmark = pytest.mark.skipif(why_no_peer() is not None, reason=f"{needs.PEER}{why_no_peer()}")


class Sides:
    """Both servers on one etcd: the real one first."""

    def __init__(self, folder, cluster=None):
        self.server = Server(folder, peer=BY_PEER, keep=True, cluster=cluster)
        self.peer = self.server.peer or Peer(str(folder), self.server.cluster.members[0].endpoint, keep=True).start()
        self.endpoints = [self.peer.endpoint] + ([] if BY_PEER else [self.server.endpoint])

    def close(self):
        self.peer.kill()
        self.server.close()


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    made = Sides(tmp_path_factory.mktemp("kube"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kube-past")
    cluster, revs = etcd_with_a_past(folder, keep=True)
    made = Sides(folder, cluster)
    yield made, {f"r{i}": rev for i, rev in enumerate(revs)}
    made.close()


def compatibility():
    with open(COMPATIBILITY) as f:
        return {line.split("`")[1] for line in f if line.startswith("| `kube-")}


def compare(case, said):
    real, *ours = said
    assert case.judge(real, case.want), f"{case}: the real server does not say {case.want}: {real}"
    if not ours:
        return
    if case.differs:
        assert case.differs in compatibility(), f"{case.differs} has no line in docs/compatibility.md"
        assert case.judge(ours[0], case.ours), f"{case}: belfryd should say {case.ours}: {ours[0]}"
    else:
        assert ours[0] == real, f"{case}\nkube-apiserver {real}\nbelfryd        {ours[0]}"


@pytest.mark.parametrize("case", LISTS + SELECTORS + FORMS + WATCHES, ids=str)
def test_the_same_answer(sides, case):
    revs = world(sides.server, sides.endpoints)
    compare(case, case.run(sides.endpoints, sides.server, revs))


@pytest.mark.parametrize("case", PAST, ids=str)
def test_the_same_answer_where_history_is_gone(past, case):
    sides, revs = past
    compare(case, case.run(sides.endpoints, sides.server, revs))


def test_every_line_of_the_documentation_is_shown_by_a_case():
    shown = {case.differs for case in LISTS + SELECTORS + FORMS + WATCHES + PAST if case.differs}
    elsewhere = {"kube-history": "test_kube_watch", "kube-discovery": "test_kube_auth", "kube-undecodable": "test_kube_watch",
                 "kube-transaction": "test_kube_transactions",
                 "kube-items": "test_kube_list"}
    assert shown | set(elsewhere) == compatibility()


def pages(endpoint, limit):
    found, token = [], None
    while True:
        got = request(endpoint, PODS.path(), {"limit": limit, **({"continue": token} if token else {})}).json
        found.append(([f"{i['metadata']['name']}@{i['metadata']['resourceVersion']}" for i in got["items"]],
                      got["metadata"].get("remainingItemCount"), got["metadata"]["resourceVersion"]))
        token = got["metadata"].get("continue")
        if not token:
            return found


@pytest.mark.parametrize("limit", [1, 4, 10, 11])
def test_the_same_pages(sides, limit):
    sides.server.empty()
    rev = sides.server.put_many([pod("x", f"p{i}") for i in range(10)])
    for endpoint in sides.endpoints:
        sides.server.wait_for(rev, endpoint=endpoint)
    real, *ours = [pages(endpoint, limit) for endpoint in sides.endpoints]
    assert sum(len(names) for names, _, _ in real) == 10
    assert all(o == real for o in ours)


def test_the_newest_client_go(sides, newest_informer):
    server = sides.server
    server.empty()
    server.put_many([pod("x", f"p{i}", {"in": "yes"}) for i in range(20)])
    server.wait_for(server.store.revision)
    informers = Informers(server, count=2, program=newest_informer)
    informers.add(labels="in=yes")
    informers.wait_synced(20)
    for i in range(100):
        server.put(pod("x", f"p{i % 30}", {"in": "yes" if i % 2 else "no"}))
    everything = server.expected()
    informers.wait_stores([everything, everything,
                           server.expected(match=lambda o: o["metadata"]["labels"]["in"] == "yes")])
    informers.assert_right()
    status = informers.status()
    assert [(s["lists"], s["watches"]) for s in status] == [(1, 1)] * 3, "it lists by watching"
    informers.close()
