# SPDX-License-Identifier: PostgreSQL
"""Servers that make it hard: no connection left, a ledger that is locked or gone."""

import signal
import time

import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import LockWatch, beat_of_another, holder, several, spans, wait_holder
from tests.support.wait import hold_for, wait_until


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"max_connections": "20", "superuser_reserved_connections": "3"}) as cluster:
        cluster.install_ledger()
        cluster.sql("create role worker login in role pgleader_candidate")
        yield cluster


def worker(pg, duty, shared, name="a", options=("--recontend",)):
    return Candidate(pg.conninfo(user="worker"), name, duty, None, options, shared)


def steady(pg, duty, shared, seconds=2.5):
    hold_for(lambda: holder(pg, duty) and notes(shared)[-1][1] > time.time() - 1.0, "it leads and works", seconds)


class Crowd:
    """Takes every connection that ordinary roles can have, again and again."""

    def __init__(self, pg):
        self.pg, self.held = pg, []

    def __enter__(self):
        self.fill()
        return self

    def fill(self):
        while True:
            try:
                self.held.append(self.pg.connect(user="worker", application_name="crowd"))
            except Exception as error:
                assert "connection" in str(error), error
                return

    def __exit__(self, *_):
        for conn in self.held:
            conn.close()


def test_no_connection_left_for_a_candidate(pg, duty):
    """Not available within --timeout: 69. With the reason in the log, and not in a tight loop."""
    with Crowd(pg):
        with worker(pg, duty, None, options=["--timeout=2s"]) as run:
            assert run.wait() == 69, run.log()
        assert "slots" in run.log() and 2 <= run.log().count("slots") <= 16


def test_no_connection_left_for_a_leader_that_lost_its_own(pg, duty, shared):
    """Its place was taken while it reconnects: it waits, and leads when there is room; never two."""
    with worker(pg, duty, shared) as run, LockWatch(pg, duty) as watch:
        first = wait_for_note(shared, "beat")
        with Crowd(pg) as crowd:
            pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
            crowd.fill()
            wait_for_note(shared, "stopped")
            crowd.fill()
            wait_until(lambda: "slots" in run.log() or holder(pg, duty), "it finds no place")
            if "slots" in run.log():
                hold_for(lambda: holder(pg, duty) is None, "nobody leads", 0.5)
        second = beat_of_another(shared, first[3])
        assert int(second[3]) > int(first[3]) and watch.most() == 1 and overlaps(shared) == []


def test_followers_that_find_no_place_do_not_harm_the_leader(pg, duty, shared):
    with worker(pg, duty, shared), Crowd(pg):
        first = wait_for_note(shared, "beat")
        with worker(pg, duty, shared, "b") as other, worker(pg, duty, shared, "c"):
            wait_until(lambda: "slots" in other.log(), "it finds no place")
            steady(pg, duty, shared)
        assert {g for _, g in spans(shared)} == {first[3]}


def test_ledger_locked_while_it_leads(pg, duty, shared):
    """The lock is the truth: nothing happens to a leader whose ledger is locked; others wait without harm."""
    with worker(pg, duty, shared), worker(pg, duty, shared, "b"), pg.connect() as other:
        first = wait_for_note(shared, "beat")
        other.execute("begin; lock table pgleader.duty, pgleader.term in access exclusive mode")
        hold_for(lambda: notes(shared)[-1][1] > time.time() - 1.0, "it works", 4)
        other.execute("rollback")
        assert {g for _, g in spans(shared)} == {first[3]} and wait_holder(pg, duty)


def test_unlock_does_not_wait_for_a_locked_ledger(pg, duty, shared):
    """A leader that is told to stop gives the lock back although its term cannot be ended now."""
    with pg.connect() as other, pg.connect() as observer:
        with worker(pg, duty, shared, options=()) as run:
            wait_for_note(shared, "beat")
            pid = holder(pg, duty)
            other.execute("begin; lock table pgleader.duty in access exclusive mode")
            asked = time.monotonic()
            run.signal(signal.SIGTERM)
            assert run.wait() == 0, run.log()
            wait_until(lambda: not observer.execute("select 1 from pg_locks where pid = %s and locktype = 'advisory'",
                                                    (pid,)).fetchall(), "the lock is free")
            assert time.monotonic() - asked < 4
        other.execute("rollback")
    wait_until(lambda: not pg.sql("select 1 from pg_stat_activity where pid = %s", (pid,)), "its session is gone")
    with worker(pg, duty, shared, "b", options=()):
        assert wait_for_note(shared, "beat", "b")


