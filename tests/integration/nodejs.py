"""npm's packages for the tests that are written in JavaScript (tests/node)."""
import os
import subprocess

import needs

HERE = os.path.dirname(__file__)
NODE = os.path.join(HERE, "..", "node")
TOOL = os.path.join(HERE, "..", "..", "tools", "node-packages")


def installed():
    """The folder into which tools/node-packages has installed what tests/node/package-lock.json says. Skips, and says why,
    where that cannot be done."""
    done = subprocess.run(["bash", TOOL], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        needs.missing(f"npm's packages: {done.stderr.strip()[-300:]}")
    return done.stdout.strip()


def program(name):
    return os.path.join(NODE, name)
