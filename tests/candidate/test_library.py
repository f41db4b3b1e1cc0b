# SPDX-License-Identifier: PostgreSQL
# ctest: asan tsan valgrind
"""libpgleader in a program of its own: gains and losses once each, loss is cancellation, the lock last of all."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.exporter import program
from tests.support.pooler import Pooler
from tests.support.proxy import Proxy
from tests.support.wait import hold_for, wait_until

# enum pgleader_code
USAGE, CONFIG, CONNECT, STALE, UNKNOWN_DUTY, NO_LEDGER, PERMISSION, NOT_CLAIMED = map(str, (1, 2, 4, 5, 7, 8, 9, 12))
SLOW = 20 if os.environ.get("PGLEADER_VARIANT") else 1  # sanitizers and valgrind


class Driver:
    """tests/candidate/library_driver.c: told what to do; `say` returns the words of its answer."""

    def __init__(self, conninfo, duty, *options, name="d"):
        self.argv = [str(program("library_driver")), conninfo, duty, name, *options]
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            when, what, *words = line.split()
            self.lines.append((int(when) / 1e6, what, words))

    def __exit__(self, *_):
        try:
            self.process.stdin.close()
            assert self.process.wait(30) in (0, 1), "".join(map(str, self.lines[-5:]))
        finally:
            self.process.kill()
            self.reader.join()

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def find(self, what, *words, since=0):
        """(when, words) of the first such line from the since-th on."""
        return next(((w, x) for w, h, x in self.lines[since:] if h == what and x[:len(words)] == [*map(str, words)]), None)

    def wait(self, what, *words, since=0, deadline=20):
        return wait_until(lambda: self.find(what, *words, since=since), f"it says {what} {words}: {self.lines[-8:]}",
                          deadline)

    def say(self, *words):
        since = len(self.lines)
        self.tell(*words)
        return self.wait(words[0], since=since)[1]

    def lead(self, since=0):
        """Waits for a gain, whose generation it returns."""
        generation, *rest = self.wait("gained", since=since)[1]
        assert rest == ["may", "1", "abort", "0"], "a callback sees its own state"
        return int(generation)

    def count(self, what):
        return sum(h == what for _, h, _ in self.lines)


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("create table effect (item int, generation bigint)")
        yield cluster


@pytest.fixture
def duty(pg, request):
    name = f"lib/{request.node.name.split('[')[0].replace('_', '-')[5:38]}-{time.time_ns() % 10000:04}"
    pg.sql("select pgleader.register_duty(%s, lock_key => (random() * 1e9)::int)", (name,))
    return name


def terminate(pg, duty):
    assert pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty where duty = %s", (duty,)) == [(True,)]


def held(pg, duty):
    """Whether any session holds the duty's lock."""
    return pg.sql("select count(*) from pg_locks l join pgleader.duty d on l.classid = d.lock_classid::oid and "
                  "l.objid = d.lock_objid::oid and l.objsubid = d.lock_objsubid where d.duty = %s and l.granted",
                  (duty,))[0][0]


def term(pg, duty):
    return pg.sql("select generation, ended_at is null, end_reason from pgleader.current_term where duty = %s", (duty,))[0]


def test_states(pg, duty):
    """What each question answers before, in and after a term."""
    with Driver(pg.conninfo(), duty) as d:
        assert d.say("state") == ["follower", "0"]
        assert d.say("wait", 0) == ["0"]
        assert d.say("start") == ["ok"]
        assert "started before" in " ".join(d.say("start"))
        g = d.lead()
        assert d.say("state") == ["leader", str(g)]
        assert d.say("wait", -1) == [str(g)]
        assert (d.say("may", g), d.say("may", g - 1), d.say("may", 0)) == (["1"], ["0"], ["0"])
        assert d.say("fork", g) == ["0"]
        assert term(pg, duty) == (g, True, None)
        d.tell("yield", g - 1)
        d.tell("stopped", g - 1)
        assert d.say("stop", 0) == ["0"]
        assert d.wait("lost")[1] == [str(g), "signal", "may", "0", "abort", "1", "wait", "0"]
        assert d.say("state") == ["yielding", "0"]
        assert d.say("may", g) == ["0"]
        assert held(pg, duty) == 1, "the lock is kept while the work runs"
        assert d.say("drain") == ["8", "1"], "readable again, though somebody has read it"
        d.tell("stopped", g)
        assert d.say("stop", -1) == ["1"]
        assert (d.say("state"), d.say("ended"), d.say("wait", -1)) == (["ended", "0"], ["0"], ["0"])
        assert (d.count("gained"), d.count("lost"), held(pg, duty)) == (1, 1, 0)
    assert term(pg, duty) == (g, False, "signal")


