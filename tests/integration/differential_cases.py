"""The table of cases: what etcd's watch API does, one line of its behaviour a case. Revisions are counted from the
start of a case (Rev(1) is its first write); every case begins with an empty store."""
import gzip

from differential import (WATCH, Case, Request, Rev, cancel, compact, create, delete, encode, expect, expect_end,
    expect_events, frame,
                          half_close, new_tier, progress, put, put_leased, quiet, raw, revoke, txn, watch_create)

ALL = dict(key=b"\0", end=b"\0")
BIG = b"x" * 700_000
NO_PUT, NO_DELETE = 0, 1
COMPACTED = "etcdserver: mvcc: required revision has been compacted"


def header_of(etcd, revision=0):
    """The header that a response at this revision has."""
    made = dict(etcd["watchers"][str(etcd["created"][0])][0]["header"])
    made["revision"] = revision
    return made


def progress_for_all(n):
    """One more progress for the whole stream, at Rev(n), before any other."""
    def change(etcd, base):
        etcd["watchers"].setdefault("-1", []).insert(0, {"header": header_of(etcd, base + n), "watch_id": -1})
        etcd["watchers"] = dict(sorted(etcd["watchers"].items()))
        return etcd
    return change


def no_progress_below_start(etcd, base):
    etcd["watchers"] = {i: rs[:1] for i, rs in etcd["watchers"].items() if i != "-1"}
    return etcd


def refused(etcd, base):
    response = etcd["watchers"].pop("0")[0]
    response.update(canceled=1, cancel_reason=COMPACTED, watch_id=-1)
    return {"created": [-1], "watchers": {"-1": [response]}}


def history_instead_of_cancel(etcd, base):
    """Rev(2) to Rev(5), changes of one key that was created at Rev(1)."""
    cancelled = etcd["watchers"]["0"][1]
    assert cancelled.pop("canceled") == 1 and cancelled.pop("compact_revision") == base + 4
    cancelled["events"] = [{"kv": {"key": "a", "create_revision": base + 1, "mod_revision": base + n, "value": "v",
    "version": n}}
                           for n in range(2, 6)]
    return etcd


def older_compaction(etcd, base):
    """The second cancel says what the first did."""
    assert [etcd["watchers"][i][1].pop("compact_revision") for i in "01"] == [base + 3, base + 6]
    etcd["watchers"]["0"][1]["compact_revision"] = etcd["watchers"]["1"][1]["compact_revision"] = base + 3
    return etcd


def another_text(etcd, base):
    etcd["status"][1] = "grpc: failed to unmarshal the received message: proto: malformed WatchRequest"
    return etcd


STREAMS = [
    Case("creates are answered in the order they were sent", *[create(b"a%d" % i) for i in range(300)], expect(300)),
    Case("created comes before replayed events, for each watcher", put(b"a"), put(b"a"), create(b"a", rev=Rev(1)),
         create(b"a", rev=Rev(2)), create(b"b"), expect_events(3), joined=True),
    Case("created comes before an event that is written at once", create(b"a"), expect(1), put(b"a"), expect(2)),
    Case("every watcher of a stream gets each event once", create(b"a"), create(b"a"), create(b"a", b"b"), expect(3),
         put(b"a", b"1"), put(b"a", b"2"), put(b"b"), expect(9)),
    Case("no event after cancel", create(b"a"), expect(1), put(b"a"), expect(2), cancel(0), expect(3), put(b"a"),
         quiet()),
    Case("progress asked for with the create comes, before or after created", create(b"a"), progress(), expect(2)),
]

