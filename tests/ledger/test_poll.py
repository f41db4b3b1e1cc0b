# SPDX-License-Identifier: PostgreSQL
"""The poll's query: its columns and their types, what it shows of a life, and that history does not slow it."""

import pytest

from tests.support.cluster import ROOT

from .ledger import begin, row

QUERY = (ROOT / "observe/sql/ledger.sql").read_text()
VERSION = (ROOT / "observe/sql/ledger_version.sql").read_text()

# The decoder reads binary, so that the types matter: every column, in words of the catalog.
COLUMNS = """
    duty text, mechanism text, environment text, lock_classid int8, lock_objid int8, lock_objsubid int4,
    lease_table text, lease_row text, candidate_pattern text, team text, runbook text, min_candidates int4,
    stall_after_us int8, run_every_us int8, takeover_slow_after_us int8, wait_slow_after_us int8,
    alerts_paused_until timestamptz, yieldable bool,
    generation int8, term_pid int4, term_backend_start timestamptz, term_instance text, term_listens bool,
    term_acquired_at timestamptz, term_last_refused_at timestamptz, term_ended_at timestamptz, term_end_reason text,
    yielding bool,
    previous_generation int8, previous_instance text, previous_acquired_at timestamptz,
    previous_ended_at timestamptz, previous_end_reason text,
    next_lock_classid int8, next_lock_objid int8, next_lock_objsubid int4,
    run_key text, run_status text, run_generation int8, run_cursor text, run_position float8, run_target float8,
    run_started_at timestamptz, run_advanced_at timestamptz, run_deadline_at timestamptz,
    run_finished_at timestamptz,
    last_run_key text, last_run_cursor text, last_run_position float8, last_run_finished_at timestamptz,
    yields_moved int8, yields_returned int8, yields_vacant int8, yields_not_confirmed int8, yields_unknown int8,
    yields_refused int8"""


def poll(ledger, duty=None, user="watcher"):
    """The rows by duty, as the exporter reads them: read-only, no search_path, binary."""
    conn = ledger.connect(user)
    with conn.transaction():
        conn.execute("set transaction read only")
        conn.execute("set local search_path = ''")
        cursor = conn.cursor(binary=True)
        names = [c.name for c in cursor.execute(QUERY).description]
        rows = {r[0]: dict(zip(names, r)) for r in cursor}
    conn.close()
    return rows[duty] if duty else rows


def test_columns_and_types(ledger):
    described = ledger.connect("watcher").execute(QUERY).description
    types = dict(ledger.sql("select oid, typname from pg_type"))
    found = [f"{c.name} {types[c.type_code]}" for c in described]
    assert sorted(found) == sorted(word.strip() for word in COLUMNS.split(","))


def test_version(ledger):
    conn = ledger.connect("watcher")
    cursor = conn.execute(VERSION)
    assert (cursor.description[0].name, cursor.description[0].type_code) == ("version", 23)
    assert cursor.fetchall() == [(len(list((ROOT / "ledger").glob("[0-9][0-9][0-9]_*.sql"))),)]


def test_a_registration_is_shown_whole(ledger):
    ledger.register("poll/whole", lock_pair=[-12, 7], candidates="w-%", min_candidates=2, stall_after="5 min",
                    run_every="1 h", takeover_slow_after="1.5 s", wait_slow_after="1 day", team="billing",
                    runbook="https://runbooks.example/whole", yieldable=False)
    ledger.sql("select pgleader.pause_alerts('poll/whole', '2100-01-01 00:00+00')", user="oncall")
    seen = poll(ledger, "poll/whole")
    registered = {name: value for name, value in seen.items() if value is not None}
    assert registered.pop("alerts_paused_until").year == 2100
    assert registered == {
        "duty": "poll/whole", "mechanism": "lock", "lock_classid": 4294967284, "lock_objid": 7, "lock_objsubid": 2,
        "candidate_pattern": "w-%", "team": "billing", "runbook": "https://runbooks.example/whole", "min_candidates": 2,
        "stall_after_us": 300_000_000, "run_every_us": 3_600_000_000, "takeover_slow_after_us": 1_500_000,
        "wait_slow_after_us": 86_400_000_000, "yieldable": False, "yielding": False, "yields_moved": 0,
        "yields_returned": 0, "yields_vacant": 0, "yields_not_confirmed": 0, "yields_unknown": 0, "yields_refused": 0}


def test_undeclared_thresholds_are_null(ledger):
    duty = ledger.register()
    assert {poll(ledger, duty)[name] for name in ("min_candidates", "stall_after_us", "run_every_us",
                                                  "takeover_slow_after_us", "wait_slow_after_us", "team")} == {None}


