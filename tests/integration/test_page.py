"""The page of the admin address, in a real browser: its numbers are those of /metrics and of belfryctl top, it shows what is
wrong, it is cheap, it can be used with the keyboard and on a phone, and foreign text stays text.

BELFRY_PICTURES names a folder in which the screenshots are kept."""
import http.client
import json
import os
import re
import signal
import subprocess
import time

import hostile
import nodejs
import procs
import pytest
import rawh2
from client import binary
from hostile import text
from stack import Stack

PHONE = 360
IMG = "<img src=x onerror=hacked=1>"
SHOWN = """document.getElementById("link").className.includes("live") && document.querySelector("#charts path") !== null
    && document.querySelectorAll("#who tbody tr").length > 0 && document.querySelector("[data-rate]").dataset.v !== ''"""

# What is on the page, and its series in /metrics. Times are left out: they go on between two reads.
SERIES = {
    "summary.inbound.connections": "belfry_connections",
    "summary.inbound.bytes_out": "belfry_sent_bytes_total",
    "upstream.follower.events": "belfry_upstream_events_total",
    "summary.core.deliveries": "belfry_deliveries_total",
    "memory_max": "belfry_memory_limit_bytes",
    "replica.state_rows": "belfry_replica_keys",
    "replica.used_bytes": "belfry_replica_used_bytes",
    "summary.relay.relayed": 'belfry_upstream_fallbacks_total{reason="relay"}',
    "summary.relay.running": "belfry_relays",
    **{f"summary.watchers.{dialect}.{state.replace(' ', '_')}": f'belfry_watchers{{dialect="{dialect}",state="{state}"}}'
       for dialect in ("grpc", "kube", "sse") for state in ("synced", "catching up", "parked")},
    **{f"summary.reads.{source}_{kind}": f'belfry_reads_total{{source="{source}",consistency="{kind}"}}'
       for source in ("replica", "upstream") for kind in ("linearizable", "serializable")},
}
TIMES = {"upstream.silent_ms"}


class Page:
    """The page in one browser."""

    def __init__(self, browser, tier):
        self.browser, self.tier = browser, tier
        self.url = f"http://127.0.0.1:{tier.admin_port}/"
        self.js, self.wait_js = browser.js, browser.wait_js

    def load(self):
        self.browser.load(self.url)
        self.wait_js(SHOWN)
        return self

    def text(self, element):
        return self.js(f"document.getElementById({json.dumps(element)}).textContent")

    def numbers(self):
        """Path of /debug/numbers -> value, of everything that the page shows of it."""
        return self.js("Object.fromEntries([...document.querySelectorAll('[data-n]')].map(e => [e.dataset.n, Number(e.dataset.v)]))")

    def cut(self):
        """Texts that do not fit into their elements. The legends have the widest numbers."""
        self.js("""[...document.querySelectorAll(".chart:nth-child(3) .legend b")].forEach(e => { e.textContent = "12,345"; })""")
        return self.js("""[...document.querySelectorAll(".tile > *, .bar > *, .tabs button, thead th, .meter, .legend, .chart h3")]
            .filter(e => e.offsetParent !== null && !e.closest(".hidden") && e.scrollWidth > e.clientWidth + 1
                         && getComputedStyle(e).display !== "inline")
            .map(e => e.textContent)""")

    def is_within(self, width):
        return self.js("document.documentElement.scrollWidth") <= width


@pytest.fixture
def picture(tmp_path):
    """picture(page, name): a screenshot of the whole page."""
    folder = os.environ.get("BELFRY_PICTURES") or str(tmp_path)

    def take(page, name):
        page.js("document.activeElement.blur()")
        return page.browser.picture(os.path.join(folder, f"{name}.png"))
    return take


def at(document, path):
    for name in path.split("."):
        document = document[name]
    return document


def value_of(document, path):
    return sum(at(document, one) for one in path.split("+"))


def etcdctl(tier, *args, **kw):
    return procs.run(["etcdctl", "--endpoints", tier.url, *args], **kw)


