# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""pgleader doctor: each check is provoked on a real server, and a healthy set-up has no finding."""

import itertools
import json
import re
import threading
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import pytest

from tests.support.candidate import Candidate
from tests.support.cluster import ROOT, Cluster, hold_lock
from tests.support.command import answer, pgleader
from tests.support.kit import holder
from tests.support.pooler import Pooler
from tests.support.source import text
from tests.support.wait import wait_until

DUTY, KEY = "jobs/invoice-reconcile", 742118
COUNT = itertools.count()
WORKER = {"user": "worker", "application_name": "invoice-worker-1"}
# What a careful administrator sets for workers that do not use the kit.
CAREFUL = {"tcp_keepalives_idle": "2s", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "6",
           "client_connection_check_interval": "2s"}


@lru_cache(maxsize=None)
def listed():
    """{id: (severity, title, remedy)} as --list prints it."""
    rows = [line.split("\t") for line in pgleader("doctor", "--list").stdout.splitlines()]
    return {row[0]: tuple(row[1:]) for row in rows}


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"max_prepared_transactions": 5}) as cluster:
        cluster.sql("create database template_app")
        cluster.install_ledger("template_app")
        cluster.sql("create role worker login in role pgleader_candidate")
        cluster.sql("create role passer_by login")
        for name, value in CAREFUL.items():
            cluster.sql(f"alter role worker set {name} = '{value}'")
        yield cluster


@pytest.fixture
def app(pg):
    """The name of a database of its own, with the ledger and one duty."""
    name = f"app{next(COUNT)}"
    pg.sql(f"create database {name} template template_app")
    register(pg, name, DUTY, f"lock_key => {KEY}")
    return name


def register(pg, dbname, duty, what):
    pg.sql(f"select pgleader.register_duty('{duty}', {what})", dbname=dbname)


def examine(*argv):
    """{id: [(severity, evidence)]}; the exit status, `fit` and the remedies are as they must be."""
    done = pgleader("doctor", *argv, "--json")
    assert done.returncode in (0, 1), done.stderr
    said = json.loads(done.stdout)
    assert said["fit"] == (done.returncode == 0) == all(f["severity"] == "note" for f in said["findings"])
    assert said["checks"] == len(listed())
    found = {}
    for finding in said["findings"]:
        assert finding["remedy"] == listed()[finding["id"]][2]
        found.setdefault(finding["id"], []).append((finding["severity"], finding["evidence"]))
    return found


def findings(pg, dbname, user=None):
    return examine(pg.conninfo(dbname, user=user))


def mend(pg, dbname, check, user=None, *argv):
    """Pastes what doctor prints to be run, for one finding after the other; then there is none."""
    asked = argv or (pg.conninfo(dbname, user=user),)
    shown = pgleader("doctor", *asked).stdout
    for finding in json.loads(pgleader("doctor", *asked, "--json").stdout)["findings"]:
        if finding["id"] == check:
            assert f"run: {finding['statement']}\n" in shown
            pg.sql(finding["statement"], dbname=dbname)
    assert check not in examine(*asked)


def write(tmp_path, *servers, name="pgleader.yml"):
    """A configuration: (name, conninfo, lines below it) each."""
    path = tmp_path / name
    path.write_text("servers:\n" + "".join(f"  - name: {n}\n    conninfo: \"{c}\"\n{more}" for n, c, more in servers))
    return path


@contextmanager
def altered(pg, what, name, value):
    pg.sql(f"alter {what} set {name} = '{value}'")
    try:
        yield
    finally:
        pg.sql(f"alter {what} reset {name}")


@contextmanager
def waiting(pg, app, **who):
    """A session that waits for the duty's lock behind another, in one statement."""
    with hold_lock(pg, KEY, dbname=app, **WORKER) as owner:
        conn = pg.connect(app, **who)
        thread = threading.Thread(target=lambda: conn.execute("select pg_advisory_lock(%s)", (KEY,)), daemon=True)
        thread.start()
        wait_until(lambda: pg.sql("select 1 from pg_locks where pid = %s and not granted", (conn.info.backend_pid,)), "it waits")
        yield conn.info.backend_pid
        owner.close()
        thread.join()
        conn.close()