CREATES = [
    Case("an empty key with no end is the single key zero", create(b""), expect(1), put(b"\0", b"zero"), put(b"a"),
         expect(2)),
    Case("an empty key with end zero is everything", create(b"", b"\0"), expect(1), put(b"\0"), put(b"\xff\xff"),
         expect(3)),
    Case("an empty create is the single key zero", raw(b"\x0a\x00"), expect(1), put(b"\0", b"zero"), expect(2)),
    Case("an empty request is ignored", raw(b""), quiet(), create(b"a"), expect(1)),
    Case("an unknown field is ignored", raw(b"\xfa\x3e\x01x"), quiet(), create(b"a"), expect(1)),
    Case("of two members of the union the last counts", raw(b"\x0a\x03\x0a\x01a\x1a\x00"), quiet(), create(b"a"),
         expect(1)),
    Case("a single key", create(b"a"), expect(1), put(b"a"), put(b"aa"), put(b"b"), put(b"a"), expect(3)),
    Case("an interval, end excluded", create(b"b", b"d"), expect(1), put(b"a"), put(b"b"), put(b"c"), put(b"cz"),
         put(b"d"),
         expect(4)),
    Case("from a key to the end", create(b"b", b"\0"), expect(1), put(b"a"), put(b"b"), put(b"\xff"), expect(3)),
    Case("everything", create(**ALL), expect(1), put(b"\0"), put(b"a"), put(b"\xff" * 40), expect(4)),
    Case("an empty interval is refused", create(b"b", b"a"), create(b"b", b"b"), create(b"c"), expect(3)),
    Case("an interval of one key by its successor", create(b"a", b"a\0"), expect(1), put(b"a"), put(b"a\0"), expect(2)),
    Case("a long key", create(b"k" * 5000), expect(1), put(b"k" * 5000), put(b"k" * 4999), expect(2)),
    Case("a negative start is refused", create(b"a", rev=-1), quiet(), differs="negative-start",
         becomes=refused),
    Case("ids count up from 0", create(b"a"), create(b"a"), create(b"a"), expect(3)),
    Case("ids are given once, also after cancel", create(b"a"), create(b"a"), expect(2), cancel(1), expect(3),
         create(b"a"),
         expect(4)),
    Case("an explicit id is used, and auto skips it", create(b"a", watch_id=1), create(b"a"), create(b"a"),
         create(b"a"),
         expect(4), put(b"a"), expect(8)),
    Case("a large explicit id", create(b"a", watch_id=(1 << 63) - 1), expect(1), put(b"a"), expect(2), create(b"b"),
         expect(3)),
    Case("negative explicit ids are accepted", create(b"a", watch_id=-7), create(b"a", watch_id=-1), expect(2),
         put(b"a"),
         expect(4)),
    Case("an explicit 0 is auto", create(b"a", watch_id=0), create(b"a", watch_id=0), expect(2)),
    Case("a taken id is refused", create(b"a", watch_id=5), create(b"b", watch_id=5), expect(2), put(b"a"), put(b"b"),
         expect(3)),
    Case("an auto id is taken too", create(b"a"), create(b"a"), create(b"b", watch_id=1), expect(3)),
    Case("a cancelled explicit id is free again", create(b"a", watch_id=5), expect(1), cancel(5), expect(2),
         create(b"b", watch_id=5), expect(3), put(b"a"), put(b"b"), expect(4)),
    Case("no puts", create(b"a", filters=[NO_PUT]), expect(1), put(b"a"), delete(b"a"), put(b"a"), expect(2)),
    Case("no deletes", create(b"a", filters=[NO_DELETE]), expect(1), put(b"a"), delete(b"a"), put(b"a"), expect(3)),
    Case("both filters: no events, but progress", create(b"a", filters=[NO_PUT, NO_DELETE]), expect(1), put(b"a"),
         delete(b"a"), quiet(), progress(), expect(2)),
    Case("the same filter twice", create(b"a", filters=[NO_PUT, NO_PUT]), expect(1), put(b"a"), delete(b"a"),
         expect(2)),
    Case("an unknown filter is ignored", create(b"a", filters=[7]), expect(1), put(b"a"), expect(2)),
    Case("packed filters", raw(b"\x0a\x07\x0a\x01a\x2a\x02\x00\x01"), expect(1), put(b"a"), delete(b"a"), quiet(),
         progress(),
         expect(2)),
    Case("filters on replay", put(b"a"), delete(b"a"), put(b"a"), create(b"a", rev=Rev(1), filters=[NO_PUT]),
         create(b"a", rev=Rev(1), filters=[NO_DELETE]), expect_events(3), joined=True),
]

