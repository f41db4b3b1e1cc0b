# SPDX-License-Identifier: PostgreSQL
"""What was measured, as tables of text."""

import math

COLUMNS = (("sigterm", "loss to SIGTERM at the child"), ("release_to_work", "release to the successor's first work"),
           ("first_work", "hand-over: fault to first work"), ("first_effect", "fault to first effect"))


def percentile(values, share):
    """The smallest value that at least that share of the values does not exceed; None of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def distribution(values):
    known = [v for v in values if v is not None]
    return {"n": len(known), "p50": percentile(known, 0.5), "p99": percentile(known, 0.99), "max": max(known, default=None)}


def distributions(results):
    """{fault: {column: distribution}}, faults in alphabetical order."""
    names = sorted({r["fault"] for r in results})
    return {name: {column: distribution([r[column] for r in results if r["fault"] == name]) for column, _ in COLUMNS}
            for name in names}


def milliseconds(value):
    if value is None:
        return "-"
    return f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def line(result):
    """One round in one line; what was violated follows, a line each."""
    words = [f"{result['round']:4d} {result['fault']:20}{' stubborn' if result['stubborn'] else '':9}"]
    for key, word in (("sigterm", "SIGTERM"), ("stopped", "stopped"), ("released_to", "released"), ("first_work", "first work"),
                      ("first_effect", "first effect")):
        words.append(f"{word} {milliseconds(result[key])}")
    if result["refused"] or result["late_calls_refused"]:
        words.append(f"refused {result['refused'] + result['late_calls_refused']}")
    if result["explained_overlap_ms"] is not None:
        words.append(f"paused beside its successor {milliseconds(result['explained_overlap_ms'])}")
    said = [f"     {name}: {each}" for name, lines in (result["evidence"] or {}).items() for each in lines]
    return "\n".join([", ".join(words), *(f"     VIOLATION {v}" for v in result["violations"]), *said])


def table(results):
    """The distributions, in milliseconds, as a Markdown table."""
    lines = ["| fault | rounds | " + " | ".join(f"{what}, ms: p50 / p99 / max" for _, what in COLUMNS) + " |",
             "|---|---|" + "---|" * len(COLUMNS)]
    for name, columns in distributions(results).items():
        cells = ["-" if d["n"] == 0 else " / ".join(milliseconds(d[k]) for k in ("p50", "p99", "max"))
                 for d in columns.values()]
        rounds = sum(r["fault"] == name for r in results)
        lines.append(f"| {name} | {rounds} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def margins(results):
    """How long before the server freed the lock the work had stopped, where the network was cut."""
    return [r["margin"] for r in results if r["fault"] == "network-cut" and r["margin"] is not None]


def violations(results):
    return [f"round {r['round']}, {r['fault']}: {v}" for r in results for v in r["violations"]]


def numbers_table(rows):
    lines = ["| | must reach | reached | |", "|---|---|---|---|"]
    lines += [f"| {r['what']} | {r['must']} | {r['reached']} | {'yes' if r['ok'] else 'NO'} |" for r in rows]
    return "\n".join(lines)
