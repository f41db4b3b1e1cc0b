# SPDX-License-Identifier: PostgreSQL
"""Takeovers whose times the test itself knows by the server's clock: the bounds hold, and the ledger narrows them."""

import random
import signal
from dataclasses import dataclass

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import clock, config, end_session, holding, lock_call, lock_duty, pid_of, server, timed, waiting
from tests.support.wait import wait_until

SLACK = 2e-6  # clocks are whole microseconds
FIRST_KEY = 1000


@dataclass(frozen=True)
class Case:
    ledger: bool   # both owners begin terms
    vacancy: float  # seconds between loss and acquisition; None: the successor waits in the lock's queue
    loss: str      # unlock | close | terminate | end_term (and unlock)
    key: int = 0

    @property
    def duty(self):
        return f"jobs/case-{self.key}"


def cases():
    """Twenty: with and without the ledger, directly and after vacancies that polls see or miss."""
    kinds = [(ledger, vacancy, loss)
             for ledger in (False, True) for vacancy in (None, 0.001, 0.35) for loss in ("unlock", "close", "terminate")]
    kinds += [(True, None, "end_term"), (True, 0.35, "end_term")]
    return [Case(*kind, key=FIRST_KEY + n) for n, kind in enumerate(kinds)]


CASES = cases()


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        for case in CASES:
            if case.ledger:
                pg.sql(f"select pgleader.register_duty('{case.duty}', lock_key => {case.key})")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    duties = [lock_duty(case.duty, case.key) for case in CASES] + [lock_duty("jobs/slow", 1)]
    with Exporter(config=config(server(cluster, duties=duties), interval="500ms")) as e:
        e.wait_for(lambda s: s.one("ledger_version") and len(s.duties()) == len(duties), "every duty is shown")
        yield e


def begin(conn, case, instance, refused=None):
    if case.ledger:
        conn.execute("select pgleader.begin_term(%s, %s, last_refused_at => to_timestamp(%s))", (case.duty, instance, refused))


def lose(cluster, conn, case):
    """Ends the ownership; returns the server's clock surely before and surely after the loss."""
    if case.loss in ("unlock", "end_term"):
        if case.loss == "end_term":
            conn.execute("select pgleader.end_term(duty, generation, 'shutdown') from pgleader.duty where duty = %s", (case.duty,))
        return timed(conn, lock_call("pg_advisory_unlock", case.key))[:2]
    before, pid = clock(cluster), pid_of(conn)
    if case.loss == "close":
        conn.close()
    else:
        cluster.sql("select pg_terminate_backend(%s)", (pid,))
    wait_until(lambda: not cluster.sql("select 1 from pg_locks where pid = %s", (pid,)), "the lock is released")
    return before, clock(cluster)


def gain(cluster, conn, case):
    """Acquires by a session that may wait already; the server's clock before and after."""
    if case.vacancy is not None:
        return timed(conn, lock_call("pg_try_advisory_lock", case.key))[:2]
    wait_until(lambda: cluster.sql("select 1 from pg_locks where pid = %s and granted and locktype = 'advisory'", (pid_of(conn),)),
               "the waiter has the lock")
    conn.pgconn.get_result()
    conn.pgconn.get_result()
    return None, clock(conn)


def take_over(cluster, exporter, case):
    """One takeover; returns what the test knows of its latency: at least, at most."""
    with cluster.connect(application_name=f"old-{case.key}") as old:
        timed(old, lock_call("pg_advisory_lock", case.key))
        begin(old, case, "old")
        exporter.wait_for(lambda s: s.one("leader_held", duty=case.duty) == 1 and s.one("term_begun", duty=case.duty) in (1, None),
                          f"{case} is led")
        if case.vacancy is None:
            with waiting(cluster, case.key, f"new-{case.key}") as new:
                return watch(cluster, exporter, case, old, new)
        with cluster.connect(application_name=f"new-{case.key}") as new:
            return watch(cluster, exporter, case, old, new)


