"""Drawings of kind `sequence`: who says what to whom, from top to bottom.

    actors NAME ROLE "title" "subtitle" | NAME ...
    at "0 ms"                       a time, in the margin, beside what comes next
    message FROM TO "label" [dashed] [ROLE]
    wait ACTOR "text"               ACTOR waits, or works; a box on its line
    note FIRST LAST "text" [ROLE]   a box across lines
    dies ACTOR "text"               its line ends
    starts ACTOR "text"             its line begins again
"""
from pictures.layers import draw_captions
from pictures.paper import Paper, text_width, wrapped
from pictures.text_form import Mistake, words

WIDTH, MARGIN, HEAD, STEP = 640, 20, 58, 46
SIZE = 15
TIMES = 74  # the margin for times


class Actor:
    def __init__(self, x, width, role, title, subtitle):
        self.x, self.width, self.role, self.title, self.subtitle = x, width, role, title, subtitle
        self.alive_since = None  # y; None while it is dead
        self.lives = []          # (from, to)


class Sequence:
    """The state of a drawing: how far down it has come."""

    def __init__(self, text):
        self.paper = Paper(WIDTH, text.title, text.description)
        self.actors, self.y, self.time = {}, MARGIN, None
        self.marks = []  # what is drawn over the lines
        self.left = MARGIN + (TIMES if any(line.keyword == "at" for line in text.lines) else 0)

    def actor(self, line, name):
        if name not in self.actors:
            raise Mistake(f"line {line.number}: there is no actor {name}")
        return self.actors[name]

    def set_actors(self, line):
        parts = [words(part) for part in line.rest.split("|")]
        width = (WIDTH - MARGIN - self.left) / len(parts)
        for i, part in enumerate(parts):
            if len(part) != 4:
                raise Mistake(f'line {line.number}: an actor is NAME ROLE "title" "subtitle"')
            name, *rest = part
            self.actors[name] = Actor(self.left + (i + 0.5) * width, width - 12, *rest)
        self.y += HEAD
        for actor in self.actors.values():
            actor.alive_since = self.y
        self.y += 10

    def step(self, height):
        """The middle of the next step, which is so high."""
        self.y += height
        if self.time is not None:
            self.marks.append(lambda y=self.y - height / 2, time=self.time: self.paper.text(
                MARGIN - 4, y + 5, time, 15, "muted", "start", bold=True))
            self.time = None
        return self.y - height / 2

    def message(self, line):
        source, target, label, *flags = words(line.rest)
        a, b = self.actor(line, source), self.actor(line, target)
        y = self.step(STEP) + 12
        role = next((flag for flag in flags if flag != "dashed"), a.role)
        end = b.x - 3 if b.x > a.x else b.x + 3
        middle, width = (a.x + b.x) / 2, text_width(label, SIZE)
        middle = min(max(middle, width / 2 + 10), WIDTH - width / 2 - 10)

        def mark():
            self.paper.label(middle, y - 13, label, SIZE, "ink")
            self.paper.arrow(f"M {a.x:.1f} {y:.1f} H {end:.1f}", role, 2, "dashed" in flags)
        self.marks.append(mark)

    def panel(self, left, right, label, role):
        lines = wrapped(label, SIZE, right - left - 14)
        height = 20 * len(lines) + 12
        y = self.step(height + 12)

        def mark():
            self.paper.add("rect", f"{role}-area", x=left, y=y - height / 2, width=right - left, height=height, rx=7,
                           stroke_width=1.2)
            for i, text in enumerate(lines):
                self.paper.text((left + right) / 2, y - height / 2 + 21 + 20 * i, text, SIZE, "ink")
        self.marks.append(mark)

    def wait(self, line):
        name, label = words(line.rest)
        actor = self.actor(line, name)
        width = min(max(text_width(label, SIZE) + 18, 60), 210)
        left = min(max(actor.x - width / 2, self.left - 8 if self.left > MARGIN else 8), WIDTH - 8 - width)
        self.panel(left, left + width, label, actor.role)

    def note(self, line):
        first, last, label, *role = words(line.rest)
        a, b = self.actor(line, first), self.actor(line, last)
        self.panel(a.x - a.width / 2, b.x + b.width / 2, label, role[0] if role else "muted")

    def dies(self, line):
        name, label = words(line.rest)
        actor = self.actor(line, name)
        y = self.step(44)
        actor.lives.append((actor.alive_since, y))
        actor.alive_since = None

        def mark():
            self.paper.add("path", "warn-line", d=f"M {actor.x - 9:.1f} {y - 9:.1f} l 18 18 m 0 -18 l -18 18", stroke_width=4,
                           stroke_linecap="round")
            self.paper.label(actor.x + 20, y, label, SIZE, "warn", "start", bold=True)
        self.marks.append(mark)

    def starts(self, line):
        name, label = words(line.rest)
        actor = self.actor(line, name)
        y = self.step(40)
        actor.alive_since = y

        def mark():
            self.paper.add("circle", f"{actor.role}-area", cx=actor.x, cy=y, r=7, stroke_width=2)
            self.paper.label(actor.x + 20, y, label, SIZE, actor.role, "start", bold=True)
        self.marks.append(mark)

    def take(self, line):
        if line.keyword == "actors":
            self.set_actors(line)
        elif line.keyword == "at":
            self.time = words(line.rest)[0]
        elif line.keyword in ("message", "wait", "note", "dies", "starts"):
            getattr(self, line.keyword)(line)
        else:
            raise Mistake(f"line {line.number}: {line.keyword} is not known")

    def finish(self, captions):
        self.y += 14
        for actor in self.actors.values():
            if actor.alive_since is not None:
                actor.lives.append((actor.alive_since, self.y))
            for begin, end in actor.lives:
                self.paper.add("line", f"{actor.role}-line", x1=actor.x, y1=begin, x2=actor.x, y2=end, stroke_width=2,
                               stroke_opacity=0.55)
            for (_, end), (begin, _) in zip(actor.lives, actor.lives[1:]):
                self.paper.add("line", "faint-line", x1=actor.x, y1=end, x2=actor.x, y2=begin, stroke_width=1.5,
                               stroke_dasharray="3 5")
            self.head(actor)
        for mark in self.marks:
            mark()
        return self.paper.svg(draw_captions(self.paper, captions, self.y) + MARGIN - 6)

    def head(self, actor):
        for text, size, bold in ((actor.title, 17, True), (actor.subtitle, 14, False)):
            if text_width(text, size, bold) > actor.width:
                raise Mistake(f"no room for: {text}")
        self.paper.box(actor.x - actor.width / 2, MARGIN, actor.width, HEAD, actor.role)
        self.paper.text(actor.x, MARGIN + (25 if actor.subtitle else 35), actor.title, 17, actor.role, bold=True)
        if actor.subtitle:
            self.paper.text(actor.x, MARGIN + 45, actor.subtitle, 14, "muted")


def draw(text):
    sequence = Sequence(text)
    for line in text.lines:
        sequence.take(line)
    return sequence.finish(text.captions)
