"""The Debian packages. In the gate: what debian/ says is what the tree has. At full length, in a clean root of each suite: installed, started
as the unit says, upgraded, removed, purged, and debian/tests."""
import fnmatch
import glob
import os
import re
import shutil
import subprocess
import time

import debian
import history
import needs
import procs
import pytest
from belfryd import Belfryd
from checker import Spec
from client import Recorder, Writer, write
from stack import follower, total
from test_service import install
from test_stack import judge
from test_stack_restart import LISTS, etcd_ranges, lists_of

N_KEYS = 3000  # a listing of them is several pages


def read(path):
    with open(os.path.join(debian.TOP, path)) as f:
        return f.read()


def library_package():
    """Named after the soname."""
    return "libbelfry" + ".".join(read("VERSION").split(".")[:2])


def field(package, name):
    """A field of a package in debian/control."""
    stanza = next(s for s in read("debian/control").split("\n\n") if s.startswith(f"Package: {package}\n"))
    found = re.search(rf"^{name}:(.*(?:\n .*)*)", stanza, re.M)
    return found and found[1].strip()


# ---- the gate ----

def test_changelog_and_control_have_the_version_of_the_tree():
    version = read("VERSION").strip()
    assert re.match(r"belfry \((\S+)\)", read("debian/changelog"))[1] == version.replace("-dev", "~dev") + "-1"
    library = library_package()
    assert field(library, "Architecture") == "any", "the library's package is named after its soname"
    for package in ("belfryctl", "libbelfry-dev"):
        assert f"{library} (= ${{binary:Version}})" in field(package, "Depends")


def test_build_depends_are_what_cmake_asks_for():
    asked = re.findall(r'^belfry_require\(\w+ "?[^" ]+"? "?([\w.+-]+)', read("cmake/Dependencies.cmake"), re.M)
    words = re.findall(r"[\w.+-]+", re.search(r"^Build-Depends:\n(( .*\n)+)", read("debian/control"), re.M)[1])
    assert len(asked) >= 9 and set(asked) <= set(words), set(asked) - set(words)


def test_every_installed_file_is_in_one_package(tmp_path):
    """dh_missing asks the same of a package build; here it is asked of every change."""
    install("/usr", tmp_path)
    files = [os.path.relpath(os.path.join(folder, name), tmp_path) for folder, _, names in os.walk(tmp_path) for name in names]
    unit = "usr/lib/systemd/system/belfryd.service"  # debian/rules installs it: its folder depends on the suite
    assert unit in files and "$(unit_dir)/belfryd.service" in read("debian/rules")
    files.remove(unit)
    lists = {path: read(path).split() for path in glob.glob("debian/*.install", root_dir=debian.TOP)}
    assert len(lists) == 4
    used = set()
    for file in files:
        name = file.replace("zsh/site-functions", "zsh/vendor-completions")  # as debian/rules configures it
        name = re.sub(r"^usr/lib/(libbelfry|cmake|pkgconfig)", r"usr/lib/TRIPLET/\1", name)
        found = [(path, pattern) for path, patterns in lists.items() for pattern in patterns
                 if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, pattern + "/*")]
        assert len({path for path, _ in found}) == 1, f"{name}: {found}"
        used |= set(found)
    unused = {(path, pattern) for path, patterns in lists.items() for pattern in patterns} - used
    assert not unused, f"nothing is installed for {unused}"


def test_the_unit_and_its_user_are_what_systemd_takes(tmp_path):
    for program in ("systemd-analyze", "systemd-sysusers"):
        if not shutil.which(program):
            needs.missing("systemd")
    install(tmp_path)
    done = procs.run(["systemd-analyze", "verify", "--man=no", tmp_path / "lib/systemd/system/belfryd.service"], check=False)
    assert done.returncode == 0 and b"belfryd" not in done.stderr, done.stderr.decode()  # it may have words for units of this machine
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    procs.run(["systemd-sysusers", f"--root={root}", tmp_path / "lib/sysusers.d/belfryd.conf"])
    row, = (root / "etc/passwd").read_text().splitlines()
    assert row.startswith("belfry:") and row.endswith(":/var/cache/belfry:/usr/sbin/nologin"), row


# ---- full length ----

@pytest.fixture
def root_of(soak, tmp_path):
    if not soak:
        needs.full_length("it builds packages and roots: with BELFRY_SOAK=1 only")
    made = []

    def make(suite):
        made.append(debian.Root(tmp_path / "root", suite, own_loopback=False))
        return made[-1]
    yield make
    for root in made:
        root.close()


