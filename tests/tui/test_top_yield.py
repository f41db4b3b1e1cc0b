# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The yield dialog of `pgleader top` and its watch, on a real terminal and a real server."""

import os
import signal
import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.candidate import Candidate
from tests.support.cluster import Cluster
from tests.support.dialog import ask, fill, find, send, top, wanted
from tests.support.exporter import program
from tests.support.kit import register, term, wait_holder
from tests.support.scene import SEED_LEASE, pid_of, take_lease
from tests.support.terminal import Pty, Tmux
from tests.support.wait import wait_until
from tests.support.yields import alive, audit, led, oncall, prepare, refusals, signaller, stranger, wait_gone

ANSWERS_WITHIN = 1.0 if os.environ.get("PGLEADER_VARIANT") else 0.1


@contextmanager
def kit(pg, duty, path, names="ab", options=("--recontend",)):
    """Candidates, the first of which leads: by name."""
    with ExitStack() as stack:
        runs = {}
        for name in names:
            runs[name] = stack.enter_context(Candidate(pg.conninfo(user="worker"), name, duty, options=options, notes=path))
            wait_until(lambda: term(pg, duty), "a term has begun")
        sessions = "select count(*) from pg_stat_activity where application_name like %s"
        wait_until(lambda: pg.sql(sessions, (f"pgleader:{duty}:%",))[0][0] == len(names), "the others are ready")
        yield runs


def nothing_was_sent(pg, duty, leader):
    assert alive(pg, leader) and audit(pg, duty) is None


def test_find_detail_yield_and_watch_it_move(pg, tmp_path, request):
    """The whole road with candidates of the kit: the leader is asked, the other leads, and the list shows it."""
    duty = register(pg, request.node.name)
    with kit(pg, duty, tmp_path / "notes"), top(oncall(pg), width=140) as t:
        old, generation = wait_holder(pg, duty), term(pg, duty)[0]
        asked = ask(t, duty)
        assert "may yield" in asked and f"pid {old}" in asked and "kit: the leader listens" in asked
        assert wanted(t) == f"{duty} {generation}"
        assert "Enter on [ Yield ] sends it" in fill(t, wanted(t), "node-a is hot")
        assert alive(pg, old) and audit(pg, duty) is None
        shown = send(t, "MOVED")
        assert "no session was signalled" in shown and "with its outcome" in shown and f"{generation} -> " in shown
        assert audit(pg, duty) == ("moved", None, "node-a is hot", [])
        t.wait(rf"State +led, by b")
        t.keys("e")
        events = t.wait("EVENTS")
        assert "yield" in events and "The leader listens, and was asked to release." in events
        t.keys("Escape")
        t.wait("Outcome +MOVED")
        t.keys("Escape")
        t.wait(r"TAKEOVERS")
        t.keys("q")
        t.wait(rf">.{duty} +b ")
        t.keys("q")
        assert t.ended() == 0 and t.restored()


def test_the_key_explains_where_it_is_not_allowed(pg, request):
    with led(pg, request) as (duty, _, leader, _), top(oncall(pg), allow=False) as t:
        find(t, duty)
        assert "read-only" in t.screen()
        t.keys("Y")
        t.wait("start it with --allow-yield, or `pgleader yield`")
        t.keys("Enter")
        assert "Y Yield" not in t.wait("Generation")
        t.keys("F9")
        t.wait("start it with --allow-yield")
        nothing_was_sent(pg, duty, leader)


@pytest.mark.parametrize("change, code", [
    ("select pg_advisory_unlock_all()", "owner"),
    ("select pgleader.begin_term('{duty}', 'worker-a')", "generation"),
])
def test_refused_when_the_leader_changes_meanwhile(pg, request, change, code):
    """With all typed and the cursor on Yield: the dialog closes itself, and Enter sends nothing."""
    with led(pg, request) as (duty, _, leader, _), top(oncall(pg)) as t:
        ask(t, duty)
        fill(t, wanted(t))
        leader.execute(change.format(duty=duty))
        shown = t.wait(rf"REFUSED +Refused by guard {code}")
        assert "Nothing was sent" in shown and "[ Yield ]" not in shown
        t.keys("Enter")
        t.wait("TAKEOVERS")
        nothing_was_sent(pg, duty, leader)


