# SPDX-License-Identifier: PostgreSQL
"""The runbook and the examples' page are true: every block runs, and its numbers are the program's."""

import contextlib
import json
import os
import re
import signal
import subprocess

import psycopg
import pytest

from tests.exercise.faults import FAULTS
from tests.support.candidate import Candidate
from tests.support.cluster import ROOT, Cluster
from tests.support.exporter import program
from tests.support.source import text
from tests.support.wait import wait_until

PAGES = sorted((ROOT / "runbook").glob("*.md"))
EXAMPLES = "../examples/README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SECOND = {"SECOND_US": 1.0}
DUTY = "jobs/invoice-reconcile"


def page(name):
    return text(ROOT / "runbook" / name)


def blocks(name, *languages):
    return [(language, body) for language, body in BLOCK.findall(page(name)) if language in languages]


def commands(body):
    """What follows the prompts of a console block."""
    return re.findall(r"^\$ (.*)$", body.replace("\\\n", " "), re.M)


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql("create database template_app")
        cluster.install_ledger("template_app")
        cluster.sql("create role worker login; grant pgleader_candidate to worker")
        cluster.sql("select pgleader.register_duty(%s, lock_key => 742118)", [DUTY], dbname="template_app")
        yield cluster


@pytest.fixture
def app(pg):
    """A database of its own, and a way to run a command that meets it as the reader's would."""
    name = f"app{len(pg.sql('select 1 from pg_database'))}"
    pg.sql(f"create database {name} template template_app")
    env = {"PATH": f"{program().parent}:{os.environ['PATH']}", "PGHOST": str(pg.base), "PGPORT": str(pg.port),
           "PGUSER": pg.user, "PGDATABASE": name, "HOME": str(pg.base), "PGLEADER_BIN": str(program().parent), "LC_ALL": "C.UTF-8"}

    def run(*argv, given=None):
        return subprocess.run([str(a) for a in argv], cwd=ROOT, env=env, input=given or "", capture_output=True, text=True,
                              timeout=120)
    run.name = name
    return run


@contextlib.contextmanager
def led(pg, database):
    """Two candidates of the duty, of which one leads and the other is ready."""
    door = pg.conninfo(database, user="worker")
    with Candidate(door, "a", DUTY, ["sleep", "300"]), Candidate(door, "b", DUTY, ["sleep", "300"]):
        wait_until(lambda: leader(pg, database), "somebody leads")
        wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name like 'pgleader:%%' and datname = %s offset 1",
                                  (database,)), "the other is ready")
        yield


def leader(pg, database):
    rows = pg.sql("select owner from pgleader.ownership where state = 'led'", dbname=database)
    return rows[0][0] if rows else None


