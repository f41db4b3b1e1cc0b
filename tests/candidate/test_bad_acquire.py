# SPDX-License-Identifier: PostgreSQL
"""Acquisition: ends at once when told to, backs off while the database is away, and queues without a trace."""

import signal
import socket
import subprocess
import threading
import time

import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.cluster import free_port
from tests.support.faults import frozen
from tests.support.kit import beat_of_another, holder, several, term, wait_holder
from tests.support.network import black_hole
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until

AT_ONCE = 0.2


def take(pg, duty):
    """Somebody else's session that holds the duty's lock."""
    conn = pg.connect(application_name="stranger")
    conn.execute("select pg_advisory_lock(lock_objid) from pgleader.duty where duty = %s", (duty,))
    return conn


def ends_at_once(run, sig=signal.SIGTERM):
    began = time.monotonic()
    run.signal(sig)
    assert run.wait() == 128 + sig, run.log()
    assert time.monotonic() - began < AT_ONCE
    assert run.status()["status"] == 128 + sig


def activity(pg, duty, where):
    rows = pg.sql("select pid from pg_stat_activity where application_name like %s and " + where, (f"pgleader:{duty}:%%",))
    return rows and rows[0][0]


class Door:
    """A port that accepts and says nothing, or hangs up; it counts."""

    def __init__(self, hang_up):
        self.hang_up, self.times, self.kept = hang_up, [], []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.times.append(time.monotonic())
            if self.hang_up:
                peer.close()
            else:
                self.kept.append(peer)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for peer in self.kept:
            peer.close()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_signal_while_it_connects_to_nothing(sig):
    with black_hole() as port, Candidate(f"host=127.0.0.1 port={port}", "x", "jobs/hole", ["true"], ["--lock=1"]) as run:
        listing = ["ss", "-Htnp", "state", "syn-sent", f"dport = :{port}"]
        wait_until(lambda: f"pid={run.process.pid}," in subprocess.run(listing, capture_output=True, text=True,
                                                                       check=True).stdout, "it sends its SYN")
        ends_at_once(run, sig)


def test_signal_while_nobody_answers():
    door = Door(hang_up=False)
    try:
        with Candidate(f"host=127.0.0.1 port={door.port}", "x", "jobs/door", ["true"], ["--lock=1"]) as run:
            wait_until(lambda: door.times, "it connects")
            ends_at_once(run)
    finally:
        door.close()


def test_signal_while_it_waits_to_connect():
    with Candidate(f"host=127.0.0.1 port={free_port()}", "x", "jobs/away", ["true"], ["--lock=1"]) as run:
        wait_until(lambda: run.log().count("could not connect") > 4, "it backs off")
        ends_at_once(run)


def test_signal_while_it_tries(pg, duty):
    with take(pg, duty), Candidate(pg.conninfo(), "x", duty, ["true"]) as run:
        wait_until(lambda: activity(pg, duty, "query like '%%try%%'"), "it tries")
        ends_at_once(run)


def test_signal_while_a_try_is_not_answered(pg, duty):
    with take(pg, duty), Candidate(pg.conninfo(), "x", duty, ["true"]) as run:
        pid = wait_until(lambda: activity(pg, duty, "query like '%%try%%'"), "it tries")
        with frozen(pid):
            wait_until(lambda: "in time" in run.log() or pg.sql(
                "select 1 from pg_stat_activity where application_name = %s and pid <> %s", (f"pgleader:{duty}:x", pid)),
                "its try is late")
            ends_at_once(run)
        wait_until(lambda: not activity(pg, duty, "true"), "no session of it is left")


def test_signal_in_the_queue(pg, duty):
    with take(pg, duty) as stranger, Candidate(pg.conninfo(), "x", duty, ["true"], ["--wait=queue"]) as run:
        wait_until(lambda: activity(pg, duty, "wait_event = 'advisory'"), "it queues")
        ends_at_once(run)
        stranger.execute("select pg_advisory_unlock_all()")
        wait_until(lambda: not activity(pg, duty, "true") and holder(pg, duty) is None, "nothing of it is left")


def test_database_away_and_up_again(pg, duty, shared):
    """It starts while the database is down, and leads when it is there."""
    pg.stop()
    try:
        with Candidate(pg.conninfo(), "x", duty, None, (), shared) as run:
            wait_until(lambda: run.log().count("could not connect") > 2, "it knocks")
            pg.start()
            up = time.time()
            assert wait_for_note(shared, "beat")[1] - up < 5
    finally:
        if pg.command(pg.bin / "pg_ctl", "-D", pg.data, "status", check=False).returncode:
            pg.start()


