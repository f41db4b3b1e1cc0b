# SPDX-License-Identifier: PostgreSQL
"""The fleet: every duty of every server, in the order of the four questions."""

from . import promql
from .page import DUTY_PAGE, dashboard
from .panels import DASHES, label, number, override, series, stat, steps, table, timeline, told
from .promql import OF_SERVER, SERVERS, clock, duty, or_none, raw, server, worst
from .words import (AGREE, BAD, EXPECTED, FRESH, GOOD, HINDRANCES, LEDGER, NONE_IS_GOOD, NONE_KNOWN, PAUSED, POOLED, ROLE, RUN, STATES,
                    TERM, UNKNOWN, WARN, YES_IS_GOOD, mapped)

# A standby's locks are not the primary's: its duties are led elsewhere, unless a primary was expected there.
STANDBYS = f"max by (server) ({raw('in_recovery', SERVERS)} == 1 unless {raw('role_unexpected', SERVERS)} == 1)"
FRESH_SERVERS = f"{server('up')} == 1"
# Discovered locks have no state of their own; what was known within the hour and is not now is unknown.
STATE = f"""(
  {duty('duty_state')} > 0
  or max by (server, duty) ({raw('duty_state', promql.DUTIES)} == 0) + 6
  or 2 - {duty('leader_held')}
  or 6 + 0 * (max by (server, duty) (last_over_time({raw('duty_info', promql.DUTIES)}[1h])) unless on (server) {FRESH_SERVERS})
) unless on (server) {STANDBYS}"""
LED = f"{duty('leader_held')} == 1"
RUNNING = f"{raw('run_active', promql.DUTIES)} == 1"
LATE = f"{raw('run_deadline_timestamp_seconds', promql.DUTIES)} < {OF_SERVER} {clock()} and {RUNNING}"
OVERDUE = (f"-1 * ({raw('last_run_finished_timestamp_seconds', promql.DUTIES)} - {OF_SERVER} {clock()})"
           f" > {raw('duty_run_every_seconds', promql.DUTIES)}")
HELD = f"and on (job, instance, server, duty) {raw('leader_held', promql.DUTIES)} == 1"
STALLED = f"count(max by (server, duty) ({raw('duty_state', promql.DUTIES)} == 3 or ({LATE} or {OVERDUE}) {HELD}))"
NO_SUCCESSOR = f"{duty('candidates')} < {duty('duty_min_candidates')}"
DIFFER = f"{duty('duty_state')} == 4 or {duty('ledger_mismatch')} == 1 or {duty('owners')} > 1"
UNSEEN = f"max by (server) (last_over_time({raw('up', SERVERS)}[1h])) unless {FRESH_SERVERS}"

WORST_POINTS = 40  # over thousands of duties each step costs

ONE_IS_BAD = steps((None, GOOD), (1, BAD))
ONE_IS_ODD = steps((None, GOOD), (1, WARN))
LIMIT = steps((None, GOOD), (1, BAD))


