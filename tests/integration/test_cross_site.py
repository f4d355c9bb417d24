"""Web pages of other sites: their requests have no effect, whatever they ask for, by curl and by a real browser."""
import json
import subprocess

import procs
import pytest
from client import binary
from ports import free_port
from shows import shows
from test_sse_browser import Site, BLANK  # noqa: F401

PUT = {"key": "L2NzcmY=", "value": "cHduZWQ="}  # /csrf: pwned
SENTENCE = "belfry: a web page of another site asks; allow its origin with --cors-origins\n"
NAMED = "https://app.example"


@pytest.fixture
def make_site():
    made = []

    def make(text=BLANK, name="127.0.0.1"):
        made.append(Site())
        made[-1].text = text
        made[-1].url = made[-1].url.replace("127.0.0.1", name)
        return made[-1]
    yield make
    for site in made:
        site.close()


def curl(url, *fields, method="GET", body=None, http2=False):
    """(status, body)"""
    argv = ["curl", "-sS", "-m", "10", "-X", method, "-w", "\n%{http_code}", *(["--http2-prior-knowledge"] if http2 else [])]
    for field in fields:
        argv += ["-H", field]
    argv += ["--data-binary", body] if body is not None else []
    done = subprocess.run([*argv, url], capture_output=True, check=False)
    text, status = done.stdout.decode(errors="replace").rsplit("\n", 1)
    return int(status), text or done.stderr.decode()


FOREIGN = [("Origin: http://evil.example",), ("Origin: null",), ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site"),
           ("Sec-Fetch-Site: cross-site",), ("Sec-Fetch-Site: same-site",)]


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_every_dialect_refuses_them(cluster, make_tier, http2):
    tier = make_tier(cluster, "--cors-origins", NAMED)
    admin = f"http://127.0.0.1:{tier.admin_port}"
    asked = [(f"{tier.url}/v3/kv/put", {"method": "POST", "body": json.dumps(PUT)}), (f"{tier.url}/v3/kv/range", {"method": "POST", "body": "{}"}),
             (f"{tier.url}/v1/events?prefix=/", {}), (f"{tier.url}/v1/ticket", {"method": "POST", "body": ""}),
             (f"{tier.url}/belfry.js", {}), (f"{tier.url}/health", {}), (f"{tier.url}/api/v1/pods", {}),
             (f"{tier.url}/apis/demo.example.com/v1/widgets", {}), (f"{tier.url}/etcdserverpb.KV/Put", {"method": "POST", "body": "x"}),
             (f"{admin}/metrics", {}), (f"{admin}/debug/numbers", {}), (f"{admin}/", {}), (f"{admin}/livez", {})]
    for url, how in asked:
        if http2:
            how = {"method": how.get("method", "GET")}  # curl 7.88 fails when it is answered before its body was sent
        for fields in FOREIGN:
            assert curl(url, *fields, "Content-Type: text/plain;charset=UTF-8", http2=http2, **how) == (403, SENTENCE), (url, fields)
    assert cluster.ctl("get", "/csrf").stdout == b""
    assert tier.metrics()['belfry_rejected_total{reason="cross_site"}'] == 9 * len(FOREIGN)
    admins = 'belfry_rejected_total{reason="admin_cross_site"}'  # counted once per second
    procs.wait_until(lambda: tier.metrics()[admins] == 4 * len(FOREIGN), 10, 0.2, lambda: f"{tier.metrics()[admins]} counted")


