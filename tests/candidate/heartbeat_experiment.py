#!/usr/bin/python3
# SPDX-License-Identifier: PostgreSQL
"""The experiment of runbook/rejected-heartbeat.md: a heartbeat row and pg_locks are asked who leads, on bad days.

Usage: tests/candidate/heartbeat_experiment.py        needs a PostgreSQL of the distribution; takes about 30 seconds
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.cluster import Cluster  # noqa: E402
from tests.support.wait import wait_until  # noqa: E402

KEY = 742118
TTL = 2.0
BEAT = 0.25
SETUP = "CREATE TABLE heartbeat (duty text PRIMARY KEY, owner text NOT NULL, beat_at timestamptz NOT NULL)"
ROW_SAYS = f"SELECT owner FROM heartbeat WHERE clock_timestamp() - beat_at < interval '{TTL} s'"
LOCKS_SAY = f"""SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = {KEY} AND l.objsubid = 1 AND l.granted"""


def worker(conninfo, name, clock_ahead):
    """Takes the lock in one session; a thread of its own would beat in another, as here a second connection does."""
    lock = psycopg.connect(conninfo, autocommit=True, application_name=name)
    beats = psycopg.connect(conninfo, autocommit=True, application_name=f"{name} beats")
    leads = False
    while True:
        # Nobody looks at the lock's session again, as in the public failures.
        leads = leads or lock.execute(f"SELECT pg_try_advisory_lock({KEY})").fetchone()[0]
        if leads:
            at = time.time() + float(clock_ahead)
            beats.execute("INSERT INTO heartbeat VALUES ('jobs/demo', %s, to_timestamp(%s)) ON CONFLICT (duty) DO UPDATE "
                          "SET owner = excluded.owner, beat_at = excluded.beat_at", [name, at])
        time.sleep(BEAT)


class Day:
    """Workers as processes, and the two answers."""

    def __init__(self, pg):
        self.pg = pg

    @contextmanager
    def worker(self, name, clock_ahead=0):
        """One candidate; the first that is started leads."""
        process = subprocess.Popen([sys.executable, __file__, "worker", self.pg.conninfo(), name, str(clock_ahead)],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: self.pg.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", [f"{name} beats"]),
                       f"{name} is there")
            yield process
        finally:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()

    def __call__(self, where=None):
        """(the row, pg_locks): who leads, each by one look."""
        pg = where or self.pg
        return tuple((pg.sql(query) or [("nobody",)])[0][0] for query in (ROW_SAYS, LOCKS_SAY))

    def until(self, answers, where=None):
        wait_until(lambda: self(where) == answers, f"row and locks say {answers}", 10, 0.01)

    def lasted(self, answers, where=None):
        """For how long those two answers stand, in words; at most twice the time for which a heartbeat is believed."""
        began = time.monotonic()
        while self(where) == answers:
            if time.monotonic() - began > 2 * TTL:
                return "as long as we looked"
            time.sleep(0.01)
        return f"{time.monotonic() - began:.1f} s"


def session_lost(day):
    """The lock's session of A is terminated; its heartbeats have a session of their own."""
    with day.worker("A"):
        day.until(("A", "A"))
        day.pg.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'A'")
        stranger = psycopg.connect(day.pg.conninfo(), autocommit=True, application_name="B")
        stranger.execute(f"SELECT pg_advisory_lock({KEY})")
        day.until(("A", "B"))
        yield ("A", "B"), day.lasted(("A", "B"))
        stranger.close()


def killed(day):
    """A is killed with -9: the lock is free at once."""
    with day.worker("A") as a:
        day.until(("A", "A"))
        a.kill()
        day.until(("A", "nobody"))
        yield ("A", "nobody"), day.lasted(("A", "nobody"))


def paused(day):
    """A is stopped and goes on later (a virtual machine moves, a collector pauses)."""
    with day.worker("A") as a:
        day.until(("A", "A"))
        os.kill(a.pid, signal.SIGSTOP)
        day.until(("nobody", "A"))
        yield ("nobody", "A"), day.lasted(("nobody", "A"))


def clock_ahead(day):
    """The clock of A's host is ten minutes ahead; A is killed."""
    with day.worker("A", 600) as a:
        day.until(("A", "A"))
        a.kill()
        day.until(("A", "nobody"))
        day.lasted(("A", "nobody"))
        left, = day.pg.sql("SELECT extract(epoch FROM beat_at - clock_timestamp())::float8 + %s FROM heartbeat", [TTL])[0]
        yield ("A", "nobody"), f"{left:.0f} s more, by the row"


def clock_behind(day):
    """The clock of A's host is ten minutes behind; A leads and works."""
    with day.worker("A", -600):
        day.until(("nobody", "A"))
        yield ("nobody", "A"), day.lasted(("nobody", "A"))


def standby(day):
    """Who leads is asked on a standby whose replay lags; on the primary A was followed by B."""
    other = day.pg.standby()
    try:
        with day.worker("A") as a:
            day.until(("A", "A"))
            with day.worker("B"):
                other.start()
                wait_until(lambda: other.sql("SELECT 1 FROM heartbeat"), "the standby has the row")
                day.until(("A", "nobody"), where=other)
                other.sql("SELECT pg_wal_replay_pause()")
                a.kill()
                day.until(("B", "B"))
                row, primary = day(other)[0], day()[1]
                yield (row, primary), day.lasted(("A", "nobody"), other)
    finally:
        other.destroy()


DAYS = (session_lost, killed, paused, clock_ahead, clock_behind, standby)


def main():
    print(f"heartbeat every {BEAT} s, believed for {TTL} s\n")
    print(f"{'':13} the row says  pg_locks says  for", flush=True)
    with Cluster() as pg:
        pg.sql(SETUP)
        for function in DAYS:
            pg.sql("TRUNCATE heartbeat")
            for (row, locks), words in function(Day(pg)):
                print(f"{function.__name__:13} {row:13} {locks:14} {words}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main()
