# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader status` on real servers: what it says of each state, what it does not know, and its exit status."""

import socket
import time
from datetime import datetime, timezone

import pytest

from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.pooler import Pooler
from tests.support.scene import (SEED_LEASE, clock, config, holding, lease_duty, lock_duty, majors, pid_of, server,
                                 take_lease, waiting)
from tests.support.status import Picture, status, table

WORK, FREE, NIGHTLY, PLAIN = "jobs/work", "jobs/free", "reports/nightly", "jobs/plain"


@pytest.fixture(scope="module")
def pg():
    with Cluster(settings={"wal_level": "replica", "max_wal_senders": 4, "hot_standby": "on"}) as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => 1, candidates => 'worker-%%', stall_after => '1 h')", (WORK,))
        cluster.sql(SEED_LEASE.format(table="public.leader_lease"))
        cluster.sql("create role watcher login; grant pgleader_reader to watcher; revoke pg_read_all_stats from pgleader_reader")
        cluster.sql("create role stranger login")
        yield cluster


@pytest.fixture(scope="module")
def leader(pg):
    with holding(pg, 1, "worker-1") as conn:
        generation, = conn.execute("select pgleader.begin_term(%s, 'worker-1')", (WORK,)).fetchone()
        conn.execute("select * from pgleader.claim_run(%s, 'day-1', %s, '1 hour')", (WORK, generation))
        conn.execute("select pgleader.advance_run(%s, 'day-1', %s, 'invoice 40', 40, 200)", (WORK, generation))
        conn.generation = generation
        yield conn


@pytest.fixture
def written(tmp_path):
    """A configuration file of these servers; the options that name it."""
    def write(*servers, **more):
        path = tmp_path / "pgleader.yml"
        path.write_text(config(*servers, **more))
        return f"--config={path}"
    return write


def seconds(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()


def test_a_duty_of_the_ledger(pg, leader):
    """Owner, generation, candidates, waiter and run with its cursor, as they are; led: 0."""
    before = clock(pg)
    with waiting(pg, 1, "worker-2"):
        seen = Picture(WORK, pg.conninfo(), expect=0)
    duty, at = seen.duty(WORK), seen.server()
    assert (at["up"], at["in_recovery"], at["privileged"]) == (True, False, True)
    assert at["system_identifier"] == str(pg.sql("select system_identifier from pg_control_system()")[0][0])
    assert before <= seconds(at["polled_at"]) <= clock(pg)
    assert {k: duty[k] for k in ("state", "mechanism", "source", "key", "generation", "candidates", "waiters")} == {
        "state": "led", "mechanism": "lock", "source": "ledger", "key": "1", "generation": leader.generation,
        "candidates": 2, "waiters": 1}
    started = pg.sql("select extract(epoch from backend_start)::float8 from pg_stat_activity where pid = %s", (pid_of(leader),))
    assert seconds(duty["owner"].pop("backend_start")) == pytest.approx(started[0][0], abs=2e-6)
    assert duty["owner"] == {"pid": pid_of(leader), "application_name": "worker-1", "usename": "postgres",
                             "client_addr": "127.0.0.1"}
    assert duty["acquired_source"] == "ledger" and duty["oldest_wait_seconds"] > 0
    assert duty["acquisition_age_seconds"] == pytest.approx(seconds(at["polled_at"]) - seconds(duty["acquired_at"]), abs=0.05)
    run = duty["run"]
    assert (run["key"], run["status"], run["cursor"], run["position"], run["target"]) == ("day-1", "running", "invoice 40", 40, 200)
    assert seconds(run["deadline_at"]) == pytest.approx(seconds(run["started_at"]) + 3600, abs=1e-3)
    assert run["finished_at"] is None and 0 < run["progress_age_seconds"] < 600
    assert duty["lease"] is None


@pytest.mark.parametrize("major", sorted({majors()[0], majors()[-1]}))
def test_the_oldest_and_the_newest_version(major):
    """The same JSON from the oldest and the newest PostgreSQL; 12 and 13 cannot tell since when a session waits."""
    with Cluster(major) as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => 1)", (WORK,))
        with holding(cluster, 1, "worker-1") as conn, waiting(cluster, 1):
            generation, = conn.execute("select pgleader.begin_term(%s, 'worker-1')", (WORK,)).fetchone()
            duty = Picture(cluster.conninfo(), expect=0).duty(WORK)
    assert (duty["state"], duty["generation"], duty["owner"]["usename"], duty["waiters"]) == ("led", generation, "postgres", 1)
    assert (duty["oldest_wait_seconds"] is None) == (major < 14)


