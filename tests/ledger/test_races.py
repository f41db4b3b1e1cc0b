# SPDX-License-Identifier: PostgreSQL
"""Two sessions at one function: the first is held in its transaction, the second waits, one wins."""

import pytest

from .ledger import Waiting, row


def race(ledger, user, first, second):
    """What the second session gets: its rows, or its SQLSTATE. Each is (statement, parameters)."""
    one, two = ledger.connect(user), ledger.connect(user)
    one.execute("begin")
    won = one.execute(*first).fetchall()
    waiting = Waiting(two, *second).until_blocked(ledger)
    one.execute("commit")
    return won, waiting.result()


def test_register_one_key_for_two_duties(ledger):
    call = "select pgleader.register_duty(%s, lock_key => 4711)"
    _, lost = race(ledger, "oncall", (call, ("race/key-a",)), (call, ("race/key-b",)))
    assert lost == "PL004"
    assert ledger.sql("select duty from pgleader.duty where lock_objid = 4711") == [("race/key-a",)]


def test_register_one_duty_twice(ledger):
    call = "select pgleader.register_duty('race/twice', lock_key => %s, team => %s)"
    _, second = race(ledger, "oncall", (call, (4712, "one")), (call, (4713, "two")))
    assert second == [("",)]
    assert ledger.sql("select lock_objid, team from pgleader.duty where duty = 'race/twice'") == [(4713, "two")]


def test_register_one_lease_row_for_two_duties(ledger):
    call = "select pgleader.register_duty(%s, lease_table => 'public.leases', lease_row => 'x')"
    _, lost = race(ledger, "oncall", (call, ("race/lease-a",)), (call, ("race/lease-b",)))
    assert lost == "PL004"


def test_retire_twice(ledger):
    duty = ledger.register()
    call = ("select pgleader.retire_duty(%s)", (duty,))
    assert race(ledger, "oncall", call, call)[1] == "PL003"


def test_complete_a_key_change_twice(ledger):
    duty = ledger.register(lock_key=4714)
    leader, _ = ledger.lead(duty)
    ledger.change(duty, lock_key=4715)
    leader.execute("select pg_advisory_lock(4715)")
    call = ("select pgleader.complete_key_change(%s)", (duty,))
    assert race(ledger, "oncall", call, call)[1] == "55000"


def test_begin_term_against_a_key_change(ledger):
    """Who waits with the old key does not begin a term when the key has changed meanwhile."""
    duty = ledger.register(lock_key=4716)
    leader, _ = ledger.lead(duty)
    leader.execute("select pg_advisory_lock(4717)")
    ledger.change(duty, lock_key=4717)
    operator, successor = ledger.connect("oncall"), ledger.connect()
    operator.execute("begin")
    operator.execute("select pgleader.complete_key_change(%s)", (duty,))
    leader.close()
    ledger.take(successor, duty)
    waiting = Waiting(successor, "select pgleader.begin_term(%s, 'late')", (duty,)).until_blocked(ledger)
    operator.execute("commit")
    assert waiting.result() == "PL002"


