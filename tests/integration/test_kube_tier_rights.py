"""Rights through a tier in front of kube-apiservers with RBAC: whatever a user may read there it may read here, and nothing else.
Every answer is compared with the API server's own; every object has a mark, so that a single one that leaks is found. What is
revoked ends within 10 s. The servers are built outside this tree; without them this is skipped."""
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import needs
import procs
import pytest
from etcd import Cluster
from kube_apiserver import KubeCluster
from kube_tier import MAPS, PODS, STANDS_IN, needs_servers, requests_of, tier_of, wait_served
from kube_tier_rights import DELEGATOR, Accounts, Watcher, config_map, exchange, h2_get, head, made, marks, pod

PERIOD_S = 10
READ = ("get", "list", "watch")
NAMESPACES = ("prod", "other")
NAMES = ("open", "shut", "a.b")


class Bed:
    def __init__(self, folder):
        (folder / "etcd").mkdir()
        self.etcd = Cluster(folder / "etcd", keep=True).start()
        self.cluster = KubeCluster(folder / "kube", self.etcd, 2, keep=True).start()
        self.api = self.cluster.servers[0]
        self.accounts = Accounts(self.cluster)
        made(self.api, "/api/v1/namespaces", {"metadata": {"name": "other"}})
        for namespace in NAMESPACES:
            for name in NAMES:
                made(self.api, MAPS.path(namespace), config_map(namespace, name))
                made(self.api, PODS.path(namespace), pod(namespace, name, "n1" if name == "open" else "n2"))
        self.since = self.api.call("GET", MAPS.path("prod", "open")).json["metadata"]["resourceVersion"]
        self.tier = tier_of(folder / "tier", self.cluster, (MAPS, PODS), keep=True).start()
        for kind in (MAPS, PODS):
            wait_served(self.tier, kind)
        self.users = {
            "nothing": self.accounts.add("nothing"), "reader": self.accounts.add("reader"), "inprod": self.accounts.add("inprod"),
            "lister": self.accounts.add("lister"), "watcher": self.accounts.add("watcher"), "getter": self.accounts.add("getter"),
            "named": self.accounts.add("named"), "alice": self.cluster.identity.tokens["alice"], "admin": self.cluster.identity.tokens["admin"]}
        both = ("configmaps", "pods")
        self.accounts.allow("reader", READ, both)
        self.accounts.allow("inprod", READ, both, "prod")
        for name in ("lister", "watcher", "getter"):
            self.accounts.allow(name, [{"lister": "list", "watcher": "watch", "getter": "get"}[name]], both)
        self.accounts.allow("named", READ, both, "prod", ["open"])

    def close(self):
        self.tier.kill()
        self.cluster.kill()
        self.etcd.close()
        if not STANDS_IN:
            self.tier.assert_sound()


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    needs_servers()
    made_bed = Bed(tmp_path_factory.mktemp("rights"))
    yield made_bed
    made_bed.close()


# ---- the matrix ----

FIELDS = ("metadata.name=open", "metadata.name==open", "metadata.name!=shut", "metadata.name=open,metadata.namespace=prod",
          "metadata.namespace=prod", "metadata.name=open,metadata.name!=shut")


