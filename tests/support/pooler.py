# SPDX-License-Identifier: PostgreSQL
"""A real PgBouncer in front of a cluster."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from .cluster import demote, free_port, server_user
from .wait import wait_until


class Pooler:
    """`with Pooler(pg) as pooler:` listens on 127.0.0.1:pooler.port; mode as PgBouncer names it. Whoever connects is user."""

    def __init__(self, pg, mode="transaction", size=1, user=None):
        self.pg = pg
        self.user = user or pg.user
        self.port = free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-pooler-"))
        user = server_user()
        if user is not None:
            os.chown(self.base, user.pw_uid, user.pw_gid)
        self.log = self.base / "log"
        settings = {"listen_addr": "127.0.0.1", "listen_port": self.port, "auth_type": "any", "pool_mode": mode,
                    "default_pool_size": size, "unix_socket_dir": "", "logfile": self.log, "server_login_retry": 1,
                    "max_client_conn": 100}
        (self.base / "ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={pg.port} user={self.user}\n[pgbouncer]\n"
            + "".join(f"{k} = {v}\n" for k, v in settings.items()))

    def __enter__(self):
        self.process = subprocess.Popen(["pgbouncer", "-q", str(self.base / "ini")], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **demote())
        wait_until(lambda: self.connect().close() is None, "the pooler answers")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def conninfo(self, dbname="postgres"):
        return f"host=127.0.0.1 port={self.port} user={self.user} dbname={dbname}"

    def connect(self, application_name="client"):
        """A client that prepares nothing, as a transaction pooler needs."""
        conn = psycopg.connect(self.conninfo(), autocommit=True, application_name=application_name)
        conn.prepare_threshold = None
        return conn
