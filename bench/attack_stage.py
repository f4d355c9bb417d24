"""attack_stage: what bench/attacks stands on: the servers, the healthy clients, the attackers, a balancer, and one row of
its tables."""
import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import stage

ATTACKER = "10.77.0.99"
WORKERS = 2
OBJECTS = 1000
CRD = pathlib.Path(__file__).resolve().parent / "kube-pods.yaml"
SHARE, RATIO = 100, 2.0  # per cent of requests that succeed; p99 over that beside the sink
RSS = 1.25  # resident memory, of --memory-bytes
SETTLE_S = 20
END_S = 20  # of the healthy clients, when nobody needs them any more
RATIOS = {"events": ("etcd_events", "kube_events"), "creates": ("etcd_creates", "kube_creates"),
          "gets": ("reads", "visit_reads"), "lists": ("lists",),
          "history": ("history",)}
PROBE_S = 0.1  # between two questions to /readyz
SHARES = {"gets": ("reads", "visit_reads"), "lists": ("lists",), "creates": ("etcd_creates", "kube_creates"), "history": ("history",)}
BACKFILLS = 'belfry_upstream_fallbacks_total{reason="backfill"}'
BALANCER = """global
    maxconn 9000
    nbthread 1
defaults
    mode tcp
    maxconn 9000
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen clients
    bind 127.0.0.1:{port}
    server tier {target} send-proxy-v2
"""


class Expected:
    """What an attack must bring about, beside that healthy clients notice nothing."""

    def __init__(self, pool=None, told=None, why="", after_s=0, client=ATTACKER, to="clients", more=(), options=(), files=None, fresh=False,
                 beside=(), rises=None, within=None):
        assert (pool and told) or why, "an attack with neither a pool nor a reason says why"
        self.pool = pool          # /readyz?verbose must name it, and `client` as the one that holds most of it
        self.told = told          # part of what the attacker must be told
        self.why = why            # why no pool, or no words, can be expected
        self.after_s = after_s    # an attack that is shorter brings it about only sometimes
        self.client = client
        self.to = to              # the address that it is for: of "clients", "admin", "tls"
        self.more = more          # options of belfry-attack
        self.options = options    # of belfryd, for this attack alone
        self.files = files        # descriptors that belfryd may have
        self.fresh = fresh        # belfryd is restarted: it has not served such attacks before
        self.beside = beside      # other attacks that go on meanwhile, from addresses of their own
        self.rises = rises        # a counter of /metrics, and by how much it must rise
        self.within = within or {}  # ms that a p99 may have, whatever it is beside the sink: work that is done in turns


