# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Nothing that descends from the command outlives its leadership, whoever is killed; and nothing is kept open."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster, free_port
from tests.support.faults import frozen
from tests.support.wait import wait_until

KEY = 5005
DUTY = "jobs/guarded"

# A daemon of the command's that has left its process group and session, and its child in yet another.
DAEMON = """
setsid bash -c 'trap "echo term 1 x 1 >>$NOTES; exit" TERM
  setsid sleep 301 & echo pid $! >>"$NOTES"; echo pid $$ >>"$NOTES"; while :; do sleep 0.05; done' &
while [ "$(grep -c pid "$NOTES" 2>/dev/null)" != 2 ]; do sleep 0.01; done
echo ready >>"$NOTES"
"""
STAY = DAEMON + "exec sleep 302\n"
STUBBORN = 'trap "" TERM; echo pid $$ >>"$NOTES"; echo ready >>"$NOTES"; while :; do sleep 0.05; done'


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => %s)", (DUTY, KEY))
        yield cluster


def command(script):
    return ["bash", "-c", script]


def lines(run):
    return run.notes.read_text().splitlines() if run.notes.exists() else []


def noted(run):
    """The pids that were noted, once all are."""
    wait_until(lambda: "ready" in lines(run), "the command is ready")
    return [int(line.split()[1]) for line in lines(run) if line.startswith("pid ")]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def guard(run):
    """The pid of the guard."""
    def find():
        for pid in run.children():
            if Path(f"/proc/{pid}/comm").read_text().strip() == "pgleader-guard":
                return pid
        return None
    return wait_until(find, "the guard runs")


def terminate(pg):
    pg.sql("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = %s", (KEY,))


def test_a_daemon_left_behind_is_ended_with_the_command(pg):
    with Candidate(pg.conninfo(), "x", DUTY, command(DAEMON + "exit 4"), notes=None) as run:
        assert run.wait() == 4
        assert not any(alive(pid) for pid in noted(run))
        assert "term 1 x 1" in lines(run), "it was asked first"
        assert run.status()["command_status"] == 4


@pytest.mark.parametrize("how, status", [("terminate", 76), (signal.SIGTERM, 143)])
def test_a_daemon_is_ended_when_leadership_is(pg, how, status):
    with Candidate(pg.conninfo(), "x", DUTY, command(STAY)) as run:
        pids = noted(run)
        if how == "terminate":
            terminate(pg)
        else:
            run.signal(how)
        assert run.wait() == status
        assert not any(alive(pid) for pid in pids)
        assert "term 1 x 1" in lines(run)


def test_a_stubborn_daemon_is_killed_before_the_lock_is_free(pg):
    """It ignores SIGTERM and has left the group: the successor's lock waits for its SIGKILL."""
    script = f"setsid bash -c '{STUBBORN}' & wait $!; exec sleep 303"
    with Candidate(pg.conninfo(), "x", DUTY, command(script), ["--kill-after=700ms"]) as run:
        pid, = noted(run)
        began = time.monotonic()
        run.signal(signal.SIGTERM)
        wait_until(lambda: not pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = %s", (KEY,)), "free",
                   every=0.005)
        assert not alive(pid) and 0.6 < time.monotonic() - began < 3
        assert run.wait() == 143


def test_the_group_has_time_to_stop(pg):
    """A shell that dies of SIGTERM at once does not take the time from the worker behind it."""
    script = """(trap 'sleep 0.5; echo finished >>"$NOTES"; exit' TERM
        echo pid $BASHPID >>"$NOTES"; echo ready >>"$NOTES"; while :; do sleep 0.02; done) & wait"""
    with Candidate(pg.conninfo(), "x", DUTY, command(script)) as run:
        noted(run)
        run.signal(signal.SIGTERM)
        assert run.wait() == 143
        assert lines(run).count("finished") == 1


def test_orphans_are_reaped_while_it_runs(pg):
    """A command that loses children all the time fills no process table."""
    script = "for i in $(seq 50); do (true & true); done; echo ready >>\"$NOTES\"; exec sleep 304"
    with Candidate(pg.conninfo(), "x", DUTY, command(script)) as run:
        noted(run)
        wait_until(lambda: len(run.children()) == 2, "the command and the guard alone are its children")


@pytest.mark.parametrize("script, killed", [(STAY, False), (STUBBORN, True)], ids=["a daemon", "stubborn"])
def test_killed(pg, script, killed):
    """kill -9 of pgleader-run: the guard ends all of the command, and only then reports the work stopped."""
    with Candidate(pg.conninfo(), "x", DUTY, command(script), ["--kill-after=700ms"]) as run:
        pids, watcher = noted(run), guard(run)
        generation = pg.sql("select generation from pgleader.duty where duty = %s", (DUTY,))[0][0]
        run.signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
        stopped = "select 1 from pgleader.term where generation = %s and stopped_at is not null"
        wait_until(lambda: pg.sql(stopped, (generation,)), "the guard reports", every=0.005)
        assert not any(alive(pid) for pid in pids)
        wait_until(lambda: not alive(watcher), "the guard is gone too")
        assert "the guard ends its command" in run.log() and ("term 1 x 1" in lines(run)) != killed


