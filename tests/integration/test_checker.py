"""The checker is itself checked: a valid history passes, and each way to break one trips its property."""
import pytest

from checker import Batch, PROPERTIES, Spec, Verdict, check, parse
from fleet import COMPACTED, TierCheck, TierSpec, Truth
from history import Event, History, key_id

CLUSTER = 77


def make_history(kind=History):
    h = kind()
    h.feed("P", b"/a", b"1", 2, 2, 1, 0)
    h.feed("P", b"/b", b"2", 3, 3, 1, 0)
    h.feed("P", b"/a", b"3", 2, 4, 2, 0)       # revision 4: two puts, not in the order of their keys
    h.feed("P", b"/0", b"4", 4, 4, 1, 7)
    h.feed("D", b"/b", b"", 0, 5, 0, 0)
    h.feed("P", b"/b", b"5", 6, 6, 1, 0)
    h.feed("P", b"other", b"6", 7, 7, 1, 0)
    h.feed("D", b"/a", b"", 0, 8, 0, 0)        # revision 8: a range delete
    h.feed("D", b"/b", b"", 0, 8, 0, 0)
    h.feed("P", b"/a", b"7", 9, 9, 1, 0)
    h.feed("P", b"/a", b"8", 9, 10, 2, 0)
    return h


SPEC = dict(number=0, kind="prefix", key=b"/", prev_kv="true")


def batch(kind, rev, n=0, part=0):
    return Batch(kind, rev, n, part, 1, 0, rev, 1, CLUSTER)


def valid_records(h, spec):
    """As a perfect client would have recorded it, with progress after revisions 5 and 10."""
    found, events = [], spec.expected(h)
    for rev in sorted({e.mod for e in events}):
        of_rev = [e if spec.on("prev-kv") else e._replace(prev=None) for e in events if e.mod == rev]
        found.append(["B", spec.number, batch("C", rev, len(of_rev)), of_rev])
        if rev in (5, 10):
            found.append(["B", spec.number, batch("P", rev), []])
    return found


def judge(mutate, **options):
    """The properties that are tripped by a record that `mutate` has changed in place."""
    h, spec = make_history(), Spec(**{**SPEC, **options})
    records = valid_records(h, spec)
    mutate(records, h)
    return set(check(records, [spec], h).counts)


def find(records, rev, kind="C"):
    return next(i for i, r in enumerate(records) if r[2].rev == rev and r[2].kind == kind)


def events_at(records, rev):
    return records[find(records, rev)][3]


@pytest.mark.parametrize("options", [{}, {"prev_kv": "false"}, {"no_put": "true"}, {"no_delete": "true"},
                                     {"kind": "key", "key": b"/a"}, {"kind": "interval", "key": b"/a", "end": b"/b"},
                                     {"kind": "from", "key": b"/b"}, {"key": b""}, {"first": 5, "rev": "5"}])
def test_valid_history_passes(options):
    assert judge(lambda r, h: None, **options) == set()


def test_event_outside_the_range_trips_filter():
    def mutate(r, h):
        r.insert(find(r, 8), ["B", 0, batch("C", 7, 1), [h.events[h.revs.index(7)]._replace(prev=None)]])
    assert "filter" in judge(mutate)


def test_event_of_a_filtered_kind_trips_filter():
    def mutate(r, h):
        r.insert(find(r, 6), ["B", 0, batch("C", 5, 1), [h.events[h.revs.index(5)]]])
    assert "filter" in judge(mutate, no_delete="true")


def test_two_revisions_swapped_trip_ordered():
    def mutate(r, h):
        i, j = find(r, 2), find(r, 3)
        r[i], r[j] = r[j], r[i]
    assert {"ordered", "reliable"} <= judge(mutate)


def test_events_swapped_inside_a_revision_trip_reliable():
    assert "reliable" in judge(lambda r, h: events_at(r, 4).reverse())


