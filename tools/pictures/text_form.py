"""The text of a drawing, line by line: a keyword and words, where "..." is one word. Lines with # are remarks.

    title TEXT        what the picture shows, in a few words
    describe TEXT     the same for those who cannot see it; may repeat, the lines are joined
    caption TEXT      a line under the drawing; may repeat
"""
import collections
import re

WORD = re.compile(r'"([^"]*)"|(\S+)')
Line = collections.namedtuple("Line", "number keyword rest")


class Mistake(Exception):
    """A text that cannot be drawn, and why."""


def words(text):
    return [quoted if word == "" else word for quoted, word in WORD.findall(text)]


class Text:
    """What all drawings have; `lines` are the others, for the kind of drawing that the text names."""

    def __init__(self, text):
        self.title, self.kind, self.lines = None, None, []
        descriptions, self.captions = [], []
        for number, line in enumerate(text.splitlines(), 1):
            keyword, _, rest = line.strip().partition(" ")
            rest = rest.strip()
            if keyword == "" or keyword.startswith("#"):
                continue
            if keyword == "title":
                self.title = rest
            elif keyword == "kind":
                self.kind = rest
            elif keyword == "describe":
                descriptions.append(rest)
            elif keyword == "caption":
                self.captions.append(rest)
            else:
                self.lines.append(Line(number, keyword, rest))
        self.description = " ".join(descriptions)
        for what, found in (("title", self.title), ("kind", self.kind), ("describe", self.description)):
            if not found:
                raise Mistake(f"there is no line '{what}'")