def glance():
    return (None, [(4, [
        (4, stat("Duties led", told(
            "How many duties somebody leads now.", "all that you run.", "fewer than usual.", ["PgleaderNoLeader"]),
            or_none(f"sum({duty('leader_held')})"), mappings=[])),
        (4, stat("Without a leader", told(
            "Duties that nobody leads now. A takeover takes seconds: more than a moment is an outage of that work.",
            "none.", "any, for longer than a takeover takes.", ["PgleaderNoLeader"]),
            or_none(f"count({duty('leader_held')} == 0)"), mappings=NONE_IS_GOOD, thresholds=ONE_IS_BAD)),
        (4, stat("Stalled or overdue", told(
            "Led duties whose work does not move: no progress for longer than the duty declares, a run past its deadline, "
            "or no complete run within the declared time.", "none.", "any: the leader may hang while it holds the lock.",
            ["PgleaderStalled", "PgleaderRunOverdue", "PgleaderRunPastDeadline"]),
            or_none(STALLED), mappings=NONE_IS_GOOD,
            thresholds=ONE_IS_BAD)),
        (4, stat("Contested", told(
            "Duties where two could believe that they lead: the open term belongs to a living session that does not hold the "
            "lock, or a lease has two owners.", "none.", "any, in two polls running.", ["PgleaderContested"]),
            or_none(f"count({DIFFER})"), mappings=NONE_IS_GOOD, thresholds=ONE_IS_BAD)),
        (4, stat("Too few candidates", told(
            "Duties with fewer candidates than they declare (`min_candidates`): if the leader goes, nobody may follow.",
            "none.", "any, once a deployment is over.", ["PgleaderNoSuccessor"]),
            or_none(f"count({NO_SUCCESSOR})"), mappings=NONE_IS_GOOD, thresholds=ONE_IS_ODD)),
        (4, stat("Servers not seen", told(
            "Servers that no exporter sees now and that one saw within the hour. What they lead is unknown, not lost.",
            "none.", "any: the exporter or the database is away, and all else here is silent about its duties.",
            ["PgleaderExporterDown", "PgleaderExporterGone", "PgleaderPollStale"]),
            f"count({UNSEEN}) or 0 * count(last_over_time({raw('build_info', promql.PROGRAM)}[1h]))", mappings=NONE_IS_GOOD,
            thresholds=ONE_IS_BAD)),
    ])])


def who():
    owner = f"max by (server, duty, holder) ({promql.holder(promql.DUTIES)})"
    team = f"max by (server, duty, team) ({raw('duty_info', promql.DUTIES)}) and on (server, duty) {raw('leader_held', promql.DUTIES)}"
    leaders = table("Who leads", told(
        "One row for each duty, what needs attention first. A duty's name leads to its own page.",
        "state **led**, one holder, a few candidates.",
        "**VACANT**, **STALLED**, **CONTESTED**; **unknown** says that nobody can tell, and is not old data.",
        ["PgleaderNoLeader", "PgleaderStalled", "PgleaderContested"]), [
            number("State", STATE, mappings=STATES, width=95, loud=True), label("Server", "server", width=100),
            label("Duty", "duty", link=DUTY_PAGE), label("Leader", "holder", owner), number("Generation", duty("generation"), width=115),
            number("Led for", duty("acquisition_age_seconds"), "dtdurations", width=95),
            number("Candidates", duty("candidates"), width=90), number("Waiting", duty("waiters"), width=70),
            number("Longest wait", f"{duty('oldest_wait_seconds')} or 0 * {duty('waiters')}", "s", width=95),
            number("No progress", duty("progress_age_seconds"), "s", width=100),
            number("Alerts", duty("duty_alerts_paused"), mappings=PAUSED, width=70), label("Team", "team", team, width=75),
        ], sort=["State"])
    state, ends = raw("duty_state", promql.DUTIES), f"{raw('duty_state', promql.DUTIES)} @ end()"
    gained = f"{raw('acquired_timestamp_seconds', promql.DUTIES)} @ end()"
    gone = f"last_over_time({state}[1h] @ end())"
    chosen = f"topk(20, max by (server, duty) (1e10 * ({ends} != 1) or {gained} or {ends} or 1e10 + 0 * {gone}))"
    # Discovered locks have no state, and are few.
    found = raw("leader_held", promql.DUTIES, ',duty=~"advisory/.+"')
    first = f"topk(5, max by (server, duty) (last_over_time({found}[1h] @ end())))"
    states = timeline("Leadership over time", told(
        "The 20 duties that need attention now or changed hands last, and a few discovered locks. A gap is a time at which nobody could tell.",
        "long bands of **led**.", "any other word; many short bands are a duty that flaps.",
        ["PgleaderNoLeader", "PgleaderFlapping", "PgleaderExporterDown"]),
        [(f"max by (server, duty) ({state} and on (server, duty) {chosen})", "{{server}} {{duty}}"),
         (f"2 - max by (server, duty) ({found} and on (server, duty) {first})", "{{server}} {{duty}}, discovered")],
        STATES)
    return ("1 · Who owns it now?", [(9, [(24, leaders)]), (8, [(24, states | {"maxDataPoints": 60})])])


