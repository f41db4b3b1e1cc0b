# SPDX-License-Identifier: PostgreSQL
"""Yields: who can be ended, by which intent, and what the audit says afterwards."""

import json

import pytest

from tests.support.wait import wait_until

from .ledger import begin, refusal, row


class Case:
    """A led duty, and an operator with an intent to end its leader."""

    def __init__(self, ledger, grace="0", **registration):
        self.ledger = ledger
        self.duty = ledger.register(**registration)
        self.leader, self.generation = ledger.lead(self.duty)
        self.operator = ledger.connect("oncall")
        self.intent = self.request(grace)

    def request(self, grace="0", generation=None, **more):
        words = "".join(f", {name} => %s" for name in more)
        return row(self.operator, f"select pgleader.request_yield(%s, %s, 'deploy', %s{words})",
                   (self.duty, generation or self.generation, grace, *more.values()))[0]

    def audit(self, columns, intent=None):
        return self.ledger.sql(f"select {columns} from pgleader.yield where intent = %s", (intent or self.intent,))[0]

    def totals(self):
        return self.ledger.sql("""select moved, returned, vacant, not_confirmed, unknown, refused
            from pgleader.on_call join pgleader.duty using (duty_id) where duty = %s""", (self.duty,))[0]

    def refused(self):
        """Asks to end the owner; the PL005 message, after seeing that nobody was ended and nothing changed."""
        before = self.ledger.contents()
        state, message = refusal(self.operator, "select pgleader.terminate_owner(%s)", (self.intent,))
        assert state == "PL005", message
        assert self.ledger.contents() == before
        return message


def alive(ledger, pid):
    return ledger.value("select exists (select from pg_stat_activity where pid = %s)", (pid,))


def answers(conn):
    """A session that was signalled ends at its next statement at the latest."""
    return row(conn, "select 1") == (1,)


def test_a_leader_is_ended_once(ledger):
    case = Case(ledger)
    pid = case.leader.info.backend_pid
    assert row(case.operator, "select * from pgleader.terminate_owner(%s)", (case.intent,)) == (pid, True)
    wait_until(lambda: not alive(ledger, pid), "the leader's session ends")
    assert case.audit("pid, signalled, used_by, used_at is not null, outcome, requested_by, reason") == (
        pid, True, "oncall", True, None, "oncall", "deploy")
    assert "was used at" in case.refused()
    case.operator.execute("select pgleader.record_yield_outcome(%s, 'vacant')", (case.intent,))
    assert case.audit("outcome, outcome_by, outcome_at >= used_at") == ("vacant", "oncall", True)
    assert case.totals() == (0, 0, 1, 0, 0, 0)


def test_the_audit_is_written_before_the_signal(own_ledger):
    """What cannot be written is not done: whoever keeps the audit's table from being written keeps the leader."""
    case = Case(own_ledger)
    own_ledger.sql("""create function public.refuse() returns trigger language plpgsql as $$ begin raise 'no' using errcode = '42501'; end $$;
                      create trigger refuse after update on pgleader.yield for each row execute function public.refuse()""")
    assert refusal(case.operator, "select pgleader.terminate_owner(%s)", (case.intent,))[0] == "42501"
    assert answers(case.leader) and case.audit("used_at, signalled") == (None, None)
    own_ledger.sql("drop function public.refuse cascade")
    assert row(case.operator, "select signalled from pgleader.terminate_owner(%s)", (case.intent,)) == (True,)


REFUSE = "select pgleader.record_refusal(%s, 7, 4711, '2026-11-29 12:00+00', 'owner', 'another session leads', 'deploy', '{cool-down}')"


