# SPDX-License-Identifier: PostgreSQL
"""One race after the other, each judged from outside: who was ended, and what was said of it."""

import random
import time
from collections import Counter

from .acts import ACTS, LEDGER, OWN, reserve, succeed
from .stage import DUTY, KEYS, Stage

# Where the racer acts: while the question is open; right before the statement, which waits for it; while the statement is on
# its way; after the grace, likewise held; and at a moment that closes in on the signal.
PAUSES = {"asked": 20, "held": 20, "sent": 30, "grace": 6, "free": 40}
WAIT_MS, GRACE_MS = 40, 25
PREFIXES = ("no", "asked")  # what `sent` says where nothing was signalled


class Races:
    """Rounds on a stage; `violations`, and counts of what came of them."""

    def __init__(self, stage, driver, seed):
        self.stage, self.driver = stage, driver
        self.random = random.Random(seed)
        self.road = LEDGER if stage.ledger else OWN
        self.delay = 0.03  # when a free racer acts: closing in on the signal from both sides
        self.outcomes = Counter()
        self.violations = []
        self.residue = self.term_residue = self.signals = self.contested = 0
        self.rounds = 0
        succeed(stage)

    def draw(self, kinds):
        return self.random.choices(list(kinds), weights=[getattr(k, "share", k) for k in kinds.values()])[0]

    def prepare(self, name, act, pause):
        """A leader that suits, and the state of a round: the follower that waits, or None."""
        stage, world = self.stage, self.stage.world
        stage.gave_up = stage.dropped = stage.retired = False
        stage.theirs = None
        listens = stage.ledger and pause == "grace"
        if listens != world.listens:
            world.begin(world.owner, listens)
        if name == "key changed":
            reserve(stage)
        follower = None
        if act.queue and self.random.random() < 0.4:
            follower = world.fresh()
            follower.queue(stage.key)
        return follower

    def play(self):
        """One round; whatever was wrong with it is in violations."""
        pause = self.draw({p: s for p, s in PAUSES.items() if self.stage.ledger or p != "grace"})
        name = self.draw({n: a for n, a in ACTS.items() if self.road in a.roads})
        act, world = ACTS[name], self.stage.world
        follower = self.prepare(name, act, pause)
        confirmed, generation = world.owner, world.generation
        world.ended()
        heard = self.driver.ask(DUTY, confirmed.pid, -1 if generation is None else generation, WAIT_MS, GRACE_MS if pause == "grace" else 0,
                                {"held": "intent", "sent": "intent", "grace": "grace"}.get(pause, "-"))
        known = [s for s in (*world.sessions(), follower) if s]
        result, before = self.race(act, pause, heard, follower)
        self.rounds += 1
        self.judge(name, pause, before, world, confirmed, known, result)
        self.clear(world, follower)

    def race(self, act, pause, heard, follower):
        """The yield against the act: the JSON object of the yield, and whether the act was over before the statement."""
        acted = before = False
        if heard == "asked" and pause == "asked":
            act.deed(self.stage, follower)
            acted = before = True
        if heard == "asked":
            self.driver.go()
        if heard == "asked" and pause == "free":
            time.sleep(self.delay * self.random.uniform(0.7, 1.3))
            act.deed(self.stage, follower)
            acted = True
        result = heard if isinstance(heard, dict) else self.driver.hear()
        if result == "armed":
            if pause == "sent":
                self.driver.go()
                time.sleep(self.random.random() * 0.003)
            act.deed(self.stage, follower)
            acted = True
            if pause != "sent":
                before = True
                self.driver.go()
            result = self.driver.hear()
        if pause == "free":
            self.delay = max(0.0005, min(0.3, self.delay * (0.9 if result["sent"] == "yes" else 1.1)))
        if not acted:
            act.deed(self.stage, follower)
        return result, before

    def judge(self, name, pause, before, world, confirmed, known, result):
        """before: the act was over then. world is the server that was asked about; what it and its sessions say is compared with what the program said."""
        act, stage = ACTS[name], self.stage
        wrong = []
        sent, said = result["sent"], result["outcome"] or result["end"]
        if act.server:  # everybody of before is gone, by no signal of ours; whoever is there now was never confirmed
            ended, hit = set(), {s.pid for s in stage.world.sessions() if not s.alive()}
            hit |= set(stage.world.ended()) - {confirmed.pid}
            if hit or not crowd_alive(stage.world):
                wrong.append(f"on the server that is there now {hit or 'the crowd'} ended")
        else:
            gone = {s for s in {*known, *world.sessions()} if not s.closed and not s.alive()}
            ended = set(world.ended())
            if {s.pid for s in gone} - ended or not crowd_alive(world):
                wrong.append(f"sessions {[s.identity for s in gone]} are gone, the server says that it ended {ended}")
            if gone - {confirmed} or ended - {confirmed.pid}:
                wrong.append(f"ended {[s.identity for s in gone]} {ended}, confirmed {confirmed.identity}")
        changes = self.road not in act.still
        if ended and sent in PREFIXES:
            wrong.append(f"it said that nothing was signalled ({sent}), and {ended} ended")
        if sent == "yes" and not ended and not confirmed.closed and not act.server:
            wrong.append("it said that it was signalled, and it is there")
        if changes and before and (ended or sent == "yes"):
            wrong.append(f"it was over before the statement, and {ended or 'somebody'} was signalled")
        if name == "nothing" and (sent != "yes" or not ended):
            wrong.append("nothing had changed, and it was not ended")
        if said in ("moved", "returned", "vacant") and sent in ("no",):
            wrong.append(f"{said}, and nothing was sent")
        self.judge_lead(name, pause, ended, wrong)
        if stage.ledger:
            self.judge_audit(name, world, result, wrong)
        elif result["sent"] != "no" and not [s for s in result["steps"] if s["sentence"].startswith("Intent: end pid")]:
            wrong.append("no intent stands in the log")
        self.signals += bool(ended)
        self.contested += bool(ended and name != "nothing" and pause in ("free", "sent"))
        self.outcomes[name, said, sent] += 1
        self.violations += [f"round {self.rounds}, {name}, {pause}: {w}; {result['sentence']} {result['steps']}" for w in wrong]

    def judge_lead(self, name, pause, ended, wrong):
        """Whether who was ended still led, by what the server had confirmed to it."""
        stage = self.stage
        if ended and stage.gave_up and self.road not in ACTS[name].still:
            if stage.ledger:
                wrong.append("ended, and its term was over")
            else:
                self.residue += 1
        if ended and stage.dropped:
            self.term_residue += 1

    def judge_audit(self, name, world, result, wrong):
        """The row of the intent says what the program said; a refusal before it has a row of its own."""
        stage = self.stage
        if stage.theirs:
            row = stage.world.sql("select outcome, used_at from pgleader.yield where intent = %s", stage.theirs)
            if row != [(None, None)]:
                wrong.append(f"the yield of the other server was touched: {row}")
        if ACTS[name].server and world is not stage.world:
            return
        if result["intent"] is None:
            self.judge_refusal(name, world, result, wrong)
            return
        row = world.sql("select outcome, signalled, used_at is not null from pgleader.yield where intent = %s", result["intent"])
        if not row:
            wrong.append(f"intent {result['intent']} is not in the audit")
            return
        outcome, signalled, used = row[0]
        if outcome != result["outcome"] or not result["recorded"]:
            wrong.append(f"the audit says {outcome}, the program {result['outcome']}")
        if (signalled is True) != (result["sent"] == "yes") and result["sent"] != "maybe":
            wrong.append(f"the audit says signalled {signalled}, the program {result['sent']}")
        if used != (signalled is not None):
            wrong.append("used and signalled do not belong together")

    def judge_refusal(self, name, world, result, wrong):
        if result["end"] not in ("refused", "no-permission") or name in ("duty retired", "server restarted", "another server"):
            return
        row = world.sql("select why, reason from pgleader.refused_yield order by refusal desc limit 1")
        if row != [(result["sentence"], "race")] or not result["recorded"]:
            wrong.append(f"the refusal in the audit is {row}")

    def clear(self, before, follower):
        """A leader for the next round, of few sessions."""
        stage, world = self.stage, self.stage.world
        if stage.retired:
            world.sql("select pgleader.register_duty(%s, lock_key => %s)", DUTY, stage.key)
        if world.ledger and not stage.retired:
            world.sql("update pgleader.yield set outcome = 'unknown' where outcome is null")
        self.trim(world)
        owner = world.owner
        waits = follower is not None and follower.queued and before is world
        if owner.alive() and not waits and self.leads(world, owner):
            return
        if not owner.closed and owner.alive():
            owner.do("select pg_advisory_unlock_all()")
        succeed(stage, follower if waits else None)
        self.trim(world)

    @staticmethod
    def trim(world):
        """The bench is of few, and of those who are there."""
        world.bench[:] = [session for session in world.bench if session.alive()]
        for session in world.bench[6:]:
            session.close()
        del world.bench[6:]

    def leads(self, world, owner):
        """Alone, in an open term, by the one key."""
        held = world.sql("select objid::int, mode from pg_locks where pid = %s and locktype = 'advisory' and objsubid = 1", owner.pid)
        if held != [(self.stage.key, "ExclusiveLock")]:
            return False
        if not world.ledger:
            return True
        return world.sql("select generation = %s and term_ended_at is null and retired_at is null and next_lock_objid is null from pgleader.duty "
                         "where duty = %s", world.generation, DUTY) == [(True,)]


def crowd_alive(world):
    return world.crowd.execute("select 1").fetchone() == (1,)
