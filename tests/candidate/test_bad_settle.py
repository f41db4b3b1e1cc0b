# SPDX-License-Identifier: PostgreSQL
"""Settling: after a loss the successor waits until old work has stopped, by a report or by the time it may take."""

import os
import signal
import time

import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.faults import frozen
from tests.support.kit import (beat_of_another, child_of, gone, guard_of, holder, kill, reason, several, spans, term,
                               wait_holder)
from tests.support.wait import hold_for, wait_until

STOP_WITHIN = 5.0


def acquired_at(pg, duty):
    return pg.sql("select extract(epoch from acquired_at)::float8 from pgleader.current_term where duty = %s", (duty,))[0][0]


def host_gone(run, also_work=True):
    """As power loss does it: pgleader-run, its guard and the command, none of them can say anything."""
    guard, child = guard_of(run), child_of(run)
    for pid in [guard, run.process.pid] + [child] * also_work:
        kill(pid)
    run.process.wait()
    wait_until(lambda: gone(guard), "the guard is gone")
    return child


@pytest.mark.parametrize("recontend", [True, False], ids=["recontend", "exit"])
def test_the_report_ends_it(pg, duty, shared, recontend):
    """Terminated: tens of milliseconds, not stop_within, whether the loser goes on or exits with 76."""
    options = ["--recontend"] if recontend else []
    with several(pg, duty, shared, ["a", "b"], options):
        first = wait_for_note(shared, "beat")
        wait_until(lambda: pg.sql("select count(*) = 2 from pg_stat_activity where application_name like %s",
                                  (f"pgleader:{duty}:%",))[0][0], "both are candidates")
        began = time.time()
        pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
        second = beat_of_another(shared, first[3])
        assert second[1] - began < 3.5, "no full settle"
        assert reason(pg, duty, int(first[3])) == ("superseded", True)
        assert overlaps(shared) == []


def test_the_guard_reports(pg, duty, shared):
    """kill -9 of pgleader-run alone: the guard ends the work and says so."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        child, began = child_of(runs[first[2]]), time.time()
        runs[first[2]].signal(signal.SIGKILL)
        second = beat_of_another(shared, first[3])
        assert second[1] - began < 3.5, "no full settle"
        assert gone(child)
        assert reason(pg, duty, int(first[3])) == ("superseded", True)
        assert overlaps(shared) == []


def test_nobody_reports(pg, duty, shared):
    """The successor begins after stop_within, not before; it goes on leading; a recorded report never comes."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        work = host_gone(runs[first[2]], also_work=False)
        try:
            wait_until(lambda: term(pg, duty)[0] > int(first[3]), "a successor holds the lock")
            acquired = acquired_at(pg, duty)
            assert not gone(work), "the old work runs on"
            second = beat_of_another(shared, first[3])
            assert STOP_WITHIN - 0.05 < second[1] - acquired < STOP_WITHIN + 1.0
            hold_for(lambda: notes(shared)[-1][1] > time.time() - 1.5 and holder(pg, duty), "it goes on leading", 3)
            assert {n[3] for n in notes(shared) if n[2] != first[2]} == {second[3]}, "one term"
            assert reason(pg, duty, int(first[3])) == ("superseded", False)
        finally:
            os.killpg(work, signal.SIGKILL)


def test_settle_0(pg, duty, shared):
    with several(pg, duty, shared, ["a", "b"], ["--recontend", "--settle=0"]) as runs:
        first = wait_for_note(shared, "beat")
        host_gone(runs[first[2]])
        wait_until(lambda: term(pg, duty)[0] > int(first[3]), "a successor holds the lock")
        second = beat_of_another(shared, first[3])
        assert second[1] - acquired_at(pg, duty) < 1.0


def test_a_successor_lost_while_it_settles(pg, duty, shared):
    """The third waits for the first one's work all the same: the second one's never began."""
    with several(pg, duty, shared, ["a", "b", "c"]) as runs:
        first = wait_for_note(shared, "beat")
        work = host_gone(runs[first[2]], also_work=False)
        try:
            wait_until(lambda: term(pg, duty)[0] > int(first[3]), "a successor holds the lock")
            second, since = term(pg, duty)[0], acquired_at(pg, duty)
            pg.sql("select pg_terminate_backend(%s)", (wait_holder(pg, duty),))
            wait_until(lambda: term(pg, duty)[0] > second, "a third begins a term")
            third = beat_of_another(shared, first[3])
            assert third[1] - since > STOP_WITHIN - 0.05, "the first one's work may have run until then"
            assert int(third[3]) > second
        finally:
            os.killpg(work, signal.SIGKILL)


def test_a_signal_while_it_settles(pg, duty, shared):
    """It ends at once, gives both back, and the next one does not wait for it; the first one's time still counts."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        host_gone(runs[first[2]])
        wait_until(lambda: term(pg, duty)[0] > int(first[3]), "a successor holds the lock")
        name = next(n for n in runs if n != first[2])
        began = time.monotonic()
        runs[name].signal(signal.SIGTERM)
        assert runs[name].wait() == 128 + signal.SIGTERM
        assert time.monotonic() - began < 0.2
        assert holder(pg, duty) is None
        assert term(pg, duty)[2:] == (False, "signal") or term(pg, duty)[2:] == (False, "try-signal")
    since = time.time()
    with Candidate(pg.conninfo(), "c", duty, None, (), shared):
        wait_for_note(shared, "beat", "c")
        assert time.time() - since < STOP_WITHIN + 3


def test_a_leader_paused_beyond_everything(pg, duty, shared):
    """Its session is ended while pgleader-run sleeps: another leads; when it wakes its work is stopped, and was
    refused by the fence all the while."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        paused = runs[first[2]]
        with frozen(paused.process.pid):
            pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
            second = beat_of_another(shared, first[3])
            with pytest.raises(Exception, match="stale"):
                pg.sql("select pgleader.fence(%s, %s)", (duty, int(first[3])))
            pg.sql("select pgleader.fence(%s, %s)", (duty, int(second[3])))
        woken = time.time()
        stopped = wait_for_note(shared, "stopped", first[2])
        assert stopped[1] - woken < 0.5
        wait_until(lambda: reason(pg, duty, int(first[3])) == ("superseded", True), "it reports")
        assert holder(pg, duty) and {i for (i, g), _ in spans(shared).items() if g == second[3]} == {second[2]}


def test_a_yield_while_it_settles(pg, duty, shared):
    """An operator's request is obeyed then, too: no work of that generation begins, or it ends at once."""
    with several(pg, duty, shared, ["a", "b", "c"]) as runs:
        first = wait_for_note(shared, "beat")
        host_gone(runs[first[2]])
        wait_until(lambda: term(pg, duty)[0] > int(first[3]), "a successor holds the lock")
        generation = term(pg, duty)[0]
        asked = time.time()
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, generation))
        wait_until(lambda: term(pg, duty)[0] > generation, "another term", deadline=10)
        assert reason(pg, duty, generation)[0] == "try-yield"
        assert time.time() - asked < 2, "not when it has settled"