def requests(since=0):
    """(path, query, headers) of what a client may ask; `since`: a version that both types have passed."""
    partial = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    for kind in (MAPS, PODS):
        for namespace in (None, *NAMESPACES):
            path = kind.path(namespace)
            yield path, {"resourceVersion": 0}, {}
            yield path, {"resourceVersion": 0}, partial
            yield path, {"limit": 1}, {}
            for fields in FIELDS:
                yield path, {"resourceVersion": 0, "fieldSelector": fields}, {}
            yield path, {"resourceVersion": 0, "labelSelector": "app=open", "limit": 1}, {}
            yield path, {"resourceVersion": since, "resourceVersionMatch": "NotOlderThan"}, {}
            yield path, {"resourceVersion": since, "resourceVersionMatch": "NotOlderThan", "limit": 1}, {}
            yield path, {"resourceVersion": 0, "labelSelector": "app in (open,shut)"}, {}
            yield path, {"watch": 1, "resourceVersion": 0, "timeoutSeconds": 1}, {}
            yield path, {"watch": 1, "resourceVersion": 0, "timeoutSeconds": 1, "fieldSelector": "metadata.name=open"}, {}
            for narrow in ({}, {"fieldSelector": "metadata.name=open"}, {"labelSelector": "app=open"}):  # by the old path these give no right
                yield path.replace("/api/v1/", "/api/v1/watch/"), {"resourceVersion": 0, "timeoutSeconds": 1, **narrow}, {}
        yield kind.path("prod", "open").replace("/api/v1/", "/api/v1/watch/"), {"resourceVersion": 0, "timeoutSeconds": 1}, {}
        for namespace in NAMESPACES:
            for name in (*NAMES, "absent"):
                yield kind.path(namespace, name), {"resourceVersion": 0}, {}
                yield kind.path(namespace, name), {}, {}
    yield PODS.path(), {"resourceVersion": 0, "fieldSelector": "spec.nodeName=n1"}, {}
    yield PODS.path(), {"watch": 1, "resourceVersion": 0, "timeoutSeconds": 1, "fieldSelector": "spec.nodeName=n1"}, {}


def at_once(function, rows):
    """Its results, by 24 threads."""
    with ThreadPoolExecutor(24) as pool:
        return list(pool.map(lambda row: function(*row), rows))


def difference(bed, user, path, query, headers):
    """None if the tier answers as the API server does."""
    direct = bed.api.call("GET", path, query, user=bed.users[user], headers=headers)
    here = bed.tier.call("GET", path, query, user=bed.users[user], headers=headers)
    same = (direct.code, marks(direct.body)) == (here.code, marks(here.body))
    if direct.code == 403:
        same = same and direct.json["message"] == here.json["message"] and direct.json["details"] == here.json["details"]
    return None if same else (user, path, query, direct.code, here.code, sorted(marks(direct.body) ^ marks(here.body)), here.body[:300])


def test_every_user_reads_what_it_may_and_nothing_else(bed):
    rows = [(bed, user, *request) for user in bed.users for request in requests(bed.since)]
    wrong = [found for found in at_once(difference, rows) if found]
    assert not wrong, f"{len(wrong)} of {len(rows)}: {wrong[:5]}"


def test_nobody_reads_nothing(bed):
    """No token, and tokens that are nobody's: 401, and not a byte of an object."""
    expired, other_key = bed.accounts.token("reader", -3600), bed.accounts.token("reader")[:-8] + "AAAAAAAA"
    legacy = ".".join(["eyJhbGciOiJub25lIn0", bed.accounts.token("reader").split(".")[1], ""])

    def ask(token, path, query, headers):
        here = bed.tier.call("GET", path, query, user=token, headers=headers)
        assert not marks(here.body), (token[:20], path, query)
        is_of_one = re.search("/watch/namespaces/prod/(configmaps|pods)/", path)  # a watch of one object by its path
        is_relayed = query.get("resourceVersion") != 0 or is_of_one
        is_passed_on = not token and is_relayed  # and the API server knows an anonymous user
        assert here.code == 401 or is_passed_on or STANDS_IN, (token[:20], path, query, here.code, here.body[:300])
        assert b'"Unauthorized"' in here.body or is_passed_on or STANDS_IN, here.body[:300]

    at_once(ask, [(token, *request) for token in ("", "wrong", expired, other_key, legacy, "x" * 20000) for request in requests()])


# ---- an attacker's view ----

