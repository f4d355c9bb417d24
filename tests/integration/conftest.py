import os
import random
import shutil
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
# Before anything imports grpc: its handlers run in every child, write to its stderr, and may abort the process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import needs  # noqa: E402
import netns  # noqa: E402
import older_etcd  # noqa: E402
import procs  # noqa: E402
from belfryd import Belfryd  # noqa: E402
from browser import Browser  # noqa: E402
from etcd import PROGRAM, Cluster  # noqa: E402
from patience import Lost  # noqa: E402
from shows import differs, refuse_idle_marks  # noqa: E402, F401

SOAK = os.environ.get("BELFRY_SOAK") == "1"
SEED = int(os.environ.get("BELFRY_SEED") or random.SystemRandom().randrange(1, 1 << 31))
FIGURES = os.environ.get("BELFRY_FIGURES")  # a file: tests of one run may be in several processes
STARVED = os.environ.get("BELFRY_STARVED")  # likewise: what failed while the machine was not ours, for tools/itest
STARVED_SHARE = 0.15
_figures = []
_lost_since = {}


def pytest_configure(config):
    procs.own_mounts()
    config.addinivalue_line("markers", "shows(*names): finds those lines of docs/compatibility.md (shows.py)")


def pytest_collection_modifyitems(items):
    refuse_idle_marks(items)


def pytest_report_header(config):
    return f"belfry: seed {SEED} (BELFRY_SEED), {'full' if SOAK else 'short'} length (BELFRY_SOAK), {PROGRAM} (BELFRY_ETCD)"


def pytest_terminal_summary(terminalreporter):
    lines = _figures
    if FIGURES and os.path.exists(FIGURES):
        with open(FIGURES) as f:
            lines = sorted(f.read().splitlines())
    for line in lines:
        terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Since then, and since the first of its file: what is made for several tests is made in the first."""
    item.lost = Lost(), _lost_since.setdefault(item.path, Lost())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    older_etcd.judge(report)
    needs.judge(report)
    if call.when == "call":
        item.has_passed = report.passed
    if report.failed and STARVED:
        shares = [lost.stolen() for lost in item.lost]  # a load of our own is no reason to fail
        report.sections.append(("machine", f"taken away of it: {shares[0]:.0%}, since the file began {shares[1]:.0%}"))
        if max(shares) >= STARVED_SHARE:
            with open(STARVED, "a") as f:
                f.write(item.nodeid + "\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """A file that is skipped as a whole."""
    needs.judge((yield).get_result())


@pytest.fixture(autouse=True)
def tidy(request, tmp_path):
    """What a test has written goes when it has passed: etcd's files would be tens of gigabytes at the end of a run."""
    yield
    if getattr(request.node, "has_passed", False):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def figure():
    """figure(name, value, unit): one line that can be quoted, shown at the end of the run."""
    def say(name, value, unit=""):
        text = f"{value:.3f}" if isinstance(value, float) else str(value)
        _figures.append(f"figure: {name}={text} {unit}".rstrip())
        print(_figures[-1], flush=True)
        if FIGURES:
            with open(FIGURES, "a") as f:
                f.write(_figures[-1] + "\n")
    return say


@pytest.fixture
def soak():
    return SOAK


@pytest.fixture
def seed():
    print(f"BELFRY_SEED={SEED}", flush=True)
    return SEED


@pytest.fixture
def rng(seed):
    return random.Random(seed)


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    procs.kill_all()


@pytest.fixture
def make_cluster(tmp_path):
    made = []

    def make(n=1, start=True, name="", **kw):
        folder = tmp_path / f"cluster{len(made)}{name}"
        folder.mkdir()
        c = Cluster(folder, n, **kw)
        made.append(c)
        return c.start() if start else c
    yield make
    for c in made:
        c.close()


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


@pytest.fixture
def make_tier(tmp_path):
    """make_tier(cluster or upstream URLs, flag, flag, ...): a belfryd that is ready, unless wait=False."""
    made = []

    def make(upstream, *flags, wait=True, **kw):
        folder = tmp_path / f"tier{len(made)}"
        folder.mkdir()
        if not isinstance(upstream, str):
            kw.setdefault("ns", upstream.ns)
            upstream = ",".join(m.url for m in upstream.members)
        made.append(Belfryd(folder, upstream, flags, **kw))
        return made[-1].start(wait)
    yield make
    for tier in made:
        if tier.is_running():
            tier.kill()
        crashed = [line for line in tier.log().splitlines() if "Sanitizer" in line or "Assertion" in line]
        assert not crashed, crashed[:5]


@pytest.fixture
def tier(cluster, make_tier):
    return make_tier(cluster)


@pytest.fixture
def make_browser():
    """make_browser(width, height, scheme): a headless Chromium (browser.py)."""
    made = []

    def make(**kw):
        made.append(Browser(**kw))
        return made[-1]
    yield make
    for each in made:
        each.close()


@pytest.fixture
def browser(make_browser):
    return make_browser()


@pytest.fixture
def own_network():
    """The test and all that it starts have a network of their own, with 10.77.0.0/16 on its loopback interface: each of these
    addresses is a client, and 127.0.0.0/8 is one. To be asked for by usefixtures, so that it is there before a cluster."""
    reason = netns.why_not()
    if reason:
        needs.missing(f"the right to make network namespaces: {reason}")
    with netns.many_addresses() as ns, netns.inside(ns):
        yield
        procs.kill_all()


@pytest.fixture
def make_net():
    """A network of namespaces for n members; skips, and says why, where they cannot be made."""
    made = []

    def make(n=3):
        reason = netns.why_not()
        if reason:
            needs.missing(f"the right to make network namespaces: {reason}")
        made.append(netns.Net(n))
        return made[-1]
    yield make
    procs.kill_all()
    time.sleep(0.1)
    for net in made:
        net.close()
