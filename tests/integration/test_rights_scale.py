"""bench/rights at a tenth of its size: 10,000 watches of 100 clients with tokens, the leaf killed."""
import json
import os
import subprocess

import pytest
from client import BIN

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "bench", "rights")


@pytest.mark.parametrize("kind", ["simple", "jwt"])
def test_a_fleet_with_tokens_resumes_with_few_questions(kind, figure):
    done = subprocess.run([BENCH, "--quick", "--only", "tokens", "--token", kind, "--output", "json", "--build",
                           os.path.dirname(os.path.abspath(BIN))], capture_output=True, text=True, timeout=150)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    out = found["tokens"]
    figure(f"rights.{kind}.10000_watches_resumed", out["created_again_s"], "s")
    figure(f"rights.{kind}.questions_per_token_and_period", out["calls_after"] / out["connections"])
    assert out["watchers"] == 10_000 and out["lost"] == 0 and out["doubled"] == 0
    assert out["deliveries"] == 2 * 10_000 + 4_000, "each range once, twice; and each shared one while the leaf was away"
    assert out["calls_after"] > 0, "etcd was asked"
    assert done.returncode == 0, [row for row in found["rows"] if row["verdict"] == "MISSED"]
