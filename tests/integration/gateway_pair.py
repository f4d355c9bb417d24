"""Two clusters with the same history, one behind a tier: what is sent to both JSON gateways is answered alike, or docs/compatibility.md says why."""
import base64
import collections
import http.client
import json
import re

from gateway import b64
from gateway_requests import KNOWN_LEASES, PATHS, is_safe

# What differs by nature: who answers, what the members chose, how large their files are, how much of a second has passed.
MASKED = {"cluster_id", "member_id", "raft_term", "leader", "raftIndex", "raftTerm", "raftAppliedIndex", "dbSize", "dbSizeInUse", "hash",
          "remaining_bytes", "blob", "token"}
CANCELLED = "stream terminated by RST_STREAM with error code: CANCEL"
BRIEFLY = {"Grpc-Timeout": "300m"}  # what may wait for somebody else
CHOSEN_LEASES = 1 << 32  # those that etcd chooses are above
NAMED_BY_LEASE = re.compile(rb"/[0-9a-f]{5,16}$")  # keys of locks and elections: the lease is often one that etcd chose


def without_lease(value):
    """A key in base64, without the lease in its name."""
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        return value
    return b64(NAMED_BY_LEASE.sub(b"/LEASE", raw))


def masked(value, path):
    if isinstance(value, list):
        return [masked(v, path) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, v in value.items():
        if name in MASKED and not isinstance(v, dict):
            v = "MASKED"
        elif name == "ID" and path == "/lease/grant" and int(v) not in KNOWN_LEASES:
            v = "CHOSEN"
        elif name == "TTL" and path.endswith("timetolive") and int(v) > 0:
            v = "LEFT"
        elif name == "leases" and isinstance(v, list):
            v = sorted(lease["ID"] for lease in v if int(lease["ID"]) in KNOWN_LEASES)
        elif name == "lease" and int(v) > CHOSEN_LEASES:
            v = "CHOSEN"
        elif name == "keys" and isinstance(v, list):
            v = sorted(v)  # of a lease: etcd has them in no order
        elif name in ("members", "member"):
            v = f"{len(v)} of them"
        elif name == "key" and isinstance(v, str):
            v = without_lease(v)
        else:
            v = masked(v, path)
        out[name] = v
    return out


def without_revisions(value):
    if isinstance(value, dict):
        return {k: without_revisions(v) for k, v in value.items() if "revision" not in k and k not in ("version", "count", "kvs", "prev_kv", "prev_kvs")}
    return [without_revisions(v) for v in value] if isinstance(value, list) else value


class Answer:
    """What one side said."""

    def __init__(self, path, status, kind, raw):
        self.status, self.kind, self.raw = status, kind, raw
        lines = raw.splitlines() if PATHS.get(path, (0, False))[1] else [raw] if raw else []
        self.lines = [masked(json.loads(line), path) for line in lines] if kind == "application/json" else [raw.decode("latin-1")] * bool(raw)
        if path == "/maintenance/snapshot" and status == 200:
            self.lines = self.lines[-1:]  # how it is cut is nobody's business

    def error(self):
        """(code, message) of an error, of either form; else None."""
        last = self.lines[-1] if self.lines else None
        if not isinstance(last, dict) or (self.status == 200 and "error" not in last):
            return None
        last = last["error"] if isinstance(last.get("error"), dict) else last
        return last.get("code", last.get("grpc_code")), last.get("message", last.get("error"))

    def text(self):
        return f"{self.status} {self.kind} {self.raw[:600].decode('utf-8', 'replace')}"


def known_difference(path, etcd, tier):
    """The line of docs/compatibility.md that has it, if one does; else None."""
    theirs, ours = etcd.error(), tier.error()
    if path == "/lease/keepalive" and ours and ours[0] == 3 and not theirs and etcd.status == 200:
        return "gateway-malformed"
    is_read_on = tier.status == 200 or (path == "/kv/txn" and ours and ours[0] == 11 and "future" in ours[1])  # a later read of the same Txn
    if theirs and theirs[0] == 11 and "compacted" in theirs[1] and is_read_on:
        return "read-kept"
    if etcd.status != tier.status or etcd.kind != tier.kind or not theirs or not ours or theirs[0] != ours[0]:
        return None
    if theirs[0] == 3 and not theirs[1].startswith("etcdserver: "):
        return "gateway-text"
    if theirs == (4, CANCELLED) and ours == (4, "context deadline exceeded"):
        return "deadline-reset"
    return None


def is_superset(ours):
    """Of an error of a tier: both forms, and no contradiction."""
    ours = ours["error"] if isinstance(ours.get("error"), dict) else ours
    message = ours.get("message")
    return message is not None and ours.get("error", message) == message and ours["code"] == ours.get("grpc_code")


def difference(path, etcd, tier, roughly=False):
    """'' if they are the same; else what differs, in words, or the name of a known difference with '=' before it. `roughly`: the stores
    may no longer be the same, so what they hold is left out."""
    if tier.error() and not is_superset(tier.lines[-1]):
        return "an error without its fields"
    known = known_difference(path, etcd, tier)
    if known:
        return "=" + known
    if (etcd.status, etcd.kind) != (tier.status, tier.kind):
        return "status or type"
    theirs, ours = etcd.lines, tier.lines
    if etcd.error() or tier.error():
        if etcd.error() != tier.error():
            return "error"
        theirs, ours = theirs[:-1], ours[:-1]
    if roughly:
        theirs, ours = without_revisions(theirs), without_revisions(ours)
    return "" if theirs == ours else "JSON"


class Pair:
    def __init__(self, etcd, tier):
        self.sides = etcd, tier
        self.known = {}  # name of a known difference -> how often
        self.statuses = {}
        self.sent = 0
        self.is_apart = False  # the stores are no longer the same
        self.tokens = [{}, {}]  # of each side: user -> fields that name him
        self.recent = collections.deque(maxlen=6)

    def ask(self, path, body, root="/v3", user=None):
        """Both, and what follows from it: (difference, answers)."""
        headers = BRIEFLY if path.startswith(("/lock", "/election")) else {}
        if "serializable" in body or path == "/kv/txn":  # a tier may be behind then; a Txn that reads nothing is serializable, too
            self.sides[1].post("/v3/kv/range", {"key": "YQ==", "count_only": True})
        answers = [Answer(path, *self.post(i, root + path, body, headers | self.tokens[i].get(user, {}))) for i in (0, 1)]
        for side, answer in zip(self.sides, answers):
            self.tidy(path, side, answer)
        self.sent += 1
        return difference(path, *answers, roughly=self.is_apart), answers

    def post(self, i, path, body, headers):
        try:
            return self.sides[i].post(path, body.encode("utf-8", "surrogatepass"), headers=headers)
        except (OSError, http.client.HTTPException) as e:
            before = "\n".join(f"    {text}" for text in self.recent)
            raise AssertionError(f"{('etcd', 'the tier')[i]} did not answer ({e!r}): {path} {body!r}\n  after:\n{before}") from e

    @staticmethod
    def tidy(path, side, answer):
        """Takes back what would differ later, or end by itself at a time that differs."""
        said = json.loads(answer.raw) if answer.status == 200 and path in ("/lease/grant", "/lock/lock", "/election/campaign") else {}
        if path == "/lease/grant" and said and int(said.get("TTL", 0)) < 300:
            side.post("/v3/lease/revoke", {"ID": said["ID"]})
        elif said and path != "/lease/grant":
            side.post("/v3/kv/deleterange", {"key": said.get("key") or said["leader"]["key"]})
        elif path == "/maintenance/alarm":
            for alarm in side.json("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", []):
                side.post("/v3/maintenance/alarm", {"action": "DEACTIVATE"} | alarm)
        if path == "/lease/grant" or path.startswith(("/lock", "/election")):
            for lease in side.json("/v3/lease/leases").get("leases", []):
                if int(lease["ID"]) not in KNOWN_LEASES:
                    side.post("/v3/lease/revoke", lease)

    def log_in(self, name, password):
        for side, tokens in zip(self.sides, self.tokens):
            tokens[name] = {"Authorization": side.json("/v3/auth/authenticate", {"name": name, "password": password})["token"]}

    def check(self, path, body, root="/v3", user=None):
        """None, or a report of a request as short as it can be that is answered otherwise."""
        found, answers = self.ask(path, body, root, user)
        self.recent.append(f"{path} {body!r}: {answers[0].status}")
        if answers[0].status not in self.statuses:
            self.statuses[answers[0].status] = 0
        self.statuses[answers[0].status] += 1
        if not found:
            return None
        if found[0] == "=":
            self.known[found[1:]] = self.known.get(found[1:], 0) + 1
            return None
        report = [f"{root}{path} {body!r}{f' by {user}' if user else ''}: {found}", *(f"  {name}: {a.text()}" for name, a in zip(("etcd", "tier"), answers))]
        after = [f"    {text}" for text in list(self.recent)[:-1]]
        try:
            short = self.shrink(path, body, found, root, user=user)
            if short != body:
                _, answers = self.ask(path, short, root, user)
                report += [f"  shrunk: {short!r}", *(f"  {name}: {a.text()}" for name, a in zip(("etcd", "tier"), answers))]
            self.level()
        except AssertionError as e:  # a side no longer answers
            raise AssertionError("\n".join([*report, "  after:", *after])) from e
        return "\n".join([*report, "  after:", *after])

    def shrink(self, path, body, found, root, tries=300, user=None):
        """Without all that it needs not to be answered otherwise."""
        size = max(1, len(body) // 2)
        self.look_whether_apart()
        while size > 0 and tries > 0:
            at, shrunk = 0, False
            while at < len(body) and tries > 0:
                shorter = body[:at] + body[at + size:]
                tries -= 1
                if is_safe(path, shorter) and self.ask(path, shorter, root, user)[0] == found:
                    body, shrunk = shorter, True
                    self.look_whether_apart()
                else:
                    at += size
            size = size // 2 if not shrunk or size > 1 else 1
        return body

    def revisions(self):
        return [int(side.json("/v3/kv/range", {"key": "YQ==", "count_only": True})["header"]["revision"]) for side in self.sides]

    def look_whether_apart(self):
        revisions = self.revisions()
        self.is_apart = self.is_apart or revisions[0] != revisions[1]

    def level(self):
        """After a difference: both stores empty, and at one revision, so that the next is not the same one."""
        everything = {"key": "AA==", "range_end": "AA=="}
        for side in self.sides:
            side.post("/v3/kv/put", {"key": b64(b"level")})
            side.post("/v3/kv/deleterange", everything)
        behind = self.revisions()
        for side, revision in zip(self.sides, behind):
            for _ in range(max(behind) - revision):
                side.post("/v3/kv/put", {"key": b64(b"level")})
        for side in self.sides:
            side.post("/v3/kv/deleterange", everything)
        self.is_apart = False
