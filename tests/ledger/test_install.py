# SPDX-License-Identifier: PostgreSQL
"""Installing: again, at once from two sides, out of order, over data, and by a user who may not do it all."""

import subprocess
import threading

import psycopg
from tests.support.cluster import ROOT
from tests.support.wait import wait_until

from .ledger import refusal

FILES = sorted((ROOT / "ledger").glob("[0-9][0-9][0-9]_*.sql"))
ROLES = ROOT / "ledger/roles.sql"


CATALOG = """
    select 'function', p.oid::regprocedure::text, md5(p.prosrc) || p.xmin::text from pg_proc p
    where p.pronamespace = 'pgleader'::regnamespace
    union all
    select 'relation', c.oid::regclass::text, c.relfilenode || c.xmin::text from pg_class c
    where c.relnamespace = 'pgleader'::regnamespace
    union all
    select 'attribute', a.attrelid::regclass || '.' || a.attname, a.xmin::text from pg_attribute a
    join pg_class c on c.oid = a.attrelid where c.relnamespace = 'pgleader'::regnamespace
    order by 1, 2"""


def test_each_file_again_changes_nothing(own_ledger):
    """Not one catalog row is written again, nor any row of the ledger."""
    duty = own_ledger.register()
    own_ledger.lead(duty)
    before = own_ledger.sql(CATALOG), own_ledger.contents(), own_ledger.sql("select * from pgleader.schema_version")
    for path in [*FILES, *reversed(FILES)]:
        own_ledger.cluster.script(path, own_ledger.dbname)
    after = own_ledger.sql(CATALOG), own_ledger.contents(), own_ledger.sql("select * from pgleader.schema_version")
    assert before == after


def test_roles_again_changes_no_right(own_ledger):
    rights = """select c.oid::regclass::text, c.relacl::text from pg_class c where c.relnamespace = 'pgleader'::regnamespace
                union all select p.oid::regprocedure::text, p.proacl::text from pg_proc p
                where p.pronamespace = 'pgleader'::regnamespace order by 1"""
    before = own_ledger.sql(rights)
    own_ledger.cluster.script(ROLES, own_ledger.dbname)
    assert own_ledger.sql(rights) == before


def test_roles_takes_back_what_it_does_not_grant(own_ledger):
    own_ledger.sql("grant delete on pgleader.term to pgleader_candidate; "
                   "grant execute on function pgleader.prune to pgleader_reader")
    own_ledger.cluster.script(ROLES, own_ledger.dbname)
    assert own_ledger.sql("""select has_table_privilege('worker', 'pgleader.term', 'delete'),
        has_function_privilege('watcher', 'pgleader.prune(interval)', 'execute')""") == [(False, False)]


def test_a_file_out_of_order_is_refused(cluster, bare):
    cluster.script(FILES[0], bare)
    with cluster.connect(bare) as conn:
        state, message = refusal(conn, FILES[2].read_text())
        conn.execute("rollback")
        assert (state, message) == ("55000", f"could not install {FILES[2].name}: this ledger is of version 1")
        assert conn.execute("select max(version) from pgleader.schema_version").fetchone() == (1,)


def test_two_installers_at_once(cluster, bare):
    """Both end well, and the ledger is there once."""
    failures = []

    def install():
        try:
            cluster.install_ledger(bare)
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=install) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cluster.sql("select count(*) from pgleader.schema_version", dbname=bare) == [(len(FILES),)]


def test_the_second_installer_waits(cluster, bare):
    text = FILES[0].read_text()
    second = cluster.connect(bare)
    waiting = threading.Thread(target=second.execute, args=(text,), daemon=True)
    with cluster.connect(bare) as first:
        first.execute(text.replace("COMMIT;", ""))
        waiting.start()
        wait_until(lambda: cluster.sql("select pid from pg_locks where pid = %s and not granted",
                                       (second.info.backend_pid,)), "the second waits for the first")
        first.execute("commit")
    waiting.join()
    assert second.execute("select count(*) from pgleader.schema_version").fetchone() == (1,)
    second.close()


def test_psql_runs_the_files(cluster, bare):
    """As the README says: psql -f, stopping at the first error."""
    argv = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", cluster.conninfo(bare)]
    for path in [*FILES, ROLES, *FILES, ROLES]:
        argv += ["-f", path]
    # as whoever runs the tests: the server's user need not be able to read the checkout
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""


def installed_by(cluster, dbname, user):
    """Installs as that user; the warnings and their details, as one text."""
    notices = []
    with cluster.connect(dbname, user=user) as conn:
        conn.add_notice_handler(lambda d: notices.append(f"{d.severity} {d.message_primary} / {d.message_detail} / {d.message_hint}"))
        for path in [*FILES, ROLES]:
            conn.execute(path.read_text())
    return "\n".join(notices)


def test_an_owner_of_the_database_alone(cluster, bare):
    """Somebody who may create no role and grant nothing gets a ledger that works, and is told what does not."""
    cluster.sql("create role tenant login")
    cluster.sql(f"alter database {bare} owner to tenant")
    said = installed_by(cluster, bare, "tenant")
    for missing in ("GRANT pg_read_all_stats TO tenant", "GRANT pg_signal_backend TO tenant"):
        assert missing in said
    assert "terminate_owner cannot end a session" in said
    with cluster.connect(bare, user="tenant") as conn:
        conn.execute("select pgleader.register_duty('jobs/x', lock_key => 5)")
        conn.execute("select pg_advisory_lock(5)")
        generation = conn.execute("select pgleader.begin_term('jobs/x', 'a')").fetchone()[0]
        assert conn.execute("select state, generation from pgleader.ownership").fetchall() == [("led", generation)]
        intent = conn.execute("select pgleader.request_yield('jobs/x', %s, 'try', '0')", (generation,)).fetchone()[0]
        other = cluster.connect(bare, user="tenant")
        with other:
            # Its own session it may end, as PostgreSQL lets everybody.
            assert other.execute("select signalled from pgleader.terminate_owner(%s)", (intent,)).fetchall() == [(True,)]


def test_an_installer_who_may_create_roles_but_not_grant_them(cluster, bare):
    """PostgreSQL 16 and later: CREATEROLE without ADMIN on the predefined roles. Before, it may."""
    cluster.sql("create role manager login createrole")
    cluster.sql(f"alter database {bare} owner to manager")
    said = installed_by(cluster, bare, "manager")
    assert ("GRANT pg_signal_backend TO manager" in said) == (cluster.major >= 16)
    assert cluster.sql("select has_schema_privilege('worker', 'pgleader', 'usage')", dbname=bare) == [(True,)]


def test_names_say_what_is_missing_where_roles_cannot_be_made(cluster, bare):
    """Each missing role is named, with the statement that makes it."""
    text = ROLES.read_text().replace("pgleader_", "absent_")
    for path in FILES:
        cluster.script(path, bare)
    cluster.sql("create role lodger login")
    cluster.sql(f"alter database {bare} owner to lodger")
    cluster.sql("alter schema pgleader owner to lodger", dbname=bare)
    notices = []
    with cluster.connect(bare, user="lodger") as conn:
        conn.add_notice_handler(lambda d: notices.append(f"{d.message_primary} {d.message_hint}"))
        conn.execute(text)
    said = "\n".join(notices)
    for name in ("absent_reader", "absent_candidate", "absent_operator"):
        assert f"could not create role {name}" in said and f"CREATE ROLE {name} NOLOGIN" in said
