# SPDX-License-Identifier: PostgreSQL
"""The faults. Each is a function of a round: it strikes the leader, waits for what must come, and puts all right again."""

import signal
import time
from contextlib import contextmanager

import psycopg

from tests.support.wait import wait_until

FAULTS = {}


class Fault:
    """moves: the leadership must pass on. stubborn: also tried with work that ignores SIGTERM. outlived: a leader by
    lease may lead on on a new session. lease: leaders by lease have it too."""

    def __init__(self, function, moves, stubborn, outlived, lease):
        self.name = function.__name__.replace("_", "-")
        self.strike, self.moves, self.stubborn, self.outlived, self.lease = function, moves, stubborn, outlived, lease


def fault(moves=True, stubborn=False, outlived=False, lease=True):
    def register(function):
        made = Fault(function, moves, stubborn, outlived, lease)
        FAULTS[made.name] = made
        return function
    return register


def terminate(round_, pid=None):
    """Returns the moment of it by the server's clock, as CLOCK_MONOTONIC, ns."""
    rows = round_.stage.sql("select (extract(epoch from clock_timestamp()) * 1e9)::bigint, pg_terminate_backend(%s)",
                            (pid or round_.owner.pid,))
    return rows[0][0] - (time.time_ns() - time.monotonic_ns())


@fault(stubborn=True, outlived=True)
def backend_terminated(r):
    r.strike(terminate(r))


@fault(stubborn=True, outlived=True)
def connection_killed(r):
    """The lock's own connection is reset in both directions; the work's is not."""
    r.strike()
    r.candidate.link.reset(r.owner.port)


@fault(stubborn=True)
def killed_run(r):
    r.strike()
    r.stage.signal(r.candidate.process.pid, signal.SIGKILL)


@fault()
def killed_child(r):
    r.strike()
    r.stage.signal(r.leader.pid, signal.SIGKILL)


@fault(stubborn=True)
def graceful_stop(r):
    r.strike()
    r.stage.signal(r.candidate.process.pid, signal.SIGTERM)


@fault()
def redeployed(r):
    """All candidates at once; the supervisor starts each again when it has ended."""
    r.strike()
    for candidate in r.stage.candidates:
        r.stage.signal(candidate.process.pid, signal.SIGTERM)


def family(r):
    """pgleader-run, its guard and the process group of the work."""
    return [r.candidate.process.pid, *r.candidate.children()]


@contextmanager
def frozen(r, pids):
    for pid in pids:
        r.stage.signal(pid, signal.SIGSTOP)
    r.paused.append(r.leader)
    try:
        yield
    finally:
        for pid in reversed(pids):
            r.stage.signal(pid, signal.SIGCONT)


@fault(moves=False)
def paused_shortly(r):
    """Shorter than the period of the checks: nothing need happen."""
    r.strike()
    with frozen(r, family(r)):
        time.sleep(r.random.uniform(0.05, 0.9))


@fault(moves=False)
def paused_late(r):
    """Longer than period and answer deadline: its kernel still acknowledges, so that the server holds on to it."""
    r.strike()
    with frozen(r, family(r)):
        time.sleep(r.random.uniform(2.2, 3.5))


@fault()
def paused_beyond(r):
    """Everything of the leader stands still, the server ends its session, a successor works; then it wakes."""
    with frozen(r, family(r)):
        r.strike()
        terminate(r)
        r.wait_successor()


@fault()
def paused_run(r):
    """Only the kit stands still, and its work goes on until it is refused."""
    with frozen(r, [r.candidate.process.pid]):
        r.strike()
        terminate(r)
        r.wait_successor()
        wait_until(lambda: r.stage.record.read() and r.leader.refused, "the fence refuses the old work")


@fault()
def paused_and_cut(r):
    """It sleeps longer than the server holds a silent session, as a machine that is suspended does."""
    with frozen(r, family(r)):
        r.strike()
        r.candidate.link.cut()
        try:
            r.wait_successor()
        finally:
            r.candidate.link.mend()


@fault(stubborn=True)
def network_cut(r):
    """Every packet is lost, both ways, until a successor works."""
    r.strike()
    r.candidate.link.cut()
    try:
        r.wait_successor()
    finally:
        r.candidate.link.mend()


@fault(moves=False)
def network_cut_shortly(r):
    r.strike()
    r.candidate.link.cut()
    try:
        time.sleep(r.random.uniform(0.2, 4.0))
    finally:
        r.candidate.link.mend()


@contextmanager
def filled(stage):
    """Every connection that the server has for its users is taken, and taken again; `with filled(stage) as fill:`"""
    taken = []

    def fill():
        while True:
            try:
                taken.append(stage.pg.connect(user="filler"))
            except psycopg.OperationalError as error:
                assert "connection" in str(error) and len(taken) < 200
                return

    fill()
    try:
        yield fill
    finally:
        for conn in taken:
            conn.close()


@fault(outlived=True)
def pool_used_up(r):
    """The leader's session ends while nobody can connect: neither its report nor its successor's work."""
    with filled(r.stage) as fill:
        r.strike()
        terminate(r)
        fill()
        time.sleep(r.random.uniform(0.3, 3.0))


@fault(outlived=True)
def restarted_fast(r):
    r.strike()
    r.stage.pg.restart("fast")


@fault(outlived=True)
def restarted_immediate(r):
    r.strike()
    r.stage.pg.restart("immediate")


@fault()
def call_delayed(r):
    """An external call is under way while the leader changes, and arrives when its successor works."""
    (r.stage.folder / f"delay-{r.leader.instance}").touch()
    wait_until(lambda: r.stage.target.held, "a call is under way")
    r.strike()
    r.random.choice([graceful_stop] if r.stage.lease else [terminate, graceful_stop])(r)
    r.wait_successor()
    count, accepted = r.stage.target.deliver()
    r.late_calls = count
    if accepted:
        r.violate(f"{accepted} of {count} delayed calls of {r.leader} were accepted after the takeover")


@fault(lease=False)
def successor_lost(r):
    """The successor is lost while it waits for the work of a stubborn predecessor: the next one must wait too."""
    r.make_stubborn()
    r.strike()
    terminate(r)

    def another():
        owner = r.stage.owner()
        return owner if owner and owner.pid != r.owner.pid else None
    second = wait_until(another, "another session holds the lock", every=0.002)
    time.sleep(r.random.uniform(0.02, 0.3))
    if r.random.random() < 0.5:
        terminate(r, second.pid)
    else:
        r.stage.signal(r.stage.candidate(second.instance).process.pid, signal.SIGTERM)


@fault(lease=False)
def promoted_twice(r):
    """Two standbys stay behind; the leader changes; each is promoted in turn, on the same address."""
    stage = r.stage
    behind = [stage.pg.standby() for _ in range(2)]
    stage.old_servers += behind
    for standby in behind:
        standby.start()
        wait_until(lambda s=standby: s.sql("select pg_is_in_recovery()")[0][0], "the standby answers")
    for standby in behind:
        standby.stop()
    r.strike()
    for _ in range(r.random.randint(1, 3)):
        terminate(r, stage.owner().pid)
        r.wait_successor()
        r.strike_again(stage.steady())
    for standby in behind:
        r.strike_again(stage.steady())
        replace(stage, standby)
        r.wait_successor()
        r.lost_history()


def replace(stage, standby):
    """The primary dies, and a standby is promoted on its port."""
    stage.pg.stop("immediate")
    stage.old_servers.append(stage.pg)
    stage.old_servers.remove(standby)
    standby.port = stage.pg.port
    standby.configure({})
    stage.pg = standby
    stage.control = None
    standby.start()
    standby.promote()