def odd_requests(token):
    """Raw requests of a user without any right, by which no object may come."""
    paths = [
        "/api/v1//configmaps?resourceVersion=0", "//api/v1/configmaps?resourceVersion=0", "/api/v1/configmaps/?resourceVersion=0",
        "/api//v1/namespaces/prod/configmaps?resourceVersion=0", "/api/v1/namespaces//configmaps?resourceVersion=0",
        "/api/v1/namespaces/prod%2fconfigmaps?resourceVersion=0", "/api/v1/namespaces/prod%2Fconfigmaps/open?resourceVersion=0",
        "/%61pi/v1/configmaps?resourceVersion=0", "/api/v1/config%6Daps?resourceVersion=0", "/api/v1/configmaps%3FresourceVersion=0",
        "/api/v1/namespaces/prod/../prod/configmaps?resourceVersion=0", "/api/v1/./configmaps?resourceVersion=0",
        "/api/v1/namespaces/prod/configmaps/a%2eb?resourceVersion=0", "/api/v1/namespaces/prod/configmaps/open/?resourceVersion=0",
        "/api/v1/namespaces/prod/configmaps/open/status?resourceVersion=0", "/apis/core/v1/configmaps?resourceVersion=0",
        "/apis//v1/configmaps?resourceVersion=0", "/apis/v1/configmaps?resourceVersion=0", "/api/v1beta1/configmaps?resourceVersion=0",
        "/api/v1/configmaps?resourceVersion=0&limit=1", "/api/v1/configmaps?resourceVersion=0&watch=1&timeoutSeconds=1",
        "/api/v1/configmaps?resourceVersion=0&watch=0&watch=1&timeoutSeconds=1", "/api/v1/configmaps?watch=1&sendInitialEvents=true&"
        "resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1", "/api/v1/watch/configmaps?resourceVersion=0&timeoutSeconds=1",
        "/api/v1/watch/namespaces/prod/configmaps/open?resourceVersion=0&timeoutSeconds=1", "/api/v1/CONFIGMAPS?resourceVersion=0",
        "/api/v1/configmaps;x?resourceVersion=0", "/api/v1/configmaps\t?resourceVersion=0", "/api/v1/namespaces/*/configmaps?resourceVersion=0",
        "/api/v1/namespaces/prod/configmaps/*?resourceVersion=0", "https://tier/api/v1/configmaps?resourceVersion=0"]
    for path in paths:
        yield head("GET", path, token, "Connection: close")
        yield head("HEAD", path, token, "Connection: close")
    plain = "/api/v1/configmaps?resourceVersion=0"
    for more in ("Impersonate-User: admin", "Impersonate-Group: system:masters", "X-Remote-User: admin\r\nX-Remote-Group: system:masters",
                 "belfry-user: \"admin\"", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", "grpcgateway-accept: 1",
                 "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "Authorization: Basic YWRtaW46YWRtaW4=",
                 "Content-Type: application/grpc", "X-HTTP-Method-Override: GET", "Upgrade: websocket\r\nConnection: upgrade"):
        yield head("GET", plain, token, *more.split("\r\n"), *([] if "Connection" in more else ["Connection: close"]))
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", "LIST", "WATCH"):
        yield head(method, plain, token, "Content-Length: 0", "Connection: close")


def test_no_odd_request_gets_a_byte(bed):
    """Of a user without rights, and of nobody."""

    def ask(raw):
        got = exchange(bed.tier, raw, 5)
        assert not marks(got), (raw[:200], got[:2000])
        status = got.split(b" ", 2)[1][:3] if got else b""
        assert status != b"200" or STANDS_IN, (raw[:200], got[:500])

    at_once(ask, [(raw,) for token in (bed.users["nothing"], None, "wrong") for raw in odd_requests(token)])
    assert bed.tier.proc.poll() is None


def test_odd_tokens_are_nobodys(bed):
    """Long ones, and bytes that no token has. The next request is served as before."""
    path = "/api/v1/configmaps?resourceVersion=0"
    good = bed.users["reader"].encode()
    for token in (b"x" * (1 << 20), b"x" * 30000, good + b"\x00", good + b"\x01", b"\x7f" + good, good[:20] + b"\r\n " + good[20:], good + b"\xff",
                  b"\xc3\xa4", b" ", b"\t", good + b"\r\nImpersonate-User: admin", b"\"" + good + b"\"", good * 8):
        raw = head("GET", path, "TOKEN", "Connection: close").replace(b"TOKEN", token)
        try:
            got = exchange(bed.tier, raw, 5)
        except OSError:
            got = b""  # it has closed the connection before all was sent
        assert not marks(got), (token[:50], got[:300])
        assert got[9:12] in (b"", b"400", b"401", b"403", b"431") or STANDS_IN, (token[:50], got[:300])
    here = bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=bed.users["reader"])
    assert here.code == 200 and len(marks(here.body)) == 6