def test_the_guard_is_replaced(pg):
    """kill -9 of the guard is noticed; the next one knows what runs."""
    with Candidate(pg.conninfo(), "x", DUTY, command(STAY)) as run:
        pids, first = noted(run), guard(run)
        os.kill(first, signal.SIGKILL)
        second = wait_until(lambda: (pid := guard(run)) != first and pid, "another guard")
        assert "the guard was killed" in run.log()
        run.signal(signal.SIGKILL)
        wait_until(lambda: not any(alive(pid) for pid in [*pids, second]), "the second does its duty")


def test_the_guard_is_killed_while_it_is_paused(pg):
    """Continued, it finds out and starts another."""
    with Candidate(pg.conninfo(), "x", DUTY, command(STUBBORN)) as run:
        pid, = noted(run)
        first = guard(run)
        with frozen(run.process.pid):
            os.kill(first, signal.SIGKILL)
        wait_until(lambda: guard(run) != first, "continued, it starts another")
        run.signal(signal.SIGKILL)
        wait_until(lambda: not alive(pid), "which ends the command")


def test_the_guard_ignores_what_a_service_manager_sends(pg):
    """systemd signals every process of the unit at once: the guard is there until the last."""
    with Candidate(pg.conninfo(), "x", DUTY, command(STUBBORN)) as run:
        noted(run)
        watcher = guard(run)
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(watcher, sig)
        assert watcher == guard(run) and alive(watcher)


def test_the_guard_keeps_nothing_open(pg):
    """No session, port or pipe; and it is not found by pgleader-run's own name."""
    with Candidate(pg.conninfo(), "x", DUTY, None, [f"--health=127.0.0.1:{free_port()}"]) as run:
        wait_for_note(run.notes, "beat")
        os.kill(guard(run), signal.SIGKILL)
        wait_until(lambda: "the guard was killed" in run.log(), "it was started again, beside a session and a port")
        wait_until(lambda: len(run.children()) == 2, "it runs")
        pid = guard(run)
        folder = Path(f"/proc/{pid}/fd")
        found = wait_until(lambda: {int(p.name): os.readlink(p) for p in folder.iterdir()}, "it has descriptors")
        assert set(found) == {0, 1, 2, 3} and found[3].startswith("pipe:")
        assert found[0] == found[1] == "/dev/null" and os.readlink(f"/proc/{pid}/cwd") == "/"
        assert Path(f"/proc/{pid}/cmdline").read_bytes().strip(b"\0") == b"pgleader-guard"


def shell(run, script):
    """The candidate's command line as "$@" of a shell script, with everything of it in one pipe."""
    return subprocess.Popen(["bash", "-c", script, "bash", *run.argv], env=run.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_a_pipeline_ends_with_the_command(pg):
    run = Candidate(pg.conninfo(), "x", DUTY, ["sh", "-c", "echo one; echo two"])
    with shell(run, '"$@" | tr a-z A-Z; echo "${PIPESTATUS[0]}"') as process:
        assert process.communicate(timeout=10)[0].split() == ["ONE", "TWO", "0"]


def test_a_pipeline_ends_after_kill_9(pg):
    """With standard error in it: when the guard has ended the command, though the database is away."""
    run = Candidate(f"host=127.0.0.1 port={free_port()}", "x", DUTY, ["true"], ["--lock=1"])
    with shell(run, '("$@" & sleep 0.3; kill -9 $!; wait) 2>/dev/null | cat') as process:
        assert process.communicate(timeout=5)[0] == ""


def test_the_port_is_free_after_kill_9(pg):
    """At once, though the guard still waits for a stubborn command."""
    port = free_port()
    with Candidate(pg.conninfo(), "x", DUTY, command(STUBBORN), [f"--health=127.0.0.1:{port}", "--kill-after=3s"]) as run:
        pid, = noted(run)
        run.signal(signal.SIGKILL)
        run.wait()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
        wait_until(lambda: not pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = %s", (KEY,)), "free", 1)
        assert alive(pid)
        wait_until(lambda: not alive(pid), "the guard kills it")


def test_paused_beyond_every_deadline(pg):
    """SIGSTOP of pgleader-run, not of its command: continued, it finds out, ends the work and says so."""
    with Candidate(pg.conninfo(), "x", DUTY, command(STAY)) as run:
        pids = noted(run)
        with frozen(run.process.pid):
            terminate(pg)
            wait_until(lambda end=time.monotonic() + 4: time.monotonic() > end, "its deadlines have passed")
            assert all(alive(pid) for pid in pids)
        assert run.wait() == 76
        assert not any(alive(pid) for pid in pids)