def waiting():
    spare = worst("candidates", "duty_min_candidates", formula="{0} - {1}", order="bottomk")
    return ("2 · How long have followers waited?", [(8, [
        (12, series("Longest waits for the lock", told(
            "The six longest waits of a session that is blocked on a duty's lock. Followers that only try are never here; "
            "those that queue by design wait as long as the leader leads.",
            "nothing, or steady lines of workers that queue by design.",
            "a wait beyond what the duty declares (`wait_slow_after`).", ["PgleaderFollowersWaiting"]),
            [(worst("oldest_wait_seconds"), "{{server}} {{duty}}")], "s", empty=NONE_KNOWN, maxDataPoints=WORST_POINTS)),
        (12, series("Candidates beyond the declared minimum", told(
            "The six duties with the fewest candidates in comparison with `min_candidates`.", "0 or more.",
            "below 0: too few are ready to follow.", ["PgleaderNoSuccessor"]),
            [(spare, "{{server}} {{duty}}")], "none", limits=steps((None, BAD), (0, GOOD)),
            maxDataPoints=WORST_POINTS)),
    ])])


def moving():
    left = worst("run_deadline_timestamp_seconds", "progress_age_seconds", order="bottomk",
                 formula=f"({{0}} - {OF_SERVER} {{clock}}) and {{1}}")  # a finished run has no progress_age
    still = worst("progress_age_seconds", "duty_stall_after_seconds", formula="{0} / {1}")
    lease = worst("lease_remaining_seconds", "lease_duration_seconds", formula="{0} / {1}", order="bottomk")
    behind = worst("last_run_finished_timestamp_seconds", "duty_run_every_seconds", 
                   formula=f"-1 * ({{0}} - {OF_SERVER} {{clock}}) / {{1}}")
    return ("3 · Is the leader making progress?", [(8, [
        (12, series("Time without progress, of what the duty allows", told(
            "The six duties nearest to their own `stall_after`: the time since the cursor last moved, divided by it. Only "
            "while a run goes on.", "below 100 %, falling to 0 at each step of the work.",
            "100 % or more: the run is stalled while its leader holds the lock.", ["PgleaderStalled"]),
            [(still, "{{server}} {{duty}}")], "percentunit",
            limits=LIMIT, maxDataPoints=WORST_POINTS)),
        (12, series("Time until the run's deadline", told(
            "The six running runs with the least time left, by the server's clock.", "above 0.",
            "below 0: the run should be complete.", ["PgleaderRunPastDeadline"]),
            [(left, "{{server}} {{duty}}")], "s", limits=steps((None, BAD), (0, GOOD)),
            maxDataPoints=WORST_POINTS)),
    ]), (8, [
        (12, series("Time since the last complete run, of what the duty allows", told(
            "The six duties most behind their own `run_every`. It also shows a leader that hangs between two runs.",
            "below 100 %.", "100 % or more: a run is missing.", ["PgleaderRunOverdue"]),
            [(behind, "{{server}} {{duty}}")], "percentunit", limits=LIMIT, maxDataPoints=WORST_POINTS)),
        (12, series("Lease left", told(
            "The six leases with the smallest part of their duration left. A holder renews at about two thirds.",
            "well above 0.", "0 or less: the lease has run out and anybody may take it.",
            ["PgleaderLeaseExpired", "PgleaderLeaseNotRenewed"]),
            [(lease, "{{server}} {{duty}}")],
            "percentunit", limits=steps((None, BAD), (0, GOOD)), empty=NONE_KNOWN, maxDataPoints=WORST_POINTS)),
    ])])