def test_many_wrong_tokens_do_not_keep_others_waiting(bed):
    """2,000 of them; a user with a right is served meanwhile."""
    wrong = [(f"wrong-{i}",) for i in range(2000)]
    codes, slowest = [], []

    def ask(token):
        codes.append(bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=token).code)

    def look():
        while len(codes) < len(wrong):
            begin = time.monotonic()
            assert bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=bed.users["reader"]).code == 200
            slowest.append(time.monotonic() - begin)

    looker = threading.Thread(target=look)
    looker.start()
    at_once(ask, wrong)
    looker.join()
    assert set(codes) == {401}, set(codes)
    assert slowest and max(slowest) < 5, max(slowest)


def test_a_right_belongs_to_a_request_and_not_to_its_connection(bed):
    """On one connection, one after the other and at once, by HTTP/1.1 and HTTP/2."""
    path, good, bad = "/api/v1/namespaces/prod/configmaps?resourceVersion=0", bed.users["inprod"], bed.users["nothing"]
    tokens = [good, bad, None, good, "wrong", bad, good, None]
    raw = b"".join(head("GET", path, token) for token in tokens[:-1]) + head("GET", path, tokens[-1], "Connection: close")
    got = exchange(bed.tier, raw, 10)
    parts = got.split(b"HTTP/1.1 ")[1:]
    assert len(parts) == len(tokens), got[:3000]
    for token, part in zip(tokens, parts):
        assert bool(marks(part)) == (token == good), (token and token[:10], part[:300])
    for token, body in zip(tokens, h2_get(bed.tier, [(path, token) for token in tokens], 10)):
        assert bool(marks(body)) == (token == good), (token and token[:10], body[:300])


def test_a_continue_token_of_another_gives_nothing(bed):
    """It says where to go on, and not what may be read."""
    for query in ({"limit": 1}, {"limit": 1, "resourceVersion": 0}):
        page = bed.tier.call("GET", MAPS.path(), query, user=bed.users["reader"]).json["metadata"]
        token = page.get("continue")
        if not token:
            continue
        for user in ("nothing", "inprod", "named", "getter", "watcher"):
            here = bed.tier.call("GET", MAPS.path(), {"limit": 1, "continue": token}, user=bed.users[user])
            assert here.code == 403 and not marks(here.body), (user, here.body)
        here = bed.tier.call("GET", MAPS.path("prod"), {"continue": token}, user=bed.users["inprod"])
        assert all(mark.startswith("prod.") for mark in marks(here.body)), here.body


# ---- what ends ----

class Writer:
    """Changes a config map of a namespace ten times a second."""

    def __init__(self, api, namespace="prod", name="open"):
        self.api, self.namespace, self.name, self.n, self.stopped = api, namespace, name, 0, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopped:
            obj = config_map(self.namespace, self.name)
            obj["data"]["n"] = str(self.n)
            assert self.api.call("PUT", MAPS.path(self.namespace, self.name), obj=obj).code == 200
            self.n += 1
            time.sleep(0.1)

    def stop(self):
        self.stopped = True
        self.thread.join()


@pytest.fixture
def writer(bed):
    made_writer = Writer(bed.api)
    yield made_writer
    made_writer.stop()


