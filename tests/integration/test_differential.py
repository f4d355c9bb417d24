"""One table of cases, run against etcd and against a belfryd in front of it: equal answers, or a line in
docs/compatibility.md that says what differs and why."""
import copy
import time

import older_etcd
import procs
import pytest
from differential import WATCH, Stream, both, difference, frame, post, run_case, watch_create
from differential_cases import AUTH, GZIPPED, REQUESTS, SECTIONS
from differential_etcdctl import GROUPS, NOT_RUN, Side
from pair import Pair
from shows import Differs, is_of_some_versions, lines, marked_in_c, marked_in_python

CASES = [pytest.param(case, id=f"{section} {case.name}") for section, cases in SECTIONS.items() for case in cases]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("pair")).serve()
    yield made
    made.close()


def compatibility():
    """name -> its line in docs/compatibility.md; those of Kubernetes' API are test_kube_differential.py's"""
    return {name: line for name, line in lines().items() if not name.startswith("kube-")}


def compare(case, etcd, belfryd, base):
    said, where = difference(etcd, belfryd), f"{case.name} (from revision {base})"
    if case.differs is None:
        assert not said, f"{where}\n{said}"
        return
    if not said:
        assert is_of_some_versions(case.differs), f"{where}: no difference, but docs/compatibility.md says: {lines()[case.differs]}"
        return
    said = difference(case.becomes(copy.deepcopy(etcd), base), belfryd)
    assert not said, f"{where}: not what docs/compatibility.md says\n{said}"


@pytest.mark.parametrize("case", CASES)
def test_watch(case, pair):
    compare(case, *run_case(case, pair.store, pair.etcd, pair.tier, pair.new_tier))


PASSWORDS = {"root": "secret-root", "reader": "secret-reader"}
GRANTS = [("--prefix=true", "reading", "read", "/a/"), ("reading", "read", "/k"), ("reading", "read", "m", "n"),
          ("reading", "read", "n", "o"), ("reading", "write", "/w")]


@pytest.fixture(scope="module")
def guarded(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "secret").write_text("a secret for signing")
    (folder / "password").write_text(PASSWORDS["root"] + "\n")
    (folder / "password").chmod(0o600)
    kind = f"jwt,sign-method=HS256,priv-key={folder / 'secret'}" if request.param == "jwt" else "simple"
    pair = Pair(folder, flags=["--auth-token", kind])
    for args in [("user", "add", f"{name}:{password}") for name, password in PASSWORDS.items()] + [
            ("role", "add", "reading"), *[("role", "grant-permission", *grant) for grant in GRANTS],
            ("user", "grant-role", "reader", "reading"), ("user", "grant-role", "root", "root"), ("auth", "enable")]:
        pair.cluster.ctl(*args)
    pair.cluster.auth = ("root", PASSWORDS["root"])
    pair.serve("--upstream-user", "root", "--upstream-password-file", str(folder / "password"), "--rights-period", "1s",
               rights="upstream")
    yield pair
    pair.close()


@pytest.mark.parametrize("guarded, case", [pytest.param("simple", c, id=c.name) for c in AUTH if not c.stale] +
                         [pytest.param("jwt", c, id=f"jwt {c.name}") for c in AUTH if c.jwt], indirect=["guarded"],
                         scope="module")
def test_watch_with_auth(case, guarded):
    tokens = {name: guarded.store.token(name, password) for name, password in PASSWORDS.items()}
    guarded.store.metadata = (("token", tokens["root"]),)
    if case.stale:
        guarded.cluster.ctl("role", "add", "another")
        guarded.store.metadata = (("token", guarded.store.token("root", PASSWORDS["root"])),)
        time.sleep(3)  # the tier believes for a second what it was told last
    metadata = [(name, value.format(**tokens)) for name, value in case.metadata]
    compare(case, *run_case(case, guarded.store, guarded.etcd, guarded.tier, metadata=metadata))


