# SPDX-License-Identifier: PostgreSQL
"""Pruning: what goes with age, and what stays whatever its age."""

from .ledger import begin, refusal, row


def age(ledger):
    """Makes everything that has ended a year old."""
    ledger.sql("update pgleader.term set ended_at = ended_at - interval '1 year' where ended_at is not null")
    ledger.sql("update pgleader.run set finished_at = finished_at - interval '1 year' where finished_at is not null")
    ledger.sql("update pgleader.yield set requested_at = requested_at - interval '1 year', expires_at = expires_at - interval '1 year'")


def run(conn, duty, generation, key, status):
    conn.execute("select pgleader.claim_run(%s, %s, %s, null)", (duty, key, generation))
    if status != "running":
        conn.execute("select pgleader.finish_run(%s, %s, %s, %s, null)", (duty, key, generation, status))


def test_what_goes_and_what_stays(own_ledger):
    ledger = own_ledger
    duty = ledger.register()
    leader, first = ledger.lead(duty)
    run(leader, duty, first, "left", "running")
    run(leader, duty, first, "half", "partial")
    run(leader, duty, first, "given-up", "abandoned")
    run(leader, duty, first, "done-1", "complete")
    run(leader, duty, first, "done-2", "complete")
    generations = [first, *(begin(leader, duty) for _ in range(3))]
    operator = ledger.connect("oncall")
    assert row(operator, "select * from pgleader.prune('1 day')") == (0, 0, 0), "nothing is that old"
    age(ledger)
    assert row(operator, "select * from pgleader.prune('2 years')") == (0, 0, 0), "nor that"
    assert row(operator, "select * from pgleader.prune('300 days')") == (2, 2, 0)
    assert ledger.sql("select generation from pgleader.term order by 1") == [(g,) for g in generations[-2:]], \
        "the newest term and the one before it"
    assert ledger.sql("select run_key from pgleader.run order by 1") == [("done-2",), ("half",), ("left",)], \
        "unfinished runs and the last complete one"
    assert row(operator, "select * from pgleader.prune('0')") == (0, 0, 0), "twice is once"
    # A duty that ended its only term keeps it.
    begin(leader, duty)
    leader.execute("select pgleader.end_term(%s, (select generation from pgleader.duty where duty = %s), 'bye')", (duty, duty))
    age(ledger)
    assert row(operator, "select terms from pgleader.prune('0')") == (1,)
    assert ledger.sql("select count(*) from pgleader.term") == [(2,)]


def test_a_pruned_run_can_be_claimed_afresh(own_ledger):
    """The limit that keep has to respect: what is gone is not remembered as done."""
    ledger = own_ledger
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    for key in ("monday", "tuesday"):
        run(leader, duty, generation, key, "complete")
    claim = "select outcome from pgleader.claim_run(%s, 'monday', %s, null)"
    assert row(leader, claim, (duty, generation)) == ("already_complete",)
    age(ledger)
    ledger.connect("oncall").execute("select pgleader.prune('30 days')")
    assert row(leader, claim, (duty, generation)) == ("fresh",)


def test_old_refusals_go(own_ledger):
    duty = own_ledger.register()
    operator = own_ledger.connect("oncall")
    for _ in range(2):
        operator.execute("select pgleader.record_refusal(%s, 1, null, null, 'led', 'nobody leads', 'why')", (duty,))
    own_ledger.sql("update pgleader.refused_yield set refused_at = refused_at - interval '1 year' where refusal = 1")
    assert row(operator, "select yields from pgleader.prune('1 day')") == (1,)
    assert own_ledger.sql("select refusal from pgleader.refused_yield") == [(2,)]


def test_what_is_no_age_is_refused(ledger):
    operator = ledger.connect("oncall")
    for keep in (None, "-1 s"):
        assert refusal(operator, "select pgleader.prune(%s)", (keep,))[0] == "22023"
