# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""Hundreds and thousands of duties: every query answers, none takes more than half a second."""

import json
import os
import re
import time
from itertools import chain

import pytest

from .page import UIDS, Reader, load
from .prometheus import Backfilled
from .scenarios import INVOICE, crowd

SECONDS = 0.5
EVERY = 600  # seconds between the points of this history: the cost of a query is in its steps and series
OVERVIEW, DUTY = UIDS
CROWDS = {"300 duties": 300, "5000 duties": 5000}
TICKS = os.sysconf("SC_CLK_TCK")


def asked_for(line, names=frozenset(re.findall(r"pgleader_\w+", json.dumps(load(OVERVIEW))))):
    """What no query on all duties asks for, only the one duty has that is looked at in depth."""
    name = line[:line.index("{")]
    return name in names and ("rule=" not in line or '"takeover"' in line) and ("outcome=" not in line or '"moved"' in line)


@pytest.fixture(scope="module")
def prometheus():
    lines = chain.from_iterable(crowd(job, n, EVERY, asked_for) for job, n in CROWDS.items())
    with Backfilled(lines, lookback=EVERY + 10) as found:
        yield found


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cost(prometheus, ask):
    """The answer, and the seconds that it took, at the best of three: by the clock, or by what Prometheus computed where
    other programs had the processors."""
    best = None
    for _ in range(3):
        computed, began = cpu_seconds(prometheus.process), time.monotonic()
        rows = ask()
        took = min(time.monotonic() - began, cpu_seconds(prometheus.process) - computed)
        best = took if best is None else min(best, took)
        if best < SECONDS:
            break
    return rows, best


@pytest.mark.parametrize("job", CROWDS)
@pytest.mark.parametrize("uid", UIDS)
def test_every_query_is_quick(prometheus, job, uid):
    one = {"server": "db-first", "duty": INVOICE} if uid == DUTY else {}
    page, slow = Reader(uid, {"job": job, **one}), []
    for key, panel, target, expression in page.targets():
        rows, took = cost(prometheus, lambda: page.ask(prometheus, panel, target, expression))
        slow += [f"{key}: {took:.2f} s"] if took >= SECONDS else []
        assert panel["type"] == "table" or len(rows) <= 20, f"{key} draws {len(rows)} lines"
    for annotation in page.dashboard["annotations"]["list"]:
        _, took = cost(prometheus, lambda: page.events(prometheus, annotation["name"]))
        slow += [f"{annotation['name']}: {took:.2f} s"] if took >= SECONDS else []
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("job, n", CROWDS.items())
def test_the_worst_are_in_sight(prometheus, job, n):
    """All duties stand in the table; those in trouble are among the 20 that the timeline draws."""
    page = Reader(OVERVIEW, {"job": job})
    found = {key: page.ask(prometheus, panel, target, expression) for key, panel, target, expression in page.targets()
             if key in ("Who leads/A", "Leadership over time/A")}
    states = {(labels["server"], labels["duty"]): values[-1] for labels, values in found["Who leads/A"]}
    drawn = {(labels["server"], labels["duty"]) for labels, _ in found["Leadership over time/A"]}
    trouble = {duty for duty, state in states.items() if state != 1}
    assert len(states) == n + 1 and trouble and len(drawn) == 20
    assert drawn <= trouble if len(trouble) >= 20 else trouble <= drawn
