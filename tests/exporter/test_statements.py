# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""What the exporter sends, by the server's own log: read-only transactions with both timeouts, and nothing else."""

import re

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.faults import KEY, backend, config, led, server

ENTRY = re.compile(r"^(\S+ \S+ \S+) \[(\d+)\] (\S*) (LOG|DETAIL|ERROR|FATAL|STATEMENT|HINT|CONTEXT|WARNING):  ?(.*)", re.S)
SETTINGS = {"log_statement": "all", "log_min_error_statement": "error", "log_temp_files": 0, "log_disconnections": "on",
            "log_min_duration_statement": -1}
LEASE = """create table leader_lease (job_name text primary key, holder text, expires_at timestamptz);
           insert into leader_lease values ('nightly', 'me', clock_timestamp() + interval '1 hour')"""
DUTIES = [{"duty": "jobs/bad-days", "lock": KEY, "progress": {"table": "public.state", "column": "last_id"}},
          {"duty": "reports/nightly", "lease": {"table": "public.leader_lease", "row": "nightly"}},
          {"duty": "reports/broken", "lease": {"table": "public.no_such_table", "row": "x"}}]


@pytest.fixture(scope="module")
def log():
    """The exporter's entries in the server's log: [(level, text)], after a few polls, one failing section among them."""
    with Cluster(settings=SETTINGS) as pg:
        pg.install_ledger()
        pg.sql("select pgleader.register_duty('jobs/noted', lock_key => 2)")
        pg.sql(LEASE)
        pg.sql("create table state (last_id bigint); insert into state values (7)")
        with hold_lock(pg, KEY), Exporter(config=config(server(pg.conninfo(), duties=DUTIES))) as e:
            s = e.wait_for(lambda s: led(s) and s.one("section_up", section="roles") == 1, "everything is read")
            polled = s.one("last_success_timestamp_seconds")
            e.wait_for(lambda s: s.one("last_success_timestamp_seconds") > polled + 3, "polls go on")
            pid = backend(pg)
            left = pg.sql("select count(*), count(*) filter (where granted) from pg_locks where pid = %s", (pid,))
            assert left == [(0, 0)], "idle, the session holds no lock"
            assert pg.sql("select state, backend_xmin is null from pg_stat_activity where pid = %s", (pid,)) == [("idle", True)]
        yield entries(pg.log_text())


def entries(text):
    found = [ENTRY.match(part) for part in re.split(r"\n(?=\d{4}-\d\d-\d\d )", text)]
    return [(m[4], m[5].rstrip("\n")) for m in found if m and m[3] == "pgleader_exporter"]


def statements(log):
    """[(statement, parameters)] in order; a prepared statement's name is left out."""
    sent = []
    for level, text in log:
        if level == "LOG" and text.startswith(("execute ", "statement: ")):
            sent.append([text.split(": ", 1)[1], ""])
        elif level == "DETAIL" and text.startswith("parameters: "):
            sent[-1][1] = text
        elif level == "STATEMENT" and sent[-1][0] != text:
            sent.append([text, ""])  # what failed before it was executed
    return [tuple(s) for s in sent]


def transactions(sent):
    """Splits at each BEGIN."""
    starts = [i for i, (text, _) in enumerate(sent) if text.startswith("BEGIN")]
    assert starts[0] == 0, f"before the first transaction: {sent[:starts[0]]}"
    return [sent[a:b] for a, b in zip(starts, starts[1:] + [len(sent)])]


def test_every_statement_is_fenced(log):
    """Read-only, then the limits, local to the transaction, then one query, the clock, and the end."""
    done = transactions(statements(log))[:-1]
    assert len(done) > 30
    for transaction in done:
        texts = [text for text, _ in transaction]
        assert texts[0] == "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY" and texts[-1] == "COMMIT", transaction
        limits, parameters = transaction[1]
        for name in ("lock_timeout", "statement_timeout"):
            assert re.search(rf"set_config\('{name}', \$\d, true\)", limits), limits
        values = [int(v) for v in re.findall(r"\$\d+ = '(\d+)'", parameters)]
        assert len(values) == 2 and 0 < values[0] <= 1000 and 0 < values[1] <= 5000, parameters
        query = texts[2]
        assert re.match(r"SELECT\b", query), query
        assert texts[3:-1] in (["SELECT pg_catalog.clock_timestamp() AS clock"], []), transaction
        if not texts[3:-1]:
            assert "no_such_table" in query, f"only what fails has no second clock: {query}"


FORBIDDEN = [
    r"\bset\s+(?!.*set_config)", r"\b(insert|update|delete|merge|truncate|copy|call|do|lock|listen|notify|unlisten)\b",
    r"\b(create|alter|drop|grant|revoke|vacuum|analyze|reset|discard|prepare|deallocate|declare)\b",
    r"\bfor\s+(update|share|no key|key)\b", r"\bpg_(try_)?advisory", r"\bpg_(terminate|cancel)_backend\b",
    r"\bset_config\([^)]*,\s*false\)", r"\bnextval\b", r"\btxid_current\b", r"\bpg_stat_activity\b",
]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_nothing_else_is_sent(log, pattern):
    for text, _ in statements(log):
        plain = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)
        assert not re.search(pattern, plain, re.I), text


def test_names_are_qualified(log):
    """With an empty search path, whatever a table or a function of the user's is called, it is never ours."""
    for text, _ in statements(log):
        for name in re.findall(r"\b([a-z_.]+)\(", text):
            bare = ("any", "coalesce", "exists", "in", "values", "as", "and", "where", "on", "filter")
            assert name in bare or name.startswith("pg_catalog."), f"{name}() in {text}"


def test_the_log_is_quiet(log):
    """One error for the table that there is not, as its section; no temporary file, no warning."""
    wrong = [(level, text) for level, text in log if level in ("ERROR", "FATAL", "WARNING")]
    assert wrong and all('"public.no_such_table" does not exist' in text for _, text in wrong)
    assert len(wrong) <= 4, "a section that keeps failing is asked less often"
    assert not [text for _, text in log if "temporary file" in text]
