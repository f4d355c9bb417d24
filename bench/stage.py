"""stage: what the scripts here have in common: servers on free loopback ports with folders of their own, runs of
belfry-bench against them, and a table of what they measured."""
import argparse
import copy
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
READY_S = 60
OWN_NETWORK = "BELFRY_BENCH_NETWORK"  # set inside of it
PORTS = (10000, 30000)  # below those that the kernel gives to clients: a server that was stopped finds its own free


class Failure(Exception):
    pass


def sound(figures, what):
    """The figures of a run of belfry-bench that did all that it was asked for; raises Failure when it complained."""
    if figures is None:
        raise Failure(f"{what}: it is not there")
    for kind in ("fault", "complaint"):
        if kind in figures:
            raise Failure(f"{what}: {figures[kind]}")
    return figures


def free_port():
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def peers():
    """Where the servers are that belfryd is compared with."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    return pathlib.Path(os.environ.get("PEERS", cache / "belfry-peers"))


def find_etcd(asked):
    """The etcd that the quoted figures are from if it is there, else the system's."""
    for path in (asked, peers() / "etcd", shutil.which("etcd")):
        if path and os.access(path, os.X_OK):
            out = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            return str(path), out.split("\n")[0].split()[-1]
    raise Failure("no etcd: install etcd-server, or say --etcd FILE")


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
        return answer.read().decode()


