"""The site: mkdocs builds it from docs/ without a warning and without a network, and every link in it leads somewhere."""
import html.parser
import os
import posixpath
import re
import shutil
import urllib.parse
from pathlib import Path

import needs
import procs
import pytest

TOP = Path(__file__).parents[2]
ELSEWHERE = re.compile(r"(?:[a-z]+:|//)")
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(html.parser.HTMLParser):
    """Ids, links, and what a browser loads by itself. The theme's navigation is left out of `text`."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.paragraphs, self._depth = set(), [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "p":
            self._depth += 1
            self.paragraphs.append("")
        for loaded, name in LOADED:
            if tag == loaded and attributes.get(name) and attributes.get("rel") not in ("canonical", "prev", "next"):
                self.loads.append(attributes[name])

    def handle_endtag(self, tag):
        self._depth -= tag == "p" and self._depth > 0

    def handle_data(self, data):
        if self._depth:
            self.paragraphs[-1] += data


def build(folder):
    """Builds the site into `folder`, in a network without a way out; returns what mkdocs said."""
    if not shutil.which("mkdocs"):
        needs.missing("mkdocs")
    command = ["mkdocs", "build", "--strict", "--config-file", TOP / "mkdocs.yml", "--site-dir", folder]
    done = procs.run(["unshare", "--net", *command], env={**os.environ, "PYTHONWARNINGS": "ignore"}, timeout=300, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    said = build(folder)
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    return folder, pages, said


def broken(folder, pages):
    """One sentence per link that leads nowhere."""
    for name, page in pages.items():
        for link in page.links + page.loads:
            if ELSEWHERE.match(link) or name == "404.html":
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path.partition("?")[0])) if path else name
            if (folder / target).is_dir():
                target = posixpath.join(target, "index.html")
            if not (folder / target).is_file():
                yield f"{name}: {link} leads nowhere"
            elif anchor and target in pages and anchor not in pages[target].ids:
                yield f"{name}: {link}: {target} has no #{anchor}"


def test_it_builds_without_a_warning(site):
    assert "WARNING" not in site[2] and "ERROR" not in site[2], site[2]


def test_every_link_leads_somewhere(site, figure):
    folder, pages, _ = site
    said = list(broken(folder, pages))
    assert not said, "\n".join(said)
    n_links = sum(len(page.links) for page in pages.values())
    figure("site.pages", len(pages), f"pages, {n_links} links checked")
    assert len(pages) > 90 and n_links > 5000, "something was looked at"


def test_nothing_is_loaded_from_elsewhere(site):
    outside = {load for page in site[1].values() for load in page.loads if ELSEWHERE.match(load) and not load.startswith("data:")}
    assert not outside, outside


def test_lists_and_tables_are_not_taken_for_text(site):
    """GitHub and mkdocs read lists differently: a list without an empty line before it is text for mkdocs."""
    wrong = [f"{name}: {text[:80]!r}" for name, page in site[1].items() for text in page.paragraphs
             if re.search(r"\n(?:- |\d+\. |\|.*\|$)", text)]
    assert not wrong, "\n".join(wrong)


def test_every_page_is_reached_from_the_first(site):
    folder, pages, _ = site
    reached, wanted = set(), ["index.html"]
    while wanted:
        name = wanted.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        for link in pages[name].links:
            path = link.partition("#")[0]
            if path and not ELSEWHERE.match(link):
                wanted.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), urllib.parse.unquote(path))))
    assert set(pages) - reached <= {"404.html"}, sorted(set(pages) - reached)


def test_the_first_page_has_version_license_and_commands_that_do_not_break(site):
    text = re.sub(r"<[^>]+>", "", (site[0] / "index.html").read_text())
    version = (TOP / "VERSION").read_text().strip()
    assert f"Version {version}" in text and "License: Apache-2.0" in text and "cmake --workflow --preset release" in text
    blocks = re.findall(r"^```sh\n(.*?)^```", (TOP / "docs/index.md").read_text(), re.M | re.S)
    assert len(blocks) >= 2
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 72


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "b.html").write_text('<h2 id="here">x</h2>')
    pages = {"a.html": Page('<a href="b.html#here">1</a> <a href="b.html#gone">2</a> <a href="c.html">3</a> <img src="d.svg">'),
             "b.html": Page('<h2 id="here">x</h2>')}
    assert list(broken(tmp_path, pages)) == ["a.html: b.html#gone: b.html has no #gone", "a.html: c.html leads nowhere",
                                             "a.html: d.svg leads nowhere"]