def watch(tier, *args):
    return procs.spawn(["etcdctl", "--endpoints", tier.url, "watch", *args], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def watchers(tier):
    return sum(v for name, v in tier.metrics().items() if name.startswith("belfry_watchers{"))


def test_numbers_are_those_of_metrics_and_of_top(browser, cluster, make_tier):
    tier = make_tier(cluster, "--workers", "2")
    for i in range(3):
        watch(tier, "--prefix", f"/page/{i}")
    procs.wait_until(lambda: watchers(tier) == 3, 20)
    for i in range(30):
        cluster.put(f"/page/{i % 3}/{i}", "value")
    for args in ([], ["--consistency=s"]):
        etcdctl(tier, "get", "--prefix", "/page/", *args)
    etcdctl(tier, "put", "/page/relayed", "value")
    page = Page(browser, tier).load()
    admin = f"http://127.0.0.1:{tier.admin_port}"

    def read():
        """(page, top, metrics), if nothing changed in between."""
        before = tier.metrics()
        shown = page.numbers()
        reasons = page.js("""Object.fromEntries([...document.querySelectorAll("#rejected [data-reason]")]
            .map(e => [e.dataset.reason, Number(e.querySelector("b").dataset.v)]))""")
        pools = page.js("""Object.fromEntries([...document.querySelectorAll("#pools [data-pool]")]
            .map(e => [e.dataset.pool, Number(e.querySelector("[data-v]").dataset.v)]))""")
        top = json.loads(procs.run([binary("belfryctl"), "top", "--once", "--output", "json", "--admin", admin]).stdout)
        after = tier.metrics()
        is_quiet = all(before[name] == after[name] for name in SERIES.values())
        is_shown = all(shown[path] == value_of(top["numbers"], path) for path in shown if path not in TIMES)
        return is_quiet and is_shown and (shown, reasons, pools, top["numbers"], after)

    shown, reasons, pools, top, metrics = procs.wait_until(read, 30, 0.1, lambda: f"{page.numbers()} {tier.numbers()}")
    paths = {path for whole in shown for path in whole.split("+")} - TIMES
    assert paths == set(SERIES), "everything on the page is compared"
    for whole, value in shown.items():
        if whole not in TIMES:
            assert value == value_of(top, whole) == sum(metrics[SERIES[one]] for one in whole.split("+")), whole
    assert metrics['belfry_watchers{dialect="grpc",state="synced"}'] == 3 and shown["summary.core.deliveries"] >= 30
    assert shown["summary.reads.replica_linearizable"] == shown["summary.reads.replica_serializable"] == 1
    assert shown["summary.relay.relayed"] >= 1
    for pool, used in pools.items():
        assert used == top["pools"][pool]["used"] == metrics[f'belfry_pool_used{{pool="{pool}"}}'], pool
    told = {name[len('belfry_rejected_total{reason="'):-2]: value for name, value in metrics.items()
            if name.startswith("belfry_rejected_total")}
    assert top["summary"]["rejected"] == told and reasons == {name: n for name, n in told.items() if n > 0}
    assert top["summary"]["latency"]["count"] == metrics["belfry_delivery_latency_seconds_count"]
    assert sum(top["summary"]["memory"].values()) == sum(v for n, v in metrics.items() if n.startswith("belfry_memory_bytes"))
    assert browser.complaints() == []


def test_an_idle_tier_a_busy_one_and_a_phone(browser, cluster, make_tier, picture):
    tier = make_tier(cluster, "--name", "edge-7")
    page = Page(browser, tier).load()
    assert page.text("verdict") == "Ready" and page.text("name") == "edge-7" and page.text("log-none")
    picture(page, "page-idle")
    for i in range(20):
        watch(tier, "--prefix", "/load/")
    procs.wait_until(lambda: watchers(tier) == 20, 30)
    bench = procs.spawn([binary("belfry-bench"), "fanout", "--target", tier.endpoint, "--write-target", cluster.members[0].endpoint,
                         "--connections", "10", "--rate", "50", "--puts", "600", "--shared", "--prefix", "/load/"],
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    page.wait_js("Number(document.querySelector('[data-rate=\"summary.core.deliveries\"]').dataset.v) > 100", 30)
    page.wait_js("document.getElementById('p99').textContent.startsWith('< ')", 30)
    row = tier.get("/debug/hour")[1]
    assert json.loads(row)["rows"][-1][1] is not None
    for scheme in "light", "dark":
        browser.scheme(scheme)
        browser.window(1280)
        page.load()
        assert page.cut() == [] and page.is_within(1280)
        picture(page, f"page-load-{scheme}")
        browser.window(PHONE, 740, mobile=True)
        page.load()
        assert page.cut() == [] and page.is_within(PHONE)
        picture(page, f"page-phone-{scheme}")
    colours = page.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    assert colours == ["rgb(14, 18, 23)", "rgb(230, 235, 241)"], "dark"
    procs.end(bench)
    assert browser.complaints() == []


def tree_rows(page):
    return page.js("[...document.querySelectorAll('#tree tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")


def test_a_dead_upstream_is_told_and_its_return_too(browser, cluster, make_tier, picture):
    tier = Stack(make_tier, cluster, 2, "--ready-lag", "2s").top
    page = Page(browser, tier).load()
    page.wait_js("document.getElementById('tree').textContent.includes('↳ t1')", 20)
    etcd, own, leaf = tree_rows(page)
    assert re.search(r"\d+ s ago", etcd[1]), "what is known of a level above has an age, however fresh"
    assert "ago" not in own[1] and leaf[0] == "↳ t1", (own, leaf)
    cluster.members[0].kill()
    page.wait_js("[...document.querySelectorAll('#tree tbody tr')].some(row => /t1gone, \\d+ s ago/.test(row.textContent))", 60)
    page.wait_js("document.getElementById('verdict').textContent === 'Not ready'", 60)
    page.wait_js("document.querySelectorAll('#troubles li.no').length >= 1 && document.title.startsWith('Not ready')")
    assert page.js("document.querySelector('#checks li.no').textContent") in ("upstream", "lag")
    why = page.js("document.getElementById('troubles').textContent")
    assert "upstream http" in why or "lag: " in why, why
    page.wait_js("document.querySelectorAll('#log tbody tr').length > 0")
    page.wait_js("document.getElementById('tree-broken') !== null")
    broken = page.text("tree-broken")
    assert "cannot connect to etcd, for " in broken or "hears nothing from etcd" in broken, broken
    page.wait_js("document.querySelector('#troubles .hint')?.textContent.includes('is upstream up')", 20)
    assert page.text("link") == "page connected", "nothing green beside a tier that is not ready"
    page.wait_js("document.getElementById('lag').textContent === '–'", 20)  # how far upstream is, nobody knows
    texts = page.js("[...document.querySelectorAll('#log td.text')].map(e => e.textContent).join('|')")
    assert 'why="' not in texts and "rev=" not in texts, texts
    picture(page, "page-upstream-dead")
    browser.window(PHONE, 740, mobile=True)
    assert page.is_within(PHONE)
    cluster.members[0].start("existing")
    page.wait_js("document.getElementById('verdict').textContent === 'Ready'", 60)
    page.wait_js("!document.getElementById('tree').textContent.includes('gone, ')", 90)
    assert page.js("document.querySelectorAll('#troubles li').length") == 0


@pytest.mark.usefixtures("own_network")
def test_a_full_pool_names_its_client(browser, cluster, make_tier, picture):
    tier = make_tier(cluster, "--workers", "1", "--max-watchers", "100")
    peers = []
    for source in (f"10.77.0.{i}" for i in range(9, 14)):  # each has half of what the others left
        peer = rawh2.Connection(tier.port, source=source, window=1 << 20)
        stream = peer.open(hostile.WATCH, text(1, text(1, b"/greedy/0")))
        for i in range(1, 70):
            peer.send(rawh2.frame(rawh2.DATA, 0, stream, rawh2.message(text(1, text(1, b"/greedy/%d" % i)))))
        peers.append(peer)
        used = 'belfry_pool_refused_total{pool="watchers"}'
        procs.wait_until(lambda n=len(peers): tier.metrics()[used] >= 20 * n, 20)
    page = Page(browser, tier).load()
    page.wait_js("document.querySelector('#checks li.attention') !== null", 30)
    page.wait_js("document.getElementById('troubles').textContent.includes('watchers')")
    assert page.text("verdict") == "Ready", "a full pool is no reason to send clients elsewhere"
    assert "10.77.0." in page.text("troubles")
    page.wait_js("""document.querySelector('#pools [data-pool="watchers"] .fill').classList.contains("bad")""")
    shown = page.js("""(() => { numbers.pools.connections.admin_trouble = "connections: full at the admin address"; showHealth();
        return document.getElementById("troubles").textContent; })()""")
    assert "connections: full at the admin address" in shown and "watchers" in shown, shown
    page.js("document.getElementById('tab-watchers').click()")
    page.wait_js("document.querySelectorAll('#who tbody tr').length === 50")
    picture(page, "page-full-pool")
    page.js("document.getElementById('tab-clients').click()")
    page.wait_js("document.querySelectorAll('#who tbody tr').length === 5")
    page.js("document.getElementById('filter').value = '77.0.10'")
    page.js("document.getElementById('refresh').click()")
    page.wait_js("document.querySelectorAll('#who tbody tr').length === 1 && document.getElementById('who').textContent.includes('10.77.0.10')")
    for peer in peers:
        peer.close()


def test_foreign_text_stays_text(browser, cluster, make_tier):
    tier = make_tier(cluster)
    cluster.put(IMG, IMG)
    watch(tier, IMG)
    watch(tier, "--prefix", f"/{IMG}\"'><script>hacked=1</script>")
    procs.wait_until(lambda: watchers(tier) == 2, 20)
    page = Page(browser, tier).load()
    page.js("document.getElementById('tab-watchers').click()")
    page.wait_js("document.querySelectorAll('#who tbody tr').length === 2")
    shown = page.js("[...document.querySelectorAll('#who td.key')].map(e => e.textContent)")
    assert sorted(shown) == sorted([IMG, f"/{IMG}\"'><script>hacked=1</script>*"])
    assert page.js("typeof hacked") == "undefined" and page.js("document.querySelectorAll('main img, main script').length") == 0
    assert browser.complaints() == []


def test_the_tail_shows_changes_of_a_prefix_where_it_is_on(browser, cluster, make_tier, picture):
    tier = make_tier(cluster, "--admin-tail")
    page = Page(browser, tier).load()
    page.wait_js("!document.getElementById('tail').hidden")
    page.js("document.getElementById('tail-prefix').value = '/tail/'")
    page.js("document.getElementById('tail-button').click()")
    page.wait_js("tail.readyState === EventSource.OPEN")
    cluster.put("/tail/a", IMG)
    cluster.put("/other", "value")
    cluster.put("/tail/b", "x" * 2000)
    cluster.ctl("del", "/tail/a")
    page.wait_js("document.querySelectorAll('#tail-lines tbody tr').length === 3")
    rows = page.js("[...document.querySelectorAll('#tail-lines tbody tr')].map(r => [...r.cells].slice(1).map(c => c.textContent))")
    assert rows[0] == ["delete", "/tail/a", ""] and rows[2] == ["put", "/tail/a", IMG]
    assert rows[1][:2] == ["put", "/tail/b"] and rows[1][2] == "x" * 512 + " … (1.95 KiB)"
    assert page.js("typeof hacked") == "undefined" and page.js("document.querySelectorAll('main img').length") == 0
    picture(page, "page-tail")
    page.js("document.getElementById('tail-button').click()")
    assert page.js("tail") is None and browser.complaints() == []

    off = make_tier(cluster)
    assert off.get("/debug/tail")[0] == 403
    page = Page(browser, off).load()
    page.wait_js("document.querySelectorAll('#endpoints li').length > 5")
    assert page.js("document.getElementById('tail').hidden")


def test_only_the_page_itself_may_be_loaded(browser, cluster, make_tier):
    """The policy is in force: a script or a picture of elsewhere is not loaded, and no script of the document runs."""
    tier = make_tier(cluster)
    page = Page(browser, tier).load()
    blocked = """new Promise(done => {
        document.addEventListener("securitypolicyviolation", e => done(e.effectiveDirective), {once: true});
        %s })"""
    assert page.js(blocked % "const s = document.createElement('script'); s.textContent = 'hacked = 1'; document.body.append(s);") \
        == "script-src-elem"
    assert page.js(blocked % "document.body.setAttribute('style', 'color: red');").startswith("style-src")
    assert page.js(blocked % "fetch('http://127.0.0.1:1/').catch(() => {});") == "connect-src"
    assert page.js("typeof hacked") == "undefined"
    answer = get(tier, "/events", {"sec-fetch-site": "cross-site"})
    assert answer.status == 403
    assert get(tier, "/", {"accept": "text/html", "host": "evil.example"}).status == 421
    listed = get(tier, "/", {"accept": "*/*"})
    assert listed.headers["content-type"].startswith("text/plain") and "/debug/hour" in listed.read().decode()
    sizes = [len(get(tier, path, {"accept": "text/html"}).read()) for path in ("/", "/page.css", "/page.js")]
    assert sum(sizes) < 60000, sizes


def get(tier, path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", tier.admin_port, timeout=30)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_a_restart_forgets_the_hour_and_the_page_goes_on(browser, cluster, make_tier):
    tier = make_tier(cluster)
    page = Page(browser, tier).load()
    assert "A restart of belfryd forgets it" in page.js("document.querySelector('#hour-h').parentElement.textContent")
    page.wait_js("hour.rows.length >= 2", 30)
    first = page.js("hour.rows[0][0]")
    os.kill(tier.pid, signal.SIGKILL)
    tier.proc.wait(10)
    page.wait_js("document.getElementById('link').textContent === 'connection lost'")
    time.sleep(1.1)  # samples have whole seconds
    tier.start()
    page.wait_js(SHOWN, 30)
    page.wait_js(f"hour.rows.length > 0 && hour.rows[0][0] > {first}", 30)
    document = json.loads(tier.get("/debug/hour")[1])
    assert document["first"] == 0 and document["bytes"] < 41000 and document["rows"][0][0] > first


def test_the_keyboard_is_enough(browser, cluster, make_tier):
    tier = make_tier(cluster)
    watch(tier, "--prefix", "/keys/")
    page = Page(browser, tier).load()
    page.wait_js("hour.rows.length >= 3", 40)
    browser.press("Tab")
    assert page.js("document.activeElement.className") == "skip"
    seen = []
    for _ in range(60):
        browser.press("Tab")
        seen.append(page.js("""(() => { const e = document.activeElement, s = getComputedStyle(e);
            return [e.id || e.className || e.tagName, s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0]; })()"""))
        if seen[-1][0] == "A" and page.js("document.activeElement.getAttribute('href') === '/events'"):
            break
    assert all(visible for _, visible in seen), [name for name, visible in seen if not visible]
    names = [name for name, _ in seen]
    assert names.count("plot") == 8 and {"tab-clients", "tab-watchers", "filter", "refresh"} <= set(names)

    page.js("document.querySelector('.plot').focus()")
    newest = page.js("document.querySelector('.plot').getAttribute('aria-valuetext')")
    browser.press("ArrowLeft")
    older = page.js("document.querySelector('.plot').getAttribute('aria-valuetext')")
    assert older != newest and "in " in older and page.js("document.querySelector('.plot .cross') !== null")
    assert page.js("document.querySelector('.chart .when').textContent") == older[:8]
    browser.press("Home")
    assert page.js("document.querySelector('.plot').getAttribute('aria-valuenow')") == "0"
    page.js("document.activeElement.blur()")
    browser.hover(".chart:nth-child(5) .plot")
    page.wait_js("document.querySelector('.chart:nth-child(5) .when').textContent !== ''")

    page.js("document.querySelector('.chart summary').focus()")
    browser.press("Enter")
    page.wait_js("document.querySelectorAll('.chart details[open] tbody tr').length === hour.rows.length")
    page.js("document.querySelector('#who thead th:nth-child(3) button').focus()")
    browser.press("Enter")
    page.wait_js("document.querySelector('#who thead th:nth-child(3)').getAttribute('aria-sort') === 'descending'")
    assert page.js("document.activeElement.textContent") == "Memory", "focus stays"


def test_axe_finds_nothing_serious(browser, cluster, make_tier, figure):
    with open(os.path.join(nodejs.installed(), "node_modules/axe-core/axe.min.js")) as f:
        axe = f.read()
    tier = make_tier(cluster)
    watch(tier, "--prefix", "/axe/")
    page = Page(browser, tier)
    found = []
    for scheme, width in ("light", 1280), ("dark", 1280), ("light", PHONE):
        browser.scheme(scheme)
        browser.window(width, mobile=width == PHONE)
        page.load()
        page.js("document.querySelector('.chart details').open = true")
        page.js(axe + "; 1")
        result = page.js("axe.run(document).then(r => ({violations: r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html)]),"
                         " passes: r.passes.length}))")
        assert result["passes"] > 20
        found += result["violations"]
    figure("axe_findings", len(found))
    assert [one for one in found if one[0] in ("serious", "critical")] == []
    assert found == []


class Viewer:
    """An open page as belfryd sees it: one connection that reads events."""

    def __init__(self, tier):
        self.connection = http.client.HTTPConnection("127.0.0.1", tier.admin_port, timeout=60)
        self.connection.request("GET", "/events", headers={"accept": "text/event-stream"})
        self.answer = self.connection.getresponse()

    def read_numbers(self):
        """Up to the next numbers."""
        while self.answer.readline() != b"event: numbers\n":
            pass
        return json.loads(self.answer.readline().removeprefix(b"data: "))

    def close(self):
        self.connection.close()


def cpu_s(pid):
    """Of all threads, to the nanosecond: ticks would be too coarse."""
    used_ns = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            used_ns += int(f.read().split()[0])
    return used_ns / 1e9


def test_ten_open_pages_cost_under_a_hundredth_of_a_core(cluster, make_tier, figure):
    """By CPU time, above what the tier takes without them. A page also reads the table of clients every 5 s."""
    tier = make_tier(cluster)
    for i in range(5):
        watch(tier, "--prefix", f"/cost/{i}")
    procs.wait_until(lambda: watchers(tier) == 5, 20)
    seconds = 15

    def cost(pages):
        used, began = cpu_s(tier.pid), time.monotonic()
        for turn in range(seconds):
            for page in pages:
                page.read_numbers()
                if turn % 5 == 0:
                    assert tier.get("/debug/clients?sort=cpu&limit=50")[0] == 200
            if not pages:
                time.sleep(1)
        return (cpu_s(tier.pid) - used) / (time.monotonic() - began)

    alone = cost([])
    pages = [Viewer(tier) for _ in range(10)]
    for page in pages:
        page.read_numbers()
    with_pages = cost(pages)
    figure("page_cpu_of_ten", 100 * (with_pages - alone), "percent")
    figure("page_cpu_of_none", 100 * alone, "percent")
    assert with_pages - alone < 0.01
    for page in pages:
        page.close()


def test_open_pages_are_bounded(cluster, make_tier):
    tier = make_tier(cluster)
    pages = [Viewer(tier) for _ in range(32)]
    assert all(page.answer.status == 200 for page in pages)
    assert Viewer(tier).answer.status == 503
    pages.pop().close()
    procs.wait_until(lambda: Viewer(tier).answer.status == 200, 10)
    assert pages[0].read_numbers()["summary"]["ready"]
    assert tier.get("/readyz")[0] == 200, "questions of others are answered"