def test_a_refusal_is_in_the_audit_and_is_no_yield(ledger):
    """It opens nothing, closes nothing, starts no cool-down, and is in no total; it waits for nobody."""
    case = Case(ledger, yield_cooldown="1 h")
    totals = case.totals()
    with ledger.connect("postgres") as holder, holder.transaction():
        holder.execute("select from pgleader.on_call for update")
        holder.execute("select pgleader.lock_duty(%s, true)", (case.duty,))
        refused, = row(case.operator, REFUSE, (case.duty,))
    assert ledger.sql("select d.duty, x.generation, x.pid, x.guard, x.why, x.reason, x.overrides, x.refused_by from pgleader.refused_yield x "
                      "join pgleader.duty d using (duty_id) where refusal = %s", (refused,)) == [
        (case.duty, 7, 4711, "owner", "another session leads", "deploy", ["cool-down"], "oncall")]
    assert case.totals() == totals and case.audit("outcome") == (None,)
    assert row(case.operator, "select signalled from pgleader.terminate_owner(%s)", (case.intent,)) == (True,)
    cold = Case(ledger, yield_cooldown="1 h")
    ledger.sql("delete from pgleader.yield where intent = %s", (cold.intent,))
    row(cold.operator, REFUSE, (cold.duty,))
    assert cold.request() > cold.intent
    assert refusal(case.operator, REFUSE, ("no/duty",))[0] == "PL003"


def test_the_operator_cannot_terminate_by_itself(ledger):
    """The function's owner may signal; who calls it may not."""
    case = Case(ledger)
    assert refusal(case.operator, "select pg_terminate_backend(%s)", (case.leader.info.backend_pid,))[0] == "42501"
    assert answers(case.leader)


def test_an_intent_must_be_committed(ledger):
    """Asked and used in one transaction it would leave no trace if that were rolled back."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    operator = ledger.connect("oncall")
    operator.execute("begin")
    intent = row(operator, "select pgleader.request_yield(%s, %s, 'deploy', '0')", (duty, generation))[0]
    state, message = refusal(operator, "select pgleader.terminate_owner(%s)", (intent,))
    assert state == "PL005" and "not committed yet" in message
    assert answers(leader)


def test_an_expired_intent(ledger):
    """One expires at its grace and 60 s."""
    case = Case(ledger, grace="30 s")
    assert case.audit("expires_at - requested_at between '90 s' and '90.1 s'") == (True,)
    ledger.sql("update pgleader.yield set expires_at = clock_timestamp() where intent = %s", (case.intent,))
    assert "expired at" in case.refused()
    assert answers(case.leader)


def test_an_intent_that_is_over_or_never_was(ledger):
    case = Case(ledger)
    case.operator.execute("select pgleader.record_yield_outcome(%s, 'refused')", (case.intent,))
    assert "is over (refused)" in case.refused()
    case.intent = 999999
    assert "there is no such yield" in case.refused()
    case.intent = None
    assert "there is no such yield" in case.refused()


def test_the_owner_has_moved(ledger):
    """By a new term of the same session, of another session, by an end, and by an unlock without one."""
    again = Case(ledger)
    begin(again.leader, again.duty)
    assert "leads now" in again.refused()

    moved = Case(ledger)
    moved.leader.close()
    successor, _ = ledger.lead(moved.duty, "worker-2")
    assert "leads now" in moved.refused()
    assert answers(successor)

    ended = Case(ledger)
    ended.leader.execute("select pgleader.end_term(%s, %s, 'released')", (ended.duty, ended.generation))
    assert "the term ended at" in ended.refused()

    unlocked = Case(ledger)
    unlocked.leader.execute("select pg_advisory_unlock_all()")
    assert "does not hold the lock any more" in unlocked.refused()
    assert answers(unlocked.leader)

    gone = Case(ledger)
    pid = gone.leader.info.backend_pid
    gone.leader.close()
    wait_until(lambda: not alive(ledger, pid), "the session is gone")
    assert f"session {pid} is gone" in gone.refused()


def test_a_reused_pid_is_another_session(ledger):
    """The same pid and lock, but a session that started at another time than the one that began the term."""
    case = Case(ledger)
    ledger.sql("update pgleader.duty set term_backend_start = term_backend_start - interval '1 s' where duty = %s", (case.duty,))
    ledger.sql("update pgleader.yield set backend_start = backend_start - interval '1 s' where intent = %s", (case.intent,))
    assert "is gone, or its start cannot be read" in case.refused()
    assert answers(case.leader)


def test_nobody_makes_a_stranger_killable_by_registering_its_key(ledger):
    """A session that never began a term is no owner for terminate_owner, whatever the registry says."""
    stranger = ledger.connect("stranger")
    stranger.execute("select pg_advisory_lock(60001)")
    duty = ledger.register(lock_key=60001)
    operator = ledger.connect("oncall")
    for generation in (0, 1, None):
        assert refusal(operator, "select pgleader.request_yield(%s, %s, 'mine', '0')", (duty, generation))[0] == "PL001"

    # Nor by leading a duty and then giving it the stranger's key: the term's session must hold it.
    bait = ledger.register(lock_key=60002)
    leader, generation = ledger.lead(bait)
    assert refusal(operator, "select pgleader.register_duty(%s, lock_key => 60001)", (bait,))[0] == "PL004"
    ledger.sql("select pgleader.retire_duty(%s)", (duty,), user="oncall")
    operator.execute("select pgleader.register_duty(%s, lock_key => 60001)", (bait,))
    intent = row(operator, "select pgleader.request_yield(%s, %s, 'mine', '0')", (bait, generation))[0]
    assert row(operator, "select pid from pgleader.terminate_owner(%s)", (intent,)) == (leader.info.backend_pid,)
    wait_until(lambda: not alive(ledger, leader.info.backend_pid), "the leader's session ends")
    assert answers(stranger)


def test_a_superusers_session_is_not_ended(ledger):
    """The ledger's owner is no superuser: PostgreSQL refuses, and the intent stays unused."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty, user="postgres")
    operator = ledger.connect("oncall")
    intent = row(operator, "select pgleader.request_yield(%s, %s, 'deploy', '0')", (duty, generation))[0]
    assert refusal(operator, "select pgleader.terminate_owner(%s)", (intent,))[0] == "42501"
    assert ledger.sql("select used_at, signalled from pgleader.yield where intent = %s", (intent,)) == [(None, None)]
    assert answers(leader)


