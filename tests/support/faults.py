# SPDX-License-Identifier: PostgreSQL
"""What the tests of bad days share: configurations, the exporter's own session, scraping all the time."""

import json
import os
import signal
import threading
import time
from collections import namedtuple
from contextlib import contextmanager

from .wait import wait_until

KEY = 742118
DUTY = "jobs/bad-days"
DUTIES = [{"duty": DUTY, "lock": KEY}]


def server(conninfo, name="db", duties=DUTIES, **more):
    return {"name": name, "conninfo": conninfo, "duties": duties, **more}


def config(*servers, **top):
    """The text of a configuration file: JSON is YAML."""
    return json.dumps({"servers": list(servers), **top}, indent=1)


def backend(pg, name="pgleader_exporter"):
    """The pid of the exporter's session, once there is exactly one."""
    def only():
        rows = pg.sql("select pid from pg_stat_activity where application_name = %s", (name,))
        return len(rows) == 1 and rows[0][0]
    return wait_until(only, f"one session of {name}")


@contextmanager
def frozen(pid):
    """Stops a process for the time of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


Scrape = namedtuple("Scrape", "began ended samples")


class Watcher:
    """Scrapes as fast as it can while the block runs; `with Watcher(exporter) as w:` then w.scrapes."""

    def __init__(self, exporter, every=0.02):
        self.exporter = exporter
        self.every = every
        self.scrapes = []  # what was judged, was judged between began and ended
        self.error = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if self.error:
            raise self.error

    def run(self):
        try:
            while not self.done.wait(self.every):
                self.scrape()
            self.scrape()  # the last one is later than all that the block saw
        except Exception as error:  # told by the test's own thread
            self.error = error

    def scrape(self):
        began = time.time()
        samples = self.exporter.scrape()
        self.scrapes.append(Scrape(began, time.time(), samples))

    def values(self, name, **labels):
        return [samples.one(name, **labels) for _, _, samples in self.scrapes]


def led(samples, duty=DUTY, **labels):
    """True if the server is up and somebody leads the duty."""
    return samples.one("up", **labels) == 1 and samples.one("leader_held", duty=duty, **labels) == 1


def vacant(samples, duty=DUTY, **labels):
    return samples.one("up", **labels) == 1 and samples.one("leader_held", duty=duty, **labels) == 0


def unknown(samples, **labels):
    """True if the server is known to be away and nothing is said of its duties."""
    return samples.one("up", **labels) == 0 and not any(
        "duty" in have and labels.items() <= have.items() for _, have, _ in samples)
