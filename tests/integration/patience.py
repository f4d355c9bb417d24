"""How long to wait for something on a machine that is lent: what was taken away from it is not counted, and what waits for
the rest is. So a limit means the same on a busy host as on an idle one."""
import contextlib
import os
import threading
import time

AT_MOST = 10  # times the limit, by the clock on the wall
SCALE = int(os.environ.get("BELFRY_PATIENCE") or 1)  # of all limits: tools/itest repeats so what was starved


class Pulse(threading.Thread):
    """How late a thread that asks for a millisecond of work ten times a second is: a host does not always tell what it takes."""
    EVERY_S, WORK_S = 0.1, 0.001

    def __init__(self):
        super().__init__(daemon=True)
        self.late_s = 0.0

    def run(self):
        while True:
            began, work = time.monotonic(), time.thread_time() + self.WORK_S
            time.sleep(self.EVERY_S)
            while time.thread_time() < work:
                pass
            late_s = time.monotonic() - began - self.EVERY_S - self.WORK_S
            self.late_s += late_s if late_s > self.WORK_S else 0  # less is what any timer has


_pulse = Pulse()
_pulse.start()


def _ticks():
    """(all, stolen) of every processor since boot."""
    with open("/proc/stat") as f:
        columns = [int(c) for c in f.readline().split()[1:9]]
    return sum(columns), columns[7]


class Lost:
    """The share of the time since it was made in which the machine was not ours."""

    def __init__(self):
        self.at, self.ticks, self.late_s = time.monotonic(), _ticks(), _pulse.late_s

    def stolen(self):
        """The share that the host says it took: what this machine itself was busy with is not in it. 0: too short a time to say."""
        every, stolen = (now - then for now, then in zip(_ticks(), self.ticks))
        return stolen / every if every > 0 else 0

    def share(self):
        late = (_pulse.late_s - self.late_s) / max(time.monotonic() - self.at, Pulse.EVERY_S)
        return max(self.stolen(), min(1, late))


class Patience:
    def __init__(self, limit_s):
        self.limit_s, self.lost = limit_s * SCALE, Lost()

    def took(self):
        """Seconds so far by the clock on the wall."""
        return time.monotonic() - self.lost.at

    def used(self):
        """Those that the machine was ours."""
        return self.took() * (1 - self.lost.share())

    def left(self):
        """How long to wait now, before asking again: 0 when it is over."""
        return 0 if self.is_over() else max(0.01, self.limit_s - self.used())

    def is_over(self):
        return self.used() > self.limit_s or self.took() > AT_MOST * self.limit_s


@contextlib.contextmanager
def within(at_most_s, at_least_s=0.0, why=""):
    """What is done inside takes so long: at least by the clock on the wall, at most by patience."""
    patience = Patience(at_most_s)
    yield
    took_s, is_over = patience.took(), patience.is_over()
    assert took_s > at_least_s and not is_over, f"{took_s:.1f} s, not {at_least_s} to {at_most_s} s: {why}"
