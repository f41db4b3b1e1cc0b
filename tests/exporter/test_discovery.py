# SPDX-License-Identifier: PostgreSQL
"""Discovery: a lock that nobody named becomes a duty once one session has held it long enough."""

from contextlib import ExitStack

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.scene import clock, config, end_session, holding, lock_call, lock_duty, pid_of, server, waiting
from tests.support.wait import hold_for

AFTER = 1.0
FEW = {"pgleader_duty_info", "pgleader_leader_held", "pgleader_owners", "pgleader_owner_pid", "pgleader_owner_info", "pgleader_waiters"}


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty('jobs/recorded', lock_key => 202)")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    text = config(server(cluster, duties=[lock_duty("jobs/named", 101)]), after=f"{int(AFTER * 1000)}ms")
    with Exporter(config=text) as e:
        e.wait_for(lambda s: s.one("ledger_version"), "the ledger is read")
        yield e


def families(samples, duty):
    return {name for name, labels, _ in samples if labels.get("duty") == duty}


def test_a_lock_becomes_a_duty_and_stays_as_vacant(cluster, exporter):
    """Not before `after`, named by its key, with its few families only."""
    with ExitStack() as stack:
        began = clock(cluster)
        for key in (742118, (12, -7), -5):
            stack.enter_context(holding(cluster, key, "stray"))
        held = stack.enter_context(waiting(cluster, 742118))
        names = {"advisory/742118", "advisory/12,-7", "advisory/-5"}
        samples = exporter.wait_for(lambda s: names <= set(s.duties()), "the locks are discovered")
        assert clock(cluster) - began >= AFTER
        assert samples.labels("duty_info", duty="advisory/12,-7") == {
            "server": "db", "duty": "advisory/12,-7", "mechanism": "lock", "source": "discovery", "key": "12,-7", "team": ""}
        assert samples.one("waiters", duty="advisory/742118") == 1
        assert samples.labels("owner_info", duty="advisory/742118")["holder"] == "stray"
        assert samples.one("owner_pid", duty="advisory/742118") != pid_of(held)
        assert families(samples, "advisory/742118") == FEW
        assert samples.one("unregistered_locks") == 3
    samples = exporter.wait_for(lambda s: s.one("unregistered_locks") == 0, "they are released")
    assert names <= set(samples.duties())
    assert {samples.one("leader_held", duty=name) for name in names} == {0}
    assert families(samples, "advisory/742118") == FEW - {"pgleader_owner_pid", "pgleader_owner_info"}


def test_named_duties_come_first(cluster, exporter):
    """A lock that config or ledger names is never discovered, nor counted as unregistered."""
    with holding(cluster, 101), holding(cluster, 202), holding(cluster, 303):
        samples = exporter.wait_for(lambda s: "advisory/303" in s.duties(), "the unnamed one is discovered")
        assert samples.one("leader_held", duty="jobs/named") == 1
        assert samples.one("leader_held", duty="jobs/recorded") == 1
        assert not {"advisory/101", "advisory/202"} & set(samples.duties())
        assert samples.one("unregistered_locks") == 1


def test_short_locks_never_become_duties(cluster, exporter):
    """One key that session after session holds for less than `after`: a job queue."""
    def job():
        with holding(cluster, 404):
            pass
        return "advisory/404" not in exporter.scrape().duties()
    hold_for(job, "a queue's key is no duty", 3 * AFTER, every=0)


def test_the_ledger_s_own_locks_are_never_discovered(cluster, exporter):
    """A fence is held for as long as its transaction: here longer than `after`."""
    with holding(cluster, 202) as leader, cluster.connect() as work:
        generation = leader.execute("select pgleader.begin_term('jobs/recorded', 'w1')").fetchone()[0]
        work.execute("begin")
        work.execute("select pgleader.fence('jobs/recorded', %s)", (generation,))
        fences = work.execute("select classid, objid, objsubid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()").fetchall()
        assert fences, "the fence holds a lock of the ledger's own"
        with holding(cluster, 505):
            samples = exporter.wait_for(lambda s: "advisory/505" in s.duties(), "a lock as old as the fence is discovered")
            assert samples.one("unregistered_locks") == 1
            assert not [name for name in samples.duties() if name.startswith(f"advisory/{fences[0][0]},")]
        work.execute("rollback")


def test_a_shared_lock_is_discovered_without_an_owner(cluster, exporter):
    with holding(cluster, 606, shared=True):
        samples = exporter.wait_for(lambda s: "advisory/606" in s.duties(), "the shared lock is discovered")
        assert samples.one("leader_held", duty="advisory/606") == 0
        assert samples.one("owner_pid", duty="advisory/606") is None


def test_a_full_set_keeps_its_members(cluster):
    """`limit` duties at most; a member that is held stays, whatever comes later."""
    duties = [lock_duty("advisory/7", 70007)]  # a name that discovery would give
    with ExitStack() as stack, cluster.connect(application_name="hoarder") as hoarder:
        stack.enter_context(holding(cluster, 7))
        stack.enter_context(holding(cluster, 900))
        with Exporter(config=config(server(cluster, duties=duties), after="0", limit=5)) as e:
            e.wait_for(lambda s: "advisory/900" in s.duties(), "the first lock is a member")
            for key in range(100, 160):
                hoarder.execute(f"select {lock_call('pg_advisory_lock', key)}")
            samples = e.wait_for(lambda s: s.one("unregistered_locks") == 62, "all locks are seen")
            found = [d for d in samples.duties() if samples.labels("duty_info", duty=d)["source"] == "discovery"]
            assert len(found) == 5 and "advisory/900" in found
            # one series a name: what has the name already keeps it
            assert samples.labels("duty_info", duty="advisory/7")["source"] == "config"
            assert samples.one("leader_held", duty="advisory/7") == 0
            hold_for(lambda: "advisory/900" in e.scrape().duties(), "the member stays", 0.5)


def test_discovery_may_be_off(cluster):
    with holding(cluster, 900), Exporter(config=config(server(cluster))) as e:
        e.wait_for(lambda s: s.duties() == ["jobs/recorded"] and s.one("unregistered_locks") == 1, "the lock is only counted")
        hold_for(lambda: e.scrape().duties() == ["jobs/recorded"], "it stays so", 0.5)


def counted(samples):
    """Takeovers of the named duties."""
    return sum(samples.find("transitions_total", rule="takeover"))


def test_a_lock_that_changes_hands_is_the_same_duty(cluster, exporter):
    first = hold_lock(cluster, 808, "first")
    exporter.wait_for(lambda s: "advisory/808" in s.duties(), "discovered")
    with waiting(cluster, 808, "second") as second:
        end_session(cluster, pid_of(first))
        first.close()
        samples = exporter.wait_for(lambda s: s.one("owner_pid", duty="advisory/808") == pid_of(second), "the other leads")
        assert samples.one("takeover_seconds_count") == counted(samples), "the histogram is of named duties"
