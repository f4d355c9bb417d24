"""The site in a browser: readable for everyone (axe-core), on a phone and in the dark; and the page of the task about web pages follows
changes."""
import functools
import http.server
import os
import threading

import nodejs
import pages
import procs
import pytest
from browser import Browser
from ports import free_port
from test_site import build

LOOKED_AT = ["index.html", "tasks/front.html", "reference/errors.html", "reference/what-happens.html", "architecture.html",
             "benchmarks.html", "benchmarks/figures.html"]
SERIOUS = ("serious", "critical")
PHONE = 390
READ_PX = 8000  # a page that is read from the top to the end; all figures of the benchmarks are on another


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_browser():
    opened = []

    def make(**kw):
        opened.append(Browser(**kw))
        return opened[-1]
    yield make
    for one in opened:
        one.close()
    procs.kill_all()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(url, open_browser, scheme, figure):
    with open(os.path.join(nodejs.installed(), "node_modules/axe-core/axe.min.js")) as f:
        axe = f.read()
    browser = open_browser(scheme=scheme)
    found = []
    for name in LOOKED_AT:
        browser.load(url + name)
        shown = browser.wait_js("document.body.getAttribute('data-md-color-scheme')")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        browser.js(axe + "; 1")
        said = browser.js("axe.run(document).then(r => ({passes: r.passes.length, violations: "
                          "r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.target.join(' ')).slice(0, 3)])}))")
        assert said["passes"] > 15, "axe has looked at the page"
        found += [(name, *violation) for violation in said["violations"] if violation[0] in SERIOUS]
    figure(f"site.axe.{scheme}", len(found), f"serious findings on {len(LOOKED_AT)} pages")
    assert not found, "\n".join(map(str, found))


def test_the_page_of_benchmarks_can_be_read_to_its_end(url, open_browser, figure):
    browser = open_browser(width=1280, height=900)
    browser.load(url + "benchmarks.html")
    height = browser.wait_js("document.readyState == 'complete' && document.scrollingElement.scrollHeight")
    figure("site.benchmarks.px", height, "height of the page of benchmarks")
    assert height < READ_PX


def test_no_page_is_wider_than_a_phone(url, open_browser):
    browser = open_browser(width=PHONE, height=800)
    browser.window(PHONE, 800, mobile=True)
    wide = {}
    for name in LOOKED_AT:
        browser.load(url + name)
        width = browser.js("document.scrollingElement.scrollWidth")
        if width > PHONE:
            wide[name] = width
    assert not wide, wide


def test_the_page_of_the_task_follows_changes(tmp_path):
    """docs/tasks/web-page.md: its page, in a browser, on the servers that its steps start."""
    task = (pages.TOP / "docs/tasks/web-page.md").read_text()
    shell = pages.Shell(tmp_path / "reader")
    try:
        assert shell.run(pages.SERVERS["etcd"])[0] == 0
        for block in pages.blocks(task):
            if block.remark == "file":
                (tmp_path / "reader" / block.argument).write_text(block.text)
            elif "belfryd " in block.text or "http.server" in block.text:
                code, said = shell.run(block.text)
                assert code == 0, said
        assert shell.run("etcdctl put /flags/dark off; etcdctl put /flags/beta on")[0] == 0
        with shell.network():
            browser = Browser()
            try:
                browser.load("http://127.0.0.1:8080/")
                flags = "document.querySelector('#flags').innerText"
                browser.wait_js(flags + " === '/flags/beta = on\\n/flags/dark = off'")
                shell.run("etcdctl put /flags/dark on; etcdctl del /flags/beta")
                browser.wait_js(flags + " === '/flags/dark = on'")
            finally:
                browser.close()
    finally:
        shell.close()
