# SPDX-License-Identifier: PostgreSQL
"""The parts of README.md that scripts write, each between two marks."""


def marks(name, writer):
    return f"<!-- {name}: begin, written by {writer} -->\n", f"<!-- {name}: end -->\n"


def between(text, name, writer):
    """What stands between the marks."""
    begin, end = marks(name, writer)
    return text.split(begin)[1].split(end)[0]


def replaced(text, name, writer, new):
    """The text with something else between the marks."""
    begin, end = marks(name, writer)
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return head + begin + new + end + tail