def test_cancelled_from_every_field(pg, request):
    """Escape, and Ctrl-C, which does not end the program."""
    with led(pg, request) as (duty, _, leader, _), top(oncall(pg)) as t:
        ask(t, duty)
        for tabs, key in ((0, "q"), (0, "Enter"), (1, "Escape"), (2, "Escape"), (3, "Escape"), (2, "C-c")):
            t.wait(r"> \[ Cancel \]")
            for _ in range(tabs):
                t.keys("Tab")
            t.wait((r"> \[ Cancel \]", "> Reason", "> Confirm", r"> \[ Yield \]")[tabs])
            t.keys(key)
            t.wait("Cancelled: nothing was sent")
            t.keys("Y")
        t.wait(r"> \[ Cancel \]")
        t.keys("Q")
        assert t.ended() == 0 and t.restored()
        nothing_was_sent(pg, duty, leader)


def test_an_unfinished_form_sends_nothing(pg, request):
    with led(pg, request) as (duty, _, leader, generation), top(oncall(pg)) as t:
        ask(t, duty)
        fill(t, f"{duty} {generation + 1}")
        t.keys("Enter")
        t.wait("Nothing is sent: what is typed is not what leads")
        t.keys("BTab", "C-u")
        t.type(f"{duty} {generation}")
        t.keys("BTab", "C-u", "Tab", "Tab")
        t.wait(r"> \[ Yield \]")
        t.keys("Enter")
        t.wait("Nothing is sent: a reason is missing")
        nothing_was_sent(pg, duty, leader)


def test_without_a_ledger(pg):
    """A stranger's session: the token names it, no successor is passed over by name, and the log at the end tells it."""
    pg.sql("create database bare")
    leader = stranger(pg, 4242, dbname="bare")
    with top(signaller(pg, "bare"), "--wait=1s") as t:
        asked = ask(t, "advisory/4242")
        assert "UNPROTECTED" in asked and "REFUSED     no-successor" in asked and "the local log" in asked
        confirm = wanted(t)
        assert confirm.startswith(f"advisory/4242 pid:{pid_of(leader)}@")
        t.keys("Tab")
        t.wait("> Override")
        t.type("no-successor")
        t.wait("OVERRIDDEN  no-successor")
        fill(t, confirm)
        shown = send(t, "VACANT", 60)
        assert "the session was signalled" in shown and "Start a candidate" in shown
        wait_gone(pg, leader)
        t.keys("Q")
        assert t.ended() == 0
        assert "Intent: end pid" in t.screen() and 'reason="disk full"' in t.screen()


def test_a_strangers_lease_is_never_overwritten(pg, tmp_path):
    pg.sql("create database leases")
    pg.sql(SEED_LEASE.format(table="public.leader_lease"), dbname="leases")
    assert take_lease(pg, "nightly", "report-3", "10 minutes", dbname="leases")
    duties = '[{duty: reports/nightly, lease: {table: public.leader_lease, row: nightly}}]'
    config = tmp_path / "pgleader.yml"
    config.write_text(f"servers: [{{name: db, conninfo: '{pg.conninfo('leases')}', duties: {duties}}}]\n")
    with Tmux([program("pgleader"), "top", "--allow-yield", f"--config={config}"], 100, 40) as t:
        shown = ask(t, "reports/nightly")
        assert "It is never overwritten" in shown and "-> Stop the holder's process" in shown
        t.keys("BTab")
        t.wait(r"> \[ Yield \]")
        t.keys("Enter")
        t.wait("Nothing is sent: guard ")


def test_a_narrow_and_low_terminal(pg, request):
    """60 columns, 10 lines: the field that is typed into is always there."""
    with led(pg, request) as (duty, _, leader, generation), top(oncall(pg), "--wait=1s", width=60, height=10) as t:
        find(t, duty)
        t.keys("Enter")
        t.wait("Owner +worker-a")
        t.keys("Y")
        t.wait("more below")
        fill(t, f"{duty} {generation}")
        send(t, "MOVED")
        t.keys("G")
        t.wait("Esc closes this")
        assert not alive(pg, leader) and audit(pg, duty)[:2] == ("moved", True)


@contextmanager
def stopped(run):
    run.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        run.process.send_signal(signal.SIGCONT)


