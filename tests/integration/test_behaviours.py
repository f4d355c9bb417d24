"""docs/explanation/behaviours.md: the file that implements a rule and the test that shows it exist, the test by its name in its file."""
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+?) \| (the same|better|different) \| `([^`]+)` \| `([^`]+)`: `(\w+)` \|$")
WANTED = ["ids", "created", "progress", "fragments", "filters", "prev_kv", "compact", "synced", "catching up", "parked", "bookmark",
          "selector", "initial events", "410", "504", "frames", "sent again", "decoded"]


def rows(text):
    return [ROW.match(line) for line in text.splitlines() if line.startswith("| ") and not line.startswith("| rule |")]


def wrong(top, row):
    """What is wrong with a row; None: nothing."""
    _, _, source, test_file, test = row.groups()
    if not (top / source).is_file():
        return f"there is no {source}"
    if not (top / test_file).is_file():
        return f"there is no {test_file}"
    text = (top / test_file).read_text()
    if test_file.endswith(".py"):
        return None if re.search(rf"^def {test}\(", text, re.M) else f"{test_file} has no {test}"
    is_defined = re.search(rf"^static void {test}\(void \*\*", text, re.M)
    return None if is_defined and len(re.findall(rf"\b{test}\b", text)) > 1 else f"{test_file} does not run {test}"


@pytest.fixture(scope="module")
def page():
    return (TOP / "docs/explanation/behaviours.md").read_text()


def test_every_row_names_a_file_and_a_test_that_exist(page, figure):
    found = rows(page)
    assert len(found) > 100 and all(found), [line for line in page.splitlines() if line.startswith("| ") and not ROW.match(line)]
    said = [f"{row[1]}: {why}" for row in found if (why := wrong(TOP, row))]
    assert not said, "\n".join(said)
    assert f"rely on, {len(found)} of them" in page
    figure("behaviours", len(found), "rules, each with a file and a test")


def test_every_rule_that_clients_rely_on_has_a_row(page):
    missing = [word for word in WANTED if word not in page]
    assert not missing, missing


def test_a_file_or_a_test_that_is_gone_is_found(tmp_path):
    (tmp_path / "a.c").write_text("")
    (tmp_path / "a_test.c").write_text("static void it_works(void **state)\n{\n}\nstatic void unused(void **state)\n{\n}\ncmocka_unit_test(it_works)\n")
    (tmp_path / "t.py").write_text("def test_it():\n    pass\n")

    def said(source, file, test):
        return wrong(tmp_path, ROW.match(f"| rule | better | `{source}` | `{file}`: `{test}` |"))
    assert said("a.c", "a_test.c", "it_works") is None and said("a.c", "t.py", "test_it") is None
    assert said("b.c", "a_test.c", "it_works") == "there is no b.c"
    assert said("a.c", "b_test.c", "it_works") == "there is no b_test.c"
    assert said("a.c", "a_test.c", "it_fails") == "a_test.c does not run it_fails"
    assert said("a.c", "a_test.c", "unused") == "a_test.c does not run unused"
    assert said("a.c", "t.py", "test_other") == "t.py has no test_other"
