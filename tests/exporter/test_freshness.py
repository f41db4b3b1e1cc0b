# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""Unknown is not old: past three intervals, and three seconds, a server's duties are withdrawn, at the scrape."""

import signal

import pytest

from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import KEY, Watcher, config, led, server, unknown, vacant
from tests.support.proxy import Proxy
from tests.support.wait import hold_for
from tests.support.wedge import thread_stopped


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def owner(pg):
    with hold_lock(pg, KEY) as conn:
        yield conn


def assert_withdrawn(watch, fresh=3.0):
    """Everything is shown until the last good poll is that old, and nothing afterwards."""
    for began, ended, samples in watch.scrapes:
        success = samples.one("last_success_timestamp_seconds")
        if samples.one("up") == 0:
            assert unknown(samples)
            assert ended - success > fresh - 0.01, f"withdrawn {ended - success:.3f} s after the last good poll"
            assert began - success < fresh + 0.3, f"withdrawn {began - success:.3f} s after the last good poll"
            return
        assert led(samples), f"withdrawn in part, {began - success:.3f} s after the last good poll"
        assert began - success < fresh + 0.01, f"still shown {began - success:.3f} s after the last good poll"
    raise AssertionError("never withdrawn")


def test_frozen_server(pg, owner):
    """Every process of the server is stopped: nothing answers and nothing is reset."""
    with Exporter(config=config(server(pg.conninfo()))) as e:
        e.wait_for(led, "led")
        with Watcher(e, every=0.01) as watch:
            pg.signal_all(signal.SIGSTOP)
            try:
                e.wait_for(unknown, "withdrawn")
            finally:
                pg.signal_all(signal.SIGCONT)
        assert_withdrawn(watch)
        e.wait_for(led, "back by itself", deadline=25)


def test_wedged_poller(pg, owner):
    """The loop itself is stopped while the web server runs: it must not serve old truth."""
    with Exporter(config=config(server(pg.conninfo()))) as e:
        e.wait_for(led, "led")
        with Watcher(e, every=0.01) as watch, thread_stopped(e.pid):
            e.wait_for(unknown, "withdrawn")
            hold_for(lambda: unknown(e.scrape()), "withdrawn as long as the loop is stopped", 0.5)
            assert b"unknown" in e.get("/")[2]
        assert_withdrawn(watch)
        e.wait_for(led, "back by itself")


@pytest.mark.parametrize("interval, fresh", [("200ms", 3.0), ("1500ms", 4.5)])
def test_freshness_follows_the_interval(pg, owner, interval, fresh):
    with Proxy(pg.port) as proxy, \
            Exporter(config=config(server(f"host=127.0.0.1 port={proxy.port} user=postgres dbname=postgres"),
                                   poll={"interval": interval})) as e:
        e.wait_for(led, "led")
        with Watcher(e, every=0.01) as watch:
            proxy.drop()
            e.wait_for(unknown, "withdrawn")
        assert_withdrawn(watch, fresh)
        proxy.pass_on()
        e.wait_for(led, "back by itself", deadline=25)


def test_never_reachable(pg):
    """Nothing listens: 0 from the first scrape on, and no duty, also none from the configuration."""
    with Exporter(config=config(server(f"host=127.0.0.1 port={free_port()}"))) as e:
        hold_for(lambda: unknown(e.scrape()), "unknown from the first scrape on", 1.0)
        assert e.scrape().find("duty_info") == [] and e.scrape().find("leader_held") == []


def punctual(watch, name):
    """How many polls of the server were seen; each within 1.2 of the interval in force then."""
    polls = dict(zip(watch.values("last_success_timestamp_seconds", server=name),
                     watch.values("poll_interval_seconds", server=name)))
    for (before, interval), (now, _) in zip(polls.items(), list(polls.items())[1:]):
        assert now - before < 1.2 * interval + 0.05, f"{name}: {now - before:.3f} s between polls, not {interval} s"
    return len(polls)


def test_one_server_delays_no_other(pg, owner):
    """Among several servers one is frozen, one unreachable, one silent: the others' polls stay on time."""
    with Cluster() as cold, Proxy(pg.port) as proxy:
        lost = f"host=127.0.0.1 port={proxy.port} user=postgres dbname=postgres"
        servers = [server(pg.conninfo(), name=f"good-{i}") for i in range(6)]
        servers += [server(cold.conninfo(), name="frozen"), server(lost, name="lost"),
                    server(f"host=127.0.0.1 port={free_port()}", name="gone")]
        with Exporter(config=config(*servers, poll={"interval": "500ms"})) as e:
            e.wait_for(lambda s: all(led(s, server=f"good-{i}") for i in range(6)) and vacant(s, server="frozen")
                       and led(s, server="lost"), "all but one are polled")
            cold.signal_all(signal.SIGSTOP)
            proxy.drop()
            with Watcher(e, every=0.01) as watch:
                e.wait_for(lambda s: all(unknown(s, server=n) for n in ("frozen", "lost", "gone")), "three are unknown")
                hold_for(lambda: led(e.scrape(), server="good-0"), "the others are known", 1.0)
            for i in range(6):
                assert punctual(watch, f"good-{i}") > 5
                assert set(watch.values("up", server=f"good-{i}")) == {1.0}
            cold.signal_all(signal.SIGCONT)
            proxy.pass_on()
            e.wait_for(lambda s: vacant(s, server="frozen") and led(s, server="lost"), "back", deadline=25)