STARTS = [
    Case("0 is from now", put(b"a", b"old"), create(b"a", rev=0), expect(1), put(b"a", b"new"), expect(2)),
    Case("1 in the past", put(b"a", b"1"), put(b"b", b"2"), put(b"a", b"3"), create(b"a", rev=Rev(1)), expect_events(2),
         put(b"a", b"4"), expect_events(3), joined=True),
    Case("the current revision", put(b"a", b"1"), put(b"a", b"2"), create(b"a", rev=Rev(2)), expect_events(1),
         joined=True),
    Case("current + 1", put(b"a"), create(b"a", rev=Rev(2)), expect(1), put(b"a"), expect(2)),
    Case("the future: nothing below it", create(b"a", rev=Rev(3)), expect(1), put(b"a"), put(b"a"), quiet(), put(b"a"),
         put(b"a"),
         expect(3)),
    Case("far in the future", create(b"a", rev=Rev(1_000_000)), expect(1), put(b"a"), quiet()),
    Case("the largest revision", create(b"a", rev=(1 << 63) - 1), expect(1), put(b"a"), quiet()),
    Case("compacted: created, then cancelled", put(b"a", times=5), compact(Rev(4)), new_tier(),
         create(b"a", rev=Rev(2)),
         expect(2)),
    Case("1, compacted long ago", put(b"a", times=3), compact(Rev(3)), new_tier(), create(b"a", rev=1), expect(2)),
    Case("compacted, and the stream goes on", put(b"a", times=5), compact(Rev(4)), new_tier(), create(b"a"),
         create(b"a", rev=Rev(2)), expect(3), put(b"a"), expect(4)),
    Case("at the compact revision: a put", put(b"a", b"1"), put(b"a", b"2"), put(b"a", b"3"), compact(Rev(2)),
         new_tier(),
         create(b"a", rev=Rev(2), prev_kv=1), expect_events(2), joined=True),
    Case("at the compact revision: a delete", put(b"a", b"1"), delete(b"a"), put(b"b"), compact(Rev(2)), new_tier(),
         create(**ALL, rev=Rev(2), prev_kv=1), expect_events(2), joined=True),
    Case("at the compact revision: superseded", put(b"a", b"1"), put(b"a", b"2"), compact(Rev(1)), new_tier(),
         create(b"a", rev=Rev(1), prev_kv=1), expect_events(1), joined=True),
    Case("after the compact revision", put(b"a", times=4), compact(Rev(2)), new_tier(),
         create(b"a", rev=Rev(3), prev_kv=1),
         expect_events(2), joined=True),
    Case("a watcher up to date outlives a compaction", create(b"a", rev=Rev(1)), expect(1), put(b"a"),
         put(b"b", times=5),
         expect(2), compact(Rev(5)), quiet(), put(b"a"), expect(3)),
    Case("a future watcher outlives a compaction", create(b"a", rev=Rev(4)), expect(1), put(b"b", times=3),
         compact(Rev(3)),
         put(b"a"), expect(2)),
    Case("compacted: the id is still taken", put(b"a", times=3), compact(Rev(3)), new_tier(),
         create(b"a", rev=1, watch_id=9), expect(2),
         create(b"a", watch_id=9), expect(3)),
    Case("compacted: progress for the stream is blocked until the cancel", put(b"a", times=3), compact(Rev(3)),
         new_tier(),
         create(b"b"), create(b"a", rev=1), expect(3), progress(), quiet(), cancel(1), expect(4), progress(), expect(5),
         differs="progress-after-compaction", becomes=progress_for_all(3)),
    Case("compacted: the cancel is acknowledged, once", put(b"a", times=3), compact(Rev(3)), new_tier(),
         create(b"a", rev=1), expect(2),
         cancel(0), expect(3), cancel(0), quiet()),
    Case("compacted upstream, but still known to the tier", put(b"a", times=5), quiet(), compact(Rev(4)),
         create(b"a", rev=Rev(2)),
         expect(2), quiet(), joined=True, differs="compacted-but-kept", becomes=history_instead_of_cancel),
    Case("compacted twice: the second cancel's revision", put(b"a", times=3), compact(Rev(3)), new_tier(),
         create(b"a", rev=1),
         expect(2), put(b"a", times=3), compact(Rev(6)), create(b"a", rev=1), expect(4),
         differs="compact-revision-known",
         becomes=older_compaction),
]