@pytest.mark.parametrize("hang_up", [True, False], ids=["hangs-up", "silent"])
def test_no_tight_loop(hang_up):
    """Attempts grow apart, with jitter, whether the server refuses or is silent; --timeout ends it with 69."""
    door = Door(hang_up)
    try:
        began = time.monotonic()
        with Candidate(f"host=127.0.0.1 port={door.port}", "x", "jobs/door", ["true"], ["--lock=1", "--timeout=6s"]) as run:
            assert run.wait() == 69
        assert 5.9 < time.monotonic() - began < 8
        assert 2 <= len(door.times) <= 16
        gaps = [b - a for a, b in zip(door.times, door.times[1:])]
        assert len(set(round(gap, 3) for gap in gaps)) == len(gaps), "jitter"
    finally:
        door.close()


def test_the_queue_leaves_no_trace_in_the_log(pg, duty, shared):
    """Waiting for longer than its own patience: no deadlock, no cancelled statement, no error at all."""
    before = len(pg.log_text())
    with take(pg, duty) as stranger, several(pg, duty, shared, ["a", "b", "c"], ["--recontend", "--wait=queue"]) as runs:
        wait_until(lambda: len(pg.sql("select 1 from pg_locks where locktype = 'advisory' and not granted")) == 3,
                   "three queue")
        hold_for(lambda: not notes(shared), "nobody works", 3)
        released = time.time()
        stranger.execute("select pg_advisory_unlock_all()")
        first = wait_for_note(shared, "beat")
        assert first[1] - released < 0.3
        assert holder(pg, duty) == pg.sql("select term_pid from pgleader.duty where duty = %s", (duty,))[0][0]
        runs[first[2]].signal(signal.SIGTERM)
        assert beat_of_another(shared, first[3])[1] - first[1] < 3
        assert overlaps(shared) == []
    lines = [line for line in pg.log_text()[before:].splitlines() if "pgleader:" in line]
    assert [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "WARNING", "deadlock", "cancel"))] == []


def test_queue_believes_pg_locks(pg, duty, shared):
    """A grant that comes while the timeout is pending is a grant: one lock, one leader, in many hand-overs."""
    with several(pg, duty, shared, ["a", "b"], ["--recontend", "--wait=queue", "--settle=0"]):
        generation = wait_for_note(shared, "beat")[3]
        for _ in range(5):
            pg.sql("select pg_terminate_backend(%s)", (wait_holder(pg, duty),))
            generation = beat_of_another(shared, generation, after=time.time())[3]
        wait_until(lambda: term(pg, duty)[0] >= int(generation) and holder(pg, duty), "one leads")
    assert not pg.sql("select 1 from pg_locks where locktype = 'advisory'")


def test_few_tries(pg, duty):
    """Four a second for the whole duty, whatever the number of candidates."""
    with take(pg, duty):
        runs = [Candidate(pg.conninfo(), f"c{i}", duty, ["true"]) for i in range(10)]
        try:
            for run in runs:
                run.__enter__()
            wait_until(lambda: len(pg.sql("select 1 from pg_stat_activity where application_name like %s",
                                          (f"pgleader:{duty}:%",))) == 10, "ten candidates")
            seen, tries = {}, 0
            sample = ("select pid, query_start from pg_stat_activity where application_name like %s and query like "
                      "'%%pg_try_advisory_lock%%'")
            with pg.connect() as conn:
                def step():
                    nonlocal tries
                    for pid, when in conn.execute(sample, (f"pgleader:{duty}:%",)):
                        tries += seen.get(pid, when) != when
                        seen[pid] = when
                    return True
                hold_for(step, "sampled", 11, 0.02)  # they count each other every 10 s
                seen, tries = {}, 0
                hold_for(step, "sampled", 5, 0.02)
            assert tries <= 5 * 4 * 1.6, tries
            assert tries >= 3
        finally:
            for run in runs:
                run.__exit__()


def test_no_tight_loop_after_a_good_connection(pg, duty, shared):
    """A server that lets it in and then refuses to begin a term is not hammered."""
    pg.sql("create function public.refuse() returns trigger language plpgsql as "
           "'begin raise exception ''not today''; end'")
    pg.sql("create trigger refuse before insert on pgleader.term for each row execute function public.refuse()")
    try:
        with Proxy(pg.port) as proxy, Candidate(pg.conninfo(port=proxy.port), "x", duty, None, (), shared) as run:
            wait_until(lambda: "not today" in run.log(), "it is refused")
            before = proxy.accepted
            hold_for(lambda: proxy.accepted - before <= 16, "it backs off", 5)
            pg.sql("drop trigger refuse on pgleader.term")
            wait_for_note(shared, "beat")
    finally:
        pg.sql("drop function public.refuse cascade")
