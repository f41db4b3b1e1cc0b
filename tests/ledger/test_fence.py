# SPDX-License-Identifier: PostgreSQL
"""Fencing from several sessions: what a deposed leader can still do, and that it keeps nobody waiting."""

import random
import threading
import time

import psycopg
import pytest

from tests.support.cluster import DEFAULT_MAJOR
from tests.support.wait import wait_until

from .ledger import Waiting, begin, refusal, row

FENCED = {
    "fence": "select pgleader.fence(%(duty)s, %(generation)s)",
    "claim_run": "select pgleader.claim_run(%(duty)s, 'run', %(generation)s, '1 h')",
    "claim_run, new": "select pgleader.claim_run(%(duty)s, 'another', %(generation)s, '1 h')",
    "advance_run": "select pgleader.advance_run(%(duty)s, 'run', %(generation)s, '99')",
    "finish_run": "select pgleader.finish_run(%(duty)s, 'run', %(generation)s, 'complete', '{}')",
    "end_term": "select pgleader.end_term(%(duty)s, %(generation)s, 'released')",
    "request_yield": "select pgleader.request_yield(%(duty)s, %(generation)s, 'why', '0')",
}


def run_of(conn, duty, generation):
    conn.execute("select pgleader.claim_run(%s, 'run', %s, '1 h')", (duty, generation))
    conn.execute("select pgleader.advance_run(%s, 'run', %s, '7')", (duty, generation))


def depose(ledger, leader, duty):
    """Ends the leader's session by force; a successor leads: (its session, its generation)."""
    ledger.sql("select pg_terminate_backend(%s)", (leader.info.backend_pid,))
    return ledger.lead(duty, "worker-2")


def test_a_stale_generation_changes_nothing(ledger):
    """After a takeover every call of the old generation raises PL001, and no row of the ledger differs."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    run_of(leader, duty, generation)
    successor, newer = depose(ledger, leader, duty)
    assert newer > generation
    worker, operator = ledger.connect(), ledger.connect("oncall")
    before = ledger.contents()
    for name, call in FENCED.items():
        conn = operator if name == "request_yield" else worker
        state, message = refusal(conn, call, {"duty": duty, "generation": generation})
        assert state == "PL001" and f"generation {generation} of duty \"{duty}\" is stale" in message, name
    assert ledger.contents() == before
    # The successor, too, cannot act in the name of the old one, although it holds the lock.
    assert refusal(successor, FENCED["end_term"], {"duty": duty, "generation": generation})[0] == "PL001"
    assert ledger.contents() == before


def test_an_ended_term_is_stale(ledger):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    run_of(leader, duty, generation)
    leader.execute("select pgleader.end_term(%s, %s, 'released')", (duty, generation))
    before = ledger.contents()
    for name, call in FENCED.items():
        conn = ledger.connect("oncall") if name == "request_yield" else leader
        assert refusal(conn, call, {"duty": duty, "generation": generation})[0] == "PL001", name
    assert ledger.contents() == before


def test_a_session_without_the_lock(ledger):
    """No term without the duty's own lock: PL002, and nothing changes."""
    duty = ledger.register(lock_key=77)
    leader, generation = ledger.lead(duty)
    other = ledger.connect()
    other.execute("select pg_advisory_lock(0, 77)")  # the pair of the same numbers
    before = ledger.contents()
    for call in ("select pgleader.begin_term(%s, 'thief')", f"select pgleader.end_term(%s, {generation}, 'stolen')"):
        assert refusal(other, call, (duty,))[0] == "PL002"
    assert ledger.contents() == before


def test_a_pair_is_not_its_int8(ledger):
    duty = ledger.register(lock_pair=[0, 78])
    worker = ledger.connect()
    worker.execute("select pg_advisory_lock(78)")
    assert refusal(worker, "select pgleader.begin_term(%s, 'a')", (duty,))[0] == "PL002"
    worker.execute("select pg_advisory_lock(0, 78)")
    assert begin(worker, duty) > 0


def test_the_same_key_in_another_database_is_another_lock(ledger, other_ledger):
    ledger.register("test/shared-key", lock_key=79)
    other_ledger.register("test/shared-key", lock_key=79)
    one, first = ledger.lead("test/shared-key")
    other, second = other_ledger.lead("test/shared-key")
    assert first and second
    stranger = other_ledger.connect()
    assert refusal(stranger, "select pgleader.begin_term('test/shared-key', 'x')")[0] == "PL002"


