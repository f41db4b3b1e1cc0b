# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Odd names, wherever the server may tell them: every answer stays well formed, and says what it can."""

import subprocess
from contextlib import contextmanager

import pytest
from psycopg import pq

from tests.support.cluster import Cluster
from tests.support.exporter import OPENMETRICS, Exporter
from tests.support.openmetrics import check_openmetrics, check_text
from tests.support.scene import SEED_LEASE, config, holding, lease_duty, lock_duty, server

FFFD = "\ufffd"
TEXTS = {
    "quotes": 'a "quoted" \'name\'',
    "backslashes": "C:\\temp\\n\\",
    "newlines": "one\ntwo\r\nthree\n",
    "controls": "\x01\t\x1b[31mred\x7f",
    "braces": '{duty="x"} 1 # {"a","b"}',
    "markup": "<script>alert(1)</script>&amp;",
    "unicode": "Zürich 漢字 🦀 \u202e\u2028",
    "empty": "",
    "blank": "  ",
    "long": "ab\"\\\n" * 2048,  # 10 kB
}
BYTES = {  # as SQL_ASCII holds them, and as they are told
    "invalid": (b"bad \xff\xfe end", f"bad {FFFD}{FFFD} end"),
    "cut": (b"half a crab \xf0\x9f\xa6", "half a crab " + FFFD * 3),
    "latin": (b"Z\xfcrich", f"Z{FFFD}rich"),
    "overlong": (b"\xc0\xaf\xed\xa0\x80", FFFD * 5),
}
ROLE = b'r\xf6le "x"\n'
ODD_TABLE = '"odd \\ ""schema""\nx"."lease \'table\'"'
ODD_DATABASE = 'odd "db"\\\n\'x\''


def quoted(text):
    return b"'" + text.replace(b"'", b"''") + b"'"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.install_ledger()
        pg.sql(SEED_LEASE.format(table="public.leader_lease"))
        pg.sql('create schema "odd \\ ""schema""\nx"')
        pg.sql(f"create table {ODD_TABLE} (like public.leader_lease)")
        pg.sql("create database ascii encoding 'SQL_ASCII' template template0")
        with pg.connect("ascii", client_encoding="SQL_ASCII") as conn:
            conn.execute(SEED_LEASE.format(table="public.leader_lease"))
            conn.execute(b'create role "' + ROLE.replace(b'"', b'""') + b'" superuser login')
            for row, (text, _) in BYTES.items():
                conn.execute(b"insert into public.leader_lease values (" + quoted(row.encode()) + b", " + quoted(text) +
                             b", now() + interval '1 hour')")
        pg.sql('create database "' + ODD_DATABASE.replace('"', '""') + '"')
        yield pg


@pytest.fixture(scope="module")
def exporter(cluster):
    leases = [lease_duty(f"names/{n}", "public.leader_lease", text or "-") for n, text in enumerate(TEXTS.values())]
    leases += [lease_duty("names/table", ODD_TABLE, TEXTS["braces"]), lock_duty("names/lock", 1, team=TEXTS["unicode"])]
    text = config(
        server(cluster, 'main "one" \\ <b>', duties=leases),
        server(cluster, "ascii", "ascii", duties=[lease_duty(f"bytes/{row}", "public.leader_lease", row) for row in BYTES] + [lock_duty("bytes/lock", 2)]),
        server(cluster, "odd", ODD_DATABASE), after="0")
    with Exporter(config=text) as e:
        e.wait_for(lambda s: s.find("up") == [1, 1, 1], "every server is up")
        yield e


