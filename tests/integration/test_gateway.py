"""etcd's JSON gateway, of etcd itself and of a tier in front of it: the same requests have the same status and the same JSON.

The order of fields may differ, errors of a tier have the fields of both forms of etcd's, and their words may be others where the
request is malformed (docs/compatibility.md, gateway-...)."""
import contextlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import threading
import time

import procs
import pytest
from gateway import TIMEOUT_S, Gateway, Lines, b64
from ports import free_port


@pytest.fixture
def both(cluster, make_tier):
    """etcd's gateway and a tier's."""
    port = free_port()
    tier = make_tier(cluster, listen=[f"http://127.0.0.1:{port}"])
    etcd_port = int(cluster.members[0].url.rsplit(":", 1)[1])
    sides = Gateway(etcd_port), Gateway(port)
    yield (*sides, tier)
    for side in sides:
        side.close()


# ---- one answer

PUT = {"key": b64(b"foo"), "value": b64(b"bar")}
GOOD = [("kv/range", b) for b in (
    {"key": b64(b"foo")}, {"key": b64(b"a"), "range_end": b64(b"z")}, {"key": b64(b"a"), "rangeEnd": b64(b"z"), "limit": "1"},
    {"key": b64(b"a"), "range_end": b64(b"z"), "sort_order": "DESCEND", "sort_target": "KEY"},
    {"key": b64(b"a"), "range_end": b64(b"z"), "sortOrder": 2, "count_only": True}, {"key": b64(b"foo"), "keys_only": True},
    {"key": b64(b"foo"), "revision": "99999"}, {"key": b64(b"none")}, {}, "", "{}", '{"key":"Zm9v"} and more', '{"key":"Zm9v","nothing":{"a":[1]}}',
    '{"key":"Zm9v","limit":1e2}', '{"key":"Zm9v","limit":"1.50e1"}', '{"key":"Zm9v","limit":null}', '{"key":"Zm9v","sort_order":"NOPE"}',
    '{"key":"Zm-_"}', '{"key":"Zm8"}', '{"key":"Zm9v\\n"}', '{"Key":"Zm9v"}', '  {"key":"\\u005am9v"}  ')]
GOOD += [("kv/txn", b) for b in (
    {}, {"success": [{"request_range": {"key": b64(b"foo")}}]}, {"success": [{}]}, {"success": None},
    {"compare": [{"key": b64(b"foo"), "result": "EQUAL", "target": "VERSION", "version": "1"}],
     "success": [{"request_range": {"key": b64(b"foo")}}], "failure": [{"requestRange": {"key": b64(b"x")}}]},
    {"compare": [{"key": b64(b"foo"), "result": "GREATER", "target": "VALUE", "value": b64(b"a")}]},
    {"success": [{"request_txn": {"success": [{"request_range": {"key": b64(b"foo")}}]}}]})]
GOOD += [("lease/timetolive", {"ID": "77"}), ("kv/lease/timetolive", {"ID": 77, "keys": True}), ("lease/leases", {}), ("kv/lease/leases", ""),
         ("lease/revoke", {"ID": "99"}), ("auth/status", ""), ("auth/authenticate", {"name": "a", "password": "b"}),
         ("auth/user/list", {}), ("auth/role/get", {"role": "none"}), ("maintenance/alarm", {"action": "GET"}), ("kv/compaction", {"revision": 99999}),
         ("kv/put", {}), ("kv/deleterange", {}), ("kv/nothing", {}), ("nothing", {}), ("cluster/member/remove", {"ID": "1"}),
         ("election/leader", {"name": b64(b"none")})]
BAD = ["{", "[]", "null", "true", '"x"', "xx", '{"key":1}', '{"key":"Z"}', '{"key":"Zm9v=="}', '{"key":"Zm-/"}', '{"key":"Zm9v","key":"Zm9v"}',
       '{"key":null,"key":"Zm9v"}', '{"range_end":"AA==","rangeEnd":"AA=="}', '{"limit":1.5}', '{"limit":" 1"}', '{"limit":"0x1"}', '{"limit":"01"}',
       '{"limit":9223372036854775808}', '{"limit":1e400}', '{"serializable":1}', '{"serializable":"true"}', '{"sort_order":1.5}', '{"sort_order":{}}',
       '{"a":"\\ud800"}', "{key:1}", '{"key":"Zm9v", }', "//c"]


