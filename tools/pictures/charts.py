"""Charts of benchmarks: panels of bars, and a chart of ratios.

A panel is one figure of several programs. It has a scale of its own from zero, and every bar has its value beside it, so that
panels of different units can stand in one chart.
"""
import collections
import math

from pictures.paper import Paper, balanced, text_width, wrapped

WIDTH, MARGIN = 640, 20
NAMES, VALUES = 150, 165  # room for names at the left and for values at the right of the longest bar
BAR, STEP, HEAD = 16, 24, 30

Bar = collections.namedtuple("Bar", "name role value limit")  # limit: what a machine can do, not a program of use
# ours: the name of the bar that others are set against; higher: more is better; must: what ours must reach, as text
Panel = collections.namedtuple("Panel", "title unit bars ours higher must verdict", defaults=(None, False, "", ""))
Ratio = collections.namedtuple("Ratio", "title peer role value")


def figure(value, digits=3):
    """So many digits that count, with commas; whole numbers below 10,000 as they are."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < digits - 1:
        text = f"{value:,.{min(digits - 1 - size, 3)}f}"
        return text.rstrip("0").rstrip(".")
    return f"{value if size < 4 else round(value, digits - 1 - size):,.0f}"


def with_unit(value, unit):
    """A value in a unit that people read: 1,240,000 bytes are 1.24 MB."""
    for small, most, large in (("bytes", 1e4, "KB"), ("KB", 1e3, "MB"), ("MB", 1e3, "GB"), ("us", 1e4, "ms"), ("ms", 1e4, "s")):
        if unit == small and abs(value) >= most:
            value, unit = value / 1000, large
    return f"{figure(value)} {unit}"


def times(value):
    return f"{figure(value, 2)} x"


def ratio(panel, bar):
    """How many times ours the bar is worse; None: nothing to compare."""
    ours = next((each.value for each in panel.bars if each.name == panel.ours), None)
    if bar.name == panel.ours or not ours or not bar.value:
        return None
    return ours / bar.value if panel.higher else bar.value / ours


def beats(panel, bar):
    """Is the bar's program better than ours in this figure? Zero is compared, too, where there is no ratio."""
    ours = next((each.value for each in panel.bars if each.name == panel.ours), None)
    if ours is None or bar.name == panel.ours:
        return False
    return bar.value > ours if panel.higher else bar.value < ours


def title_lines(panel):
    return wrapped(panel.title, 16, WIDTH - 2 * MARGIN - (120 if panel.higher else 0), True)


def panel_height(panel):
    return HEAD + STEP * len(panel.bars) + 16 + 20 * (len(title_lines(panel)) - 1)


def draw_panel(paper, panel, y):
    for i, line in enumerate(title_lines(panel)):
        y += 20 if i else 0
        paper.text(MARGIN, y + 17, line, 16, "ink", "start", bold=True)
    if panel.higher:
        paper.text(WIDTH - MARGIN, y + 17, "more is better", 14, "muted", "end")
    most = max((bar.value for bar in panel.bars), default=0) or 1
    room = WIDTH - 2 * MARGIN - NAMES - VALUES
    y += HEAD
    for bar in panel.bars:
        is_ours = bar.name == panel.ours
        paper.text(MARGIN + NAMES - 10, y + BAR - 2.5, bar.name, 15, "ink" if is_ours else "muted", "end", bold=is_ours)
        width = max(2, room * bar.value / most)
        if bar.limit:
            paper.add("rect", f"{bar.role}-area", x=MARGIN + NAMES, y=y + 0.5, width=width, height=BAR - 1, rx=3, stroke_width=1,
                      stroke_dasharray="3 3")
        else:
            paper.add("rect", bar.role, x=MARGIN + NAMES, y=y, width=width, height=BAR, rx=3)
        x = MARGIN + NAMES + width + 8
        said = with_unit(bar.value, panel.unit)
        paper.text(x, y + BAR - 2.5, said, 15, "ink", "start", bold=is_ours)
        factor = ratio(panel, bar)
        if factor is not None:
            paper.text(x + text_width(said, 15) + 8, y + BAR - 2.5, times(factor), 15, bar.role, "start", bold=True)
        y += STEP


def describe(panels):
    return "; ".join(f"{panel.title}: " + ", ".join(f"{bar.name} {with_unit(bar.value, panel.unit)}" for bar in panel.bars)
                     for panel in panels) + "."


def draw_panels(title, panels):
    """A chart of panels, one below the other."""
    paper, y = Paper(WIDTH, title, describe(panels)), MARGIN - 4
    for line in wrapped(title, 18, WIDTH - 2 * MARGIN, True):
        y += 24
        paper.text(MARGIN, y, line, 18, "ink", "start", bold=True)
    y += 14
    for i, panel in enumerate(panels):
        if i:
            paper.add("line", "faint-line", x1=MARGIN, y1=y, x2=WIDTH - MARGIN, y2=y, stroke_width=1, stroke_opacity=0.5)
            y += 10
        draw_panel(paper, panel, y)
        y += panel_height(panel)
    return paper.svg(y + MARGIN - 14)


def draw_ratios(title, subtitle, groups, notes):
    """`groups`: (title, ratios). Bars on a logarithmic scale that begins at 1. `notes`: sentences below it: its conditions."""
    everything = [ratio_ for _, ratios in groups for ratio_ in ratios]
    paper = Paper(WIDTH, title, "; ".join(f"{each.title}: {each.peer} {times(each.value)}" for each in everything) + ".")
    decades = max(1, math.ceil(max(math.log10(max(each.value, 1)) for each in everything)))
    left, right = MARGIN, WIDTH - MARGIN - 78
    paper.text(MARGIN, 40, title, 19, "ink", "start", bold=True)
    y = 44
    for line in balanced(subtitle, 15, WIDTH - 2 * MARGIN):
        y += 20
        paper.text(MARGIN, y, line, 15, "muted", "start")
    top = y = y + 14
    rows = []
    for name, ratios in groups:
        if not ratios:
            continue
        y += 34
        rows.append((name, y, None))
        for each in ratios:
            y += 46
            rows.append((each.title, y, each))
    for decade in range(decades + 1):
        x = left + (right - left) * decade / decades
        paper.add("line", "faint-line", x1=x, y1=top + 40, x2=x, y2=y + 8, stroke_width=1, stroke_opacity=0.6)
        paper.text(x, y + 26, f"{10 ** decade:,} x" if decade else "the same", 14, "muted", "start" if decade == 0 else "middle")
    for name, baseline, each in rows:
        if each is None:
            paper.label(left, baseline - 6, name, 16, "ink", "start", bold=True)
            continue
        paper.label(left, baseline - 22, name, 15, "ink", "start")
        role = each.role if each.value >= 1 else "warn"
        width = max(3, (right - left) * math.log10(max(each.value, 1)) / decades)
        paper.add("rect", role, x=left, y=baseline - 10, width=width, height=BAR, rx=3)
        paper.text(left + width + 8, baseline + 3.5, times(each.value), 16, role, "start", bold=True)
    y += 34
    for note in notes:
        for line in wrapped(note, 13, WIDTH - 2 * MARGIN):
            y += 18
            paper.text(left, y, line, 13, "muted", "start")
    return paper.svg(y + MARGIN)