def test_a_fence_stays_true_until_its_transaction_ends(ledger):
    """The successor's begin_term waits for the fenced transaction, and then the old generation is stale."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    work = ledger.connect()
    work.execute("begin")
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))
    leader.close()
    successor = ledger.connect()
    ledger.take(successor, duty)
    waiting = Waiting(successor, "select pgleader.begin_term(%s, 'worker-2')", (duty,)).until_blocked(ledger)
    work.execute("select pgleader.advance_run(%s, 'none', %s, '1') where false", (duty, generation))
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))  # held already: no queue for it
    work.execute("commit")
    assert waiting.result()[0][0] > generation
    assert refusal(work, FENCED["fence"], {"duty": duty, "generation": generation})[0] == "PL001"


def test_no_new_fence_passes_a_waiting_begin_term(ledger):
    """The queue is what keeps overlapping fences from starving the successor."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    first, second = ledger.connect(), ledger.connect()
    first.execute("begin")
    first.execute("select pgleader.fence(%s, %s)", (duty, generation))
    leader.close()
    successor = ledger.connect()
    ledger.take(successor, duty)
    term = Waiting(successor, "select pgleader.begin_term(%s, 'worker-2')", (duty,)).until_blocked(ledger)
    late = Waiting(second, "select pgleader.fence(%s, %s)", (duty, generation)).until_blocked(ledger)
    first.execute("commit")
    assert term.result()[0][0] > generation
    assert late.result() == "PL001"


def test_overlapping_fences_do_not_starve_the_successor(ledger):
    """Three sessions of a deposed leader fence without a pause; begin_term gets through all the same."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    ends = []

    def work(conn):
        while True:
            try:
                with conn.transaction():
                    conn.execute("select pgleader.fence(%s, %s)", (duty, generation))
                    conn.execute("select count(*) from generate_series(1, 100000)")
            except psycopg.Error as error:
                ends.append(error.sqlstate)
                return

    threads = [threading.Thread(target=work, args=(ledger.connect(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    fenced = """select count(*) >= 2 from pg_locks where locktype = 'advisory' and classid = 1885826148
                and objid = (select duty_id from pgleader.duty where duty = %s) and granted"""
    wait_until(lambda: ledger.value(fenced, (duty,)), "fences overlap")
    leader.close()
    successor = ledger.connect()
    ledger.take(successor, duty)
    started = time.monotonic()
    newer = begin(successor, duty, "worker-2")
    took = time.monotonic() - started
    for thread in threads:
        thread.join()
    assert newer > generation and took < 4, took  # seconds; starved, it would end by its lock_timeout of 5 s
    assert ends == ["PL001"] * 3


def test_nobody_waits_for_ever_behind_a_frozen_fence(ledger):
    """Both sides have a lock_timeout: the caller's, or 5 s; what times out changes nothing."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    work = ledger.connect()
    work.execute("begin")
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))
    before = ledger.contents()
    leader.execute("set lock_timeout = '50ms'")
    assert refusal(leader, "select pgleader.begin_term(%s, 'again')", (duty,))[0] == "55P03"
    assert ledger.contents() == before
    if ledger.cluster.major != DEFAULT_MAJOR:
        return  # five seconds are enough once
    leader.execute("set lock_timeout = 0")
    started = time.monotonic()
    assert refusal(leader, "select pgleader.begin_term(%s, 'again')", (duty,))[0] == "55P03"
    assert 4 < time.monotonic() - started < 14
    assert leader.execute("show lock_timeout").fetchone() == ("0",)


def test_a_frozen_fence_is_ended_by_its_idle_timeout(ledger):
    """A worker that stops between two statements loses its session, not the successor its term."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    work = ledger.connect()
    work.execute("set idle_in_transaction_session_timeout = '300ms'")
    work.execute("begin")
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))
    assert begin(leader, duty, "again") > generation
    with pytest.raises(psycopg.OperationalError):
        work.execute("select 1")


def test_outside_read_committed_a_fence_fails_too(ledger):
    """A snapshot from before the takeover sees the old term as current; 40001 says that it is not."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    run_of(leader, duty, generation)
    for level in ("repeatable read", "serializable"):
        for name in ("fence", "claim_run", "advance_run", "finish_run"):
            work = ledger.connect()
            work.execute(f"begin isolation level {level}")
            work.execute("select count(*) from pgleader.duty")
            newer = begin(leader, duty)
            before = ledger.contents()
            assert refusal(work, FENCED[name], {"duty": duty, "generation": generation})[0] == "40001", (level, name)
            work.execute("rollback")
            assert ledger.contents() == before
            leader.execute("select pgleader.claim_run(%s, 'run', %s, '1 h')", (duty, newer))
            generation = newer


def test_takeover_resumes_at_the_cursor(ledger):
    """Abort, successor, claim: the cursor is the old leader's last one that the ledger accepted."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    run_of(leader, duty, generation)
    successor, newer = depose(ledger, leader, duty)
    assert row(successor, "select outcome, cursor, \"position\", previous_generation from pgleader.claim_run(%s, 'run', %s, '1 h')",
               (duty, newer)) == ("resumed", "7", 7, generation)
    successor.execute("select pgleader.advance_run(%s, 'run', %s, '8')", (duty, newer))
    assert ledger.sql("select cursor, r.generation, claims from pgleader.run r join pgleader.duty d using (duty_id) "
                      "where d.duty = %s", (duty,)) == [("8", newer, 2)]


def test_a_session_that_took_over_a_pid_cannot_end_the_term(ledger):
    """The lock is held again, but by a session that never began the open term."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    leader.close()
    other = ledger.connect()
    wait_until(lambda: other.execute("select pg_try_advisory_lock(lock_objid) from pgleader.duty where duty = %s",
                                     (duty,)).fetchone()[0], "the lock is free")
    state, message = refusal(other, "select pgleader.end_term(%s, %s, 'mine')", (duty, generation))
    assert state == "PL001" and "the session that began it is gone" in message
    ledger.sql("update pgleader.duty set term_pid = %s where duty = %s", (other.info.backend_pid, duty))
    assert refusal(other, "select pgleader.end_term(%s, %s, 'mine')", (duty, generation))[0] == "PL001"