def test_no_leader(tmp_path):
    """Two of three members are gone; the third is all that the tier knows."""
    pair = Pair(tmp_path, members=3).serve()
    leader = [("hasleader", "true")]
    try:
        asked, plain = ([Stream(e, metadata) for e in (pair.etcd, pair.tier.endpoint)] for metadata in (leader, ()))
        for stream in asked + plain:
            stream.send(watch_create(key=b"a"))
            assert stream.wait(lambda got, status: got)
        for member in pair.cluster.members[1:]:
            member.kill()
        for stream in asked:
            assert stream.wait(lambda got, status: status, 20), "it does not end"
        assert [s.status for s in asked] == [(14, "etcdserver: no leader")] * 2
        assert [s.status for s in plain] == [None] * 2
        frames = {"/etcdserverpb.KV/Range": frame(b"\x0a\x01a\x38\x01"), WATCH: frame(watch_create(key=b"a"))}
        for path, body in frames.items():
            etcd, belfryd = both(*[lambda e=e: post(e, path, body, [("content-type", "application/grpc"), *leader])
                                   for e in (pair.etcd, pair.tier.endpoint)])
            assert etcd["headers"][0]["grpc-message"] == "etcdserver: no leader"
            assert not difference(etcd, belfryd), path
        for stream in asked + plain:
            stream.close()
    finally:
        pair.close()


@pytest.mark.parametrize("request_", [pytest.param(r, id=r.name) for r in REQUESTS + GZIPPED])
def test_request(request_, pair):
    r = request_
    base = pair.store.delete(b"\0", b"\0")
    etcd, belfryd = both(*[lambda e=e: post(e, r.path, r.body, r.headers, r.method)
                           for e in (pair.etcd, pair.tier.endpoint)])
    assert etcd["headers"], f"etcd itself does not answer: {etcd}"
    compare(r, etcd, belfryd, base)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Two etcds that are told the same, one of them through a belfryd."""
    pairs = [Pair(tmp_path_factory.mktemp(name)) for name in ("direct", "tiered")]
    direct, tiered = pairs
    tiered.serve()
    yield Side(direct.cluster, direct.etcd, direct.folder), Side(tiered.cluster, tiered.tier.endpoint, tiered.folder)
    for pair in pairs:
        pair.close()


@pytest.mark.parametrize("group", GROUPS)
def test_etcdctl(group, sides):
    said = []
    for step in GROUPS[group]:
        runs = [lambda side=side: step.run(side) for side in sides]
        # a process dies with the thread it came from, so one that is held comes from this one
        etcd, belfryd = [run() for run in runs] if step.hold else both(*runs)
        if etcd != belfryd:
            said.append(f"etcdctl {step.name}\n{difference(etcd, belfryd)}")
    assert not said, "\n".join(said)


def test_every_command_of_etcdctl_is_in_the_table():
    text = procs.run(["etcdctl", "--help"]).stdout.decode()
    listed = text.partition("COMMANDS:")[2].partition("OPTIONS:")[0].splitlines()
    commands = [line.split("\t")[1].strip() for line in listed if line.startswith("\t")]
    run = {step.name for steps in GROUPS.values() for step in steps}
    missing = [c for c in commands if c not in NOT_RUN and not any(r == c or r.startswith(c + " ") for r in run)]
    assert len(commands) > 40 and not missing, missing


def test_every_line_of_the_documentation_is_shown():
    """By a case of the tables, or by a test that is marked with the line's name (shows.py)."""
    cases = [case for cases in SECTIONS.values() for case in cases] + AUTH + REQUESTS + GZIPPED
    shown = {case.differs for case in cases if case.differs} | set(marked_in_python()) | set(marked_in_c()) | set(older_etcd.TESTS)
    followed = {name for name in compatibility() if name.startswith("follow-")}  # test_kube_tier_differential has their cases
    assert followed and shown | followed == set(compatibility())


def test_marks_are_found_and_those_that_compare_nothing_are_not(tmp_path):
    (tmp_path / "test_x.py").write_text('@shows("a", "b")\ndef test_one():\n    pass\n\n\n@shows("c")\ndef helper():\n    pass\n')
    said, test = "/* %s */\nstatic void %s(void **state)\n{\n}\n", "docs/compatibility.md: shows "
    (tmp_path / "x_test.c").write_text(said % ("Words. " + test + "d.", "runs") + said % (test + "e", "idle") + said % ("It shows f.", "other")
                                       + "cmocka_unit_test(runs)\ncmocka_unit_test(other)\n")
    assert marked_in_python(tmp_path) == {"a": ["test_x.py: test_one"], "b": ["test_x.py: test_one"]}
    assert marked_in_c(tmp_path) == {"d": ["x_test.c: runs"]}
    judge = Differs({"members", "host", "read-sort-target"})
    judge("members", etcd=1, belfryd=2)
    for wrong in (lambda: judge("host", etcd=1, belfryd=1), lambda: judge("http1", etcd=1, belfryd=2), judge.check):
        with pytest.raises(AssertionError):
            wrong()
    judge("host", etcd="x", belfryd="y")
    judge("read-sort-target", etcd=1, belfryd=1)  # "before 3.6"
    judge.check()
