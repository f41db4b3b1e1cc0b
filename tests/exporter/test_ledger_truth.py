# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""What the ledger adds to a lock: terms, runs, thresholds and yields; believed only where pg_locks agrees."""

from contextlib import closing
from itertools import count

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.scene import clock, config, end_session, holding, lock_call, lock_duty, pid_of, server
from tests.support.wait import hold_for

keys = count(100)
CONFIGURED = [
    # the registry names these locks jobs/wins and jobs/works
    lock_duty("jobs/loses", 11, min_candidates=7, stall_after="7m", run_every="7h", candidates="c-%", team="config", wait_slow_after="7s"),
    lock_duty("jobs/progress", 12, progress={"table": "public.state", "column": "at"}),
    lock_duty("jobs/only-config", 13),
]


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty('jobs/wins', lock_key => 11, min_candidates => 3, stall_after => '1m', team => 'ledger')")
        pg.sql("select pgleader.register_duty('jobs/works', lock_key => 12)")
        pg.sql("create table public.state (at int); insert into public.state values (5)")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    with Exporter(config=config(server(cluster, duties=CONFIGURED))) as e:
        e.wait_for(lambda s: s.one("ledger_version"), "the ledger is read")
        yield e


@pytest.fixture
def duty(cluster, exporter):
    """(name, key) of a fresh duty of the registry that the exporter shows."""
    key = next(keys)
    name = f"terms/duty-{key}"
    cluster.sql(f"select pgleader.register_duty('{name}', lock_key => {key})")
    exporter.wait_for(lambda s: name in s.duties(), f"{name} is shown")
    yield name, key
    cluster.sql(f"select pgleader.retire_duty('{name}')")


def begin(conn, name, instance="w1", **more):
    words = "".join(f", {k} => {v}" for k, v in more.items())
    return conn.execute(f"select pgleader.begin_term('{name}', '{instance}'{words})").fetchone()[0]


def recorded(cluster, name):
    return cluster.sql("select extract(epoch from term_acquired_at)::float8 from pgleader.duty where duty = %s", (name,))[0][0]


def facts(samples, name):
    return {f: samples.one(f, duty=name) for f in ("leader_held", "term_begun", "generation", "ledger_mismatch", "duty_state")}


def as_facts(held, begun, generation, mismatch=0, state=1):
    return {"leader_held": held, "term_begun": begun, "generation": generation, "ledger_mismatch": mismatch, "duty_state": state}


def wait_facts(exporter, name, *wanted, **kw):
    return exporter.wait_for(lambda s: facts(s, name) == as_facts(*wanted, **kw), f"{name}: {as_facts(*wanted, **kw)}")


def test_a_duty_that_nobody_ever_led(exporter, duty):
    name, _ = duty
    samples = wait_facts(exporter, name, 0, None, None, state=2)
    for family in ("acquired_timestamp_seconds", "last_term_seconds", "vacant_since_timestamp_seconds", "candidates", "run_cursor",
                   "last_takeover_seconds", "last_takeover_timestamp_seconds", "last_run_finished_timestamp_seconds"):
        assert samples.one(family, duty=name) is None, family
    assert samples.one("run_active", duty=name) == 0
    assert samples.one("duty_alerts_paused", duty=name) == 0
    assert samples.find("transitions_total", duty=name) == [0] * 6
    assert samples.find("yields_total", duty=name) == [0] * 6


def test_a_term_is_believed_while_its_session_holds_the_lock(cluster, exporter, duty):
    """not begun; begun; ended by the owner while it still holds; released."""
    name, key = duty
    with holding(cluster, key) as conn:
        wait_facts(exporter, name, 1, 0, None)
        generation = begin(conn, name)
        samples = wait_facts(exporter, name, 1, 1, generation)
        assert samples.one("acquired_timestamp_seconds", duty=name) <= recorded(cluster, name), "it was seen before it was recorded"
        conn.execute(f"select pgleader.end_term('{name}', {generation}, 'shutdown')")
        length = cluster.sql(f"select extract(epoch from term_ended_at - term_acquired_at)::float8 from pgleader.duty where duty = '{name}'")[0][0]
        samples = wait_facts(exporter, name, 1, 0, None)
    samples = wait_facts(exporter, name, 0, None, None, state=2)
    assert samples.one("last_term_seconds", duty=name) == pytest.approx(length, abs=1e-5)


def test_a_term_of_a_dead_session_is_not_begun(cluster, exporter, duty):
    """A worker without the kit took over: that is no contest."""
    name, key = duty
    with holding(cluster, key) as conn:
        wait_facts(exporter, name, 1, 1, begin(conn, name))
    wait_facts(exporter, name, 0, None, None, state=2)
    with holding(cluster, key):
        wait_facts(exporter, name, 1, 0, None)
        hold_for(lambda: facts(exporter.scrape(), name) == as_facts(1, 0, None), "no contest with a dead session", 0.5)


