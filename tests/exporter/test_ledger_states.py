# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The ledger is missing, comes, is older or newer than the exporter, and goes: locks are shown throughout."""

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import Watcher, config, led, server

PLAIN, NOTED = "jobs/plain", "jobs/noted"
DUTIES = [{"duty": PLAIN, "lock": 1}]


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        with hold_lock(cluster, 1, application_name="worker-1"):
            yield cluster


@pytest.fixture(scope="module")
def newest(pg):
    """The number of the newest file of the ledger."""
    pg.sql("create database scratch")
    pg.install_ledger("scratch")
    return pg.sql("select max(version) from pgleader.schema_version", dbname="scratch")[0][0]


@pytest.fixture
def database(pg, request):
    """A database of the test's own with a ledger, and an owner whose term has begun in it."""
    name = "".join(c for c in request.node.name if c.isalnum() or c == "_").lower()
    pg.sql(f"create database {name}")
    with hold_lock(pg, 1, application_name="worker-1", dbname=name):
        yield name


def add_ledger(pg, database):
    pg.install_ledger(database)
    pg.sql("select pgleader.register_duty(%s, lock_key => 2)", (NOTED,), dbname=database)


def begin(pg, database):
    owner = hold_lock(pg, 2, application_name="worker-2", dbname=database)
    owner.execute("select pgleader.begin_term(%s, 'worker-2')", (NOTED,))
    return owner


def sections(samples):
    return {have["section"]: v for name, have, v in samples if name == "pgleader_section_up"}


def test_missing_then_installed_then_dropped(pg, newest, database):
    with Exporter(config=config(server(pg.conninfo(database), duties=DUTIES))) as e:
        s = e.wait_for(lambda s: led(s, PLAIN), "led without a ledger")
        assert s.one("ledger_version") == 0
        assert not {"ledger", "ledger_version"} & set(sections(s)), "no section for what there is not"
        assert set(sections(s).values()) == {1}
        with Watcher(e) as watch:
            add_ledger(pg, database)
            with begin(pg, database):
                s = e.wait_for(lambda s: s.one("generation", duty=NOTED) and s.one("ledger_version") == newest,
                               "the ledger is found by itself", deadline=20)
                assert (sections(s)["ledger"], sections(s)["ledger_version"]) == (1, 1)
                pg.sql("drop schema pgleader cascade", dbname=database)
                s = e.wait_for(lambda s: s.one("ledger_version") == 0 and "ledger" not in sections(s),
                               "its end is noticed", deadline=5)
                assert NOTED not in s.duties()
        assert set(watch.values("up")) == {1.0}
        assert set(watch.values("leader_held", duty=PLAIN)) == {1.0}
        assert watch.scrapes[-1].samples.one("connects_total") == 1


def test_replaced(pg, newest, database):
    """Dropped and installed anew under an open session with prepared statements."""
    add_ledger(pg, database)
    with Exporter(config=config(server(pg.conninfo(database), duties=DUTIES))) as e:
        e.wait_for(lambda s: s.one("leader_held", duty=NOTED) == 0, "the ledger is read")
        pg.sql("drop schema pgleader cascade", dbname=database)
        add_ledger(pg, database)
        with begin(pg, database):
            e.wait_for(lambda s: s.one("generation", duty=NOTED) and sections(s).get("ledger") == 1,
                       "the new one is read by itself", deadline=20)
        assert e.scrape().one("connects_total") == 1


OLDER = [
    # what an older ledger lacks, what brings it, what the server says
    ("alter table pgleader.duty rename takeover_slow_after to other",
     "alter table pgleader.duty rename other to takeover_slow_after", "42703"),
    ("alter table pgleader.run rename to other", "alter table pgleader.other rename to run", "42P01"),
]


@pytest.mark.parametrize("lack, bring, sqlstate", OLDER, ids=["column", "table"])
def test_older(pg, newest, database, lack, bring, sqlstate):
    """The query does not fit: the ledger's section fails and says so, its version is told, locks are shown."""
    add_ledger(pg, database)
    pg.sql("delete from pgleader.schema_version where version = %s", (newest,), dbname=database)
    pg.sql(lack, dbname=database)
    with begin(pg, database), Exporter(config=config(server(pg.conninfo(database), duties=DUTIES))) as e:
        s = e.wait_for(lambda s: sections(s).get("ledger") == 0, "the section fails")
        assert (s.one("up"), s.one("leader_held", duty=PLAIN)) == (1, 1)
        assert (s.one("ledger_version"), sections(s)["ledger_version"]) == (newest - 1, 1)
        assert f"sqlstate={sqlstate}" in e.log()
        pg.sql(bring, dbname=database)
        e.wait_for(lambda s: led(s, NOTED) and s.one("generation", duty=NOTED), "read again by itself", deadline=10)


def test_newer(pg, newest, database):
    """A newer ledger is read as far as it is known; also when it changes under an open session."""
    add_ledger(pg, database)
    pg.sql("insert into pgleader.schema_version values (%s, 'news')", (newest + 1,), dbname=database)
    with begin(pg, database), Exporter(config=config(server(pg.conninfo(database), duties=DUTIES))) as e:
        s = e.wait_for(lambda s: s.one("generation", duty=NOTED) is not None, "read")
        assert s.one("ledger_version") == newest + 1
        pg.sql("drop view pgleader.ownership", dbname=database)
        pg.sql("alter table pgleader.duty add news text, alter column team type varchar(80)", dbname=database)
        pg.sql("update pgleader.duty set team = 'changed'", dbname=database)
        e.wait_for(lambda s: (s.labels("duty_info", duty=NOTED) or {}).get("team") == "changed",
                   "read with another type", deadline=5)
        s = e.scrape()
        assert (s.one("up"), sections(s)["ledger"], s.one("connects_total")) == (1, 1, 1)
