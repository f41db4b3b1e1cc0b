# SPDX-License-Identifier: PostgreSQL
# ctest: serial asan
"""The server is away, restarts, throws the exporter out or has no room; the exporter comes back by itself."""

import time

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, backend, config, frozen, led, server, unknown, vacant
from tests.support.wait import hold_for, wait_until


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def exporter(pg):
    with Exporter(config=config(server(pg.conninfo()))) as e:
        e.wait_for(vacant, "the duty is seen vacant")
        yield e


def test_down_at_start(pg):
    """A server that was never reachable: served, 0 and without duties from the first scrape on."""
    pg.stop()
    with Exporter(config=config(server(pg.conninfo()))) as e:
        first = e.scrape()
        assert unknown(first), "nothing is known and up is 0"
        assert first.one("last_success_timestamp_seconds") == 0
        wait_until(lambda: e.get("/-/ready")[0] == 200, "ready: the first poll was tried")
        tried = e.scrape()
        assert unknown(tried)
        assert (tried.one("section_up", section="server"), tried.one("section_up", section="locks")) == (0, 0)
        assert tried.one("connects_total") == 0
        assert "could not connect" in e.log()
        pg.start()
        with hold_lock(pg, KEY):
            e.wait_for(led, "the server came and the owner is shown", deadline=25)
        assert e.scrape().one("connects_total") == 1


def test_down_later(pg, exporter):
    with Watcher(exporter) as watch:
        pg.stop()
        exporter.wait_for(unknown, "up is 0 and the duties are withdrawn")
    for _, ended, samples in watch.scrapes:
        age = ended - samples.one("last_success_timestamp_seconds")
        assert samples.one("up") == 1 or age > 2.99, f"up is 0 only {age:.3f} s after the last good poll"
    down = exporter.scrape()
    assert (down.one("section_up", section="server"), down.one("section_up", section="locks")) == (0, 0)
    pg.start()
    with hold_lock(pg, KEY):
        exporter.wait_for(led, "back, with the owner", deadline=25)


def test_restart_loses_no_scrape(pg, exporter):
    """A restart between two polls is no outage: no scrape is without the server."""
    quick = 0
    for away in (0, 0, 0.6, 0.6, 0.6):
        connects = exporter.wait_for(vacant, "a good poll").one("connects_total")
        with Watcher(exporter) as watch:
            began = time.monotonic()
            pg.stop("immediate")
            hold_for(lambda: exporter.scrape().one("up") == 1, "up while the server is away for a moment", away)
            pg.start()
            took = time.monotonic() - began
            exporter.wait_for(lambda s: s.one("connects_total") > connects and vacant(s), "polled again")
        if took < 1.3:  # slower, it is an outage on this machine today
            quick += 1
            assert set(watch.values("up")) == {1.0}, f"a scrape was lost in a restart of {took:.1f} s"
            assert set(watch.values("leader_held", duty=DUTY)) == {0.0}
    assert quick > 0, "no restart was quick enough to tell"


def test_terminated(pg, exporter):
    """pg_terminate_backend on the exporter: the next poll has a new session, and nobody notices."""
    with Watcher(exporter) as watch:
        for _ in range(3):
            pid = backend(pg)
            pg.sql("select pg_terminate_backend(%s)", (pid,))
            wait_until(lambda: backend(pg) != pid, "a new session")
        exporter.wait_for(lambda s: s.one("connects_total") >= 4, "four sessions were made")
    assert set(watch.values("up")) == {1.0}
    assert "terminating connection due to administrator command" in exporter.log()


def test_backend_frozen(pg, exporter):
    """SIGSTOP of the exporter's backend: the poll's deadline ends it before the picture is too old."""
    pid = backend(pg)
    connects = exporter.scrape().one("connects_total")
    with Watcher(exporter) as watch, frozen(pid), hold_lock(pg, KEY):
        exporter.wait_for(lambda s: led(s) and s.one("connects_total") > connects, "another session sees the owner")
    assert set(watch.values("up")) == {1.0}
    assert "no answer within" in exporter.log()
    wait_until(lambda: backend(pg) != pid, "the frozen session is gone after it woke up")
    exporter.wait_for(vacant, "goes on")


def test_connections_used_up():
    """No room for the exporter: it says so, and comes in when there is room; one that is in stays in."""
    with Cluster(settings={"max_connections": 8, "superuser_reserved_connections": 2}) as pg:
        pg.sql("create role watcher login in role pg_read_all_stats")
        crowd = [pg.connect(user="watcher") for _ in range(6)]
        with Exporter(config=config(server(pg.conninfo(user="watcher")))) as e:
            wait_until(lambda: e.get("/-/ready")[0] == 200, "the first poll was tried")
            assert unknown(e.scrape())
            assert "remaining connection slots" in e.log() or "too many clients" in e.log()
            crowd.pop().close()
            e.wait_for(vacant, "came in", deadline=25)
            polled = e.scrape().one("last_success_timestamp_seconds")
            e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 1.5, "polls go on while full")
            assert vacant(e.scrape())
        for conn in crowd:
            conn.close()
