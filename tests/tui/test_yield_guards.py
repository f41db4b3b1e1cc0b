# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader yield`: each guard refuses, says so, and nothing is sent."""

import json
from contextlib import closing

import pytest

from tests.support.cluster import Cluster
from tests.support.command import pgleader
from tests.support.kit import register
from tests.support.pooler import Pooler
from tests.support.scene import config, pid_of, server, waiting
from tests.support.wait import wait_until
from tests.support.yields import Terminal, alive, audit, begin, dry, key_of, oncall, prepare, refusals, run, signaller, stranger


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"max_prepared_transactions": "2"}) as cluster:
        prepare(cluster)
        yield cluster


class Led:
    """A duty whose leader has a term and whose successor waits: with Led(pg, request) as d."""

    def __init__(self, pg, request, user="worker", **registration):
        self.pg = pg
        self.duty = register(pg, request.node.name)
        if registration:
            words = ", ".join(f"{name} => %s" for name in registration)
            pg.sql(f"select pgleader.register_duty(%s, {words})", (self.duty, *registration.values()))
        self.key = key_of(pg, self.duty)
        self.user = user

    def __enter__(self):
        self.leader = stranger(self.pg, self.key, user=self.user)
        self.pid = pid_of(self.leader)
        self.generation = begin(self.leader, self.duty)
        self.follower = waiting(self.pg, self.key, "worker-b")
        self.follower.__enter__()
        self.confirm = f"--confirm={self.duty} {self.generation}"
        return self

    def __exit__(self, *details):
        self.follower.__exit__(*details)
        self.leader.close()

    def refuse(self, code, status=13, conninfo=None, *options):
        """Yields and is refused by that guard alone: its sentence."""
        done = run(conninfo or oncall(self.pg), self.duty, self.confirm, *options)
        assert done.status == status and done.refused() == [code], done
        assert done.json["sent"] == "no" and done.json["outcome"] == "refused" and "Nothing was sent" in done.json["sentence"]
        assert alive(self.pg, self.pid)
        assert self.leader.execute("select 1").fetchone() == (1,)
        assert f"guard {code}" in done.json["sentence"] and done.guard(code)["remedy"]
        assert "what=" in done.err and f"guard {code}" in done.err, "a refusal is in the local log"
        if conninfo is None:
            assert done.json["recorded"] and refusals(self.pg, self.duty)[-1] == (code, done.json["sentence"], "test"), "and in the ledger"
        return done.guard(code)["sentence"]


@pytest.mark.parametrize("typed", ["{duty}", "{duty} ", "{duty} 0", "{duty} {before}", "{other} {generation}", "{duty} pid:{pid}@2026-01-01T00:00:00.000000Z",
                                   " {duty} {generation}", "{generation}", ""])
def test_not_exactly_what_was_shown(pg, request, typed):
    with Led(pg, request) as d:
        d.confirm = "--confirm=" + typed.format(duty=d.duty, other="jobs/other", generation=d.generation, before=d.generation - 1, pid=d.pid)
        d.refuse("confirm")


def test_another_start_of_the_same_pid(pg):
    """A token of a session whose process number was used again."""
    with closing(stranger(pg, 4711)) as leader, waiting(pg, 4711, "worker-b"):
        done = run(signaller(pg), "advisory/4711", f"--confirm=advisory/4711 pid:{pid_of(leader)}@2026-11-29T00:00:00.000001Z")
        assert done.status == 13 and done.refused() == ["confirm"] and alive(pg, leader), done


def test_the_owner_changed_since_the_dry_run(pg, request):
    """Both roads: by the ledger the generation is another, without it the session is."""
    with Led(pg, request) as d:
        asked = dry(oncall(pg), d.duty)
        assert asked.status == 0, asked
        begin(d.leader, d.duty)
        d.refuse("confirm")
    with closing(stranger(pg, 4712)) as first:
        token = dry(signaller(pg), "advisory/4712").json["confirm"]
        first.execute("select pg_advisory_unlock_all()")
        with closing(stranger(pg, 4712)) as second, waiting(pg, 4712, "worker-b"):
            done = run(signaller(pg), "advisory/4712", f"--confirm={token}")
            assert done.status == 13 and done.refused() == ["confirm"], done
            assert alive(pg, first) and alive(pg, second)


def test_nobody_leads(pg, request):
    duty = register(pg, request.node.name)
    done = run(oncall(pg), duty, f"--confirm={duty} 1")
    assert done.status == 13 and "led" in done.refused() and done.json["confirm"] is None, done
    assert "identity" not in done.refused(), "no right is missing"
    assert "nobody leads" in done.json["worker"]["sentence"]