def metrics(address):
    """The lines of /metrics: name with labels -> value."""
    lines = (line.rsplit(" ", 1) for line in get(address, "/metrics").splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def ranges(etcd):
    """Range requests that it has had, by whom ever."""
    name = 'grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}'
    return metrics(etcd.address)[name]


class Process:
    """One server; stopped by its own pid."""

    def __init__(self, name, argv, address, log):
        self.name, self.argv, self.address = name, argv, address
        self.log = open(log, "wb")
        self.start()

    def start(self):
        """Also again, when it has ended."""
        self.popen = subprocess.Popen(self.argv, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def stop(self):
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.log.close()

    def at(self, port):
        """The same process at another of its ports."""
        other = copy.copy(self)
        other.address = f"127.0.0.1:{port}"
        return other

    def cpu_s(self):
        """By the process's own clock: the kernel's counters are too coarse for a second."""
        return time.clock_gettime(~self.popen.pid << 3 | 2)  # clock_getcpuclockid(3)

    def await_ready(self, bench, options):
        """Until a watch can be created."""
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            if self.popen.poll() is not None:
                raise Failure(f"{self.name}: ended at once (exit {self.popen.returncode})")
            ready = subprocess.run(
                [bench, "idle", "--target", self.address, "--connections", "1", "--settle", "0ms", "--timeout", "2s"]
                + options, capture_output=True)
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise Failure(f"{self.name}: not ready after {READY_S} s")


class Stage:
    """etcd and what is put before it, all fresh: memory is measured from where a server starts."""

    def __init__(self, tools, names):
        self.tools = tools
        self.processes = {}
        self.missing = {}
        self.folder = tempfile.TemporaryDirectory(prefix="belfry-bench-")
        try:
            self.start_etcd()
            for name in names:
                if name != "etcd":
                    self.start_other(name)
        except BaseException:
            self.stop()
            raise

    def start(self, name, argv, port):
        process = Process(name, argv, f"127.0.0.1:{port}", pathlib.Path(self.folder.name) / f"{name}.log")
        self.processes[name] = process
        process.await_ready(self.tools.bench, self.probe(name))

    etcd_options = ()

    def start_etcd(self):
        port, peer = free_port(), free_port()
        client_url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        self.start("etcd", [self.tools.etcd, "--data-dir", f"{self.folder.name}/etcd", "--unsafe-no-fsync",
                            "--log-level", "error", "--quota-backend-bytes", str(8 << 30),
                            "--listen-client-urls", client_url, "--advertise-client-urls", client_url,
                            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
                            "--initial-cluster", f"default={peer_url}", *self.etcd_options], port)

    def argv(self, name, port):
        """What starts `name`; raises Failure when it is not there. Of the script."""
        raise NotImplementedError

    def probe(self, name):
        """Options with which belfry-bench watches `name`."""
        return []

    def start_other(self, name):
        port = free_port()
        try:
            self.start(name, self.argv(name, port), port)
        except (Failure, OSError) as e:
            self.missing[name] = str(e) or f"{name}: cannot be started"
            failed = self.processes.pop(name, None)
            if failed:
                failed.stop()

    def measure(self, server, mode, options):
        """The figures of one run of belfry-bench; None when there is no such server."""
        argv = [self.tools.bench, mode, "--output", "json"] + options
        if server is not None:
            if server in self.missing:
                return None
            etcd = self.processes["etcd"]
            argv += ["--target", self.processes[server].address, "--pid", str(self.processes[server].popen.pid),
                     "--write-target", etcd.address, "--write-pid", str(etcd.popen.pid)]
        run = subprocess.run(argv, capture_output=True, text=True)
        try:
            figures = json.loads(run.stdout)
        except ValueError:
            figures = {"fault": run.stderr.strip().split("\n")[-1] or f"exit {run.returncode}"}
        if run.returncode != 0:
            figures["complaint"] = run.stderr.strip() or f"exit {run.returncode}"
        return figures

    def put(self, *options):
        """Into etcd, what a load needs; raises Failure when belfry-bench complains."""
        sound(self.measure("etcd", "put", list(options)), "put")

    def stop(self):
        for process in reversed(list(self.processes.values())):
            process.stop()
        self.folder.cleanup()


class Tiers(Stage):
    """etcd, and what serves its API before it: its grpc-proxy, belfryd."""

    def argv(self, name, port):
        upstream = self.processes["etcd"].address
        if name == "grpc-proxy":
            return [self.tools.etcd, "grpc-proxy", "start", f"--endpoints={upstream}",
                    f"--listen-addr=127.0.0.1:{port}", f"--advertise-client-url=127.0.0.1:{port}"]
        if self.tools.belfryd is None:
            raise Failure("belfryd: not built")
        return [self.tools.belfryd, "--upstream", f"http://{upstream}", "--listen", f"http://127.0.0.1:{port}",
                "--admin", f"http://127.0.0.1:{free_port()}", "--cache-dir", f"{self.folder.name}/belfryd"]


LIMITS = {"bare": [], "answered": ["--answered"]}  # modes of `belfry-bench bare`; answered: as clients of gRPC do


class Load:
    """A run of belfry-bench against each, `repeat` times in turn; its figures are medians. `limits`: of LIMITS, those
    that are measured beside the servers."""

    def __init__(self, name, mode, options, servers, limits=(), repeat=1, fresh=False):
        self.name, self.mode, self.options = name, mode, options.split()
        self.servers, self.limits, self.repeat, self.fresh = servers, limits, repeat, fresh
        self.figures = {}    # server or limit -> list of dicts

    def run(self, stage, tools, missing, say):
        for _ in range(self.repeat):
            for server in self.limits + self.servers:
                say(f"{self.name}: {server}")
                figures = self.measure(server, stage, tools, missing)
                if figures is not None:
                    self.figures.setdefault(server, []).append(figures)

    def measure(self, server, stage, tools, missing):
        if server in LIMITS:
            return stage.measure(None, "bare", self.options + LIMITS[server])
        if not self.fresh:
            return stage.measure(server, self.mode, self.options)
        if server in missing:
            return None
        own = type(stage)(tools, [server])
        try:
            return own.measure(server, self.mode, self.options)
        finally:
            own.stop()

    def value(self, server, figure):
        values = [f[figure] for f in self.figures.get(server, []) if figure in f]
        return statistics.median(values) if values else None

    def failed(self, server):
        """What went wrong in rounds of that server. Such a round is no part of a figure that can be quoted."""
        return [figures.get("fault") or figures["complaint"] for figures in self.figures.get(server, [])
                if "fault" in figures or "complaint" in figures]


class Table:
    """Figures of one subject, each with what it must be at most."""

    def __init__(self):
        self.rows = []
        self.complaints = []    # of runs whose figures are shown all the same

    def add(self, what, value, unit, must=None):
        verdict = "-" if must is None else "MET" if value <= must else "MISSED"
        self.rows.append({"work": what, "value": value, "unit": unit, "must": must, "verdict": verdict})

    def show(self, output, **more):
        """`more`: figures for scripts beside the rows."""
        if self.complaints:
            more["complaints"] = self.complaints
        for line in self.complaints:
            print(line, file=sys.stderr)
        if output == "json":
            print(json.dumps({**more, "rows": self.rows} if more else self.rows, indent=1))
            return
        lines = [["work", "unit", "measured", "must", ""]]
        for row in self.rows:
            must = "-" if row["must"] is None else f"<= {number(row['must'])}"
            lines.append([row["work"], row["unit"], number(row["value"]), must, row["verdict"]])
        print_lines(lines, left=(0, 1, 4))

    def met(self):
        return not self.complaints and all(row["verdict"] in ("-", "MET") for row in self.rows)


class Row:
    """A line of the table: one figure of a load, and what belfryd must reach: at most (or at least) a number, or a
    factor of what `of` has; `must` None: it is told, no more. FAILED: a round of belfryd, or of `of`, has failed."""

    def __init__(self, what, unit, load, figure, must=None, sense="<=", of=None, scale=1.0):
        self.what, self.unit, self.load, self.figure = what, unit, load, figure
        self.must, self.sense, self.of, self.scale = must, sense, of, scale

    def value(self, server):
        value = self.load.value(server, self.figure)
        return None if value is None else value * self.scale

    def limit(self):
        base = self.value(self.of) if self.of else 1.0
        return None if base is None else self.must * base

    def must_text(self):
        if self.must is None:
            return "-"
        text = f"{self.sense} {number(self.must)}"
        return f"{text} x {self.of}" if self.of else text

    def verdict(self):
        if self.load.failed("belfryd") or (self.of and self.load.failed(self.of)):
            return "FAILED"
        if self.must is None:
            return "-"
        mine, limit = self.value("belfryd"), self.limit()
        if mine is None or limit is None:
            return "NOT MEASURED"
        return "MET" if (mine <= limit if self.sense == "<=" else mine >= limit) else "MISSED"


def number(value):
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def ratio(a, b):
    return "-" if a is None or not b else f"{a / b:.2f}"


def lost_rows(loads, servers):
    """Deliveries and what was lost or doubled of them, by server, over all loads."""
    total = {server: [0, 0] for server in servers}
    for load in loads:
        for server in servers:
            for figures in load.figures.get(server, []):
                total[server][0] += figures.get("deliveries", 0)
                total[server][1] += figures.get("lost", 0) + figures.get("doubled", 0)
    return total


def lost_verdict(loads, servers):
    if not any(load.figures.get("belfryd") for load in loads):
        return "NOT MEASURED"
    return "MET" if lost_rows(loads, servers)["belfryd"][1] == 0 else "MISSED"


def print_lines(lines, left):
    """A table; the columns that are in `left` begin at the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for i, line in enumerate(lines):
        print("| " + " | ".join(c.ljust(w) if j in left else c.rjust(w)
                                for j, (c, w) in enumerate(zip(line, widths))) + " |")
        if i == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def columns(loads, servers):
    """The limits that were measured, and the servers."""
    return *(limit for limit in LIMITS if any(limit in load.limits for load in loads)), *servers


def print_table(rows, loads, servers, peer):
    """`peer`: whom belfryd is set against, beside the bare limit."""
    names = columns(loads, servers)
    lines = [["work", "unit", *names, f"{peer}/bare", "belfryd/bare", f"{peer}/belfryd", "belfryd must", ""]]
    for row in rows:
        value = {s: row.value(s) for s in names}
        bare = value.get("bare")
        lines.append([row.what, row.unit, *(number(v) for v in value.values()), ratio(value[peer], bare),
                      ratio(value["belfryd"], bare), ratio(value[peer], value["belfryd"]),
                      row.must_text(), row.verdict()])
    total = lost_rows(loads, servers)
    lines.append(["lost or doubled, of all deliveries", "events",
                  *("-" if s in LIMITS or not total[s][0] else f"{total[s][1]}" for s in names),
                  "-", "-", "-", "<= 0", lost_verdict(loads, servers)])
    print_lines(lines, left=(0, 1, len(lines[0]) - 2, len(lines[0]) - 1))


def print_json(rows, loads, servers, **more):
    print(json.dumps({**more, "lost": lost_rows(loads, servers),
                      "rows": [{"work": r.what, "unit": r.unit, "must": r.must_text(), "verdict": r.verdict(),
                                **{s: r.value(s) for s in columns(loads, servers)}} for r in rows]}, indent=1))


def complaints(loads):
    """Of every server, the peers included: whoever has one has failed, and so has the bench."""
    for load in loads:
        for server in load.figures:
            for why in load.failed(server):
                yield f"{load.name}: {server}: {why}"


def self_test():
    """A bench that measured all it was asked for passes; one round that complained fails it, whosever it was."""
    def exit_code(peer=(), mine=(), must=10):
        load = Load("a load", "mode", "", ("etcd", "belfryd"))
        load.figures = {"etcd": [{"x": 4.0}, *peer], "belfryd": [{"x": 3.0}, *mine]}
        row = Row("x of a load", "us", load, "x", must)
        return judged([row], [load], ("etcd", "belfryd"), {}, ()), row.verdict()
    assert exit_code() == (0, "MET")
    assert exit_code(must=2) == (1, "MISSED")
    for bad in ({"fault": "connection 7: Connection reset by peer"}, {"x": 3.0, "complaint": "1 of 9 events is lost"}):
        assert exit_code(mine=[bad]) == (1, "FAILED"), bad
        assert exit_code(peer=[bad]) == (1, "MET"), bad
        try:
            sound(bad, "a run")
            raise AssertionError("a complaint passes for sound")
        except Failure as e:
            assert next(iter(v for k, v in bad.items() if k != "x")) in str(e)
    assert sound({"x": 1.0}, "a run") == {"x": 1.0}
    table = Table()
    table.add("x", 1, "us", 2)
    assert table.met()
    table.complaints.append("storm: lost 1")
    assert not table.met()
    print("bench/stage: self-test ok")


def parser(text):
    """The options that all have."""
    out = argparse.ArgumentParser(description=text)
    out.add_argument("--quick", action="store_true", help="about a minute: less of everything, once")
    out.add_argument("--build", default=str(ROOT / "build" / "release"),
                     help="where bin/belfry-bench and bin/belfryd are")
    out.add_argument("--etcd", help="the etcd to run (default: 3.5.30 of the peers' folder, else the system's)")
    out.add_argument("--only", help="loads whose name has this in it")
    out.add_argument("--output", choices=("table", "json"), default="table")
    return out


def end_on_sigterm():
    """As an exception would end the script: servers are stopped on the way out, and their folders removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def parse(options):
    end_on_sigterm()
    args = options.parse_args()
    tool = pathlib.Path(args.build) / "bin"
    args.bench = str(tool / "belfry-bench")
    args.belfryd = str(tool / "belfryd") if os.access(tool / "belfryd", os.X_OK) else None
    if not os.access(args.bench, os.X_OK):
        options.error(f"{args.bench} is not built: cmake --workflow --preset release")
    return args


def enter_own_network(script):
    """Runs the script again in a network namespace of its own, where 10.77.0.0/16 is on the loopback interface: all of
    127.0.0.0/8 is one client. As another user than root it needs user namespaces."""
    if os.environ.get(OWN_NETWORK):
        return
    argv = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c",
            'ip link set lo up && ip addr add 10.77.0.1/16 dev lo && exec "$@"', "sh", sys.executable, script, *sys.argv[1:]]
    os.environ[OWN_NETWORK] = "1"
    os.execvp(argv[0], argv)


def raise_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(args, stage_class, servers, loads):
    """Runs the loads one after the other; returns who is missing and why."""
    def say(text):
        print(f"  {text}", file=sys.stderr, flush=True)

    stage = stage_class(args, servers)
    try:
        missing = dict(stage.missing)
        for load in loads:
            load.run(stage, args, missing, say)
        return missing
    finally:
        stage.stop()


def judged(rows, loads, servers, missing, optional):
    """The exit code: 0 if every figure is what it must be, nothing was lost, and no round has failed."""
    left_out = [name for name in optional if name in missing]
    verdicts = [row.verdict() for row in rows if row.of not in left_out] + [lost_verdict(loads, servers)]
    is_sound = not any(complaints(loads)) and set(missing) <= set(left_out)
    return 0 if is_sound and all(verdict in ("MET", "-") for verdict in verdicts) else 1


def main(script, text, stage_class, servers, peer, plan, optional=()):
    """All of a script. `plan(quick)` gives loads and rows; rows that set belfryd against one of `optional` do not count
    when that is not there. Returns the exit code."""
    args = parse(parser(text.split("\n")[0]))
    raise_descriptors()
    loads, rows = plan(args.quick)
    if args.only:
        loads = [load for load in loads if args.only in load.name]
        rows = [row for row in rows if row.load in loads]
    began = time.monotonic()
    try:
        args.etcd, version = find_etcd(args.etcd)
        missing = measure(args, stage_class, servers, loads)
    except Failure as e:
        print(f"{script}: {e}", file=sys.stderr)
        return 1
    bad = list(complaints(loads))
    if args.output == "json":
        print_json(rows, loads, servers, etcd=version, missing=missing, complaints=bad)
    else:
        print(f"etcd {version}; 256 B values; CPU of the server a delivery; {time.monotonic() - began:.0f} s")
        print_table(rows, loads, servers, peer)
    for line in list(missing.values()) + bad:
        print(line, file=sys.stderr if args.output == "json" else sys.stdout)
    return judged(rows, loads, servers, missing, optional)


if __name__ == "__main__":
    self_test()
