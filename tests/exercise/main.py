# SPDX-License-Identifier: PostgreSQL
"""The failover exercise: real PostgreSQL, real candidates, faults drawn at random, and a verdict."""

import argparse
import json
import signal
import sys
import time

from . import numbers, report
from .faults import FAULTS
from .rounds import play
from .stage import Stage


def arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/exercise", description=__doc__)
    parser.add_argument("--rounds", type=int, metavar="N", help="how many random rounds (20; with --numbers none)")
    parser.add_argument("--candidates", type=int, default=3, metavar="N", help="how many candidates (3)")
    parser.add_argument("--seed", type=int, metavar="S", help="draws the same faults again (the time of day)")
    parser.add_argument("--fault", action="append", choices=sorted(FAULTS), metavar="NAME",
                        help=f"only this fault; may be given again: {', '.join(sorted(FAULTS))}")
    parser.add_argument("--numbers", nargs="*", choices=sorted(numbers.MEASURES), metavar="NAME",
                        help=f"the measured part, all or some of: {', '.join(numbers.MEASURES)}")
    parser.add_argument("--samples", type=int, default=100, metavar="N", help="take-overs a number is made of (100)")
    parser.add_argument("--lease", action="store_true", help="candidates of a lease instead of a lock")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, on standard output")
    found = parser.parse_args(argv)
    if found.rounds is None:
        found.rounds = 20 if found.numbers is None else 0
    if not 2 <= found.candidates <= 60:
        parser.error("--candidates is not 2 to 60: a leader needs a successor, and each a network")
    return found


def run_rounds(options, tell):
    seed = options.seed if options.seed is not None else int(time.time())
    if options.rounds == 0:
        return [], seed
    tell(f"{options.rounds} rounds, {options.candidates} candidates, seed {seed}; times in ms from the fault")
    with Stage(options.candidates, lease=options.lease) as stage:
        return play(stage, options.rounds, seed, options.fault, lambda result: tell(report.line(result))), seed


def tell_rounds(results, tell):
    tell("\n" + report.table(results))
    margins = report.margins(results)
    if margins:
        tell(f"\nNetwork cut: the work had stopped {report.milliseconds(min(margins))} to "
             f"{report.milliseconds(max(margins))} ms before the server freed the lock.")
    wrong = report.violations(results)
    tell(f"\n{len(results)} rounds, {len(wrong)} violations" + "".join(f"\n{w}" for w in wrong))


def main(argv=None):
    options = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is cleared away
    out = sys.stderr if options.json else sys.stdout
    tell = lambda text: print(text, file=out, flush=True)  # noqa: E731
    results, seed = run_rounds(options, tell)
    if results:
        tell_rounds(results, tell)
    rows = []
    if options.numbers is not None:
        rows = numbers.measure(options.numbers or list(numbers.MEASURES), options.samples, tell)
        if results:
            count = len(report.violations(results))
            rows.append(numbers.row(f"violations in {len(results)} random rounds", "zero of every kind", str(count), not count))
        tell("\n" + report.numbers_table(rows))
    wrong = report.violations(results)
    if options.json:
        print(json.dumps({"seed": seed, "rounds": results, "distributions": report.distributions(results),
                          "violations": wrong, "numbers": rows}, indent=1))
    return 1 if wrong or not all(row["ok"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
