# SPDX-License-Identifier: PostgreSQL
# ctest: asan tsan
"""SIGHUP and POST /-/reload: a good file takes over, a bad one changes nothing, sessions and history go on."""

import os

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import Exporter
from tests.support.scene import SEED_LEASE, config, holding, lease_duty, lock_duty, server
from tests.support.wait import hold_for, wait_until

ONE, TWO = lock_duty("jobs/one", 1), lock_duty("jobs/two", 2)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.sql("create database other")
        pg.sql("create role reader login")
        yield pg


@pytest.fixture
def exporter(cluster):
    with Exporter(config=config(server(cluster, duties=[ONE])), options=["--web.enable-lifecycle"]) as e:
        e.wait_for(lambda s: s.one("up", server="db") == 1, "up")
        yield e


def load(exporter, text, ok=True):
    """Writes the file as editors do, asks for a reload, and returns the first scrape after it."""
    said = exporter.log().count("configuration reloaded" if ok else "could not reload")
    new = exporter.config_path.with_suffix(".new")
    new.write_text(text)
    os.rename(new, exporter.config_path)
    exporter.reload()
    wait_until(lambda: exporter.log().count("configuration reloaded" if ok else "could not reload") > said, "the file is read")
    return exporter.wait_for(lambda s: s.one("config_last_reload_successful") == int(ok), f"the reload's success is {ok}")


def test_a_duty_is_added_and_taken_away(cluster, exporter):
    """The session stays, and so does what was seen of the duty that stays."""
    with holding(cluster, 1):
        samples = exporter.wait_for(lambda s: s.one("transitions_total", duty="jobs/one", rule="acquired") == 1, "acquired")
        stamp, acquired = (samples.one(f, **w) for f, w in (("config_last_reload_timestamp_seconds", {}),
                                                            ("acquired_timestamp_seconds", {"duty": "jobs/one"})))
        load(exporter, config(server(cluster, duties=[ONE, TWO])))
        samples = exporter.wait_for(lambda s: s.duties() == ["jobs/one", "jobs/two"], "both duties are shown")
        assert samples.one("config_last_reload_timestamp_seconds") > stamp
        assert samples.one("acquired_timestamp_seconds", duty="jobs/one") == acquired
        assert samples.one("transitions_total", duty="jobs/one", rule="acquired") == 1
        load(exporter, config(server(cluster, duties=[TWO])))
        samples = exporter.wait_for(lambda s: s.duties() == ["jobs/two"], "only the second is shown")
        assert samples.one("unregistered_locks") == 1
        assert sum(samples.find("transitions_total")) == 0


def test_the_session_is_kept_while_its_conninfo_is_the_same(cluster, exporter):
    """Twenty reloads, whenever they come: in a poll, between two."""
    for n in range(20):
        load(exporter, config(server(cluster, duties=[ONE, TWO][: 1 + n % 2])))
    samples = exporter.wait_for(lambda s: s.one("up") == 1 and len(s.duties()) == 2, "the last file is in force")
    assert samples.one("connects_total") == 1
    assert len(cluster.sql("select 1 from pg_stat_activity where application_name = 'pgleader_exporter'")) == 1
    load(exporter, config(server(cluster, user="reader", duties=[ONE])))
    exporter.wait_for(lambda s: s.one("privileged") == 0, "another role")
    assert exporter.scrape().one("connects_total") == 2
    wait_until(lambda: cluster.sql("select usename from pg_stat_activity where application_name = 'pgleader_exporter'") == [("reader",)],
               "the old session is closed")


def test_a_reload_while_a_poll_is_under_way(cluster, exporter):
    """A locked table keeps each poll waiting for its lock_timeout: nearly every reload comes into one."""
    cluster.sql(SEED_LEASE.format(table="public.leader_lease"))
    lease = lease_duty("jobs/lease", "public.leader_lease", "nightly")
    with cluster.connect() as blocker:
        blocker.execute("begin")
        blocker.execute("lock table public.leader_lease")
        for n in range(10):
            load(exporter, config(server(cluster, duties=[ONE, lease, TWO][: 2 + n % 2])))
        blocker.execute("rollback")
    samples = exporter.wait_for(lambda s: s.one("leader_held", duty="jobs/lease") == 0, "the lease is read")
    assert samples.duties() == ["jobs/lease", "jobs/one", "jobs/two"]
    assert samples.one("connects_total") == 1


def test_no_scrape_is_lost_by_a_reload(cluster, exporter):
    def led():
        samples = exporter.scrape()
        return samples.one("up") == 1 and samples.one("leader_held", duty="jobs/one") == 1
    with holding(cluster, 1):
        exporter.wait_for(lambda s: s.one("leader_held", duty="jobs/one") == 1, "led")
        for _ in range(5):
            load(exporter, config(server(cluster, duties=[ONE])))
            hold_for(led, "up and led", 0.2, every=0.01)


