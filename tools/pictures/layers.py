"""Drawings of kind `layers`: rows of boxes, and lines from a row down to a lower one.

    row  NAME ROLE "title" "subtitle" | NAME ...     ROLE: etcd, tier, client, warn; or crowd: a box of many clients
    edge UPPER LOWER "label" [thick] [dashed]        the label may be ""
    fan  UPPER LOWER                                 many thin lines, to a crowd
"""
from pictures.paper import Paper, balanced, text_width, wrapped
from pictures.text_form import Mistake, words

WIDTH, MARGIN, GAP, BOX, ROOM = 640, 20, 16, 66, 64  # ROOM: between rows
CROWD_ROWS, DOT, DOTS_TOP, WIDEST = 4, 14, 34, 330
ROLES = ("etcd", "tier", "client", "warn", "crowd")


class Box:
    def __init__(self, name, role, title, subtitle):
        self.name, self.role, self.title, self.subtitle = name, role, title, subtitle
        self.x = self.y = self.width = 0
        self.height, self.lower, self.upper = BOX, [], []  # lower, upper: the ends of edges at it

    def middle(self):
        return self.x + self.width / 2

    def ports(self, others):
        """Where lines to these boxes begin: as near to each as the side allows, and not all at one place."""
        if self.role == "crowd" or len(others) == 1:
            return {other.name: self.middle() for other in others}
        order = sorted(others, key=lambda box: box.middle())
        reach = self.width * 0.36
        places = [min(max(box.middle(), self.middle() - reach), self.middle() + reach) for box in order]
        apart = min(40, 2 * reach / len(order))
        for i in range(1, len(places)):
            places[i] = max(places[i], places[i - 1] + apart)
        for i in range(len(places) - 1, -1, -1):
            places[i] = min(places[i], self.middle() + reach - apart * (len(places) - 1 - i))
        return {box.name: place for box, place in zip(order, places)}


def read_row(line):
    row = []
    for part in line.rest.split("|"):
        found = words(part)
        if len(found) != 4 or found[1] not in ROLES:
            raise Mistake(f'line {line.number}: a box is NAME ROLE "title" "subtitle"')
        row.append(Box(*found))
    return row


def place(rows):
    y = MARGIN
    for row in rows:
        width = min(WIDEST, (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row))
        left = (WIDTH - len(row) * width - GAP * (len(row) - 1)) / 2
        for i, box in enumerate(row):
            box.x, box.y, box.width = left + i * (width + GAP), y, width
            if box.role == "crowd":
                box.height = DOTS_TOP - 8 + DOT * CROWD_ROWS + BOX
        y += max(box.height for box in row) + ROOM
    return y - ROOM


def curve(x1, y1, x2, y2):
    if abs(x1 - x2) < 1:
        return f"M {x1:.1f} {y1:.1f} V {y2:.1f}"
    bend = (y2 - y1) * 0.55
    return f"M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"


def ends(upper, lower):
    return upper.ports(upper.lower)[lower.name], lower.ports(lower.upper)[upper.name]


def draw_edge(paper, upper, lower, flags):
    role = "etcd" if upper.role == "etcd" else "tier"
    x1, x2 = ends(upper, lower)
    paper.arrow(curve(x1, upper.y + upper.height, x2, lower.y - 2), role, 3 if "thick" in flags else 1.6, "dashed" in flags)


def draw_edge_label(paper, upper, lower, label):
    """Beside the only line of a box, or between its lines."""
    y = (upper.y + upper.height + lower.y) / 2
    if len(upper.lower) == 1:
        paper.label(ends(upper, lower)[0] + 12, y, label, 15, "ink", "start")
    else:
        paper.label(upper.middle(), y, label, 15, "ink")


def dots(box):
    columns = int((box.width - 16) // DOT)
    left = box.middle() - (columns - 1) * DOT / 2
    for i in range(columns * CROWD_ROWS):
        yield left + i % columns * DOT, box.y + DOTS_TOP + i // columns * DOT


def draw_fan(paper, upper, lower):
    lines = [(x, y) for x, y in dots(lower) if y == lower.y + DOTS_TOP]
    begin, _ = ends(upper, lower)
    d = " ".join(curve(begin, upper.y + upper.height, x, y - 5) for x, y in lines)
    paper.add("path", "client-line", d=d, stroke_width=1.1, stroke_opacity=0.55)


def fitted(box, text, size, bold):
    lines = wrapped(text, size, box.width - 10, bold)
    if len(lines) > 2 or any(text_width(line, size, bold) > box.width - 6 for line in lines):
        raise Mistake(f"box {box.name}: no room for: {text}")
    return lines


def draw_box(paper, box):
    if box.role == "crowd":
        for x, y in dots(box):
            row = (y - box.y - DOTS_TOP) / DOT
            paper.add("circle", "client", cx=x, cy=y, r=4.2, fill_opacity=1 - 0.75 * row / (CROWD_ROWS - 1))
        top, height, role = box.y + box.height - BOX, BOX, "client"
    else:
        paper.box(box.x, box.y, box.width, box.height, box.role)
        top, height, role = box.y, box.height, box.role
    lines = [(line, 17, True) for line in fitted(box, box.title, 17, True)]
    lines += [(line, 14, False) for line in fitted(box, box.subtitle, 14, False) if line]
    y = top + 6 if box.role == "crowd" else top + height / 2 - sum(size + 4 for _, size, _ in lines) / 2
    for line, size, bold in lines:
        y += size + 4
        paper.text(box.middle(), y - 5, line, size, role if bold else "muted", bold=bold)


def draw(text):
    rows, edges = [], []
    for line in text.lines:
        if line.keyword == "row":
            rows.append(read_row(line))
        elif line.keyword in ("edge", "fan"):
            edges.append((line, words(line.rest)))
        else:
            raise Mistake(f"line {line.number}: neither row, edge nor fan")
    boxes = {box.name: box for row in rows for box in row}
    y = place(rows)
    paper = Paper(WIDTH, text.title, text.description)
    for line, (upper, lower, *_) in edges:
        if upper not in boxes or lower not in boxes:
            raise Mistake(f"line {line.number}: there is no such box")
        boxes[upper].lower.append(boxes[lower])
        boxes[lower].upper.append(boxes[upper])
    for line, (upper, lower, *more) in edges:
        if line.keyword == "fan":
            draw_fan(paper, boxes[upper], boxes[lower])
        else:
            draw_edge(paper, boxes[upper], boxes[lower], more)
    for line, (upper, lower, *more) in edges:
        if more and more[0]:
            draw_edge_label(paper, boxes[upper], boxes[lower], more[0])
    for box in boxes.values():
        draw_box(paper, box)
    y = draw_captions(paper, text.captions, y)
    return paper.svg(y + MARGIN)


def draw_captions(paper, captions, y):
    if not captions:
        return y
    y += 6
    for line in balanced(" ".join(captions), 15, WIDTH - 2 * MARGIN):
        y += 22
        paper.text(WIDTH / 2, y, line, 15, "muted")
    return y
