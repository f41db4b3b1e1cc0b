# SPDX-License-Identifier: PostgreSQL
"""Processes that die, hide or leak: the command, its children, the guard, pgleader-run itself."""

import os
import signal
import time

from tests.support.candidate import WORKER, Candidate, overlaps, wait_for_note
from tests.support.kit import beat_of_another, child_of, gone, guard_of, holder, kill, reason, several, wait_holder
from tests.support.wait import hold_for, wait_until


def test_command_killed(pg, duty, shared):
    """kill -9 of the command only: its status, a graceful end of the term, nothing left."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend"], shared) as run:
        first = wait_for_note(shared, "beat")
        kill(child_of(run))
        assert run.wait() == 128 + signal.SIGKILL
    assert reason(pg, duty, int(first[3]))[0] == "finished"
    assert holder(pg, duty) is None


def test_all_of_it_killed_at_once(pg, duty, shared):
    """kill -9 of pgleader-run and of its command together: the guard reports all the same."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        leader = runs[first[2]]
        child, guard, since = child_of(leader), guard_of(leader), time.time()
        kill(leader.process.pid)
        kill(child)
        assert beat_of_another(shared, first[3])[1] - since < 3.5
        assert reason(pg, duty, int(first[3])) == ("superseded", True)
        wait_until(lambda: gone(guard), "the guard has gone home")
        assert overlaps(shared) == []


def test_killed_while_the_command_ignores_sigterm(pg, duty, shared):
    """The guard's SIGKILL comes after --kill-after; the successor begins after that."""
    stubborn = WORKER.replace("note stopped; exit 0", "note refused")
    options = ["--recontend", "--kill-after=600ms"]
    with several(pg, duty, shared, ["a", "b"], options, command=["bash", "-c", stubborn]) as runs:
        first = wait_for_note(shared, "beat")
        child = child_of(runs[first[2]])
        runs[first[2]].signal(signal.SIGKILL)
        refused = wait_for_note(shared, "refused", first[2])
        second = beat_of_another(shared, first[3])
        assert gone(child) and second[1] - refused[1] > 0.55
        assert overlaps(shared) == []


def test_killed_while_the_database_is_away(pg, duty, shared):
    """The work is dead; the guard reports when the database is back, and goes home."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        child, guard = child_of(runs[first[2]]), guard_of(runs[first[2]])
        runs[first[2]].signal(signal.SIGSTOP)  # or it would end its work itself
        pg.stop("immediate")
        try:
            runs[first[2]].signal(signal.SIGKILL)
            wait_until(lambda: gone(child), "the work is dead")
        finally:
            pg.start()
        assert int(beat_of_another(shared, first[3])[3]) > int(first[3])
        wait_until(lambda: gone(guard), "the guard has gone home")
        assert reason(pg, duty, int(first[3])) == ("superseded", True)
        assert overlaps(shared) == []


def test_guard_killed(pg, duty, shared):
    """Without its guard a killed pgleader-run would leave its work running: there is a new guard soon."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend"], shared) as run:
        wait_for_note(shared, "beat")
        child, guard = child_of(run), guard_of(run)
        kill(guard)
        wait_until(lambda: gone(guard) and (run.process.poll() is not None or guard_of(run) != guard), "a guard again",
                   deadline=10)
        run.signal(signal.SIGKILL)
        wait_until(lambda: gone(child), "the work is stopped")


def test_grandchildren_in_the_group(pg, duty, shared):
    """What the command left in its group is stopped before the lock is free, however it was left."""
    tree = "(" + WORKER.replace("note stopped; exit 0", "note refused").replace("$PGLEADER_INSTANCE", "grandchild") + \
        ") & echo $! > \"$NOTES.pid\"; trap 'exit 0' TERM; while :; do sleep 0.02; done"
    with Candidate(pg.conninfo(), "a", duty, ["bash", "-c", tree], ["--recontend", "--kill-after=500ms"], shared) as run:
        wait_for_note(shared, "beat", "grandchild")
        pid = holder(pg, duty)
        grandchild = int(shared.with_name("notes.pid").read_text())
        run.signal(signal.SIGTERM)
        wait_until(lambda: holder(pg, duty) != pid, "the lock is free", every=0.002)
        assert gone(grandchild)
        run.wait()


def test_no_descriptor_or_process_is_left_over(pg, duty, shared):
    """Fifty terms, lost in turn by an end of the session and by request: as many descriptors as in the beginning."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend", "--settle=0"], shared) as run:
        def descriptors():
            return len(os.listdir(f"/proc/{run.process.pid}/fd"))
        generation, least = None, 1000
        for i in range(50):
            generation = beat_of_another(shared, generation)[3] if generation else wait_for_note(shared, "beat")[3]
            if i < 3:
                hold_for(lambda: True, "it is steady", 0.1)
                least = min(least, descriptors())
            if i % 2:
                intent = pg.sql("select pgleader.request_yield(%s, %s, 'test', '0 s', array['cool-down'])",
                                (duty, int(generation)))
                pg.sql("select pgleader.record_yield_outcome(%s, 'unknown')", intent[0])
            else:
                pg.sql("select pg_terminate_backend(%s)", (wait_holder(pg, duty),))
        wait_until(lambda: descriptors() == least and len(run.children()) == 2, "as many as in the beginning")
        before = run.children()
    for pid in before:
        wait_until(lambda p=pid: gone(p), "nothing is left over")


def test_many_signals(pg, duty, shared):
    """A storm of signals at every moment of its life: one clean end, one term, no lock, no process left."""
    for i in range(12):
        with Candidate(pg.conninfo(), f"s{i}", duty, None, (), shared) as run:
            wait_until(lambda r=run: "guard" in open(f"/proc/{r.process.pid}/status", encoding="utf-8").read() or
                       r.children(), "it has begun")
            end = time.monotonic() + i * 0.015
            while time.monotonic() < end:
                run.signal(signal.SIGUSR1)
                time.sleep(0.002)
            for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                run.signal(sig)
            began = time.monotonic()
            status = run.wait(6)
            assert status in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGUSR1), run.log()
            assert time.monotonic() - began < 1.5
        hold_for(lambda: holder(pg, duty) is None, "free", 0.05)
    assert not pg.sql("select 1 from pg_stat_activity where application_name like %s", (f"pgleader:{duty}:%",))
