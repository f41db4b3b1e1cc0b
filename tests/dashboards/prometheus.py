# SPDX-License-Identifier: PostgreSQL
"""Debian's Prometheus on a history that promtool wrote."""

import http.client
import json
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

from tests.support.cluster import free_port
from tests.support.wait import wait_until

from .history import END, SCRAPE


class Refused(Exception):
    """Prometheus did not answer a query; the words are its own."""


class Backfilled:
    """`with Backfilled(lines of OpenMetrics) as p:`. A history has no marks where a series ends, as scrapes would set them:
    so that what is gone is gone at the next step, `lookback` is little more than the interval of the history."""

    def __init__(self, lines, lookback=SCRAPE + 10):
        self.lines, self.lookback = lines, lookback
        self.port = free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-dashboards-"))
        self.process = None

    def __enter__(self):
        try:
            self.backfill()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def backfill(self):
        path = self.base / "history.openmetrics"
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(self.lines)
            out.write("# EOF\n")
        done = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", path, self.base / "data"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        path.unlink()

    def start(self):
        (self.base / "prometheus.yml").write_text("global: {}\n")
        argv = ["prometheus", f"--config.file={self.base}/prometheus.yml", f"--storage.tsdb.path={self.base}/data",
                "--storage.tsdb.retention.time=100y", f"--query.lookback-delta={self.lookback}s",
                f"--web.listen-address=127.0.0.1:{self.port}", "--web.cors.origin=.*", "--log.level=warn"]
        with open(self.base / "log", "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.base)
        wait_until(lambda: self.query("count(pgleader_build_info)"), "Prometheus answers", deadline=60)

    def __exit__(self, *_):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.base, ignore_errors=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def get(self, path, **params):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", f"/api/v1/{path}", urllib.parse.urlencode(params),
                               {"Content-Type": "application/x-www-form-urlencoded"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer["status"] != "success" or answer.get("warnings"):
            raise Refused(f"{answer.get('error') or answer['warnings']}\n{params.get('query') or params}")
        return answer["data"]

    def query(self, expression, time=END):
        """[(labels, value)] at one time."""
        return [(row["metric"], float(row["value"][1])) for row in self.get("query", query=expression, time=time)["result"]]

    def over(self, expression, start, end, step):
        """[(labels, [(time, value)])] over time."""
        rows = self.get("query_range", query=expression, start=start, end=end, step=step)["result"]
        return [(row["metric"], [(t, float(v)) for t, v in row["values"]]) for row in rows]

    def label_values(self, selector, label, start, end):
        """As Grafana asks for the choices of a variable."""
        rows = self.get("series", **{"match[]": selector, "start": start, "end": end})
        return sorted({row[label] for row in rows if label in row})
