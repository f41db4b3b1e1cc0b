# SPDX-License-Identifier: PostgreSQL
"""Who leads by a lock: keys, modes, sessions and databases, as PostgreSQL itself holds them."""

from contextlib import ExitStack

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import config, holding, lock_call, lock_duty, majors, pid_of, server, waiting

LEAST, GREATEST = -2**63, 2**63 - 1

# Neighbours on purpose: each pair stands beside the int8 of the same bits, and the reverse.
KEYS = {
    "keys/plain": 742118,
    "keys/plain-bits": (0, 742118),
    "keys/minus-one": -1,
    "keys/minus-one-bits": (-1, -1),
    "keys/least": LEAST,
    "keys/least-bits": (-2**31, 0),
    "keys/greatest": GREATEST,
    "keys/greatest-bits": (2**31 - 1, -1),
    "keys/pair": (12, -7),
    "keys/pair-bits": (12 << 32) | (2**32 - 7),
    "keys/pair-negative": (-1, -2),
    "keys/pair-negative-bits": -2,
    "keys/zero": 0,
    "keys/zero-bits": (0, 0),
}
MANY = {f"many/duty-{n}": 5000 + n for n in range(20)}
MODES = 9000
DUTIES = [lock_duty(name, key) for name, key in {**KEYS, **MANY}.items()] + [
    lock_duty("modes/one", MODES, candidates="worker-%"),
    lock_duty("modes/derived", {"derive": "v1", "environment": "prod"}),
]


@pytest.fixture(scope="module", params=majors(), ids="pg{}".format)
def cluster(request):
    with Cluster(request.param, settings={"max_prepared_transactions": "4"}) as pg:
        pg.sql("create database other")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    text = config(server(cluster, "db", duties=DUTIES), server(cluster, "other", "other", duties=DUTIES[:1]))
    with Exporter(config=text) as e:
        e.wait_for(lambda s: s.find("up") == [1, 1], "both servers are up")
        yield e


def led(samples, server="db"):
    return sorted(labels["duty"] for name, labels, value in samples
                  if name == "pgleader_leader_held" and value == 1 and labels["server"] == server)


@pytest.fixture(autouse=True)
def nobody_leads(exporter):
    yield
    exporter.wait_for(lambda s: not led(s) and not led(s, "other") and sum(s.find("foreign_locks")) == 0
                      and sum(s.find("shared_owners")) == 0, "the locks of this test are gone")


@pytest.mark.parametrize("half", [0, 1], ids=["keys", "neighbours"])
def test_a_key_is_its_own_duty_and_no_other(cluster, exporter, half):
    """Half of the keys are held, each by a session of its own; nobody holds the neighbour of any of them."""
    chosen = list(KEYS)[half::2]
    with ExitStack() as stack:
        pids = {duty: pid_of(stack.enter_context(holding(cluster, KEYS[duty]))) for duty in chosen}
        samples = exporter.wait_for(lambda s: len(led(s)) >= len(chosen), "they are led")
        assert led(samples) == sorted(chosen)
        assert {duty: samples.one("owner_pid", duty=duty, server="db") for duty in chosen} == pids
        assert {samples.one("owners", duty=duty, server="db") for duty in chosen} == {1}
        assert samples.one("unregistered_locks", server="db") == 0
        for duty in chosen:
            text = ",".join(map(str, KEYS[duty])) if isinstance(KEYS[duty], tuple) else str(KEYS[duty])
            assert samples.labels("duty_info", duty=duty, server="db") == {
                "server": "db", "duty": duty, "mechanism": "lock", "source": "config", "key": text, "team": ""}


def test_a_derived_key_is_the_vector_of_the_ledger(cluster, exporter):
    """sha256("pgleader:1:prod:modes/derived"), its first 8 bytes, computed here by the server."""
    digest = "encode(substr(sha256('pgleader:1:prod:modes/derived'), 1, 8), 'hex')"
    key = cluster.sql(f"select ('x' || {digest})::bit(64)::int8")[0][0]
    with holding(cluster, key):
        samples = exporter.wait_for(lambda s: led(s), "the derived key is led")
        assert led(samples) == ["modes/derived"]
        assert samples.labels("duty_info", duty="modes/derived")["key"] == str(key)


