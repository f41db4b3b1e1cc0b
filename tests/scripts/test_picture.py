# SPDX-License-Identifier: PostgreSQL
"""The README's pictures: a captured screen becomes an SVG, and both show what the programs show today."""

import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from scripts.picture import SVG, landmarks
from tests.support.cluster import ROOT
from tests.support.source import text
from tests.support.svg import SVG as NAMESPACE
from tests.support.svg import picture, screen_of
from tests.support.terminal import Tmux

EXPORTER = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin"), "pgleader_exporter")

# What a program prints, and the elements that stand for it: each with its text, its first cell, its cells, its class.
SCREENS = [
    (r"plain", [("plain", 0, 5, None)]),
    (r"a \033[1;4mTITLE \033[0m", [("a ", 0, 2, None), ("TITLE ", 2, 6, "bold underline")]),
    (r"\033[31mred\033[39m & <b>", [("red", 0, 3, "red"), (" & <b>", 3, 6, None)]),
    (r"\033[7m> chosen \033[27m", [("> chosen ", 0, 9, "reverse")]),
    (r"\xe6\xbc\xa2\xe5\xad\x97|", [("漢字|", 0, 5, None)]),
    (r"e\xcc\x81|\033[2mdim\033[0m", [("e\u0301|", 0, 2, None), ("dim", 2, 3, "dim")]),
]


def capture(printed):
    with Tmux(["bash", "-c", f"printf '%b' '{printed}'; read -rn1"], width=40, height=3) as terminal:
        terminal.wait(r"\S")
        return terminal.screen("-e", "-N")


@pytest.mark.parametrize("printed, spans", SCREENS)
def test_a_screen_becomes_its_cells(printed, spans):
    """The text of every look, at its column, as wide as its cells, whatever the font; and no other text."""
    root = ElementTree.fromstring(picture(capture(printed), 40, "t", "d"))
    found = [(e.text, round((float(e.get("x")) - 14) / 8.4), round(float(e.get("textLength")) / 8.4), e.get("class"))
             for e in root.iter(f"{NAMESPACE}tspan")]
    assert found == spans


def test_an_unknown_sequence_is_refused():
    """Better no picture than one that lacks a colour."""
    with pytest.raises(ValueError, match="SGR 38;5;123 is not known"):
        picture("\x1b[38;5;123mlilac\x1b[0m", 40, "t", "d")


def test_the_readme_shows_the_picture():
    """It is there, says in words what it shows, brings everything with it, and its text is text."""
    assert f"]({SVG.relative_to(ROOT)})" in text(ROOT / "README.md")
    root = ElementTree.parse(SVG).getroot()
    title, description = (root.find(f"{NAMESPACE}{name}").text for name in ("title", "desc"))
    assert title and all(line.split()[0] in description for line in landmarks(screen_of(text(SVG)))[1:-1])
    assert root.get("font-family") == "monospace"
    assert not re.findall(r"href|url\(|<script|<image", text(SVG))


def test_a_change_is_noticed():
    """Another title, another duty, another key: each is a difference."""
    screen = screen_of(text(SVG))
    for old, new in (("OWNER", "LEADER"), ("jobs/", "work/"), ("? Help", "F1 Help")):
        changed = [line.replace(old, new) for line in screen]
        assert landmarks(changed) != landmarks(screen), f"{old} does not stand in the picture"


def test_the_readme_shows_what_the_programs_show():
    """The live screen's titles, duties and keys, and every line of the yield but its numbers."""
    done = subprocess.run(["/usr/bin/python3", "-B", ROOT / "scripts/picture.py", EXPORTER, "--check"], cwd=ROOT,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"run scripts/picture\n{done.stdout}{done.stderr}"
