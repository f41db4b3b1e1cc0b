# SPDX-License-Identifier: PostgreSQL
"""The load that figures are taken under: idle sessions, held locks, sessions that wait for them."""

import subprocess
import sys

from psycopg.pq import PGconn

from tests.support.cluster import ROOT, Cluster
from tests.support.wait import wait_until

LOCK_SPACE = 4242
IDLE = 100
HOLDERS_MOST = 500  # beyond, each holding session has several locks


class Load:
    """`with Load(pg, 500):` 500 locks (4242, 1..500), a fifth as many waiters, 100 idle sessions.

    With terms=True each lock is a duty of the ledger, whose holder has begun a term. The sessions are another
    process's: thousands of descriptors here would slow every start of a program, and select(2) cannot take them.
    """

    def __init__(self, pg, locks, waiters=None, dbname="postgres", terms=False):
        waiters = locks // 5 if waiters is None else waiters
        words = [pg.conninfo(dbname, host=str(pg.base)), locks, waiters, int(terms)]
        self.argv = [sys.executable, "-m", "tests.bench.load", *map(str, words)]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", "the load could not be made"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class Sessions:
    def __init__(self, conninfo):
        self.conninfo, self.all = conninfo, []

    def connect(self, name):
        # libpq itself: psycopg waits with select(2)
        session = PGconn.connect(f"{self.conninfo} application_name={name}".encode())
        assert session.status == 0, session.error_message
        self.all.append(session)
        return session

    def hold(self, locks):
        self.holders = [self.connect(f"holder-{i}") for i in range(min(locks, HOLDERS_MOST))]
        for i in range(locks):
            self.holders[i % len(self.holders)].exec_(f"select pg_advisory_lock({LOCK_SPACE}, {i + 1})".encode())

    def begin_terms(self, locks):
        self.do(self.holders[0], f"select pgleader.register_duty('bench/duty-' || i, lock_pair => array[{LOCK_SPACE}, i], "
                                 f"candidates => 'holder-%') from generate_series(1, {locks}) i")
        for i, holder in enumerate(self.holders):
            self.do(holder, f"select pgleader.begin_term('bench/duty-' || i, 'holder-{i}') "
                            f"from generate_series({i + 1}, {locks}, {len(self.holders)}) i")
        self.do(self.holders[0], "analyze")

    def wait(self, waiters):
        for i in range(waiters):
            waiter = self.connect(f"waiter-{i}")
            waiter.send_query(f"select pg_advisory_lock({LOCK_SPACE}, {i + 1})".encode())
        waiting = b"select 1 from pg_locks where locktype = 'advisory' and not granted"
        wait_until(lambda: self.all[0].exec_(waiting).ntuples == waiters, "all waiters wait", deadline=60)

    @staticmethod
    def do(session, text):
        result = session.exec_(text.encode())
        assert result.status in (1, 2), result.error_message

    def end(self):
        ours = b"from pg_stat_activity where application_name ~ '^(idle|holder|waiter)-' and pid <> pg_backend_pid()"
        self.all[0].exec_(b"select pg_terminate_backend(pid) " + ours)
        wait_until(lambda: self.all[0].exec_(b"select 1 " + ours).ntuples == 0, "the load is gone", deadline=60)
        for session in self.all:
            session.finish()


def main(conninfo, locks, waiters, terms):
    sessions = Sessions(conninfo)
    for i in range(IDLE):
        sessions.connect(f"idle-{i}")
    sessions.hold(int(locks))
    if int(terms):
        sessions.begin_terms(int(locks))
    sessions.wait(int(waiters))
    print("ready", flush=True)
    sys.stdin.read()
    sessions.end()


def named_config(pg, n, interval="1s"):
    """n named duties, one a lock of the load."""
    duties = "".join(f"      - {{duty: bench/duty-{i}, lock: [{LOCK_SPACE}, {i}], candidates: 'holder-%'}}\n"
                     for i in range(1, n + 1))
    return (f"servers:\n  - name: bench\n    conninfo: \"{pg.conninfo()}\"\n    duties:\n{duties}"
            f"discovery: {{enabled: false}}\npoll: {{interval: {interval}}}\n")


def cluster():
    return Cluster(settings={"max_connections": "2500", "max_locks_per_transaction": "256",
                             "shared_buffers": "64MB", "log_min_messages": "panic"})


if __name__ == "__main__":
    main(*sys.argv[1:])
