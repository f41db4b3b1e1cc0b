# SPDX-License-Identifier: PostgreSQL
"""A terminal that is known cell by cell: what stands in each, how it looks, and what state the terminal is in."""

import json
import os
import re
import select
import subprocess

from .exporter import program
from .wait import wait_until

ENV = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
BOLD, UNDERLINE, REVERSE, BACKGROUND, COLOUR = 1, 2, 4, 8, 16
CLOCK = re.compile(r"\d\d:\d\d:\d\dZ")
AGE = re.compile(r" *[<]?\b\d+[smhd][0-9smhd]*\+?(?= |$)")


class Screen:
    """What the terminal shows at one moment."""

    def __init__(self, known):
        self.cells, self.looks = known["cells"], known["looks"]
        self.visible, self.alternate, self.cursor = known["visible"], known["alternate"], known["cursor"]
        self.before, self.line = known["before"], known.get("line")
        self.stopped, self.status = known["stopped"], known.get("status")
        self.ended, self.cpu = known.get("ended"), known.get("cpu")
        self.lines = ["".join(row) for row in self.cells]
        self.text = "\n".join(line.rstrip() for line in self.lines)

    def given_back(self):
        """True if the terminal is as it was: main screen, cursor, line settings."""
        return not self.alternate and self.visible and self.line == self.before

    def coloured(self):
        return any(look >= BACKGROUND for row in self.looks for look in row)

    def steady(self):
        """Characters and looks without what time changes: clocks, and ages with the blanks in front of them."""
        def hide(found):
            return "#" * len(found[0])
        return [AGE.sub(hide, CLOCK.sub(hide, line)) for line in self.lines], self.looks

    def row(self, text):
        """The cells of the row that holds the text."""
        return next(row for row, line in zip(self.cells, self.lines) if text in line)


class Vterm:
    """`with Vterm(argv) as terminal:` runs a command on it."""

    def __init__(self, argv, width=80, height=24, cwd=None, **env):
        words = [program("vterm_harness"), height, width, *argv]
        inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.harness = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        cwd=cwd, env={**inherited, **ENV, **env})
        self.pid = self.known()["pid"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.harness.communicate(timeout=20)
        assert self.harness.returncode == 0, f"the terminal itself ended with {self.harness.returncode}"

    def tell(self, *words):
        self.harness.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.harness.stdin.flush()
        answer = self.harness.stdout.readline()
        assert answer, "the terminal has ended"
        return answer

    def known(self):
        return json.loads(self.tell("look"))

    def look(self):
        return Screen(self.known())

    def keys(self, text):
        self.tell("keys", text.encode().hex())

    def resize(self, width, height):
        """At least two columns: in one libvterm has no cell for the right half of a wide character, and ends."""
        self.tell("size", height, width)

    def hold(self):
        """Takes nothing any more, as a terminal at the other end of a dead network."""
        self.tell("hold")

    def read(self):
        self.tell("read")

    def hang_up(self):
        self.tell("hang-up")

    def when(self, condition, what, deadline=20.0):
        """Until condition(screen) is true; returns the screen."""
        def seen():
            self.last = self.look()
            return self.last if condition(self.last) else None
        try:
            return wait_until(seen, what, deadline)
        except AssertionError:
            raise AssertionError(f"after {deadline} s still not: {what}\n{self.last.text}") from None

    def wait(self, text, deadline=20.0):
        """Until the text (a regular expression) is on the screen; returns the screen."""
        return self.when(lambda screen: re.search(text, screen.text), f"{text!r} on the screen", deadline)

    def end(self, deadline=20.0):
        """Waits for the end; returns the screen after it."""
        return self.when(lambda screen: screen.status is not None, "the program ends", deadline)


def takes(pid):
    """True if the terminal of a program takes more text."""
    fd = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return bool(select.select([], [fd], [], 0)[1])
    finally:
        os.close(fd)


def choke(terminal):
    """Reads nothing any more, and lets the program draw until the kernel keeps no more of it."""
    def full():
        terminal.keys("\x0c")
        return not takes(terminal.pid)
    terminal.hold()
    wait_until(full, "the terminal is full")
