"""Runs the shell commands of a Markdown page, in their order, as a reader would: in one shell, against real programs.

A page has a shell in an empty folder, with belfryd, belfryctl, etcd and etcdctl in its PATH, a loopback network of its own, so that
the page's ports are free, and process ids of its own: it sees, and can signal, only what it has started. kubectl is there, too. Fenced blocks mean, by the word behind their fence and the remark on the line before:

    ```sh                                commands. They must succeed
    <!-- fails --> and ```sh             the last command must fail
    <!-- again --> and ```sh             it only looks: it is run again until it succeeds and prints what the page says
    <!-- not run: REASON --> and ```sh   left out. The reason is for readers of the source, and is counted
    ```text behind a block of commands   what they print. A line `...` stands for any lines; numbers and widths may differ
    <!-- file: NAME --> and any block    is written to NAME first
    <!-- shown: REASON --> and any block something to look at: an excerpt of a log, of a reply

A block of another kind is a mistake. The first remark of a page may ask for servers: <!-- with: etcd --> (127.0.0.1:2379), or
<!-- with: etcd, belfryd -->. `libbelfry` installs this build where pkg-config finds it."""
import os
import re
import subprocess
import textwrap
from pathlib import Path

import netns
import procs
from client import binary
from kube_clients import kubectl_path

TOP = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
REMARK = re.compile(r"<!-- (fails|again|with|not run|file|shown)(?:: ([^\n]*?))? -->\n\s*\Z")
WITH = re.compile(r"<!-- with: ([^\n]*?) -->")
BLOCK_S, AGAIN_S = 120, 60
BUILD = Path(binary("belfryd")).resolve().parent.parent
SERVERS = {
    "etcd": "etcd --data-dir .with/etcd >.with/etcd.log 2>&1 &\nuntil etcdctl endpoint health >.with/health 2>&1; do sleep 0.2; done",
    "belfryd": "belfryd --cache-dir .with/cache >.with/belfryd.log 2>&1 &\n"
               "belfryctl health --ready --wait 30s >.with/health 2>&1",
    "libbelfry": f"cmake --install {BUILD} --prefix $PWD/.with/prefix >.with/install.log\n"
                 "export LD_LIBRARY_PATH=$PWD/.with/prefix/lib PKG_CONFIG_PATH=$PWD/.with/prefix/lib/pkgconfig",
}


class Mistake(AssertionError):
    """In the page, not in what it says."""


class Block:
    def __init__(self, kind, text, line, remark, argument):
        self.kind, self.text, self.line, self.remark, self.argument = kind, text, line, remark, argument
        self.printed = None  # what the page says that it prints

    def is_run(self):
        return self.kind == "sh" and self.remark != "not run" and self.remark != "file"


def blocks(text):
    """The blocks of a page in their order; what a block prints is in the block."""
    found = []
    for match in FENCE.finditer(text):
        remark = REMARK.search(text[:match.start()])
        word, argument = (remark[1], remark[2]) if remark else (None, None)
        line = text.count("\n", 0, match.start()) + 1
        block = Block(match["kind"], textwrap.dedent(match["text"]), line, word, argument)
        if word in ("not run", "shown", "file") and not argument:
            raise Mistake(f"line {line}: {word} needs a reason, or a name")
        if word == "not run" and block.kind != "sh" or word in ("fails", "again") and block.kind != "sh":
            raise Mistake(f"line {line}: {word} is for commands")
        if block.kind == "text" and word is None:
            if not found or found[-1].kind != "sh" or found[-1].printed is not None:
                raise Mistake(f"line {line}: no commands before this text: say <!-- shown: REASON -->")
            found[-1].printed = block.text.splitlines()
        elif block.kind == "sh" or word in ("file", "shown"):
            found.append(block)
        else:
            raise Mistake(f"line {line}: a block of {block.kind or 'nothing'} that is neither run, nor written, nor explained")
    return found


def commands(text):
    """[(command, the lines that it prints, whether it must fail)]: of a page whose test runs each command by itself."""
    found = []
    for block in blocks(text):
        if block.is_run():
            lines = block.text.replace("\\\n", " ").splitlines()
            found += [(line, [], False) for line in lines[:-1]]
            found.append((lines[-1], block.printed or [], block.remark == "fails"))
    return found


def shape(line):
    """Words, with numbers as 0: times, ports, revisions and column widths differ from run to run."""
    return re.sub(r"\d+(?:[.,]\d+)*(?:-dev)?", "0", line).split()


