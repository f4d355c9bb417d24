"""The alerts of packaging/prometheus: a real Prometheus on a real tree of tiers. Each alert fires by its real cause and clears when
that is mended; healthy clients make none fire; each has its runbook.

The rules are hastened for it (prometheus.hasten): they wait seconds where they wait minutes. In the gate two alerts are tried so,
with --soak all of them: the figures are the table of docs/runbooks.md."""
import contextlib
import os
import re
import time

import pytest
import yaml

import needs
import procs
from alert_causes import CAUSES, Bed
from belfryd import Belfryd
from checker import Spec
from client import Recorder, binary, write
from etcd import Cluster
from prometheus import ROOT, RULES, WINDOW_S, Prometheus, program, seconds

QUICK = ("BelfryDown", "BelfryUpstreamLost")
MACHINE = ("systemctl", "journalctl", "dmesg", "df", "top", "openssl")  # commands that no test runs
RUNBOOKS = os.path.join(ROOT, "docs", "runbooks.md")
FIRES_S, CLEARS_S = 90, 90


def rules():
    with open(RULES) as f:
        return {rule["alert"]: rule for group in yaml.safe_load(f)["groups"] for rule in group["rules"]}


def runbook(alert):
    """The text of its section."""
    with open(RUNBOOKS) as f:
        sections = re.split(r"(?m)^## ", f.read())
    found = [section for section in sections if section.startswith(alert + "\n")]
    assert len(found) == 1, f"docs/runbooks.md has {len(found)} sections {alert}"
    return found[0]


def first_commands(alert):
    found = re.search(r"\*\*First commands\.\*\*[^\n]*\n\n((?:    [^\n]*\n)+)", runbook(alert))
    return [line.strip() for line in found[1].splitlines()] if found else []


@pytest.fixture(scope="module")
def commanded(tmp_path_factory):
    """Runs a command of the runbooks, for a tier and an etcd of its own."""
    folder = tmp_path_factory.mktemp("runbooks")
    (folder / "etcd").mkdir()
    cluster = Cluster(folder / "etcd", keep=True).start()
    tier = Belfryd(folder, cluster.members[0].url, keep=True).start()

    def run(command):
        for name, address in (("127.0.0.1:23791", f"127.0.0.1:{tier.admin_port}"), ("127.0.0.1:23790", tier.endpoint),
                              ("127.0.0.1:2379", cluster.members[0].endpoint)):
            command = re.sub(re.escape(name) + r"\b", address, command)
        return procs.run(["sh", "-c", re.sub(r"^belfryctl", binary("belfryctl"), command)], check=False)
    yield run
    tier.kill()
    cluster.close()


def test_promtool_accepts_the_rules():
    folder = os.path.dirname(RULES)
    procs.run([program("promtool"), "check", "rules", RULES])
    procs.run([program("promtool"), "test", "rules", os.path.join(folder, "belfry.rules.test.yml")])


@pytest.mark.parametrize("alert", rules())
def test_promtool_notices_a_rule_that_never_fires(alert, tmp_path):
    """So the unit tests of the rules can fail, for every rule."""
    folder = os.path.dirname(RULES)
    with open(RULES) as f:
        document = yaml.safe_load(f)
    for rule in document["groups"][0]["rules"]:
        if rule["alert"] == alert:
            rule["expr"] = f"({rule['expr']}) and on() vector(0) > 1"
    (tmp_path / "belfry.rules.yml").write_text(yaml.safe_dump(document))
    with open(os.path.join(folder, "belfry.rules.test.yml")) as f:
        (tmp_path / "test.yml").write_text(f.read())
    done = procs.run([program("promtool"), "test", "rules", str(tmp_path / "test.yml")], check=False)
    assert done.returncode != 0 and alert in done.stderr.decode(), done.stderr


def test_each_alert_has_a_cause_and_a_runbook():
    assert set(rules()) == set(CAUSES)
    for alert, rule in rules().items():
        text = runbook(alert)
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning") and rule["labels"]["severity"] in text
        for part in ("**What it means.**", "**How bad.**", "**First commands.**"):
            assert part in text, f"{alert}: {part}"
        assert len(first_commands(alert)) == 3
        row = re.search(rf"(?m)^\| {alert} \| (.*?) \|", open(RUNBOOKS).read())
        assert row and row[1] == CAUSES[alert].what, f"{alert}: the row of the table must have the cause {CAUSES[alert].what!r}"


