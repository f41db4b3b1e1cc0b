# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""PgBouncer between the exporter and the server, and between a worker and the server."""

import shutil

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, config, led, server, unknown, vacant
from tests.support.pooler import Pooler
from tests.support.wait import wait_until

pytestmark = pytest.mark.skipif(not shutil.which("pgbouncer"), reason="needs pgbouncer")
NOTED = "jobs/noted"


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"log_statement": "all"}) as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => 2)", (NOTED,))
        yield cluster


@pytest.mark.parametrize("mode, size", [("transaction", 1), ("transaction", 5), ("session", 5)])
def test_exporter_behind(pg, mode, size):
    """Nothing is prepared, nothing is left in the pooled session, everything is read."""
    logged = len(pg.log_text())
    with Pooler(pg, mode, size) as pooler, hold_lock(pg, KEY), hold_lock(pg, 2, application_name="w") as owner:
        owner.execute("select pgleader.begin_term(%s, 'w')", (NOTED,))
        with Exporter(config=config(server(pooler.conninfo()))) as e:
            s = e.wait_for(lambda s: led(s) and s.one("generation", duty=NOTED), "everything is read")
            assert set(s.find("section_up")) == {1}
            polled = s.one("last_success_timestamp_seconds")
            s = e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 1, "polls go on")
            assert s.one("connects_total") == 1 and "pooler=yes" in e.log()
            if mode == "transaction":
                with pooler.connect() as client:
                    left = client.execute("select current_setting('search_path'), current_setting('statement_timeout'), "
                                          "current_setting('lock_timeout'), (select count(*) from pg_prepared_statements)")
                    assert left.fetchone() == ('"$user", public', "0", "0", 0)
    ours = [line for line in pg.log_text()[logged:].splitlines() if "execute pgleader_" in line]
    assert ours == [], "nothing was prepared"


def test_statement_mode(pg):
    """A pooler that allows no transaction cannot be polled through, and the log says why."""
    with Pooler(pg, "statement", 2) as pooler, Exporter(config=config(server(pooler.conninfo()))) as e:
        wait_until(lambda: "transaction blocks not allowed in statement pooling mode" in e.log(), "the reason is said")
        assert unknown(e.scrape())


def test_direct_is_prepared(pg):
    logged = len(pg.log_text())
    with Exporter(config=config(server(pg.conninfo()))) as e:
        polled = e.wait_for(vacant, "polled").one("last_success_timestamp_seconds")
        e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 1, "polled again")
        assert "pooler=yes" not in e.log()
    assert "execute pgleader_" in pg.log_text()[logged:]


def test_pooler_restarts(pg):
    with Pooler(pg) as first, hold_lock(pg, KEY):
        with Exporter(config=config(server(first.conninfo()))) as e:
            e.wait_for(led, "led")
            first.__exit__()
            e.wait_for(unknown, "the pooler is away")
            first.__enter__()
            e.wait_for(led, "back by itself", deadline=25)


def test_worker_behind(pg):
    """A session lock through a transaction pooler: two workers share the one backend that holds it."""
    with Pooler(pg, size=1) as pooler, Exporter(config=config(server(pg.conninfo()))) as e:
        e.wait_for(vacant, "vacant")
        with pooler.connect("worker-a") as a, pooler.connect("worker-b") as b, Watcher(e) as watch:
            assert a.execute("select pg_try_advisory_lock(%s)", (KEY,)).fetchone() == (True,)
            s = e.wait_for(led, "led")
            assert s.one("owner_pooled", duty=DUTY) == 0, "nothing tells yet"
            assert b.execute("select pg_try_advisory_lock(%s)", (KEY,)).fetchone() == (True,), "no mutual exclusion"
            s = e.wait_for(lambda s: s.one("owner_pooled", duty=DUTY) == 1, "the name changed under one lock")
            assert s.labels("owner_info", duty=DUTY)["holder"] == "worker-b"
            a.execute("select 1")
            e.wait_for(lambda s: s.labels("owner_info", duty=DUTY)["holder"] == "worker-a", "and back")
            assert e.scrape().one("owner_pooled", duty=DUTY) == 1, "it stays said while that backend holds the lock"
        assert set(watch.values("up")) == {1.0}
        with pooler.connect("cleaner") as c:
            c.execute("select pg_advisory_unlock_all()")
        e.wait_for(vacant, "released")
        with hold_lock(pg, KEY, application_name="direct"):
            s = e.wait_for(led, "led by a session of its own")
            assert s.one("owner_pooled", duty=DUTY) == 0, "the next owner is not accused"
