# SPDX-License-Identifier: PostgreSQL
"""What becomes of the leader between the asking and the signal. Each leaves stage.world.owner leading alone, or nobody."""

import time

import psycopg
from tests.support.wait import wait_until

from .stage import DUTY, KEYS, LAST_PID, Session


class Act:
    """One change. still: what was confirmed leads again afterwards, as far as that road can tell. queue: a follower may wait."""

    def __init__(self, deed, roads, share, still=(), queue=False, server=False):
        self.deed, self.roads, self.share = deed, roads, share
        self.still, self.queue, self.server = still, queue, server


def give_back(stage, world, owner):
    """The leader ends its term and unlocks; what the server has confirmed of that is known."""
    if world.ledger:
        if owner.do("select pgleader.end_term(%s, %s, 'released')", DUTY, world.generation) is None:
            return False
        stage.gave_up = True
    if owner.do("select pg_advisory_unlock(%s)", stage.key) is None:
        return False
    stage.gave_up = True
    return True


def retire_session(world, session):
    """Back to those who lead nothing, if it is still there."""
    if session is not world.owner and not session.closed and not session.queued:
        world.bench.append(session)


def succeed(stage, follower=None):
    """Another session leads: who waits in the queue, or a fresh one. One that is gone by then is replaced."""
    world = stage.world
    old = world.owner
    while not world.lead(follower or world.fresh(), stage.key):
        follower = None
    if old and old is not world.owner:
        retire_session(world, old)


def nothing(stage, follower):
    """The leader stays."""


def hand_over(stage, follower):
    give_back(stage, stage.world, stage.world.owner)
    succeed(stage, follower)


def drop(stage, follower):
    """Unlocks without ending its term, as a worker without the kit does."""
    if stage.world.owner.do("select pg_advisory_unlock(%s)", stage.key) is not None:
        stage.dropped = True
    succeed(stage, follower)


def close(stage, follower):
    stage.world.owner.close()
    succeed(stage, follower)


def reacquire(stage, _):
    """The session itself gives it back and takes it again."""
    world = stage.world
    owner = world.owner
    if not give_back(stage, world, owner) or not world.lead(owner, stage.key):
        succeed(stage)


def there_and_back(stage, _):
    """Another leads in between."""
    world = stage.world
    owner = world.owner
    again = give_back(stage, world, owner)
    succeed(stage)
    if again and owner in world.bench:
        between = world.owner
        give_back(stage, world, between)
        world.bench.remove(owner)
        if not world.lead(owner, stage.key):
            succeed(stage)
        retire_session(world, between)


def new_term(stage, _):
    """The same session, a new generation."""
    world = stage.world
    if world.begin(world.owner):
        stage.gave_up = True


def end_term(stage, _):
    """It keeps the lock, and leads no more."""
    world = stage.world
    if world.owner.do("select pgleader.end_term(%s, %s, 'released')", DUTY, world.generation) is not None:
        stage.gave_up = True


def share(stage, _):
    """It holds the key still, in share mode."""
    world = stage.world
    if give_back(stage, world, world.owner):
        world.owner.do("select pg_try_advisory_lock_shared(%s)", stage.key)


def reserve(stage):
    """Before the asking: the other key is reserved, and the leader holds both."""
    other = KEYS[stage.key == KEYS[0]]
    stage.world.sql("select pgleader.register_duty(%s, lock_key => %s)", DUTY, other)
    stage.world.owner.do("select pg_advisory_lock(%s)", other)


def change_key(stage, _):
    """The session leads on, by another key. Refused where it is just ending: then the key stays."""
    try:
        stage.world.sql("select pgleader.complete_key_change(%s)", DUTY)
        stage.key = KEYS[stage.key == KEYS[0]]
    except psycopg.errors.ObjectInUse:
        stage.world.sql("select pgleader.register_duty(%s, lock_key => %s)", DUTY, stage.key)


def take_another(stage, _):
    """The session goes on, by another key that has nothing to do with the duty."""
    world = stage.world
    if give_back(stage, world, world.owner):
        world.owner.do("select pg_advisory_lock(%s)", KEYS[stage.key == KEYS[0]])


def retire(stage, _):
    """By somebody else: the leader answers afterwards if it was not signalled before."""
    stage.world.sql("select pgleader.retire_duty(%s)", DUTY)
    stage.retired = True
    stage.gave_up = stage.world.owner.do("select 1") is not None


def restart(stage, _):
    stage.restart()
    succeed(stage)


def swap(stage, _):
    """Another server, where somebody leads, and where an open yield has the number that ours has."""
    intent = stage.world.ledger and stage.world.sql("select coalesce(max(intent), 1) from pgleader.yield")[0][0]
    stage.swap()
    succeed(stage)
    if stage.world.ledger:
        stage.world.sql("update pgleader.yield set outcome = 'unknown' where outcome is null")
        stage.world.sql("delete from pgleader.yield where intent >= %s", intent)
        stage.world.sql("select setval(pg_get_serial_sequence('pgleader.yield', 'intent'), %s, false)", intent)
        stage.theirs = stage.world.sql("select pgleader.request_yield(%s, %s, 'theirs', '0')", DUTY, stage.world.generation)[0][0]


def reuse(stage, _):
    """Its process number comes back with another session, where the machine lets one choose the next number."""
    world = stage.world
    old = world.owner
    old.close()
    wait_until(lambda: not world.sql("select 1 from pg_stat_get_activity(%s) where pid is not null", old.pid), "the session is gone", every=0.001)
    session, until = None, time.monotonic() + 0.25
    while (not session or session.pid != old.pid) and time.monotonic() < until:
        if session:
            world.bench.append(session)
        try:
            with open(LAST_PID, "w", encoding="ascii") as last:
                last.write(str(old.pid - 1))
        except OSError:
            until = 0
        session = Session(world.pg, "again")
    stage.reused += session.pid == old.pid
    if not world.lead(session, stage.key):
        succeed(stage)


LEDGER, OWN = "ledger", "own"
BOTH = (LEDGER, OWN)
ACTS = {
    "nothing": Act(nothing, BOTH, 6, still=BOTH, queue=True),
    "another leads": Act(hand_over, BOTH, 20, queue=True),
    "unlocked, term open": Act(drop, (LEDGER,), 8, queue=True),
    "session closed": Act(close, BOTH, 10, queue=True),
    "taken again": Act(reacquire, BOTH, 10, still=(OWN,)),
    "there and back": Act(there_and_back, BOTH, 8, still=(OWN,)),
    "new term": Act(new_term, (LEDGER,), 10),
    "term ended": Act(end_term, (LEDGER,), 8),
    "shared": Act(share, BOTH, 6),
    "key changed": Act(change_key, (LEDGER,), 6),
    "another key taken": Act(take_another, BOTH, 6),
    "duty retired": Act(retire, (LEDGER,), 4),
    "pid reused": Act(reuse, BOTH, 4),
    "server restarted": Act(restart, BOTH, 1.5, server=True),
    "another server": Act(swap, BOTH, 1, server=True),
}
