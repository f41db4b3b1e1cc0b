# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""A duty moves to another key while it is led: both keys are held meanwhile, nobody stops, and never do two lead."""

import signal
import time

import psycopg
import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.kit import beat_of_another, holder, reason, several, wait_holder
from tests.support.wait import hold_for, wait_until

BY_KEY = ("select pid from pg_locks where locktype = 'advisory' and granted and mode = 'ExclusiveLock' and objsubid = 1 "
          "and classid = 0 and objid = %s::oid")


def key_of(pg, duty):
    return pg.sql("select lock_objid::int from pgleader.duty where duty = %s", (duty,))[0][0]


def held_by(pg, key):
    rows = pg.sql(BY_KEY, (key,))
    assert len(rows) < 2
    return rows[0][0] if rows else None


def reserve(pg, duty, key):
    pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key))


def complete(pg, duty):
    pg.sql("select pgleader.complete_key_change(%s)", (duty,))


def wait_both(pg, *keys):
    """The one session that holds all of them."""
    def pids():
        found = {held_by(pg, key) for key in keys}
        return len(found) == 1 and found.pop()
    return wait_until(pids, f"one session holds {keys}")


def wait_candidates(pg, duty, number):
    wait_until(lambda: pg.sql("select count(*) = %s from pg_stat_activity where application_name like %s and query like '%%try%%'",
                              (number, f"pgleader:{duty}:%"))[0][0], f"{number} have tried")


def led_once(pg, duty):
    """A duty's key changes at once before its first term."""
    with pg.connect() as conn:
        conn.execute("select pg_advisory_lock(lock_objid), pgleader.begin_term(duty, 'by hand') from pgleader.duty "
                     "where duty = %s", (duty,))
        conn.execute("select pgleader.end_term(duty, generation, 'done') from pgleader.duty where duty = %s", (duty,))


@pytest.mark.parametrize("how", ["try", "queue"])
def test_under_a_leader(pg, duty, shared, how):
    """The same command works on, in the same term; the old key is free afterwards, and nobody leads by it again."""
    old, new = (key := key_of(pg, duty)), key + 1
    with several(pg, duty, shared, "ab", ("--recontend", f"--wait={how}")) as runs:
        first, generation = wait_for_note(shared, "beat")[2:]
        pid = wait_holder(pg, duty)
        reserve(pg, duty, new)
        assert wait_both(pg, old, new) == pid
        assert holder(pg, duty) == pid, "the old key decides"
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, old), "the old key is free")
        assert held_by(pg, new) == holder(pg, duty) == pid
        since = time.time()
        hold_for(lambda: held_by(pg, new) == pid and held_by(pg, old) in (None, *followers(pg, duty, pid)), "one leads", 1)
        wait_for_note(shared, "beat", first, after=since)
        assert [note[2:] for note in notes(shared) if note[0] != "beat"] == [(first, generation)], "one start, no stop"
        assert reason(pg, duty, int(generation)) == (None, False)
        with Candidate(pg.conninfo(), "forgotten", duty, ["true"], (f"--lock={old}",)) as forgotten:
            assert forgotten.wait() == 64 and "PL002" in forgotten.log(), forgotten.log()
        runs[first].signal(signal.SIGTERM)
        beat_of_another(shared, generation)
        assert wait_holder(pg, duty, pid) == held_by(pg, new)
        assert not overlaps(shared)


def followers(pg, duty, leader):
    """A follower that has not heard may hold the old key for a moment, and is refused its term."""
    return [row[0] for row in pg.sql("select pid from pg_stat_activity where application_name like %s and pid <> %s",
                                     (f"pgleader:{duty}:%", leader))]


