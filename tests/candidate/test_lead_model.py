# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""A bare candidate among seeded misfortunes in any order; lead_model.c says what must hold after every step.

By hand, for longer: PGLEADER_MODEL_SECONDS and PGLEADER_MODEL_SEEDS.
"""

import os
import subprocess

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import program

SECONDS = int(os.environ.get("PGLEADER_MODEL_SECONDS", "12"))
SEEDS = [int(seed) for seed in os.environ.get("PGLEADER_MODEL_SEEDS", "1").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mechanism", ["lock", "lease"])
def test_whatever_happens(mechanism, seed):
    decided = {"lock": "lock_key => 1", "lease": "lease_table => 'pgleader.lease'"}[mechanism]
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql(f"select pgleader.register_duty('model/{mechanism}', {decided})")
        done = subprocess.run([str(program("lead_model")), pg.conninfo(), str(SECONDS), str(seed), f"model/{mechanism}",
                               mechanism], capture_output=True, text=True, timeout=SECONDS + 120)
        assert done.returncode == 0, "\n".join(done.stderr.splitlines()[-60:])
        assert int(done.stdout.split()[1]) > 0
