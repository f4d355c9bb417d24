"""How long to wait for something on a machine that is lent: what a hypervisor took away (steal) is not counted, and what waits
for the rest is. So a limit means the same on a busy host as on an idle one."""
import contextlib
import time

AT_MOST = 10  # times the limit, by the clock on the wall


def _ticks():
    """(all, stolen) of every processor since boot."""
    with open("/proc/stat") as f:
        columns = [int(c) for c in f.readline().split()[1:9]]
    return sum(columns), columns[7]


class Patience:
    def __init__(self, limit_s):
        self.limit_s, self.used_s = limit_s, 0.0
        self.began = self.at = time.monotonic()
        self.ticks = _ticks()

    def used(self):
        """Seconds so far that the machine was ours."""
        now, ticks = time.monotonic(), _ticks()
        every, stolen = ticks[0] - self.ticks[0], ticks[1] - self.ticks[1]
        if every > 0:
            self.used_s += (now - self.at) * (1 - stolen / every)
            self.at, self.ticks = now, ticks
        return self.used_s

    def left(self):
        """How long to wait now, before asking again: 0 when it is over."""
        return 0 if self.is_over() else max(0.01, self.limit_s - self.used_s)

    def is_over(self):
        return self.used() > self.limit_s or time.monotonic() - self.began > AT_MOST * self.limit_s


@contextlib.contextmanager
def within(at_most_s, at_least_s=0.0, why=""):
    """What is done inside takes so long: at least by the clock on the wall, at most by patience."""
    patience = Patience(at_most_s)
    yield
    took_s = time.monotonic() - patience.began
    assert took_s > at_least_s and not patience.is_over(), f"{took_s:.1f} s, not {at_least_s} to {at_most_s} s: {why}"
