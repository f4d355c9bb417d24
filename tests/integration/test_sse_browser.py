"""Web pages in a real browser, on real tiers: belfry.js, EventSource with tickets, other origins, the examples of docs/sse.md."""
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import procs
from certs import Certs
from client import binary
from ports import free_port
from test_identity import restore
from test_kube_auth import token
from test_security import READER, ROOT, enable_auth

SOAK = os.environ.get("BELFRY_SOAK") == "1"
PREFIXES = ["/a/", "/b/", "/c/"]
DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "sse.md")
BLANK = "<!doctype html><meta charset=utf-8><title>page</title>"
# What the page saw: each change as [revision, why the state came anew, [[op, key, value], ...]].
OPEN = """import("%(script)s/belfry.js").then(({default: Belfry}) => {
    window.log = [], window.states = [];
    window.keys = new Belfry({endpoints: %(endpoints)s, prefixes: %(prefixes)s, token: %(token)s});
    keys.addEventListener("change", ({detail: {rev, changes, reason}}) =>
        log.push([rev, reason ?? null, changes.map(({op, key, value}) => [op, key, value ?? null])]));
    keys.addEventListener("state", ({detail: {state}}) => states.push(state));
    keys.addEventListener("error", ({detail}) => { window.failed = detail; });
    return true;
})"""


class Site:
    """An origin of its own, whose only page is `text`."""

    def __init__(self):
        site = self
        self.text = BLANK

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = site.text.encode() if self.path == "/" else b""  # a browser asks for an icon, too
                self.send_response(200)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def make_site():
    made = []

    def make():
        made.append(Site())
        return made[-1]
    yield make
    for site in made:
        site.close()


@pytest.fixture
def site(make_site):
    return make_site()


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "ticket.keys"
    path.write_text(subprocess.run(["openssl", "rand", "-base64", "32"], capture_output=True, text=True, check=True).stdout)
    path.chmod(0o600)
    return str(path)


class Writer:
    """Writes keys of the prefixes and others, and knows what each revision changed of the prefixes."""

    def __init__(self, cluster):
        self.cluster, self.changes, self.n = cluster, {}, 0

    def write(self, count):
        for _ in range(count):
            self.n += 1
            n, prefix = self.n, PREFIXES[self.n % 3]
            if n % 5 == 0:
                self._txn(("put", f"/a/{n % 4}", f"t{n}"), ("put", "/other/x", str(n)), ("put", f"/c/{n % 3}", f"t{n}"))
            elif n % 7 == 0 and self._has(key := f"/a/{n % 4}"):
                self._txn(("delete", key, None), ("put", f"/b/{n % 5}", f"d{n}"))
            elif n % 11 == 0:
                self.cluster.put("/other/y", str(n))
            else:
                self._txn(("put", f"{prefix}{n % 6}", f"Gr\u00fc\u00dfe-{n}"))

    def _has(self, key):
        return key.encode() in self.cluster.state(key)

    def _txn(self, *changes):
        lines = "".join(f"put {key} {value}\n" if op == "put" else f"del {key}\n" for op, key, value in changes)
        self.cluster.ctl("txn", input=f"\n{lines}\n\n".encode())
        self.changes[self.cluster.revision()] = [list(c) for c in changes if c[1].startswith(tuple(PREFIXES))]

    def state(self):
        return {k.decode(): v.decode() for p in PREFIXES for k, (v, _) in self.cluster.state(p).items()}


class Keys:
    """The Map of a page."""

    def __init__(self, browser, endpoints, token=None, prefixes=PREFIXES, script=None):
        self.browser = browser
        assert browser.js(OPEN % {"script": script or endpoints[0], "endpoints": json.dumps(endpoints),
                                  "prefixes": json.dumps(prefixes), "token": json.dumps(token)})

    def state(self):
        return self.browser.js("Object.fromEntries(keys)")

    def resets(self):
        return [why for _, why, _ in self.browser.js("log") if why is not None]

    def wait_same(self, writer, timeout=60):
        procs.wait_until(lambda: self.browser.js("keys.state") == "live" and self.state() == writer.state(), timeout, 0.1,
                         lambda: f"{self.browser.js('[keys.state, keys.rev, states]')} {self.state()} not {writer.state()}")

    def judge(self, writer):
        """Each revision after a whole state came once, in order, with all of its changes; none was missing."""
        log, at = self.browser.js("log"), None
        for rev, why, changes in log:
            if why is None:
                due = [r for r in writer.changes if r > at]
                assert rev == min(due), f"{rev} came after {at}, due was {min(due)}"
                assert changes == writer.changes[rev], f"revision {rev}"
            at = rev
        last = max(writer.changes)
        assert at == last, f"the last revision was {at}, not {last}"
        return log


