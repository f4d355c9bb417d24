"""A terminal's screen as a picture. The screen comes as tmux gives it: lines of text with SGR sequences, and no others.

Words are placed by their column, because the reader's font may be wider than ours: what stands in a column stays in it.
"""
import collections
import re

from pictures.paper import Paper

CELL, LINE, SIZE, PAD, BAR = 8.2, 20, 13.6, 16, 34  # pixels; BAR: the window's title bar
SGR = re.compile(r"\x1b\[([\d;]*)m")
OTHER = re.compile(r"\x1b")
# tmux's colours 0 to 7, and bright 0 to 7, on a dark ground
COLOURS = ("#484f58", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#c9d1d9",
           "#8b949e", "#ffa198", "#7ee787", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff")
INK, GROUND, FRAME = "#e6edf3", "#10151c", "#3d4650"

Look = collections.namedtuple("Look", "colour bold dim reverse underline")
PLAIN = Look(None, False, False, False, False)
Run = collections.namedtuple("Run", "column text look")


def changed(look, codes):
    """The look after an SGR sequence."""
    for code in (int(code or 0) for code in codes.split(";")):
        if code == 0:
            look = PLAIN
        elif code in (1, 2, 4, 7):
            look = look._replace(**{{1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code]: True})
        elif code == 22:
            look = look._replace(bold=False, dim=False)
        elif code in (24, 27):
            look = look._replace(**{"underline" if code == 24 else "reverse": False})
        elif 30 <= code <= 37 or 90 <= code <= 97:
            look = look._replace(colour=COLOURS[code - 30 if code < 90 else code - 82])
        elif code == 39:
            look = look._replace(colour=None)
    return look


def runs(line):
    """A line of the screen as runs of one look. A gap of two spaces ends a run, too."""
    found, column, look = [], 0, PLAIN
    for i, part in enumerate(SGR.split(line)):
        if i % 2:
            look = changed(look, part)
            continue
        if OTHER.search(part):
            raise ValueError(f"not a sequence of colours: {part!r}")
        pieces = [(0, part)] if look.reverse or look.underline else [
            (piece.start(), piece[0]) for piece in re.finditer(r"\S+(?: \S+)*", part)]
        found += [Run(column + start, text, look) for start, text in pieces if text]
        column += len(part)
    return found


def trimmed(lines):
    """Without the empty lines at the end."""
    lines = [line.rstrip() for line in lines]
    while lines and not SGR.sub("", lines[-1]).strip():
        lines.pop()
    return lines


class Window:
    """A terminal's screen in a frame."""

    def __init__(self, title, lines, columns):
        self.title, self.lines, self.columns = title, trimmed(lines), columns

    def height(self):
        return BAR + LINE * len(self.lines) + 2 * PAD - 6

    def draw(self, paper, top):
        width = paper.width - 2
        paper.add("rect", x=1, y=top + 1, width=width, height=self.height() - 2, rx=10, fill=GROUND, stroke=FRAME)
        for i, colour in enumerate(("#ff6b62", "#f5bd4f", "#55c463")):
            paper.add("circle", cx=20 + 18 * i, cy=top + BAR / 2 + 1, r=5.5, fill=colour)
        paper.add("text", content=escaped(self.title), x=paper.width / 2, y=top + BAR / 2 + 6, font_size=14, fill="#9aa4af",
                  text_anchor="middle")
        paper.add("line", x1=1, y1=top + BAR, x2=paper.width - 1, y2=top + BAR, stroke=FRAME)
        for row, line in enumerate(self.lines):
            for run in runs(line):
                self.draw_run(paper, run, top + BAR + PAD + LINE * row)

    @staticmethod
    def draw_run(paper, run, top):
        x, width, look = PAD + run.column * CELL, len(run.text) * CELL, run.look
        colour = look.colour or INK
        if look.reverse:
            paper.add("rect", x=x, y=top - 3, width=width, height=LINE, fill=colour)
            colour = GROUND
        more = {"font_weight": 700} if look.bold else {}
        if look.dim:
            more["fill_opacity"] = 0.65
        if look.underline:
            more["text_decoration"] = "underline"
        paper.add("text", "mono", escaped(run.text), x=x, y=top + 12, font_size=SIZE, fill=colour, textLength=width,
                  lengthAdjust="spacingAndGlyphs", **more)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def draw(title, description, windows):
    """Windows, one below the other."""
    columns = max(window.columns for window in windows)
    paper, y = Paper(columns * CELL + 2 * PAD, title, description, ground=False), 0
    for window in windows:
        window.draw(paper, y)
        y += window.height() + 12
    return paper.svg(y - 12)
