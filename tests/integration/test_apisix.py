"""APISIX on a tier, by the requests that it sends. Its client, lua-resty-etcd, is in no Debian package; what it asks and how it reads
answers is taken from its source (v1.10.5, lib/resty/etcd/v3.lua) and from APISIX's config_etcd.lua: one listing of a prefix, one watch of
it from the listing's revision on, which is cut after a while of silence and asked for again from the newest revision seen."""
import base64
import contextlib
import http.client
import json
import socket

import pytest
from test_gateway import Gateway, b64

SILENCE_S = 0.3  # APISIX has 30
ANSWER_S = 30
PREFIX, END = b"/apisix", b"/apisiy"


class ApisixWatch:
    """As lua-resty-etcd reads one: chunk after chunk until one ends with a line's end, and then all lines of it."""

    def __init__(self, port, start_revision):
        self.conn = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
        create = {"key": b64(PREFIX), "range_end": b64(END), "start_revision": start_revision}
        self.conn.request("POST", "/v3/watch", json.dumps({"create_request": create}))
        self.answer = self.conn.getresponse()
        assert self.answer.status == 200

    def read(self):
        """The results of the next lines; None: silence."""
        body = b""
        try:
            while not body.endswith(b"\n"):
                piece = self.answer.read1(65536)
                assert piece, "the watch has ended"
                body += piece
        except (TimeoutError, socket.timeout):
            assert body == b""
            return None
        lines = [json.loads(line) for line in body.splitlines()]
        assert all("error" not in line for line in lines), lines
        return [line["result"] for line in lines]

    def close(self):
        self.conn.close()


class Apisix:
    """What one worker knows."""

    def __init__(self, port):
        self.port, self.state, self.revision, self.listings = port, {}, 0, 0
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)) as conn:
            conn.request("GET", "/version")
            assert json.loads(conn.getresponse().read())["etcdserver"].split(".")[0] == "3"
        self.list()

    def list(self):
        with contextlib.closing(Gateway(self.port)) as gateway:
            answer = gateway.json("/v3/kv/range", {"key": b64(PREFIX), "range_end": b64(END)})
        self.state = {base64.b64decode(kv["key"]): base64.b64decode(kv.get("value", "")) for kv in answer.get("kvs", [])}
        self.revision = int(answer["header"]["revision"])
        self.listings += 1

    def follow(self, until):
        """Watches until `until` is the state of a key (key, value). A watch that a compaction has ended is followed by a listing."""
        while self.state.get(until[0]) != until[1]:
            with contextlib.closing(ApisixWatch(self.port, self.revision + 1)) as watch:
                while self.state.get(until[0]) != until[1]:
                    results = watch.read()
                    if results is None:
                        break
                    if any("compact_revision" in result for result in results):
                        self.list()
                        break
                    for event in (e for result in results for e in result.get("events", [])):
                        self.apply(event)

    def apply(self, event):
        key, revision = base64.b64decode(event["kv"]["key"]), int(event["kv"]["mod_revision"])
        assert revision > self.revision, "an event came twice, or too late"
        self.revision = revision
        if event.get("type") == "DELETE":
            self.state.pop(key)
        else:
            self.state[key] = base64.b64decode(event["kv"].get("value", ""))


@pytest.fixture
def ports(cluster, make_tier):
    return {"etcd": cluster.members[0].client_port, "tier": make_tier(cluster).port}


@pytest.mark.parametrize("side", ["etcd", "tier"])
def test_a_worker_follows_its_prefix(side, ports, cluster):
    cluster.put("/apisix/routes/1", "a")
    worker = Apisix(ports[side])
    assert worker.state == {b"/apisix/routes/1": b"a"}
    for i in range(2, 30):
        cluster.put(f"/apisix/routes/{i}", "v" * 500 * i)  # longer than the chunks of etcd and of a tier
    cluster.delete("/apisix/routes/1")
    cluster.put("/apisix/last", "1")
    worker.follow((b"/apisix/last", b"1"))
    assert worker.state == {k: v for k, (v, _) in cluster.state("/apisix").items()} and worker.listings == 1


@pytest.mark.parametrize("side,listings", [("etcd", 2), ("tier", 1)])
def test_a_compaction_behind_a_quiet_prefix(side, listings, ports, cluster):
    """apisix#12167: others write, etcd compacts, and a worker that has seen nothing for long asks from an old revision. etcd makes it list
    everything anew; a tier still has what it asks for."""
    cluster.put("/apisix/routes/1", "a")
    worker = Apisix(ports[side])
    cluster.put("/apisix/routes/2", "b")
    for i in range(20):
        newest = cluster.put("/others", str(i))
    cluster.compact(newest)
    cluster.put("/apisix/last", "1")
    worker.follow((b"/apisix/last", b"1"))
    assert worker.state == {k: v for k, (v, _) in cluster.state("/apisix").items()} and worker.listings == listings


def test_a_worker_that_was_cut_goes_on(cluster, make_tier):
    """By silence, and by its tier's end."""
    tier = make_tier(cluster)
    cluster.put("/apisix/routes/1", "a")
    worker = Apisix(tier.port)
    with contextlib.closing(ApisixWatch(tier.port, worker.revision + 1)) as watch:
        assert watch.read()[0]["created"] is True
        watch.answer.fp.raw._sock.settimeout(SILENCE_S)
        assert watch.read() is None
    cluster.put("/apisix/routes/2", "b")
    tier.kill()
    tier.start()
    cluster.put("/apisix/routes/3", "c")
    worker.follow((b"/apisix/routes/3", b"c"))
    assert worker.state == {k: v for k, (v, _) in cluster.state("/apisix").items()} and worker.listings == 1
