"""self_test: every bench ends with 1 and says why when belfry-bench complains, and does so without a Python traceback.

The servers are stubs, a Python program that answers every request, so that a bench gets as far as its loads within a
second; belfry-bench is a stub that exits 1 for all modes but those that a row allows. What an exit code of a healthy
client does is tested here as well. Needs no build."""
import argparse
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import attack_rows  # noqa: E402
import attack_stage  # noqa: E402
import stage  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
COMPLAINT = "the stub complains"
LIMIT_S = 60

BENCH = f"""#!/bin/bash
for word in $STUB_ALLOWS; do [ "$1" != "$word" ] || {{ echo "{{}}"; exit 0; }}; done
case "$*" in *"--settle 0ms"*) # is the server there?
    [[ "$*" =~ 127.0.0.1:([0-9]+) ]] && : 2>/dev/null </dev/tcp/127.0.0.1/"${{BASH_REMATCH[1]}}"; exit ;;
esac
echo "belfry-bench: {COMPLAINT}" >&2
exit 1
"""

# Numbers are 0 whatever their name: the page of /metrics has those that a bench reads by name.
SERVER = f"""#!{sys.executable}
import http.server, re, sys, threading
if "--version" in sys.argv:
    print("etcd Version: 0")
    sys.exit(0)
if "--print-config" in sys.argv:
    sys.exit(0)
NAMES = '''@NAMES@'''

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # head and body go together
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = NAMES if self.path == "/metrics" else '{{"token": "stub"}}'
        self.send_response(500 if self.path.endswith("/kv/put") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
        self.wfile.flush()
    do_POST = do_GET
    def log_message(self, *_):
        pass

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

words = " ".join(word for option, word in zip(sys.argv, [*sys.argv[1:], ""]) if re.match("--(listen|admin)", option))
words += " ".join(word for word in sys.argv if word.startswith("--listen-addr="))
servers = [Server(("127.0.0.1", int(port)), Handler) for port in sorted(set(re.findall("127.0.0.1:([0-9]+)", words)))]
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
"""
NAMES = """grpc_server_started_total{grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 0
belfry_upstream_revisions_total 0
belfry_connections_accepted_total 0
belfry_upstream_fallbacks_total{reason="list"} 0
belfry_upstream_fallbacks_total{reason="relay"} 0
belfry_sent_bytes_total 0
belfry_received_bytes_total 0
belfry_connections 0
"""
# A bench, its options, the modes of belfry-bench that do well, and what it must say.
ROWS = [
    ("attacks", [], "", f"put: .*{COMPLAINT}"),
    ("attacks", [], "put", "belfry-attack sink: does not start"),
    ("coldstart", [], "", f"put: .*{COMPLAINT}"),
    ("fanout", ["--only", "1,000 connections, paced"], "", f"1,000 connections, paced: belfryd: .*{COMPLAINT}"),
    ("gateway", [], "", "a put was refused"),
    ("informer", [], "", f"put: .*{COMPLAINT}"),
    ("kube", [], "", f"put: .*{COMPLAINT}"),
    ("kube", ["--only", "1,000 watchers, paced"], "put", f"1,000 watchers, paced: belfryd: .*{COMPLAINT}"),
    ("kubetier", [], "", "no kube-apiserver"),
    ("listwatch", [], "", f"put: .*{COMPLAINT}"),
    ("listwatch", [], "put", f"tiers: .*{COMPLAINT}"),
    ("many", ["--only", "100 x 300"], "", f"100 x 300: belfryd: .*{COMPLAINT}"),
    ("reads", [], "", f"put: .*{COMPLAINT}"),
    ("reads", ["--only", "one in flight, serializable"], "put", f"one in flight, serializable: belfryd: .*{COMPLAINT}"),
    ("rights", ["--only", "tokens"], "", f"resume: .*{COMPLAINT}"),
    ("sse", [], "", "a put was refused"),
    ("stack", ["--only", "latency"], "", f"fanout: etcd: .*{COMPLAINT}"),
    ("stack", ["--only", "link"], "", f"put: etcd: .*{COMPLAINT}"),
    ("stack", ["--only", "storm"], "", f"storm: .*{COMPLAINT}"),
    ("stack", ["--only", "storm"], "storm", "storm: it says no time"),
    ("tls", ["--only", "1,000 connections, paced"], "", f"1,000 connections, paced: .*{COMPLAINT}"),
]


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def make_build(folder):
    write_program(folder / "bin" / "belfry-bench", BENCH)
    attacks = "#!/bin/sh\n[ \"$1\" != --list ] || exec printf '%s\\n' @ATTACKS@\nexit 1\n"
    write_program(folder / "bin" / "belfry-attack", attacks.replace("@ATTACKS@", " ".join({row.attack or name for name, row in attack_rows.EXPECTED.items()})))
    write_program(folder / "bin" / "tests" / "informer", "#!/bin/sh\nexit 1\n")
    for name in ("bin/belfryd", "etcd"):
        write_program(folder / name, SERVER.replace("@NAMES@", NAMES))


