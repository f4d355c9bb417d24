"""attack_stage: what bench/attacks stands on: the servers, the healthy clients, the attackers, a balancer, and one row of
its tables."""
import base64
import contextlib
import json
import os
import pathlib
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
SHARE, RATIO = 99.9, 2.0  # per cent of requests that succeed; p99 over that beside the sink
SETTLE_S = 20
END_S = 20  # of the healthy clients, when nobody needs them any more
RATIOS = {"events": ("etcd_events", "kube_events"), "creates": ("etcd_creates", "kube_creates"),
          "gets": ("reads", "visit_reads"), "lists": ("lists",)}
# What /readyz?verbose must say of an attack: the pools of which it must name one, and the attacker as who holds most. What
# the attacker must be told; None: its answers say it in their bodies, which nobody reads.
NAMED = {"selectors": (("watch_bytes", "list_bytes"), "HTTP 429"), "long-keys": (("watch_bytes",), "hold as much memory as they may"),
         "prefixes": (("watch_bytes",), None), "dialects": (("watch_bytes",), "hold as much memory as they may"),
         "list-selectors": (("list_bytes",), "HTTP 429"), "web-page": ((), "HTTP 403")}
PROBE_S = 0.1  # between two questions to /readyz
SHARES = {"gets": ("reads", "visit_reads"), "lists": ("lists",), "creates": ("etcd_creates", "kube_creates")}
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


class Stage(stage.Stage):
    """etcd with objects, and belfryd with little memory, so that its pools are small."""

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
        self.asked = [self.tools.belfryd, "--upstream", f"http://{self.processes['etcd'].address}",
                      "--listen", f"http://127.0.0.1:{port}", "--listen", f"http://{self.behind},proxy-from=127.0.0.1/32",
                      "--listen", f"https://{self.tls},cert={cert},key={key}",
                      "--admin", f"http://{self.admin}",
                      "--cache-dir", f"{self.folder.name}/belfryd", "--resources", f"{CRD},prefix=/registry/pods/",
                      "--workers", str(WORKERS), "--memory-bytes", str(self.tools.memory << 20), "--log-bytes", "16MiB",
                      *self.tools.belfryd_options]
        return self.asked

    @property
    def belfryd(self):
        return self.processes["belfryd"]

    def config(self):
        """Every setting that is a number."""
        lines = subprocess.run([*self.asked, "--print-config"], capture_output=True, text=True, check=True).stdout.splitlines()
        pairs = (line.split("#")[0].split(":", 1) for line in lines if ":" in line.split("#")[0])
        return {name.strip(): int(value) for name, value in pairs if value.strip().isdigit()}

    def restart(self):
        """A new belfryd, on what the old one has kept."""
        self.processes.pop("belfryd").stop()
        self.start_other("belfryd")
        if "belfryd" in self.missing:
            raise stage.Failure(self.missing["belfryd"])

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            lines = (line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
            return {name: float(value) for name, value in lines}

    def pool_lines(self):
        """What /readyz?verbose says of pools."""
        with urllib.request.urlopen(f"http://{self.admin}/readyz?verbose", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if "pools" in line]

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
        self.probes, self.wrong = 0, []
        self.threads = [threading.Thread(target=self.run), threading.Thread(target=self.probe)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopping.wait(0.05):
            self.most = max(self.most, self.servers.rss())

    def probe(self):
        """As a load balancer asks: each time on a new connection."""
        while not self.stopping.wait(PROBE_S):
            self.probes += 1
            try:
                with urllib.request.urlopen(f"http://{self.servers.admin}/readyz", timeout=2) as answer:
                    answer.read()
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

    def target(self, attack):
        """The address that the attack is for."""
        if attack.startswith("admin-"):
            return self.servers.admin
        return self.servers.tls if attack == "half-records" else self.address

    def make_ready(self):
        if self.servers.rss() > self.tools.memory << 19:  # freed memory that is still resident would count again
            self.stop_clients()
            self.servers.restart()
        if self.balanced and self.balancer is None:
            self.balancer = Balancer(self.servers)
        self.healthy = self.healthy or Healthy(self.servers, self.address, 200 if self.balanced else 1)
        self.connections = self.servers.metrics()["belfry_connections"]

    def attacked(self, name, address, seconds, *more):
        """What healthy clients notice of an attack, and what the attacker was told."""
        self.healthy.phase()
        attack = Attack(self.tools, name, address, *more)
        time.sleep(seconds)
        try:
            self.said = self.servers.pool_lines()
            return self.healthy.phase(), attack.stop()
        except BaseException:
            attack.popen.kill()
            raise

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
    """One attack: `more` are options of belfry-attack."""

    def __init__(self, name, attack=None, more=()):
        self.name, self.attack, self.more = name, attack or name, more
        self.figures, self.told, self.rss, self.ratios, self.rejected, self.said = {}, {}, 0, {}, {}, []

    def run(self, bed, tools):
        bed.make_ready()
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
            self.figures, self.told = bed.attacked(self.attack, bed.target(self.attack), seconds, *self.more)
            self.said = bed.said
        finally:
            self.rss, self.probes, self.wrong = sampler.stop(), sampler.probes, sampler.wrong
        self.stolen = servers.was_written(b"stolen")
        self.cpu = 100 * (servers.cpu_s() - cpu) / (time.monotonic() - began)
        after = servers.metrics()
        more = {name: after[name] - value for name, value in before.items() if "_rejected_" in name or "_refused_" in name}
        self.rejected = {name: value for name, value in more.items() if value > 0}
        # Of the last minute: for an attack of less than that, at most what is shown.
        self.longest_turn = after["belfry_worker_longest_turn_seconds"]

    def compare(self, bed, pairs, seconds):
        found = []
        for _ in range(pairs):
            pair = []
            for address in (bed.target(self.attack), bed.sink.address):
                bed.settle()
                pair.append(bed.attacked(self.attack, address, seconds, *self.more)[0])
            found.append(pair)
        for name, kinds in RATIOS.items():
            noisy, quiet = ([max(figures[f"{kind}_p99_ms"] for kind in kinds) for figures in side] for side in zip(*found))
            self.ratios[name] = statistics.median(noisy), statistics.median(quiet)

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
        if self.rss > tools.memory << 20:
            yield f"RSS {self.rss >> 20} MiB"
        if self.wrong:
            yield f"/readyz: {len(self.wrong)} of {self.probes} probes had no answer of 200 ({self.wrong[0]})"
        if self.stolen:
            yield "a page of another site has written a key"
        pools, reason = NAMED.get(self.attack, ((), None))
        if pools and not any(f" {pool}" in line and f"{ATTACKER} holds most" in line for pool in pools for line in self.said):
            yield f"/readyz does not name {' or '.join(pools)} and {ATTACKER}: {self.said}"
        if reason and not any(reason in text for text in self.told["told"]):
            yield f"the attacker was not told \"{reason}\""
        for name, (noisy, quiet) in self.ratios.items():
            if noisy > RATIO * max(quiet, tools.floor):
                yield f"p99 of {name} {noisy:.1f} ms, {quiet:.1f} ms beside the sink"

    def words(self):
        """What the attacker was told most, beside that its connections were closed."""
        told = sorted(self.told["told"].items(), key=lambda item: -item[1])
        told = [t for t in told if not t[0].startswith("closed")] or told
        return "; ".join(f"{n} x {text}" for text, n in told[:3]) or "nothing"

    def for_json(self, tools):
        return {"attack": self.name, **self.figures, "rss": self.rss, "told": self.told, "rejected": self.rejected,
                "probes": self.probes, "p99_ms": self.ratios, "faults": list(self.faults(tools))}
