"""Drawings of kind `rooms`: rows of boxes, and an arrow from each box to what it stands on, in whichever lower row that is.

    row    NAME ROLE "subtitle" | NAME ...     ROLE: etcd, tier, client, warn, bare; the name is the title
    arrow  UPPER LOWER
    key    ROLE "what boxes of this colour are"

The order within a row, and the ways of arrows that pass rows, are found here: few crossings first, then short ways.
Arrows to the same box that pass the same row share their way there.
"""
from itertools import product

from pictures.layers import curve
from pictures.paper import Paper, balanced, text_width, wrapped
from pictures.text_form import Mistake, words

LEAST, MARGIN, BOX, WIDE, GAP, ROOM, LANE = 640, 14, 60, 126, 9, 42, 9  # LEAST: width; ROOM: between rows; LANE: of an arrow that passes
ROLES = ("etcd", "tier", "client", "warn", "bare")


class Spot:
    """A place in a row: a box, or where arrows to the box `name` pass (then it has no role)."""

    def __init__(self, name, role=None, subtitle=""):
        self.name, self.role, self.subtitle = name, role, subtitle
        self.width, self.row, self.x, self.y = WIDE if role else LANE, 0, 0, 0
        self.lower, self.upper = [], []


def read_row(line):
    for part in line.rest.split("|"):
        found = words(part)
        if len(found) != 3 or found[1] not in ROLES:
            raise Mistake(f'line {line.number}: a box is NAME ROLE "subtitle"')
        yield Spot(*found)


def join(rows, boxes, line):
    """Leads an arrow from row to row."""
    found = words(line.rest)
    if len(found) != 2 or any(name not in boxes for name in found):
        raise Mistake(f"line {line.number}: there is no such box")
    spot, end = boxes[found[0]], boxes[found[1]]
    if spot.row >= end.row:
        raise Mistake(f"line {line.number}: {end.name} is not in a lower row")
    while spot is not end:
        below = end if spot.row + 1 == end.row else next((s for s in rows[spot.row + 1] if s.name == end.name), None)
        if below is None:
            below = Spot(end.name)
            below.row = spot.row + 1
            rows[below.row].append(below)
        if below not in spot.lower:
            spot.lower.append(below)
            below.upper.append(spot)
        spot = below


def crossings(row):
    """Of the lines between a row and the next."""
    lines = [(i, s.lower[k].place) for i, s in enumerate(row) for k in range(len(s.lower))]
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for n, a in enumerate(lines) for b in lines[:n])


def cost(rows):
    for row in rows:
        for place, spot in enumerate(row):
            spot.place = place
    bends = sum(abs((s.place + 0.5) / len(row) - (low.place + 0.5) / len(rows[s.row + 1])) for row in rows for s in row for low in s.lower)
    return sum(map(crossings, rows)), round(bends, 6)


def order(rows):
    """Sorts rows by their neighbours, down and up; then moves single spots as long as that helps."""
    for down in (True, False) * 4:
        for row in rows if down else reversed(rows):
            cost(rows)
            near = {s: s.upper if down else s.lower for s in row}
            size = {s: sum(n.place / len(rows[n.row]) for n in near[s]) / len(near[s]) if near[s] else s.place / len(row) for s in row}
            row.sort(key=size.get)
    best, moved = cost(rows), True
    while moved:
        moved = False
        for row in rows:
            for i, k in product(range(len(row)), repeat=2):
                row.insert(k, row.pop(i))
                now = cost(rows)
                if now < best:
                    best, moved = now, True
                else:
                    row.insert(i, row.pop(k))