def test_an_open_term_of_a_living_session_contests_another_owner(cluster, exporter, duty):
    """The first released its lock without a word and lives on: two polls later it is a mismatch."""
    name, key = duty
    with closing(hold_lock(cluster, key, "first")) as first:
        wait_facts(exporter, name, 1, 1, begin(first, name))
        first.execute(f"select {lock_call('pg_advisory_unlock', key)}")
        wait_facts(exporter, name, 0, None, None, state=2)
        with holding(cluster, key, "second") as second:
            wait_facts(exporter, name, 1, 0, None, mismatch=1, state=4)
            assert exporter.scrape().one("owner_pid", duty=name) == pid_of(second)
            wait_facts(exporter, name, 1, 1, begin(second, name, "w2"))


def test_a_term_s_generation_is_that_of_the_newest(cluster, exporter, duty):
    """One session that begins a second term of the same duty leads in the second."""
    name, key = duty
    with holding(cluster, key) as conn:
        wait_facts(exporter, name, 1, 1, begin(conn, name))
        second = begin(conn, name)
        wait_facts(exporter, name, 1, 1, second)


def test_a_recorded_acquisition_is_exact(cluster, exporter, duty):
    """Whoever comes later knows it as well as the owner does."""
    name, key = duty
    with closing(cluster.connect(application_name="w1")) as conn:
        conn.execute(f"select {lock_call('pg_advisory_lock', key)}, pgleader.begin_term('{name}', 'w1')")
        exporter.wait_for(lambda s: s.one("term_begun", duty=name) == 1, "begun")
        with Exporter(config=config(server(cluster))) as late:
            samples = late.wait_for(lambda s: s.one("term_begun", duty=name) == 1, "begun, for an exporter that came later")
            acquired = recorded(cluster, name)
            assert samples.one("acquired_timestamp_seconds", duty=name) == pytest.approx(acquired, abs=1e-5)
            assert samples.one("acquisition_uncertainty_seconds", duty=name) == 0
            assert 0 <= samples.one("acquisition_age_seconds", duty=name) <= clock(cluster) - acquired
        end_session(cluster, pid_of(conn))


def test_ages_are_seen_or_bounded(cluster, exporter):
    """jobs/only-config: seen to happen by this exporter, first seen held by one that started later."""
    with closing(cluster.connect(application_name="w")) as conn:
        began = clock(cluster)
        acquired = clock(conn)
        conn.execute(f"select {lock_call('pg_advisory_lock', 13)}")
        after = clock(conn)
        samples = exporter.wait_for(lambda s: s.one("leader_held", duty="jobs/only-config"), "led")
        age, uncertainty = (samples.one(f"acquisition_{f}_seconds", duty="jobs/only-config") for f in ("age", "uncertainty"))
        seen = samples.one("acquired_timestamp_seconds", duty="jobs/only-config")
        assert seen - uncertainty <= after and acquired <= seen
        assert age <= clock(conn) - acquired and uncertainty < clock(conn) - began + 1
        with Exporter(config=config(server(cluster, duties=CONFIGURED))) as late:
            asked = clock(conn)
            samples = late.wait_for(lambda s: s.one("leader_held", duty="jobs/only-config"), "led for the late exporter")
            start = samples.one("owner_backend_start_timestamp_seconds", duty="jobs/only-config")
            age, uncertainty = (samples.one(f"acquisition_{f}_seconds", duty="jobs/only-config") for f in ("age", "uncertainty"))
            assert samples.one("acquired_timestamp_seconds", duty="jobs/only-config") is None
            assert 0 <= age <= clock(conn) - after, "at least"
            assert age + uncertainty >= asked - after, "at most"
            assert age + uncertainty <= clock(conn) - start
        end_session(cluster, pid_of(conn))


def test_the_ledger_wins_and_the_config_fills_what_it_leaves_open(exporter):
    samples = exporter.wait_for(lambda s: "jobs/wins" in s.duties(), "the registry is read")
    assert "jobs/loses" not in samples.duties() and "jobs/progress" not in samples.duties()
    assert samples.labels("duty_info", duty="jobs/wins") == {
        "server": "db", "duty": "jobs/wins", "mechanism": "lock", "source": "ledger", "key": "11", "team": "ledger"}
    declared = {f: samples.one(f"duty_{f}", duty="jobs/wins") for f in (
        "min_candidates", "stall_after_seconds", "run_every_seconds", "wait_slow_after_seconds", "takeover_slow_after_seconds")}
    assert declared == {"min_candidates": 3, "stall_after_seconds": 60, "run_every_seconds": 7 * 3600, "wait_slow_after_seconds": 7,
                        "takeover_slow_after_seconds": None}
    assert samples.one("candidates", duty="jobs/wins") == 0, "the pattern is the config's"
    assert samples.one("run_cursor", duty="jobs/works") == 5, "progress is the config's, under the registry's name"


def test_alerts_are_paused_until_their_end(cluster, exporter, duty):
    name, _ = duty
    cluster.sql(f"select pgleader.pause_alerts('{name}', clock_timestamp() + interval '1 second')")
    exporter.wait_for(lambda s: s.one("duty_alerts_paused", duty=name) == 1, "paused")
    exporter.wait_for(lambda s: s.one("duty_alerts_paused", duty=name) == 0, "over by itself")