def test_a_healthy_set_up(pg, app):
    """Like the demo's: candidates of the kit that try and that queue, a worker without it, a stranger's lock."""
    register(pg, app, DUTY, "min_candidates => 3, candidates => 'pgleader:%'")
    register(pg, app, "jobs/queued", "lock_key => 5005, min_candidates => 2")
    register(pg, app, "jobs/plain", "lock_key => 6006, candidates => 'invoice-worker-%', min_candidates => 1")
    register(pg, app, "reports/nightly", "lease_table => 'pgleader.lease'")
    with ExitStack() as stack:
        for name in "abc":
            stack.enter_context(Candidate(pg.conninfo(app), name, DUTY))
        for name in "ab":
            stack.enter_context(Candidate(pg.conninfo(app), name, "jobs/queued", options=["--wait=queue"]))
        stack.enter_context(hold_lock(pg, 6006, dbname=app, **WORKER))
        stack.enter_context(hold_lock(pg, 99, dbname=app, application_name="legacy-import"))
        for duty in (DUTY, "jobs/queued"):
            wait_until(lambda duty=duty: holder(pg, duty, dbname=app), f"somebody leads {duty}")
        names = "select count(distinct application_name) from pg_stat_activity where application_name like 'pgleader:%'"
        wait_until(lambda: pg.sql(names) == [(5,)], "all are there")
        assert findings(pg, app) == {}
        done = pgleader("doctor", pg.conninfo(app))
        assert done.returncode == 0 and done.stdout == f"fit: 0 problems, 0 warnings, 0 notes; {len(listed())} checks, 1 of 1 server\n"


def test_an_empty_database(pg):
    """Before anybody works there: only what a worker without the kit should know, as a note."""
    done = pgleader("doctor", pg.conninfo())
    assert done.returncode == 0
    (severity, evidence), = findings(pg, "postgres").pop("dead-leader-holds")
    assert severity == "note" and "no worker is here yet" in evidence and "2 h 11 min" in evidence


@pytest.mark.parametrize("major", [12, 13, 14, 16, 17, 18])
def test_every_version(major):
    """Nothing fails; the old ones are told of. On 17, transaction_timeout ends a leader inside a transaction."""
    with Cluster(major) as other:
        other.install_ledger()
        register(other, "postgres", DUTY, f"lock_key => {KEY}")
        if major >= 17:
            other.sql("alter role postgres set transaction_timeout = '1h'")
        with hold_lock(other, KEY, application_name="w") as owner:
            owner.execute("begin")
            owner.execute("select 1")
            found = findings(other, "postgres")
            if major < 14:
                assert found["server-version"][0][1].startswith(f"version {major}.")
            assert set(found) == {"dead-leader-holds"} | ({"server-version"} if major < 14 else set()) | \
                ({"transaction-timeout"} if major >= 17 else set())
            if major >= 17:
                assert f"leads {DUTY}" in found["transaction-timeout"][0][1]


def test_role_unexpected_and_standby_asynchronous(pg, app, tmp_path):
    """A standby where a primary is expected, and the reverse; the primary's commits wait for nobody."""
    other = pg.standby()
    try:
        other.start()
        wait_until(lambda: pg.sql("select 1 from pg_stat_replication where state = 'streaming'"), "it streams")
        found = findings(other, app)
        assert "in recovery" in found["role-unexpected"][0][1] and found["role-unexpected"][0][0] == "problem"
        assert findings(pg, app)["standby-asynchronous"] == [("note", "1 standby(s), and commits wait for none of them")]
        path = write(tmp_path, ("a", pg.conninfo(app), ""), ("b", other.conninfo(app), "    expect: standby\n"))
        assert not set(examine("--config", path)) & {"role-unexpected", "two-primaries", "same-database-twice"}
        path = write(tmp_path, ("a", pg.conninfo(app), "    expect: standby\n"))
        assert "a primary" in examine("--config", path)["role-unexpected"][0][1]
    finally:
        other.destroy()


