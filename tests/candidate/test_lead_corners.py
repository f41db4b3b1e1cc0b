# SPDX-License-Identifier: PostgreSQL
"""Corners of the candidate's core: sessions that come and go while work ends, keys that change, bounds of settling."""

import signal
import socket
import time
from contextlib import ExitStack

import pytest

from tests.support.candidate import WORKER, Candidate, notes, wait_for_note
from tests.support.kit import beat_of_another, holder, reason, several, term, wait_holder
from tests.support.lease import LEASE, OWN, TABLE, TIMES, Lease
from tests.support.pooler import Pooler
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until


def lead_and_vanish(pg, duty, stop_within):
    """A leader that nobody can tell about: its term stays open, its lock or lease is free."""
    key, = pg.sql("select lock_objid::int from pgleader.duty where duty = %s", (duty,))[0]
    with pg.connect() as conn:
        if key is not None:
            conn.execute("select pg_advisory_lock(%s)", (key,))
            conn.execute("select pgleader.begin_term(%s, 'vanished', false, %s)", (duty, stop_within))
        else:
            conn.execute("select pgleader.acquire_lease(%s, 'vanished', '1 day', false, %s)", (duty, stop_within))
            conn.execute("delete from pgleader.lease where job_name = %s", (duty,))


@pytest.mark.parametrize("table", [TABLE, OWN], ids=["table", "own"])
def test_work_ends_while_the_pooler_is_away(pg, shared, tmp_path, table):
    """No session to give the lease back through: it expires; the command's own status is the candidate's."""
    duty = f"jobs/pooler-away-{'own' if table == OWN else 'table'}"
    if table == OWN:
        pg.sql("select pgleader.register_duty(%s, lease_table => %s)", (duty, OWN))
    done = tmp_path / "done"
    command = ["bash", "-c", f"echo started 1 x 1 >> $NOTES; until [ -e {done} ]; do sleep 0.05; done; exit 3"]
    with Pooler(pg, size=3) as pooler:
        with Candidate(pooler.conninfo(), "a", duty, command, (f"--lease={table}", "--settle=0", *TIMES), shared) as run:
            wait_for_note(shared, "started")
            pooler.process.kill()
            wait_until(lambda: "could not" in run.log(), "it has lost its session")
            done.touch()
            assert run.wait() == 3, run.log()


def test_a_lease_is_given_back_on_another_session(pg, name, shared, tmp_path):
    """Its work ends between two sessions; the next one comes soon enough to give the lease back."""
    done = tmp_path / "done"
    command = ["bash", "-c", f"echo started 1 x 1 >> $NOTES; until [ -e {done} ]; do sleep 0.05; done; exit 3"]
    with ExitStack() as stack:
        with Proxy(pg.port) as proxy:
            lease = stack.enter_context(Lease(pg, name, shared, OWN, names="a", options=("--settle=0",),
                                              conninfo=pg.conninfo(port=proxy.port), command=command))
            run = lease.runs["a"]
            wait_for_note(shared, "started")
        wait_until(lambda: "could not connect" in run.log(), "it has no session")
        done.touch()
        wait_until(lambda: "rule=finished" in run.log(), "its work has ended")
        with Proxy(pg.port, socket.create_server(("127.0.0.1", proxy.port))):
            assert run.wait() == 3, run.log()
        assert lease.left() <= 0, run.log()
        assert pg.sql("select end_reason from pgleader.current_term where duty = %s", (lease.duty,)) == [("finished",)]


def test_settles_no_longer_than_it_is_told(pg, duty, shared):
    lead_and_vanish(pg, duty, "30 s")
    asked = time.time()
    with Candidate(pg.conninfo(), "a", duty, options=("--settle=1s",), notes=shared):
        assert 0.9 < wait_for_note(shared, "beat")[1] - asked < 4


def test_a_lease_is_renewed_while_it_settles(pg, shared):
    """For longer than the lease lasts: it is one term, and begins when the other's work has stopped."""
    duty = "jobs/lease-settles"
    pg.sql("select pgleader.register_duty(%s, lease_table => %s)", (duty, OWN))
    lead_and_vanish(pg, duty, "8 s")
    asked = time.time()
    with Candidate(pg.conninfo(), "a", duty, options=TIMES, notes=shared) as run:
        assert 7.5 < wait_for_note(shared, "beat")[1] - asked < 11
        assert "try-failed" not in run.log()
    assert pg.sql("select count(*) from pgleader.term join pgleader.duty using (duty_id) where duty = %s", (duty,)) == [(2,)]


def test_a_yield_request_between_two_sessions(pg, shared):
    """Nobody hears the notification; the leader by lease asks the ledger when it is back."""
    with Lease(pg, "between", shared, OWN) as lease:
        first, generation = wait_for_note(shared, "beat")[2:]
        with pg.connect() as conn, conn.transaction():
            conn.execute("select pgleader.request_yield(%s, %s, 'test', '10 s')", (lease.duty, int(generation)))
            lease.terminate(first)
            wait_until(lambda: not lease.terminate(first), "its session is gone")
        assert wait_for_note(shared, "started", lease.other(first), deadline=4)
        assert lease.previous_end() == "yield-request"


def test_a_yield_request_behind_a_pooler(pg, shared):
    with Pooler(pg, size=3) as pooler:
        with Lease(pg, "pooled", shared, OWN, conninfo=pooler.conninfo(), options=("--recontend", f"--lease={OWN}")) as lease:
            generation = wait_for_note(shared, "beat")[3]
            pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (lease.duty, int(generation)))
            wait_until(lambda: lease.previous_end() == "yield-request", "it has yielded", deadline=8)


