"""bench/attacks, 2 s of each attack: what healthy clients notice of it. With --soak the full length, and ratios."""
import json
import os
import subprocess
import sys

import procs
import pytest
from client import BIN

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
import attack_rows  # noqa: E402

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "attacks")


def attacks():
    """The rows; bench/attacks fails unless every attack of belfry-attack has one."""
    return list(attack_rows.EXPECTED)


@pytest.fixture(scope="module")
def table():
    """Of all attacks, in one run: they share servers and clients."""
    length = "--full" if os.environ.get("BELFRY_SOAK") == "1" else "--quick"
    bench = procs.spawn([BENCH, length, "--output", "json", "--build", os.path.dirname(os.path.abspath(BIN))],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said, errors = bench.communicate(timeout=6000)
    finally:
        if bench.poll() is None:
            bench.terminate()  # it stops its servers, and removes their folders
            bench.wait(30)
        procs.end(bench)
    assert said, errors
    return {row["attack"]: row for row in json.loads(said)}


def test_there_are_attacks():
    assert len(attacks()) > 20 and os.path.exists(os.path.join(BIN, "belfry-attack")), "belfry-attack is not built"


@pytest.mark.parametrize("name", attacks())
def test_healthy_clients_do_not_notice(table, name, figure):
    row = table[name]
    figure(f"attacks.{name}.rss", row["rss"] / (1 << 20), "MiB")
    for kind, (attacked, beside) in row["p99_ms"].items():
        figure(f"attacks.{name}.p99_{kind}", f"{attacked:.2f}/{beside:.2f}", "ms")
    assert row["told"]["bytes_out"] > 0 or name in ("connections", "admin-idle", "many-addresses"), "nothing was sent"
    if "reads" not in row:  # nobody can be served while auth is switched
        assert not row["faults"], (row["faults"], row["told"])
        return
    assert row["reads"] > 100 and row["lists"] + row["lists_failed"] > 10 and row["history"] + row["history_failed"] > 2, \
        "healthy clients did nothing"
    assert not row["faults"], (row["faults"], row["told"], row["rejected"])
