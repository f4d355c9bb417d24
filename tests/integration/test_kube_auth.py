"""Kubernetes' API with auth on in etcd: a client is given what etcd grants to the token that it brings as its bearer's."""
import json
import time
import urllib.request

import needs
import procs
import pytest
from certs import Certs
from client import binary, go_binary
from kube import CRDS, Watch, request
from kube_clients import Lines, kubectl_path
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
                     "--listen", f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')},"
                     "rights=upstream", "--resources", f"{CRDS}/configs.yaml,prefix=/a/,wrap=spec",
                     "--resources", f"{CRDS}/widgets.yaml,prefix=/b/,wrap=spec", rights="upstream")
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
    assert refused.returncode != 0 and b"doesn't have a resource type" in refused.stderr, refused.stderr
    assert b"web" in kubectl(ROOT, "get", "widgets", "-A").stdout
    shown = kubectl(READER, "api-resources", "-o", "name")
    assert shown.returncode == 0 and shown.stdout == b"configs.demo.example.com\n", (shown.stdout, shown.stderr)
    assert b"widgets.demo.example.com" in kubectl(ROOT, "api-resources", "-o", "name").stdout
    assert b"FIELDS" in kubectl(READER, "explain", "config").stdout


DOCUMENTS = ["/api", "/apis", "/apis/demo.example.com", "/apis/demo.example.com/v1", "/openapi/v3",
             "/openapi/v3/apis/demo.example.com/v1"]
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


def shown(endpoint, user):
    """What is said of which resource in any document: {"config", "widget"} or a part of it."""
    said = b""
    for path in DOCUMENTS:
        for more in ({}, AGGREGATED):
            answer = request(endpoint, path, None, {**user, **more})
            assert answer.code == 200, f"{path}: {answer.code} {answer.body[:300]}"
            said += answer.body.lower()
    return {name for name in ("config", "widget") if name.encode() in said}


def test_documents_show_what_the_token_may_read(guarded):
    """Definitions of files: the same right as for a list of all their objects."""
    cluster, tier = guarded
    for path in DOCUMENTS:
        for headers, code in ((None, 401), (AGGREGATED, 401), (bearer("nonsense.1"), 401)):
            answer = request(tier.endpoint, path, None, headers)
            assert answer.code == code and answer.json["code"] == code, f"{path} {headers}: {answer.code} {answer.body[:300]}"
            assert b"onfig" not in answer.body and b"idget" not in answer.body
        assert request(tier.endpoint, path, method="HEAD").code == 401
    reader, root = bearer(token(cluster, READER)), bearer(token(cluster, ROOT))
    assert shown(tier.endpoint, reader) == {"config"}
    assert shown(tier.endpoint, root) == {"config", "widget"}
    assert shown(tier.endpoint, reader) == {"config"}
    tags = [request(tier.endpoint, "/apis", None, {**user, **AGGREGATED}).headers["etag"] for user in (reader, root)]
    assert tags[0] != tags[1]
    known = request(tier.endpoint, "/apis", None, {**reader, **AGGREGATED, "If-None-Match": tags[1]})
    assert known.code == 200, "what another user has is no answer"
    assert request(tier.endpoint, "/apis/demo.example.com/v9", None, reader).code == 404
    assert request(tier.endpoint, "/livez").code == 200, "a probe needs no token"


def test_definitions_in_etcd_are_shown_to_who_may_read_them(make_cluster, make_tier, tmp_path):
    cluster = make_cluster()
    for name in ("configs", "widgets"):
        with open(f"{CRDS}/{name}.yaml") as f:
            cluster.put(f"/definitions/{name}", f.read())
    enable_auth(cluster)
    password = tmp_path / "password"
    password.write_text(ROOT[1] + "\n")
    password.chmod(0o600)
    tier = make_tier(cluster, "--upstream-user", ROOT[0], "--upstream-password-file", str(password), "--resources",
                     "crds-under=/definitions/,prefix=/a/{plural}/", rights="upstream")
    reader = bearer(token(cluster, READER))
    assert request(tier.endpoint, "/apis/demo.example.com/v1/widgets", None, reader).code == 200, "its objects it may read"
    for path in DOCUMENTS:
        answer = request(tier.endpoint, path, None, reader)
        assert answer.code == 403 and b"idget" not in answer.body, f"{path}: {answer.code} {answer.body[:300]}"
    cluster.ctl("role", "grant-permission", "--prefix=true", "reading", "read", "/definitions/")
    reader = bearer(token(cluster, READER))  # the old one is of another revision of the rights
    assert shown(tier.endpoint, reader) == {"config", "widget"}


def test_clients_that_look_for_a_resource_first(guarded):
    """client-go's mapper and python3-kubernetes' dynamic client, each with a token."""
    cluster, tier = guarded
    kubernetes = needs.module("kubernetes", "python3-kubernetes")
    import kubernetes.dynamic
    reader = token(cluster, READER)
    config = kubernetes.client.Configuration()
    config.host = tier.url
    config.api_key = {"authorization": f"Bearer {reader}"}
    dynamic = kubernetes.dynamic.DynamicClient(kubernetes.client.ApiClient(config))
    found = dynamic.resources.get(api_version="demo.example.com/v1", kind="Config")
    assert [item.metadata.name for item in found.get().items] == ["web"]
    with pytest.raises(kubernetes.dynamic.exceptions.ResourceNotFoundError):
        dynamic.resources.get(api_version="demo.example.com/v1", kind="Widget")

    def informer(plural):
        return Lines([go_binary("kubeinformer"), "-server", tier.url, "-resource", f"demo.example.com/v1/{plural}", "-token",
                      reader, "-mapped"])
    lines = informer("configs")
    assert json.loads(lines.line(30)) == {"kind": "synced", "informer": 0}
    lines.close()
    lines = informer("widgets")
    assert lines.ended() == 1 and "widgets" in lines.stderr()
    lines.close()


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
    for path in DOCUMENTS:
        assert request(tier.endpoint, path).code in (401, 429), path
