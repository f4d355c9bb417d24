"""Previous values of what is compacted before a slow client has read it: etcd looks for them when it sends and leaves out what
is gone, a tier has kept them. So a backfill, which reads from etcd, may lack them, and fleet.TierCheck allows for that."""
import struct

import procs
import pytest
import rawh2
from client import write
from etcd3.etcdrpc import rpc_pb2

WATCH = b"/etcdserverpb.Watch/Watch"
N_KEYS, ROUNDS, SIZE = 1000, 3, 2000


def responses(connection, stream, buffer=b""):
    """Those that come, while everything that is read is given back as window."""
    while True:
        while len(buffer) >= 5 and len(buffer) >= 5 + (n := struct.unpack(">I", buffer[1:5])[0]):
            yield rpc_pb2.WatchResponse.FromString(buffer[5:5 + n])
            buffer = buffer[5 + n:]
        kind, _, of, payload = connection.read(30)
        if kind == rawh2.DATA and of == stream:
            buffer += payload
            connection.give(len(payload))
            connection.give(len(payload), stream)


@pytest.mark.parametrize("through_a_tier", [False, True])
def test_what_is_compacted_before_it_is_read(cluster, tier, figure, through_a_tier):
    member = cluster.members[0]
    for _ in range(ROUNDS):
        write(cluster.endpoints, "mode=put", f"count={N_KEYS}", f"size={SIZE}", "prefix=/p/")
    head = cluster.revision()
    create = rpc_pb2.WatchCreateRequest(key=b"/p/", range_end=b"/p0", start_revision=1, prev_kv=True)
    connection = rawh2.Connection(tier.port if through_a_tier else int(member.endpoint.rsplit(":", 1)[1]))
    stream = connection.open(WATCH, rpc_pb2.WatchRequest(create_request=create).SerializeToString())
    came = responses(connection, stream)
    assert next(came).created
    procs.wait_until(lambda: member.metric("etcd_debugging_mvcc_slow_watcher_total") == 0, 30, 0.1, "etcd has read it all")
    compacted = head - 5
    cluster.compact(compacted)
    events = []
    while not events or events[-1].kv.mod_revision < head:
        events += next(came).events
    connection.close()
    assert [e.kv.mod_revision for e in events] == list(range(2, head + 1)), "each, once"
    lacking = [e.kv.mod_revision for e in events if e.kv.version > 1 and not e.HasField("prev_kv")]
    figure(f"previous_values.lacking_{'tier' if through_a_tier else 'etcd'}", len(lacking), f"of {len(events)}")
    assert all(e.prev_kv.version == e.kv.version - 1 for e in events if e.HasField("prev_kv"))
    if through_a_tier:
        assert not lacking
    else:
        assert lacking and max(lacking) <= compacted, "then no check need allow for it"