def test_loss_is_cancellation(pg, duty):
    """A terminated session: abort descriptor, cancelled query and callback at once; the session is kept till the end."""
    with Driver(pg.conninfo(), duty) as d:
        d.say("start")
        g = d.lead()
        d.say("connect")
        assert d.say("register", g) == ["ok"]
        d.tell("query", 0, "select pg_sleep(60)")
        wait_until(lambda: pg.sql("select 1 from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'"),
                   "the work's query runs")
        at = time.time()
        terminate(pg, duty)
        times = {what: d.wait(what)[0] - at for what in ("abort", "query", "lost")}
        assert d.wait("query")[1] == ["57014"]
        assert d.wait("lost")[1][:4] == [str(g), "session-lost", "may", "0"]
        assert max(times.values()) < 0.2 * SLOW, times  # the next cancel would come after 0.25 s
        hold_for(lambda: d.count("gained") == 1, "no new term while the old one's work runs", 0.5)
        assert d.say("register", g)[:2] == ["failed", STALE]
        d.tell("stopped", g)
        again = wait_until(lambda: d.count("gained") == 2 and d.lead(since=4), "it leads again")
        assert again > g
        d.tell("stopped", again)


def test_the_lock_is_free_only_when_the_work_has_stopped(pg, duty):
    """Handed over: two candidates, and the second gains after the first has said so, not before."""
    with Driver(pg.conninfo(), duty, "kill_after_us=600000", name="a") as a, Driver(pg.conninfo(), duty, name="b") as b:
        a.say("start")
        g = a.lead()
        b.say("start")
        assert a.say("stop", 0) == ["0"]
        a.wait("lost", g, "signal")
        a.wait("overdue", g)
        hold_for(lambda: held(pg, duty) == 1 and b.count("gained") == 0, "the lock is kept, overdue or not", 0.5)
        assert a.count("overdue") == 1
        said = time.time()
        a.tell("stopped", g)
        when, _ = b.wait("gained")
        assert when >= said
        assert b.lead() > g
        b.tell("stopped", b.lead())


def test_finished_by_itself(pg, duty):
    """Work that says that it has stopped hands over, and its loss is told too."""
    with Driver(pg.conninfo(), duty) as d:
        d.say("start")
        g = d.lead()
        d.tell("stopped", g)
        assert d.wait("lost")[1][:2] == [str(g), "finished"]
        again = int(wait_until(lambda: d.count("gained") == 2 and d.say("state")[1], "it leads again"))
        assert again > g and d.say("wait", 0) == [str(again)]
        assert pg.sql("select end_reason from pgleader.term join pgleader.duty using (duty_id) where duty = %s "
                      "and term.generation = %s", (duty, g)) == [("finished",)]
        d.tell("stopped", again)


def test_a_query_begun_after_the_loss_is_cancelled_too(pg, duty):
    with Driver(pg.conninfo(), duty) as d:
        d.say("start")
        g = d.lead()
        d.say("connect")
        d.say("register", g)
        d.tell("yield", g)
        d.wait("lost")
        d.tell("query", 0, "select pg_sleep(60)")
        assert d.wait("query", deadline=10)[1] == ["57014"]
        d.say("joined")
        d.say("unregister")
        since = len(d.lines)
        d.tell("query", 0, "select pg_sleep(0.6)")
        assert d.wait("query", since=since)[1] == ["ok"], "unregistered: nothing disturbs its goodbye"
        d.say("joined")
        d.tell("stopped", g)


def test_may_work_by_the_clock(pg, duty):
    """A server that falls silent: the deadline ends work, and the loss is told, in P + D."""
    with Proxy(pg.port) as road:
        conninfo = pg.conninfo().replace(f"port={pg.port}", f"port={road.port}")
        with Driver(conninfo, duty, "check_every_us=300000", "answer_within_us=300000") as d:
            d.say("start")
            g = d.lead()
            at = time.time()
            road.drop()
            when, words = d.wait("lost")
            assert words[:2] == [str(g), "check-late"]
            assert when - at < 0.6 + 0.3 * SLOW
            assert d.say("state") == ["uncertain", "0"]
            d.tell("stopped", g)


def test_may_work_although_the_library_was_paused(pg, duty):
    """The whole process stopped beyond its deadline: the first question after it answers no."""
    with Driver(pg.conninfo(), duty, "check_every_us=300000", "answer_within_us=300000") as d:
        d.say("start")
        g = d.lead()
        d.process.send_signal(signal.SIGSTOP)
        paused = time.monotonic()
        d.tell("may", g)
        wait_until(lambda: time.monotonic() > paused + 1, "its deadline has passed", every=0.1)
        d.process.send_signal(signal.SIGCONT)
        assert d.wait("may")[1] == ["0"]
        assert d.wait("lost")[1][1] in ("check-late", "check-failed", "session-lost")
        d.tell("stopped", g)