def test_the_watch_may_be_left(pg, tmp_path, request):
    """The leader hangs: its grace runs on behind the list, its session is ended, and the outcome is recorded."""
    duty = register(pg, request.node.name)
    with kit(pg, duty, tmp_path / "notes", options=("--recontend", "--settle=0")) as runs, top(oncall(pg), "--grace=6s") as t:
        ask(t, duty)
        fill(t, wanted(t))
        with stopped(runs["a"]):
            t.keys("Enter")
            t.wait(r"is given time to release it, \ds left")
            t.keys("Escape")
            t.wait("TAKEOVERS")
            t.keys("Escape")
            t.wait("is under way: Y shows it")
            t.keys("q")
            t.wait("once more quits, outcome unknown")
            t.keys("Y")
            t.wait("STEPS")
            t.keys("Escape", "Escape")
            t.wait(rf"Yield of {duty}: Moved", 60)
            t.keys("Y")
            t.wait("Outcome +MOVED")
        assert audit(pg, duty)[:2] == ("moved", True)


def test_a_hang_up_while_the_leader_is_asked(pg, tmp_path, request):
    """Nothing more is sent, and the audit says that nobody knows."""
    duty = register(pg, request.node.name)
    with kit(pg, duty, tmp_path / "notes") as runs:
        generation, leader = term(pg, duty)[0], wait_holder(pg, duty)
        with stopped(runs["a"]), opened(pg, duty) as t:
            t.send(f"\tnode-a\t{duty} {generation}\t\r".encode())
            t.wait(b"is given time")
            t.hang_up()
            assert t.ended() == 128 + signal.SIGHUP
            assert audit(pg, duty)[:2] == ("unknown", None) and alive(pg, leader)


@contextmanager
def opened(pg, duty):
    """The dialog on a bare pty."""
    with Pty([program("pgleader"), "top", "--interval=500ms", "--allow-yield", oncall(pg)], width=140, height=40) as t:
        t.wait(duty.encode())
        t.wait(b" led")
        t.send(f"/{duty}\r".encode())
        t.send(b"\r")
        t.wait(b"TAKEOVERS")
        t.send(b"Y")
        t.wait(b"refuses")
        yield t


def test_a_hang_up_in_the_dialog(pg, request):
    with led(pg, request) as (duty, _, leader, generation), opened(pg, duty) as t:
        t.send(f"\tnode-a\t{duty} {generation}\t".encode())
        t.wait(b"sends it")
        t.hang_up()
        assert t.ended() == 128 + signal.SIGHUP
        nothing_was_sent(pg, duty, leader)


def test_a_frozen_server_freezes_no_dialog(request):
    """The guards say how old the picture is; keys are answered; what was typed sends nothing."""
    with Cluster() as own:
        prepare(own)
        with led(own, request) as (duty, _, leader, generation), opened(own, duty) as t:
            t.send(f"\tnode-a\t{duty} {generation}\t".encode())
            t.wait(b"sends it")
            own.signal_all(signal.SIGSTOP)
            try:
                t.wait(b"guard fresh refuses", 20)
                t.send(b"\r")
                t.wait(b"Nothing is sent: guard fresh refuses")
                begin_at = time.monotonic()
                t.send(b"\x1b")
                t.wait(b"Cancelled: nothing was sent", ANSWERS_WITHIN)
                t.send(b"Q")
                assert t.ended() == 0 and time.monotonic() - begin_at < 3 * ANSWERS_WITHIN
            finally:
                own.signal_all(signal.SIGCONT)
            nothing_was_sent(own, duty, leader)


def test_a_refusal_after_the_confirmation_is_audited(pg, request):
    """What the person saw allowed it, and the fresh look that decides does not."""
    with led(pg, request) as (duty, _, leader, generation), opened(pg, duty) as t:
        t.send(f"\tnode-a\t{duty} {generation}\t".encode())
        t.wait(b"sends it")
        os.kill(t.pid, signal.SIGSTOP)
        pg.sql("update pgleader.duty set yieldable = false where duty = %s", (duty,))
        t.send(b"\r")
        os.kill(t.pid, signal.SIGCONT)
        t.wait(b"Refused by guard yieldable")
        guard, _, reason = wait_until(lambda: refusals(pg, duty), "the refusal is in the audit")[0]
        assert (guard, reason) == ("yieldable", "node-a")
        nothing_was_sent(pg, duty, leader)
