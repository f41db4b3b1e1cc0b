# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader yield` while the world changes: between asking and sending, at the sending, and right after it."""

import os
import shutil
import signal
from contextlib import closing, contextmanager

import pytest

from tests.races.driver import Driver
from tests.support.cluster import Cluster
from tests.support.kit import register
from tests.support.scene import lock_duty, pid_of, server
from tests.support.wait import wait_until
from tests.support.yields import Terminal, alive, audit, begin, dry, finish, key_of, led, oncall, refusals, signaller, start, stranger, wait_gone

# Holds up the commit, after the signal: the deed is done, and its answer is still to come. "before": before the signal.
SLOW_AUDIT = """create function public.slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(%s); return new; end $$;
    create constraint trigger slow after update on pgleader.yield deferrable initially deferred for each row
    when (old.used_at is null and new.used_at is not null) execute function public.slow()"""
SLOW_BEFORE = SLOW_AUDIT.replace("deferrable initially deferred", "")
PROMPT_AUDIT = "drop trigger slow on pgleader.yield; drop function public.slow"


def refused(terminal, code):
    assert terminal.end() == 13, terminal.text
    assert f"guard {code}" in terminal.text and "Nothing was sent" in terminal.text and "changed meanwhile" in terminal.text, terminal.text


@pytest.mark.parametrize("change, code", [
    ("select pg_advisory_unlock_all()", "owner"),
    ("select pgleader.begin_term('{duty}', 'worker-a')", "generation"),
    ("select pgleader.end_term('{duty}', {generation}, 'released')", "generation"),
])
def test_the_leader_changes_while_it_asks(pg, request, change, code):
    """The question closes by itself: there is nothing left to confirm."""
    with led(pg, request) as (duty, _, leader, generation), Terminal(oncall(pg), duty) as t:
        t.token()
        leader.execute(change.format(duty=duty, generation=generation))
        refused(t, code)
        assert alive(pg, leader)


def test_the_leader_is_another_session_while_it_asks(pg, request):
    """Without a ledger, too: neither the old owner nor the new one is ended."""
    with closing(stranger(pg, 6001)) as old, Terminal(signaller(pg), "advisory/6001", "--override=no-successor") as t:
        t.token()
        old.execute("select pg_advisory_unlock_all()")
        with closing(stranger(pg, 6001, "worker-b")) as new:
            refused(t, "owner")
            assert alive(pg, old) and alive(pg, new)
    assert "Another session holds the lock now" in t.text or "Nobody holds" in t.text


def blocked(pg, what="request_yield"):
    return wait_until(lambda: pg.sql("select pid from pg_stat_activity where application_name = 'pgleader' and "
                                     "wait_event_type = 'Lock' and query like %s", (f"%{what}%",)), f"{what} waits")[0][0]


def test_the_generation_moves_before_the_intent(pg, request):
    """After the last reading, before the intent is written: the ledger refuses it."""
    with led(pg, request) as (duty, _, leader, generation), pg.connect() as holder:
        with holder.transaction():
            holder.execute("select from pgleader.on_call c join pgleader.duty d using (duty_id) where duty = %s for update of c", (duty,))
            process = start(oncall(pg), duty, f"--confirm={duty} {generation}")
            blocked(pg)
            begin(leader, duty)
        done = finish(process)
        assert done.status == 13 and "PL001" in done.json["sentence"] and done.json["sent"] == "no", done
        assert alive(pg, leader) and audit(pg, duty) is None and "PL001" in done.err
        assert done.json["recorded"] and refusals(pg, duty) == [(None, done.json["sentence"], "test")]


class ByHand:
    """Somebody writes another key into the registry: the leader holds the old one alone."""

    @staticmethod
    def prepare(pg, duty, leader):
        pass

    @staticmethod
    def change(pg, duty, leader):
        pg.sql("update pgleader.duty set lock_objid = lock_objid + 1 where duty = %s", (duty,))


class Completed:
    """The two-key change: the leader holds both while it is asked about, and leads on by the second."""

    @staticmethod
    def prepare(pg, duty, leader):
        key = key_of(pg, duty)
        pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key + 1))
        leader.execute("select pg_advisory_lock(%s)", (key + 1,))

    @staticmethod
    def change(pg, duty, leader):
        pg.sql("select pgleader.complete_key_change(%s)", (duty,))


class Dropped(Completed):
    """The same, and it has given the first one back."""

    @staticmethod
    def change(pg, duty, leader):
        key = key_of(pg, duty)
        Completed.change(pg, duty, leader)
        leader.execute("select pg_advisory_unlock(%s)", (key,))


