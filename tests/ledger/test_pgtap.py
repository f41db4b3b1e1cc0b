# SPDX-License-Identifier: PostgreSQL
"""Runs the pgTAP files of this folder: what one session sees of the ledger's tables and functions."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pgtap():
    """The newest pgtap script that is installed, as plain SQL, so that every major version can load it."""
    scripts = sorted(p for p in Path("/usr/share/postgresql").glob("*/extension/pgtap--*.sql")
                     if p.name.count("--") == 1)
    assert scripts, "could not find pgtap: run scripts/install-deps --test"
    return "\n".join(line for line in scripts[-1].read_text().splitlines() if not line.startswith("\\"))


@pytest.fixture
def tap(own_ledger):
    conn = own_ledger.connect("postgres")
    conn.execute("create schema if not exists tap; set search_path = tap, public")
    if not conn.execute("select to_regproc('tap.no_plan')").fetchone()[0]:
        conn.execute(pgtap())
    return conn


def lines(cursor):
    """Every line of every result of a script."""
    while True:
        if cursor.description:
            yield from (line for record in cursor for line in str(record[0]).splitlines())
        if not cursor.nextset():
            return


@pytest.mark.parametrize("path", sorted(HERE.glob("*.sql")), ids=lambda path: path.stem)
def test_pgtap(tap, path):
    try:
        output = list(lines(tap.execute(path.read_text())))
    finally:
        tap.execute("rollback")
    passed = [line for line in output if line.startswith("ok ")]
    failed = [line for line in output if line.startswith(("not ok", "#"))]
    assert not failed, "\n".join(failed)
    assert f"1..{len(passed)}" in output, "\n".join(output)
