# SPDX-License-Identifier: PostgreSQL
"""Leases: the examples' three-column table works as it did, and ours adds a generation."""

from tests.support.wait import wait_until

from .ledger import Waiting, refusal, row

# The table and the statement as lease articles have them.
EXAMPLE_TABLE = """
    CREATE TABLE leader_lease (
      job_name TEXT PRIMARY KEY,
      holder TEXT NOT NULL,
      expires_at TIMESTAMPTZ NOT NULL
    )"""
EXAMPLE_STATEMENT = """
    INSERT INTO leader_lease (job_name, holder, expires_at)
     VALUES ($1, $2, now() + interval '15 seconds')
     ON CONFLICT (job_name) DO UPDATE
       SET holder = $2, expires_at = now() + interval '15 seconds'
       WHERE leader_lease.expires_at < now()
          OR leader_lease.holder = $2
     RETURNING holder"""


def try_acquire(conn, job, instance):
    return conn.execute(f"execute try_lease('{job}', '{instance}')").fetchall()


def test_the_examples_table_works_unchanged(own_ledger):
    """Three columns, their statement as it is; the ledger registers the duty and shows its owner."""
    app = own_ledger.connect("postgres")
    app.execute(EXAMPLE_TABLE)
    app.execute(f"prepare try_lease (text, text) as {EXAMPLE_STATEMENT}")
    app.execute("grant select on leader_lease to pgleader_reader")
    own_ledger.register("reports/nightly", lease_table="public.leader_lease", lease_row="nightly_report")
    ownership = "select state, owner, generation from pgleader.ownership"
    watcher = own_ledger.connect("watcher")
    assert row(watcher, ownership) == ("vacant", None, None)
    assert try_acquire(app, "nightly_report", "host-1") == [("host-1",)]
    assert try_acquire(app, "nightly_report", "host-1") == [("host-1",)]
    # While another holds it there is no row at all, not the holder's.
    assert try_acquire(app, "nightly_report", "host-2") == []
    assert row(watcher, ownership) == ("led", "host-1", None)
    app.execute("update leader_lease set expires_at = now() - interval '1 s'")
    assert row(watcher, ownership) == ("vacant", None, None)
    assert try_acquire(app, "nightly_report", "host-2") == [("host-2",)]
    assert row(watcher, ownership) == ("led", "host-2", None)
    # Its workers write it by themselves: no generation, and nothing of ours pretends one.
    worker = own_ledger.connect()
    for call, state in (("acquire_lease('reports/nightly', 'host-3', '15 s')", "55000"),
                        ("renew_lease('reports/nightly', 'host-2', 1, '15 s')", "55000"),
                        ("begin_term('reports/nightly', 'host-2')", "PL002"),
                        ("wait_for_duty('reports/nightly')", "PL002"),
                        ("fence('reports/nightly', 1)", "PL001")):
        assert refusal(worker, f"select pgleader.{call}")[0] == state, call


def lease_of(ledger, duty):
    return ledger.sql("select holder, generation, expires_at > clock_timestamp() from pgleader.lease where job_name = %s",
                      (duty,))[0]


def acquire(conn, duty, holder, duration="1 min"):
    return row(conn, "select pgleader.acquire_lease(%s, %s, %s)", (duty, holder, duration))[0]


def expire(ledger, duty):
    ledger.sql("update pgleader.lease set expires_at = clock_timestamp() where job_name = %s", (duty,))


