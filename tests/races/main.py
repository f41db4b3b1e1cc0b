# SPDX-License-Identifier: PostgreSQL
"""Races against the yield: the leader changes in every way and at every moment while it is confirmed and sent."""

import argparse
import sys
import time
from collections import Counter

from .acts import LEDGER, OWN
from .driver import Driver
from .rounds import Races
from .stage import Stage


def arguments(argv):
    parser = argparse.ArgumentParser(prog="scripts/races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="how many races on each road (200)")
    parser.add_argument("--locks", type=int, default=0, metavar="N", help="how many advisory locks another session holds (0)")
    parser.add_argument("--road", choices=(LEDGER, OWN), help="only with the ledger, or only by the operator's own right")
    parser.add_argument("--seed", type=int, metavar="S", help="draws the same changes again (the time of day)")
    return parser.parse_args(argv)


def race(road, rounds, locks, seed):
    """That many races; SIGINT ends them after those that were run."""
    with Stage(road == LEDGER, locks) as stage, Driver(stage.entry()) as driver:
        races = Races(stage, driver, seed)
        try:
            while races.rounds < rounds:
                races.play()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        return races


def report(road, locks, races, seconds):
    """What came of them, as text."""
    lines = [f"{road}, {locks} other locks, {races.rounds} races in {seconds:.0f} s: {races.signals} leaders ended, {len(races.violations)} violations"]
    lines.append(f"  ended while the leader changed: {races.contested}; of those it had unlocked within the statement: {races.residue}, "
                 f"with its term still open: {races.term_residue}; process numbers that came back: {races.stage.reused}")
    by_act = {}
    for (name, said, sent), n in races.outcomes.items():
        by_act.setdefault(name, Counter())[said, sent] += n
    for name, ends in sorted(by_act.items()):
        lines.append(f"  {name:20} " + ", ".join(f"{said} (sent: {sent}) {n}" for (said, sent), n in ends.most_common()))
    return "\n".join(lines + [f"  VIOLATION {v}" for v in races.violations[:20]])


def main(argv=None):
    options = arguments(argv)
    seed = options.seed if options.seed is not None else int(time.time())
    wrong = 0
    for road in [options.road] if options.road else [LEDGER, OWN]:
        began = time.monotonic()
        races = race(road, options.rounds, options.locks, seed)
        print(report(road, options.locks, races, time.monotonic() - began) + f"\n  seed {seed}", flush=True)
        wrong += len(races.violations)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
