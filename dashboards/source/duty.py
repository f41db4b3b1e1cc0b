# SPDX-License-Identifier: PostgreSQL
"""One duty in depth, in the order of the four questions."""

from . import promql
from .page import dashboard, link_to
from .panels import dashed, label, number, override, series, stat, steps, table, timeline, told
from .promql import DUTY, SERVER, raw
from .words import (AGREE, ANSWERS, BAD, EXPECTED, FRESH, GOOD, GREY, MOVING, NONE_IS_GOOD, NONE_KNOWN, ODD, PAUSED, POOLED, ROLE, STATES, TERM, WARN,
                    WORKS, YES_IS_GOOD)


def duty(name):
    return promql.duty(name, DUTY)


def server(name):
    return promql.server(name, SERVER)


def until(name):
    return promql.until(name, DUTY, SERVER)


def since(name):
    return promql.since(name, DUTY, SERVER)


LED = f"{duty('leader_held')} == 1"
RUNNING = f"{duty('run_active')} == 1"
STATE = (f"{duty('duty_state')} > 0 or 6 + 0 * {duty('duty_state')} or 2 - {duty('leader_held')}"
         f" or 6 + 0 * max by (server, duty) (last_over_time({raw('duty_info', DUTY)}[1h]))")
PART = f"{duty('progress_age_seconds')} / {duty('duty_stall_after_seconds')}"
LEADER = f"""max by (holder) ({promql.holder(DUTY)})
or max by (holder) (label_replace({raw('leader_held', DUTY)} == 0, "holder", "nobody", "", ""))
or on () label_replace(vector(-1), "holder", "unknown", "", "")"""
OWNER = f"max by (server, duty, holder, usename, client_addr) ({raw('owner_info', DUTY)})"
ABOUT = f"max by (server, duty, mechanism, key, team) ({raw('duty_info', DUTY)})"
LIMIT = steps((None, GOOD), (1, BAD))


def glance():
    return (None, [(4, [
        (3, stat("State", told(
            "What the duty is now.", "**led**; **yielding** for some seconds.",
            "**VACANT**, **STALLED**, **CONTESTED**; **unknown**: nobody can tell.",
            ["PgleaderNoLeader", "PgleaderStalled", "PgleaderContested"]), STATE, mappings=STATES)),
        (6, stat("Leader", told(
            "Who leads now, by pg_locks or by the lease's row; nothing else says who leads.", "one name.",
            "**nobody**; **unknown** where nobody can tell.", ["PgleaderNoLeader"]),
            LEADER, thresholds=steps((None, GREY), (0, BAD), (1, GOOD)), legend="{{holder}}", show="name")),
        (3, stat("Generation", told(
            "Generation of the present term, which fenced work carries. It only ever rises.", "a number, rising with each term.",
            "a smaller one than before. No data where there is no ledger.", ["PgleaderGenerationBackwards"]),
            duty("generation"))),
        (4, stat("Led for at least", told(
            "Age of the acquisition by the server's clock at the last poll; at most as much more as *Acquisition age* shows.",
            "longer than a run.", "always short: the duty flaps.", ["PgleaderFlapping", "PgleaderPeriodicFlapping"]),
            duty("acquisition_age_seconds"), "dtdurations")),
        (4, stat("Candidates", told(
            "Distinct instances that lead the duty or are ready to. No data where they cannot be counted.",
            "2 or more, and no fewer than declared.", "1: only the leader is there.", ["PgleaderNoSuccessor"]),
            duty("candidates"), thresholds=steps((None, WARN), (2, GOOD)))),
        (4, stat("Stall limit used", told(
            "Time since the cursor last moved, divided by `stall_after`. No data between two runs, or where no limit is declared.",
            "below 100 %.", "100 % or more: stalled.", ["PgleaderStalled"]), PART, "percentunit", thresholds=LIMIT)),
    ])])


