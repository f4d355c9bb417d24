"""What a test needs and does not find here. Every skip says why with the first words of its reason:

- "missing: ..."  a program, a package or a right that tools/bootstrap installs or the gate's machine has. In the gate (CI=true)
  that is a failure, as is every skip for another reason than the following ones.
- "peer: ..."     a server that is built outside this tree. tools/tally counts these for themselves.
- "by version: ..."  this version of a server cannot pass; the line of docs/compatibility.md that says why comes first.
- "by peer: ..."  the tests run against such a server, which does not do this.
- "length: ..."   for runs of full length only.
"""
import importlib.util
import os

import pytest

GATE = os.environ.get("CI") == "true"
PEER, BY_PEER, BY_VERSION, LENGTH, MISSING = "peer: ", "by peer: ", "by version: ", "length: ", "missing: "


def missing(what):
    pytest.skip(MISSING + what)


def peer(why):
    pytest.skip(PEER + why)


def by_version(line, why):
    """`line`: the name of one of docs/compatibility.md."""
    pytest.skip(f"{BY_VERSION}{line}: {why}")


def full_length(why):
    pytest.skip(LENGTH + why)


def module(name, package):
    """A module for a whole file of tests."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if GATE:
            raise
        pytest.skip(f"{MISSING}{package}: tools/bootstrap installs it", allow_module_level=True)


def module_of_programs(name, package):
    """Likewise, for programs that the tests start: it is looked for, and not imported."""
    if importlib.util.find_spec(name) is None:
        if GATE:
            raise ImportError(f"{package}: tools/bootstrap installs it")
        pytest.skip(f"{MISSING}{package}: tools/bootstrap installs it", allow_module_level=True)


def judge(report):
    """A report of pytest's, after which a skip that the gate does not allow is a failure."""
    if not GATE or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith((PEER, BY_PEER, BY_VERSION, LENGTH)):
        report.outcome = "failed"
        report.longrepr = f"skipped, which the gate (CI=true) takes for a failure: {reason}"