def test_a_lease(pg, written):
    """Held, expired and not there: led, vacant, vacant."""
    duties = [lease_duty(NIGHTLY, "public.leader_lease", "nightly"), lease_duty("reports/never", "public.leader_lease", "never")]
    take_lease(pg, "nightly", "node-a", "1 hour")
    options = [written(server(pg, duties=duties)), NIGHTLY]
    lease = Picture(*options, expect=0).duty(NIGHTLY)
    assert lease["lease"]["holder"] == "node-a" and 3000 < lease["lease"]["remaining_seconds"] <= 3600
    assert lease["waiters"] is None and lease["owner"]["pid"] is None and lease["generation"] is None
    pg.sql("update leader_lease set expires_at = now() - interval '1 minute'")
    lease = Picture(*options, expect=1).duty(NIGHTLY)
    assert (lease["state"], lease["owner"], lease["lease"]["holder"]) == ("vacant", None, None)
    assert lease["lease"]["remaining_seconds"] < -50
    pg.sql("update leader_lease set expires_at = 'infinity'")
    lease = Picture(*options, expect=0).duty(NIGHTLY)["lease"]
    assert (lease["expires_at"], lease["remaining_seconds"]) == (None, None)
    assert Picture(options[0], "reports/never", expect=1).duty("reports/never")["lease"] is None


def test_a_takeover_and_a_stall(pg):
    """Both are known to the first look, by the ledger alone."""
    duty = "jobs/moved"
    pg.sql("select pgleader.register_duty(%s, lock_key => 3, stall_after => '1 ms')", (duty,))
    with holding(pg, 3, "m1") as first:
        generation, = first.execute("select pgleader.begin_term(%s, 'm1')", (duty,)).fetchone()
        first.execute("select pgleader.end_term(%s, %s, 'released')", (duty, generation))
    with holding(pg, 3, "m2") as second:
        generation, = second.execute("select pgleader.begin_term(%s, 'm2')", (duty,)).fetchone()
        moved = Picture(duty, pg.conninfo(), expect=0).duty(duty)
        second.execute("select * from pgleader.claim_run(%s, 'k', %s, '1 hour')", (duty, generation))
        stalled = Picture(duty, pg.conninfo(), expect=1).duty(duty)
    assert moved["last_takeover"]["at"] == moved["acquired_at"]
    assert 0 <= moved["last_takeover"]["at_least_seconds"] <= moved["last_takeover"]["at_most_seconds"] < 60
    assert (stalled["state"], stalled["owner"]["application_name"]) == ("stalled", "m2")
    pg.sql("select pgleader.retire_duty(%s)", (duty,))


def test_contested_needs_two_looks(pg):
    """An open term of a living session that is not the owner: one run of the program sees it twice."""
    duty = "jobs/torn"
    pg.sql("select pgleader.register_duty(%s, lock_key => 4)", (duty,))
    with hold_lock(pg, 4, "old") as old:
        old.execute("select pgleader.begin_term(%s, 'old')", (duty,))
        old.execute("select pg_advisory_unlock(4)")
        with hold_lock(pg, 4, "new"):
            assert Picture(duty, pg.conninfo(), expect=1).duty(duty)["state"] == "contested"
    pg.sql("select pgleader.retire_duty(%s)", (duty,))


