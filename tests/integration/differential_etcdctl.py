"""Every command of etcdctl, run on two etcds with the same history: on one directly, on the other through belfryd.
What it prints must be the same, once ids, addresses and times are taken out of it."""
import json
import re
import shlex
import subprocess
import threading

import procs
from etcd import PATIENT

ID = re.compile(r"\b(?:[0-9a-f]{12,16}|[0-9]{17,20})\b")
VOLATILE = [(re.compile(pattern), put) for pattern, put in (
    (r"took = [0-9.µnms]+", "took = TIME"), (r'"took":"[^"]*"', '"took":TIME'), (r'"Took" : "[^"]*"', '"Took" : TIME'),
    (r'"(dbSize|dbSizeInUse|raftIndex|raftAppliedIndex|raftTerm|raft_term)":\d+', r'"\1":N'),
    (r'"(DBSize|DBSizeInUse|RaftIndex|RaftAppliedIndex|RaftTerm)" : \d+', r'"\1" : N'),
    (r"\| +[0-9.]+ [kM]?B \|", "| SIZE |"), (r"[0-9.]+ [kM]?B, (true|false)", r"SIZE, \1"),
    (r"(true|false)(,| \|)( +)\d+(,| \|) +\d+(,| \|) +\d+", r"\1 TERM INDEX APPLIED"),
    (r"[0-9.]+(ms|µs|s)\b", "TIME"), (r"0x[0-9a-f]+", "POINTER"), (r"-{5,}", "-----"),
    (r" +", " "))]


class Do:
    """One command, to its end. `{name}` in an argument is what an earlier command saved: the first id it printed."""

    def __init__(self, *args, stdin=None, save=None, user=None, unordered=False):
        self.args, self.stdin, self.save, self.user, self.unordered = args, stdin, save, user, unordered

    hold = False

    @property
    def name(self):
        return " ".join(self.args)

    def seen(self, side, out):
        """Comparable; pieces sorted where etcd's order is that of ids, or of watchers."""
        out = side.plain(out)
        return sorted(re.split('[\n",]', out)) if self.unordered else out

    def run(self, side):
        done = side.ctl(self.args, self.user, input=(self.stdin or "").encode())
        out = done.stdout.decode()
        if self.save:
            side.saved[self.save] = ID.search(out).group()
        errors = [line for line in done.stderr.decode().splitlines() if not line.startswith("{")]  # grpc-go's own log
        return {"exit": done.returncode, "out": self.seen(side, out), "err": side.plain("\n".join(errors))}


class Lines(Do):
    """A command that does not end by itself: its first lines. With `hold` it runs on until the group's end."""

    def __init__(self, n, *args, hold=False, **kw):
        super().__init__(*args, **kw)
        self.n, self.hold = n, hold

    def run(self, side):
        proc = side.spawn(self.args, self.user)
        if self.stdin:
            proc.stdin.write(self.stdin.format(**side.saved).encode())
            proc.stdin.flush()
        killer = side.kill_after(proc, 15)
        out = "".join(proc.stdout.readline().decode() for _ in range(self.n))
        killer.cancel()
        if not self.hold:
            procs.end(proc)
        return {"out": self.seen(side, out)}


class Wait(Do):
    """A command that is repeated until it prints this."""

    def __init__(self, wanted, *args):
        super().__init__(*args)
        self.wanted = wanted

    def run(self, side):
        procs.wait_until(lambda: side.ctl(self.args, None).stdout.decode() == self.wanted, 15, 0.1,
                         lambda: f"{self.name}: {self.wanted!r}, not {side.ctl(self.args, None)}")
        return {"out": self.wanted}


class Snapshot(Do):
    """The file that was saved, as etcdutl sees it: its revision, and that it is whole, which restoring it checks. Its
    hash is over pages that hold ids, which differ; its rows include leases, which end by each etcd's own clock."""

    def run(self, side):
        file = f"{side.folder}/snapshot"
        done = procs.run(["etcdutl", "snapshot", "status", file, "-w", "fields"])
        procs.run(["etcdutl", "snapshot", "restore", file, "--data-dir", f"{side.folder}/restored"])
        return {"out": [line for line in done.stdout.decode().splitlines() if line.startswith('"Revision')]}


class Revision(Do):
    def run(self, side):
        side.saved["rev"] = str(json.loads(side.ctl(self.args, None).stdout)["header"]["revision"] + 1)
        return {"rev": side.saved["rev"]}