def well_formed(exporter):
    """Both formats pass the strict checkers, plain and compressed; the page is there."""
    for accept, check in ((OPENMETRICS, check_openmetrics), ("text/plain", check_text)):
        for encoding in ("identity", "gzip"):
            status, _, body = exporter.get("/metrics", headers={"Accept": accept, "Accept-Encoding": encoding})
            assert status == 200 and check(body) == []
    status, _, page = exporter.get("/")
    assert status == 200
    page.decode("utf-8")
    assert b"<script>alert" not in page and b"\\ <b>" not in page and b"\\ &lt;b&gt;" in page
    done = subprocess.run(["promtool", "check", "metrics"], input=exporter.get("/metrics", headers={"Accept": "text/plain"})[2],
                          capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_lease_keys_and_holders(cluster, exporter):
    """Every text is a key that the query finds, and a holder."""
    for n, text in enumerate(TEXTS.values()):
        cluster.sql("insert into public.leader_lease values (%s, %s, now() + interval '1 hour')", (text or "-", text))
    samples = exporter.wait_for(lambda s: s.find("leader_held", server='main "one" \\ <b>').count(1) == len(TEXTS), "every lease is held")
    for n, text in enumerate(TEXTS.values()):
        assert samples.labels("owner_info", duty=f"names/{n}")["holder"] == text
    assert samples.labels("duty_info", duty="names/9")["key"] == "public.leader_lease:" + TEXTS["long"]
    well_formed(exporter)


def test_a_table_s_name(cluster, exporter):
    cluster.sql(f"insert into {ODD_TABLE} values (%s, 'x', now() + interval '1 hour')", (TEXTS["braces"],))
    samples = exporter.wait_for(lambda s: s.one("leader_held", duty="names/table") == 1, "the lease of the odd table is held")
    assert samples.one("section_up", section=f"lease:{ODD_TABLE}") == 1
    assert samples.labels("duty_info", duty="names/table")["key"] == f"{ODD_TABLE}:{TEXTS['braces']}"
    cluster.sql(f"drop table {ODD_TABLE}")
    exporter.wait_for(lambda s: s.one("section_up", section=f"lease:{ODD_TABLE}") == 0, "it is gone")
    assert all(line.startswith("ts=") for line in exporter.log().split("\n")[:-1]), "a log line is a line"
    well_formed(exporter)


def test_bytes_that_are_no_text(exporter):
    samples = exporter.wait_for(lambda s: s.find("leader_held", server="ascii").count(1) == len(BYTES), "every lease is held")
    for row, (_, told) in BYTES.items():
        assert samples.labels("owner_info", duty=f"bytes/{row}")["holder"] == told
    well_formed(exporter)


@contextmanager
def odd_role_holds(cluster, dbname, key):
    """A session of the odd role, below psycopg: its name is no text."""
    words = f"host='127.0.0.1' port={cluster.port} dbname='{dbname}' application_name='worker' user='".encode() + ROLE + b"'"
    conn = pq.PGconn.connect(words)
    assert conn.status == pq.ConnStatus.OK, conn.error_message
    assert conn.exec_(f"select pg_advisory_lock({key})".encode()).status == pq.ExecStatus.TUPLES_OK
    try:
        yield
    finally:
        conn.finish()


@pytest.mark.parametrize("dbname, duty, key", [("postgres", "names/lock", 1), ("ascii", "bytes/lock", 2)])
def test_a_role_s_name(cluster, exporter, dbname, duty, key):
    with odd_role_holds(cluster, dbname, key):
        told = ROLE.decode("utf-8", "replace")
        exporter.wait_for(lambda s: (s.labels("owner_info", duty=duty) or {}).get("usename") == told, "the role leads")
        well_formed(exporter)


def test_applications_teams_and_databases(cluster, exporter):
    """The server makes an application_name printable ASCII; quotes and backslashes stay."""
    name = TEXTS["quotes"] + " \\n\\"
    with holding(cluster, 1, name + "\n\u00fc"):
        samples = exporter.wait_for(lambda s: s.one("leader_held", duty="names/lock") == 1, "led")
        assert samples.labels("owner_info", duty="names/lock")["holder"] == name + "???"
        assert samples.labels("duty_info", duty="names/lock")["team"] == TEXTS["unicode"]
        assert samples.labels("server_info", server="odd")["database"] == ODD_DATABASE
        well_formed(exporter)


def test_what_the_ledger_holds(cluster, exporter):
    """Team, instance, run key, cursor and reason are free text."""
    cluster.sql("select pgleader.register_duty('names/ledger', lock_key => 3, team => %s)", (TEXTS["markup"],))
    with holding(cluster, 3) as conn:
        generation = conn.execute("select pgleader.begin_term('names/ledger', %s)", (TEXTS["newlines"],)).fetchone()[0]
        conn.execute("select pgleader.claim_run('names/ledger', %s, %s, '1 hour')", (TEXTS["braces"], generation))
        conn.execute("select pgleader.advance_run('names/ledger', %s, %s, %s)", (TEXTS["braces"], generation, TEXTS["quotes"] * 100))
        samples = exporter.wait_for(lambda s: s.one("run_active", duty="names/ledger") == 1, "it runs")
        assert samples.one("generation", duty="names/ledger") == generation
        assert samples.labels("duty_info", duty="names/ledger")["team"] == TEXTS["markup"]
        well_formed(exporter)
