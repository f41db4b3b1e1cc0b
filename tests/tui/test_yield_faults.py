# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader yield` where rights, servers, poolers and other operators come in between."""

import socket
from contextlib import closing, contextmanager

import pytest

from tests.races.driver import Driver
from tests.support.cluster import Cluster
from tests.support.kit import register
from tests.support.pooler import Pooler
from tests.support.proxy import Proxy
from tests.support.scene import lock_duty, pid_of, server, waiting
from tests.support.wait import wait_until
from tests.support.yields import (Terminal, alive, audit, begin, confirmed, dry, finish, key_of, led, oncall, prepare, refusals, run, signaller,
                                  start, stranger, wait_gone)

from .test_yield_changes import PROMPT_AUDIT, SLOW_AUDIT


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        prepare(cluster)
        cluster.sql("create database bare")
        yield cluster


@contextmanager
def revoked(pg, right, role):
    pg.sql(f"revoke {right} from {role}")
    try:
        yield
    finally:
        pg.sql(f"grant {right} to {role}")


@pytest.mark.parametrize("right, role, words", [
    ("pgleader_operator", "oncall", "ledger could not be read"),
    ("pg_read_all_stats", "oncall", "guard identity"),
    ("pg_signal_backend", "pgleader_owner", "guard may-signal"),
])
def test_rights_are_revoked_while_it_asks(pg, request, right, role, words):
    with led(pg, request) as (duty, _, leader, _), Terminal(oncall(pg), duty) as t:
        token = t.token()
        with revoked(pg, right, role):
            t.type(token)
            assert t.end() in (13, 77) and words in t.text and "Nothing was sent" in t.text, t.text
        assert alive(pg, leader) and audit(pg, duty) is None


def test_a_right_is_revoked_right_before_the_signal(pg, request):
    """After every guard has passed: the server refuses the statement itself, and that is what is said and what the audit says."""
    entry = server(pg, dbname="bare", duties=[lock_duty("jobs/bare", 7001)])
    with closing(stranger(pg, 7001, dbname="bare")) as leader, Driver({**entry, "conninfo": signaller(pg, "bare")}) as driver:
        assert driver.ask("jobs/bare", pid_of(leader), pause="intent") == "asked"
        driver.go()
        assert driver.hear() == "armed"
        with revoked(pg, "pg_signal_backend", "signaller"):
            driver.go()
            done = driver.hear()
        assert (done["end"], done["sent"]) == ("no-permission", "no") and "42501" in done["sentence"], done
        assert alive(pg, leader)
    with led(pg, request) as (duty, _, leader, generation), Driver({**server(pg), "conninfo": oncall(pg)}) as driver:
        assert driver.ask(duty, pid_of(leader), generation, pause="intent") == "asked"
        driver.go()
        assert driver.hear() == "armed"
        with revoked(pg, "pg_signal_backend", "pgleader_owner"):
            driver.go()
            done = driver.hear()
        assert (done["end"], done["sent"], done["recorded"]) == ("no-permission", "no", True) and "42501" in done["sentence"], done
        assert alive(pg, leader) and audit(pg, duty)[:2] == ("refused", None)


def test_an_intent_whose_commit_fails(pg, request):
    """Its number was handed out, and it does not stand in the audit: nothing is sent."""
    pg.sql("""create function public.fail() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
              create constraint trigger fail after insert on pgleader.yield deferrable initially deferred for each row execute function public.fail()""")
    try:
        with led(pg, request) as (duty, _, leader, generation):
            done = run(oncall(pg), duty, f"--confirm={duty} {generation}")
            assert done.status == 13 and done.json["sent"] == "no" and "not today" in done.json["sentence"] and done.json["intent"] is None, done
            assert alive(pg, leader) and audit(pg, duty) is None and refusals(pg, duty) == [(None, done.json["sentence"], "test")]
    finally:
        pg.sql("drop function public.fail cascade")


