"""What is released: the static programs, the tarball and the image, each built, installed, run, upgraded and removed; in the gate the
static link alone, from the objects of the release build."""
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import tarfile
import tempfile

import needs
import procs
import pytest
from belfryd import Belfryd
from certs import Certs
from client import BIN, Writer, binary, write
from test_service import exec_start
from test_verify import Verify, assert_clean, seconds

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(BIN).resolve().parent
USER = "65532"  # of the image; one without a name, as there
VERSION = (TREE / "VERSION").read_text().strip()
LIBRARIES = ["libuv-static", "libnghttp2", "libcares", "openssl", "libprotobuf-c", "zlib", "lmdb", "yaml-0.1", "libllhttp", "yyjson"]
# A configuration of OpenSSL that names a module in a file, which a static program cannot load.
MODULES = """openssl_conf = init
[init]
providers = list
[list]
default = on
legacy = on
[on]
activate = 1
"""


def tool(*argv, timeout=1800):
    """A tool of this tree; its output."""
    return procs.run(["bash", *map(str, argv)], cwd=TREE, timeout=timeout, env=dict(os.environ)).stdout.decode()


def assert_static(program):
    """Without interpreter or shared library, at a random address, with relocations that are read-only and a stack that is not code."""
    segments, dynamic = (procs.run(["readelf", "-W", flag, program]).stdout.decode() for flag in ("-l", "-d"))
    assert "INTERP" not in segments and "NEEDED" not in dynamic, f"{program} needs a shared library"
    assert re.search(r"FLAGS_1.*\bNOW\b.*\bPIE\b", dynamic) and "GNU_RELRO" in segments, f"{program}: {dynamic}"
    assert re.search(r"GNU_STACK.*\sRW\s", segments), segments


class Root:
    """An empty root folder with programs in it, for a user without rights."""

    def __init__(self, folder, **programs):
        self.folder = folder
        (folder / "etc").mkdir(parents=True)
        (folder / "cache").mkdir(mode=0o700)
        os.chown(folder / "cache", int(USER), int(USER))
        (folder / "etc/hosts").write_text("127.0.0.1 etcd.here\n")
        for name, path in programs.items():
            shutil.copy(path, folder / name)

    def argv(self, program):
        return ["chroot", f"--userspec={USER}:{USER}", str(self.folder), f"/{program}"]

    def run(self, program, *args, **kw):
        return procs.run([*self.argv(program), *args], **kw).stdout.decode()


def script(path, argv):
    """A program that runs argv and its own arguments."""
    path.write_text("#!/bin/sh\nexec " + " ".join(argv) + ' "$@"\n')
    path.chmod(0o755)
    return str(path)


def starts(tier):
    """How each start of a tier found its replica, and how often it listed upstream: [("cold", 1), ("warm", 0)]."""
    runs = tier.log().split("event=start ")[1:]
    return [(re.search(r"event=replica_open .*?start=(\w+)", run)[1], run.count("event=upstream_listing")) for run in runs]


# ---- the static link ----


def static_link(out, program, main):
    """From the objects of the release build, as cmake/Static.cmake says: the linker refuses what would load a module."""
    wrapped = re.search(r"foreach\(name (.*?)\)", (TREE / "cmake/Static.cmake").read_text())[1].split()
    libraries = procs.run(["pkg-config", "--libs", *LIBRARIES]).stdout.decode().split()
    folders = (str(path.relative_to(TREE / "src")).replace("/", "_") for path in (TREE / "src").glob("**/"))
    archives = [path for path in (BUILD / f"lib/libbelfry_{name}.a" for name in folders) if path.exists()]
    procs.run(["cc", "-O2", "-fPIE", "-static-pie", "-o", out / program, BUILD / main, TREE / "src/main/no_modules.c", "-D_GNU_SOURCE",
               "-Wl,--gc-sections,--fatal-warnings,-z,relro,-z,now", *(f"-Wl,--wrap={name}" for name in wrapped),
               "-Wl,--start-group", *archives, "-Wl,--end-group", f"-L{tool('tools/yyjson-archive').strip()}", *libraries], timeout=120)
    assert_static(out / program)
    return out / program


