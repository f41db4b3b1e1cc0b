# SPDX-License-Identifier: PostgreSQL
"""Histories that nobody had to wait for: what the exporter would have said, written as OpenMetrics with times.

test_history.py holds it against --list-metrics and the golden scrape: the same families with the same labels.
"""

from dataclasses import dataclass, field

SCRAPE = 15
SPAN = 3600
START = 1768474800  # 2026-01-15 11:00 UTC
END = START + SPAN
RULES = ("acquired", "lost", "takeover", "returned", "restarted", "unknown")
OUTCOMES = ("moved", "returned", "vacant", "not-confirmed", "unknown", "refused")
TAKEOVER_BUCKETS = ("0.001", "0.005", "0.025", "0.1", "0.25", "0.5", "1.0", "5.0", "15.0", "30.0", "60.0", "300.0", "+Inf")
POLL_BUCKETS = ("0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.1", "0.25", "0.5", "1.0", "5.0", "+Inf")
POLL_SECONDS = 0.004
LONG_AGO = -7 * 86400


@dataclass
class Duty:
    """Times are seconds from START. terms: (from, until or None, holder); what lies between them is a vacancy."""
    name: str
    terms: tuple = ((LONG_AGO, None, "worker-1"),)
    kind: str = "lock"  # lease, discovery
    ledger: bool = True
    run_seconds: int = 600  # a run of 200 steps; 0: no runs
    stalled: tuple = ()  # (from, until): the cursor stands still
    yields: tuple = ()  # (time, outcome)
    candidates: object = 3  # or a function of the time
    waiters: int = 0
    pooled: bool = False
    mismatch: tuple = ()  # (from, until)
    xmin_age: int = 0
    paused: bool = False
    declared: bool = True
    team: str = "billing"


@dataclass
class Server:
    name: str
    duties: tuple
    standby: bool = False
    away: tuple = ()  # (from, until): the exporter does not reach it


@dataclass
class Exporter:
    instance: str = "observer:10187"
    lives: tuple = ((LONG_AGO, None),)  # (from, until or None)

    def born(self, t):
        """When the process that answers at t started; None where nobody answers."""
        return next((since for since, until in self.lives if since <= t and (until is None or t < until)), None)


