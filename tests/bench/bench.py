# SPDX-License-Identifier: PostgreSQL
"""Measures the programs beside their peers in one run and prints a table; no verdict but the limits they must reach.

Usage: scripts/bench [NAME...]   with NAME of: scrape wall rate poll idle memory many (the exporter), tui ledger (pgleader)
"""

import statistics
import subprocess
import sys
import time

from tests.support.cluster import ROOT, free_port
from tests.support.exporter import Exporter, program
from tests.support.wait import wait_until

from . import peers, table
from .load import Load, cluster, named_config
from .measure import Scraper, cpu_ms, rss_mb, series, serving, wall_ms
from .table import at_most, peer, report
from .tui import bench_ledger, bench_tui


def ready(exporter):
    exporter.wait_for(lambda s: s.find("up") == [1], "the exporter is up", deadline=30)
    return exporter


def per_thousand(pid, threads, scrape, n, before=lambda: None):
    """CPU in ms per scrape and 1,000 series, the median of n scrapes."""
    body = scrape()
    thousands = series(body) / 1000
    used = []
    for _ in range(n):
        before()
        start = cpu_ms(pid, threads)
        scrape()
        used.append(cpu_ms(pid, threads) - start)
    return statistics.median(used) / thousands


def bench_scrape(pg):
    with Load(pg, 500), Exporter(config=named_config(pg, 500)) as e:
        ready(e)
        threads = serving(e.pid)
        for name, gzip in (("without gzip", False), ("with gzip", True)):
            plain = Scraper(e.port)
            scrape = Scraper(e.port, gzip=gzip)
            size = series(plain()) / 1000

            def fresh():
                start = cpu_ms(e.pid, threads)
                scrape()
                return (cpu_ms(e.pid, threads) - start) / size
            figures = []
            for _ in range(15):
                peers.between_polls()
                figures.append(fresh())
            at_most(f"CPU per scrape and 1,000 series, fresh picture, {name} (N=500)", statistics.median(figures),
                    0.7 if gzip else 0.26, "ms", 3)
        with peers.postgres_exporter(pg) as p:
            peer("the same, postgres_exporter", per_thousand(p.process.pid, None, Scraper(p.port), 30), "ms")
        with peers.sql_exporter(pg) as p:
            peer("the same, sql_exporter", per_thousand(p.process.pid, None, Scraper(p.port), 30), "ms")
    with Load(pg, 500), Exporter(config=named_config(pg, 500, "15s")) as e:
        ready(e)
        for name, gzip in (("without gzip", False), ("with gzip", True)):
            scrape = Scraper(e.port, gzip=gzip)
            size = series(Scraper(e.port)()) / 1000
            scrape()
            start = cpu_ms(e.pid, serving(e.pid))
            for _ in range(200):
                scrape()
            at_most(f"CPU per scrape and 1,000 series, unchanged picture, {name}",
                    (cpu_ms(e.pid, serving(e.pid)) - start) / 200 / size, 0.05, "ms", 4)


def bench_wall(pg):
    for n in (10, 500):
        with Load(pg, n), Exporter(config=named_config(pg, n)) as e:
            ready(e)
            size = series(Scraper(e.port)()) / 1000
            wall = wall_ms(e.port)
            if n == 10:
                at_most("scrape wall time, N=10", wall, 0.5, "ms")
            else:
                at_most("scrape wall time, N=500, per 1,000 series", wall / size, 1, "ms")
            with peers.postgres_exporter(pg) as p:
                size = series(Scraper(p.port)()) / 1000
                wall = wall_ms(p.port, n=40)
                peer(f"the same, postgres_exporter, N={n}", wall if n == 10 else wall / size, "ms")


def wrk(port, path, connections=16):
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", "-d3s", f"http://127.0.0.1:{port}{path}"],
                         capture_output=True, text=True, check=True).stdout
    return float(next(line.split()[1] for line in out.splitlines() if "Requests/sec" in line))


def bench_rate(pg):
    with Load(pg, 100), Exporter(config=named_config(pg, 100, "15s")) as e:
        ready(e)
        body, port = e.base / "body", free_port()
        body.write_bytes(Scraper(e.port)())
        bare = e.base / "bare_mhd"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", ROOT / "tests/bench/bare_mhd.c", "-o", bare, "-lmicrohttpd"],
                       check=True)
        with subprocess.Popen([bare, str(port), body], stdin=subprocess.PIPE) as peer:
            wait_until(lambda: Scraper(port)(), "the bare server serves")
            pairs = [(wrk(e.port, "/metrics"), wrk(port, "/")) for _ in range(5)]
            peer.stdin.close()
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        report(f"scrapes per second from memory, 16 connections, {body.stat().st_size // 1000} kB",
               f"{statistics.median(p[0] for p in pairs):.0f}, {ratio:.2f} of bare libmicrohttpd", "0.8",
               ratio >= 0.8)


