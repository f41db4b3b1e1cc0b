# SPDX-License-Identifier: PostgreSQL
"""A candidate's host whose clock is ten minutes wrong, or jumps: all times that count are the server's."""

import re
import signal
import subprocess
import time

import pytest

from tests.support.candidate import Candidate, notes, wait_for_note
from tests.support.faults import frozen
from tests.support.kit import guard_of, holder, kill, reason, spans, term, wait_holder
from tests.support.skew import Skewed
from tests.support.wait import hold_for, wait_until

STOP_WITHIN = 5.0
TEN_MINUTES = 600


def logged_at(run):
    """When the newest line of the log was written, by the candidate's clock."""
    stamp = re.findall(r"ts=(\S+)Z", run.log())[-1]
    return float(subprocess.run(["date", "-u", "-d", stamp, "+%s.%N"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("skew", [TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
def test_ten_minutes(pg, duty, tmp_path, skew):
    """It leads, keeps its deadlines, settles as long as it should and no longer; the ledger has the server's times."""
    tmp_path.chmod(0o777)
    straight, wrong = tmp_path / "straight", tmp_path / "wrong"
    with Candidate(pg.conninfo(), "straight", duty, None, ["--recontend"], straight) as victim:
        first = wait_for_note(straight, "beat")
        with Skewed(skew, pg.conninfo(), "wrong", duty, None, ["--recontend"], wrong) as run:
            wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name = %s",
                                      (f"pgleader:{duty}:wrong",)), "it follows")
            for pid in (guard_of(victim), *victim.children(), victim.process.pid):
                kill(pid)
            victim.process.wait()
            wait_until(lambda: term(pg, duty)[0] > int(first[3]), "it holds the lock")
            since = time.time()
            hold_for(lambda: not notes(wrong), "it settles", STOP_WITHIN - 0.7)
            second = wait_for_note(wrong, "beat")
            assert time.time() - since < STOP_WITHIN + 1
            assert abs(second[1] - time.time() - skew) < 5, "the clock is wrong indeed"
            assert abs(logged_at(run) - time.time() - skew) < 20
            pid = holder(pg, duty)
            hold_for(lambda: holder(pg, duty) == pid, "it leads", 3)
            acquired = pg.sql("select extract(epoch from acquired_at)::float8, generation from pgleader.current_term "
                              "where duty = %s", (duty,))[0]
            assert abs(acquired[0] - since) < 2 and acquired[1] == int(second[3]) > int(first[3])
            with frozen(pid):
                began = time.time()
                wait_for_note(wrong, "stopped")
                assert time.time() - began < 2.6
            run.signal(signal.SIGTERM)
            run.wait()


def test_the_clock_jumps_while_it_leads(pg, duty, tmp_path):
    """An hour forth, two back: nothing happens; a graceful end is at the server's time."""
    tmp_path.chmod(0o777)
    with Skewed(0, pg.conninfo(), "jumpy", duty, None, (), tmp_path / "notes") as run:
        first = wait_for_note(tmp_path / "notes", "beat")
        pid = wait_holder(pg, duty)
        for jump in (3600, -3600):
            run.skew(jump)
            wait_until(lambda j=jump: abs(notes(tmp_path / "notes")[-1][1] - time.time() - j) < 5, "the clock has jumped")
            hold_for(lambda: holder(pg, duty) == pid, "it leads", 2.5)
        assert {g for _, g in spans(tmp_path / "notes")} == {first[3]}
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
    ended = pg.sql("select abs(extract(epoch from clock_timestamp() - ended_at)) < 5 from pgleader.term t join pgleader.duty d "
                   "using (duty_id) where d.duty = %s", (duty,))
    assert ended == [(True,)] and reason(pg, duty, int(first[3]))[0] == "signal"