def hindrances():
    """How many things speak against a yield, for each led duty."""
    against = [("no successor", f"{raw('candidates', promql.DUTIES)} < 2"), ("pooled", f"{raw('owner_pooled', promql.DUTIES)} == 1"),
               ("differ", f"{raw('ledger_mismatch', promql.DUTIES)} == 1"), ("no term", f"{raw('term_begun', promql.DUTIES)} == 0")]
    marked = "\n  or ".join(f'label_replace({expr}, "why", "{why}", "", "")' for why, expr in against)
    counted = f"count by (server, duty) (max by (server, duty, why) (\n  {marked}\n))"
    return f"{counted} and on (server, duty) {LED} or 0 * ({LED})"


def taken_over():
    def within(le):
        return f'sum(max by (server) (increase({raw("takeover_seconds_bucket", SERVERS, chr(44) + "le=" + chr(34) + le + chr(34))}[$__rate_interval])))'

    bounds = [("1.0", "up to 1 s", "#56B4E9"), ("5.0", "1 to 5 s", GOOD), ("15.0", "5 to 15 s", WARN),
              ("60.0", "15 to 60 s", BAD), ("+Inf", "more than a minute", "#CC79A7")]
    targets = [(f"round({within(le)}" + (f" - {within(bounds[i - 1][0])})" if i else ")"), words)
               for i, (le, words, _) in enumerate(bounds)]
    return series("Takeovers, by how long they took at most", told(
        "How many duties changed hands, stacked by the upper bound of the time without a leader.",
        "few, and up to a few seconds; a deployment makes a small heap.", "many small ones (flapping), or slow ones.",
        ["PgleaderFlapping", "PgleaderSlowTakeover"]), targets, "none",
        lines={words: (colour, False) for _, words, colour in bounds}, stacked=True, interval="1m", maxDataPoints=120)


def safe():
    checks = table("What a yield would meet", told(
        "For each duty that is led, what `pgleader yield` will ask. It asks again when you run it; this is only to choose.",
        "**nothing known** against it. A run that goes on is resumed by the successor, if it is of the kit.",
        "**POOLED**, **DIFFER**, **NOT BEGUN**, no successor: settle that first.",
        ["PgleaderNoSuccessor", "PgleaderOwnerPooled", "PgleaderContested"]), [
            number("Against it", hindrances(), mappings=HINDRANCES, limits=steps((None, "transparent"), (1, WARN)), width=125),
            label("Server", "server"), label("Duty", "duty", link=DUTY_PAGE),
            number("Candidates", f"{duty('candidates')} and {LED}", mappings=mapped(UNKNOWN),
                   limits=steps((None, WARN), (2, "transparent")), width=100),
            number("Session", f"{duty('owner_pooled')} and {LED}", mappings=POOLED, width=100),
            number("Term", f"{duty('term_begun')} and {LED}", mappings=TERM, width=110),
            number("Ledger and lock", f"{duty('ledger_mismatch')} and {LED}", mappings=AGREE, width=130),
            number("Work", f"{duty('run_active')} and {LED}", mappings=RUN, width=130),
        ], sort=["Against it"])
    held_back = series("Vacuum held back", told(
        "The six leaders and six waiters whose snapshot holds back vacuum most, in transactions.",
        "nothing, or a few thousand.", "millions and rising: a lock held or waited for inside a long transaction.",
        ["PgleaderVacuumHeldBack"]),
        [(worst("owner_xmin_age"), "leader {{server}} {{duty}}"),
         (worst("waiter_xmin_age"), "waiter {{server}} {{duty}}")], "short", empty=NONE_KNOWN, maxDataPoints=WORST_POINTS)
    held_back["fieldConfig"]["overrides"].append(override("/^waiter/", DASHES, by="byRegexp"))
    slow = series("Longest last takeovers", told(
        "The six duties whose last takeover took longest, by its upper bound.", "seconds.",
        "beyond what the duty declares (`takeover_slow_after`).", ["PgleaderSlowTakeover"]),
        [(worst("last_takeover_seconds"), "{{server}} {{duty}}")], "s", empty=NONE_KNOWN, maxDataPoints=WORST_POINTS)
    return ("4 · Can it be yielded safely?", [
        (9, [(24, checks)]), (8, [(8, taken_over()), (8, slow), (8, held_back)])])


