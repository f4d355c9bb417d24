"""Ports for servers that a test starts, and kills, and starts again: below those that the kernel gives to connections, which
would take one while its server is away, and not the same ones for tests that run at the same time.

BELFRY_PORTS=K/N, of runs that tools/itest starts beside each other: this run has the K-th of N parts (from 0)."""
import os
import socket

FIRST = 10000


def _mine():
    """This process's share of them: the runs beside each other divide them first, then the workers of a run."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        end = min(int(f.read().split()[0]), 32768)
    part, parts = map(int, (os.environ.get("BELFRY_PORTS") or "0/1").split("/"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
    number = int((os.environ.get("PYTEST_XDIST_WORKER") or "gw0")[2:])
    n = (end - FIRST) // parts // workers
    assert n > 1000, f"connections get ports from {end} on: too few are left below"
    first = FIRST + (end - FIRST) // parts * part + number * n
    return range(first, first + n)


_ports = _mine()
_next = os.getpid() * 101 % len(_ports)  # elsewhere in the next run, which may be at the same time


def free_port():
    """One that nobody listens on, and that nobody was given for long."""
    global _next
    for _ in _ports:
        port = _ports[_next]
        _next = (_next + 1) % len(_ports)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError(f"no port is free from {_ports[0]} to {_ports[-1]}")