def test_two_operators_at_once(pg, request):
    """Both have seen and confirmed the same leader: one moves it, the other is refused, and both stand in the audit."""
    pg.sql("create role second login; grant pgleader_operator, pg_read_all_stats to second")
    with led(pg, request) as (duty, _, leader, generation), pg.connect() as holder:
        with holder.transaction():
            holder.execute("select from pgleader.on_call c join pgleader.duty d using (duty_id) where duty = %s for update of c", (duty,))
            both = [start(conninfo, duty, f"--confirm={duty} {generation}", "--wait=500ms", reason=name)
                    for name, conninfo in (("first", oncall(pg)), ("second", pg.conninfo(user="second")))]
            wait_two = lambda: len(pg.sql("select 1 from pg_stat_activity where application_name = 'pgleader' and wait_event_type = 'Lock' "  # noqa: E731
                                          "and query like '%%request_yield%%'")) == 2
            wait_until(wait_two, "both ask for an intent", deadline=40)
        done = sorted((finish(process) for process in both), key=lambda result: result.status)
        assert [result.status for result in done] == [0, 13], done
        assert done[0].json["outcome"] == "moved" and "is open" in done[1].json["sentence"] and done[1].json["sent"] == "no", done
        assert not alive(pg, leader) and audit(pg, duty)[:2] == ("moved", True)
        assert [(guard, sentence) for guard, sentence, _ in refusals(pg, duty)] == [(None, done[1].json["sentence"])]


def test_two_operators_at_once_without_a_ledger(pg):
    """Nothing keeps them apart; the one session that both have confirmed ends, and who succeeds it is left alone."""
    with closing(stranger(pg, 7002, dbname="bare")) as leader, waiting(pg, 7002, "worker-b", dbname="bare") as follower:
        asked = dry(signaller(pg, "bare"), "advisory/7002")
        both = [start(signaller(pg, "bare"), "advisory/7002", f"--confirm={asked.json['confirm']}") for _ in range(2)]
        done = [finish(process) for process in both]
        assert {result.status for result in done} <= {0, 13, 64} and 0 in {result.status for result in done}, done
        assert not alive(pg, leader) and alive(pg, follower)


def test_the_connection_breaks_right_after_sending(pg, request):
    """Between the program and the server: 14, may have been sent, and the audit takes it over a new connection."""
    pg.sql(SLOW_AUDIT % 3)  # until then its transaction goes on, and so do its locks
    try:
        with led(pg, request) as (duty, _, leader, generation), Proxy(pg.port) as proxy:
            conninfo = f"{oncall(pg)} port={proxy.port}"
            process = start(conninfo, duty, f"--confirm={duty} {generation}", "--wait=500ms")
            wait_gone(pg, leader)
            proxy.cut()
            done = finish(process)
            assert done.status == 14 and done.json["outcome"] == "unknown" and done.json["sent"] == "maybe", done
            assert "may have been sent" in done.json["sentence"] and done.json["recorded"] and audit(pg, duty)[0] == "unknown", done
    finally:
        pg.sql(PROMPT_AUDIT)


class Choosy(Proxy):
    """Closes the first connection as it asks for the guards' reading, and those of these numbers at once; all others pass."""

    def __init__(self, target, *refused):
        super().__init__(target)
        self.refused = refused

    def accept(self):
        if self.accepted + 1 not in self.refused:
            super().accept()
            return
        self.listener.accept()[0].close()
        self.accepted += 1

    def forward(self, source):
        if self.accepted == 1 and b"AS target_superuser" in source.recv(65536, socket.MSG_PEEK):
            self.end(source)
        else:
            super().forward(source)


