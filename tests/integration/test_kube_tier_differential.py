"""A tier in front of an API server answers as the API server does (kube_tier_differential.py), type by type and request by request;
every difference has a line in docs/compatibility.md. With BELFRY_TIER_STANDIN=1 a second API server is asked instead of the tier: that
must pass without any line. The servers are built outside this tree; without them this is skipped."""
import os

import needs
import pytest
from etcd import Cluster
from kube_apiserver import KubeCluster
from kube_differential import FORMS, LISTS, SELECTORS
from kube_tier import ALL_TYPES, PODS, STANDS_IN, WIDGETS, WIDGETS36, define, needs_servers, tier_of, wait_served
from kube_tier_differential import (ELSEWHERE, NAMESPACES, PROTOBUF, World, ask_both, first_difference, more_forms, more_lists, of_table, of_watches,
                                    pages, users, wait_for, watch_both, writes)
from shows import is_of_some_versions, marked_in_python

OLD = [kind for kind in ALL_TYPES if kind is not WIDGETS36]  # of a server of 1.20
SHORT = (PODS, WIDGETS36)  # the types of a run that is not of full length
COMPATIBILITY = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "compatibility.md")


class Difference:
    """One that docs/compatibility.md explains: for which requests, and what ours must be. `of_any`: a second API server has it, too."""

    def __init__(self, line, names, ours=lambda said: True, kinds=None, of_any=False):
        self.line, self.names, self.ours, self.kinds, self.of_any = line, names, ours, kinds, of_any
        self.n_found = 0

    def explains(self, kind, what, ours):
        if STANDS_IN and not self.of_any:
            return False
        named = any(n in what.name for n in self.names)
        found = named and (self.kinds is None or kind in self.kinds) and self.ours(ours)
        self.n_found += found
        return found


def is_expired(said):
    return said.get("body", {}).get("reason") == "Expired" or [e["object"].get("reason") for e in said.get("events", ())] == ["Expired"]


def has(code, *fields):
    """`fields`: (name, value) of the answer, or of a Status in its body."""
    return lambda said: said["code"] == code and all(value in (said.get(f), said.get("headers", {}).get(f), dict(said.get("body") or {}).get(f))
                                                     for f, value in fields)


n_judged = 0
DIFFERENCES = [
    Difference("follow-history", ["watch from 1"], is_expired, of_any=True),
    Difference("follow-history", ["at version 1"], is_expired),
    Difference("follow-initial-events", ["watch with the state", "watch without the state", "by label with the state"], has(200), OLD),
    Difference("follow-exact-future", ["match exact in the future"], has(504, ("reason", "Timeout")), OLD),
    Difference("follow-protobuf", ["as application/vnd.kubernetes.protobuf, ", f"as {PROTOBUF};as=PartialObjectMetadataList"],
               lambda said: said["headers"]["content-type"] == "application/json"),
    Difference("follow-indented-errors", ["none at 0 as application/json;as=PartialObjectMetadata"], has(404, ("reason", "NotFound"))),
    Difference("follow-anonymous", ["by nobody"], has(401, ("reason", "Unauthorized"))),
]


class Sides:
    """A cluster of one API server with every type, and a tier in front of it; the API server first."""

    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 1, crds=True, keep=True).start()
        api = self.cluster.servers[0]
        define(api, WIDGETS)
        define(self.cluster.crds, WIDGETS36)
        self.cluster.aggregate()
        for namespace in NAMESPACES:
            assert api.call("POST", "/api/v1/namespaces", obj={"metadata": {"name": namespace}}).code == 201
        wait_served(api, WIDGETS)
        wait_served(api, WIDGETS36)
        self.tier = tier_of(folder / "tier", self.cluster, ALL_TYPES, keep=True).start()
        self.servers = [api, self.tier]
        for kind in ALL_TYPES:
            wait_served(self.tier, kind)
        self.worlds = {}

    def world(self, kind):
        """The objects of a type, and the names of their versions."""
        if kind not in self.worlds:
            world = World(self.servers[0], kind)
            revs = world.begin()
            wait_for(self.servers, kind, revs["now"])
            self.worlds[kind] = world, revs
        return self.worlds[kind]

    def close(self):
        self.tier.kill()
        self.cluster.kill()
        self.etcd.close()
        if not STANDS_IN:
            self.tier.assert_sound()


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    needs_servers(crds=True)
    made = Sides(tmp_path_factory.mktemp("kube"))
    yield made
    made.close()


