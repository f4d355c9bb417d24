"""Servers of Kubernetes' API for the tests: a plugin of pytest, named by the test files that use it."""
import needs
import pytest
from kube import BY_PEER, Server, why_no_peer


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
