"""belfryctl top: against an admin address made of a few lines of Python, and against a real belfryd."""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import termios
import threading
import time
import urllib.request

import pytest

import hostile
import needs
import procs
import rawh2
from client import binary
from patience import Patience, within
from ports import free_port

WORKER = {
    "answered": True, "position": 41, "turns": 5, "longest_turn_us": 9,
    "core": {"streams": 3, "watchers": 12, "riding": 9, "waiting": 2, "boarded": 0, "stalled": 1, "solo": 0, "parked": 1,
             "deliveries": 100, "compacted": 0},
    "inbound": {"connections": 3, "bytes_out": 5000}, "relay": {"relayed": 4},
    "reads": {"replica_linearizable": 20, "replica_serializable": 3, "upstream_linearizable": 2, "upstream_serializable": 0},
    "latency": {"buckets": [0] * 17, "count": 0, "sum_s": 0}}
NUMBERS = {
    "name": "edge-1", "version": "9.9.9", "up_ms": 61000, "draining": False,
    "upstream": {"answered": True, "standing": "ready", "reason": "", "state": "live", "endpoint": "http://up:2379",
                 "revision": 41, "upstream_revision": 42, "silent_ms": 12, "follower": {"events": 7, "listings": 1}},
    "summary": {"rejected": {"flood": 5, "host": 6}},
    "replica": {"history_oldest": 2, "history_bytes": 4096}, "log": {"oldest": 30, "newest": 41, "bytes": 999},
    "workers": [WORKER]}


def watchers(n):
    rows = [{"lag": n - i, "state": "parked", "dialect": "grpc", "peer": f"10.0.0.1:{i}", "user": "", "client": "grpc-go",
             "key": f"/services/{i}", "prefix": True, "watch_id": i, "sent_bytes": i, "age_ms": 1000} for i in range(n)]
    return {"revision": 41, "watchers": n, "matched": n, "rows": rows}


CLIENTS = {"clients": 1, "left_out": 0, "rows": [
    {"client": "10.0.0.9", "class": "client", "cpu_percent": 61.5, "memory_bytes": 20000, "connections": 3, "watchers": 12,
     "calls": 4, "lists": 0, "requests_per_s": 25.5, "calls_per_s": 7, "connections_per_s": 0, "bytes_in_per_s": 10,
     "bytes_out_per_s": 20}]}


HOUR = {"every_s": 5, "columns": ["time_s", "deliveries", "watchers"], "first": 0, "rows": [[1, None, 2], [6, 700, 4], [11, 100, 4]]}


