# SPDX-License-Identifier: PostgreSQL
"""The page of each alert: its parts, its links, and every block of it run as written against the running demo."""

import os
import re
import signal
import subprocess

import pytest

from scripts.demo_stage import DUTY, SERVICES, Demo
from tests.support.cluster import ROOT
from tests.support.exporter import program
from tests.support.source import text
from tests.support.wait import wait_until

FOLDER = ROOT / "runbook/alerts"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md"))
PARTS = ["Meaning", "Impact", "Diagnosis", "Verify with SQL", "Mitigation", "When it is a false alarm", "Is it safe to yield"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
FINDS = re.compile(r"pgleader (doctor|status)\b")  # 1 is an answer: something needs attention
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(scope="module")
def demo():
    before = {number: signal.getsignal(number) for number in HANDLED}
    stage = Demo(program("pgleader_exporter"))
    try:
        stage.start_duties()
        stage.start_service(next(s for s in SERVICES if s.name == "exporter"))
        yield stage
    finally:
        stage.close()
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def shell(demo):
    """Runs a program as the person on call would, who has set PG* and PGLEADER_CONFIG."""
    env = {"PATH": f"{program('pgleader').parent}:{os.environ['PATH']}", "HOME": str(demo.folder), "LC_ALL": "C.UTF-8",
           "PGHOST": str(demo.pg.base), "PGPORT": str(demo.pg.port), "PGUSER": "oncall", "PGDATABASE": "postgres",
           "PGLEADER_CONFIG": str(demo.operator_config), "EXPORTER": demo.address("exporter")}

    def run(*argv, given=""):
        return subprocess.run(argv, cwd=ROOT, env=env, input=given, capture_output=True, text=True, timeout=60)
    wait_until(lambda: demo.pg.sql("select owner from pgleader.ownership where duty = %s and state = 'led'", [DUTY]) and
               demo.pg.sql("select count(*) from leader_lease where expires_at > clock_timestamp()")[0][0],
               "both duties are led", 60)
    return run


def run_block(shell, language, body):
    if language == "sql":
        done = shell("psql", "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", given=body)
        assert done.returncode == 0, f"{body}\n{done.stdout}{done.stderr}"
        return
    found = re.findall(r"^\$ (.*)$", body.replace("\\\n", " "), re.M)
    assert language == "console" and found, f"a block that nobody can run:\n{body}"
    for command in found:
        done = shell("bash", "-o", "pipefail", "-c", command)
        assert done.returncode in ((0, 1) if FINDS.match(command) else (0,)), f"{command}\n{done.stdout}{done.stderr}"
        assert done.stdout.strip(), f"{command} says nothing"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_runs(shell, name):
    for language, body in BLOCK.findall(text(FOLDER / f"{name}.md")):
        run_block(shell, language, body)


@pytest.mark.parametrize("name", PAGES)
def test_parts(name):
    """The same parts in the same order, so that a hand finds its way at night; and something to run."""
    words = text(FOLDER / f"{name}.md")
    assert re.findall(r"^# (.*)$", words, re.M) == [name]
    assert re.findall(r"^## (.*)$", words, re.M) == PARTS
    assert "```sql" in words
    for link in re.findall(r"\]\(([^)#]+)\)", words):
        assert (FOLDER / link).exists(), link


def test_the_entry_names_every_page():
    """runbook/README.md leads from the symptom to each of them."""
    assert set(re.findall(r"\(alerts/(\w+)\.md\)", text(ROOT / "runbook/README.md"))) == set(PAGES)