REFUSED_REQUESTS = [
    ("a duty that nobody knows", "select pgleader.request_yield('no/duty', %(generation)s, 'why', '0')", "PL003"),
    ("an old generation", "select pgleader.request_yield(%(duty)s, %(generation)s - 1, 'why', '0')", "PL001"),
    ("no reason", "select pgleader.request_yield(%(duty)s, %(generation)s, '  ', '0')", "22023"),
    ("NULL as a reason", "select pgleader.request_yield(%(duty)s, %(generation)s, NULL, '0')", "22023"),
    ("a novel as a reason", "select pgleader.request_yield(%(duty)s, %(generation)s, repeat('x', 1001), '0')", "22023"),
    ("a negative grace", "select pgleader.request_yield(%(duty)s, %(generation)s, 'why', '-1 s')", "22023"),
    ("a grace of a day", "select pgleader.request_yield(%(duty)s, %(generation)s, 'why', '1 day')", "22023"),
]


def test_requests_that_are_refused(ledger):
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    operator = ledger.connect("oncall")
    before = ledger.contents()
    for what, query, expected in REFUSED_REQUESTS:
        assert refusal(operator, query, {"duty": duty, "generation": generation})[0] == expected, what
    ledger.change(duty, yieldable=False)
    assert refusal(operator, "select pgleader.request_yield(%s, %s, 'why', '0')", (duty, generation))[0] == "55000"
    ledger.change(duty, yieldable=True)
    assert ledger.contents() == before


def test_one_yield_at_a_time_and_the_cool_down(ledger):
    case = Case(ledger, yield_cooldown="1 h")
    state, message = refusal(case.operator, "select pgleader.request_yield(%s, %s, 'again', '0')", (case.duty, case.generation))
    assert state == "55006" and f"yield {case.intent} of oncall is open" in message
    case.operator.execute("select pgleader.record_yield_outcome(%s, 'returned')", (case.intent,))
    state, message = refusal(case.operator, "select pgleader.request_yield(%s, %s, 'again', '0')", (case.duty, case.generation))
    assert state == "55006" and "the last one was at" in message
    second = case.request(overrides=["cool-down"])
    assert case.audit("overrides", second) == (["cool-down"],)


