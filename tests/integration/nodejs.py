"""npm's packages for the tests that are written in JavaScript (tests/node)."""
import hashlib
import os
import shutil
import subprocess

import pytest

NODE = os.path.join(os.path.dirname(__file__), "..", "node")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "belfry")


def installed():
    """The folder into which npm has installed what tests/node/package-lock.json says; kept from run to run. Skips, and
    says why, where that cannot be done."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"no {program} here: tools/bootstrap installs nodejs and npm")
    with open(os.path.join(NODE, "package-lock.json"), "rb") as f:
        folder = os.path.join(CACHE, "node", hashlib.sha256(f.read()).hexdigest()[:16])
    if not os.path.exists(os.path.join(folder, "ready")):
        os.makedirs(folder, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(NODE, name), folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
                              cwd=folder, capture_output=True, text=True, timeout=180)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install what tests/node needs: {done.stderr.strip()[-300:]}")
        open(os.path.join(folder, "ready"), "w").close()
    return folder


def program(name):
    return os.path.join(NODE, name)
