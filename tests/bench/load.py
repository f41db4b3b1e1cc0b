# SPDX-License-Identifier: PostgreSQL
"""The load that figures are taken under: idle sessions, held locks, sessions that wait for them."""

from psycopg.pq import PGconn

from tests.support.cluster import Cluster
from tests.support.wait import wait_until

LOCK_SPACE = 4242
IDLE = 100
HOLDERS_MOST = 500  # beyond, each holding session has several locks


class Load:
    """`with Load(pg, 500):` 500 locks (4242, 1..500), a fifth as many waiters, 100 idle sessions."""

    def __init__(self, pg, locks, waiters=None):
        self.pg, self.locks = pg, locks
        self.waiters = locks // 5 if waiters is None else waiters
        self.sessions = []

    def connect(self, name):
        # libpq itself: thousands of descriptors are more than select(2) of psycopg's waiting can take
        session = PGconn.connect(self.pg.conninfo(host=str(self.pg.base), application_name=name).encode())
        assert session.status == 0, session.error_message
        self.sessions.append(session)
        return session

    def waiting(self):
        found = self.sessions[0].exec_(
            b"select count(*) from pg_locks where locktype = 'advisory' and not granted")
        return int(found.get_value(0, 0))

    def __enter__(self):
        for i in range(IDLE):
            self.connect(f"idle-{i}")
        holders = [self.connect(f"holder-{i}") for i in range(min(self.locks, HOLDERS_MOST))]
        for i in range(self.locks):
            holders[i % len(holders)].exec_(f"select pg_advisory_lock({LOCK_SPACE}, {i + 1})".encode())
        for i in range(self.waiters):
            waiter = self.connect(f"waiter-{i}")
            waiter.send_query(f"select pg_advisory_lock({LOCK_SPACE}, {i + 1})".encode())
        wait_until(lambda: self.waiting() == self.waiters, "all waiters wait", deadline=60)
        return self

    def __exit__(self, *_):
        ours = b"from pg_stat_activity where application_name ~ '^(idle|holder|waiter)-' and pid <> pg_backend_pid()"
        self.sessions[0].exec_(b"select pg_terminate_backend(pid) " + ours)
        wait_until(lambda: self.sessions[0].exec_(b"select 1 " + ours).ntuples == 0, "the load is gone", deadline=60)
        for session in self.sessions:
            session.finish()


def cluster():
    return Cluster(settings={"max_connections": "2500", "max_locks_per_transaction": "256",
                             "shared_buffers": "64MB", "log_min_messages": "panic"})
