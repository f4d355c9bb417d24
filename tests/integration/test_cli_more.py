"""belfryctl's txn, lease and member beside etcdctl's: the same input gives the same bytes, and the same in etcd."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import procs
from client import binary
from etcd import Cluster
from test_cli import Side, ctl, etcdctl


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One member for the many tests that do not mind what was there before."""
    c = Cluster(tmp_path_factory.mktemp("shared"), keep=True).start()
    yield c
    c.close()


@pytest.fixture
def empty(shared):
    etcdctl(shared, "del", "--prefix", "")
    for lease in leases(shared):
        etcdctl(shared, "lease", "revoke", lease)
    return shared


def leases(cluster):
    return etcdctl(cluster, "lease", "list").stdout.decode().split()[3:]


def grant(cluster, ttl=600):
    return etcdctl(cluster, "lease", "grant", str(ttl)).stdout.split()[1].decode()


def test_manual_page_has_every_command_and_flag():
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "man", "belfryctl.1")) as f:
        page = f.read().replace("\\-", "-")
    overview = procs.run([binary("belfryctl"), "help"]).stdout.decode()
    commands = re.findall(r"^  (\w+)", overview.partition("Commands:\n")[2].partition("\n\n")[0], re.M)
    assert len(commands) > 10
    for command in commands:
        section = re.search(rf"^\.SS {command}\b.*?(?=^\.S[SH] )", page, re.M | re.S)
        assert section, f"belfryctl.1 has no section for {command}"
        own = procs.run([binary("belfryctl"), "help", command]).stdout.decode().partition("Flags of every command")[0]
        for flag in re.findall(r"^ .{5}(--[\w-]+)", own.partition(f"Flags of {command}")[2], re.M):
            assert f"\\fB{flag}\\fR" in section[0], f"belfryctl.1 does not have {flag} of {command}"


# ---- txn ----

def fill(cluster):
    puts = ["put /k before", "put /n 7"] + [f"put /d/{i} value{i}" for i in range(5)]
    etcdctl(cluster, "txn", input="\n{}\n\n\n".format("\n".join(puts)).encode())


SCRIPTS = {
    "nothing": "\n\n\n",
    "held": 'mod("/k") > "0"\n\nput /k after\nget /d/1\n\nput /no no\n\n',
    "not held": 'mod("/k") = "0"\n\nput /no no\n\nget /k\nput /k "else where"\ndel /d/1\n\n',
    "every comparison": 'ver("/k") = "1"\nversion("/k") != "2"\nc("/k") > "1"\ncreate("/none") = "0"\nm("/k") > "1"\n'
                        'mod("/none") < "1"\nval("/k") = "before"\nvalue("/n") != "8"\n\nput /all true\n\nput /all false\n\n',
    "gets": '\nget --prefix /d/\nget /d/1 /d/3\nget --prefix /d/ --limit 2\nget --prefix /d/ --order DESCEND\n'
            'get /none\nget --prefix / --keys-only\nget --prefix /d/ --count-only\nget --from-key /k\n\n\n',
    "puts": '\nput /k 2 --prev-kv\nput /new v --prev-kv\nput /n --ignore-value\nput /d/1 -- -5\n\n\n',
    "dels": '\ndel /k\ndel /none\ndel --prefix /d/ --prev-kv\ndel /n --prev-kv\n\n\n',
    "quotes": '\nput "a b" c"d\nput "q\\x41\\u00e9\\n\\t" z"z\n\n\n',
    "binary": '\nput "/b/\\xff\\xfe" "bin\\x01\\x02\\xff"\nget "/b/\\xff\\xfe"\n\n\n',
    "blanks": '  mod("/k") > "0"  \n \n   put   /k\tx  \r\n\n\n',
}


def without_revisions(out):
    """A second write has other revisions: those numbers may differ."""
    return re.sub(rb'"(revision|create_revision|mod_revision)":\d+', rb'"\1":N', out)


@pytest.mark.parametrize("form", [["-w", "simple"], ["-w", "json"], ["-w", "simple", "-i"], ["-w", "simple", "--hex"]],
                         ids=" ".join)
@pytest.mark.parametrize("name", SCRIPTS)
def test_txn_does_and_prints_what_etcdctl_does(empty, name, form):
    results = []
    for program in (ctl, etcdctl):
        etcdctl(empty, "del", "--prefix", "")
        fill(empty)
        done = program(empty, "txn", *form, input=SCRIPTS[name].encode())
        results.append((without_revisions(done.stdout), {k: v for k, (v, _) in empty.state().items()}))
    assert results[0] == results[1]


@pytest.mark.parametrize("script", [
    "", 'mod("/k") > "0"\n', '\nput /k v\n', '\nput /k v\n\n', 'mod("/k") = 1\n\n\n\n', 'frob("/k") = "1"\n\n\n\n',
    '\nfrob /k\n\n\n', '\nget\n\n\n', '\nput /k v --frob\n\n\n', 'mod("/k") = "x"\n\n\n\n', '\nput /k\n\n\n'])
