# SPDX-License-Identifier: PostgreSQL
"""A captured screen (tmux capture-pane -e -N -p) as an SVG: its cells as text, on a grid that no font can bend."""

import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, PADDING = 8.4, 18, 14, 14
SVG = "{http://www.w3.org/2000/svg}"
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

STYLE = """\
text { white-space: pre; fill: #e6edf3 }
rect { fill: #e6edf3 } .screen { fill: #161b22 }
.black { fill: #8b949e } .red { fill: #ff7b72 } .green { fill: #7ee787 } .yellow { fill: #e3b341 }
.blue { fill: #79c0ff } .magenta { fill: #d2a8ff } .cyan { fill: #76e3ea } .white { fill: #ffffff }
.bold { font-weight: bold } .dim { opacity: .7 } .underline { text-decoration: underline }
tspan.reverse { fill: #161b22 }
"""


@dataclass(frozen=True)
class Look:
    bold: bool = False
    dim: bool = False
    underline: bool = False
    reverse: bool = False
    colour: str = ""

    def classes(self):
        return " ".join([*(name for name in ("bold", "dim", "underline", "reverse") if getattr(self, name)),
                         *([self.colour] if self.colour else [])])


# What each number of an SGR sequence changes.
CHANGES = {
    1: {"bold": True}, 2: {"dim": True}, 4: {"underline": True}, 7: {"reverse": True},
    22: {"bold": False, "dim": False}, 24: {"underline": False}, 27: {"reverse": False}, 39: {"colour": ""}, 49: {},
    **{30 + i: {"colour": name} for i, name in enumerate(COLOURS)},
    **{90 + i: {"colour": name} for i, name in enumerate(COLOURS)},
}


def changed(look, numbers):
    """The look after one SGR sequence. One that is not in the table is an error: better none than a wrong picture."""
    for number in (int(word or 0) for word in numbers.split(";")):
        if number and number not in CHANGES:
            raise ValueError(f"could not draw the screen: SGR {numbers} is not known")
        look = replace(look, **CHANGES[number]) if number else Look()
    return look


def columns(text):
    """The cells that a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def parsed(capture):
    """The screen's lines, each a list of (look, text). A look lasts beyond the line's end, as tmux writes it."""
    lines, look = [], Look()
    for line in capture.rstrip("\n").split("\n"):
        runs = []
        for i, word in enumerate(SEQUENCE.split(line)):
            if i % 2:
                look = changed(look, word)
            elif word and runs and runs[-1][0] == look:
                runs[-1] = (look, runs[-1][1] + word)
            elif word:
                runs.append((look, word))
        if "\x1b" in (rest := "".join(text for _, text in runs)):
            raise ValueError(f"could not draw the screen: an escape sequence is not known: {rest!r}")
        lines.append(runs)
    return lines


def drawn(runs, row):
    """One line: the reversed cells' ground, and its text, each run at its own column and stretched to its cells."""
    top, column, grounds, spans = PADDING + row * CELL_HEIGHT, 0, [], []
    if runs and not runs[-1][0].classes():
        runs = [*runs[:-1], (runs[-1][0], runs[-1][1].rstrip())]
    for look, text in runs:
        x, width, column = PADDING + column * CELL_WIDTH, columns(text) * CELL_WIDTH, column + columns(text)
        names = f' class="{look.classes()}"' if look.classes() else ""
        if look.reverse:
            colour = f' class="{look.colour}"' if look.colour else ""
            grounds.append(f'<rect{colour} x="{x:.1f}" y="{top}" width="{width:.1f}" height="{CELL_HEIGHT}"/>')
        if text:
            spans.append(f'<tspan x="{x:.1f}" textLength="{width:.1f}"{names}>{escape(text)}</tspan>')
    line = f'<text y="{top + CELL_HEIGHT - 5}" xml:space="preserve">{"".join(spans)}</text>'
    return "\n".join([*grounds, line])


def picture(capture, width, title, description):
    """The whole SVG of a screen that is `width` columns wide."""
    lines = parsed(capture)
    size = (f"{2 * PADDING + width * CELL_WIDTH:.0f}", f"{2 * PADDING + len(lines) * CELL_HEIGHT}")
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" \
font-family="monospace" font-size="{FONT_SIZE}" role="img" aria-labelledby="title desc">
<title id="title">{escape(title)}</title>
<desc id="desc">{escape(description)}</desc>
<style>
{STYLE}</style>
<rect class="screen" width="100%" height="100%" rx="8"/>
""" + "\n".join(drawn(runs, row) for row, runs in enumerate(lines)) + "\n</svg>\n"


def screen_of(svg):
    """The text of such a picture, line by line."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]