def test_the_largest_threshold_fits(ledger):
    duty = ledger.register(stall_after="10 years")
    assert poll(ledger, duty)["stall_after_us"] > 3 * 10**14


def test_a_life(ledger):
    """Terms, runs and yields, as each poll shows them."""
    duty = ledger.register()
    leader, first = ledger.lead(duty, "one")
    seen = poll(ledger, duty)
    pid = leader.info.backend_pid
    assert (seen["generation"], seen["term_pid"], seen["term_instance"], seen["term_listens"]) == (first, pid, "one", False)
    assert seen["term_backend_start"] == ledger.value("select backend_start from pg_stat_activity where pid = %s", (pid,))
    assert seen["term_ended_at"] is seen["previous_generation"] is seen["run_key"] is None

    leader.execute("select pgleader.claim_run(%s, 'monday', %s, '1 h')", (duty, first))
    leader.execute("select pgleader.advance_run(%s, 'monday', %s, '612', target => 1000)", (duty, first))
    seen = poll(ledger, duty)
    assert [seen[f"run_{n}"] for n in ("key", "status", "generation", "cursor", "position", "target")] == [
        "monday", "running", first, "612", 612, 1000]
    assert seen["run_started_at"] < seen["run_advanced_at"] < seen["run_deadline_at"]
    moved = seen["run_advanced_at"]
    leader.execute("select pgleader.advance_run(%s, 'monday', %s, '612')", (duty, first))
    assert poll(ledger, duty)["run_advanced_at"] == moved

    leader.execute("select pgleader.finish_run(%s, 'monday', %s, 'complete', '{}')", (duty, first))
    leader.execute("select pgleader.claim_run(%s, 'tuesday', %s, null)", (duty, first))
    seen = poll(ledger, duty)
    assert (seen["run_key"], seen["last_run_key"], seen["last_run_cursor"], seen["last_run_position"]) == (
        "tuesday", "monday", "612", 612)
    assert seen["run_deadline_at"] is None and seen["last_run_finished_at"] is not None

    second = begin(leader, duty, "two")
    leader.execute("select pgleader.end_term(%s, %s, 'deploy')", (duty, second))
    seen = poll(ledger, duty)
    assert (seen["generation"], seen["term_end_reason"], seen["previous_generation"], seen["previous_instance"],
            seen["previous_end_reason"]) == (second, "deploy", first, "one", "superseded")
    assert seen["previous_acquired_at"] < seen["previous_ended_at"] == seen["term_acquired_at"] < seen["term_ended_at"]
    assert (seen["run_key"], seen["run_generation"]) == ("tuesday", first), "left by the first, for a successor"
    third = begin(leader, duty, "three")
    leader.execute("select pgleader.claim_run(%s, 'tuesday', %s, null)", (duty, third))
    leader.execute("select pgleader.finish_run(%s, 'tuesday', %s, 'partial', null)", (duty, third))
    seen = poll(ledger, duty)
    assert (seen["run_status"], seen["run_generation"]) == ("partial", third) and seen["run_finished_at"]

    ledger.sql("select pgleader.retire_duty(%s)", (duty,), user="oncall")
    assert duty not in poll(ledger)


@pytest.mark.parametrize("outcome", ["moved", "returned", "vacant", "not-confirmed", "unknown", "refused"])
def test_outcomes(ledger, outcome):
    duty = ledger.register()
    _, generation = ledger.lead(duty)
    operator = ledger.connect("oncall")
    intent = row(operator, "select pgleader.request_yield(%s, %s, 'try', '0')", (duty, generation))[0]
    operator.execute("select pgleader.record_yield_outcome(%s, %s)", (intent, outcome))
    seen = poll(ledger, duty)
    assert {n: seen[n] for n in seen if n.startswith("yields_") and seen[n]} == {f"yields_{outcome.replace('-', '_')}": 1}


def test_a_reserved_key_is_shown_beside_the_one_that_decides(ledger):
    duty = ledger.register(lock_key=5001)
    ledger.lead(duty)
    ledger.change(duty, lock_pair=[-1, 5002])
    seen = poll(ledger, duty)
    assert [seen[f"{which}_{part}"] for which in ("lock", "next_lock") for part in ("classid", "objid", "objsubid")] == [
        0, 5001, 1, 4294967295, 5002, 2]


