# SPDX-License-Identifier: PostgreSQL
"""One round: a fault strikes the leader; what follows is recorded and judged."""

import os
import random
import select
import threading
import time

from tests.support.wait import DeadlinePassed, wait_until

from . import judge
from .faults import FAULTS

TAKEOVER_WITHIN = 45.0
ORPHANS_WITHIN = 15.0


class DeathWatch:
    """When a process ended, to the millisecond, by the kernel's word; ended_ns is None while it lives."""

    def __init__(self, pid):
        self.ended_ns = None
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.ended_ns = time.monotonic_ns()
            return
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        poll.poll()
        self.ended_ns = time.monotonic_ns()
        os.close(self.fd)


class Round:
    def __init__(self, stage, fault, number, draw, settles=True):
        self.stage, self.fault, self.number, self.random, self.settles = stage, fault, number, draw, settles
        self.violations, self.paused, self.explained = [], [], []
        self.stubborn, self.stubborn_chance = False, 0.2
        self.rest = (0.0, 0.3)  # how long all is well before the strike, so that it comes at any moment of the kit's second
        self.late_calls = 0
        self.struck_ns = self.successor = self.watch = None
        self.reset_history = False

    def violate(self, what):
        self.violations.append(what)

    def run(self):
        stage = self.stage
        try:
            self.leader = stage.steady()
        except DeadlinePassed as error:
            raise RuntimeError(f"could not begin round {self.number}: {error}\n{stage.evidence()}") from error
        self.before = set(stage.record.terms) - {(self.leader.generation, self.leader.pid)}
        if self.fault.stubborn and self.random.random() < self.stubborn_chance:
            self.make_stubborn()
        time.sleep(self.random.uniform(*self.rest))
        self.leader = stage.steady()
        self.owner = stage.owner()
        self.candidate = stage.candidate(self.leader.instance)
        self.watch = DeathWatch(self.leader.pid)
        try:
            self.fault.strike(self)
            if self.fault.moves and not (stage.lease and self.fault.outlived):
                self.wait_successor()
            (stage.folder / "stubborn").unlink(missing_ok=True)
            stage.steady()
        except DeadlinePassed as error:
            self.violate(f"no successor in time: {error}")
        (stage.folder / "stubborn").unlink(missing_ok=True)
        return self

    def strike(self, at_ns=None):
        self.struck_ns = at_ns or time.monotonic_ns()

    def strike_again(self, leader):
        """A fault of several steps: from here on another leads."""
        self.leader = leader
        self.watch = DeathWatch(leader.pid)
        self.strike()

    def lost_history(self):
        """The server is another one, behind the last: its own book is judged from its beginning."""
        self.reset_history = True

    def make_stubborn(self):
        self.stubborn = True
        (self.stage.folder / "stubborn").touch()

    def wait_successor(self):
        self.successor = wait_until(
            lambda: self.stage.record.working(above=self.leader.generation),
            f"another generation than {self.leader.generation} works after {self.fault.name}",
            deadline=TAKEOVER_WITHIN, every=0.05)

    def terms(self):
        """The terms of this round, the leader's that was struck among them."""
        return [t for key, t in self.stage.record.terms.items() if key not in self.before]

    def judge(self, checked):
        """Adds what was violated; returns how far the effects were looked through."""
        terms = self.terms()
        wrong, self.explained = judge.overlaps(terms, self.paused, self.settles)
        self.violations += wrong + judge.generations(terms) + judge.reconciled(terms)
        wrong, highest = judge.effects(self.stage, 0 if self.reset_history else checked)
        self.violations += wrong + judge.calls(self.stage.target.calls)
        try:
            wait_until(lambda: not judge.orphans(self.stage), "no orphans", deadline=ORPHANS_WITHIN)
        except DeadlinePassed:
            for pid in judge.orphans(self.stage):
                self.violate(f"an orphan process: {pid}")
        return highest

    def measured(self):
        """The times of the round in milliseconds from the strike; what did not happen is None."""
        def since(ns, start=self.struck_ns):
            return None if ns is None or start is None else (ns - start) / 1e6
        release = self.stage.record.release(self.owner.seen_as, self.struck_ns) or (None, None)
        new = self.successor
        moved = new is not None and new.generation > self.leader.generation
        stopped = self.watch.ended_ns if moved else None
        return {
            "sigterm": since(self.leader.term_ns) if self.leader.term_ns and moved else None,
            "stopped": since(stopped),
            "released_from": since(release[0]), "released_to": since(release[1]),
            "first_work": since(new.start_ns) if moved else None,
            "first_effect": since(new.effect_ns) if moved else None,
            "release_to_work": since(new.start_ns, release[0]) if moved and release[0] else None,
            "margin": since(release[0], stopped) if moved and stopped and release[0] else None,
        }

    def result(self):
        refused = sum(len(t.refused) for t in self.terms())
        return {"round": self.number, "fault": self.fault.name, "stubborn": self.stubborn,
                "leader": str(self.leader), "successor": str(self.successor) if self.successor else None,
                "reconciled_first": not judge.reconciled(self.terms()), "refused": refused,
                "late_calls_refused": self.late_calls, "explained_overlap_ms": max(self.explained, default=None),
                "violations": self.violations, "evidence": self.stage.evidence() if self.violations else None,
                **self.measured()}


def deck(names, draw):
    """Faults for ever: all of them, shuffled, again and again."""
    while True:
        cards = list(names)
        draw.shuffle(cards)
        yield from cards


def play(stage, rounds, seed, names=None, tell=lambda result: None):
    """Runs the rounds and returns their results; a round that fails is told of and the rest go on."""
    draw = random.Random(seed)
    cards = deck(names or [n for n, fault in FAULTS.items() if fault.lease or not stage.lease], draw)
    results, checked = [], 0
    for number in range(1, rounds + 1):
        done = Round(stage, FAULTS[next(cards)], number, draw).run()
        checked = done.judge(checked)
        results.append(done.result())
        tell(results[-1])
    return results
