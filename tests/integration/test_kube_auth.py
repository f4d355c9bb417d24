"""Kubernetes' API with auth on in etcd: a client is given what etcd grants to the token that it brings as its bearer's."""
import json
import time
import urllib.request

import procs
import pytest
from certs import Certs
from client import binary
from kube import CRDS, Watch, request
from kube_clients import kubectl_path
from ports import free_port
from test_security import READER, ROOT, enable_auth

SEEN = "/apis/demo.example.com/v1/configs"    # under /a/, which the reader may read
SECRET = "/apis/demo.example.com/v1/widgets"  # under /b/


def token(cluster, user):
    """As Authenticate gives it, by etcd's JSON gateway."""
    body = json.dumps({"name": user[0], "password": user[1]}).encode()
    with urllib.request.urlopen(f"{cluster.members[0].url}/v3/auth/authenticate", body, timeout=10) as answer:
        return json.load(answer)["token"]


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


@pytest.fixture
def guarded(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    cluster.put("/a/prod/web", '{"replicas":1}')
    cluster.put("/b/prod/web", '{"secret":"x"}')
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    certs = Certs(tmp_path / "certs")
    port = free_port()
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password),
                     "--listen", f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')}",
                     "--resources", f"{CRDS}/configs.yaml,prefix=/a/,wrap=spec",
                     "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec")
    tier.https, tier.certs = f"https://127.0.0.1:{port}", certs
    return cluster, tier


def test_each_is_given_what_etcd_grants_to_its_token(guarded):
    cluster, tier = guarded
    reader, root = bearer(token(cluster, READER)), bearer(token(cluster, ROOT))
    for path, headers, code in [(SEEN, None, 401), (SEEN, bearer("nonsense.1"), 401), (SEEN, reader, 200),
                                (SECRET, None, 401), (SECRET, reader, 403), (SECRET, root, 200),
                                ("/apis/demo.example.com/v1/namespaces/prod/widgets/web", reader, 403)]:
        for query in ("", "watch=1&timeoutSeconds=1", "resourceVersion=0", "watch=1&resourceVersion=1&timeoutSeconds=1",
                      "fieldSelector=metadata.name%3Dweb"):
            answer = request(tier.endpoint, path, query or None, headers)
            assert answer.code == code, f"{path}?{query} {headers}: {answer.code} {answer.body[:300]}"
            if code != 200:
                assert b"secret" not in answer.body and answer.json["code"] == code
    assert request(tier.endpoint, "/apis").code == 200, "what there is may be known"


def test_watch_of_one_who_may_goes_on(guarded):
    cluster, tier = guarded
    with Watch(tier.endpoint, SEEN, "watch=1", bearer(token(cluster, READER))) as w:
        assert w.briefs(1)[0][:2] == ("ADDED", "web")
        rev = cluster.put("/a/prod/web", '{"replicas":2}')
        assert w.briefs(1) == [("MODIFIED", "web", rev)]
        cluster.put("/b/prod/web", '{"secret":"y"}')
        w.quiet()


def test_kubectl_over_https_with_a_token(guarded, tmp_path):
    cluster, tier = guarded

    def kubectl(user, *args):
        config = tmp_path / f"kubeconfig-{user[0]}"
        made = procs.run([binary("belfryctl"), "kube", "config", "--server", tier.https, "--token", token(cluster, user),
                          "--certificate-authority", tier.certs.path("ca.pem")], timeout=10)
        config.write_bytes(made.stdout)
        return procs.run([kubectl_path(), "--kubeconfig", str(config), "--cache-dir", str(tmp_path / f"cache-{user[0]}"),
                          *args], timeout=60, check=False)
    got = kubectl(READER, "get", "configs", "-A", "-o", "name")
    assert got.returncode == 0 and got.stdout == b"config.demo.example.com/web\n", got.stderr
    refused = kubectl(READER, "get", "widgets", "-A")
    assert refused.returncode != 0 and b"Forbidden" in refused.stderr, refused.stderr
    assert b"web" in kubectl(ROOT, "get", "widgets", "-A").stdout


def test_auth_turned_on_is_noticed_within_a_second(make_cluster, make_tier):
    cluster = make_cluster()
    cluster.put("/b/prod/web", '{"secret":"x"}')
    tier = make_tier(cluster, "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec")
    assert request(tier.endpoint, SECRET, "resourceVersion=0").names == ["web"]
    enable_auth(cluster)
    time.sleep(1.5)
    for query in ("resourceVersion=0", "watch=1&resourceVersion=1&timeoutSeconds=1"):
        answer = request(tier.endpoint, SECRET, query)
        assert answer.code in (401, 429) and b"secret" not in answer.body, answer.body