def test_a_cancel_that_hangs_holds_the_next_term_up_and_not_for_ever(pg, duty):
    """The work's own connection is cut off: the cancel has no answer, and no later query may be hit by it."""
    with Proxy(pg.port) as road, Driver(pg.conninfo(), duty, "kill_after_us=1500000") as d:
        d.say("start")
        g = d.lead()
        d.say("connect", 0, pg.conninfo().replace(f"port={pg.port}", f"port={road.port}"))
        d.say("register", g)
        road.drop()
        d.tell("yield", g)
        when, _ = d.wait("lost")
        d.tell("stopped", g)
        again = wait_until(lambda: d.count("gained") == 2 and d.wait("gained", since=d.lines.index(
            next(x for x in d.lines if x[1] == "lost")))[0], "the next term")
        assert 1.5 <= again - when < 3 + SLOW
        assert d.count("overdue") == 0, "the work has stopped"
        road.pass_on()


def test_signals_are_the_program_s_own(pg, duty):
    """The library's thread takes none, and no disposition changes."""
    def words(path):
        return dict(line.split(":\t", 1) for line in path.read_text().splitlines() if line.startswith("Sig"))

    with Driver(pg.conninfo(), duty) as d:
        tasks = Path(f"/proc/{d.process.pid}/task")
        d.wait("new", "ok")
        before = words(tasks.parent / "status")
        d.say("start")
        d.lead()
        after = words(tasks.parent / "status")
        assert (before["SigIgn"], before["SigCgt"]) == (after["SigIgn"], after["SigCgt"])
        assert d.say("mask") == ["0"], "the caller's own mask is as it was"
        thread, = (t for t in tasks.iterdir() if (t / "comm").read_text() == "pgleader\n")
        blocked = int(words(thread / "status")["SigBlk"], 16)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGALRM):
            assert blocked >> number - 1 & 1
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE):
            assert not blocked >> number - 1 & 1


def test_by_lease(pg):
    """In a table of three columns, without generations of the ledger's; the row is free when it has stopped."""
    pg.sql("create database leases")
    pg.sql("create table lease (job_name text primary key, holder text, expires_at timestamptz)", dbname="leases")
    with Driver(pg.conninfo("leases"), "lib/lease", "lease_table=public.lease", "lease_row=x", "lease_us=9000000",
                "flags=2") as d:
        d.say("start")
        assert d.lead() == -1 and d.say("may", -1) == ["1"]
        assert pg.sql("select holder from lease where expires_at > now()", dbname="leases") == [("d",)]
        assert d.say("stop", 0) == ["0"]
        d.wait("lost", -1, "signal")
        d.tell("stopped", -1)
        assert d.say("stop", -1) == ["1"]
        assert pg.sql("select holder from lease where expires_at > now()", dbname="leases") == []


def test_without_a_ledger(pg):
    """Generations are negative, tell terms apart, and fence nothing."""
    pg.sql("create database bare")
    with Driver(pg.conninfo("bare"), "lib/bare", "lock=12,-7") as d:
        d.say("start")
        assert d.lead() == -1
        d.say("connect")
        assert "generation -1 is not the ledger's" in " ".join(d.say("claim", -1, "r"))
        assert d.say("claim", 7, "r")[:3] == ["failed", NO_LEDGER, "3F000"]
        d.tell("yield", -1)
        d.wait("lost", -1)
        d.tell("stopped", -1)
        assert d.wait("gained", -2)[1][:3] == ["-2", "may", "1"]
        assert (d.say("may", -1), d.say("may", -2)) == (["0"], ["1"])
        d.tell("stopped", -1)
        assert d.say("state") == ["leader", "-2"]
        d.tell("stopped", -2)