def test_a_superuser_leads(pg, request):
    """Known beforehand, by both roads, with the grant that is missing; 77 since nothing else is wrong."""
    with Led(pg, request, user="postgres") as d:
        assert "superuser" in d.refuse("may-signal", 77)
    with closing(stranger(pg, 4713, user="postgres")) as leader, waiting(pg, 4713, "worker-b"):
        token = dry(signaller(pg), "advisory/4713").json["confirm"]
        done = run(signaller(pg), "advisory/4713", f"--confirm={token}")
        assert done.status == 77 and done.refused() == ["may-signal"] and alive(pg, leader), done


def test_no_right_to_signal(pg, request):
    """The operator's own without a ledger, the ledger's owner with it."""
    with closing(stranger(pg, 4714)) as leader, waiting(pg, 4714, "worker-b"):
        token = dry(signaller(pg), "advisory/4714").json["confirm"]
        done = run(oncall(pg), "advisory/4714", f"--confirm={token}")
        assert done.status == 77 and done.refused() == ["may-signal"] and alive(pg, leader), done
        assert "42501" in done.json["sentence"]
        assert dry(oncall(pg), "advisory/4714").status == 13
    with Led(pg, request) as d:
        pg.sql("revoke pg_signal_backend from pgleader_owner")
        try:
            assert "pgleader_owner" in d.refuse("may-signal", 77)
        finally:
            pg.sql("grant pg_signal_backend to pgleader_owner")


def test_an_identity_that_may_not_be_read(pg, request):
    """Cannot verify is not changed: it says which grant is missing."""
    pg.sql("create role plain login")
    with closing(stranger(pg, 4715)) as leader, waiting(pg, 4715, "worker-b"):
        pg.sql("revoke all on schema pgleader from public")
        done = run(pg.conninfo(user="plain"), "advisory/4715", "--confirm=advisory/4715 1")
        assert "identity" in done.refused() and alive(pg, leader), done
        assert "Cannot verify" in done.guard("identity")["sentence"] and "pg_read_all_stats" in done.guard("identity")["remedy"]
        assert "owner" not in done.refused(), "what cannot be seen has not changed"
        assert "ledger that you may not read" in done.guard("key")["sentence"], "nor is it absent"
    with Led(pg, request) as d:
        pg.sql("grant pgleader_operator to plain")
        done = run(pg.conninfo(user="plain"), d.duty, d.confirm)
        assert done.status == 13 and set(done.refused()) == {"identity", "confirm"}, f"no other right would help: {done}"
        assert f"Whether generation {d.generation} is this owner's cannot be told." == done.guard("generation")["sentence"]


def test_not_yieldable(pg, request):
    with Led(pg, request, yieldable=False) as d:
        d.refuse("yieldable")


def test_another_yield_is_open(pg, request):
    with Led(pg, request) as d:
        pg.sql("select pgleader.request_yield(%s, %s, 'mine', '1 s')", (d.duty, d.generation))
        assert '"postgres" is open' in d.refuse("yield-open")


def test_cool_down(pg, request):
    """It can be passed over by name, and the audit says so."""
    with Led(pg, request, yield_cooldown="1 h") as d:
        intent = pg.sql("select pgleader.request_yield(%s, %s, 'mine', '1 s')", (d.duty, d.generation))[0][0]
        pg.sql("select pgleader.record_yield_outcome(%s, 'returned')", (intent,))
        assert "cool-down ends at" in d.refuse("cool-down")
        done = run(oncall(pg), d.duty, d.confirm, "--override=cool-down", "--wait=300ms")
        assert done.status == 0 and done.guard("cool-down")["state"] == "overridden", done
        assert audit(pg, d.duty) == ("moved", True, "test", ["cool-down"])


def test_the_audit_cannot_be_written(pg, request):
    """No right to the ledger's functions, or a read-only role; then the local log takes it, if that is said, and only the operator's own
    right remains."""
    pg.sql("create role reader login; create role frozen login; grant pgleader_reader, pg_signal_backend to reader;"
           "grant pgleader_operator, pg_read_all_stats to frozen; alter role frozen set default_transaction_read_only = on")
    with Led(pg, request) as d:
        d.refuse("audit", 77, pg.conninfo(user="reader"))
        assert "read-only" in d.refuse("audit", 13, pg.conninfo(user="frozen"))
        done = run(pg.conninfo(user="reader"), d.duty, d.confirm, "--override=audit", "--wait=300ms")
        assert done.status == 0 and done.json["road"] == "own" and done.json["audit"] == "log", done
        assert "Intent: end pid" in done.err and audit(pg, d.duty) is None