def test_two_primaries(pg, app, tmp_path):
    """Two servers with one system identifier: clusters of the tests are copies of one data directory."""
    with Cluster() as other:
        path = write(tmp_path, ("a", pg.conninfo(app), ""), ("b", other.conninfo(), ""))
        (severity, evidence), = examine("--config", path)["two-primaries"]
        assert severity == "problem" and "a (timeline 1) and b (timeline 1)" in evidence


def test_same_database_twice(pg, app, tmp_path):
    path = write(tmp_path, ("a", pg.conninfo(app), ""), ("b", pg.conninfo(app), ""), ("c", pg.conninfo(), ""))
    found = examine("--config", path)
    assert [e.split(" are ")[0] for _, e in found["same-database-twice"]] == ["a and b"] and "two-primaries" not in found


def test_sessions_hidden_and_cannot_signal(pg, app):
    """A role that may do nothing, the ledger's roles, and a superuser."""
    found = findings(pg, app, "passer_by")
    assert found["sessions-hidden"][0][0] == "warning" and found["cannot-signal"][0][0] == "note"
    assert "permission denied" in found["ledger-unreadable"][0][1]
    pg.sql("create role watcher login in role pgleader_reader")
    pg.sql("create role oncall login in role pgleader_operator, pgleader_reader")
    assert {"sessions-hidden", "ledger-unreadable"}.isdisjoint(findings(pg, app, "watcher"))
    assert "cannot-signal" in findings(pg, app, "watcher") and "cannot-signal" not in findings(pg, app, "oncall")
    pg.sql('create role "Odd ""one" login')
    for check in ("sessions-hidden", "ledger-unreadable", "cannot-signal"):
        mend(pg, app, check, 'Odd "one')
    pg.sql('revoke pgleader_operator from "Odd ""one"')
    mend(pg, "postgres", "cannot-signal", 'Odd "one')


@pytest.mark.parametrize("mode, size", [("transaction", 1), ("transaction", 5), ("session", 5)])
def test_pooler_between(pg, app, mode, size):
    with Pooler(pg, mode, size) as pooler:
        (severity, _), = examine(pooler.conninfo(app))["pooler-between"]
        assert severity == "problem"


def test_prepared_transaction(pg, app):
    with pg.connect(app) as conn:
        conn.execute("begin")
        conn.execute("select pg_advisory_xact_lock(%s)", (KEY,))
        conn.execute(f"prepare transaction '{app}'")
    assert DUTY in findings(pg, app)["prepared-transaction"][0][1]
    pg.sql(f"rollback prepared '{app}'", dbname=app)
    assert "prepared-transaction" not in findings(pg, app)


def test_dead_leader_holds(pg, app):
    """As the role's settings say, in whatever unit; over a socket there is no host to lose."""
    with hold_lock(pg, KEY, dbname=app, **WORKER):
        assert "dead-leader-holds" not in findings(pg, app)
        with altered(pg, f"role worker in database {app}", "tcp_keepalives_idle", "10min"):
            (severity, evidence), = findings(pg, app)["dead-leader-holds"]
            assert severity == "warning" and "invoice-worker-1 from 127.0.0.1, keeps its lock for 10 min" in evidence
            mend(pg, app, "dead-leader-holds")
    with hold_lock(pg, KEY, dbname=app, application_name="careless"):
        assert "2 h 11 min" in findings(pg, app)["dead-leader-holds"][0][1]
        with altered(pg, f"database {app}", "tcp_user_timeout", "8000"):
            assert "2 h 0 min" in findings(pg, app)["dead-leader-holds"][0][1]
            with altered(pg, f"role postgres in database {app}", "tcp_user_timeout", "1h"):
                mend(pg, app, "dead-leader-holds")
    with hold_lock(pg, KEY, dbname=app, application_name="local", host=str(pg.base)):
        assert "dead-leader-holds" not in findings(pg, app)


