"""docs/start.md: its commands, to the letter, in a clean root of each suite, print what stands there, in under five minutes.

Two things stand in for a machine: systemctl is unit.py, since no systemd runs in a root folder; and apt uses the machine's network,
everything else a loopback of its own, so that the page's ports are free."""
import os
import re
import shlex
import time

import debian
import needs
import pages
import procs
import pytest

LIMIT_S = 300
LOOK_S = 60  # how long one looks again at a file that is still being written


def steps(text):
    """(command, the lines printed under it) of a page: one command per line of its blocks."""
    found = []
    for block in pages.blocks(text):
        if not block.is_run():
            continue
        found += [(line, []) for line in block.text.splitlines()]
        found[-1] = (found[-1][0], block.printed or [])
    return found


def shape(lines):
    """Lines as words, with every number as 0: times and lengths differ. Remarks (!!) depend on the moment and are left out."""
    return [re.sub(r"\d+(?:[.,]\d+)*(?:-dev)?", "0", line).split() for line in lines if line.strip() and not line.startswith("!!")]


class Operator:
    """Does what the page says."""

    def __init__(self, root):
        self.root, self.watcher = root, None

    def systemctl(self, words):
        name = words[-1]
        if words[:-1] == ["kill", "--signal=KILL"]:
            self.root.unit(name).kill(wait=False)
        else:
            assert words[:-1] in (["start"], ["enable", "--now"]), words
            self.root.unit(name).start()

    def do(self, command):
        words = shlex.split(command)
        if words[0] == "systemctl":
            self.systemctl(words[1:])
            return ""
        if words[-1] == "&":
            self.watcher = procs.spawn(["chroot", self.root.path, "bash", "-c", f"cd /root && exec {command[:-1]}"], ns=self.root.ns,
                                       env=debian.ENV)
            return ""
        return self.root.sh(command, ns=None if words[0] == "apt-get" else self.root.ns)

    def see(self, command, printed):
        """Does it, and again while it only looks, until it prints what the page says."""
        said = ""

        def as_printed():
            nonlocal said
            said = self.do(command)
            return not printed or shape(said.splitlines()) == shape(printed)
        if command.startswith("cat "):
            procs.wait_until(as_printed, LOOK_S, 0.2, lambda: f"{command} prints {printed}; it printed {said}")
        else:
            assert as_printed(), f"{command} prints {said!r}, not {printed}"
        return said


def test_the_page_is_understood():
    with open(os.path.join(debian.TOP, "docs/start.md")) as f:
        found = steps(f.read())
    commands = [command for command, _ in found]
    assert len(commands) == 13 and commands[-1] == "cat watch.log" and len(found[-1][1]) == 6, found
    assert shape(["  3  put  15:34:29.516", "!! lost"]) == shape(["  41 put 1:2:3.4"]) != shape(["  41 del 1:2:3.4"])


@pytest.mark.parametrize("suite", debian.SUITES)
def test_a_stranger_follows_the_page(suite, soak, tmp_path, figure):
    if not soak:
        needs.full_length("it builds packages: with BELFRY_SOAK=1 only")
    packages = debian.packages(suite)
    root = debian.Root(tmp_path / suite, suite)
    try:
        root.put(packages)
        operator = Operator(root)
        with open(os.path.join(debian.TOP, "docs/start.md")) as f:
            found = steps(f.read())
        began = time.monotonic()
        for command, printed in found:
            last = operator.see(command, printed)
        took = time.monotonic() - began
        assert "nothing missed" in last and operator.watcher.poll() is None, "the watcher has survived"
        tier = root.unit("belfryd")
        assert tier.n_starts == 2, "the tier was killed, and started again by what stands in for systemd"
        assert "start=warm" in tier.log() and tier.log().count("event=upstream_listing") == 1, tier.log()
        figure(f"start_page.{suite}", took, "s, from an empty root to a watcher that survived")
        figure(f"start_page.{suite}.etcd", root.sh("etcd --version | sed -n 's/etcd Version: //p'").strip())
        assert took < LIMIT_S
    finally:
        root.close()
