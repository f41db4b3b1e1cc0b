# SPDX-License-Identifier: PostgreSQL
"""What the ledger's tests share: a database with the ledger, its sessions, and statements that wait."""

import itertools
import threading

import psycopg

from tests.support.wait import wait_until

TABLES = ("duty", "term", "run", "lease", "yield", "on_call", "refused_yield")


class Ledger:
    """A database of a cluster, and the sessions that a test has in it."""

    def __init__(self, cluster, dbname):
        self.cluster = cluster
        self.dbname = dbname
        self.sessions = []
        self.askers = {}
        self.numbers = itertools.count(1)

    def close_sessions(self):
        for conn in self.sessions:
            conn.close()
        self.sessions.clear()

    def close(self):
        self.close_sessions()
        for conn in self.askers.values():
            conn.close()

    def empty(self):
        self.sql("truncate pgleader.duty restart identity cascade")

    def connect(self, user="worker", **kw):
        """A session in autocommit mode, as a candidate unless said otherwise."""
        conn = self.cluster.connect(self.dbname, user=user, **kw)
        self.sessions.append(conn)
        return conn

    def sql(self, query, params=None, user="postgres"):
        """Runs a statement in a session of that user's that nothing else uses, and returns its rows."""
        if user not in self.askers:
            self.askers[user] = self.cluster.connect(self.dbname, user=user)
        cursor = self.askers[user].execute(query, params)
        return cursor.fetchall() if cursor.description else None

    def value(self, query, params=None, user="postgres"):
        return self.sql(query, params, user)[0][0]

    def register(self, name=None, **arguments):
        """Registers a duty, with a key of its own unless the arguments say what decides it."""
        number = next(self.numbers)
        name = name or f"test/duty-{number}"
        if not {"lock_key", "lock_pair", "environment", "lease_table"} & arguments.keys():
            arguments["lock_key"] = 1000000 + number
        self.change(name, **arguments)
        return name

    def change(self, name, **arguments):
        """Registers a duty with these arguments alone."""
        words = ", ".join(f"{key} => %s" for key in arguments)
        self.sql(f"select pgleader.register_duty(%s, {words})", (name, *arguments.values()), user="oncall")

    def take(self, conn, duty):
        """Takes the duty's lock in a session."""
        rows = conn.execute(
            """select case lock_objsubid
                   when 1 then format('select pg_advisory_lock(%%s)', lock_classid << 32 | lock_objid)
                   else format('select pg_advisory_lock(%%s, %%s)', lock_classid::bit(32)::int, lock_objid::bit(32)::int)
               end from pgleader.duty where duty = %s""", (duty,)).fetchall()
        conn.execute(rows[0][0])

    def lead(self, duty, instance="worker-1", **kw):
        """A session that holds the duty's lock and has begun a term: (session, generation)."""
        conn = self.connect(**kw)
        self.take(conn, duty)
        return conn, begin(conn, duty, instance)

    def contents(self):
        """Every row of the ledger, to see that nothing changed."""
        return {name: sorted(map(repr, self.sql(f"select t.* from pgleader.{name} t"))) for name in TABLES}

    def blocked(self, conn):
        """Does that session wait for a lock?"""
        return self.value("select exists (select from pg_locks where pid = %s and not granted)",
                          (conn.info.backend_pid,))


def begin(conn, duty, instance="worker-1"):
    return conn.execute("select pgleader.begin_term(%s, %s)", (duty, instance)).fetchone()[0]


def row(conn, query, params=None):
    return conn.execute(query, params).fetchone()


class Waiting:
    """A statement in a thread of its own, so that it can wait while the test goes on."""

    def __init__(self, conn, query, params=None):
        self.conn = conn
        self.rows = None
        self.error = None
        self.thread = threading.Thread(target=self.run, args=(query, params), daemon=True)
        self.thread.start()

    def run(self, query, params):
        try:
            self.rows = self.conn.execute(query, params).fetchall()
        except psycopg.Error as error:
            self.error = error

    def until_blocked(self, ledger):
        wait_until(lambda: ledger.blocked(self.conn), "the second session waits for the first")
        return self

    def result(self, deadline=15):
        """Its rows, or the SQLSTATE that it failed with."""
        self.thread.join(deadline)
        assert not self.thread.is_alive(), "the statement still runs"
        return self.error.sqlstate if self.error else self.rows


def refusal(conn, query, params=None):
    """(SQLSTATE, message) of a statement that must fail."""
    try:
        conn.execute(query, params)
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    raise AssertionError(f"was not refused: {query}")
