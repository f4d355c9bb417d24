"""etcd3gw and tooz, OpenStack's clients of the JSON gateway, on a tier: locks, groups, leaders, watches (openstack_clients.py). Debian
bookworm's own; with --soak those of sid, too."""
import os
import sys

import debian
import needs
import procs
import pytest

needs.module_of_programs("etcd3gw", "python3-etcd3gw")
needs.module_of_programs("tooz", "python3-tooz")
PROGRAM = os.path.join(os.path.dirname(__file__), "openstack_clients.py")
ON_ETCD = ["keys", "leases", "locks", "watches", "leaders", "tooz_locks", "tooz_groups", "tooz_member_dies"]
TESTS = ON_ETCD + ["large_watches"]
full_length = pytest.mark.skipif(os.environ.get("BELFRY_SOAK") != "1", reason=needs.LENGTH + "with --soak against etcd, and sid's clients, too")


def run(python, test, port):
    with open(PROGRAM) as f:
        done = procs.run([*python, "-W", "ignore", "-c", f.read(), str(port), test], timeout=180, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]


@pytest.mark.parametrize("test", TESTS)
def test_on_a_tier(test, tier):
    run([sys.executable], test, tier.port)


@full_length
@pytest.mark.parametrize("test", ON_ETCD)
def test_on_etcd(test, cluster):
    """What the program asks for is what etcd does."""
    run([sys.executable], test, cluster.members[0].client_port)


@full_length
@pytest.mark.parametrize("test", TESTS)
def test_the_newest_on_a_tier(test, tier):
    root = debian.tool("gateway-clients", "sid")
    run(["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "python3"], test, tier.port)
