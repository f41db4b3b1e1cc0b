# SPDX-License-Identifier: PostgreSQL
"""The dedicated session: nothing stands between, it is named, it is watched, it is never inside a transaction."""

import os
import signal
import socket
import subprocess
import time

import pytest

from tests.support.candidate import Candidate, notes, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import holder, register, server_socket, several, wait_holder
from tests.support.pooler import Pooler
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_pooler(pg, duty, mode):
    """Refused before any lock is taken, with the reason and what to do."""
    with Pooler(pg, mode) as pooler:
        with Candidate(pooler.conninfo(), "x", duty, ["true"]) as run:
            assert run.wait() == 64, run.log()
            assert "a pooler stands between" in run.log() and "directly" in run.log()
            assert run.status()["status"] == 64
        assert not pg.sql("select 1 from pg_locks where locktype = 'advisory' and granted")
        assert not pg.sql("select 1 from pgleader.term t join pgleader.duty d using (duty_id) where d.duty = %s", (duty,))
    with Candidate(pg.conninfo(), "x", duty, ["true"]) as run:
        assert run.wait() == 0, run.log()


def test_something_between_is_told_of(pg, duty, shared):
    """It voids the sum of the deadlines; who leads through it should know. Once, not at every connection."""
    with Proxy(pg.port) as proxy:
        options = ["--recontend"]
        with Candidate(pg.conninfo(port=proxy.port), "x", duty, None, options, shared) as run:
            wait_for_note(shared, "beat")
            assert "proxy" in run.log()
            first = notes(shared)[0]
            pg.sql("select pg_terminate_backend(%s)", (holder(pg, duty),))
            wait_until(lambda: next((n for n in notes(shared) if n[3] != first[3]), None), "it leads again")
            assert run.log().count("proxy") == 1
    with Candidate(pg.conninfo(), "x", duty, ["true"]) as run:
        assert run.wait() == 0
        assert "proxy" not in run.log()


def names(pg, duty):
    rows = pg.sql("select application_name from pg_stat_activity where application_name like %s", (f"pgleader:{duty}:%",))
    return sorted(row[0] for row in rows)


def test_names_of_two_pods_differ(pg, duty, shared):
    """63 bytes hold the tail and a hash of a long instance."""
    tail = "-of-a-deployment-with-a-very-long-name-7d9f8b6c5d-x2k4p"
    with several(pg, duty, shared, ["alpha" + tail, "omega" + tail, "short"]):
        wait_until(lambda: len(names(pg, duty)) == 3, "three sessions")
        found = names(pg, duty)
        assert len(set(found)) == 3, found
        assert f"pgleader:{duty}:short" in found
        assert all(len(name) <= 63 for name in found)
        assert sum(name.endswith("x2k4p") or "x2k4p" in name for name in found) == 2


def test_name_in_the_connection_string_does_not_hide_it(pg, duty, shared):
    """Candidates are counted by the kit's name."""
    with Candidate(pg.conninfo(application_name="theirs"), "x", duty, None, (), shared):
        wait_for_note(shared, "beat")
        assert names(pg, duty) == [f"pgleader:{duty}:x"]


def test_sockets_of_both_ends(pg, duty, shared):
    with Candidate(pg.conninfo(), "x", duty, None, (), shared) as run:
        wait_for_note(shared, "beat")
        ends = {"server": server_socket(holder(pg, duty), pg.port), "client": server_socket(run.process.pid, pg.port)}
        for what, end in ends.items():
            with end:
                assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1, what
                assert 0 < end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 8000, what
                times = [end.getsockopt(socket.IPPROTO_TCP, option) for option in
                         (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)]
                assert times[0] + times[1] * times[2] <= 8, (what, times)


def test_the_server_looks_after_its_client(shared):
    """No setting of another session can be read, so the server's log says what was set."""
    with Cluster(settings={"log_statement": "all"}) as other:
        other.install_ledger()
        name = register(other, "test_check_interval")
        with Candidate(other.conninfo(), "x", name, None, (), shared):
            wait_for_note(shared, "beat")
            assert "client_connection_check_interval" in other.log_text()


