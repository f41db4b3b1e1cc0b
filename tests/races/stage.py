# SPDX-License-Identifier: PostgreSQL
"""What the races are run on: servers, sessions that lead by turns, sessions that must never be hit, and who sees it all."""

import re
import select
import time

import psycopg

from tests.support.cluster import Cluster
from tests.support.scene import lock_duty, server
from tests.support.wait import wait_until
from tests.support.yields import oncall, prepare, signaller

DUTY = "jobs/race"
KEYS = (9001, 9101)  # the second is what a change of the key goes to, and back
ENDED = re.compile(r"\[(\d+)\] .*FATAL:  terminating connection due to administrator command")
LAST_PID = "/proc/sys/kernel/ns_last_pid"


class Session:
    """A worker's session: its identity by the server, and whether it is still there by its own knowledge."""

    def __init__(self, pg, name, dbname="postgres"):
        self.conn = pg.connect(dbname, user="worker", application_name=name)
        self.pid = self.conn.info.backend_pid
        start, = self.conn.execute("select backend_start from pg_stat_get_activity(pg_backend_pid())").fetchone()
        self.identity = (self.pid, start)
        self.closed = False   # by itself
        self.queued = False   # waits for the lock
        self.holds = set()

    def do(self, query, *params):
        """The first row, or () where there is none; None where the session is gone."""
        try:
            cursor = self.conn.execute(query, params)
            return (cursor.fetchone() or ()) if cursor.description else ()
        except psycopg.OperationalError:
            if not self.conn.broken:
                raise
            return None

    def alive(self):
        """What was signalled ends at its next statement at the latest; one that waits is looked at by its socket."""
        if self.closed:
            return False
        if not self.queued:
            return self.do("select 1") is not None
        try:
            self.conn.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.conn.pgconn.status == psycopg.pq.ConnStatus.OK

    def queue(self, key):
        self.conn.pgconn.send_query(f"select pg_advisory_lock({key})".encode())
        self.queued = True

    def granted(self):
        """Waits for the lock that it is queued for; False where the session is gone."""
        pgconn = self.conn.pgconn
        deadline = time.monotonic() + 30
        try:
            while pgconn.is_busy():
                assert time.monotonic() < deadline, f"session {self.pid} waits for a lock that nobody holds"
                select.select([pgconn.socket], [], [], 1)
                pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        ok = True
        while (result := pgconn.get_result()) is not None:
            ok = ok and result.status == psycopg.pq.ExecStatus.TUPLES_OK
        self.queued = False
        return ok

    def close(self):
        self.closed = True
        self.conn.close()


class World:
    """One server with all that happens on it; several may take turns on one port."""

    def __init__(self, pg, ledger, crowd):
        self.pg, self.ledger, self.key = pg, ledger, KEYS[0]
        prepare(pg, ledger=ledger)
        pg.sql("create database elsewhere")
        if ledger:
            pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (DUTY, KEYS[0]))
        self.crowd_size = crowd
        self.seen = 0  # bytes of the server's log
        self.open()

    def open(self):
        """After a start of the server: nobody is there any more."""
        self.witness = self.pg.connect(application_name="witness")
        self.crowd = self.pg.connect(user="worker", application_name="crowd")
        self.crowd.execute("select count(pg_advisory_lock(n)) from generate_series(100001, 100000 + %s) n", (self.crowd_size,))
        self.near = [Session(self.pg, "near", "elsewhere"), Session(self.pg, "pair"), Session(self.pg, "next")]
        for session, lock in zip(self.near, (f"{KEYS[0]}", f"0, {KEYS[0]}", f"{KEYS[0] + 1}")):
            session.do(f"select pg_advisory_lock({lock})")
        self.bench, self.number = [], 0
        self.owner, self.generation, self.listens = None, None, False
        self.ended()  # what was before is over

    def sql(self, query, *params):
        cursor = self.witness.execute(query, params)
        return cursor.fetchall() if cursor.description else None

    def fresh(self):
        """A session that leads nothing."""
        while self.bench:
            session = self.bench.pop(0)
            if session.alive():
                return session
        self.number += 1
        return Session(self.pg, f"w{self.number}")

    def sessions(self):
        return [s for s in (self.owner, *self.bench, *self.near) if s]

    def ended(self):
        """Pids that the server says, since the last time, it has ended by an administrator's command."""
        with open(self.pg.log, encoding="utf-8", errors="replace") as log:
            log.seek(self.seen)
            text = log.read()
            self.seen = log.tell()
        return [int(pid) for pid in ENDED.findall(text)]

    def lead(self, session, key, listens=False):
        """That session takes the lock, and begins a term; False where it is gone."""
        self.owner, self.generation = session, None
        if session.queued:
            if not session.granted():
                return False
        elif session.do("select pg_advisory_lock(%s)", key) is None:
            return False
        return self.begin(session, listens)

    def begin(self, session, listens=False):
        self.listens = listens
        if not self.ledger:
            return True
        row = session.do("select pgleader.begin_term(%s, %s, %s)", DUTY, f"w{session.pid}", listens)
        self.generation = row[0] if row else None
        return bool(row)


class Stage:
    """`with Stage(ledger=True, crowd=5000) as stage:`; stage.world is the server that is up."""

    def __init__(self, ledger, crowd=0):
        self.ledger, self.crowd = ledger, crowd
        self.worlds = []
        self.reused = 0  # process numbers that came back
        self.first = Cluster()
        self.clusters = [self.first]

    def __enter__(self):
        try:
            self.first.__enter__()
            self.world = World(self.first, self.ledger, self.crowd)
            self.worlds.append(self.world)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for cluster in self.clusters:
            cluster.destroy()

    @property
    def key(self):
        return self.world.key

    @key.setter
    def key(self, key):
        self.world.key = key

    def entry(self):
        """The server for the driver's configuration, as the operator of that road connects."""
        conninfo = oncall(self.first) if self.ledger else signaller(self.first)
        entry = server(self.first, duties=[] if self.ledger else [lock_duty(DUTY, KEYS[0])])
        return {**entry, "conninfo": conninfo}

    def restart(self):
        self.world.pg.restart("immediate")
        self.world.open()

    def swap(self):
        """Another server on the same port, of another system identifier, with all that the first has."""
        self.world.pg.stop("immediate")
        if len(self.worlds) == 1:
            self.worlds.append(self.make_other())
        else:
            other = self.worlds[self.world is self.worlds[0]]
            other.pg.start()
            other.open()
        self.world = self.worlds[self.world is self.worlds[0]]

    def make_other(self):
        pg = Cluster(port=self.first.port)
        self.clusters.append(pg)
        pg.command(pg.bin / "initdb", "-D", pg.data, "-U", pg.user, "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        pg.configure(pg.settings)
        pg.start()
        return World(pg, self.ledger, self.crowd)