def test_long_waits(pg, app):
    """waiter-holds-vacuum, and dead-waiter-stays where the server does not look after the client."""
    with waiting(pg, app, application_name="careless") as pid:
        found = wait_until(lambda: (f := findings(pg, app)) and "waiter-holds-vacuum" in f and f, "it has waited long")
        assert f"careless (pid {pid}) waits for {DUTY}" in found["waiter-holds-vacuum"][0][1]
        assert f"(pid {pid})" in found["dead-waiter-stays"][0][1]
        mend(pg, app, "dead-waiter-stays")
    with waiting(pg, app, user="worker", application_name="invoice-worker-2"):
        assert not {"waiter-holds-vacuum", "dead-waiter-stays"} & set(findings(pg, app))
        found = wait_until(lambda: (f := findings(pg, app)) and "waiter-holds-vacuum" in f and f, "it has waited long")
        assert "dead-waiter-stays" not in found


def test_idle_session_timeout(pg, app):
    """Of the role of a candidate, also one that only tries; of nobody else."""
    register(pg, app, DUTY, "candidates => 'invoice-worker-%'")
    with altered(pg, "role worker", "idle_session_timeout", "10min"):
        with pg.connect(app, application_name="bystander", user="worker"), hold_lock(pg, KEY, dbname=app, application_name="x"):
            assert "idle-session-timeout" not in findings(pg, app)
        with pg.connect(app, **WORKER):
            (severity, evidence), = findings(pg, app)["idle-session-timeout"]
            assert (severity, evidence) == ("warning", "role worker, of invoice-worker-1, has idle_session_timeout = 10 min")
            mend(pg, app, "idle-session-timeout")


def test_transactions_of_an_owner(pg, app):
    """idle-transaction-timeout at once, owner-in-transaction after a while; not of an owner outside a transaction."""
    with altered(pg, "role worker", "idle_in_transaction_session_timeout", "1h"), \
            hold_lock(pg, KEY, dbname=app, **WORKER) as owner:
        assert not {"idle-transaction-timeout", "owner-in-transaction"} & set(findings(pg, app))
        owner.execute("begin")
        owner.execute("select 1")
        found = findings(pg, app)
        assert "idle_in_transaction_session_timeout is 1 h 0 min" in found["idle-transaction-timeout"][0][1]
        assert "owner-in-transaction" not in found
        found = wait_until(lambda: findings(pg, app).get("owner-in-transaction"), "it has been idle for long")
        assert f"invoice-worker-1, who leads {DUTY}" in found[0][1] and "idle in transaction" in found[0][1]


def test_deadlock_timeout_short(pg, app):
    with altered(pg, "role postgres", "deadlock_timeout", "100ms"):
        assert findings(pg, app)["deadlock-timeout-short"] == [("warning", "deadlock_timeout is 100 ms")]


def test_a_server_that_is_full():
    """connections-used-up and lock-table-full."""
    with Cluster(settings={"max_connections": 14, "max_locks_per_transaction": 10}) as small, ExitStack() as stack:
        assert not {"connections-used-up", "lock-table-full"} & set(findings(small, "postgres"))
        conns = [stack.enter_context(small.connect()) for _ in range(9)]
        assert findings(small, "postgres")["connections-used-up"] == [("warning", "10 of 11 connections are used")]
        conns[0].execute("select count(pg_advisory_lock(n)) from generate_series(1, 110) n")
        assert re.match(r"1\d\d locks .* 140 are sure to fit", findings(small, "postgres")["lock-table-full"][0][1])


