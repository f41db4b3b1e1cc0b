# SPDX-License-Identifier: PostgreSQL
"""The measured part: each number that must be reached, on a stage of its own, one fault at a time."""

import random
import re
import time
from pathlib import Path

from tests.support.wait import wait_until

from . import report
from .faults import FAULTS
from .rounds import Round
from .stage import Stage

MEASURES = {}
STATISTICS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
CALLS = ("select coalesce(sum(calls), 0)::bigint from pg_stat_statements s join pg_roles r on r.oid = s.userid "
         "where r.rolname = 'worker' and s.query like %s")
CROWD = 200
RESTED = (1.7, 2.3)  # seconds after which a candidate that has lost competes again, and all are as before
COUNTED_EVERY = 10.0  # a candidate counts the others that often, and paces its tries by it


def measure_of(function):
    MEASURES[function.__name__.replace("_", "-")] = function
    return function


def row(what, must, reached, ok):
    return {"what": what, "must": must, "reached": reached, "ok": bool(ok)}


def sample(stage, name, count, tell, settles=True, stubborn=lambda number: False, rest=RESTED):
    """The results of that many rounds of one fault."""
    draw = random.Random(1)
    results = []
    for number in range(1, count + 1):
        done = Round(stage, FAULTS[name], number, draw, settles)
        done.stubborn_chance = 1.0 if stubborn(number) else 0.0
        done.rest = rest
        done.run()
        result = done.result()
        results.append(result)
        if result["violations"]:
            tell(report.line(result))
    return results


def reached(values, unit="ms"):
    """(text, p50, p99); a number without samples is none."""
    found = report.distribution(values)
    text = (f"p50 {report.milliseconds(found['p50'])}, p99 {report.milliseconds(found['p99'])}, "
            f"max {report.milliseconds(found['max'])} {unit} (n = {found['n']})")
    return text, found["p50"], found["p99"]


def takeover_rows(results, what):
    """To the first work and, told beside it, to the first effect: connecting and claiming are the work's own."""
    text, p50, p99 = reached([r["first_work"] for r in results])
    effect, _, _ = reached([r["first_effect"] for r in results])
    return row(f"{what} to the successor's first work, 3 candidates, settling on", "p50 < 400, p99 < 1300 ms",
               f"{text}; first effect {effect}", p50 is not None and p50 < 400 and p99 < 1300)


@measure_of
def terminated(samples, tell):
    with Stage(3, networks=False) as stage:
        results = sample(stage, "backend-terminated", samples, tell)
    text, _, p99 = reached([r["sigterm"] for r in results])
    return [row("loss (terminated backend) to SIGTERM at the child", "p99 < 5 ms", text, p99 is not None and p99 < 5),
            takeover_rows(results, "terminated backend")]


@measure_of
def killed(samples, tell):
    with Stage(3, networks=False) as stage:
        return [takeover_rows(sample(stage, "killed-run", samples, tell), "kill -9 of the leader's pgleader-run")]


@measure_of
def graceful(samples, tell):
    with Stage(3, networks=False) as stage:
        results = sample(stage, "graceful-stop", samples, tell)
    text, _, p99 = reached([r["first_work"] for r in results])
    effect, _, _ = reached([r["first_effect"] for r in results])
    return [row("graceful hand-over, 3 candidates: SIGTERM to the successor's first work", "p99 < 100 ms",
                f"{text}; first effect {effect}", p99 is not None and p99 < 100)]


def complaints(log):
    """What the candidates' sessions have written to the server's log, the terminations that we did excepted."""
    lines = re.findall(r"^.* pgleader:.*$", log, re.M)
    return [line for line in lines if "due to administrator command" not in line]


@measure_of
def queue(samples, tell):
    with Stage(3, ("--recontend", "--wait=queue", "--settle=0"), networks=False) as stage:
        stage.steady()
        time.sleep(3)  # bounded waits run out meanwhile: none may be logged
        results = sample(stage, "backend-terminated", samples, tell, settles=False)
        said = complaints(stage.pg.log_text())
    waits = [r["first_work"] - max(r["released_from"], 0) for r in results
             if r["first_work"] is not None and r["released_from"] is not None]
    text, _, p99 = reached(waits)
    return [row("--wait queue --settle 0: session end to the successor's first work", "p99 < 20 ms, log silent",
                f"{text}; {len(said)} lines in the log{': ' + said[0] if said else ''}",
                p99 is not None and p99 < 20 and not said)]


