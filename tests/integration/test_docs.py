"""Limits that docs state are those of the code."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]

# page, the sentence with its number as the group, and where the code has it
LIMITS = [
    ("docs/kubernetes.md", r"(\d+) label keys per version of a resource are indexed", "src/serve/kube/kube_forms.h",
     "KUBE_LENS_LABELS"),
]


@pytest.mark.parametrize("page,sentence,header,name", LIMITS)
def test_a_limit_in_docs_is_that_of_the_code(page, sentence, header, name):
    said = re.search(sentence, re.sub(r"\s+", " ", (TOP / page).read_text()))
    is_ = re.search(rf"#define {name}\s+(\d+)", (TOP / header).read_text())
    assert said, f"{page} does not say: {sentence}"
    assert said[1] == is_[1], f"{page} says {said[1]}, {header} has {name} {is_[1]}"


def test_docs_for_users_of_clientv3_say_what_differs_in_streams_leaders_and_fragments():
    rows = (TOP / "docs/coming-from.md").read_text()
    for word in "ErrNoLeader", "one gRPC stream per session", "in fragments only after":
        assert word in rows, f"docs/coming-from.md says nothing of {word}"


# ---- docs/architecture.md ----

def architecture():
    return (TOP / "docs/architecture.md").read_text()


def rows_below(text, head):
    """First cells of the table that begins with `head`."""
    table = text.split(f"\n{head}")[1].split("\n\n")[0]
    return [line.strip("| ").split(" | ")[0] for line in table.splitlines()[2:]]


def folders():
    """Folders of src/ that have C, as the map names them."""
    return sorted({path.parent.relative_to(TOP / "src").as_posix() for path in (TOP / "src").rglob("*.c")})


def locks_of(top):
    """Files that have a mutex, but for suites."""
    found = {path.relative_to(top / "src").as_posix() for path in (top / "src").rglob("*.[ch]")
             if not path.stem.endswith("_test") and re.search(r"^\s*(?:static )?pthread_(?:mutex|rwlock|spinlock)_t \w+", path.read_text(), re.M)}
    return sorted(found)


def test_the_map_has_every_folder():
    """That its arrows are the includes is the gate's: tools/layering --map --check."""
    text, parts = architecture(), [name for name in folders() if not name.startswith("cli/")]  # cli is one room
    drawn = re.findall(r"(?:^row|\|) (\S+)", (TOP / "docs/drawings/map.txt").read_text(), re.M)
    assert "](drawings/map.svg)" in text and len(drawn) > 25 and sorted(drawn) == parts
    listed = [name.strip("`/").removeprefix("src/") for name in rows_below(text, "| folder |")]
    assert [name for name in parts if name not in listed] == []


def test_the_table_of_locks_is_that_of_the_code():
    listed = sorted(file for cell in rows_below(architecture(), "| lock |") for file in re.findall(r"`([^`]+)`", cell))
    assert len(listed) > 15 and listed == locks_of(TOP)


def test_a_lock_that_is_not_on_the_page_is_found(tmp_path):
    (tmp_path / "src/a").mkdir(parents=True)
    (tmp_path / "src/a/b.c").write_text("static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;\n")
    (tmp_path / "src/a/b_test.c").write_text("static pthread_mutex_t mu;\n")
    (tmp_path / "src/a/c.h").write_text("struct c {\n    pthread_mutex_t mu; /* of it */\n};\n")
    assert locks_of(tmp_path) == ["a/b.c", "a/c.h"]


# ---- docs/client-go.md ----

SUITES = dict(re.findall(r"^\| (\w) \| `([^`]+)` \|$", (TOP / "docs/client-go.md").read_text(), re.M))


def named_by(cell):
    """(file, test) that the last cell of a row names: a letter or a file, then its tests."""
    file = None
    for letter, quoted in re.findall(r"(?:^|[\s;(])([RSFI]) (?=`)|`([\w./]+)`", cell):
        if letter:
            file = SUITES[letter]
        elif quoted.endswith((".c", ".py")):
            file = quoted
            yield file, None
        else:
            yield file, quoted


def no_such_test(file, test):
    there = [path for path in (TOP / file, *(TOP / "src").rglob(file), TOP / "tests/integration" / file) if path.is_file()] if file else []
    if not there:
        return f"{file} is no file"
    if test and not any(re.search(rf"\b(?:static void|def) {test}\(", path.read_text()) for path in there):
        return f"{file} has no {test}"
    return None


def test_each_test_that_client_go_names_exists():
    lines = [line for line in (TOP / "docs/client-go.md").read_text().splitlines() if line.startswith("| ") and line.count(" | ") == 3]
    named = [pair for line in lines for pair in named_by(line.strip("| ").split(" | ")[-1])]
    assert len(named) > 80
    said = [why for file, test in named if (why := no_such_test(file, test))]
    assert not said, "\n".join(said)


def test_a_test_that_is_in_another_file_is_found():
    assert no_such_test("kube_test.c", "every_warning_is_told_once") == "kube_test.c has no every_warning_is_told_once"
    assert no_such_test("kube_client_test.c", "every_warning_is_told_once") is None
    assert no_such_test("gone_test.c", "x") == "gone_test.c is no file"


# ---- docs/explanation/change-one-thing.md ----


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def steps(page):
    """(files, what each of them has today) of each row of the page's tables."""
    for table in page.split("\n| file |")[1:]:
        for line in table.split("\n\n")[0].splitlines()[2:]:
            cells = line.strip("| ").split(" | ")
            yield quoted(cells[0]), quoted(cells[-1])


def not_so(top, files, there):
    """What is wrong with a row."""
    if not files or not there:
        yield f"a row names {len(files)} files, and {len(there)} things in them"
    for file in files:
        if not (top / file).is_file():
            yield f"{file} is no file"
        else:
            yield from (f"{file} has no {text}" for text in there if text not in (top / file).read_text())


def test_each_step_of_change_one_thing_is_like_one_that_was_done():
    page = (TOP / "docs/explanation/change-one-thing.md").read_text()
    rows = list(steps(page))
    assert page.count("\n| file |") == 3 and len(rows) > 35
    said = [why for files, there in rows for why in not_so(TOP, files, there)]
    prose = {name for name in quoted(re.sub(r"```sh.*?```|^\|.*?$", "", page, flags=re.S | re.M)) if "/" in name and " " not in name}
    said += [f"{name} is no file" for name in prose if not name.startswith("/") and not (TOP / name).is_file()]
    tools = re.findall(r"^(tools/[\w-]+)", page, re.M)
    said += [f"{name} is no tool" for name in tools if not (TOP / name).is_file()]
    assert len(prose) >= 5 and len(tools) >= 6 and not said, "\n".join(said)


def test_a_step_that_is_not_so_is_found(tmp_path):
    (tmp_path / "a.c").write_text("enum { KEY_A };\n")
    page = "\n| file | what | as today |\n|---|---|---|\n| `a.c` | x | `KEY_A` |\n| `a.c` and `b.c` | x | `KEY_B` |\n| `a.c` | x | nothing |\n\nend"
    said = [why for files, there in steps(page) for why in not_so(tmp_path, files, there)]
    assert said == ["a.c has no KEY_B", "b.c is no file", "a row names 1 files, and 0 things in them"]