def who():
    states = timeline("Leadership over time", told(
        "The state of the duty, and below it each leader with the time that it led. A gap is a time at which nobody could tell.",
        "long bands.", "gaps between leaders, many short bands, VACANT, CONTESTED.",
        ["PgleaderNoLeader", "PgleaderFlapping", "PgleaderPeriodicFlapping"]),
        [(f"{duty('duty_state')} or 2 - {duty('leader_held')}", "state"), (f"max by (holder) ({promql.holder(DUTY)})", "{{holder}}")], STATES)
    leader = table("The leader and the duty", told(
        "The session that leads, and what the duty is. `pgleader status` shows the same in a terminal.",
        "one row.", "none: nobody leads. Two for a moment: two exporters read around a takeover.",
        ["PgleaderNoLeader", "PgleaderOwnerPooled"]), [
            label("Leader", "holder", OWNER), label("Role", "usename", OWNER, width=110),
            label("From", "client_addr", OWNER, width=110), number("pid", duty("owner_pid"), width=75),
            number("Session since", f"1000 * {duty('owner_backend_start_timestamp_seconds')}", "dateTimeAsIso", width=168),
            number("Acquired", f"1000 * {duty('acquired_timestamp_seconds')}", "dateTimeAsIso", width=168),
            label("Mechanism", "mechanism", ABOUT, width=85), label("Key", "key", ABOUT),
            label("Team", "team", ABOUT, width=80), number("Alerts", duty("duty_alerts_paused"), mappings=PAUSED, width=75),
        ])
    least = duty("acquisition_age_seconds")
    age = series("Acquisition age", told(
        "How long the leader has led: at least, and at most where the acquisition was not recorded. Each fall is a new acquisition.",
        "a rising line.", "a saw: the duty flaps; teeth of equal length are a pool that recycles the leader's connection.",
        ["PgleaderFlapping", "PgleaderPeriodicFlapping"]),
        [(least, "at least"), (f"{least} + {duty('acquisition_uncertainty_seconds')}", "at most")], "s",
        lines={"at least": (GOOD, False), "at most": dashed()})
    begun = timeline("Ledger, term and pooler", told(
        "Whether the owner of the lock began a term in the ledger, whether an open term belongs to a living session that is not "
        "the owner, and whether the owner sits behind a pooler.", "begun, agree, direct.",
        "**DIFFER**: two may believe that they lead. **POOLED**: the lock belongs to whoever gets that connection next.",
        ["PgleaderContested", "PgleaderTermNotBegun", "PgleaderOwnerPooled"]),
        [(duty("ledger_mismatch"), "ledger and lock"), (duty("term_begun"), "term"), (duty("owner_pooled"), "session")], (),
        [override("ledger and lock", ("mappings", AGREE)), override("term", ("mappings", TERM)),
         override("session", ("mappings", POOLED))])
    return ("1 · Who owns it now?", [(7, [(24, states)]), (4, [(24, leader)]), (7, [(12, age), (12, begun)])])


def waiting():
    counts = series("Candidates and waiters", told(
        "Instances that lead or are ready to, sessions that are blocked on the lock, and the declared minimum.",
        "candidates at the minimum or above.", "below the minimum; a queue that grows.", ["PgleaderNoSuccessor"]),
        [(duty("candidates"), "candidates"), (duty("waiters"), "waiters"), (duty("duty_min_candidates"), "declared minimum")],
        "none", lines={"candidates": (GOOD, False), "waiters": (WARN, False), "declared minimum": dashed()})
    wait = series("Longest wait for the lock", told(
        "How long the longest blocked session has waited. Followers that only try never show here.",
        "nothing, or below the declared limit.", "above it.", ["PgleaderFollowersWaiting"]),
        [(duty("oldest_wait_seconds"), "longest wait"), (duty("duty_wait_slow_after_seconds"), "declared limit")], "s",
        lines={"longest wait": (WARN, False), "declared limit": dashed()}, empty=NONE_KNOWN)
    return ("2 · How long have followers waited?", [(7, [(12, counts), (12, wait)])])


