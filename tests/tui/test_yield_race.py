# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""Races: the owner changes in a loop while yields are sent, with and without 5,000 other locks; whoever is ended is who was confirmed."""

import json
import os
import random
import subprocess
import time

import psycopg
import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import program
from tests.support.scene import pid_of
from tests.support.yields import ENV, dry, oncall, prepare, signaller

SECONDS = float(os.environ.get("PGLEADER_RACE_SECONDS", "7.5"))
DUTY, KEY = "jobs/race", 9001


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        prepare(cluster)
        cluster.sql("select pgleader.register_duty(%s, lock_key => %s)", (DUTY, KEY))
        yield cluster


class Owners:
    """Sessions that hand one lock to each other, as fast as they are told to; by the ledger with terms."""

    def __init__(self, pg, key, duty=None):
        self.pg, self.key, self.duty = pg, key, duty
        self.gave_up = set()  # (pid, start) whose release the server has confirmed
        self.owner = None
        self.take()

    def take(self):
        """A new session takes the lock; (pid, start, token)."""
        self.conn = self.pg.connect(user="worker", application_name=f"w{random.randrange(1000)}")
        self.conn.execute("select pg_advisory_lock(%s)", (self.key,))
        start, = self.conn.execute("select backend_start from pg_stat_get_activity(pg_backend_pid())").fetchone()
        token = f"pid:{pid_of(self.conn)}@{start:%Y-%m-%dT%H:%M:%S.%fZ}"
        if self.duty:
            token = str(self.conn.execute("select pgleader.begin_term(%s, 'w')", (self.duty,)).fetchone()[0])
        self.owner = (pid_of(self.conn), start, token)

    def change(self):
        """The owner ends its term and unlocks, or its session closes, or it is ended by now; another takes over. The old session."""
        old, name = self.conn, self.owner
        try:
            if self.duty:
                old.execute("select pgleader.end_term(%s, %s, 'released')", (self.duty, int(name[2])))
            old.execute("select pg_advisory_unlock(%s)", (self.key,))
            self.gave_up.add(name[:2])
        except psycopg.Error:
            pass
        self.take()
        return old, name


def sessions(pg):
    return {(pid, start) for pid, start in pg.sql("select pid, backend_start from pg_stat_activity where usename = 'worker'")}


def race(pg, conninfo, duty, owners, delay):
    """One yield against one change at a random moment: (status, who was ended, who was confirmed, gave up and was ended)."""
    confirmed = owners.owner
    before = sessions(pg)
    process = subprocess.Popen([str(program("pgleader")), "yield", duty, "--reason=race", f"--confirm={duty} {confirmed[2]}", "--json", "--wait=0",
                                "--override=no-successor", conninfo], env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    time.sleep(delay * random.uniform(0.85, 1.15))
    old, _ = owners.change()
    out, _ = process.communicate(timeout=60)
    result = json.loads(out) if out else {"sent": "no"}
    # The signal that was sent has arrived by the time its target has answered or closed.
    try:
        old.execute("select 1")
    except psycopg.Error:
        pass
    ended = before - sessions(pg)
    old.close()
    return process.returncode, result["sent"], ended, confirmed


@pytest.mark.parametrize("road, crowd", [("ledger", 0), ("own", 0), ("ledger", 5000), ("own", 5000)])
def test_never_another_session(pg, road, crowd):
    """The moment of the change closes in on the moment of the sending, from both sides."""
    duty = DUTY if road == "ledger" else "advisory/9002"
    conninfo = oncall(pg) if road == "ledger" else signaller(pg)
    statuses, residue = {}, 0
    with pg.connect() as others:
        others.execute("select count(pg_advisory_lock(n)) from generate_series(100001, 100000 + %s) n", (crowd,))
        owners = Owners(pg, KEY if road == "ledger" else 9002, DUTY if road == "ledger" else None)
        begun = time.monotonic()
        dry(conninfo, duty)
        delay, end = time.monotonic() - begun, time.monotonic() + SECONDS
        while time.monotonic() < end or not {"yes", "no"} <= {sent for _, sent in statuses}:
            assert time.monotonic() < end + 30, f"never both in time and too late: {statuses}"
            status, sent, ended, confirmed = race(pg, conninfo, duty, owners, delay)
            assert status in (0, 10, 11, 12, 13, 14, 64), f"it ended with status {status}"  # 64: the lock was free when it looked
            delay = delay * 0.93 if sent == "yes" else min(delay * 1.07, 3)
            statuses[status, sent] = statuses.get((status, sent), 0) + 1
            assert ended <= {confirmed[:2]}, f"ended {ended}, confirmed {confirmed}, status {status}"
            assert sent != "no" or not ended, f"status {status} said nothing was sent, and {ended} is gone"
            residue += bool(ended and confirmed[:2] in owners.gave_up)
            assert road == "own" or not residue, "a leader that had ended its term was ended"
        owners.conn.close()
    print(f"\n{road}, {crowd} other locks: {sum(statuses.values())} races, (status, sent): {statuses}, released within the statement: {residue}")