MEMORY = "hold as much memory as they may"
SERVED = "it is served like other clients: it takes turns on the CPU, and holds nothing"
FAST = ("--connects", "4000", "--connections", "4000")
TURNS = "its watches wait until it is their client's turn"
SLOW = "what it holds is small, and its time is over only later"
# Every attack of `belfry-attack --list` has a line: a new one without a line fails.
EXPECTED = {
    "heads": Expected(told="room was needed for call_bytes", why="a connection that fills the pool is ended in the same turn: it holds nothing then"),
    "halves": Expected("requests", "room was needed for requests"),
    "streams": Expected("watch_bytes", "room was needed for watch_bytes"),
    "upstream": Expected("calls", "as many calls under way as it may"),
    "ranges": Expected("call_bytes", "memory limit reached; try again", more=("--rate", "256KiB")),
    "gzip": Expected(told="message after decompression larger than max", why="each message is refused before it is held"),
    "watches": Expected("watch_bytes", MEMORY),
    "ids": Expected(told="duplicate watch ID", why="it cancels watches, so it fills the pool only in some runs"),
    "tokens": Expected("watch_bytes", MEMORY, more=("--rate", "4MiB")),
    "selectors": Expected("watch_bytes", "message: belfry: memory limit reached"),
    "long-keys": Expected("watch_bytes", MEMORY),
    "prefixes": Expected("watch_bytes", "comment: the streams of this client hold as much memory as they may"),
    "dialects": Expected("watch_bytes", MEMORY),
    "list-selectors": Expected("list_bytes", "HTTP 429"),
    "rapid-reset": Expected(told="ENHANCE_YOUR_CALM", why="a flood is ended, and holds nothing"),
    "continuation": Expected(told="a flood of frames", why="a flood is ended, and holds nothing"),
    "ping": Expected(told="a flood of frames", why="a flood is ended, and holds nothing", after_s=5),
    "settings": Expected(told="ENHANCE_YOUR_CALM", why="a flood is ended, and holds nothing"),
    "window-update": Expected(why=SERVED),
    "empty-data": Expected(why=SERVED),
    "hpack-bomb": Expected(told="HTTP 431", why="each head is refused before it is held"),
    "trailers": Expected(why=SERVED),
    "slow-head": Expected(told="a request's head was begun and not completed in time", why=SLOW, after_s=20),
    "slow-body": Expected(told="the request was not complete in time", why=SLOW, after_s=20),
    "slow-read": Expected(why=SLOW),
    "zero-window": Expected(told="RST_STREAM INTERNAL_ERROR", why=SLOW, after_s=20),
    "lists": Expected(why=SLOW),
    "slow-head-http1": Expected(told="closed", why=SLOW, after_s=20),
    "chunk-extensions": Expected(told="HTTP 405", why="a body without a use is read and dropped"),
    "trailers-http1": Expected(told="HTTP 405", why="a body without a use is read and dropped"),
    "connections": Expected("connections", "closed", options=("--max-connections", "2000"), more=FAST),
    "newcomers": Expected(why=SERVED),
    "admin-pages": Expected("connections", "this address serves few connections", to="admin"),
    "admin-idle": Expected("connections", "closed", to="admin", files=2048, more=FAST),
    "admin-metrics": Expected(why="eight connections are few, and each is served in turn", to="admin"),
    "web-page": Expected(told="HTTP 403", why="it is refused before anything is held"),
    # 127.0.0.0/8 is one client: its newcomers are refused, whichever of its addresses they have.
    "many-addresses": Expected("connections", "closed", client="127.0.0.0/8", options=("--max-connections", "500"), more=FAST),
    "backfills": Expected(why=TURNS, fresh=True, rises=(BACKFILLS, 5)),
    "unread-backfills": Expected(why=TURNS, fresh=True, rises=(BACKFILLS, 5), within={"history": 3000}),
    "returners": Expected("watch_bytes", "room was needed for watch_bytes", beside=("crowd",)),
    "crowd": Expected(told="message: belfry: memory limit reached", why="each of its addresses holds as much as the others"),
    "lease-ttl": Expected(why=SERVED),
    "lease-revoke": Expected(why=SERVED),
    "minted": Expected(why=SERVED),
    "peek": Expected(why=SERVED),
    "half-records": Expected("memory", "closed", to="tls", more=FAST),
}


