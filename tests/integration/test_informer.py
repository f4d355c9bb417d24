"""Informers on keys of etcd and on resources of belfryd (with BELFRY_KUBE_PEER=1: of a real kube-apiserver): what they tell,
what they keep, and what they do when they are stopped. The program judges by itself whether what it is told can be true
(tests/programs/known.h); every test ends with its word."""
import json
import os
import time

import needs
import procs
import pytest
from certs import Certs
from client import binary, write
from informer import Informer
from kube import BY_PEER, CONFIGS, PODS, WIDGETS, ZONES, belfryd_only, pod, widget
from kube_clients import Informers
from ports import free_port
from proxy import Proxy
from test_kube_auth import guarded, token  # noqa: F401  a fixture
from test_security import READER, enable_auth

pytest_plugins = ["kube_fixtures"]

QUIET_S = 0.5
LISTED = ["--watch-list=false"]
STATE_FIRST = pytest.mark.parametrize("options", [[], LISTED], ids=["streamed", "listed"])


@pytest.fixture
def informers():
    """informers(...): one that is ended, and asked whether all was right, at the end of the test."""
    made = []

    def make(informer):
        made.append(informer)
        return informer
    yield make
    for informer in made:
        if informer.proc.stdin and not informer.proc.stdin.closed:
            informer.quit()


def of(kube, *options, resource=PODS, namespace=None):
    return Informer.of_resource(kube.url, resource, *options, namespace=namespace)


# ---- a resource

@STATE_FIRST
def test_state_is_told_and_then_every_change(kube, informers, options):
    revs = [kube.put(pod("x", name)) for name in "ab"]
    i = informers(of(kube, *options))
    i.wait_synced()
    assert [(n["kind"], n["key"], n["rev"], n["initial"]) for n in i.news()] == [
        ("added", "x/a", revs[0], 1), ("added", "x/b", revs[1], 1)]
    added = kube.put(pod("y", "c"))
    i.wait_news("added", "y/c", rev=added, initial=0)
    changed = kube.put(pod("x", "a", {"v": "2"}))
    assert i.wait_news("updated", "x/a", rev=changed)["old"] == str(revs[0])
    kube.delete("x", "b")
    assert i.wait_news("removed", "x/b")["missed"] == 0
    i.wait_store(kube.expected())
    stats = i.stats()
    assert (stats["lists"], stats["relists"], stats["changes"], stats["objects"]) == (1, 0, 5, 2)
    assert stats["object_bytes"] > 0 and stats["bytes"] >= stats["object_bytes"]


def test_state_is_one_request_where_the_server_streams_it(kube, informers):
    kube.put(pod("x", "a"))
    i = informers(of(kube))
    i.wait_synced()
    kube.put(pod("x", "b"))
    i.wait_news("added", "x/b")
    assert i.stats()["requests"] == 1


@STATE_FIRST
def test_an_empty_resource_is_synced(kube, informers, options):
    i = informers(of(kube, *options))
    i.wait_synced()
    assert i.news() == [] and i.dump() == {}


@STATE_FIRST
def test_selectors_with_what_comes_in_and_goes_out(kube, informers, options):
    kube.put(pod("x", "in", {"app": "web"}))
    kube.put(pod("x", "out", {"app": "db"}))
    i = informers(of(kube, "--selector=app=web", *options))
    i.wait_synced()
    assert i.brief() == [("added", "x/in")]
    kube.put(pod("x", "out", {"app": "web"}))
    i.wait_news("added", "x/out", initial=0)
    kube.put(pod("x", "in", {"app": "web", "v": "2"}))
    i.wait_news("updated", "x/in")
    kube.put(pod("x", "in", {"app": "db"}))
    i.wait_news("removed", "x/in", missed=0)
    kube.put(pod("x", "in", {"app": "db", "v": "2"}))  # nobody's business
    kube.put(pod("x", "last", {"app": "web"}))
    i.wait_news("added", "x/last")
    assert i.brief()[1:] == [("added", "x/out"), ("updated", "x/in"), ("removed", "x/in"), ("added", "x/last")]
    i.wait_store(kube.expected(match=lambda o: o["metadata"].get("labels", {}).get("app") == "web"))


