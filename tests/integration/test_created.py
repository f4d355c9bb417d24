"""A watch says when it has begun: what is written elsewhere after that is given to it, each time."""
from pathlib import Path

from client import Recorder

ROUNDS = 20


def test_a_write_after_a_watch_has_begun_is_always_seen(cluster, tmp_path):
    recorder = Recorder(cluster.endpoints, tmp_path / "record")
    for number in range(ROUNDS):
        key = f"/created/{number}"
        before = cluster.put("/elsewhere", str(number))
        recorder.command(f"watch {number} key {key.encode().hex()} - created-notify=true")
        recorder.wait_place({number: 1}, 10)  # nothing else gives it a place
        start = recorder.status()[number]["place"]
        rev = cluster.put(key, "x")
        assert before <= start < rev
        recorder.wait_rev({number: rev}, 10)
    recorder.quit()
    kinds = [line.split()[2] for line in Path(recorder.record).read_text().splitlines() if line.startswith("B ")]
    assert kinds.count("N") == ROUNDS and kinds.count("C") == ROUNDS