def run_row(folder, script, options, allows, must_say):
    """What is wrong with how the bench ended; None: nothing."""
    argv = [HERE / script, "--quick", "--build", folder, "--etcd", folder / "etcd", *options]
    env = {**os.environ, "STUB_ALLOWS": allows, "PEERS": str(folder / "peers")}
    try:
        run = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as e:
        return f"not over after {LIMIT_S} s: {e.stderr}"
    said = run.stdout + run.stderr
    if run.returncode != 1:
        return f"exit {run.returncode}: {said[-500:]}"
    if "Traceback" in said or not re.search(must_say, said):
        return f"does not say \"{must_say}\": {said[-1000:]}"
    return None


def every_bench_has_a_row():
    mine = {path.name for path in HERE.iterdir()
            if path.is_file() and os.access(path, os.X_OK) and path.read_text().startswith("#!/usr/bin/env python3")}
    assert mine == {row[0] for row in ROWS}, mine ^ {row[0] for row in ROWS}


def a_healthy_client_that_fails_is_a_failure():
    class Dying(attack_stage.Healthy):
        def __init__(self, code):
            attack_stage.Child.__init__(self, ["sh", "-c", f"echo ready; cat >/dev/null; exit {code}"])
    Dying(0).stop()
    try:
        Dying(3).stop()
        raise AssertionError("exit 3 of the healthy clients passes")
    except stage.Failure as e:
        assert "ended with 3" in str(e), e


def belfryd_with_too_few_watches_is_a_complaint():
    many = runpy.run_path(str(HERE / "many"))
    crowd = many["Crowd"](10, 10, many["SERVERS"], 1)
    few = {"watchers": 50, "connections": 5, "stopped_by": "time"}
    crowd.figures = {"etcd": [few], "belfryd": [{"watchers": 100, "connections": 10, "stopped_by": ""}]}
    assert not list(stage.complaints([crowd])) and len(list(crowd.shortfalls())) == 1
    crowd.figures["belfryd"] = [few]
    assert [line for line in stage.complaints([crowd]) if "50 of 100 watches" in line], list(stage.complaints([crowd]))


def an_attack_must_bring_about_what_its_line_says():
    """A row whose figures are perfect passes; each thing that is missing is a fault."""
    def faults(name="selectors", said=(f"[!]pools: watch_bytes: x; {attack_rows.ATTACKER} holds most, 49 %",),
               told=("message: belfry: memory limit reached",), failed=0, rss=0, rise=9):
        row = attack_stage.Row(name)
        row.seconds, row.rise, row.probes, row.wrong, row.wrongs, row.stolen = 60, rise, 9, [], [], False
        row.said, row.told, row.rss = list(said), {"told": dict.fromkeys(told, 1)}, rss
        row.figures = dict.fromkeys([f"{kind}{end}" for kind in (
            "reads", "visit_reads", "lists", "etcd_creates", "kube_creates", "history") for end in ("", "_p99_ms")], 1)
        row.figures.update({f"{name}_failed": 0 for name in ("reads", "visit_reads", "lists", "etcd_creates", "kube_creates")})
        row.figures.update({f"{d}_{end}": 0 for d in ("etcd", "kube") for end in ("events_lost", "watches_cut")})
        row.figures.update(leases_lost=0, keep_alives_cut=0, history_failed=failed, history_why="late")
        return list(row.faults(argparse.Namespace(memory=128, floor=5, balanced=False)))
    assert not faults(), faults()
    assert faults(said=()) and faults(said=(f"[!]pools: watch_bytes: x; {attack_rows.ATTACKER} holds most, 0 %",))
    assert faults(said=(f"[!]pools: memory: x; {attack_rows.ATTACKER} holds most, 49 %",))
    assert faults(told=()) and faults(failed=1) and faults(rss=161 << 20) and not faults(rss=160 << 20)
    assert not faults("backfills", (), ()) and faults("backfills", (), (), rise=4)
    try:
        attack_rows.Expected(told="GOAWAY")
        raise RuntimeError("a line without a pool must say why")
    except AssertionError:
        pass


def main():
    an_attack_must_bring_about_what_its_line_says()
    every_bench_has_a_row()
    a_healthy_client_that_fails_is_a_failure()
    belfryd_with_too_few_watches_is_a_complaint()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="belfry-bench-stub-") as name:
        folder = pathlib.Path(name)
        make_build(folder)
        for row in ROWS:
            wrong = run_row(folder, *row)
            print(f"bench/{row[0]} {' '.join(row[1])} {f'({row[2]} does well)' if row[2] else ''}: {wrong or 'ok'}", flush=True)
            failed += wrong is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
