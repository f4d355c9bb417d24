"""What mkdocs.yml cannot say: which files outside docs/ are pages of the site, and where links that leave docs/ lead.

Documents of the repository link to each other as files do, from folder to folder. In the site:
- a link to a page of the site, from wherever, leads to that page;
- a link to another file of the repository (a header, a folder) becomes its text: the site is read without the repository;
- a link to nothing is left as it is, so that `mkdocs build --strict` fails;
- <!-- version --> is the version in VERSION.

Besides, what the theme lacks for readers with a keyboard or a screen reader: a name of the search dialog, and parts that scroll and can be
reached by keyboard. Long names may break at underscores and slashes.
"""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTSIDE = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "bench/README.md", "examples/README.md",
           "tests/integration/README.md", "src/serve/README.md"]
LEFT_OUT = ("man/", "abi/", "scale/", "promises.yaml")
INDEX = "index.md"

CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[\w-]+)?\)")


def on_files(files, config):
    for file in list(files):
        if file.src_uri.startswith(LEFT_OUT):
            files.remove(file)
    for name in OUTSIDE:
        files.append(File(name, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_post_page(output, **_):
    output = re.sub(r'(<div class="md-search"[^>]*role="dialog")', r'\1 aria-label="Search"', output)
    output = re.sub(r'(<div class="md-search__scrollwrap")', r'\1 tabindex="0"', output)
    output = re.sub(r"(?<=<code>)[\w./-]{25,}(?=</code>)", lambda match: re.sub(r"(?<=[_/])", "<wbr>", match[0]), output)
    return re.sub(r"<pre(?=[ >])", '<pre tabindex="0"', output)


def in_repository(uri):
    """The path from the top of the repository of a page."""
    return uri if uri in OUTSIDE else "docs/" + uri


def moved(uri, target):
    """Where a link of the page `uri` leads in the site; None: not to a page of the site."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(uri)), target))
    if path in ("README.md", "docs"):
        path = "docs/" + INDEX
    if path.startswith("docs/") and not path[5:].startswith(LEFT_OUT) and (ROOT / path).is_file():
        return posixpath.relpath(path[5:], posixpath.dirname(uri) or ".")
    if path in OUTSIDE:
        return posixpath.relpath(path, posixpath.dirname(uri) or ".")
    return None if (ROOT / path).exists() else target


def rewritten(uri, match):
    image, text, target, anchor = match.groups()
    if re.match(r"[a-z]+:", target):
        return match[0]
    to = moved(uri, target)
    return text if to is None else f"{image}[{text}]({to}{anchor or ''})"


def on_page_markdown(markdown, page, **_):
    """Code is left alone: it is put aside while links are rewritten. Code within the text of a link comes back with it."""
    aside = []

    def put_aside(match):
        aside.append(match[0])
        return f"\x02{len(aside) - 1}\x03"

    markdown = markdown.replace("<!-- version -->", (ROOT / "VERSION").read_text().strip())
    text = LINK.sub(lambda match: rewritten(page.file.src_uri, match), CODE.sub(put_aside, markdown))
    return re.sub("\x02(\\d+)\x03", lambda match: aside[int(match[1])], text)