@pytest.mark.parametrize("how", ["try", "queue"])
def test_a_term_begins_with_both(pg, duty, shared, how):
    """From its first moment on the change can be completed; the next leader, lost or not, takes both again."""
    old, new = (key := key_of(pg, duty)), key + 1
    led_once(pg, duty)
    reserve(pg, duty, new)
    with several(pg, duty, shared, "ab", ("--recontend", f"--wait={how}")):
        generation = wait_for_note(shared, "started")[3]
        pid = held_by(pg, new)
        assert pid and pid == holder(pg, duty)
        for _ in range(2):
            pg.sql("select pg_terminate_backend(%s)", (pid,))
            generation = beat_of_another(shared, generation)[3]
            pid = held_by(pg, new)
            assert pid and pid == holder(pg, duty)
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, old), "the old key is free")
        hold_for(lambda: notes(shared)[-1][3] == generation, "it works on", 1.5)
    assert not overlaps(shared)
    assert not held_by(pg, old) and not held_by(pg, new)


def test_a_candidate_that_does_not_know_of_it_yet(pg, duty, shared):
    """It waits for the old key when the new one is reserved: the statement that would begin its term finds out before it does."""
    old, new = (key := key_of(pg, duty)), key + 1
    led_once(pg, duty)
    with pg.connect() as other, several(pg, duty, shared, "a", ("--wait=queue",)):
        other.execute("select pg_advisory_lock(%s)", (old,))
        waits = "select 1 from pg_locks where not granted and locktype = 'advisory' and objid = %s::oid"
        wait_until(lambda: pg.sql(waits, (old,)), "it waits")
        reserve(pg, duty, new)
        other.close()
        wait_for_note(shared, "started")
        assert held_by(pg, new) == holder(pg, duty)


def test_the_new_key_is_held_by_another(pg, duty, shared):
    """Somebody works by the new key alone: nobody else does, each gives the old key back, says so, and tries seldom."""
    old, new = (key := key_of(pg, duty)), key + 1
    led_once(pg, duty)
    reserve(pg, duty, new)
    with pg.connect() as other:
        other.execute("select pg_advisory_lock(%s)", (new,))
        with several(pg, duty, shared, "ab") as runs:
            for run in runs.values():
                wait_until(lambda run=run: "rule=next-held" in run.log(), "it has given the old key back")
            hold_for(lambda: not shared.exists(), "nobody works", 3)
            for run in runs.values():
                assert run.log().count("rule=next-held") < 7, run.log()
                assert run.process.poll() is None
            wait_until(lambda: not held_by(pg, old), "the old key is free")
            other.close()
            wait_for_note(shared, "started")
            assert wait_both(pg, old, new)


def test_the_new_key_is_held_by_another_under_a_leader(pg, duty, shared):
    """The registry's key decides: it leads on, says so once, and takes the other when it is free."""
    old, new = (key := key_of(pg, duty)), key + 1
    with pg.connect() as other, several(pg, duty, shared, "a") as runs:
        wait_for_note(shared, "beat")
        pid = wait_holder(pg, duty)
        other.execute("select pg_advisory_lock(%s)", (new,))
        reserve(pg, duty, new)
        said = "cannot be completed"
        wait_until(lambda: said in runs["a"].log(), "it says so")
        with pytest.raises(psycopg.errors.ObjectInUse):
            complete(pg, duty)
        hold_for(lambda: holder(pg, duty) == pid, "it leads on", 2)
        assert runs["a"].log().count(said) == 1
        other.close()
        assert wait_both(pg, old, new) == pid
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, old), "the old key is free")
        assert len([note for note in notes(shared) if note[0] == "started"]) == 1


