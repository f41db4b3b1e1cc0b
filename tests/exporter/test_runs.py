# SPDX-License-Identifier: PostgreSQL
"""Whether the work moves: runs of the ledger, and progress read from an application's own table."""

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import clock, config, holding, lock_duty, server
from tests.support.wait import hold_for

WORK = "jobs/work"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty(%s, lock_key => 1, stall_after => '1 second', run_every => '1 hour')", (WORK,))
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    duties = [lock_duty("jobs/app", 2, stall_after="1s", progress={"table": "public.state", "column": "last_id", "where": "job = 'invoice' -- one"})]
    with Exporter(config=config(server(cluster, duties=duties))) as e:
        yield e


@pytest.fixture(scope="module")
def leader(cluster):
    with holding(cluster, 1, "w1") as conn:
        yield conn


@pytest.fixture(scope="module")
def generation(leader):
    return leader.execute("select pgleader.begin_term(%s, 'w1')", (WORK,)).fetchone()[0]


def call(leader, function, *args):
    leader.execute(f"select pgleader.{function}({', '.join(['%s'] * len(args))})", args)


def work(samples, *families, duty=WORK):
    return [samples.one(f, duty=duty) for f in families]


def test_a_run_from_its_claim_to_its_end(cluster, exporter, leader, generation):
    """Claimed, advanced, repeated without moving, stalled, advanced, complete."""
    before = clock(cluster)
    call(leader, "claim_run", WORK, "day-1", generation, "1 hour")
    samples = exporter.wait_for(lambda s: s.one("run_active", duty=WORK) == 1, "a run is active")
    assert work(samples, "run_cursor", "run_target", "run_advanced_timestamp_seconds", "progress_age_seconds") == [None] * 4
    started, deadline = work(samples, "run_started_timestamp_seconds", "run_deadline_timestamp_seconds")
    assert before <= started <= clock(cluster)
    assert deadline == pytest.approx(started + 3600, abs=1e-3)

    call(leader, "advance_run", WORK, "day-1", generation, "40", None, 200)
    samples = exporter.wait_for(lambda s: work(s, "run_cursor", "run_target") == [40, 200], "the cursor is 40 of 200")
    moved = samples.one("run_advanced_timestamp_seconds", duty=WORK)
    assert started <= moved <= clock(cluster)
    call(leader, "advance_run", WORK, "day-1", generation, "40")
    samples = exporter.wait_for(lambda s: s.one("duty_state", duty=WORK) == 3, "stalled: the same cursor is no progress")
    assert samples.one("run_advanced_timestamp_seconds", duty=WORK) == moved
    assert samples.one("progress_age_seconds", duty=WORK) >= samples.one("duty_stall_after_seconds", duty=WORK) == 1

    call(leader, "advance_run", WORK, "day-1", generation, "invoice 41", 41)
    samples = exporter.wait_for(lambda s: s.one("duty_state", duty=WORK) == 1, "it moves again")
    assert work(samples, "run_cursor", "run_target") == [41, 200]
    assert samples.one("run_advanced_timestamp_seconds", duty=WORK) > moved
    assert samples.one("last_run_finished_timestamp_seconds", duty=WORK) is None

    leader.execute("select pgleader.finish_run(%s, 'day-1', %s, 'complete', '{}')", (WORK, generation))
    samples = exporter.wait_for(lambda s: s.one("run_active", duty=WORK) == 0, "no run is active")
    assert work(samples, "run_cursor", "run_target", "progress_age_seconds", "run_started_timestamp_seconds") == [None] * 4
    assert samples.one("last_run_cursor", duty=WORK) == 41
    assert moved < samples.one("last_run_finished_timestamp_seconds", duty=WORK) <= clock(cluster)
    assert samples.one("duty_run_every_seconds", duty=WORK) == 3600
    hold_for(lambda: exporter.scrape().one("duty_state", duty=WORK) == 1, "between runs nothing stalls", 1.2)


