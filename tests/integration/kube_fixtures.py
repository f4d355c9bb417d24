"""Servers of Kubernetes' API for the tests: a plugin of pytest, named by the test files that use it."""
import os
import shutil
import subprocess

import needs
import pytest
from kube import BY_PEER, PEERS, Server, why_no_peer

HERE = os.path.dirname(__file__)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for all tests of a file."""
    if BY_PEER and why_no_peer():
        needs.peer(why_no_peer())
    made = Server(tmp_path_factory.mktemp("kube"), keep=True, etcd_flags=["--max-request-bytes", str(8 << 20)])
    yield made
    made.close()


@pytest.fixture
def kube(served):
    """Empty, for each test."""
    served.empty()
    return served


@pytest.fixture
def make_kube(tmp_path):
    """make_kube(flags=..., etcd_flags=..., resources=...): a server of one's own."""
    made = []

    def make(**kw):
        if BY_PEER and why_no_peer():
            needs.peer(why_no_peer())
        folder = tmp_path / f"kube{len(made)}"
        folder.mkdir()
        made.append(Server(folder, **kw))
        return made[-1]
    yield make
    for server in made:
        server.close()


@pytest.fixture(scope="module")
def newest_informer(tmp_path_factory):
    """tests/go/kubeinformer with the client-go of kubepeer's own root."""
    root = os.path.join(PEERS, "sid")
    if not os.path.isdir(root) or os.getuid() != 0:
        needs.peer(f"no root with Go at {root}, or no right to use it")
    place = os.path.join(root, "srv", "go", "src", "kubeinformer")
    shutil.copytree(os.path.join(HERE, "..", "go", "kubeinformer"), place, dirs_exist_ok=True)
    done = subprocess.run(["chroot", root, "env", "HOME=/root", "PATH=/usr/bin:/bin", "GO111MODULE=off",
                           "CGO_ENABLED=0",
                           "GOPATH=/srv/go:/usr/share/gocode", "GOFLAGS=-p=2", "go", "build", "-o",
                           "/srv/kubeinformer",
                           "kubeinformer"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    built = tmp_path_factory.mktemp("go") / "kubeinformer"
    shutil.copy(os.path.join(root, "srv", "kubeinformer"), built)
    return str(built)