def test_txn_that_etcdctl_refuses_is_refused_with_one_line(empty, script):
    fill(empty)
    before = empty.revision()
    ours = ctl(empty, "txn", input=script.encode(), check=False)
    theirs = etcdctl(empty, "txn", input=script.encode(), check=False)
    assert ours.returncode == 2 and theirs.returncode != 0
    assert ours.stdout == b"" and ours.stderr.count(b"\n") == 1
    assert empty.revision() == before


def test_txn_compares_leases(empty):
    """etcdctl 3.5 crashes here; later ones take hexadecimal digits, as we do."""
    lease = grant(empty)
    etcdctl(empty, "put", "/l", "v", "--lease", lease)
    script = f'lease("/l") = "{lease}"\n\nput /held yes\n\nput /held no\n\n'
    assert ctl(empty, "txn", input=script.encode()).stdout.startswith(b"SUCCESS\n")
    assert empty.state("/held")[b"/held"][0] == b"yes"


def test_txn_takes_words_in_single_quotes(empty):
    """etcdctl 3.5 cuts them where it should not (len(args) for len(args[i]))."""
    ctl(empty, "txn", input=b"\nput 'a b' 'c \"d'\n\n\n")
    assert empty.state("a")[b"a b"][0] == b'c "d'


def test_txn_is_one_revision_and_all_or_nothing(empty):
    before = empty.revision()
    ctl(empty, "txn", input=b"\nput /a 1\nput /b 2\nput /c 3\n\n\n")
    assert empty.revision() == before + 1
    done = ctl(empty, "txn", input=b"\nput /a 9\nput /a 8\n\n\n", check=False)  # etcd refuses the same key twice
    assert done.returncode == 1 and b"duplicate key" in done.stderr
    assert empty.state("/a")[b"/a"][0] == b"1"


def test_txn_prints_lines_of_json(empty):
    fill(empty)
    out = ctl(empty, "txn", "--output", "json",
              input=b'mod("/k") > "0"\n\nget /k\nput /k v --prev-kv\ndel --prefix /d/\n\n\n').stdout
    verdict, got, put, deleted = map(json.loads, out.splitlines())
    assert verdict["succeeded"] is True
    assert (got["op"], got["key"], got["value"]) == ("state", "/k", "before")
    assert (put["op"], put["key"], put["prev"], put["rev"]) == ("put", "/k", "before", verdict["rev"])
    assert (deleted["op"], deleted["key"], deleted["deleted"]) == ("del", "/d/", 5)
    table = ctl(empty, "txn", "--output", "table", input=b"\nget /k\nput /k v2\ndel /k2\n\n\n").stdout.decode()
    assert "conditions hold" in table and "0 deleted" in table and table.count("/k") == 2


def test_txn_takes_no_argument(shared):
    assert ctl(shared, "txn", "/a", check=False).returncode == 2


# ---- leases ----

def test_lease_grant_and_revoke(empty):
    done = ctl(empty, "lease", "grant", "300")
    assert re.fullmatch(rb"lease [0-9a-f]{16} granted with TTL\(300s\)\n", done.stdout)
    lease = done.stdout.split()[1].decode()
    assert leases(empty) == [lease]
    etcdctl(empty, "put", "/l", "v", "--lease", lease)
    assert ctl(empty, "lease", "revoke", lease).stdout == f"lease {lease} revoked\n".encode()
    assert empty.state("/l") == {} and leases(empty) == []
    done = ctl(empty, "lease", "revoke", lease, check=False)
    assert done.returncode == 1 and b"lease not found" in done.stderr


@pytest.mark.parametrize("args", [["grant", "300"], ["revoke", "LEASE"]], ids=" ".join)
def test_lease_answers_in_json_have_etcdctls_form(empty, args):
    forms = []
    for program in (ctl, etcdctl):
        lease = grant(empty)
        out = program(empty, "lease", *[lease if a == "LEASE" else a for a in args], "-w", "json").stdout
        forms.append(re.sub(rb'"(ID|revision)":\d+', rb'"\1":N', out))
    assert forms[0] == forms[1]


@pytest.mark.parametrize("form", ["simple", "json"])
@pytest.mark.parametrize("keys", [[], ["--keys"]])
def test_lease_timetolive_prints_what_etcdctl_prints(empty, form, keys):
    lease, bare = grant(empty, 600), grant(empty, 600)
    for key in ("/l/1", "/l/2 with blank"):
        etcdctl(empty, "put", key, "v", "--lease", lease)
    for which in (lease, bare, "1234"):
        def both():
            sides = [program(empty, "lease", "timetolive", which, *keys, "-w", form) for program in (ctl, etcdctl)]
            return sides[0].stdout == sides[1].stdout and sides[0].returncode == sides[1].returncode
        procs.wait_until(both, 5, message="the same bytes within one second of its life")


@pytest.mark.parametrize("form", ["simple", "json"])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_lease_list_prints_what_etcdctl_prints(empty, form, n):
    for i in range(n):
        grant(empty, 500 + i)
    ours, theirs = (program(empty, "lease", "list", "-w", form).stdout for program in (ctl, etcdctl))
    assert ours == theirs