def moving():
    cursor = series("Cursor", told(
        "Position of the run, and where it will be complete.", "a line that climbs to its target and begins anew.",
        "a flat line while the run is active.", ["PgleaderStalled"]),
        [(duty("run_cursor"), "cursor"), (duty("run_target"), "target")], "none",
        lines={"cursor": (GOOD, False), "target": dashed()})
    rate = series("Pace of the cursor", told(
        "Steps of the cursor a second.", "what is usual for this work.", "0 while a run goes on.", ["PgleaderStalled"]),
        [(f"clamp_min(max by (server, duty) (deriv({raw('run_cursor', DUTY)}[$__rate_interval])), 0)", "steps a second")],
        "none", lines={"steps a second": (GOOD, False)})
    still = series("Time without progress", told(
        "Time since the cursor last moved, while a run goes on, and the declared limit.", "falls to 0 at each step.",
        "above the limit: stalled while the lock is held.", ["PgleaderStalled"]),
        [(duty("progress_age_seconds"), "without progress"), (duty("duty_stall_after_seconds"), "declared limit")], "s",
        lines={"without progress": (WARN, False), "declared limit": dashed()})
    deadline = series("Time until the run's deadline", told(
        "By the server's clock, while a run goes on.", "above 0 until the run is complete.", "below 0.",
        ["PgleaderRunPastDeadline"]),
        [(f"{until('run_deadline_timestamp_seconds')} and {RUNNING}", "time left")], "s",
        limits=steps((None, BAD), (0, GOOD)), lines={"time left": (GOOD, False)})
    last = series("Time since the last complete run", told(
        "It also shows a leader that hangs between two runs.", "below the declared interval.", "above it: a run is missing.",
        ["PgleaderRunOverdue"]),
        [(since("last_run_finished_timestamp_seconds"), "since the last run"), (duty("duty_run_every_seconds"), "declared interval")],
        "s", lines={"since the last run": (GOOD, False), "declared interval": dashed()})
    lease = series("Lease left", told(
        "Time until the lease runs out, by the server's clock, and its length. Only of duties led by a lease.",
        "a saw that turns well above 0.", "0 or less: anybody may take it.", ["PgleaderLeaseExpired", "PgleaderLeaseNotRenewed"]),
        [(duty("lease_remaining_seconds"), "left"), (duty("lease_duration_seconds"), "length")], "s",
        limits=steps((None, BAD), (0, GOOD)), lines={"left": (GOOD, False), "length": dashed()}, empty=NONE_KNOWN)
    return ("3 · Is the leader making progress?", [(7, [(8, cursor), (8, rate), (8, still)]), (7, [(8, deadline), (8, last), (8, lease)])])


def checks():
    """Rows of (question, 1 for yes and 0 for no; of the work, 3 while a run goes on and else 2)."""
    of_server = f"and on (server) {server('up')}"
    return [
        ("Somebody leads it", duty("leader_held")),
        ("A successor is ready", f"{duty('candidates')} >= bool 2"),
        ("The session is direct, not pooled", f"1 - {duty('owner_pooled')}"),
        ("The term is in the ledger", duty("term_begun")),
        ("Ledger and lock agree", f"1 - {duty('ledger_mismatch')}"),
        ("The work", f"2 + {duty('run_active')}"),
        ("No takeover within 5 minutes", f"{since('last_takeover_timestamp_seconds')} >= bool 300 {of_server}"),
        ("The server is a primary", f"1 - {server('in_recovery')}"),
        ("Ages and addresses are visible", server("privileged")),
    ]