def test_an_expired_yield_of_unknown_outcome_makes_room(ledger):
    """Nobody recorded what came of it: that is what unknown means, and it is counted."""
    case = Case(ledger)
    ledger.sql("update pgleader.yield set expires_at = clock_timestamp() where intent = %s", (case.intent,))
    second = case.request()
    assert case.audit("outcome") == ("unknown",) and second > case.intent
    assert case.totals() == (0, 0, 0, 0, 1, 0)


def test_every_outcome_is_counted_and_pruning_lowers_none(own_ledger):
    ledger = own_ledger
    outcomes = ["moved", "returned", "vacant", "not-confirmed", "unknown", "refused"]
    case = Case(ledger)
    for outcome in outcomes:
        case.operator.execute("select pgleader.record_yield_outcome(%s, %s)", (case.intent, outcome))
        case.intent = case.request()
    assert refusal(case.operator, "select pgleader.record_yield_outcome(%s, 'done')", (case.intent,))[0] == "22023"
    assert refusal(case.operator, "select pgleader.record_yield_outcome(%s, NULL)", (case.intent,))[0] == "22023"
    assert refusal(case.operator, "select pgleader.record_yield_outcome(0, 'moved')")[0] == "PL005"
    assert case.totals() == (1, 1, 1, 1, 1, 1)
    assert row(case.operator, "select yields from pgleader.prune('0')") == (6,)
    assert case.totals() == (1, 1, 1, 1, 1, 1)
    assert case.audit("outcome") == (None,), "the open one stays"
    ledger.sql("update pgleader.yield set expires_at = clock_timestamp() where intent = %s", (case.intent,))
    assert row(case.operator, "select yields from pgleader.prune('0')") == (1,)
    assert case.totals() == (1, 1, 1, 1, 2, 1), "what nobody recorded is counted before it goes"


def notifications(conn, wanted):
    got = []
    for notify in conn.notifies():
        got.append((notify.channel, json.loads(notify.payload)))
        if len(got) == wanted:
            return got


@pytest.mark.filterwarnings("ignore")
def test_notifications(ledger):
    """A listener hears the request, the report and the release, each after its commit."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    listener = ledger.connect("stranger")
    listener.execute(f'listen "pgleader:{duty}"')
    intent = row(ledger.connect("oncall"), "select pgleader.request_yield(%s, %s, 'deploy', '2.5 s')", (duty, generation))[0]
    leader.execute("select pgleader.report_stopped(%s, %s, 'worker-1')", (duty, generation))
    leader.execute("select pgleader.end_term(%s, %s, 'yielded')", (duty, generation))
    assert notifications(listener, 3) == [(f"pgleader:{duty}", event) for event in (
        {"event": "yield", "generation": generation, "intent": intent, "grace_ms": 2500},
        {"event": "stopped", "generation": generation},
        {"event": "released", "generation": generation})]


def test_the_leader_sees_the_open_yield(ledger):
    """What a listening leader reads before it believes a notification."""
    case = Case(ledger, grace="20 s")
    worker = ledger.connect()
    query = "select yield_intent, yield_reason, yield_until > clock_timestamp() from pgleader.current_term where duty = %s"
    assert row(worker, query, (case.duty,)) == (case.intent, "deploy", True)
    case.operator.execute("select pgleader.record_yield_outcome(%s, 'refused')", (case.intent,))
    assert row(worker, query, (case.duty,)) == (None, None, None)


def test_the_longest_name_fits_a_channel(ledger):
    duty = ledger.register("test/" + "x" * 43)
    leader, generation = ledger.lead(duty)
    leader.execute("select pgleader.end_term(%s, %s, 'released')", (duty, generation))
