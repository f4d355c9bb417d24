"""belfryctl beside etcdctl: the same arguments give the same bytes, and exit codes say what went wrong."""
import json
import signal
import subprocess
import time

import pytest

import procs
from client import binary
from etcd import Cluster, PATIENT
from ports import free_port
from test_security import READER, enable_auth


def ctl(cluster, *args, **kw):
    """belfryctl on the cluster's first member."""
    return procs.run([binary("belfryctl"), "--endpoints", cluster.members[0].url, *args], **kw)


def etcdctl(cluster, *args, **kw):
    return procs.run(["etcdctl", "--endpoints", cluster.members[0].endpoint, *PATIENT, *args], **kw)


def fill(cluster):
    lease = etcdctl(cluster, "lease", "grant", "600").stdout.split()[1].decode()
    for key, value in ((b"/a/1", b"one"), (b"/a/2", b"two"), (b"/a/3", b""), (b"/b/1", b"line\nbreak"),
                       (b"/b/\xff\xfe", b"bin\x01\x02\xff"), (b"/b/<&>", b'"quoted" \\ <&> \xe2\x80\xa8'),
                       (b"/c", b"x" * 5000)):
        etcdctl(cluster, "put", "--", key, value)
    etcdctl(cluster, "put", "/a/2", "two again")
    etcdctl(cluster, "put", "/l", "leased", "--lease", lease)


