# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Who leads by a lease: a row with a holder and an expiry, judged by the server's clock, whatever its table looks like."""

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import SEED_LEASE, clock, config, lease_duty, server, take_lease

SEED, ODD = "public.leader_lease", '"Odd "" Schema"."My.Leases"'
OTHER = {"key_column": '"Job"', "holder_column": "Worker", "expires_column": "until", "acquired_column": "since", "generation_column": "term"}
TABLES = f"""
    create schema "Odd "" Schema";
    create table {ODD} ("Job" int primary key, worker text, until timestamp, since timestamp, term int);
    create table public.uuids (id uuid primary key, holder varchar(40), expires_at timestamptz);
    create table public.nokey (job_name char(12), holder text, expires_at timestamptz);
    create unlogged table public.unlogged_lease (like public.leader_lease);
"""
UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
DUTIES = [
    lease_duty("seed/nightly", SEED, "nightly"),
    lease_duty("seed/hourly", "Public.LEADER_lease", "hourly"),
    lease_duty("seed/daily", "leader_lease", "daily"),
    lease_duty("seed/ends", SEED, "ends"),
    lease_duty("odd/one", ODD, "7", OTHER),
    lease_duty("odd/uuid", "public.uuids", UUID, {"key_column": "id"}),
    lease_duty("odd/nokey", "public.nokey", "two"),
    lease_duty("odd/unlogged", "public.unlogged_lease", "x"),
    lease_duty("odd/missing", "public.missing", "x"),
    lease_duty("odd/columns", SEED, "columns", {"holder_column": "owner"}),
]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(settings={"timezone": "'Asia/Kolkata'"}) as pg:
        pg.install_ledger()
        pg.sql(SEED_LEASE.format(table=SEED))
        pg.sql(TABLES)
        pg.sql("select pgleader.register_duty('ledger/own', lease_table => 'pgleader.lease')")
        pg.sql("select pgleader.register_duty('ledger/seed', lease_table => 'public.leader_lease', lease_row => 'registered')")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    with Exporter(config=config(server(cluster, duties=DUTIES))) as e:
        e.wait_for(lambda s: len(s.duties()) == len(DUTIES) + 2, "every duty is shown")
        yield e


def facts(samples, duty, *families):
    return tuple(samples.one(f, duty=duty) for f in families)


def wait_held(exporter, duty, held, holder=None):
    def condition(samples):
        info = samples.labels("owner_info", duty=duty)
        return samples.one("leader_held", duty=duty) == held and (info["holder"] if info else None) == holder
    return exporter.wait_for(condition, f"{duty}: held {held} by {holder}")


def test_the_examples_table(cluster, exporter):
    """No row, a lease, its renewal, its expiry, its next holder."""
    duty = "seed/nightly"
    samples = wait_held(exporter, duty, 0)
    assert facts(samples, duty, "owners", "lease_remaining_seconds", "lease_expires_timestamp_seconds", "owner_pid") == (0, None, None, None)
    assert take_lease(cluster, "nightly", "host-1", "2 seconds")
    samples = wait_held(exporter, duty, 1, "host-1")
    expires = cluster.sql("select extract(epoch from expires_at)::float8 from public.leader_lease where job_name = 'nightly'")[0][0]
    assert samples.one("lease_expires_timestamp_seconds", duty=duty) == pytest.approx(expires, abs=1e-5)
    assert 0 < samples.one("lease_remaining_seconds", duty=duty) <= samples.one("lease_duration_seconds", duty=duty) <= 2
    assert samples.labels("owner_info", duty=duty) == {
        "server": "db", "duty": duty, "holder": "host-1", "application_name": "", "usename": "", "client_addr": ""}
    assert samples.labels("duty_info", duty=duty)["key"] == "public.leader_lease:nightly"
    assert facts(samples, duty, "owner_pid", "waiters", "shared_owners", "owner_backend_start_timestamp_seconds", "generation") == (None,) * 5
    assert not take_lease(cluster, "nightly", "host-2")
    samples = wait_held(exporter, duty, 0)
    assert clock(cluster) >= expires
    assert samples.one("vacant_since_timestamp_seconds", duty=duty) == pytest.approx(expires, abs=0.3)
    assert samples.one("lease_remaining_seconds", duty=duty) <= 0
    assert take_lease(cluster, "nightly", "host-2", "1 hour")
    samples = wait_held(exporter, duty, 1, "host-2")
    assert samples.one("transitions_total", duty=duty, rule="takeover") == 1


