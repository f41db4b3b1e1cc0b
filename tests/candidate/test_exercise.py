# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""The failover exercise, 20 seeded rounds: every fault at least once, and nothing that must never happen."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from types import SimpleNamespace

import pytest

from tests.exercise import judge, report
from tests.exercise.faults import FAULTS
from tests.exercise.record import Note, Term
from tests.exercise.stage import DUTY, KEY, REGISTER, SCHEMA
from tests.exercise.target import Target
from tests.support.cluster import ROOT, Cluster, hold_lock

SEED, ROUNDS = 7, 20


def test_twenty_rounds():
    """One command, as a person would run it: exit 0, every fault drawn, no violation of any kind."""
    argv = [sys.executable, "-B", "-m", "tests.exercise.main", f"--rounds={ROUNDS}", f"--seed={SEED}", "--json"]
    done = subprocess.run(argv, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-6000:]
    told = json.loads(done.stdout)
    assert told["violations"] == [] and len(told["rounds"]) == ROUNDS
    assert {r["fault"] for r in told["rounds"]} == set(FAULTS)
    for result in told["rounds"]:
        moved = result["first_work"] is not None
        assert moved or not FAULTS[result["fault"]].moves, f"nobody took over: {result}"
        assert result["reconciled_first"], result
    cut = [r for r in told["rounds"] if r["fault"] == "network-cut"]
    assert all(r["margin"] > 0 for r in cut), f"the server let go before the work had stopped: {cut}"
    assert told["distributions"]["graceful-stop"]["first_work"]["n"] >= 1


def term(instance, generation, start, last, claims=(), units=(), beside=()):
    made = Term(Note(start, "start", instance, generation, generation, []))
    made.last_ns = last
    made.claims, made.units, made.beside = list(claims), list(units), list(beside)
    return made


A = term("a", 1, 100, 200)
Case = namedtuple("Case", "what terms paused settles wrong explained")
OVERLAPS = [
    Case("one after the other", [A, term("b", 2, 201, 300)], [], True, 0, 0),
    Case("one beside the other", [A, term("b", 2, 199, 300)], [], True, 1, 0),
    Case("the kernel saw what no note says", [A, term("b", 2, 201, 300, beside=[(201, 1, 1)])], [], True, 1, 0),
    Case("the kit was paused", [A, term("b", 2, 150, 300)], [A], True, 0, 1),
    Case("settling is off", [A, term("b", 2, 150, 300)], [], False, 0, 0),
    Case("the first beside the third", [A, term("b", 2, 201, 210), term("c", 3, 150, 300)], [], True, 2, 0),
]


@pytest.mark.parametrize("case", OVERLAPS, ids=[c.what for c in OVERLAPS])
def test_the_judge_sees_overlaps(case):
    wrong, explained = judge.overlaps(case.terms, case.paused, case.settles)
    assert (len(wrong), len(explained)) == (case.wrong, case.explained), wrong


def test_the_judge_sees_generations_and_claims():
    assert judge.generations([A, term("b", 2, 201, 300)]) == []
    assert len(judge.generations([A, term("b", 1, 201, 300)])) == 1
    assert len(judge.generations([term("b", 2, 50, 60), A])) == 1
    claimed = term("b", 2, 0, 9, claims=[(1, "resumed", 7)], units=[(2, 3, 8)])
    assert judge.reconciled([claimed]) == []
    assert len(judge.reconciled([term("b", 2, 0, 9, units=[(2, 3, 8)])])) == 1
    assert len(judge.reconciled([term("b", 2, 0, 9, claims=[(5, "resumed", 7)], units=[(2, 3, 8)])])) == 1
    assert len(judge.reconciled([term("b", 2, 0, 9, claims=[(1, "resumed", 7)], units=[(2, 3, 9)])])) == 1


def test_percentiles():
    values = list(range(1, 101))
    assert [report.percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50, 99, 100]
    assert report.percentile([], 0.5) is None


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql(SCHEMA)
        cluster.sql(REGISTER[False])
        yield cluster


class Staged:
    """What the judge asks of a stage: a database."""

    def __init__(self, pg):
        self.sql = pg.sql


EFFECTS = [
    ("one after the other", [(1, 0), (2, 0), (3, 1)], 0),
    ("one skipped", [(1, 0), (3, 0)], 1),
    ("one twice", [(1, 0), (2, 0), (2, 1)], 1),
    ("one by an old generation, after a later one's", [(1, 0), (2, 1), (3, 0)], 2),  # late by the clock and by the order
]


@pytest.mark.parametrize("what, rows, wrong", EFFECTS, ids=[e[0] for e in EFFECTS])
def test_the_judge_sees_effects(pg, what, rows, wrong):
    """Generations 0 and 1 are two real terms; each effect is written while the later one of its time leads."""
    pg.sql("truncate effect; truncate pgleader.term, pgleader.run; update pgleader.duty set generation = null, term_ended_at = null")
    with hold_lock(pg, KEY) as holder:
        begun = []
        for item, which in rows:
            while which >= len(begun):
                begun.append(holder.execute("select pgleader.begin_term(%s, 'x')", (DUTY,)).fetchone()[0])
            holder.execute("insert into effect values (%s, %s, 'x', clock_timestamp())", (item, begun[which]))
    found, highest = judge.effects(Staged(pg), 0)
    assert (len(found), highest) == (wrong, rows[-1][0]), found


def test_the_target_refuses_a_stale_token(tmp_path):
    with Target(tmp_path / "target") as target:
        assert [target.answer(str(g), "1", "x", "now") for g in (5, 5, 7, 5)] == ["accepted\n"] * 3 + ["refused\n"]
        assert target.answer("5", "2", "x", "later") == "later\n"
        assert target.deliver() == (1, 0)
        assert judge.calls(target.calls) == []
        broken = [target.calls[2], target.calls[0]]  # 7 accepted, then 5
        assert len(judge.calls(broken)) == 1


def test_the_judge_sees_orphans():
    """Only a living candidate and its children, and of these only the work of the newest generation, may be there."""
    class Place:
        class process:
            pid = 10

        def children():
            return [11, 12]

    stage = Staged(pg=SimpleNamespace(sql=None))
    stage.candidates = [Place]
    stage.record = SimpleNamespace(read=lambda: SimpleNamespace(newest=lambda: A))
    now, old = [b"PGLEADER_GENERATION=1"], [b"PGLEADER_GENERATION=0"]
    for seen, wrong in [((10, []), []), ((11, []), []), ((12, now), []), ((12, old), [12]), ((13, now), [13]), ((13, []), [13])]:
        stage.environments = lambda seen=seen: [seen]
        assert judge.orphans(stage) == wrong, seen