class CalledOff(Completed):
    """The reservation is taken back: the key is what it was."""

    @staticmethod
    def change(pg, duty, leader):
        pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (duty, key_of(pg, duty)))


KEY_CHANGES = [ByHand, Completed, Dropped]


@contextmanager
def rekeyed(pg, request, how, listens=False):
    """(duty, leader, generation), all that precedes that change of the key being done."""
    with led(pg, request) as (duty, _, leader, generation):
        if listens:
            generation = begin(leader, duty, listens=True)
        how.prepare(pg, duty, leader)
        yield duty, leader, generation


@pytest.mark.parametrize("how", KEY_CHANGES)
def test_the_key_changes_while_it_asks(pg, request, how):
    with rekeyed(pg, request, how) as (duty, leader, _), Terminal(oncall(pg), duty) as t:
        t.token()
        how.change(pg, duty, leader)
        assert t.end() == 13 and "Nothing was sent" in t.text and "changed meanwhile" in t.text, t.text
        guard, = [row[0] for row in refusals(pg, duty)]
        assert guard in ("key", "owner") and f"guard {guard}" in t.text and "Another key decides the duty now" in t.text
        assert alive(pg, leader) and audit(pg, duty) is None


def test_the_key_changes_while_it_is_typed(pg, request, how=Dropped):
    """No reading has seen it when the confirmation comes: the one that decides does."""
    with rekeyed(pg, request, how) as (duty, leader, _), Terminal(oncall(pg), duty) as t:
        token = t.token()
        os.kill(t.pid, signal.SIGSTOP)
        how.change(pg, duty, leader)
        t.type(token)
        os.kill(t.pid, signal.SIGCONT)
        assert t.end() == 13 and "Nothing was sent" in t.text and "Another key decides the duty now" in t.text, t.text
        assert len(refusals(pg, duty)) == 1 and alive(pg, leader) and audit(pg, duty) is None


def test_the_key_changes_before_the_intent(pg, request, how=Completed):
    """After the last reading: the intent is taken, and the one statement looks at the key again."""
    with rekeyed(pg, request, how) as (duty, leader, generation), pg.connect() as holder:
        with holder.transaction():
            holder.execute("select from pgleader.on_call c join pgleader.duty d using (duty_id) where duty = %s for update of c", (duty,))
            process = start(oncall(pg), duty, f"--confirm={duty} {generation}")
            blocked(pg)
            how.change(pg, duty, leader)
        done = finish(process)
        assert done.status == 13 and "in the statement itself" in done.json["sentence"] and done.json["sent"] == "no", done
        assert alive(pg, leader) and audit(pg, duty)[:2] == ("refused", None)


def driven(driver, duty, leader, generation, pause, change, **more):
    """The yield by the engine itself, held at that step while the change is made."""
    assert driver.ask(duty, pid_of(leader), generation, pause=pause, wait_ms=1000, **more) == "asked"
    driver.go()
    assert driver.hear() == "armed"
    change()
    driver.go()
    return driver.hear()


@pytest.mark.parametrize("how", KEY_CHANGES)
def test_the_key_changes_before_the_statement(pg, request, how):
    """After the intent was committed."""
    with rekeyed(pg, request, how) as (duty, leader, generation), Driver({**server(pg), "conninfo": oncall(pg)}) as driver:
        done = driven(driver, duty, leader, generation, "intent", lambda: how.change(pg, duty, leader))
        assert (done["outcome"], done["sent"], done["recorded"]) == ("refused", "no", True), done
        assert "in the statement itself" in done["sentence"] and "Nothing was sent" in done["sentence"]
        assert alive(pg, leader) and audit(pg, duty)[:2] == ("refused", None)


@pytest.mark.parametrize("how, pause", [(Dropped, "intent"), *((how, "grace") for how in KEY_CHANGES)])
def test_the_key_changes_during_the_grace(pg, request, how, pause):
    """The leader was asked, and is let alone: no session is signalled, and it is not said to be gone while it leads by the other key."""
    with rekeyed(pg, request, how, listens=True) as (duty, leader, generation), Driver({**server(pg), "conninfo": oncall(pg)}) as driver:
        done = driven(driver, duty, leader, generation, pause, lambda: how.change(pg, duty, leader), grace_ms=300)
        assert (done["outcome"], done["sent"], done["recorded"]) == ("not-confirmed", "asked", True), done
        assert "was asked, and still holds it" in done["sentence"]
        said = "".join(step["sentence"] for step in done["steps"])
        assert "Another key decides the duty now" in said and "No signal was sent" in said
        assert alive(pg, leader) and audit(pg, duty)[:2] == ("not-confirmed", None)


