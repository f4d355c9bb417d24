"""The JSON gateway of a tier beside etcd's own: thousands of requests, made at random, to two clusters that see the same ones."""
import contextlib
import json
import re

import procs
import pytest
from gateway import Gateway
from gateway_pair import Answer, Pair, difference
from gateway_requests import KEYS, PATHS, Maker
from gateway_watches import ask_watches, report, same
from ports import free_port

REQUESTS, REQUESTS_SOAK = 1500, 20000
WATCHES, WATCHES_SOAK = 60, 1000
RIGHTS_SHORT, RIGHTS_SOAK = 200, 3000
NEGATIVE_FILTER = '{"create_request":{"key":"YQ==","filters":[-1]}}'
LEAST_ID = '{"create_request":{"key":"YQ==","watch_id":"-9223372036854775808"}}'
AT_ONCE = 60  # etcd's gateway has 250 streams
FAILURES_SHOWN = 12


def client_port(cluster):
    return int(cluster.members[0].url.rsplit(":", 1)[1])


@pytest.fixture
def pair(make_cluster, make_tier):
    flags = ["--bcrypt-cost", "4"]  # passwords are not what this is about
    direct, behind = make_cluster(flags=flags), make_cluster(flags=flags)
    port = free_port()
    make_tier(behind, listen=[f"http://127.0.0.1:{port}"])
    for cluster in (direct, behind):  # until a cluster has a version, some calls are refused
        with contextlib.closing(Gateway(client_port(cluster))) as member:
            procs.wait_until(lambda: b"not_decided" not in member.post("/version", "", "GET")[2], 30, 0.1, "a version")  # noqa: B023
    made = Pair(Gateway(client_port(direct)), Gateway(port))
    yield made
    for side in made.sides:
        side.close()


def test_generated_requests_have_etcds_answers(pair, rng, soak, figure):
    maker, reports, asked = Maker(rng), [], set()
    n = REQUESTS_SOAK if soak else REQUESTS
    for i in range(n):
        path, body = maker.request() if i >= 3 * len(PATHS) else maker.request(list(PATHS)[i % len(PATHS)])
        if path == "/watch":
            continue
        asked.add(path)
        report = pair.check(path, body, "/v3beta" if i % 10 == 0 else "/v3")
        if i % 50 == 0 or report:
            maker.revision = pair.revisions()[0]
        if report:
            reports.append(report)
        if len(reports) >= FAILURES_SHOWN:
            break
    figure("gateway.generated", pair.sent)
    figure("gateway.statuses", " ".join(f"{status}:{n}" for status, n in sorted(pair.statuses.items())))
    figure("gateway.known", " ".join(f"{name}:{n}" for name, n in sorted(pair.known.items())))
    assert not reports, "\n\n".join(reports)
    assert asked == set(PATHS) - {"/watch"}
    assert pair.statuses[200] > n / 4 and pair.statuses[400] > n / 20, pair.statuses


def test_generated_watches_are_told_the_same(pair, rng, soak, figure):
    maker, reports, known = Maker(rng), [], []
    for _ in range(0, WATCHES_SOAK if soak else WATCHES, AT_ONCE):
        maker.revision = pair.revisions()[0]
        told = ask_watches(pair, maker, [NEGATIVE_FILTER, LEAST_ID] + [maker.watches() for _ in range(AT_ONCE)], KEYS)
        found = [(same(etcd, tier), body, etcd, tier) for body, etcd, tier in told]
        reports += [report(*f[1:]) for f in found if f[0] and f[0][0] != "="]
        known += [f[0] for f in found if f[0]]
    figure("gateway.watches_known", " ".join(f"{name}:{known.count(name)}" for name in sorted(set(known))))
    assert not reports, "\n\n".join(reports[:FAILURES_SHOWN])
    assert {"=gateway-filters", "=gateway-malformed", "=watch-id-least"} <= set(known)
    planted_differences_of_watches_are_found([(etcd, tier) for found, _, etcd, tier in found if not found])


def planted_differences_of_watches_are_found(told):
    for etcd, tier in told:
        whole = tier.lines
        for i, line in enumerate(whole):
            if any(name in line["result"] for name in ("events", "created", "canceled")):
                tier.lines = whole[:i] + whole[i + 1:]
                assert same(etcd, tier), line
        for line in (line for line in whole if "events" in line["result"]):
            tier.lines = whole + [line]
            assert same(etcd, tier), line
        tier.lines = whole
        assert not same(etcd, tier)


# ---- rights

