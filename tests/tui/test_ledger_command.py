# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""pgleader ledger: status, install and sql, in databases of their own."""

import itertools
import os
import pty
import subprocess
import threading

import pytest

from tests.support.cluster import ROOT, Cluster, bindir
from tests.support.command import answer, pgleader
from tests.support.exporter import program
from tests.support.wait import wait_until

FILES = sorted((ROOT / "ledger").glob("[0-9]*.sql"))
ROLES = ROOT / "ledger/roles.sql"
COUNT = itertools.count()


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql("create database first")
        cluster.install_ledger("first")  # the roles are of the whole cluster
        yield cluster


@pytest.fixture
def bare(pg):
    """A database without the ledger."""
    name = f"bare{next(COUNT)}"
    pg.sql(f"create database {name}")
    return name


def install(pg, dbname, *more, user=None, **kw):
    return pgleader("ledger", "install", "--yes", *more, pg.conninfo(dbname, user=user), **kw)


def status(pg, dbname, code=0, user=None):
    server, = answer("ledger", "status", pg.conninfo(dbname, user=user), status=code)["servers"]
    return server


def test_sql_is_the_files():
    """Byte for byte what `cat` of them prints."""
    printed = subprocess.run([program("pgleader"), "ledger", "sql"], capture_output=True, check=True).stdout
    assert printed == b"".join(path.read_bytes() for path in [*FILES, ROLES])