GETS = [
    ["/a/1"], ["/missing"], ["--prefix", "/a/"], ["--prefix", ""], ["--from-key", "/b"], ["/a/1", "/a/3"],
    ["--prefix", "/a/", "--limit", "2"], ["--prefix", "/a/", "--keys-only"],
    ["/a/2", "--rev", "4"], ["--prefix", "/a/", "--order", "DESCEND"],
    ["--prefix", "/", "--sort-by", "MODIFY", "--order", "DESCEND"], ["--prefix", "/", "--consistency", "s"],
    ["--prefix", "/b/", "--hex"], ["/l"],
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One member for the many tests that do not mind what was there before."""
    c = Cluster(tmp_path_factory.mktemp("shared"), keep=True).start()
    yield c
    c.close()


@pytest.fixture
def empty(shared):
    etcdctl(shared, "del", "--prefix", "")
    return shared


@pytest.mark.parametrize("form", ["simple", "json"])
def test_get_prints_what_etcdctl_prints(cluster, form):
    fill(cluster)
    different = []
    for args in GETS + ([["--prefix", "/a/", "--print-value-only"]] if form == "simple" else []):
        ours = ctl(cluster, "get", *args, "-w", form, check=False)
        theirs = etcdctl(cluster, "get", *args, "-w", form, check=False)
        if (ours.stdout, ours.returncode) != (theirs.stdout, theirs.returncode):
            different.append((args, ours.returncode, ours.stdout[-300:], ours.stderr[-300:], theirs.returncode,
                              theirs.stdout[-300:]))
    assert not different, "\n".join(map(str, different))


def without_revision(out, form):
    """A second write has another revision: that one number may differ."""
    if form != "json" or not out:
        return out
    answer = json.loads(out)
    rev = answer["header"].pop("revision")
    text = out.replace(b'"revision":%d' % rev, b'"revision":N', 1)
    for kv in [answer.get("prev_kv")] + answer.get("prev_kvs", []):
        for name in ("create_revision", "mod_revision"):
            if kv:
                text = text.replace(b'"%s":%d' % (name.encode(), kv[name]), b'"%s":N' % name.encode())
    return text


@pytest.mark.parametrize("form", ["simple", "json"])
@pytest.mark.parametrize("args", [
    ["put", "/k", "v"], ["put", "/k", "v", "--prev-kv"], ["put", "/k", "v", "--ignore-lease"],
    ["put", "/k", "--ignore-value"], ["del", "/none"], ["del", "/k"], ["del", "/k", "--prev-kv"],
    ["del", "--prefix", "/d/"], ["del", "--prefix", "/d/", "--prev-kv"], ["del", "--from-key", "/d/5"],
    ["del", "/d/1", "/d/3"], ["del", "--prefix", ""]], ids=" ".join)
def test_writes_print_what_etcdctl_prints(empty, form, args):
    cluster = empty

    def prepare():
        puts = ["put /k before"] + [f"put /d/{i} value{i}" for i in range(6)]
        etcdctl(cluster, "txn", input="\n{}\n\n\n".format("\n".join(puts)).encode())
    prepare()
    ours = ctl(cluster, *args, "-w", form)
    state_ours = {k: v for k, (v, _) in cluster.state().items()}
    etcdctl(cluster, "del", "--prefix", "")
    prepare()
    theirs = etcdctl(cluster, *args, "-w", form)
    state_theirs = {k: v for k, (v, _) in cluster.state().items()}
    assert state_ours == state_theirs
    assert without_revision(ours.stdout, form) == without_revision(theirs.stdout, form)


def test_put_takes_the_value_from_stdin(cluster):
    ctl(cluster, "put", "/in", input=b"from\nstdin")
    assert cluster.state("/in")[b"/in"][0] == b"from\nstdin"


class Side:
    """One of the two programs, watching, its output in a file."""

    def __init__(self, argv, path):
        self.path = path
        with open(path, "wb") as out:
            self.proc = procs.spawn(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)

    def output(self):
        return self.path.read_bytes()


def history_writes(cluster):
    for i in range(5):
        etcdctl(cluster, "put", f"/w/{i}", f"value {i}\n")
    etcdctl(cluster, "put", "/w/1", "again")
    etcdctl(cluster, "txn", input=b"\nput /w/z 1\nput /w/a 2\ndel /w/3\n\n\n")
    etcdctl(cluster, "del", "/w/2")
    etcdctl(cluster, "del", "--prefix", "/w/")
    etcdctl(cluster, "put", "--", b"/w/\xff", b"\x00\x01\xfe"[1:])
    etcdctl(cluster, "put", "/elsewhere", "no")
    etcdctl(cluster, "put", "/w/end", "end")


WATCHES = [["--prefix", "/w/"], ["--prefix", "/w/", "--prev-kv"], ["/w/1"], ["/w/1", "/w/4"], ["--prefix", ""],
           ["--prefix", "/w/", "--progress-notify"]]


@pytest.mark.parametrize("form", ["simple", "json"])
@pytest.mark.parametrize("start", ["live", "replay"])
def test_watch_prints_what_etcdctl_prints(make_cluster, tmp_path, form, start):
    cluster = make_cluster(progress_interval="10m")
    if start == "replay":
        history_writes(cluster)
    pairs = []
    for i, args in enumerate(WATCHES):
        extra = ["--rev", "1"] if start == "replay" else []
        ours = Side([binary("belfryctl"), "--endpoints", cluster.members[0].url, "watch", *args, *extra, "-w", form],
                    tmp_path / f"ours{i}")
        theirs = Side(["etcdctl", "--endpoints", cluster.members[0].endpoint, "watch", *args, *extra, "-w", form],
                      tmp_path / f"theirs{i}")
        pairs.append((args, ours, theirs))
    procs.wait_until(lambda: cluster.members[0].metric("etcd_debugging_mvcc_watcher_total") >= 2 * len(WATCHES), 10,
                     message="all watching")
    if start == "live":
        history_writes(cluster)
    try:
        procs.wait_until(lambda: all(o.output() == t.output() and o.output() for _, o, t in pairs), 5, 0.2)
    except AssertionError:
        pass  # told below, with the bytes
    for args, ours, theirs in pairs:
        assert ours.output() == theirs.output(), f"watch {args}"
        assert ours.output()
        procs.end(ours.proc, signal.SIGINT)
        procs.end(theirs.proc)


def test_watch_interrupted_exits_130(cluster):
    proc = procs.spawn([binary("belfryctl"), "--endpoints", cluster.members[0].url, "watch", "/a"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    procs.wait_until(lambda: cluster.members[0].metric("etcd_debugging_mvcc_watcher_total") == 1, 10)
    proc.send_signal(signal.SIGINT)
    assert proc.wait(5) in (130, -signal.SIGINT)


@pytest.mark.parametrize("command", ["watch --prefix /w/ --rev 1", "follow --prefix /w/", "get --prefix /w/"])
def test_closed_pipe_ends_quietly(cluster, tmp_path, command):
    for i in range(3):
        etcdctl(cluster, "put", f"/w/{i}", "y" * 100_000)  # more than a pipe holds
    script = f"{binary('belfryctl')} --endpoints {cluster.members[0].url} {command} | head -1"
    proc = procs.spawn(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    time.sleep(1)
    etcdctl(cluster, "put", "/w/more", "z" * 100_000)  # a watch learns of the closed pipe when it writes
    out, err = proc.communicate(timeout=10)
    assert out.count(b"\n") == 1 and err == b""


@pytest.mark.parametrize("args", [["get"], ["get", "/a", "--no-such-flag"], ["nonsense"], ["put"],
                                  ["get", "--limit", "x", "/a"], ["watch", "/a", "--rev", "-z"]], ids=" ".join)
def test_usage_mistake_exits_2_with_one_line(shared, args):
    done = ctl(shared, *args, check=False)
    assert done.returncode == 2 and done.stdout == b""
    assert 1 <= done.stderr.count(b"\n") <= 2, done.stderr


def test_no_endpoint_exits_3():
    done = procs.run([binary("belfryctl"), "--endpoints", f"http://127.0.0.1:{free_port()}", "--command-timeout", "1s",
                      "get", "/a"], check=False, timeout=10)
    assert done.returncode == 3 and done.stdout == b"" and done.stderr


def test_credentials_exit_4(make_cluster):
    cluster = make_cluster()
    enable_auth(cluster)
    wrong = ctl(cluster, "--user", "reader:wrong", "get", "/a/1", check=False)
    denied = ctl(cluster, "--user", ":".join(READER), "get", "/b/1", check=False)
    watching = ctl(cluster, "--user", ":".join(READER), "watch", "/b/1", check=False)
    fine = ctl(cluster, "--user", ":".join(READER), "get", "/a/1", check=False)
    assert (wrong.returncode, denied.returncode, watching.returncode, fine.returncode) == (4, 4, 4, 0)


def test_compacted_exits_5(cluster):
    for i in range(5):
        cluster.put("/a", str(i))
    cluster.compact(5)
    assert ctl(cluster, "get", "/a", "--rev", "2", check=False).returncode == 5
    assert ctl(cluster, "watch", "/a", "--rev", "2", check=False).returncode == 5


def test_missing_key_is_no_error(empty):
    done = ctl(empty, "get", "/nothing")
    assert done.stdout == b"" and done.stderr == b""


def test_help_goes_to_stdout():
    for args in (["--help"], ["get", "--help"], ["watch", "--help"]):
        done = procs.run([binary("belfryctl"), *args])
        assert done.stdout and done.stderr == b""


def test_follow_shows_state_then_changes(cluster, tmp_path):
    cluster.put("/s/1", "one")
    side = Side([binary("belfryctl"), "--endpoints", cluster.members[0].url, "follow", "--prefix", "/s/"],
                tmp_path / "follow")
    procs.wait_until(lambda: b"/s/1" in side.output(), 10, message="the state")
    cluster.put("/s/2", "two")
    procs.wait_until(lambda: b"/s/2" in side.output(), 10, message="the change")
    procs.end(side.proc, signal.SIGINT)


def test_status_names_the_member(shared):
    done = ctl(shared, "status")
    assert b"3.5" in done.stdout