CANCELS = [
    Case("a live id", create(b"a"), expect(1), cancel(0), expect(2)),
    Case("one of several", create(b"a"), create(b"a"), create(b"a"), expect(3), cancel(1), expect(4), put(b"a"),
         expect(6)),
    Case("an unknown id gets no answer", create(b"a"), expect(1), cancel(77), cancel(-5), quiet()),
    Case("twice: one answer", create(b"a"), expect(1), cancel(0), cancel(0), expect(2), quiet()),
    Case("-1, which nobody has", create(b"a"), expect(1), cancel(-1), quiet(), put(b"a"), expect(2)),
    Case("a negative id that is live", create(b"a", watch_id=-7), expect(1), cancel(-7), expect(2)),
    Case("before anything was created", cancel(0), quiet(), create(b"a"), expect(1)),
    Case("create and cancel at once", create(b"a"), cancel(0), expect(2), put(b"a"), quiet()),
    Case("an empty cancel is of id 0", create(b"a"), expect(1), raw(b"\x12\x00"), expect(2)),
    Case("in the middle of a replay", put(b"a", times=50), create(b"a", rev=Rev(1)), expect_events(50), cancel(0),
         quiet(),
         put(b"a"), joined=True),
]

EVENTS = [
    Case("creation, change, deletion, creation", create(b"a"), expect(1), put(b"a", b"1"), put(b"a", b"2"),
         delete(b"a"),
         put(b"a", b"3"), expect(5)),
    Case("an empty value", create(b"a"), expect(1), put(b"a", b""), expect(2)),
    Case("a txn is one response, in the order of its operations", put(b"foo"), create(**ALL), expect(1),
         txn((b"z", b"1"), (b"a", b"2"), (b"foo",), (b"m", b"3")), expect(2)),
    Case("a txn of 128 operations", create(**ALL), expect(1), txn(*[(b"k%03d" % (i * 37 % 128),
         b"v") for i in range(128)]),
         expect(2)),
    Case("a part of a txn", create(b"b", b"d"), expect(1), txn((b"a", b"1"), (b"c", b"2"), (b"b", b"3"), (b"d", b"4")),
         expect(2)),
    Case("a range deletion is one response, in key order", txn((b"c", b""), (b"a", b""), (b"b", b"")), create(**ALL),
         expect(1),
         delete(b"a", b"z"), expect(2)),
    Case("what deletes nothing is no event", create(**ALL), expect(1), delete(b"nothing"), txn((b"nothing",)), quiet(),
         put(b"a"),
         expect(2)),
    Case("a revoked lease deletes its keys in one revision", put_leased(b"b"), put_leased(b"a"), put_leased(b"c"),
         create(**ALL, prev_kv=1), expect(1), revoke(), expect(2)),
    Case("a lease is told with the key", create(b"a"), expect(1), put_leased(b"a"), expect(2), revoke(), expect(3)),
    Case("replay of a txn is whole", txn((b"b", b"1"), (b"a", b"2")), txn((b"c", b"3"), (b"a",)),
         create(**ALL, rev=Rev(1)),
         expect_events(4), joined=True),
    Case("replay of 2,500 revisions", put(b"a", times=2500), create(b"a", rev=Rev(1)), expect_events(2500),
         joined=True),
    Case("replay of 1,200 revisions to a tier that was not there", put(b"a", times=1200), new_tier(),
         create(b"a", rev=Rev(1), prev_kv=1), expect_events(1200), joined=True),
    Case("replay, then live", put(b"a", times=20), create(b"a", rev=Rev(10)), expect(1), put(b"a", times=20),
         expect_events(31), joined=True),
    Case("replay with nothing that matches is silent", put(b"a", times=5), create(b"b", rev=Rev(1)), expect(1), quiet(),
         put(b"b"),
         expect(2)),
    Case("replay with everything filtered is silent", put(b"a", times=5), create(b"a", rev=Rev(1), filters=[NO_PUT]),
         expect(1),
         quiet(), delete(b"a"), expect(2)),
    Case("a value of 1.4 MiB", create(b"a", prev_kv=1), expect(1), put(b"a", b"x" * 1_400_000),
         put(b"a", b"y" * 1_400_000),
         expect(3)),
]

