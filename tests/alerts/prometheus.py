# SPDX-License-Identifier: PostgreSQL
"""Debian's Prometheus in a directory of its own, ended by its pid; it can be started again on what it kept."""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

from tests.support.cluster import free_port
from tests.support.wait import wait_until


class Prometheus:
    def __init__(self, config="global: {}\n", rules="groups: []\n", flags=()):
        self.port = free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-alerts-"))
        self.flags = flags
        self.process = None
        (self.base / "prometheus.yml").write_text(config + "\nrule_files: [rules.yml]\n")
        (self.base / "rules.yml").write_text(rules)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.base, ignore_errors=True)

    def backfill(self, lines):
        """Lines of OpenMetrics with times; the series need no end."""
        path = self.base / "history"
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(lines)
            out.write("# EOF\n")
        done = subprocess.run(["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", path,
                               self.base / "data"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        path.unlink()

    def start(self):
        argv = ["prometheus", f"--config.file={self.base}/prometheus.yml", f"--storage.tsdb.path={self.base}/data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--storage.tsdb.retention.time=100y", "--log.level=warn",
                *self.flags]
        with open(self.base / "log", "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.base)
        wait_until(lambda: self.get("query", query="1"), "Prometheus answers", deadline=60)

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def cpu_seconds(self):
        """What its threads have used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self):
        return (self.base / "log").read_text(errors="replace")

    def get(self, path, **params):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(params)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success" and not answer.get("warnings"), answer.get("error") or answer["warnings"]
        return answer["data"]

    def query(self, expression, **params):
        return self.get("query", query=expression, **params)["result"]

    def rules(self):
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def alerts(self):
        """{(alert, duty or None): (state, since when)}"""
        return {(a["labels"]["alertname"], a["labels"].get("duty")): (a["state"], a["activeAt"]) for a in self.get("alerts")["alerts"]}