@pytest.mark.parametrize("form", ["simple", "json"])
def test_lease_keep_alive_once_prints_what_etcdctl_prints(empty, form):
    lease = grant(empty)
    ours, theirs = (program(empty, "lease", "keep-alive", "--once", lease, "-w", form).stdout
                    for program in (ctl, etcdctl))
    assert ours == theirs
    gone = ctl(empty, "lease", "keep-alive", "--once", "1234", check=False)
    assert gone.returncode == 1 and gone.stdout == b"" and gone.stderr


def test_lease_keep_alive_goes_on_until_the_lease_is_gone(empty, tmp_path):
    lease = grant(empty, 3)
    sides = [Side([*argv, "lease", "keep-alive", lease], tmp_path / name) for name, argv in (
        ("ours", [binary("belfryctl"), "--endpoints", empty.members[0].url]),
        ("theirs", ["etcdctl", "--endpoints", empty.members[0].endpoint]))]
    line = f"lease {lease} keepalived with TTL(3)\n".encode()
    procs.wait_until(lambda: all(s.output().count(line) >= 4 for s in sides), 15, message="kept beyond its life")
    etcdctl(empty, "lease", "revoke", lease)
    for side in sides:
        assert side.proc.wait(10) == 0
        assert side.output().replace(line, b"") == f"lease {lease} expired or revoked.\n".encode()
    done = ctl(empty, "lease", "keep-alive", lease)
    assert done.stdout == f"lease {lease} expired or revoked.\n".encode()


def test_lease_keep_alive_outlives_its_server(make_cluster, tmp_path):
    cluster = make_cluster()
    lease = grant(cluster, 30)
    side = Side([binary("belfryctl"), "--endpoints", cluster.members[0].url, "--command-timeout", "1s", "lease",
                 "keep-alive", lease], tmp_path / "ours")
    procs.wait_until(lambda: side.output().count(b"keepalived") == 1, 10)
    cluster.members[0].kill()
    time.sleep(1)
    cluster.members[0].restart()
    procs.wait_until(lambda: side.output().count(b"keepalived") >= 2, 30, message="renewed again")
    side.proc.send_signal(signal.SIGINT)
    assert side.proc.wait(5) == 130


def test_lease_keep_alive_ends_with_its_reader(empty):
    lease = grant(empty, 60)
    script = f"{binary('belfryctl')} --endpoints {empty.members[0].url} lease keep-alive {lease} | head -1"
    proc = procs.spawn(["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = proc.communicate(timeout=10)
    assert out.count(b"\n") == 1 and err == b""


def test_leases_in_lines_of_json(empty):
    lease = json.loads(ctl(empty, "lease", "grant", "300", "--output", "json").stdout)
    assert lease["ttl"] == 300
    etcdctl(empty, "put", "/l", "v", "--lease", lease["lease"])
    life, key = map(json.loads, ctl(empty, "lease", "timetolive", lease["lease"], "--keys", "--output",
                                    "json").stdout.splitlines())
    assert life["granted_ttl"] == 300 and 0 < life["ttl"] <= 300 and key == {"lease": lease["lease"], "key": "/l"}
    assert json.loads(ctl(empty, "lease", "list", "--output", "json").stdout) == {"lease": lease["lease"]}
    once = ctl(empty, "lease", "keep-alive", "--once", lease["lease"], "--output", "json").stdout
    assert json.loads(once) == lease
    revoked = ctl(empty, "lease", "revoke", lease["lease"], "--output", "json").stdout
    assert json.loads(revoked) == {"lease": lease["lease"], "ttl": 0}


@pytest.mark.parametrize("args", [
    ["lease"], ["lease", "frob"], ["lease", "grant"], ["lease", "grant", "x"], ["lease", "grant", "-5"],
    ["lease", "revoke"], ["lease", "revoke", "zz"], ["lease", "list", "1"], ["lease", "grant", "5", "--keys"],
    ["lease", "list", "--once"], ["member"], ["member", "frob"], ["member", "list", "x"]], ids=" ".join)
def test_usage_mistake_exits_2_with_one_line(shared, args):
    done = ctl(shared, *args, check=False)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1


# ---- members ----

def test_member_list_prints_what_etcdctl_prints(make_cluster):
    cluster = make_cluster(3)
    cluster.ctl_retry("member", "add", "a-learner", "--learner", "--peer-urls=http://127.0.0.1:1")
    for ours, theirs in ((["-w", "simple"], "simple"), (["-w", "json"], "json"), ([], "simple"),
                         (["--output", "table"], "table")):
        a = ctl(cluster, "member", "list", *ours).stdout
        b = etcdctl(cluster, "member", "list", "-w", theirs).stdout
        assert a == b, f"{a.decode()}\n{b.decode()}"
    lines = [json.loads(line) for line in ctl(cluster, "member", "list", "--output", "json").stdout.splitlines()]
    assert len(lines) == 4 and [m["name"] for m in lines].count("") == 1, "who has not started has no name yet"
    assert [m["learner"] for m in lines].count(True) == 1
    assert all(m["peer_urls"] for m in lines)