def test_never_in_a_transaction_while_leading(pg, duty, shared):
    with Candidate(pg.conninfo(), "x", duty, None, (), shared):
        wait_for_note(shared, "beat")
        pid = wait_holder(pg, duty)
        with pg.connect(application_name="observer") as conn:
            states = []

            def idle():
                state, xact, xmin = conn.execute("select state, xact_start, backend_xmin from pg_stat_activity "
                                                 "where pid = %s", (pid,)).fetchone()
                states.append(state)
                return "transaction" not in state and (state != "idle" or (xact is None and xmin is None))
            hold_for(idle, "outside a transaction", 3, 0.002)
        assert states.count("idle") > 0.9 * len(states) > 100


@pytest.mark.parametrize("setting", ["idle_session_timeout", "idle_in_transaction_session_timeout"])
def test_timeouts_that_would_end_a_leader_are_told_of(pg, duty, shared, setting):
    role = f"r_{setting}"
    pg.sql(f"create role {role} login superuser")
    pg.sql(f"alter role {role} set {setting} = '1500ms'")
    with Candidate(pg.conninfo(user=role), "x", duty, None, ["--recontend"], shared) as run:
        wait_for_note(shared, "beat")
        assert setting in run.log(), run.log()


def test_a_try_without_an_answer(pg, duty, shared):
    """The session is closed, as the server may have granted it; nobody leads by it later."""
    with pg.connect() as other:
        other.execute("select pg_advisory_lock(lock_objid) from pgleader.duty where duty = %s", (duty,))
        with Candidate(pg.conninfo(), "x", duty, None, ["--recontend"], shared) as run:
            query = "select pid from pg_stat_activity where application_name = %s and query like '%%try%%'"
            pid = wait_until(lambda: (rows := pg.sql(query, (f"pgleader:{duty}:x",))) and rows[0][0], "it tries")
            os.kill(pid, signal.SIGSTOP)
            try:
                wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = %s and pid <> %s",
                                          (f"pgleader:{duty}:x", pid)), "it has another session", deadline=10)
                other.execute("select pg_advisory_unlock_all()")
                wait_for_note(shared, "beat")
                first = wait_holder(pg, duty)
                assert first != pid
            finally:
                os.kill(pid, signal.SIGCONT)
            wait_until(lambda: not pg.sql("select 1 from pg_stat_activity where pid = %s", (pid,)), "the old one is gone")
            assert holder(pg, duty) == first
            assert len({n[3] for n in notes(shared)}) == 1, "one term"
            assert "try-failed" in run.log() or "in time" in run.log()


def test_locks_do_not_stack(pg, duty, shared):
    """Taken and lost again and again; one session, one lock, and none of it afterwards."""
    with Candidate(pg.conninfo(), "x", duty, None, ["--recontend", "--settle=0"], shared) as run:
        generation = None
        for _ in range(8):
            wait_until(lambda: any(n[3] != generation for n in notes(shared)[-1:]), "it leads")
            generation = notes(shared)[-1][3]
            pg.sql("select pg_terminate_backend(%s)", (wait_holder(pg, duty),))
            wait_until(lambda: notes(shared)[-1][3] != generation, "it leads again")
        pid = wait_holder(pg, duty)
        pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(notes(shared)[-1][3])))
        wait_until(lambda: notes(shared)[-1][3] != generation, "the yielded lock is led by again")
        run.signal(signal.SIGTERM)
        run.wait()
    assert pid and not pg.sql("select 1 from pg_locks where locktype = 'advisory'")
    assert time.time() - notes(shared)[-1][1] < 5


def test_one_connection_each(pg, duty, shared):
    """Never given out and never doubled."""
    with several(pg, duty, shared, ["a", "b"]) as runs:
        wait_for_note(shared, "beat")
        wait_until(lambda: len(names(pg, duty)) == 2, "two sessions")
        hold_for(lambda: len(names(pg, duty)) == 2, "a session each", 1.5)
        for run in runs.values():
            listing = subprocess.run(["ss", "-Htnp", "state", "established", f"dport = :{pg.port}"],
                                     capture_output=True, text=True, check=True).stdout
            assert listing.count(f"pid={run.process.pid},") == 1, listing