def test_a_loss_after_a_signal(pg, duty, shared):
    """Its work takes longer to stop than a report may take: it is reported all the same."""
    slow = ["bash", "-c", WORKER.replace("note stopped", "sleep 2.3; note stopped")]
    with Candidate(pg.conninfo(), "a", duty, slow, notes=shared) as run:
        generation = int(wait_for_note(shared, "beat")[3])
        run.process.terminate()
        wait_until(lambda: "rule=signal" in run.log(), "it yields")
        pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
        run.wait()
    assert reason(pg, duty, generation)[1], run.log()


def test_a_follower_moves_with_its_duty_s_key(pg, duty, shared):
    """The registry's key is not that of its first session for ever; who named the key himself is refused."""
    key, = pg.sql("select lock_objid::int from pgleader.duty where duty = %s", (duty,))[0]
    with pg.connect() as old:
        old.execute("select pg_advisory_lock(%s)", (key,))
        old.execute("select pgleader.begin_term(%s, 'old')", (duty,))
        with several(pg, duty, shared, "ab") as runs, \
                Candidate(pg.conninfo(), "c", duty, options=(f"--lock={key}",), notes=shared) as named:
            for run in (*runs.values(), named):
                wait_until(lambda run=run: pg.sql("select 1 from pg_stat_activity where application_name = %s",
                                                  (f"pgleader:{duty}:{run.argv[2][7:]}",)), "it follows")
            for run in (*runs.values(), named):
                run.signal(signal.SIGSTOP)
            old.close()
            wait_until(lambda: not holder(pg, duty), "the lock is free")
            pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key + 1))
            pg.sql("select pgleader.complete_key_change(%s)", (duty,))
            for run in (*runs.values(), named):
                run.signal(signal.SIGCONT)
            wait_for_note(shared, "beat", deadline=30)
            assert wait_holder(pg, duty)


def test_the_queue_of_another_key(pg, duty, shared):
    """The ledger's queue is that of the registry's key: who named another one is refused, and never works."""
    with Candidate(pg.conninfo(), "a", duty, options=("--lock=4", "--wait=queue", "--recontend"), notes=shared) as run:
        assert run.wait() == 64 and "the registry has another" in run.log()
    assert not shared.exists() and term(pg, duty) is None


def test_a_key_that_changes_in_the_queue(pg, duty, shared):
    """The queue is that of the new key by then: no work begins that the next check would end."""
    key, = pg.sql("select lock_objid::int from pgleader.duty where duty = %s", (duty,))[0]
    with pg.connect() as old, several(pg, duty, shared, "b", options=("--wait=queue", "--settle=0")) as runs:
        old.execute("select pg_advisory_lock(%s)", (key,))
        old.execute("select pgleader.begin_term(%s, 'old')", (duty,))
        waits = "select 1 from pg_locks where not granted and locktype = 'advisory' and objid = %s"
        wait_until(lambda: pg.sql(waits, (key,)), "b waits")
        runs["b"].signal(signal.SIGSTOP)
        wait_until(lambda: not pg.sql(waits, (key,)), "b does not go on")
        old.close()
        pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key + 1))
        pg.sql("select pgleader.complete_key_change(%s)", (duty,))
        runs["b"].signal(signal.SIGCONT)
        wait_for_note(shared, "beat")
        hold_for(lambda: notes(shared)[-1][0] == "beat", "it works on", 2)


def test_a_term_that_could_not_be_ended_is_reported(pg, duty, shared):
    """The ledger is locked when it stops: the lock is given back all the same, and the report is tried until it can be."""
    with Candidate(pg.conninfo(), "a", duty, notes=shared) as run:
        generation = int(wait_for_note(shared, "beat")[3])
        with pg.connect() as conn:
            conn.execute("begin; lock table pgleader.duty in access exclusive mode")
            run.process.terminate()
            wait_until(lambda: not pg.sql("select 1 from pg_locks l, pg_stat_activity a where l.pid = a.pid and locktype = "
                                          "'advisory' and application_name = %s", (f"pgleader:{duty}:a",)), "the lock is free")
        run.wait()
    assert reason(pg, duty, generation)[1], run.log()


@pytest.mark.parametrize("anew", [False, True], ids=["retired", "led-by-a-lock-now"])
def test_the_lease_of_a_duty_that_is_none(pg, shared, anew):
    """Its leader stops with its next renewal, and does not wait for its deadline."""
    with Lease(pg, f"none-{anew}".lower(), shared, OWN, names="a") as lease:
        wait_for_note(shared, "beat")
        retired = time.time()
        with pg.connect() as conn, conn.transaction():
            conn.execute("select pgleader.retire_duty(%s)", (lease.duty,))
            if anew:
                conn.execute("select pgleader.register_duty(%s, lock_key => 99)", (lease.duty,))
        assert wait_for_note(shared, "stopped")[1] - retired < LEASE / 3 + 0.7
        assert lease.runs["a"].wait() == 64


def test_a_report_that_is_refused(pg, duty, shared):
    """The session that was to report goes on to be a whole one: it leads, and hears requests to yield."""
    pg.sql("drop role if exists mute")
    pg.sql("create role mute login")
    pg.sql("grant usage on schema pgleader to mute")
    pg.sql("grant select on pgleader.duty, pgleader.current_term to mute")
    pg.sql("grant execute on function pgleader.begin_term, pgleader.end_term to mute")
    with Candidate(pg.conninfo(user="mute"), "a", duty, options=("--recontend", "--settle=0"), notes=shared) as run:
        first = wait_for_note(shared, "beat")
        pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
        second = beat_of_another(shared, first[3])
        assert reason(pg, duty, int(first[3])) == ("superseded", False), run.log()
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(second[3])))
        beat_of_another(shared, second[3])
        assert reason(pg, duty, int(second[3]))[0] == "yield-request", run.log()
