# SPDX-License-Identifier: PostgreSQL
"""Leases where the clock of one host is ten minutes off: only the server's clock says when one is over."""

import signal

import pytest

from tests.support.candidate import overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.lease import LEASE, OWN, TABLE, Lease, create_table
from tests.support.wait import hold_for, wait_until

TEN_MINUTES = 600


@pytest.mark.parametrize("table", [TABLE, OWN], ids=["table", "own"])
@pytest.mark.parametrize("skew", [TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
def test_ten_minutes(tmp_path, table, skew):
    """It takes no lease that is not over, and keeps its own for no longer than it has it."""
    tmp_path.chmod(0o777)
    path = tmp_path / "notes"
    with Cluster() as pg:
        pg.install_ledger()
        create_table(pg)
        with Lease(pg, "skew", path, table, names="ab", skew={"b": skew}) as lease:
            first = wait_for_note(path, "beat")[2]
            for leader in (first, lease.other(first)):
                wait_until(lambda leader=leader: lease.holder() == leader, f"{leader} leads")
                hold_for(lambda leader=leader: lease.holder() == leader and 0 < lease.left() <= LEASE,
                         f"{leader} leads on", LEASE)
                if leader == first:
                    lease.runs[first].signal(signal.SIGTERM)
        assert not overlaps(path)
