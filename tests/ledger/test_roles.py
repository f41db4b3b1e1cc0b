# SPDX-License-Identifier: PostgreSQL
"""Who may do what, as a table: every function and table of the ledger for every role."""

import psycopg
import pytest

READER, CANDIDATE, OPERATOR = "watcher", "worker", "oncall"
EVERYBODY = {READER, CANDIDATE, OPERATOR}

# Calls that end in something else than "permission denied" (42501) where they are allowed.
CALLS = [
    ("derive_key('prod', 'jobs/x')", EVERYBODY),
    ("register_duty('jobs/x', lock_key => 1)", {OPERATOR}),
    ("complete_key_change('no/duty')", {OPERATOR}),
    ("retire_duty('no/duty')", {OPERATOR}),
    ("pause_alerts('no/duty', now())", {OPERATOR}),
    ("begin_term('no/duty', 'a')", {CANDIDATE}),
    ("end_term('no/duty', 1, 'a')", {CANDIDATE}),
    ("report_stopped('no/duty', 1, 'a')", {CANDIDATE}),
    ("wait_for_duty('no/duty')", {CANDIDATE}),
    ("fence('no/duty', 1)", {CANDIDATE}),
    ("claim_run('no/duty', 'r', 1, '1 h')", {CANDIDATE}),
    ("advance_run('no/duty', 'r', 1, 'c')", {CANDIDATE}),
    ("finish_run('no/duty', 'r', 1, 'complete', '{}')", {CANDIDATE}),
    ("acquire_lease('no/duty', 'a', '1 s')", {CANDIDATE}),
    ("renew_lease('no/duty', 'a', 1, '1 s')", {CANDIDATE}),
    ("release_lease('no/duty', 'a', 1)", {CANDIDATE}),
    ("warm_up()", {CANDIDATE}),
    ("request_yield('no/duty', 1, 'why', '0')", {OPERATOR}),
    ("terminate_owner(1)", {OPERATOR}),
    ("record_yield_outcome(1, 'moved')", {OPERATOR}),
    ("record_refusal('no/duty', 1, 1, now(), 'owner', 'gone', 'why')", {OPERATOR}),
    ("prune('1 year')", {OPERATOR}),
    ("read_lease('a.b', 'c')", {READER, OPERATOR}),
    ("check_duty_name('a/b')", EVERYBODY),
]

SELECTS = [
    ("duty", EVERYBODY), ("schema_version", EVERYBODY), ("current_term", EVERYBODY), ("current_run", EVERYBODY),
    ("term", {READER, OPERATOR}), ("run", {READER, OPERATOR}), ("lease", {READER, OPERATOR}),
    ("yield", {READER, OPERATOR}), ("on_call", {READER, OPERATOR}), ("ownership", {READER, OPERATOR}),
    ("refused_yield", {READER, OPERATOR}),
]

WRITES = ["insert into pgleader.{} default values", "update pgleader.{0} set {1} = {1}", "delete from pgleader.{}",
          "truncate pgleader.{}", "select from pgleader.{} for update"]


def allowed(conn, statement):
    """Whether the statement gets past the privileges; what else becomes of it does not count, and is undone."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate != "42501"
    return True


def logins(ledger):
    return {name: ledger.connect(name) for name in (READER, CANDIDATE, OPERATOR, "stranger")}


def test_functions(ledger):
    for name, conn in logins(ledger).items():
        wrong = [call for call, roles in CALLS if allowed(conn, f"select pgleader.{call}") != (name in roles)]
        assert not wrong, name


def test_every_function_is_in_the_table_or_nobodys(ledger):
    named = {call.split("(")[0] for call, _ in CALLS}
    for name in EVERYBODY:
        reachable = ledger.sql("select proname from pg_proc where pronamespace = 'pgleader'::regnamespace "
                               "and has_function_privilege(%s, oid, 'execute')", (name,))
        assert {proname for proname, in reachable} <= named


def test_reading(ledger):
    for name, conn in logins(ledger).items():
        wrong = [table for table, roles in SELECTS if allowed(conn, f"select * from pgleader.{table}") != (name in roles)]
        assert not wrong, name


@pytest.mark.parametrize("write", WRITES)
def test_nobody_writes_a_table(ledger, write):
    columns = dict(ledger.sql("""select c.relname, min(a.attname) from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'pgleader'::regnamespace and c.relkind = 'r' and a.attnum > 0 and a.attidentity = ''
        group by 1"""))
    assert len(columns) == 8
    for name, conn in logins(ledger).items():
        written = [table for table, column in columns.items() if allowed(conn, write.format(table, column))]
        assert not written, name


def test_nobody_creates_in_the_schema(ledger):
    for name, conn in logins(ledger).items():
        assert not allowed(conn, "create table pgleader.mine ()"), name


def test_a_reader_sees_sessions(ledger):
    """pg_read_all_stats, without which there is no age of an owner's session."""
    holder = ledger.connect("stranger")
    query = "select backend_start from pg_stat_get_activity(%s)"
    assert ledger.sql(query, (holder.info.backend_pid,), user=READER) != [(None,)]
    assert ledger.sql(query, (holder.info.backend_pid,), user=CANDIDATE) == [(None,)]


def test_search_path_of_the_caller_leads_nowhere(ledger):
    """A caller's own objects of the same names are not what the functions use."""
    conn = ledger.connect("oncall")
    with conn.transaction(force_rollback=True):
        conn.execute("create temp table pg_locks (pid int); create temp table duty (duty text)")
        conn.execute("create function pg_temp.clock_timestamp() returns timestamptz language sql as $$select null::timestamptz$$")
        conn.execute("set local search_path = pg_temp, pgleader, pg_catalog")
        conn.execute("select pgleader.register_duty('path/x', lock_key => 91)")
        conn.execute("select pgleader.pause_alerts('path/x', '2100-01-01')")
        assert conn.execute("select state from pgleader.ownership where duty = 'path/x'").fetchall() == [("vacant",)]


def test_a_lease_table_cannot_run_code_as_who_looks(own_ledger):
    """Whoever registers a view, or a column whose type has a cast of its own, only makes it unreadable."""
    ledger = own_ledger
    ledger.sql("""create schema trap authorization stranger""")
    trap = ledger.connect("stranger")
    trap.execute("""
        create table trap.ran (by_user text);
        grant insert on trap.ran to public; grant usage on schema trap to public;
        create function trap.spring() returns boolean language plpgsql as
            $$begin insert into trap.ran values (current_user); return true; end$$;
        create view trap.as_view as select 'x'::text as job_name, 'me'::text as holder, now() as expires_at where trap.spring();
        create type trap.word as (w text);
        create function trap.to_text(trap.word) returns text language plpgsql as
            $$begin perform trap.spring(); return 'x'; end$$;
        create cast (trap.word as text) with function trap.to_text(trap.word) as implicit;
        create table trap.as_type (job_name trap.word, holder text, expires_at timestamptz);
        insert into trap.as_type values (row('x'), 'me', now());
        grant select on all tables in schema trap to public""")
    for table in ("as_view", "as_type"):
        ledger.register(f"trap/{table}", lease_table=f"trap.{table}", lease_row="x")
    for user in ("postgres", READER):
        assert ledger.sql("select distinct state from pgleader.ownership", user=user) == [("unknown: lease not readable",)]
    assert ledger.sql("select * from trap.ran") == []
