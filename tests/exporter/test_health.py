# SPDX-License-Identifier: PostgreSQL
"""/-/healthy tells of the process itself: 503 once the poll loop has not come round for 30 s, and 200 again."""

import time

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.wait import wait_until
from tests.support.wedge import thread_stopped


def test_a_wedged_loop_is_not_healthy():
    with Cluster() as pg, Exporter(pg.conninfo()) as e:
        e.wait_for(lambda s: s.one("up") == 1, "up")
        with thread_stopped(e.pid):
            began = time.monotonic()
            wait_until(lambda: e.get("/-/healthy")[0] == 503, "a wedged loop is told", deadline=45, every=0.2)
            assert time.monotonic() - began > 28
            assert e.scrape().one("up") == 0, "and long before that its picture is too old"
        wait_until(lambda: e.get("/-/healthy")[0] == 200, "it recovers by itself")
        e.wait_for(lambda s: s.one("up") == 1, "up again")
