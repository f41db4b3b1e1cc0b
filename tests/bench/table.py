# SPDX-License-Identifier: PostgreSQL
"""The table that a run prints: what was measured, what it must reach, and whether it did."""


def begin():
    print("| what | measured | must reach | reached |\n|---|---|---|---|")


def report(what, measured, must="", reached=None):
    verdict = "" if reached is None else "yes" if reached else "**no**"
    print(f"| {what} | {measured} | {must} | {verdict} |", flush=True)


def at_most(what, value, limit, unit, digits=2, more=""):
    report(what, f"{value:.{digits}f} {unit}{more}", f"{limit:g} {unit}", value <= limit)


def peer(what, value, unit, digits=2):
    """A figure of another program, measured beside ours."""
    report(what, f"{value:.{digits}f} {unit}", "peer")