def test_runs(pg, duty):
    """Claim, advance in the transaction of the effects, finish; each refusal has its code."""
    with Driver(pg.conninfo(), duty) as d:
        assert d.say("fence", 1)[:2] == ["failed", CONNECT], "no connection"
        d.say("start")
        g = d.lead()
        d.say("connect")
        assert d.say("advance", g, "3")[:3] == ["failed", NOT_CLAIMED, "55000"]
        assert d.say("claim", g, "r") == ["0", "-", "-", "0"]
        assert d.say("fence", g)[:2] == ["failed", USAGE], "outside a transaction"
        for words in (("query", 0, "begin"), ("joined",)):
            d.tell(*words)
        assert d.say("fence", g) == ["ok"]
        assert d.say("advance", g, "5") == ["ok"]
        for words in (("query", 0, "rollback"), ("joined",)):
            d.tell(*words)
        assert d.say("claim", g, "r") == ["1", "-", "-", str(g)]
        assert d.say("advance", g, "4") == ["ok"]
        assert d.say("claim", g, "r") == ["1", "4", "4", str(g)]
        assert d.say("finish", g, "{")[:3] == ["failed", USAGE, "22P02"]
        assert d.say("finish", g, '{"items": 4}') == ["ok"]
        assert d.say("claim", g, "r") == ["2", "4", "4", str(g)]
        assert d.say("claim", g - 1, "r")[:3] == ["failed", STALE, "PL001"]
        d.tell("query", 0, "begin")
        d.say("joined")
        assert d.say("fence", g, "lib/nobody")[:3] == ["failed", UNKNOWN_DUTY, "PL003"]
        d.tell("query", 0, "rollback")
        d.say("joined")
        assert d.say("send", 0, "select pg_sleep(0.1)") == ["1"]
        assert "busy" in " ".join(d.say("claim", g, "r")), "an answer under way is not thrown away"
        d.tell("stopped", g)
    assert pg.sql("select status, receipt, target from pgleader.run r join pgleader.duty using (duty_id) "
                  "where duty = %s", (duty,)) == [("complete", {"items": 4}, 9)]


def test_stale_outside_read_committed(pg, duty):
    """In a snapshot of before the successor's term, 40001 means the same as PL001."""
    with Driver(pg.conninfo(), duty) as d:
        d.say("start")
        g = d.lead()
        d.say("connect")
        d.tell("query", 0, "begin isolation level repeatable read; select 1")
        d.say("joined")
        d.tell("yield", g)
        d.wait("lost")
        d.tell("stopped", g)
        wait_until(lambda: d.count("gained") == 2, "the next term")
        assert d.say("fence", g)[:3] == ["failed", STALE, "40001"]
        d.tell("stopped", d.say("state")[1])


REFUSALS = [
    ("bad duty", "Jobs", [], "not namespace/name"),
    ("bad lock", "lib/x", ["lock=12,x"], "not a key such as"),
    ("a sum that cannot be kept", "lib/x", ["lock=1", "kill_after_us=10000000"], "= 13 s"),
    ("negative", "lib/x", ["lock=1", "check_every_us=-1"], "check_every_us is negative"),
    ("an unknown flag", "lib/x", ["lock=1", "flags=64"], "flag 0x40"),
    ("lock and lease", "lib/x", ["lock=1", "lease_table=a.b"], "both a lock and a lease"),
    ("a row without a table", "lib/x", ["lease_row=a"], "without its table"),
    ("a lease too short", "lib/x", ["lease_table=a.b", "lease_us=1000000"], "could not promise to stop"),
]


@pytest.mark.parametrize("what, duty, options, words", REFUSALS, ids=[r[0] for r in REFUSALS])
def test_refused_options(what, duty, options, words):
    done = subprocess.run([program("library_driver"), "host=nowhere", duty, "d", *options], capture_output=True, text=True)
    assert (done.returncode, words in done.stdout) == (1, True), done.stdout + done.stderr


def test_a_pooler_ends_it(pg):
    """It says why, and where the pooler is not the answer."""
    with Pooler(pg) as pooler, Driver(pooler.conninfo(), "lib/pooled", "lock=816") as d:
        d.say("start")
        assert d.say("wait", -1) == ["0"]
        code, *words = d.say("ended")
        assert code == CONFIG and "a pooler stands between" in " ".join(words)


def test_no_permission_ends_it(pg, duty):
    pg.sql("create role stranger login")
    with Driver(pg.conninfo(user="stranger"), duty) as d:
        d.say("start")
        assert d.say("wait", -1) == ["0"]
        assert d.say("ended")[0] == PERMISSION


def test_the_log_never_shows_a_password(pg):
    """A database that is away: it goes on trying, says so, and ends at once when asked to."""
    with Driver(f"host=127.0.0.1 port={free_port()} password=hunter2", "lib/away", "lock=1", "log=1") as d:
        d.say("start")
        d.wait("log", "warning")
        at = time.monotonic()
        assert d.say("stop", -1) == ["1"]
        assert time.monotonic() - at < 1 * SLOW
        assert "hunter2" not in str(d.lines) and "could not connect" in str(d.lines).replace("', '", " ")


def test_stops_while_another_leads(pg):
    holder = hold_lock(pg, 817, "stranger")
    with Driver(pg.conninfo(), "lib/taken", "lock=817") as d:
        d.say("start")
        wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = 'pgleader:lib/taken:d' "
                                  "and query like '%%try%%'"), "it has tried")
        assert d.say("wait", 50) == ["0"]
        assert d.say("stop", -1) == ["1"]
        assert d.count("gained") == 0
    holder.close()