# ---- belfry.js

def test_a_page_outlives_kills_and_moves_to_another_tier(cluster, make_tier, browser, site):
    tiers = [make_tier(cluster, "--cors-origins", site.url) for _ in range(2)]
    writer = Writer(cluster)
    writer.write(10)
    browser.load(site.url)
    keys = Keys(browser, [tier.url for tier in tiers])
    keys.wait_same(writer)
    for tier in tiers * (20 if SOAK else 1):  # one of them serves the page
        writer.write(8)
        tier.kill()
        writer.write(8)
        tier.start()
        writer.write(4)
        keys.wait_same(writer)
    tiers[0].kill()  # and stays away
    writer.write(8)
    keys.wait_same(writer)
    assert keys.resets() == ["snapshot"], "no place was lost"
    log = keys.judge(writer)
    assert len(log) > 30
    assert "connecting" in browser.js("states"), "no tier that was killed served the page"


def test_a_page_whose_place_was_compacted_has_the_state_anew(cluster, make_tier, browser, site):
    tier = make_tier(cluster, "--cors-origins", site.url, "--history-bytes", "1MiB", "--log-bytes", "1MiB")
    writer = Writer(cluster)
    writer.write(12)
    cluster.put("/a/ghost", "boo")
    writer.changes[cluster.revision()] = [["put", "/a/ghost", "boo"]]
    browser.load(site.url)
    keys = Keys(browser, [tier.url])
    keys.wait_same(writer)
    tier.kill()
    cluster.delete("/a/ghost")
    for i in range(40):
        cluster.put("/other/big", str(i % 10) * 40000)
    writer.write(12)
    cluster.compact(cluster.revision())
    tier.start()
    keys.wait_same(writer)
    writer.write(12)
    keys.wait_same(writer)
    assert keys.resets() == ["snapshot", "compacted"]
    log = keys.judge(writer)
    anew = next(changes for _, why, changes in log if why == "compacted")
    assert ["delete", "/a/ghost", None] in anew, "a key that was deleted meanwhile"


def test_a_page_follows_a_cluster_that_was_restored(cluster, make_tier, browser, site, tmp_path):
    tier = make_tier(cluster, "--cors-origins", site.url)
    writer = Writer(cluster)
    writer.write(12)
    cluster.ctl("snapshot", "save", str(tmp_path / "db"))
    before = dict(writer.changes)
    writer.write(20)
    browser.load(site.url)
    keys = Keys(browser, [tier.url])
    keys.wait_same(writer)
    restore(cluster, tmp_path / "db")
    cluster.start()
    writer.changes = before  # the rest never happened
    keys.wait_same(writer)
    writer.write(12)
    keys.wait_same(writer)
    assert keys.resets() == ["snapshot", "rewritten"]
    since = browser.js("log.findLastIndex(([, why]) => why !== null)")
    browser.js(f"log.splice(0, {since})")
    keys.judge(writer)


def test_a_page_is_refused_for_good_and_says_why(cluster, make_tier, browser, site, tmp_path):
    tier = auth_tier(cluster, make_tier, tmp_path, "--cors-origins", site.url)
    browser.load(site.url)
    keys = Keys(browser, [tier.url], token="nobody's.1", prefixes=["/a/"])
    assert browser.wait_js("window.failed")["status"] == 401
    assert browser.js("keys.state") == "closed"
    keys = Keys(browser, [tier.url], token=token(cluster, READER), prefixes=["/a/"])
    browser.wait_js("keys.state === 'live'")
    cluster.put("/a/1", "one")
    browser.wait_js("keys.get('/a/1') === 'one'")
    cluster.ctl("role", "revoke-permission", "reading", "/a/", "/a0")
    failed = browser.wait_js("keys.state === 'closed' && window.failed", 30)
    assert failed["status"] in (401, 403)
    assert keys.state() == {"/a/1": "one"}