def test_ledger_locked_while_it_acquires(pg, duty, shared):
    """It leads when the ledger can be written again; meanwhile nobody works, and the server is not hammered."""
    with pg.connect() as other:
        other.execute("begin; lock table pgleader.duty in access exclusive mode")
        with worker(pg, duty, shared) as run:
            hold_for(lambda: not notes(shared), "nobody works", 4)
            other.execute("rollback")
            first = wait_for_note(shared, "beat")
            steady(pg, duty, shared)
            assert {g for _, g in spans(shared)} == {first[3]}
            assert run.log().count("\n") < 20, run.log()


def test_row_of_the_duty_locked_while_it_acquires(pg, duty, shared):
    """A frozen worker's fence: begin_term waits, fails, and is tried again until it passes."""
    with pg.connect() as other:
        other.execute("begin")
        other.execute("select 1 from pgleader.duty where duty = %s for update", (duty,))
        with worker(pg, duty, shared) as run:
            hold_for(lambda: not notes(shared), "nobody works", 3)
            other.execute("rollback")
            wait_for_note(shared, "beat")
            steady(pg, duty, shared)
            assert run.log().count("\n") < 20, run.log()


def test_ledger_dropped_while_it_leads(pg, duty, shared):
    """In a database of its own: the leader keeps the lock and goes on; the unlock at its end needs no ledger."""
    pg.sql("create database dropped")
    pg.install_ledger("dropped")
    pg.sql("select pgleader.register_duty('jobs/dropped', lock_key => 4711)", dbname="dropped")
    held = "select pid from pg_locks where locktype = 'advisory' and granted and objid = 4711"
    options = ["--lock=4711", "--recontend"]
    with Candidate(pg.conninfo("dropped"), "a", "jobs/dropped", None, options, shared) as run:
        first = wait_for_note(shared, "beat")
        pid = pg.sql(held)
        pg.sql("drop schema pgleader cascade", dbname="dropped")
        hold_for(lambda: pg.sql(held) == pid and notes(shared)[-1][1] > time.time() - 1.0, "it leads and works", 3)
        assert {g for _, g in spans(shared)} == {first[3]}
        pg.sql("select pg_terminate_backend(%s)", pid[0])
        assert beat_of_another(shared, first[3])[3] == "none"
        assert "there is no ledger" in run.log()
        asked = time.monotonic()
        run.signal(signal.SIGTERM)
        assert run.wait() == 0 and time.monotonic() - asked < 1
    assert not pg.sql(held)


def test_duty_retired_while_it_leads(pg, duty, shared):
    """Its leader is told and ends its work; registered anew with another key, nobody works beside it."""
    with worker(pg, duty, shared, options=()) as run:
        first = wait_for_note(shared, "beat")
        with Candidate(pg.conninfo(), "late", duty, None, ["--recontend"], shared):
            wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = %s", (f"pgleader:{duty}:late",)),
                       "another follows")
            with pg.connect() as conn, conn.transaction():  # at once, or the follower finds no such duty
                conn.execute("select pgleader.retire_duty(%s)", (duty,))
                conn.execute("select pgleader.register_duty(%s, lock_key => 20261129)", (duty,))
            assert wait_for_note(shared, "stopped", first[2])
            assert run.wait() == 76
            assert int(wait_for_note(shared, "beat", "late")[3]) > int(first[3])
    assert overlaps(shared) == []


@pytest.mark.parametrize("names", [("a", "b", "c")], ids=["three"])
def test_everybody_is_terminated_at_once(pg, duty, shared, names):
    with several(pg, duty, shared, names):
        first = wait_for_note(shared, "beat")
        pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name like %s",
               (f"pgleader:{duty}:%",))
        assert int(beat_of_another(shared, first[3])[3]) > int(first[3])
        assert overlaps(shared) == []
