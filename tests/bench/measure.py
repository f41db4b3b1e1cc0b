# SPDX-License-Identifier: PostgreSQL
"""Stopwatches: CPU of a process by the scheduler's own count, wall time of a scrape, series of an answer."""

import http.client
import re
import socket
import statistics
import time
from pathlib import Path


def cpu_ms(pid, threads=None):
    """CPU that the threads of a process have used, in ms; threads: a predicate on the thread's id."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if threads is None or threads(int(task.name)):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e6


def serving(pid):
    """All threads but the first, which polls."""
    return lambda tid: tid != pid


def rss_mb(pid, field="VmRSS"):
    return int(re.search(field + r":\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def series(body):
    return sum(1 for line in body.decode().splitlines() if line and not line.startswith("#"))


class Scraper:
    """Scrapes one URL over a kept connection, as Prometheus does."""

    def __init__(self, port, path="/metrics", gzip=False):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.path = path
        self.headers = {"Accept-Encoding": "gzip"} if gzip else {}

    def __call__(self):
        self.connection.request("GET", self.path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:200]
        return body


def wall_ms(port, path="/metrics", n=100):
    """Median wall time of a scrape over a connection of its own, read to the end by a raw socket."""
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    times = []
    for _ in range(n):
        start = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(request)
            while s.recv(1 << 20):
                pass
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)
