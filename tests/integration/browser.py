"""A headless Chromium: pages are loaded, asked in JavaScript and photographed as a user with a given window would see them."""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile

import needs
import procs
from ports import free_port

# Chromium's sandbox does not run as root, and /dev/shm of a container is small. It connects only where a test sends it.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run", "--mute-audio",
         "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--no-default-browser-check", "--force-color-profile=srgb")
SEVERE = "SEVERE"


class JavaScriptError(AssertionError):
    """What a script threw, or the reason of the promise that it returned."""


class Browser:
    """One Chromium with one page. Its processes end with the test."""

    def __init__(self, width=1280, height=900, scheme="light", names=()):
        """`scheme`: light or dark, for prefers-color-scheme. `names`: hosts that may be asked for besides those of loopback."""
        driver = shutil.which("chromedriver")
        program = shutil.which("chromium")
        if driver is None or program is None:
            needs.missing("chromium, chromium-driver: tools/bootstrap installs them")
        try:
            from selenium import webdriver
            from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection
        except ImportError:
            needs.missing("python3-selenium: tools/bootstrap installs it")
        self.folder = tempfile.mkdtemp(prefix="browser-")  # a short path: Chromium has a Unix socket in it
        self.proc = self._start_driver(driver)
        options = webdriver.ChromeOptions()
        options.binary_location = program
        hosts = "".join(f", EXCLUDE {name}" for name in ("127.0.0.1", "localhost", *names))
        for flag in (*FLAGS, f"--host-resolver-rules=MAP * ~NOTFOUND{hosts}", f"--user-data-dir={self.folder}/profile"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        connection = ChromiumRemoteConnection(f"http://127.0.0.1:{self.port}", "goog", "chrome")
        self.driver = webdriver.Remote(command_executor=connection, options=options)
        self.driver.set_page_load_timeout(60)
        self.window(width, height)
        self.scheme(scheme)

    def _start_driver(self, driver):
        self.port = free_port()
        env = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
        env.update(HOME=self.folder, TMPDIR=self.folder)
        with open(os.path.join(self.folder, "driver.log"), "wb") as log:
            proc = procs.spawn([driver, f"--port={self.port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        procs.wait_until(self._listens, 30, 0.05, f"chromedriver on port {self.port}")
        return proc

    def _listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def devtools(self, command, **args):
        """One command of the DevTools protocol."""
        return self.driver.execute("executeCdpCommand", {"cmd": command, "params": args})["value"]

    def window(self, width, height=900, scale=1, mobile=False):
        """The size of the page in CSS pixels. `mobile`: as on a phone, where the page's viewport tag counts."""
        self.width, self.height = width, height
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                      mobile=mobile)

    def scheme(self, scheme):
        """light or dark"""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                              {"name": "prefers-reduced-motion", "value": "reduce"}])

    def load(self, url):
        """Returns when the page, its style sheets and its scripts are loaded."""
        self.driver.get(url)
        return self

    def js(self, expression):
        """The value of an expression, as JSON has it; of a promise, what it resolves to. Raises JavaScriptError if it throws
        or is rejected."""
        got = self.devtools("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            thrown = details.get("exception", {})
            raise JavaScriptError(thrown.get("description") or json.dumps(thrown.get("value", details.get("text"))))
        return got["result"].get("value")

    def wait_js(self, expression, timeout=20):
        """Evaluates until the value is true, and returns it."""
        return procs.wait_until(lambda: self.js(expression), timeout, 0.05, f"in the browser: {expression}")

    def press(self, *keys):
        """Keys by their DOM names, one after another: "Tab", "ArrowRight", "a"."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40}
        for key in keys:
            code = codes.get(key, ord(key[0].upper()))
            text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
            self.devtools("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
            self.devtools("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def hover(self, selector):
        """Moves the mouse to the middle of an element."""
        x, y = self.js(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, whole=True):
        """A PNG of the page: the whole of it, or what the window shows."""
        args = {}
        if whole:
            size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
            args = {"clip": {"x": 0, "y": 0, "width": self.width, "height": size["height"], "scale": 1},
                    "captureBeyondViewport": True}
        got = self.devtools("Page.captureScreenshot", format="png", **args)
        with open(str(path), "wb") as f:
            f.write(base64.b64decode(got["data"]))
        return str(path)

    def complaints(self):
        """What the console has been told as an error since the last call: exceptions, failed requests, violations of the
        content security policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == SEVERE]

    def close(self):
        try:
            self.driver.quit()
        finally:
            procs.end(self.proc)
            shutil.rmtree(self.folder, ignore_errors=True)
