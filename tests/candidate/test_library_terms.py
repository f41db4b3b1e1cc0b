# SPDX-License-Identifier: PostgreSQL
# ctest: asan tsan valgrind
"""libpgleader over many terms in one process: nothing leaks, and every gain and loss is told exactly once."""

import os
import socket
import subprocess

import pytest

from tests.support.cluster import Cluster, free_port
from tests.support.exporter import program

# Under sanitizers and valgrind each term takes long, and shows as much.
PLAIN = not os.environ.get("PGLEADER_VARIANT")


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        for n in (1, 2, 3):
            cluster.sql(f"select pgleader.register_duty('lib/terms-{n}', lock_key => {n})")
        yield cluster


def run(*argv):
    done = subprocess.run([str(program("library_terms")), *map(str, argv)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_no_descriptor_leaks(pg):
    """1,000 terms gained and handed over; as many descriptors as after ten. Each term is in the ledger."""
    rounds = 1000 if PLAIN else 50
    (_, before, after), (_, terms) = run("yields", pg.conninfo(), rounds, "lib/terms-1")
    assert before == after and int(before) > 5
    assert pg.sql("select count(*) from pgleader.term join pgleader.duty using (duty_id) where duty = 'lib/terms-1' "
                  "and end_reason = 'signal'") >= [(rounds,)] and int(terms) >= rounds


@pytest.mark.parametrize("seed", [1, 2])
def test_once_each_whatever_happens(pg, seed):
    """Two duties in one process; sessions terminated, yielded, both, and work that ends by itself, in random order."""
    (_, terms), = run("chaos", pg.conninfo(), 25 if PLAIN else 8, seed, "lib/terms-2", "lib/terms-3")
    assert int(terms) >= 2 * (25 if PLAIN else 8)


def test_stops_at_any_moment(pg):
    """Between its start and its first term, by stop or by free: it ends, and what was gained is lost."""
    (_, terms), = run("stops", pg.conninfo(), 40 if PLAIN else 15, 7, "lib/terms-1")
    assert int(terms) > 0, "no stop came while it led"
    assert pg.sql("select count(*) from pg_stat_activity where application_name like 'pgleader:%%'") == [(0,)]


def test_stops_while_it_connects():
    """A server that accepts and says nothing, and a port where none is."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        for port in (silent.getsockname()[1], free_port()):
            (_, terms), = run("stops", f"host=127.0.0.1 port={port}", 9, 7, "lib/terms-1")
            assert terms == "0"