def test_a_server_that_is_down(pg, leader, written):
    """2, whatever the other says; the JSON is whole, names its duties, and the reason is on standard error."""
    gone = {"name": "gone", "conninfo": f"host=127.0.0.1 port={free_port()}",
            "duties": [lock_duty("jobs/far", (12, -7)), lease_duty("reports/far", "leader_lease", "r")]}
    option = written(server(pg), gone)
    seen = Picture(option, expect=2)
    assert seen.server("gone") == {"server": "gone", "up": False, "system_identifier": None, "in_recovery": None,
                                   "privileged": None, "polled_at": None, "duties": seen.server("gone")["duties"]}
    assert {d: v["key"] for d, v in seen.duties("gone").items()} == {"jobs/far": "12,-7",
                                                                     "reports/far": "public.leader_lease:r"}
    for duty in seen.duties("gone").values():
        assert {v for k, v in duty.items() if k not in ("duty", "mechanism", "source", "key")} == {"unknown", None}
    assert seen.states("db")[WORK] == "led"
    assert 'server "gone": could not connect' in seen.errors and "Connection refused" in seen.errors
    text = status(option)
    assert text.returncode == 2 and text.stderr == ""
    assert "\nserver gone: DOWN: could not connect: " in text.stdout
    assert Picture(option, "--server=db", WORK, expect=0).errors == ""


