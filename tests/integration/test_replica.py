"""The replica on disk when its process is killed, when the disk is full and when its file is damaged (tests/stress/ingestkill.c says how)."""
import subprocess

import pytest

import needs
import procs
from client import binary


def test_replica_is_whole_after_a_kill_at_any_moment(tmp_path, soak, seed, figure):
    kills = 300 if soak else 30
    done = procs.run([binary("tests", "ingestkill"), "--kills", kills, "--seed", seed, tmp_path / "replica"],
                     timeout=60 + 6 * kills)
    said = dict(word.split("=") for word in done.stdout.decode().split())
    assert int(said["kills"]) == kills
    figure("replica.kills", kills)
    figure("replica.kills_revisions", int(said["revisions"]))


def test_nothing_wrong_comes_from_a_damaged_replica(tmp_path, soak, seed, figure):
    cases = 1000 if soak else 60
    done = procs.run([binary("tests", "ingestkill"), "--damage", cases, "--seed", seed, tmp_path], timeout=60 + 2 * cases)
    said = dict(word.split("=") for word in done.stdout.decode().split())
    assert int(said["cases"]) == cases and int(said["wrong"]) == 0 and int(said["deaths_in_a_row"]) <= 2
    figure("replica.damages", cases)
    figure("replica.damages_deaths", int(said["deaths"]))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode != 0:
        needs.missing(f"the right to mount a small file system: {made.stderr.decode(errors='replace').strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_replica_goes_on_after_a_full_disk(small_disk, seed, figure):
    done = procs.run([binary("tests", "ingestkill"), "--full", "--seed", seed, small_disk], timeout=120)
    said = dict(word.split("=") for word in done.stdout.decode().split() if "=" in word)
    assert int(said["full_at"]) > 0 and int(said["trims"]) > 0
    figure("replica.full_disk_trims", int(said["trims"]))
