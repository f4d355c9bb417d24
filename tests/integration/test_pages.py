"""Start and Tasks pages of docs/: their commands do what the page says. pages.py has the rules for blocks."""
from pathlib import Path

import pages
import procs
import pytest

TOP = Path(__file__).parents[2]
# Pages with a test of their own: start.md is run in a clean root by test_start_page.py.
FOLDERS = ["docs/start", "docs/tasks"]
PAGES = sorted(path for folder in FOLDERS for path in (TOP / folder).glob("*.md"))


@pytest.fixture(autouse=True)
def ended():
    yield
    procs.kill_all()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_page_does_what_it_says(page, tmp_path, figure):
    n_run, not_run = pages.run(page, tmp_path / "reader")
    figure(f"pages.{page.parent.name}.{page.stem}", n_run, f"blocks run, {len(not_run)} not"
           + "".join(f"; not run: {reason}" for reason in not_run))
    n_commands = sum(block.kind == "sh" for block in pages.blocks(page.read_text()))
    assert n_run + len(not_run) == n_commands
    if page.parent.name == "tasks":
        assert n_run >= 3, "a task is shown by commands that run"


def write(path, text):
    path.write_text(text)
    return path


def test_a_command_that_fails_fails_the_page(tmp_path):
    page = write(tmp_path / "a", "```sh\ntrue\nfalse\ntrue\n```\n")
    with pytest.raises(AssertionError, match="exits 1"):
        pages.run(page, tmp_path / "reader")


def test_other_output_than_the_page_has_fails_it(tmp_path):
    good = write(tmp_path / "a", "1. Say it:\n\n    ```sh\n    echo 'took 12.5 s'; echo more; echo end\n    ```\n\n"
                                    "    ```text\n    took 3 s\n    ...\n    end\n    ```\n")
    assert pages.run(good, tmp_path / "good") == (1, [])
    bad = write(tmp_path / "b", "```sh\necho one\n```\n\n```text\ntwo\n```\n")
    with pytest.raises(AssertionError, match="prints\none"):
        pages.run(bad, tmp_path / "bad")


def test_a_command_that_must_fail_and_does_not_fails_the_page(tmp_path):
    assert pages.run(write(tmp_path / "a", "<!-- fails -->\n```sh\necho no; exit 3\n```\n\n```text\nno\n```\n"),
                     tmp_path / "good") == (1, [])
    with pytest.raises(AssertionError, match="must fail"):
        pages.run(write(tmp_path / "b", "<!-- fails -->\n```sh\ntrue\n```\n"), tmp_path / "bad")


def test_the_shell_goes_on_and_files_are_written(tmp_path):
    page = write(tmp_path / "a", "```sh\nx=5; sleep 100 &\n```\n<!-- file: f.txt -->\n```yaml\na: 1\n```\n"
                                    "<!-- not run: it never ends -->\n```sh\nsleep 9999\n```\n```sh\necho $x; cat f.txt; kill %1\n```\n"
                                    "```text\n5\na: 1\n```\n")
    assert pages.run(page, tmp_path / "reader") == (2, ["it never ends"])


def test_a_page_reaches_only_processes_that_it_has_started(tmp_path):
    """A page that kills by name must not reach servers of other tests. This one looks for a process outside, and signals none."""
    outside = procs.spawn(["sleep", "4711"])
    page = write(tmp_path / "a", "```sh\nsleep 4712 &\npgrep -f 'sleep 471[2]' | wc -l\n! pgrep -f 'sleep 471[1]'\n```\n\n```text\n1\n```\n")
    assert pages.run(page, tmp_path / "reader") == (1, [])
    assert outside.poll() is None


def test_what_a_page_has_started_ends_with_it(tmp_path):
    page = write(tmp_path / "a", "```sh\nsetsid sleep 4713 &\nsleep 0.2\n```")
    pages.run(page, tmp_path / "reader")
    procs.wait_until(lambda: procs.run(["pgrep", "-f", "sleep 471[3]"], check=False).returncode == 1, 10)


@pytest.mark.parametrize("text,why", [
    ("```yaml\na: 1\n```\n", "neither run, nor written"), ("```text\nhello\n```\n", "no commands before"),
    ("<!-- not run -->\n```sh\ntrue\n```\n", "needs a reason"), ("<!-- fails -->\n```yaml\na\n```\n", "is for commands")])
def test_a_block_that_nothing_checks_is_a_mistake(text, why):
    with pytest.raises(pages.Mistake, match=why):
        pages.blocks(text)
