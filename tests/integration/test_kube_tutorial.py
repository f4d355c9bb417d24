"""docs/kubernetes.md, "From an empty etcd": its commands are run as they stand there, and must print what stands there."""
import os
import shlex

import pages
import procs
from client import binary
from kube_clients import Lines, kubectl_path

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def steps():
    """(command, the lines printed under it); what stands behind a # is of another window."""
    with open(os.path.join(ROOT, "docs", "kubernetes.md")) as f:
        text = f.read().split("## From an empty etcd")[1].split("\n## ")[0]
    return [(command, printed) for command, printed, _ in pages.commands(text)]


class Shell:
    """Runs the tutorial's commands where its servers are."""

    def __init__(self, folder, cluster, make_tier):
        self.folder, self.cluster, self.make_tier = folder, cluster, make_tier
        self.env = {"PATH": f"{os.path.dirname(kubectl_path())}:{os.path.dirname(binary('belfryctl'))}:{os.environ['PATH']}",
                    "HOME": str(folder), "ETCDCTL_API": "3", "ETCDCTL_ENDPOINTS": cluster.endpoints}
        self.tier = None

    def belfryd(self, words):
        flags = [w.replace("examples/", f"{ROOT}/examples/") for w in words if w != "&"]
        self.tier = self.make_tier(self.cluster, *flags)

    def run(self, command):
        command = command.replace("http://127.0.0.1:23790", self.tier.url)
        command = command.replace("belfryctl kube config", f"belfryctl kube config --server {self.tier.url}")
        done = procs.run(["bash", "-c", command], env=self.env, cwd=self.folder, timeout=60, check=False)
        assert done.returncode == 0, f"{command}: {done.returncode} {done.stdout.decode()} {done.stderr.decode()}"
        return [line.split() for line in done.stdout.decode().splitlines()]

    def watch(self, command, printed):
        """Each line with a # is printed after what stands behind it was done."""
        lines = Lines(["bash", "-c", "exec " + command], env=self.env, cwd=self.folder)
        for line in printed:
            shown, _, done_elsewhere = line.partition("#")
            if done_elsewhere:
                self.run(done_elsewhere.strip())
            assert lines.line().split() == shown.split(), command
        lines.close()


def test_the_tutorial_does_what_it_says(cluster, make_tier, tmp_path):
    shell = Shell(tmp_path, cluster, make_tier)
    ran = []
    for command, printed in steps():
        words = shlex.split(command)
        ran.append(words[0])
        if words[0] == "etcd":
            continue  # it is there
        if words[0] == "belfryd":
            shell.belfryd(words[1:])
        elif words[0] == "export":
            shell.env["KUBECONFIG"] = str(tmp_path / "kubeconfig")
        elif words[-1] == "-w":
            shell.watch(command, printed)
        elif words[0] == "curl":  # for ever
            lines = Lines(["bash", "-c", "exec " + command.replace("http://127.0.0.1:23790", shell.tier.url)],
                          env=shell.env, cwd=tmp_path)
            assert lines.line().startswith('{"type":"ADDED"')
            lines.close()
        else:
            said = shell.run(command)
            assert not printed or said == [line.split() for line in printed], command
    assert ran.count("kubectl") >= 5 and "etcdctl" in ran and "curl" in ran