def test_static_programs_need_nothing_of_the_machine(make_cluster, tmp_path):
    """In an empty root, as a user without a name: names of hosts, TLS, and a configuration of OpenSSL that wants a module."""
    certs = Certs(tmp_path / "certs")
    cluster = make_cluster(tls=certs)
    root = Root(tmp_path / "root", belfryd=static_link(tmp_path, "belfryd", "src/CMakeFiles/belfryd.dir/main/belfryd.c.o"),
                belfryctl=static_link(tmp_path, "belfryctl", "src/cli/CMakeFiles/belfryctl.dir/__/main/belfryctl.c.o"))
    (root.folder / "openssl.cnf").write_text(MODULES)
    shutil.copy(certs.path("ca.pem"), root.folder / "ca.pem")
    assert f"belfryctl version: {VERSION}" in root.run("belfryctl", "version")

    port = cluster.members[0].client_port
    tier = Belfryd(tmp_path, f"https://etcd.here:{port}", ["--upstream-cacert", "/ca.pem", "--upstream-server-name", "localhost"],
                   program=script(tmp_path / "start", root.argv("belfryd")), env={"OPENSSL_CONF": "/openssl.cnf"})
    tier.cache = "/cache/replica"
    tier.start()
    cluster.ctl("put", "a", "1")
    said = root.run("belfryctl", "--endpoints", tier.url, "get", "", "--prefix", "--count-only", "--write-out", "json")
    assert json.loads(said)["count"] == 1, said
    assert tier.stop() == 0


# ---- the artifacts ----


@pytest.fixture(scope="module")
def package():
    """package(kind, arch): the path of the artifact, built once."""
    if os.environ.get("BELFRY_SOAK") != "1":
        needs.full_length("it builds everything once more: with BELFRY_SOAK=1 only")
    made = {}

    def make(kind, arch):
        for program in {"oci": ["buildah"], "tar": []}[kind] + (["aarch64-linux-gnu-gcc"] if arch == "arm64" else []):
            if not shutil.which(program):
                needs.missing(f"{program}: tools/bootstrap --package installs it")
        if (kind, arch) not in made:
            made[kind, arch] = TREE / tool("tools/package", kind, arch).split(":")[0].strip()
        return made[kind, arch]
    return make