def test_the_key_changes_after_the_signal(pg, request):
    """Whoever leads by the other key is the successor, and not nobody."""
    pg.sql(SLOW_AUDIT % 1)
    try:
        with led(pg, request, follower=False) as (duty, key, leader, generation), closing(stranger(pg, key + 1, "worker-b")) as successor:
            process = start(oncall(pg), duty, f"--confirm={duty} {generation}", "--override=no-successor", "--wait=20s")
            wait_gone(pg, leader)
            pg.sql("update pgleader.duty set lock_objid = lock_objid + 1 where duty = %s", (duty,))
            begun = begin(successor, duty, "worker-b")
            done = finish(process)
            assert done.status == 0 and f'Moved: "worker-b" (pid {pid_of(successor)}, generation {begun})' in done.json["sentence"], done
            assert alive(pg, successor) and audit(pg, duty)[:2] == ("moved", True)
    finally:
        pg.sql(PROMPT_AUDIT)


def test_a_reservation_that_is_called_off(pg, request):
    """The key is what was confirmed: nothing is refused."""
    with rekeyed(pg, request, CalledOff) as (duty, leader, _), Terminal(oncall(pg), duty, "--wait=500ms") as t:
        token = t.token()
        CalledOff.change(pg, duty, leader)
        t.type(token)
        assert t.end() == 0, t.text
        assert not alive(pg, leader) and audit(pg, duty)[:2] == ("moved", True)


def takes_another(leader, key):
    leader.execute("select pg_advisory_unlock(%s)", (key,))
    leader.execute("select pg_advisory_lock(%s)", (key + 100,))


@pytest.mark.parametrize("duty, named", [("advisory/6201", False), ("jobs/named", True)], ids=["discovered", "named by the configuration"])
@pytest.mark.parametrize("pause", ["-", "intent"])
def test_the_owner_takes_another_key(pg, duty, named, pause):
    """Without a ledger: it is the same session, and leads something else by now. While it is asked about, and right before the statement."""
    entry = {**server(pg, duties=[lock_duty(duty, 6201)] if named else []), "conninfo": signaller(pg)}
    with closing(stranger(pg, 6201)) as leader, Driver(entry, after="0s") as driver:
        assert driver.ask(duty, pid_of(leader), pause=pause) == "asked"
        if pause == "intent":
            driver.go()
            assert driver.hear() == "armed"
        takes_another(leader, 6201)
        driver.go()
        done = driver.hear()
        assert (done["outcome"], done["sent"]) == ("refused", "no") and "Nothing was sent" in done["sentence"], done
        assert ("guard owner" if pause == "-" else "does not hold the lock any more") in done["sentence"]
        assert alive(pg, leader)


@pytest.mark.parametrize("change, words", [("unlock", "does not hold the lock any more"), ("close", "is gone")])
def test_the_leader_goes_before_the_signal(pg, request, change, words):
    """The statement waits for a fence, and the leader goes meanwhile: refused, and the successor is left alone."""
    with led(pg, request, follower=False) as (duty, key, leader, generation), pg.connect() as fence:
        number = pg.sql("select duty_id from pgleader.duty where duty = %s", (duty,))[0][0]
        fence.execute("select pg_advisory_lock(1885826148, %s)", (number,))
        process = start(oncall(pg), duty, f"--confirm={duty} {generation}", "--override=no-successor")
        blocked(pg, "terminate_owner")
        if change == "unlock":
            leader.execute("select pg_advisory_unlock_all()")
        else:
            pid = pid_of(leader)
            leader.close()
            wait_gone(pg, pid)
        with closing(stranger(pg, key, "worker-b")) as successor:
            fence.execute("select pg_advisory_unlock_all()")
            done = finish(process)
            assert done.status == 13 and words in done.json["sentence"] and "Nothing was sent" in done.json["sentence"], done
            assert audit(pg, duty)[:2] == ("refused", None) and alive(pg, successor)
            assert change == "close" or alive(pg, leader)


def test_the_deed_fails_after_the_signal(pg, request):
    """Its transaction is cancelled, as by a timeout, and the session is gone all the same: the intent stands, and what is seen is the outcome."""
    pg.sql(SLOW_AUDIT % 20)
    try:
        with led(pg, request) as (duty, _, leader, generation):
            process = start(oncall(pg), duty, f"--confirm={duty} {generation}", "--wait=500ms")
            wait_gone(pg, leader)
            pg.sql("select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'pgleader'")
            done = finish(process)
            assert done.status == 0 and done.json["sent"] == "maybe" and done.json["signalled"] is None, done
            assert any("may have been sent (57014)" in step["sentence"] for step in done.json["steps"])
            assert audit(pg, duty)[:2] == ("moved", None)
    finally:
        pg.sql(PROMPT_AUDIT)


