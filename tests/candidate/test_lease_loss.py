# SPDX-License-Identifier: PostgreSQL
"""Leases that are lost: to whoever writes the row, to a blocked renewal, to a server that is away or crashed, to a pause."""

import os
import signal

import pytest

from tests.support.candidate import notes, overlaps, spells, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import guard_of
from tests.support.lease import LEASE, OWN, TABLE, Lease, create_table
from tests.support.wait import hold_for, wait_until

EITHER = pytest.mark.parametrize("table", [TABLE, OWN], ids=["table", "own"])


@EITHER
@pytest.mark.parametrize("how", ["deleted", "restored", "stranger"])
def test_somebody_else_writes(pg, name, shared, table, how):
    """The row goes, comes back as it was long ago, or is another's: the leader finds out with its next renewal."""
    older = ", generation = generation - 1" if table == OWN else ""
    change = {"deleted": "delete from {} where job_name = %s",
              "restored": "update {} set holder = 'long ago', expires_at = now() - interval '1 day'" + older
                          + " where job_name = %s",
              "stranger": "update {} set holder = 'a stranger', expires_at = clock_timestamp() + interval '4 s' "
                          "where job_name = %s"}[how]
    with Lease(pg, name, shared, table) as lease:
        first, generation = wait_for_note(shared, "beat")[2:]
        lease.change(change)
        changed = lease.read()[2] if how != "deleted" else None
        stopped = wait_for_note(shared, "stopped", first, deadline=10)[1]
        if changed:
            assert stopped - changed < LEASE
        assert "could not renew" in lease.runs[first].log() or "is stale" in lease.runs[first].log()
        begun = wait_for_note(shared, "started", after=stopped if how == "stranger" else 0)
        successor = wait_until(lambda: [n for n in notes(shared) if n[0] == "started"][1:], "another term begins")[0]
        if how == "stranger":
            assert successor[1] >= changed + 3.5  # the row was read after it was changed
        if table == OWN or how != "restored":  # a table cannot tell an old row from a lapsed one
            assert successor[1] > stopped
        assert begun and (table != OWN or int(successor[3]) > int(generation))


@EITHER
def test_renewals_blocked(pg, name, shared, table):
    """A row lock held for longer than the lease: the work is over before the expiry, and nobody leads meanwhile."""
    with Lease(pg, name, shared, table) as lease:
        first = wait_for_note(shared, "beat")[2]
        with pg.connect() as blocker, blocker.transaction():
            blocker.execute(f"select from {table} where job_name = %s for update", (lease.row,))
            expiry = lease.expiry()
            stopped = wait_for_note(shared, "stopped", first)[1]
            assert stopped < expiry - 0.5
            wait_until(lambda: lease.left() < -1, "the lease is over")
            assert len(spells(shared)) == 1, "nobody can take it"
        assert wait_for_note(shared, "started", after=stopped)
    assert not overlaps(shared)


@EITHER
def test_database_away(pg, name, shared, table):
    """The server stops answering for longer than the lease: the leader's own deadline ends the work."""
    with Lease(pg, name, shared, table) as lease:
        first = wait_for_note(shared, "beat")[2]
        expiry = lease.expiry() + LEASE / 3  # one renewal may have been under way
        pg.signal_all(signal.SIGSTOP)
        try:
            stopped = wait_for_note(shared, "stopped", first)[1]
            assert stopped < expiry - 0.5
        finally:
            pg.signal_all(signal.SIGCONT)
        assert wait_for_note(shared, "started", after=stopped)
        assert "rule=check-late" in lease.runs[first].log()
    assert not overlaps(shared)


def test_a_paused_leader(pg, name, shared):
    """pgleader-run and its work sleep beyond the lease: another leads; when they wake, old work is refused and ended."""
    with Lease(pg, name, shared, OWN) as lease:
        first, generation = wait_for_note(shared, "beat")[2:]
        group = [p for p in lease.runs[first].children() if p != guard_of(lease.runs[first])]
        for pid in (lease.runs[first].process.pid, *group):
            os.kill(pid, signal.SIGSTOP)
        begun = wait_for_note(shared, "started", lease.other(first))[1]
        with pytest.raises(Exception, match="stale"):
            pg.sql("select pgleader.fence(%s, %s)", (lease.duty, int(generation)))
        for pid in (*group, lease.runs[first].process.pid):
            os.kill(pid, signal.SIGCONT)
        assert wait_for_note(shared, "stopped", first, after=begun)
        assert "rule=check-late" in lease.runs[first].log()
        hold_for(lambda: lease.holder() != first, "the successor leads on", 1)


def test_a_crash_empties_an_unlogged_table(name, shared):
    """The loss of the session is the loss of the lease, and the next leader waits: nobody works beside another."""
    with Cluster() as pg:
        create_table(pg, unlogged=True)
        with Lease(pg, name, shared) as lease:
            first = wait_for_note(shared, "beat")[2]
            assert "UNLOGGED" in lease.runs[first].log()
            pg.restart("immediate")
            stopped = wait_for_note(shared, "stopped", first)[1]
            begun = wait_for_note(shared, "started", after=stopped)[1]
            assert begun - stopped > 1
            assert len(lease.change("select 1 from {} where job_name = %s")) == 1
        assert not overlaps(shared)


def test_nothing_left_to_give_back(pg, name, shared):
    """The row goes while the work ends: a release that finds nothing held is an error, not a success."""
    slow = ["bash", "-c", 'trap "" TERM; echo "started $(date +%s.%N) $PGLEADER_INSTANCE none" >> "$NOTES"; sleep 60 & wait']
    with Lease(pg, name, shared, names="a", command=slow) as lease:
        wait_for_note(shared, "started")
        lease.change("update {} set holder = 'a stranger' where job_name = %s")
        lease.runs["a"].signal(signal.SIGTERM)
        lease.runs["a"].wait()
        assert "could not give back the lease" in lease.runs["a"].log()
        assert lease.holder() == "a stranger"