def test_commits_are_durable_where_the_caller_has_it_off(ledger):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    for setting, expected in (("off", "on"), ("local", "on"), ("on", "on"), ("remote_write", "remote_write")):
        leader.execute(f"set synchronous_commit = {setting}")
        with leader.transaction():
            begin(leader, duty)
            assert row(leader, "show synchronous_commit") == (expected,), setting
        assert row(leader, "show synchronous_commit") == (setting,)


def test_generations_rise_over_many_terms(ledger):
    duty = ledger.register()
    conn = ledger.connect()
    ledger.take(conn, duty)
    seen = [begin(conn, duty) for _ in range(50)]
    assert seen == sorted(set(seen))
    assert ledger.sql("select count(*) filter (where ended_at is null), count(*) from pgleader.term t "
                      "join pgleader.duty d using (duty_id) where d.duty = %s", (duty,)) == [(1, 50)]


def test_a_generation_never_repeats_although_the_newest_rows_were_lost(ledger):
    """As after the promotion of a standby that missed them: by then the clock is ahead of what was lost."""
    duty = ledger.register()
    conn = ledger.connect()
    ledger.take(conn, duty)
    ledger.sql("update pgleader.duty set generation = 1000 where duty = %s", (duty,))
    lost = begin(conn, duty)
    ledger.sql("delete from pgleader.term where generation = %s", (lost,))
    ledger.sql("update pgleader.duty set generation = 1000 where duty = %s", (duty,))
    wait_until(lambda: ledger.value("select floor(extract(epoch from clock_timestamp() - '2025-01-01 00:00+00') * 1000) > %s", (lost,)),
               "the next millisecond")
    assert begin(conn, duty) > lost


def test_waiting_in_the_queue(ledger):
    """wait_for_duty says what pg_locks says, takes the lock once, and waits less than a second."""
    for how, arguments in (({"lock_key": -80}, "-80"), ({"lock_pair": [-1, 80]}, "-1, 80")):
        duty = ledger.register(**how)
        holder, waiter = ledger.connect(), ledger.connect()
        ledger.take(holder, duty)
        started = time.monotonic()
        assert row(waiter, "select pgleader.wait_for_duty(%s)", (duty,)) == (False,)
        assert 0.8 < time.monotonic() - started < 5
        assert row(waiter, "show lock_timeout") == ("0",)
        waiting = Waiting(waiter, "select pgleader.wait_for_duty(%s)", (duty,)).until_blocked(ledger)
        holder.execute("select pg_advisory_unlock_all()")
        assert waiting.result() == [(True,)]
        assert row(waiter, "select pgleader.wait_for_duty(%s)", (duty,)) == (True,)
        assert begin(waiter, duty) > 0
        # Asked twice, held once: one unlock releases it.
        assert row(waiter, f"select pg_advisory_unlock({arguments})") == (True,)
        assert row(holder, "select pgleader.wait_for_duty(%s)", (duty,)) == (True,)


def rows_counted_in(conn, seconds):
    """How many rows this machine's server counts in that time: work of a known length, without a sleep."""
    started = time.monotonic()
    conn.execute("select count(*) from generate_series(1, 100000)")
    return int(100000 * seconds / (time.monotonic() - started))


def test_a_grant_near_the_timeout_is_told_truly(ledger):
    """Grants that race the timeout: the answer is always what the session holds."""
    duty = ledger.register(lock_key=81)
    holder = ledger.connect()
    ledger.sql("alter role worker set deadlock_timeout = '10ms'")
    waiter = ledger.connect()
    ledger.sql("alter role worker reset deadlock_timeout")
    assert row(waiter, "show deadlock_timeout") == ("10ms",)
    answers = set()
    most = rows_counted_in(holder, seconds=0.02)
    for _ in range(150):
        holder.execute("select pg_advisory_lock(81)")
        waiting = Waiting(waiter, "select pgleader.wait_for_duty(%s)", (duty,))
        holder.execute("select count(*) from generate_series(1, %s)", (random.randint(1, most),))
        holder.execute("select pg_advisory_unlock(81)")
        answer = waiting.result()[0][0]
        held = row(waiter, "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted")[0]
        assert held == answer
        answers.add(answer)
        if held:
            assert row(waiter, "select pg_advisory_unlock(81)") == (True,)
    assert answers == {True, False}
