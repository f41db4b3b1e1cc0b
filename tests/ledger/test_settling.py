# SPDX-License-Identifier: PostgreSQL
"""Settling: until when a new leader waits for the work of those before it; and how a lease's term ends."""

from datetime import timedelta

import pytest

from tests.support.cluster import Cluster
from tests.support.wait import wait_until

from .ledger import TABLES, begin, row

SETTLE = "select settle_until - acquired_at from pgleader.current_term where duty = %s"


def lose(ledger, duty, instance, stop_within):
    """A leader whose session ends by itself; its generation."""
    conn = ledger.connect()
    ledger.take(conn, duty)
    generation = row(conn, "select pgleader.begin_term(%s, %s, true, %s)", (duty, instance, stop_within))[0]
    conn.close()
    return generation


def settles(ledger, duty):
    """A new leader's session, and for how long it is to settle."""
    conn, _ = ledger.lead(duty)
    return conn, ledger.value(SETTLE, (duty,))


def report(ledger, duty, generation, instance):
    ledger.sql("select pgleader.report_stopped(%s, %s, %s)", (duty, generation, instance), user="worker")


def test_first_term(ledger):
    assert settles(ledger, ledger.register())[1] is None


def test_after_a_loss(ledger):
    duty = ledger.register()
    lost = lose(ledger, duty, "a", "3 s")
    _, wait = settles(ledger, duty)
    assert wait == timedelta(seconds=3)
    report(ledger, duty, lost, "a")
    assert ledger.value(SETTLE, (duty,)) is None


def test_after_a_graceful_end(ledger):
    duty = ledger.register()
    conn, generation = ledger.lead(duty)
    conn.execute("select pgleader.end_term(%s, %s, 'signal')", (duty, generation))
    conn.close()
    assert settles(ledger, duty)[1] is None


def test_the_wait_is_handed_on(ledger):
    """Who is lost while it settles has not worked, but the one that it waited for may."""
    duty = ledger.register()
    first = lose(ledger, duty, "a", "9 s")
    second = lose(ledger, duty, "b", "2 s")
    report(ledger, duty, second, "b")
    conn, wait = settles(ledger, duty)
    assert timedelta(seconds=8) < wait < timedelta(seconds=9), "the first's, from when it was superseded"
    report(ledger, duty, first, "a")
    assert ledger.value(SETTLE, (duty,)) is None
    conn.close()


def test_first_term_of_a_timeline():
    """A promoted standby may have lost whom to wait for: the first leader waits, the next does not."""
    with Cluster() as primary:
        primary.install_ledger()
        primary.sql("select pgleader.register_duty('jobs/t', lock_key => 1)")
        with primary.connect() as conn:
            conn.execute("select pg_advisory_lock(1)")
            old = row(conn, "select pgleader.begin_term('jobs/t', 'a')")[0]
            conn.execute("select pgleader.end_term('jobs/t', %s, 'signal')", (old,))
        with primary.standby() as standby:
            wait_until(lambda: standby.sql("select ended_at is not null from pgleader.current_term")[0][0], "it has followed")
            standby.promote()
            wait_until(lambda: not standby.sql("select pg_is_in_recovery()")[0][0], "it is promoted")
            waits = []
            for instance in ("b", "c"):
                with standby.connect() as conn:
                    conn.execute("select pg_advisory_lock(1)")
                    new = row(conn, "select pgleader.begin_term('jobs/t', %s, stop_within => '4 s')", (instance,))[0]
                    assert new > old
                    waits.append(row(conn, SETTLE, ("jobs/t",))[0])
                    conn.execute("select pgleader.end_term('jobs/t', %s, 'signal')", (new,))
            assert waits == [timedelta(seconds=5), None], "the longer of the two terms' stop_within; then none"


def own_lease(ledger):
    name = f"leases/own-{next(ledger.numbers)}"
    return ledger.register(name, lease_table="pgleader.lease", lease_row=name)


def lapse(ledger, duty, holder="a", duration="20 ms"):
    """A lease that was not renewed."""
    generation = ledger.value("select pgleader.acquire_lease(%s, %s, %s, stop_within => '3 s')", (duty, holder, duration))
    wait_until(lambda: ledger.value("select expires_at < clock_timestamp() from pgleader.lease where job_name = %s",
                                    (duty,)), "it lapses")
    return generation


@pytest.mark.parametrize("change, ended, wait", [
    (None, "expired", None),
    ("delete from pgleader.lease where job_name = %s", "superseded", timedelta(seconds=3)),
    ("update pgleader.lease set generation = generation - 1 where job_name = %s", "superseded", timedelta(seconds=3)),
    ("update pgleader.lease set holder = 'stranger' where job_name = %s", "superseded", timedelta(seconds=3)),
    ("update pgleader.lease set expires_at = '2020-01-01' where job_name = %s", "superseded", timedelta(seconds=3)),
], ids=["lapsed", "deleted", "restored", "stranger", "rewritten"])
def test_the_end_of_a_lease(ledger, change, ended, wait):
    """One that lapsed ended at its expiry, and nobody waits; one that was not as its holder left it may be at work."""
    duty = own_lease(ledger)
    first = lapse(ledger, duty)
    expiry = ledger.value("select expires_at from pgleader.lease where job_name = %s", (duty,))
    if change:
        ledger.sql(change, (duty,))
    second = ledger.value("select pgleader.acquire_lease(%s, 'b', '1 min')", (duty,))
    reason, ended_at = ledger.sql("select end_reason, ended_at from pgleader.term join pgleader.duty using (duty_id) "
                                  "where duty = %s and term.generation = %s", (duty, first))[0]
    assert second > first and reason == ended
    assert (ended_at == expiry) == (ended == "expired")
    assert ledger.value(SETTLE, (duty,)) == wait


def test_the_same_holder_takes_its_own_lease(ledger):
    """Before it is over: an earlier process of that name may be at work."""
    duty = own_lease(ledger)
    ledger.sql("select pgleader.acquire_lease(%s, 'a', '1 min', stop_within => '3 s')", (duty,))
    ledger.sql("select pgleader.acquire_lease(%s, 'a', '1 min')", (duty,))
    assert ledger.value(SETTLE, (duty,)) == timedelta(seconds=3)


def test_warming_up_changes_nothing(ledger):
    duty = ledger.register()
    conn, generation = ledger.lead(duty)
    before = {t: ledger.sql(f"select * from pgleader.{t}") for t in TABLES}
    listener = ledger.connect()
    heard = []
    listener.add_notify_handler(heard.append)
    listener.execute(f'listen "pgleader:{duty}"')
    worker = ledger.connect()
    with worker.transaction():
        worker.execute("select pgleader.warm_up()")
        assert row(worker, "select txid_current_if_assigned()") == (None,)
        assert row(worker, "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'")[0] == 0
    assert {t: ledger.sql(f"select * from pgleader.{t}") for t in TABLES} == before
    listener.execute("select")
    assert not heard
    conn.execute("select pgleader.end_term(%s, %s, 'signal')", (duty, generation))
    assert begin(conn, duty) > generation
