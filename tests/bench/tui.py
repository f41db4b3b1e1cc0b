# SPDX-License-Identifier: PostgreSQL
"""The operator's tool among 5,000 duties: keys, start, idling, memory, what it costs the server, and a yield."""

import os
import statistics
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from tests.support import yields
from tests.support.cluster import hold_lock
from tests.support.exporter import Exporter
from tests.support.wait import wait_until

from . import screens
from .load import Load, named_config
from .measure import rss_mb
from .table import at_most, peer, report

MANY = 5000
STARTS, KEYS, YIELDS, WINDOW_S = 9, 240, 9, 16
SESSIONS = "select pid from pg_stat_activity where application_name = %s"


def config_file(pg, n):
    path = Path(tempfile.mkdtemp(prefix="pgleader-bench-")) / "pgleader.yml"
    path.write_text(named_config(pg, n, "2s"))
    return f"--config={path}"


def first_ms(*words):
    """The median time from start to the first picture."""
    times = []
    for _ in range(STARTS):
        with screens.top(*words) as screen:
            times.append(screen.first_ms)
    return statistics.median(times)


def bench_start(pg, config):
    at_most(f"pgleader top, start to first picture, {MANY} duties of a config", first_ms(config), 150, "ms", 0)
    for name, start in (("pg_activity", screens.pg_activity), ("pg_top", screens.pg_top)):
        with start(pg) as screen:
            peer(f"the same, {name}, beside as many locks", screen.first_ms, "ms", 0)


def bench_keys(config):
    """Keys at any moment: also while a poll's answer comes in. Each of them changes the screen."""
    keys = [b"/", b"7", b"\r", b"j", b"j", b"k", b"\x06", b"\x02", b"G", b"g", b"n", b">", b"I"]
    times = {}
    with screens.top(config) as screen:
        screen.drain(0.5)
        for i in range(KEYS):
            key = keys[i % len(keys)]
            times.setdefault(key, []).append(screen.key_ms(key))
    every = sorted(t for some in times.values() for t in some)
    slowest = max(times, key=lambda k: statistics.median(times[k]))
    more = (f" (median {statistics.median(every):.1f}, worst {every[-1]:.1f}; slowest key {slowest.decode('ascii')!r}: "
            f"median {statistics.median(times[slowest]):.1f})")
    at_most(f"key to screen, {MANY} duties, 99 of 100 keys", every[int(len(every) * 0.99) - 1], 16, "ms", 1, more)


def backend(pg, name):
    return wait_until(lambda: pg.sql(SESSIONS, (name,)), f"{name} has a session")[0][0]


def bench_idle_many(pg, config):
    """The exporter beside it asks at the same pace for the same duties; the peers show only sessions."""
    with (Exporter(config=named_config(pg, MANY, "2s")) as e, screens.top(config) as screen,
          screens.pg_activity(pg) as activity, screens.pg_top(pg) as top):
        screen.drain(0.5)
        e.wait_for(lambda s: s.find("up") == [1], "the exporter is up", deadline=30)
        ours, theirs = backend(pg, "pgleader"), backend(pg, "pgleader_exporter")
        idle, idle_activity, idle_top, exporter_idle, polls, exporter_polls = screens.watch(
            [screen, activity, top], WINDOW_S, [e.pid, ours, theirs])
        at_most(f"idle CPU, 2 s interval, {MANY} duties", idle.share(), 0.3, "%", 2, f" ({idle.poll_ms():.1f} ms a picture)")
        peer("the same, pg_activity", idle_activity.share(), "%")
        peer("the same, pg_top", idle_top.share(), "%")
        report(f"the same, the exporter without scrapes, {MANY} duties", f"{exporter_idle.share():.2f} %")
        at_most(f"CPU of a refresh on the server, against a poll of the exporter, {MANY} duties",
                polls.poll_ms() / exporter_polls.poll_ms(), 1.05, "times", 2, f" ({polls.poll_ms():.1f} ms)")
        at_most(f"resident memory, {MANY} duties", rss_mb(screen.pid), 16, "MB", 1,
                f" (at most {rss_mb(screen.pid, 'VmHWM'):.1f})")


def bench_idle_beside(pg):
    """All at once, beside 500 locks."""
    with screens.top(config_file(pg, 500)) as ours, screens.pg_activity(pg) as activity, screens.pg_top(pg) as top:
        pid = backend(pg, "pg_activity")
        ours.drain(0.5)
        idle, idle_activity, idle_top, server, server_activity = screens.watch(
            [ours, activity, top], WINDOW_S, [backend(pg, "pgleader"), pid])
        at_most("idle CPU, 2 s interval, 500 duties", idle.share(), 0.3, "%")
        peer("the same, pg_activity", idle_activity.share(), "%")
        peer("the same, pg_top", idle_top.share(), "%")
        report("CPU on the server, 500 duties: ours, pg_activity", f"{server.share():.2f} %, {server_activity.share():.2f} %")
        report("resident memory, 500 duties: ours, pg_activity, pg_top",
               ", ".join(f"{rss_mb(s.pid):.1f} MB" for s in (ours, activity, top)))


