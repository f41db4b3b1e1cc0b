# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""No rule takes half a second on 5,000 duties, in the night in which all of them need somebody."""

import pytest

from .prometheus import Prometheus
from .rules import rules

DUTIES = 5000
SCRAPE = 30
END = 1768478400
LIMIT = 0.5  # seconds

# Families of a duty: value, and for how many seconds back a rule looks.
HOUR, HALF, NOW = 3600, 1800, 90
FAMILIES = {
    "leader_held": (1, NOW), "owners": (2, NOW), "owner_pooled": (1, NOW), "ledger_mismatch": (1, NOW),
    "term_begun": (0, NOW), "generation": (lambda t: END - t, HOUR), "candidates": (1, HOUR), "waiters": (3, NOW),
    "acquisition_age_seconds": (90000, NOW), "oldest_wait_seconds": (900, NOW), "lease_remaining_seconds": (1, NOW),
    "lease_duration_seconds": (30, NOW), "run_active": (1, NOW), "progress_age_seconds": (900, NOW),
    "run_started_timestamp_seconds": (END - 9000, NOW), "run_deadline_timestamp_seconds": (END - 600, NOW),
    "last_run_finished_timestamp_seconds": (END - 9000, NOW), "last_term_seconds": (1800, NOW),
    "duty_min_candidates": (2, NOW), "duty_stall_after_seconds": (60, NOW), "duty_run_every_seconds": (600, NOW),
    "duty_takeover_slow_after_seconds": (20, NOW), "duty_wait_slow_after_seconds": (30, NOW), "duty_alerts_paused": (0, NOW),
    "last_takeover_timestamp_seconds": (END - 300, NOW), "last_takeover_lower_bound_seconds": (25, NOW),
    "owner_xmin_age": (2000000, NOW), "owner_xact_age_seconds": (4000, NOW), "waiter_xmin_age": (2000000, NOW),
}
INFO = ',mechanism="lock",source="ledger",key="1",team="billing"'
OWNER = ',holder="worker-1",application_name="worker-1",usename="worker",client_addr="10.0.4.17"'
# What the rules before it would have recorded: labels beside the duty's, value.
RECORDS = {
    "duty:pgleader_duty_info:seen": (',team="billing"', END), "duty:pgleader_owner_info:seen": (',holder="worker-1"', END),
    "duty:pgleader_duty_info:unpaused": (',team="billing"', END),
    "duty:pgleader_duty_info:on_call": (',team="billing",holder="worker-1"', END),
    "duty:pgleader_leader_held:max": ("", 1), "duty:pgleader_lease_remaining_seconds:max": ("", 1),
    "duty:pgleader_candidates:max": ("", 1), "duty:pgleader_duty_takeover_slow_after_seconds:max": ("", 20),
    "duty:pgleader_transitions_total:increase30m": ("", 9), "duty:pgleader_generation:max1h": ("", 3600),
    "duty:pgleader_owner_xmin_age:max": ("", 2000000),
}


def series(name, labels, value, span, step=SCRAPE):
    value = value if callable(value) else (lambda t, v=value: v)
    return "".join(f"{name}{{{labels}}} {value(t)} {t}\n" for t in range(END - span // step * step, END + 1, step))


def of_duty(n):
    where = f'job="pgleader",server="db",duty="jobs/{n}"'
    seen = f'{where},instance="a:10187"'
    for name, (value, span) in FAMILIES.items():
        yield series(f"pgleader_{name}", seen, value, span)
    for rule in ("takeover", "returned"):
        yield series("pgleader_transitions_total", f'{seen},rule="{rule}"', lambda t: (t - END + HALF) // 200, HALF)
    yield series("pgleader_duty_info", seen + INFO, 1, NOW)
    yield series("pgleader_owner_info", seen + OWNER, 1, NOW)
    for name, (labels, value) in RECORDS.items():
        yield series(name, where + labels, value, SCRAPE)
    yield series("duty:pgleader_last_term_seconds:latest", where, lambda t: 1790 + t // 1800 % 9, 4 * HOUR, 300)


def of_server():
    where = 'job="pgleader",instance="a:10187"'
    for name, value in (("up", 1), ("pgleader_build_info", 1), ("pgleader_config_last_reload_successful", 0)):
        yield series(name, where, value, HOUR)
    for name, value in (("up", 1), ("last_success_timestamp_seconds", END), ("clock_skew_seconds", 9), ("in_recovery", 0),
                        ("role_unexpected", 1), ("privileged", 0), ("ledger_version", 11), ("unregistered_locks", 7)):
        yield series(f"pgleader_{name}", where + ',server="db"', value, HOUR)
    yield series("pgleader_section_up", where + ',server="db",section="locks"', 0, HOUR)
    yield series("server:pgleader_last_success_timestamp_seconds:server_clock", 'job="pgleader",server="db"', END, SCRAPE)


@pytest.fixture(scope="module")
def prometheus():
    with Prometheus() as p:
        p.backfill(line for part in (of_server(), *map(of_duty, range(DUTIES))) for line in part)
        p.start()
        yield p


def test_every_rule_is_cheap(prometheus):
    """By the processor's time, all threads together: what else the machine does is no fault of the rule."""
    slow, rows = [], {}
    for rule in rules():
        name = rule.get("alert", rule.get("record"))
        took = LIMIT
        for _ in range(3):
            before = prometheus.cpu_seconds()
            found = prometheus.query(f"count(\n{rule['expr']}\n)", time=END)
            took = min(took, prometheus.cpu_seconds() - before)
        rows[name] = max(rows.get(name, 0), int(found[0]["value"][1]) if found else 0)
        print(f"{took * 1000:5.0f} ms {rows[name]:6d} rows  {name}")
        if took >= LIMIT:
            slow.append(name)
    assert not slow, f"half a second or more: {slow}"
    many = {name for name, n in rows.items() if n >= DUTIES}
    assert len(many) > 20, f"the rules found nothing to tell: {rows}"
