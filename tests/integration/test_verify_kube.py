"""belfryctl verify --kube: two kube-apiservers of one cluster tell the same, and it says so; between them and a proxy that lies, it
finds every lie. The servers are built outside this tree; without them this is skipped."""
import http.client
import http.server
import json
import random
import subprocess
import threading

import kube_apiserver
import needs
import procs
import pytest
from client import binary
from test_kube_cluster import config_map

MAPS = "/api/v1/namespaces/prod/configmaps"


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes GETs on, and lines of watches and bodies of lists through the server's two functions."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        api = self.server.api
        up = http.client.HTTPSConnection("127.0.0.1", api.port, timeout=60, context=api.identity.tls)
        up.request("GET", self.path, headers={"Authorization": self.headers["Authorization"], "Accept": "application/json"})
        answer = up.getresponse()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if "watch=" in self.path:
                for line in answer:
                    for told in self.server.line(line):
                        self.piece(told)
            else:
                self.piece(self.server.body(answer.read()))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass  # the client has gone
        finally:
            up.close()

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Lies:
    """What a proxy does to every watch and list; each has a state of its own and lies now and then."""

    def __init__(self):
        self.dice, self.kept = random.Random(), None

    def nothing(self, line):
        yield line

    def lost(self, line):
        if b'"BOOKMARK"' in line or self.dice.random() > 0.2:
            yield line

    def doubled(self, line):
        yield line
        if b'"BOOKMARK"' not in line and self.dice.random() < 0.2:
            yield line

    def changed(self, line):
        yield line.replace(b'"n":"1', b'"n":"2') if self.dice.random() < 0.3 else line

    def another_kind(self, line):
        yield line.replace(b'{"type":"MODIFIED"', b'{"type":"ADDED"') if self.dice.random() < 0.3 else line

    def reordered(self, line):
        if self.kept is not None:
            kept, self.kept = self.kept, None
            yield line
            yield kept
        elif self.dice.random() < 0.2:
            self.kept = line
        else:
            yield line


@pytest.fixture
def apis(cluster, tmp_path):
    if kube_apiserver.why_none():
        needs.peer(kube_apiserver.why_none())
    made = kube_apiserver.KubeCluster(tmp_path / "kube", cluster, 2).start()
    yield made
    made.kill()


@pytest.fixture
def liar(apis):
    made = []

    def make(lie, body=lambda data: data):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        server.daemon_threads = True
        server.api, server.line, server.body = apis.servers[1], getattr(Lies(), lie), body
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        made.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"
    yield make
    for server in made:
        server.shutdown()
        server.server_close()


class Writer:
    """Creates, changes and deletes config maps until it is told to stop."""

    def __init__(self, server):
        self.server, self.over, self.n = server, threading.Event(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        dice = random.Random()
        while not self.over.wait(0.01):
            name = f"m{dice.randrange(20)}"
            how, path = dice.choice([("POST", MAPS), ("PUT", f"{MAPS}/{name}"), ("PUT", f"{MAPS}/{name}"), ("DELETE", f"{MAPS}/{name}")])
            self.n += self.server.call(how, path, obj=None if how == "DELETE" else config_map(name, n=f"1{self.n}")).code < 300

    def stop(self):
        self.over.set()
        self.thread.join(30)


def verify(apis, tier, *args, reference=None, token=None, seconds=3, check=True):
    done = procs.run([binary("belfryctl"), "verify", "--kube", "v1/configmaps", "--reference", reference or apis.servers[0].url,
                      "--endpoints", tier, "--cacert", apis.identity.cacert, "--token", token or apis.identity.tokens["tier"],
                      "--for", f"{seconds}s", "--output", "json", *args], check=False, timeout=seconds + 90)
    if check:
        assert done.returncode in (0, 1), done.stderr
    return done, json.loads(done.stdout) if done.stdout else {}


FOUND = {"lost": {"reliable", "resumable", "progress"}, "doubled": {"ordered", "unique"}, "changed": {"content", "prev_kv"},
         "another_kind": {"is_create", "content"}, "reordered": {"ordered", "unique", "reliable", "resumable"}}


def with_ghost(data):
    listed = json.loads(data)
    if listed.get("items"):
        ghost = json.loads(json.dumps(listed["items"][0]))
        ghost["metadata"]["name"] = "zz-ghost"
        listed["items"].append(ghost)
    return json.dumps(listed, separators=(",", ":")).encode()


def test_servers_that_agree_and_every_lie(apis, liar, figure):
    writer = Writer(apis.servers[0])
    try:
        for tier in (apis.servers[1].url, liar("nothing")):
            done, said = verify(apis, tier)
            assert done.returncode == 0 and said["violations"] == 0, said
            assert said["events"] > 100 and said["listed"] > 0 and said["old_starts"] > 0, said
            figure("verify_kube.events", said["events"])
        for lie, properties in FOUND.items():
            done, said = verify(apis, liar(lie), seconds=2)
            assert done.returncode == 1 and said["violations"] > 0, (lie, said)
            blamed = {name for name, n in said["by_property"].items() if n}
            assert blamed & properties and blamed <= properties | {"alive"}, (lie, said["by_property"])
    finally:
        writer.stop()
    done, said = verify(apis, liar("nothing", with_ghost), seconds=2)
    assert done.returncode == 1 and said["by_property"]["reliable"] == 1, said
    assert "zz-ghost" in said["first"][0]["key"], said
    nobody = "http://127.0.0.1:1"
    for reference, tier, told in ((nobody, apis.servers[1].url, b"reference"), (apis.servers[0].url, nobody, b"tier")):
        done, _ = verify(apis, tier, "--max-lag", "1s", reference=reference, seconds=1, check=False)
        assert done.returncode == 3 and told in done.stderr, done.stderr
    done, _ = verify(apis, apis.servers[1].url, token="wrong", seconds=1, check=False)
    assert done.returncode not in (0, 1) and b"Unauthorized" in done.stderr, done.stderr


@pytest.mark.parametrize("args, told", [
    (["--kube", "pods", "--reference", "https://a:1"], "--kube: group, version and plural"),
    (["--kube", "v1/pods"], "--reference is missing"),
    (["--kube", "v1/pods", "--reference", "https://a:1", "--endpoints", "https://a:1"], "the same"),
    (["--kube", "v1/pods", "--reference", "https://a:1", "/key"], "there is no KEY"),
])
def test_mistakes_are_told_on_one_line(args, told):
    done = procs.run([binary("belfryctl"), "verify", *args], check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and told in done.stderr.decode(), done
