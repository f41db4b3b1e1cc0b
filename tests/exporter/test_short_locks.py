# SPDX-License-Identifier: PostgreSQL
"""A job queue beside the duties: fifty short locks a second for two minutes, and no series comes or goes."""

import random
import threading

import psycopg
import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import DUTY, KEY, Watcher, config, led, server

SECONDS = 120
DISCOVER = {"enabled": True, "after": "2s", "limit": 50}


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        with hold_lock(cluster, KEY, application_name="worker-1"):
            yield cluster


def discovered(samples):
    return {have["duty"] for name, have, _ in samples
            if name == "pgleader_duty_info" and have["source"] == "discovery"}


def test_short_locks(pg):
    """A job queue's locks: 50 a second, each of a transaction of its own, never become series."""
    done = threading.Event()
    keys = random.Random(7)

    def work(name):
        with psycopg.connect(pg.conninfo(application_name=name)) as conn:
            while not done.wait(0.02):
                conn.execute("select pg_advisory_xact_lock(%s)", (keys.getrandbits(62),))
                conn.execute("select pg_sleep(0.05)")
                conn.commit()

    with Exporter(config=config(server(pg.conninfo()), discovery=DISCOVER)) as e:
        before = e.wait_for(lambda s: led(s) and s.labels("owner_info", duty=DUTY)["usename"], "led, all is read")
        threads = [threading.Thread(target=work, args=(f"queue-{i}",)) for i in range(5)]
        for thread in threads:
            thread.start()
        try:
            with Watcher(e, every=0.25) as watch:
                end = before.one("last_success_timestamp_seconds") + SECONDS
                e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > end, "minutes of polls", deadline=2 * SECONDS)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert max(watch.values("unregistered_locks")) > 0, "the queue was seen"
        names = [{(name, tuple(sorted(have.items()))) for name, have, _ in samples} for _, _, samples in watch.scrapes]
        assert all(there == names[0] for there in names), f"series came or went: {set.union(*names) - names[0]}"
        assert all(discovered(samples) == set() for _, _, samples in watch.scrapes)
        assert all(led(samples) for _, _, samples in watch.scrapes)
