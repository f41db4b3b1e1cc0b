# SPDX-License-Identifier: PostgreSQL
"""A real fault for each alert that one can cause, and the remedy that its page names.

Each is a generator: it causes the fault and yields, and after the next step the remedy was carried out."""

import contextlib
import itertools
import os
import signal
import threading
import time
from pathlib import Path

from tests.support.wait import wait_until
from tests.support.yields import begin

FAULTS = {}  # alert: (labels, generator function)


def fault(alert, **labels):
    def keep(function):
        FAULTS[alert] = (labels, function)
        return function
    return keep


def by_lease(scene, duty):
    scene.pg.sql(f"select pgleader.register_duty('{duty}', lease_table => 'pgleader.lease', lease_row => '{duty}', team => 'e2e')")


def hand_over(scene, duty, key, name, seconds):
    """One whole term, by hand."""
    with contextlib.closing(scene.pg.connect(user="worker", application_name=name)) as session:
        session.execute("select pg_advisory_lock(%s)", (key,))
        generation = begin(session, duty, name)
        scene.stopping.wait(seconds)
        session.execute("select pgleader.end_term(%s, %s, 'crash')", (duty, generation))


# The first four take longest, and therefore begin first.
@fault("PgleaderPeriodicFlapping", duty="e2e/recycled")
def periodic(scene):
    """A pool that recycles its connections ends each term at the same age; one that is left alone lasts longer."""
    key = scene.register("e2e/recycled")
    names, seconds = itertools.cycle(("recycled-1", "recycled-2")), [16]
    scene.background(lambda: hand_over(scene, "e2e/recycled", key, next(names), seconds[0]))
    yield
    seconds[0] = 24
    yield


@fault("PgleaderLeaseNotRenewed", duty="e2e/renewal")
def not_renewed(scene):
    """A holder that is stuck: the last quarter of its lease begins."""
    by_lease(scene, "e2e/renewal")
    holder = scene.session()
    generation, = holder.execute("select pgleader.acquire_lease('e2e/renewal', 'stuck', '80 seconds')").fetchone()
    yield
    holder.execute("select pgleader.renew_lease('e2e/renewal', 'stuck', %s, '80 seconds')", (generation,))
    yield


@fault("PgleaderUnregisteredLocks", server="main")
def unregistered(scene):
    stranger = scene.session(4711, "stranger")
    yield
    stranger.close()
    yield


@fault("PgleaderVacuumHeldBack", duty="e2e/vacuum", side="owner")
def vacuum_held_back(scene):
    """The owner sits in a transaction with a snapshot while others write."""
    leader = scene.session(scene.register("e2e/vacuum"))
    leader.execute("begin isolation level repeatable read")
    leader.execute("select count(*) from pg_class")
    scene.pg.sql("do $$ begin for i in 1..1000100 loop perform pg_current_xact_id(); commit; end loop; end $$")
    yield
    leader.execute("commit")
    yield


@fault("PgleaderNoLeader", duty="e2e/no-leader")
def no_leader(scene):
    scene.register("e2e/no-leader")
    yield
    scene.candidate("e2e/no-leader", "late")
    yield


@fault("PgleaderNoSuccessor", duty="e2e/no-successor")
def no_successor(scene):
    scene.register("e2e/no-successor", min_candidates=2)
    scene.candidate("e2e/no-successor", "only")
    yield
    scene.candidate("e2e/no-successor", "second")
    yield


@fault("PgleaderStalled", duty="e2e/stalled")
def stalled(scene):
    """The work is frozen, and its session is well: the lock stays where it is."""
    scene.register("e2e/stalled", stall_after="1 second")
    first = scene.candidate("e2e/stalled", "first", "works")
    scene.leads("e2e/stalled", "first")
    scene.candidate("e2e/stalled", "second", "works")
    wait_until(lambda: scene.pg.sql("select 1 from pgleader.current_run where duty = 'e2e/stalled' and cursor is not null"), "it works",
               deadline=60)
    work, = (pid for pid in first.children() if "python" in Path(f"/proc/{pid}/comm").read_text())
    os.kill(work, signal.SIGSTOP)
    yield
    scene.move("e2e/stalled")
    yield


@fault("PgleaderRunOverdue", duty="e2e/overdue")
def overdue(scene):
    """A leader that hangs between two runs."""
    scene.register("e2e/overdue", run_every="2 seconds")
    scene.candidate("e2e/overdue", "first", "hangs")
    scene.leads("e2e/overdue", "first")
    scene.candidate("e2e/overdue", "second", "finishes")
    yield
    scene.move("e2e/overdue")
    yield


@fault("PgleaderRunPastDeadline", duty="e2e/deadline")
def past_deadline(scene):
    leader = scene.session(scene.register("e2e/deadline"))
    generation = begin(leader, "e2e/deadline")
    leader.execute("select pgleader.claim_run('e2e/deadline', 'late', %s, '1 second')", (generation,))
    yield
    leader.execute("select pgleader.finish_run('e2e/deadline', 'late', %s, 'complete', '{}')", (generation,))
    yield


@fault("PgleaderContested", duty="e2e/contested")
def contested(scene):
    """One gave the lock away and works on under its open term; another has the lock."""
    key = scene.register("e2e/contested")
    first = scene.session(key, "first")
    begin(first, "e2e/contested", "first")
    first.execute("select pg_advisory_unlock(%s)", (key,))
    second = scene.session(key, "second")
    yield
    first.close()
    begin(second, "e2e/contested", "second")
    yield


