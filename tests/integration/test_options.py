"""What is made from the tables of options: every flag is in --help, man page and completion, and bash completes what it should."""
import os
import re
import subprocess

import pytest

from client import binary

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = {"belfryd": "docs/man/belfryd.8", "belfryctl": "docs/man/belfryctl.1"}
COMPLETE = r"""
source "$1"; shift
name=_${1//-/_}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
"$name"; printf '%s\n' "${COMPREPLY[@]}"
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


def help_of(name):
    path = binary(name)
    text = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"^  ([a-z-]+) ", text.partition("Commands:\n")[2].partition("\n\n")[0], re.M):
        text += subprocess.run([path, command, "--help"], capture_output=True, text=True, check=True).stdout
    return text


@pytest.mark.parametrize("name", ["belfryd", "belfryctl", "belfry-bench"])
def test_every_flag_is_in_help_man_page_and_completion(name):
    texts = {"--help": help_of(name), "bash": made(name, "bash"), "fish": re.sub(r" -l ", " --", made(name, "fish"))}
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


def test_what_is_installed_is_what_the_tables_say():
    done = subprocess.run(["/usr/bin/python3", os.path.join(TOP, "tools", "options-doc"),
                           os.path.dirname(os.path.dirname(binary("belfryd")))], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
