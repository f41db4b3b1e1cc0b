# SPDX-License-Identifier: PostgreSQL
"""The peers measured beside us, given the nearest custom query: each key, its owner, waiters and times."""

import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.cluster import free_port
from tests.support.wait import wait_until

from .measure import Scraper

FLOOR = """
SELECT l.classid::text AS classid, l.objid::text AS objid, l.pid::float8 AS pid,
       count(*) FILTER (WHERE NOT l.granted) OVER (PARTITION BY l.classid, l.objid, l.objsubid)::float8 AS waiters,
       extract(epoch FROM a.backend_start)::float8 AS backend_start, l.granted::int::float8 AS held,
       a.application_name
FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory'"""

QUERY = f"SELECT classid, objid, pid, waiters, backend_start, held FROM ({FLOOR}) q WHERE held = 1"


class Peer:
    def __init__(self, name, argv, port, env=None):
        self.name, self.argv, self.port, self.env = name, argv, port, env
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, env=self.env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: b"held" in Scraper(self.port)(), f"{self.name} serves the query", deadline=30)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def postgres_exporter(pg):
    base, port = Path(tempfile.mkdtemp(prefix="pgleader-bench-")), free_port()
    queries = base / "queries.yml"
    metrics = "".join(f'    - {c}: {{usage: "{u}", description: "{c}"}}\n' for c, u in (
        ("classid", "LABEL"), ("objid", "LABEL"), ("pid", "GAUGE"), ("waiters", "GAUGE"),
        ("backend_start", "GAUGE"), ("held", "GAUGE")))
    queries.write_text(f'duty:\n  query: "{" ".join(QUERY.split())}"\n  metrics:\n{metrics}')
    argv = ["prometheus-postgres-exporter", f"--web.listen-address=127.0.0.1:{port}",
            "--disable-default-metrics", "--disable-settings-metrics", "--no-collector.database",
            "--no-collector.bgwriter", f"--extend.query-path={queries}"]
    dsn = f"postgresql://{pg.user}@127.0.0.1:{pg.port}/postgres?sslmode=disable"
    return Peer("postgres_exporter", argv, port, {"DATA_SOURCE_NAME": dsn})


def sql_exporter(pg):
    base, port = Path(tempfile.mkdtemp(prefix="pgleader-bench-")), free_port()
    config = base / "sql_exporter.yml"
    config.write_text(f"""
jobs:
- name: duty
  interval: '1s'
  connections: ['postgres://{pg.user}@127.0.0.1:{pg.port}/postgres?sslmode=disable']
  queries:
  - name: duty
    help: duties
    labels: [classid, objid]
    values: [pid, waiters, backend_start, held]
    query: {" ".join(QUERY.split())}
""")
    return Peer("sql_exporter", ["prometheus-sql-exporter", f"-config.file={config}",
                                 f"-web.listen-address=127.0.0.1:{port}"], port, {})


def between_polls():
    """A pause of one poll interval, so that the next scrape meets a fresh picture."""
    time.sleep(1)
