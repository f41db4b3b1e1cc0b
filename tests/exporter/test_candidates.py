# SPDX-License-Identifier: PostgreSQL
"""Candidates: distinct instances that hold a duty's lock, wait for it, or say by their name that they are ready."""

from contextlib import ExitStack, closing

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import config, end_session, holding, lease_duty, lock_duty, pid_of, server, take_lease, waiting, SEED_LEASE
from tests.support.wait import hold_for, wait_until

KEY = 70
PLAIN, PATTERN = "jobs/plain", "jobs/pattern"
LONG = "a" * 32 + "/" + "b" * 15  # 48 bytes, which leaves 5 for the instance


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.sql("create database other")
        pg.sql(SEED_LEASE.format(table="public.leader_lease"))
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    duties = [
        lock_duty(PLAIN, KEY),
        lock_duty(PATTERN, KEY + 1, candidates="worker-%"),
        lock_duty("jobs/odd", KEY + 2, candidates=r"w\_r_-100\%"),
        lock_duty(LONG, KEY + 3),
        lock_duty("jobs/promised", KEY + 4, min_candidates=2),
        lease_duty("jobs/lease", "public.leader_lease", "nightly", candidates="report-%"),
    ]
    with Exporter(config=config(server(cluster, duties=duties))) as e:
        yield e


# duty, sessions as (what it does, application_name, how many), candidates
ROWS = {
    "nobody says anything": (PLAIN, [], None),
    "a holder without a name that tells": (PLAIN, [("holds", "psql", 1)], None),
    "kit: three instances, one holds": (PLAIN, [("holds", "pgleader:jobs/plain:a", 1), ("idles", "pgleader:jobs/plain:b", 1),
                                               ("idles", "pgleader:jobs/plain:c", 1)], 3),
    "kit: another duty's candidate": (PLAIN, [("idles", "pgleader:jobs/plainer:a", 1), ("idles", "pgleader:jobs/plain:b", 1)], 1),
    "kit: ten pooled sessions of one process": (PLAIN, [("idles", "pgleader:jobs/plain:a", 10)], 1),
    "kit: the name is as long as it can be": (LONG, [("idles", f"pgleader:{LONG}:12345", 1), ("idles", f"pgleader:{LONG}:12346", 1)], 2),
    "pattern: nobody is there": (PATTERN, [], 0),
    "pattern: polling followers": (PATTERN, [("idles", "worker-1", 1), ("idles", "worker-2", 1), ("idles", "worke", 1)], 2),
    "pattern: ten pooled sessions of one process": (PATTERN, [("idles", "worker-1", 10)], 1),
    "pattern: owner and waiter count once": (PATTERN, [("holds", "worker-1", 1), ("waits", "worker-1", 1), ("idles", "worker-1", 2),
                                                       ("waits", "worker-2", 1)], 2),
    "pattern: owner and waiter count whatever their name": (PATTERN, [("holds", "psql", 1), ("waits", "", 1), ("waits", "", 1),
                                                                      ("idles", "worker-1", 1)], 4),
    "pattern: beside the kit": (PATTERN, [("idles", "pgleader:jobs/pattern:a", 1), ("idles", "worker-1", 1)], 2),
    "pattern: of another database": (PATTERN, [("other", "worker-1", 1)], 0),
    "pattern: escapes and one-byte wildcards": ("jobs/odd", [("idles", "w_rk-100%", 1), ("idles", "work-100%", 1), ("idles", "w_rk-1000", 1),
                                                             ("idles", "w_r-100%", 1)], 1),
    "declared: nobody is there": ("jobs/promised", [], 0),
    "declared: the kit's": ("jobs/promised", [("idles", "pgleader:jobs/promised:a", 1), ("holds", "pgleader:jobs/promised:b", 1)], 2),
}


def open_session(cluster, stack, duty, what, name):
    key = {PLAIN: KEY, PATTERN: KEY + 1, "jobs/odd": KEY + 2, LONG: KEY + 3, "jobs/promised": KEY + 4}[duty]
    if what in ("idles", "other"):
        stack.enter_context(closing(cluster.connect("other" if what == "other" else "postgres", application_name=name)))
    else:
        stack.enter_context({"holds": holding, "waits": waiting}[what](cluster, key, name))


@pytest.mark.parametrize("row", ROWS)
def test_candidates(cluster, exporter, row):
    duty, sessions, expected = ROWS[row]
    with ExitStack() as stack:
        for what, name, count in sessions:
            for _ in range(count):
                open_session(cluster, stack, duty, what, name)
        opened = cluster.sql("select extract(epoch from clock_timestamp())::float8")[0][0]
        # the first poll that began after every session was there
        samples = exporter.wait_for(lambda s: s.one("last_success_timestamp_seconds") > opened + 0.2, "a poll that saw them")
        assert samples.one("candidates", duty=duty) == expected
    exporter.wait_for(lambda s: not s.one("leader_held", duty=duty) and not s.one("waiters", duty=duty)
                      and s.one("candidates", duty=duty) in (None, 0), "they are gone")


def test_candidates_of_a_lease_are_the_pattern_s(cluster, exporter):
    """A lease is held by no session: its holder is seen by its sessions' names alone."""
    assert take_lease(cluster, "nightly", "report-1")
    with closing(cluster.connect(application_name="report-1")), closing(cluster.connect(application_name="report-2")):
        samples = exporter.wait_for(lambda s: s.one("candidates", duty="jobs/lease") == 2, "two candidates of the lease")
        assert samples.one("leader_held", duty="jobs/lease") == 1
        assert samples.one("waiters", duty="jobs/lease") is None
        assert samples.one("shared_owners", duty="jobs/lease") is None


def test_the_same_name_from_two_addresses_is_two_instances(cluster, exporter):
    """Instance is application_name and client address: here a socket and the loopback."""
    with closing(cluster.connect(application_name="worker-1")), \
            closing(cluster.connect(application_name="worker-1", host=str(cluster.base))):
        exporter.wait_for(lambda s: s.one("candidates", duty=PATTERN) == 2, "two instances of one name")


def test_a_parallel_worker_is_no_candidate(cluster, exporter):
    """It has its leader's name, and no address."""
    with closing(cluster.connect(application_name="worker-1")) as conn:
        conn.execute("set force_parallel_mode = on")
        conn.pgconn.send_query(b"select pg_sleep(60)")
        wait_until(lambda: cluster.sql("select 1 from pg_stat_activity where backend_type = 'parallel worker' and application_name = 'worker-1'"),
                   "a parallel worker runs")
        exporter.wait_for(lambda s: s.one("candidates", duty=PATTERN) == 1, "its leader is a candidate")
        hold_for(lambda: exporter.scrape().one("candidates", duty=PATTERN) == 1, "one candidate", 0.5)
        end_session(cluster, pid_of(conn))