def test_event_doubled_in_its_batch_trips_unique():
    assert "unique" in judge(lambda r, h: events_at(r, 4).append(events_at(r, 4)[0]))


def test_batch_doubled_trips_unique_and_atomic():
    assert {"unique", "atomic"} <= judge(lambda r, h: r.insert(find(r, 3), r[find(r, 3)]))


def test_revision_split_trips_atomic():
    def mutate(r, h):
        i = find(r, 8)
        first, second = r[i][3]
        r[i:i + 1] = [["B", 0, batch("C", 8, 1), [first]], ["B", 0, batch("C", 8, 1), [second]]]
    assert judge(mutate) == {"atomic"}


def split_in_parts(r, h):
    i = find(r, 8)
    first, second = r[i][3]
    r[i:i + 1] = [["B", 0, batch("C", 8, 1, part=1), [first]], ["B", 0, batch("C", 8, 1), [second]]]


def test_revision_in_parts_passes_only_when_asked_for():
    assert judge(split_in_parts, unmerged="true") == set()
    assert judge(split_in_parts) == {"atomic"}


def test_part_whose_rest_does_not_follow_trips_atomic():
    def mutate(r, h):
        split_in_parts(r, h)
        del r[find(r, 8) + 1]
    assert "atomic" in judge(mutate, unmerged="true")


def test_two_revisions_in_one_batch_trip_atomic():
    def mutate(r, h):
        i = find(r, 3)
        r[i - 1][3].extend(r[i][3])
        del r[i]
    assert "atomic" in judge(mutate)


def test_event_after_progress_trips_bookmarkable():
    def mutate(r, h):
        i = find(r, 5, "P")
        r[i - 1], r[i] = r[i], r[i - 1]
    assert {"bookmarkable", "progress"} <= judge(mutate)


def test_progress_that_goes_back_trips_bookmarkable():
    assert "bookmarkable" in judge(lambda r, h: r.append(["B", 0, batch("P", 9), []]))


def test_progress_too_far_trips_progress():
    def mutate(r, h):
        r[find(r, 5, "P")][2] = batch("P", 6)
    assert "progress" in judge(mutate)


def test_missing_first_event_trips_resumable():
    def mutate(r, h):
        del r[0]
    assert {"resumable", "reliable"} <= judge(mutate, first=3, rev="3")


def test_event_before_the_start_trips_resumable():
    def mutate(r, h):
        r.insert(0, ["B", 0, batch("C", 2, 1), [h.events[0]]])
    assert "resumable" in judge(mutate, first=3, rev="3")


def test_put_that_pretends_to_create_trips_is_create():
    def mutate(r, h):
        events_at(r, 10)[0] = events_at(r, 10)[0]._replace(create=10)
    assert {"is_create", "content"} <= judge(mutate)


def test_creation_that_pretends_to_change_trips_is_create():
    def mutate(r, h):
        events_at(r, 6)[0] = events_at(r, 6)[0]._replace(create=3)
    assert "is_create" in judge(mutate)


@pytest.mark.parametrize("rev", [3, 4, 5, 6, 8, 9])
def test_batch_dropped_trips_reliable(rev):
    def mutate(r, h):
        del r[find(r, rev)]
    assert "reliable" in judge(mutate)


def test_event_dropped_inside_a_revision_trips_reliable():
    def mutate(r, h):
        del events_at(r, 4)[0]
    assert "reliable" in judge(mutate)


def test_event_turned_from_put_to_delete_trips_reliable():
    def mutate(r, h):
        events_at(r, 10)[0] = Event("D", key_id(b"/a"), 0, 0, 0, 10, 0, 0, events_at(r, 10)[0].prev)
    assert "reliable" in judge(mutate)


def test_wrong_previous_value_trips_prev_kv():
    def mutate(r, h):
        e = events_at(r, 10)[0]
        events_at(r, 10)[0] = e._replace(prev=e.prev[:1] + (e.prev[1] ^ 1,) + e.prev[2:])
    assert judge(mutate) == {"prev_kv"}