@dataclass
class Scenario:
    """job: a Prometheus holds many histories side by side, told apart by their job."""
    job: str
    servers: tuple
    exporters: tuple = (Exporter(),)
    every: int = SCRAPE
    points: dict = field(default_factory=dict)

    def lines(self):
        """The whole history, series after series."""
        for exporter in self.exporters:
            for t in range(-SPAN // 4, SPAN + 1, self.every):
                born = exporter.born(t)
                if born is not None:
                    self.scrape(exporter, born, t)
        for series, samples in self.points.items():
            for t, value in samples:
                yield f"{series} {value!r} {START + t}\n"
        self.points.clear()

    def scrape(self, exporter, born, t):
        target = f'job="{escaped(self.job)}",instance="{escaped(exporter.instance)}"'
        for name, labels, value in observed(self.servers, born, t):
            text = "".join(f',{k}="{escaped(v)}"' for k, v in labels.items())
            self.points.setdefault(f"{name}{{{target}{text}}}", []).append((t, value))


def escaped(value):
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def within(spans, t):
    return bool(spans) and spans[0] <= t < spans[1]


def observed(servers, born, t):
    """(name, labels, value) of everything that an exporter born then says at t."""
    yield from program(born)
    for server in servers:
        labels = {"server": server.name}
        fresh = not within(server.away, t)
        for name, more, value in of_server(server, fresh, born, t):
            yield f"pgleader_{name}", labels | more, value
        for duty in server.duties if fresh else ():
            labels = {"server": server.name, "duty": duty.name}
            for name, more, value in of_duty(duty, server, born, t):
                yield f"pgleader_{name}", labels | more, value


def program(born):
    yield "pgleader_build_info", {"version": "0.1.0", "libpq": "15.14"}, 1
    yield "pgleader_config_last_reload_successful", {}, 1
    yield "pgleader_config_last_reload_timestamp_seconds", {}, START + born
    yield "process_start_time_seconds", {}, START + born
    for name, value in (("cpu_seconds_total", 12.5), ("resident_memory_bytes", 9e6), ("virtual_memory_bytes", 9e7),
                        ("open_fds", 14), ("max_fds", 1024)):
        yield f"process_{name}", {}, value


def histogram(name, bounds, values):
    for bound in bounds:
        yield f"{name}_bucket", {"le": bound}, sum(v <= float(bound) for v in values)
    yield f"{name}_sum", {}, sum(values)
    yield f"{name}_count", {}, len(values)


def of_server(server, fresh, born, t):
    polls = max(t - max(born, -SPAN), 0)
    last = t if fresh else server.away[0]
    yield "up", {}, int(fresh)
    for section in ("server", "locks", "ledger"):
        yield "section_up", {"section": section}, int(fresh)
    for bound in POLL_BUCKETS:
        yield "poll_seconds_bucket", {"le": bound}, polls if float(bound) >= POLL_SECONDS else 0
    yield "poll_seconds_sum", {}, polls * POLL_SECONDS
    yield "poll_seconds_count", {}, polls
    yield from [("poll_interval_seconds", {}, 1), ("connects_total", {}, 1),
                ("last_poll_timestamp_seconds", {}, START + t - 0.4), ("last_success_timestamp_seconds", {}, START + last - 0.4)]
    if not fresh:
        return
    yield "server_info", {"system_identifier": "7412345678901234567", "timeline": "3", "database": "app", "version": "15.14"}, 1
    yield from [("in_recovery", {}, int(server.standby)), ("role_unexpected", {}, 0), ("privileged", {}, 1),
                ("ledger_version", {}, 1), ("clock_skew_seconds", {}, 0.25), ("unregistered_locks", {}, 1), ("foreign_locks", {}, 0)]
    taken = [took for duty in server.duties for at, took, rule in changes(duty) if rule == "takeover" and born < at <= t]
    yield from histogram("takeover_seconds", TAKEOVER_BUCKETS, taken)


def changes(duty):
    """(when, how long nobody led, rule) of each change that could be seen."""
    for before, after in zip(duty.terms, duty.terms[1:]):
        if after[0] > before[1]:
            yield before[1], 0, "lost"
        yield after[0], after[0] - before[1] + 0.4, "returned" if before[2] == after[2] else "takeover"
    if duty.terms and duty.terms[-1][1] is not None:
        yield duty.terms[-1][1], 0, "lost"


def of_duty(duty, server, born, t):
    if server.standby:
        yield from [("duty_info", about(duty), 1), ("duty_state", {}, 0), ("duty_alerts_paused", {}, int(duty.paused))]
        return
    term = next(((i, *x) for i, x in enumerate(duty.terms) if x[0] <= t and (x[1] is None or t < x[1])), None)
    yield from [("duty_info", about(duty), 1), ("leader_held", {}, int(term is not None)), ("owners", {}, int(term is not None))]
    if term:
        yield from of_owner(duty, *term)
    if duty.kind != "lease":
        yield "waiters", {}, duty.waiters
    if duty.kind != "discovery":
        yield from of_named(duty, term, born, t)


def about(duty):
    key = "public.leader_lease:row" if duty.kind == "lease" else "742118"
    source = "discovery" if duty.kind == "discovery" else "ledger" if duty.ledger else "config"
    return {"mechanism": "lease" if duty.kind == "lease" else "lock", "source": source, "key": key, "team": duty.team}


def of_owner(duty, i, since, _, holder):
    name = {"lease": "", "lock": f"pgleader:{duty.name}:{holder}", "discovery": holder}[duty.kind]
    yield "owner_info", {"holder": name or holder, "application_name": name, "usename": "worker", "client_addr": f"10.0.4.{i + 7}"}, 1
    if duty.kind != "lease":
        yield "owner_pid", {}, 4100 + i
    if duty.kind == "lock":
        yield "owner_backend_start_timestamp_seconds", {}, START + since - 60


def of_named(duty, term, born, t):
    state = 2 if not term else 4 if within(duty.mismatch, t) else 3 if within(duty.stalled, t) and t > duty.stalled[0] + 30 else 1
    if any(at - 30 <= t < at for at, outcome in duty.yields if outcome == "moved"):
        state = 5
    yield "duty_state", {}, state
    yield "duty_alerts_paused", {}, int(duty.paused)
    if duty.candidates is not None:
        yield "candidates", {}, duty.candidates(t) if callable(duty.candidates) else duty.candidates
    if duty.kind == "lock":
        yield "shared_owners", {}, 0
        if duty.waiters:
            yield "oldest_wait_seconds", {}, t % 900 + 0.5
            yield "waiter_xmin_age", {}, 1200
    if duty.declared:
        yield from [("duty_min_candidates", {}, 2), ("duty_stall_after_seconds", {}, 30), ("duty_run_every_seconds", {}, 1200),
                    ("duty_takeover_slow_after_seconds", {}, 5), ("duty_wait_slow_after_seconds", {}, 600)]
    yield from of_past(duty, born, t)
    if not term:
        ended = [until for _, until, _ in duty.terms if until is not None and until <= t]
        yield from [("vacant_since_timestamp_seconds", {}, START + max(ended))] if ended else []
    else:
        yield from of_term(duty, term, t)
    if duty.run_seconds:
        yield from of_run(duty, term, t)


def of_past(duty, born, t):
    seen = [(at, took, rule) for at, took, rule in changes(duty) if born < at <= t]
    known = [(at, took) for at, took, rule in changes(duty) if rule == "takeover" and at <= t and (duty.ledger or at > born)]
    for rule in RULES:
        yield "transitions_total", {"rule": rule}, sum(r == rule for _, _, r in seen)
    if known:
        at, took = known[-1]
        yield from [("last_takeover_timestamp_seconds", {}, START + at - 0.2), ("last_takeover_seconds", {}, took),
                    ("last_takeover_lower_bound_seconds", {}, took - 0.4)]
    over = [(since, until) for since, until, _ in duty.terms if until is not None and until <= t]
    if over:
        yield "last_term_seconds", {}, over[-1][1] - over[-1][0]
    if duty.ledger:
        for outcome in OUTCOMES:
            yield "yields_total", {"outcome": outcome}, sum(o == outcome and at <= t for at, o in duty.yields)


def of_term(duty, term, t):
    i, since = term[:2]
    yield "owner_pooled", {}, int(duty.pooled)
    yield from [("acquisition_age_seconds", {}, t - since), ("acquisition_uncertainty_seconds", {}, 0 if duty.ledger else 60)]
    if duty.ledger:
        yield from [("generation", {}, 60297630304 + 1000 * i), ("acquired_timestamp_seconds", {}, START + since),
                    ("ledger_mismatch", {}, int(within(duty.mismatch, t))), ("term_begun", {}, int(not within(duty.mismatch, t)))]
    if duty.kind == "lease":
        yield from [("lease_remaining_seconds", {}, 15 - t % 10), ("lease_duration_seconds", {}, 15),
                    ("lease_expires_timestamp_seconds", {}, START + t + 15 - t % 10)]
    if duty.xmin_age:
        yield from [("owner_xmin_age", {}, duty.xmin_age + t), ("owner_xact_age_seconds", {}, t % 1800)]


def of_run(duty, term, t):
    """A run begins every run_seconds and rests for a tenth of them; it stands while nobody leads, and while it is stalled."""
    moved = t
    if within(duty.stalled, t):
        moved = duty.stalled[0]
    elif term is None:
        moved = max(until for _, until, _ in duty.terms if until is not None and until <= t)
    began = moved // duty.run_seconds * duty.run_seconds
    part = min((moved - began) / (0.9 * duty.run_seconds), 1)
    yield "run_active", {}, int(part < 1)
    if part < 1:
        yield from [("run_cursor", {}, int(200 * part)), ("run_target", {}, 200), ("run_started_timestamp_seconds", {}, START + began),
                    ("run_advanced_timestamp_seconds", {}, START + moved - 1), ("progress_age_seconds", {}, t - moved + 1),
                    ("run_deadline_timestamp_seconds", {}, START + began + 2 * duty.run_seconds)]
    finished = began - 0.1 * duty.run_seconds if part < 1 else began + 0.9 * duty.run_seconds
    yield from [("last_run_finished_timestamp_seconds", {}, START + finished), ("last_run_cursor", {}, 200)]
