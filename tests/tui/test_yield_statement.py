# SPDX-License-Identifier: PostgreSQL
"""The one statement that ends a session without a ledger: as it is in tui/sql, against everything that is nearly right."""

import re
import threading
import time
from contextlib import closing

import psycopg
import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.scene import pid_of, waiting
from tests.support.wait import wait_until
from tests.support.yields import alive, prepare, signaller, stranger

SQL = re.sub(r"--[^\n]*", "", (ROOT / "tui/sql/yield_terminate_own.sql").read_text())
RACE_SECONDS = 8


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        prepare(cluster, ledger=False)
        cluster.sql("create database other")
        yield cluster


def prepared(conninfo):
    conn = psycopg.connect(conninfo, autocommit=True)
    conn.execute(f"prepare deed (text, text, text, text, text, text) as {SQL}")
    return conn


def identity(conn):
    """(pid, backend_start, postmaster_start), by the server."""
    return conn.execute("select pid::text, to_char(backend_start at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), "
                        "to_char(pg_postmaster_start_time() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') "
                        "from pg_stat_get_activity(pg_backend_pid())").fetchone()


def deed(conn, key, who, start=None, server=None, classid=0, objsubid=1):
    pid, began, up = who
    words = ", ".join(f"'{word}'" for word in (classid, key, objsubid, pid, start or began, server or up))
    return conn.execute(f"execute deed ({words})").fetchall()


def test_only_the_very_session(pg):
    with prepared(signaller(pg)) as conn, closing(stranger(pg, 31)) as leader, waiting(pg, 31, "worker-b") as follower:
        who = identity(leader)
        waiter = (str(pid_of(follower)), *pg.sql("select to_char(backend_start at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from "
                                                 "pg_stat_get_activity(%s)", (pid_of(follower),))[0], who[2])
        for wrong in ({"start": "2026-01-01T00:00:00.000001Z"}, {"server": "2026-01-01T00:00:00.000001Z"}, {"classid": 1}, {"objsubid": 2}):
            assert deed(conn, 31, who, **wrong) == [], wrong
        assert deed(conn, 32, who) == [] and deed(conn, 31, waiter) == [], "another key; one that only waits"
        with closing(stranger(pg, 33, shared=True)) as sharer:
            assert deed(conn, 33, identity(sharer)) == [] and alive(pg, sharer), "share mode is no leadership"
        with closing(stranger(pg, 31, dbname="other")) as foreign:
            assert deed(conn, 31, identity(foreign)) == [] and alive(pg, foreign), "the same key of another database"
        conn.execute("select pg_advisory_lock(34)")
        assert deed(conn, 34, identity(conn)) == [], "never itself"
        assert alive(pg, leader) and alive(pg, follower)
        assert deed(conn, 31, who) == [(int(who[0]), True)]
        wait_until(lambda: not alive(pg, int(who[0])), "it is gone")
        assert deed(conn, 31, who) == []


def test_a_hostile_search_path(pg):
    """Somebody's operators and functions of the same names are not called: what they would do is to say yes to everything."""
    pg.sql("create schema hostile; grant usage on schema hostile to public; "
           "create function hostile.pg_terminate_backend(int) returns boolean language sql as 'select false'")
    for kind in ("int4", "int8", "timestamptz", "text", "oid"):
        pg.sql(f"create function hostile.yes({kind}, {kind}) returns boolean language sql as 'select true'; "
               f"create operator hostile.= (leftarg = {kind}, rightarg = {kind}, function = hostile.yes)")
    with psycopg.connect(signaller(pg), autocommit=True) as conn, closing(stranger(pg, 41)) as leader:
        conn.execute("set search_path = hostile, pg_catalog")
        assert conn.execute("select 1::int4 = 2::int4").fetchone() == (True,), "the trap is set"
        conn.execute(f"prepare deed (pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text) as {SQL}")
        who = identity(leader)
        assert deed(conn, 42, who) == [] and deed(conn, 41, who, start="2026-01-01T00:00:00Z") == [] and alive(pg, leader)
        assert deed(conn, 41, who) == [(int(who[0]), True)]


def test_thousands_of_races(pg):
    """Sessions pass the lock on without a pause while the statement is aimed at whoever was seen last. Whoever is ended was aimed at."""
    key, aimed, ended, stop, owner = 51, set(), set(), threading.Event(), []
    failures = []

    def pass_on():
        """Three sessions hand the lock round; one that is ended is noted and replaced."""
        ring = [pg.connect(user="worker") for _ in range(3)]
        names = [identity(conn) for conn in ring]
        turn = 0
        try:
            while not stop.is_set():
                conn = ring[turn]
                try:
                    if conn.execute("select pg_try_advisory_lock(%s)", (key,)).fetchone()[0]:
                        owner[:] = [names[turn]]
                        conn.execute("select pg_advisory_unlock(%s)", (key,))
                        turn = (turn + 1) % 3
                except psycopg.OperationalError:
                    ended.add(names[turn])
                    ring[turn] = pg.connect(user="worker")
                    names[turn] = identity(ring[turn])
        except Exception as error:  # told by the test's own thread
            failures.append(error)
        finally:
            for conn in ring:
                conn.close()

    thread = threading.Thread(target=pass_on)
    thread.start()
    races = signalled = 0
    try:
        with prepared(signaller(pg)) as conn:
            wait_until(lambda: owner, "somebody leads")
            end = time.monotonic() + RACE_SECONDS
            while time.monotonic() < end and not failures:
                who = owner[0]
                found = deed(conn, key, who)
                races += 1
                assert [pid for pid, _ in found] in ([], [int(who[0])]), found  # false: it went within the statement
                if found:
                    signalled += found[0][1]
                    aimed.add(who)
    finally:
        stop.set()
        thread.join()
    assert not failures, failures
    print(f"\n{races} races, {signalled} signalled, {len(ended)} sessions ended")
    assert ended <= aimed and races > 500 and 0 < signalled < races
