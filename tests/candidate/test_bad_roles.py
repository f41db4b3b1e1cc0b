# SPDX-License-Identifier: PostgreSQL
"""Hostile settings of a role: a candidate leads all the same."""

import signal
import time
from contextlib import ExitStack

import pytest

from tests.support.candidate import WORKER, Candidate, notes
from tests.support.cluster import Cluster
from tests.support.kit import holder, reason, register, spans, term
from tests.support.wait import hold_for, wait_until

# (setting, what the role has it set to, what the log has to say of it)
HOSTILE = [
    ("statement_timeout", "300ms", None),
    ("lock_timeout", "1ms", None),
    ("default_transaction_read_only", "on", None),
    ("default_transaction_isolation", "serializable", None),
    ("default_transaction_deferrable", "on", None),
    ("synchronous_commit", "off", None),
    ("search_path", "evil", None),
    ("idle_in_transaction_session_timeout", "1ms", "idle_in_transaction_session_timeout"),
    ("idle_session_timeout", "400ms", "idle_session_timeout"),
    ("client_encoding", "LATIN1", None),
    ("datestyle", "SQL, DMY", None),
    ("intervalstyle", "sql_standard", None),
    ("timezone", "Pacific/Chatham", None),
    ("extra_float_digits", "-10", None),
    ("tcp_user_timeout", "60s", None),
    ("tcp_keepalives_idle", "3600", None),
    ("row_security", "off", None),
]

EVIL = """
create schema evil;
grant usage on schema evil to public;
create function evil.pg_backend_pid() returns int language sql as 'select 1';
create view evil.pg_locks as select 1 as pid where false;
create function evil.pg_try_advisory_lock(bigint) returns bool language sql as 'select true';
create function evil.clock_timestamp() returns timestamptz language sql as $$ select '-infinity'::timestamptz $$
"""


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql(EVIL)
        yield cluster


def role_with(pg, setting, value):
    role = f"r_{setting}"
    pg.sql(f"create role {role} login in role pgleader_candidate")
    pg.sql(f"alter role {role} set {setting} = '{value}'")
    return role


@pytest.mark.parametrize("wait", ["try", "queue"])
def test_hostile_roles(pg, tmp_path, wait):
    """Each leads for longer than some checks, in one term, and hands over in order; all at the same time."""
    tmp_path.chmod(0o777)
    runs, calm = {}, ["bash", "-c", WORKER.replace("sleep 0.02", "sleep 0.3")]
    with ExitStack() as stack:
        for setting, value, told in HOSTILE:
            if wait == "try":
                role_with(pg, setting, value)
            duty, path = register(pg, f"test_{wait}_{setting}"), tmp_path / setting
            run = Candidate(pg.conninfo(user=f"r_{setting}"), "a", duty, calm, [f"--wait={wait}"], path)
            runs[setting] = (stack.enter_context(run), duty, path, told)
        for setting, (run, duty, path, told) in runs.items():
            wait_until(lambda: notes(path), f"it leads with {setting}: {run.log()}")
        since = time.time()
        wait_until(lambda: time.time() - since > 2.5, "some checks", every=0.1)
        for setting, (run, duty, path, told) in runs.items():
            assert holder(pg, duty) and notes(path)[-1][1] > time.time() - 1.5, setting
            assert {g for _, g in spans(path)} == {str(term(pg, duty)[0])}, setting
            run.signal(signal.SIGTERM)
        for setting, (run, duty, path, told) in runs.items():
            assert run.wait() == 0, (setting, run.log())
            assert reason(pg, duty, term(pg, duty)[0])[0] == "signal", (setting, run.log())
            assert holder(pg, duty) is None, setting
            assert ("level=warn" in run.log()) == (told is not None), (setting, run.log())
            assert told is None or told in run.log(), (setting, run.log())
    hold_for(lambda: not pg.sql("select 1 from pg_locks where locktype = 'advisory'"), "nothing is left", 0.2)


def test_a_role_that_may_not_begin_a_term(pg, tmp_path):
    """Not of the candidates' role: no permission is an end, not a loop; no lock is left."""
    pg.sql("create role nobody_special login")
    duty = register(pg, "test_no_permission")
    with Candidate(pg.conninfo(user="nobody_special"), "a", duty, ["true"], (), tmp_path / "notes") as run:
        assert run.wait() == 77, run.log()
        assert "permission denied" in run.log() and run.status()["status"] == 77
    assert holder(pg, duty) is None
