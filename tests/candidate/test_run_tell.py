# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""What pgleader-run tells: its log, the service manager, and the environment of its command."""

import json
import os
import re
import socket

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster, hold_lock
from tests.support.wait import hold_for, wait_until

KEY = 77
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
SHOW = ["sh", "-c", 'env > "$NOTES"; exec sleep 100']


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty('jobs/tell', lock_key => %s)", (KEY,))
        cluster.sql("create database plain")
        yield cluster


class Manager:
    """A service manager's end of NOTIFY_SOCKET."""

    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.heard = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def messages(self):
        while True:
            try:
                self.heard.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return self.heard

    def wait_for(self, pattern):
        return wait_until(lambda: next((m for m in self.messages() if re.fullmatch(pattern, m)), None), pattern)


def test_service_manager(pg, tmp_path):
    """READY=1 once it competes, not before; STATUS= at each change and not at each try; STOPPING=1."""
    tmp_path.chmod(0o777)
    stranger = hold_lock(pg, KEY, "stranger")
    with Manager(tmp_path) as manager, Candidate(pg.conninfo(), "x", "jobs/tell",
                                                 env={"NOTIFY_SOCKET": manager.path}) as run:
        manager.wait_for("READY=1")
        manager.wait_for("STATUS=follower")
        tries = "select query_start from pg_stat_activity where application_name = 'pgleader:jobs/tell:x'"
        seen = set()
        wait_until(lambda: seen.update(pg.sql(tries)) or len(seen) > 4, "it has tried some times")
        assert manager.messages().count("STATUS=follower") <= 2
        assert not any(m.startswith("WATCHDOG") for m in manager.heard)
        stranger.close()
        status = manager.wait_for(rf"STATUS=leading, generation \d+ since {TIME}")
        assert f"generation {pg.sql('select generation from pgleader.duty')[0][0]} " in status
        run.signal(15)
        assert run.wait() == 0
        assert [manager.messages().count(word) for word in ("READY=1", "STOPPING=1")] == [1, 1]
        assert manager.heard.index("STOPPING=1") > manager.heard.index(status)


def test_not_ready_without_a_database(tmp_path):
    with Manager(tmp_path) as manager, Candidate("host=127.0.0.1 port=1", "x", "jobs/tell", ["true"], ["--lock=1"],
                                                 env={"NOTIFY_SOCKET": manager.path}):
        assert "refused" in manager.wait_for("STATUS=follower: could not connect.*")
        hold_for(lambda: "READY=1" not in manager.messages(), "it is not ready", 0.5)


def test_watchdog(pg, tmp_path):
    """Asked for every 300 ms, it comes at least that often, also while it leads."""
    with Manager(tmp_path) as manager, Candidate(pg.conninfo(), "x", "jobs/tell", env={
            "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"}) as run:
        wait_for_note(run.notes, "beat")
        before = manager.messages().count("WATCHDOG=1")
        hold_for(lambda: True, "it leads", 1.5)
        assert manager.messages().count("WATCHDOG=1") - before >= 5


def environment(run):
    """The command's own, once it has written it down."""
    def read():
        text = run.notes.read_text() if run.notes.exists() else ""
        return "NOTES=" in text and text.endswith("\n") and dict(line.split("=", 1) for line in text.splitlines())
    return wait_until(read, "the command's environment")