def test_candidates_are_counted(pg, app):
    """too-few-candidates by name; candidates-uncountable where there is no name to count by."""
    register(pg, app, DUTY, "min_candidates => 2")
    with hold_lock(pg, KEY, dbname=app, **WORKER):
        found = findings(pg, app)
        assert DUTY in found["candidates-uncountable"][0][1] and "too-few-candidates" not in found
        register(pg, app, DUTY, "candidates => 'invoice-worker-%'")
        found = findings(pg, app)
        assert found["too-few-candidates"] == [("warning", f"{DUTY} has 1 candidates, and wants 2")]
        assert "candidates-uncountable" not in found
        with pg.connect(app, user="worker", application_name="invoice-worker-2"):
            assert "too-few-candidates" not in findings(pg, app)
    register(pg, app, DUTY, "candidates => ''")
    with Candidate(pg.conninfo(app), "a", DUTY):
        wait_until(lambda: holder(pg, DUTY, dbname=app), "it leads")
        assert "has 1 candidates" in findings(pg, app)["too-few-candidates"][0][1]


def test_names(pg, app):
    """candidate-unnamed, candidate-name-cut, candidate-name-twice."""
    register(pg, app, DUTY, "candidates => 'worker-%'")
    with hold_lock(pg, KEY, dbname=app, application_name="", user="worker"):
        assert f"leads {DUTY} and has no" in findings(pg, app)["candidate-unnamed"][0][1]
    with pg.connect(app, application_name="worker-" + "x" * 80, user="worker"):
        (severity, evidence), = findings(pg, app)["candidate-name-cut"]
        assert severity == "note" and "worker-xxx" in evidence
    with waiting(pg, app, **WORKER) as pid:
        (severity, evidence), = findings(pg, app)["candidate-name-twice"]
        assert f"pid {pid} are both \"invoice-worker-1\"" in evidence
    with waiting(pg, app, user="worker", application_name="invoice-worker-2"):
        assert not {"candidate-unnamed", "candidate-name-cut", "candidate-name-twice"} & set(findings(pg, app))


def test_keys_and_drift(pg, app, tmp_path):
    """key-collision, key-known, registry-differs, registry-lacks."""
    register(pg, app, "jobs/b", "lock_key => 2000")
    path = write(tmp_path, ("main", pg.conninfo(app), f"""    duties:
      - {{duty: jobs/other, lock: {KEY}}}
      - {{duty: jobs/b, lock: 2001}}
      - {{duty: jobs/known, lock: 1000}}
"""))
    found = examine("--config", path)
    assert found["key-collision"] == [("problem", f"key {KEY} is jobs/other in the configuration, and {DUTY} in the registry")]
    assert [e.split(",")[0] for _, e in found["key-known"]] == ["jobs/known has key 1000"]
    assert [e for _, e in found["registry-differs"]] == ["duty jobs/b is key 2001 in the configuration, and key 2000 in the registry"]
    assert [s for s, _ in found["registry-lacks"]] == ["note", "note"]
    path = write(tmp_path, ("main", pg.conninfo(app), f"    duties:\n      - {{duty: {DUTY}, lock: {KEY}}}\n"))
    assert set(examine("--config", path)) <= {"dead-leader-holds"}


def test_ledger(pg, app):
    """ledger-version, older and newer; ledger-rights."""
    pg.sql("insert into pgleader.schema_version (version, file) values (99, '099_future.sql')", dbname=app)
    assert "has version 99" in findings(pg, app)["ledger-version"][0][1]
    pg.sql("delete from pgleader.schema_version where version > 9", dbname=app)
    assert "has version 9," in findings(pg, app)["ledger-version"][0][1]
    pg.sql("revoke usage on schema pgleader from pgleader_candidate", dbname=app)
    assert "rights of pgleader_candidate" in findings(pg, app)["ledger-rights"][0][1]


def test_lease_unlogged(pg, app, tmp_path):
    """By the registry and by the configuration, however the name is written."""
    pg.sql('create unlogged table "Odd Leases" (job_name text, holder text, expires_at timestamptz)', dbname=app)
    pg.sql("create table logged (like \"Odd Leases\")", dbname=app)
    register(pg, app, "jobs/lease", """lease_table => 'public."Odd Leases"'""")
    assert "jobs/lease is led by a row of public.\"Odd Leases\"" in findings(pg, app)["lease-unlogged"][0][1]
    path = write(tmp_path, ("main", pg.conninfo(app), """    duties:
      - {duty: jobs/a, lease: {table: 'public."Odd Leases"', row: a}}
      - {duty: jobs/b, lease: {table: logged, row: b}}
"""))
    assert sorted(e.split()[0] for _, e in examine("--config", path)["lease-unlogged"]) == ["jobs/a", "jobs/lease"]
    mend(pg, app, "lease-unlogged", None, "--config", path)


