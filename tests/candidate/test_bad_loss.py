# SPDX-License-Identifier: PostgreSQL
"""Loss is cancellation: the work is stopped first, then the lock is released; the order is measured."""

import os
import signal
import time

import pytest

from tests.support.candidate import WORKER, Candidate, notes, overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.faults import frozen
from tests.support.kit import (LockWatch, beat_of_another, child_of, gone, holder, reason, server_socket, several,
                               spans, term, wait_holder)
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until

CHECK_AND_ANSWER = 2.0  # P + D
KILL_AFTER = 3.0

# Does not go at SIGTERM; its notes are beats to its very end.
STUBBORN = WORKER.replace("note stopped; exit 0", "note refused")


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"restart_after_crash": "on"}) as cluster:
        cluster.install_ledger()
        yield cluster


def terminate(pg, duty):
    pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))


def reset(pg, duty):
    """The client gets an RST, as from a firewall; the server as well."""
    with server_socket(holder(pg, duty), pg.port) as copy:
        linger_0 = b"\1\0\0\0\0\0\0\0"
        copy.setsockopt(1, 13, linger_0)  # SO_LINGER
        copy.shutdown(2)


def crash(pg, duty):
    os.kill(holder(pg, duty), signal.SIGKILL)


LOSSES = {"terminated": terminate, "reset": reset, "crash": crash,
          "fast restart": lambda pg, duty: pg.restart("fast"),
          "immediate restart": lambda pg, duty: pg.restart("immediate")}


