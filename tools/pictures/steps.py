"""Drawings of kind `steps`: what happens to one thing, step by step, in bands that say where.

    band ROLE "title"
    step "title" "text" ["figure"]              numbered; the figure stands at the right
    outcomes ROLE "title" "text" | ROLE ...     the last: one of these
"""
from pictures.layers import draw_captions
from pictures.paper import Paper, balanced, text_width
from pictures.text_form import Mistake, words

WIDTH, MARGIN, PAD, DISC = 640, 16, 14, 15
TITLE, SIZE = 17, 15
TEXT_LEFT = MARGIN + PAD + 2 * DISC + 14
FIGURES = 110  # room for figures at the right


class Steps:
    def __init__(self, text):
        self.paper, self.y, self.n = Paper(WIDTH, text.title, text.description), MARGIN, 0
        self.band_role, self.last_disc = None, None
        self.bands = []   # (role, top, bottom)
        self.later = []   # what is drawn over bands

    def end_band(self):
        if self.bands and self.bands[-1][2] is None:
            role, top, _ = self.bands[-1]
            self.bands[-1] = (role, top, self.y)
            self.y += 20

    def band(self, line):
        self.end_band()
        role, title = words(line.rest)
        self.bands.append((role, self.y, None))
        self.band_role = role
        self.later.append(lambda y=self.y: self.paper.text(TEXT_LEFT, y + 23, title, 14, role, "start", bold=True))
        self.y += 34

    def step(self, line):
        title, text, *figure = words(line.rest)
        if self.band_role is None:
            raise Mistake(f"line {line.number}: a step before the first band")
        self.n += 1
        width = WIDTH - MARGIN - PAD - TEXT_LEFT - (FIGURES if figure else 0)
        lines, top, role, n = balanced(text, SIZE, width), self.y, self.band_role, self.n
        if text_width(title, TITLE, True) > width:
            raise Mistake(f"line {line.number}: no room for: {title}")
        disc = top + DISC + 2
        self.later.append(lambda: self.draw_step(n, disc, role, title, lines, figure))
        if self.last_disc is not None:
            self.later.insert(0, lambda begin=self.last_disc: self.paper.arrow(
                f"M {MARGIN + PAD + DISC} {begin + DISC:.1f} V {disc - DISC - 2:.1f}", "muted", 2))
        self.last_disc = disc
        self.y += max(27 + 20 * len(lines) + 14, 56)

    def draw_step(self, n, disc, role, title, lines, figure):
        paper = self.paper
        paper.add("circle", role, cx=MARGIN + PAD + DISC, cy=disc, r=DISC)
        paper.text(MARGIN + PAD + DISC, disc + 5.5, str(n), 15, "ink-soft", bold=True)
        paper.text(TEXT_LEFT, disc + 6, title, TITLE, "ink", "start", bold=True)
        for i, text in enumerate(lines):
            paper.text(TEXT_LEFT, disc + 28 + 20 * i, text, SIZE, "muted", "start")
        if figure:
            paper.text(WIDTH - MARGIN - PAD, disc + 6, figure[0], 16, role, "end", bold=True)

    def outcomes(self, line):
        self.end_band()
        parts = [words(part) for part in line.rest.split("|")]
        width = (WIDTH - 2 * MARGIN - 12 * (len(parts) - 1)) / len(parts)
        bodies = [balanced(text, SIZE, width - 18) for _, _, text in parts]
        height, top = 36 + 20 * max(len(body) for body in bodies) + 8, self.y + 16
        begin = self.last_disc
        for i, ((role, title, _), body) in enumerate(zip(parts, bodies)):
            left = MARGIN + i * (width + 12)
            self.later.append(lambda *_, left=left, role=role, title=title, body=body: self.draw_outcome(
                left, top, width, height, role, title, body))
            turn = top - 14
            self.later.insert(0, lambda left=left: self.paper.arrow(
                f"M {MARGIN + PAD + DISC} {begin + DISC:.1f} V {turn:.1f} H {left + width / 2:.1f} V {top - 2:.1f}", "muted", 2))
        self.y = top + height

    def draw_outcome(self, left, top, width, height, role, title, body):
        self.paper.box(left, top, width, height, role)
        self.paper.text(left + width / 2, top + 26, title, TITLE, role, bold=True)
        for i, text in enumerate(body):
            self.paper.text(left + width / 2, top + 49 + 20 * i, text, SIZE, "ink")

    def finish(self, captions):
        self.end_band()
        for role, top, bottom in self.bands:
            self.paper.add("rect", f"{role}-soft", x=MARGIN, y=top, width=WIDTH - 2 * MARGIN, height=bottom - top, rx=10)
        for mark in self.later:
            mark()
        return self.paper.svg(draw_captions(self.paper, captions, self.y) + MARGIN)


def draw(text):
    steps = Steps(text)
    for line in text.lines:
        if line.keyword not in ("band", "step", "outcomes"):
            raise Mistake(f"line {line.number}: {line.keyword} is not known")
        getattr(steps, line.keyword)(line)
    return steps.finish(text.captions)