class Side:
    """An etcd, the address by which it is reached, and how what it says is made comparable."""

    def __init__(self, cluster, endpoint, folder):
        member = cluster.members[0]
        status = member.status()["header"]
        self.endpoint, self.folder, self.saved = endpoint, str(folder), {"endpoint": endpoint, "folder": str(folder)}
        self.saved["member"] = format(status["member_id"], "x")
        self.words = {str(folder): "FOLDER", endpoint: "ENDPOINT", member.endpoint: "ENDPOINT", member.peer_url: "PEER"}
        for word in ("cluster_id", "member_id"):
            self.words[str(status[word])] = self.words[format(status[word], "x")] = word.upper()
        self.ids = {}

    def argv(self, args, user):
        return ["etcdctl", "--endpoints", self.endpoint, *PATIENT, *(["--user", user] if user else []),
            *(a.format(**self.saved) for a in args)]

    def ctl(self, args, user, **kw):
        return procs.run(self.argv(args, user), check=False, **kw)

    def spawn(self, args, user):
        return procs.spawn(self.argv(args, user), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)

    @staticmethod
    def kill_after(proc, seconds):
        timer = threading.Timer(seconds, proc.kill)
        timer.start()
        return timer

    def plain(self, text):
        for word, put in self.words.items():
            text = text.replace(word, put)
        text = ID.sub(lambda m: self.ids.setdefault(m.group(), f"ID{len(self.ids)}"), text)
        for pattern, put in VOLATILE:
            text = pattern.sub(put, text)
        return text


def commands(text):
    """One a line, as in a shell; `name:password$` before it is who asks, and `-w json|fields|table` three commands."""
    steps = []
    for line in filter(None, map(str.strip, text.splitlines())):
        user, dollar, rest = line.rpartition("$ ")
        args = shlex.split(rest)
        forms = args.pop().split("|") if "|" in args[-1] else None
        steps += [Do(*args, *([form] if form else []), user=user or None) for form in forms or [None]]
    return steps


KEYS = commands("""
    put a 3
    put b 1
    put c 2
    put a 4
    put ab 5
    put z/1 6
    put z/2 7
""")
REMEMBER = Revision("get", "nothing", "-w", "json")  # {rev} is from here on the next write's

