# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Every way in which pgleader-run can end: its exit status, and the same in the status file."""

import json
import re
import signal
import subprocess
from collections import namedtuple

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.exporter import program
from tests.support.pooler import Pooler
from tests.support.wait import wait_until

KEY = 4711
DUTY = "jobs/ends"
HBA = """local all all trust
host all secretive 127.0.0.1/32 scram-sha-256
host all uninvited 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
"""
ROLES = """
create role secretive login password 'right';
create role uninvited login;
create role bystander login;
create role outsider login;
create database closed;
revoke connect on database closed from public;
"""


@pytest.fixture(scope="module")
def pg():
    with Cluster(hba=HBA) as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => %s)", (DUTY, KEY))
        for statement in filter(str.strip, ROLES.split(";")):
            cluster.sql(statement)
        yield cluster


def no_deed(_pg, _run):
    pass


def terminate(pg, run):
    wait_for_note(run.notes, "beat")
    assert pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty where duty = %s", (DUTY,)) == [(True,)]


def ask_to_yield(pg, run):
    generation = int(wait_for_note(run.notes, "beat")[3])
    pg.sql("select pgleader.request_yield(%s, %s, 'a test', '10 s')", (DUTY, generation))


def stop_while_it_waits(sig):
    def deed(pg, run):
        wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = %s and query like "
                                  "'%%try%%'", (f"pgleader:{DUTY}:x",)), "it has tried")
        run.signal(sig)
    return deed


def stop_while_it_runs(sig):
    def deed(_pg, run):
        wait_for_note(run.notes, "beat")
        run.signal(sig)
    return deed


End = namedtuple("End", "what status outcome command options deed taken more user dbname", defaults=(
    None, (), no_deed, False, {}, None, "postgres"))

ENDS = [
    End("exit 0", 0, "command-ended", ["true"], more={"command_status": 0, "rule": "finished"}),
    End("exit 7", 7, "command-ended", ["sh", "-c", "exit 7"], more={"command_status": 7}),
    End("a number of ours", 75, "command-ended", ["sh", "-c", "exit 75"], more={"command_status": 75}),
    End("kill -9 of itself", 137, "command-ended", ["sh", "-c", "kill -9 $$"], more={"command_signal": 9}),
    End("SIGTERM, which it obeys", 0, "command-ended", deed=stop_while_it_runs(signal.SIGTERM),
        more={"command_status": 0, "rule": "signal"}),
    End("SIGINT, which ends it", 130, "command-ended", ["sh", "-c", 'echo beat 1 x 1 >>"$NOTES"; exec sleep 100'],
        deed=stop_while_it_runs(signal.SIGINT), more={"command_signal": 2}),
    End("SIGTERM while it waits", 143, "signalled", taken=True, deed=stop_while_it_waits(signal.SIGTERM)),
    End("SIGINT while it waits", 130, "signalled", taken=True, deed=stop_while_it_waits(signal.SIGINT)),
    End("SIGHUP while it waits", 129, "signalled", taken=True, deed=stop_while_it_waits(signal.SIGHUP)),
    End("no such command", 127, "not-started", ["/nowhere/nothing"], more={
        "reason": 'could not execute "/nowhere/nothing": No such file or directory'}),
    End("no such command in PATH", 127, "not-started", ["no-such-program"]),
    End("no program", 126, "not-started", ["/etc"], more={"reason": 'could not execute "/etc": Permission denied'}),
    End("not acquired", 75, "not-acquired", ["true"], ["--timeout=300ms"], taken=True),
    End("lost", 76, "lost", deed=terminate, more={"rule": "session-lost", "command_status": 0}),
    End("yielded", 76, "yielded", deed=ask_to_yield, more={"rule": "yield-request", "command_status": 0}),
    End("wrong password", 77, "no-permission", ["true"], user="secretive"),
    End("refused by pg_hba.conf", 77, "no-permission", ["true"], user="uninvited"),
    End("no CONNECT", 77, "no-permission", ["true"], user="bystander", dbname="closed"),
    End("no right in the ledger", 77, "no-permission", ["true"], user="outsider"),
]


