# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Statements slower than their timeout, also many at once, take nothing else with them."""

import psycopg
import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, DUTIES, KEY, Watcher, backend, config, led, server

SLOW = "create or replace function slow() returns boolean language sql volatile as 'select true from pg_sleep({})'"


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql("create table state (job text primary key, last_id bigint)")
        cluster.sql("insert into state select 'job-' || i, i from generate_series(0, 59) i")
        cluster.sql(SLOW.format(0))
        with hold_lock(cluster, KEY):
            yield cluster


def cursors(n, where):
    return [{"duty": f"jobs/job-{i}", "lock": i, "progress":
             {"table": "public.state", "column": "last_id", "where": where.format(i)}} for i in range(n)]


def all_read(n):
    return lambda s: [s.one("run_cursor", duty=f"jobs/job-{i}") for i in range(n)] == list(range(n))


def sections(samples):
    return {have["section"]: v for name, have, v in samples if name == "pgleader_section_up"}


def test_statement_timeout(pg):
    """A progress condition that sleeps: the statement is cancelled, the section fails and comes back."""
    duties = DUTIES + cursors(1, "job = 'job-{}' and public.slow()")
    with Exporter(config=config(server(pg.conninfo(), duties=duties))) as e:
        e.wait_for(all_read(1), "the cursor is read")
        with Watcher(e) as watch:
            pg.sql(SLOW.format(30))
            s = e.wait_for(lambda s: s.one("section_up", section="progress:jobs/job-0") == 0, "the section fails")
            assert s.one("run_cursor", duty="jobs/job-0") is None
            assert s.one("leader_held", duty="jobs/job-0") == 0
            assert [v for v in sections(s).values()].count(0) == 1, "only that section"
            pg.sql(SLOW.format(0))
            e.wait_for(all_read(1), "read again by itself")
        assert set(watch.values("up")) == {1.0} and set(watch.values("leader_held", duty=DUTY)) == {1.0}
        assert "sqlstate=57014" in e.log()
        assert watch.scrapes[-1].samples.one("connects_total") == 1, "the session was kept"


def test_many_slow_statements(pg):
    """Slow sections together take longer than a poll may: it ends with what it has."""
    duties = DUTIES + cursors(5, "job = 'job-{}' and public.slow()")
    pg.sql(SLOW.format(30))
    with Exporter(config=config(server(pg.conninfo(), duties=duties))) as e:
        e.wait_for(led, "led although everything else is slow", deadline=5)
        with Watcher(e) as watch:
            e.wait_for(lambda s: [v for k, v in sections(s).items() if "progress" in k] == [0] * 5, "all five fail")
            polled = e.scrape().one("last_success_timestamp_seconds")
            e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 3, "polls go on")
            pg.sql(SLOW.format(0))
            e.wait_for(all_read(5), "read again by itself")
        assert set(watch.values("up")) == {1.0} and set(watch.values("leader_held", duty=DUTY)) == {1.0}
        backend(pg)


def test_many_locked(pg):
    """One migration locks what 60 sections read: each waits its lock timeout, and the poll has a deadline."""
    duties = DUTIES + cursors(60, "job = 'job-{}'")
    with Exporter(config=config(server(pg.conninfo(), duties=duties))) as e:
        e.wait_for(all_read(60), "all cursors are read")
        with Watcher(e) as watch:
            with psycopg.connect(pg.conninfo()) as conn:
                conn.execute("lock table state in access exclusive mode")
                s = e.wait_for(lambda s: s.find("run_cursor") == [], "no cursor is read")
                polled = s.one("last_success_timestamp_seconds")
                s = e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 2, "polls go on")
                assert (s.one("section_up", section="locks"), s.one("section_up", section="server")) == (1, 1)
                conn.rollback()
            e.wait_for(all_read(60), "all are read again by themselves", deadline=30)
        assert set(watch.values("up")) == {1.0} and set(watch.values("leader_held", duty=DUTY)) == {1.0}
        backend(pg)
