# SPDX-License-Identifier: PostgreSQL
"""The README's road for one's own database, walked as it is written: the role, the exporter, the ledger, a worker."""

import os
import re
import subprocess

import pytest

from tests.support.cluster import ROOT, Cluster, free_port, hold_lock
from tests.support.exporter import Exporter, program
from tests.support.source import text
from tests.support.terminal import Tmux

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
        pg.sql("create role invoice_worker login; create role oncall login")
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


def test_a_first_look(cluster):
    """The commands of the first step on a terminal: every lock on the live screen, and what the doctor finds."""
    setting, *commands = re.findall(r"^\$ (.*)", block("console", "pgleader doctor"), re.M)
    env = {"PATH": f"{program().parent}:{os.environ['PATH']}", "PGPORT": str(cluster.port), "PS1": "$ "}
    with hold_lock(cluster, 815, "first@host", dbname="app"), Tmux(["bash", "--norc", "--noprofile"], 100, 40, **env) as shell:
        shell.type(setting.replace("db.example.com", "127.0.0.1"))
        shell.keys("Enter")
        assert [command.split("#")[0].strip() for command in commands] == ["pgleader", "pgleader doctor"]
        shell.type(commands[0])
        shell.keys("Enter")
        shell.wait(r"advisory/815 +first@host .* led")
        shell.keys("q")
        shell.wait(r"\n\$\s*$")
        shell.type(commands[1].replace("#", "; echo ended $?. #"))
        shell.keys("Enter")
        assert shell.ended(30) in (0, 1)


def test_what_is_installed(tmp_path):
    """The installation puts three programs where the README says, and each runs."""
    subprocess.run(["cmake", "--install", program().parents[1], "--prefix", tmp_path], check=True, capture_output=True)
    programs = sorted((tmp_path / "bin").iterdir())
    said = re.search(r"three programs in `/usr/local/bin`: (.*?)\.", README)[1]
    assert [path.name for path in programs] == sorted(re.findall(r"`([\w-]+)`", said))
    for path in programs:
        assert subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.startswith(path.name)


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
    "cmake --preset release": "scripts/demo, continuous integration with another preset, and test_what_is_installed",
    "CREATE ROLE pgleader": "test_the_role_is_enough",
    "pgleader doctor": "test_a_first_look",
    "pgleader_exporter \"host=db.example.com": "test_the_role_is_enough, with the cluster's address",
    "cat ledger/": "test_the_ledger_and_a_worker",
    "pg_try_advisory_lock": "test_the_ledger_and_a_worker",
    "PGLEADER_GENERATION": "test_pgleader_run",
    "pgleader yield": "test_picture.py",
    "pgleader status": "test_pgleader_status",
    "--recontend": "test_the_command_lines_of_pgleader_run",
}


def test_every_block_is_run():
    """Each shell or SQL block has its place in the table above, and each row of the table its block."""
    found = [sum(word in body for word in RUN_BY) for body in blocks("console") + blocks("sql")]
    assert found == [1] * len(RUN_BY)