def test_one_namespace_and_one_name(kube, informers):
    for namespace in ("x", "y"):
        for name in ("a", "b"):
            kube.put(pod(namespace, name))
    i = informers(of(kube, namespace="x"))
    j = informers(of(kube, "--field-selector=metadata.name=b"))
    i.wait_synced()
    j.wait_synced()
    assert sorted(i.dump()) == ["x/a", "x/b"] and sorted(j.dump()) == ["x/b", "y/b"]
    assert i.keys("under x/") == ["x/a", "x/b"] and j.keys("under y/") == ["y/b"]


@belfryd_only
def test_what_has_no_namespace_is_known_by_its_name(kube, informers):
    kube.put(ZONES.object(None, "eu"), ZONES)
    i = informers(of(kube, resource=ZONES))
    i.wait_synced()
    assert list(i.dump()) == ["eu"] and i.ok("get eu")["key"] == "eu"


@belfryd_only
def test_a_selectable_field(kube, informers):
    kube.put(widget("x", "a", color="blue"), WIDGETS)
    i = informers(of(kube, "--field-selector=spec.color=red", resource=WIDGETS))
    i.wait_synced()
    assert i.dump() == {}
    kube.put(widget("x", "a", color="red"), WIDGETS)
    i.wait_news("added", "x/a")
    kube.put(widget("x", "a", color="blue"), WIDGETS)
    i.wait_news("removed", "x/a")


def test_several_handlers_and_one_that_comes_late(kube, informers):
    kube.put_many([pod("x", f"p{n:04}") for n in range(1500)])
    i = informers(of(kube))
    second = i.add()
    i.wait_synced()
    i.wait_handler_synced(second)
    late = i.add()
    for n in range(0, 1500, 10):  # while the late one is told what was there
        kube.put(pod("x", f"p{n:04}", {"v": "2"}))
        if n % 100 == 0:
            kube.delete("x", f"p{n + 5:04}")
    i.wait_handler_synced(late)
    kube.put(pod("x", "last"))
    for handler in (0, second, late):
        i.wait_news("added", "x/last", handler)
    assert all(n["initial"] == 1 for n in i.news(second, ["added"]) if n["key"] != "x/last")
    assert len({n["key"] for n in i.news(late, ["added"])}) == len(i.news(late, ["added"]))
    i.wait_store(kube.expected())
    assert i.stats()["watches"] == 1
    i.ok(f"remove {second}")
    kube.put(pod("x", "after"))
    i.wait_news("added", "x/after", late)
    assert ("added", "x/after") not in i.brief(second)


def test_indexes(kube, informers):
    kube.put(pod("x", "a", {"app": "web"}, node="n1"))
    kube.put(pod("x", "b", {"app": "web"}, node="n2"))
    i = informers(of(kube))
    i.ok("index node .spec.nodeName")
    i.wait_synced()
    i.ok("index app .metadata.labels['app']")  # what is there is indexed at once
    assert i.command("index node .spec.nodeName")["err"] == "BELFRY_ERR_INVALID"
    assert i.command("index bad .[[")["err"] == "BELFRY_ERR_INVALID"
    assert i.keys("by node n1") == ["x/a"] and i.keys("by app web") == ["x/a", "x/b"]
    kube.put(pod("x", "a", {"app": "db"}, node="n2"))
    i.wait_news("updated", "x/a")
    assert i.keys("by node n1") == [] and i.keys("by node n2") == ["x/a", "x/b"] and i.keys("by app web") == ["x/b"]
    kube.delete("x", "b")
    i.wait_news("removed", "x/b")
    assert i.keys("by node n2") == ["x/a"] and i.keys("by app web") == []


def test_resync_tells_everything_again_and_asks_nobody(kube, informers):
    kube.put(pod("x", "a"))
    i = informers(of(kube, "--resync=1s"))
    i.wait_synced()
    handler = i.add()  # whose own resync is never
    requests = i.stats()["requests"]
    again = i.wait_news("updated", "x/a", resync=1)
    assert again["old"] == again["version"]
    i.wait_told(lambda told: sum(t.get("resync", 0) for t in told) >= 2, 10, "a second resync")
    assert i.stats()["requests"] == requests
    assert i.news(handler, ["updated"]) == []