def test_commit_asynchronous(pg, app):
    with altered(pg, "role postgres", "synchronous_commit", "off"):
        assert findings(pg, app)["commit-asynchronous"] == [("note", "synchronous_commit is off")]
        assert "commit-asynchronous" not in findings(pg, "postgres"), "there is no ledger there"


def test_could_not_look(pg, app, tmp_path):
    """Exit 2, and what could be looked at is still shown."""
    path = write(tmp_path, ("a", pg.conninfo(app, user="passer_by"), ""), ("gone", "host=127.0.0.1 port=1 dbname=x", ""))
    done = pgleader("doctor", "--config", path)
    assert done.returncode == 2 and "could not look at gone: " in done.stderr
    assert "sessions-hidden" in done.stdout and "1 of 2 servers" in done.stdout
    said = answer("doctor", "--config", path, status=2)
    assert [(s["server"], s["looked"], s["error"] is None) for s in said["servers"]] == [("a", True, True), ("gone", False, False)]
    assert not said["fit"]
    assert answer("doctor", "--config", path, "--server=gone", status=2)["findings"] == []


def test_it_only_reads(pg, app):
    """No transaction of it gets a number, as any that writes would; afterwards no lock is held."""
    before = pg.sql("select txid_current()")[0][0]
    findings(pg, app)
    assert pg.sql("select txid_current()") == [(before + 1,)]
    assert pg.sql("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]


def test_a_crowd(pg, tmp_path):
    """100 sessions and 3,000 duties, each with a pattern, are judged within seconds."""
    duties = "".join(f"      - {{duty: crowd/d{n}, lock: {100000 + n}, candidates: 'w{n}-%'}}\n" for n in range(3000))
    path = write(tmp_path, ("main", pg.conninfo(), f"    duties:\n{duties}"))
    with ExitStack() as stack:
        for n in range(100):
            stack.enter_context(pg.connect(user="worker", application_name=f"w{n}-1"))
        done = pgleader("doctor", "--config", path, timeout=8)
        assert done.returncode == 0 and done.stdout.startswith("fit: "), done.stdout + done.stderr


def test_a_terminal_obeys_nothing(pg, app):
    """Control characters of a role's name are not printed, nor what turns the words that follow."""
    pg.sql('create role "evil\x1b[2J\u009bname\u202e" login')
    done = pgleader("doctor", pg.conninfo(app, user="evil\x1b[2J\u009bname\u202e"))
    assert "evil?[2J?name? has" in done.stdout and "\x1b" not in done.stdout and "\x9b" not in done.stdout


@pytest.mark.parametrize("argv", [["a=b", "c=d"], ["--frobnicate"], ["--config", "/nonexistent"], ["nonsense"]])
def test_usage(argv):
    done = pgleader("doctor", *argv)
    assert done.returncode == 64 and done.stdout == "" and done.stderr


def test_the_page_is_the_table():
    """runbook/doctor.md has each check with its severity, what it finds and its remedy, in the table's order."""
    page = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*?) \| (.*?) \|$", text(ROOT / "runbook/doctor.md"), re.M)
    assert [(row[0], row[1:]) for row in page] == list(listed().items())
    assert len(page) == len(listed()) > 25


def test_each_check_is_provoked():
    """No row of the table without its test above."""
    here = text(ROOT / "tests/tui/test_doctor.py")
    missing = [name for name in listed() if f'["{name}"]' not in here and f'"{name}")' not in here]
    assert not missing, f"no test reads a finding of {missing}"
