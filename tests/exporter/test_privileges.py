# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""A role that may see little: what it cannot know is absent, never a guess, and follows every GRANT and REVOKE."""

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import Watcher, config, led, server

PLAIN, NOTED, STRANGE, LEASE = "jobs/plain", "jobs/noted", "jobs/strange", "reports/nightly"
DUTIES = [{"duty": PLAIN, "lock": 1},
          {"duty": LEASE, "lease": {"table": "public.leader_lease", "row": "nightly"}}]


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("create role watcher login")
        cluster.sql("select pgleader.register_duty(%s, lock_key => 2), pgleader.register_duty(%s, lock_key => 3)",
                    (NOTED, STRANGE))
        cluster.sql("create table leader_lease (job_name text primary key, holder text, expires_at timestamptz)")
        cluster.sql("insert into leader_lease values ('nightly', 'me', clock_timestamp() + interval '1 hour')")
        with hold_lock(cluster, 1, application_name="worker-1"), \
                hold_lock(cluster, 2, application_name="worker-2") as owner, \
                hold_lock(cluster, 3, application_name="stale") as stale, \
                cluster.connect(application_name="worker-3") as stranger:
            owner.execute("select pgleader.begin_term(%s, 'worker-2')", (NOTED,))
            stale.execute("select pgleader.begin_term(%s, 'stale')", (STRANGE,))
            stale.execute("select pg_advisory_unlock(3)")
            stranger.execute("select pg_advisory_lock(3)")
            yield cluster


def allow(pg, *grants):
    """The role has these grants and no other."""
    pg.sql("revoke all on all tables in schema pgleader, public from watcher")
    pg.sql("revoke all on schema pgleader from watcher")
    pg.sql("revoke pg_read_all_stats from watcher")
    for grant in grants:
        pg.sql(f"grant {grant} to watcher")


STATS = "pg_read_all_stats"
LEDGER = ["usage on schema pgleader", "select on all tables in schema pgleader"]
TABLE = ["select on leader_lease"]

# grants, the section_up values that are 0, family: the duties for which it is there
ROWS = [
    ([STATS, *LEDGER, *TABLE], set(), {
        "owner_pid": {PLAIN, NOTED, STRANGE}, "owner_backend_start_timestamp_seconds": {PLAIN, NOTED, STRANGE},
        "acquisition_uncertainty_seconds": {PLAIN, NOTED, STRANGE}, "generation": {NOTED},
        "term_begun": {NOTED, STRANGE}, "ledger_mismatch": {NOTED, STRANGE},
        "leader_held": {PLAIN, NOTED, STRANGE, LEASE}}),
    ([*LEDGER, *TABLE], set(), {
        "owner_pid": {PLAIN, NOTED, STRANGE}, "owner_backend_start_timestamp_seconds": set(),
        "acquisition_uncertainty_seconds": set(), "generation": set(), "term_begun": {STRANGE},
        "acquired_timestamp_seconds": set(), "leader_held": {PLAIN, NOTED, STRANGE, LEASE}}),
    ([STATS], {"ledger", "ledger_version", "lease:public.leader_lease"}, {
        "owner_pid": {PLAIN}, "generation": set(), "term_begun": set(), "leader_held": {PLAIN}}),
    ([], {"ledger", "ledger_version", "lease:public.leader_lease"}, {
        "owner_pid": {PLAIN}, "acquisition_uncertainty_seconds": set(), "leader_held": {PLAIN}}),
]


def shown(samples, family):
    return {have["duty"] for name, have, _ in samples if name == "pgleader_" + family}


def failing(samples):
    return {have["section"] for name, have, v in samples if name == "pgleader_section_up" and v == 0}


@pytest.mark.parametrize("grants, down, families", ROWS)
def test_grants(pg, grants, down, families):
    allow(pg, *grants)
    with Exporter(config=config(server(pg.conninfo(user="watcher"), duties=DUTIES))) as e:
        s = e.wait_for(lambda s: led(s, PLAIN) and failing(s) == down
                       and s.labels("owner_info", duty=PLAIN)["usename"], "read as far as may be")
        assert s.one("privileged") == (STATS in grants)
        for family, duties in families.items():
            assert shown(s, family) == duties, family
        assert (s.one("ledger_version") is None) == ("ledger_version" in down)
        owner = s.labels("owner_info", duty=PLAIN)
        assert (owner["application_name"], owner["usename"]) == ("worker-1", "postgres")
        assert (owner["client_addr"] == "127.0.0.1") == (STATS in grants)


def test_unverified_mismatch(pg):
    """That another session holds the lock is known without privileges; that the term's session lives is not."""
    allow(pg, STATS, *LEDGER)
    with Exporter(config=config(server(pg.conninfo(user="watcher"), duties=DUTIES))) as e:
        e.wait_for(lambda s: s.one("ledger_mismatch", duty=STRANGE) == 1, "contested")
        allow(pg, *LEDGER)
        s = e.wait_for(lambda s: s.one("privileged") == 0, "the loss is noticed", deadline=5)
        assert s.one("ledger_mismatch", duty=STRANGE) == 0


def test_revoked_and_granted(pg):
    """Grants come and go under an open session."""
    allow(pg, STATS, *LEDGER, *TABLE)
    with Exporter(config=config(server(pg.conninfo(user="watcher"), duties=DUTIES))) as e:
        full = e.wait_for(lambda s: failing(s) == set() and s.one("privileged") == 1
                          and s.one("generation", duty=NOTED), "everything is read")
        with Watcher(e) as watch:
            allow(pg)
            poor = e.wait_for(lambda s: s.one("privileged") == 0 and {"ledger", "lease:public.leader_lease"} <= failing(s),
                              "the loss is noticed", deadline=5)
            assert shown(poor, "generation") == shown(poor, "term_begun") == set()
            assert poor.one("owner_backend_start_timestamp_seconds", duty=PLAIN) is None
            assert poor.one("leader_held", duty=LEASE) is None, "unread is not vacant"
            allow(pg, STATS, *LEDGER, *TABLE)
            e.wait_for(lambda s: failing(s) == set() and s.one("privileged") == 1
                       and s.one("generation", duty=NOTED) == full.one("generation", duty=NOTED),
                       "everything is read again by itself", deadline=20)
        assert set(watch.values("up")) == {1.0}
        assert set(watch.values("owner_pid", duty=PLAIN)) == {full.one("owner_pid", duty=PLAIN)}
        last = watch.scrapes[-1].samples
        for rule in ("lost", "takeover", "returned"):
            assert last.one("transitions_total", duty=PLAIN, rule=rule) == 0, "what may not be seen has not changed"


def test_control_denied(pg):
    """A role that may not call pg_control_*: the identity of the cluster is absent, privileges are known."""
    allow(pg, STATS)
    pg.sql("revoke execute on function pg_control_system(), pg_control_checkpoint() from public")
    with Exporter(config=config(server(pg.conninfo(user="watcher")))) as e:
        s = e.wait_for(lambda s: "control" in failing(s), "the section fails")
        assert s.one("privileged") == 1
        info = s.labels("server_info")
        assert (info["system_identifier"], info["timeline"], info["database"]) == ("", "", "postgres")
        pg.sql("grant execute on function pg_control_system(), pg_control_checkpoint() to public")
        e.wait_for(lambda s: s.labels("server_info")["timeline"] == "1", "read again by itself", deadline=20)