BAD = {
    "not YAML": "servers: [",
    "an unknown key": '{"servers": [], "serverz": 1}',
    "no server": '{"servers": []}',
    "a wrong type": '{"servers": [{"name": "db", "conninfo": "dbname=postgres", "duties": 7}]}',
    "empty": "",
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_file_changes_nothing(cluster, exporter, bad):
    with holding(cluster, 1):
        before = exporter.wait_for(lambda s: s.one("leader_held", duty="jobs/one") == 1, "led")
        samples = load(exporter, BAD[bad], ok=False)
        assert samples.one("config_last_reload_timestamp_seconds") == before.one("config_last_reload_timestamp_seconds")
        seen = samples.one("last_success_timestamp_seconds")
        samples = exporter.wait_for(lambda s: s.one("last_success_timestamp_seconds") > seen, "polls go on")
        assert samples.duties() == ["jobs/one"] and samples.one("leader_held", duty="jobs/one") == 1
        assert samples.one("connects_total") == 1
        assert f"{exporter.config_path}:" in exporter.log(), "the log names the file and the line"
    load(exporter, config(server(cluster, duties=[ONE])))


def test_a_file_that_is_gone_changes_nothing(cluster, exporter):
    exporter.config_path.unlink()
    exporter.reload()
    samples = exporter.wait_for(lambda s: s.one("config_last_reload_successful") == 0, "the reload failed")
    assert samples.one("up") == 1 and samples.duties() == ["jobs/one"]
    exporter.config_path.write_text(config(server(cluster, duties=[ONE])))
    exporter.reload()
    exporter.wait_for(lambda s: s.one("config_last_reload_successful") == 1, "the next one does not")


def test_servers_come_go_and_change_their_names(cluster, exporter):
    load(exporter, config(server(cluster, duties=[ONE]), server(cluster, "second", "other", duties=[ONE])))
    samples = exporter.wait_for(lambda s: s.find("up") == [1, 1], "two servers")
    assert samples.duties("second") == ["jobs/one"]
    assert samples.one("connects_total", server="db") == 1
    load(exporter, config(server(cluster, "second", "other", duties=[ONE]), server(cluster, "renamed", duties=[TWO])))
    samples = exporter.wait_for(lambda s: s.find("up") == [1, 1] and s.duties("renamed") == ["jobs/two"], "one has another name")
    assert {labels.get("server") for _, labels, _ in samples} == {None, "second", "renamed"}, "nothing is left of the old name"
    assert samples.one("connects_total", server="second") == 1
    load(exporter, config(server(cluster, "second", "other")))
    exporter.wait_for(lambda s: s.find("up") == [1], "one server")
    wait_until(lambda: len(cluster.sql("select 1 from pg_stat_activity where application_name = 'pgleader_exporter'")) == 1,
               "the others' sessions are closed")


def test_interval_and_discovery_change_too(cluster, exporter):
    with holding(cluster, 77):
        exporter.wait_for(lambda s: s.one("poll_interval_seconds") < 0.7, "the first interval")
        load(exporter, config(server(cluster, duties=[ONE]), interval="700ms", after="0"))
        samples = exporter.wait_for(lambda s: s.one("poll_interval_seconds") >= 0.7, "another interval")
        exporter.wait_for(lambda s: "advisory/77" in s.duties(), "discovery is on")
        assert samples.one("connects_total") == 1
        load(exporter, config(server(cluster, duties=[ONE])))
        exporter.wait_for(lambda s: s.duties() == ["jobs/one"], "discovery is off")


def test_reload_by_request(cluster, exporter):
    exporter.config_path.write_text(config(server(cluster, duties=[TWO])))
    assert exporter.get("/-/reload")[0] == 405
    assert exporter.get("/-/reload", method="POST")[0] in (200, 202, 204)
    exporter.wait_for(lambda s: s.duties() == ["jobs/two"], "reloaded")
    with Exporter(config=config(server(cluster))) as off:
        assert off.get("/-/reload", method="POST")[0] in (403, 404)


def test_a_reload_while_the_server_is_down(cluster):
    """The file is good, whatever its servers do."""
    nowhere = {"name": "nowhere", "conninfo": "host=127.0.0.1 port=1 dbname=x connect_timeout=1"}
    with Exporter(config=config(nowhere)) as e:
        e.wait_for(lambda s: s.one("up", server="nowhere") == 0 and s.one("last_poll_timestamp_seconds"), "down")
        samples = load(e, config(nowhere, server(cluster, duties=[ONE])))
        e.wait_for(lambda s: s.one("up", server="db") == 1 and s.one("up", server="nowhere") == 0, "one is up")
