"""docs/reference/methods.md: it has every method of etcd's API, and a tier serves or relays each as the page says."""
import re
from pathlib import Path

import pytest
from etcd import version_of
from stack import total
from test_tier_identity import each_once

PAGE = Path(__file__).parents[2] / "docs/reference/methods.md"
CALLS = Path(__file__).parents[1] / "go/goeverycall/main.go"
SERVICES = {"kv": "KV", "wa": "Watch", "le": "Lease", "cl": "Cluster", "ma": "Maintenance", "au": "Auth", "lo": "Lock", "el": "Election"}
STREAM = "KV/RangeStream"
# After these the others would say something else: an alarm that stops writes, a second member, auth.
LAST = ("Maintenance/Alarm", "Cluster/MemberAdd", "Auth/AuthEnable")


def rows():
    """method -> served, relayed, or served or relayed"""
    return dict(re.findall(r"^\| `(\w+/\w+)` \| (served|relayed|served or relayed) \|", PAGE.read_text(), re.M))


def called():
    """The methods that goeverycall calls, but for the one that does not exist."""
    found = re.findall(r'^\t\t\{(\w\w), "(\w+)", ', CALLS.read_text(), re.M)
    return {f"{SERVICES[service]}/{name}" for service, name in found} - {"KV/Nothing"}


def test_the_page_has_every_method():
    assert rows().keys() == called()
    assert len(rows()) == 49


@pytest.fixture
def sides(make_cluster, make_tier):
    """An etcd, and a tier in front of another one: what the methods do must not be seen by the other."""
    direct, behind = make_cluster(), make_cluster()
    return direct, behind, make_tier(behind)


def test_every_method_is_served_or_relayed_as_the_page_says(sides):
    direct, behind, tier = sides
    methods = sorted(rows(), key=lambda method: (method in LAST, method))
    leases = [int(cluster.ctl("lease", "grant", "600").stdout.decode().split()[1], 16) for cluster in (direct, behind)]
    wrong = []
    for method in methods:
        code, said = each_once(direct.members[0].endpoint, f"only={method}", f"lease={leases[0]}")[method]
        before = total(tier, "relay", "relayed")
        tier_code, tier_said = each_once(tier.endpoint, f"only={method}", f"lease={leases[1]}")[method]
        is_relayed = total(tier, "relay", "relayed") > before
        if method == STREAM and version_of() < (3, 7):
            code = 0  # a tier serves it all the same
        must_be = rows()[method] == "relayed" or method == "KV/Txn"  # one that writes
        if code != tier_code or is_relayed != must_be:
            wrong.append((method, code, said, tier_code, tier_said, "relayed" if is_relayed else "served"))
    assert not wrong
