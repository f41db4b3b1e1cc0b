# SPDX-License-Identifier: PostgreSQL
"""Every supported major version: each query, the ledger, and a takeover with everything that the version can tell."""

import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.exporter import Exporter
from tests.support.scene import (SEED_LEASE, config, end_session, holding, lease_duty, lock_call, lock_duty, majors, pid_of, server,
                                 take_lease, waiting)

DUTY = "jobs/work"
BEFORE_14 = {"locks.sql"}  # and the other one stands in for it


@pytest.fixture(scope="module", params=majors(), ids="pg{}".format)
def cluster(request):
    with Cluster(request.param) as pg:
        pg.install_ledger()
        pg.sql(SEED_LEASE.format(table="public.leader_lease"))
        pg.sql("create table public.state (at int); insert into public.state values (3)")
        pg.sql(f"select pgleader.register_duty('{DUTY}', lock_key => 1, stall_after => '5 minutes')")
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    duties = [lease_duty("jobs/lease", "public.leader_lease", "nightly"),
              lock_duty("jobs/app", 2, progress={"table": "public.state", "column": "at"})]
    with Exporter(config=config(server(cluster, duties=duties), after="0")) as e:
        e.wait_for(lambda s: s.one("ledger_version"), "the ledger is read")
        yield e


def test_every_query_prepares(cluster):
    queries = sorted((ROOT / "observe" / "sql").glob("*.sql"))
    assert len(queries) >= 7
    with cluster.connect() as conn:
        conn.execute("set search_path = ''")
        for path in queries:
            if path.name in BEFORE_14 and cluster.major < 14:
                continue
            result = conn.pgconn.prepare(path.stem.encode(), path.read_bytes())
            assert not result.error_message, f"{path.name}: {result.error_message}"


def test_the_server_is_told(cluster, exporter):
    samples = exporter.wait_for(lambda s: s.one("up") == 1, "up")
    files = len(list((ROOT / "ledger").glob("[0-9]*.sql")))
    identifier, timeline, version = cluster.sql("""select (pg_control_system()).system_identifier::text,
        (pg_control_checkpoint()).timeline_id::text, split_part(current_setting('server_version'), ' ', 1)""")[0]
    assert samples.labels("server_info") == {
        "server": "db", "system_identifier": identifier, "timeline": timeline, "database": "postgres", "version": version}
    assert version.startswith(str(cluster.major))
    assert samples.one("ledger_version") == files
    assert {samples.one(f) for f in ("in_recovery", "role_unexpected")} == {0} and samples.one("privileged") == 1


def test_a_takeover_with_all_that_is_known(cluster, exporter):
    """Owner, generation, cursor, waiters, then the waiter leads; a lease and an application's table beside it."""
    assert take_lease(cluster, "nightly", "host-1", "1 hour")
    with holding(cluster, 2, "app"), holding(cluster, 99, "stray"), holding(cluster, 1, f"pgleader:{DUTY}:a") as first:
        generation = first.execute(f"select pgleader.begin_term('{DUTY}', 'a')").fetchone()[0]
        first.execute("select pgleader.claim_run(%s, 'day', %s, '1 hour')", (DUTY, generation))
        first.execute("select pgleader.advance_run(%s, 'day', %s, '17', null, 40)", (DUTY, generation))
        with waiting(cluster, 1, f"pgleader:{DUTY}:b") as second:
            samples = exporter.wait_for(lambda s: s.one("run_cursor", duty=DUTY) == 17 and s.one("waiters", duty=DUTY) == 1, "led")
            told = {f: samples.one(f, duty=DUTY) for f in ("leader_held", "owners", "generation", "term_begun", "candidates", "run_target",
                                                           "run_active", "ledger_mismatch", "acquisition_uncertainty_seconds")}
            assert told.pop("acquisition_uncertainty_seconds") is not None
            assert told == {"leader_held": 1, "owners": 1, "generation": generation, "term_begun": 1, "candidates": 2, "run_target": 40,
                            "run_active": 1, "ledger_mismatch": 0}
            assert samples.one("owner_pid", duty=DUTY) == pid_of(first)
            assert (samples.one("oldest_wait_seconds", duty=DUTY) is None) == (cluster.major < 14)
            exporter.wait_for(lambda s: s.labels("owner_info", duty=DUTY)["usename"] == "postgres", "the role's name")
            assert samples.labels("owner_info", duty="jobs/lease")["holder"] == "host-1"
            assert samples.one("run_cursor", duty="jobs/app") == 3
            exporter.wait_for(lambda s: s.one("leader_held", duty="advisory/99") == 1, "discovery")

            first.execute(f"select pgleader.end_term('{DUTY}', {generation}, 'shutdown')")
            first.execute(f"select {lock_call('pg_advisory_unlock', 1)}")
            second.pgconn.get_result()
            second.pgconn.get_result()
            newer = second.execute(f"select pgleader.begin_term('{DUTY}', 'b')").fetchone()[0]
            outcome = second.execute("select outcome, cursor from pgleader.claim_run(%s, 'day', %s, '1 hour')", (DUTY, newer)).fetchone()
            assert outcome == ("resumed", "17")
            samples = exporter.wait_for(lambda s: s.one("generation", duty=DUTY) == newer, "the other leads")
            assert samples.one("owner_pid", duty=DUTY) == pid_of(second)
            assert newer > generation
            assert samples.one("transitions_total", duty=DUTY, rule="takeover") == 1
            recorded = cluster.sql("select extract(epoch from term_acquired_at - previous_ended_at)::float8 from pgleader.duty")[0][0]
            assert 0 <= samples.one("last_takeover_seconds", duty=DUTY) <= recorded + 2e-6
            end_session(cluster, pid_of(second))
            exporter.wait_for(lambda s: s.one("leader_held", duty=DUTY) == 0, "vacant")


def test_no_statement_of_the_exporter_s_failed(cluster, exporter):
    samples = exporter.scrape()
    assert set(samples.find("section_up")) == {1}
    assert "level=warn" not in exporter.log() and "level=error" not in exporter.log()
    ours = [line for line in cluster.log_text().splitlines() if "pgleader_exporter" in line and ("ERROR" in line or "FATAL" in line)]
    assert ours == []
