# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""pgleader key: the lock of a name or a number, without a server and against registries."""

import os
import subprocess

import pytest

from tests.support.cluster import ROOT, Cluster, hold_lock
from tests.support.command import answer, pgleader

VECTORS = [line.split("\t") for line in (ROOT / "tests/key_vectors.tsv").read_text().splitlines()]
NAME, KEY = "jobs/invoice-reconcile", "4442335917748287519"


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql("select pgleader.register_duty(%s, lock_key => 742118)", (NAME,))
        cluster.sql("select pgleader.register_duty('jobs/mail-out', lock_pair => '{12,-7}')")
        cluster.sql("select pgleader.register_duty('jobs/taken', lock_key => %s)", (int(KEY),))
        cluster.sql("create database bare")
        cluster.sql("create role stranger login")
        yield cluster


def config(tmp_path, pg, duties="", dbname="postgres"):
    path = tmp_path / "pgleader.yml"
    path.write_text(f"servers:\n  - name: main\n    conninfo: \"{pg.conninfo(dbname)}\"\n    duties:{duties or ' []'}\n")
    return path


@pytest.mark.parametrize("environment, duty, key, classid, objid", VECTORS)
def test_names(environment, duty, key, classid, objid):
    """The vectors that the ledger's derive_key is held to."""
    shown = answer("key", duty, "--environment", environment)
    assert (shown["key"], shown["classid"], shown["objid"], shown["objsubid"]) == (key, int(classid), int(objid), 1)


@pytest.mark.parametrize("key, shown", [
    ("742118", (0, 742118, 1)), ("-1", (4294967295, 4294967295, 1)), ("12,-7", (12, 4294967289, 2)),
    ("-2147483648,3", (2147483648, 3, 2)), ("-9223372036854775808", (2147483648, 0, 1))])
def test_numbers_as_pg_locks_shows_them(pg, key, shown):
    found = answer("key", key)
    assert (found["classid"], found["objid"], found["objsubid"]) == shown and found["key"] == key
    words = tuple(map(int, key.split(",")))
    with hold_lock(pg, words if len(words) == 2 else words[0]) as conn:
        assert conn.execute("select classid::int8, objid::int8, objsubid::int from pg_locks "
                            "where locktype = 'advisory' and pid = pg_backend_pid()").fetchone() == shown


@pytest.mark.parametrize("subject, more, words", [
    ("jobs/x", [], "environment"), ("", [], "neither"), ("Jobs/x", ["--environment=prod"], "neither"), ("x", [], "neither"),
    ("9223372036854775808", [], "neither"), ("1,2,3", [], "neither"), ("jobs/x", ["--environment="], "empty"),
    ("7", ["dbname=a", "b"], "more than"), ("7", ["--frobnicate"], "no such option")])
def test_what_is_refused(subject, more, words):
    done = pgleader("key", subject, *more)
    assert done.returncode == 64 and words in done.stderr and done.stdout == ""


def test_nothing_is_connected_to():
    """Not even where the environment names a server."""
    done = pgleader("key", NAME, "--environment=prod", env={"PGHOST": "192.0.2.1"}, timeout=5)
    assert done.returncode == 0 and KEY in done.stdout and done.stderr == ""


def owner_line(text):
    line, = [line for line in text.splitlines() if line.startswith("owner ")]
    return line.split(None, 1)[1]


