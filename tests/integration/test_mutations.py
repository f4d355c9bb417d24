"""A real recording is valid; with any one event dropped, doubled, swapped or its revision split, it no longer is."""
import pytest

import history
from checker import Spec, check, parse
from client import Recorder, write
from etcd import Cluster

SPECS = [Spec(0, "prefix", b"", prev_kv="true"), Spec(1, "prefix", b"/w/g1/"), Spec(2, "prefix", b"/w/", no_put="true")]
ROUNDS = 8


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """(records, history) of three watches over 1,500 writes."""
    folder = tmp_path_factory.mktemp("mutations")
    cluster = Cluster(folder, keep=True).start()
    try:
        recorder = Recorder(cluster.endpoints, folder / "record")
        for spec in SPECS:
            recorder.open(spec)
        recorder.wait_connected(len(SPECS))
        write(cluster.endpoints, "mode=mix", "seed=7", "count=1500", "size=100")
        cluster.outlast_leases("/w/g1/end")
        last = cluster.delete("/w/g1/end")
        recorder.wait_rev({s.number: last for s in SPECS}, 20)
        recorder.quit()
        with open(recorder.record) as f:
            return [list(r) for r in parse(f)], history.read(cluster, last)
    finally:
        cluster.close()


def copy(records):
    return [[r[0], r[1], r[2], list(r[3])] if r[0] == "B" else r for r in records]


def drop(records, i, rng):
    events = records[i][3]
    del events[rng.randrange(len(events))]
    if not events:
        del records[i]


def double(records, i, rng):
    events = records[i][3]
    events.insert(rng.randrange(len(events) + 1), rng.choice(events))


def double_batch(records, i, rng):
    records.insert(i + 1, records[i])


def swap(records, i, rng):
    """With the next batch of the same watch."""
    j = next(j for j in range(i + 1, len(records)) if records[j][0] == "B" and records[j][1] == records[i][1])
    records[i], records[j] = records[j], records[i]


def split(records, i, rng):
    letter, watch, batch, events = records[i]
    at = rng.randrange(1, len(events))
    records[i:i + 1] = [[letter, watch, batch._replace(n=at), events[:at]],
                        [letter, watch, batch._replace(n=len(events) - at), events[at:]]]


def swap_inside(records, i, rng):
    events = records[i][3]
    at = rng.randrange(1, len(events))
    events[at - 1], events[at] = events[at], events[at - 1]


@pytest.mark.parametrize("watch", [s.number for s in SPECS])
@pytest.mark.parametrize("mutate, needs, tripped", [
    (drop, 1, {"reliable", "alive", "resumable"}), (double, 1, {"unique"}), (double_batch, 1, {"unique", "atomic"}),
    (swap, 1, {"ordered"}), (split, 2, {"atomic"}), (swap_inside, 2, {"reliable"})],
    ids=lambda p: getattr(p, "__name__", ""))
def test_mutated_recording_is_found_out(recording, rng, mutate, needs, tripped, watch):
    records, truth = recording
    places = [i for i, r in enumerate(records) if r[0] == "B" and r[1] == watch and len(r[3]) >= needs]
    assert len(places) > ROUNDS
    chosen = rng.sample(places[:-1], min(ROUNDS, len(places) - 1)) + ([places[-1]] if mutate is not swap else [])
    for i in chosen:
        changed = copy(records)
        mutate(changed, i, rng)
        found = set(check(changed, SPECS, truth).counts)
        assert found & tripped, f"{mutate.__name__} at record {i} gave only {found}"


def test_unchanged_recording_is_valid(recording):
    verdict = check(recording[0], SPECS, recording[1])
    assert verdict.n_violations == 0, str(verdict)
    assert verdict.n_events > 1500