def compatibility():
    with open(COMPATIBILITY) as f:
        return {line.split("`")[1] for line in f if line.startswith("| `follow-")}


def judge(kind, answers):
    """No difference but those that are explained."""
    global n_judged
    n_judged += 1
    assert len(answers) > 5
    known, found = compatibility(), []
    for what, real, ours in answers:
        if real != ours and not any(d.line in known and d.explains(kind, what, ours) for d in DIFFERENCES):
            found.append(f"{what.name}: {what}\n    {first_difference(real, ours)}")
    assert not found, f"{len(found)} of {len(answers)} answers differ (API server | tier):\n" + "\n".join(found)


@pytest.fixture
def kind(request, soak):
    if not soak and request.param not in SHORT:
        needs.full_length(f"{', '.join(map(str, SHORT))} show most of it")
    return request.param


@pytest.mark.parametrize("kind", ALL_TYPES, ids=str, indirect=True)
class TestSame:
    def test_lists_and_gets(self, sides, kind):
        _, revs = sides.world(kind)
        judge(kind, ask_both(sides.servers, of_table(LISTS + SELECTORS, kind, revs) + more_lists(kind, revs)))

    def test_forms(self, sides, kind):
        _, revs = sides.world(kind)
        judge(kind, ask_both(sides.servers, of_table(FORMS, kind, revs) + more_forms(kind, revs)))

    def test_users(self, sides, kind):
        _, revs = sides.world(kind)
        judge(kind, ask_both(sides.servers, users(kind, revs)))

    def test_bytes(self, sides, kind):
        """Objects and whole lists are the same to the byte."""
        _, revs = sides.world(kind)
        at_0, exact = "resourceVersion=0", f"resourceVersion={revs['now']}&resourceVersionMatch=Exact"
        for path, query in ((kind.path("x", "a"), at_0), (kind.path("x", "none"), at_0), (kind.path(), exact), (kind.path("x"), exact)):
            real, ours = (server.call("GET", path, query).body for server in sides.servers)
            assert real == ours, f"{path}?{query}"

    def test_writes(self, sides, kind):
        world, _ = sides.world(kind)
        judge(kind, ask_both(sides.servers, writes(kind, world)))

    @pytest.mark.parametrize("limit", [1, 2, 50])
    def test_pages(self, sides, kind, limit):
        _, revs = sides.world(kind)
        for query in ("", f"&resourceVersion={revs['r4']}&resourceVersionMatch=Exact", "&labelSelector=app"):
            real, ours = (pages(server, kind.path(), limit, query) for server in sides.servers)
            if "Exact" not in query:
                real, ours = ([(items, n) for items, n, _ in side] for side in (real, ours))
            assert real == ours, f"{query}: {first_difference(real, ours)}"

    def test_watches(self, sides, kind):
        """Last: it changes the world."""
        world, revs = sides.worlds.pop(kind, None) or sides.world(kind)
        sides.worlds.pop(kind, None)
        now = sides.etcd.revision()
        revs = {**revs, "now": now, "next": now + 1}
        judge(kind, watch_both(sides.servers, of_watches(kind, revs), world, now))


def test_what_is_not_followed(sides):
    judge(None, ask_both(sides.servers, ELSEWHERE))


def test_every_line_of_the_documentation_is_shown_by_a_case():
    """By a case of the tables, or by a test that is marked with the line's name (shows.py)."""
    marked = {name for name in marked_in_python() if name.startswith("follow-")}
    assert {d.line for d in DIFFERENCES} | marked == compatibility()
    if n_judged >= 5 * len(SHORT) + 1 and not STANDS_IN:  # all of them
        assert not [(d.line, d.names) for d in DIFFERENCES if d.n_found == 0 and not d.of_any and not is_of_some_versions(d.line)], "these are equal by now"