def test_previous_value_of_a_created_key_trips_prev_kv():
    def mutate(r, h):
        events_at(r, 6)[0] = events_at(r, 6)[0]._replace(prev=(1, 2, 3, 3, 1, 0))
    assert judge(mutate) == {"prev_kv"}


def test_missing_previous_value_trips_prev_kv():
    def mutate(r, h):
        events_at(r, 10)[0] = events_at(r, 10)[0]._replace(prev=None)
    assert judge(mutate) == {"prev_kv"}


def tier_check(first, latest=0, compactions=frozenset({0}), **options):
    """Of a watch of /a on a tier."""
    spec = TierSpec(0, "key", b"/a", prev_kv="true", first=first, **options)
    spec.latest = latest
    return TierCheck(spec, make_history(Truth), Verdict(), compactions)


@pytest.mark.parametrize("compacted,head,tripped", [(10, 10, False), (12, 12, False), (9, 2000, True), (2000, 10, True)])
def test_previous_value_may_be_missing_at_or_below_a_compaction_that_can_have_been(compacted, head, tripped):
    """A header far below the compaction shows that it came before that."""
    check = tier_check(first=10, compactions={0, compacted}, rev="10")
    check.batch(batch("C", 10, 1)._replace(hdr_rev=head), [check.expected[-1]._replace(prev=None)])
    assert dict(check.verdict.counts) == ({"prev_kv": 1} if tripped else {})


@pytest.mark.parametrize("rewound", [False, True])
@pytest.mark.parametrize("told,tripped", [(12, set()), (10, set()), (13, {"end"}), (8, {"end"})])
def test_a_compaction_is_told_rightly_if_all_below_it_is_gone(rewound, told, tripped):
    """One at 12, of a watch that needs 9 next. With `rewound`, 13 is taken for a past that is gone, too early."""
    check = tier_check(first=8, compactions={0, 12})
    check.rewound = rewound
    check.batch(batch("C", 8, 1), [e for e in check.expected if e.mod == 8])
    check.end_at(COMPACTED, told)
    assert set(check.verdict.counts) == ({"alive"} if rewound and told == 13 else tripped)


@pytest.mark.parametrize("latest,given,tripped", [
    (0, (9, 10), {"resumable", "reliable"}), (7, (9, 10), {"resumable", "reliable"}), (8, (9, 10), set()),
    (8, (8, 9, 10), set()), (9, (10,), set()), (9, (8, 10), {"reliable"}), (10, (), set()), (9, (), {"alive"})])
def test_a_watch_from_now_begins_where_it_was_created_at_the_latest(latest, given, tripped):
    check = tier_check(first=8, latest=latest)
    for e in check.expected:
        if e.mod in given:
            check.batch(batch("C", e.mod, 1), [e])
    check.finish()
    assert set(check.verdict.counts) == tripped


@pytest.mark.parametrize("latest,tripped", [(7, {"progress", "resumable", "reliable"}), (8, set())])
def test_progress_before_the_first_event_says_that_a_watch_from_now_was_created_later(latest, tripped):
    check = tier_check(first=8, latest=latest)
    check.batch(batch("P", 8), [])
    for e in check.expected[1:]:
        check.batch(batch("C", e.mod, 1), [e])
    check.finish()
    assert set(check.verdict.counts) == tripped


def test_previous_value_that_nobody_asked_for_trips_prev_kv():
    def mutate(r, h):
        events_at(r, 10)[0] = h.events[-1]
    assert judge(mutate, prev_kv="false") == {"prev_kv"}


@pytest.mark.parametrize("field", ["len", "crc", "version", "lease"])
def test_altered_content_trips_content(field):
    def mutate(r, h):
        e = events_at(r, 10)[0]
        events_at(r, 10)[0] = e._replace(**{field: getattr(e, field) + 1})
    assert judge(mutate) == {"content"}


