"""star: a namespace with an address for each node, all on one bridge, and what may go wrong between any two of them.

    m0 m1 m2   etcd's members     t1 t2 t3   tiers     s   the tier that nothing is done to     c   clients

What a node is sent passes the port of the bridge that it hangs on, and a filter there: for each sender, which share of its
packets is dropped. So a way can be cut in one direction or both, or made lossy, between any two nodes and silently:
nothing is reset, packets just stop. A port can be taken off the bridge, and a program (wire.py) carries frames between the
two, late. Neither needs netem, which not every kernel has.

The hub, where the bridge is, has an address, too: who writes and who asks for numbers is there, and is never cut off. All
addresses live inside these namespaces; the machine's own network is not touched."""
import itertools
import os
import socket
import struct
import sys

import netns
import procs
from netns import ip

SUBNET = "10.78.0"
MEMBERS = 3
NODES = ["m0", "m1", "m2", "t1", "t2", "t3", "s", "c"]
ALWAYS = 1 << 32  # of 2^32 packets
_count = itertools.count()


def _tc(ns, *args):
    procs.run(["tc", *args], ns=ns)


def filter_code(rules):
    """A classic BPF program for tc: rules are {sender's address: how many of 2^32 packets are dropped}."""
    accept, drop = "6 0 0 0", "6 0 0 2"
    code = ["40 0 0 12", f"21 0 {4 * len(rules) + 1} 2048", "32 0 0 26"]  # IPv4 only, or accept; its sender's address
    for i, (address, share) in enumerate(rules.items()):
        number = struct.unpack("!I", socket.inet_aton(address))[0]
        code.append(f"21 0 3 {number}")  # another sender: the next rule
        code += [drop, drop, drop] if share >= ALWAYS else [
            "32 0 0 4294963256",         # a random number: SKF_AD_OFF + SKF_AD_RANDOM
            f"53 {4 * (len(rules) - i) - 3} 0 {share}",  # large enough: accept
            drop]
    code.append(accept)
    return f"{len(code)}," + ",".join(code)


class Star:
    """As `net` of an etcd.Cluster it has the members' namespaces and addresses, and the hub's."""

    def __init__(self):
        self.tag = f"belfry-{os.getpid()}-s{next(_count)}"
        self.hub = f"{self.tag}-hub"
        self.members = [self.ns(f"m{i}") for i in range(MEMBERS)]
        self._rules = {node: {} for node in NODES}  # receiver -> {sender's address: share}
        self._wires, self._made = {}, []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def ns(self, node):
        return f"{self.tag}-{node}"

    @staticmethod
    def host(node):
        return f"{SUBNET}.{NODES.index(node) + 1}"

    def client_host(self, i):
        return self.host(f"m{i}")

    peer_host = client_host

    def _build(self):
        for ns in [self.hub] + [self.ns(node) for node in NODES]:
            ip("netns", "add", ns)
            self._made.append(ns)
            ip("-n", ns, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "br0", "type", "bridge")
        ip("-n", self.hub, "link", "set", "br0", "up")
        ip("-n", self.hub, "addr", "add", f"{SUBNET}.254/24", "dev", "br0")
        for node in NODES:
            self._build_port(node)

    def _build_port(self, node):
        ns = self.ns(node)
        ip("-n", self.hub, "link", "add", f"p-{node}", "type", "veth", "peer", "name", "eth0", "netns", ns)
        ip("-n", self.hub, "link", "set", f"p-{node}", "master", "br0", "up")
        ip("-n", ns, "addr", "add", f"{self.host(node)}/24", "dev", "eth0")
        ip("-n", ns, "link", "set", "eth0", "up")
        _tc(self.hub, "qdisc", "add", "dev", f"p-{node}", "clsact")

    # ---- shares of packets that are dropped ----

    def drop(self, sender, receiver, share=1.0):
        """That share of what `sender` sends to `receiver` vanishes from now on; 0: nothing any more."""
        rules = self._rules[receiver]
        rules.pop(self.host(sender), None)
        if share > 0:
            rules[self.host(sender)] = int(share * ALWAYS)
        where = ["dev", f"p-{receiver}", "egress"]
        if rules:
            _tc(self.hub, "filter", "replace", *where, "prio", "1", "handle", "1", "bpf", "da", "bytecode", filter_code(rules))
        else:
            _tc(self.hub, "filter", "del", *where)

    def drop_both(self, a, b, share=1.0):
        self.drop(a, b, share)
        self.drop(b, a, share)

    # ---- frames that come late ----

    def delay(self, node, ms):
        """All that `node` sends and is sent takes so much longer each way, until undelay()."""
        wire = f"w-{node}"
        ip("-n", self.hub, "link", "add", f"q-{node}", "type", "veth", "peer", "name", wire)
        for end in (f"q-{node}", wire):
            ip("-n", self.hub, "link", "set", end, "up")
        program = os.path.join(os.path.dirname(__file__), "wire.py")
        self._wires[node] = procs.spawn([sys.executable, program, f"p-{node}", wire, str(ms)], ns=self.hub)
        ip("-n", self.hub, "link", "set", f"p-{node}", "nomaster")
        ip("-n", self.hub, "link", "set", f"q-{node}", "master", "br0")

    def undelay(self, node):
        procs.end(self._wires.pop(node))
        ip("-n", self.hub, "link", "del", f"q-{node}")
        ip("-n", self.hub, "link", "set", f"p-{node}", "master", "br0")

    # ---- answers that come at once ----

    def refuse(self, node, host):
        """`node` is told at once that it cannot reach `host`."""
        ip("-n", self.ns(node), "route", "add", "unreachable", f"{host}/32")

    def accept(self, node, host):
        ip("-n", self.ns(node), "route", "del", "unreachable", f"{host}/32")

    def close(self):
        for wire in self._wires.values():
            procs.end(wire)
        for ns in reversed(self._made):
            ip("netns", "del", ns, check=False)
        self._made, self._wires = [], {}


def why_not():
    """None when all of this can be had here, otherwise the reason."""
    reason = netns.why_not()
    if reason:
        return reason
    probe = f"belfry-{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
        _tc(probe, "qdisc", "add", "dev", "lo", "clsact")
        _tc(probe, "filter", "replace", "dev", "lo", "egress", "prio", "1", "handle", "1", "bpf", "da", "bytecode",
            filter_code({"10.0.0.1": 1 << 30, "10.0.0.2": ALWAYS}))
        return None
    except (OSError, AssertionError) as e:
        return f"no filter on a link: {e}"
    finally:
        ip("netns", "del", probe, check=False)