class Stage(stage.Stage):
    """etcd with objects, and belfryd with little memory, so that its pools are small."""

    more, files = (), None  # options of belfryd that one attack needs, and descriptors that it may have

    def start_etcd(self):
        super().start_etcd()
        for options in (["--kube"], []):
            self.put("--puts", str(OBJECTS), *options)

    def argv(self, name, port):
        if self.tools.belfryd is None:
            raise stage.Failure("belfryd: not built")
        self.admin, self.behind, self.tls = (f"127.0.0.1:{stage.free_port()}" for _ in range(3))
        cert, key = (f"{self.folder.name}/server.{kind}" for kind in ("pem", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=server", "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=60)
        limit = ["prlimit", f"--nofile={self.files}"] if self.files else []
        self.asked = [*limit, self.tools.belfryd, "--upstream", f"http://{self.processes['etcd'].address}",
                      "--listen", f"http://127.0.0.1:{port}", "--listen", f"http://{self.behind},proxy-from=127.0.0.1/32",
                      "--listen", f"https://{self.tls},cert={cert},key={key}",
                      "--admin", f"http://{self.admin}",
                      "--cache-dir", f"{self.folder.name}/belfryd", "--resources", f"{CRD},prefix=/registry/pods/",
                      "--workers", str(WORKERS), "--memory-bytes", str(self.tools.memory << 20), "--log-bytes", "16MiB",
                      *self.tools.belfryd_options, *self.more]
        return self.asked

    @property
    def belfryd(self):
        return self.processes["belfryd"]

    def config(self):
        """Every setting that is a number."""
        lines = subprocess.run([*self.asked, "--print-config"], capture_output=True, text=True, check=True).stdout.splitlines()
        pairs = (line.split("#")[0].split(":", 1) for line in lines if ":" in line.split("#")[0])
        return {name.strip(): int(value) for name, value in pairs if value.strip().isdigit()}

    def restart(self, more=(), files=None):
        """A new belfryd, on what the old one has kept."""
        self.more, self.files = more, files
        self.processes.pop("belfryd").stop()
        self.start_other("belfryd")
        if "belfryd" in self.missing:
            raise stage.Failure(self.missing["belfryd"])

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            lines = (line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
            return {name: float(value) for name, value in lines}

    def was_written(self, key):
        """Whether etcd has the key."""
        asked = json.dumps({"key": base64.b64encode(key).decode()}).encode()
        with urllib.request.urlopen(f"http://{self.processes['etcd'].address}/v3/kv/range", asked, timeout=10) as answer:
            return "kvs" in json.load(answer)

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.belfryd.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        status = pathlib.Path(f"/proc/{self.belfryd.popen.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


class Sampler:
    """The most memory that belfryd had, and whether /readyz was answered, in the background."""

    def __init__(self, servers):
        self.servers, self.most, self.stopping = servers, servers.rss(), threading.Event()
        self.probes, self.wrong, self.said = 0, [], set()
        self.threads = [threading.Thread(target=self.run), threading.Thread(target=self.probe)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopping.wait(0.05):
            self.most = max(self.most, self.servers.rss())

    def probe(self):
        """As a load balancer asks: each time on a new connection. What is said of pools is kept."""
        while not self.stopping.wait(PROBE_S):
            self.probes += 1
            try:
                with urllib.request.urlopen(f"http://{self.servers.admin}/readyz?verbose", timeout=2) as answer:
                    self.said.update(line for line in answer.read().decode().splitlines() if line.startswith("[!]pools"))
            except OSError as e:
                self.wrong.append(str(e))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self.most


class Child:
    """A process that says "ready", and ends when it is stopped."""

    def __init__(self, argv):
        self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.popen.stdout.readline() != "ready\n":
            raise stage.Failure(f"{os.path.basename(argv[0])} {argv[1]}: does not start")

    def stop(self):
        self.popen.stdin.close()
        self.popen.terminate()
        self.popen.wait()
        self.popen.stdout.close()


class Healthy(Child):
    """The healthy clients. The end of their input ends them."""

    def stop(self):
        self.popen.stdin.close()
        try:
            code = self.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            code = self.popen.wait()
        self.popen.stdout.close()
        if code != 0:
            raise stage.Failure(f"the healthy clients have ended with {code}")

    def __init__(self, servers, address, sources):
        super().__init__([servers.tools.bench, "healthy", "--target", address, "--sources", str(sources),
                          "--write-target", servers.processes["etcd"].address])

    def phase(self):
        """What they have noticed since the last time."""
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        line = self.popen.stdout.readline()
        if not line:
            raise stage.Failure("the healthy clients have ended")
        return json.loads(line)


class Sink(Child):
    """The server that discards."""

    def __init__(self, tools):
        self.address = f"127.0.0.1:{stage.free_port()}"
        super().__init__([tools.attack, "sink", "--target", self.address])


class Balancer:
    """HAProxy, which names its clients by the PROXY protocol."""

    def __init__(self, servers):
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            raise stage.Failure("there is no haproxy: tools/bootstrap installs it")
        port = stage.free_port()
        self.address = f"127.0.0.1:{port}"
        path = pathlib.Path(servers.folder.name) / "haproxy.cfg"
        path.write_text(BALANCER.format(port=port, target=servers.behind))
        self.process = stage.Process("haproxy", [program, "-db", "-f", str(path)], self.address, f"{path}.log")
        self.process.await_ready(servers.tools.bench, [])

    def stop(self):
        self.process.stop()


class Attack:
    """One attack that goes on until it is stopped, so that it lasts as long as requests that it delays."""

    def __init__(self, tools, name, address, *more):
        self.popen = subprocess.Popen([tools.attack, name, "--target", address, "--source", ATTACKER, "--time", "10m", *more],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()

    def stop(self):
        """What the attacker was told."""
        self.popen.terminate()
        out, err = self.popen.communicate()
        if self.popen.returncode != 0:
            raise stage.Failure(f"belfry-attack: {err.strip()}")
        return json.loads(out)


class Bed:
    """The servers and the healthy clients; both are replaced when an attack has left its marks on them."""

    def __init__(self, tools, balanced=False):
        self.tools, self.servers, self.healthy = tools, Stage(tools, ["belfryd"]), None
        self.balanced, self.balancer = balanced, None
        if self.servers.missing:
            raise stage.Failure(self.servers.missing["belfryd"])
        self.sink = Sink(tools)

    @property
    def address(self):
        return self.balancer.address if self.balanced else self.servers.belfryd.address

    def target(self, to):
        """The address that an attack is for."""
        return {"clients": self.address, "admin": self.servers.admin, "tls": self.servers.tls}[to]

    def make_ready(self, must):
        servers = self.servers
        # Freed memory that is still resident would count again.
        if must.fresh or (servers.more, servers.files) != (must.options, must.files) or servers.rss() > self.tools.memory << 19:
            self.stop_clients()
            servers.restart(must.options, must.files)
        if self.balanced and self.balancer is None:
            self.balancer = Balancer(self.servers)
        self.healthy = self.healthy or Healthy(self.servers, self.address, 200 if self.balanced else 1)
        self.connections = self.servers.metrics()["belfry_connections"]

    def attacked(self, names, address, seconds, *more):
        """What healthy clients notice of attacks, and what the first one was told."""
        self.healthy.phase()
        with contextlib.ExitStack() as stack:
            attacks = [Attack(self.tools, name, address, *more) for name in names]
            for attack in attacks:
                stack.callback(attack.kill)
            time.sleep(seconds)
            figures = self.healthy.phase()
            return figures, [attack.stop() for attack in attacks][0]

    def settle(self):
        """Until the attacker's connections are gone."""
        until = time.monotonic() + SETTLE_S
        while self.servers.metrics()["belfry_connections"] > self.connections + 20 and time.monotonic() < until:
            time.sleep(0.1)

    def stop_clients(self):
        gone, self.healthy, self.balancer = (self.healthy, self.balancer), None, None
        with contextlib.ExitStack() as stack:  # each is stopped, also when another one complains
            for what in gone:
                if what:
                    stack.callback(what.stop)

    def stop(self):
        with contextlib.ExitStack() as stack:
            for what in (self.servers, self.sink):
                stack.callback(what.stop)
            self.stop_clients()


class Row:
    """One attack: `more` are options of belfry-attack; `expected` is what it must bring about, if not that of its name."""

    def __init__(self, name, attack=None, more=(), expected=None):
        self.name, self.attack = name, attack or name
        self.expected = expected or EXPECTED[self.attack]
        self.more = (*self.expected.more, *more)
        self.figures, self.told, self.rss, self.ratios, self.rejected, self.said = {}, {}, 0, {}, {}, []

    def run(self, bed, tools):
        bed.make_ready(self.expected)
        print(f"  {self.name}", file=sys.stderr, flush=True)
        self.count(bed, tools.seconds)
        if tools.pairs:
            self.compare(bed, tools.pairs, tools.pair_s)
        bed.settle()
        found = list(self.faults(tools))
        for fault in found:
            print(f"    {fault}", file=sys.stderr, flush=True)
        if found:
            bed.stop_clients()

    def count(self, bed, seconds):
        servers = bed.servers
        before, cpu, began = servers.metrics(), servers.cpu_s(), time.monotonic()
        sampler = Sampler(servers)
        try:
            self.figures, self.told = bed.attacked(self.attacks(), bed.target(self.expected.to), seconds, *self.more)
        finally:
            self.rss, self.probes, self.wrong, self.said = sampler.stop(), sampler.probes, sampler.wrong, sorted(sampler.said)
        self.stolen = servers.was_written(b"stolen")
        self.cpu = 100 * (servers.cpu_s() - cpu) / (time.monotonic() - began)
        after = servers.metrics()
        more = {name: after[name] - value for name, value in before.items() if "_rejected_" in name or "_refused_" in name}
        self.rejected = {name: value for name, value in more.items() if value > 0}
        self.rise = after.get(self.expected.rises[0], 0) - before.get(self.expected.rises[0], 0) if self.expected.rises else 0
        self.seconds = seconds
        # Of the last minute: for an attack of less than that, at most what is shown.
        self.longest_turn = after["belfry_worker_longest_turn_seconds"]

    def attacks(self):
        return (self.attack, *self.expected.beside)

    def compare(self, bed, pairs, seconds):
        found = []
        for _ in range(pairs):
            pair = []
            for address in (bed.target(self.expected.to), bed.sink.address):
                bed.settle()
                pair.append(bed.attacked(self.attacks(), address, seconds, *self.more)[0])
            found.append(pair)
        for name in RATIOS:
            noisy, quiet = ([self.p99(figures, name) for figures in side] for side in zip(*found))
            self.ratios[name] = statistics.median(noisy), statistics.median(quiet)

    @staticmethod
    def p99(figures, name):
        return max(figures[f"{kind}_p99_ms"] for kind in RATIOS[name])

    def share(self, name):
        """Of requests that succeeded, in per cent."""
        ok = sum(self.figures[kind] for kind in SHARES[name])
        failed = sum(self.figures[f"{kind}_failed"] for kind in SHARES[name])
        return 100 * ok / max(1, ok + failed)

    def faults(self, tools):
        """What is not as it must be."""
        f = self.figures
        if f["leases_lost"]:
            yield f"{f['leases_lost']:.0f} leases lost"
        for name, kinds in SHARES.items():
            if self.share(name) < SHARE:
                why = next((f[f"{kind}_why"] for kind in kinds if f[f"{kind}_why"]), "")
                yield f"{name} {self.share(name):.2f} % ({why})"
        for dialect in ("etcd", "kube"):
            lost, cut = f[f"{dialect}_events_lost"], f[f"{dialect}_watches_cut"]
            if lost or cut:
                yield f"{dialect}: {lost:.0f} events lost, {cut:.0f} watches cut ({f[f'{dialect}_watches_why']})"
        if f["keep_alives_cut"]:
            yield f"{f['keep_alives_cut']:.0f} connections with keep-alives cut ({f['keep_alives_why']})"
        if self.rss > RSS * (tools.memory << 20):
            yield f"RSS {self.rss >> 20} MiB"
        if self.wrong:
            yield f"/readyz: {len(self.wrong)} of {self.probes} probes had no answer of 200 ({self.wrong[0]})"
        if self.stolen:
            yield "a page of another site has written a key"
        yield from self.unexpected()
        for name, limit in self.expected.within.items():
            if self.p99(f, name) > limit:
                yield f"p99 of {name} {self.p99(f, name):.0f} ms, and not {limit} ms"
        for name, (noisy, quiet) in self.ratios.items():
            if name not in self.expected.within and noisy > RATIO * max(quiet, tools.floor):
                yield f"p99 of {name} {noisy:.1f} ms, {quiet:.1f} ms beside the sink"

    def unexpected(self):
        """What the attack has not brought about."""
        must = self.expected
        # A client that holds nothing now is not the one that fills the pool.
        named = re.compile(rf"pools: {must.pool}\b.*; {re.escape(must.client)} holds most, [1-9]")
        if self.seconds < must.after_s:
            return
        if must.pool and not any(named.search(line) for line in self.said):
            yield f"/readyz?verbose does not name {must.pool} and {must.client}: {self.said}"
        if must.told and not any(must.told in text for text in self.told["told"]):
            yield f"the attacker was not told \"{must.told}\""
        if must.rises and self.rise < must.rises[1]:
            yield f"{must.rises[0]} rose by {self.rise:.0f}, and not by {must.rises[1]}"

    def words(self):
        """What the attacker was told most, beside that its connections were closed."""
        told = sorted(self.told["told"].items(), key=lambda item: -item[1])
        told = [t for t in told if not t[0].startswith("closed")] or told
        return "; ".join(f"{n} x {text}" for text, n in told[:3]) or "nothing"

    def for_json(self, tools):
        return {"attack": self.name, **self.figures, "rss": self.rss, "told": self.told, "rejected": self.rejected,
                "probes": self.probes, "p99_ms": self.ratios, "said": self.said, "faults": list(self.faults(tools))}
