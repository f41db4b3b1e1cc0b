# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader yield`, the main road: who leads is moved, and the result says what happened."""

import os
import signal
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.support.candidate import Candidate
from tests.support.kit import register, term, wait_holder
from tests.support.lease import TABLE, Lease, create_table
from tests.support.scene import pid_of, waiting
from tests.support.wait import wait_until
from tests.support.yields import (Terminal, alive, audit, begin, confirmed, dry, finish, key_of, oncall, run, signaller, start, stranger,
                                  wait_gone)


@contextmanager
def led(pg, duty, tmp_path, names="ab", options=("--recontend",), **more):
    """Candidates of which one leads, and the others have their sessions: the leader's pid and generation."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(Candidate(pg.conninfo(user="worker"), name, duty, options=options, notes=tmp_path / "notes", **more))
        pid = wait_holder(pg, duty)
        generation = wait_until(lambda: term(pg, duty) and term(pg, duty)[0], "a term has begun")
        sessions = "select count(*) from pg_stat_activity where application_name like %s"
        wait_until(lambda: pg.sql(sessions, (f"pgleader:{duty}:%",))[0][0] == len(names), "the others are ready")
        yield pid, generation


def test_in_the_middle_of_a_change_of_keys(pg, tmp_path, request):
    """The leader holds both keys: so does its successor, and the change is completed under that one."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)

    def leader():
        pids = [row[0] for row in pg.sql("select pid from pg_locks where locktype = 'advisory' and granted and classid = 0 "
                                         "and objid in (%s::oid, %s::oid) group by pid having count(*) = 2", (key, key + 1))]
        return pids and pids[0]
    with led(pg, duty, tmp_path) as (old, _):
        pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key + 1))
        assert wait_until(leader, "the leader holds both") == old
        done = confirmed(oncall(pg), duty)
        assert done.status == 0 and audit(pg, duty)[:2] == ("moved", None), done
        new = wait_until(leader, "the successor holds both")
        assert new != old
        pg.sql("select pgleader.complete_key_change(%s)", (duty,))
        assert wait_until(lambda: not leader(), "the old key is given back") and wait_holder(pg, duty) == new


def test_a_kit_leader_yields_by_itself(pg, tmp_path, request):
    """It listens: it is asked, aborts its work, and the other candidate leads; nothing is signalled."""
    duty = register(pg, request.node.name)
    with led(pg, duty, tmp_path) as (old, generation):
        asked = dry(oncall(pg), duty)
        assert asked.status == 0, asked
        assert asked.json["confirm"] == f"{duty} {generation}"
        assert asked.json["worker"]["fate"] == "kit" and asked.json["road"] == "ledger"
        done = run(oncall(pg), duty, f"--confirm={duty} {generation}")
        assert done.status == 0, done
        assert done.json["outcome"] == "moved" and done.json["sent"] == "asked" and done.json["recorded"]
        assert done.json["successor"]["generation"] > generation and done.json["successor"]["pid"] != old
        assert audit(pg, duty) == ("moved", None, "test", [])


def test_a_kit_leader_that_hangs_is_ended(pg, tmp_path, request):
    """Its process is stopped, so that it cannot yield: after the grace its session is ended."""
    duty = register(pg, request.node.name)
    with led(pg, duty, tmp_path, options=("--recontend", "--settle=0")) as (old, generation):
        name = pg.sql("select application_name from pg_stat_activity where pid = %s", (old,))[0][0]
        process = int(pg_process(name))
        os.kill(process, signal.SIGSTOP)
        try:
            done = run(oncall(pg), duty, f"--confirm={duty} {generation}", "--grace=500ms")
        finally:
            os.kill(process, signal.SIGCONT)
        assert done.status == 0, done
        assert done.json["sent"] == "yes" and done.json["signalled"] is True
        assert done.json["old_session_alive"] is False
        assert audit(pg, duty) == ("moved", True, "test", [])


def pg_process(application_name):
    """The process of pgleader-run with that session name."""
    duty, name = application_name.split(":")[1:]
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("pgleader-run") and f"--duty={duty}" in words and f"--name={name}" in words:
            with open(f"/proc/{entry}/comm", encoding="utf-8") as f:
                if f.read().strip() == "pgleader-run":
                    return entry
    raise AssertionError(f"no process of {application_name}")