@pytest.mark.skipif(STANDS_IN, reason="an API server does not end watches")
def test_what_is_revoked_ends_within_ten_seconds(bed, writer):
    """A RoleBinding, a ClusterRoleBinding, a service account and a token's time; other watches go on."""
    accounts, watches = bed.accounts, {}
    for name, namespace in (("leaver", "prod"), ("everywhere", None), ("deleted", "prod"), ("expired", "prod")):
        accounts.add(name)
        watches[name] = accounts.allow(name, READ, ("configmaps",), namespace)
    tokens = {name: accounts.token(name, 8 if name == "expired" else 3600) for name in watches}
    runs = {name: Watcher(bed.tier, MAPS.path("prod"), token) for name, token in tokens.items()}
    stays = Watcher(bed.tier, MAPS.path("prod"), bed.users["inprod"])
    for watch in (*runs.values(), stays):
        watch.wait(lambda watch=watch: len(watch.events) > 10)
    gone = {name: accounts.revoke(watches[name]) for name in ("leaver", "everywhere")}
    assert bed.api.call("DELETE", "/api/v1/namespaces/default/serviceaccounts/deleted").code == 200
    for name in ("deleted", "expired"):  # the API servers themselves accept a token for up to 10 s after its end
        procs.wait_until(lambda name=name: not accounts.is_known(tokens[name]), 40, 0.2, f"the token of {name} ends")
        gone[name] = time.monotonic()
    for name, watch in runs.items():
        watch.wait(lambda watch=watch: watch.ended is not None, 30)
        assert watch.last <= gone[name] + PERIOD_S, (name, watch.last - gone[name])
        expected = (403, "Forbidden") if name in ("leaver", "everywhere") else (401, "Unauthorized")
        assert (watch.error["code"], watch.error["reason"]) == expected, watch.error
    assert runs["leaver"].error["message"] == (
        'configmaps is forbidden: User "system:serviceaccount:default:leaver" cannot watch resource "configmaps" in API group "" '
        'in the namespace "prod"')
    for name, token in tokens.items():
        here = bed.tier.call("GET", MAPS.path("prod"), {"resourceVersion": 0}, user=token)
        assert here.code in (401, 403), (name, here.code, here.body)
    n = len(stays.events)
    stays.wait(lambda: len(stays.events) > n + 10)


@pytest.mark.skipif(STANDS_IN, reason="an API server asks nobody")
def test_without_answers_nothing_is_delivered_and_nothing_is_lost(bed, writer):
    """The tier loses its right to ask. It still follows, but delivers nothing; then it asks again, and every change comes."""
    watch = Watcher(bed.tier, MAPS.path("prod"), bed.users["inprod"])
    watch.wait(lambda: len(watch.events) > 10)
    binding = bed.api.call("GET", DELEGATOR).json
    gone = bed.accounts.revoke(DELEGATOR)
    try:
        fresh = bed.accounts.token("reader")
        procs.wait_until(lambda: bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=fresh).code == 503, 15, 0.5, "503")
        time.sleep(max(0, gone + PERIOD_S + 3 - time.monotonic()))
        assert gone < watch.last <= gone + PERIOD_S and watch.ended is None
        known = bed.tier.call("GET", MAPS.path("prod"), {"resourceVersion": 0}, user=bed.users["inprod"])
        assert known.code == 503 and not marks(known.body), known.body
        assert "system:auth-delegator" in known.json["message"], known.body
    finally:
        binding["metadata"] = {"name": binding["metadata"]["name"]}
        made(bed.api, DELEGATOR.rsplit("/", 1)[0], binding)
    n = writer.n
    watch.wait(lambda: int(watch.events[-1][1]["object"]["data"].get("n", 0)) >= n, 40)
    seen = [int(e["object"]["data"]["n"]) for _, e in watch.events if e["type"] == "MODIFIED" and "n" in e["object"]["data"]]
    assert seen == list(range(seen[0], seen[0] + len(seen)))


@pytest.mark.skipif(STANDS_IN, reason="an API server asks nobody")
def test_stopped_api_servers_end_in_503(bed):
    """Nobody answers: known users for at most 10 s more, others not at all; afterwards everything goes on."""
    token = bed.users["reader"]
    assert bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=token).code == 200
    fresh = bed.accounts.token("reader")
    for server in bed.cluster.servers:
        server.stop()
    try:
        begin = time.monotonic()
        assert bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=fresh).code in (429, 503)
        time.sleep(max(0, begin + PERIOD_S + 1 - time.monotonic()))
        here = bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=token)  # 429: the resource is not ready, either
        assert here.code in (429, 503) and not marks(here.body), here.body
    finally:
        for server in bed.cluster.servers:
            server.cont()
    procs.wait_until(lambda: bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user=fresh).code == 200, 60, 0.5, "200")


