"""What is made from the tables of options: every flag is in --help, man page and completion; bash and zsh complete as they should."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

import needs
from client import binary

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = {"belfryd": "docs/man/belfryd.8", "belfryctl": "docs/man/belfryctl.1"}
COMPLETE = r"""
source "$1"; shift
name=_${1//-/_}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
"$name"; printf '%s\n' "${COMPREPLY[@]}"
"""
# Offers are recorded where they reach the completion system; queries of its own functions (-O, -A, -D) are none.
ZSH_SETUP = r"""
fpath=("$PWD" $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {
    local -a __offers
    if [[ ! " ${@[1,(i)--]} " == *" -"[[:alpha:]]#[OAD]" "* ]]; then
        builtin compadd -A __offers "$@"
        (( ! $#__offers )) || print -rl -- "${__offers[@]}" >>offers
    fi
    builtin compadd "$@"
}
setopt extendedglob
zstyle ':completion:*' menu no
completed() { comppostfuncs=(completed); : >done } # the list is emptied each time
comppostfuncs=(completed)
bindkey '^I' complete-word
: >ready
"""


def made(name, form):
    return subprocess.run([binary("tests", "belfry-options"), name, form], capture_output=True, text=True, check=True).stdout


def complete(tmp_path, *words):
    """What bash offers for the last of the words."""
    file = tmp_path / "completion.bash"
    file.write_text(made(words[0], "bash"))
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", str(file), *words], capture_output=True, text=True, check=True,
                          cwd=tmp_path)
    assert not done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def zsh(tmp_path_factory):
    """A function: what zsh offers for the last of the words. One shell for all, because its completion is slow to start."""
    if shutil.which("zsh") is None:
        needs.missing("zsh: tools/bootstrap installs it")
    folder = tmp_path_factory.mktemp("zsh")
    (folder / "setup.zsh").write_text(ZSH_SETUP)
    for name in ("belfryd", "belfryctl", "belfry-bench"):
        (folder / ("_" + name)).write_text(made(name, "zsh"))
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
                             env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)})
    os.close(theirs)

    def type_until(text, file):
        (folder / file).unlink(missing_ok=True)
        os.write(ours, text.encode())
        end = time.monotonic() + 60
        while not (folder / file).exists():
            assert time.monotonic() < end, f"zsh does not get to {file}"
            if select.select([ours], [], [], 0.02)[0]:
                os.read(ours, 65536)  # otherwise zsh waits for its terminal

    def complete(*words):
        offers = folder / "offers"
        offers.write_text("")
        type_until("\x15" + " ".join(words) + "\t", "done")  # ^U: what the last test typed goes
        return sorted(set(offers.read_text().split()))

    type_until("source ./setup.zsh\n", "ready")
    yield complete
    shell.kill()
    shell.wait()
    os.close(ours)


def help_of(name):
    path = binary(name)
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  ([a-z-]+) ", text.partition("Commands:\n")[2].partition("\n\n")[0], re.M):
        text += subprocess.run([path, command, "--help"], capture_output=True, text=True, check=True).stdout
    return text


@pytest.mark.parametrize("name", ["belfryd", "belfryctl", "belfry-bench"])
def test_every_flag_is_in_help_man_page_and_completion(name):
    texts = {"--help": help_of(name), "bash": made(name, "bash"), "fish": re.sub(r" -l ", " --", made(name, "fish")),
             "zsh": made(name, "zsh")}
    if name in PAGES:
        with open(os.path.join(TOP, PAGES[name]), encoding="utf-8") as page:
            texts["man"] = re.sub(r"\\f[A-Z]", "", page.read()).replace("\\-", "-")
    flags = set(made(name, "flags").split())
    assert len(flags) > 30
    for where, text in texts.items():
        assert not [flag for flag in flags if not re.search(re.escape(flag) + "(?![a-z-])", text)], where


@pytest.mark.parametrize("words, offers", [
    (["belfryctl", "wa"], ["watch"]),
    (["belfryctl", "t"], ["txn", "top", "tree"]),
    (["belfryctl", "get", "--pr"], ["--prefix", "--print-value-only"]),
    (["belfryctl", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "--endpoints", "get", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "--endpoints", "=", "get", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "watch", "--inter"], []),
    (["belfryctl", "get", "-w", ""], ["simple", "json"]),
    (["belfryctl", "get", "--output", "=", "t"], ["table"]),
    (["belfryctl", "get", "--output", "="], ["json", "table"]),
    (["belfryctl", "get", "--limit", ""], []),
    (["belfryctl", "get", ""], []),
    (["belfryctl", "lease", "g"], ["grant"]),
    (["belfryctl", "help", "ver"], ["verify", "version"]),
    (["belfryd", "--log"], ["--log-bytes", "--log-level", "--log-format"]),
    (["belfryd", "--log-level", "w"], ["warn"]),
    (["belfryd", "--upstream-cacert", "comp"], ["completion.bash"]),
    (["belfryd", "--cache-dir", "comp"], []),
    (["belfry-bench", "st"], ["stall", "storm"]),
    (["belfry-bench", "idle", "--con"], ["--connections"]),
])
def test_bash_completes(tmp_path, words, offers):
    assert complete(tmp_path, *words) == offers


@pytest.mark.parametrize("words, offers", [
    (["belfryctl", "wa"], ["watch"]),
    (["belfryctl", "t"], ["top", "tree", "txn"]),
    (["belfryctl", "get", "--pr"], ["--prefix", "--print-value-only"]),
    (["belfryctl", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "--endpoints", "get", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "--endpoints=get", "put", "--pr"], ["--prev-kv"]),
    (["belfryctl", "watch", "--inter"], []),
    (["belfryctl", "get", "-w", ""], ["json", "simple"]),
    (["belfryctl", "get", "--output=t"], ["table"]),
    (["belfryctl", "get", "--output", ""], ["json", "table"]),
    (["belfryctl", "get", "--limit", ""], []),
    (["belfryctl", "get", ""], []),
    (["belfryctl", "get", "--he"], ["--help", "--hex"]),
    (["belfryctl", "lease", "g"], ["grant"]),
    (["belfryctl", "help", "ver"], ["verify", "version"]),
    (["belfryd", "--log-"], ["--log-bytes", "--log-format", "--log-level"]),
    (["belfryd", "--log-level", "w"], ["warn"]),
    (["belfryd", "--upstream-cacert", "set"], ["setup.zsh"]),
    (["belfryd", "--cache-dir", "set"], []),
    (["belfry-bench", "st"], ["stall", "storm"]),
    (["belfry-bench", "idle", "--con"], ["--connections"]),
])
def test_zsh_completes(zsh, words, offers):
    assert zsh(*words) == offers


def test_what_is_installed_is_what_the_tables_say():
    done = subprocess.run(["/usr/bin/python3", os.path.join(TOP, "tools", "options-doc"),
                           os.path.dirname(os.path.dirname(binary("belfryd")))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
