"""A difference in docs/compatibility.md is shown by a test that asks both servers and finds it: etcd and
belfryd, or for the lines `follow-...` an API server and a tier in front of it.

    @shows("gateway-cors")
    def test_x(differs, ...):
        differs("gateway-cors", etcd=..., belfryd=...)

A test that is marked and has not found every difference that it names fails. `test_differential.py` looks for the marks, and for those of
`follow-...` `test_kube_tier_differential.py`: a line of the page that no case and no marked test shows fails there. A suite in C marks a
test of belfryd's side with the comment `docs/compatibility.md: shows NAME`, where etcd's cannot be asked for."""
import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"
COMPATIBILITY = HERE.parents[1] / "docs/compatibility.md"
OF_SOME = re.compile(r"(before|from) \d|\d\.\d+(, \d\.\d+)*:|built ")  # how the words of a server begin, if not all versions do so


def lines():
    """name -> its line in docs/compatibility.md"""
    return {line.split("`")[1]: line for line in COMPATIBILITY.read_text().splitlines(True) if line.startswith("| `")}


def is_of_some_versions(name):
    """Do some servers differ as the line says, and others answer as belfryd does?"""
    return OF_SOME.match(lines()[name].split(" | ")[1]) is not None


def shows(*names):
    return pytest.mark.shows(*names)


class Differs:
    def __init__(self, wanted):
        self.wanted, self.found = wanted, set()

    def __call__(self, name, etcd, belfryd):
        """Both were asked the same, and this is what each said."""
        assert name in self.wanted, f"the test is not marked with {name}"
        assert etcd != belfryd or is_of_some_versions(name), f"{name}: there is no difference: {etcd}"
        self.found.add(name)

    def check(self):
        missing = self.wanted - self.found
        assert not missing, f"marked, but not found: {sorted(missing)}"


def names_of(item):
    return {name for mark in item.iter_markers("shows") for name in mark.args}


@pytest.fixture
def differs(request):
    judge = Differs(names_of(request.node))
    yield judge
    if getattr(request.node, "has_passed", False):
        judge.check()


def refuse_idle_marks(items):
    """A test that is marked and has no `differs` compares nothing."""
    idle = [item.nodeid for item in items if names_of(item) and "differs" not in item.fixturenames]
    if idle:
        raise pytest.UsageError(f"marked with shows(), and without the fixture `differs`: {idle}")


def marked_in_python(folder=HERE):
    """name -> tests that are marked with it. Read, not imported: whichever tests run, all marks are found."""
    found = {}
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "shows":
                    for name in mark.args:
                        found.setdefault(name.value, []).append(f"{path.name}: {node.name}")
    return found


def marked_in_c(folder=SOURCES):
    """The same of unit suites: a comment just before a test that is run."""
    found = {}
    for path in sorted(folder.rglob("*_test.c")):
        text = path.read_text()
        for comment, test in re.findall(r"/\*((?:(?!\*/).)*?)\*/\nstatic void (\w+)\(void \*\*", text, re.S):
            for name in re.findall(r"docs/compatibility\.md: shows ([a-z0-9-]+)", comment):
                if len(re.findall(rf"\b{test}\b", text)) > 1:
                    found.setdefault(name, []).append(f"{path.name}: {test}")
    return found
