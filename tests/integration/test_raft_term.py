"""The raft_term of a tier's own answers: never below one that the tier has sent to anyone before, relayed answers included, and at
most about a second old."""
import threading
import time

import grpc
import procs
import pytest
from differential import channel, decode, encode
from patience import Lost
from ports import free_port
from stack import Stack

RANGE, PUT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Put"
KEY = b"term/key"
READ = encode("RangeRequest", {"key": KEY})
STALE_READ = encode("RangeRequest", {"key": KEY, "serializable": True})
WRITE = encode("PutRequest", {"key": KEY, "value": b"v"})
AGE_S = 1.0


def term_of(raw):
    """An answer is a message whose first field is the header."""
    return int(decode("Answer", raw)["header"]["raft_term"])


class Asker(threading.Thread):
    """Sends one request after another and remembers (began, ended, term) of each answer; what fails is left out."""

    def __init__(self, endpoint, path, request, rest_s=0.005, compression=None):
        super().__init__(daemon=True)
        self.call = channel(endpoint).unary_unary(path)
        self.request, self.rest_s, self.compression = request, rest_s, compression
        self.answers, self.ending = [], threading.Event()
        self.start()

    def run(self):
        while not self.ending.wait(self.rest_s):
            began = time.monotonic()
            try:
                raw = self.call(self.request, timeout=2, compression=self.compression)
            except grpc.RpcError:
                continue
            self.answers.append((began, time.monotonic(), term_of(raw)))

    def end(self):
        self.ending.set()
        self.join(10)
        assert not self.is_alive()
        return self.answers


def went_back(answers, others):
    """Those of `answers` that have a lower term than one of `others` that ended before they began."""
    ends = sorted((end, term) for _, end, term in others)
    highest, at, found = 0, 0, []
    for answer in sorted(answers):
        while at < len(ends) and ends[at][0] < answer[0]:
            highest, at = max(highest, ends[at][1]), at + 1
        if answer[2] < highest:
            found.append((answer, highest))
    return found


def test_went_back_finds_a_fault():
    relayed = [(1.0, 1.1, 4), (2.0, 2.1, 5)]
    assert went_back([(2.05, 2.2, 4), (2.2, 2.3, 5)], relayed) == []
    assert went_back([(2.15, 2.2, 4)], relayed) == [((2.15, 2.2, 4), 5)]


def with_relay(make_tier, cluster):
    """A tier that answers reads, and its other listener, which relays them."""
    ports = free_port(), free_port()
    listen = [f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]},reads=relay"]
    return make_tier(cluster, listen=listen), *(f"127.0.0.1:{port}" for port in ports)


def source_count(tier, source):
    return sum(n for name, n in tier.metrics().items() if name.startswith("belfry_reads_total") and f'source="{source}"' in name)


def test_term_never_goes_back_through_leader_changes(make_cluster, make_tier, figure, soak):
    cluster = make_cluster(3)
    tier, replica, relay = with_relay(make_tier, cluster)
    own = [Asker(replica, RANGE, request) for request in (READ, STALE_READ, STALE_READ)]
    passed = [Asker(relay, RANGE, READ), Asker(relay, RANGE, STALE_READ), Asker(replica, PUT, WRITE, rest_s=0.05),
              Asker(replica, RANGE, READ, compression=grpc.Compression.Gzip)]  # and so is its answer
    direct = [Asker(m.endpoint, RANGE, READ) for m in cluster.members]
    for i in range(20 if soak else 6):
        leader = procs.wait_until(cluster.leader, 30, 0.1, "a leader")
        if i % 3 == 2:
            leader.kill()
            time.sleep(1)
            leader.restart()
        else:
            cluster.move_leader_off(leader)
        time.sleep(0.7)
    procs.wait_until(cluster.leader, 30, 0.1, "a leader")
    own, passed, direct = ([answer for asker in askers for answer in asker.end()] for askers in (own, passed, direct))
    terms = {term for _, _, term in own}
    figure("raft_term.answers", len(own))
    figure("raft_term.relayed", len(passed))
    figure("raft_term.terms", len(terms))
    assert len(terms) >= 4 and len(own) > 500 and len(passed) > 100, (len(own), len(passed), terms)
    assert source_count(tier, "replica") > 500 and source_count(tier, "upstream") > 100
    faults = went_back(own, own + passed)
    assert not faults, faults[:5]
    assert max(terms) <= max(term for _, _, term in direct)


@pytest.mark.parametrize("depth", [1, 3])
def test_term_of_an_idle_store_is_at_most_a_second_old(make_cluster, make_tier, figure, depth):
    """Nothing is written, and nobody asks upstream: the root hears of the new term by itself, and tells those below."""
    cluster = make_cluster(3)
    tiers = Stack(make_tier, cluster, depth).tiers
    asker = Asker(tiers[-1].endpoint, RANGE, STALE_READ)
    oldest = 0.0
    for _ in range(4):
        leader = procs.wait_until(cluster.leader, 30, 0.1, "a leader")
        follower = next(m for m in cluster.members if m is not leader)
        etcd = Asker(follower.endpoint, RANGE, READ, rest_s=0.002)
        before, lost = asker.answers[-1][2] if asker.answers else 0, Lost()
        cluster.move_leader_off(leader)
        procs.wait_until(lambda: asker.answers[-1][2] > before, 20, 0.02, "the tier's answers have the new term")
        known = next(end for _, end, term in etcd.end() if term > before)
        age = next(began for began, _, term in asker.answers if term > before) - known
        print(f"new term after {age:.3f} s, {lost.share():.2f} of the machine lost", flush=True)
        oldest = max(oldest, age * (1 - lost.share()))
    answers = asker.end()
    assert source_count(tiers[-1], "upstream") == 0 and not went_back(answers, answers)
    figure(f"raft_term.age_through_{depth}", oldest, "s")
    assert oldest < AGE_S + 0.5


def test_linearizable_read_has_the_term_of_now(make_cluster, make_tier):
    """The question that makes it linearizable brings the term, through two tiers."""
    cluster = make_cluster(3)
    tiers = Stack(make_tier, cluster, 2).tiers
    call = channel(tiers[-1].endpoint).unary_unary(RANGE)
    for _ in range(5):
        leader = procs.wait_until(cluster.leader, 30, 0.1, "a leader")
        cluster.move_leader_off(leader)
        terms = [term_of(channel(m.endpoint).unary_unary(RANGE)(READ, timeout=10)) for m in cluster.members]
        assert term_of(call(READ, timeout=10)) >= min(terms)
        assert max(terms) == min(terms)
