"""The picture of a run, as SVG: faults as bars over time, one lane a place; below it how many revisions each level is behind
etcd; violations as marks. Written by hand: it must look the same everywhere and need nothing."""
import bisect
import html
import math

WIDTH, LEFT, RIGHT = 1200, 110, 20
LANE, LAG_HEIGHT, TOP, GAP = 18, 220, 56, 46
LANES = ["etcd", "m-t1", "t1", "t1-t2", "t2", "t2-t3", "t3", "clients"]
COLORS = {"t1": "#1b6ca8", "t2": "#c46210", "t3": "#3a7d44"}
KINDS = [("killed", "#b3261e"), ("stopped", "#b3261e"), ("frozen", "#6d4c9f"), ("cut", "#c77700"), ("alone", "#c77700"),
         ("lost", "#8d6e00"), ("late", "#8d6e00"), ("compaction", "#00697a"), ("disk", "#5d4037"), ("restored", "#000000")]
OTHER = "#546e7a"


def lane_of(row):
    target = row["target"]
    if target in LANES:
        return target
    if target == "c" or target.endswith("-c") or row["fault"].startswith("clients"):
        return "clients"
    return "etcd"


def color_of(fault):
    return next((color for word, color in KINDS if word in fault), OTHER)


def step_of(span, n):
    """A round number of which about n fit into span."""
    raw = max(span / n, 1e-9)
    power = 10 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


class Svg:
    def __init__(self, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
                      f'font-size="11"><rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']

    def text(self, x, y, text, anchor="start", color="#333333", size=11):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}">'
                          f'{html.escape(str(text))}</text>')

    def line(self, x1, y1, x2, y2, color="#dddddd", width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
                          f'stroke-width="{width}"/>')

    def bar(self, x, y, width, height, color, title):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1.5):.1f}" height="{height}" fill="{color}">'
                          f'<title>{html.escape(title)}</title></rect>')

    def path(self, points, color):
        self.parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.3" points="'
                          + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')

    def cross(self, x, y, title):
        self.parts.append(f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="#d50000" stroke-width="2">'
                          f'<title>{html.escape(title)}</title></path>')

    def whole(self):
        return "".join(self.parts) + "</svg>\n"


def lags(samples, name):
    """Runs of (seconds, revisions behind): a run ends where the tier did not answer."""
    head = [(at, rev) for at, rev in samples["etcd"] if rev is not None]
    times = [at for at, _ in head]
    runs, run = [], []
    for at, rev in samples[name]:
        i = bisect.bisect_right(times, at) - 1
        if rev is None or i < 0:
            runs, run = runs + [run], []
        else:
            run.append((at, max(0, head[i][1] - rev)))
    return [r for r in runs + [run] if r]


def thinned(points):
    """One point a pixel: the worst."""
    worst = {}
    for x, y in points:
        worst[int(x)] = min(y, worst.get(int(x), y))
    return sorted(worst.items())


def draw(r):
    lanes = [lane for lane in LANES if lane in ("etcd", "clients") or max(r["levels"]) >= int(lane[-1])]
    seconds = max(r["seconds"], 1)
    lag_top = TOP + LANE * len(lanes) + GAP
    svg = Svg(lag_top + LAG_HEIGHT + 60)
    runs = {name: lags(r["samples"], name) for name in r["counters"]}
    most = max([lag for rs in runs.values() for run in rs for _, lag in run] + [1])

    def x_of(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * at / seconds

    def y_of(lag):
        return lag_top + LAG_HEIGHT - LAG_HEIGHT * math.log10(1 + lag) / math.log10(1 + most)

    svg.text(LEFT, 20, f"seed {r['seed']}: {len(r['rows'])} faults, {r['watchers']} watchers, {r['revisions']:,} revisions, "
             f"{sum(r['by_property'].values())} violations", size=14)
    _legend(svg)
    for at in range(0, int(seconds) + 1, max(1, int(step_of(seconds, 12)))):
        svg.line(x_of(at), TOP, x_of(at), lag_top + LAG_HEIGHT)
        svg.text(x_of(at), lag_top + LAG_HEIGHT + 16, f"{at} s", "middle")
    for i, lane in enumerate(lanes):
        svg.text(LEFT - 8, TOP + LANE * i + 13, lane.replace("m-", "etcd-"), "end")
    for row in r["rows"]:
        end = row.get("end_s", seconds)
        where = f" {row['target']}" if row["target"] else ""
        svg.bar(x_of(row["begin_s"]), TOP + LANE * lanes.index(lane_of(row)) + 3, x_of(end) - x_of(row["begin_s"]), LANE - 6,
                color_of(row["fault"]), f"{row['n']}: {row['fault']}{where}, {end - row['begin_s']:.1f} s")
    svg.text(LEFT, lag_top - 10, "revisions behind etcd (logarithmic); a gap: the tier did not answer")
    for lag in [0] + [10 ** i for i in range(int(math.log10(1 + most)) + 1)]:
        svg.line(LEFT, y_of(lag), WIDTH - RIGHT, y_of(lag))
        svg.text(LEFT - 8, y_of(lag) + 4, f"{lag:,}", "end")
    for i, (name, rs) in enumerate(runs.items()):
        svg.text(WIDTH - RIGHT - 40 * (len(runs) - i), lag_top - 10, name, color=COLORS[name], size=13)
        for run in rs:
            svg.path(thinned([(x_of(at), y_of(lag)) for at, lag in run]), COLORS[name])
    for v in r["violations"]:
        svg.cross(x_of(v["at_s"] if v["at_s"] is not None else seconds), lag_top + LAG_HEIGHT + 28, v["text"])
    for at, text in r["trouble"]:
        svg.cross(x_of(min(at, seconds)), TOP - 6, text)
    svg.text(LEFT, lag_top + LAG_HEIGHT + 48, "red crosses: violations, where etcd wrote what was violated" if r["violations"]
             else "no violations")
    return svg.whole()


def _legend(svg):
    x = LEFT
    for word, color in [("killed", "#b3261e"), ("frozen", "#6d4c9f"), ("cut", "#c77700"), ("lost, late", "#8d6e00"),
                        ("compaction", "#00697a"), ("disk full", "#5d4037"), ("backup restored", "#000000"), ("other", OTHER)]:
        svg.bar(x, 32, 12, 10, color, word)
        svg.text(x + 16, 41, word)
        x += 34 + 7 * len(word)