class Operated(Belfryd):
    """The belfryd of a root's package: configured by its file, and run by its unit."""

    def __init__(self, folder, root, cluster):
        super().__init__(folder, cluster.endpoints)
        self.root, self.cache = root, root.file("var/cache/belfry")

    @property
    def unit(self):
        return self.root.unit("belfryd")

    @property
    def settings(self):
        return (f"upstream: [{', '.join(self.upstream.split(','))}]\nlisten: [{self.url}]\n"
                f"admin: http://127.0.0.1:{self.admin_port}\nname: packaged\ndrain: 1s\n")

    def configure(self):
        path = self.root.file("etc/belfry/belfryd.yaml")
        with open(path, "a") as f:
            f.write(self.settings)
        assert "configuration ok" in self.root.sh("belfryd --config /etc/belfry/belfryd.yaml --check-config")


def apt_install(root, packages):
    """As an operator does who has the packages in a folder."""
    root.sh("rm -f *.deb")
    root.put(packages)
    return root.sh("apt-get update -q && apt-get install -y ./*.deb")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f)


@pytest.mark.parametrize("suite", debian.SUITES)
def test_installed_started_removed_and_purged(cluster, root_of, suite, tmp_path):
    root = root_of(suite)
    said = apt_install(root, debian.packages(suite))
    assert "Setting up belfryd" in said
    user = next(row.split(":") for row in root.read("etc/passwd").splitlines() if row.startswith("belfry:"))
    assert not glob.glob(root.file("etc/systemd/system/*/belfryd.service")), "it waits for an operator who names an etcd"
    assert root.sh("dpkg-query -W -f='${Conffiles}' belfryd").split()[0] == "/etc/belfry/belfryd.yaml"
    linked = root.sh("ldd /usr/sbin/belfryd")
    assert ("libyyjson" in linked) == ("libllhttp" in linked) == (suite == "trixie"), linked
    declared = root.sh("dpkg-deb -f belfryd_*.deb Static-Built-Using")
    assert ("yyjson (= " in declared and "node-undici (= " in declared) == (suite == "bookworm"), declared

    tier = Operated(tmp_path, root, cluster)
    tier.configure()
    tier.unit.start()
    status = status_of(tier.unit.proc.pid)
    assert status["Uid"].split() == [user[2]] * 4 and status["NoNewPrivs"] == "1" and int(status["CapBnd"], 16) == 0, status
    with open(f"/proc/{tier.unit.proc.pid}/limits") as f:
        limit = tier.unit.limits()["nofile"]
        assert re.search(rf"Max open files +{limit} +{limit}", f.read())
    folder = os.stat(tier.cache)
    assert (folder.st_uid, folder.st_mode & 0o777) == (int(user[2]), 0o700)
    assert root.sh(f"belfryctl --endpoints {tier.url} put /a b && belfryctl --endpoints {tier.url} get /a") == "OK\n/a\nb\n"

    assert tier.unit.stop() == 0
    config = root.read("etc/belfry/belfryd.yaml")
    root.sh("apt-get remove -y belfryd")
    assert not root.has("usr/sbin/belfryd") and not root.has("usr/lib/systemd/system/belfryd.service")
    assert root.read("etc/belfry/belfryd.yaml") == config and root.has("var/cache/belfry")
    root.sh(f"apt-get purge -y belfryd belfryctl libbelfry-dev {library_package()}")
    left = [path for path in root.sh("find / -xdev -path /proc -prune -o -name '*belfry*' -print").split() if not path.startswith("/root/")]
    assert left == [], "a purge leaves nothing but the user"


def upgrade(cluster, make_tier, tmp_path, tier, stop, renew):
    """A leaf and a recorder live below `tier`, which `stop` ends and `renew` starts anew, while writes go on. Returns what the tier itself
    counted after the upgrade, and how many ranges etcd was asked for meanwhile; everybody else has listed nothing."""
    write(cluster.endpoints, "mode=put", "prefix=/k/", f"keys={N_KEYS}", f"count={N_KEYS}", "size=100", timeout=120)
    leaf = make_tier(tier.url, "--name", "leaf", "--drain", "1s")
    recorder = Recorder(leaf.url, tmp_path / "record")
    recorder.open(Spec(0, "prefix", b"", rev="1"))
    recorder.wait_connected(1)
    recorder.wait_rev({0: cluster.put("/k/mark", "0")}, 60)
    writer = Writer(cluster.endpoints, "mode=mix", "rate=50", "size=100")
    before, ranges = lists_of(leaf), etcd_ranges(cluster.members[0])
    stop()
    began = time.monotonic()
    renew()
    away = time.monotonic() - began
    last = cluster.put("/k/mark", "1")
    for t in (tier, leaf):
        procs.wait_until(lambda: t.numbers()["upstream"]["revision"] >= last, 60, 0.1, f"{t.url} at {last}")
    asked = etcd_ranges(cluster.members[0]) - ranges
    assert lists_of(leaf) == before, "nobody below lists"
    assert total(leaf, "core", "compacted") == 0 and total(tier, "core", "compacted") == 0, "nobody is told to list"
    writer.stop()
    cluster.outlast_leases("/w/mark")
    last = cluster.put("/w/last", "x")
    recorder.wait_rev({0: last}, 60)
    recorder.quit()
    judge(recorder, [Spec(0, "prefix", b"", rev="1")], history.read(cluster, last))
    return follower(tier), asked, away