PROGRESS = [
    Case("asked for on an idle stream", create(b"a"), expect(1), progress(), expect(2)),
    Case("asked for by a stream of many", create(b"a"), create(b"b"), create(b"c"), expect(3), progress(), expect(4),
         progress(),
         expect(5)),
    Case("after events, at their revision", create(b"a"), expect(1), put(b"a"), expect(2), progress(), expect(3)),
    Case("after writes elsewhere, at the store's revision", create(b"a"), expect(1), put(b"a"), put(b"b", times=3),
         expect(2),
         quiet(), progress(), expect(3)),
    Case("without watchers: no answer", progress(), quiet(), create(b"a"), expect(1)),
    Case("after every watcher was cancelled: no answer", create(b"a"), expect(1), cancel(0), expect(2), progress(),
         quiet()),
    Case("after a replay", put(b"a", times=3), create(b"a", rev=Rev(1)), expect_events(3), progress(), expect(3),
         joined=True),
    Case("periodic: by its own id, if asked for", create(b"a", progress_notify=1), create(b"b"), expect(2), expect(3)),
    Case("periodic: not before a future start is reached", create(b"a", rev=Rev(3), progress_notify=1), expect(1),
         quiet(2.5),
         differs="future-start", becomes=no_progress_below_start),
    Case("asked for before a future start is reached", create(b"a", rev=Rev(3)), expect(1), progress(), quiet(),
         differs="future-start", becomes=no_progress_below_start),
    Case("asked for in the middle of a replay", put(b"a", times=1500), create(b"a", rev=Rev(1)), progress(),
         expect_events(1500),
         joined=True, differs="progress-remembered", becomes=progress_for_all(1500)),
]

FRAGMENTS = [
    Case("small responses are not fragmented", create(b"a", fragment=1), expect(1), put(b"a"), expect(2)),
    Case("a live txn over 2 MiB", create(**ALL, fragment=1, prev_kv=1), expect(1), txn((b"a", BIG), (b"b", BIG)),
         txn((b"a", b"1"), (b"b", b"1")), txn((b"a", BIG), (b"b", b"2")), delete(b"a", b"c"), expect(5), joined=True),
    Case("a deletion over 2 MiB with prev_kv", put(b"a", BIG), put(b"b", BIG), put(b"c", BIG), put(b"d", BIG),
         create(**ALL, fragment=1, prev_kv=1), expect(1), delete(b"a", b"z"), expect_events(4), joined=True),
    Case("the same without fragments is one response", put(b"a", BIG), put(b"b", BIG), put(b"c", BIG), put(b"d", BIG),
         create(**ALL, prev_kv=1), expect(1), delete(b"a", b"z"), expect(2)),
    Case("replay over 2 MiB with fragments", put(b"a", BIG, times=6), create(b"a", rev=Rev(1), fragment=1),
         expect_events(6),
         joined=True),
    Case("replay over 2 MiB without", put(b"a", BIG, times=6), create(b"a", rev=Rev(1)), expect_events(6), joined=True),
]

PREV_KV = [
    Case("of a change, a deletion, and no creation", create(b"a", prev_kv=1), expect(1), put(b"a", b"1"),
         put(b"a", b"2"),
         delete(b"a"), put(b"a", b"3"), expect(5)),
    Case("of an empty value", put(b"a", b""), create(b"a", prev_kv=1), expect(1), put(b"a", b"1"), expect(2)),
    Case("not without the flag", put(b"a"), create(b"a"), expect(1), put(b"a"), delete(b"a"), expect(3)),
    Case("side by side with a watcher without", put(b"a"), create(b"a", prev_kv=1), create(b"a"), expect(2), put(b"a"),
         expect(4)),
    Case("on replay", put(b"a", b"1"), put(b"a", b"2"), delete(b"a"), create(b"a", rev=Rev(1), prev_kv=1),
         expect_events(3),
         joined=True),
    Case("within one txn with a deletion", put(b"a", b"1"), put(b"b", b"2"), create(**ALL, prev_kv=1), expect(1),
         txn((b"a", b"3"), (b"b",)), expect(2)),
    Case("of a key with a lease", put_leased(b"a"), create(b"a", prev_kv=1), expect(1), put(b"a"), expect(2), revoke()),
]

