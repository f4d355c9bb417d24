"""The browser of the tests itself: it runs promises, sees a width and a colour scheme, and tells what its console was told."""
import functools
import http.server
import struct
import threading

import pytest
from browser import JavaScriptError

PAGE = b"""<!doctype html><title>small</title><meta name=viewport content="width=device-width">
<style>body { margin: 0; background: #fff } @media (prefers-color-scheme: dark) { body { background: #000 } }
div { height: 2000px }</style><div></div><input id=in><script src=/script.js></script>"""
SCRIPT = b"window.answer = fetch('/script.js').then(r => r.status);"


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body, kind = {"/": (PAGE, "text/html"), "/script.js": (SCRIPT, "text/javascript")}.get(self.path, (b"", None))
        self.send_response(200 if kind else 404)
        self.send_header("content-type", kind or "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def png_size(path):
    with open(path, "rb") as f:
        return struct.unpack(">II", f.read(24)[16:])


def test_the_browser_evaluates_photographs_and_collects_errors(browser, url, tmp_path):
    browser.load(url)
    assert browser.js("answer") == 200
    assert browser.js("({a: [1, 'x', null]})") == {"a": [1, "x", None]}
    with pytest.raises(JavaScriptError, match="no such thing"):
        browser.js("Promise.reject(new Error('no such thing'))")

    dark = "matchMedia('(prefers-color-scheme: dark)').matches"
    assert not browser.js(dark)
    browser.scheme("dark")
    assert browser.js(dark)
    browser.window(360, 640, mobile=True)
    assert browser.js("innerWidth") == 360
    assert png_size(browser.picture(tmp_path / "window.png", whole=False)) == (360, 640)
    width, height = png_size(browser.picture(tmp_path / "whole.png"))
    assert width == 360 and height > 2000

    browser.js("document.getElementById('in').focus()")
    browser.press("a", "b", "ArrowLeft", "c")
    assert browser.js("document.getElementById('in').value") == "acb"

    browser.complaints()  # the icon that there is not
    assert browser.complaints() == []
    browser.js("fetch('/absent').then(r => r.status)")
    browser.js("setTimeout(() => { throw new Error('thrown later') })")
    seen = []
    browser.wait_js("new Promise(done => setTimeout(() => done(true), 50))")
    seen += browser.complaints()
    assert any("404" in line for line in seen) and any("thrown later" in line for line in seen), seen