def test_the_same_key_in_another_database_is_another_lock(cluster, exporter):
    with holding(cluster, 742118, dbname="other") as conn:
        samples = exporter.wait_for(lambda s: led(s, "other") and s.one("foreign_locks", server="db"), "the duty of the other database is led")
        assert samples.one("owner_pid", server="other", duty="keys/plain") == pid_of(conn)
        assert led(samples) == []
        assert samples.one("foreign_locks", server="db") == 1
        assert samples.one("foreign_locks", server="other") == 0
        assert samples.one("unregistered_locks", server="db") == 0
        with holding(cluster, 742118) as second:
            samples = exporter.wait_for(lambda s: led(s) and s.one("foreign_locks", server="other"), "both are led")
            assert samples.one("owner_pid", server="db", duty="keys/plain") == pid_of(second)
            assert samples.one("owner_pid", server="other", duty="keys/plain") == pid_of(conn)


def test_one_backend_may_hold_many_duties(cluster, exporter):
    with holding(cluster, 5000) as conn:
        for key in list(MANY.values())[1:]:
            conn.execute(f"select {lock_call('pg_advisory_lock', key)}")
        samples = exporter.wait_for(lambda s: len(led(s)) == len(MANY), "all of them are led")
        assert led(samples) == sorted(MANY)
        assert {samples.one("owner_pid", duty=duty) for duty in MANY} == {pid_of(conn)}


def test_a_lock_that_no_duty_names_is_counted(cluster, exporter):
    with holding(cluster, 31337), holding(cluster, (31, 337), shared=True):
        samples = exporter.wait_for(lambda s: s.one("unregistered_locks", server="db") == 2, "two locks are unregistered")
        assert led(samples) == []


def sessions(cluster, stack, rows):
    """Opens (kind, application_name) sessions on the one key of MODES."""
    for kind, name in rows:
        if kind == "waits":
            stack.enter_context(waiting(cluster, MODES, name))
            continue
        conn = stack.enter_context(holding(cluster, MODES, name, shared=kind == "shares"))
        if kind == "both":
            conn.execute(f"select {lock_call('pg_advisory_lock_shared', MODES)}")


ABSENT = None
MODE_ROWS = {
    "owned": ([("owns", "a")], dict(leader_held=1, owners=1, shared_owners=0, waiters=0, candidates=1, oldest_wait_seconds=ABSENT)),
    "shared": ([("shares", "a")],
               dict(leader_held=0, owners=0, shared_owners=1, owner_pid=ABSENT, duty_state=2, owner_backend_start_timestamp_seconds=ABSENT)),
    "shared by two": ([("shares", "a"), ("shares", "worker-b")], dict(leader_held=0, owners=0, shared_owners=2)),
    "exclusive and share in one session": ([("both", "a")], dict(leader_held=1, owners=1, shared_owners=1, candidates=1)),
    "waited for": ([("owns", "a"), ("waits", "worker-b"), ("waits", "worker-c")], dict(leader_held=1, owners=1, waiters=2, candidates=3)),
    "shared and waited for": ([("shares", "a"), ("waits", "worker-b")], dict(leader_held=0, shared_owners=1, waiters=1)),
    "a waiter of the owner's own instance": ([("owns", "a"), ("waits", "a")], dict(leader_held=1, waiters=1, candidates=1)),
}


@pytest.mark.parametrize("row", MODE_ROWS)
def test_modes(cluster, exporter, row):
    opened, expected = MODE_ROWS[row]
    def matches(samples):
        return all(samples.one(name, duty="modes/one") == value for name, value in expected.items())
    with ExitStack() as stack:
        sessions(cluster, stack, opened)
        samples = exporter.wait_for(lambda s: matches(s) and s.one("up", server="db"), f"{row}: {expected}")
        assert (samples.labels("owner_info", duty="modes/one") is None) == (expected["leader_held"] == 0)


