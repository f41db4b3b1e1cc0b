# SPDX-License-Identifier: PostgreSQL
"""The demo's alert, with the rules as shipped: most of it is the 2 minutes for which it is pending."""

import re

from tests.scripts.test_demo import folder_of, full_cast, gone, start
from tests.support.wait import wait_until

LIMIT_SECONDS = 240
# What is said, in this order.
STEPS = ("all 3 workers of jobs/invoice-reconcile are ended; it allows a takeover of 5 s", "they are started again",
         r"worker-\d leads; the takeover took \d+\.\d s or more", "PgleaderSlowTakeover is pending in Prometheus",
         "PgleaderSlowTakeover fires in Alertmanager, for billing-tickets: jobs/invoice-reconcile on demo was without a leader for .*",
         r"its page is https://\S+, here runbook/alerts/PgleaderSlowTakeover\.md",
         r"pgleader yield jobs/invoice-reconcile moved it away from worker-\d", r"worker-\d leads; the takeover took [0-4]\.\d+ s at most",
         "PgleaderSlowTakeover has ended in Prometheus and in Alertmanager")


def test_an_alert_fires_and_ends_within_four_minutes():
    process = start("--check", "--alerts")
    cast = wait_until(lambda: full_cast(process.pid), "all of the cast runs", 60)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    said = re.findall(r"^ *(\d+) s (.*)$", output, re.M)
    assert len(said) == len(STEPS), output
    for (_, words), step in zip(said, STEPS):
        assert re.fullmatch(step, words), output
    assert int(said[-1][0]) < LIMIT_SECONDS, output
    assert gone(cast), "processes are left"
    assert not folder_of(cast).exists()
