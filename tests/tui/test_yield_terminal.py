# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The yield dialog and its watch on a terminal that is known cell by cell: any size at any moment, and every way out while they are open."""

import os
import random
import signal
import time
from contextlib import contextmanager

import pytest

from tests.support.exporter import program
from tests.support.vterm import Vterm, choke
from tests.support.yields import alive, audit, led, oncall

TOP = program("pgleader")
ENDS_WITHIN = 5
REASON = "node-b тоже hot, 名前 INC-2231"


@contextmanager
def dialog(pg, duty, *options, wrapper=(), width=100, height=40):
    """`top` with the dialog open, whose guards have looked once."""
    argv = [*wrapper, TOP, "top", "--interval=500ms", "--allow-yield", *options, oncall(pg)]
    with Vterm(argv, width, height) as top:
        top.wait(rf"\S*{duty[-5:]} .* led")  # a long name is cut in its middle
        top.keys(f"/{duty}\r")
        top.wait(rf"> \S*{duty[-5:]} ")
        top.keys("\r")
        top.wait("TAKEOVERS")
        top.keys("Y")
        top.wait("Guards +none of")
        yield top


def fill(top, duty, generation):
    """Both fields; the cursor is on Yield then."""
    top.keys(f"\t{REASON}\t{duty} {generation}\t")
    top.wait(r"> \[ Yield \]")


def whole(screen, width, height):
    """Title, rule and footer are where they belong, and nowhere else, in a screen of that size."""
    lines = screen.lines
    title, rule, footer = lines[0], lines[-2], lines[-1]
    footers = ("Esc Cancel  ", "Esc Back  ")
    return (len(lines) == height and all(len(row) == width for row in screen.cells) and
            "may yield  every 500ms" in title and title.endswith("Z") and "──" in rule and rule[-1] in "─ " and
            footer.startswith(footers) and " Help" in footer and
            not any("may yield  every" in line for line in lines[1:]) and
            not any("──" in line for line in lines[:-2]) and
            not any(word in line for line in lines[:-1] for word in footers))


def sizes(chance):
    """Each width from 60 to 200 once, with heights from 10 to 60 by turns, in no order."""
    found = [(width, 10 + width * 17 % 51) for width in range(60, 201)]
    chance.shuffle(found)
    return found


class Storm:
    """Sizes one after the other, most of them for a moment only."""

    def __init__(self, top, chance):
        self.top, self.chance = top, chance
        self.left = sizes(chance)

    def blow(self, n=3):
        for _ in range(n):
            self.top.resize(self.chance.randint(60, 200), self.chance.randint(10, 60))

    def check(self, what, n=1, shown=()):
        """The next n sizes, at each of which the screen is whole, and has that."""
        for width, height in self.left[:n]:
            self.blow()
            self.top.resize(width, height)
            self.top.when(lambda screen: whole(screen, width, height) and all(word in screen.text for word in shown),
                          f"{what} at {width}x{height} is whole, with {shown}")
        del self.left[:n]


def test_a_storm_of_sizes(pg, request):
    """All that was typed in it is there, the yield that was begun in it ends, and the screen is whole at every size."""
    chance = random.Random(request.node.name)
    with led(pg, request, listens=True) as (duty, _, leader, generation), dialog(pg, duty, "--grace=3s", "--wait=500ms") as top:
        storm = Storm(top, chance)
        storm.check("the dialog", 15)
        top.keys("\t")
        for letter in REASON:
            top.keys(letter)
            storm.blow(2)
        storm.check("the reason", 15, ["> Reason ", "INC-2231_"])
        top.keys("\t")
        for letter in f"{duty} {generation}":
            top.keys(letter)
            storm.blow(1)
        storm.check("the confirmation", 15, ["> Confirm ", f"{generation}_"])
        top.keys("\t")
        storm.check("the buttons", 15, ["> [ Yield ]", "Enter on [ Yield ] sends it."])
        assert alive(pg, leader) and audit(pg, duty) is None
        top.keys("\r")
        storm.blow(20)
        storm.check("the watch", 20, [f"YIELD {duty}"])
        while "Outcome" not in top.look().text:
            storm.blow()
        storm.check("the outcome", len(storm.left), ["Outcome     MOVED"])
        assert not alive(pg, leader) and audit(pg, duty)[:3] == ("moved", True, REASON)
        storm.blow(10)
        top.keys("Q")
        screen = top.end()
        assert screen.status == 0
        top.when(lambda seen: seen.given_back(), "the terminal is given back")


def asked_about(top, duty, generation):
    """All is typed, and nothing is sent."""
    fill(top, duty, generation)


def under_way(top, duty, generation):
    """The leader was asked, and has not released it."""
    fill(top, duty, generation)
    top.keys("\r")
    top.wait("is given time to release it")
    top.wait("Now +the same owner still holds it")


def over(top, duty, generation):
    """It is seen how it ended, and nobody has closed that."""
    fill(top, duty, generation)
    top.keys("\r")
    top.wait("Outcome +MOVED")