def observer():
    seen = f"{server('up')} or 0 * max by (server) (last_over_time({raw('up', SERVERS)}[1h]))"
    failing = f"count by (server) (min by (server, section) ({raw('section_up', SERVERS)}) == 0) or 0 * {server('up')}"
    servers = table("What the exporters see", told(
        "One row for each server. The exporter withdraws what it cannot vouch for.",
        "**seen**, as expected, no section failing.", "**NOT SEEN**, **UNEXPECTED**, failing sections, more and more "
        "locks that nobody registered.", ["PgleaderPollStale", "PgleaderUnexpectedRole", "PgleaderUnprivileged", "PgleaderSectionDown",
        "PgleaderClockSkew", "PgleaderUnregisteredLocks"]), [
            number("Seen", seen, mappings=FRESH, width=90), label("Server", "server"),
            number("Role", server("in_recovery"), mappings=ROLE, width=85),
            number("Expected", server("role_unexpected"), mappings=EXPECTED, width=110),
            number("Sees ages", server("privileged"), mappings=YES_IS_GOOD, width=90),
            number("Ledger", server("ledger_version"), mappings=LEDGER, width=75),
            number("Sections failing", failing, mappings=NONE_IS_GOOD, limits=steps((None, "transparent"), (1, BAD)), width=120),
            number("Clock ahead by", server("clock_skew_seconds"), "s", width=115),
            number("Polls every", server("poll_interval_seconds"), "s", width=95),
            number("Unregistered", server("unregistered_locks"), width=105),
            number("Foreign", server("foreign_locks"), width=75),
            label("PostgreSQL", "version", f"max by (server, version) ({raw('server_info', SERVERS)})", width=100),
        ])
    polls = "sum by (server) (rate({}[$__rate_interval])) / sum by (server) (rate({}[$__rate_interval])) >= 0".format(
        raw("poll_seconds_sum", SERVERS), raw("poll_seconds_count", SERVERS))
    exporters = table("The exporters", told(
        "One row for each exporter.", "the newest version, reloads that work.",
        "**FAILS**: the file was refused and the old configuration is in force.", ["PgleaderReloadFailed"]), [
            label("Instance", "instance"),
            number("Reload", f"max by (instance) ({raw('config_last_reload_successful', promql.PROGRAM)})", mappings=YES_IS_GOOD, width=80),
            number("Memory", f"max by (instance) (process_resident_memory_bytes{{{promql.PROGRAM}}} and on (job, instance)"
                   f" {raw('build_info', promql.PROGRAM)})", "bytes", width=95),
            label("Version", "version", f"max by (instance, version, libpq) ({raw('build_info', promql.PROGRAM)})", width=85),
            label("libpq", "libpq", f"max by (instance, version, libpq) ({raw('build_info', promql.PROGRAM)})", width=85),
        ])
    return ("5 · Is the observer well?", [(7, [(24, servers)]), (7, [
        (12, series("How long a poll takes", told(
            "Mean duration of a poll, for each server.", "milliseconds.",
            "near the interval: the exporter slows down and its bounds widen.", ["PgleaderPollStale"]),
            [(polls, "{{server}}")], "s", maxDataPoints=WORST_POINTS)),
        (12, exporters)])])


def build():
    return dashboard("pgleader-overview", "pgleader: all duties", "Who leads each duty of each server, how long followers "
                     "have waited, whether the leaders make progress, and whether they can be yielded safely.",
                     [glance(), who(), waiting(), moving(), safe(), observer()], promql.DUTIES)