def test_other_duties_of_the_session_are_named(pg, request):
    with Led(pg, request) as d:
        d.leader.execute("select pg_advisory_lock(5001), pg_advisory_lock(12, -7)")
        asked = dry(oncall(pg), d.duty)
        note = asked.guard("other-duties")
        assert asked.status == 0 and note["state"] == "note", asked
        assert "5001" in note["sentence"] and "12,-7" in note["sentence"] and str(d.key) not in note["sentence"]
        pg.sql("select pgleader.register_duty('jobs/beside', lock_key => 5001)")
        pg.sql("select pgleader.register_duty(%s, lock_key => 5002)", (d.duty,))
        begin(d.leader, "jobs/beside")
        d.leader.execute("select pg_advisory_lock(5002)")
        sentence = dry(oncall(pg), d.duty).guard("other-duties")["sentence"]
        assert "It leads jobs/beside, too." in sentence and "5002" not in sentence, "the key that is reserved for it is its own"


def test_a_pooled_session(pg):
    """Behind PgBouncer another client uses the leader's session while the question is open: its name changes."""
    with Pooler(pg) as pooler, closing(pooler.connect("client-a")) as a, closing(pooler.connect("client-b")) as b:
        a.execute("select pg_advisory_lock(4716)")
        with waiting(pg, 4716, "worker-b"):
            with Terminal(pg.conninfo(), "advisory/4716") as t:
                token = t.token()
                b.execute("select 1")
                t.type(token)
                assert t.end() == 13 and "guard pooled" in t.text, t.text
            a.execute("select 1")
            pid = pg.sql("select pid from pg_locks where locktype = 'advisory' and objid = 4716 and granted")[0][0]
            assert alive(pg, pid)


def test_a_prepared_transaction_leads(pg):
    with pg.connect() as conn:
        conn.execute("begin; select pg_advisory_xact_lock(4717)")
        conn.execute("prepare transaction 'led'")
        try:
            asked = dry(pg.conninfo(), "advisory/4717")
            assert asked.status == 13 and "led" in asked.refused(), asked
            assert "ROLLBACK PREPARED" in asked.guard("led")["remedy"]
        finally:
            conn.execute("rollback prepared 'led'")


def test_a_standby(pg, request, tmp_path):
    with Led(pg, request) as d:
        standby = pg.standby()
        try:
            standby.start()
            wait_until(lambda: standby.sql("select 1 from pgleader.duty where duty = %s", (d.duty,)), "the standby has the duty")
            path = tmp_path / "pgleader.yml"
            path.write_text(config(server(standby, "copy", user="oncall", expect="standby"), server(pg, "main", user="oncall")))
            assert json.loads(pgleader("yield", d.duty, "--dry-run", "--json", "--config", path).stdout)["server"] == "main", "not its copy"
            done = run(standby.conninfo(user="oncall"), d.duty, d.confirm)
            assert done.status == 13 and done.json["guards"][0]["code"] == "primary", done
            assert done.json["guards"][0]["state"] == "refused" and "standby" in done.json["sentence"] and alive(pg, d.pid)
        finally:
            standby.destroy()


@pytest.mark.parametrize("options, words", [
    (["--override=owner"], "cannot be overridden"), (["--override=generation"], "cannot be overridden"), (["--override=server"], "cannot be overridden"),
    (["--override=confirm"], "cannot be overridden"), ([], "--confirm is required"), (["--grace=2h"], "at most 1h"), (["--wat"], "no such option"),
    (["--config=x", "--confirm=x"], "exclude each other"),
    (["--wait=25h"], "at most 24h"), (["--wait=106751990d"], "at most 24h")])
def test_a_bad_command_line(pg, options, words):
    done = run(pg.conninfo(), "jobs/x", *options)
    assert done.status == 64 and words in done.err and not done.out, done


def test_no_reason_and_no_duty(pg):
    assert run(pg.conninfo(), "jobs/x", "--confirm=jobs/x 1", reason=None).status == 64
    assert run(pg.conninfo(), "jobs/x", "--confirm=jobs/x 1", reason=" ").status == 64
    done = run(pg.conninfo(), "jobs/never-heard-of", "--confirm=x 1")
    assert done.status == 64 and "no server knows it" in done.err, done


def test_the_ledger_may_not_be_read(pg):
    """A duty of which only the ledger knows, for somebody who may not read that."""
    done = run(signaller(pg), "jobs/whatever", "--confirm=x 1")
    assert done.status == 77 and "GRANT pgleader_operator" in done.err, done


def test_no_server(pg):
    done = run("host=127.0.0.1 port=1 dbname=postgres", "jobs/x", "--confirm=jobs/x 1")
    assert done.status == 69 and not done.out, done