def nearest(wanted, starts, least, most):
    """Places as near as can be to those that are wanted, each at its distance (`starts`) from the first or farther."""
    blocks = []  # (sum, number) of places that became one
    for want, start in zip(wanted, starts):
        blocks.append((want - start, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks.pop(), blocks.pop()
            blocks.append((a + b, n + m))
    flat = [total / n for total, n in blocks for _ in range(n)]
    return [min(max(place, least), most) + start for place, start in zip(flat, starts)]


def place(rows):
    """The sheet is as wide as its widest row. Returns its width, and where the last row ends."""
    wide = LEAST
    for row in rows:
        starts = [0]
        for left, right in zip(row, row[1:]):
            starts.append(starts[-1] + (left.width + right.width) / 2 + GAP)
        for spot, start in zip(row, starts):
            spot.start = spot.x = start
        wide = max(wide, 2 * MARGIN + starts[-1] + (row[0].width + row[-1].width) / 2)
    for _ in range(60):
        for row in rows:
            wanted = []
            for spot in row:  # ways are straight where they can be
                near = [s for s in spot.upper + spot.lower for _ in range(1 if spot.role or s.role else 6)]
                wanted.append(sum(s.x for s in near) / len(near) if near else spot.x)
            most = wide - MARGIN - row[-1].start - row[-1].width / 2
            for spot, x in zip(row, nearest(wanted, [s.start for s in row], MARGIN + row[0].width / 2, most)):
                spot.x = x
    for number, row in enumerate(rows):
        for spot in row:
            spot.y = MARGIN + number * (BOX + ROOM)
    return wide, rows[-1][0].y + BOX


def port(spot, others, other):
    """Where on its side the line to `other` begins."""
    if spot.role is None:
        return spot.x
    near = sorted(others, key=lambda s: s.x)
    apart = min(18, spot.width * 0.8 / len(near))
    return spot.x + (near.index(other) - (len(near) - 1) / 2) * apart


def draw_lines(paper, spot):
    if spot.role is None:
        paper.arrow(f"M {spot.x:.1f} {spot.y:.1f} V {spot.y + BOX:.1f}", tip=False)
    for low in spot.lower:
        d = curve(port(spot, spot.lower, low), spot.y + BOX, port(low, low.upper, spot), low.y - (2 if low.role else 0))
        paper.arrow(d, tip=low.role is not None)


def draw_box(paper, spot):
    paper.box(spot.x - spot.width / 2, spot.y, spot.width, BOX, spot.role)
    lines = wrapped(spot.subtitle, 13, spot.width - 8) if spot.subtitle else []
    if len(lines) > 2 or any(text_width(text, size, bold) > spot.width - 4 for text, size, bold in [(spot.name, 16, True), *((line, 13, False) for line in lines)]):
        raise Mistake(f"box {spot.name}: no room for its words")
    y = spot.y + BOX / 2 + 6 - 8 * len(lines)
    paper.text(spot.x, y, spot.name, 16, "ink" if spot.role == "bare" else spot.role, bold=True)
    for n, line in enumerate(lines, 1):
        paper.text(spot.x, y + 2 + 15 * n, line, 13, "muted")


def draw_foot(paper, keys, captions, y):
    y += 10 if keys else 0
    for role, what in keys:
        y += 26
        paper.box(MARGIN + 4, y - 13, 26, 17, role, radius=4)
        paper.text(MARGIN + 40, y, what, 15, "ink", "start")
    y += 8 if captions else 0
    for line in balanced(" ".join(captions), 15, paper.width - 2 * MARGIN) if captions else []:
        y += 22
        paper.text(MARGIN + 4, y, line, 15, "muted", "start")
    return y


def draw(text):
    rows = [list(read_row(line)) for line in text.lines if line.keyword == "row"]
    boxes = {}
    for number, row in enumerate(rows):
        for spot in row:
            spot.row = number
            boxes[spot.name] = spot
    keys = []
    for line in text.lines:
        if line.keyword == "arrow":
            join(rows, boxes, line)
        elif line.keyword == "key":
            keys.append(words(line.rest))
        elif line.keyword != "row":
            raise Mistake(f"line {line.number}: neither row, arrow nor key")
    order(rows)
    wide, y = place(rows)
    paper = Paper(wide, text.title, text.description)
    for spot in (s for row in rows for s in row):
        draw_lines(paper, spot)
    for spot in boxes.values():
        draw_box(paper, spot)
    return paper.svg(draw_foot(paper, keys, text.captions, y) + MARGIN)