def test_paused_through_thousands_of_changes(kube, informers):
    for n in range(20):
        kube.put(pod("x", f"p{n}"))
    i = informers(of(kube))
    i.wait_synced()
    i.pause()
    kube.put(pod("x", "p0", {"v": "paused"}))
    i.wait_told(lambda told: any(t["kind"] == "paused" for t in told), message="paused")
    held, memory = i.dump(), procs.rss_bytes(i.pid)
    filler = "f" * 1000
    for n in range(3000):
        kube.put(pod("x", f"p{n % 20}", {"v": str(n)}, hostname=filler))
    for n in range(10):
        kube.delete("x", f"p{n}")
    assert i.dump() == held, "the store of a paused informer stays as it is"
    grown = procs.rss_bytes(i.pid) - memory
    assert grown < 2_000_000, f"{grown} bytes more while it was paused"
    i.ok("resume")
    i.wait_store(kube.expected)


def test_metadata_alone(kube, informers):
    kube.put(pod("x", "a", {"app": "web"}))
    i = informers(of(kube, "--metadata-only=true"))
    i.wait_synced()
    kube.put(pod("x", "b"))
    i.wait_news("added", "x/b")
    for _, value in i.dump().values():
        got = json.loads(value)
        assert got["kind"] == "PartialObjectMetadata" and "spec" not in got and got["metadata"]["uid"], got


@STATE_FIRST
def test_thousands_of_objects_in_small_pages(kube, informers, options):
    kube.put_many([pod("x", f"p{n:04}") for n in range(3000)])
    i = informers(of(kube, "--chunk-size=100", *options))
    i.wait_synced()
    i.wait_store(kube.expected())
    assert len(i.news(0, ["added"])) == 3000


def test_many_informers_with_selectors_of_their_own(kube, informers):
    kube.put_many([pod("x", f"p{n}", {"i": str(n)}) for n in range(50)])
    i = informers(of(kube, "--many=50", "--selector=i=%"))
    i.wait_synced()
    assert [list(i.dump(n)) for n in range(50)] == [[f"x/p{n}"] for n in range(50)]
    assert i.usage()["threads"] == 1


def test_stores_are_those_of_client_go(kube, informers):
    """The same selectors, the same changes: the same stores."""
    selectors = ["", "in=yes", "in!=yes", "in notin (yes),group", "!group"]
    ours = [informers(of(kube, *([f"--selector={text}"] if text else []))) for text in selectors]
    theirs = Informers(kube, count=0)
    for text in selectors:
        theirs.add(labels=text)
    theirs.wait_synced()
    for n in range(600):
        labels = {"in": ["yes", "no"][n * 7 % 2]} if n % 3 else {"group": f"g{n % 4}"}
        if n % 11 == 0:
            kube.delete("x", f"p{n * 5 % 40}")
        else:
            kube.put(pod("x", f"p{n * 5 % 40}", labels, node=f"n{n}"))
    for i in ours:
        i.wait_synced()
    stores = theirs.stores()
    procs.wait_until(lambda: theirs.stores() == [i.objects() for i in ours], 30, 0.3,
                     lambda: f"client-go {[len(s) for s in stores]}, ours {[len(i.objects()) for i in ours]}")


def history_is_lost(server, proxy, change):
    """While the informer is away: `change`, and a server that knows nothing of what was before it."""
    proxy.refuse()
    serving = server.tier or server.peer
    serving.kill()
    change()
    server.cluster.compact(server.cluster.revision())
    if server.tier:
        procs.run(["rm", "-rf", server.tier.cache])
    serving.start()
    proxy.accept()


@STATE_FIRST
def test_lost_history_is_listed_anew_and_what_disappeared_is_told(make_kube, informers, options):
    server = make_kube()
    for name in ("kept", "changed", "gone"):
        server.put(pod("x", name))
    proxy = Proxy(server.endpoint)
    i = informers(Informer.of_resource(proxy.url, PODS, *options))
    i.wait_synced()
    before = len(i.news())

    def change():
        server.put(pod("x", "changed", {"v": "2"}))
        server.delete("x", "gone")
        server.put(pod("x", "new"))
    history_is_lost(server, proxy, change)
    i.wait_handler_synced(0, times=2)
    i.wait_store(server.expected())
    assert sorted((n["kind"], n["key"], n["missed"]) for n in i.news()[before:]) == [
        ("added", "x/new", 0), ("removed", "x/gone", 1), ("updated", "x/changed", 0)]
    assert i.stats()["relists"] >= 1
    i.quit()
    proxy.close()


