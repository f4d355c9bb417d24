"""A tier that is alone, restarted as a supervisor would: SIGTERM, wait for its end, start again. Its clients have no other tier
to go to, so they must be refused for no longer than the restart itself takes."""
import os
import signal
import socket
import threading
import time

import history
import procs
from checker import Spec, check_file
from client import Recorder, Writer

N_RECORDERS, N_WATCHES = 20, 10
DRAIN_S = 4
REFUSED_MAX_S = 2


class Knocker(threading.Thread):
    """Connects again and again, and notes for how long that is refused: from the last success to the next."""
    EVERY_S = 0.005

    def __init__(self, tier):
        super().__init__(daemon=True)
        self.tier, self.over = tier, threading.Event()
        self.longest_s, self.n_refused, self.n_accepted = 0.0, 0, 0

    def run(self):
        last, refused = time.monotonic(), False
        while not self.over.is_set():
            try:
                socket.create_connection((self.tier.host, self.tier.port), timeout=5).close()
                now = time.monotonic()
                if refused:
                    self.longest_s = max(self.longest_s, now - last)
                last, refused = now, False
                self.n_accepted += 1
            except OSError:
                refused = True
                self.n_refused += 1
            time.sleep(self.EVERY_S)

    def stop(self):
        self.over.set()
        self.join()


def watchers(tier, tmp_path):
    """Every fourth is etcd's own client. Each watch has all of the history, so that the checker sees what is lost or doubled."""
    recorders = []
    for i in range(N_RECORDERS):
        go = i % 4 == 3
        recorder = Recorder(tier.endpoint if go else tier.url, tmp_path / f"r{i}", go=go)
        for spec in specs():
            recorder.open(spec)
        recorders.append(recorder)
    return recorders


def specs():
    return [Spec(n, "prefix", b"", rev="1") for n in range(N_WATCHES)]


def restart(tier):
    """Returns how long SIGTERM took, and what readiness said while it drained."""
    began = time.monotonic()
    os.kill(tier.pid, signal.SIGTERM)
    time.sleep(DRAIN_S / 2)
    ready = tier.get("/readyz")[0]
    tier.proc.wait(30)
    took_s = time.monotonic() - began
    procs.end(tier.proc)
    tier.start()
    return took_s, ready


def test_a_lone_tier_refuses_clients_only_while_it_restarts(cluster, make_tier, tmp_path, soak, figure):
    n_restarts = 20 if soak else 3
    tier = make_tier(cluster, "--drain", f"{DRAIN_S}s")
    recorders = watchers(tier, tmp_path)
    for recorder in recorders:
        recorder.wait_rev(dict.fromkeys(range(N_WATCHES), cluster.put("/w/first", "x")), 30)
    writer = Writer(tier.url, "mode=mix", "rate=50", "size=100")  # through the tier, too
    knocker = Knocker(tier)
    knocker.start()
    for _ in range(n_restarts):
        took_s, ready = restart(tier)
        assert ready == 503, "a tier that drains is not ready"
        assert took_s < DRAIN_S + 2, "newcomers do not make a drain longer"
        time.sleep(0.5)
    knocker.stop()
    written = writer.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/last", "x")
    truth = history.read(cluster, last)
    for recorder in recorders:
        recorder.wait_rev(dict.fromkeys(range(N_WATCHES), last), 60)
        recorder.quit()
        verdict = check_file(recorder.record, specs(), truth)
        assert verdict.n_violations == 0, str(verdict)
    figure("lone_restart.longest_refused_s", knocker.longest_s,
           f"s of {n_restarts} restarts, {N_RECORDERS * N_WATCHES} watchers, drain {DRAIN_S} s")
    figure("lone_restart.writes", written["writes"], f"through the tier; {written['failed']} failed or not known")
    assert knocker.n_refused > 0, "the test has lost its point"
    assert knocker.longest_s < REFUSED_MAX_S
    assert written["writes"] > 10 * n_restarts * DRAIN_S, "writes go on during drains"


def test_a_newcomer_is_served_during_a_drain_and_told_to_leave_once(cluster, make_tier, tmp_path):
    """Its stream ends with the drain, not before: a client without another tier is not sent away again and again."""
    tier = make_tier(cluster, "--drain", f"{DRAIN_S}s")
    stays = Recorder(tier.url, tmp_path / "stays")  # so that the drain has somebody to wait for
    stays.open(Spec(0, "prefix", b"", rev="1"))
    stays.wait_rev({0: cluster.put("/a", "1")}, 10)
    began = time.monotonic()
    os.kill(tier.pid, signal.SIGTERM)
    procs.wait_until(lambda: "draining" in tier.log(), 5, 0.05, "it drains")
    newcomers = [Recorder(tier.endpoint, tmp_path / "go", go=True), Recorder(tier.url, tmp_path / "c")]
    for newcomer in newcomers:
        newcomer.open(Spec(0, "prefix", b"", rev="1"))
    while time.monotonic() < began + DRAIN_S - 1:
        last = cluster.put("/a", "2")
        for recorder in [stays, *newcomers]:
            recorder.wait_rev({0: last}, 3)
        time.sleep(0.2)
    closed = tier.metrics()['belfry_streams_closed_total{dialect="grpc",reason="drain"}']
    assert closed <= 1, "only streams that were there before the drain have ended"
    assert tier.proc.wait(10) == 0
    procs.end(tier.proc)
    tier.start()
    last = cluster.put("/a", "3")
    for recorder in [stays, *newcomers]:
        recorder.wait_rev({0: last}, 20)
        recorder.quit()
        verdict = check_file(recorder.record, [Spec(0, "prefix", b"", rev="1")], history.read(cluster, last))
        assert verdict.n_violations == 0, str(verdict)
