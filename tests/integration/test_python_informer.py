"""examples/python/belfry_informer.py, on keys and on a Kubernetes resource that a belfryd serves."""
import procs
from client import binary
from kube import WIDGETS, belfryd_only, widget
from test_python import ends_cleanly, start, wait_for

pytest_plugins = ["kube_fixtures"]


def test_python_keeps_an_informer_on_keys(cluster, tmp_path):
    cluster.put("/services/before", "there")
    proc = start(tmp_path, "belfry_informer.py", "keys", cluster.members[0].url, "/services/")
    wait_for(tmp_path, "added /services/before\n")
    wait_for(tmp_path, "-- 1 objects, live from here --")
    cluster.put("/services/web", "1")
    wait_for(tmp_path, "added /services/web\n")
    cluster.put("/services/web", "2")
    wait_for(tmp_path, "updated /services/web\n")
    cluster.delete("/services/web")
    wait_for(tmp_path, "removed /services/web\n")
    ends_cleanly(proc, tmp_path)


@belfryd_only
def test_python_keeps_an_informer_on_a_resource(kube, tmp_path):
    kube.wait_for(kube.put(widget("prod", "before"), WIDGETS), WIDGETS)
    config = tmp_path / "kubeconfig"
    config.write_bytes(procs.run([binary("belfryctl"), "kube", "config", "--server", kube.url]).stdout)
    proc = start(tmp_path, "belfry_informer.py", "resource", WIDGETS.api_version, WIDGETS.plural, KUBECONFIG=str(config))
    wait_for(tmp_path, "added prod/before\n")
    wait_for(tmp_path, "-- 1 objects, live from here --")
    kube.put(widget("prod", "web"), WIDGETS)
    wait_for(tmp_path, "added prod/web\n")
    kube.put(widget("prod", "web", size=2), WIDGETS)
    wait_for(tmp_path, "updated prod/web\n")
    kube.delete("prod", "web", WIDGETS)
    wait_for(tmp_path, "removed prod/web\n")
    ends_cleanly(proc, tmp_path)