def test_a_partial_run_is_not_going_on(exporter, leader, generation):
    """Its cursor is where the next leader resumes; nobody is late with it."""
    call(leader, "claim_run", WORK, "day-2", generation, "1 hour")
    call(leader, "advance_run", WORK, "day-2", generation, "7")
    leader.execute("select pgleader.finish_run(%s, 'day-2', %s, 'partial', null)", (WORK, generation))
    exporter.wait_for(lambda s: work(s, "run_active", "run_cursor", "progress_age_seconds") == [0, 7, None], "it stands at 7")
    hold_for(lambda: exporter.scrape().one("duty_state", duty=WORK) == 1, "a partial run does not stall", 1.2)
    call(leader, "claim_run", WORK, "day-2", generation, "1 hour")
    exporter.wait_for(lambda s: work(s, "run_active", "run_cursor") == [1, 7], "resumed")


def test_a_run_that_never_moved_stalls_by_its_claim(exporter, leader, generation):
    call(leader, "claim_run", WORK, "day-3", generation, "1 hour")
    exporter.wait_for(lambda s: s.one("duty_state", duty=WORK) == 3 and s.one("run_cursor", duty=WORK) is None, "stalled at its start")


def app(samples):
    return work(samples, "run_cursor", "duty_state", duty="jobs/app") + [samples.one("section_up", section="progress:jobs/app")]


def test_progress_of_an_application_s_table(cluster, exporter):
    """No table, no row, a row that moves, a text, null, two rows, dropped and created again."""
    with holding(cluster, 2, "app"):
        exporter.wait_for(lambda s: app(s) == [None, 1, 0], "no such table: only that section is down")
        assert exporter.scrape().one("up") == 1
        cluster.sql("create table public.state (job text, last_id int8)")
        exporter.wait_for(lambda s: app(s) == [None, 1, 1], "no such row: nothing is known")
        cluster.sql("insert into public.state values ('invoice', 10), ('other', 99)")
        first = exporter.wait_for(lambda s: app(s) == [10, 1, 1], "a row")
        moved = first.one("run_advanced_timestamp_seconds", duty="jobs/app")
        exporter.wait_for(lambda s: app(s) == [10, 3, 1] and s.one("progress_age_seconds", duty="jobs/app") >= 1, "it stalls")
        before = clock(cluster)
        cluster.sql("update public.state set last_id = 11 where job = 'invoice'")
        samples = exporter.wait_for(lambda s: app(s) == [11, 1, 1], "it moves")
        assert moved < before <= samples.one("run_advanced_timestamp_seconds", duty="jobs/app") <= clock(cluster)
        cluster.sql("alter table public.state alter last_id type text")
        cluster.sql("update public.state set last_id = 'page b' where job = 'invoice'")
        samples = exporter.wait_for(lambda s: app(s) == [None, 1, 1], "a text has no number")
        assert 0 <= samples.one("progress_age_seconds", duty="jobs/app") < 5, "and moves all the same"
        cluster.sql("update public.state set last_id = null where job = 'invoice'")
        exporter.wait_for(lambda s: app(s) == [None, 3, 1], "null stays null: stalled")
        cluster.sql("insert into public.state values ('invoice', '12')")
        exporter.wait_for(lambda s: app(s) == [None, 1, 0], "two rows: nobody can tell which")
        assert "several rows" in exporter.log()
        cluster.sql("drop table public.state")
        cluster.sql("create table public.state (job text, last_id numeric)")
        cluster.sql("insert into public.state values ('invoice', -1.5)")
        exporter.wait_for(lambda s: app(s) == [-1.5, 1, 1], "dropped and created again, of another type")


def test_a_cursor_is_never_older_than_this_exporter_s_first_sight(cluster):
    """A table without times: what was seen before somebody looked is nobody's knowledge."""
    duties = [lock_duty("jobs/app", 2, progress={"table": "public.other", "column": "n"})]
    cluster.sql("create table public.other (n int); insert into public.other values (3)")
    with Exporter(config=config(server(cluster, duties=duties))) as e:
        samples = e.wait_for(lambda s: s.one("run_cursor", duty="jobs/app") == 3, "the cursor is read")
        assert samples.one("progress_age_seconds", duty="jobs/app") < 1