# What is open, --grace, what is said at the end, and the audit.
PLACES = {
    "dialog": (asked_about, "30s", "Cancelled. Nothing was sent.", None),
    "watch": (under_way, "30s", "Unknown: the leader was asked. Last seen: the old owner still holds it. "
                                "Sent: a request to release; no session was signalled.", ("unknown", None)),
    "outcome": (over, "100ms", "holds it now. Sent: the session was signalled.", ("moved", True)),
}
ALL, ON_WATCH = PLACES, ("watch", "outcome")
# Keys or a signal, the status, and where that is a way out.
WAYS_OUT = [("Q", 0, ("dialog", "outcome")), ("QQ", 0, ("watch",)), ("?QQ", 0, ("watch",)), ("\x03", 128 + signal.SIGINT, ON_WATCH),
            ("\x1c", 128 + signal.SIGQUIT, ALL), (signal.SIGTERM, 128 + signal.SIGTERM, ALL), (signal.SIGHUP, 128 + signal.SIGHUP, ALL),
            ("\x1b\x1bqq", 0, ("watch",))]


def leave(top, way):
    if isinstance(way, str):
        for key in way:
            top.keys(key)
            top.look()
    else:
        os.kill(top.pid, way)


def ended_so(pg, duty, leader, outcome):
    found = audit(pg, duty)
    assert (found and found[:2]) == outcome and alive(pg, leader) == (outcome is None or not outcome[1])


@pytest.mark.parametrize("place, way, status", [(place, way, status) for way, status, places in WAYS_OUT for place in places])
def test_every_way_out(pg, request, place, way, status):
    """The terminal is given back, and the last that is said is whether something was sent."""
    go, grace, words, outcome = PLACES[place]
    with led(pg, request, listens=True) as (duty, _, leader, generation), dialog(pg, duty, f"--grace={grace}", "--wait=500ms", width=200) as top:
        go(top, duty, generation)
        leave(top, way)
        assert top.end().status == status
        screen = top.when(lambda seen: seen.given_back() and words in seen.text, f"it is given back, with {words!r}")
        assert f"pgleader top: yield of {duty}: " in screen.text and "YIELD" not in screen.text
        ended_so(pg, duty, leader, outcome)


def sh(words):
    return ["sh", "-c", f'{words}exec "$@"', "sh"]


LIMITED = sh("ulimit -f 0; ")


@pytest.mark.parametrize("place", ["dialog", "watch"])
@pytest.mark.parametrize("wrapper, seen", [(LIMITED, True), (["sh", "-c", 'exec "$@" 2>/dev/full', "sh"], False),
                                           (["sh", "-c", 'ulimit -f 0; exec "$@" 2>said', "sh"], False)],
                         ids=["no file may grow", "full disk", "what is said may not grow"])
def test_nothing_can_be_written(pg, request, tmp_path, monkeypatch, place, wrapper, seen):
    """It ends all the same, with the status that tells; what goes to the terminal arrives there."""
    monkeypatch.chdir(tmp_path)
    go, grace, words, outcome = PLACES[place]
    with led(pg, request, listens=True) as (duty, _, leader, generation), dialog(pg, duty, f"--grace={grace}", wrapper=wrapper, width=200) as top:
        go(top, duty, generation)
        leave(top, signal.SIGTERM)
        assert top.end().status == 128 + signal.SIGTERM
        top.when(lambda screen: screen.given_back() and (words in screen.text) == seen, "it is given back")
        ended_so(pg, duty, leader, outcome)


@pytest.mark.parametrize("wrapper", [[], LIMITED], ids=["", "no file may grow"])
@pytest.mark.parametrize("place, way, status", [("dialog", "Q", 0), ("watch", "QQ", 0), ("watch", signal.SIGTERM, 128 + signal.SIGTERM)])
def test_a_terminal_that_takes_nothing(pg, request, place, way, status, wrapper):
    """Nobody waits for it, not even with the last words."""
    go, grace, _, outcome = PLACES[place]
    with led(pg, request, listens=True) as (duty, _, leader, generation), dialog(pg, duty, f"--grace={grace}", wrapper=wrapper, width=200, height=60) as top:
        go(top, duty, generation)
        choke(top)
        begin_at = time.monotonic()
        leave(top, way)
        screen = top.end()
        assert screen.status == status and screen.line == screen.before
        assert screen.ended - begin_at < ENDS_WITHIN
        ended_so(pg, duty, leader, outcome)


@pytest.mark.parametrize("place", ["dialog", "watch"])
def test_a_hang_up(pg, request, place):
    go, grace, _, outcome = PLACES[place]
    with led(pg, request, listens=True) as (duty, _, leader, generation), dialog(pg, duty, f"--grace={grace}") as top:
        go(top, duty, generation)
        top.hang_up()
        assert top.end().status == 128 + signal.SIGHUP
        ended_so(pg, duty, leader, outcome)