def test_a_takeover_of_a_lease_is_bounded_by_its_expiry(cluster, exporter):
    """The first lease runs out at a time that its row tells; the second is taken at a time the test brackets."""
    duty = "seed/hourly"
    for n in range(3):
        assert take_lease(cluster, "hourly", f"host-{n}", "400 ms")
        wait_held(exporter, duty, 1, f"host-{n}")
        expires = cluster.sql("select extract(epoch from expires_at)::float8 from public.leader_lease where job_name = 'hourly'")[0][0]
        if n == 1:
            wait_held(exporter, duty, 0)
        else:
            exporter.wait_for(lambda s: clock(cluster) > expires, "it has run out", deadline=5)
        before = clock(cluster)
        assert take_lease(cluster, "hourly", f"next-{n}", "400 ms")
        after = clock(cluster)
        samples = wait_held(exporter, duty, 1, f"next-{n}")
        lower, upper = facts(samples, duty, "last_takeover_lower_bound_seconds", "last_takeover_seconds")
        assert lower <= after - expires and before - expires <= upper, f"{lower} to {upper}: {before - expires} to {after - expires}"
        if n == 1:
            assert upper <= after - expires + 0.3, "the row itself told when it was lost"
        wait_held(exporter, duty, 0)


def test_names_are_read_as_sql_reads_them(cluster, exporter):
    """Public.LEADER_lease is public.leader_lease; a table without a schema is one of public."""
    assert take_lease(cluster, "hourly", "folded", "1 hour") and take_lease(cluster, "daily", "unqualified", "1 hour")
    wait_held(exporter, "seed/hourly", 1, "folded")
    wait_held(exporter, "seed/daily", 1, "unqualified")


def test_other_columns_and_types(cluster, exporter):
    """Quoted names, an int key, times without a zone (UTC, whatever the server's zone), acquisition and generation."""
    now = "clock_timestamp() at time zone 'UTC'"
    cluster.sql(f"insert into {ODD} values (7, 'w1', {now} + interval '1 hour', {now}, 42), (8, 'other', {now} + interval '1 hour', {now}, 1)")
    samples = wait_held(exporter, "odd/one", 1, "w1")
    acquired = cluster.sql(f"select extract(epoch from since at time zone 'UTC')::float8 from {ODD} where \"Job\" = 7")[0][0]
    assert facts(samples, "odd/one", "generation", "acquisition_uncertainty_seconds") == (42, 0)
    assert samples.one("acquired_timestamp_seconds", duty="odd/one") == pytest.approx(acquired, abs=1e-5)
    assert 3590 < samples.one("lease_remaining_seconds", duty="odd/one") <= 3600
    cluster.sql(f"update {ODD} set since = {now}, term = 43 where \"Job\" = 7")
    samples = exporter.wait_for(lambda s: s.one("generation", duty="odd/one") == 43, "the same holder, another lease")
    assert samples.one("transitions_total", duty="odd/one", rule="returned") == 1
    cluster.sql(f"update {ODD} set until = {now} - interval '1 second' where \"Job\" = 7")
    samples = wait_held(exporter, "odd/one", 0)
    assert samples.one("generation", duty="odd/one") is None
    cluster.sql(f"insert into public.uuids values ('{UUID}', 'by-uuid', now() + interval '1 hour')")
    wait_held(exporter, "odd/uuid", 1, "by-uuid")
    cluster.sql("insert into public.unlogged_lease values ('x', 'unlogged', now() + interval '1 hour')")
    wait_held(exporter, "odd/unlogged", 1, "unlogged")


ENDS = {  # expires_at: held, remaining, expires
    "'infinity'": (1, float("inf"), float("inf")),
    "'-infinity'": (0, float("-inf"), float("-inf")),
    "'294276-12-31 23:59:59+00'": (1, float("inf"), float("inf")),  # beyond what microseconds since 1970 can say
    "'2000-01-01 00:00:00+00'": (0, None, 946684800),
}


@pytest.mark.parametrize("end", ENDS)
def test_ends_of_time(cluster, exporter, end):
    held, remaining, expires = ENDS[end]
    cluster.sql(f"insert into {SEED} values ('ends', 'ender', {end}) on conflict (job_name) do update set expires_at = excluded.expires_at")
    samples = exporter.wait_for(lambda s: s.one("lease_expires_timestamp_seconds", duty="seed/ends") == expires, f"it ends at {end}")
    assert samples.one("leader_held", duty="seed/ends") == held
    if remaining is not None:
        assert samples.one("lease_remaining_seconds", duty="seed/ends") == remaining
    assert (samples.one("lease_duration_seconds", duty="seed/ends") is None) == (remaining == float("inf") or not held)


