"""Informers of real clients behind tiers in front of kube-apiservers, through faults of all of them (kube_tier_faults.py): every store
is the API server's in the end, nothing wrong was told, and nobody listed again where the history was there. The servers are built
outside this tree; without them this is skipped."""
import time

import needs
import pytest
from kube_tier import MAPS, STANDS_IN, needs_servers
from kube_tier_faults import FAULTS, SHORT, Bed, Compactor, Writer
from test_identity import restore

AFTER_S = 1.5  # of changes after a fault
COMPACT_S = 30


@pytest.fixture
def make_bed(tmp_path, cluster, rng):
    made = []

    def make(**kw):
        needs_servers()
        made.append(Bed(tmp_path, cluster, rng, **kw))
        return made[-1]
    yield make
    for bed in made:
        bed.close()


def through(bed, fault):
    """One fault while objects change; everybody has the right objects afterwards. Returns the changes."""
    bed.write()
    bed.changes(30)
    bed.settle()
    getattr(bed, fault)()
    time.sleep(AFTER_S)
    changes = bed.stop_writing()
    bed.judge()
    return changes


def test_informers_through_faults(make_bed, cluster, rng, soak, figure):
    bed = make_bed(n_servers=3 if soak else 2, stacked=soak)
    bed.add_informers(60 if soak else 6)
    plan = list(FAULTS) * 7 if soak else list(SHORT)
    rng.shuffle(plan)
    if not soak:
        plan.sort(key=lambda fault: fault != "move")  # its API server has all the history then
    changes, relists = 0, {}
    compactor = Compactor(cluster, COMPACT_S)
    for fault in plan:
        print(f"fault: {fault}", flush=True)
        before = bed.relists()
        changes += through(bed, fault)
        relists[fault] = relists.get(fault, 0) + bed.relists() - before
    lists = bed.upstream_lists()
    for text, n in (("changes", changes), ("faults", len(plan)), ("informers", sum(f.count for f in bed.fleets)), ("upstream_lists", len(lists)),
                    ("compactions", compactor.stop())):
        figure(f"kube_tier_fault_{text}", n)
    for fault, n in sorted(relists.items()):
        figure(f"kube_tier_relists_{fault}", n)
    if not STANDS_IN:  # whose history ends with its process
        assert not any(relists.values()), relists
        assert len(lists) == 1, lists


def test_all_api_servers_forget(make_bed, cluster, rng, soak, figure):
    """All API servers are killed, and etcd is compacted, so that no server has the changes of that time. Tiers may list again. Their clients
    do not: they receive the differences."""
    if not soak:
        needs.full_length("API servers start eight times: with BELFRY_SOAK=1 only")
    bed = make_bed(n_servers=2, stacked=True)
    bed.add_informers(6)
    before, lists = bed.relists(), len(bed.upstream_lists())
    plan = ["api_kill_all", "tier_stop", "api_kill_all", "compact"] * 4
    compactor = Compactor(cluster, COMPACT_S / 10)
    for fault in plan:
        print(f"fault: {fault}", flush=True)
        through(bed, fault)
    figure("kube_tier_forgotten_compactions", compactor.stop())
    figure("kube_tier_forgotten_client_relists", bed.relists() - before)
    figure("kube_tier_forgotten_upstream_lists", len(bed.upstream_lists()) - lists)
    if not STANDS_IN:
        assert len(bed.upstream_lists()) - lists <= plan.count("api_kill_all"), bed.upstream_lists()


@pytest.mark.skipif(STANDS_IN, reason=needs.BY_PEER + "informers of an API server keep ghosts after that")
def test_a_restored_backup_leaves_no_ghost(make_bed, cluster, tmp_path, rng):
    """Versions that both pasts have given, objects that only one has: everybody lists anew."""
    bed = make_bed(n_servers=1, stacked=True)
    bed.add_informers(6)
    bed.write()
    bed.changes(30)
    snapshot = tmp_path / "backup"
    cluster.ctl("snapshot", "save", str(snapshot))
    bed.changes(60)
    bed.stop_writing()
    server = bed.servers[0]
    ghost = server.call("POST", MAPS.path("prod"), obj=MAPS.object("prod", "ghost"))
    assert ghost.code == 201, ghost.body
    bed.judge()
    server.kill()
    restore(cluster, snapshot)
    cluster.start()
    server.start()
    writer = Writer(bed.servers, rng, rate=200, prefix="n")
    while server.call("GET", MAPS.path(), {"limit": 1}).rv < ghost.rv + 50:
        time.sleep(0.2)
    writer.stop()
    bed.judge()
    assert all(s["lists"] > 1 for fleet in bed.fleets for s in fleet.status())
