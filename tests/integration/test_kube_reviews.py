"""Users and rights asked of two real kube-apiservers by reviews (tests/stress/kreviewd: permit and reviews as a worker of a tier has
them, nothing is served): who may, who may not and in which words, what ends when, and what happens while servers are stopped, killed
or refuse the tier. The servers are built outside this tree; without them this is skipped."""
import json
import subprocess
import threading
import time

import kube_apiserver
import needs
import procs
import pytest
from client import binary
from kube_tier_rights import DELEGATOR, Accounts, made

PERIOD_S = 10
READ = ("get", "list", "watch")


class Reviewer:
    """One kreviewd. `verdicts`: id -> [(when, verdict, reason)]; `may`: id -> [(when, bool)]."""

    def __init__(self, cluster):
        argv = [binary("tests", "kreviewd"), "--servers", ",".join(s.url for s in cluster.servers), "--cacert",
                cluster.identity.cacert, "--token", cluster.identity.tokens["tier"]]
        self.verdicts, self.may, self.events, self.stats, self.n = {}, {}, {}, (0, 0, 0), 0
        self.proc = procs.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            now, (word, *rest) = time.monotonic(), line.decode().rstrip("\n").split(" ", 3)
            if word == "stats":
                self.stats = tuple(int(n) for n in rest)
            elif word == "may":
                self.may.setdefault(rest[0], []).append((now, rest[1] == "1"))
            else:
                kept = self.verdicts if word == "verdict" else self.events
                kept.setdefault(rest[0], []).append((now, rest[1], rest[2]))

    def send(self, word, token, verb="list", resource="configmaps", namespace="prod", fields=""):
        self.n += 1
        self.proc.stdin.write(f"{word} {self.n} {token} {verb} {resource} {namespace} {fields}\n".encode())
        self.proc.stdin.flush()
        return str(self.n)

    def answer(self, i, n=1, seconds=30):
        """The n-th verdict about it: (when, verdict, reason)."""
        procs.wait_until(lambda: len(self.verdicts.get(i, [])) >= n, seconds, 0.01, lambda: f"{i}: {self.verdicts.get(i)}")
        return self.verdicts[i][n - 1]

    def ask(self, *args, **kw):
        """(verdict, the sentence of a refusal)."""
        _, verdict, reason = self.answer(self.send("ask", *args, **kw))
        return verdict, reason.split("desc = ")[-1]

    def last_may(self, i):
        """Until when it might be delivered to; None: still."""
        at, may = self.may[i][-1]
        return None if may else at


@pytest.fixture
def bed(tmp_path, cluster, soak):
    absent = kube_apiserver.why_none()
    if absent:
        needs.peer(absent)
    if not soak:
        needs.full_length("reviews by themselves: with BELFRY_SOAK=1 only; test_kube_tier_rights.py is in the gate")
    cluster_of_apis = kube_apiserver.KubeCluster(tmp_path / "kube", cluster, 2).start()
    cluster_of_apis.accounts = Accounts(cluster_of_apis)
    yield cluster_of_apis
    cluster_of_apis.kill()


def who_may_and_who_may_not(bed, reviewer):
    alice, accounts = bed.identity.tokens["alice"], bed.accounts
    assert reviewer.ask(alice) == ("granted", "")
    assert reviewer.ask(alice, fields="metadata.name=x") == ("granted", "")
    for verb, resource, namespace, where in (("list", "configmaps", "default", 'in the namespace "default"'),
                                             ("watch", "pods", "prod", 'in the namespace "prod"'),
                                             ("list", "configmaps", "-", "at the cluster scope")):
        path = f"/api/v1/namespaces/{namespace}/{resource}" if namespace != "-" else f"/api/v1/{resource}"
        direct = bed.servers[0].call("GET", path, {"watch": 1} if verb == "watch" else None, user="alice").json["message"]
        said = f'{resource} is forbidden: User "alice" cannot {verb} resource "{resource}" in API group "" {where}'
        assert (direct, reviewer.ask(alice, verb, resource, namespace)) == (said, ("refused", said))
    bad = ("refused", "etcdserver: invalid auth token")  # 401, whatever it is called inside
    assert reviewer.ask("wrong") == bad
    token = accounts.add("agent")
    assert reviewer.ask(token)[0] == "refused"
    assert 'User "system:serviceaccount:default:agent" cannot' in reviewer.ask(token)[1]
    assert reviewer.ask(token[:-6] + "AAAAAA") == bad
    assert reviewer.ask(accounts.token("agent", -60)) == bad


