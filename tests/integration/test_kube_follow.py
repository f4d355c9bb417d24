"""A resource of real kube-apiservers is followed into a replica (tests/stress/kfollowd, the driver of src/kfollow, no server): what
its log shows is what etcd did, change by change, through kills, stops, compactions and a restored backup; in the end it has what
the API server has. The servers are built outside this tree; without them this is skipped."""
import base64
import json
import signal
import subprocess
import threading
import time
import urllib.request

import kube_apiserver
import needs
import procs
import pytest
from client import binary
from haproxy import Balancer
from kube import WIDGETS, name, rv
from proxy import Proxy
from test_identity import restore
from test_kube_cluster import config_map, custom_resources_of_1_36

MAPS = "/api/v1/configmaps"
NAMESPACES = ("prod", "default")


def key_of(obj):
    return f'{obj["metadata"]["namespace"]}/{name(obj)}'


def bare(obj):
    """Without what lists leave out."""
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


class Kfollowd:
    """One kfollowd; `status` is the newest line it said, `log` what its log had: ("cut", version, why), ("event", version, op, key)."""

    def __init__(self, folder, servers, identity, group_version, plural, *flags):
        self.argv = [binary("tests", "kfollowd"), "--cacert", identity.cacert, "--token", identity.tokens["tier"],
                     "--group-version", group_version, "--plural", plural, "--dir", str(folder), "--watch-s", "5", *flags]
        for server in servers:
            self.argv += ["--server", server.url]
        self.err_path, self.logs = f"{folder}.err", []

    def start(self):
        self.status, self.log, self.dumps, self.proofs, self._rows = {}, [], [], [], None
        self.logs.append(self.log)
        with open(self.err_path, "ab") as err:
            self.proc = procs.spawn(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        self._thread = threading.Thread(target=self._read, args=(self.proc, self.log), daemon=True)
        self._thread.start()
        return self

    def _read(self, proc, log):
        for line in proc.stdout:
            word, _, rest = line.decode().rstrip("\n").partition(" ")
            if word == "status":
                fields, _, why = rest.partition(" why=")
                self.status = dict(f.split("=", 1) for f in fields.split(" ")) | {"why": why}
            elif word == "cut":
                _, version, why = rest.split(" ")
                log.append(("cut", int(version), why))
            elif word == "event":
                version, op, key = rest.split(" ", 2)
                log.append(("event", int(version), op, key))
            elif word == "dump":
                self._rows = {}
            elif word == "object":
                version, key, text = rest.split(" ", 2)
                self._rows[key] = int(version), json.loads(text)
            elif word == "fresh":
                version, ms = rest.split(" ")
                self.proofs.append((int(version), float(ms)))
            elif word == "end":
                self.dumps.append(self._rows)

    def err(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()[-3000:]

    def number(self, name):
        return int(self.status.get(name, 0))

    def wait(self, what, message, timeout=60):
        def there():
            assert self.proc.poll() is None, f"kfollowd exited with {self.proc.returncode}: {self.err()}"
            return what()
        procs.wait_until(there, timeout, 0.05, lambda: f"{message}: {self.status} {self.err()}")

    def wait_ready(self):
        self.wait(lambda: self.status.get("ready") == "1", "ready")

    def dump(self):
        n = len(self.dumps)
        self.proc.send_signal(signal.SIGUSR1)
        self.wait(lambda: len(self.dumps) > n, "a dump")
        return self.dumps[-1]

    def prove(self, timeout=20):
        """All questions at once: the lowest version at which it has what etcd has now (0: not shown), and the ms it took."""
        n = len(self.proofs)
        self.proc.send_signal(signal.SIGUSR2)
        self.wait(lambda: len(self.proofs) > n, "a proof", timeout)
        return self.proofs[-1]

    def kill(self):
        procs.end(self.proc)
        self._thread.join(10)

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait(20) == 0, self.err()
        self._thread.join(10)


class Recorder:
    """What etcd did to the keys of a resource, by etcdctl's watch: version -> (op, key)."""

    def __init__(self, etcd, prefix):
        self.changes, self.prefix = {}, prefix
        argv = ["etcdctl", "--endpoints", etcd.members[0].endpoint, "watch", "--prefix", "-w", "json", "--rev", "1", prefix]
        self.proc = procs.spawn(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            for event in json.loads(line).get("Events") or []:
                kv = event["kv"]
                key = base64.b64decode(kv["key"]).decode()[len(self.prefix):]
                self.changes[kv["mod_revision"]] = ("delete" if event.get("type") else "put", key)

    def wait(self, version):
        procs.wait_until(lambda: max(self.changes, default=0) >= version, 30, 0.05, f"etcdctl has seen {version}")

    def stop(self):
        procs.end(self.proc)


class Writer:
    """Writes, one after another, at whatever server answers, until it is stopped."""

    def __init__(self, servers, rng, prefix="m"):
        self.servers, self.rng, self.prefix = servers, rng, prefix
        self.n, self.is_over = 0, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over.wait(0.02):
            namespace, number = self.rng.choice(NAMESPACES), self.rng.randrange(12)
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            obj = config_map(f"{self.prefix}{number}", n=str(self.n), text="x" * self.rng.choice((10, 1000)))
            try:
                server = self.rng.choice(self.servers)
                answer = server.call("POST", path, obj=obj, timeout=3)
                if answer.code == 409:
                    method = "DELETE" if self.rng.random() < 0.3 else "PUT"
                    answer = server.call(method, f'{path}/{name(obj)}', obj=None if method == "DELETE" else obj, timeout=3)
                self.n += answer.code in (200, 201)
            except OSError:
                continue  # a server that is away

    def stop(self):
        self.is_over.set()
        self.thread.join(30)


def listed(server, path):
    answer = server.call("GET", path)
    assert answer.code == 200, answer.body
    return {key_of(obj): obj for obj in answer.items}, answer.rv


def wait_for_newest(kfollowd, server, path):
    """Until it has the newest change that a consistent list shows. Deletions are newer: what it has is compared by agrees()."""
    objects, _ = listed(server, path)
    newest = max(map(rv, objects.values()), default=0)
    kfollowd.wait(lambda: kfollowd.number("version") >= newest and kfollowd.status["ready"] == "1", f"at {newest}", 90)


def agrees(kfollowd, server, path):
    """The replica has the objects of a consistent list, to the byte but for what lists leave out."""
    def same():
        kfollowd.wait_ready()
        ours, (theirs, _) = kfollowd.dump(), listed(server, path)
        return {k: (version, bare(obj)) for k, (version, obj) in ours.items()} == \
            {k: (rv(obj), bare(obj)) for k, obj in theirs.items()}
    wait_for_newest(kfollowd, server, path)
    procs.wait_until(same, 30, 0.3, lambda: f"the same objects: {kfollowd.status} {kfollowd.err()}")


def judge(log, changes):
    """Every change of etcd after a cut, in order, each once, and no other."""
    at, n = None, 0
    ordered = sorted(changes)
    for entry in log:
        if entry[0] == "cut":
            at = entry[1]
            continue
        _, version, op, key = entry
        assert changes.get(version) == (op, key), f"{entry} is not what etcd did: {changes.get(version)}"
        missed = [c for c in ordered if at < c < version]
        assert not missed, f"{missed} are missing before {entry}"
        at, n = version, n + 1
    return n


@pytest.fixture
def by_itself(soak):
    """Of tests whose subject test_kube_tier_faults.py and test_kube_tier_fresh.py show through a whole tier."""
    if not soak:
        needs.full_length("a follower by itself: with BELFRY_SOAK=1 only")


@pytest.fixture
def make_apis(tmp_path, cluster):
    made = []

    def make(n, crds=False, etcds=()):
        """`etcds`: URLs of etcd for the last servers, if not its own."""
        programs = [kube_apiserver.PROGRAM, *([kube_apiserver.CRD_PROGRAM] if crds else [])]
        if kube_apiserver.why_none(*programs):
            needs.peer(kube_apiserver.why_none(*programs))
        made.append(kube_apiserver.KubeCluster(tmp_path / "kube", cluster, n, crds))
        for i, url in enumerate(etcds, n - len(etcds)):
            made[-1].servers[i].etcd = url
        return made[-1].start()
    yield make
    for apis in made:
        apis.kill()


@pytest.mark.usefixtures("by_itself")
def test_config_maps_are_followed_through_faults_without_a_second_list(make_apis, cluster, tmp_path, rng, soak, figure):
    apis = make_apis(3 if soak else 2)
    recorder = Recorder(cluster, "/registry/configmaps/")
    kfollowd = Kfollowd(tmp_path / "replica", apis.servers, apis.identity, "v1", "configmaps").start()
    kfollowd.wait_ready()
    writer = Writer(apis.servers, rng)
    faults = ["restart", "stop", "kill", "compact"] * (12 if soak else 1)
    rng.shuffle(faults)
    counts = dict.fromkeys(("listings", "overlaps", "audits", "moves"), 0)

    def count():
        for counted in counts:
            counts[counted] += kfollowd.number(counted)
        assert kfollowd.number("expired") == 0 and kfollowd.number("rewritten") == 0, (kfollowd.status, kfollowd.err())

    for fault in faults:
        seen = kfollowd.number("version")  # changes that it, and the servers' caches, have
        kfollowd.wait(lambda: kfollowd.number("version") >= seen + 20, "changes")
        server = apis.servers[kfollowd.number("server")]  # the one that it follows
        if fault == "restart":
            server.kill()
            time.sleep(rng.random() * 2)
            server.start()
        elif fault == "stop":
            server.stop()
            kfollowd.wait(lambda: apis.servers[kfollowd.number("server")] is not server, "another server", 40)
            server.cont()
        elif fault == "kill":
            count()
            kfollowd.kill()
            time.sleep(rng.random() * 2)
            kfollowd.start()
        else:
            cluster.compact(cluster.revision())
        kfollowd.wait_ready()
        time.sleep(1)
    writer.stop()
    agrees(kfollowd, apis.servers[0], MAPS)
    count()
    recorder.wait(kfollowd.number("version"))
    kfollowd.stop()
    recorder.stop()
    judged = sum(judge(log, recorder.changes) for log in kfollowd.logs)
    assert counts["listings"] == 1, (counts, kfollowd.err())
    assert judged > 50 and counts["overlaps"] > 0, (judged, counts)
    for counted, n in {"changes": judged, "faults": len(faults), **counts}.items():
        figure(f"kube_follow.{counted}", n)


@pytest.mark.usefixtures("by_itself")
def test_a_restored_backup_leaves_no_ghost(make_apis, cluster, tmp_path, rng):
    """Objects that were made after the backup, in either past, and versions that both pasts have given."""
    apis = make_apis(1)
    server = apis.servers[0]
    kfollowd = Kfollowd(tmp_path / "replica", apis.servers, apis.identity, "v1", "configmaps").start()
    kfollowd.wait_ready()
    writer = Writer(apis.servers, rng)
    procs.wait_until(lambda: writer.n > 20, 60, 0.1, "writes")
    snapshot = tmp_path / "backup"
    cluster.ctl("snapshot", "save", str(snapshot))
    before = writer.n
    procs.wait_until(lambda: writer.n > before + 30, 60, 0.1, "writes after the backup")
    writer.stop()
    ghost = server.call("POST", "/api/v1/namespaces/prod/configmaps", obj=config_map("ghost"))
    kfollowd.wait(lambda: kfollowd.number("version") >= ghost.rv, "the ghost")
    old = kfollowd.number("version")

    server.kill()
    restore(cluster, snapshot)
    cluster.start()
    server.start()
    writer = Writer(apis.servers, rng, "n")
    procs.wait_until(lambda: listed(server, MAPS)[1] > old + 20, 90, 0.3, "the new past has passed the old one")
    writer.stop()
    agrees(kfollowd, server, MAPS)
    assert kfollowd.number("rewritten") >= 1, kfollowd.status
    assert "rewritten" in [entry[2] for entry in kfollowd.log if entry[0] == "cut"]
    assert "prod/ghost" not in kfollowd.dump()

    kfollowd.kill()  # and a replica of the past that is gone
    cluster.ctl("snapshot", "save", f"{snapshot}2")
    assert server.call("POST", "/api/v1/namespaces/prod/configmaps", obj=config_map("ghost")).code == 201
    kfollowd.start()
    agrees(kfollowd, server, MAPS)
    assert kfollowd.number("listings") == 0, kfollowd.status
    kfollowd.kill()
    server.kill()
    restore(cluster, f"{snapshot}2")
    cluster.start()
    server.start()
    assert server.call("POST", "/api/v1/namespaces/prod/configmaps", obj=config_map("other")).code == 201
    kfollowd.start()
    agrees(kfollowd, server, MAPS)
    # Its server has no history from before the restore, so this may be a 410 as well; all watchers are told in either case.
    assert kfollowd.number("listings") == 1 and "prod/ghost" not in kfollowd.dump(), kfollowd.status
    kfollowd.stop()


def write_in_one_revision(etcd, keys):
    """Writes values once more, all in one transaction: no API server does that."""
    def ask(path, body):
        request = urllib.request.Request(f"http://{etcd.members[0].endpoint}/v3/kv/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    named = [base64.b64encode(key.encode()).decode() for key in keys]
    values = [ask("range", {"key": key})["kvs"][0]["value"] for key in named]
    puts = [{"request_put": {"key": key, "value": value}} for key, value in zip(named, values)]
    assert ask("txn", {"success": puts})["succeeded"]


def test_objects_that_share_a_version_are_followed(make_apis, cluster, tmp_path):
    apis = make_apis(1)
    server = apis.servers[0]
    for ours in ("one", "two"):
        assert server.call("POST", "/api/v1/namespaces/prod/configmaps", obj=config_map(ours)).code == 201
    kfollowd = Kfollowd(tmp_path / "replica", apis.servers, apis.identity, "v1", "configmaps").start()
    kfollowd.wait_ready()
    for _ in range(2):
        write_in_one_revision(cluster, [f"/registry/configmaps/prod/{ours}" for ours in ("one", "two")])
        agrees(kfollowd, server, MAPS)
        listings, watches = kfollowd.number("listings"), kfollowd.number("watches")
        kfollowd.wait(lambda: kfollowd.number("watches") > watches + 1, "watches that were joined since", 40)
        agrees(kfollowd, server, MAPS)
        assert kfollowd.number("listings") == listings, kfollowd.status
    assert kfollowd.number("listings") == 3, kfollowd.status  # at the start, and once for each transaction
    kfollowd.stop()


class Address:
    """Where a balancer listens, in place of a server."""

    def __init__(self, balancer):
        self.url = f"https://{balancer.endpoint}"


@pytest.fixture
def behind_one_address(make_apis, tmp_path):
    """Two API servers behind one address, and a follower that knows only that."""
    apis = make_apis(2)
    balancer = Balancer(tmp_path, *(server.url.split("//")[1] for server in apis.servers), options="")
    kfollowd = Kfollowd(tmp_path / "replica", [Address(balancer)], apis.identity, "v1", "configmaps").start()
    kfollowd.wait_ready()
    yield apis, kfollowd
    balancer.close()


def test_servers_behind_one_address_are_not_taken_for_one(behind_one_address, cluster, rng, soak, figure):
    """Each connection leads to another server; one of them lags, or restarts with an empty cache."""
    apis, kfollowd = behind_one_address
    recorder, writer = Recorder(cluster, "/registry/configmaps/"), Writer(apis.servers, rng)
    faults = ["lag", "restart"] * (10 if soak else 2)
    for i, fault in enumerate(faults):
        seen = kfollowd.number("version")
        kfollowd.wait(lambda: kfollowd.number("version") >= seen + 10, "changes", 120)
        server = apis.servers[i // 2 % 2]
        if fault == "lag":  # its cache stays where it is while the other goes on; connections to it hang
            server.stop()
            time.sleep(1 + 3 * rng.random())
            server.cont()
        else:
            server.kill()
            time.sleep(rng.random())
            server.start()
        kfollowd.wait_ready()
    writer.stop()
    agrees(kfollowd, apis.servers[0], MAPS)
    recorder.wait(kfollowd.number("version"))
    assert kfollowd.number("rewritten") == 0, (kfollowd.status, kfollowd.err())
    kfollowd.stop()
    recorder.stop()
    judged = sum(judge(log, recorder.changes) for log in kfollowd.logs)
    assert judged > 10 * len(faults), judged
    figure("kube_follow.behind_one_address.changes", judged)


class Tap:
    """One direction of a connection of a Way."""

    def __init__(self, way, reader, is_answer):
        self.way, self.reader, self.is_answer, self.n = way, reader, is_answer, 0

    async def read(self, n):
        data = await self.reader.read(n)
        while data and not self.is_answer and self.way.is_deaf:
            data = await self.reader.read(n)
        if self.is_answer:
            self.way.says(self.n, len(data))
            self.n += len(data)
        return data


class Way(Proxy):
    """To a server behind a balancer. More than `list_bytes` on a connection are the answer to a list."""

    def __init__(self, server, list_bytes):
        super().__init__(f"127.0.0.1:{server.port}")
        self.list_bytes, self.n_said = list_bytes, 0
        self.is_deaf = self.is_deaf_soon = False

    async def _pass(self, reader, writer, from_server=False):
        await super()._pass(Tap(self, reader, from_server), writer, from_server)

    def says(self, before, n):
        self.n_said += n
        if before <= self.list_bytes < before + n:
            self.is_deaf = self.is_deaf_soon

    def answer_one_list(self):
        """The server hears nothing of what is asked after its next list, which goes on to its end."""
        self.is_deaf_soon = True

    def hear(self):
        self.is_deaf = self.is_deaf_soon = False

    def has_answered(self):
        """The list, to its end."""
        before = self.n_said
        time.sleep(0.2)
        return self.is_deaf and self.n_said == before


class TwoPasts:
    """Two API servers behind one address. After the fork etcd is restored; the first server is in the new past, and the second serves
    the cache of the old one, because its way to etcd is cut. `ghost` is of the old past alone, and so are all names with n of the new."""

    LIST_BYTES = 25000  # less than a list has, more than all else that is said before

    def __init__(self, folder, etcd, make_apis, rng):
        self.folder, self.etcd, self.rng, self.writer = folder, etcd, rng, None
        self.etcd_way = Proxy(etcd.members[0].endpoint)
        self.apis = make_apis(2, etcds=[f"http://{self.etcd_way.endpoint}"])
        self.first, self.second = self.apis.servers
        self.ways = [Way(server, self.LIST_BYTES) for server in self.apis.servers]
        self.balancer = Balancer(folder, *(way.endpoint for way in self.ways), options="")

    def close(self):
        for made in (self.balancer, self.etcd_way, *self.ways):
            made.close()

    def kfollowd(self, name):
        return Kfollowd(self.folder / name, [Address(self.balancer)], self.apis.identity, "v1", "configmaps", "--lists")

    def create(self, name, text=""):
        made = self.first.call("POST", "/api/v1/namespaces/prod/configmaps", obj=config_map(name, text=text))
        assert made.code == 201, made.body
        return made.rv

    def write(self, prefix):
        self.writer = Writer([self.first], self.rng, prefix)

    def fork(self, is_followed):
        """`is_followed`: a version -> whether followers have it. Returns the version at which the second server stays."""
        for i in range(5):
            self.create(f"large{i}", "x" * 10000)
        self.write("m")
        procs.wait_until(lambda: self.writer.n > 20, 60, 0.1, "writes")
        snapshot = self.folder / "backup"
        self.etcd.ctl("snapshot", "save", str(snapshot))
        before = self.writer.n
        procs.wait_until(lambda: self.writer.n > before + 10, 60, 0.1, "writes after the backup")
        self.writer.stop()
        ghost = self.create("ghost")
        procs.wait_until(lambda: is_followed(ghost) and self.cached(self.second)[1] >= ghost, 60, 0.1, "the ghost everywhere")
        self.etcd_way.refuse()
        old = self.cached(self.second)[1]
        self.first.kill()
        restore(self.etcd, snapshot)
        self.etcd.start()
        self.first.start()
        n = 0
        while self.create(f"n{n}") <= old + 10:  # nothing of them contradicts the state at `old` by itself
            n += 1
        objects, version = self.cached(self.second)
        assert version == old and "prod/ghost" in objects, "the second server has left the old past"
        return old

    def join(self):
        """The second server is restarted, with etcd as it is now."""
        self.second.kill()
        self.etcd_way.accept()
        self.second.start()

    @staticmethod
    def cached(server):
        """As the server's cache has it."""
        answer = server.call("GET", MAPS, {"resourceVersion": 0}, timeout=5)
        assert answer.code == 200, answer.body
        return {key_of(obj): obj for obj in answer.items}, answer.rv

    def lead_to(self, *servers):
        """Each server of the balancer, for connections to come."""
        for way, server in zip(self.ways, servers):
            way.lead_to(f"127.0.0.1:{server.port}")

    def cut(self):
        for way in self.ways:
            way.cut()

    def assert_no_mix(self, objects):
        new = [key for key in objects if key.split("/")[1].startswith("n")]
        assert not new or "prod/ghost" not in objects, f"the ghost of the old past, and {new} of the new one"


def requests_for_all(server):
    """How many lists and watches of all config maps the server has been sent; watches count when they end."""
    wanted = ('resource="configmaps"', 'scope="cluster"')
    return sum(n for name, n in server.metrics().items()
               if name.startswith("apiserver_request_total{") and all(label in name for label in wanted))


@pytest.fixture
def two_pasts(tmp_path, cluster, make_apis, rng):
    made = TwoPasts(tmp_path, cluster, make_apis, rng)
    yield made
    made.close()


def follow_across(pasts, old, i):
    """An empty replica lists the old past of the second server; all that it asks then goes to the first. None: it went another way."""
    pasts.lead_to(pasts.second, pasts.second)
    for way in pasts.ways:
        way.answer_one_list()
    kfollowd = pasts.kfollowd(f"across{i}").start()
    procs.wait_until(lambda: any(way.has_answered() for way in pasts.ways), 30, 0.01, "a list of the second server")
    pasts.lead_to(pasts.first, pasts.first)
    for way in pasts.ways:
        way.hear()
    pasts.cut()
    kfollowd.wait(lambda: kfollowd.log, "a list")
    if kfollowd.log[0][1] == old:
        kfollowd.wait(lambda: len(kfollowd.log) > 1, "another past")
        return kfollowd
    kfollowd.kill()
    return None


def test_a_list_of_the_old_past_and_a_watch_of_the_new_one_are_not_taken_for_one_past(two_pasts):
    """The connection of the list is lost, and the watch comes on one to the other server, which has the version of the list, too."""
    old = two_pasts.fork(lambda _: True)
    kfollowd = next(filter(None, (follow_across(two_pasts, old, i) for i in range(5))), None)
    assert kfollowd, "no replica has taken the list of the old past"
    assert kfollowd.log[1][0] == "cut", f"a change of the new past was shown behind the list of the old one: {kfollowd.log}"
    agrees(kfollowd, two_pasts.first, MAPS)
    assert kfollowd.number("rewritten") == 1 and "prod/ghost" not in kfollowd.dump(), kfollowd.status
    kfollowd.stop()


def test_a_server_of_the_old_past_behind_one_address_leaves_no_ghost(two_pasts, rng, soak, figure):
    """A follower of the old past is led to either server, again and again, until the second is restarted, too."""
    kfollowd = two_pasts.kfollowd("replica").start()
    kfollowd.wait_ready()
    two_pasts.fork(lambda version: kfollowd.number("version") >= version)
    two_pasts.write("n")
    asked = [requests_for_all(server) for server in two_pasts.apis.servers]
    for _ in range(300 if soak else 20):
        two_pasts.cut()
        time.sleep(2 * rng.random())
        two_pasts.assert_no_mix(kfollowd.dump())
    two_pasts.writer.stop()
    asked = [requests_for_all(server) - before for server, before in zip(two_pasts.apis.servers, asked)]
    assert min(asked) > 3, asked
    two_pasts.join()
    agrees(kfollowd, two_pasts.first, MAPS)
    two_pasts.assert_no_mix(kfollowd.dump())
    assert kfollowd.number("rewritten") >= 1 and "prod/ghost" not in kfollowd.dump(), kfollowd.status
    kfollowd.stop()
    figure("kube_follow.two_pasts.requests_to_the_old_past", asked[1])


def test_custom_resources_of_1_36_are_followed(make_apis, tmp_path):
    apis = make_apis(1, crds=True)
    custom_resources_of_1_36(apis.crds)
    kfollowd = Kfollowd(tmp_path / "replica", [apis.crds], apis.identity, WIDGETS.api_version, "widgets").start()
    agrees(kfollowd, apis.crds, WIDGETS.path())
    for i in range(20):
        made = apis.crds.call("POST", WIDGETS.path("prod"), obj=WIDGETS.object("prod", f"x{i}", spec={"size": i}))
        assert made.code == 201, made.body
    assert apis.crds.call("DELETE", WIDGETS.path("prod", "x3")).code == 200
    agrees(kfollowd, apis.crds, WIDGETS.path())
    assert kfollowd.number("listings") == 1 and kfollowd.number("streams") == 1, kfollowd.status
    apis.crds.kill()
    apis.crds.start()
    assert apis.crds.call("DELETE", WIDGETS.path("prod", "x4")).code == 200
    agrees(kfollowd, apis.crds, WIDGETS.path())
    assert kfollowd.number("rewritten") == 0, kfollowd.status
    kfollowd.stop()


def requests_of(server, resource):
    """How many lists and watches of a resource the server has been sent, by its own count. A watch counts when it ends."""
    text = server.call("GET", "/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith("apiserver_request_total{") and f'resource="{resource}"' in line and 'verb="LIST"' in line)


class Written:
    """A resource of a server with 20 objects that a test changes one by one."""

    def __init__(self, server, path, group_version, plural, make):
        self.server, self.path, self.group_version, self.plural = server, path, group_version, plural
        for i in range(20):
            assert server.call("POST", path, obj=make(f"q{i}")).code == 201

    def follow(self, folder, identity, *flags):
        kfollowd = Kfollowd(folder, [self.server], identity, self.group_version, self.plural, *flags).start()
        kfollowd.wait_ready()
        return kfollowd

    def write(self, number, text):
        """The version of the write, which is answered."""
        obj = self.server.call("GET", f"{self.path}/q{number}").json
        obj["metadata"]["annotations"] = {"text": text}
        answer = self.server.call("PUT", f"{self.path}/q{number}", obj=obj)
        assert answer.code == 200, answer.body
        return answer.rv


def both(make_apis):
    """The cluster, config maps of 1.20 and custom resources of 1.36."""
    apis = make_apis(1, crds=True)
    custom_resources_of_1_36(apis.crds)
    return apis, {
        "1_20": Written(apis.servers[0], "/api/v1/namespaces/prod/configmaps", "v1", "configmaps", config_map),
        "1_36": Written(apis.crds, WIDGETS.path("prod"), WIDGETS.api_version, "widgets",
                        lambda name: WIDGETS.object("prod", name, spec={"size": 1}))}


@pytest.mark.usefixtures("by_itself")
def test_a_thousand_questions_about_a_quiet_resource_cost_a_list_of_versions(make_apis, cluster, tmp_path, figure):
    apis, resources = both(make_apis)
    for release, resource in resources.items():
        kfollowd = resource.follow(tmp_path / release, apis.identity, "--questions", "1000")
        version = kfollowd.number("version")
        for i in range(3):
            time.sleep(1.2)  # quiet
            cluster.ctl("put", "/elsewhere", "1")
            lists, probes = requests_of(resource.server, resource.plural), kfollowd.number("probes")
            proven, ms = kfollowd.prove()
            assert proven >= version, (proven, version, kfollowd.status)
            kfollowd.wait(lambda: kfollowd.number("fresh") + kfollowd.number("unproven") > i, "counted")
            cost = requests_of(resource.server, resource.plural) - lists - (kfollowd.number("probes") - probes)
            assert cost <= 3, (cost, kfollowd.status)  # one of a probe that is not yet counted
            figure(f"kube_follow.fresh_ms.{release}", ms)
        assert kfollowd.number("unproven") == 0 and kfollowd.number("fresh_lists") <= 3, kfollowd.status
        kfollowd.stop()


@pytest.mark.usefixtures("by_itself")
def test_a_question_after_a_write_is_answered_with_the_write(make_apis, cluster, tmp_path, rng, soak, figure):
    """What is proven must have the write that was answered before the question. The pauses let the resource be quiet."""
    apis, resources = both(make_apis)
    for release, resource in resources.items():
        kfollowd = resource.follow(tmp_path / release, apis.identity)
        stale, took = 0, []
        for i in range(20000 if soak else 150):
            wrote = resource.write(rng.randrange(20), str(i))
            if rng.random() < 0.3:
                cluster.ctl("put", "/elsewhere", str(i))
            if rng.random() < 0.02:
                time.sleep(1.2)
            version, ms = kfollowd.prove()
            stale += version < wrote
            took.append(ms)
        assert stale == 0, f"{stale} of {len(took)} answers do not have the write before"
        figure(f"kube_follow.read_own_write_ms.{release}", sorted(took)[len(took) // 2])
        kfollowd.stop()
