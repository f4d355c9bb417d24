"""attack_stage: what bench/attacks stands on: the servers, the healthy clients, the attackers, a balancer, and one row of
its tables."""
import base64
import contextlib
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import attack_asks
import stage
from attack_rows import ATTACKER, CLOSED, EXPECTED, NOTHING

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


class Stage(attack_asks.Asks, stage.Stage):
    """etcd with objects, and belfryd with little memory, so that its pools are small."""

    more, files = (), None  # options of belfryd that one attack needs, and descriptors that it may have
    rights = ""  # of its listeners
    wrongs = ()  # what `during` has found

    def start_etcd(self):
        super().start_etcd()
        for options in (["--kube"], []):
            self.put("--puts", str(OBJECTS), *options)

    def argv(self, name, port):
        if self.tools.belfryd is None:
            raise stage.Failure("belfryd: not built")
        self.admin, self.behind, self.tls = (f"127.0.0.1:{stage.free_port()}" for _ in range(3))
        self.cert, key = (f"{self.folder.name}/server.{kind}" for kind in ("pem", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", self.cert], check=True, capture_output=True, timeout=60)
        limit = ["prlimit", f"--nofile={self.files}"] if self.files else []
        self.asked = [*limit, self.tools.belfryd, "--upstream", f"http://{self.upstream()}",
                      "--listen", f"http://127.0.0.1:{port}{self.rights}",
                      "--listen", f"http://{self.behind},proxy-from=127.0.0.1/32{self.rights}",
                      "--listen", f"https://{self.tls},cert={self.cert},key={key}{self.rights}",
                      "--admin", f"http://{self.admin}",
                      "--cache-dir", f"{self.folder.name}/belfryd", "--resources", f"{CRD},prefix=/registry/pods/",
                      "--workers", str(WORKERS), "--memory-bytes", str(self.tools.memory << 20), "--log-bytes", "16MiB",
                      *self.tools.belfryd_options, *self.more]
        return self.asked

    def upstream(self):
        """What belfryd follows."""
        return self.processes["etcd"].address

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
        request = urllib.request.Request(f"http://{self.processes['etcd'].address}/v3/kv/range", asked, self.etcd_headers())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return "kvs" in json.load(answer)

    def etcd_headers(self):
        return {}

    def credentials(self):
        """Options of belfry-bench healthy."""
        return []

    def tokens(self, name):
        """Options of belfry-attack, so that it shows the tokens of that file."""
        return []

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.belfryd.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        status = pathlib.Path(f"/proc/{self.belfryd.popen.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def readyz(admin):
    """The status of /readyz?verbose, and its lines."""
    try:
        with urllib.request.urlopen(f"http://{admin}/readyz?verbose", timeout=2) as answer:
            return 200, answer.read().decode().splitlines()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode().splitlines()


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

    def __init__(self, servers, address, sources, over_tls):
        target = ["--target", f"https://{servers.tls}", "--kube-target", address, "--cacert", servers.cert] if over_tls else ["--target", address]
        super().__init__([servers.tools.bench, "healthy", *target, "--sources", str(sources),
                          "--write-target", servers.processes["etcd"].address, *servers.credentials()])

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

    def __init__(self, tools, stages, balanced=False):
        self.tools, self.stages, self.healthy = tools, stages, None
        self.balanced, self.balancer, self.servers, self.over_tls = balanced, None, None, False
        self.begin("plain")
        self.sink = Sink(tools)

    def begin(self, on):
        """Servers of that kind, in place of those there are."""
        if self.servers:
            self.stop_clients()
            self.servers.stop()
        self.on, self.servers = on, self.stages[on](self.tools, ["belfryd"])
        if self.servers.missing:
            why = self.servers.missing["belfryd"]
            self.servers.stop()
            raise stage.Failure(why)

    @property
    def address(self):
        return self.balancer.address if self.balanced else self.servers.belfryd.address

    def target(self, to):
        """The address that an attack is for."""
        return {"clients": self.address, "admin": self.servers.admin, "tls": self.servers.tls}[to]

    def make_ready(self, must):
        if must.on != self.on:
            self.begin(must.on)
        servers = self.servers
        # Freed memory that is still resident would count again.
        if must.fresh or (servers.more, servers.files) != (must.options, must.files) or servers.rss() > self.tools.memory << 19:
            self.stop_clients()
            servers.restart(must.options, must.files)
        if self.balanced and self.balancer is None:
            self.balancer = Balancer(self.servers)
        if not must.healthy or must.over_tls != self.over_tls:
            self.stop_clients()
        if must.healthy and self.healthy is None:
            self.healthy, self.over_tls = Healthy(self.servers, self.address, 200 if self.balanced else 1, must.over_tls), must.over_tls
        self.connections = self.servers.metrics()["belfry_connections"]

    def attacked(self, names, address, seconds, *more, during=None):
        """What healthy clients notice of attacks, and what the first one was told. They go on until `during` is over."""
        if self.healthy:
            self.healthy.phase()
        with contextlib.ExitStack() as stack:
            attacks = [Attack(self.tools, name, address, *more) for name in names]
            for attack in attacks:
                stack.callback(attack.kill)
            until = time.monotonic() + seconds
            if during:
                during()
            time.sleep(max(0, until - time.monotonic()))
            figures = self.healthy.phase() if self.healthy else {}
            told = [attack.stop() for attack in attacks]
            return figures, told[0] if told else self.servers.told()

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
        self.name = name
        self.expected = expected or EXPECTED[name]
        self.attack = attack or self.expected.attack or name
        self.more = (*self.expected.more, *more)
        self.figures, self.told, self.rss, self.ratios, self.rejected, self.said = {}, {}, 0, {}, {}, []

    def run(self, bed, tools):
        bed.make_ready(self.expected)
        print(f"  {self.name}", file=sys.stderr, flush=True)
        self.count(bed, tools.seconds)
        if tools.pairs and self.expected.healthy:
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
            during = getattr(servers, self.expected.during) if self.expected.during else None
            servers.wrongs = []
            self.figures, self.told = bed.attacked(self.attacks(), bed.target(self.expected.to), seconds, *self.more,
                                                   *servers.tokens(self.expected.tokens), during=during)
        finally:
            self.rss, self.probes, self.wrong, self.said = sampler.stop(), sampler.probes, sampler.wrong, sorted(sampler.said)
        self.wrongs = list(servers.wrongs)
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
        """None of belfry-attack: a method of the servers is all."""
        return (self.attack, *self.expected.beside) if self.attack != NOTHING else ()

    def compare(self, bed, pairs, seconds):
        found = []
        for _ in range(pairs):
            pair = []
            for address in (bed.target(self.expected.to), bed.sink.address):
                bed.settle()
                pair.append(bed.attacked(self.attacks(), address, seconds, *self.more, *bed.servers.tokens(self.expected.tokens))[0])
            found.append(pair)
        for name in RATIOS:
            noisy, quiet = ([self.p99(figures, name) for figures in side] for side in zip(*found))
            self.ratios[name] = statistics.median(noisy), statistics.median(quiet)

    @staticmethod
    def p99(figures, name):
        return max(figures[f"{kind}_p99_ms"] for kind in RATIOS[name])

    def share(self, name):
        """Of requests that succeeded, in per cent; NaN: there were no healthy clients."""
        if not self.figures:
            return math.nan
        ok = sum(self.figures[kind] for kind in SHARES[name])
        failed = sum(self.figures[f"{kind}_failed"] for kind in SHARES[name])
        return 100 * ok / max(1, ok + failed)

    def faults(self, tools):
        """What is not as it must be."""
        if self.expected.healthy:
            yield from self.noticed(tools)
        yield from dict.fromkeys(self.wrongs)
        if self.rss > RSS * (tools.memory << 20):
            yield f"RSS {self.rss >> 20} MiB"
        if self.stolen:
            yield "a page of another site has written a key"
        yield from self.unexpected(tools)

    def noticed(self, tools):
        """By healthy clients, and by who asks whether the tier is ready."""
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
        if self.wrong:
            yield f"/readyz: {len(self.wrong)} of {self.probes} probes had no answer of 200 ({self.wrong[0]})"
        for name, limit in self.expected.within.items():
            if self.p99(f, name) > limit:
                yield f"p99 of {name} {self.p99(f, name):.0f} ms, and not {limit} ms"
        for name, (noisy, quiet) in self.ratios.items():
            if name not in self.expected.within and noisy > RATIO * max(quiet, tools.floor):
                yield f"p99 of {name} {noisy:.1f} ms, {quiet:.1f} ms beside the sink"

    def unexpected(self, tools):
        """What the attack has not brought about, or must not have."""
        must = self.expected
        for text in self.told["told"]:
            if any(part in text for part in must.never):
                yield f"the attacker was told: {text}"
        # A client that holds nothing now is not the one that fills the pool.
        named = re.compile(rf"pools: ({must.pool})\b.*; {re.escape(must.client)} holds most, [1-9]")
        if self.seconds < must.after_s:
            return
        if must.pool and not any(named.search(line) for line in self.said):
            yield f"/readyz?verbose does not name {must.pool} and {must.client}: {self.said}"
        is_kept = tools.balanced and must.told == CLOSED
        if must.told and not is_kept and not any(re.search(must.told, text) for text in self.told["told"]):
            yield f"the attacker was not told \"{must.told}\""
        if must.received and self.told["bytes_in"] < must.received:
            yield f"the attacker was sent {self.told['bytes_in']} bytes, and not {must.received}"
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
