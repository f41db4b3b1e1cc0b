# SPDX-License-Identifier: PostgreSQL
"""Many candidates of one duty: only some of them hear of a release, and who leads hears a request to yield."""

import re
import signal

from tests.support.candidate import overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import beat_of_another, register, several, term
from tests.support.wait import wait_until

NAMES = [f"c{n}" for n in range(24)]
EXECUTED = re.compile(r"^.* \[(\d+)\] .* execute [^:]*: (.*)$", re.M)
UNLISTEN, REGISTRY, TRY = "UNLISTEN ", "SELECT coalesce(d.lock_classid", "pg_try_advisory_lock("


def following_registry(log):
    """What each session that does not listen any more did next after it had read the registry."""
    sessions = {}
    for pid, statement in EXECUTED.findall(log):
        sessions.setdefault(pid, []).append(statement)
    return [after for done in sessions.values() if any(s.startswith(UNLISTEN) for s in done)
            for before, after in zip(done, done[1:])
            if before.startswith(REGISTRY) and not after.startswith("LISTEN ")]


def test_hand_over_among_many(tmp_path):
    """Two thirds of 24 stop listening; leadership moves as fast as ever, by a signal and by requests to yield."""
    tmp_path.chmod(0o777)
    notes = tmp_path / "notes"
    with Cluster(settings={"log_min_duration_statement": 0}) as pg:
        pg.install_ledger()
        duty = register(pg, "test_many")
        with several(pg, duty, notes, NAMES) as runs:
            _, _, leader, generation = wait_for_note(notes, "beat")
            wait_until(lambda: pg.log_text().count(": UNLISTEN ") >= 8, "many of them stop listening", deadline=40)
            runs[leader].signal(signal.SIGTERM)
            stopped = wait_for_note(notes, "stopped", leader)[1]
            _, begun, _, generation = beat_of_another(notes, generation)
            assert begun - stopped < 2
            for _ in range(3):
                intent = pg.sql("select pgleader.request_yield(%s, %s, 'test', '10 s', '{cool-down}')",
                                (duty, int(generation)))[0][0]
                following = beat_of_another(notes, generation, after=begun)
                assert pg.sql("select end_reason from pgleader.term where generation = %s", (int(generation),)) \
                    == [("yield-request",)]
                pg.sql("select pgleader.record_yield_outcome(%s, 'moved')", (intent,))
                _, begun, _, generation = following
            assert term(pg, duty)[0] == int(generation)
        assert overlaps(notes) == []


def test_who_does_not_listen_tries(tmp_path):
    """It reads the registry first, since it heard of no change of the key, and then tries, however long it has waited."""
    tmp_path.chmod(0o777)
    with Cluster(settings={"log_min_duration_statement": 0}) as pg:
        pg.install_ledger()
        duty = register(pg, "test_deaf")
        with several(pg, duty, tmp_path / "notes", NAMES):
            wait_until(lambda: len(following_registry(pg.log_text())) >= 30, "they have read the registry again", deadline=90, every=0.5)
            did = following_registry(pg.log_text())
    assert all(TRY in statement for statement in did), [s for s in did if TRY not in s]