@pytest.fixture
def place():
    """A folder that every user may look into, as pytest's own may not."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="belfry-artifact-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def unpack(archive, folder):
    with tarfile.open(archive) as tar:
        assert all((m.uid, m.gid) == (0, 0) and not m.name.startswith(("/", "..")) for m in tar), archive
        tar.extractall(folder)
    unpacked, = folder.iterdir()
    return unpacked


def test_tarball_is_installed_upgraded_and_removed(package, cluster, place, figure):
    """From the binaries of 0.1.0, whose replica has another format: one list. Each restart afterwards is warm."""
    tree = unpack(package("tar", "amd64"), place / "unpacked")
    for program in ("sbin/belfryd", "bin/belfryctl"):
        assert_static(tree / program)
    prefix = place / "opt"
    install = [str(tree / "install"), "--prefix", str(prefix)]
    procs.run(install)
    config = prefix / "etc/belfry/belfryd.yaml"
    argv = exec_start(prefix)
    assert argv == [str(prefix / "sbin/belfryd"), "--config", str(config)]
    config.write_text(config.read_text() + "name: edited\n")

    (place / "run").mkdir()
    os.chown(place / "run", int(USER), int(USER))
    tier = Belfryd(place / "run", cluster.members[0].url, program=script(place / "start", [
        "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *argv]))
    write(cluster.endpoints, "mode=mix", "count=500")
    shutil.copy(tool("tools/old-belfryd").strip(), prefix / "sbin/belfryd")
    tier.start()
    assert "version=0.1.0" in tier.log()
    writer = Writer(cluster.endpoints, "mode=mix", "rate=100", "size=300")
    verify = Verify(cluster.endpoints, tier.url, "--for", seconds(20), "--watchers", "8", "--max-lag", "2m")

    said = procs.run(install).stdout.decode()  # while the old one runs
    assert f"Kept: {config}" in said and "name: edited" in config.read_text()
    for _ in range(3):
        procs.wait_until(lambda: cluster.revision() > 500, 30)
        assert tier.stop() == 0
        tier.start()
    assert f"version={VERSION}" in tier.log() and "name=edited" in tier.log()
    assert_clean(*verify.result())
    writer.stop()
    how = starts(tier)
    figure("artifacts.upgrade_from_0.1.0.lists", how[1][1])
    assert how[1][1] <= 1 and how[2:] == [("warm", 0)] * 2, how

    procs.run([*install, "--remove"])
    assert [path for path in prefix.rglob("*") if path.is_file()] == [config]


def test_tarball_for_arm64_runs_under_qemu(package, cluster, place, figure):
    if not shutil.which("qemu-aarch64-static"):
        needs.missing("qemu-user-static: tools/bootstrap --package installs it")
    tree = unpack(package("tar", "arm64"), place / "unpacked")
    qemu = [] if platform.machine() == "aarch64" else ["qemu-aarch64-static"]
    write(cluster.endpoints, "mode=mix", "count=500")
    tier = Belfryd(place, cluster.members[0].url, ["--name", "arm64"], program=script(place / "start", [*qemu, str(tree / "sbin/belfryd")]))
    tier.start(wait=False)
    tier.wait_ready(120)
    writer = Writer(cluster.endpoints, "mode=mix", "rate=50", "size=300")
    code, said = Verify(cluster.endpoints, tier.url, "--for", seconds(15), "--watchers", "4", "--max-lag", "2m").result()
    writer.stop()
    assert_clean(code, said)
    figure("artifacts.arm64_under_qemu.events", said["events"])
    argv = [*qemu, str(tree / "bin/belfryctl"), "health", "--ready", "--admin", f"http://127.0.0.1:{tier.admin_port}"]
    assert procs.run(argv).stdout == b"ready\n"
    assert tier.stop(timeout=120) == 0


# ---- the image ----


class Image:
    """The image, loaded by podman with a storage of its own."""

    def __init__(self, archive, folder):
        self.argv = ["podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run", "--storage-driver", "vfs",
                     "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
        self.name = self.podman("load", "-q", "-i", archive).split(": ")[1].strip()

    def podman(self, *args, **kw):
        return procs.run([*self.argv, *map(str, args)], **kw).stdout.decode()

    def why_not(self):
        """Why no container can be run here; None if one can."""
        done = procs.run([*self.argv, "run", "--rm", *self.options(), self.name, "--version"], check=False)
        return None if done.returncode == 0 else done.stderr.decode().strip().splitlines()[-1]

    @staticmethod
    def options():
        """Read-only, without capabilities; limits that podman may set where it cannot raise its own."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        descriptors = 1 << 20 if hard == resource.RLIM_INFINITY else hard
        return ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=host",
                f"--ulimit=nofile={descriptors}:{descriptors}", "--ulimit=nproc=4096:4096"]


def layers(archive, folder):
    """Unpacks an OCI archive as a runtime would: the root folder and the configuration."""
    with tarfile.open(archive) as tar:
        def blob(digest):
            return tar.extractfile(f"blobs/{digest.replace(':', '/')}")
        index = json.load(tar.extractfile("index.json"))
        manifest = json.load(blob(index["manifests"][0]["digest"]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer["digest"])) as content:
                content.extractall(folder)
        return json.load(blob(manifest["config"]["digest"]))


def test_image_has_two_programs_and_no_shell(package, place, figure):
    config = layers(package("oci", "amd64"), place / "root")
    assert config["config"]["User"] == f"{USER}:{USER}" and config["config"]["Entrypoint"] == ["/usr/bin/belfryd"], config
    files = [path for path in (place / "root").rglob("*") if path.is_file()]
    programs = [path for path in files if path.stat().st_mode & 0o111]
    assert sorted(path.name for path in programs) == ["belfryctl", "belfryd"], programs
    for program in programs:
        assert_static(program)
    size = sum(path.stat().st_size for path in files)
    figure("artifacts.image.bytes", size, "unpacked")
    assert size < 15_000_000
    owned = [path for path in (place / "root").rglob("*") if path.stat().st_uid != 0]
    assert owned == [place / "root/var/cache/belfry"]