def test_a_server_that_does_not_answer(pg):
    """A listener that says nothing costs --timeout and no more; the second of two hosts is still tried."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        began = time.monotonic()
        seen = Picture("--timeout=1s", f"host=127.0.0.1 port={port} dbname=db", expect=2)
        assert 1 <= time.monotonic() - began < 3
        assert not seen.server()["up"] and seen.errors == (
            f'pgleader status: server "127.0.0.1:{port}/db": could not poll: no answer in time\n')
        two = f"host=127.0.0.1,127.0.0.1 port={port},{pg.port} user=postgres dbname=postgres"
        assert Picture("advisory/nothing", two, expect=2).server()["up"]


def test_a_standby(pg, leader, written):
    """Nothing is said of who leads. It is unknown where a primary was expected, and no news where it was not."""
    other = pg.standby()
    try:
        other.start()
        seen = Picture(WORK, other.conninfo(), expect=2)
        assert seen.server()["in_recovery"] and seen.duty(WORK)["state"] == "unknown"
        assert [seen.duty(WORK)[k] for k in ("owner", "generation", "candidates", "waiters", "acquired_at")] == [None] * 5
        assert "STANDBY where a primary was expected" in status(other.conninfo()).stdout
        option = written(server(pg), server(other, name="copy", expect="standby"))
        assert Picture(option, WORK, expect=0).states("copy") == {WORK: "unknown"}
        assert "server copy: up, standby, " in status(option).stdout
        assert Picture(option, "--server=copy", expect=0).states() == {WORK: "unknown"}
        assert Picture(option, "--server=copy", WORK, expect=2).errors == ""
    finally:
        other.destroy()


def test_a_role_without_privileges(pg, leader):
    """Who holds the lock is seen; since when is null, not 0."""
    seen = Picture(WORK, pg.conninfo(user="watcher"), expect=0)
    duty = seen.duty(WORK)
    assert seen.server()["privileged"] is False and duty["owner"]["pid"] == pid_of(leader)
    assert [duty["owner"]["backend_start"], duty["owner"]["client_addr"], duty["generation"], duty["acquired_at"]] == [None] * 4
    assert "unprivileged: without pg_read_all_stats" in status(WORK, pg.conninfo(user="watcher")).stdout


def test_a_ledger_that_may_not_be_read(pg, leader):
    """Its duties may be there and nobody can tell: 2, and why."""
    seen = Picture(pg.conninfo(user="stranger"), expect=2)
    assert seen.server()["up"] and "could not read ledger" in seen.errors and "permission denied" in seen.errors
    assert "could not read ledger" in status(pg.conninfo(user="stranger")).stdout


def test_behind_a_pooler(pg, leader):
    with Pooler(pg, "transaction", 1) as pooler:
        assert Picture(WORK, pooler.conninfo(), expect=0).duty(WORK)["generation"] == leader.generation
        assert ", behind a pooler" in status(pooler.conninfo(), WORK).stdout


def test_discovered_locks_do_not_count(pg, leader):
    """Unless they are asked for; one that nobody holds is not known."""
    with holding(pg, 77, "stray"), holding(pg, (12, -7), "pair"):
        seen = Picture(pg.conninfo(), expect=0)
        assert list(seen.states()) == [WORK, "advisory/12,-7", "advisory/77"]
        assert Picture("advisory/12,-7", pg.conninfo(), expect=0).duty("advisory/12,-7")["source"] == "discovery"
    done = status("advisory/77", pg.conninfo())
    assert done.returncode == 2 and done.stderr == (
        'pgleader status: could not find duty "advisory/77": no server that was read knows it\n'
        "hint: a lock that nobody has named is known only while it is held.\n")


def test_problems_stand_first(pg, leader):
    pg.sql("select pgleader.register_duty(%s, lock_key => 2)", (FREE,))
    with holding(pg, 77, "stray"):
        done = status(pg.conninfo())
    assert done.returncode == 1
    assert [line[:3] for line in table(done)] == [["vacant", FREE, "nobody"], ["led", WORK, "worker-1@127.0.0.1"],
                                                  ["led", "advisory/77", "stray@127.0.0.1"]]
    assert "40 of 200, moved" in done.stdout and "\033" not in done.stdout
    pg.sql("select pgleader.retire_duty(%s)", (FREE,))


def test_an_empty_database(pg):
    pg.sql("create database empty")
    done = status(pg.conninfo("empty"))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith("no ledger, at " + done.stdout.split(", at ")[1])
    assert done.stdout.endswith("\n\nno duties\n")
    assert Picture(pg.conninfo("empty"), expect=0).server()["duties"] == []


CODES = [
    (0, [WORK]), (0, ["--csv", WORK]), (1, [PLAIN]), (1, [WORK, PLAIN]), (1, ["--json", PLAIN, WORK]), (2, ["jobs/nobody"]),
    (2, [PLAIN, "jobs/nobody"]), (2, ["--server=other"]), (64, ["work"]), (64, ["/work"]), (64, ["jobs/"]), (64, ["--json", "--csv"]),
    (64, ["--watch", "--json"]), (64, ["--bogus"]), (64, ["--interval=0"]), (64, ["--interval=2"]), (64, ["--timeout"]),
    (64, ["dbname=x"]), (64, ["postgres://x"]), (0, ["--help"]),
]


@pytest.mark.parametrize("code, argv", CODES, ids=[" ".join(argv) for _, argv in CODES])
def test_exit_codes(pg, leader, written, code, argv):
    """Every command line with its status; what is wrong is said on standard error, and only there."""
    done = status(written(server(pg, duties=[lock_duty(PLAIN, 9)])), *argv)
    assert done.returncode == code, done.stdout + done.stderr
    assert bool(done.stderr) == (code == 64 or "jobs/nobody" in argv or "--server=other" in argv), done.stderr
    assert bool(done.stdout) == (code != 64 and "--server=other" not in argv)
    assert all(line.startswith(("pgleader status: could not ", "hint: ")) for line in done.stderr.splitlines())


@pytest.mark.parametrize("code, argv", [(64, ["dbname=a", "dbname=b"]), (64, ["host='"]), (2, ["--config=/nonexistent"])])
def test_exit_codes_without_a_configuration(code, argv):
    done = status(*argv)
    assert (done.returncode, done.stdout) == (code, "") and "could not" in done.stderr


def test_servers_from_the_environment(pg, leader, written):
    """PG* as psql reads them; PGLEADER_CONFIG before them; an operand before both."""
    env = {"PGHOST": "127.0.0.1", "PGPORT": str(pg.port), "PGUSER": "postgres"}
    assert status(WORK, env=env).returncode == 0
    path = written(server(pg, name="by-file")).partition("=")[2]
    assert "server by-file: up" in status(WORK, env={**env, "PGLEADER_CONFIG": path}).stdout
    assert "by-file" not in status(WORK, pg.conninfo(), env={"PGLEADER_CONFIG": path}).stdout
