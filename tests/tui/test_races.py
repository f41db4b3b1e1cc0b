# SPDX-License-Identifier: PostgreSQL
"""Some of the races that `scripts/races` runs by the thousand: the leader changes in every way and at every moment."""

import pytest

from tests.races.main import race, report


@pytest.mark.parametrize("road, crowd", [("ledger", 0), ("own", 1000)])
def test_whoever_is_ended_was_confirmed(road, crowd):
    races = race(road, 100, crowd, seed=1729)
    print("\n" + report(road, crowd, races, 0))
    assert not races.violations, "\n".join(races.violations)
    assert 10 < races.signals < 90, "both in time and too late"