@pytest.mark.parametrize("how", LOSSES, ids=[how.replace(" ", "-") for how in LOSSES])
def test_lost(pg, duty, shared, how):
    """The command gets SIGTERM at once; it is led again, under a higher generation, and never twice at a time."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        first = wait_for_note(shared, "beat")
        pid, deed = holder(pg, duty), time.time()
        LOSSES[how](pg, duty)
        stopped = wait_for_note(shared, "stopped", first[2])
        assert stopped[1] - deed < (0.5 if how in ("terminated", "reset", "crash") else 3)
        second = beat_of_another(shared, first[3])
        assert int(second[3]) > int(first[3]) and stopped[1] < second[1]
        assert "session-lost" in runs[first[2]].log()
        wait_until(lambda: reason(pg, duty, int(first[3])) == ("superseded", True), "it reports")
        assert wait_holder(pg, duty) != pid and overlaps(shared) == []


def test_backend_frozen(pg, duty, shared):
    """No answer: the work stops within P + D, while the server still holds the lock."""
    with several(pg, duty, shared, ["a", "b"]) as runs, LockWatch(pg, duty) as watch:
        first = wait_for_note(shared, "beat")
        pid, began = holder(pg, duty), time.time()
        with frozen(pid):
            stopped = wait_for_note(shared, "stopped", first[2])
            assert stopped[1] - began < CHECK_AND_ANSWER + 0.5
            assert "check-late" in runs[first[2]].log()
            hold_for(lambda: holder(pg, duty) == pid, "the server holds it", 0.5)
            assert {g for _, g in spans(shared)} == {first[3]}, "nobody else works"
        second = beat_of_another(shared, first[3])
        assert second[1] > stopped[1] and watch.free_by(pid) > stopped[1]
        assert watch.most() == 1


def test_backend_frozen_and_work_that_stays(pg, duty, shared):
    """The work is killed within P + D + K, and S before the server could let go of a lost client."""
    with Candidate(pg.conninfo(), "a", duty, ["bash", "-c", STUBBORN], ["--recontend"], shared) as run:
        first = wait_for_note(shared, "beat")
        child, began = child_of(run), time.time()
        with frozen(holder(pg, duty)):
            wait_until(lambda: gone(child), "the command is killed")
            ended = max(last for (_, g), (_, last) in spans(shared).items() if g == first[3])
            refused = wait_for_note(shared, "refused")
            assert refused[1] - began < CHECK_AND_ANSWER + 0.5
            assert KILL_AFTER - 0.3 < ended - refused[1] < KILL_AFTER + 0.3
        beat_of_another(shared, first[3])


@pytest.mark.parametrize("worker", [WORKER, STUBBORN], ids=["goes", "stays"])
def test_order_of_a_graceful_stop(pg, duty, shared, worker):
    """SIGTERM to the command, its end, the end of the term, and only then the lock."""
    options = ["--kill-after=700ms"]
    with Candidate(pg.conninfo(), "a", duty, ["bash", "-c", worker], options, shared) as run:
        wait_for_note(shared, "beat")
        pid, child = holder(pg, duty), child_of(run)
        with LockWatch(pg, duty) as watch:
            asked = time.time()
            run.signal(signal.SIGTERM)
            run.wait()
            wait_until(lambda: watch.freed(pid), "the lock is free")
        last = notes(shared)[-1][1]
        assert gone(child) and watch.free_by(pid) >= last
        ended = pg.sql("select extract(epoch from ended_at)::float8, end_reason from pgleader.term t join pgleader.duty d "
                       "using (duty_id) where d.duty = %s", (duty,))[0]
        assert last <= ended[0] and ended[1] == "signal"
        assert ended[0] <= next(after for _, after, pids in watch.reads if not pids and after > ended[0])
        if worker == STUBBORN:
            assert run.process.returncode == 128 + signal.SIGKILL
            assert 0.6 < last - asked < 1.2
            assert all(pids == [pid] for _, after, pids in watch.reads if after < asked + 0.65)
        else:
            assert (run.process.returncode, watch.freed(pid) - asked < 0.6) == (0, True)  # not by the kill


def test_command_stopped(pg, duty, shared):
    """A command that sleeps on SIGSTOP is woken to end, or killed; the lock is not free before it is gone."""
    with several(pg, duty, shared, ["a", "b"], ["--recontend", "--kill-after=600ms"]) as runs:
        first = wait_for_note(shared, "beat")
        leader = runs[first[2]]
        child, pid = child_of(leader), holder(pg, duty)
        os.kill(child, signal.SIGSTOP)
        with LockWatch(pg, duty) as watch:
            pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
            wait_until(lambda: watch.freed(pid), "the lock is free", every=0.002)
            assert gone(child)
        assert watch.free_by(pid) >= max(n[1] for n in notes(shared) if n[3] == first[3])
        assert beat_of_another(shared, first[3])[2] in runs
        assert overlaps(shared) == []


def test_yield_request(pg, duty, shared):
    """An operator asks: work aborted, the term ended with that reason, another leads, nobody reconnects."""
    with several(pg, duty, shared, ["a", "b", "c"]):
        first = wait_for_note(shared, "beat")
        sessions = "select count(*), min(backend_start) from pg_stat_activity where application_name like %s"
        like = (f"pgleader:{duty}:%",)
        wait_until(lambda: pg.sql(sessions, like)[0][0] == 3, "three candidates")
        before = pg.sql(sessions, like)
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
        second = beat_of_another(shared, first[3])
        assert reason(pg, duty, int(first[3]))[0] == "yield-request"
        assert any(n[0] == "stopped" and n[3] == first[3] for n in notes(shared))
        assert pg.sql(sessions, like) == before
        assert overlaps(shared) == [] and second[1] > notes(shared)[0][1]


def test_yield_request_without_recontend(pg, duty, shared):
    with Candidate(pg.conninfo(), "a", duty, None, (), shared) as run:
        first = wait_for_note(shared, "beat")
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
        assert run.wait() == 76
    assert reason(pg, duty, int(first[3]))[0] == "yield-request"
    assert holder(pg, duty) is None


def test_a_stranger_notifies(pg, duty, shared):
    """Notifications are hints: one of another generation, or of no sense, ends nothing."""
    with Candidate(pg.conninfo(), "a", duty, None, (), shared) as run:
        first = wait_for_note(shared, "beat")
        for payload in [f'{{"event": "yield", "generation": {int(first[3]) - 1}}}', '"yield', "", "{", "x" * 7000]:
            pg.sql("select pg_notify(%s, %s)", (f"pgleader:{duty}", payload))
        hold_for(lambda: run.process.poll() is None and term(pg, duty)[2], "it leads", 1.5)
        assert {g for _, g in spans(shared)} == {first[3]} and "yield" not in run.log()


def test_frozen_while_it_gives_back(pg, duty, shared):
    """The server freezes while a yielding leader's work is being stopped: it competes again afterwards."""
    slow = ["bash", "-c", WORKER.replace("note stopped", "sleep 0.4; note stopped")]
    with Candidate(pg.conninfo(), "a", duty, slow, ["--recontend"], shared) as run:
        first = wait_for_note(shared, "beat")
        pid = holder(pg, duty)
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
        wait_until(lambda: "rule=yield-request" in run.log(), "it yields")
        with frozen(pid):
            wait_for_note(shared, "stopped")
            wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = %s and pid <> %s",
                                      (f"pgleader:{duty}:a", pid)), "it gives that session up")
        second = beat_of_another(shared, first[3])
        hold_for(lambda: holder(pg, duty) and notes(shared)[-1][1] > time.time() - 1.5, "it leads and works", 3)
        assert notes(shared)[-1][3] == second[3]


