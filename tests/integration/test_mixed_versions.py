"""A tree of old and new tiers: each older version above and below this one, as during an upgrade; and a tier that goes back to an
older version."""
import json
import os
import subprocess
import time

import needs
import procs
import pytest
from client import Writer, binary, write
from test_verify import Verify, assert_clean

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "old-belfryd")


OLDER = subprocess.run(["bash", TOOL, "--list"], capture_output=True, text=True, check=True).stdout.split()


def programs_with(version, soak):
    """That older version, and None: the one that is built here."""
    if not soak:
        needs.full_length(f"it builds {version}: with BELFRY_SOAK=1 only")
    done = subprocess.run(["bash", TOOL, version], capture_output=True, text=True)
    if done.returncode != 0:
        needs.missing(done.stderr.strip())
    return {"old": done.stdout.strip(), "new": None}


def read(url, *args):
    """A read through one endpoint: (revision, {key: value}), keys and values as etcd's JSON has them."""
    said = json.loads(procs.run([binary("belfryctl"), "--endpoints", url, "--write-out", "json", "get", *args]).stdout)
    return said["header"]["revision"], {kv["key"]: kv["value"] for kv in said.get("kvs", [])}


def assert_reads_agree(cluster, tier, n):
    """A linearizable read has what was written before it began; a range of one revision is the same everywhere."""
    cluster.ctl("put", "mixed/now", str(n))
    written = read(cluster.endpoints, "mixed/now")
    seen = read(tier.url, "mixed/now")
    assert seen[1] == written[1] and seen[0] >= written[0], (n, seen, written)
    cluster.ctl("put", f"mixed/{n}", "x" * 100)
    revision, everything = read(tier.url, "--prefix", "mixed/")
    assert len(everything) == n + 2, (n, sorted(everything))
    assert read(cluster.endpoints, "--prefix", "mixed/", "--rev", str(revision))[1] == everything
    assert len(read(tier.url, "--prefix", "mixed/", "--consistency", "s")[1]) <= n + 2


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("order", ["old new old", "new old new"])
def test_tiers_of_two_versions_serve_each_other(cluster, make_tier, soak, seed, figure, version, order):
    """Three levels, each verified against etcd while writes go on and every tier is killed and restarted in turn. Reads through each
    level agree with etcd before and after every restart, whichever level it was."""
    programs = programs_with(version, soak)
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=2000", "size=300")
    tiers = []
    for which in order.split():
        tiers.append(make_tier(tiers[-1].url if tiers else cluster, "--name", f"level{len(tiers)}", "--drain", "2s",
                               program=programs[which]))
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "rate=200", "size=300")
    verifiers = [Verify(cluster.endpoints, tier.url, "--for", "60s", "--watchers", "16", "--max-lag", "2m") for tier in tiers]
    n_reads = 0
    for how in ("kill", "stop"):
        for tier in tiers:
            time.sleep(3)
            getattr(tier, how)()
            time.sleep(1)
            tier.start(wait=False)
            tier.wait_ready(120)
            for level in tiers:
                level.wait_ready(120)
                assert_reads_agree(cluster, level, n_reads)
                n_reads += 1
    verdicts = [verify.result(timeout=600) for verify in verifiers]
    writer.stop()
    for level, (code, said) in enumerate(verdicts):
        assert_clean(code, said)
        assert said["events"] > 5000 and said["losses"]["tier"] > 0, said
        figure(f"mixed.{version}.{order.replace(' ', '_')}.level_{level}.events", said["events"])


@pytest.mark.parametrize("version", OLDER)
def test_tier_goes_back(cluster, make_tier, soak, figure, version):
    """From an older version to this one and back, in one folder: neither trips over the other's replica; a change of version costs a
    list at most."""
    programs = programs_with(version, soak)
    write(cluster.endpoints, "mode=mix", "count=500")
    tier = make_tier(cluster, "--drain", "1s", program=programs["old"])
    new = binary("belfryd")
    for n, program in enumerate((new, new, programs["old"], programs["old"], new)):
        assert tier.stop() == 0
        tier.program = program
        tier.start()
        assert_reads_agree(cluster, tier, n)
    runs = tier.log().split("event=start ")[1:]
    lists = [run.count("event=upstream_listing") for run in runs]
    figure(f"mixed.{version}.lists_per_start", " ".join(map(str, lists)), "(old new new old old new)")
    assert max(lists) == 1 and lists[2] == 0 and lists[4] == 0, lists