def test_yielding(ledger):
    """While a yield of the open term is open, and no longer."""
    duty = ledger.register()
    leader, generation = ledger.lead(duty)
    operator = ledger.connect("oncall")
    ask = "select pgleader.request_yield(%s, %s, 'try', '0')"
    intent = row(operator, ask, (duty, generation))[0]
    assert poll(ledger, duty)["yielding"] is True
    operator.execute("select pgleader.record_yield_outcome(%s, 'returned')", (intent,))
    assert poll(ledger, duty)["yielding"] is False
    intent = row(operator, ask, (duty, generation))[0]
    ledger.sql("update pgleader.yield set expires_at = clock_timestamp() where intent = %s", (intent,))
    assert poll(ledger, duty)["yielding"] is False
    row(operator, ask, (duty, generation))
    begin(leader, duty)
    assert poll(ledger, duty)["yielding"] is False, "it was another term's"


def test_leases(ledger):
    """Ours and the application's: the exporter is told where to look, and never the key of a lock."""
    own = ledger.register(lease_table="pgleader.lease")
    theirs = ledger.register(lease_table='public."Odd Table"', lease_row="nightly")
    assert (poll(ledger, own)["lease_table"], poll(ledger, own)["lease_row"]) == ("pgleader.lease", own)
    seen = poll(ledger, theirs)
    assert (seen["mechanism"], seen["lease_table"], seen["lease_row"], seen["lock_classid"], seen["lock_objsubid"]) == (
        "lease", 'public."Odd Table"', "nightly", None, None)
    worker = ledger.connect()
    worker.execute("select pgleader.acquire_lease(%s, 'a', '1 min')", (own,))
    seen = poll(ledger, own)
    assert seen["generation"] > 0 and seen["term_pid"] is seen["term_backend_start"] is None


def test_privileges(ledger):
    """An operator's screen polls as well; a candidate's connection cannot."""
    assert poll(ledger, user="oncall").keys() == poll(ledger).keys()
    with pytest.raises(Exception, match="permission denied"):
        poll(ledger, user="worker")


HISTORY = """
    insert into pgleader.term select duty_id, i, 'h', 1, now(), false, '5 s', now(), null, now(), 'released', null
        from pgleader.duty, generate_series(1, 50) i;
    insert into pgleader.run (duty_id, run_key, status, generation, started_at, claimed_at, finished_at)
        select duty_id, 'old-' || i, 'complete', 1, now(), now(), now() from pgleader.duty, generate_series(1, 50) i;
    insert into pgleader.run (duty_id, run_key, status, generation, started_at, claimed_at)
        select duty_id, 'left-' || i, 'running', 1, now(), now() from pgleader.duty, generate_series(1, 50) i;
    insert into pgleader.yield (duty_id, generation, instance, reason, requested_at, grace, expires_at, outcome)
        select duty_id, i, 'h', 'old', now(), '0', now(), 'moved' from pgleader.duty, generate_series(1, 50) i"""


def pages(conn):
    """Pages that one poll touches, and its plan."""
    plan = conn.execute("explain (analyze, buffers, format json) " + QUERY).fetchone()[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], str(plan)


def test_history_does_not_slow_it(own_ledger):
    """The pages of a poll are of the duties, with 50 old terms, runs and yields a duty as with none.

    Pages, not milliseconds: they are the same on every machine. Also before the first ANALYZE.
    """
    duties = 200
    conn = own_ledger.connect("postgres")
    conn.execute("set session_replication_role = replica")  # no foreign keys while rows are made up
    conn.execute("""
        insert into pgleader.duty (duty, mechanism, lock_classid, lock_objid, lock_objsubid, generation)
            select 'old/d' || i, 'lock', 9, i, 1, 1000000 from generate_series(1, %s) i""", (duties,))
    conn.execute("""
        insert into pgleader.on_call (duty_id) select duty_id from pgleader.duty;
        insert into pgleader.run (duty_id, run_key, status, generation, started_at, claimed_at, place)
            select duty_id, 'now', 'running', 1, now(), now(), 'newest' from pgleader.duty;
        insert into pgleader.run (duty_id, run_key, status, generation, started_at, claimed_at, finished_at, place)
            select duty_id, 'then', 'complete', 1, now(), now(), now(), 'last' from pgleader.duty""")
    conn.execute("vacuum analyze")
    before, _ = pages(conn)
    conn.execute(HISTORY)
    after, plan = pages(conn)
    assert after < before + 4 * duties, plan
    conn.execute("vacuum analyze")
    after, plan = pages(conn)
    assert after < before + 4 * duties, plan
    shown = f"select count(*) from ({QUERY}) q where run_key = 'now' and last_run_key = 'then'"
    assert row(conn, shown) == (duties,)
    conn.execute("select pgleader.prune('0')")
    assert row(conn, shown) == (duties,)