@pytest.mark.parametrize("end", ENDS, ids=[end.what for end in ENDS])
def test_ends(pg, end, tmp_path):
    holder = hold_lock(pg, KEY, "stranger") if end.taken else None
    conninfo = pg.conninfo(end.dbname, user=end.user, **({"password": "wrong"} if end.user else {}))
    tmp_path.chmod(0o777)
    with Candidate(conninfo, "x", DUTY, end.command, end.options, tmp_path / "notes") as run:
        end.deed(pg, run)
        assert run.wait() == end.status, run.log()
        status = run.status()
    expected = {"outcome": end.outcome, "status": end.status, "duty": DUTY, "instance": "x", **end.more}
    assert {name: status.get(name) for name in expected} == expected, status
    assert status["reason"] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", status["ended"])
    assert status["started"] <= status["ended"]
    led = end.outcome in ("command-ended", "lost", "yielded", "not-started")
    assert [name in status for name in ("generation", "leading_since")] == [led, led]
    if led:
        newest = pg.sql("select generation from pgleader.current_term where duty = %s", (DUTY,))[0][0]
        assert status["generation"] == newest and status["key"] == str(KEY)
    assert ("command_status" in status or "command_signal" in status) == (led and end.outcome != "not-started")
    assert f"outcome={end.outcome}" in run.log()
    if holder:
        holder.close()
    wait_until(lambda: not pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = %s", (KEY,)), "it is free")


def test_unavailable():
    """No server within --timeout; a server that was there and went is the same as a lock not acquired."""
    with Candidate(f"host=127.0.0.1 port={free_port()}", "x", "jobs/away", ["true"],
                   ["--lock=1", "--timeout=300ms"]) as run:
        assert run.wait() == 69
        assert (run.status()["outcome"], run.status()["status"]) == ("unavailable", 69)


def test_refused(pg):
    """A pooler's session cannot hold a lock."""
    with Pooler(pg) as pooler, Candidate(pooler.conninfo(), "x", "jobs/pooled", ["true"], ["--lock=816"]) as run:
        assert run.wait() == 64
        assert (run.status()["outcome"], run.status()["status"]) == ("refused", 64)
        assert "a pooler stands between" in run.log()
    assert not pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = 816")


def test_a_login_refused_later_is_tried_again(pg, tmp_path):
    """An operator who closes a database for an hour does not end its candidates."""
    pg.sql("create role later login; grant pgleader_candidate to later")
    tmp_path.chmod(0o777)
    with Candidate(pg.conninfo(user="later"), "x", DUTY, None, ["--recontend"], tmp_path / "notes") as run:
        generation = wait_for_note(run.notes, "beat")[3]
        pg.sql("alter role later nologin")
        pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty where duty = %s", (DUTY,))
        wait_until(lambda: "28000" in run.log(), "the login is refused")
        pg.sql("alter role later login")
        wait_until(lambda: [n for n in run.notes.read_text().splitlines() if n.split()[3] != generation], "it leads again")


def test_a_signal_after_a_loss(pg, tmp_path):
    """Lost, to be won again, and then told to stop while the work is being aborted."""
    slow = 'trap "echo term 1 x 1 >>$NOTES; sleep 1; exit 0" TERM; echo beat 1 x 1 >>$NOTES; while :; do sleep 0.05; done'
    tmp_path.chmod(0o777)
    with Candidate(pg.conninfo(), "x", DUTY, ["bash", "-c", slow], ["--recontend"], tmp_path / "notes") as run:
        wait_for_note(run.notes, "beat")
        pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty where duty = %s", (DUTY,))
        wait_for_note(run.notes, "term")
        run.signal(signal.SIGTERM)
        assert run.wait() == 143
        assert (run.status()["outcome"], run.status()["rule"]) == ("signalled", "session-lost")


def test_a_command_that_ends_ends_it_also_with_recontend(pg):
    with Candidate(pg.conninfo(), "x", DUTY, ["sh", "-c", "exit 3"], ["--recontend"]) as run:
        assert run.wait() == 3
        assert run.status()["outcome"] == "command-ended"


USAGE = [
    ("no separator", ["--duty=jobs/x", "--lock=1"], "-- and a command"),
    ("no duty", ["--", "true"], "--duty is missing"),
    ("bad lock", ["--duty=jobs/x", "--lock=12,x", "--", "true"], "not a key"),
    ("bad duty", ["--duty=Jobs", "--lock=1", "--", "true"], "not namespace/name"),
    ("a duty to break JSON with", ['--duty=a"b\\/\x01', "--lock=1", "--", "true"], "not namespace/name"),
    ("unknown option", ["--duti=jobs/x", "--", "true"], "no such option"),
    ("lock and lease", ["--duty=jobs/x", "--lock=1", "--lease=t:r", "--", "true"], "exclude each other"),
    ("queue for a lease", ["--duty=jobs/x", "--lease=t:r", "--wait=queue", "--", "true"], "not for a lease"),
    ("no table", ["--duty=jobs/x", "--lease=:r", "--", "true"], "not a table"),
    ("no row", ["--duty=jobs/x", "--lease=t:", "--", "true"], "not a table, or a table and a row"),
    ("no schema", ["--duty=jobs/x", "--lease=.t:r", "--", "true"], "schema.table:row"),
    ("three names", ["--duty=jobs/x", "--lease=a.b.c:r", "--", "true"], "not a table"),
    ("no duration", ["--duty=jobs/x", "--lease=t", "--lease-duration=0", "--", "true"], "not positive"),
    ("bad wait", ["--duty=jobs/x", "--wait=long", "--", "true"], "not try or queue"),
    ("bad time", ["--duty=jobs/x", "--timeout=5", "--", "true"], "not a duration"),
    ("bad level", ["--duty=jobs/x", "--log.level=loud", "--", "true"], "not debug, info"),
    ("no name", ["--duty=jobs/x", "--name=", "--", "true"], "--name is empty"),
    ("two servers", ["--duty=jobs/x", "host=a", "port=1", "--", "true"], "more than one CONNINFO"),
    ("a sum that cannot be kept", ["--duty=jobs/x", "--lock=1", "--kill-after=10s", "--", "true"], "= 13 s"),
]


@pytest.mark.parametrize("what, argv, words", USAGE, ids=[u[0] for u in USAGE])
def test_usage(what, argv, words, tmp_path):
    path = tmp_path / "status"
    done = subprocess.run([program("pgleader-run"), f"--status-file={path}", *argv], capture_output=True, text=True)
    assert (done.returncode, words in done.stderr, done.stdout) == (64, True, ""), done.stderr
    status = json.loads(path.read_text())
    assert (status["outcome"], status["status"]) == ("usage", 64) and words in status["reason"] + done.stderr


def test_a_name_that_is_not_utf8(tmp_path):
    path = tmp_path / "status"
    done = subprocess.run([program("pgleader-run"), f"--status-file={path}", "--duty=jobs/x", b"--name=a\xff\"b", "--",
                           "true"], capture_output=True)
    assert done.returncode == 64 and b"not UTF-8" in done.stderr
    assert json.loads(path.read_bytes().decode("utf-8"))["instance"] == 'a\ufffd"b'


def test_help_names_every_end():
    done = subprocess.run([program("pgleader-run"), "--help"], capture_output=True, text=True, check=True)
    for outcome in {end.outcome for end in ENDS} | {"usage", "refused", "unavailable"}:
        assert re.search(rf"^  (its own|\d+) +{outcome} ", done.stdout, re.M), outcome
    assert [line for line in done.stdout.splitlines() if len(line) > 100] == []