def test_yields_are_counted_by_outcome(cluster, exporter, duty):
    name, key = duty
    with holding(cluster, key) as conn:
        generation = begin(conn, name)
        intent = cluster.sql(f"select pgleader.request_yield('{name}', {generation}, 'upgrade', interval '1 s')")[0][0]
        wait_facts(exporter, name, 1, 1, generation, state=5)
        cluster.sql(f"select pgleader.record_yield_outcome({intent}, 'returned')")
        samples = exporter.wait_for(lambda s: s.one("yields_total", duty=name, outcome="returned") == 1, "one yield returned")
        assert sum(samples.find("yields_total", duty=name)) == 1
        wait_facts(exporter, name, 1, 1, generation)


def test_a_retired_duty_is_gone_and_its_lock_unregistered(cluster, exporter):
    cluster.sql("select pgleader.register_duty('jobs/old', lock_key => 99)")
    with holding(cluster, 99):
        exporter.wait_for(lambda s: s.one("leader_held", duty="jobs/old") == 1 and s.one("unregistered_locks") == 0, "registered")
        cluster.sql("select pgleader.retire_duty('jobs/old')")
        exporter.wait_for(lambda s: "jobs/old" not in s.duties() and s.one("unregistered_locks") == 1, "retired")


def test_a_duty_that_changes_its_key_is_led_by_the_old_one(cluster, exporter, duty):
    """Until the change is complete the new key is reserved: it is nobody else's, and no unregistered lock."""
    name, key = duty
    with holding(cluster, key) as old:
        begin(old, name)
        cluster.sql(f"select pgleader.register_duty('{name}', lock_pair => array[{key}, -1])")
        with holding(cluster, (key, -1)) as ahead, holding(cluster, 98):
            samples = exporter.wait_for(lambda s: s.one("unregistered_locks") == 1, "one lock is nobody's")
            assert samples.one("owner_pid", duty=name) == pid_of(old)
            assert samples.labels("duty_info", duty=name)["key"] == str(key)
            ahead.execute(f"select {lock_call('pg_advisory_unlock', (key, -1))}")
            old.execute(f"select {lock_call('pg_advisory_lock', (key, -1))}")
            cluster.sql(f"select pgleader.complete_key_change('{name}')")
            old.execute(f"select {lock_call('pg_advisory_unlock', key)}")
            exporter.wait_for(lambda s: s.labels("duty_info", duty=name)["key"] == f"{key},-1" and s.one("leader_held", duty=name) == 1
                              and s.one("unregistered_locks") == 1, "it is led by the new key")


def test_without_privileges_nothing_false_is_said(cluster):
    """A role that may read the ledger but not other sessions: no start, no ages, and no word on terms."""
    cluster.sql("""create role poor login; grant usage on schema pgleader to poor;
                   grant select on all tables in schema pgleader to poor""")
    cluster.sql("select pgleader.register_duty('jobs/hidden', lock_key => 14)")
    with closing(hold_lock(cluster, 14, "first")) as first:
        begin(first, "jobs/hidden")
        with Exporter(config=config(server(cluster, user="poor"))) as e:
            samples = e.wait_for(lambda s: s.one("leader_held", duty="jobs/hidden") == 1, "led")
            assert samples.one("privileged") == 0
            assert samples.one("owner_pid", duty="jobs/hidden") == pid_of(first)
            assert samples.labels("owner_info", duty="jobs/hidden")["holder"] == "first"
            for family in ("owner_backend_start_timestamp_seconds", "acquisition_uncertainty_seconds", "acquired_timestamp_seconds",
                           "generation", "term_begun"):
                assert samples.one(family, duty="jobs/hidden") is None, family
            first.execute(f"select {lock_call('pg_advisory_unlock', 14)}")
            with holding(cluster, 14, "second") as second:
                e.wait_for(lambda s: s.one("owner_pid", duty="jobs/hidden") == pid_of(second), "the second leads")
                hold_for(lambda: e.scrape().one("ledger_mismatch", duty="jobs/hidden") == 0
                         and e.scrape().one("duty_state", duty="jobs/hidden") == 1, "cannot-verify is no contest", 0.5)


def test_a_ledger_that_may_not_be_read(cluster):
    """Its section is down and its families are absent; the configured duty is still told."""
    cluster.sql("create role stranger login")
    with holding(cluster, 13) as conn, Exporter(config=config(server(cluster, user="stranger", duties=CONFIGURED[2:]))) as e:
        samples = e.wait_for(lambda s: s.one("section_up", section="ledger") == 0, "the ledger's section is down")
        assert samples.one("up") == 1
        assert samples.duties() == ["jobs/only-config"]
        assert samples.one("owner_pid", duty="jobs/only-config") == pid_of(conn)
        for family in ("ledger_version", "generation", "term_begun", "ledger_mismatch", "run_active", "yields_total"):
            assert samples.find(family) == [], family
        assert "permission denied" in e.log()
