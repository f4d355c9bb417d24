"""belfry.js with scripted streams, in Node. A page in a browser, on real tiers, is in test_sse_browser.py."""
import shutil
import subprocess

import needs
import nodejs


def test_belfry_js():
    if shutil.which("node") is None:
        needs.missing("node: tools/bootstrap installs it")
    done = subprocess.run(["node", "--test", nodejs.program("belfry_js.mjs")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "# fail 0" in done.stdout and "# skipped 0" in done.stdout, done.stdout[-600:]
