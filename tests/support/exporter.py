# SPDX-License-Identifier: PostgreSQL
"""Starts the real exporter and reads what it serves."""

import atexit
import gzip
import http.client
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .cluster import ROOT, free_port
from .wait import wait_until

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')
UNESCAPE = {r'\"': '"', r'\\': '\\', r'\n': '\n'}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def program(name="pgleader_exporter"):
    return Path(os.environ.get("PGLEADER_BIN", ROOT / "build" / "ci" / "bin")) / name


class Samples(list):
    """(name, labels, value) of one scrape."""

    @classmethod
    def parse(cls, text):
        samples = cls()
        for line in text.split("\n"):  # splitlines() knows more line ends than the format
            found = SAMPLE.match(line)
            if found and not line.startswith("#"):
                labels = {k: re.sub(r'\\.', lambda m: UNESCAPE[m[0]], v)
                          for k, v in LABEL.findall(found[2] or "")}
                samples.append((found[1], labels, float(found[3])))
        return samples

    def find(self, name, **labels):
        """Values of the series of that name (without pgleader_) whose labels include these."""
        return [v for n, have, v in self
                if n == "pgleader_" + name and labels.items() <= have.items()]

    def one(self, name, **labels):
        """The one value, or None where there is no such series."""
        values = self.find(name, **labels)
        assert len(values) <= 1, f"{len(values)} series of {name} {labels}"
        return values[0] if values else None

    def labels(self, name, **labels):
        """The labels of the one series, or None."""
        found = [have for n, have, _ in self if n == "pgleader_" + name and labels.items() <= have.items()]
        assert len(found) <= 1, f"{len(found)} series of {name} {labels}"
        return found[0] if found else None

    def duties(self, server=None):
        return sorted(have["duty"] for n, have, _ in self
                      if n == "pgleader_duty_info" and server in (None, have["server"]))


class Exporter:
    """`with Exporter(conninfo) as e:` or Exporter(config="yaml text"); stops it, and checks that it stopped well."""

    def __init__(self, conninfo=None, config=None, options=(), env=None, wrapper=()):
        self.port = free_port()
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-exporter-"))
        atexit.register(shutil.rmtree, self.base, ignore_errors=True)  # its log may be read until then
        self.config_path = self.base / "pgleader.yml"
        self.argv = [*wrapper, str(program()), f"--web.listen-address=127.0.0.1:{self.port}", *options]
        if config is not None:
            self.config_path.write_text(config)
            self.argv.append(f"--config.file={self.config_path}")
        if conninfo is not None:
            self.argv.append(conninfo)
        self.env = {"PATH": os.environ["PATH"], "LC_ALL": "C", **(env or {})}
        self.env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
        self.log_path = self.base / "log"
        self.process = None

    def __enter__(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)
        wait_until(self.answers, "the exporter serves", deadline=30)
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None:
            assert status == 0, f"the exporter ended with {status}:\n{self.log()[-4000:]}"

    @property
    def pid(self):
        return self.process.pid

    def answers(self):
        assert self.process.poll() is None, f"the exporter ended:\n{self.log()}"
        return self.get("/-/healthy")[0] == 200

    def log(self):
        return self.log_path.read_text(errors="replace")

    def get(self, path, method="GET", headers=None, timeout=10):
        """(status, headers, body) of a request of its own connection; gzip is undone."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            body = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            return answer.status, answer.headers, body
        finally:
            connection.close()

    def scrape(self, path="/metrics", **kw):
        status, _, body = self.get(path, **kw)
        assert status == 200, f"{path}: {status} {body[:200]}"
        return Samples.parse(body.decode("utf-8"))

    def wait_for(self, condition, what, deadline=15.0):
        """Scrapes until condition(samples) is true; returns those samples."""
        def attempt():
            samples = self.scrape()
            return samples if condition(samples) else None
        try:
            return wait_until(attempt, what, deadline=deadline, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- log\n{self.log()[-3000:]}") from None

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def rss_kb(self):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])