def test_a_stranger_with_a_term_is_ended(pg, request):
    """A worker that begins terms and does not listen: the ledger's function ends it at once."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)
    leader = stranger(pg, key)
    generation = begin(leader, duty)
    with waiting(pg, key, "worker-b") as follower:
        asked = dry(oncall(pg), duty)
        assert asked.json["worker"]["fate"] == "UNPROTECTED" and "127.0.0.1:" in asked.json["worker"]["sentence"]
        done = run(oncall(pg), duty, f"--confirm={duty} {generation}", "--wait=1s")
        assert done.status == 0, done
        assert done.json["sent"] == "yes" and "term not begun" in done.json["sentence"]
        assert done.json["successor"]["pid"] == pid_of(follower) and not done.json["successor"]["term_begun"]
        assert not alive(pg, leader) and audit(pg, duty)[:2] == ("moved", True)


def test_fenced_by_a_run(pg, request):
    duty = register(pg, request.node.name)
    with closing(stranger(pg, key_of(pg, duty))) as leader:
        generation = begin(leader, duty)
        leader.execute("select pgleader.claim_run(%s, '2026-11', %s, '1 h')", (duty, generation))
        leader.execute("select pgleader.advance_run(%s, '2026-11', %s, 'invoice 72', 72, 100)", (duty, generation))
        asked = dry(oncall(pg), duty)
        assert asked.json["worker"]["fate"] == "fenced"
        assert "invoice 72" in asked.guard("run")["sentence"] and "72 %" in asked.guard("run")["sentence"]


def test_without_a_ledger(pg):
    """A database without one: the token is the session, the right is the operator's, the audit is the local log."""
    pg.sql("create database bare")
    leader = stranger(pg, 4242, dbname="bare")
    with waiting(pg, 4242, "worker-b", dbname="bare") as follower:
        conninfo = signaller(pg, "bare")
        asked = dry(conninfo, "advisory/4242")
        assert asked.status == 0, asked
        assert asked.json["road"] == "own" and asked.json["audit"] == "log"
        assert asked.json["confirm"].startswith(f"advisory/4242 pid:{pid_of(leader)}@2") and asked.json["generation"] is None
        done = run(conninfo, "advisory/4242", f"--confirm={asked.json['confirm']}")
        assert done.status == 0, done
        assert done.json["outcome"] == "moved" and done.json["successor"]["pid"] == pid_of(follower)
        assert f"Intent: end pid {pid_of(leader)}" in done.err and "reason=test" in done.err
        assert done.err.index("Intent") < done.err.index("was signalled")
        assert not alive(pg, leader)


def test_a_registered_duty_without_a_term(pg, request):
    """A worker without the kit holds a registered key: own right, local log."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)
    leader = stranger(pg, key)
    with waiting(pg, key, "worker-b"):
        done = confirmed(pg.conninfo(), duty)
        assert done.status == 0 and done.json["road"] == "own", done
        assert not alive(pg, leader) and audit(pg, duty) is None


def test_on_a_terminal(pg, request):
    """It shows who and every guard, asks, and takes nothing but the exact words."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)
    leader = stranger(pg, key)
    with waiting(pg, key, "worker-b"):
        with Terminal(pg.conninfo(), duty) as wrong:
            wrong.token()
            assert "UNPROTECTED" in wrong.text and "[ok]" in wrong.text and f"pid {pid_of(leader)}" in wrong.text
            wrong.type(duty)
            assert wrong.end() == 13 and "Nothing was sent" in wrong.text
        assert alive(pg, leader)
        with Terminal(pg.conninfo(), duty) as interrupted:
            interrupted.token()
            os.write(interrupted.fd, b"\x03")
            assert interrupted.end() == 13 and "Cancelled. Nothing was sent." in interrupted.text
        assert alive(pg, leader)
        token = dry(pg.conninfo(), duty).json["confirm"]
        with Terminal(pg.conninfo(), duty) as hasty:
            hasty.type(token)
            hasty.token()
            hasty.type("")
            assert hasty.end() == 13 and alive(pg, leader), "what was typed before the question is no answer"
        with Terminal(pg.conninfo(), duty) as t:
            t.type(t.token())
            assert t.end() == 0, t.text
            assert "Moved" in t.text and "worker: UNPROTECTED" in t.text
        assert not alive(pg, leader)


