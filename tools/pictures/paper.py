"""A sheet on which pictures are drawn as SVG: one palette, for light and dark pages, and text whose width is known.

A picture has a background of its own, because a page may be dark while the system is light. It says what it shows to those
who cannot see it: <title>, <desc> and role="img". Colours are classes, so that the same drawing serves both schemes.
"""
import re
from html import escape

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'

# role -> (light, dark), each (strong, soft): the strong colour draws lines and words, the soft one fills areas
ROLES = {
    "ink": (("#1f2328", "#ffffff"), ("#e6edf3", "#0d1117")),
    "muted": (("#59636e", "#f3f5f7"), ("#9aa4af", "#171c23")),
    "faint": (("#b4bcc5", "#e9ecef"), ("#48515b", "#21262d")),
    "etcd": (("#0b69b0", "#e6f1fa"), ("#6db3f2", "#10263a")),
    "tier": (("#5a43c6", "#eeebfb"), ("#b3a4ff", "#211b40")),
    "client": (("#177245", "#e6f4ec"), ("#5fca8d", "#10291c")),
    "warn": (("#b34700", "#fdeee2"), ("#f39a53", "#33200f")),
    "bare": (("#6b7480", "#eceff2"), ("#8b95a1", "#1d232b")),
    "proxy": (("#8f6400", "#fbf2da"), ("#d9ad45", "#2c230d")),
    "kube": (("#b02a6b", "#fbe8f1"), ("#f089bb", "#351425")),
}

NARROW, WIDE = set("iljtfrI.,:;'|!()[]/ -"), set("mwMW@%")


def text_width(text, size, bold=False):
    """An upper bound for common fonts, in pixels."""
    em = sum(0.37 if c in NARROW else 0.93 if c in WIDE else 0.7 if c.isupper() else 0.62 for c in text)
    return em * size * (1.08 if bold else 1.0)


def wrapped(text, size, width, bold=False):
    """The words of a text in lines that are no wider than `width`."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size, bold) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def balanced(text, size, width):
    """As wrapped, with lines of about the same length."""
    best = wrapped(text, size, width)
    while width > 40:
        width -= 10
        lines = wrapped(text, size, width)
        if len(lines) > len(best) or max(text_width(line, size) for line in lines) > width:
            break
        best = lines
    return best


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def style(used):
    """The classes that are used, for both schemes."""
    forms = (("{}", "fill: {strong};"), ("{}-line", "stroke: {strong};"), ("{}-soft", "fill: {soft};"),
             ("{}-area", "fill: {soft}; stroke: {strong};"))

    def classes(scheme, indent):
        rows = ((name.format(role), body.format(strong=colours[scheme][0], soft=colours[scheme][1]))
                for role, colours in ROLES.items() for name, body in forms)
        return "".join(f"\n{indent}.{name} {{ {body} }}" for name, body in rows if name in used)
    mono = f"\n    .mono {{ font-family: {MONO}; white-space: pre; }}" if "mono" in used else ""
    dark = classes(1, "      ")
    dark = f"\n    @media (prefers-color-scheme: dark) {{{dark}\n    }}" if dark else ""
    return f"    text {{ font-family: {FONT}; }}{mono}\n    path, line {{ fill: none; }}{classes(0, '    ')}{dark}"


class Paper:
    """Collects the elements of a picture. Numbers are pixels of a sheet that is `width` wide and grows downwards."""

    def __init__(self, width, title, description, ground=True):
        """`ground`: with a background; without one the picture brings its own."""
        self.width, self.title, self.description, self.ground = width, title, description, ground
        self.elements, self.tips = [], set()  # tips: the roles of arrows

    def add(self, name, classes="", content=None, **attributes):
        words = [f'class="{classes}"'] if classes else []
        words += [f'{key.replace("_", "-")}="{number(value) if isinstance(value, (int, float)) else escape(str(value))}"'
                  for key, value in attributes.items()]
        body = "/>" if content is None else f">{content}</{name}>"
        self.elements.append(f"  <{name} {' '.join(words)}{body}")

    def text(self, x, y, text, size, role="ink", anchor="middle", bold=False, extra="", **more):
        if bold:
            more["font_weight"] = 600
        if anchor != "start":
            more["text_anchor"] = anchor
        self.add("text", f"{role} {extra}".strip(), escape(text, quote=False), x=x, y=y, font_size=size, **more)

    def label(self, x, y, text, size, role="muted", anchor="middle", bold=False):
        """A text on a patch of the background, so that a line may pass behind it. `y` is the text's middle."""
        width = text_width(text, size, bold) * 0.94 + 8
        left = {"middle": x - width / 2, "start": x - 4, "end": x - width + 4}[anchor]
        self.add("rect", "ink-soft", x=left, y=y - size * 0.75, width=width, height=size * 1.5, rx=4)
        self.text(x, y + size * 0.36, text, size, role, anchor, bold)

    def box(self, x, y, width, height, role, radius=9, dashed=False):
        more = {"stroke_dasharray": "5 4"} if dashed else {}
        self.add("rect", f"{role}-area", x=x, y=y, width=width, height=height, rx=radius, stroke_width=1.5, **more)

    def arrow(self, d, role="muted", width=1.6, dashed=False, tip=True):
        more = {"stroke_dasharray": "5 4"} if dashed else {}
        if tip:
            self.tips.add(role)
            more["marker_end"] = f"url(#tip-{role})"
        self.add("path", f"{role}-line", d=d, stroke_width=width, **more)

    def markers(self):
        return [f'  <defs><marker id="tip-{role}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
                f'markerUnits="userSpaceOnUse" orient="auto"><path class="{role}" d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>'
                for role in sorted(self.tips)]

    def svg(self, height):
        w, h = number(self.width), number(height)
        ground = [f'  <rect class="ink-soft" width="{w}" height="{h}" rx="12"/>'] if self.ground else []
        body = [*self.markers(), *ground, *self.elements]
        used = {name for found in re.findall(r'class="([^"]*)"', "\n".join(body)) for name in found.split()}
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">',
            f"  <title>{escape(self.title, quote=False)}</title>",
            f"  <desc>{escape(self.description, quote=False)}</desc>",
            f"  <style>\n{style(used)}\n  </style>", *body, "</svg>"]) + "\n"