@fault("PgleaderTermNotBegun", duty="e2e/no-term")
def no_term(scene):
    """A person's psql holds the lock of a duty that has terms."""
    key = scene.register("e2e/no-term")
    leader = scene.session(key)
    generation = begin(leader, "e2e/no-term")
    scene.main.wait_for(lambda s: s.one("generation", duty="e2e/no-term", server="main"), "the generation is seen")
    scene.watch_sees('pgleader_generation{duty="e2e/no-term",server="main"}')
    leader.execute("select pgleader.end_term('e2e/no-term', %s, 'done')", (generation,))
    leader.close()
    psql = scene.session(key, "psql")
    yield
    psql.close()
    scene.candidate("e2e/no-term", "worker")
    yield


@fault("PgleaderGenerationBackwards", duty="e2e/backwards")
def backwards(scene):
    """The ledger was altered, as a restored backup would have it."""
    key = scene.register("e2e/backwards")
    leader = scene.session(key)
    begin(leader, "e2e/backwards")
    scene.watch_sees('pgleader_generation{duty="e2e/backwards",server="main"}')
    scene.pg.sql("update pgleader.term t set generation = t.generation - 1000000 from pgleader.duty d "
                 "where d.duty_id = t.duty_id and d.duty = 'e2e/backwards'; "
                 "update pgleader.duty set generation = generation - 1000000 where duty = 'e2e/backwards'")
    yield
    leader.close()
    scene.candidate("e2e/backwards", "next")
    yield


@fault("PgleaderOwnerPooled", duty="e2e/pooled")
def pooled(scene):
    """One session that serves several clients, as a pooler's does: its name changes while it holds the lock."""
    held = scene.session(scene.register("e2e/pooled"), "client-0")
    names = iter(range(1, 10**6))

    def serve():
        held.execute(f"set application_name = 'client-{next(names) % 5}'")
        time.sleep(0.3)
    stop = scene.background(serve)
    yield
    stop()
    held.close()
    scene.candidate("e2e/pooled", "direct")
    yield


@fault("PgleaderFollowersWaiting", duty="e2e/waiting")
def waiting(scene):
    key = scene.register("e2e/waiting", wait_slow_after="1 second")
    leader, follower = scene.session(key, "leader"), scene.session(name="follower")
    thread = threading.Thread(target=follower.execute, args=("select pg_advisory_lock(%s)", (key,)), daemon=True)
    thread.start()
    yield
    leader.close()
    thread.join(30)
    yield


@fault("PgleaderFlapping", duty="e2e/flapping")
def flapping(scene):
    key = scene.register("e2e/flapping")
    names = iter(range(10**6))
    stop = scene.background(lambda: hand_over(scene, "e2e/flapping", key, f"crashes-{next(names) % 3}", 1.0))
    yield
    stop()
    scene.session(key, "stays")
    yield


@fault("PgleaderSlowTakeover", duty="e2e/slow")
def slow(scene):
    key = scene.register("e2e/slow", takeover_slow_after="1 second")
    hand_over(scene, "e2e/slow", key, "first", 1)
    scene.main.wait_for(lambda s: s.one("leader_held", duty="e2e/slow", server="main") == 0, "nobody leads")
    scene.stopping.wait(3)
    second = scene.session(key, "second")
    generation = begin(second, "e2e/slow", "second")
    yield
    third = scene.pg.connect(user="worker", application_name="third")
    scene.stack.callback(third.close)
    waits = threading.Thread(target=third.execute, args=("select pg_advisory_lock(%s)", (key,)), daemon=True)
    waits.start()
    second.execute("select pgleader.end_term('e2e/slow', %s, 'done')", (generation,))
    second.close()
    waits.join(30)
    begin(third, "e2e/slow", "third")
    yield


@fault("PgleaderLeaseExpired", duty="e2e/expired")
def expired(scene):
    by_lease(scene, "e2e/expired")
    scene.session().execute("select pgleader.acquire_lease('e2e/expired', 'gone', '1 second')")
    yield
    scene.candidate("e2e/expired", "next", options=["--lease=pgleader.lease:e2e/expired"])
    yield


@fault("PgleaderPollStale", server="away", severity="critical")
def stale(scene):
    scene.other.stop("immediate")
    yield
    scene.other.start()
    yield


@fault("PgleaderSectionDown", server="main", severity="critical")
def section_down(scene):
    scene.pg.sql("revoke select on leader_lease from watcher")
    yield
    scene.pg.sql("grant select on leader_lease to watcher")
    yield


@fault("PgleaderUnexpectedRole", server="standby-wanted")
def unexpected_role(scene):
    yield
    scene.main.config_path.write_text(scene.config("primary"))
    scene.main.reload()
    yield


@fault("PgleaderUnprivileged", server="unprivileged")
def unprivileged(scene):
    yield
    scene.pg.sql("grant pg_read_all_stats to poor")
    yield


@fault("PgleaderReloadFailed")
def reload_failed(scene):
    spare = scene.spares["spare-reload"]
    right = spare.config_path.read_text()
    spare.config_path.write_text(right + "no-such-key: 1\n")
    spare.reload()
    yield
    spare.config_path.write_text(right)
    spare.reload()
    yield


@fault("PgleaderClockSkew", server="spare-clock")
def clock_skew(scene):
    yield
    spare = scene.spares["spare-clock"]
    spare.__exit__(None)
    for word in ("LD_PRELOAD", "FAKETIME"):
        spare.env.pop(word)
    spare.__enter__()
    yield


@fault("PgleaderExporterDown", severity="critical")
def exporter_down(scene):
    spare = scene.spares["spare-down"]
    scene.watch_sees('pgleader_up{server="spare-down"}')
    spare.process.kill()
    spare.process.wait()
    yield
    spare.__enter__()
    yield


@fault("PgleaderExporterGone", server="spare-gone")
def exporter_gone(scene):
    scene.watch_sees('pgleader_up{server="spare-gone"}')
    scene.aim(without=("spare-gone",))
    yield
    scene.aim()
    yield