def without_ids(value):
    """What a tier may tell otherwise: which member answers, and its term."""
    if isinstance(value, dict):
        return {k: without_ids(v) for k, v in value.items() if k not in ("member_id", "raft_term")}
    return [without_ids(v) for v in value] if isinstance(value, list) else value


def compare(etcd, tier, path, body, words=True):
    (status, kind, raw), (status_t, kind_t, raw_t) = etcd.post(path, body), tier.post(path, body)
    assert (status_t, kind_t) == (status, kind), f"{path} {body}: {raw} {raw_t}"
    if kind != "application/json":
        assert raw_t == raw
        return
    theirs, ours = without_ids(json.loads(raw)), without_ids(json.loads(raw_t))
    if status != 200:  # a superset
        assert ours.pop("grpc_code") == ours["code"] and ours.pop("error") == ours["message"]
        theirs.pop("error", None)
        if not words:
            assert ours.pop("message") and theirs.pop("message")
    assert ours == theirs, f"{path} {body}"


def test_requests_have_etcds_answers(both):
    etcd, tier, _ = both
    for i in range(3):
        etcd.json("/v3/kv/put", PUT | {"key": b64(b"foo%d" % i)})
    etcd.json("/v3/kv/put", PUT)
    etcd.json("/v3/lease/grant", {"TTL": "600", "ID": "77"})
    for root in ("/v3", "/v3beta"):
        for path, body in GOOD:
            compare(etcd, tier, f"{root}/{path}", body)
    for body in BAD:
        compare(etcd, tier, "/v3/kv/range", body, words=False)
    for path in ("/v3alpha/kv/range", "/v4/kv/range"):
        compare(etcd, tier, path, {})
    for method in ("GET", "PUT", "DELETE"):
        assert [side.post("/v3/kv/range", "", method)[0] for side in (etcd, tier)] == [501, 501]


def test_writes_go_through(both):
    etcd, tier, _ = both
    revision = int(tier.json("/v3/kv/put", PUT)["header"]["revision"])
    assert int(tier.json("/v3/kv/range", PUT)["header"]["revision"]) == revision
    assert etcd.json("/v3/kv/range", PUT)["kvs"][0]["value"] == PUT["value"]
    assert tier.json("/v3/kv/deleterange", {"key": PUT["key"], "prev_kv": True})["prev_kvs"][0]["value"] == PUT["value"]
    members = tier.json("/v3/cluster/member/list")["members"]
    assert [m["clientURLs"] for m in members] == [[f"http://127.0.0.1:{tier.port}"]]
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", tier.port, timeout=TIMEOUT_S)) as conn:
        conn.request("GET", "/version")
        version = json.loads(conn.getresponse().read())
    assert all(set(v) <= set("0123456789.") for v in version.values())  # Patroni reads numbers


def test_large_answers_come_whole(both):
    """More than the tier keeps of an answer, and of a request."""
    etcd, tier, _ = both
    value = b64(bytes(range(256)) * 1000)
    for i in range(20):
        tier.json("/v3/kv/put", {"key": b64(b"large/%02d" % i), "value": value})
    read = {"key": b64(b"large/"), "range_end": b64(b"large0")}
    assert without_ids(tier.json("/v3/kv/range", read)) == without_ids(etcd.json("/v3/kv/range", read))