def test_psql_runs_what_sql_prints(pg, bare):
    text = pgleader("ledger", "sql").stdout
    done = subprocess.run([bindir() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", pg.conninfo(bare)], input=text,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert status(pg, bare)["state"] == "current"


def test_install(pg, bare):
    """All of it, at once, and again; each file has its row and its time."""
    absent = status(pg, bare, 1)
    assert (absent["version"], absent["state"], absent["files"]) == (0, "absent", [])
    done = install(pg, bare)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [[p.name, "done"] for p in [*FILES, ROLES]]
    there = status(pg, bare)
    assert (there["version"], there["program_version"], there["missing"]) == (len(FILES), len(FILES), [])
    assert [f["file"] for f in there["files"]] == [p.name for p in FILES]
    assert all(f["installed_by"] == "postgres" and f["installed_at"].endswith("Z") for f in there["files"])
    again = install(pg, bare)
    assert again.returncode == 0 and again.stdout.splitlines()[0].split() == [FILES[0].name, "is", "there"]
    assert status(pg, bare) == there


def test_install_goes_on_from_an_older_one(pg, bare):
    for path in FILES[:4]:
        pg.script(path, bare)
    older = status(pg, bare, 1)
    assert (older["version"], older["state"]) == (4, "older")
    pg.sql("select pgleader.register_duty('jobs/kept', lock_key => 5)", dbname=bare)
    assert install(pg, bare).returncode == 0
    assert status(pg, bare)["registry_duties"] == 1


def test_a_newer_one_is_left_alone(pg, bare):
    """Its roles.sql knows rights that ours would take back."""
    assert install(pg, bare).returncode == 0
    pg.sql("insert into pgleader.schema_version (version, file) values (99, '099_future.sql')", dbname=bare)
    pg.sql("grant delete on pgleader.term to pgleader_candidate", dbname=bare)
    done = install(pg, bare)
    assert done.returncode == 1 and "it has version 99" in done.stderr and done.stdout == ""
    assert pg.sql("select has_table_privilege('pgleader_candidate', 'pgleader.term', 'delete')", dbname=bare) == [(True,)]
    assert status(pg, bare, 1)["state"] == "newer"


def test_a_file_that_fails(pg, bare):
    """What precedes it stays, itself leaves nothing; it is named."""
    pg.script(FILES[0], bare)
    pg.sql("create function pgleader.find_duty(duty text) returns int language sql as 'select 1'", dbname=bare)
    done = install(pg, bare)
    assert done.returncode == 1 and f"could not install {FILES[2].name}: " in done.stderr
    assert done.stdout.splitlines()[-1].split() == [FILES[1].name, "done"]
    assert status(pg, bare, 1)["version"] == 2


def test_without_a_terminal_it_needs_yes(pg, bare):
    done = pgleader("ledger", "install", pg.conninfo(bare), given="y\n")
    assert done.returncode == 64 and "--yes" in done.stderr
    assert status(pg, bare, 1)["version"] == 0


@pytest.mark.parametrize("typed, code, version", [("y\n", 0, len(FILES)), ("n\n", 64, 0), ("\n", 64, 0)])
def test_on_a_terminal_it_asks(pg, bare, typed, code, version):
    """Names the database, and does nothing unless the answer is y."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([program("pgleader"), "ledger", "install", pg.conninfo(bare)], stdin=theirs, stdout=theirs,
                               stderr=theirs)
    os.close(theirs)
    said = []

    def read():
        try:
            while data := os.read(ours, 4096):
                said.append(data.decode())
        except OSError:
            pass
    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: "[y/N]" in "".join(said), "it asks")
    assert f"in 127.0.0.1:{pg.port}/{bare}?" in "".join(said)
    os.write(ours, typed.encode())
    assert process.wait(30) == code
    reader.join()
    os.close(ours)
    assert status(pg, bare, 0 if version else 1)["version"] == version


def test_what_the_installer_may_not_grant(pg, bare):
    """An owner of the database alone: told on standard error, installed all the same, and still in status."""
    pg.sql("create role tenant login")
    pg.sql(f"alter database {bare} owner to tenant")
    done = install(pg, bare, user="tenant")
    assert done.returncode == 0
    assert "warning: could not grant pg_signal_backend to tenant" in done.stderr
    assert "hint: As a user who may: GRANT pg_signal_backend TO tenant;" in done.stderr
    missing = status(pg, bare, 1, user="tenant")["missing"]
    assert {m["what"] for m in missing} >= {"pg_read_all_stats for tenant", "pg_signal_backend for tenant"}
    for m in missing:
        pg.sql(m["remedy"])
    assert status(pg, bare, user="tenant")["missing"] == []


def test_a_right_that_was_taken(pg, bare):
    install(pg, bare)
    pg.sql("revoke usage on schema pgleader from pgleader_candidate", dbname=bare)
    assert [m["what"] for m in status(pg, bare, 1)["missing"]] == ["rights of pgleader_candidate"]
    install(pg, bare)
    assert status(pg, bare)["missing"] == []


def test_a_role_that_is_missing(pg, bare):
    install(pg, bare)
    pg.sql("alter role pgleader_operator rename to renamed")
    try:
        missing, = status(pg, bare, 1)["missing"]
    finally:
        pg.sql("alter role renamed rename to pgleader_operator")
    assert missing["what"] == "role pgleader_operator" and missing["remedy"].startswith("CREATE ROLE pgleader_operator NOLOGIN;")


def test_who_may_not_install(pg, bare):
    pg.sql("create role nobody_special login")
    done = install(pg, bare, user="nobody_special")
    assert done.returncode == 77 and "could not install 001_schema.sql: permission denied" in done.stderr
    assert "hint: Install as a superuser, or as the owner of the database." in done.stderr


def test_who_may_not_look(pg, bare):
    install(pg, bare)
    pg.sql("create role passer_by login")
    done = pgleader("ledger", "status", pg.conninfo(bare, user="passer_by"))
    assert done.returncode == 77 and "permission denied" in done.stderr


def test_drift(pg, bare, tmp_path):
    """Where registry and configuration do not say the same."""
    install(pg, bare)
    for name, what in {"a": "lock_key => 1", "b": "lock_key => 2", "c": "lease_table => 'public.t'"}.items():
        pg.sql(f"select pgleader.register_duty('jobs/{name}', {what})", dbname=bare)
    path = tmp_path / "pgleader.yml"
    path.write_text(f"""
servers:
  - name: main
    conninfo: "{pg.conninfo(bare)}"
    duties:
      - {{duty: jobs/a, lock: 1}}
      - {{duty: jobs/b, lock: 3}}
      - {{duty: jobs/c, lease: {{table: t, row: jobs/c}}}}
      - {{duty: jobs/d, lock: 4}}
""")
    server, = answer("ledger", "status", "--config", path, status=1)["servers"]
    assert {d["duty"]: d["sentence"] for d in server["differs"]} == {
        "jobs/b": "duty jobs/b is key 3 in the configuration, and key 2 in the registry",
        "jobs/d": "duty jobs/d stands in the configuration alone"}
    shown = pgleader("ledger", "status", "--config", path).stdout
    newest = len(FILES)
    assert f"main\n  version   {newest}, this pgleader brings {newest}: current\n" in shown and "  differs   duty jobs/b" in shown


def test_two_servers_need_a_name(pg, bare, tmp_path):
    path = tmp_path / "pgleader.yml"
    path.write_text("servers:\n" + "".join(f"  - {{name: {n}, conninfo: \"{pg.conninfo(bare)}\"}}\n" for n in "ab"))
    done = pgleader("ledger", "install", "--yes", "--config", path)
    assert done.returncode == 64 and "--server" in done.stderr
    assert pgleader("ledger", "install", "--yes", "--config", path, "--server=b").returncode == 0
    assert len(answer("ledger", "status", "--config", path)["servers"]) == 2


def test_no_server():
    for verb in ("status", "install"):
        done = pgleader("ledger", verb, "--yes", "host=127.0.0.1 port=1 dbname=x")
        assert done.returncode == 69 and "could not" in done.stderr, verb


@pytest.mark.parametrize("argv", [[], ["frobnicate"], ["status", "a=b", "c"], ["sql", "dbname=x"], ["status", "--no"]])
def test_usage(argv):
    done = pgleader("ledger", *argv)
    assert done.returncode == 64 and "hint: " in done.stderr and done.stdout == ""