def test_many_maps_share_one_connection_of_http2(cluster, make_tier, browser, site, tmp_path):
    """Over HTTP/1.1 a browser has six connections to a host, and the seventh stream would wait for ever."""
    certs, port = Certs(tmp_path / "certs"), free_port()
    tier = make_tier(cluster, "--cors-origins", site.url,
                     listen=[f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')}"])
    browser.devtools("Security.setIgnoreCertificateErrors", ignore=True)
    browser.load(site.url)
    cluster.put("/a/1", "one")
    browser.js(f"""import("https://127.0.0.1:{port}/belfry.js").then(({{default: Belfry}}) => {{
        window.maps = Array.from({{length: 20}}, () => new Belfry({{prefixes: ["/a/"]}}));
    }})""")
    for value in ("one", "two"):
        browser.wait_js(f"maps.every(map => map.state === 'live' && map.get('/a/1') === '{value}')", 60)
        if value == "one":
            tier.kill()
            cluster.put("/a/1", "two")
            tier.start()


# ---- other origins

def test_only_pages_of_named_origins_may_read(cluster, make_tier, browser, make_site):
    named, other = make_site(), make_site()
    tier, closed = make_tier(cluster, "--cors-origins", named.url), make_tier(cluster)
    cluster.put("/a/1", "one")
    reads = """fetch("%s").then(r => r.status, e => "hidden")"""
    for page, server, status in ((named, tier, 200), (other, tier, "hidden"), (named, closed, "hidden")):
        browser.load(page.url)
        for path in ("/belfry.js", "/v1/events?prefix=/a/"):
            assert browser.js(reads % (server.url + path)) == status, (page.url, path)
        asks = """fetch("%s/v1/events?prefix=/a/", {headers: {Authorization: "x"}}).then(r => r.status, e => "hidden")"""
        assert browser.js(asks % server.url) == status, "with a preflight"
    browser.load(named.url)
    Keys(browser, [tier.url], prefixes=["/a/"])
    browser.wait_js("keys.get('/a/1') === 'one'")


# ---- tickets

def auth_tier(cluster, make_tier, tmp_path, *flags):
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    return make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), *flags,
                     rights="upstream")