def test_a_watch_is_resumed_where_it_was(make_kube, informers):
    server = make_kube()
    server.put(pod("x", "a"))
    proxy = Proxy(server.endpoint)
    i = informers(Informer.of_resource(proxy.url, PODS))
    i.wait_synced()
    time.sleep(1.2)  # a watch that ends in its first second counts as failed, as with client-go
    proxy.refuse()
    for n in range(20):
        server.put(pod("x", f"p{n}"))
    proxy.accept()
    i.wait_store(server.expected())
    stats = i.stats()
    assert stats["relists"] == 0 and stats["watches"] >= 2 and stats["losses"] >= 1, stats
    i.quit()
    proxy.close()


@pytest.mark.parametrize("after", [0, 1, 100, 4999])
@STATE_FIRST
def test_closed_while_it_lists(kube, informers, options, after):
    kube.put_many([pod("x", f"p{n:04}", hostname="f" * 300) for n in range(5000)])
    i = informers(of(kube, *options))
    if after:
        i.wait_told(lambda told: sum(t["kind"] == "added" for t in told) >= after, message=f"{after} are told")
    i.ok("close 0")
    told = len(i.told)
    time.sleep(QUIET_S)
    assert len(i.told) == told, i.told[told:][:3]


def test_a_server_that_is_not_there_yet(make_kube, informers, tmp_path):
    port = free_port()
    i = informers(Informer.of_resource(f"http://127.0.0.1:{port}", PODS))
    i.wait_told(lambda told: any(t["kind"] == "link" and t["err"] != "BELFRY_OK" for t in told), message="a link")
    server = make_kube()
    server.put(pod("x", "a"))
    proxy = Proxy(server.endpoint)
    proxy.refuse()
    proxy.port = port
    proxy.accept()
    i.wait_synced(60)
    i.wait_store(server.expected())
    i.quit()
    proxy.close()


# ---- TLS, HTTP/2, who one is

@belfryd_only
def test_over_https_http2_is_spoken_and_many_informers_share_it(guarded, informers, tmp_path):  # noqa: F811
    cluster, tier = guarded
    secret = tmp_path / "token"
    secret.write_text(token(cluster, READER) + "\n")
    i = informers(Informer.of_resource(tier.https, CONFIGS, "--many=40", f"--cacert={tier.certs.path('ca.pem')}",
                                       f"--token-file={secret}"))
    i.wait_synced()
    assert list(i.dump(39)) == ["prod/web"]
    cluster.put("/a/prod/api", '{"replicas":2}')
    i.wait_told(lambda told: sum(t["kind"] == "added" and t["key"] == "prod/api" for t in told) == 40)
    stats = i.stats()
    assert (stats["connections"], stats["http2"], stats["connects"]) == (1, 1, 1), stats


@belfryd_only
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_token_decides_what_one_is_given(guarded, informers, tmp_path, scheme):  # noqa: F811
    cluster, tier = guarded
    secret = tmp_path / "token"
    secret.write_text("nonsense.1\n")
    url = tier.https if scheme == "https" else tier.url
    tls = [f"--cacert={tier.certs.path('ca.pem')}"] if scheme == "https" else []
    i = informers(Informer.of_resource(url, CONFIGS, *tls, f"--token-file={secret}"))
    i.wait_link("401")
    (tmp_path / "new").write_text(token(cluster, READER) + "\n")
    os.rename(tmp_path / "new", secret)
    i.wait_synced()
    assert list(i.dump()) == ["prod/web"] and i.stats()["token_reads"] >= 2
    forbidden = informers(Informer.of_resource(url, WIDGETS, *tls, f"--token-file={secret}"))
    forbidden.wait_link("403")
    time.sleep(QUIET_S)
    assert forbidden.dump() == {} and not forbidden.news()


@belfryd_only
def test_a_client_certificate_is_shown(cluster, make_tier, informers, tmp_path):
    certs = Certs(tmp_path / "certs", client_auth=True)
    port = free_port()
    tier = make_tier(cluster, "--resources", f"{CONFIGS.in_config()['crd']},prefix=/config/,wrap=spec", "--listen",
                     f"https://127.0.0.1:{port},cert={certs.path('server.pem')},key={certs.path('server.key')},"
                     f"client-ca={certs.path('ca.pem')}")
    cluster.put("/config/prod/web", '{"replicas":1}')
    url = f"https://127.0.0.1:{port}"
    i = informers(Informer.of_resource(url, CONFIGS, *[f"--{o}" for o in certs.options()]))
    i.wait_synced()
    procs.wait_until(lambda: list(i.dump()) == ["prod/web"], 10)
    without = informers(Informer.of_resource(url, CONFIGS, f"--cacert={certs.path('ca.pem')}"))
    stranger = informers(Informer.of_resource(url, CONFIGS, f"--cacert={certs.path('other.pem')}"))
    for other in (without, stranger):
        other.wait_told(lambda told: any(t["kind"] == "link" and t["err"] != "BELFRY_OK" for t in told),
                        message="a link that says why")
        assert not other.news()
    assert tier.is_running()