def test_a_statement_timeout_before_the_signal(pg, request):
    """Nobody can tell from the error alone: it is not called refused, and the leader goes on."""
    pg.sql(SLOW_BEFORE % 20)
    pg.sql("alter role oncall set statement_timeout = '700ms'")
    try:
        with led(pg, request) as (duty, _, leader, generation):
            done = finish(start(oncall(pg), duty, f"--confirm={duty} {generation}", "--wait=500ms"))
            assert done.status == 14 and done.json["sent"] == "maybe" and "still holds it" in done.json["sentence"], done
            assert alive(pg, leader) and audit(pg, duty)[:2] == ("unknown", None)
    finally:
        pg.sql("alter role oncall reset statement_timeout")
        pg.sql(PROMPT_AUDIT)


def test_the_connection_is_lost_right_after_sending(pg, request):
    """May have been sent is what it says, and 14; the audit takes it over a new connection."""
    pg.sql(SLOW_AUDIT % 20)
    try:
        with led(pg, request) as (duty, _, leader, generation):
            process = start(oncall(pg), duty, f"--confirm={duty} {generation}", "--wait=500ms")
            wait_gone(pg, leader)
            pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgleader'")
            done = finish(process)
            assert done.status == 14 and done.json["outcome"] == "unknown" and done.json["sent"] == "maybe", done
            assert "may have been sent" in done.json["sentence"] and done.json["recorded"]
            assert audit(pg, duty)[0] == "unknown"
    finally:
        pg.sql(PROMPT_AUDIT)


def test_the_server_is_gone_right_after_sending(pg, request):
    """Nobody can record anything: still 14, and it ends by itself."""
    pg.sql(SLOW_AUDIT % 20)
    duty = register(pg, request.node.name)
    leader = stranger(pg, key_of(pg, duty))
    process = start(oncall(pg), duty, f"--confirm={duty} {begin(leader, duty)}", "--wait=500ms", "--override=no-successor")
    wait_gone(pg, leader)
    pg.stop("immediate")
    try:
        done = finish(process)
    finally:
        pg.start()
        pg.sql(PROMPT_AUDIT)
    assert done.status == 14 and done.json["outcome"] == "unknown" and not done.json["recorded"], done
    assert "could not be recorded" in "".join(step["sentence"] for step in done.json["steps"])


def test_a_frozen_server(pg, request):
    """A picture that is old confirms nothing: 69, nothing sent, and the leader goes on when the server does."""
    with led(pg, request) as (duty, _, leader, _), Terminal(oncall(pg), duty) as t:
        token = t.token()
        pg.signal_all(signal.SIGSTOP)
        try:
            t.type(token)
            assert t.end() == 69 and "Nothing was sent" in t.text, t.text
        finally:
            pg.signal_all(signal.SIGCONT)
        assert leader.execute("select 1").fetchone() == (1,)


def test_the_server_restarts_while_it_asks(pg, request):
    duty = register(pg, request.node.name)
    with closing(stranger(pg, key_of(pg, duty))) as leader, Terminal(oncall(pg), duty, "--override=no-successor") as t:
        begin(leader, duty)
        t.wait_for("Type|REFUSED|refused|changed")
        pg.restart("immediate")
        with closing(stranger(pg, key_of(pg, duty))) as successor:
            refused(t, "server")
            assert "The server was restarted" in t.text and alive(pg, successor)


def test_another_server_answers_while_it_asks():
    """On the same port, with another system identifier: what was a leader there is nobody here."""
    with Cluster() as pg:
        leader = stranger(pg, 6100, user="postgres")
        pid = pid_of(leader)
        with Terminal(pg.conninfo(), "advisory/6100", "--override=no-successor") as t:
            t.token()
            pg.stop("immediate")
            shutil.rmtree(pg.data)
            pg.command(pg.bin / "initdb", "-D", pg.data, "-U", pg.user, "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
            pg.configure(pg.settings)
            pg.start()
            with closing(stranger(pg, 6100, user="postgres")) as other:
                refused(t, "server")
                assert "Another server answers: system identifier" in t.text
                assert alive(pg, other) and pid_of(other) != pid
        assert dry(pg.conninfo(), "advisory/6100").status in (13, 64)