def test_environment(pg, tmp_path):
    """What is ours is told; what the service manager told us alone is not passed on."""
    with Manager(tmp_path) as manager, Candidate(pg.conninfo(), "me", "jobs/tell", SHOW, env={
            "NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "30000000", "THEIRS": "kept"}) as run:
        env = environment(run)
        generation = pg.sql("select generation from pgleader.duty")[0][0]
        assert {k: v for k, v in env.items() if k.startswith("PGLEADER_") and k != "PGLEADER_RUN"} == {
            "PGLEADER_DUTY": "jobs/tell", "PGLEADER_INSTANCE": "me", "PGLEADER_KEY": str(KEY),
            "PGLEADER_GENERATION": str(generation)}
        assert env["THEIRS"] == "kept"
        assert not [name for name in env if name.startswith(("NOTIFY", "WATCHDOG"))]


def test_nothing_stale_is_inherited(pg):
    """A generation of the pgleader-run around us would fence the wrong work. No ledger: none, said once."""
    stale = {f"PGLEADER_{name}": "stale" for name in ("DUTY", "INSTANCE", "KEY", "GENERATION", "RUN")}
    with Candidate(pg.conninfo("plain"), "me", "jobs/plain", SHOW, ["--lock=12,-7"], env=stale) as run:
        env = environment(run)
        assert "stale" not in env.values() and "PGLEADER_GENERATION" not in env
        assert (env["PGLEADER_DUTY"], env["PGLEADER_KEY"]) == ("jobs/plain", "12,-7")
        assert run.log().count("no ledger") == 1
        run.signal(15)
        run.wait()
        assert "generation" not in run.status()


def test_a_lease_has_no_key(pg):
    pg.sql("create table if not exists public.leases (job_name text primary key, holder text, expires_at timestamptz)")
    with Candidate(pg.conninfo(), "me", "jobs/leased", SHOW, ["--lease=public.leases:row", "--lease-duration=9s"]) as run:
        env = environment(run)
        assert (env["PGLEADER_DUTY"], "PGLEADER_KEY" in env, "PGLEADER_GENERATION" in env) == ("jobs/leased", False, False)
        assert pg.sql("select holder from public.leases where job_name = 'row' and expires_at > now()") == [("me",)]
        run.signal(15)
        run.wait()
        assert run.status()["lease"] == "public.leases:row" and "key" not in run.status()


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_log(pg, form):
    """Every line names duty and instance; those of the state machine state and rule; generation where known."""
    with Candidate(pg.conninfo(), 'a "b"', "jobs/tell", ["true"], [f"--log.format={form}", "--log.level=debug"]) as run:
        assert run.wait() == 0
        lines = [line for line in run.log().splitlines()]
    if form == "json":
        rows = [json.loads(line) for line in lines]
    else:
        rows = [{k: (v[1:-1].replace('\\"', '"') if v[:1] == '"' else v)
                 for k, v in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)} for line in lines]
    assert all((row["duty"], row["instance"]) == ("jobs/tell", 'a "b"') for row in rows), rows
    rules = {row["rule"]: row for row in rows if "rule" in row and "state" in row}
    assert {"try", "granted", "finished", "released"} <= set(rules)
    assert (rules["try"]["level"], rules["granted"]["level"], rules["granted"]["state"]) == ("debug", "info", "leader")
    generation = str(run.status()["generation"])
    assert rules["granted"]["generation"] == rules["finished"]["generation"] == generation
    assert rows[-1]["outcome"] == "command-ended" and rows[-1]["generation"] == generation


def test_quiet(pg):
    with Candidate(pg.conninfo(), "x", "jobs/tell", ["true"], ["--log.level=error"]) as run:
        assert run.wait() == 0
        assert run.log() == ""


def test_a_recontender_says_each_term_once(pg, tmp_path):
    """Lost and won again: the command's environment has the new generation, the log both terms."""
    tmp_path.chmod(0o777)
    with Candidate(pg.conninfo(), "x", "jobs/tell", None, ["--recontend"], tmp_path / "notes") as run:
        first = wait_for_note(run.notes, "beat")[3]
        pg.sql("select pg_terminate_backend(term_pid) from pgleader.duty")
        wait_until(lambda: any(row.split()[3] != first for row in run.notes.read_text().splitlines()), "a new term")
        log = run.log()
        assert [log.count(f"rule={rule}") for rule in ("granted", "session-lost", "aborted")] == [2, 1, 1]
        assert os.path.exists(f"/proc/{run.process.pid}")
