# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""A standby's locks are not the primary's, and promotion makes them the law within a few polls."""

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import Watcher, config, led, server

PLAIN, NOTED, LEASE = "jobs/plain", "jobs/noted", "reports/nightly"
DUTIES = [{"duty": PLAIN, "lock": 1},
          {"duty": LEASE, "lease": {"table": "public.leader_lease", "row": "nightly"}}]
READ_ONLY_ON_PRIMARY = ("leader_held", "owners", "owner_pid", "owner_info", "waiters", "generation", "candidates",
                        "acquisition_age_seconds", "lease_remaining_seconds", "term_begun", "vacant_since_timestamp_seconds")


@pytest.fixture(scope="module")
def primary():
    with Cluster(settings={"wal_level": "replica", "max_wal_senders": 4, "hot_standby": "on"}) as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => 2)", (NOTED,))
        cluster.sql("create table leader_lease (job_name text primary key, holder text, expires_at timestamptz)")
        cluster.sql("insert into leader_lease values ('nightly', 'me', clock_timestamp() + interval '1 hour')")
        yield cluster


@pytest.fixture
def standby(primary):
    with hold_lock(primary, 2, application_name="worker-2") as owner:
        owner.execute("select pgleader.begin_term(%s, 'worker-2')", (NOTED,))
        other = primary.standby()
        try:
            other.start()
            yield other
        finally:
            other.destroy()


def standing_by(samples, **labels):
    return samples.one("up", **labels) == 1 and samples.one("in_recovery", **labels) == 1


def test_standby_and_promotion(primary, standby):
    """Nothing is said of who leads, though the standby has locks of its own; then all of it is."""
    servers = [server(standby.conninfo(), name=expect, duties=DUTIES, expect=expect)
               for expect in ("primary", "standby", "any")]
    with Exporter(config=config(*servers, server(primary.conninfo(), name="real", duties=DUTIES))) as e, \
            hold_lock(standby, 1, application_name="on-the-standby"):
        s = e.wait_for(lambda s: all(standing_by(s, server=n) and NOTED in s.duties(n)
                                     for n in ("primary", "standby", "any")) and led(s, NOTED, server="real"),
                       "all see a standby, with the duties of the replicated ledger")
        for name, unexpected in (("primary", 1), ("standby", 0), ("any", 0)):
            assert s.one("role_unexpected", server=name) == unexpected, name
            for family in READ_ONLY_ON_PRIMARY:
                assert s.find(family, server=name) == [], f"{family} on a standby"
            assert set(s.find("duty_state", server=name)) == {0}
            assert s.find("section_up", server=name).count(0) == 0
        assert (s.one("role_unexpected", server="real"), s.one("in_recovery", server="real")) == (0, 0)
        with Watcher(e) as watch:
            standby.promote()
            s = e.wait_for(lambda s: led(s, PLAIN, server="any") and led(s, LEASE, server="any"),
                           "its duties are readable", deadline=5)
            assert (s.one("in_recovery", server="any"), s.labels("owner_info", server="any", duty=PLAIN)["holder"]) \
                == (0, "on-the-standby")
            assert s.one("leader_held", server="any", duty=NOTED) == 0, "the old primary's lock is not here"
            e.wait_for(lambda s: [s.one("role_unexpected", server=n) for n in ("primary", "standby", "any")]
                       == [0, 1, 0], "it is a primary for all", deadline=5)
        for name in ("primary", "standby", "any", "real"):
            assert set(watch.values("up", server=name)) == {1.0}
            assert set(watch.values("privileged", server=name)) == {1.0}
            assert None not in watch.values("duty_state", server=name, duty=NOTED), "the ledger's duties stayed"


def test_unlogged_lease(primary):
    """An unlogged table cannot be read on a standby: only its section fails, and promotion heals it."""
    primary.sql("create unlogged table fast_lease (job_name text primary key, holder text, expires_at timestamptz)")
    other = primary.standby()
    try:
        other.start()
        duties = DUTIES + [{"duty": "reports/fast", "lease": {"table": "public.fast_lease", "row": "x"}}]
        with Exporter(config=config(server(other.conninfo(), duties=duties, expect="any"))) as e:
            s = e.wait_for(lambda s: s.one("section_up", section="lease:public.fast_lease") == 0, "the section fails")
            assert standing_by(s) and s.find("section_up").count(0) == 1
            other.promote()
            s = e.wait_for(lambda s: s.one("section_up", section="lease:public.fast_lease") == 1
                           and s.one("leader_held", duty="reports/fast") == 0, "read by itself", deadline=10)
            assert s.one("up") == 1
    finally:
        other.destroy()


def test_followed_to_the_new_primary(primary, standby):
    """Several hosts and target_session_attrs: the exporter follows the primary; owners are not taken over from there."""
    hosts = f"host=127.0.0.1,127.0.0.1 port={primary.port},{standby.port} user=postgres dbname=postgres " \
            "target_session_attrs=read-write"
    with Exporter(config=config(server(hosts, duties=DUTIES))) as e:
        before = e.wait_for(lambda s: s.one("leader_held", duty=NOTED) == 1, "led on the primary")
        primary.stop("immediate")
        standby.promote()
        s = e.wait_for(lambda s: s.one("leader_held", duty=NOTED) == 0 and s.one("in_recovery") == 0,
                       "the new primary is polled", deadline=20)
        info, old = s.labels("server_info"), before.labels("server_info")
        assert info["system_identifier"] == old["system_identifier"]
        with hold_lock(standby, 2, application_name="successor"):
            s = e.wait_for(lambda s: led(s, NOTED), "led there")
            assert s.labels("owner_info", duty=NOTED)["holder"] == "successor"