@pytest.mark.parametrize("given", [True, False])
def test_the_psql_line_finds_the_owner(pg, given):
    """As printed: with a CONNINFO by itself, without one where the PG* variables lead."""
    argv = ["key", "-814"] + ([pg.conninfo()] if given else [])
    env = {"PATH": os.environ["PATH"]}
    if not given:
        env.update(PGHOST="127.0.0.1", PGPORT=str(pg.port), PGUSER=pg.user, PGDATABASE="postgres")
    line = owner_line(pgleader(*argv).stdout)
    with hold_lock(pg, -814, application_name="it is me") as owner, hold_lock(pg, -814, dbname="bare") as other:
        done = subprocess.run(["bash", "-c", line + " -At"], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        assert f"{owner.info.backend_pid}|t|ExclusiveLock|it is me|" in done.stdout
        assert f"{other.info.backend_pid}|" not in done.stdout


def test_the_psql_line_quotes(pg):
    """A name that a shell and libpq would both split; a password is not shown."""
    pg.sql("""create database "o'dd na\\me" """)
    line = owner_line(pgleader("key", "5", pg.conninfo("o'dd na\\me", password="secr'et")).stdout)
    assert "secr" not in line
    with hold_lock(pg, 5, dbname="o'dd na\\me", application_name="found"):
        done = subprocess.run(["bash", "-c", line + " -At"], capture_output=True, text=True)
    assert "found" in done.stdout, done.stderr


def test_a_collision_with_the_registry(pg):
    shown = answer("key", "jobs/new", pg.conninfo(), "--environment=x")
    assert shown["collisions"] == [] and shown["compared"][0]["registry_duties"] == 3
    shown = answer("key", NAME, pg.conninfo(), "--environment=prod", status=1)
    assert [found["with"] for found in shown["collisions"]] == ["jobs/taken"]
    assert shown["differs"] and "742118" in shown["differs"][0]
    done = pgleader("key", NAME, pg.conninfo(), "--environment=prod")
    assert "collision    duty jobs/taken in the registry of 127.0.0.1" in done.stdout


def test_a_reserved_key_collides(pg):
    """The key that a duty is to move to."""
    pg.sql("select pgleader.register_duty('jobs/moving', lock_key => 900)")
    with pg.connect() as conn:
        conn.execute("select pg_advisory_lock(900)")
        conn.execute("select pgleader.begin_term('jobs/moving', 'a')")
        conn.execute("select pgleader.register_duty('jobs/moving', environment => 'move')")
    shown = answer("key", "jobs/moving", "--environment=move", pg.conninfo())
    assert [(f["with"], f["reserved"]) for f in shown["found"]] == [("jobs/moving", True)]
    pg.sql("select pgleader.complete_key_change('jobs/moving')")
    pg.sql("select pgleader.retire_duty('jobs/moving')")


def test_a_collision_with_the_configuration(pg, tmp_path):
    path = config(tmp_path, pg, f"\n      - {{duty: jobs/other, lock: {KEY}}}", dbname="bare")
    shown = answer("key", NAME, "--environment=prod", "--config", path, status=1)
    assert [(f["server"], f["source"], f["with"]) for f in shown["collisions"]] == [("main", "config", "jobs/other")]
    assert shown["compared"] == [{"server": "main", "ledger": False, "registry_duties": 0, "config_duties": 1}]


def test_a_number_is_named(pg, tmp_path):
    shown = answer("key", "12,-7", pg.conninfo())
    assert [f["with"] for f in shown["found"]] == ["jobs/mail-out"] and not shown["collisions"]
    path = config(tmp_path, pg, "\n      - {duty: jobs/other, lock: [12, -7]}")
    shown = answer("key", "12,-7", "--config", path, status=1)
    assert [f["with"] for f in shown["found"] + shown["collisions"]] == ["jobs/mail-out", "jobs/other"]


def test_a_name_is_looked_up(pg):
    """Without an environment it is whatever is registered."""
    assert answer("key", NAME, pg.conninfo())["key"] == "742118"
    done = pgleader("key", "jobs/nobody", pg.conninfo())
    assert done.returncode == 64 and "neither the registry nor the configuration" in done.stderr


def test_known_keys():
    assert "authentik" in answer("key", "1000")["found"][0]["with"]
    assert "ledger" in answer("key", "1885826148,5")["found"][0]["with"]
    assert answer("key", "1001")["found"] == []


def test_a_server_that_does_not_answer(pg):
    done = pgleader("key", NAME, "--environment=prod", "host=127.0.0.1 port=1 dbname=x")
    assert done.returncode == 69 and KEY in done.stdout and "could not look at" in done.stderr
    done = pgleader("key", NAME, "--environment=prod", pg.conninfo(user="stranger"))
    assert done.returncode == 77 and "permission denied" in done.stderr


def test_help_says_the_statuses():
    done = pgleader("key", "--help")
    assert done.returncode == 0 and all(f"{n} " in done.stdout for n in (0, 1, 64, 69, 77))
