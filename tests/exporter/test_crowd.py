# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""Very many locks, and a lock table that is full: the picture stays small, cheap and true."""

import psycopg
import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, config, led, server, unknown
from tests.support.wait import wait_until

DISCOVER = {"enabled": True, "after": "2s", "limit": 50}


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"max_locks_per_transaction": 256}) as cluster:
        with hold_lock(cluster, KEY, application_name="worker-1"):
            yield cluster


def discovered(samples):
    return {have["duty"] for name, have, _ in samples
            if name == "pgleader_duty_info" and have["source"] == "discovery"}


def test_5000_locks(pg):
    """5,000 held locks and a limit of 50: exactly 50 are discovered, the same ones, at a sane cost."""
    with Exporter(config=config(server(pg.conninfo()), discovery=DISCOVER)) as e:
        small = e.wait_for(led, "led") and e.rss_kb()
        holders = [pg.connect(application_name=f"crowd-{i}") for i in range(10)]
        for i, conn in enumerate(holders):
            conn.execute("select pg_advisory_lock(g) from generate_series(%s::int8, %s::int8) g", (i * 500 + 1, i * 500 + 500))
        s = e.wait_for(lambda s: len(discovered(s)) > 0, "some are discovered")
        first = discovered(s)
        polled = s.one("last_success_timestamp_seconds")
        s = e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 2, "polls go on")
        assert len(first) == 50 and discovered(s) == first
        assert led(s) and s.one("unregistered_locks") == 5000
        polls, seconds = s.one("poll_seconds_count"), s.one("poll_seconds_sum")
        assert seconds / polls < 0.3, f"{seconds / polls:.3f} s a poll"
        assert e.rss_kb() < small + 16 * 1024, f"{e.rss_kb()} kB, {small} kB before"
        for conn in holders[1:]:
            conn.close()
        s = e.wait_for(lambda s: s.one("unregistered_locks") == 500, "released")
        assert discovered(s) == first, "a full set keeps its members"
        holders[0].close()
        s = e.wait_for(lambda s: s.one("unregistered_locks") == 0, "all released")
        assert {s.one("leader_held", duty=duty) for duty in first} == {0}, "vacant, and still named"
        assert led(s)


def test_lock_table_full():
    """No lock can be had any more: what needs none goes on, and what is shown is true."""
    with Cluster(settings={"max_locks_per_transaction": 10, "max_connections": 20}) as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty('jobs/noted', lock_key => 2)")
        with hold_lock(pg, KEY, application_name="worker-1"), hold_lock(pg, 2, application_name="worker-2") as owner, \
                pg.connect(application_name="crowd") as crowd, Exporter(config=config(server(pg.conninfo()))) as e:
            owner.execute("select pgleader.begin_term('jobs/noted', 'worker-2')")
            e.wait_for(lambda s: led(s) and s.one("generation", duty="jobs/noted"), "everything is read")
            with Watcher(e) as watch:
                with pytest.raises(psycopg.errors.OutOfMemory):
                    crowd.execute("select pg_advisory_lock(g) from generate_series(10000, 100000) g")
                held = crowd.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone()[0]
                s = e.wait_for(lambda s: s.one("unregistered_locks") == held - 2, "the full table is seen")
                polled = s.one("last_success_timestamp_seconds")
                e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 1, "polls go on")
                with Exporter(config=config(server(pg.conninfo()))) as second:
                    wait_until(lambda: "out of shared memory" in second.log(), "no new session can be made")
                    assert unknown(second.scrape())
                    crowd.execute("select pg_advisory_unlock_all()")
                    second.wait_for(led, "the newcomer comes in by itself", deadline=25)
                e.wait_for(lambda s: s.one("unregistered_locks") == 0 and s.one("generation", duty="jobs/noted")
                           and set(s.find("section_up")) == {1}, "everything is read by itself", deadline=10)
            assert set(watch.values("up")) == {1.0}
            assert set(watch.values("leader_held", duty=DUTY)) == {1.0}
            assert set(watch.values("leader_held", duty="jobs/noted")) == {1.0}
