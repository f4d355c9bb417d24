"""Grafana's dashboard, packaging/grafana/belfry.json. There is no Grafana here: its structure is checked, and every query is run on a
real Prometheus that scrapes a real tree, where it must return data."""
import json
import math
import os
import re

import pytest

import procs
from alert_causes import Bed, sign
from certs import Certs
from checker import Spec
from client import Recorder, binary
from ports import free_port
from prometheus import ROOT, Prometheus

FILE = os.path.join(ROOT, "packaging", "grafana", "belfry.json")
COLUMNS = 24


@pytest.fixture(scope="module")
def dashboard():
    with open(FILE) as f:
        return json.load(f)


def queries(dashboard):
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_file_is_what_the_tool_says():
    procs.run([os.path.join(ROOT, "tools", "dashboard"), "--check"])


def test_structure_is_grafanas(dashboard):
    assert dashboard["uid"] and dashboard["title"] and dashboard["schemaVersion"] >= 36
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        assert panel["type"] in ("row", "stat", "timeseries")
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= COLUMNS and not cells & taken, f"{panel['title']}: another panel is there"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["targets"] and panel["fieldConfig"]["defaults"]["unit"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert '$instance' in target["expr"], f"{panel['title']}: of all tiers, chosen or not"
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(panels)))
    assert used == names == {"datasource", "instance"}


def test_metrics_are_those_of_the_documentation(dashboard):
    with open(os.path.join(ROOT, "docs", "metrics.md")) as f:
        known = set(re.findall(r"(?m)^\| `(\w+)`", f.read())) | {"up"}
    for title, expr in queries(dashboard):
        for name in re.findall(r"(\w+)\{", expr):
            assert name.removesuffix("_bucket") in known, f"{title}: {name}"


def test_every_query_returns_data(dashboard, make_cluster, make_tier, tmp_path):
    certs = Certs(tmp_path / "certs")
    sign(certs, 90)
    bed = Bed(make_cluster, make_tier, tmp_path)
    tls = f"https://127.0.0.1:{free_port()},cert={certs.path('server.pem')},key={certs.path('server.key')}"
    prometheus = Prometheus(tmp_path / "prometheus").start(*bed.tree(leaf_flags=("--listen", tls)))
    watcher = Recorder(bed.leaf.url, tmp_path / "watcher")
    watcher.open(Spec(0, "prefix", b"", rev="1"))

    def without_data():
        bed.cluster.put("/dashboard/key", "value")
        procs.run([binary("belfryctl"), "--endpoints", bed.leaf.url, "get", "/dashboard/key"])
        empty = []
        for title, expr in queries(dashboard):
            rows = prometheus.query(expr.replace("$instance", ".*").replace("$__rate_interval", "30s"))
            if not any(math.isfinite(value) for _, value in rows):
                empty.append((title, expr))
        return empty
    empty = []

    def all_have_data():
        empty[:] = without_data()
        return not empty
    procs.wait_until(all_have_data, 60, 1, lambda: f"queries without data: {empty}")
    watcher.quit()
