"""Lines of docs/compatibility.md that no case of test_differential.py's table can show: each is asked of an etcd and of a belfryd in
front of it, and the two answers differ as the line says."""
import gzip
import http.client
import json
import signal
import socket
import ssl
import time

import procs
import pytest
from certs import Certs
from differential import Stream, decode, frame, post, varint, watch_create
from gateway import Gateway, Lines, b64
from pair import Pair
from ports import free_port
from shows import shows
from test_certificate_users import Stand
from test_range_differential import split_fields

GRPC = [("content-type", "application/grpc"), ("te", "trailers")]
RANGE = "/etcdserverpb.KV/Range"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("pair")).serve()
    made.gateways = [Gateway(int(endpoint.split(":")[1])) for endpoint in (made.etcd, made.tier.endpoint)]
    yield made
    for side in made.gateways:
        side.close()
    made.close()


def ports(pair):
    return [int(endpoint.split(":")[1]) for endpoint in (pair.etcd, pair.tier.endpoint)]


def ask(port, path, host="127.0.0.1", *fields, tls=None):
    """(status, fields, body) of a GET over HTTP/1.1."""
    connection = (http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls) if tls
                  else http.client.HTTPConnection("127.0.0.1", port, timeout=10))
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in (("host", host), *fields):
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


# ---- plain HTTP

@shows("http1")
def test_metrics_are_not_on_the_port_of_clients(pair, differs):
    etcd, belfryd = (ask(port, "/metrics") for port in ports(pair))
    assert etcd[0] == 200 and b"etcd_server_has_leader" in etcd[2]
    assert belfryd[0] == 404 and b"belfry_" not in belfryd[2]
    assert "belfry_ready" in pair.tier.get("/metrics")[1], "they are on the admin address"
    differs("http1", etcd[0], belfryd[0])


@shows("host")
def test_names_of_other_hosts_are_refused(pair, differs):
    etcd, belfryd = (ask(port, "/health", "evil.example")[0] for port in ports(pair))
    assert (etcd, belfryd) == (200, 421)
    assert [ask(port, "/health")[0] for port in ports(pair)] == [200, 200]
    differs("host", etcd, belfryd)


@shows("grpc-http1")
def test_grpc_over_http1_is_told_why(pair, differs):
    etcd, belfryd = (ask(port, RANGE, "127.0.0.1", ("content-type", "application/grpc")) for port in ports(pair))
    assert etcd[0] == 404 and belfryd[0] == 505 and b"gRPC requires HTTP/2" in belfryd[2]
    differs("grpc-http1", etcd[0], belfryd[0])


# ---- the gateway

@shows("gateway-cors")
def test_pages_of_other_sites_may_not_read_answers(pair, differs):
    """Whatever the method, whether it is answered or refused."""
    origin = ("origin", "http://evil.example")
    allowed = []
    for port in ports(pair):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        found = set()
        for method in ("POST", "OPTIONS", "GET"):
            connection.request(method, "/v3/kv/range", b'{"key":"YQ=="}' if method == "POST" else None, dict([origin]))
            answer = connection.getresponse()
            answer.read()
            found |= {value for name, value in answer.getheaders() if name.lower() == "access-control-allow-origin"}
        connection.close()
        allowed.append(found)
    assert allowed == [{"*"}, set()]
    differs("gateway-cors", *allowed)


