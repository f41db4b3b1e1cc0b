# SPDX-License-Identifier: PostgreSQL
"""The yield dialog of `pgleader top`, steered as a person would."""

import re

from .exporter import program
from .terminal import Tmux
from .wait import wait_until


def top(conninfo, *options, allow=True, width=100, height=40, **env):
    allowed = ["--allow-yield"] if allow else []
    return Tmux([program("pgleader"), "top", "--interval=500ms", *allowed, *options, conninfo], width, height, **env)


def find(terminal, duty):
    """The cursor on that duty of the list: a first picture has no names from a ledger yet."""
    terminal.wait(" led")

    def found():
        terminal.keys("/")
        terminal.type(duty)
        terminal.wait(f"Find: {re.escape(duty)}_")
        terminal.keys("Enter")
        return "Not found" not in terminal.wait(rf"Not found|>.{re.escape(duty[:6])}")
    wait_until(found, f"{duty} is in the list", every=0.2)


def ask(terminal, duty):
    """From the list to the dialog, whose guards have looked once; returns the screen."""
    find(terminal, duty)
    terminal.keys("Enter")
    terminal.wait(rf"{re.escape(duty)}\s[^\n]*\n*State +")
    terminal.keys("Y")
    return terminal.wait(r"Guards +(none of \d+ refuses|\d+ of \d+ REFUSE)")


def wanted(terminal):
    """What is to be typed."""
    return " ".join(terminal.wait(r"Type exactly: +\S+\s+\S+").split("Type exactly:")[1].split()[:2])


def fill(terminal, confirm, reason="disk full"):
    """From the Cancel button on: both fields; then the cursor is on Yield."""
    terminal.keys("Tab")
    terminal.wait("> Reason")
    terminal.type(reason)
    terminal.keys("Enter")
    terminal.wait("> Confirm")
    terminal.type(confirm)
    terminal.keys("Tab")
    return terminal.wait(r"> \[ Yield \]")


def send(terminal, outcome, deadline=30):
    """Enter on Yield, until it has ended so; returns the screen."""
    terminal.keys("Enter")
    return terminal.wait(rf"Outcome +{outcome}", deadline)
