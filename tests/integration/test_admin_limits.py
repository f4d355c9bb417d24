"""The admin address in the hands of hostile clients: it has limits of its own, clients are served, and /readyz stays right."""
import collections
import contextlib
import http.client
import pathlib
import re
import socket
import struct
import threading
import time

import procs
import rawh2
from client import binary

DESCRIPTORS = 1024
CONNECTIONS = 128  # daemon/service.c; one client has half
REFUSED = 'belfry_rejected_total{reason="admin"}'


def ask(port, path, timeout=3):
    """(status, body) on a connection of its own; (0, why) when there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as e:
        return 0, repr(e)
    finally:
        connection.close()


def rss(tier):
    status = pathlib.Path(f"/proc/{tier.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def get_head(path):
    return b"".join(rawh2._field(*pair) for pair in ((b":method", b"GET"), (b":scheme", b"http"), (b":path", path),
                                                     (b":authority", b"localhost")))


def assert_served(tier, n=10):
    for _ in range(n):
        assert ask(tier.admin_port, "/readyz") == (200, "ok\n")
        assert ask(tier.admin_port, "/livez") == (200, "ok\n")
        assert ask(tier.port, "/health")[0] == 200


def test_idle_connections_take_no_descriptors_of_clients(cluster, make_tier, tmp_path):
    limited = tmp_path / "belfryd-limited"
    limited.write_text(f"#!/bin/sh\nulimit -n {DESCRIPTORS}\nexec {binary('belfryd')} \"$@\"\n")
    limited.chmod(0o755)
    tier = make_tier(cluster, program=str(limited))
    with contextlib.ExitStack() as held:
        for i in range(DESCRIPTORS + 200):
            s = held.enter_context(socket.create_connection(("127.0.0.1", tier.admin_port), 5))
            if i % 2:
                s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rawh2.frame(rawh2.SETTINGS, 0, 0))
        assert_served(tier)
        procs.wait_until(lambda: tier.metrics()[REFUSED] > DESCRIPTORS, 5, 0.1, tier.metrics)
        metrics = tier.metrics()
        assert 0 < metrics["belfry_admin_connections"] <= CONNECTIONS / 2
        assert metrics['belfry_rejected_total{reason="descriptors"}'] == 0
        trouble = r"\[!\]pools: connections: clients refused or ended in the last minute at the admin address; \d+ % of 128 in use; " \
            r"127.0.0.0/8 holds most, \d+ %\n"
        procs.wait_until(lambda: re.search(trouble, tier.get("/readyz?verbose")[1]), 5, 0.1, lambda: tier.get("/readyz?verbose"))


def test_requests_that_hold_their_connection_do_not_keep_readiness_out(cluster, make_tier):
    """Each connection has a request whose answer it does not take, so none is idle."""
    tier = make_tier(cluster)
    peers = [rawh2.Connection(tier.admin_port, stream_window=0) for _ in range(CONNECTIONS)]
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.send(rawh2.frame(rawh2.HEADERS, rawh2.END_HEADERS | 1, 1, get_head(b"/metrics")))
    assert_served(tier)
    for peer in peers:
        peer.close()


def test_answers_that_are_not_read_cost_little(cluster, make_tier):
    tier = make_tier(cluster)
    before, paths = rss(tier), (b"/page.js", b"/metrics", b"/debug/hour", b"/debug/numbers", b"/nowhere")
    with contextlib.ExitStack() as held:
        for i in range(300):
            s = held.enter_context(socket.create_connection(("127.0.0.1", tier.admin_port), 5))
            heads = b"".join(rawh2.frame(rawh2.HEADERS, rawh2.END_HEADERS | 1, 2 * k + 1, get_head(paths[(i + k) % len(paths)]))
                             for k in range(100))
            with contextlib.suppress(OSError):
                s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                          rawh2.frame(rawh2.SETTINGS, 0, 0, struct.pack(">HI", rawh2.INITIAL_WINDOW, 0)) + heads)
        time.sleep(1)
        assert_served(tier)
        assert rss(tier) < before + (24 << 20), "16 MiB, and what the allocator needs"


def test_loops_over_pages_leave_readiness_right(cluster, make_tier):
    tier = make_tier(cluster)
    stop, answers = threading.Event(), collections.Counter()

    def flood(path):
        while not stop.is_set():
            answers[ask(tier.admin_port, path)[0]] += 1
    threads = [threading.Thread(target=flood, args=(path,)) for path in ("/metrics", "/debug/numbers", "/debug/watchers", "/readyz") * 8]
    for thread in threads:
        thread.start()
    try:
        probes = collections.Counter()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            probes[ask(tier.admin_port, "/readyz")] += 1
            time.sleep(0.02)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(probes) == {(200, "ok\n")} and sum(probes.values()) > 20, probes
    assert answers[200] > 100