def test_a_lease_with_a_generation(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    generation = acquire(worker, duty, "a")
    assert acquire(worker, duty, "b") is None
    assert lease_of(ledger, duty) == ("a", generation, True)
    worker.execute("select pgleader.fence(%s, %s)", (duty, generation))
    assert row(worker, "select pgleader.renew_lease(%s, 'a', %s, '2 min') > clock_timestamp() + interval '119 s'",
               (duty, generation)) == (True,)
    worker.execute("select pgleader.claim_run(%s, 'r', %s, '1 h')", (duty, generation))
    assert ledger.sql("select state, owner, generation, run from pgleader.ownership where duty = %s", (duty,)) == [
        ("led", "a", generation, "r")]
    worker.execute("select pgleader.release_lease(%s, 'a', %s)", (duty, generation))
    assert lease_of(ledger, duty) == ("a", generation, False)
    assert ledger.sql("select term_end_reason from pgleader.duty where duty = %s", (duty,)) == [("released",)]
    newer = acquire(worker, duty, "b")
    assert newer > generation and lease_of(ledger, duty) == ("b", newer, True)


def test_an_expired_lease_is_stale_and_changes_nothing(ledger):
    """Renewal, fence and runs of a lapsed lease are refused, although nobody has taken it."""
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    generation = acquire(worker, duty, "a")
    worker.execute("select pgleader.claim_run(%s, 'r', %s, '1 h')", (duty, generation))
    expire(ledger, duty)
    before = ledger.contents()
    for call in ("renew_lease(%(d)s, 'a', %(g)s, '1 min')", "fence(%(d)s, %(g)s)", "claim_run(%(d)s, 's', %(g)s, '1 h')",
                 "advance_run(%(d)s, 'r', %(g)s, '1')", "finish_run(%(d)s, 'r', %(g)s, 'complete', null)"):
        assert refusal(worker, f"select pgleader.{call}", {"d": duty, "g": generation})[0] == "PL001", call
    assert ledger.contents() == before
    successor = acquire(worker, duty, "b")
    assert successor > generation
    before = ledger.contents()
    for holder, number in (("a", generation), ("a", successor), ("b", generation)):
        for call in ("renew_lease(%s, %s, %s, '1 min')", "release_lease(%s, %s, %s)"):
            assert refusal(worker, f"select pgleader.{call}", (duty, holder, number))[0] == "PL001", (call, holder)
    assert ledger.contents() == before


def test_the_same_holder_again_is_a_new_term(ledger):
    """A process that came back under its old name leads; what it left behind is stale."""
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    first = acquire(worker, duty, "a")
    second = acquire(worker, duty, "a")
    assert second > first
    assert refusal(worker, "select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, first))[0] == "PL001"
    worker.execute("select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, second))


def test_a_renewal_that_waited_is_not_committed_stale(ledger):
    """The clock is read after the wait for the row: the new expiry counts from then."""
    duty = ledger.register(lease_table="pgleader.lease")
    worker, blocker = ledger.connect(), ledger.connect("postgres")
    generation = acquire(worker, duty, "a")
    blocker.execute("begin")
    blocker.execute("select from pgleader.lease where job_name = %s for update", (duty,))
    waiting = Waiting(worker, "select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, generation)).until_blocked(ledger)
    let_go = row(blocker, "select clock_timestamp()")[0]
    blocker.execute("commit")
    expires = waiting.result()[0][0]
    assert (expires - let_go).total_seconds() >= 60


def test_a_renewal_that_waited_too_long_is_refused(ledger):
    """Its lease lapsed while it waited for a row that nobody changed."""
    duty = ledger.register(lease_table="pgleader.lease")
    worker, blocker = ledger.connect(), ledger.connect("postgres")
    generation = acquire(worker, duty, "a", "300 ms")
    blocker.execute("begin")
    blocker.execute("select from pgleader.lease where job_name = %s for update", (duty,))
    waiting = Waiting(worker, "select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, generation)).until_blocked(ledger)
    wait_until(lambda: not lease_of(ledger, duty)[2], "the lease lapses")
    blocker.execute("commit")
    assert waiting.result() == "PL001"


def test_renewals_do_not_wait_for_the_work(ledger):
    """A fenced transaction of the leader holds the duty's row, not the lease's."""
    duty = ledger.register(lease_table="pgleader.lease")
    work, keeper = ledger.connect(), ledger.connect()
    generation = acquire(keeper, duty, "a")
    work.execute("begin")
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))
    keeper.execute("set lock_timeout = '1s'")
    keeper.execute("select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, generation))
    # A follower is answered without a lock, too.
    assert acquire(keeper, duty, "b") is None


def test_a_lease_that_lapses_in_a_fenced_transaction_waits_for_it(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    work, follower = ledger.connect(), ledger.connect()
    generation = acquire(work, duty, "a")
    work.execute("begin")
    work.execute("select pgleader.fence(%s, %s)", (duty, generation))
    expire(ledger, duty)
    waiting = Waiting(follower, "select pgleader.acquire_lease(%s, 'b', '1 min')", (duty,)).until_blocked(ledger)
    work.execute("commit")
    assert waiting.result()[0][0] > generation


def test_durations_that_are_refused(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    for duration in (None, "0", "-1 s", "25 h"):
        assert refusal(worker, "select pgleader.acquire_lease(%s, 'a', %s)", (duty, duration))[0] == "22023", duration
    for holder in (None, "", "x" * 256):
        assert refusal(worker, "select pgleader.acquire_lease(%s, %s, '1 s')", (duty, holder))[0] == "22023", holder
    lock_duty = ledger.register()
    assert refusal(worker, "select pgleader.acquire_lease(%s, 'a', '1 s')", (lock_duty,))[0] == "55000"


def test_a_lease_has_no_session_to_end(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    worker, operator = ledger.connect(), ledger.connect("oncall")
    generation = acquire(worker, duty, "a")
    intent = row(operator, "select pgleader.request_yield(%s, %s, 'deploy', '0')", (duty, generation))[0]
    state, message = refusal(operator, "select pgleader.terminate_owner(%s)", (intent,))
    assert state == "PL005" and "no session holds a lease" in message
