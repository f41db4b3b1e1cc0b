# SPDX-License-Identifier: PostgreSQL
"""What the truth tests play with: configurations, sessions that note the server's clock, waiters, leases."""

import json
import os
from contextlib import closing, contextmanager

from .cluster import Cluster, hold_lock
from .wait import wait_until


def majors():
    """The major versions of PostgreSQL that a test is to run on: PGLEADER_TEST_MAJORS, or all that are supported."""
    return [int(word) for word in os.environ.get("PGLEADER_TEST_MAJORS", "12,13,14,15,16,17,18").split(",")]


def server(cluster, name="db", dbname="postgres", duties=(), user=None, **more):
    """One entry of `servers`."""
    return {"name": name, "conninfo": cluster.conninfo(dbname, user=user), "duties": list(duties), **more}


def lock_duty(duty, key, **more):
    return {"duty": duty, "lock": list(key) if isinstance(key, tuple) else key, **more}


def lease_duty(duty, table, row, columns=None, **more):
    return {"duty": duty, "lease": {"table": table, "row": row, **(columns or {})}, **more}


def config(*servers, interval="100ms", after=None, **discovery):
    """A configuration file's text; without `after` nothing is discovered. JSON is YAML."""
    found = {"enabled": after is not None, **({"after": after} if after is not None else {}), **discovery}
    return json.dumps({"servers": list(servers), "poll": {"interval": interval}, "discovery": found}, indent=1)


def lock_call(function, key):
    """SQL that calls an advisory lock function on an int or a pair."""
    words = [f"{n}::int4" for n in key] if isinstance(key, tuple) else [f"'{key}'::int8"]
    return f"{function}({', '.join(words)})"


def pid_of(conn):
    return conn.info.backend_pid


def clock(cluster_or_conn):
    """The server's clock in seconds."""
    query = "select extract(epoch from clock_timestamp())::float8"
    if hasattr(cluster_or_conn, "sql"):
        return cluster_or_conn.sql(query)[0][0]
    return cluster_or_conn.execute(query).fetchone()[0]


def timed(conn, call):
    """Runs one function call; returns the server's clock just before and just after it, and its value."""
    now = "extract(epoch from clock_timestamp())::float8"
    before, value, after = conn.execute(f"select {now}, {call}, {now}").fetchone()
    return before, after, value


def end_session(cluster, pid):
    """Ends a session and waits until it is gone."""
    cluster.sql("select pg_terminate_backend(%s)", (pid,))
    wait_until(lambda: not cluster.sql("select 1 from pg_stat_activity where pid = %s", (pid,)), f"backend {pid} is gone")


@contextmanager
def holding(cluster, key, application_name="holder", **kw):
    """A session that holds a lock as long as the block runs, and is gone after it."""
    conn = hold_lock(cluster, key, application_name, **kw)
    try:
        yield conn
    finally:
        end_session(cluster, pid_of(conn))
        conn.close()


@contextmanager
def waiting(cluster, key, application_name="waiter", **kw):
    """A session that waits for a lock as long as the block runs."""
    with closing(cluster.connect(application_name=application_name, **kw)) as conn:
        conn.pgconn.send_query(f"select {lock_call('pg_advisory_lock', key)}".encode())
        pid = pid_of(conn)
        wait_until(lambda: cluster.sql("select 1 from pg_locks where pid = %s and not granted", (pid,)), "the session waits")
        try:
            yield conn
        finally:
            end_session(cluster, pid)


@contextmanager
def four_leaders():
    """A server where worker-0@node-a to worker-3@node-a hold the locks 700 to 703."""
    with Cluster() as cluster:
        held = [hold_lock(cluster, 700 + i, application_name=f"worker-{i}@node-a") for i in range(4)]
        yield cluster
        for conn in held:
            conn.close()


SEED_LEASE = """create table if not exists {table} (
  job_name text primary key, holder text not null, expires_at timestamptz not null)"""
TAKE_LEASE = """insert into {table} as l (job_name, holder, expires_at) values (%(row)s, %(holder)s, now() + %(length)s::interval)
  on conflict (job_name) do update set holder = %(holder)s, expires_at = now() + %(length)s::interval
  where l.expires_at < now() or l.holder = %(holder)s returning holder"""


def take_lease(cluster, row, holder, length="15 seconds", table="public.leader_lease", **kw):
    """The lease examples' own statement; true if the holder has the lease now."""
    found = cluster.sql(TAKE_LEASE.format(table=table), {"row": row, "holder": holder, "length": length}, **kw)
    return bool(found) and found[0][0] == holder