def what_is_revoked_ends(bed, reviewer):
    """A binding, and a token whose time is up."""
    accounts = bed.accounts
    accounts.add("leaver"), accounts.add("expired")
    binding = accounts.allow("leaver", READ, ("configmaps",), "prod")
    accounts.allow("expired", READ, ("configmaps",), "prod")
    short = accounts.token("expired", 6)
    held = {name: reviewer.send("hold", token) for name, token in
            (("leaver", accounts.token("leaver")), ("expired", short), ("stays", bed.identity.tokens["alice"]))}
    for i in held.values():
        assert reviewer.answer(i)[1] == "held"
    gone = accounts.revoke(binding)
    at, verdict, reason = reviewer.answer(held["leaver"], 2)
    assert verdict == "refused" and "configmaps is forbidden" in reason
    assert at <= gone + PERIOD_S and reviewer.last_may(held["leaver"]) <= gone + PERIOD_S
    procs.wait_until(lambda: not accounts.is_known(short), 40, 0.1, "the API servers refuse the token")
    gone = time.monotonic()
    procs.wait_until(lambda: held["expired"] in reviewer.events, 30, 0.05, lambda: f"{reviewer.events}")
    at, event, _ = reviewer.events[held["expired"]][0]
    assert event == "ended" and at <= gone + PERIOD_S
    assert reviewer.last_may(held["stays"]) is None and held["stays"] not in reviewer.events
    return held["stays"]


def one_server_of_two_is_enough(bed, reviewer, held, seconds):
    """Stopped, and killed: nothing pauses."""
    for stop, start in (("stop", "cont"), ("kill", "start")):
        getattr(bed.servers[1], stop)()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert reviewer.ask(bed.identity.tokens["alice"], fields=f"metadata.name=x{reviewer.n}")[0] == "granted"
            time.sleep(0.5)
        getattr(bed.servers[1], start)()
    assert reviewer.last_may(held) is None, reviewer.may[held]


def without_answers_it_pauses(bed, reviewer, held):
    """No server answers; then the tier may not ask; each time it goes on afterwards."""
    for server in bed.servers:
        server.stop()
    stopped = time.monotonic()
    procs.wait_until(lambda: reviewer.last_may(held) is not None, 20, 0.02, "a pause")
    assert reviewer.last_may(held) <= stopped + PERIOD_S + 0.2
    assert reviewer.ask(bed.identity.tokens["alice"])[0] == "unavailable"
    for server in bed.servers:
        server.cont()
    procs.wait_until(lambda: reviewer.last_may(held) is None, 60, 0.02, "no pause")
    binding = bed.servers[0].call("GET", DELEGATOR).json
    gone = bed.accounts.revoke(DELEGATOR)
    procs.wait_until(lambda: reviewer.last_may(held) is not None, 20, 0.02, "a pause")
    assert reviewer.last_may(held) <= gone + PERIOD_S + 0.2
    verdict, reason = reviewer.ask(bed.identity.tokens["alice"])
    assert verdict == "unavailable" and "system:auth-delegator" in reason
    made(bed.servers[0], DELEGATOR.rsplit("/", 1)[0], {**binding, "metadata": {"name": binding["metadata"]["name"]}})
    procs.wait_until(lambda: reviewer.last_may(held) is None, 60, 0.02, "no pause")


def many_selectors_cost_one_review(bed, reviewer):
    before = reviewer.stats
    ids = [reviewer.send("hold", bed.identity.tokens["admin"], "watch", "pods", "-", f"spec.nodeName=n{i}") for i in range(1000)]
    for i in ids:
        assert reviewer.answer(i)[1] == "held"
    time.sleep(12)
    after = reviewer.stats
    assert after[0] - before[0] <= 12 and after[1] - before[1] <= 40, (before, after)  # three rounds of two users, at most 8 at once
    assert all(reviewer.last_may(i) is None for i in ids)


def test_reviews_of_real_api_servers(bed):
    """test_kube_tier_rights.py shows most of it through a tier."""
    reviewer = Reviewer(bed)
    who_may_and_who_may_not(bed, reviewer)
    held = what_is_revoked_ends(bed, reviewer)
    many_selectors_cost_one_review(bed, reviewer)
    one_server_of_two_is_enough(bed, reviewer, held, 60)
    without_answers_it_pauses(bed, reviewer, held)
    print(json.dumps({"reviews": reviewer.stats}))
    procs.end(reviewer.proc)