def test_header_behind_its_batch_trips_header():
    def mutate(r, h):
        r[find(r, 6)][2] = batch("C", 6, 1)._replace(hdr_rev=5)
    assert judge(mutate) == {"header"}


def test_header_of_another_cluster_trips_header():
    def mutate(r, h):
        r[-1][2] = r[-1][2]._replace(cluster=CLUSTER + 1)
    assert judge(mutate) == {"header"}


def test_last_event_dropped_trips_alive():
    def mutate(r, h):
        del r[find(r, 10, "P")]
        del r[find(r, 10)]
    assert judge(mutate) == {"alive"}


def test_watch_that_got_nothing_trips_alive():
    assert judge(lambda r, h: r.clear()) == {"alive"}


def test_unexpected_end_trips_end():
    assert judge(lambda r, h: r.append(["X", 0, ["0", "BELFRY_ERR_COMPACTED", "5", "4", "why"]])) == {"end"}


def test_batch_after_the_end_trips_end():
    def mutate(r, h):
        r.insert(find(r, 9), ["X", 0, ["0", "BELFRY_ERR_COMPACTED", "9", "8", "why"]])
    assert judge(mutate, may_end="BELFRY_ERR_COMPACTED") == {"end"}


def follow_records(h):
    state = {}
    for e in h.events[:7]:
        state.pop(e.key, None) if e.op == "D" else state.update({e.key: e})
    listed = [e for e in state.values() if h.raw[e.key].startswith(b"/")]
    return [["B", 0, batch("S", 7, len(listed)), listed], ["B", 0, batch("Y", 7), []],
            ["B", 0, batch("C", 8, 2), h.events[7:9]], ["B", 0, batch("C", 9, 1), h.events[9:10]],
            ["B", 0, batch("C", 10, 1), h.events[10:11]]]


@pytest.mark.parametrize("drop, tripped", [(None, set()), (0, {"content"}), (1, {"alive"}),
                                           (2, {"reliable", "content"}), (4, {"content"})])
def test_follow_is_judged_by_its_state(drop, tripped):
    h, spec = make_history(), Spec(0, "prefix", b"/", follow=True)
    records = follow_records(h)
    if drop is not None:
        del records[drop]
    assert set(check(records, [spec], h).counts) == tripped


def test_record_is_parsed_as_the_recorder_writes_it():
    text = ["O 0 5\n", "L 0 6 connected to http://127.0.0.1:1\n",
            "B 0 C 4 2 0 1 9 4 11 77\n",
            "E P 2f61 1 3596227959 2 4 2 0 1,2212294583,2,2,1,0 -\n", "E D 2f62 0 0 0 4 0 0 - 17\n",
            "X 0 10 BELFRY_ERR_CANCELED 0 4 closed\n"]
    got = list(parse(text))
    assert [g[0] for g in got] == ["O", "L", "B", "X"]
    assert got[2][2] == Batch("C", 4, 2, 0, 1, 9, 4, 11, 77)
    assert got[2][3][0] == Event("P", "2f61", 1, 3596227959, 2, 4, 2, 0, (1, 2212294583, 2, 2, 1, 0))
    assert got[2][3][1] == Event("D", "2f62", 0, 0, 0, 4, 0, 0, None)


def test_history_with_a_gap_is_refused():
    h = make_history()
    with pytest.raises(AssertionError):
        h.feed("P", b"/a", b"9", 9, 12, 4, 0)
    with pytest.raises(AssertionError):
        h.feed("D", b"nothing", b"", 0, 13, 0, 0)


def test_every_property_has_a_test():
    import pathlib
    text = pathlib.Path(__file__).read_text()
    assert [p for p in PROPERTIES if f"trips_{p}" not in text and f"trip_{p}" not in text
            and f"_and_{p}" not in text] == []
