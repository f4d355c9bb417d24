"""docs/promises.yaml: what several pages say about the same thing is the same, is what the code has, and has a test that exists."""
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from client import binary

TOP = Path(__file__).parents[2]
PROGRAMS = ("belfryd", "belfryctl")
WORDS = "none one two three four five six seven eight nine ten".split()
GIVEN = re.compile(r"\{(\w+)\}")


class Promises:
    """`top`: the tree that is looked at."""

    def __init__(self, top, text):
        self.top, self.all = Path(top), yaml.safe_load(text)

    def list(self):
        return self.all["promises"]

    def value(self, name):
        """What the code, or a result that is kept, says; as text."""
        where = self.all["values"][name]
        if "json" in where:
            value = json.loads((self.top / where["json"]).read_text())
            for key in where["at"]:
                value = next(row for row in value if row["work"] == key) if isinstance(value, list) else value[key]
        else:
            found = re.search(where["pattern"], (self.top / where["file"]).read_text(), re.M | re.S)
            assert found, f"{where['file']} has nothing that looks like {where['pattern']}"
            value = found[1]
        if "divide" in where:
            value = round(float(str(value).replace(",", "")) / where["divide"])
        if "digits" in where:
            value = f"{value:.{where['digits']}f}"
        return WORDS[int(value)] if where.get("word") else str(value)

    def text_of(self, page):
        return help_of(page) if page.split()[0] in PROGRAMS else (self.top / page).read_text()

    def wrong_on_pages(self, promise):
        """One sentence per page that does not say it, or says it of another value."""
        for name, is_ in promise.get("values_are", {}).items():
            if self.value(name) != str(is_):
                yield f"{promise['id']}: {name} is {self.value(name)}, and the pages speak of {is_}"
        for page, sentence in promise["pages"].items():
            said = GIVEN.sub(lambda given: self.value(given[1]), sentence)
            if plain(said) not in plain(self.text_of(page)):
                yield f"{promise['id']}: {page} does not say: {said}"

    def wrong_tests(self, promise):
        for shown in promise.get("shown_by", []):
            file, _, test = shown.partition(": ")
            if not (self.top / file).is_file():
                yield f"{promise['id']}: there is no {file}"
            elif test and not re.search(rf"^(?:def|static void) {test}\(", (self.top / file).read_text(), re.M):
                yield f"{promise['id']}: {file} has no {test}"

    def said_anyway(self, pages):
        """`pages`: {name: text}. What is not so, and is said."""
        for name, text in pages.items():
            text = plain(text)
            for promise in self.list():
                yield from (f"{name} says: {sentence}" for sentence in promise.get("nowhere", []) if plain(sentence) in text)

    def wrong(self, pages):
        for promise in self.list():
            yield from self.wrong_on_pages(promise)
            yield from self.wrong_tests(promise)
        yield from self.said_anyway(pages)


def plain(text):
    """Text as a reader sees it: without links, marks of code and emphasis, list marks and line breaks."""
    text = re.sub(r"\[([^\]]*)\]\((?:[^)\s]*)\)", r"\1", text)
    text = re.sub(r"^\s*(?:- |#+ ?(?=bash|\S))", "", text, flags=re.M)
    return re.sub(r"\s+", " ", re.sub(r"[`*]", "", text)).strip()


def help_of(command):
    """What "belfryd --help" or "belfryctl help kube" prints."""
    program, *words = command.split()
    return subprocess.run([binary(program), *words], capture_output=True, text=True, check=True).stdout


def documents():
    """Every page, header and help text, but for the changes of each version: those tell what was so."""
    paths = [*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("docs/man/*.?"), *TOP.glob("include/**/*.h"),
             TOP / "bench/README.md", TOP / ".ci/run", TOP / "src/main/belfryd.c"]
    texts = {str(path.relative_to(TOP)): path.read_text() for path in paths if path.name != "CHANGELOG.md"}
    commands = re.findall(r"^  (\w+) ", help_of("belfryctl help").partition("Commands:\n")[2].partition("\n\n")[0], re.M)
    assert len(commands) > 15, commands
    return texts | {shown: help_of(shown) for shown in ["belfryd --help", "belfryctl help", *(f"belfryctl help {name}" for name in commands)]}


@pytest.fixture(scope="module")
def promises():
    return Promises(TOP, (TOP / "docs/promises.yaml").read_text())


def test_pages_agree_with_each_other_and_with_the_code(promises, figure):
    pages = documents()
    assert len(pages) > 80
    said = list(promises.wrong(pages))
    assert not said, "\n".join(said)
    n_sentences = sum(len(promise["pages"]) for promise in promises.list())
    assert n_sentences > 40
    figure("promises", len(promises.list()), f"promises, {n_sentences} sentences compared")


def test_the_pages_that_make_promises_are_compared(promises):
    compared = {page for promise in promises.list() for page in promise["pages"]}
    assert {"README.md", "docs/guarantees.md", "docs/security.md", "docs/start/not-for.md", "belfryd --help"} <= compared


def test_each_promise_in_the_table_of_guarantees_names_what_shows_it():
    """The last column has "sim", integration tests, or a suite with its test."""
    table = (TOP / "docs/guarantees.md").read_text().split("\n| promise |")[1].split("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) > 20
    for row in rows:
        for name in re.split(r",\s*", row[-1].replace("`", "")):
            file, _, test = name.partition(": ")
            there = [path for path in (TOP / f"tests/integration/{file}.py", TOP / f"tests/integration/{file}", TOP / file) if path.is_file()]
            assert name == "sim" or there, f"{row[0]}: {name} is no test"
            assert not test or re.search(rf"\b{test}\(", there[0].read_text()), f"{row[0]}: {file} has no {test}"


# ---- that it can fail ----

PLANTED = """
values:
  period: {file: a.c, pattern: 'PERIOD (\\d+)', divide: 1000}
  lost: {json: r.json, at: [rows, lost, here], digits: 0, word: true}
promises:
  - id: one
    pages: {x.txt: "It ends in {period} s.", y.txt: "ended {lost}"}
    shown_by: ["t.py: test_it"]
    nowhere: ["it never ends"]
"""


@pytest.fixture
def planted(tmp_path):
    for name, text in {"a.c": "#define PERIOD 10000\n", "r.json": '{"rows": [{"work": "lost", "here": 0.0}]}',
                       "x.txt": "- It [ends](b#c) in\n  **10** s.", "y.txt": "`ended` none", "t.py": "def test_it():\n    pass\n"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name,text,said", [
    (None, None, []),
    ("a.c", "#define PERIOD 12000\n", ["one: x.txt does not say: It ends in 12 s."]),
    ("x.txt", "It ends in 11 s.", ["one: x.txt does not say: It ends in 10 s."]),
    ("r.json", '{"rows": [{"work": "lost", "here": 2.0}]}', ["one: y.txt does not say: ended two"]),
    ("t.py", "def test_other():\n    pass\n", ["one: t.py has no test_it"]),
    ("x.txt", "It ends in 10 s. But *it never\nends*.", ["x.txt says: it never ends"]),
])
def test_a_page_that_says_something_else_is_found(planted, name, text, said):
    if name:
        (planted / name).write_text(text)
    pages = {page.name: page.read_text() for page in planted.glob("*.txt")}
    assert list(Promises(planted, PLANTED).wrong(pages)) == said