def safe():
    listed = "\nor ".join(f'label_replace({expr}, "check", "{i} {words}", "", "")' for i, (words, expr) in enumerate(checks(), 1))
    asked = table("What a yield would meet", told(
        "What `pgleader yield` will ask; it asks again, of the server itself, when you run it. What cannot be known has no row.",
        "yes throughout, between runs.", "**NO**: read `runbook/yield.md` first. A run that goes on is resumed by the successor.",
        ["PgleaderNoSuccessor", "PgleaderOwnerPooled", "PgleaderContested"]),
        [label("Check", "check"), number("Answer", f"max by (check) ({listed})", mappings=ANSWERS, width=110)])
    asked["transformations"].insert(0, {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": "check", "desc": False}]}})
    lower, upper = duty("last_takeover_lower_bound_seconds"), duty("last_takeover_seconds")
    last = series("Last takeover", told(
        "How long the duty was without a leader in its last takeover: at least, and at most. Alerts use the lower bound.",
        "seconds.", "a lower bound above the declared limit.", ["PgleaderSlowTakeover"]),
        [(lower, "at least"), (upper, "at most"), (duty("duty_takeover_slow_after_seconds"), "declared limit")], "s",
        lines={"at least": (GOOD, False), "at most": (WARN, False), "declared limit": dashed()}, empty=NONE_KNOWN)
    counted = "round(max by ({1}) (increase({0}[$__rate_interval])))"
    changes = series("Changes, by rule", told(
        "Every change has exactly one rule: `acquired` (the first owner ever seen), `lost`, `takeover`, `returned`, `restarted`, "
        "`unknown`. An exporter's restart is none of them.", "nothing for days, a takeover at a deployment.",
        "`lost` without a `takeover` after it; many.", ["PgleaderFlapping"]),
        [(counted.format(raw("transitions_total", DUTY), "rule"), "{{rule}}")], "none", stacked=True, interval="30s",
        maxDataPoints=180,
        lines={"takeover": (BAD, False), "lost": (WARN, False), "returned": (MOVING, False), "acquired": (GOOD, False),
               "restarted": (ODD, False)})
    yields = series("Yields, by outcome", told(
        "Yields asked for through the ledger, by what came of them.", "`moved`.",
        "`returned`, `vacant`, `not-confirmed`, `unknown`.", []),
        [(counted.format(raw("yields_total", DUTY), "outcome"), "{{outcome}}")], "none", stacked=True, interval="30s",
        maxDataPoints=180,
        lines={"moved": (GOOD, False), "returned": (WARN, False), "vacant": (BAD, False), "refused": (MOVING, False)})
    vacuum = series("Vacuum held back", told(
        "Age, in transactions, of the snapshots of the leader and of its waiters.", "nothing, or a few thousand.",
        "millions and rising.", ["PgleaderVacuumHeldBack"]),
        [(duty("owner_xmin_age"), "leader"), (duty("waiter_xmin_age"), "waiters")], "short",
        lines={"leader": (GOOD, False), "waiters": (WARN, True)}, empty=NONE_KNOWN)
    open_for = series("The leader's transaction is open for", told(
        "A leader's session needs no transaction.", "nothing.", "minutes.", ["PgleaderVacuumHeldBack"]),
        [(duty("owner_xact_age_seconds"), "open for")], "s", lines={"open for": (WARN, False)}, empty=NONE_KNOWN)
    return ("4 · Can it be yielded safely?", [
        (10, [(8, asked), (8, last), (8, spread())]), (7, [(6, changes), (6, yields), (6, vacuum), (6, open_for)])])


def spread():
    quantile = "histogram_quantile({}, max by (le) (increase({}[1d]))) >= 0"  # without a takeover it is no number
    buckets = raw("takeover_seconds_bucket", SERVER)
    return series("Takeovers of this server within a day", told(
        "Median and 95th percentile of the upper bounds of all takeovers of the server's duties within a day.",
        "seconds.", "above what users bear.", ["PgleaderSlowTakeover"]),
        [(quantile.format(0.5, buckets), "half within"), (quantile.format(0.95, buckets), "95 % within")], "s",
        lines={"half within": (GOOD, False), "95 % within": (WARN, False)}, empty=NONE_KNOWN, maxDataPoints=100)


def observer():
    age = f"time() - {server('last_success_timestamp_seconds')} > 0 and {server('last_success_timestamp_seconds')} > 0"
    seen = f"{server('up')} or 0 * max by (server) (last_over_time({raw('up', SERVER)}[1h]))"
    facts = table("What the exporter sees of the server", told(
        "Whether the numbers of this page can be believed.", "seen, as expected.", "**NOT SEEN**: what is above is not shown.",
        ["PgleaderPollStale", "PgleaderUnexpectedRole", "PgleaderUnprivileged", "PgleaderSectionDown",
        "PgleaderClockSkew"]), [
            number("Seen", seen, mappings=FRESH), label("Server", "server"), number("Role", server("in_recovery"), mappings=ROLE),
            number("Expected", server("role_unexpected"), mappings=EXPECTED),
            number("Sees ages", server("privileged"), mappings=YES_IS_GOOD),
            number("Clock ahead by", server("clock_skew_seconds"), "s"), number("Polls every", server("poll_interval_seconds"), "s"),
            number("Unregistered locks", server("unregistered_locks"), mappings=NONE_IS_GOOD)])
    sections = timeline("Sections of the poll", told(
        "A poll has independent sections; one that fails loses only itself, and the exporter's log has the reason.",
        "works.", "**FAILS**: what it reads is absent above.", ["PgleaderSectionDown"]),
        [(f"min by (section) ({raw('section_up', SERVER)})", "{{section}}")], WORKS)
    polls = series("Age of the last good poll, and how long polls take", told(
        "The age by Prometheus's clock; the mean duration of a poll.", "about one interval.", "growing.",
        ["PgleaderPollStale"]),
        [(age, "age"), (f"sum(rate({raw('poll_seconds_sum', SERVER)}[$__rate_interval]))"
                        f" / sum(rate({raw('poll_seconds_count', SERVER)}[$__rate_interval])) >= 0", "a poll takes")], "s",
        lines={"age": (WARN, False), "a poll takes": (GOOD, False)})
    return ("5 · Is the observer well?", [(4, [(24, facts)]), (6, [(12, sections), (12, polls)])])


def build():
    return dashboard("pgleader-duty", "pgleader: one duty", "One duty in depth: its leader, its followers, its work, its "
                     "takeovers, and what a yield would meet.",
                     [glance(), who(), waiting(), moving(), safe(), observer()], DUTY, one=True,
                     links=[link_to("pgleader-overview", "All duties")])
