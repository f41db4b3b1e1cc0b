# SPDX-License-Identifier: PostgreSQL
"""A real Prometheus scrapes both formats and answers who leads."""

import json
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, free_port, hold_lock
from tests.support.exporter import OPENMETRICS, Exporter, program
from tests.support.openmetrics import check_openmetrics, check_text
from tests.support.scene import config, end_session, holding, lock_duty, pid_of, server
from tests.support.wait import wait_until

DUTIES = [lock_duty("jobs/invoice", 1, min_candidates=2, stall_after="5m"), lock_duty("jobs/idle", 2)]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty('jobs/recorded', lock_key => 3, team => 'billing')")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    with Exporter(config=config(server(cluster, duties=DUTIES), after="0")) as e:
        yield e


class Prometheus:
    """Debian's Prometheus in a directory of its own, ended by its pid."""

    def __init__(self, exporter):
        self.port = free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-prometheus-"))
        (self.base / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 250ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: pgleader
    static_configs: [{{targets: ["127.0.0.1:{exporter.port}"]}}]
  - job_name: probe
    metrics_path: /probe
    params: {{target: [db]}}
    static_configs: [{{targets: ["127.0.0.1:{exporter.port}"]}}]
""")

    def __enter__(self):
        argv = ["prometheus", f"--config.file={self.base}/prometheus.yml", f"--storage.tsdb.path={self.base}/data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"]
        with open(self.base / "log", "wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, cwd=self.base)
        wait_until(lambda: self.query("up"), "Prometheus answers", deadline=30)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.base, ignore_errors=True)

    def get(self, path, **params):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(params)}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        """{labels without what Prometheus adds, as a sorted tuple: value}"""
        found = self.get("query", query=expression)["result"]
        return {tuple(sorted((k, v) for k, v in r["metric"].items() if k not in ("__name__", "instance"))): float(r["value"][1])
                for r in found}


def key(**labels):
    return tuple(sorted(labels.items()))


@pytest.fixture(scope="module")
def prometheus(exporter):
    with Prometheus(exporter) as p:
        yield p


def test_it_scrapes(prometheus, exporter):
    up = {key(job="pgleader"): 1, key(job="probe"): 1}
    wait_until(lambda: prometheus.query("up") == up, "both jobs are up")
    targets = prometheus.get("targets", state="active")["activeTargets"]
    assert [t["lastError"] for t in targets] == ["", ""]
    families = {f[0] for f in map(str.split, "\n".join(list_metrics()).splitlines())}
    told = prometheus.get("targets/metadata", match_target='{job="pgleader"}')
    kinds = {t["metric"]: t["type"] for t in told}
    assert kinds["pgleader_leader_held"] == "gauge" and kinds["pgleader_takeover_seconds"] == "histogram"
    for name in kinds:  # OpenMetrics names a family without its suffix
        assert {name, name + "_total", name + "_info"} & families, f"{name} is in no table"


def list_metrics():
    return subprocess.run([program(), "--list-metrics"], capture_output=True, text=True, check=True).stdout.splitlines()


def held(prometheus, duty):
    return prometheus.query(f'pgleader_leader_held{{duty="{duty}",job="pgleader"}}').get(key(server="db", duty=duty, job="pgleader"))


def test_it_shows_who_leads_and_a_takeover(cluster, prometheus):
    wait_until(lambda: held(prometheus, "jobs/invoice") == 0, "nobody leads")
    first = hold_lock(cluster, 1, "worker-1")
    wait_until(lambda: held(prometheus, "jobs/invoice") == 1, "somebody leads")
    owner = 'pgleader_owner_info{duty="jobs/invoice",job="pgleader"}'
    wait_until(lambda: [dict(k)["holder"] for k in prometheus.query(owner)] == ["worker-1"], "worker-1 leads")
    end_session(cluster, pid_of(first))
    with holding(cluster, 1, "worker-2") as second:
        wait_until(lambda: prometheus.query('pgleader_owner_pid{duty="jobs/invoice",job="pgleader"}') == {
            key(server="db", duty="jobs/invoice", job="pgleader"): pid_of(second)}, "worker-2 leads")
        rule = 'pgleader_transitions_total{duty="jobs/invoice",rule="takeover",job="pgleader"}'
        wait_until(lambda: list(prometheus.query(rule).values()) == [1], "a takeover is counted")
        assert list(prometheus.query('pgleader_last_takeover_seconds{job="pgleader"}').values())[0] > 0
        assert prometheus.query('histogram_quantile(1, sum by (le) (pgleader_takeover_seconds_bucket{job="pgleader"}))')


def test_series_keep_their_names_in_both_formats(exporter, cluster):
    """The same samples, whatever was negotiated; both are well formed, and promtool has nothing to say."""
    with holding(cluster, 2, "w"), holding(cluster, 3, "x"), holding(cluster, 4711):
        exporter.wait_for(lambda s: s.one("leader_held", duty="advisory/4711") == 1, "all are led")
        text = exporter.get("/metrics", headers={"Accept": "text/plain"})
        openmetrics = exporter.get("/metrics", headers={"Accept": OPENMETRICS})
        assert text[1]["Content-Type"].startswith("text/plain; version=0.0.4")
        assert openmetrics[1]["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        assert check_text(text[2]) == [] and check_openmetrics(openmetrics[2]) == []
        assert names(text[2]) == names(openmetrics[2])
        done = subprocess.run(["promtool", "check", "metrics"], input=text[2], capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def names(body):
    return sorted(line.rsplit(" ", 1)[0] for line in body.decode().split("\n") if line and not line.startswith("#"))
