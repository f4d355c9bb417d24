"""One client watches from hundreds of old revisions that a tier has lost, and reads nothing; the history of another is
served in turn with it."""
import hostile
import procs
import pytest
import rawh2
from client import write
from hostile import number, text
from patience import within
from proxy import Proxy

GREEDY, OTHER = "10.77.0.9", "10.77.0.1"
pytestmark = pytest.mark.usefixtures("own_network")
REVISIONS, SIZE = 20000, 6000
WATCHES, CONNECTIONS = 500, 10
RATE = 16 << 20  # bytes a second from above: all of the history takes 8 s


def create(start):
    return text(1, text(1, b"/h/") + text(2, b"/h0") + number(3, start))


def watch_from_many(port, last):
    """Watches from revisions all over the oldest nine tenths of the history; none is read."""
    peers = [rawh2.Connection(port, source=GREEDY, stream_window=0) for _ in range(CONNECTIONS)]
    step = last * 9 // 10 // WATCHES
    for i in range(WATCHES):
        peers[i % CONNECTIONS].open(hostile.WATCH, create(2 + i * step))
    return peers


def wait_for_event(peer, stream):
    """Reads until the first event: created is small, and events are SIZE bytes and more."""
    came = 0
    while came < SIZE:
        kind, _, of, payload = peer.read(120)
        if kind == rawh2.DATA and of == stream:
            came += len(payload)


def test_another_client_has_its_history_in_turn(cluster, make_tier):
    """From a tier above, by a slow line: etcd itself would have sent everything of one watch before the next."""
    top = make_tier(cluster, "--name", "top")
    write(cluster.endpoints, "mode=put", f"count={REVISIONS}", f"size={SIZE}", "prefix=/h/")
    line = Proxy(top.endpoint)
    tier = make_tier(line.url, "--name", "leaf", "--workers", "1", "--log-bytes", "1MiB", "--history-bytes", "1MiB")
    last = cluster.put("/h/last", "x")
    procs.wait_until(lambda: tier.numbers()["upstream"]["revision"] >= last, 60)
    line.rate = RATE
    greedy = watch_from_many(tier.port, last)
    procs.wait_until(lambda: tier.numbers()["upstream"]["backfills"] > 1, 20)
    other = rawh2.Connection(tier.port, source=OTHER, stream_window=1 << 20, window=1 << 20)
    with within(10):
        wait_for_event(other, other.open(hostile.WATCH, create(last * 19 // 20)))
    for peer in (*greedy, other):
        peer.close()
    line.close()