@pytest.fixture
def front(tmp_path):
    """A tier in front of an API server that is away: (URL of the tier, of its admin address)."""
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "token").chmod(0o600)
    url, admin, upstream = (f"http://127.0.0.1:{free_port()}" for _ in range(3))
    with open(tmp_path / "log", "wb") as log:
        proc = procs.spawn([binary("belfryd"), "--upstream-kube", upstream, "--upstream-token-file", tmp_path / "token",
                            "--follow", "pods", "--listen", url, "--admin", admin, "--cache-dir", tmp_path / "cache"],
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    procs.wait_until(lambda: curl(f"{admin}/livez")[0] == 200, 20, 0.1, (tmp_path / "log").read_text)
    yield url, admin
    procs.end(proc)


def test_a_front_of_an_api_server_refuses_them(front):
    url, admin = front
    relayed = f"{url}/api/v1/namespaces/x/secrets"
    for target, method in ((f"{url}/api/v1/pods?resourceVersion=0", "GET"), (relayed, "GET"), (relayed, "POST"), (f"{url}/readyz", "GET")):
        for fields in FOREIGN:
            assert curl(target, *fields, "Authorization: Bearer t", method=method) == (403, SENTENCE), (target, fields)
    shown = curl(f"{admin}/metrics")[1]
    assert f'belfry_rejected_total{{reason="cross_site"}} {4 * len(FOREIGN)}\n' in shown, shown
    assert 'belfry_rejected_total{reason="kube_front"} 0\n' in shown
    for fields in ((), (f"Origin: {url}", "Sec-Fetch-Site: same-origin")):
        assert curl(relayed, *fields, "Authorization: Bearer t")[0] == 503, "passed on, and the API server is away"


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_others_are_served(cluster, make_tier, http2):
    tier = make_tier(cluster, "--cors-origins", NAMED)
    own = f"http://127.0.0.1:{tier.port}"
    for fields in ((), (f"Origin: {NAMED}", "Sec-Fetch-Site: cross-site"), (f"Origin: {own}",), (f"Origin: {own}", "Sec-Fetch-Site: same-origin"),
                   (f"Origin: https://127.0.0.1:{tier.port}",), ("Origin: https://proxy.example", "Sec-Fetch-Site: same-origin"),
                   ("Sec-Fetch-Site: none",), ("Sec-Fetch-Site: same-origin",)):
        cluster.delete("/csrf")
        status, body = curl(f"{tier.url}/v3/kv/put", *fields, method="POST", body=json.dumps(PUT), http2=http2)
        assert status == 200 and "revision" in body, (fields, body)
        assert cluster.ctl("get", "/csrf", "--print-value-only").stdout == b"pwned\n"
        assert curl(f"http://127.0.0.1:{tier.admin_port}/readyz", *(f.replace(str(tier.port), str(tier.admin_port)) for f in fields),
                    http2=http2)[0] == 200
    navigation = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Accept: text/html")
    assert curl(f"http://127.0.0.1:{tier.admin_port}/", *navigation, http2=http2)[0] == 200
    assert curl(f"http://127.0.0.1:{tier.admin_port}/debug/log", *navigation, http2=http2)[0] == 403


@shows("cross-site")
def test_etcd_does_what_a_page_of_another_site_asks_for(cluster, tier, differs):
    fields = ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Content-Type: text/plain;charset=UTF-8")
    etcd, belfryd = (curl(f"{url}/v3/kv/put", *fields, method="POST", body=json.dumps(PUT))[0] for url in (cluster.members[0].url, tier.url))
    differs("cross-site", etcd=etcd, belfryd=belfryd)
    assert (etcd, belfryd) == (200, 403)


# What a page can send without a preflight; none of it can read the answer.
ATTEMPTS = """(async () => {
    const tier = "%s", body = '%s';
    const seen = [];
    for (const type of ["text/plain", "application/x-www-form-urlencoded"])
        await fetch(tier + "/v3/kv/put", {method: "POST", mode: "no-cors", headers: {"Content-Type": type}, body}).then(r => seen.push(r.type), e => seen.push("failed"));
    navigator.sendBeacon(tier + "/v3/kv/put", body);
    const frame = document.createElement("iframe");
    frame.name = "frame";
    document.body.append(frame);
    const form = document.createElement("form"), input = document.createElement("input");
    Object.assign(form, {method: "POST", enctype: "text/plain", action: tier + "/v3/kv/put", target: "frame"});
    Object.assign(input, {name: body.slice(0, -1) + ',"x":"', value: '"}'});
    form.append(input);
    document.body.append(form);
    form.submit();
    const image = new Image();
    image.src = tier + "/health";
    await new Promise(done => { image.onerror = image.onload = done; });
    await fetch(tier + "/v3/kv/put", {method: "POST", headers: {"Content-Type": "application/json"}, body}).then(r => seen.push(r.status), e => seen.push("hidden"));
    return seen;
})()"""


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"], ids=["same-site", "cross-site"])
def test_a_page_in_a_browser_writes_nothing_unless_its_origin_is_named(cluster, make_tier, browser, make_site, name):
    site, named = make_site(name=name), make_site(name=name)
    tier = make_tier(cluster, "--cors-origins", named.url)
    attempts = ATTEMPTS % (tier.url, json.dumps(PUT))
    browser.load(site.url)
    assert browser.js(attempts)[2] == "hidden"
    refused = 'belfry_rejected_total{reason="cross_site"}'
    procs.wait_until(lambda: tier.metrics()[refused] >= 6, 20, 0.1, lambda: f"{tier.metrics()[refused]} refused")
    assert cluster.ctl("get", "/csrf").stdout == b""

    browser.load(named.url)
    browser.js(attempts)
    procs.wait_until(lambda: cluster.ctl("get", "/csrf", "--print-value-only").stdout == b"pwned\n", 10, 0.1, "the key")


def test_a_link_of_another_site_leads_to_the_page_of_the_admin_address(cluster, make_tier, browser, make_site):
    tier = make_tier(cluster)
    address = f"http://127.0.0.1:{tier.admin_port}/"
    site = make_site(f'{BLANK}<a id=link href="{address}">tier</a>', name="localhost")
    browser.load(site.url)
    assert browser.js(f"fetch('{address}', {{mode: 'no-cors'}}).then(r => r.type, e => 'failed')") == "opaque"
    browser.js("document.getElementById('link').click()")
    browser.wait_js(f"location.href === '{address}' && document.getElementById('verdict').textContent === 'Ready'", 20)