def run_block(app, language, body):
    """Runs one block; its output."""
    if language == "sql":
        done = app("psql", "-X", "-v", "ON_ERROR_STOP=1", "-f", "-", given=body)
        assert done.returncode == 0, f"{body}\n{done.stdout}{done.stderr}"
        return done.stdout
    assert commands(body), f"a console block without a command:\n{body}"
    output = ""
    for command in commands(body):
        done = app("bash", "-c", command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        output += done.stdout
    return output


# The pages whose commands lead by themselves are run without other candidates.
LEADERLESS = {EXAMPLES, "acquisition-backoff.md", "key-registry.md", "leases.md", "rejected-heartbeat.md"}


@pytest.mark.parametrize("name", [path.name for path in PAGES] + [EXAMPLES])
def test_every_block_runs(pg, app, name):
    """The SQL and console blocks of a page, in its order, as they are written."""
    with contextlib.nullcontext() if name in LEADERLESS else led(pg, app.name):
        before = leader(pg, app.name)
        outputs = [(body, run_block(app, language, body)) for language, body in blocks(name, "sql", "console")]
        if name in ("abort-tree.md", "yield.md"):
            wait_until(lambda: leader(pg, app.name) not in (before, None), "the yield that it asks for moves the duty")
    if name == EXAMPLES:
        assert "complete" in outputs[-1][1] and "abandoned" not in outputs[-1][1]
    if name == "rejected-heartbeat.md":
        shown, = [body for _, body in blocks(name, "text")]
        assert answers(outputs[0][1]) == answers(shown), outputs[0][1]


def answers(output):
    """What the row and pg_locks said on each day, without how long."""
    found = [tuple(line.split()[:3]) for line in output.splitlines() if re.match(r"[a-z_]+ +(A|B|nobody) ", line)]
    assert len(found) >= 6, output
    return found


def test_blocks_are_marked():
    """A block is sql, console, text (output) or mermaid: nothing is left out by its name."""
    wrong = [f"{path.name}: {language or 'no language'}" for path in PAGES for language, _ in BLOCK.findall(text(path))
             if language not in ("sql", "console", "text", "mermaid")]
    assert not wrong, wrong


def test_the_index_has_every_page():
    named = set(re.findall(r"^\| \[([a-z-]+\.md)\]", page("README.md"), re.M))
    assert named == {path.name for path in PAGES} - {"README.md"}


def constant(source, name):
    """A constant of the C source in seconds: `SECOND_US / 4`, `15 * SECOND_US`."""
    words = re.search(rf"\b{name} = ([^;]+);", text(ROOT / "candidate" / source))[1]
    assert re.fullmatch(r"[0-9 */]*SECOND_US[0-9 */]*", words), words
    return eval(words, {}, SECOND)  # nothing but a product, as just checked


def test_the_numbers_of_the_backoff():
    """Each row of the table of waits is what candidate/timing.c computes; so are the rest."""
    share = constant("timing.c", "try_share_us")
    rows = re.findall(r"^\| (\d+) \| 0 to ([\d.]+) s \| ([\d.]+) \|$", page("acquisition-backoff.md"), re.M)
    assert len(rows) == 5
    for candidates, ceiling, tries in rows:
        assert float(ceiling) == round(2 * (int(candidates) - 1) * share, 1)
        assert float(tries) == round(1 / share, 1)
    words = page("acquisition-backoff.md")
    wake = constant("timing.c", "wake_share_us")
    assert f"{3 * wake * 1000:.0f} ms with 3 candidates, {5 * wake * 1000:.0f} ms with 5 or more" in words
    assert f"0 to {constant('timing.c', 'reconnect_least_us')} s" in words
    assert f"at most {constant('timing.c', 'reconnect_longest_us'):.0f} s" in words
    assert f"stands back for {constant('lead.c', 'stand_back_us')} s" in words
    assert f"every {constant('lead_session.c', 'count_every_us'):.0f} s" in words
    assert f"again after {constant('lead_session.c', 'standby_pause_us'):.0f} s" in words


def test_the_sum_of_the_abort_tree(app):
    """The page's five numbers are the defaults, and the setting that it names is refused with them."""
    shown = [float(n) for n in re.findall(r"([\d.]+) s\b", re.search(r"^ +1 s .*$", page("abort-tree.md"), re.M)[0])]
    defaults = re.findall(r"\.(\w+)_us = (\d+ \* )?SECOND_US,", text(ROOT / "candidate/timing.c"))
    assert shown == [float(factor.split()[0]) if factor else 1.0 for _, factor in defaults]
    check, answer, kill, slack, holds = shown
    assert check + answer + kill + slack < holds
    assert f"`stop_within` ({check + answer + kill:.0f} s)" in page("abort-tree.md")
    option, = re.findall(r"try `(--kill-after \d+s)`", page("abort-tree.md"))
    done = app(program("pgleader-run"), f"--duty={DUTY}", *option.split(), "--", "true")
    assert done.returncode == 64 and "= 9 s, which is not less than the 8 s" in done.stderr, done.stderr


def test_the_lease_of_the_page():
    """The default duration, and when the work of such a lease is aborted."""
    helped = subprocess.run([program("pgleader-run"), "--help"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"--lease-duration=TIME\n.*Default: 15s\.", helped)
    slack = 1
    assert f"With 15 s and 3 s that is {15 - 3 - slack} s" in page("leases.md")


def test_the_page_has_every_fault():
    """The table of the failover exercise names each fault that it draws, and no other."""
    named = re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| (`.*?) \|", page("failover-exercise.md"), re.M)))
    assert sorted(named) == sorted(FAULTS)


def section(name, heading):
    """What stands below a heading, to the next one."""
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page(name), re.M | re.S)[1]


def words(text_):
    return set(re.findall(r"`([a-z][\w-]*)`", text_))


def test_the_page_of_yields(pg, app):
    """Its guards, its fields, its outcomes and its options are those of the program, all of them."""
    with led(pg, app.name):
        said = json.loads(app(program("pgleader"), "yield", DUTY, "--dry-run", "--json").stdout)
    never, by_name = section("yield.md", "Guards").split("cannot be passed over")
    assert words(never) == {g["code"] for g in said["guards"] if not g["overridable"]}
    assert words(by_name.split("A lease")[0]) == {g["code"] for g in said["guards"] if g["overridable"]}
    fields = re.findall(r"^\| (`.*?) \|", section("yield.md", "The JSON object"), re.M)
    assert {word for row in fields for word in words(row)} == set(said)
    assert set(said["owner"]) <= words(section("yield.md", "The JSON object"))
    names = re.search(r"yield_outcome_names\[.*?\] = \{(.*?)\};", text(ROOT / "observe/snapshot.c"), re.S)[1]
    outcomes = set(re.findall(r"^\| \d+ \| `([\w-]+)`", section("yield.md", "How it ends"), re.M))
    assert outcomes == set(re.findall(r'"([\w-]+)"', names))
    helped = "".join(app(program("pgleader"), command, "--help").stdout for command in ("yield", "top"))
    assert set(re.findall(r"--[a-z][a-z-]+", page("yield.md"))) <= set(re.findall(r"--[a-z][a-z-]+", helped))


def test_a_stale_token_is_refused(app):
    """The function of external-effects.md, as it is written there."""
    body, = [b for _, b in blocks("external-effects.md", "sql")]
    run_block(app, "sql", body)
    done = app("psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", "SELECT check_token('jobs/publish', 60297638256)")
    assert done.returncode != 0 and "token 60297638256 of duty jobs/publish is stale" in done.stderr


def test_a_forgotten_candidate_of_the_old_key(pg, app):
    """As key-registry.md says: after the change of a key a candidate with --lock is refused its term, and ends with status 64."""
    def sql(query):
        return pg.sql(query, dbname=app.name)
    sql("select pgleader.register_duty('jobs/mail-out', lock_key => 814)")
    with pg.connect(app.name) as holder:
        holder.execute("select pg_advisory_lock(814)")
        holder.execute("select pgleader.begin_term('jobs/mail-out', 'by hand')")
        with Candidate(pg.conninfo(app.name), "forgotten", "jobs/mail-out", ["true"], ("--lock=814",)) as run:
            wait_until(lambda: sql("select 1 from pg_stat_activity where query like '%pg_try_advisory_lock%' and state = 'idle'"),
                       "it has tried")
            run.signal(signal.SIGSTOP)
            sql("select pgleader.register_duty('jobs/mail-out', lock_key => 815)")
            with pytest.raises(psycopg.errors.ObjectInUse):
                sql("select pgleader.complete_key_change('jobs/mail-out')")
            holder.close()
            sql("select pgleader.complete_key_change('jobs/mail-out')")
            run.signal(signal.SIGCONT)
            assert run.wait() == 64, run.log()
            assert "PL002" in run.log()