def time_prepared(conn, name, params, n):
    pq = conn.pgconn
    times = []
    for _ in range(n):
        start = time.perf_counter()
        pq.exec_prepared(name, params, [0] * len(params), 1)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def sql_text(name):
    lines = (ROOT / "observe" / "sql" / f"{name}.sql").read_text().splitlines()
    return "\n".join(line.split("--")[0] for line in lines).encode()


def bench_poll(pg):
    for n in (10, 500, 5000):
        with pg.connect(host=str(pg.base), application_name="bench") as conn, Load(pg, n):
            conn.pgconn.prepare(b"ours", sql_text("locks"))
            conn.pgconn.prepare(b"floor", peers.FLOOR.encode())
            rounds = [(time_prepared(conn, b"ours", [b"{}"], 40), time_prepared(conn, b"floor", [], 40))
                      for _ in range(7)]
            ours, floor = (statistics.median(column) for column in zip(*rounds))
            ratio = statistics.median(a / b for a, b in rounds)
            report(f"hot section, N={n}: ours, floor, ratio", f"{ours:.2f} ms, {floor:.2f} ms, {ratio:.2f}", "1.15",
                   ratio <= 1.15)


def bench_idle(pg):
    with Load(pg, 500), Exporter(config=named_config(pg, 500)) as e:
        ready(e)
        start, at = cpu_ms(e.pid), time.perf_counter()
        wait_until(lambda: time.perf_counter() - at > 20, "20 s have passed", deadline=30)
        share = (cpu_ms(e.pid) - start) / 1000 / (time.perf_counter() - at)
        at_most("exporter CPU, idle, 1 s polls, N=500", share * 100, 0.5, "%")


def bench_memory(pg):
    for n, limit in ((500, 14), (5000, 32)):
        with Load(pg, n), Exporter(config=named_config(pg, n)) as e:
            ready(e)
            peers.between_polls()
            peers.between_polls()
            at_most(f"resident memory, {n} named duties, before a scrape", rss_mb(e.pid), limit, "MB", 1)
            size = len(Scraper(e.port)()) / 1e6
            peers.between_polls()
            report(f"resident memory, {n} named duties, scraped ({size:.1f} MB of text)", f"{rss_mb(e.pid):.1f} MB", "")
    with Exporter(conninfo=pg.conninfo()) as e:
        ready(e)
        scrape = Scraper(e.port)
        for _ in range(2000):
            scrape()
        before = rss_mb(e.pid)
        wrk_total = 0
        while wrk_total < 100_000:
            wrk_total += wrk(e.port, "/metrics") * 3
        for i in range(100):
            pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'pgleader_exporter'")
            e.wait_for(lambda s, i=i: s.one("connects_total") >= i + 2, "it reconnects")
        report(f"resident memory after {wrk_total:.0f} scrapes and 100 reconnects", f"{rss_mb(e.pid) - before:+.2f} MB",
               "flat")


def bench_many(pg):
    import socket
    with socket.socket() as frozen:
        frozen.bind(("127.0.0.1", 0))
        frozen.listen(64)
        dead = f"host=127.0.0.1 port={frozen.getsockname()[1]} dbname=postgres"
        servers = "".join(f"  - {{name: s{i}, conninfo: \"{pg.conninfo()}\"}}\n" for i in range(199))
        config = f"servers:\n{servers}  - {{name: frozen, conninfo: \"{dead}\"}}\n"
        with Exporter(config=config) as e:
            e.wait_for(lambda s: sum(s.find("up")) == 199 and min(s.find("poll_seconds_count")) > 5,
                       "all but one are up and have settled", deadline=90)
            first, at = e.scrape(), time.perf_counter()
            wait_until(lambda: time.perf_counter() - at > 20, "20 s have passed", deadline=30)
            last, took = e.scrape(), time.perf_counter() - at
            worst = min(last.one("poll_seconds_count", server=f"s{i}") - first.one("poll_seconds_count", server=f"s{i}")
                        for i in range(199))
            at_most("200 servers, one frozen: slowest mean poll distance of the others", took / worst, 1.2, "s")


BENCHES = {"scrape": bench_scrape, "wall": bench_wall, "rate": bench_rate, "poll": bench_poll, "idle": bench_idle,
           "memory": bench_memory, "many": bench_many, "tui": bench_tui,
           "ledger": bench_ledger}


def main(names):
    print(f"program: {program()}\n")
    table.begin()
    with cluster() as pg:
        for name in names or BENCHES:
            BENCHES[name](pg)


if __name__ == "__main__":
    main(sys.argv[1:])