def test_begin_term_against_end_term_of_the_same_session_that_died(ledger):
    """The old owner's end_term is under way when its session loses the lock to a successor."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    leader.execute("begin")
    leader.execute("select pgleader.end_term(%s, %s, 'released')", (duty, generation))
    leader.execute("select pg_advisory_unlock_all()")
    successor = ledger.connect()
    ledger.take(successor, duty)
    waiting = Waiting(successor, "select pgleader.begin_term(%s, 'worker-2')", (duty,)).until_blocked(ledger)
    leader.execute("commit")
    assert waiting.result()[0][0] > generation
    assert ledger.sql("""select previous_end_reason, term_instance from pgleader.duty where duty = %s""", (duty,)) == [
        ("released", "worker-2")]


def test_claim_one_run_twice(ledger):
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    call = ("select outcome from pgleader.claim_run(%s, 'night', %s, '1 h')", (duty, generation))
    assert race(ledger, "worker", call, call) == ([("fresh",)], [("resumed",)])
    assert ledger.sql("select count(*) from pgleader.run r join pgleader.duty d using (duty_id) where duty = %s",
                      (duty,)) == [(1,)]


def test_claim_two_runs(ledger):
    """Both are claimed; the poll shows the second, and never two."""
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    call = "select outcome from pgleader.claim_run(%s, %s, %s, '1 h')"
    won, second = race(ledger, "worker", (call, (duty, "a", generation)), (call, (duty, "b", generation)))
    assert won == second == [("fresh",)]
    assert ledger.sql("select run_key from pgleader.current_run where duty = %s", (duty,)) == [("b",)]


@pytest.mark.parametrize("second, expected", [("complete", [("",)]), ("abandoned", "55000")])
def test_finish_one_run_twice(ledger, second, expected):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    leader.execute("select pgleader.claim_run(%s, 'night', %s, '1 h')", (duty, generation))
    call = "select pgleader.finish_run(%s, 'night', %s, %s, '{}')"
    assert race(ledger, "worker", (call, (duty, generation, "complete")), (call, (duty, generation, second)))[1] == expected
    assert ledger.sql("select r.status from pgleader.run r join pgleader.duty d using (duty_id) where duty = %s",
                      (duty,)) == [("complete",)]


def test_advance_one_run_twice(ledger):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    leader.execute("select pgleader.claim_run(%s, 'night', %s, '1 h')", (duty, generation))
    call = "select pgleader.advance_run(%s, 'night', %s, %s)"
    assert race(ledger, "worker", (call, (duty, generation, "1")), (call, (duty, generation, "2")))[1] == [("",)]
    assert ledger.sql("select cursor from pgleader.current_run where duty = %s", (duty,)) == [("2",)]


def test_report_stopped_twice(ledger):
    """The first report stands."""
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    call = ("select pgleader.report_stopped(%s, %s, 'worker-1')", (duty, generation))
    one, two = ledger.connect(), ledger.connect()
    one.execute("begin")
    one.execute(*call)
    query = "select stopped_at from pgleader.term where generation = %s and duty_id = (select duty_id from pgleader.duty where duty = %s)"
    waiting = Waiting(two, *call).until_blocked(ledger)
    one.execute("commit")
    first = ledger.sql(query, (generation, duty))
    assert waiting.result() == [("",)]
    assert ledger.sql(query, (generation, duty)) == first != [(None,)]


def test_request_one_yield_twice(ledger):
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    call = ("select pgleader.request_yield(%s, %s, 'deploy', '0')", (duty, generation))
    won, lost = race(ledger, "oncall", call, call)
    assert lost == "55006"
    assert ledger.sql("select y.intent from pgleader.yield y join pgleader.duty d using (duty_id) where duty = %s",
                      (duty,)) == won


def requested(ledger):
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    operator = ledger.connect("oncall")
    return duty, leader, row(operator, "select pgleader.request_yield(%s, %s, 'deploy', '0')", (duty, generation))[0]


def test_use_one_intent_twice(ledger):
    _, _, intent = requested(ledger)
    call = ("select signalled from pgleader.terminate_owner(%s)", (intent,))
    assert race(ledger, "oncall", call, call) == ([(True,)], "PL005")


def test_record_one_outcome_twice(ledger):
    duty, _, intent = requested(ledger)
    call = "select pgleader.record_yield_outcome(%s, %s)"
    assert race(ledger, "oncall", (call, (intent, "moved")), (call, (intent, "vacant")))[1] == "PL005"
    assert ledger.sql("select moved, vacant from pgleader.on_call c join pgleader.duty d using (duty_id) where duty = %s",
                      (duty,)) == [(1, 0)]


def test_acquire_one_lease_twice(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    call = "select pgleader.acquire_lease(%s, %s, '1 min')"
    won, lost = race(ledger, "worker", (call, (duty, "a")), (call, (duty, "b")))
    assert won[0][0] > 0 and lost == [(None,)]
    assert ledger.sql("select holder from pgleader.lease where job_name = %s", (duty,)) == [("a",)]


def test_release_a_lease_while_another_takes_it(ledger):
    """The follower asks just before the release commits: it gets the lease, with a generation of its own."""
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    generation = row(worker, "select pgleader.acquire_lease(%s, 'a', '1 min')", (duty,))[0]
    ledger.sql("update pgleader.lease set expires_at = clock_timestamp() where job_name = %s", (duty,))
    _, second = race(ledger, "worker", ("select pgleader.release_lease(%s, 'a', %s)", (duty, generation)),
                     ("select pgleader.acquire_lease(%s, 'b', '1 min')", (duty,)))
    assert second[0][0] > generation


def test_renew_a_lease_twice(ledger):
    duty = ledger.register(lease_table="pgleader.lease")
    worker = ledger.connect()
    generation = row(worker, "select pgleader.acquire_lease(%s, 'a', '1 min')", (duty,))[0]
    call = ("select pgleader.renew_lease(%s, 'a', %s, '1 min')", (duty, generation))
    first, second = race(ledger, "worker", call, call)
    assert first[0][0] < second[0][0]


def test_prune_twice(ledger):
    duty = ledger.register()
    conn = ledger.connect()
    ledger.take(conn, duty)
    for _ in range(5):
        conn.execute("select pgleader.begin_term(%s, 'a')", (duty,))
    call = ("select terms from pgleader.prune('0')",)
    first, second = race(ledger, "oncall", call, call)
    assert first[0][0] >= 3 and second == [(0,)]