class Comer:
    """A user whose right comes and goes, and who watches again whenever its watch has ended."""

    def __init__(self, bed, name):
        self.bed, self.name, self.token = bed, name, bed.accounts.add(name)
        self.arrivals, self.gone, self.stopped, self.binding = [], [], False, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.stopped:
            try:
                for event in self.bed.tier.watch(MAPS.path("prod"), "", 60, self.token, timeoutSeconds=30):
                    if event.get("type") in ("ADDED", "MODIFIED"):
                        self.arrivals.append(time.monotonic())
            except OSError:
                pass
            time.sleep(0.3)

    def toggle(self):
        if self.binding:
            self.gone.append([self.bed.accounts.revoke(self.binding), None])
            self.binding = None
        else:
            if self.gone:
                self.gone[-1][1] = time.monotonic()
            self.binding = self.bed.accounts.allow(self.name, READ, ("configmaps",), "prod")

    def late(self):
        """Events that came more than a period after a revocation, and before the next grant."""
        return [(round(at - gone, 2), self.name) for gone, back in self.gone for at in self.arrivals
                if gone + PERIOD_S < at and (back is None or at < back)]


@pytest.mark.skipif(STANDS_IN, reason="an API server does not end watches")
def test_rights_come_and_go_while_servers_do(bed, writer, soak, rng, figure):
    """Ten users for some minutes, while an API server is stopped or killed: no event later than 10 s after a revocation."""
    if not soak:
        needs.full_length("it takes minutes: with BELFRY_SOAK=1 only")
    comers = [Comer(bed, f"comer{i}") for i in range(10)]
    due = {comer: 0.0 for comer in comers}
    end, fault, other = time.monotonic() + 240, time.monotonic() + 20, bed.cluster.servers[1]
    while time.monotonic() < end:
        for comer in comers:
            if time.monotonic() >= due[comer]:
                comer.toggle()
                due[comer] = time.monotonic() + (rng.uniform(5, 15) if comer.binding else rng.uniform(12, 20))
        if time.monotonic() >= fault:
            if rng.random() < 0.5:
                other.stop()
                time.sleep(5)
                other.cont()
            else:
                other.kill()
                other.start()
            fault = time.monotonic() + 25
        time.sleep(0.1)
    for comer in comers:
        comer.stopped = True
    late = [row for comer in comers for row in comer.late()]
    n_events, n_gone = sum(len(c.arrivals) for c in comers), sum(len(c.gone) for c in comers)
    assert not late, f"{len(late)} of {n_events}: {late[:10]}"
    assert n_gone > 20 and n_events > 1000, (n_gone, n_events)
    figure("kube_rights.revocations", n_gone)
    figure("kube_rights.events", n_events)
    figure("kube_rights.late_events", len(late))


# ---- what it costs ----

REVIEWS = (type("Reviews", (), {"plural": "tokenreviews", "group": "authentication.k8s.io"}),
           type("Reviews", (), {"plural": "subjectaccessreviews", "group": "authorization.k8s.io"}))


def reviews_of(bed):
    """TokenReviews and SubjectAccessReviews that the API servers have had."""
    return [sum(sum(requests_of(server, kind).values()) for server in bed.cluster.servers) for kind in REVIEWS]


@pytest.mark.skipif(STANDS_IN, reason="an API server asks nobody")
def test_a_flood_of_one_wrong_token_costs_few_reviews(bed):
    before, begin = reviews_of(bed)[0], time.monotonic()
    codes = set()

    def ask():
        for _ in range(50):
            codes.add(bed.tier.call("GET", MAPS.path(), {"resourceVersion": 0}, user="flood").code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {401}
    assert reviews_of(bed)[0] - before <= 10 + 4 * (time.monotonic() - begin)  # one a second and worker, and a few of the follower's


@pytest.mark.skipif(STANDS_IN, reason="an API server asks nobody")
def test_watches_of_one_user_share_reviews_whatever_they_select(bed):
    before = reviews_of(bed)
    runs = [Watcher(bed.tier, PODS.path(), bed.users["reader"], 0, fieldSelector=f"spec.nodeName=n{i}", timeoutSeconds=20) for i in range(100)]
    time.sleep(13)
    after = reviews_of(bed)
    assert all(watch.error is None for watch in runs)
    assert sum(bool(watch.events) for watch in runs) == 2  # n1 and n2 have pods
    assert after[0] - before[0] <= 30 and after[1] - before[1] <= 30, (before, after)  # of all workers and users