def test_two_owners_of_one_lease_contest_it(cluster, exporter):
    """A table without a key may have two rows that are held; one that ran out is no owner, wherever it stands."""
    row = "insert into public.nokey values ('two', '{0}', now() + interval '{1}')"
    cluster.sql(row.format("gone", "-1 hour"))
    cluster.sql(row.format("first", "1 hour"))
    samples = wait_held(exporter, "odd/nokey", 1, "first")
    assert facts(samples, "odd/nokey", "owners", "duty_state") == (1, 1)
    cluster.sql(row.format("second", "1 hour"))
    samples = exporter.wait_for(lambda s: facts(s, "odd/nokey", "owners", "duty_state") == (2, 4), "contested")
    assert samples.labels("owner_info", duty="odd/nokey")["holder"] in ("first", "second")
    changes = sum(samples.find("transitions_total", duty="odd/nokey"))
    cluster.sql("update public.nokey set expires_at = now() + interval '2 hours' where holder = 'first'")  # moves the row
    cluster.sql("delete from public.nokey where holder = 'gone'")
    seen = samples.one("last_success_timestamp_seconds")
    samples = exporter.wait_for(lambda s: s.one("last_success_timestamp_seconds") > seen + 0.5, "some polls later")
    assert sum(samples.find("transitions_total", duty="odd/nokey")) == changes, "they do not take turns"
    cluster.sql("update public.nokey set holder = null where holder = 'first'")
    samples = exporter.wait_for(lambda s: facts(s, "odd/nokey", "owners", "duty_state") == (1, 1), "no holder is no owner")
    cluster.sql("update public.nokey set expires_at = null")
    wait_held(exporter, "odd/nokey", 0)


def test_a_table_that_cannot_be_read_is_its_own_section_s_trouble(exporter):
    samples = exporter.wait_for(lambda s: s.one("section_up", section="lease:public.missing") == 0, "there is no such table")
    assert samples.one("up") == 1
    assert facts(samples, "odd/missing", "leader_held", "owners", "duty_state") == (None, None, 0)
    assert facts(samples, "odd/columns", "leader_held", "owners", "duty_state") == (None, None, 0)
    assert samples.one("leader_held", duty="odd/nokey") == 0
    assert 'column \\"owner\\" does not exist' in exporter.log()


def test_the_ledger_s_own_lease(cluster, exporter):
    """acquire, renew, release, a crash, and the generation of each."""
    duty = "ledger/own"
    def acquire(holder, length="1 hour"):
        return cluster.sql(f"select pgleader.acquire_lease('{duty}', '{holder}', interval '{length}')")[0][0]
    first = acquire("w1")
    def wait_term(generation):  # one poll may read the ledger just before, and the lease just after, an acquisition
        return exporter.wait_for(lambda s: facts(s, duty, "leader_held", "generation", "term_begun", "ledger_mismatch") ==
                                 (1, generation, 1, 0), f"led in term {generation}")
    samples = wait_term(first)
    assert samples.labels("owner_info", duty=duty)["holder"] == "w1"
    recorded = cluster.sql("select extract(epoch from acquired_at)::float8 from pgleader.lease")[0][0]
    assert samples.one("acquired_timestamp_seconds", duty=duty) == pytest.approx(recorded, abs=1e-2)
    assert acquire("w2") is None
    cluster.sql(f"select pgleader.renew_lease('{duty}', 'w1', {first}, interval '2 hours')")
    samples = exporter.wait_for(lambda s: s.one("lease_remaining_seconds", duty=duty) > 7000, "renewed")
    assert samples.one("transitions_total", duty=duty, rule="returned") == 0
    cluster.sql(f"select pgleader.release_lease('{duty}', 'w1', {first})")
    samples = wait_held(exporter, duty, 0)
    assert facts(samples, duty, "generation", "term_begun") == (None, None)
    second = acquire("w2", "1 second")
    wait_term(second)
    assert second > first
    wait_held(exporter, duty, 0)
    third = acquire("w2")
    samples = wait_term(third)
    assert {rule: samples.one("transitions_total", duty=duty, rule=rule) for rule in ("acquired", "lost", "takeover", "returned")} == {
        "acquired": 1, "lost": 2, "takeover": 1, "returned": 1}


def test_a_lease_table_of_the_application_s_in_the_registry(cluster, exporter):
    """The seed's table unchanged, registered: it is led, without a term or a generation."""
    assert take_lease(cluster, "registered", "host-9", "1 hour")
    samples = wait_held(exporter, "ledger/seed", 1, "host-9")
    assert samples.labels("duty_info", duty="ledger/seed")["source"] == "ledger"
    assert facts(samples, "ledger/seed", "generation", "ledger_mismatch", "duty_state") == (None, 0, 1)
