# SPDX-License-Identifier: PostgreSQL
"""Who watches: a real Prometheus with the shipped rules made faster, a real Alertmanager, and a webhook that hears of alerts."""

import contextlib
import http.server
import json
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from tests.support.cluster import ROOT, free_port
from tests.support.wait import wait_until

FASTER = 20  # every duration of the rules is divided by it
SCRAPE_MS = 15000 // FASTER
PROMETHEUS = """
global: {{scrape_interval: {scrape}ms, scrape_timeout: {scrape}ms, evaluation_interval: {scrape}ms}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{alertmanager}"]}}]}}]}}
scrape_configs: [{{job_name: pgleader, file_sd_configs: [{{files: [targets.json]}}]}}]
"""
ALERTMANAGER = """
route: {{receiver: hook, group_by: ['...'], group_wait: 100ms, group_interval: 1s, repeat_interval: 4h}}
receivers: [{{name: hook, webhook_configs: [{{url: "http://127.0.0.1:{hook}/", send_resolved: true}}]}}]
"""


class Hook:
    """What Alertmanager sends: the newest news of each alert, by its labels."""

    def __init__(self):
        self.news, self.lock = {}, threading.Lock()
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with hook.lock:
                    for alert in body["alerts"]:
                        hook.news[tuple(sorted(alert["labels"].items()))] = alert
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def find(self, status=None, **labels):
        """The news whose labels include these; of one status, if that is named."""
        with self.lock:
            return [a for a in self.news.values() if labels.items() <= a["labels"].items() and status in (None, a["status"])]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Watch:
    """`with Watch() as watch:`; targets are told by aim(), and what is heard stands in hook."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="pgleader-watch-"))
        self.prometheus, self.alertmanager, self.cluster = free_port(), free_port(), free_port()
        self.targets = []
        self.running = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.hook = Hook()
            stack.callback(self.hook.close)
            stack.callback(self.end)
            self.start()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self):
        rules = subprocess.run([ROOT / "alerts/faster", str(FASTER)], check=True, capture_output=True, text=True).stdout
        self.write("rules.yml", rules)
        self.write("prometheus.yml", PROMETHEUS.format(scrape=SCRAPE_MS, alertmanager=self.alertmanager))
        self.write("alertmanager.yml", ALERTMANAGER.format(hook=self.hook.port))
        self.aim()
        self.run("prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=alertmanager",
                 f"--web.listen-address=127.0.0.1:{self.alertmanager}", f"--cluster.listen-address=127.0.0.1:{self.cluster}")
        self.run("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address=127.0.0.1:{self.prometheus}")
        for port in (self.alertmanager, self.prometheus):
            wait_until(lambda port=port: self.alive() and self.get(port, "/-/ready") is not None, f"{port} is ready", deadline=60)

    def run(self, name, *options):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.running.append(subprocess.Popen([name, *options], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log))

    def alive(self):
        for process in self.running:
            name = process.args[0]
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended: {(self.folder / f'{name}.log').read_text()[-2000:]}")
        return True

    def end(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.running):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def write(self, name, text):
        """Whole or not at all: Prometheus may be reading it."""
        fresh = self.folder / f"{name}.new"
        fresh.write_text(text)
        fresh.replace(self.folder / name)

    def aim(self, *ports):
        """What is scraped from now on."""
        self.targets = list(ports)
        self.write("targets.json", json.dumps([{"targets": [f"127.0.0.1:{port}" for port in ports]}]))

    def get(self, port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def query(self, expression):
        """An instant query: [(labels, value)]."""
        words = urllib.parse.urlencode({"query": expression})
        result = json.loads(self.get(self.prometheus, f"/api/v1/query?{words}"))["data"]["result"]
        return [(row["metric"], float(row["value"][1])) for row in result]


def severities():
    """{alert: the severities that it has}, as shipped."""
    found = {}
    for group in yaml.safe_load((ROOT / "alerts/pgleader.rules.yml").read_text())["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                found.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    return found