def test_image_runs_with_a_root_that_is_read_only(package, cluster, place, figure):
    """Restarted with its volume it is warm; probes are belfryctl health in the container. Where podman cannot run, a chroot stands in."""
    if not shutil.which("podman"):
        needs.missing("podman: tools/bootstrap --package installs it")
    write(cluster.endpoints, "mode=mix", "count=500")
    archive = package("oci", "amd64")
    image = Image(archive, place)
    why_not = image.why_not()
    figure("artifacts.image.run_by", f"chroot (podman: {why_not})" if why_not else "podman")
    tier = Belfryd(place, cluster.members[0].url)
    if why_not:
        layers(archive, place / "root")
        inside = ["chroot", f"--userspec={USER}:{USER}", str(place / "root")]
        tier.program, probe = script(place / "start", [*inside, "/usr/bin/belfryd"]), inside
    else:
        tier.program = script(place / "start", [*image.argv, "run", "--rm", "--replace", "--name", "tier", *image.options(),
                                                "--volume", "replica:/var/cache/belfry", image.name])
        probe = [*image.argv, "exec", "tier"]
    tier.cache = "/var/cache/belfry/replica"
    health = [*probe, "/usr/bin/belfryctl", "health", "--ready", "--admin", f"http://127.0.0.1:{tier.admin_port}"]
    try:
        tier.start()
        writer = Writer(cluster.endpoints, "mode=mix", "rate=100", "size=300")
        verify = Verify(cluster.endpoints, tier.url, "--for", seconds(20), "--watchers", "8", "--max-lag", "2m")
        assert procs.run(health).stdout == b"ready\n"
        for _ in range(2):
            assert tier.stop() == 0
            assert procs.run(health, check=False).returncode != 0
            tier.start()
        assert_clean(*verify.result())
        writer.stop()
        assert [how for how, _ in starts(tier)] == ["cold", "warm", "warm"], starts(tier)
        assert sum(lists for _, lists in starts(tier)) == 1, starts(tier)
        assert tier.stop() == 0
    finally:
        if not why_not:
            image.podman("rm", "--force", "--ignore", "--volumes", "tier")


def test_install_script_explains_mistakes(tmp_path):
    """The script of the tarball, called as a stranger would."""
    for args, code, words in ((["--prefx", "/x"], 2, "unknown argument --prefx"), (["--prefix"], 2, "--prefix needs a folder"),
                              (["--prefix", "here"], 2, "begins with /"), (["--help"], 0, "./install --remove")):
        done = subprocess.run(["sh", TREE / "packaging/tar/install", *args], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code and words in done.stdout + done.stderr, (args, done)


# ---- the release ----


def test_release_is_built_twice_with_the_same_bytes(package, tmp_path, figure):
    """tools/release as for a release, of the last commit: tarball and image of both machines, from two folders without a compiler cache."""
    package("oci", "arm64")  # says what is missing
    tool_said = procs.run(["/usr/bin/python3", TREE / "tools/release", "--trial", "--out", tmp_path / "out", "tar", "oci"], cwd=TREE,
                          timeout=3600, env=dict(os.environ)).stdout.decode()
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    names = [f"belfry-{VERSION}-{kind}" for kind in ("linux-amd64.tar.gz", "linux-arm64.tar.gz", "oci-amd64.tar", "oci-arm64.tar")]
    assert made == sorted(["SHA256SUMS", f"belfry-{VERSION}.spdx.json", *names]), made
    procs.run(["sha256sum", "--strict", "--check", "SHA256SUMS"], cwd=tmp_path / "out")
    bill = json.loads((tmp_path / f"out/belfry-{VERSION}.spdx.json").read_text())
    linked = {entry["name"] for entry in bill["packages"] if "externalRefs" in entry}
    assert {"libssl-dev", "libuv1-dev", "libc6-dev", "libyyjson-dev"} <= linked, linked
    figure("artifacts.release", tool_said.splitlines()[-1].removeprefix("release: "))
