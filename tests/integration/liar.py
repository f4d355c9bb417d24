"""A tier that lies: it passes every call on to etcd and every answer back, and once changes what a watch is told. What
a checker of tiers must find, it must find here."""
import copy
from concurrent.futures import ThreadPoolExecutor

from differential import channel, decode, encode
import grpc

WATCH = "/etcdserverpb.Watch/Watch"
SPARED = 3  # responses with what is to be changed that pass unchanged, so that the watch has begun well


class Liar(grpc.GenericRpcHandler):
    """On a free port of 127.0.0.1 until close(). lie(response, state) gets each response of a watch, as a dict, and
    returns those that are sent instead; None: it does not fit, and is sent as it is. `state` is the lie's own dict, and
    state["lied"] says that it has been told."""

    def __init__(self, target, lie):
        self._lie, self._channel = lie, channel(target)
        self.state = {"spared": 0, "lied": False}
        self._server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def service(self, details):
        if details.method == WATCH:
            return grpc.stream_stream_rpc_method_handler(self._watch)
        return grpc.unary_unary_rpc_method_handler(lambda raw, context: self._call(details.method, raw, context))

    def _call(self, method, raw, context):
        try:
            return self._channel.unary_unary(method)(raw, timeout=10)
        except grpc.RpcError as e:
            context.abort(e.code(), e.details())

    def _watch(self, requests, context):
        above = self._channel.stream_stream(WATCH)(requests)
        context.add_callback(above.cancel)
        try:
            for raw in above:
                told = self._lie(decode("WatchResponse", raw), self.state)
                yield from [raw] if told is None else [encode("WatchResponse", r) for r in told]
        except grpc.RpcError:
            return

    def close(self):
        self._server.stop(0)
        self._channel.close()


def once(fits, change):
    """The lie that passes everything on but for one response that fits; of that, a copy goes to change()."""
    def lie(response, state):
        if state["lied"] or not response.get("events") or not fits(response["events"]):
            return None
        state["spared"] += 1
        if state["spared"] <= SPARED:
            return None
        state["lied"] = True
        return change(copy.deepcopy(response))
    return lie


def any_events(events):
    return True


def is_update(event):
    return not event.get("type") and event["kv"]["version"] > 1


def has_update(events):
    return any(is_update(e) for e in events)


def has_prev(events):
    return "prev_kv" in events[0]


def one_transaction(events):
    return len(events) > 1 and len({e["kv"]["mod_revision"] for e in events}) == 1


def change_first(fits, change):
    """changes one event in its response"""
    def lie(response):
        change(next(e for e in response["events"] if fits(e)))
        return [response]
    return lie


def altered(**fields):
    def change(event):
        event["kv"].update(fields)
    return once(has_update, change_first(is_update, change))


def make_created(event):
    event["kv"]["create_revision"] = event["kv"]["mod_revision"]


def make_deleted(event):
    event["type"] = 1


def with_event(change):
    """one more event, of the revision of the last"""
    def lie(response):
        event = copy.deepcopy(response["events"][-1])
        change(event)
        response["events"].append(event)
        return [response]
    return once(any_events, lie)


def split(response):
    first, rest = response, copy.deepcopy(response)
    first["events"], rest["events"] = first["events"][:1], rest["events"][1:]
    return [first, rest]


def without_one(response):
    response["events"].pop()
    return [response]


def old_header(response):
    response["header"]["revision"] = response["events"][0]["kv"]["mod_revision"] - 1
    return [response]


def early_progress(response):
    header = dict(response["header"], revision=response["events"][-1]["kv"]["mod_revision"])
    return [{"header": header, "watch_id": response.get("watch_id", 0)}, response]


def false_compaction(response):
    return [{"header": response["header"], "watch_id": response.get("watch_id", 0), "canceled": 1,
             "compact_revision": response["events"][0]["kv"]["mod_revision"] + 1,
             "cancel_reason": "etcdserver: mvcc: required revision has been compacted"}]


def in_turn(join):
    """Two responses of one watch, in a row, are held back and told together as join() says."""
    def lie(response, state):
        if not response.get("events"):
            return None
        state["spared"] += 1
        if state["spared"] <= SPARED or state["lied"]:
            return None
        if "held" not in state:
            state["held"] = response
            return []
        state["lied"] = True
        return join(state["held"], response)
    return lie


def newer_first(older, newer):
    newer["events"] += older["events"]
    return [newer]


def silence(response, state):
    """from some time on nothing, whoever asks"""
    state["spared"] += bool(response.get("events"))
    state["lied"] = state["spared"] > SPARED
    return [] if state["lied"] else None


LOST = {"reliable", "resumable", "progress", "alive"}
# name -> the lie, and the properties of which one at least must be violated, and no other
LIES = {
    "nothing": (once(any_events, lambda r: [r]), set()),
    "a lost response": (once(any_events, lambda r: []), LOST),
    "a doubled response": (once(any_events, lambda r: [r, r]), {"unique"}),
    "two responses in the wrong order": (in_turn(lambda older, newer: [newer, older]), {"unique"} | LOST),
    "two revisions in the wrong order": (in_turn(newer_first), {"ordered"}),
    "a lost event of a transaction": (once(one_transaction, without_one), {"atomic"}),
    "a transaction in two responses": (once(one_transaction, split), {"atomic", "unique"}),
    "a transaction in another order": (once(one_transaction, lambda r: [dict(r, events=r["events"][::-1])]), {"ordered"}),
    "an event twice in its transaction": (with_event(lambda e: None), {"unique"}),
    "an event outside the range": (with_event(lambda e: e["kv"].update(key=b"/x")), {"filter"}),
    "an event that never was": (with_event(lambda e: e["kv"].update(key=b"/w/never")), {"reliable"}),
    "another value": (altered(value=b"never written"), {"content"}),
    "another version": (altered(version=999999), {"content"}),
    "another lease": (altered(lease=999999), {"content"}),
    "a delete for a put": (once(has_update, change_first(is_update, make_deleted)), {"content"}),
    "created when it was there": (once(has_update, change_first(is_update, make_created)), {"is_create"}),
    "another previous value": (once(has_prev, change_first(lambda e: True,
                                                           lambda e: e["prev_kv"].update(value=b"never"))), {"prev_kv"}),
    "no previous value": (once(has_prev, change_first(lambda e: True, lambda e: e.pop("prev_kv"))), {"prev_kv"}),
    "a header from before": (once(any_events, old_header), {"header"}),
    "progress before its events": (once(any_events, early_progress), {"progress", "bookmarkable", "unique"}),
    "a compaction that never was": (once(any_events, false_compaction), {"end"}),
    "silence": (silence, {"alive"}),
}
WAIT = ("a compaction that never was", "silence")  # found when something has not come for as long as it may take
