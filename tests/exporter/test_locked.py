# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Tables that the poll reads are locked, slow or gone: only their section fails, and only for as long."""

from contextlib import contextmanager

import psycopg
import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import Watcher, config, led, server

DUTIES = [
    {"duty": "jobs/plain", "lock": 1},
    {"duty": "jobs/cursor", "lock": 2, "progress": {"table": "public.state", "column": "last_id"}},
    {"duty": "jobs/newcomer", "lock": 4},
    {"duty": "reports/nightly", "lease": {"table": "public.leader_lease", "row": "nightly"}},
]
LEASE = """create table leader_lease (job_name text primary key, holder text, expires_at timestamptz);
           insert into leader_lease values ('nightly', 'me', clock_timestamp() + interval '1 hour')"""
STATE = "create table state (last_id bigint); insert into state values (7)"


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty('jobs/noted', lock_key => 3)")
        cluster.sql(LEASE)
        cluster.sql(STATE)
        holders = [hold_lock(cluster, key, application_name=f"worker-{key}") for key in (1, 2)]
        owner = hold_lock(cluster, 3, application_name="worker-3")
        owner.execute("select pgleader.begin_term('jobs/noted', 'worker-3')")
        yield cluster
        for conn in [*holders, owner]:
            conn.close()


@pytest.fixture(scope="module")
def exporter(pg):
    with Exporter(config=config(server(pg.conninfo(), duties=DUTIES))) as e:
        e.wait_for(all_well, "everything is read")
        yield e


def all_well(samples):
    """Everything that this server has to tell is told."""
    sections = samples.find("section_up")
    return (len(sections) >= 6 and set(sections) == {1}
            and all(led(samples, duty) for duty in ("jobs/plain", "jobs/cursor", "jobs/noted", "reports/nightly"))
            and samples.one("run_cursor", duty="jobs/cursor") == 7
            and samples.one("generation", duty="jobs/noted") is not None)


@contextmanager
def locked(pg, *tables):
    with psycopg.connect(pg.conninfo()) as conn:
        for table in tables:
            conn.execute(f"lock table {table} in access exclusive mode")
        yield
        conn.rollback()


ROWS = [
    # locked table, the section that fails, what is withdrawn, what is still shown
    ("pgleader.duty", "ledger", [("generation", "jobs/noted")], [("leader_held", "jobs/noted")]),
    ("pgleader.run", "ledger", [("generation", "jobs/noted")], [("owner_pid", "jobs/noted")]),
    ("public.leader_lease", "lease:public.leader_lease", [("leader_held", "reports/nightly"),
                                                          ("lease_remaining_seconds", "reports/nightly")],
     [("generation", "jobs/noted")]),
    ("public.state", "progress:jobs/cursor", [("run_cursor", "jobs/cursor")], [("leader_held", "jobs/cursor")]),
]


@pytest.mark.parametrize("table, section, gone, kept", ROWS)
def test_table_locked(pg, exporter, table, section, gone, kept):
    exporter.wait_for(all_well, "everything is read")
    others = ["jobs/plain", "jobs/cursor", "jobs/noted"]
    with Watcher(exporter) as watch:
        with locked(pg, table):
            s = exporter.wait_for(lambda s: s.one("section_up", section=section) == 0, f"{section} fails")
            assert all(s.one(family, duty=duty) is None for family, duty in gone)
            assert all(s.one(family, duty=duty) is not None for family, duty in kept)
            assert [v for v in s.find("section_up")].count(0) == 1, "only that section fails"
        exporter.wait_for(all_well, "read again by itself", deadline=10)
    assert set(watch.values("up")) == {1.0}
    for duty in others:
        assert set(watch.values("leader_held", duty=duty)) == {1.0}, duty
    assert 0.0 not in watch.values("leader_held", duty="reports/nightly"), "unread is not vacant"
    assert f'section="{section}" sqlstate=55P03' in exporter.log() or f"section={section} sqlstate=55P03" in exporter.log()


def test_catalogs_locked(pg, exporter):
    """pg_authid and pg_database: the hot section touches neither; a role's name waits until it can be read."""
    exporter.wait_for(all_well, "everything is read")
    pg.sql("create role newcomer login")
    named = ("jobs/plain", "jobs/cursor", "jobs/noted", "reports/nightly")
    with pg.connect(user="newcomer", application_name="newcomer") as conn, Watcher(exporter) as watch:
        with locked(pg, "pg_catalog.pg_authid", "pg_catalog.pg_database"):
            conn.execute("select pg_catalog.pg_advisory_lock(4)")
            s = exporter.wait_for(lambda s: s.one("section_up", section="roles") == 0, "the roles cannot be read")
            owner = s.labels("owner_info", duty="jobs/newcomer")
            assert (owner["application_name"], owner["usename"]) == ("newcomer", "")
            polled = s.one("last_success_timestamp_seconds")
            exporter.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 1.5, "polls go on")
        s = exporter.wait_for(lambda s: s.find("section_up", section="roles") != [0] and all_well(s)
                              and s.labels("owner_info", duty="jobs/newcomer")["usename"] == "newcomer",
                              "the name is read by itself", deadline=10)
    assert set(watch.values("up")) == {1.0}
    for duty in named:
        assert set(watch.values("leader_held", duty=duty)) == {1.0}, duty
    assert set(watch.values("connects_total")) == {s.one("connects_total")}, "the session was kept"