@pytest.mark.parametrize("suite", debian.SUITES)
def test_upgraded_from_the_commit_before(cluster, make_tier, root_of, suite, tmp_path, figure):
    root = root_of(suite)
    if subprocess.run(["git", "-C", debian.TOP, "cat-file", "-e", "HEAD^:debian/control"], capture_output=True).returncode != 0:
        needs.missing("the commit before, with packages (a whole clone)")
    apt_install(root, debian.packages(suite, "--commit", "HEAD^", out=str(tmp_path / "before")))
    tier = Operated(tmp_path, root, cluster)
    tier.configure()
    tier.unit.start()
    config = root.read("etc/belfry/belfryd.yaml")

    def renew():
        said = apt_install(root, debian.packages(suite))
        assert re.search(r"Unpacking belfryd \S+ over \(\S+~git", said), said
        assert "invoke try-restart" in root.read("var/lib/dpkg/info/belfryd.postinst"), "systemd would restart it"
        tier.unit.restart()
    counted, asked, _ = upgrade(cluster, make_tier, tmp_path, tier, lambda: None, renew)
    assert root.read("etc/belfry/belfryd.yaml") == config
    assert {name: counted[name] for name in LISTS} == dict.fromkeys(LISTS, 0), counted
    assert asked <= 10, f"etcd was asked {asked} times for a range: a listing of {N_KEYS} keys is more"
    figure(f"package.{suite}.upgrade.lists", counted["listings"], "listings of upstream, none below")


@pytest.mark.parametrize("suite", debian.SUITES)
def test_upgraded_from_the_binaries_of_0_1_0(cluster, make_tier, root_of, suite, tmp_path, figure):
    """They were installed by hand and kept their replica where the package keeps it. Its format is another one since: the tier lists once."""
    root = root_of(suite)
    packages = debian.packages(suite)
    tier = Operated(tmp_path, root, cluster)
    old = Belfryd(tmp_path, cluster.endpoints, ["--name", "packaged", "--drain", "1s"], program=debian.tool("old-belfryd"))
    old.port, old.admin_port, old.listen, old.cache = tier.port, tier.admin_port, [tier.url], tier.cache
    os.chmod(tmp_path, 0o755)
    old.start()

    def renew():
        apt_install(root, packages)
        tier.configure()
        tier.unit.start()
    counted, asked, away = upgrade(cluster, make_tier, tmp_path, tier, old.stop, renew)
    figure(f"package.{suite}.upgrade_from_0_1_0.lists", counted["listings"], "listings of upstream, none below")
    figure(f"package.{suite}.upgrade_from_0_1_0.ranges", asked, "ranges that etcd was asked for")
    figure(f"package.{suite}.upgrade_from_0_1_0.away", away, "s without a tier, apt included")
    assert counted["listings"] == 1 and "event=replica_discarded" in tier.unit.log(), "the format of replicas has changed: one listing"


@pytest.mark.parametrize("suite", debian.SUITES)
def test_autopkgtest_passes(root_of, suite, figure):
    """debian/tests, by autopkgtest itself, in the root (its `null` server)."""
    root = root_of(suite)
    packages = debian.packages(suite)
    root.put(packages + glob.glob(os.path.join(os.path.dirname(packages[0]), "belfry_*")))
    root.sh("apt-get update -q && apt-get install -y --no-install-recommends autopkgtest")
    said = root.sh("autopkgtest --no-built-binaries *.deb *.dsc -- null", timeout=1200, check=False)
    passed = re.findall(r"^(\S+) +PASS", said.split("summary")[-1], re.M)
    figure(f"package.{suite}.autopkgtest", " ".join(passed), "passed")
    assert sorted(passed) == ["compile-and-follow", "watch-survives-kill"] and "FAIL" not in said, said[-4000:]