def post(url, headers=None):
    """(status, body)"""
    request = urllib.request.Request(url, data=b"", headers=headers or {}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def status_of(url, headers=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=20) as answer:
            return answer.status, b""
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def test_tickets_are_for_a_credential_and_have_its_rights(cluster, make_tier, tmp_path, key_file):
    tier = auth_tier(cluster, make_tier, tmp_path, "--ticket-key-file", key_file)
    reader = token(cluster, READER)
    assert post(tier.url + "/v1/ticket")[0] == 401
    assert status_of(tier.url + "/v1/ticket")[0] == 405
    status, body = post(tier.url + "/v1/ticket", {"Authorization": f"Bearer {reader}"})
    got = json.loads(body)
    assert status == 200 and got["expires_in"] == 300 and reader not in body.decode()
    events = f"{tier.url}/v1/events?ticket={got['ticket']}"
    assert status_of(events + "&prefix=/a/")[0] == 200
    assert status_of(events + "&prefix=/b/")[0] == 403, "the rights of its user"
    assert status_of(events + "x&prefix=/a/")[0] == 401
    assert status_of(events + "&prefix=/a/", {"Authorization": reader})[0] == 400
    wrong = json.loads(post(tier.url + "/v1/ticket", {"Authorization": "nobody's.1"})[1])["ticket"]
    assert status_of(f"{tier.url}/v1/events?ticket={wrong}&prefix=/a/")[0] == 401


def test_a_tier_without_a_key_says_which_option_is_missing(cluster, make_tier):
    tier = make_tier(cluster)
    status, body = post(tier.url + "/v1/ticket")
    assert status == 404 and b"ticket-key-file" in body
    status, body = status_of(tier.url + "/v1/events?prefix=/a/&ticket=AAAA")
    assert status == 400 and b"ticket-key-file" in body


def test_a_new_key_is_read_by_sighup_and_old_tickets_still_open(cluster, make_tier, key_file):
    """The order of docs/sse.md: the new key is the second, then the first, then the old one goes."""
    tiers = [make_tier(cluster, "--ticket-key-file", key_file) for _ in range(2)]
    with open(key_file) as f:
        old = f.read()
    new = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

    def ticket():
        return json.loads(post(tiers[0].url + "/v1/ticket")[1])["ticket"]

    def opens(text):
        return [status_of(f"{tier.url}/v1/events?prefix=/a/&ticket={text}")[0] for tier in tiers]
    first = ticket()
    assert opens(first) == [200, 200], "any tier that has the key"
    for text, ok in ((new + old, 200), (new, 401)):
        with open(key_file, "w") as f:
            f.write(text)
        for tier in tiers:
            before = tier.log().count("event=ticket_keys ")
            os.kill(tier.pid, signal.SIGHUP)
            procs.wait_until(lambda: tier.log().count("event=ticket_keys ") > before, 10, 0.05, "the keys are read")
        assert opens(first) == [ok, ok]
        assert opens(ticket()) == [200, 200]


def test_clocks_of_tiers_may_differ_by_half_a_minute(cluster, make_tier, key_file):
    def at(shift_s):
        return make_tier(cluster, "--ticket-key-file", key_file,
                         env={"LD_PRELOAD": binary("tests", "shifted_clock.so"), "BELFRY_SHIFT_S": str(shift_s)})
    ticket = json.loads(post(at(0).url + "/v1/ticket")[1])["ticket"]
    for shift_s, status, why in ((-20, 200, b""), (-60, 401, b"not one of"), (310, 200, b""), (400, 401, b"has expired")):
        got, body = status_of(f"{at(shift_s).url}/v1/events?prefix=/a/&ticket={ticket}")
        assert got == status and why in body, (shift_s, got, body)


def test_an_event_source_goes_on_with_the_next_ticket(cluster, make_tier, browser, site, tmp_path, key_file):
    """A ticket is good for 6 s here. The page of docs/sse.md is still there after several, and after a restart of its tier."""
    tier = auth_tier(cluster, make_tier, tmp_path, "--cors-origins", site.url, "--ticket-key-file", key_file,
                     "--ticket-time", "6s")
    cluster.put("/a/0", "zero")
    site.text = example("Tickets", "html", tier.url, TOKEN=token(cluster, READER))
    browser.load(site.url)
    browser.wait_js("id !== ''")
    revs = []
    for i in range(3):
        revs.append(cluster.put(f"/a/{i}", f"v{i}"))
        seen = browser.js("tickets")
        browser.wait_js(f"tickets > {seen}", 30)
    tier.kill()
    revs.append(cluster.put("/a/4", "v4"))
    tier.start()
    revs.append(cluster.put("/a/5", "v5"))
    browser.wait_js(f"log.at(-1) === {revs[-1]}", 60)
    assert browser.js("log") == revs, "each revision once, in order"
    browser.wait_js(f"tickets > {seen + 1}", 60)


# ---- the examples of docs/sse.md

def example(heading, language, url, nth=0, **words):
    """The nth block of a language under a heading, for a tier at `url`."""
    with open(DOCS) as f:
        section = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", f.read(), re.M | re.S)[1]
    text = re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)[nth]
    text = text.replace("http://127.0.0.1:23790", url)
    for word, value in words.items():
        assert word in text
        text = text.replace(word, value)
    return text


def test_the_page_of_the_docs(cluster, make_tier, browser, site):
    tier = make_tier(cluster, "--cors-origins", site.url)
    cluster.put("/services/db", "10.0.0.7")
    cluster.put("/flags/dark", "on")
    site.text = example("In a web page", "html", tier.url)
    browser.load(site.url)
    browser.wait_js("document.body.innerText.includes('10.0.0.7')")
    cluster.put("/services/db", "10.0.0.8")
    cluster.delete("/flags/dark")
    browser.wait_js("document.body.innerText.includes('10.0.0.8') && !document.body.innerText.includes('dark')")
    assert browser.complaints() == []


def test_the_loop_of_the_docs_survives_restarts(cluster, make_tier, tmp_path):
    tier = make_tier(cluster)
    cluster.put("/config/0", "start")
    script = example("In a shell", "", tier.url)
    with open(tmp_path / "out", "wb") as out:
        loop = procs.spawn(["bash", "-c", script], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def lines():
        return [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]

    def revs():
        return [line["rev"] for line in lines() if "events" in line and "rev" in line]
    procs.wait_until(lambda: any("n" in line for line in lines()), 20, 0.1, "the state")
    written = []
    for i in range(3):
        written.append(cluster.put("/config/color", f"c{i}"))
        procs.wait_until(lambda: revs() == written, 30, 0.1, lambda: f"{revs()} not {written}")
        tier.kill()
        written.append(cluster.put("/config/color", f"d{i}"))
        tier.start()
    procs.wait_until(lambda: revs() == written, 30, 0.1, lambda: f"{revs()} not {written}")
    procs.end(loop)