ENDS = [
    Case("an undecodable message ends the stream", create(b"a"), expect(1), raw(b"\x0a\x05a"), expect_end(),
         differs="undecodable-text", becomes=another_text),
    Case("half-closed, it goes on", create(b"a"), expect(1), half_close(), quiet(), put(b"a"), expect(2)),
    Case("half-closed right after the create", create(b"a"), half_close(), expect(1), put(b"a"), expect(2)),
    Case("hasleader, with a leader", create(b"a"), expect(1), put(b"a"), expect(2), metadata=[("hasleader", "true")]),
    Case("metadata nobody knows", create(b"a"), expect(1), metadata=[("x-some", "thing"), ("y-bin", b"\x00\xff")]),
    Case("a token where auth is off", create(b"a"), expect(1), put(b"a"), expect(2),
         metadata=[("token", "nonsense.1")]),
]


READER, ROOT = [("token", "{reader}")], [("token", "{root}")]
DENIED = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"


def denied(etcd, base):
    """belfryd's refusal of what etcd has granted."""
    response = {"created": 1, "canceled": 1, "watch_id": -1, "cancel_reason": DENIED,
    "header": etcd["watchers"]["0"][0]["header"]}
    return {"created": [-1], "watchers": {"-1": [response]}}


AUTH = [
    Case("no token", create(b"/a/1"), expect(1)),
    Case("a token that was never given", create(b"/a/1"), expect(1), metadata=[("token", "nonsense.1")], jwt=True),
    Case("a token that is empty", create(b"/a/1"), expect(1), metadata=[("token", "")]),
    Case("within the grant", create(b"/a/", b"/a0"), create(b"/a/1"), expect(2), put(b"/a/1"), put(b"/b/1"), expect(4),
         metadata=READER,
         jwt=True),
    Case("outside of it", create(b"/b/1"), create(b"/"), create(b"/w"), create(b"/a/", b"/c"), expect(4),
         metadata=READER),
    Case("refused, and the stream goes on", create(b"/b/1"), create(b"/a/1"), expect(2), put(b"/a/1"), expect(3),
         metadata=READER),
    Case("a refused explicit id is not taken", create(b"/b/1", watch_id=4), create(b"/a/1", watch_id=4), expect(2),
         metadata=READER),
    Case("across two grants that touch", create(b"m", b"o"), create(b"m", b"p"), expect(2), metadata=READER),
    Case("everything, by one who may not", create(b"\0", b"\0"), create(b"", b"\0"), expect(2), metadata=READER),
    Case("from a key on, with a grant for that key", create(b"/k", b"\0"), expect(1), quiet(), metadata=READER,
         differs="from-key-rights", becomes=denied),
    Case("everything, by root", create(**ALL), expect(1), put(b"/b/1"), expect(2), metadata=ROOT),
    Case("history", put(b"/a/1", b"1"), put(b"/a/1", b"2"), create(b"/a/1", rev=Rev(1), prev_kv=1), expect_events(2),
         joined=True,
         metadata=READER),
    Case("an empty interval outside of the grant", create(b"/c", b"/b"), expect(1), metadata=READER),
    Case("the token as authorization", create(b"/a/1"), expect(1), metadata=[("authorization", "{reader}")]),
    Case("the token as authorization, with Bearer", create(b"/a/1"), expect(1),
         metadata=[("authorization", "Bearer {reader}")]),
    Case("two tokens: the first counts", create(b"/b/1"), expect(1), metadata=[("token", "{reader}"),
         ("token", "{root}")]),
    Case("a token from before a change of rights", create(b"/a/1"), expect(1), metadata=READER, stale=True),
]

SECTIONS = {"3.1": STREAMS, "3.2": CREATES, "3.3": STARTS, "3.4": CANCELS, "3.5": EVENTS, "3.8": PROGRESS,
"3.9": FRAGMENTS,
            "3.10": PREV_KV, "3.13": ENDS}