def watch(cluster, exporter, case, old, new):
    refused = clock(cluster)  # the old owner leads still
    lost = lose(cluster, old, case)
    if case.vacancy is not None:
        new.execute("select pg_sleep(%s)", (case.vacancy + random.uniform(0, 0.05),))
    gained = gain(cluster, new, case)
    begin(new, case, "new", refused)
    least = max(gained[0] - lost[1], 0) if gained[0] else 0
    samples = exporter.wait_for(lambda s: s.labels("owner_info", duty=case.duty) == {
        **(s.labels("owner_info", duty=case.duty) or {}), "holder": f"new-{case.key}"}
        and s.one("term_begun", duty=case.duty) in (1, None), f"{case}: the new owner is shown")
    end_session(cluster, pid_of(new))
    return samples, least, gained[1] - lost[0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{'ledger' if c.ledger else 'polls'}-{c.vacancy}-{c.loss}")
def test_bounds_enclose_the_truth(cluster, exporter, case):
    samples, least, most = take_over(cluster, exporter, case)
    upper = samples.one("last_takeover_seconds", duty=case.duty)
    lower = samples.one("last_takeover_lower_bound_seconds", duty=case.duty)
    assert lower - SLACK <= most and upper + SLACK >= least, f"{lower} to {upper}, and the truth is {least} to {most}"
    assert 0 <= lower <= upper
    at = samples.one("last_takeover_timestamp_seconds", duty=case.duty)
    assert clock(cluster) - 30 < at <= clock(cluster)
    transitions = {rule: samples.one("transitions_total", duty=case.duty, rule=rule) for rule in ("acquired", "takeover", "returned")}
    assert transitions == {"acquired": 1, "takeover": 1, "returned": 0}
    assert "could not poll" not in exporter.log()
    if case.ledger:
        narrowed(cluster, case, upper, at)


def narrowed(cluster, case, upper, at):
    """What the ledger recorded bounds the takeover from above."""
    acquired, ended, refused = cluster.sql(
        """select extract(epoch from d.term_acquired_at)::float8, extract(epoch from d.previous_ended_at)::float8,
                  extract(epoch from d.term_last_refused_at)::float8
           from pgleader.duty d where d.duty = %s""", (case.duty,))[0]
    assert at <= acquired + SLACK
    assert upper <= acquired - (ended if case.loss == "end_term" else refused) + SLACK


def test_a_term_between_two_polls(cluster, exporter):
    """The old owner begins its term, works for a second and ends it while the exporter is frozen: its end bounds the loss."""
    case = Case(True, None, "end_term", FIRST_KEY + len(CASES) + 2)
    cluster.sql(f"select pgleader.register_duty('{case.duty}', lock_key => {case.key})")
    with holding(cluster, case.key, "old") as old, waiting(cluster, case.key, "new") as new:
        exporter.wait_for(lambda s: s.one("term_begun", duty=case.duty) == 0, "led, not begun")
        exporter.process.send_signal(signal.SIGSTOP)
        try:
            begin(old, case, "old")
            old.execute("select pg_sleep(1)")
            lost = lose(cluster, old, case)
            gained = gain(cluster, new, case)
        finally:
            exporter.process.send_signal(signal.SIGCONT)
        exporter.wait_for(lambda s: s.one("owner_pid", duty=case.duty) == pid_of(new), "the new owner is seen")
        thawed = clock(cluster)
        begin(new, case, "new")
        samples = exporter.wait_for(lambda s: s.one("term_begun", duty=case.duty) == 1, "begun")
        upper = samples.one("last_takeover_seconds", duty=case.duty)
        assert samples.one("last_takeover_lower_bound_seconds", duty=case.duty) <= gained[1] - lost[0]
        assert upper <= thawed - lost[0] + 0.1, "not from the last poll that saw the old owner"


def test_the_histogram_has_each_of_them_once(exporter):
    samples = exporter.scrape()
    counted = [case for case in CASES if samples.one("transitions_total", duty=case.duty, rule="takeover")]
    assert samples.one("takeover_seconds_count") == sum(samples.find("transitions_total", rule="takeover")) >= len(counted) > 0
    uppers = [samples.one("last_takeover_seconds", duty=case.duty) for case in counted]
    assert samples.one("takeover_seconds_sum") >= sum(uppers) - 1e-3


def test_a_vacancy_is_watched_closely(cluster):
    """Polls every 100 ms while a named duty that was led is vacant, and as configured otherwise."""
    with Exporter(config=config(server(cluster, duties=[lock_duty("jobs/slow", 1)]), interval="2s")) as e:
        samples = e.wait_for(lambda s: s.one("up") == 1, "up")
        assert samples.one("poll_interval_seconds") >= 2, "vacant, but never led: nothing to measure"
        with holding(cluster, 1, "old"):
            samples = e.wait_for(lambda s: s.one("leader_held", duty="jobs/slow") == 1, "led")
            assert samples.one("poll_interval_seconds") >= 2
        e.wait_for(lambda s: s.one("vacant_since_timestamp_seconds", duty="jobs/slow"), "vacant")
        samples = e.wait_for(lambda s: s.one("poll_interval_seconds") < 1, "in a hurry")
        assert samples.one("poll_interval_seconds") >= 0.1
        with holding(cluster, 1, "new"):
            samples = e.wait_for(lambda s: s.one("leader_held", duty="jobs/slow") == 1, "led again", deadline=3)
            assert samples.one("vacant_since_timestamp_seconds", duty="jobs/slow") is None
            e.wait_for(lambda s: s.one("poll_interval_seconds") >= 2, "at ease")
            bounds = [samples.one(f"last_takeover{f}_seconds", duty="jobs/slow") for f in ("_lower_bound", "")]
            assert bounds[1] - bounds[0] < 3, "the loss within an interval, the acquisition within a tenth of a second or two"


def test_the_last_takeover_outlives_the_exporter(cluster, exporter):
    """From the ledger, exactly; and an exporter's start is no change of leadership."""
    case = Case(True, 0.001, "end_term", FIRST_KEY + len(CASES))
    cluster.sql(f"select pgleader.register_duty('{case.duty}', lock_key => {case.key})")
    exporter.wait_for(lambda s: case.duty in s.duties(), "the duty is shown")
    with holding(cluster, case.key, "new") as new, holding(cluster, case.key + 1, "bystander"):
        with cluster.connect() as old:
            new.execute(f"select {lock_call('pg_advisory_unlock', case.key)}")
            old.execute(f"select {lock_call('pg_advisory_lock', case.key)}")
            begin(old, case, "old")
            lose(cluster, old, case)
        new.execute(f"select {lock_call('pg_advisory_lock', case.key)}")
        begin(new, case, "new")
        with Exporter(config=config(server(cluster, duties=[lock_duty("jobs/bystander", case.key + 1)]))) as late:
            samples = late.wait_for(lambda s: s.one("last_takeover_seconds", duty=case.duty) is not None, "the takeover is told")
            acquired, latency, length = cluster.sql(
                """select extract(epoch from term_acquired_at)::float8, extract(epoch from term_acquired_at - previous_ended_at)::float8,
                          extract(epoch from previous_ended_at - previous_acquired_at)::float8 from pgleader.duty where duty = %s""",
                (case.duty,))[0]
            assert samples.one("last_takeover_timestamp_seconds", duty=case.duty) == pytest.approx(acquired, abs=1e-5)
            assert samples.one("last_takeover_seconds", duty=case.duty) == pytest.approx(latency, abs=1e-5)
            assert 0 <= samples.one("last_takeover_lower_bound_seconds", duty=case.duty) <= latency
            assert samples.one("last_term_seconds", duty=case.duty) == pytest.approx(length, abs=1e-5)
            assert sum(samples.find("transitions_total")) == 0
            assert samples.one("takeover_seconds_count") == 0