def test_the_longest_wait_is_measured(cluster, exporter):
    with holding(cluster, MODES), waiting(cluster, MODES, "first") as first:
        if cluster.major < 14:
            exporter.wait_for(lambda s: s.one("waiters", duty="modes/one") == 1, "it waits")
            assert exporter.scrape().one("oldest_wait_seconds", duty="modes/one") is None, "nobody can tell since when"
            return
        start = cluster.sql("select extract(epoch from waitstart)::float8 from pg_locks where pid = %s and not granted",
                            (pid_of(first),))[0][0]
        exporter.wait_for(lambda s: (s.one("oldest_wait_seconds", duty="modes/one") or 0) > 0.3, "the wait is 0.3 s old")
        with waiting(cluster, MODES, "second"):
            exporter.wait_for(lambda s: s.one("waiters", duty="modes/one") == 2, "two wait")
            before = cluster.sql("select extract(epoch from clock_timestamp())::float8")[0][0]
            samples = exporter.wait_for(lambda s: s.one("oldest_wait_seconds", duty="modes/one") > before - start,
                                        "the longest wait is the first session's")
            after = cluster.sql("select extract(epoch from clock_timestamp())::float8")[0][0]
            assert samples.one("oldest_wait_seconds", duty="modes/one") <= after - start


def test_the_lock_of_a_prepared_transaction_has_no_session(cluster, exporter):
    with cluster.connect() as conn:
        conn.execute("begin")
        conn.execute(f"select {lock_call('pg_advisory_xact_lock', MODES)}")
        conn.execute("prepare transaction 'leader'")
    try:
        samples = exporter.wait_for(lambda s: led(s) and s.one("owner_pid", duty="modes/one") is None,
                                    "the prepared transaction leads")
        assert samples.one("leader_held", duty="modes/one") == 1
        assert samples.one("owner_backend_start_timestamp_seconds", duty="modes/one") is None
        assert samples.labels("owner_info", duty="modes/one")["holder"] == "prepared transaction"
        assert samples.one("acquisition_uncertainty_seconds", duty="modes/one") is not None  # it was seen to happen
    finally:
        cluster.sql("rollback prepared 'leader'")


def test_what_is_known_of_the_owner(cluster, exporter):
    with holding(cluster, 742118, "worker \"one\"\\", host=str(cluster.base)) as conn:
        conn.execute("begin")
        conn.execute("select txid_current()")
        samples = exporter.wait_for(lambda s: s.one("owner_xact_age_seconds", duty="keys/plain", server="db"), "in a transaction")
        info = exporter.wait_for(lambda s: s.labels("owner_info", duty="keys/plain", server="db")["usename"],
                                 "the role's name is read").labels("owner_info", duty="keys/plain", server="db")
        start = cluster.sql("select extract(epoch from backend_start)::float8 from pg_stat_activity where pid = %s", (pid_of(conn),))
        assert info == {"server": "db", "duty": "keys/plain", "holder": 'worker "one"\\', "application_name": 'worker "one"\\',
                        "usename": "postgres", "client_addr": "local"}
        assert samples.one("owner_backend_start_timestamp_seconds", duty="keys/plain", server="db") == pytest.approx(start[0][0], abs=1e-5)
        assert samples.one("owner_pooled", duty="keys/plain", server="db") == 0
    with holding(cluster, 742118, "worker") as conn:
        samples = exporter.wait_for(lambda s: s.one("owner_pid", duty="keys/plain", server="db") == pid_of(conn), "led over TCP")
        assert samples.labels("owner_info", duty="keys/plain", server="db")["client_addr"] == "127.0.0.1"


def test_a_holder_that_changes_its_name_looks_pooled(cluster, exporter):
    with holding(cluster, MODES, "worker-a") as conn:
        exporter.wait_for(lambda s: s.one("owner_pooled", duty="modes/one") == 0, "led, not pooled")
        conn.execute("set application_name = 'worker-b'")
        exporter.wait_for(lambda s: s.one("owner_pooled", duty="modes/one") == 1, "pooled: another name under one lock")
        conn.execute("set application_name = 'worker-a'")
        samples = exporter.wait_for(lambda s: s.labels("owner_info", duty="modes/one")["holder"] == "worker-a", "renamed back")
        assert samples.one("owner_pooled", duty="modes/one") == 1
    with holding(cluster, MODES, "worker-c"):
        exporter.wait_for(lambda s: s.one("owner_pooled", duty="modes/one") == 0, "another session is not")