RANGE, PUT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put"
READ = frame(b"\x0a\x01a")  # a Range of the key a
NEVER = frame(watch_create(key=b"a"))
SOON = "grpc-timeout: 300m"  # ends a watch that nothing else would


def grpc_text(text):
    def change(etcd, base):
        etcd["headers"][-1]["grpc-message"] = text
        return etcd
    return change


def malformed_timeout(text):
    return dict(differs="timeout-text", becomes=grpc_text(f'malformed grpc-timeout: "{text}"'))


def deadline_told(etcd, base):
    """The status in the place of a reset."""
    assert etcd["end"] == "reset 8", etcd["end"]
    etcd["end"] = "end of stream"
    etcd["headers"].append({"grpc-status": "4", "grpc-message": "context deadline exceeded"})
    return etcd


def negative_timeout(etcd, base):
    if etcd["headers"][0].get("grpc-status") == "13":
        return grpc_text('malformed grpc-timeout: "-1S"')(etcd, base)  # timeout-text
    head, *trailers = etcd["headers"]  # the head may come by itself
    assert (trailers[-1] if trailers else head)["grpc-status"] in ("4", "2"), etcd  # 2, with the same text: 3.4
    etcd["headers"] = [head | {":status": "400", "grpc-status": "13", "grpc-message": 'malformed grpc-timeout: "-1S"'}]
    etcd["body"] = ""  # a slow etcd may have begun to answer the watch
    return etcd


def not_compressed(etcd, base):
    assert etcd["headers"][0].pop("grpc-encoding") == "gzip"
    etcd["body"] = frame(gzip.decompress(bytes.fromhex(etcd["body"])[5:])).hex()
    return etcd