def test_nobody_succeeds(pg, request):
    """Overridden by name, and in the audit; the duty stays vacant."""
    duty = register(pg, request.node.name)
    leader = stranger(pg, key_of(pg, duty))
    generation = begin(leader, duty)
    refused = run(oncall(pg), duty, f"--confirm={duty} {generation}")
    assert refused.status == 13 and refused.refused() == ["no-successor"] and alive(pg, leader), refused
    done = run(oncall(pg), duty, f"--confirm={duty} {generation}", "--override=no-successor", "--wait=500ms")
    assert done.status == 11 and done.json["outcome"] == "vacant", done
    assert audit(pg, duty) == ("vacant", True, "test", ["no-successor"])


def test_the_same_instance_wins_again(pg):
    """Its second session waits in the queue: that moves nothing, and the status says so."""
    leader = stranger(pg, 777, "worker-a")
    with waiting(pg, 777, "worker-a") as again:
        done = confirmed(signaller(pg), "advisory/777", "--override=no-successor")
        assert done.status == 10 and done.json["outcome"] == "returned", done
        assert done.json["successor"]["pid"] == pid_of(again) and not alive(pg, leader)


def test_a_stopped_backend_is_not_confirmed(pg, request):
    """The server says true, and the session still holds the lock: nothing is called ended that is not."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)
    leader = stranger(pg, key)
    pid = pid_of(leader)
    generation = begin(leader, duty)
    with waiting(pg, key, "worker-b"):
        os.kill(pid, signal.SIGSTOP)
        try:
            done = run(oncall(pg), duty, f"--confirm={duty} {generation}", "--wait=500ms")
            assert alive(pg, pid)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert done.status == 12 and done.json["outcome"] == "not-confirmed", done
        assert done.json["signalled"] is True and done.json["old_session_alive"] is True
        assert "may take effect later" in done.json["sentence"]
        assert audit(pg, duty)[:2] == ("not-confirmed", True)
        wait_gone(pg, pid)


def test_a_lease_of_the_ledger(pg, tmp_path):
    """Its holder listens: it is asked, and releases."""
    with Lease(pg, "yield-lease", tmp_path / "notes", table="pgleader.lease") as lease:
        wait_until(lambda: pg.sql("select 1 from pgleader.lease where job_name = %s", (lease.duty,)), "somebody holds the lease")
        wait_until(lambda: dry(oncall(pg), lease.duty).status == 0, "both candidates are there")
        done = confirmed(oncall(pg), lease.duty)
        assert done.status == 0, done
        assert done.json["outcome"] == "moved" and done.json["road"] == "release" and done.json["signalled"] is None
        assert audit(pg, lease.duty)[0] == "moved"


def test_a_lease_whose_holder_does_not_listen(pg):
    """The ledger's own, or the application's: never overwritten, and it says why."""
    pg.sql("select pgleader.register_duty('jobs/deaf', lease_table => 'pgleader.lease', lease_row => 'jobs/deaf')")
    pg.sql("select pgleader.acquire_lease('jobs/deaf', 'worker-a', '1 h')")
    create_table(pg)
    pg.sql("insert into public.leader_lease values ('nightly', 'worker-a', now() + interval '1 h')")
    pg.sql(f"select pgleader.register_duty('jobs/foreign', lease_table => '{TABLE}', lease_row => 'nightly')")
    deaf, foreign = dry(oncall(pg), "jobs/deaf"), dry(oncall(pg), "jobs/foreign")
    assert deaf.status == foreign.status == 13
    assert "does not listen, and nothing can stop it" in deaf.guard("lease")["sentence"]
    assert "never overwritten: nothing can stop the old holder" in foreign.guard("lease")["sentence"]
    before = pg.sql("select * from public.leader_lease")
    done = run(oncall(pg), "jobs/foreign", "--confirm=jobs/foreign 1", "--override=no-successor")
    assert done.status == 13 and "lease" in done.refused(), done
    assert pg.sql("select * from public.leader_lease") == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP])
def test_cancelled_while_it_watches(pg, request, number):
    """After the signal nothing can be undone: the outcome is unknown, in the status and in the audit."""
    duty = register(pg, request.node.name)
    leader = stranger(pg, key_of(pg, duty))
    generation = begin(leader, duty)
    process = start(oncall(pg), duty, f"--confirm={duty} {generation}", "--override=no-successor", "--wait=60s")
    wait_gone(pg, leader)
    process.send_signal(number)
    done = finish(process)
    assert done.status == 14 and done.json["sent"] != "no" and audit(pg, duty)[0] == "unknown", done