def test_over_http2(both):
    _, tier, _ = both
    answer = subprocess.run(["curl", "-s", "--http2-prior-knowledge", f"http://127.0.0.1:{tier.port}/v3/kv/put", "-d", json.dumps(PUT)],
                            capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert "header" in json.loads(answer.stdout)


# ---- lines

def test_a_watch_is_a_line_for_each_response(both):
    etcd, tier, _ = both
    etcd.json("/v3/kv/put", PUT)
    create = {"create_request": {"key": PUT["key"], "start_revision": "1", "prev_kv": True}}
    sides = [Lines(etcd.port, "/v3/watch", create, ends=True), Lines(tier.port, "/v3/watch", create)]
    for side in sides:
        assert side.next()["result"]["created"] is True
    events = [side.next()["result"]["events"] for side in sides]
    assert events[0] == events[1] and events[0][0]["kv"]["value"] == PUT["value"]
    sides[1].ask(b'{"createRequest":{"key":"YQ==","watch_id":"7"}}{"progress_request":{}}')  # on the same stream: etcd's needs all at once
    assert sides[1].next()["result"]["watch_id"] == "7"
    assert sides[1].next()["result"]["watch_id"] == "-1"
    sides[1].end()
    etcd.json("/v3/kv/deleterange", PUT)  # it goes on although the request is complete
    gone = [side.next()["result"]["events"] for side in sides]
    assert gone[0] == gone[1] and gone[0][0]["type"] == "DELETE"
    for side in sides:
        side.close()


def test_a_watch_that_is_malformed_is_told(both):
    _, tier, _ = both
    status, kind, raw = tier.post("/v3/watch", '{"create_request":{"key":"!"}}')
    error = json.loads(raw)["error"]
    assert (status, kind, error["code"], error["grpc_code"], error["http_code"]) == (400, "application/json", 3, 3, 400)


def test_keep_alive_has_a_line_for_each_request(both):
    etcd, tier, _ = both
    etcd.json("/v3/lease/grant", {"TTL": "600", "ID": "77"})
    for side in (etcd, tier):
        status, _, raw = side.post("/v3/lease/keepalive", '{"ID":"77"}{"ID":78}')
        there, gone = (json.loads(line)["result"] for line in raw.splitlines())
        assert (status, there["ID"], there["TTL"], gone["ID"]) == (200, "77", "600", "78") and "TTL" not in gone


def test_more_watches_than_etcds_gateway_has_streams(both, figure):
    """patroni#3674: up to 3.5.4, 250 streams are the limit of etcd's gateway."""
    etcd, tier, _ = both
    watches = [Lines(tier.port, "/v3/watch", {"create_request": {"key": b64(b"k")}}) for _ in range(400)]
    assert all(watch.next()["result"]["created"] for watch in watches)
    began = time.monotonic()
    etcd.json("/v3/kv/put", {"key": b64(b"k"), "value": b64(b"v")})
    assert all(watch.next()["result"]["events"][0]["kv"]["value"] == b64(b"v") for watch in watches)
    figure("gateway.watches", len(watches))
    figure("gateway.delivered_in", f"{time.monotonic() - began:.3f} s")
    for watch in watches:
        watch.close()


def test_a_watch_survives_its_tiers_restart_by_its_revision(both):
    etcd, tier, belfryd = both
    first = int(etcd.json("/v3/kv/put", PUT)["header"]["revision"])
    with contextlib.closing(Lines(tier.port, "/v3/watch", {"create_request": {"key": PUT["key"], "start_revision": str(first)}})) as watch:
        assert watch.next()["result"]["created"] and watch.next()["result"]["events"]
        belfryd.kill()
        with pytest.raises((http.client.IncompleteRead, ConnectionError, AssertionError)):
            assert watch.next() is not None
    etcd.json("/v3/kv/put", PUT)
    belfryd.start()
    with contextlib.closing(Lines(tier.port, "/v3/watch", {"create_request": {"key": PUT["key"], "start_revision": str(first + 1)}})) as watch:
        assert watch.next()["result"]["created"]
        assert int(watch.next()["result"]["events"][0]["kv"]["mod_revision"]) == first + 1


# ---- rights

def test_tokens_are_those_of_etcd(both, cluster):
    etcd, tier, _ = both
    etcd.json("/v3/kv/put", PUT)
    for path, body in (("user/add", {"name": "root", "password": "r"}), ("user/add", {"name": "u", "password": "p"}), ("role/add", {"name": "reads"}),
                       ("role/grant", {"name": "reads", "perm": {"permType": "READ", "key": PUT["key"]}}), ("user/grant", {"user": "u", "role": "reads"}),
                       ("user/grant", {"user": "root", "role": "root"}), ("enable", {})):
        etcd.json(f"/v3/auth/{path}", body)
    procs.wait_until(lambda: tier.post("/v3/kv/range", PUT)[0] != 200, 30)
    token = tier.json("/v3/auth/authenticate", {"name": "u", "password": "p"})["token"]
    for side in (etcd, tier):
        assert side.post("/v3/kv/range", PUT, headers={"Authorization": token})[0] == 200
        assert side.post("/v3/kv/range", {"key": b64(b"other")}, headers={"Authorization": token})[0] == 403
        assert side.post("/v3/kv/put", PUT, headers={"Authorization": token})[0] == 403
        assert side.post("/v3/kv/range", PUT, headers={"Authorization": "nonsense"})[0] == 401
        assert side.post("/v3/kv/range", PUT)[0] == 400  # etcd: user name is empty
    token = etcd.json("/v3/auth/authenticate", {"name": "root", "password": "r"})["token"]
    assert etcd.post("/v3/auth/disable", "", headers={"Authorization": token})[0] == 200


# ---- attackers

def test_malformed_bodies_end_nothing(both, rng):
    """etcd#19509, and whatever else: the tier serves others after each."""
    _, tier, belfryd = both
    pid = belfryd.pid
    for path in ("kv/range", "kv/txn", "watch", "lease/keepalive", "auth/user/add"):
        for _ in range(40):
            with contextlib.closing(socket.create_connection(("127.0.0.1", tier.port), timeout=TIMEOUT_S)) as conn:
                body = rng.choice([b"{" * 5000, b'{"a":' * 3000, rng.randbytes(300), b'"' + b"\\" * 999, b"[" + b"1," * 999, b"\xff\xfe{}", b"{}" * 2000])
                conn.sendall(b"POST /v3/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body) + rng.choice([0, 5])))
                conn.sendall(body[:rng.randrange(len(body) + 1)] if rng.random() < 0.3 else body)
    threads = [threading.Thread(target=lambda: Gateway(tier.port).post("/v3/kv/range", b'{"key":"' + b"A" * 8_000_000 + b'"}')) for _ in range(2)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert "header" in Gateway(tier.port).json("/v3/kv/range", PUT)
    assert belfryd.pid == pid and belfryd.is_running()


@pytest.mark.parametrize("alarm", [{"action": 3}, {"action": -1}, {"action": "ACTIVATE", "alarm": 99}])
def test_alarms_that_would_end_etcd_are_refused(both, cluster, alarm):
    etcd, tier, _ = both
    status, _, raw = tier.post("/v3/maintenance/alarm", alarm)
    assert (status, json.loads(raw)["code"]) == (400, 3) and "no such alarm" in json.loads(raw)["message"]
    assert cluster.members[0].is_running() and "header" in etcd.json("/v3/kv/range", {"key": "YQ=="})
    assert tier.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"})[0] == 200


@pytest.mark.parametrize("what", ["user", "role"])
def test_names_that_would_end_etcd_are_refused(both, cluster, what):
    etcd, tier, _ = both
    status, _, raw = tier.post(f"/v3/auth/{what}/add", {"name": "x" * 32769, "password": "p"})
    assert (status, json.loads(raw)["code"]) == (400, 3) and "32768 bytes" in json.loads(raw)["message"]
    assert "header" in tier.json(f"/v3/auth/{what}/add", {"name": "x" * 32768} | ({"password": "p"} if what == "user" else {}))
    assert cluster.members[0].is_running() and "header" in etcd.json("/v3/kv/range", {"key": "YQ=="})


# ---- what the page shows

def test_examples_of_the_page(both):
    """docs/gateway.md, to the letter but for the port."""
    etcd, tier, _ = both
    page = (pathlib.Path(__file__).parents[2] / "docs/gateway.md").read_text()
    read, watch = (block.replace("23790", str(tier.port)) for block in re.findall(r"```sh\n(.*?)```", page, re.S))
    etcd.json("/v3/kv/put", PUT)
    answer = subprocess.run(["bash", "-c", read], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert json.loads(answer.stdout)["kvs"][0]["value"] == PUT["value"]
    watcher = subprocess.Popen(["bash", "-c", f"exec {watch}"], stdout=subprocess.PIPE, text=True)
    assert json.loads(watcher.stdout.readline())["result"]["created"]
    etcd.json("/v3/kv/put", {"key": b64(b"app/x"), "value": b64(b"y")})
    assert json.loads(watcher.stdout.readline())["result"]["events"][0]["kv"]["key"] == b64(b"app/x")
    watcher.kill()
    watcher.wait()
    told = json.loads(re.search(r"```json\n(.*?)```", page, re.S)[1])
    assert told == json.loads(tier.post("/v3/kv/range", "")[2])