@belfryd_only
@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_kubeconfig_says_it_all(guarded, informers, tmp_path, how):  # noqa: F811
    cluster, tier = guarded
    config = tmp_path / "kubeconfig"
    made = procs.run([binary("belfryctl"), "kube", "config", "--server", tier.https, "--token", token(cluster, READER),
                      "--certificate-authority", tier.certs.path("ca.pem")], timeout=10)
    config.write_bytes(made.stdout)
    if how == "option":
        i = informers(Informer.of_resource(None, CONFIGS, f"--kubeconfig={config}"))
    else:
        i = informers(Informer.of_resource(None, CONFIGS, env={**os.environ, "KUBECONFIG": str(config)}))
    i.wait_synced()
    assert list(i.dump()) == ["prod/web"]


def test_a_plugin_that_logs_in_is_refused_with_a_sentence(tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "log-in"}}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}))
    done = procs.run([binary("tests", "informer"), "resource", "v1", "pods", f"--kubeconfig={config}"], check=False)
    assert done.returncode == 1 and b"BELFRY_ERR_INVALID" in done.stderr, done.stderr
    assert b"exec" in done.stderr and b'/kubeconfig: user "u"' in done.stderr, done.stderr  # a long path is cut in front


# ---- keys of etcd

def keys_of(cluster, *options, prefix="/k/"):
    return Informer.of_keys(cluster.endpoints, prefix, *options)


keys_only = pytest.mark.skipif(BY_PEER, reason=needs.BY_PEER + "kubepeer has no part in it")


@keys_only
def test_keys_are_told_and_then_every_change(cluster, informers):
    first = cluster.put("/k/a", "one")
    cluster.put("/other", "no")
    i = informers(keys_of(cluster))
    i.wait_synced()
    assert [(n["kind"], n["key"], n["rev"], n["initial"]) for n in i.news()] == [("added", "/k/a", first, 1)]
    added = cluster.put("/k/b", "two")
    i.wait_news("added", "/k/b", rev=added, initial=0)
    changed = cluster.put("/k/a", "three")
    assert i.wait_news("updated", "/k/a", rev=changed)["old"] == str(first)
    cluster.delete("/k/b")
    assert i.wait_news("removed", "/k/b")["missed"] == 0
    i.wait_keys(cluster.state("/k/"))


@keys_only
def test_keys_and_values_are_bytes(kube, informers):
    odd = {b"/k/\x01": b"\0\xff", b"/k/\xc3\xa9": b"", b"/k/\xff\xfe": b"x" * 100_000, b'/k/"\\': b"\n"}
    for key, value in odd.items():
        kube.store.put(key, value)
    i = informers(keys_of(kube.cluster))
    i.wait_synced()
    i.wait_keys(kube.cluster.state("/k/"))
    assert set(i.dump()) == {key.decode("latin-1") for key in odd}


@keys_only
def test_a_transaction_is_several_changes_of_one_revision(kube, informers):
    kube.store.put(b"/k/a", b"1")
    i = informers(keys_of(kube.cluster))
    i.wait_synced()
    rev = kube.store.txn((b"/k/b", b"2"), (b"/k/a",), (b"/k/c", b"3"))
    i.wait_news("added", "/k/c")
    assert sorted((n["kind"], n["key"]) for n in i.news()[1:]) == [
        ("added", "/k/b"), ("added", "/k/c"), ("removed", "/k/a")]
    assert {n["rev"] for n in i.news(0, ["added"])[1:]} == {rev}


