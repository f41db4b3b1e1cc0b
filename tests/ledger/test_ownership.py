# SPDX-License-Identifier: PostgreSQL
"""The view to look at, at night: it believes pg_locks, and shows of the ledger only what belongs to the owner."""

import pytest

from tests.support.cluster import Cluster
from tests.support.wait import wait_until

from .ledger import refusal, row


def ownership(ledger, duty, columns="state, owner, generation", user="watcher"):
    return ledger.sql(f"select {columns} from pgleader.ownership where duty = %s", (duty,), user=user)[0]


def test_led_and_vacant(ledger):
    duty = ledger.register()
    assert ownership(ledger, duty) == ("vacant", None, None)
    leader, generation = ledger.lead(duty, "host-1")
    assert ownership(ledger, duty) == ("led", "host-1", generation)
    assert ownership(ledger, duty, "owner_pid, age < '1 min'") == (leader.info.backend_pid, True)
    leader.close()
    wait_until(lambda: ownership(ledger, duty) == ("vacant", None, None), "the lock is free, whatever the ledger says")


def test_led_without_a_term(ledger):
    """A worker without the kit, or a new owner that has not begun its term: the old term is not its."""
    duty = ledger.register()
    leader, _ = ledger.lead(duty)
    leader.close()
    other = ledger.connect(application_name="plain-worker")
    wait_until(lambda: row(other, "select pg_try_advisory_lock(lock_objid) from pgleader.duty where duty = %s", (duty,))[0],
               "the lock is free")
    assert ownership(ledger, duty, "state, owner, generation, age") == ("led, term not begun", "plain-worker", None, None)


def test_a_share_lock_is_no_owner(ledger):
    duty = ledger.register(lock_key=97)
    ledger.connect().execute("select pg_advisory_lock_shared(97)")
    assert ownership(ledger, duty)[0] == "vacant"


def test_a_lock_of_another_database_or_form_is_no_owner(ledger, other_ledger):
    duty = ledger.register(lock_key=98)
    other_ledger.connect().execute("select pg_advisory_lock(98)")
    ledger.connect().execute("select pg_advisory_lock(0, 98)")
    assert ownership(ledger, duty)[0] == "vacant"


def test_without_the_right_to_read_sessions_nothing_is_claimed(ledger):
    """The pid is that of the term, but when the session began cannot be seen."""
    duty = ledger.register()
    ledger.lead(duty)
    ledger.sql("grant usage on schema pgleader to stranger; grant select on pgleader.ownership to stranger; "
               "grant execute on function pgleader.read_lease to stranger")
    try:
        assert ownership(ledger, duty, user="stranger") == ("led, term not verified", "", None)
    finally:
        ledger.sql("revoke all on schema pgleader from stranger; revoke all on pgleader.ownership from stranger; "
                   "revoke all on function pgleader.read_lease from stranger")


def test_candidates_are_instances(ledger):
    """Distinct name and address among those that hold, wait, or match; absent where that cannot be known."""
    plain = ledger.register()
    assert ownership(ledger, plain, "candidates") == (None,)
    duty = ledger.register(candidates="worker-_-%")
    ledger.lead(duty, application_name="worker-1-a")
    for name in ("worker-2-a", "worker-2-a", "worker-3-b", "other"):
        ledger.connect(application_name=name)
    assert ownership(ledger, duty, "candidates") == (3,)
    for instance in ("a", "a", "b"):
        ledger.connect(application_name=f"pgleader:{plain}:{instance}")
    assert ownership(ledger, plain, "candidates") == (2,)


def test_progress(ledger):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    leader.execute("select pgleader.claim_run(%s, 'monday', %s, '1 h')", (duty, generation))
    assert ownership(ledger, duty, "run, cursor, progress") == ("monday", None, None)
    leader.execute("select pgleader.advance_run(%s, 'monday', %s, '26', target => 200)", (duty, generation))
    run, cursor, progress = ownership(ledger, duty, "run, cursor, progress")
    assert (run, cursor) == ("monday", "26") and progress.startswith("13 %, advanced 00:00:0")


def test_a_lease_that_cannot_be_read_is_unknown(ledger):
    """No such table, no right, another shape, locked: unknown, and at once."""
    ledger.sql("""create table public.l_secret (job_name text, holder text, expires_at timestamptz);
                  create table public.l_shape (job_name text, owner text);
                  create table public.l_locked (job_name text, holder text, expires_at timestamptz);
                  grant select on public.l_shape, public.l_locked to watcher""")
    duties = {name: ledger.register(lease_table=f"public.{name}", lease_row="x")
              for name in ("l_none", "l_secret", "l_shape", "l_locked")}
    assert ownership(ledger, duties["l_locked"])[0] == "vacant"
    locker = ledger.connect("postgres")
    with locker.transaction():
        locker.execute("lock table public.l_locked")
        for name, duty in duties.items():
            assert ownership(ledger, duty) == ("unknown: lease not readable", None, None), name


def test_a_standby_does_not_say_who_leads(cluster):
    """Its locks are its own: not the primary's owner, and no queue to wait in."""
    if not (cluster.bin / "pg_basebackup").exists():
        pytest.skip("this server comes without pg_basebackup")
    with Cluster(cluster.major) as primary:
        primary.install_ledger()
        primary.sql("select pgleader.register_duty('jobs/x', lock_key => 5)")
        replica = primary.standby()
        try:
            replica.start()
            wait_until(lambda: replica.sql("select duty, state from pgleader.ownership") == [
                ("jobs/x", "unknown: this is a standby")], "the standby says so")
            with replica.connect() as worker:
                assert refusal(worker, "select pgleader.wait_for_duty('jobs/x')")[0] == "25006"
        finally:
            replica.destroy()


def test_retired_duties_are_gone(ledger):
    duty = ledger.register()
    ledger.sql("select pgleader.retire_duty(%s)", (duty,), user="oncall")
    assert ledger.sql("select duty from pgleader.ownership where duty = %s", (duty,)) == []
