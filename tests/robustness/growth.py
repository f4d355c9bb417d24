"""What a long run makes grow: a tier's memory and the file of its replica, sampled; and what is left of it as a slope."""
import os
from pathlib import Path

EVERY_S = 5
WARM = 0.25      # of the run: what is taken once and kept, caches and pools, is taken by then
AT_MOST = 0.10   # of the middle value, over the whole of what is judged


def sizes(tier):
    """(bytes of anonymous memory, bytes of the replica's file); None: it does not run."""
    try:
        status = Path(f"/proc/{tier.pid}/status").read_text()
        memory = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon:"))
        file = sum(os.stat(path).st_blocks * 512 for path in Path(tier.cache).rglob("*.mdb"))
    except (OSError, StopIteration, AttributeError):
        return None
    return memory, file


def slope(points):
    """Of the straight line nearest to (seconds, bytes), in bytes a second."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    square = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0


def judge(samples, seconds):
    """samples: (seconds, memory, file). What grew after the first quarter: for each of the two its middle value, slope an
    hour and whether it is flat; {}: too little to say."""
    late = [s for s in samples if s[0] >= WARM * seconds]
    if len(late) < 20:
        return {}
    lasted = late[-1][0] - late[0][0]
    verdict = {}
    for i, name in ((1, "memory"), (2, "file")):
        points = [(s[0], s[i]) for s in late]
        middle, grows = sorted(y for _, y in points)[len(points) // 2], slope(points)
        verdict[name] = {"middle_bytes": middle, "bytes_an_hour": round(grows * 3600), "most_bytes": max(s[i] for s in samples),
                         "flat": grows * lasted <= AT_MOST * middle}
    return verdict