def test_called_off_and_called_on(pg, duty, shared):
    """Back to the old key, then to a third one, then to a pair: each is held as long as it is reserved, the command works on."""
    old, new, third = (key := key_of(pg, duty)), key + 1, key + 2
    with several(pg, duty, shared, "a"):
        wait_for_note(shared, "beat")
        pid = wait_holder(pg, duty)
        reserve(pg, duty, new)
        assert wait_both(pg, old, new) == pid
        reserve(pg, duty, old)
        wait_until(lambda: not held_by(pg, new), "the new key is free")
        reserve(pg, duty, new)
        assert wait_both(pg, old, new) == pid
        reserve(pg, duty, third)
        assert wait_both(pg, old, third) == pid
        wait_until(lambda: not held_by(pg, new), "the second is free")
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, old), "the first is free")
        pg.sql("select pgleader.register_duty(%s, lock_pair => '{7,-7}')", (duty,))
        pair = "select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 2 and classid = 7 and objid = %s::oid"
        wait_until(lambda: pg.sql(pair, (2**32 - 7,)) == [(pid,)], "it holds the pair")
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, third), "the third is free")
        hold_for(lambda: holder(pg, duty) == pid, "it leads by the pair", 1.5)
        assert len([note for note in notes(shared) if note[0] == "started"]) == 1
    assert not pg.sql(pair, (2**32 - 7,))


def test_lost_in_the_middle(pg, duty, shared):
    """Terminated, killed, told to stop while both keys are held: the successor holds both, and the change is completed under it."""
    old, new = (key := key_of(pg, duty)), key + 1
    with several(pg, duty, shared, "abc", ()) as runs:
        first = wait_for_note(shared, "beat")
        reserve(pg, duty, new)
        pid = wait_both(pg, old, new)
        pg.sql("select pg_terminate_backend(%s)", (pid,))
        second = beat_of_another(shared, first[3])
        assert wait_both(pg, old, new) == holder(pg, duty) != pid
        runs[second[2]].signal(signal.SIGKILL)
        third = beat_of_another(shared, second[3])
        assert wait_both(pg, old, new) == holder(pg, duty)
        complete(pg, duty)
        wait_until(lambda: not held_by(pg, old), "the old key is free")
        runs[third[2]].signal(signal.SIGTERM)
        assert runs[third[2]].wait() == 0
        assert not held_by(pg, old) and not held_by(pg, new)
        assert reason(pg, duty, int(third[3]))[0] == "signal"
    assert not overlaps(shared)


def test_named_keys(pg, duty, shared):
    """An old release with --lock of the old key, a new one with the new key's: while the duty moves each takes both, the old key
    first; after the completion only the new release may begin a term."""
    old, new = (key := key_of(pg, duty)), key + 1
    led_once(pg, duty)
    reserve(pg, duty, new)
    with Candidate(pg.conninfo(), "old", duty, options=(f"--lock={old}", "--recontend"), notes=shared) as a:
        first = wait_for_note(shared, "beat", "old")
        pid = wait_both(pg, old, new)
        with Candidate(pg.conninfo(), "new", duty, options=(f"--lock={new}", "--recontend"), notes=shared) as b:
            wait_candidates(pg, duty, 1)
            hold_for(lambda: holder(pg, duty) == pid, "one leads", 1)
            complete(pg, duty)
            wait_until(lambda: not held_by(pg, old), "the old key is free")
            assert held_by(pg, new) == pid, "who leads leads on"
            pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
            wait_for_note(shared, "beat", "new")
            assert held_by(pg, new) == holder(pg, duty) != pid
            assert a.wait() == 64 and "PL002" in a.log()
            assert b.process.poll() is None
    assert not overlaps(shared)


def test_a_key_that_was_named_too_early(pg, duty):
    """Before it is reserved the registry knows nothing of it: refused, as any other."""
    led_once(pg, duty)
    with Candidate(pg.conninfo(), "a", duty, ["true"], (f"--lock={key_of(pg, duty) + 1}",)) as run:
        assert run.wait() == 64 and "PL002" in run.log()


def test_it_costs_nothing(pg, duty, shared):
    """A change that waits for its completion: one statement a second, as ever."""
    old, new = (key := key_of(pg, duty)), key + 1
    with several(pg, duty, shared, "a"):
        wait_for_note(shared, "beat")
        reserve(pg, duty, new)
        pid = wait_both(pg, old, new)
        starts = set()

        def is_idle():
            starts.update(pg.sql("select query_start from pg_stat_activity where pid = %s", (pid,)))
            return len(starts) <= 5
        hold_for(is_idle, "a check a second and no more", 3, every=0.01)