GROUPS = {
    "hash of the store": [
        *KEYS,
        *commands("""
            endpoint hashkv
            endpoint hashkv -w json
            compaction 3
            endpoint hashkv -w table
        """),
    ],
    "get": [
        *KEYS,
        *commands("""
            get a
            get nothing
            get
            get ''
            get a -w json|fields|table
            get a --hex
            get a c
            get --prefix z/
            get --prefix '' --limit 2
            get --from-key b
            get --prefix '' --sort-by VALUE --order DESCEND
            get --prefix '' --sort-by MODIFY
            get --prefix '' --sort-by CREATE
            get --prefix '' --sort-by VERSION --order DESCEND
            get --prefix '' --sort-by KEY --order DESCEND
            get --prefix '' --count-only
            get --prefix '' --count-only -w fields
            get --prefix '' --keys-only
            get a --print-value-only
            get a --consistency s
            get a --rev 9
            get a --rev 99999
            get --prefix z/ -w json|fields|table
        """),
    ],
    "put": [
        *commands("""
            put a 1
            put a 2 --prev-kv
        """),
        Do("put", "a", stdin="from stdin"),
        *commands("""
            put a --ignore-value
            put new --ignore-value
            put a x --ignore-lease
            put a x --lease 77
            put '' x
            put -- -k -v
            put a 3 --prev-kv -w json|fields|table
            get a -w json
        """),
    ],
    "del": [
        *KEYS,
        *commands("""
            del a
            del a
            del b --prev-kv
            del --prefix z/ --prev-kv
            del --from-key c
            put a 1
            put b 1
            del a c
            del a -w json|fields|table
        """),
    ],
    "txn": [
        Do("txn", stdin='version("t") = "0"\n\nput t 1\nget t\n\nget t\n\n'),
        Do("txn", stdin='value("t") = "2"\n\nput t 1\n\nget t\ndel t\n\n'),
        Do("txn", "-i", stdin='mod("t") > "0"\n\nput t 9\n\n\n'),
        Do("txn", stdin="\n\nput t 1\nput t 2\n\n\n"),
        Do("txn", stdin="nonsense\n\n\n\n"),
        Do("txn", "-w", "json", stdin='create("t") < "5"\n\nput t 9\n\nget t\n\n'),
        *commands("""
            get t -w json
        """),
    ],
    "compaction": [
        *KEYS,
        *commands("""
            compaction 2
            compaction 2
            compaction 99999
            compaction --physical 20
            compaction
            compaction x
        """),
    ],
    "watch": [
        *commands("""
            del --prefix ''
        """),
        REMEMBER,
        *KEYS,
        *commands("""
            del a
        """),
        Lines(9, "watch", "a", "--rev", "{rev}"),
        Lines(12, "watch", "--prev-kv", "a", "--rev", "{rev}"),
        Lines(24, "watch", "--prefix", "", "--rev", "{rev}"),
        Lines(6, "watch", "a", "ac", "--rev", "{rev}"),
        Lines(1, "watch", "a", "--rev", "{rev}", "-w", "json"),
        Lines(8, "watch", "a", "--rev", "{rev}", "-w", "fields"),
        Lines(3, "watch", "--hex", "a", "--rev", "{rev}"),
        Lines(4, "watch", "z/1", "--rev", "{rev}", "--", "sh", "-c",
              "echo $ETCD_WATCH_REVISION $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY"),
        Lines(6, "watch", "-i", stdin="watch z/1 --rev {rev}\nwatch z/2 --rev {rev}\n", unordered=True),
        Lines(2, "watch", "--progress-notify", "nothing"),
        Lines(1, "watch", "-i", stdin="watch nothing\nprogress\nprogress\nprogress\n"),
        *commands("""
            watch b a
            watch
        """),
    ],
    "lease": [
        Do("lease", "grant", "600", save="lease"),
        *commands("""
            lease timetolive {lease}
            put l 1 --lease {lease}
            lease timetolive {lease} --keys
            get l -w fields
            lease keep-alive --once {lease}
            lease list
        """),
        Lines(1, "lease", "keep-alive", "{lease}"),
        *commands("""
            lease timetolive {lease} -w json|fields|table
            lease list -w json|fields|table
            put l 2 --ignore-lease
            lease revoke {lease}
            get l
            lease timetolive {lease}
            lease revoke {lease}
            lease keep-alive --once {lease}
            lease grant 0
            lease grant x
            lease list -w json|fields|table
        """),
    ],
    "lock": [
        *commands("""
            lock turn echo mine
            lock turn --ttl 5 -- sh -c 'exit 3'
        """),
        Lines(1, "lock", "turn"),
        *commands("""
            lock
        """),
    ],
    "elect": [
        Lines(2, "elect", "leader", "me", hold=True),
        Lines(2, "elect", "-l", "leader"),
        *commands("""
            elect
        """),
    ],
    "member": [
        *commands("""
            member list
            member list -w json|fields|table
        """),
        Do("member", "add", "second", "--learner", "--peer-urls", "http://127.0.0.1:1", save="second", unordered=True),
        Do("member", "list", "-w", "table", unordered=True),
        Do("member", "update", "{second}", "--peer-urls", "http://127.0.0.1:2", unordered=True),
        *commands("""
            member promote {second}
            member remove {second}
            member remove {second}
            member remove 77
            member add third --peer-urls nonsense
            member list
        """),
    ],
    "endpoint": [
        *commands("""
            endpoint status
            endpoint status -w json|fields|table
            endpoint status --cluster
            endpoint health
            endpoint health --cluster
            endpoint health -w json
            endpoint health -w table
        """),
    ],
    "alarm, defrag, move-leader": [
        *commands("""
            alarm list
            alarm list -w json|fields|table
            alarm disarm
            defrag
            defrag --cluster
            move-leader 77
            move-leader {member}
            move-leader
        """),
    ],
    "snapshot": [
        *KEYS,
        *commands("""
            snapshot save {folder}/snapshot
        """),
        Snapshot(),
    ],
    "make-mirror": [
        *commands("""
            del --prefix ''
            put from/1 a
        """),
        Lines(0, "make-mirror", "--prefix", "from/", "--dest-prefix", "to/", "{endpoint}", hold=True),
        Wait("to/1\na\n", "get", "--prefix", "to/"),
        *commands("""
            put from/2 b
        """),
        Wait("to/1\na\nto/2\nb\n", "get", "--prefix", "to/"),
        *commands("""
            del from/1
        """),
        Wait("to/2\nb\n", "get", "--prefix", "to/"),
    ],
    "user, role, auth": [
        REMEMBER,
        *commands("""
            auth status
            auth enable
            role add r
            role add r
            role add root
            role grant-permission r readwrite a
            role grant-permission r read b d
            role grant-permission r write --prefix p/
            role grant-permission r read --from-key x
            role grant-permission nobody read a
            role get r
            role get r -w json
            role list
            role revoke-permission r b d
            role revoke-permission r b d
            role get nobody
            user add root:secret
            user add u --new-user-password pass
            user add n --no-password
            user add u:again
            user grant-role root root
            user grant-role u r
            user grant-role u x
            user list
            user get u
            user get u -w json
            user get u --detail
        """),
        Do("user", "passwd", "u", "--interactive=false", stdin="other\n"),
        *commands("""
            user revoke-role u nobody
            auth enable
            root:secret$ auth status
            u:other$ put a 1
            u:other$ get a
            get a
            u:other$ put z 1
            u:wrong$ get a
            nobody:x$ get a
            u:other$ user list
            u:other$ user get u
            u:other$ role get r
            u:other$ get --from-key a
            u:other$ get --from-key xx
        """),
        Lines(3, "watch", "a", "--rev", "{rev}", user="u:other"),
        *commands("""
            u:other$ watch c
            u:other$ lease grant 60
            u:other$ member list
            root:secret$ user revoke-role u r
            u:other$ get a
            root:secret$ user delete u
            root:secret$ role delete r
            root:secret$ auth disable
            user delete root
            user delete n
            role delete root
            user list
            role list
        """),
    ],
}

# commands that send nothing to a server, or too much
NOT_RUN = {"version": "local", "help": "local", "completion bash": "local", "completion fish": "local",
"completion powershell": "local",
           "completion zsh": "local", "snapshot restore": "local", "snapshot status": "local, and deprecated",
           "check perf": "a minute of load, nothing but puts and gets", "check datascale": "fills the store"}
