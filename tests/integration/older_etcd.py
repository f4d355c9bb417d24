"""Tests that ask for what etcd does from 3.5 on, and the line of docs/compatibility.md that says what an older one does. On an older etcd
such a test must fail: it counts as a known difference. If it passes, the line is not so."""
import needs
from etcd import version_of

SINCE = (3, 5)
REQUEST, WATCH = "test_differential.py::test_request", "test_differential.py::test_watch"
TESTS = {
    "older-grpc": [f"{REQUEST}[{case}]" for case in (
        "another content type", "another content type that begins the same", "another content type, for a watch", "no content type",
        "another method", "another method, for a watch", "the timeout: no unit", "the timeout: an unknown unit", "the timeout: nine digits",
        "the timeout: only a unit", "the timeout: malformed, for a watch", "a watch that ends by its deadline",
        "a watch that has nothing to say ends by its deadline", "a watch, compressed", "a watch, which is not gzip although it says so")]
    + ["test_differences.py::test_what_unpacks_to_much_more_is_refused"],
    "older-gateway": ["test_gateway.py::test_requests_have_etcds_answers", "test_differences.py::test_a_watch_that_is_malformed_is_told_so",
                      *(f"test_gateway_generated.py::test_generated_{what}" for what in (
                          "requests_have_etcds_answers", "watches_are_told_the_same", "requests_with_rights_have_etcds_answers")),
                      "test_gateway_generated.py::test_forms_of_http_have_etcds_answers"],
    "older-progress": [f"{WATCH}[{case}]" for case in (
        "3.2 of two members of the union the last counts", "3.3 compacted: progress for the stream is blocked until the cancel",
        "3.8 without watchers: no answer", "3.8 after every watcher was cancelled: no answer", "3.8 asked for in the middle of a replay")],
    "older-compacted-delete": [f"{WATCH}[3.3 at the compact revision: a delete]"],
    "older-token": [f"{WATCH}[3.13 a token where auth is off]"],
}


def line_of(nodeid):
    """The line that says why this test cannot pass on this etcd, or None."""
    if version_of() >= SINCE:
        return None
    return next((line for line, tests in TESTS.items() if nodeid.removeprefix("tests/integration/") in tests), None)


def judge(report):
    """A report of pytest's, of a test that was run."""
    line = line_of(report.nodeid) if report.when == "call" else None
    if line is None or report.skipped:
        return
    if report.passed:
        report.outcome, report.longrepr = "failed", f"it passes on this etcd: docs/compatibility.md's {line} says that it cannot"
    else:
        report.outcome, report.longrepr = "skipped", (report.nodeid, 0, f"Skipped: {needs.BY_VERSION}{line}: {SINCE[0]}.{SINCE[1]} does it")
