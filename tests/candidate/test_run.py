# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""pgleader-run: leads, loses and hands over, and never two at once."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.wait import wait_until


@pytest.fixture
def duty(pg, request):
    name = f"jobs/{request.node.name.split('[')[0].replace('_', '-')[:36]}"
    pg.sql("select pgleader.register_duty(%s, lock_key => (random() * 1e9)::int)", (name,))
    return name


def term(pg, duty):
    rows = pg.sql("select generation, instance, ended_at is null, end_reason, previous_end_reason, "
                  "previous_stopped_at is not null from pgleader.current_term where duty = %s", (duty,))
    return rows[0] if rows else None


def owner_pid(pg, duty):
    return pg.sql("select term_pid from pgleader.duty where duty = %s", (duty,))[0][0]


@pytest.mark.parametrize("how", ["terminate", "kill -9", "SIGTERM"])
def test_hand_over(pg, duty, shared, how):
    """Three candidates; the leader goes; another goes on, and never both at once."""
    names = ["a", "b", "c"]
    runs = {n: Candidate(pg.conninfo(), n, duty, options=["--recontend"], notes=shared) for n in names}
    for run in runs.values():
        run.__enter__()
    try:
        _, _, first, generation = wait_for_note(shared, "beat")
        assert term(pg, duty)[:3] == (int(generation), first, True)
        if how == "terminate":
            pg.sql("select pg_terminate_backend(%s)", (owner_pid(pg, duty),))
        else:
            runs[first].signal(signal.SIGKILL if how == "kill -9" else signal.SIGTERM)
        second = wait_until(lambda: next((n for n in notes(shared) if n[3] != generation), None), "a successor works")
        seen = term(pg, duty)
        assert int(second[3]) > int(generation) and seen[0] == int(second[3])
        assert (seen[4], seen[5]) == (("signal", False) if how == "SIGTERM" else ("superseded", True))
        assert any(n[0] == "stopped" and n[3] == generation for n in notes(shared))
        assert overlaps(shared) == []
    finally:
        for run in runs.values():
            run.__exit__()


def test_no_password_in_ps(pg, duty, shared):
    with Candidate(pg.conninfo(password="hunter2"), "x", duty, None, (), shared) as run:
        wait_for_note(shared, "beat")
        for pid in [run.process.pid, *run.children()]:
            assert b"hunter2" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert "hunter2" not in run.log()


def test_a_command_that_ignores_sigterm_is_killed_before_the_lock_is_free(pg, duty, shared):
    stubborn = 'trap "" TERM; echo $$ > "$NOTES"; while :; do sleep 0.05; done'
    with Candidate(pg.conninfo(), "x", duty, ["bash", "-c", stubborn], ["--kill-after=300ms"], shared) as run:
        worker = wait_until(lambda: shared.exists() and int(shared.read_text() or 0), "the worker runs")
        pg.sql("select pg_terminate_backend(%s)", (owner_pid(pg, duty),))
        assert run.wait() == 76
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_queue(pg, duty, shared):
    """In the lock's own queue the successor begins at once, and nothing is logged for it."""
    before = len(pg.log_text())
    options = ["--recontend", "--wait=queue", "--settle=0"]
    with Candidate(pg.conninfo(), "a", duty, None, options, shared), Candidate(pg.conninfo(), "b", duty, None, options,
                                                                              shared):
        first = wait_for_note(shared, "beat")
        wait_until(lambda: pg.sql("select 1 from pg_locks where locktype = 'advisory' and not granted"), "one waits")
        pg.sql("select pg_terminate_backend(%s)", (owner_pid(pg, duty),))
        second = wait_until(lambda: next((n for n in notes(shared) if n[3] != first[3]), None), "the other works")
        assert second[2] != first[2]
    assert [line for line in pg.log_text()[before:].splitlines() if "ERROR" in line] == []


def test_queue_without_the_ledger(pg, shared):
    """It falls back to trying, and says so."""
    with Candidate(pg.conninfo("template1"), "x", "jobs/plain", None, ["--lock=99", "--wait=queue"], shared) as run:
        wait_for_note(shared, "beat")
        assert "trying instead of waiting in the queue" in run.log()


def test_a_restart_of_the_server(pg, duty, shared):
    with Candidate(pg.conninfo(), "x", duty, None, ["--recontend"], shared):
        generation = wait_for_note(shared, "beat")[3]
        pg.restart("immediate")
        again = wait_until(lambda: next((n for n in notes(shared) if n[3] != generation), None), "it leads again")
        assert int(again[3]) > int(generation)
        assert overlaps(shared) == []
