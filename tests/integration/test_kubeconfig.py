"""belfryctl kube config: kubectl reads what it prints, and finds in it what was asked for."""
import base64
import json
import os

import pytest

import procs
from certs import Certs
from client import binary

HTTPS = ["--server", "https://127.0.0.1:1"]


def config(*args, **kw):
    return procs.run([binary("belfryctl"), "kube", "config", *args], **kw)


def as_kubectl_reads_it(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_bytes(text)
    done = procs.run(["kubectl", "--kubeconfig", path, "config", "view", "--raw", "-o", "json"])
    whole = json.loads(done.stdout)
    context = {c["name"]: c["context"] for c in whole["contexts"]}[whole["current-context"]]
    cluster = {c["name"]: c["cluster"] for c in whole["clusters"]}[context["cluster"]]
    user = {u["name"]: u["user"] for u in whole["users"]}[context["user"]]
    return context, cluster, user


def content(path):
    with open(path, "rb") as f:
        return f.read()


def test_the_default_is_a_belfryd_of_this_machine(tmp_path):
    done = config()
    context, cluster, user = as_kubectl_reads_it(tmp_path, done.stdout)
    assert done.stderr == b"" and user == {} and "namespace" not in context
    assert cluster == {"server": "http://127.0.0.1:23790", "insecure-skip-tls-verify": True}


def test_files_are_embedded(tmp_path):
    certs = Certs(tmp_path / "certs")
    (tmp_path / "token").write_text("t0k\\en\nanother line\n")
    done = config(*HTTPS, "--name", "a:b", "--namespace", "prod", "--token-file", tmp_path / "token",
                  "--certificate-authority", certs.path("ca.pem"), "--client-certificate", certs.path("client.pem"),
                  "--client-key", certs.path("client.key"), "--server-name", "etcd")
    context, cluster, user = as_kubectl_reads_it(tmp_path, done.stdout)
    assert done.stderr == b"" and context == {"cluster": "a:b", "user": "a:b", "namespace": "prod"}
    assert cluster["server"] == HTTPS[1] and cluster["tls-server-name"] == "etcd"
    assert user["token"] == "t0k\\en"
    assert base64.b64decode(cluster["certificate-authority-data"]) == content(certs.path("ca.pem"))
    assert base64.b64decode(user["client-certificate-data"]) == content(certs.path("client.pem"))
    assert base64.b64decode(user["client-key-data"]) == content(certs.path("client.key"))


def test_the_words_of_other_commands_are_obeyed(tmp_path):
    certs = Certs(tmp_path / "certs")
    done = config("--endpoints", "belfry.example.com:23790", "--cacert", certs.path("ca.pem"), "--cert", certs.path("client.pem"),
                  "--key", certs.path("client.key"))
    _, cluster, user = as_kubectl_reads_it(tmp_path, done.stdout)
    assert cluster["server"] == "https://belfry.example.com:23790" and "insecure-skip-tls-verify" not in cluster
    assert base64.b64decode(cluster["certificate-authority-data"]) == content(certs.path("ca.pem"))
    assert base64.b64decode(user["client-certificate-data"]) == content(certs.path("client.pem"))
    assert base64.b64decode(user["client-key-data"]) == content(certs.path("client.key"))
    _, cluster, _ = as_kubectl_reads_it(tmp_path, config("--endpoints", "10.0.0.7:23790").stdout)
    assert cluster["server"] == "http://10.0.0.7:23790"


def test_endpoints_of_etcd_in_the_environment_are_not_taken(tmp_path):
    done = config(env=dict(os.environ, ETCDCTL_ENDPOINTS="https://etcd:2379", ETCDCTL_CACERT="/nowhere"))
    assert as_kubectl_reads_it(tmp_path, done.stdout)[1]["server"] == "http://127.0.0.1:23790"


def test_https_without_credentials_warns_and_has_a_token_all_the_same(tmp_path):
    done = config(*HTTPS)
    assert as_kubectl_reads_it(tmp_path, done.stdout)[2] == {"token": "none"}
    assert b"--token-file" in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("args", [["--server", "127.0.0.1:1"], ["--token", "a", "--token-file", "b"],
                                  [*HTTPS, "--token", "a b"], ["--name", ""], [*HTTPS, "--endpoints", "a:1"],
                                  ["--endpoints", "a:1,b:1"], ["--endpoints", "unix:///a"], [*HTTPS, "--user", "a:b"],
                                  [*HTTPS, "--cacert", "a", "--certificate-authority", "b"]], ids=" ".join)
def test_a_mistake_exits_2_and_prints_nothing(args):
    done = config(*args, check=False)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["missing", "folder", "not-pem", "too-large"])
def test_a_file_that_cannot_be_used_exits_1_and_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "not-pem").write_text("hello\n")
    (tmp_path / "too-large").write_bytes(b"-----BEGIN " + bytes(1 << 20))
    done = config(*HTTPS, "--certificate-authority", tmp_path / name, check=False)
    assert done.returncode == 1 and done.stdout == b"" and name.encode() in done.stderr