def make_roles(pg):
    if not pg.sql("select 1 from pg_roles where rolname = 'worker'"):
        pg.sql(yields.ROLES)


class Unnamed:
    """A lock that nobody registered, yielded by the operator's own right."""

    def __init__(self, pg):
        self.pg, self.dbname, self.conninfo = pg, "postgres", yields.signaller(pg)

    def duty(self, key):
        return f"advisory/{key}"

    def lead(self, conn, key, _):
        conn.execute("select pg_advisory_lock(%s)", (key,))


class Ledgered(Unnamed):
    """A duty of the ledger, yielded by it: moved is, who has begun a term."""

    def __init__(self, pg):
        super().__init__(pg)
        self.dbname, self.conninfo = "ledgered", yields.oncall(pg, "ledgered")

    def duty(self, key):
        self.pg.sql("select pgleader.register_duty(%s, lock_key => %s)", (f"bench/yield-{key}", key), dbname=self.dbname)
        return f"bench/yield-{key}"

    def lead(self, conn, key, name):
        super().lead(conn, key, name)
        yields.begin(conn, f"bench/yield-{key}", name)


def follow(scene, conn, key):
    """A follower that waits in the queue, until it leads."""
    thread = threading.Thread(target=scene.lead, args=(conn, key, "worker-b"))
    thread.start()
    return thread


def one_yield(scene, key):
    """(wall ms, own CPU ms) of a yield, from the command's start until it has confirmed the successor."""
    pg, duty = scene.pg, scene.duty(key)
    with ExitStack() as stack:
        one, other = (stack.enter_context(closing(pg.connect(scene.dbname, application_name=name, user="worker")))
                      for name in ("worker-a", "worker-b"))
        scene.lead(one, key, "worker-a")
        thread = follow(scene, other, key)
        waiting = "select 1 from pg_locks where locktype = 'advisory' and objid = %s and not granted"
        wait_until(lambda: pg.sql(waiting, (key,)), "the follower waits")
        confirm = yields.dry(scene.conninfo, duty).json["confirm"]
        start = time.perf_counter()
        process = subprocess.Popen(yields.argv_of(scene.conninfo, duty, f"--confirm={confirm}"), env=yields.ENV,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = (time.perf_counter() - start) * 1000
        process.returncode = os.waitstatus_to_exitcode(status)
        thread.join()
        assert process.returncode == 0, f"the yield ended with {process.returncode}"
        return wall, (usage.ru_utime + usage.ru_stime) * 1000


def bench_yield(scene, where, most_ms=100):
    runs = [one_yield(scene, 900_000 + i) for i in range(YIELDS)]
    wall, cpu = (statistics.median(column) for column in zip(*runs))
    at_most(f"yield, command to confirmed successor that waited in the queue, {where}", wall, most_ms, "ms", 0)
    at_most(f"CPU of pgleader in it, {where}", cpu, 20, "ms", 1)


def bench_ledger(pg):
    """The same duties by the ledger, each with a term."""
    make_roles(pg)
    pg.sql("create database ledgered")
    pg.install_ledger("ledgered")
    pg.sql(yields.GRANTS)
    with Load(pg, MANY, dbname="ledgered", terms=True):
        conninfo = pg.conninfo("ledgered")
        at_most(f"start to first picture, {MANY} duties of the ledger", first_ms(conninfo), 150, "ms", 0)
        with screens.top(conninfo) as screen:
            screen.drain(0.5)
            at_most(f"idle CPU, 2 s interval, {MANY} duties of the ledger", screens.watch([screen], WINDOW_S)[0].share(), 0.3, "%")
            at_most(f"resident memory, {MANY} duties of the ledger", rss_mb(screen.pid), 16, "MB", 1,
                    f" (at most {rss_mb(screen.pid, 'VmHWM'):.1f})")
        bench_yield(Ledgered(pg), f"a duty of the ledger beside {MANY} others", 150)  # its successor begins a term, too


def bench_tui(pg):
    make_roles(pg)
    bench_yield(Unnamed(pg), "no other locks")
    with Load(pg, 500):
        bench_idle_beside(pg)
    with Load(pg, MANY):
        config = config_file(pg, MANY)
        bench_start(pg, config)
        bench_keys(config)
        bench_idle_many(pg, config)
        bench_yield(Unnamed(pg), f"beside {MANY} locks")
