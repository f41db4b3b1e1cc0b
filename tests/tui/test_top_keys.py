# SPDX-License-Identifier: PostgreSQL
# ctest: asan tsan
"""The rarer keys of `pgleader top`: look now, copy, the command line, columns that have no room, save under a name."""

import base64
import re
import subprocess

import pytest

from tests.support.exporter import program
from tests.support.scene import four_leaders, holding
from tests.support.terminal import Pty, Tmux
from tests.support.wait import wait_until

TOP = program("pgleader")


@pytest.fixture(scope="module")
def pg():
    with four_leaders() as cluster:
        yield cluster


def test_looks_now(pg):
    """Every ten minutes, and at once when it is told to."""
    with Tmux([TOP, "top", "--interval=10m", pg.conninfo()]) as top:
        top.wait("4 duties: 4 led")
        with holding(pg, 793, "sudden@node-a"):
            top.keys("R")
            top.wait("sudden@node-a")
        top.keys("F5")
        top.wait(r"advisory/793 .*- none -")
        top.keys(":")
        top.type("refresh")
        top.keys("Enter")
        top.wait("Looking again")


def copied(terminal):
    """The newest text that was given to the clipboard."""
    found = re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", terminal.read(0.02))
    return base64.b64decode(found[-1], validate=True).decode() if found else None


def test_copies_to_the_clipboard(pg):
    """The name from the list; from the detail a line that a shell runs as it is, and that finds the owner."""
    with Pty([TOP, "top", pg.conninfo()], width=100) as top:
        top.wait(b"worker-3@node-a")
        top.send(b"/worker-2\r")
        top.send(b"c")
        wait_until(lambda: copied(top) == "advisory/702", "the duty's name is copied")
        top.send(b"\r")
        top.wait(b"CANDIDATES")
        top.send(b"c")
        line = wait_until(lambda: copied(top) != "advisory/702" and copied(top), "the line is copied")
        top.send(b"Q")
        assert top.ended() == 0
    found = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=30)
    assert found.returncode == 0 and "worker-2@node-a" in found.stdout and "worker-1" not in found.stdout, (line, found)


def command(top, line):
    top.keys(":")
    top.wait(" :_")
    top.type(line)
    top.keys("Enter")


def test_the_command_line(top):
    command(top, "sort owner")
    top.wait("sort owner")
    command(top, "filter worker-1")
    assert "worker-2" not in top.wait('filter "worker-1"')
    command(top, "f")
    top.wait("worker-2@node-a")
    command(top, "duty advisory/703")
    assert "worker-3@node-a" in top.wait("CANDIDATES")
    command(top, "yield")
    top.wait("start it with --allow-yield")
    command(top, "wrong")
    top.wait("No such command: wrong")
    top.keys(":", "q", "Escape")
    top.wait("CANDIDATES")
    command(top, "q")
    assert top.ended() == 0 and top.restored()


def test_saves_under_a_name(top):
    """A new file; one that is there stays as it is."""
    command(top, "save mine.txt")
    top.wait("This screen is in mine.txt")
    assert "worker-0@node-a" in (top.home / "mine.txt").read_text()
    (top.home / "mine.txt").write_text("other")
    command(top, "save mine.txt")
    top.wait("Could not write mine.txt: File exists")
    assert (top.home / "mine.txt").read_text() == "other"


def test_columns_that_have_no_room(top):
    """On 60 columns the others come in from the right; the duty stays."""
    top.resize(60, 12)
    top.wait("DUTY +OWNER +PID +HELD STATE")
    top.keys("]", "]")
    top.wait("< +DUTY +GENERATION +HELD CAND +WAIT")
    assert "advisory/702" in top.screen()
    top.keys(*("]" * 20))
    top.wait("There are no more columns")
    assert "STATE" in top.screen()
    top.keys(*("[" * 20))
    top.wait("DUTY +OWNER +PID +HELD STATE")
