# SPDX-License-Identifier: PostgreSQL
"""Prometheus is restarted in mid-incident, and owner and team change meanwhile: alerts go on, and no rule fails."""

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.scene import config, end_session, holding, lock_duty, pid_of, server
from tests.support.wait import wait_until

from .prometheus import Prometheus
from .rules import RULES, program

SCRAPES = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - job_name: pgleader
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
FIRES = ("PgleaderNoLeader", "jobs/vacant")
PENDS = ("PgleaderNoLeader", "jobs/late")
OF_TEAM = ("PgleaderNoLeader", "jobs/recorded")
DUTIES = [lock_duty("jobs/vacant", 1, team="billing"), lock_duty("jobs/late", 2, team="billing"), lock_duty("jobs/led", 3, team="billing")]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        yield pg


def register(cluster, team):
    cluster.sql(f"select pgleader.register_duty('jobs/recorded', lock_key => 4, team => '{team}')")


@pytest.fixture
def prometheus(cluster):
    """With the shipped rules twenty times as fast. State is restored at the second evaluation, for what is seen by then: so
    they are evaluated less often than that, and there is time for a scrape on a busy machine too."""
    register(cluster, "billing")
    rules = program("faster").faster(RULES.read_text(), 20).replace("interval: 1500ms", "interval: 4s")
    with Exporter(config=config(server(cluster, duties=DUTIES))) as exporter:
        with Prometheus(SCRAPES.format(port=exporter.port), rules, flags=("--rules.alert.for-grace-period=1s",)) as p:
            p.start()
            yield p


def state(prometheus, alert):
    return prometheus.alerts().get(alert, (None, None))


def evaluated(prometheus):
    """Whether every rule has run since Prometheus started, and its state was restored."""
    return all(rule["lastEvaluation"] > "2" and rule["health"] != "unknown" for rule in prometheus.rules())


def test_alerts_go_on(cluster, prometheus):
    late, led = hold_lock(cluster, 2, "worker-1"), hold_lock(cluster, 3, "worker-1")
    wait_until(lambda: state(prometheus, FIRES)[0] == "firing", "a vacancy fires", 90)
    wait_until(lambda: state(prometheus, OF_TEAM)[0] == "firing", "a vacancy of the ledger fires", 60)
    owner = 'duty:pgleader_duty_info:on_call{duty="jobs/led",holder="worker-1"}'
    wait_until(lambda: prometheus.query(owner), "the owner is recorded", 60)
    since = state(prometheus, FIRES)[1]
    end_session(cluster, pid_of(late))
    wait_until(lambda: state(prometheus, PENDS)[0] == "pending", "another vacancy is noticed", 60)
    prometheus.stop()

    end_session(cluster, pid_of(led))
    register(cluster, "payments")
    with holding(cluster, 3, "worker-2"):
        prometheus.start()
        wait_until(lambda: evaluated(prometheus), "every rule has run again", 90)
        for alert in (FIRES, PENDS):
            wait_until(lambda a=alert: state(prometheus, a)[0] == "firing", f"{alert[1]} fires again", 60)
        assert state(prometheus, FIRES)[1][:19] == since[:19], "the incident began when it began"
        wait_until(lambda: prometheus.query('duty:pgleader_duty_info:on_call{duty="jobs/led",holder="worker-2"}'), "the new owner", 60)
        teams = {a["labels"]["team"] for a in prometheus.get("alerts")["alerts"] if a["labels"].get("duty") == "jobs/recorded"}
        assert "payments" in teams
        assert [rule["lastError"] for rule in prometheus.rules() if rule.get("lastError")] == []
        assert "Evaluating rule failed" not in prometheus.log(), prometheus.log()
