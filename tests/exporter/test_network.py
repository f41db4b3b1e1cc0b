# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The network loses packets without a word, a host of several is dead, a name server does not answer."""

import os
import shutil

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, backend, config, led, server, unknown, vacant
from tests.support.network import LostRoute, NameServer, black_hole
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until

root = pytest.mark.skipif(os.getuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"),
                          reason="needs root, ip and iptables")


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


def through(host, port):
    return f"host={host} port={port} user=postgres dbname=postgres"


def count_threads(e):
    return len(os.listdir(f"/proc/{e.pid}/task"))


def lose_and_find(pg, e, drop, pass_on, words):
    """The exporter behind a route that is lost for a while: unknown, and back with what happened meanwhile."""
    e.wait_for(vacant, "vacant")
    drop()
    lost = e.wait_for(unknown, "unknown once the picture is old")
    assert lost.one("section_up", section="locks") == 0
    wait_until(lambda: words in e.log(), words)
    with hold_lock(pg, KEY, application_name="meanwhile"):
        pass_on()
        e.wait_for(led, "back by itself", deadline=25)
        assert e.scrape().labels("owner_info", duty=DUTY)["holder"] == "meanwhile"


def test_packets_dropped(pg):
    with Proxy(pg.port) as proxy, Exporter(config=config(server(through("127.0.0.1", proxy.port)))) as e:
        lose_and_find(pg, e, proxy.drop, proxy.pass_on, "could not poll: no answer within")
        backend(pg)  # one session again: none was left behind


@root
def test_route_lost(pg):
    """The same with a real route: nothing is acknowledged, and new connections hang as well."""
    with LostRoute() as route, Proxy(pg.port, route.listener()) as proxy, \
            Exporter(config=config(server(through(route.address, proxy.port)))) as e:
        threads = e.scrape() and count_threads(e)
        lose_and_find(pg, e, route.drop, route.pass_on, "could not connect: no answer within")
        wait_until(lambda: count_threads(e) == threads, "the thread that sent the cancel has ended", deadline=30)


def test_first_host_dead(pg):
    """Of several hosts the first drops what it gets: the next attempt begins with the second, and stays there."""
    with black_hole() as dead:
        hosts = f"host=127.0.0.1,127.0.0.1 port={dead},{pg.port} user=postgres dbname=postgres"
        with Exporter(config=config(server(hosts))) as e:
            e.wait_for(vacant, "polls the second host")
            with Watcher(e) as watch:
                pid = backend(pg)
                pg.sql("select pg_terminate_backend(%s)", (pid,))
                wait_until(lambda: backend(pg) != pid, "a new session")
                e.wait_for(lambda s: s.one("connects_total") == 2, "connected again")
            assert set(watch.values("up")) == {1.0}, "the dead host was tried first"


HOSTS = [
    # conninfo (DEAD and GOOD are ports, SOCKET is a directory), seconds within which the server is found
    ("host=127.0.0.1,127.0.0.1,127.0.0.1 port=DEAD,DEAD,GOOD", 12),
    ("hostaddr=127.0.0.1,127.0.0.1 port=DEAD,GOOD", 6),
    ("host=db-a,db-b hostaddr=127.0.0.1,127.0.0.1 port=DEAD,GOOD", 6),
    ("postgresql://127.0.0.1:DEAD,localhost:GOOD/?target_session_attrs=read-write", 6),
    ("postgresql://localhost:GOOD/", 2),
    ("host=SOCKET port=GOOD", 2),
    ("host=127.0.0.1,SOCKET port=DEAD,GOOD", 6),
]


@pytest.mark.parametrize("conninfo, within", HOSTS)
def test_hosts(pg, conninfo, within):
    with black_hole() as dead:
        text = conninfo.replace("DEAD", str(dead)).replace("GOOD", str(pg.port)).replace("SOCKET", str(pg.base))
        with Exporter(text, env={"PGUSER": "postgres", "PGDATABASE": "postgres"}) as e:
            e.wait_for(lambda s: s.one("up") == 1, "found", deadline=within)


def test_hosts_of_environment_and_service(pg, tmp_path):
    """Lists are taken from wherever libpq takes them."""
    with black_hole() as dead:
        service = tmp_path / "service.conf"
        service.write_text(f"[pair]\nhost=127.0.0.1,127.0.0.1\nport={dead},{pg.port}\nuser=postgres\n")
        ways = [("service=pair", {"PGSERVICEFILE": str(service)}),
                (None, {"PGHOST": "127.0.0.1,127.0.0.1", "PGPORT": f"{dead},{pg.port}", "PGUSER": "postgres"})]
        for conninfo, env in ways:
            with Exporter(conninfo, env=env) as e:
                e.wait_for(lambda s: s.one("up") == 1, f"found through {env}", deadline=6)


@pytest.mark.parametrize("conninfo, words", [
    ("host=no-such-host.invalid", 'could not look up host'),
    ("host=a,b hostaddr=127.0.0.1", "could not match 2 host names to 1 hostaddr values"),
    ("host=127.0.0.1 port=1,2", "could not match 2 port numbers to 1 hosts"),
    ("service=no-such-service", 'definition of service'),
])
def test_mistakes_are_said(conninfo, words):
    with Exporter(conninfo) as e:
        wait_until(lambda: words in e.log(), words)
        assert e.scrape().find("up") == [0]


@root
def test_name_server_silent(pg):
    """A look-up that hangs is no other server's affair, and no reason to stop late."""
    with NameServer() as names:
        slow = server(through("db.example", pg.port), name="slow")
        text = config(server(pg.conninfo(), name="good"), slow)
        with Exporter(config=text, wrapper=names.wrapper) as e:
            e.wait_for(lambda s: vacant(s, server="good"), "the other is polled")
            with Watcher(e) as watch:
                wait_until(lambda: "could not look up the host: no answer within" in e.log(), "the deadline is said")
                hold_for(lambda: unknown(e.scrape(), server="slow"), "unknown", 0.5)
            stamps = sorted(set(watch.values("last_success_timestamp_seconds", server="good")))
            assert len(stamps) >= 2 and max(b - a for a, b in zip(stamps, stamps[1:])) < 1.5
            assert names.asked > 0
            names.answering = True
            e.wait_for(lambda s: vacant(s, server="slow"), "found once the name server answers", deadline=25)
            assert backend_count(pg) == 2
            names.answering = False


def backend_count(pg):
    return pg.sql("select count(*) from pg_stat_activity where application_name = 'pgleader_exporter'")[0][0]
