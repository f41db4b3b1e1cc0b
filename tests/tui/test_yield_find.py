# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""`pgleader yield` looks at the one duty alone: it finds what a picture of everything shows by that name, and no more."""

import json
import re
from contextlib import ExitStack, closing

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.command import answer, pgleader
from tests.support.scene import SEED_LEASE, config, lease_duty, lock_duty, pid_of, server, take_lease, waiting
from tests.support.yields import begin, dry, prepare, run, signaller, stranger

HELD = range(8101, 8114)
CONFIGURED = [
    lock_duty("jobs/configured", 8104),
    lock_duty("jobs/shadowed", 8101),  # the registry calls it jobs/registered
    lock_duty("jobs/twice", 8105),     # the registry has another key for it
    lock_duty("advisory/8107", 8108),
    lock_duty("advisory/8109", (-1, 81)),  # shadowed: the name is the lock's own again
    lease_duty("jobs/lease", "public.leader_lease", "configured"),
    lease_duty("jobs/lease-shadowed", "public.leader_lease", "registered"),
]
REGISTERED = ["'jobs/registered', lock_key => 8101", "'jobs/moving', lock_key => 8102", "'jobs/twice', lock_key => 8106",
              "'jobs/pair', lock_pair => array[-1, 81]",
              "'jobs/leased', lease_table => 'public.leader_lease', lease_row => 'registered'"]
NAMES = {
    "jobs/registered": "8101", "jobs/moving": "8102", "jobs/twice": "8106", "jobs/pair": "-1,81",
    "jobs/configured": "8104", "jobs/shadowed": None, "advisory/8101": None, "advisory/8102": None,
    "advisory/8103": None,  # what jobs/moving moves to
    "advisory/8104": None, "advisory/8105": "8105", "advisory/8107": "8108", "advisory/8108": None, "advisory/8109": "8109",
    "advisory/8110": "8110", "advisory/8199": None, "advisory/-1,81": None, "advisory/x": None,
    "jobs/lease": "public.leader_lease:configured", "jobs/leased": "public.leader_lease:registered", "jobs/lease-shadowed": None,
    "jobs/never-heard-of": None,
}


@pytest.fixture(scope="module")
def scene():
    """Every lock is held, both leases too; the same picture by `status`."""
    with Cluster() as pg, ExitStack() as stack:
        prepare(pg)
        pg.sql(SEED_LEASE.format(table="leader_lease"))
        for row in ("configured", "registered"):
            assert take_lease(pg, row, f"holder-{row}", "1 hour")
        for duty in REGISTERED:
            pg.sql(f"select pgleader.register_duty({duty})")
        for key in (*HELD, (-1, 81)):
            conn = stack.enter_context(closing(hold_lock(pg, key, f"worker-{key}", user="worker")))
            if key == 8102:
                begin(conn, "jobs/moving")
        pg.sql("select pgleader.register_duty('jobs/moving', lock_key => 8103)")
        path = pg.base / "pgleader.yml"
        path.write_text(config(server(pg, duties=CONFIGURED), after="0s"))
        shown = answer("status", f"--config={path}")["servers"][0]["duties"]
        yield path, {duty["duty"]: duty for duty in shown}


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_what_a_picture_of_everything_shows(scene, name):
    path, shown = scene
    assert (shown[name]["key"] if name in shown else None) == NAMES[name], "what status shows"
    asked = pgleader("yield", name, "--dry-run", "--json", f"--config={path}")
    if NAMES[name] is None:
        assert asked.returncode == 64 and "no server knows it" in asked.stderr, asked
        return
    frozen, owner = json.loads(asked.stdout), shown[name]["owner"]
    assert frozen["key"] == NAMES[name] and frozen["generation"] == shown[name]["generation"], frozen
    if frozen["mechanism"] == "lease":
        assert frozen["owner"]["holder"] == shown[name]["lease"]["holder"]
    else:
        assert {k: frozen["owner"][k] for k in owner} == owner


def statements(text):
    """{session: its statements in order} of pgleader, from the server's log."""
    entry = r"\[(\d+)\] pgleader LOG:  execute [^:]*: (.*?)(?=\n\d{4}-\d\d-\d\d [^\n]* LOG:  |\Z)"  # its parameters are a DETAIL
    sessions = {}
    for pid, words in re.findall(entry, text, re.S):
        sessions.setdefault(pid, []).append(words)
    return sessions


@pytest.mark.parametrize("registered", [False, True])
def test_it_reads_the_locks_once_to_ask_and_once_to_guard(registered):
    """On one session, however many other duties there are: what is frozen comes from the first, what decides from the second."""
    with Cluster(settings={"log_statement": "all"}) as pg:
        prepare(pg, ledger=registered)
        duty = "jobs/logged" if registered else "advisory/8150"
        if registered:
            pg.sql("select pgleader.register_duty('jobs/logged', lock_key => 8150)")
            pg.sql("grant pgleader_operator to signaller")
        with closing(stranger(pg, 8150)) as leader, waiting(pg, 8150, "worker-b", user="worker"):
            if registered:
                begin(leader, duty)
            confirm = dry(signaller(pg), duty).json["confirm"]
            before = len(pg.log_text())
            done = run(signaller(pg), duty, f"--confirm={confirm}", "--wait=1s")
            assert done.status == 0 and done.json["owner"]["pid"] == pid_of(leader), done
        session, = statements(pg.log_text()[before:]).values()
        deed = next(i for i, words in enumerate(session) if "pgleader.terminate_owner(" in words or "pg_terminate_backend(" in words)
        reads = [words for words in session[:deed] if "FROM pg_catalog.pg_locks" in words and "$1 = '{}'" not in words]
        assert len(reads) == 2, reads