REQUESTS = [
    Request("a read", RANGE, READ),
    Request("the subtype of the content is echoed", RANGE, READ, kind="application/grpc+proto"),
    Request("a subtype nobody knows", RANGE, READ, kind="application/grpc+nonsense"),
    Request("a parameter of the content type", RANGE, READ, kind="application/grpc;charset=utf-8"),
    Request("another content type", RANGE, READ, kind="application/json"),
    Request("another content type that begins the same", RANGE, READ, kind="application/grpcweb"),
    Request("another content type, for a watch", WATCH, NEVER, kind="text/plain"),
    Request("no content type", RANGE, READ, kind=None),
    Request("another method", RANGE, b"", method="GET"),
    Request("another method, for a watch", WATCH, b"", method="PUT"),
    Request("without te", RANGE, READ, te=None),
    Request("an unknown method", "/etcdserverpb.KV/Nothing", READ),
    Request("an unknown method of Watch", "/etcdserverpb.Watch/Nothing", READ),
    Request("an unknown service", "/etcdserverpb.Nothing/Range", READ),
    Request("names in another case", "/etcdserverpb.kv/range", READ),
    Request("a path that is none", "/nothing", READ),
    Request("a path that is the root", "/", READ),
    Request("a path with more parts", "/a/b/c", READ),
    Request("a watch's path with a slash too many", WATCH + "/", READ),
    Request("the timeout: no unit", RANGE, READ, "grpc-timeout: 100", **malformed_timeout("100")),
    Request("the timeout: an unknown unit", RANGE, READ, "grpc-timeout: 100x", **malformed_timeout("100x")),
    Request("the timeout: nine digits", RANGE, READ, "grpc-timeout: 123456789S", **malformed_timeout("123456789S")),
    Request("the timeout: only a unit", RANGE, READ, "grpc-timeout: S", **malformed_timeout("S")),
    Request("the timeout: eight digits", RANGE, READ, "grpc-timeout: 12345678S"),
    Request("the timeout: malformed, for a watch", WATCH, NEVER, "grpc-timeout: soon", **malformed_timeout("soon")),
    Request("the timeout: negative, for a watch", WATCH, NEVER, "grpc-timeout: -1S", differs="negative-timeout",
            becomes=negative_timeout),
    Request("an undecodable read", RANGE, frame(b"\x0a\x05a")),
    Request("an undecodable read: a tag of zero", RANGE, frame(b"\x00")),
    Request("a message that is shorter than it says", RANGE, READ[:-1]),
    Request("no message", RANGE, b""),
    Request("two messages", RANGE, READ + READ),
    Request("compressed, without saying how", RANGE, frame(gzip.compress(b"\x0a\x01a"), 1)),
    Request("compressed by something unknown", RANGE, frame(b"\x0a\x01a", 1), "grpc-encoding: nonsense"),
    Request("compressed by identity", RANGE, frame(b"\x0a\x01a", 1), "grpc-encoding: identity"),
    Request("an encoding that is announced and not used", RANGE, READ, "grpc-encoding: gzip"),
    Request("identity", RANGE, READ, "grpc-encoding: identity"),
    Request("a frame flag nobody knows", RANGE, frame(b"\x0a\x01a", 7)),
    Request("too large", PUT, frame(encode("PutRequest", {"key": b"a", "value": b"x" * 2_200_000}))),
    Request("too large, by its length alone", PUT, b"\x00\x7f\xff\xff\xff"),
    Request("too large for raft", PUT, frame(encode("PutRequest", {"key": b"a", "value": b"x" * 1_700_000}))),
    Request("an error of etcd's own", PUT, frame(b"")),
    Request("a future revision", RANGE, frame(b"\x0a\x01a\x20\xff\xff\xff\x0f")),
    Request("hasleader", RANGE, READ, "hasleader: true"),
    Request("the health service", "/grpc.health.v1.Health/Check", frame(b"")),
    Request("the health service, of a service nobody knows", "/grpc.health.v1.Health/Check", frame(b"\x0a\x01x")),
    Request("members", "/etcdserverpb.Cluster/MemberList", frame(b"")),
    Request("the auth status", "/etcdserverpb.Auth/AuthStatus", frame(b"")),
    Request("alarms", "/etcdserverpb.Maintenance/Alarm", frame(b"")),
    Request("the hash of the store", "/etcdserverpb.Maintenance/HashKV", frame(b"")),
    Request("a lease that is not there", "/etcdserverpb.Lease/LeaseTimeToLive", frame(b"\x08\x63")),
    Request("the lock service", "/v3lockpb.Lock/Unlock", frame(b"\x0a\x01a")),
    Request("the election service", "/v3electionpb.Election/Leader", frame(b"\x0a\x01a")),
    Request("a watch that ends by its deadline", WATCH, NEVER, SOON, differs="deadline-reset", becomes=deadline_told),
    Request("a watch that has nothing to say ends by its deadline", WATCH, b"", SOON, differs="deadline-reset", becomes=deadline_told),
    Request("an undecodable message on a watch", WATCH, frame(b"\x0a\x05a"), SOON, differs="undecodable-text",
            becomes=grpc_text("grpc: failed to unmarshal the received message: proto: malformed WatchRequest")),
    Request("a watch: compressed, without saying how", WATCH, frame(gzip.compress(NEVER[5:]), 1), SOON),
    Request("a watch: compressed by something unknown", WATCH, frame(NEVER[5:], 1), "grpc-encoding: nonsense", SOON),
    Request("a watch: a message too large", WATCH, frame(watch_create(key=b"k" * 2_200_000)), SOON),
    Request("a watch: too large, by its length alone", WATCH, b"\x00\x7f\xff\xff\xff", SOON),
    Request("a watch: cut off", WATCH, NEVER[:-1], SOON),
    Request("a watch: a frame flag nobody knows", WATCH, frame(NEVER[5:], 7), SOON),
]
GZIPPED = [
    Request("a read, compressed", RANGE, frame(gzip.compress(b"\x0a\x01a"), 1), "grpc-encoding: gzip"),
    Request("a read, compressed, which accepts it", RANGE, frame(gzip.compress(b"\x0a\x01a"), 1), "grpc-encoding: gzip",
            "grpc-accept-encoding: gzip"),
    Request("a watch, compressed", WATCH, frame(gzip.compress(NEVER[5:]), 1), "grpc-encoding: gzip", SOON,
            differs="gzip-answers", becomes=not_compressed),
    Request("a watch, which is not gzip although it says so", WATCH, frame(b"nonsense", 1), "grpc-encoding: gzip", SOON,
            differs="undecodable-text",
            becomes=grpc_text("grpc: failed to decompress the received message: it is not whole gzip")),
]
