# SPDX-License-Identifier: PostgreSQL
"""Full-screen programs on a pty, with a stopwatch: pgleader top, and its peers pg_activity and pg_top."""

import os
import select
import statistics
import time

from tests.support.exporter import program
from tests.support.terminal import Pty

from .measure import cpu_ms

WIDTH, HEIGHT = 100, 30
QUIET_S = 0.005  # a screen that has written nothing for so long is drawn


class Screen(Pty):
    """`with Screen(argv, b"text") as s:` a program whose first picture holds that text."""

    def __init__(self, argv, text, **env):
        started = time.perf_counter()
        super().__init__(argv, WIDTH, HEIGHT, **env)
        self.wait(text, deadline=60)
        self.first_ms = (time.perf_counter() - started) * 1000

    def drain(self, seconds=QUIET_S):
        """Reads until nothing comes for so long; the time of the last that came, or None."""
        last = None
        while select.select([self.fd], [], [], seconds)[0]:
            os.read(self.fd, 65536)
            last = time.perf_counter()
        return last

    def key_ms(self, key):
        """From a key until the screen that it makes is written."""
        self.drain()
        start = time.perf_counter()
        self.send(key)
        select.select([self.fd], [], [], 5)
        last = self.drain()
        assert last, f"no answer to the key {key!r}"
        return (last - start) * 1000


class Meter:
    """The CPU of a process: as a share of a core, and for each time that it woke up and did something."""

    LEAST_MS, REST_S, POLLS = 0.3, 0.4, 5

    def __init__(self, pid):
        self.pid, self.first, self.started = pid, cpu_ms(pid), time.perf_counter()
        self.last, self.busy_at, self.polls = self.first, self.started, []

    def look(self):
        now, at = cpu_ms(self.pid), time.perf_counter()
        if now - self.last > self.LEAST_MS:
            if at - self.busy_at > self.REST_S:
                self.polls.append(0)
            self.busy_at = at
        if self.polls:
            self.polls[-1] += now - self.last
        self.last = now

    def share(self):
        return (cpu_ms(self.pid) - self.first) / 10 / (time.perf_counter() - self.started)

    def poll_ms(self):
        """The first may have begun before, the last may not be over."""
        return statistics.median(self.polls[:-1])


def watch(screens, seconds, pids=()):
    """Lets screens run for so long, and until some polls are seen of each; a Meter for each, and for each of the pids."""
    meters = [Meter(pid) for pid in [s.pid for s in screens] + list(pids)]
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end or (now < end + 2 * seconds and min(len(m.polls) for m in meters) < Meter.POLLS):
        for fd in select.select([s.fd for s in screens], [], [], 0.05)[0]:
            os.read(fd, 65536)
        for meter in meters:
            meter.look()
    return meters


def top(*words):
    """pgleader top, at its own interval of 2 s; a row of the list is its picture."""
    return Screen([program("pgleader"), "top", *words], b"bench/duty-")


def pg_activity(pg):
    return Screen(["pg_activity", "-h", "127.0.0.1", "-p", str(pg.port), "-U", pg.user, "-d", "postgres",
                   "--refresh", "2"], b"DATABASE")


def pg_top(pg):
    return Screen(["pg_top", "-h", "127.0.0.1", "-p", str(pg.port), "-U", pg.user, "-d", "postgres", "-s", "2"],
                  b"PID")