@keys_only
def test_handlers_indexes_and_resync_of_keys(kube, informers):
    for n in range(300):
        kube.store.put(f"/k/{n:03}".encode(), json.dumps({"zone": f"z{n % 3}", "tags": ["t", f"t{n}"]}).encode())
    kube.store.put(b"/k/none", b"not json")
    i = informers(keys_of(kube.cluster, "--page-bytes=4KiB", "--resync=2s"))
    i.wait_synced()
    late = i.add()
    i.wait_handler_synced(late)
    assert len(i.news(late, ["added"])) == 301
    i.ok("index zone .zone")
    i.ok("index tag .tags[*]")
    assert i.keys("by zone z1") == [f"/k/{n:03}" for n in range(1, 300, 3)]
    assert i.keys("by tag t7") == ["/k/007"] and len(i.keys("by tag t")) == 300
    kube.store.put(b"/k/007", b'{"zone":"z9"}')
    i.wait_news("updated", "/k/007", resync=0)
    assert i.keys("by zone z9") == ["/k/007"] and i.keys("by tag t7") == []
    i.wait_told(lambda told: sum(t.get("resync", 0) for t in told) >= 301, 20, "a resync")


@keys_only
def test_paused_on_keys_through_thousands_of_changes(cluster, informers):
    cluster.put("/k/a", "one")
    i = informers(keys_of(cluster))
    i.wait_synced()
    i.pause()
    cluster.put("/k/a", "two")
    i.wait_told(lambda told: any(t["kind"] == "paused" for t in told), message="paused")
    held, memory = i.dump(), procs.rss_bytes(i.pid)
    write(cluster.endpoints, "mode=fill", "count=10000", "size=1000", "prefix=/k/n")
    cluster.delete("/k/a")
    assert i.dump() == held
    grown = procs.rss_bytes(i.pid) - memory
    assert grown < 8_000_000, f"{grown} bytes more while it was paused"
    i.ok("resume")
    i.wait_keys(cluster.state("/k/"))


@keys_only
def test_lost_history_of_keys_is_listed_anew_and_what_disappeared_is_told(cluster, informers):
    for name in ("kept", "changed", "gone"):
        cluster.put(f"/k/{name}", "one")
    proxy = Proxy(cluster.members[0].endpoint)
    i = informers(Informer.of_keys(proxy.url, "/k/"))
    i.wait_synced()
    before = len(i.news())
    proxy.refuse()
    cluster.put("/k/changed", "two")
    cluster.delete("/k/gone")
    cluster.put("/k/new", "one")
    cluster.compact(cluster.revision())
    proxy.accept()
    i.wait_handler_synced(0, times=2)
    i.wait_keys(cluster.state("/k/"))
    assert sorted((n["kind"], n["key"], n["missed"]) for n in i.news()[before:]) == [
        ("added", "/k/new", 0), ("removed", "/k/gone", 1), ("updated", "/k/changed", 0)]
    assert i.stats()["relists"] >= 1
    i.quit()
    proxy.close()


@keys_only
@pytest.mark.parametrize("after", [0, 1, 3000])
def test_closed_while_it_lists_keys(cluster, informers, after):
    write(cluster.endpoints, "mode=fill", "count=5000", "size=500", "prefix=/k/n")
    i = informers(keys_of(cluster, "--page-bytes=64KiB"))
    if after:
        i.wait_told(lambda told: sum(t["kind"] == "added" for t in told) >= after, message=f"{after} are told")
    i.ok("close 0")
    told = len(i.told)
    time.sleep(QUIET_S)
    assert len(i.told) == told


@keys_only
def test_a_store_over_its_bound_ends(cluster, informers):
    write(cluster.endpoints, "mode=fill", "count=2000", "size=1000", "prefix=/k/n")
    i = informers(keys_of(cluster, "--max-bytes=1MiB"))
    end = i.wait_told(lambda told: next((t for t in told if t["kind"] == "end"), None), message="the end")
    assert end["err"] == "BELFRY_ERR_LIMIT" and end["why"]


@keys_only
def test_a_range_that_is_not_granted_ends_with_denied(make_cluster, informers):
    cluster = make_cluster()
    enable_auth(cluster)
    cluster.put("/a/1", "one")
    i = informers(Informer.of_keys(cluster.endpoints, "/b/", f"--user={':'.join(READER)}"))
    end = i.wait_told(lambda told: next((t for t in told if t["kind"] == "end"), None), message="the end")
    assert end["err"] == "BELFRY_ERR_DENIED"
    j = informers(Informer.of_keys(cluster.endpoints, "/a/", f"--user={':'.join(READER)}"))
    j.wait_synced()
    assert list(j.dump()) == ["/a/1"]
