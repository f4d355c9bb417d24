"""A real Prometheus (Debian's) that scrapes tiers, and the rules of packaging/prometheus at a speed that a test can wait for."""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import needs
import procs
from ports import free_port

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
RULES = os.path.abspath(os.path.join(ROOT, "packaging", "prometheus", "belfry.rules.yml"))
FOR_S, WINDOW_S = 2, 30
_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text):
    """15m -> 900"""
    return int(text[:-1]) * _UNITS[text[-1]]


def hasten(rules):
    """The same rules, but each waits 2 s where it waits minutes, and looks back 30 s where it looks back up to an hour. Nothing else
    is changed: neither a metric nor a limit."""
    rules = re.sub(r"(?m)^(\s+for: )\w+$", rf"\g<1>{FOR_S}s", rules)
    return re.sub(r"(\[|offset )\d+[smh]\b", rf"\g<1>{WINDOW_S}s", rules)


def program(name):
    found = shutil.which(name)
    return found or needs.missing(f"{name} (Debian's package prometheus): tools/bootstrap installs it")


class Prometheus:
    def __init__(self, folder, scrape_s=1):
        """With the rules of packaging/prometheus, hastened. A scrape may take as long as the time between two."""
        self.folder, self.port, self.proc = str(folder), free_port(), None
        os.makedirs(self.folder, exist_ok=True)
        with open(RULES) as f:
            self._write("rules.yml", hasten(f.read()))
        self._write("prometheus.yml", json.dumps({
            "global": {"scrape_interval": f"{scrape_s}s", "scrape_timeout": f"{scrape_s}s", "evaluation_interval": "1s"},
            "rule_files": [self._path("rules.yml")],
            "scrape_configs": [{"job_name": "belfry", "file_sd_configs": [{"files": [self._path("targets.json")]}]}]}))

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _write(self, name, text):
        with open(self._path(name), "w") as f:
            f.write(text)

    def start(self, *tiers):
        self._write("targets.json", json.dumps([{"targets": [f"127.0.0.1:{t.admin_port}" for t in tiers]}]))
        with open(self._path("log"), "ab") as log:
            self.proc = procs.spawn([program("prometheus"), "--config.file", self._path("prometheus.yml"), "--storage.tsdb.path",
                                     self._path("data"), "--web.listen-address", f"127.0.0.1:{self.port}"],
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        procs.wait_until(self._is_ready, 60, 0.1, lambda: f"Prometheus is ready: {self._log()}")
        procs.wait_until(lambda: len(self.query('up{job="belfry"} == 1')) == len(tiers), 60, 0.2,
                         lambda: f"every tier is scraped: {self._log()}")
        return self

    def _log(self):
        with open(self._path("log"), errors="replace") as f:
            return f.read()[-2000:]

    def _get(self, path, **query):
        assert self.proc.poll() is None, self._log()
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{query}: {e.code} {e.read().decode()}")

    def _is_ready(self):
        """It refuses connections at first, and then answers 503 until its store is open."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=20):
                return True
        except OSError:
            return False

    def query(self, expr):
        """[(labels, value)], now."""
        rows = self._get("/api/v1/query", query=expr)["result"]
        return [(row["metric"], float(row["value"][1])) for row in rows]

    def alerts(self):
        """name -> state ("pending", "firing"); firing if any of its name is."""
        states = {}
        for alert in self._get("/api/v1/alerts")["alerts"]:
            name = alert["labels"]["alertname"]
            states[name] = "firing" if "firing" in (states.get(name), alert["state"]) else alert["state"]
        return states

    def wait_firing(self, name, timeout):
        """How long it took, in seconds."""
        began = time.monotonic()
        procs.wait_until(lambda: self.alerts().get(name) == "firing", timeout, 0.1, lambda: f"{name} fires: {self.alerts()}")
        return time.monotonic() - began

    def wait_clear(self, name, timeout):
        began = time.monotonic()
        procs.wait_until(lambda: name not in self.alerts(), timeout, 0.1, lambda: f"{name} is clear: {self.alerts()}")
        return time.monotonic() - began

    def wait_scraped(self, tier, timeout=30):
        """The process that runs now."""
        instance, start = f"127.0.0.1:{tier.admin_port}", tier.metrics()["process_start_time_seconds"]
        procs.wait_until(lambda: self.query(f'process_start_time_seconds{{instance="{instance}"}} == {start}'), timeout, 0.1,
                         f"{instance} is scraped")
