# SPDX-License-Identifier: PostgreSQL
"""The README's road for one's own database, walked as it is written: the role, the exporter, the ledger, a worker."""

import os
import re
import subprocess

import pytest

from tests.support.cluster import ROOT, Cluster, free_port, hold_lock
from tests.support.exporter import Exporter, program
from tests.support.source import text

README = text(ROOT / "README.md")
GENERATION = "60297638257"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def block(language, word):
    """The one block of that language that contains the word."""
    found, = (b for b in blocks(language) if word in b)
    return found


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.sql("create database app")
        pg.sql("create role invoice_worker login")
        pg.sql(block("sql", "CREATE ROLE pgleader"), dbname="app")
        yield pg


def shell(cluster, command):
    """Runs a command as in the README, with libpq pointed at the cluster. What it printed."""
    env = {**os.environ, "PATH": f"{program().parent}:{os.environ['PATH']}", "PGHOST": str(cluster.base), "PGPORT": str(cluster.port), "PGUSER": cluster.user}
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_role_is_enough(cluster):
    """The README's grant makes the exporter privileged, with nothing installed."""
    with Exporter(conninfo=cluster.conninfo("app", user="pgleader")) as exporter:
        samples = exporter.wait_for(lambda s: s.one("up") == 1, "the server is up")
        assert samples.one("privileged") == 1
        assert samples.one("ledger_version") == 0


def test_the_ledger_and_a_worker(cluster):
    """The installation lines run; then the worker's statements, in the session that holds the lock."""
    for line in re.findall(r"^\$ (.*)", block("console", "cat ledger/").replace("\\\n", " "), re.M):
        shell(cluster, line)
    statements = [line.split("--")[0].strip() for line in block("sql", "pg_try_advisory_lock").strip().splitlines()]
    with cluster.connect("app", user="invoice_worker") as conn:
        generation = GENERATION
        for statement in statements:
            row = conn.execute(statement.replace(GENERATION, generation)).fetchone()
            if "begin_term" in statement:
                generation = str(row[0])
    assert generation != GENERATION
    assert cluster.sql("select status, receipt from pgleader.run", dbname="app") == [("complete", {"invoices": 200})]
    with Exporter(conninfo=cluster.conninfo("app", user="pgleader")) as exporter:
        exporter.wait_for(lambda s: s.one("last_run_cursor", duty="jobs/invoice-reconcile") == 40, "the run is seen")


def test_pgleader_run(cluster):
    """The command of the fourth step leads by the key of the registry, under a generation of the ledger."""
    line, = re.findall(r"^\$ (.*)", block("console", "PGLEADER_GENERATION"), re.M)
    said = shell(cluster, line)
    generation, = cluster.sql("select generation from pgleader.term order by acquired_at desc limit 1", dbname="app")[0]
    assert said == f"I lead: generation {generation}\n"


def test_pgleader_status(cluster, tmp_path):
    """The excerpt's command, columns and states are the program's."""
    excerpt = block("console", "pgleader status")
    line, = re.findall(r"^\$ (.*)", excerpt, re.M)
    config = tmp_path / "pgleader.yml"
    config.write_text(f"""servers:
  - name: prod-us
    conninfo: "{cluster.conninfo('app')}"
    duties:
      - {{duty: jobs/led, lock: 815}}
      - {{duty: jobs/vacant, lock: 816}}
""")
    tmp_path.chmod(0o777)
    with hold_lock(cluster, 815, dbname="app"):
        done = subprocess.run([program("pgleader"), *line.replace("pgleader.yml", str(config)).split()[1:]],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    said, shown = done.stdout.splitlines(), excerpt.splitlines()[1:]
    assert said[0].split(",")[0] == shown[0].split(",")[0] == "server prod-us: up"
    assert set(said[2].split()) <= set(shown[2].split())
    assert {row.split()[0] for row in said[3:]} >= {"led", "vacant"}


def test_the_command_lines_of_pgleader_run(cluster):
    """Those of its own section are accepted, and lead, with this cluster, a free port and a worker that exists."""
    cluster.sql("create table leader_lease (job_name text primary key, holder text not null, expires_at timestamptz not null)",
                dbname="app")
    lines = re.findall(r"^\$ (.*) -- \./.*", block("console", "--recontend"), re.M)
    assert len(lines) == 2
    for line in lines:
        line = re.sub(r"host=db dbname=app|service=app", "dbname=app", line).replace(":8080", f":{free_port()}")
        assert shell(cluster, f"{line} -- echo leads") == "leads\n"


# A word of each block that is to be run, and what runs it.
RUN_BY = {
    "$ ./scripts/demo\n": "test_demo.py",
    "$ ./scripts/test\n": "continuous integration",
    "cmake --preset release": "scripts/demo, and continuous integration with another preset",
    "CREATE ROLE pgleader": "test_the_role_is_enough",
    "pgleader_exporter \"host=db.example.com": "test_the_role_is_enough, with the cluster's address",
    "cat ledger/": "test_the_ledger_and_a_worker",
    "pg_try_advisory_lock": "test_the_ledger_and_a_worker",
    "PGLEADER_GENERATION": "test_pgleader_run",
    "pgleader status": "test_pgleader_status",
    "--recontend": "test_the_command_lines_of_pgleader_run",
}


def test_every_block_is_run():
    """Each shell or SQL block has its place in the table above, and each row of the table its block."""
    found = [sum(word in body for word in RUN_BY) for body in blocks("console") + blocks("sql")]
    assert found == [1] * len(RUN_BY)