RIGHTS = [("READ", "YQ==", ""), ("READWRITE", "Yg==", ""), ("READWRITE", "Zm9v", "Zm9w"), ("WRITE", "eg==", "")]  # a; b; foo...; z
SETTING = [("user/add", {"name": "root", "password": "r"}), ("user/add", {"name": "some", "password": "s"}), ("user/add", {"name": "none", "password": "n"}),
           ("role/add", {"name": "some"}),
           *(("role/grant", {"name": "some", "perm": {"permType": kind, "key": key, "range_end": end}}) for kind, key, end in RIGHTS),
           ("user/grant", {"user": "some", "role": "some"}), ("user/grant", {"user": "root", "role": "root"}), ("enable", {})]
OF_RIGHTS = ["/kv/range", "/kv/put", "/kv/deleterange", "/kv/txn", "/kv/compaction", "/lease/grant", "/lease/revoke", "/lease/timetolive", "/lease/leases",
             "/lease/keepalive", "/auth/status", "/auth/user/get", "/auth/user/list", "/auth/role/get", "/auth/role/list", "/cluster/member/list",
             "/maintenance/status", "/maintenance/hashkv"]


def test_generated_requests_with_rights_have_etcds_answers(pair, rng, soak, figure):
    maker, reports = Maker(rng), []
    for side in pair.sides:
        for path, body in SETTING:
            side.json(f"/v3/auth/{path}", body)
    procs.wait_until(lambda: all(side.post("/v3/kv/range", BODY)[0] == 400 for side in pair.sides), 30, 0.1, "auth is on")
    for name in ("root", "some", "none"):
        pair.log_in(name, name[0])
    for tokens, side in zip(pair.tokens, pair.sides):
        tokens["nonsense"] = {"Authorization": "nonsense"}
        side.fields = tokens["root"]  # what is not asked by one of them, is by root
        tokens["nobody"] = {"Authorization": ""}
    for i in range(RIGHTS_SOAK if soak else RIGHTS_SHORT):
        path, body = maker.request(rng.choice(OF_RIGHTS[:4] if i % 3 else OF_RIGHTS))
        report = pair.check(path, body, user=rng.choice(["root", "some", "some", "some", "none", "nonsense", "nobody"]))
        reports += [report] if report else []
        if i % 50 == 0:
            maker.revision = pair.revisions()[0]
        if len(reports) >= FAILURES_SHOWN:
            break
    figure("gateway.rights_statuses", " ".join(f"{status}:{n}" for status, n in sorted(pair.statuses.items())))
    assert not reports, "\n\n".join(reports)
    assert all(pair.statuses.get(status, 0) > 10 for status in (200, 401, 403)), pair.statuses


# ---- HTTP

BODY = '{"key":"YQ=="}'
FORMS = [(method, "/v3/kv/range", {}) for method in ("GET", "PUT", "DELETE", "PATCH", "BREW")]
FORMS += [("POST", path, {}) for path in ("/v3/kv/range?limit=1&key=Yg==", "/v3/kv/range/", "/v3/kv//range", "/v3/kv/%72ange", "/v3/kv%2Frange", "/v3/KV/range",
                                          "/v3", "/v3/", "/v3/kv", "/v3beta/kv/range", "/v3alpha/kv/range", "/v2/keys", "/v3/kv/range#x", "/v3/kv/./range")]
