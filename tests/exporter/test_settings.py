# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Settings of a role, a database or a server that would change what a query means, or whether it ends."""

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, config, led, server

ODD = {
    "default_transaction_isolation": "serializable", "default_transaction_deferrable": "on",
    "default_transaction_read_only": "on", "search_path": "decoy, pg_catalog", "TimeZone": "'Asia/Kathmandu'",
    "DateStyle": "'SQL, DMY'", "IntervalStyle": "sql_standard", "client_encoding": "LATIN1", "bytea_output": "escape",
    "standard_conforming_strings": "off", "extra_float_digits": "-15", "lc_messages": "'C'", "row_security": "off",
    "transform_null_equals": "on", "array_nulls": "off", "quote_all_identifiers": "on", "enable_seqscan": "off",
    "lock_timeout": "'10min'", "statement_timeout": "'10min'", "idle_in_transaction_session_timeout": "'200ms'",
    "default_statistics_target": "1", "plan_cache_mode": "force_generic_plan", "jit_above_cost": "0", "log_min_messages": "debug1",
    "client_min_messages": "debug5", "track_activities": "off", "xmloption": "document", "work_mem": "64",
}
DECOYS = """create schema decoy;
create function decoy.clock_timestamp() returns timestamptz language sql as 'select null::timestamptz';
create function decoy.pg_backend_pid() returns int language sql as 'select 1';
create table decoy.pg_locks (locktype text);
create function decoy.same(text, text) returns boolean language sql as 'select false';
create operator decoy.= (leftarg = text, rightarg = text, function = decoy.same);"""


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"idle_session_timeout": 0}) as cluster:
        cluster.sql("create role odd login superuser")
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty('jobs/noted', lock_key => 2, stall_after => '90 seconds')")
        with cluster.connect() as conn:
            conn.execute(DECOYS)
        for name, value in ODD.items():
            cluster.sql(f"alter role odd set {name} = {value}")
        with hold_lock(cluster, KEY, application_name="w-1"), hold_lock(cluster, 2, application_name="w-2") as owner:
            owner.execute("select pgleader.begin_term('jobs/noted', 'w-2')")
            yield cluster


def picture(samples):
    """What does not depend on when it was read."""
    ages = ("age", "seconds_bucket", "seconds_sum", "seconds_count", "last_", "uncertainty", "process_", "skew", "interval")
    return {(name, tuple(sorted(have.items()))): value for name, have, value in samples
            if not any(word in name for word in ages)}


def everything(samples):
    return led(samples) and led(samples, "jobs/noted") and samples.labels("owner_info", duty=DUTY)["usename"]


def test_odd_role_sees_the_same(pg):
    with Exporter(config=config(server(pg.conninfo()))) as plain, Exporter(config=config(server(pg.conninfo(user="odd")))) as odd:
        want = picture(plain.wait_for(everything, "everything is read"))
        have = picture(odd.wait_for(everything, "everything is read with odd settings"))
        assert have == want
        age = odd.scrape().one("acquisition_age_seconds", duty="jobs/noted")
        assert abs(age - plain.scrape().one("acquisition_age_seconds", duty="jobs/noted")) < 3
        assert "debug" not in odd.log().lower(), "notices of the server are not ours to log"


def test_deferrable_does_not_wait(pg):
    """A serializable writer is open: a deferrable read-only transaction would wait for its end."""
    with pg.connect() as writer, Exporter(config=config(server(pg.conninfo(user="odd")))) as e:
        writer.execute("create table if not exists t (x int)")
        writer.execute("begin isolation level serializable")
        writer.execute("insert into t values (1)")
        polled = e.wait_for(everything, "everything is read").one("last_success_timestamp_seconds")
        e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 2, "polls go on")
        assert set(e.scrape().find("section_up")) == {1}
        writer.execute("rollback")


def test_serializable_standby():
    """A standby refuses serializable transactions, also where they are the default."""
    with Cluster(settings={"default_transaction_isolation": "serializable"}) as pg:
        other = pg.standby()
        try:
            other.start()
            with Exporter(config=config(server(other.conninfo(), expect="any"))) as e:
                s = e.wait_for(lambda s: s.one("up") == 1, "polled")
                assert s.one("in_recovery") == 1 and set(s.find("section_up")) == {1}
        finally:
            other.destroy()


def test_idle_sessions_are_ended(pg):
    """idle_session_timeout shorter than the interval: every poll needs a session of its own, and has one."""
    pg.sql("alter role odd set idle_session_timeout = '300ms'")
    try:
        with Exporter(config=config(server(pg.conninfo(user="odd")))) as e:
            e.wait_for(everything, "everything is read")
            with Watcher(e) as watch:
                e.wait_for(lambda s: s.one("connects_total") >= 4, "sessions are replaced")
            assert set(watch.values("up")) == {1.0} and set(watch.values("leader_held", duty=DUTY)) == {1.0}
    finally:
        pg.sql("alter role odd reset idle_session_timeout")


def test_database_dropped(pg):
    """The database itself goes, and comes back: another one with the same name."""
    pg.sql("create database passing")
    with Exporter(config=config(server(pg.conninfo("passing")))) as e:
        e.wait_for(lambda s: s.one("up") == 1, "polled")
        pg.sql("drop database passing with (force)")
        e.wait_for(lambda s: s.one("up") == 0 and not s.duties(), "unknown")
        assert 'does not exist' in e.log()
        pg.sql("create database passing")
        with hold_lock(pg, KEY, dbname="passing"):
            e.wait_for(led, "led, in the new one", deadline=25)