def is_as_printed(said, printed):
    """Do the lines that were said look like those of the page?"""
    said = [shape(line) for line in said if line.strip()]
    wanted = [shape(line) for line in printed if line.strip()]

    def from_here(i, j):
        if j == len(wanted):
            return i == len(said)
        if wanted[j] == ["..."]:
            return any(from_here(k, j + 1) for k in range(i, len(said) + 1))
        return i < len(said) and said[i] == wanted[j] and from_here(i + 1, j + 1)
    return from_here(0, 0)


class Shell:
    """One bash, which lives as long as the page: what a block starts in the background goes on. It is the first process of its
    namespace of process ids, so that everything a page has started ends with it, and no command of a page reaches anything else."""

    def __init__(self, folder):
        self.folder, self.n = Path(folder), 0
        (self.folder / ".with").mkdir(parents=True)
        places = [str(BUILD / "bin"), os.path.dirname(kubectl_path()), os.environ["PATH"]]
        env = {"PATH": ":".join(places), "HOME": str(folder), "ETCDCTL_API": "3", "LC_ALL": "C.UTF-8", "TOP": str(TOP)}
        self.proc = procs.spawn(["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"], env=env, cwd=folder, stdin=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, stderr=open(self.folder / ".with/bash.log", "wb"))
        self.send("ip link set lo up\n")

    def send(self, text):
        self.proc.stdin.write(text.encode())
        self.proc.stdin.flush()

    def run(self, commands):
        """(exit code, what was printed on both outputs); with -e, so that no command of a block fails unseen."""
        self.n += 1
        script, out, code = (self.folder / f".with/{self.n}.{end}" for end in ("sh", "out", "code"))
        script.write_text(commands)
        self.send(f"trap 'echo $? >{code}.new; mv {code}.new {code}' EXIT; set -e\n"
                  f". {script} >{out} 2>&1 </dev/null\nset +e; trap - EXIT; echo 0 >{code}.new; mv {code}.new {code}\n")
        procs.wait_until(code.exists, BLOCK_S, 0.02, lambda: f"the end of:\n{commands}\nso far: {self.said(out)}")
        return int(code.read_text()), self.said(out)

    def try_out(self, commands):
        """The same for commands that may fail: in a shell of their own, because -e ends a shell."""
        self.n += 1
        inner = self.folder / f".with/{self.n}.inner"
        inner.write_text("set -e\n" + commands)
        code, said = self.run(f"bash {inner} || echo {self.marker()} $?")
        failed = re.search(self.marker() + r" (\d+)\n\Z", said)
        return (int(failed[1]) if failed else code), said[:failed.start()] if failed else said

    @staticmethod
    def marker():
        return "pages-failed-with"

    @staticmethod
    def said(path):
        return path.read_text(errors="replace") if path.exists() else ""

    def network(self):
        """The calling thread is in the page's network meanwhile."""
        with open(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children") as f:
            return netns.inside(f"/proc/{f.read().split()[0]}/ns/net")

    def close(self):
        procs.end(self.proc)


def run_block(shell, block):
    where = f"line {block.line}:\n{block.text}"
    if block.remark == "again":
        last = []

        def as_printed():
            last[:] = shell.try_out(block.text)
            return last[0] == 0 and (block.printed is None or is_as_printed(last[1].splitlines(), block.printed))
        procs.wait_until(as_printed, AGAIN_S, 0.3, lambda: f"{where}exits {last[0]}, prints\n{last[1]}\nnot {block.printed}")
        return
    code, said = shell.try_out(block.text) if block.remark == "fails" else shell.run(block.text)
    if block.remark == "fails":
        assert code != 0, f"{where}must fail, and printed\n{said}"
    else:
        assert code == 0, f"{where}exits {code}, and prints\n{said}"
    if block.printed is not None:
        assert is_as_printed(said.splitlines(), block.printed), f"{where}prints\n{said}\nnot\n" + "\n".join(block.printed)


def run(page, folder):
    """Runs a page in an empty folder; returns how many blocks were run, and the reasons of those that were not."""
    text = Path(page).read_text()
    shell = Shell(folder)
    try:
        wanted = WITH.search(text)
        for name in wanted[1].split(", ") if wanted else []:
            code, said = shell.run(SERVERS[name])
            assert code == 0, f"{name}: {said}"
        n_run, not_run = 0, []
        for block in blocks(text):
            if block.remark == "file":
                (Path(folder) / block.argument).write_text(block.text)
            elif block.is_run():
                run_block(shell, block)
                n_run += 1
            elif block.remark == "not run":
                not_run.append(block.argument)
        return n_run, not_run
    finally:
        shell.close()
