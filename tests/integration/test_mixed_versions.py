"""A tree of old and new tiers: 0.1.0 above and below this version, as during an upgrade."""
import os
import subprocess
import time

import needs
import pytest
from client import Writer, write
from test_verify import Verify, assert_clean

TOOL = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "old-belfryd")


@pytest.fixture(scope="module")
def programs():
    """By version: None is the one that is built here."""
    done = subprocess.run(["bash", TOOL], capture_output=True, text=True)
    if done.returncode != 0:
        needs.missing(done.stderr.strip())
    return {"old": done.stdout.strip(), "new": None}


@pytest.mark.parametrize("order", ["old new old", "new old new"])
def test_tiers_of_two_versions_serve_each_other(cluster, make_tier, soak, seed, figure, request, order):
    """Three levels, each verified against etcd while writes go on and every tier is killed and restarted in turn."""
    if not soak:
        needs.full_length("it builds 0.1.0: with BELFRY_SOAK=1 only")
    programs = request.getfixturevalue("programs")
    write(cluster.endpoints, "mode=mix", f"seed={seed}", "count=2000", "size=300")
    tiers = []
    for version in order.split():
        tiers.append(make_tier(tiers[-1].url if tiers else cluster, "--name", f"level{len(tiers)}", "--drain", "2s",
                               program=programs[version]))
    writer = Writer(cluster.endpoints, "mode=mix", f"seed={seed}", "rate=200", "size=300")
    verifiers = [Verify(cluster.endpoints, tier.url, "--for", "60s", "--watchers", "16", "--max-lag", "2m") for tier in tiers]
    for how in ("kill", "stop"):
        for tier in tiers:
            time.sleep(5)
            getattr(tier, how)()
            time.sleep(1)
            tier.start(wait=False)
            tier.wait_ready(120)
    verdicts = [verify.result(timeout=600) for verify in verifiers]
    writer.stop()
    for level, (code, said) in enumerate(verdicts):
        assert_clean(code, said)
        assert said["events"] > 5000 and said["losses"]["tier"] > 0, said
        figure(f"mixed.{order.replace(' ', '_')}.level_{level}.events", said["events"])
