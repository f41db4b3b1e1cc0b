# SPDX-License-Identifier: PostgreSQL
# ctest: asan tsan valgrind
"""One exporter's whole life, every section in use: what leaks, races or reads astray shows here under the tools.

Not about what is true: the other tests of this folder are.
"""

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import OPENMETRICS, Exporter
from tests.support.scene import config, end_session, holding, lease_duty, lock_duty, server, take_lease, waiting, SEED_LEASE

DUTY, KEY, LEASE, STRAY = "jobs/ledgered", 31, "jobs/leased", 77
SCRAPES = [{}, {"Accept": OPENMETRICS}, {"Accept-Encoding": "gzip"}, {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"}]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql(SEED_LEASE.format(table="public.leader_lease"))
        pg.sql("create table public.state (job text, last_id bigint); insert into public.state values ('a', 1)")
        pg.sql("select pgleader.register_duty(%s, lock_key => %s, candidates => 'worker-%%')", (DUTY, KEY))
        take_lease(pg, "row", "somebody", length="1 hour")
        yield pg


def everything(cluster, name="db"):
    """A configuration that uses each section of the poll."""
    progress = {"table": "public.state", "column": "last_id", "where": "job = 'a'"}
    return config(server(cluster, name, duties=[
        lease_duty(LEASE, "public.leader_lease", "row"), lock_duty("jobs/plain", 5, progress=progress)]), after="200ms")


def scrape_all(exporter):
    """Each format and encoding, the page, a probe, and what is not there."""
    for headers in SCRAPES:
        assert exporter.get("/metrics", headers=headers)[0] == 200
    for path, status in (("/", 200), ("/probe?target=db", 200), ("/probe?target=other", 404), ("/-/ready", 200), ("/no", 404)):
        assert exporter.get(path)[0] == status, path


def work(conn):
    """A term with a run in it, by the session that holds the lock."""
    generation = conn.execute("select pgleader.begin_term(%s, 'worker-1')", (DUTY,)).fetchone()[0]
    conn.execute("select pgleader.claim_run(%s, 'run', %s, '1 hour')", (DUTY, generation))
    conn.execute("select pgleader.advance_run(%s, 'run', %s, 'x', 1, 10)", (DUTY, generation))
    return generation


def led(samples, generation=None):
    """All four duties are led, and the ledger's by that generation."""
    held = [samples.one("leader_held", duty=duty) for duty in (DUTY, LEASE, "jobs/plain", f"advisory/{STRAY}")]
    return held == [1, 1, 1, 1] and generation in (None, samples.one("generation", duty=DUTY))


def test_a_whole_life(cluster):
    """Led, taken over, its own session ended, the server restarted, reloaded well and badly; then SIGTERM."""
    with Exporter(config=everything(cluster)) as exporter:
        with holding(cluster, STRAY), holding(cluster, 5), waiting(cluster, 5):
            with holding(cluster, KEY, "worker-1") as first:
                generation = work(first)
                exporter.wait_for(lambda s: led(s, generation), "everything is led")
                scrape_all(exporter)
            with holding(cluster, KEY, "worker-2") as second:
                generation = work(second)
                exporter.wait_for(lambda s: led(s, generation), "the second leads")
                before = exporter.scrape().one("connects_total")
                end_session(cluster, cluster.sql("select pid from pg_stat_activity where application_name = 'pgleader_exporter'")[0][0])
                exporter.wait_for(lambda s: s.one("connects_total") > before and led(s, generation), "it is back")
                scrape_all(exporter)
        cluster.restart()
        exporter.wait_for(lambda s: s.one("up") == 1 and s.one("leader_held", duty=DUTY) == 0, "the new server is seen")
        reloads = [
            (everything(cluster, "renamed"), lambda s: s.one("up", server="renamed") == 1 and s.one("up", server="db") is None),
            ("servers: 3\n", lambda s: s.one("config_last_reload_successful") == 0 and s.one("up", server="renamed") == 1),
            (everything(cluster), lambda s: s.one("config_last_reload_successful") == 1 and s.one("up", server="db") == 1)]
        for text, seen in reloads:
            exporter.config_path.write_text(text)
            exporter.reload()
            exporter.wait_for(seen, f"reloaded: {text[:60]}")
        scrape_all(exporter)