@shows("gateway-certificates")
def test_the_gateway_knows_the_user_of_a_certificate(make_cluster, make_tier, tmp_path, differs):
    """alice has no token, and a certificate. etcd's gRPC knows her by it; its gateway does not; belfryd's does."""
    stand = Stand(make_cluster, make_tier, tmp_path)
    certs = stand.certs
    certs.client_auth = True
    stand.make_cluster = lambda n, **kw: make_cluster(n, tls=certs, **kw)
    cluster = stand.etcd()
    tier = stand.keyed("--upstream-cacert", certs.path("ca.pem"), "--upstream-cert", certs.path("client.pem"),
                       "--upstream-key", certs.path("client.key"))
    direct = procs.run(["etcdctl", "--endpoints", cluster.members[0].endpoint, *certs.flags("alice"), "get", "/a/prod/web"])
    assert b"replicas" in direct.stdout
    answers = []
    for port in (cluster.members[0].client_port, tier.port):
        context = ssl.create_default_context(cafile=certs.path("ca.pem"))
        context.load_cert_chain(certs.path("alice.pem"), certs.path("alice.key"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        connection.request("POST", "/v3/kv/range", json.dumps({"key": b64(b"/a/prod/web")}))
        answer = connection.getresponse()
        answers.append((answer.status, answer.read().decode()))
        connection.close()
    (etcd, said), (belfryd, found) = answers
    assert etcd == 400 and "CommonName of client sending a request against gateway will be ignored" in said, answers
    assert belfryd == 200 and json.loads(found)["kvs"][0]["key"] == b64(b"/a/prod/web"), answers
    differs("gateway-certificates", etcd, belfryd)


@shows("gateway-text", "gateway-errors")
def test_errors_of_the_gateway_have_all_fields_and_own_words(pair, differs):
    etcd, belfryd = (side.post("/v3/kv/range", '{"key":1}') for side in pair.gateways)
    (theirs, ours) = (json.loads(answer[2]) for answer in (etcd, belfryd))
    assert etcd[0] == belfryd[0] == 400 and theirs["code"] == ours["code"] == 3
    assert {"error", "code", "message", "grpc_code"} <= set(ours) and ours["error"] == ours["message"]
    differs("gateway-errors", set(theirs), set(ours))
    differs("gateway-text", theirs.get("message") or theirs.get("error"), ours["message"])


@shows("gateway-malformed")
def test_a_watch_that_is_malformed_is_told_so(pair, differs):
    body = b'{"create_request":{"key":"!"}}'
    said = []
    for port in ports(pair):
        with socket.create_connection(("127.0.0.1", port), timeout=3) as sock:
            sock.sendall(b"POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            try:
                said.append(sock.recv(4096).split(b"\r\n")[0])
            except TimeoutError:
                said.append(b"")
    assert said == [b"", b"HTTP/1.1 400 Bad Request"], said
    differs("gateway-malformed", *said)


def chunks(sock):
    """The sizes of the chunks of a response, until none comes for a second."""
    raw = sock.makefile("rb")
    while raw.readline().strip():
        pass
    sizes = []
    while True:
        try:
            line = raw.readline()
        except TimeoutError:
            return sizes
        sizes.append(int(line, 16))
        raw.read(sizes[-1] + 2)


@shows("gateway-chunks")
def test_a_line_of_a_watch_is_one_chunk(pair, differs):
    found = []
    for port in ports(pair):
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            body = json.dumps({"create_request": {"key": b64(b"chunk")}}).encode()
            sock.sendall(b"POST /v3/watch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            time.sleep(0.5)
            pair.store.put(b"chunk", b"x" * 6000)
            found.append(chunks(sock)[1:])  # but for `created`
    etcd, belfryd = found
    assert len(belfryd) == 1 and belfryd[0] > 8000 and len(etcd) > 1, found
    differs("gateway-chunks", len(etcd), len(belfryd))


@shows("gateway-paths")
def test_a_path_is_its_bytes(pair, differs):
    etcd, belfryd = ([side.post(path, "{}")[0] for path in ("/v3/kv//range", "/v3/kv/./range")] for side in pair.gateways)
    assert (etcd, belfryd) == ([301, 301], [404, 404])
    differs("gateway-paths", etcd, belfryd)


@shows("gateway-filters")
def test_a_filter_below_zero_filters_nothing(pair, differs):
    said = []
    for port in ports(pair):
        lines = Lines(port, "/v3/watch", {"create_request": {"key": b64(b"a"), "filters": [-1]}}, ends=True)
        answer = lines.next()
        said.append("created" if answer.get("result", {}).get("created") else answer["error"].get("grpc_code", answer["error"].get("code")))
        lines.close()
    assert said == [13, "created"], said
    differs("gateway-filters", *said)


@shows("gateway-integers")
def test_an_integer_in_a_string_is_nothing_else(pair, differs):
    """By etcd's build, not by its version: those with protobuf-go 1.36.12 or later refuse them, too. etcd 3.4 knows no exponents."""
    asked = [("/v3/kv/range", {"key": b64(b"a"), "limit": text}) for text in ("900000]0001", "10\u00e9", "0 1", "12,3", "7}")]
    etcd, belfryd = ([side.post(path, json.dumps(body))[0] for path, body in asked] for side in pair.gateways)
    whole = [pair.gateways[1].post("/v3/kv/range", json.dumps({"key": b64(b"a"), "limit": text}))[0] for text in ("9", "-0", "1.50e1", "120e-1")]
    assert whole == [200] * 4 and belfryd == [400] * 5, (whole, belfryd)
    assert etcd in ([200] * 5, [400] * 5), etcd
    differs("gateway-integers", etcd, belfryd)


# ---- calls

class Secure:
    """differential.Exchange's socket over TLS: HTTP/2 by ALPN."""

    def __init__(self, cafile):
        self.context = ssl.create_default_context(cafile=cafile)
        self.context.set_alpn_protocols(["h2"])

    def __call__(self, address, timeout):
        return self.context.wrap_socket(PLAIN(address, timeout), server_hostname="127.0.0.1")


PLAIN = socket.create_connection


@shows("tls-form")
def test_errors_have_one_form_on_every_port(make_cluster, make_tier, tmp_path, monkeypatch, pair, differs):
    certs = Certs(tmp_path / "certs")
    cluster = make_cluster(tls=certs)
    port = free_port()
    make_tier(cluster, "--upstream-cacert", certs.path("ca.pem"),
              listen=[f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')}"])

    def form(endpoint, secure):
        """Which fields are where: of each block of headers, the names."""
        with monkeypatch.context() as patched:
            if secure:
                patched.setattr(socket, "create_connection", Secure(certs.path("ca.pem")))
            answer = post(endpoint, RANGE, frame(b"\x0a\x01a\x20" + varint(1 << 40)), GRPC)
        assert status_of(answer) == (11, "etcdserver: mvcc: required revision is a future revision"), answer
        return [sorted(block) for block in answer["headers"]]
    plain, secure = form(pair.etcd, False), form(cluster.members[0].endpoint, True)
    assert len(plain) == 1 and len(secure) == 2 and any(name.startswith("access-control-allow-") for name in secure[0]), secure
    belfryd = form(f"127.0.0.1:{port}", True)
    assert belfryd == form(pair.tier.endpoint, False) == plain
    differs("tls-form", secure, belfryd)


@shows("members")
def test_members_have_the_tiers_url(cluster, make_tier, differs):
    tier = make_tier(cluster)
    urls = []
    for endpoint in (cluster.members[0].endpoint, tier.endpoint):
        out = procs.run(["etcdctl", "--endpoints", endpoint, "member", "list", "-w", "json"]).stdout
        urls.append([url for member in json.loads(out)["members"] for url in member["clientURLs"]])
    assert urls == [[cluster.members[0].url], [tier.url]]
    differs("members", *urls)


@shows("not-ready")
def test_a_tier_without_upstream_ends_new_watches(make_cluster, make_tier, differs):
    """The tier's only member and the one that is asked beside it have lost the other members. Neither has a leader."""
    cluster = make_cluster(3)
    port = free_port()
    tier = make_tier(cluster, listen=[f"http://127.0.0.1:{port},rights=open"])
    for member in cluster.members[1:]:
        member.kill()
    procs.wait_until(lambda: "stale" in tier.get("/readyz?verbose")[1], 30, 0.1, "stale")
    said = []
    for endpoint in (cluster.members[0].endpoint, f"127.0.0.1:{port}"):
        stream = Stream(endpoint)
        stream.send(watch_create(key=b"a"))
        assert stream.wait(lambda got, status: got or status, 20)
        said.append(stream.status)
        stream.close()
    assert said[0] is None and said[1][0] == 14 and said[1][1].startswith("belfry: not ready: "), said
    differs("not-ready", *said)


@shows("no-leader")
def test_silence_of_upstream_counts_as_having_no_leader(cluster, make_tier, differs):
    """A member that is stopped ends no stream; a tier that hears nothing of it does, with etcd's words."""
    tier = make_tier(cluster)
    streams = [Stream(endpoint, [("hasleader", "true")]) for endpoint in (cluster.members[0].endpoint, tier.endpoint)]
    for stream in streams:
        stream.send(watch_create(key=b"a"))
        assert stream.wait(lambda got, status: got)
    cluster.members[0].stop()
    assert streams[1].wait(lambda got, status: status, 15)
    said = [stream.status for stream in streams]
    cluster.members[0].cont()
    assert said == [None, (14, "etcdserver: no leader")]
    for stream in streams:
        stream.close()
    differs("no-leader", *said)


@shows("stopping")
def test_a_tier_that_stops_says_so(make_cluster, make_tier, differs):
    """Of etcd the connection is lost, or the stream ends without a word of the reason."""
    said = []
    for which in ("etcd", "belfryd"):
        cluster = make_cluster(name=which)
        tier = make_tier(cluster, "--drain", "2s")
        stream = Stream((cluster.members[0] if which == "etcd" else tier).endpoint)
        stream.send(watch_create(key=b"a"))
        assert stream.wait(lambda got, status: got)
        (cluster.members[0] if which == "etcd" else tier).proc.send_signal(signal.SIGTERM)
        assert stream.wait(lambda got, status: status, 20)
        said.append(stream.status)
        stream.close()
    etcd, belfryd = said
    assert belfryd[0] == 14 and belfryd[1].startswith("belfry: "), said
    assert not etcd[1].startswith("belfry: "), said
    differs("stopping", etcd, belfryd)


@shows("replay-cuts")
def test_history_comes_in_responses_of_a_megabyte(pair, differs):
    rev = pair.store.put(b"cuts", b"first")
    pair.store.put_many(b"cuts", b"x" * 4000, 900)
    procs.wait_until(lambda: pair.tier.numbers()["upstream"]["revision"] >= rev + 900, 20, 0.05, "the tier has it all")
    largest = []
    for endpoint in (pair.etcd, pair.tier.endpoint):
        stream = Stream(endpoint)
        stream.send(watch_create(key=b"cuts", start_revision=rev))
        assert stream.wait(lambda got, status: sum(len(r.get("events", [])) for r in got) == 901, 30)
        largest.append(max(sum(len(e["kv"]["value"]) for e in r.get("events", [])) for r in stream.got))
        stream.close()
    assert largest[0] > 3_000_000 and largest[1] < 1_200_000, largest
    differs("replay-cuts", *largest)


def nested(depth):
    request = b""
    for _ in range(depth):  # TxnRequest.success = 2, RequestOp.request_txn = 4
        op = b"\x22" + length(request)
        request = b"\x12" + length(op)
    return request


def length(raw):
    return varint(len(raw)) + raw


def status_of(answer):
    return int(answer["headers"][-1]["grpc-status"]), answer["headers"][-1].get("grpc-message", "")


@shows("txn-depth")
def test_txns_are_nested_49_deep_at_most(pair, differs):
    for depth, wanted in ((40, [0, 0]), (60, [0, 3])):
        said = [status_of(post(endpoint, "/etcdserverpb.KV/Txn", frame(nested(depth)), GRPC)) for endpoint in (pair.etcd, pair.tier.endpoint)]
        assert [code for code, _ in said] == wanted, (depth, said)
    assert said[1][1] == "etcdserver: too many operations in txn request"
    differs("txn-depth", *said)


@shows("gzip-ratio")
def test_what_unpacks_to_much_more_is_refused(pair, differs):
    request = gzip.compress(b"\x0a" + length(b"k" * 500_000))
    assert len(request) < 2000
    said = [status_of(post(endpoint, RANGE, frame(request, 1), [*GRPC, ("grpc-encoding", "gzip")])) for endpoint in (pair.etcd, pair.tier.endpoint)]
    assert said[0][0] == 0 and said[1][0] == 8, said
    differs("gzip-ratio", *said)


@shows("watch-id-least")
def test_the_least_id_is_not_for_clients(pair, differs):
    said = []
    for endpoint in (pair.etcd, pair.tier.endpoint):
        stream = Stream(endpoint)
        stream.send(watch_create(key=b"a", watch_id=-1 << 63))
        assert stream.wait(lambda got, status: got)
        said.append((stream.got[0].get("canceled", 0), stream.got[0].get("cancel_reason", "")))
        stream.close()
    assert said == [(0, ""), (1, "belfry: this watch id cannot be used")], said
    differs("watch-id-least", *said)


@shows("range-stream")
def test_a_range_may_be_streamed_in_front_of_an_etcd_that_cannot(pair, differs):
    pair.store.put(b"stream", b"x")
    body = frame(b"\x0a" + length(b"stream"))
    said = [status_of(post(endpoint, "/etcdserverpb.KV/RangeStream", body, GRPC)) for endpoint in (pair.etcd, pair.tier.endpoint)]
    assert said[0][0] == 12 and said[1][0] == 0, said
    differs("range-stream", *said)


@shows("read-kept")
def test_a_revision_that_is_compacted_is_still_read(pair, differs):
    rev = pair.store.put(b"kept", b"old")
    pair.store.put(b"kept", b"new")
    head = pair.store.put(b"kept", b"newest")
    procs.wait_until(lambda: pair.tier.numbers()["upstream"]["revision"] >= head, 20, 0.05, "the tier has it all")
    pair.store.compact(head)
    body = frame(b"\x0a\x04kept\x20" + varint(rev))
    said = [post(endpoint, RANGE, body, GRPC) for endpoint in (pair.etcd, pair.tier.endpoint)]
    assert status_of(said[0])[0] == 11 and status_of(said[1])[0] == 0 and b"old".hex() in said[1]["body"], said
    differs("read-kept", *(status_of(answer) for answer in said))


@shows("read-header")
def test_the_header_names_the_member_that_the_tier_follows(make_cluster, make_tier, differs):
    cluster = make_cluster(3)
    tier = make_tier(cluster)
    followed = tier.numbers()["upstream"]["endpoint"]
    other = next(m for m in cluster.members if m.url != followed)

    def member_of(endpoint):
        answer = post(endpoint, RANGE, frame(b"\x0a\x01a"), GRPC)
        return decode("Answer", bytes.fromhex(answer["body"])[5:])["header"]["member_id"]
    etcd, belfryd = member_of(other.endpoint), member_of(tier.endpoint)
    assert belfryd == member_of(next(m for m in cluster.members if m.url == followed).endpoint)
    differs("read-header", etcd, belfryd)


@shows("read-ties")
def test_rows_that_are_equal_are_in_the_order_of_their_keys(pair, rng, differs):
    """etcd sorts them as its library does, which keeps no order of what is equal: sooner or later that shows."""
    def keys_of(endpoint, prefix):
        body = frame(b"\x0a" + length(prefix) + b"\x12" + length(prefix + b"\xff") + b"\x28\x01\x30\x01")  # ascending, by VERSION
        raw = bytes.fromhex(post(endpoint, RANGE, body, GRPC)["body"])[5:]
        rows = [decode("KeyValue", payload) for number, _, payload in split_fields(raw) if number == 2]
        return [(row["version"], row["key"]) for row in rows]
    for n in range(20):
        prefix = b"/ties/%02d/" % n
        for i in range(60):
            for _ in range(rng.randint(1, 2)):
                head = pair.store.put(prefix + b"%03d" % i, b"x")
        procs.wait_until(lambda: pair.tier.numbers()["upstream"]["revision"] >= head, 20, 0.02, "the tier has it all")
        etcd, belfryd = (keys_of(endpoint, prefix) for endpoint in (pair.etcd, pair.tier.endpoint))
        assert len(belfryd) == 60 and belfryd == sorted(belfryd) == sorted(etcd)
        if etcd != belfryd:
            break
    differs("read-ties", etcd, belfryd)


# ---- what ends an etcd: each has one of its own

LETHAL = {
    "read-sort-target": ("/v3/kv/range", {"key": b64(b"a"), "sort_target": 5}),
    "alarm-unknown": ("/v3/maintenance/alarm", {"action": 3}),
    "auth-long-name": ("/v3/auth/role/add", {"name": "x" * 32769}),
    "txn-from-key": ("/v3/kv/txn", {"success": [{"request_delete_range": {"key": b64(b"b"), "range_end": b64(b"\0")}},
                                                {"request_put": {"key": b64(b"bb"), "ignore_value": True}}]}),
}


@shows("read-sort-target", "alarm-unknown", "auth-long-name", "txn-from-key")
def test_what_would_end_etcd_is_refused(make_cluster, make_tier, differs):
    for name, (path, body) in LETHAL.items():
        cluster = make_cluster(name=name)
        member = cluster.members[0]
        cluster.put("bb", "1")
        tier = make_tier(cluster)
        with_tier = Gateway(tier.port)
        status, _, raw = with_tier.post(path, body)
        with_tier.close()
        assert status == 400 and json.loads(raw)["code"] == 3, (name, raw)
        assert member.is_running(), name
        direct = Gateway(member.client_port)
        try:
            said = direct.post(path, body)[0]
        except (http.client.HTTPException, OSError):
            said = "no answer"
        direct.close()
        procs.wait_until(lambda: not member.is_running() or said != "no answer", 10, 0.05, f"{name}: {said}")
        assert not member.is_running(), f"{name}: this etcd answers {said}: the line of the page is about others"
        differs(name, "ended", status)
        tier.kill()
