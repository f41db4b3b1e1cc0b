# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""A network that is cut between a leader and its server: the work has stopped before the server lets go."""

import signal
import subprocess
import time

import pytest

from tests.support.candidate import WORKER, Candidate, notes, overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import LockWatch, child_of, gone, holder, spans
from tests.support.network import LostRoute
from tests.support.wait import hold_for, wait_until

ABORT = 2.0       # P + D
KILL_AFTER = 3.0  # K
SERVER = 8.0      # E
SLACK = 1.0       # S
OURS = "10.213.7.1"

STUBBORN = WORKER.replace("note stopped; exit 0", "note refused")


class FarCandidate(Candidate):
    """pgleader-run in the network namespace behind the route."""

    def __init__(self, route, *args, **more):
        super().__init__(*args, **more)
        self.argv = ["ip", "netns", "exec", route.name, *self.argv]


@pytest.fixture(scope="module")
def route():
    with LostRoute() as made:
        yield made


@pytest.fixture(scope="module")
def pg(route):
    hba = "local all all trust\nhost all all 127.0.0.1/32 trust\nhost all all 10.213.7.0/30 trust\n"
    with Cluster(settings={"listen_addresses": f"'127.0.0.1,{OURS}'"}, hba=hba) as cluster:
        cluster.install_ledger()
        yield cluster


@pytest.mark.parametrize("worker", [WORKER, STUBBORN], ids=["goes", "stays"])
def test_cut(pg, route, duty, shared, worker):
    """Both ways, without a word. The margin is what is left between the end of the work and the free lock; a successor
    begins only afterwards; when the network is back the old one competes again."""
    far = FarCandidate(route, pg.conninfo(host=OURS), "far", duty, ["bash", "-c", worker], ["--recontend"], shared)
    with far, LockWatch(pg, duty) as watch:
        first = wait_for_note(shared, "beat")
        pid, child = holder(pg, duty), child_of(far)
        with Candidate(pg.conninfo(), "near", duty, None, ["--recontend"], shared):
            cut = time.time()
            route.drop()
            try:
                wait_until(lambda: gone(child), "the work is stopped", deadline=12)
                ended = max(last for (i, _), (_, last) in spans(shared).items() if i == "far")
                assert ended - cut < ABORT + (0.5 if worker == WORKER else KILL_AFTER + 0.5)
                second = wait_for_note(shared, "beat", "near", deadline=25)
            finally:
                route.pass_on()
            freed = watch.freed(pid)
            margin = freed - ended
            print(f"cut -> work stopped {ended - cut:.2f} s, lock free {freed - cut:.2f} s, margin {margin:.2f} s")
            assert margin > SLACK / 2
            assert freed - cut < SERVER + 2.5
            assert second[1] > freed - 0.01 and int(second[3]) > int(first[3])
            assert watch.most() == 1 and overlaps(shared) == []
            query = "select 1 from pg_stat_activity where application_name = %s"
            wait_until(lambda: pg.sql(query, (f"pgleader:{duty}:far",)), "the old one is a candidate again")
            hold_for(lambda: {i for (i, g) in spans(shared) if int(g) > int(first[3])} == {"near"}, "one leads", 1)


def test_short_cut(pg, route, duty, shared):
    """A second of silence: what was on its way comes again, and nothing is lost."""
    with FarCandidate(route, pg.conninfo(host=OURS), "far", duty, None, ["--recontend"], shared) as far:
        first = wait_for_note(shared, "beat")
        route.drop()
        try:
            hold_for(lambda: holder(pg, duty), "the server holds it", 0.5)
        finally:
            route.pass_on()
        hold_for(lambda: notes(shared)[-1][1] > time.time() - 1.0, "it works", 3)
        assert {g for _, g in spans(shared)} == {first[3]}, far.log()


def test_cut_while_it_follows(pg, route, duty, shared):
    """A follower that cannot reach the server tries anew when it can; a signal ends it at once meanwhile."""
    with Candidate(pg.conninfo(), "near", duty, None, ["--recontend"], shared):
        wait_for_note(shared, "beat", "near")
        far = FarCandidate(route, pg.conninfo(host=OURS), "far", duty, None, ["--recontend"], shared)
        with far, FarCandidate(route, pg.conninfo(host=OURS), "far2", duty, None, ["--recontend"], shared) as other:
            query = "select 1 from pg_stat_activity where application_name like %s"
            wait_until(lambda: len(pg.sql(query, (f"pgleader:{duty}:far%",))) == 2, "they follow")
            route.drop()
            try:
                wait_until(lambda: "in time" in other.log() or "level=warn" in other.log(), "it notices")
                run = subprocess.run(["pgrep", "-P", str(other.process.pid), "-x", "pgleader-run"], capture_output=True,
                                     text=True, check=False)
                assert run.stdout == "", "ip netns exec became the program"
                began = time.monotonic()
                other.signal(signal.SIGTERM)
                assert other.wait() == 128 + signal.SIGTERM
                assert time.monotonic() - began < 1.0
            finally:
                route.pass_on()
            wait_until(lambda: pg.sql(query, (f"pgleader:{duty}:far",)), "it follows again")
