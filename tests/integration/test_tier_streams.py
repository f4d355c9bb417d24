"""Many streams on one connection: they share its window, and each goes on as soon as there is room."""
import time

import rawh2
from client import write

WATCH = b"/etcdserverpb.Watch/Watch"
CREATE_IDLE = b"\x0a\x06\x0a\x04idle"                   # create_request { key: "idle" }
CREATE_OLD = b"\x0a\x0c\x0a\x03/s/\x12\x03/s0\x18\x01"  # { key: "/s/", range_end: "/s0", start_revision: 1 }
N_STREAMS = 40
WINDOW = 1 << 20
N_PUTS = 1000


def test_one_of_many_streams_catches_up_at_once(cluster, tier, figure):
    """Its share of the connection's window is small, and its client says nothing while it has window left: it must be
    given its share anew without anybody waking the tier by accident."""
    write(cluster.endpoints, "mode=put", f"count={N_PUTS}", "size=8000", "prefix=/s/")
    connection = rawh2.Connection(tier.port, stream_window=(1 << 31) - 1, window=WINDOW)
    for _ in range(N_STREAMS - 1):
        connection.open(WATCH, CREATE_IDLE)
    created = set()
    while len(created) < N_STREAMS - 1:
        kind, _, stream, _ = connection.read(10)
        if kind == rawh2.DATA:
            created.add(stream)
    old = connection.open(WATCH, CREATE_OLD)
    began, got, owed, last = time.monotonic(), 0, 0, b""
    while b"/s/000999" not in last:
        assert time.monotonic() - began < 15, f"{got} bytes in 15 s"
        kind, _, stream, payload = connection.read(10)
        if kind != rawh2.DATA:
            continue
        assert stream == old
        last = last[-20:] + payload
        got += len(payload)
        owed += len(payload)
        if owed > WINDOW // 2:
            connection.give(owed)
            owed = 0
    took = time.monotonic() - began
    connection.close()
    figure("streams.catch_up", took, "s")
    assert got > N_PUTS * 1000
    assert took < 3, f"{got} bytes took {took:.1f} s"