def crowd(count, samples, tell):
    """(tries a second, take-over times) with that many candidates."""
    settings = {**STATISTICS, "max_connections": str(count + 60)}
    with Stage(count, networks=False, settings=settings) as stage:
        stage.sql("create extension pg_stat_statements")
        stage.steady(deadline=120)
        time.sleep(COUNTED_EVERY + count / 2)  # now each knows how many they are, and has drawn a pause by it
        before = stage.sql(CALLS, ("%pg_try_advisory_lock%",))[0][0]
        began = time.monotonic()
        time.sleep(30)
        tries = (stage.sql(CALLS, ("%pg_try_advisory_lock%",))[0][0] - before) / (time.monotonic() - began)
        results = sample(stage, "backend-terminated", samples, tell, rest=RESTED if count < 20 else (0.0, 0.3))
    tell(f"{count} candidates: {tries:.2f} tries a second; take-over {reached([r['first_work'] for r in results])[0]}")
    return tries, [r["first_work"] for r in results]


@measure_of
def tries(samples, tell):
    few, few_times = crowd(3, samples, tell)
    some, _ = crowd(CROWD // 10, 0, tell)
    many, many_times = crowd(CROWD, samples, tell)
    a, b = report.percentile([t for t in few_times if t is not None], 0.5), report.percentile(
        [t for t in many_times if t is not None], 0.5)
    return [row(f"tries per second and duty with 3 / {CROWD // 10} / {CROWD} candidates", "4 or fewer",
                f"{few:.2f} / {some:.2f} / {many:.2f}", max(few, some, many) <= 4.0),
            row(f"take-over p50 with {CROWD} candidates against that with 3", "within 15 %",
                f"{b:.1f} against {a:.1f} ms: {(b / a - 1) * 100:+.0f} %", b <= a * 1.15)]


@measure_of
def cut(samples, tell):
    """Every second one with work that ignores SIGTERM, so that SIGKILL has to end it in time."""
    with Stage(3) as stage:
        results = sample(stage, "network-cut", max(4, samples // 10), tell, stubborn=lambda number: number % 2 == 0)
    found = [(r["margin"], r["stubborn"]) for r in results]
    known = [m for m, _ in found if m is not None]
    obedient = min((m for m, stubborn in found if m is not None and not stubborn), default=None)
    ignoring = min((m for m, stubborn in found if m is not None and stubborn), default=None)
    return [row("network cut: the leader's work stopped before the server freed the lock", "always",
                f"{sum(m > 0 for m in known)} of {len(found)}; least margin {report.milliseconds(obedient)} ms, "
                f"work that ignores SIGTERM {report.milliseconds(ignoring)} ms",
                len(known) == len(found) and all(m > 0 for m in known))]


def cpu_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@measure_of
def idle(_samples, tell):
    with Stage(1, networks=False, command=["sleep", "inf"], settings=STATISTICS) as stage:
        stage.sql("create extension pg_stat_statements")
        wait_until(stage.owner, "it leads")
        time.sleep(2)
        pid = stage.candidates[0].process.pid
        began, before, calls = time.monotonic(), cpu_ns(pid), stage.sql(CALLS, ("%",))[0][0]
        time.sleep(30)
        seconds = time.monotonic() - began
        cost = (cpu_ns(pid) - before) / 1e9 / seconds * 100
        statements = (stage.sql(CALLS, ("%",))[0][0] - calls) / seconds
    return [row("a leader's idle cost", "< 0.1 % of a core, 2 statements/s or fewer",
                f"{cost:.3f} %, {statements:.2f} statements/s", cost < 0.1 and statements <= 2)]


def measure(names, samples, tell):
    rows = []
    for name in names:
        found = MEASURES[name](samples, tell)
        for each in found:
            tell(f"{'reached' if each['ok'] else 'NOT REACHED'}: {each['what']}: {each['reached']} (must: {each['must']})")
        rows += found
    return rows
