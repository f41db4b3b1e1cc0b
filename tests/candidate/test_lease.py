# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Candidates that lead by a lease: led, renewed, handed over; and what cannot be led by.

It lasts 5 s: it is renewed every 1.7 s, and its work has to be over 1 s before it expires."""

import os
import signal

import pytest

from tests.support.candidate import Candidate, overlaps, spells, wait_for_note
from tests.support.kit import guard_of, kill
from tests.support.lease import LEASE, OWN, TABLE, TIMES, Lease
from tests.support.pooler import Pooler
from tests.support.wait import wait_until

SOON = 2.0  # a graceful hand-over on a loaded machine
EITHER = pytest.mark.parametrize("table", [TABLE, OWN], ids=["table", "own"])


@EITHER
def test_hand_over(pg, name, shared, table):
    """Renewed in time; given up on a graceful exit, which the other hears of."""
    with Lease(pg, name, shared, table) as lease:
        _, _, first, generation = wait_for_note(shared, "beat")
        assert lease.holder() == first
        expiry = lease.expiry()
        wait_until(lambda: lease.expiry() > expiry + 0.1, "a renewal", deadline=LEASE / 2)
        lease.runs[first].signal(signal.SIGTERM)
        stopped = wait_for_note(shared, "stopped", first)[1]
        _, begun, _, successor = wait_for_note(shared, "started", lease.other(first), after=stopped)
        assert begun - stopped < SOON
        assert lease.runs[first].wait() == 0
        if table == OWN:
            assert int(successor) > int(generation) and lease.previous_end() == "signal"
        else:
            assert generation == "none" and "no generations" in lease.runs[first].log()
    assert not overlaps(shared)
    assert lease.left() <= 0, "given up at the end"


@EITHER
def test_the_session_is_not_the_lease(pg, name, shared, table):
    """A terminated backend costs nothing: the leader renews on its next session."""
    with Lease(pg, name, shared, table) as lease:
        first = wait_for_note(shared, "beat")[2]
        for _ in range(3):
            expiry = lease.expiry()
            assert lease.terminate(first) == [(True,)]
            wait_until(lambda: lease.expiry() > expiry + 0.1, "a renewal after the loss of the session")
        assert len(spells(shared)) == 1, "one leader, one term"


@EITHER
def test_a_dead_machine(pg, name, shared, table):
    """All of the leader is killed at once: the successor begins when the lease is over, and waits no longer."""
    with Lease(pg, name, shared, table) as lease:
        first = wait_for_note(shared, "beat")[2]
        for pid in (guard_of(lease.runs[first]), lease.runs[first].process.pid):
            os.kill(pid, signal.SIGSTOP)  # or one of them would see the other go
        group = [p for p in lease.runs[first].children() if p != guard_of(lease.runs[first])]
        for pid in (*group, guard_of(lease.runs[first]), lease.runs[first].process.pid):
            kill(pid)
        expiry = lease.expiry()
        begun = wait_for_note(shared, "started", lease.other(first))[1]
        assert expiry - 0.1 < begun < expiry + 4
        if table == OWN:
            assert lease.previous_end() == "expired"


def test_a_new_row(pg, name, shared):
    """A row that was not there may have been deleted under a leader: work begins when that one's has stopped."""
    with Lease(pg, name, shared, names="a", new=True) as lease:
        wait_until(lambda: lease.holder() == "a", "it is led")
        held = lease.expiry() - LEASE
        begun = wait_for_note(shared, "started")[1]
        assert LEASE / 3 + 1 < begun - held < LEASE
        assert "was not there" in lease.runs["a"].log()


def test_a_new_row_without_settling(pg, name, shared):
    with Lease(pg, name, shared, names="a", new=True, options=("--settle=0",)) as lease:
        begun = wait_for_note(shared, "started")[1]
        assert begun - (lease.expiry() - LEASE) < SOON


@EITHER
def test_through_a_pooler(pg, name, shared, table):
    """In transaction mode a lock cannot be led; a lease can."""
    with Pooler(pg, size=3) as pooler:
        conninfo = f"host=127.0.0.1 port={pooler.port} dbname=postgres user={pg.user}"
        with Lease(pg, name, shared, table, conninfo=conninfo,
                   options=("--recontend", *((f"--lease={OWN}",) if table == OWN else ()))) as lease:
            first = wait_for_note(shared, "beat")[2]
            assert "a pooler stands between" in lease.runs[first].log()
            expiry = lease.expiry()
            wait_until(lambda: lease.expiry() > expiry + 0.1, "a renewal", deadline=LEASE / 2)
            lease.runs[first].signal(signal.SIGTERM)
            assert wait_for_note(shared, "started", lease.other(first))
    assert not overlaps(shared)


def test_yield_request(pg, name, shared):
    with Lease(pg, name, shared, OWN) as lease:
        first, generation = wait_for_note(shared, "beat")[2:]
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (lease.duty, int(generation)))
        assert wait_for_note(shared, "started", lease.other(first))
        assert lease.previous_end() == "yield-request"


REFUSED = [
    ("no_such_table", (), "there is none"),
    ("pg_class", (), "has not the columns"),
    ("public.twice", (), "not unique"),
    ("public.naive", (), "timestamptz"),
    (OWN + ":another/row", (), "named by their duty"),
    (TABLE, ("--lease-duration=4s", "--kill-after=3s"), "could not promise"),
]


@pytest.mark.parametrize("place, more, words", REFUSED, ids=[r[2].replace(" ", "-") for r in REFUSED])
def test_refused(pg, name, shared, place, more, words):
    """What cannot be led by is refused with the reason, 64, and nothing written."""
    pg.sql("create table if not exists public.twice (job_name text, holder text, expires_at timestamptz)")
    pg.sql("create table if not exists public.naive (job_name text primary key, holder text, expires_at timestamp)")
    with Candidate(pg.conninfo(), duty="jobs/refused", options=(f"--lease={place}", *TIMES, *more)) as run:
        assert run.wait() == 64
        assert words in run.log()