def test_terminated_while_it_gives_back(pg, duty, shared):
    """The session ends between the end of the work and the unlock."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend"], shared), pg.connect() as other:
        first = wait_for_note(shared, "beat")
        pid = holder(pg, duty)
        other.execute("begin")
        other.execute("select 1 from pgleader.duty where duty = %s for no key update", (duty,))
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(first[3])))
        wait_until(lambda: pg.sql("select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", (pid,)),
                   "it ends its term")
        pg.sql("select pg_terminate_backend(%s)", (pid,))
        other.execute("rollback")
        second = beat_of_another(shared, first[3])
        hold_for(lambda: holder(pg, duty) and notes(shared)[-1][1] > time.time() - 1.5, "it leads and works", 3)
        assert notes(shared)[-1][3] == second[3]


def test_the_server_refuses_to_say(pg, duty, shared):
    """pg_locks is forbidden while it leads: that is a failed check. The work is stopped before the lock is free, and reported."""
    pg.sql("drop role if exists plain")
    pg.sql("create role plain login in role pgleader_candidate")
    with Candidate(pg.conninfo(user="plain"), "a", duty, None, (), shared) as run:
        generation = int(wait_for_note(shared, "beat")[3])
        pid = holder(pg, duty)
        with LockWatch(pg, duty) as watch:
            pg.sql("revoke select on pg_locks from public")
            try:
                wait_for_note(shared, "stopped", deadline=10)
                wait_until(lambda: watch.freed(pid), "the lock is free")
            finally:
                pg.sql("grant select on pg_locks to public")
        assert watch.free_by(pid) >= notes(shared)[-1][1]
        assert run.wait() in (76, 77)
        assert reason(pg, duty, generation) == (None, True), "no successor has to wait for it"


def test_paused_and_resumed(pg, duty, shared):
    """pgleader-run sleeps beyond its deadlines while the server holds its lock: one leads, whoever it is."""
    with several(pg, duty, shared, ["a", "b"]) as runs, LockWatch(pg, duty) as watch:
        first = wait_for_note(shared, "beat")
        child = child_of(runs[first[2]])
        with frozen(runs[first[2]].process.pid):
            hold_for(lambda: holder(pg, duty) is not None, "the server holds it", CHECK_AND_ANSWER + 0.7)
        woken = time.time()
        wait_until(lambda: gone(child), "the old work is stopped")
        assert max(last for (_, g), (_, last) in spans(shared).items() if g == first[3]) - woken < 0.5
        beat_of_another(shared, first[3])
        assert watch.most() == 1 and overlaps(shared) == []


def test_check_that_is_cancelled(pg, duty, shared):
    """Whoever cancels a leader's statement does not end it by that, or ends it in order."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend"], shared), pg.connect() as other:
        wait_for_note(shared, "beat")
        hold_for(lambda: other.execute("select count(pg_cancel_backend(pid)) from pg_stat_activity where "
                                       "application_name = %s", (f"pgleader:{duty}:a",)), "cancels", 2.5, 0.001)
        wait_until(lambda: notes(shared)[-1][1] > time.time() - 0.5 and holder(pg, duty), "it leads")
        assert overlaps(shared) == []


def test_answers_through_a_proxy_that_loses_everything(pg, duty, shared):
    """Silence: no reset, no end. The work stops by the deadline, then another session is tried for."""
    with Proxy(pg.port) as proxy, Candidate(pg.conninfo(port=proxy.port), "a", duty, None, ["--recontend"], shared):
        first = wait_for_note(shared, "beat")
        dropped = time.time()
        proxy.drop()
        stopped = wait_for_note(shared, "stopped")
        assert stopped[1] - dropped < CHECK_AND_ANSWER + 0.5
        proxy.pass_on()
        assert int(beat_of_another(shared, first[3])[3]) > int(first[3])


def test_signal_after_a_loss_while_the_database_is_away(pg, duty, shared):
    """It still owes a report; it does not wait for ever to give it."""
    with Candidate(pg.conninfo(), "a", duty, None, ["--recontend"], shared) as run:
        wait_for_note(shared, "beat")
        pg.stop("immediate")
        try:
            wait_for_note(shared, "stopped")
            wait_until(lambda: run.log().count("could not connect") > 4, "it knocks")
            began = time.monotonic()
            run.signal(signal.SIGTERM)
            assert run.wait(8) == 128 + signal.SIGTERM
            assert time.monotonic() - began < 2.5
        finally:
            pg.start()