FORMS += [("POST", "/v3/kv/range", fields) for fields in (
    {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-8"},
    {"Content-Type": "application/octet-stream"}, {"Accept": "text/html"}, {"Accept": "application/xml"}, {"Accept-Encoding": "gzip"},
    {"Grpc-Timeout": "5S"}, {"Grpc-Timeout": "nonsense"}, {"Grpc-Timeout": "1"}, {"Authorization": "nonsense"}, {"Authorization": ""},
    {"X-HTTP-Method-Override": "GET"}, {"Grpc-Metadata-hasleader": "true"}, {"Grpc-Metadata-x": "y"}, {"Expect": "100-continue"})]
OTHERWISE = {"BREW": "gateway-paths", "/v3/kv//range": "gateway-paths", "/v3/kv/./range": "gateway-paths", "/v3": "gateway-paths",
             "/v3/kv/%72ange": "gateway-paths", "/v3/kv%2Frange": "gateway-paths"}  # lines of docs/compatibility.md


def test_forms_of_http_have_etcds_answers(pair):
    reports = []
    for method, path, fields in FORMS:
        answers = [Answer("", *side.post(path, BODY, method, fields)) for side in pair.sides]
        found = difference("", *answers) if answers[0].lines or answers[1].lines else answers[0].status != answers[1].status
        is_known = method in OTHERWISE or path in OTHERWISE
        assert bool(found) or not is_known, f"{method} {path}: no longer different"
        if found and not is_known and (found is True or found[0] != "="):
            reports.append(f"{method} {path} {fields}: {found}\n" + "\n".join(f"  {a.text()}" for a in answers))
    assert not reports, "\n".join(reports)


# ---- that no etcd is ended

HARMLESS = {"/kv/range": {"sort_target": 4, "sortTarget": 4}, "/maintenance/alarm": {"action": 2, "alarm": 2}}
HARMLESS["/kv/txn"] = HARMLESS["/kv/range"]


def numbers(value):
    """Each (name, number) in a request."""
    for name, v in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(v, (dict, list)):
            yield from numbers(v)
        elif isinstance(v, (int, float)):
            yield name, v


def puts_behind_deletes(path, text):
    """Does a Txn delete all keys from one on, and put a key? In any order: it is looked for roughly."""
    is_from_key = re.search(r'"range_?[eE]nd": "(\\[rn])*A(\\[rn])*[A-P](\\[rn])*(=(\\[rn])*=)?(\\[rn])*"', text)
    return path == "/kv/txn" and is_from_key and re.search("elete_?[rR]ange", text) and re.search('"request_?[pP]ut": ', text)


def no_number(text):
    raise ValueError(f"{text} is no JSON")


def harm(path, body):
    """What in it would end an etcd, as a parser finds it; None: it is no JSON."""
    with contextlib.suppress(ValueError):
        value = json.loads(body, parse_constant=no_number)
        found = [(name, n) for name, n in numbers(value) if name in HARMLESS[path] and not 0 <= n <= HARMLESS[path][name]]
        return found + ["a put behind a delete"] * bool(puts_behind_deletes(path, json.dumps(value)))
    return None


def test_no_generated_request_ends_an_etcd(rng):
    assert harm("/maintenance/alarm", '{"action":1,"alarm":-1}') and harm("/kv/txn", '{"success":[{"requestRange":{"sort_target":5}}]}')
    assert harm("/kv/txn", '{"success":[{"requestDeleteRange":{"range_end":"AA=="}},{"requestPut":{"ignoreLease":true}}]}')
    maker, n_read = Maker(rng), 0
    for path in HARMLESS:
        for _ in range(3000):
            body = maker.request(path)[1]
            found = harm(path, body)
            n_read += found is not None
            assert not found, (path, body)
    assert n_read > 6000, n_read


# ---- that differences are found

class Lying(Gateway):
    """A gateway whose answers are spoiled."""

    def __init__(self, port, spoil):
        super().__init__(port)
        self._spoil = spoil

    def post(self, path, body, method="POST", headers=None):
        status, kind, raw = super().post(path, body, method, headers)
        return self._spoil(status, kind, raw)


def replacing(old, new):
    return lambda status, kind, raw: (status, kind, raw.replace(old, new) if status == 200 else raw)


def in_errors(old, new):
    return lambda status, kind, raw: (status, kind, raw if status == 200 else raw.replace(old, new))


PLANTED = {"a status": lambda status, kind, raw: (500 if status == 404 else status, kind, raw),
           "a content type": lambda status, kind, raw: (status, "text/plain" if status == 404 else kind, raw),
           "a number that is no string": lambda status, kind, raw: (status, kind, re.sub(rb'"count":"(\d+)"', rb'"count":\1', raw)),
           "another name": replacing(b'"mod_revision"', b'"modRevision"'),
           "a field too few": replacing(b'"succeeded":true,', b""),
           "a field too many": replacing(b'"kvs":[', b'"more":false,"kvs":['),
           "the other base64": replacing(b'"//4=', b'"__4='),
           "another value": lambda status, kind, raw: (status, kind, re.sub(rb'("version":")\d', rb"\g<1>9", raw)),
           "words of etcd's": in_errors(b"etcdserver: ", b"etcdserver:"),
           "a code": lambda status, kind, raw: (status, kind, raw.replace(b"code\":5", b"code\":6")),
           "an error of one form only": in_errors(b'"message"', b'"massage"')}


def test_planted_differences_are_found_and_shrunk(pair, rng):
    etcd, tier = pair.sides
    n_shrunk = 0
    for what, spoil in PLANTED.items():
        with contextlib.closing(Lying(tier.port, spoil)) as liar:
            n_shrunk += found_and_shrunk(what, Pair(etcd, liar), Maker(rng))
        pair.level()
    assert n_shrunk > len(PLANTED) / 3  # what can be asked once only, a delete for example, stays as it is


def found_and_shrunk(what, lying, maker):
    """Must be found. True: the request was made shorter."""
    for _ in range(1000):
        path, body = maker.request()
        found = lying.ask(path, body)[0]
        if found and found[0] != "=":
            break
    else:
        raise AssertionError(f"{what}: not found in 1,000 requests")
    short = lying.shrink(path, body, found, "/v3", tries=40)
    return len(short) < len(body)