@pytest.mark.parametrize("alert", CAUSES)
def test_first_commands_work(alert, commanded):
    """Those of belfryctl, curl and etcdctl, against a real tier. The others are of the machine that the tier runs on."""
    for command in first_commands(alert):
        program = command.split()[0]
        assert program in ("belfryctl", "curl", "etcdctl", *MACHINE), command
        if program not in MACHINE:
            done = commanded(command)
            assert done.returncode == 0 and done.stdout, f"{command}: {done.stderr.decode()}"


def test_no_alert_looks_at_what_healthy_clients_do():
    """Their metrics: what watchers, streams, connections and calls of clients do."""
    theirs = re.compile(r"belfry_(watchers|streams|watch_|connections|deliveries|delivered|catch_up|parks|unparks|compacted|progress|"
                        r"relay|reads|permissions|rights|kube|history_reads|backfill|fence|received|sent|writes|tls)")
    for alert, rule in rules().items():
        assert not theirs.search(rule["expr"]), f"{alert}: {rule['expr']}"


@pytest.mark.parametrize("alert", CAUSES)
def test_alert_fires_by_its_cause_and_clears(alert, make_cluster, make_tier, tmp_path, soak, figure):
    if not soak and alert not in QUICK:
        needs.full_length("with --soak every alert is made to fire; here two of them")
    cause, rule, bed = CAUSES[alert], rules()[alert], Bed(make_cluster, make_tier, tmp_path)
    with bed.ends, contextlib.closing(cause.make(bed)) as trouble:
        tiers = next(trouble)
        bed.prometheus = Prometheus(tmp_path / "prometheus", cause.scrape_s).start(*tiers)
        assert alert not in bed.prometheus.alerts(), "before its cause"
        began = time.monotonic()
        next(trouble)
        bed.prometheus.wait_firing(alert, FIRES_S)
        fired_s, began = time.monotonic() - began, time.monotonic()
        next(trouble, None)
        bed.prometheus.wait_clear(alert, CLEARS_S + WINDOW_S)
        cleared_s = time.monotonic() - began
    holds_s = seconds(rule.get("for", "0s"))
    figure(f"alert.{alert}", f"| {alert} | {cause.what} | {fired_s:.0f} s | {cleared_s:.0f} s | {holds_s} s |")


def test_healthy_clients_make_no_alert(cluster, make_tier, tmp_path, soak):
    """Not even for a moment: what is pending counts. Watchers that come and go, one that does not read, one of a revision that is
    compacted, calls that etcd refuses, and many writes."""
    root = make_tier(cluster, "--name", "root")
    leaf = make_tier(root.url, "--name", "leaf")
    prometheus = Prometheus(tmp_path / "prometheus", scrape_s=3).start(root, leaf)  # on a busy machine a scrape takes a second
    slow = Recorder(leaf.url, tmp_path / "slow")
    slow.open(Spec(0, "prefix", b"", rev="1"))
    slow.wait_connected(1)
    slow.stop()
    begun = time.monotonic()
    while time.monotonic() < begun + (30 if soak else 8):
        write(cluster.endpoints, "mode=put", "prefix=/alerts/", "count=300", "size=2000")
        newest = cluster.revision()  # what the tiers do not have yet is not compacted: that would be their trouble
        procs.wait_until(lambda: min(t.metrics()["belfry_revision"] for t in (root, leaf)) >= newest, 30, 0.1, "the tiers have it")
        cluster.compact(newest)
        one = Recorder(leaf.url, tmp_path / "one")
        one.open(Spec(0, "prefix", b"", rev="2"))
        one.quit()
        procs.run([binary("belfryctl"), "--endpoints", leaf.url, "get", "--rev", "1", "/alerts/0"], check=False)
        procs.run([binary("belfryctl"), "--endpoints", leaf.url, "lease", "revoke", "123"], check=False)
    slow.cont()
    slow.quit()
    looked = prometheus.query("count_over_time(up[10m])")
    assert len(looked) == 2 and all(n >= 3 for _, n in looked), "Prometheus has looked"
    assert prometheus.query("count_over_time(ALERTS[10m])") == []