class Admin(http.server.BaseHTTPRequestHandler):
    """Answers as its server's attributes say."""
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.paths.append(self.path)
        document = NUMBERS
        if self.path.startswith("/debug/watchers"):
            document = watchers(self.server.rows)
        elif self.path.startswith("/debug/clients"):
            document = CLIENTS
        elif self.path.startswith("/debug/hour"):
            document = HOUR
        body = self.server.body if self.server.body is not None else json.dumps(document).encode()
        time.sleep(self.server.delay)
        self.send_response(self.server.status)
        if self.server.how == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(0, len(body), 1000):
                piece = body[i:i + 1000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif self.server.how == "length":
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body[:len(body) // 2] if self.server.how == "cut" else body)
            self.close_connection = True


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class TcpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True


@pytest.fixture
def serve(tmp_path):
    """serve(how="length", unix=False, ...) -> (server, address)"""
    made = []

    def start(how="length", unix=False, rows=3, status=200, body=None, delay=0.0):
        path = str(tmp_path / f"admin{len(made)}")
        server = UnixServer(path, Admin) if unix else TcpServer(("127.0.0.1", 0), Admin)
        server.how, server.rows, server.status, server.body, server.delay, server.paths = how, rows, status, body, delay, []
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        made.append(server)
        return server, f"unix://{path}" if unix else f"http://127.0.0.1:{server.server_address[1]}"
    yield start
    for server in made:
        server.shutdown()
        server.server_close()


def top(address, *args, **kw):
    return procs.run([binary("belfryctl"), "top", "--admin", address, *args], **kw)


@pytest.mark.parametrize("how", ["length", "chunked", "close"])
@pytest.mark.parametrize("unix", [False, True])
def test_one_screen_is_printed_where_there_is_no_terminal(serve, how, unix):
    _, address = serve(how, unix)
    text = top(address).stdout.decode()
    assert text.startswith("belfryd 9.9.9  edge-1  up 1m01s  READY  http://up:2379 > edge-1\n")
    assert "lag 1 rev, 12ms" in text and "synced 9   catching up 2   parked 1" in text
    assert "   reads 23, by upstream 2   rejected 11\n" in text
    assert re.search(r"^ +3 +0 B +1s  parked +10.0.0.1:0 +grpc-go +grpc +/services/0\*$", text, re.M)
    assert "\033" not in text


def test_json_is_one_object_with_both_documents(serve):
    server, address = serve("chunked", rows=10000)
    done = top(address, "--once", "--output", "json", "--limit", "10000", "--sort", "sent", "--filter", "/a b&c=%é")
    document = json.loads(done.stdout)
    assert document == {"numbers": NUMBERS, "watchers": watchers(10000)}
    assert server.paths == ["/debug/numbers",
                            "/debug/watchers?sort=sent&limit=10000&filter=%2Fa%20b%26c%3D%25%C3%A9"]


def test_group_is_asked_for(serve):
    server, address = serve()
    top(address, "--once", "--group", "range")
    assert server.paths[1] == "/debug/watchers?sort=lag&limit=50&group=range"


def test_the_last_hour_is_shown_instead_of_the_table(serve):
    server, address = serve()
    text = top(address, "--hour").stdout.decode()
    assert re.search(r"^LAST HOUR +NOW +LARGEST   of 15s; a restart forgets it$", text, re.M), text
    assert re.search(r"^deliveries +100/s +700/s +█▂$", text, re.M), text
    assert "10.0.0.1" not in text
    done = json.loads(top(address, "--hour", "--output", "json").stdout)
    assert done["hour"] == HOUR and done["watchers"]["rows"]
    assert server.paths.count("/debug/hour") == 2


def test_clients_are_asked_for_and_shown(serve):
    server, address = serve()
    text = top(address, "--clients").stdout.decode()
    assert server.paths[1] == "/debug/clients?sort=cpu&limit=50"
    assert re.search(r"^ +61\.5 +20 kB +3 +12 +4 +25\.5 +7\.0 +10 B +20 B  10\.0\.0\.9$", text, re.M)
    done = top(address, "--clients", "--sort", "calls", "--limit", "7", "--output", "json")
    assert server.paths[3] == "/debug/clients?sort=calls&limit=7"
    assert json.loads(done.stdout) == {"numbers": NUMBERS, "clients": CLIENTS}


def test_nobody_there_is_one_line_that_says_what_to_do_and_exit_3(serve, tmp_path):
    for address in (f"http://127.0.0.1:{free_port()}", f"unix://{tmp_path}/nobody", "http://name.invalid:1"):
        done = top(address, check=False)
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 3 and done.stdout == b""
        assert len(lines) == 1 and address in lines[0] and "--admin" in lines[0]


def test_silence_ends_in_time_with_exit_3(serve):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with within(5):
            done = top(f"127.0.0.1:{silent.getsockname()[1]}", "--command-timeout", "500ms", check=False)
        assert done.returncode == 3 and b"no answer in time" in done.stderr


@pytest.mark.parametrize("kw, code, words", [
    (dict(status=404), 1, "answered 404: is that the admin address of a belfryd?"),
    (dict(status=503, body=b"too many questions at once: try again\n"), 1, "answered 503: too many questions at once"),
    (dict(body=b"<html>"), 1, "not a belfryd"),
    (dict(how="cut"), 1, "not a belfryd"),
])
def test_wrong_answers_are_told(serve, kw, code, words):
    _, address = serve(**kw)
    done = top(address, check=False)
    assert done.returncode == code and words in done.stderr.decode()


@pytest.mark.parametrize("args, words", [
    (["--admin", "https://127.0.0.1:1"], "plain HTTP"), (["--admin", "nonsense"], "http://HOST:PORT"),
    (["--limit", "0"], "--limit"), (["--limit", "10001"], "--limit"), (["--sort", "colour"], "lag|sent|age"),
    (["--filter", "x" * 256], "--filter"), (["-w", "json"], "--output json"), (["--sort", "cpu"], "needs --clients"),
    (["--clients", "--sort", "lag"], "cpu, memory, calls or connections"), (["--clients", "--limit", "1001"], "1 to 1000"),
    (["--clients", "--group", "peer"], "--group")])
def test_usage_mistakes_exit_2(args, words):
    done = procs.run([binary("belfryctl"), "top", *args], check=False)
    assert done.returncode == 2 and words in done.stderr.decode()


class Terminal:
    """belfryctl top on a pseudo-terminal."""

    def __init__(self, address, columns=120, lines=20):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave, self.seen = slave, b""
        self.proc = procs.spawn([binary("belfryctl"), "top", "--admin", address, "--interval", "200ms"],
                                stdin=slave, stdout=slave, stderr=slave)

    def read_until(self, words, timeout=10):
        patience = Patience(timeout)
        while words not in self.seen:
            assert not patience.is_over(), self.seen[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536)
        seen, self.seen = self.seen, b""
        return seen

    def press(self, keys):
        os.write(self.master, keys)

    def close(self):
        os.close(self.master)
        os.close(self.slave)


def test_live_screen_obeys_keys_and_leaves_the_terminal_as_it_was(serve):
    server, address = serve(rows=100)
    t = Terminal(address)
    t.read_until(b"s:sort(lag)")
    assert not termios.tcgetattr(t.slave)[3] & termios.ICANON
    t.press(b"s")
    t.read_until(b"s:sort(sent)")
    t.press(b"g")
    t.read_until(b"g:group(range)")
    t.press(b"/xy\x7fz\n")
    t.read_until(b"/:filter(xz)")
    procs.wait_until(lambda: "/debug/watchers?sort=sent&limit=50&group=range&filter=xz" in server.paths, 10)
    t.press(b"c")
    t.read_until(b"s:sort(cpu) c:watchers")
    t.press(b"gs")  # only the s means something there
    t.read_until(b"s:sort(memory) c:watchers")
    procs.wait_until(lambda: "/debug/clients?sort=memory&limit=50" in server.paths, 10)
    t.press(b"/10.0\n")
    t.read_until(b"c:watchers h:hour q:quit /:filter(10.0)")
    procs.wait_until(lambda: "/debug/clients?sort=memory&limit=50&filter=10%2E0" in server.paths, 10)
    t.press(b"c")
    t.read_until(b"s:sort(sent) g:group(range)")
    t.press(b"h")
    t.read_until(b"LAST HOUR")
    t.seen = b""
    t.press(b"h")
    t.read_until(b"LAG ")
    t.press(b"q")
    assert t.proc.wait(10) == 0
    assert t.read_until(b"\033[?1049l")
    assert termios.tcgetattr(t.slave) == t.before
    t.close()


@pytest.mark.parametrize("sig, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_the_terminal_as_it_was(serve, sig, code):
    _, address = serve()
    t = Terminal(address)
    t.read_until(b"s:sort(lag)")
    t.proc.send_signal(sig)
    assert t.proc.wait(10) == code
    assert t.read_until(b"\033[?1049l")
    assert termios.tcgetattr(t.slave) == t.before
    t.close()


def test_live_screen_outlives_a_daemon_that_goes_away(serve):
    server, address = serve()
    t = Terminal(address)
    t.read_until(b"READY")
    server.status = 503
    t.read_until(b"answered 503")
    server.status = 200
    t.seen = b""
    t.read_until(b"READY")
    t.press(b"q")
    assert t.proc.wait(10) == 0
    t.close()


# ---- a real belfryd ----

@pytest.fixture
def tier(cluster, tmp_path):
    """A belfryd that follows the cluster: (client address, admin address)."""
    client, admin = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    with open(tmp_path / "belfryd.log", "wb") as log:
        proc = procs.spawn([binary("belfryd"), "--upstream", cluster.members[0].url, "--listen", client, "--admin", admin,
                            "--cache-dir", tmp_path / "cache", "--name", "edge-7"],
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ready():
        assert proc.poll() is None, (tmp_path / "belfryd.log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(admin + "/readyz", timeout=2) as reply:
                return reply.status == 200
        except OSError:
            return False
    procs.wait_until(ready, 30, 0.1)
    yield client, admin
    procs.end(proc, signal.SIGTERM, 40)


def page(address):
    with urllib.request.urlopen(address, timeout=5) as reply:
        return reply.read().decode()


def test_a_real_tier_shows_its_watchers(tier):
    client, admin = tier
    watch = procs.spawn(["etcdctl", "--endpoints", client, "watch", "--prefix", "/services/"], stdout=subprocess.DEVNULL)

    def document():
        return json.loads(top(admin, "--once", "--output", "json").stdout)
    procs.wait_until(lambda: len(document()["watchers"]["rows"]) == 1, 10, 0.1)
    row = document()["watchers"]["rows"][0]
    assert (row["key"], row["prefix"], row["state"], row["lag"], row["dialect"]) == ("/services/", True, "synced", 0, "grpc")
    text = top(admin).stdout.decode()
    assert "edge-7" in text and "READY" in text and "/services/*" in text
    assert re.search(r"^belfry_watchers\{dialect=\"grpc\",state=\"synced\"\} 1$", page(admin + "/metrics"), re.M)
    groups = json.loads(page(admin + "/debug/watchers?group=range"))["groups"]
    assert groups == [{"group": "/services/*", "watchers": 1, "parked": 0, "max_lag": 0}]
    assert page(admin + "/livez") == "ok\n" and "[+]upstream ok" in page(admin + "/readyz?verbose")
    procs.end(watch)
    procs.wait_until(lambda: document()["watchers"]["watchers"] == 0, 10, 0.1)


def test_promtool_is_pleased_with_a_real_tier(tier):
    if subprocess.run(["sh", "-c", "command -v promtool"], capture_output=True).returncode != 0:
        needs.missing("promtool (Debian package prometheus)")
    _, admin = tier
    done = subprocess.run(["promtool", "check", "metrics"], input=page(admin + "/metrics").encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


# ---- a real terminal ----


class Tmux:
    """belfryctl top, or another command, in a terminal of tmux, as a person sees it."""

    def __init__(self, folder, admin, columns, lines=24, command=None):
        if shutil.which("tmux") is None:
            needs.missing("tmux (Debian package)")
        self.base = ["tmux", "-S", str(folder / f"tmux{columns}"), "-f", "/dev/null"]
        command = command or f"TERM=screen {binary('belfryctl')} top --admin {admin} --interval 300ms --limit 200"
        self.call("new-session", "-d", "-x", str(columns), "-y", str(lines), command)

    def call(self, *args):
        return procs.run([*self.base, *args], env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout.decode()

    def lines(self):
        return self.call("capture-pane", "-p").rstrip("\n").split("\n")

    def press(self, *keys):
        self.call("send-keys", *keys)

    def wait(self, words):
        """Until a line has them; returns all lines."""
        procs.wait_until(lambda: any(words in line for line in self.lines()), 20, 0.1, lambda: "\n".join(self.lines()))
        return self.lines()

    def end(self):
        procs.run([*self.base, "kill-server"], check=False)


@pytest.fixture
def crowded(tier):
    """A tier with 60 watchers of one client."""
    client, admin = tier
    peer = rawh2.Connection(int(client.rsplit(":", 1)[1]), window=1 << 20)
    stream = peer.open(hostile.WATCH, hostile.text(1, hostile.text(1, b"/services/00")))
    for i in range(1, 60):
        peer.send(rawh2.frame(rawh2.DATA, 0, stream, rawh2.message(hostile.text(1, hostile.text(1, b"/services/%02d" % i)))))
    procs.wait_until(lambda: json.loads(page(admin + "/debug/watchers"))["watchers"] == 60, 20, 0.1)
    yield admin
    peer.close()


@pytest.mark.parametrize("columns, names", [
    (80, ["LAG*", "STATE", "RANGE", "PEER"]),
    (120, ["LAG*", "SENT", "AGE", "STATE", "RANGE", "PEER", "WHO"])])
def test_top_fits_the_terminal_it_is_in(crowded, tmp_path, columns, names):
    t = Tmux(tmp_path, crowded, columns)
    try:
        lines = t.wait("1-16 of 60")
        assert len(lines) == 24 and lines[0].startswith("belfryd ") and "READY" in lines[0]
        assert lines[6].split() == names
        assert lines[6].index("RANGE") < 50
        assert all(len(line) <= columns for line in lines)
        rows = lines[7:23]
        assert all("synced" in row and "/services/" in row and "127.0.0.1:" in row for row in rows), rows
        assert lines[23].startswith("1-16 of 60  ?:help s:sort(lag) g:group(no) c:clients h:hour q:quit /:filter()")

        t.press("s")
        sorted_by_sent = t.wait("s:sort(sent)")
        assert "SENT*" in sorted_by_sent[6].split(), "what it is sorted by is in sight"
        t.press("s")
        assert "AGE*" in t.wait("s:sort(age)")[6].split()
        t.press("c")
        assert t.wait("c:watchers")[6].split()[0] == "CPU" and "CLIENT" in t.lines()[6]
    finally:
        t.end()


def test_top_scrolls_filters_and_helps(crowded, tmp_path):
    t = Tmux(tmp_path, crowded, 80)
    try:
        first = t.wait("1-16 of 60")[7]
        t.press("Down")
        assert t.wait("2-17 of 60")[7] != first
        t.press("NPage")
        t.wait("17-32 of 60")
        t.press("End")
        t.wait("45-60 of 60")
        t.press("PPage")
        t.wait("30-45 of 60")
        t.press("Home")
        assert t.wait("1-16 of 60")[7] == first
        t.press("k")
        t.wait("1-16 of 60")

        t.press("/", *"s/17")  # a key: 17 alone may be in the peer's port, too
        t.wait("filter: s/17")
        t.press("Enter")
        assert any("/services/17" in line for line in t.wait("1-1 of 1 "))
        t.press("/", *"s/2")
        t.wait("filter: s/2")
        t.press("3", "Enter")
        lines = t.wait("/:filter(s/23)")
        assert any("/services/23" in line for line in t.wait("1-1 of 1 ")), lines
        t.press("/", "9", "Escape")
        t.wait("/:filter(s/23)")
        t.press("/", "Enter")
        t.wait("1-16 of 60")

        t.press("?")
        text = "\n".join(t.wait("belfryctl top: keys"))
        assert "scroll by a page" in text and "READY" not in text
        t.press("x")
        t.wait("READY")
        t.call("resize-window", "-x", "120", "-y", "30")
        t.wait("1-22 of 60")
        t.press("q")
        procs.wait_until(lambda: procs.run([*t.base, "has-session"], check=False).returncode != 0, 10)
    finally:
        t.end()