@pytest.mark.parametrize("refused, status", [((2,), 0), (range(2, 100), 69)])
def test_the_server_goes_between_two_looks(pg, request, refused, status):
    """The first look found the duty, then the session ends and others are refused: tried again once or twice, and then 69, in full words."""
    with led(pg, request) as (duty, _, leader, generation), Choosy(pg.port, *refused) as proxy:
        done = run(f"{oncall(pg)} port={proxy.port}", duty, f"--confirm={duty} {generation}", "--wait=300ms")
        assert done.status == status and alive(pg, leader) == (status == 69), done
        if status == 69:
            assert len(done.refused()) == len(done.json["guards"]) and done.json["sent"] == "no" and done.json["audit"] is None, done
            assert "Nothing was sent" in done.json["sentence"] and 2 < proxy.accepted < 9


def test_through_a_pooler(pg, request):
    """The operator's statements run in sessions of a pool, by transaction: each road works as ever."""
    with Pooler(pg, size=2) as pooler:
        with led(pg, request) as (duty, _, leader, generation):
            done = run(pooler.conninfo(), duty, f"--confirm={duty} {generation}", "--wait=500ms")
            assert done.status == 0 and done.json["road"] == "ledger" and not alive(pg, leader), done
            assert audit(pg, duty)[:2] == ("moved", True)
        leader = stranger(pg, 7003)
        with waiting(pg, 7003, "worker-b"):
            done = confirmed(pooler.conninfo(), "advisory/7003")
            assert done.status == 0 and done.json["road"] == "own" and not alive(pg, leader), done


def test_the_leader_is_in_the_operators_own_session(pg, request):
    """The pool has one session: the leader's lock is in it, and the statement that would end it as well. It is refused."""
    duty = register(pg, request.node.name)
    pg.sql("create role everything login; grant pgleader_operator, pgleader_candidate, pg_read_all_stats to everything")
    with Pooler(pg, size=1, user="everything") as pooler, closing(pooler.connect("client-a")) as a:
        a.execute("select pg_advisory_lock(7004)")
        done = confirmed(pooler.conninfo(), "advisory/7004", "--override=no-successor", "--override=pooled")
        assert done.status == 13 and done.json["sent"] == "no", done
        a.execute("select pg_advisory_unlock(7004)")
        a.execute("select pg_advisory_lock(%s)", (key_of(pg, duty),))
        generation = begin(a, duty)
        done = run(pooler.conninfo(), duty, f"--confirm={duty} {generation}", "--override=no-successor", "--override=pooled")
        assert done.status == 13 and "this very session" in done.json["sentence"], done
        assert audit(pg, duty)[:2] == ("refused", None)
        assert a.execute("select pg_advisory_unlock(%s)", (key_of(pg, duty),)).fetchone() == (True,), "it leads still"


@contextmanager
def as_standby(pg):
    """The server restarts as a standby of nobody, and afterwards as itself."""
    pg.stop("immediate")
    pg.write(pg.data / "standby.signal", "")
    pg.start()
    try:
        yield
    finally:
        pg.stop("immediate")
        (pg.data / "standby.signal").unlink()
        pg.start()


def test_the_server_becomes_a_standby_while_it_asks(pg, request):
    duty = register(pg, request.node.name)
    with closing(stranger(pg, key_of(pg, duty))) as leader, Terminal(oncall(pg), duty, "--override=no-successor") as t:
        begin(leader, duty)
        t.wait_for("Type|changed")
        with as_standby(pg):
            assert t.end() == 13 and "guard primary" in t.text and "Nothing was sent" in t.text, t.text


def test_the_server_becomes_a_standby_after_sending(pg, request):
    """A standby's locks say nothing: the duty is not called vacant."""
    duty = register(pg, request.node.name)
    leader = stranger(pg, key_of(pg, duty))
    process = start(oncall(pg), duty, f"--confirm={duty} {begin(leader, duty)}", "--wait=8s", "--override=no-successor")
    wait_gone(pg, leader)
    with as_standby(pg):
        done = finish(process)
        assert done.status == 14 and done.json["outcome"] == "unknown" and "or a standby, answers" in done.json["sentence"], done
        assert done.json["successor"] is None and not done.json["recorded"]
