# SPDX-License-Identifier: PostgreSQL
"""The worked examples do what their pages say: each item once, resumed, fenced, stopped at once; late calls refused."""

import hashlib
import http.client
import os
import re
import signal
import subprocess

import pytest

from tests.support.candidate import Candidate
from tests.support.cluster import ROOT, Cluster, free_port
from tests.support.proxy import Proxy
from tests.support.wait import wait_until

EXAMPLES = {"python": ROOT / "examples/python/reconcile.py", "shell": ROOT / "examples/shell/reconcile"}
DUTY = "jobs/invoice-reconcile"
BATCHES, INVOICES = 2, 60
HOSTILE = "batch-1'; DROP TABLE invoice; --"


class Application:
    """A database with the ledger, the duty and the invoices, and a worker's role with no more rights than it needs."""

    def __init__(self, pg, name):
        self.pg, self.name = pg, name
        pg.sql(f"create database {name} template application")

    def sql(self, query, params=None):
        return self.pg.sql(query, params, dbname=self.name)

    def conninfo(self):
        return self.pg.conninfo(self.name, user="invoice_worker")

    def candidate(self, name, example, *arguments, duty=DUTY, options=("--recontend",)):
        return Candidate(self.conninfo(), name, duty, [str(example), self.conninfo(), *arguments], options)

    def lead(self, duty=DUTY, key=742118):
        """A session that leads as no kit would, and its generation. Closed: the lock is free, the term is not ended."""
        conn = self.pg.connect(self.name)
        conn.execute("select pg_advisory_lock(%s)", [key])
        return conn, conn.execute("select pgleader.begin_term(%s, 'by hand', stop_within => '0')", [duty]).fetchone()[0]

    def claim(self, run_key, generation, upto):
        """A run of that generation with its first invoices done, as a leader that dies leaves it."""
        self.sql("select pgleader.claim_run(%s, %s, %s, '1 hour')", [DUTY, run_key, generation])
        self.sql("select pgleader.advance_run(%s, %s, %s, %s, %s, %s)",
                 [DUTY, run_key, generation, f"invoice {upto}", upto, INVOICES])
        self.sql("insert into reconciliation select batch, number, %s from invoice "
                 "where 'batch-' || batch = %s and number <= %s", [generation, run_key, upto])

    def position(self):
        return (self.sql("select position from pgleader.current_run where duty = %s", [DUTY]) or [(None,)])[0][0]

    def owner(self):
        rows = self.sql("select owner_pid, generation from pgleader.ownership where duty = %s and state = 'led'", [DUTY])
        return rows[0] if rows else None

    def runs(self):
        return dict(self.sql("select run_key, status from pgleader.run"))

    def generations(self):
        """Who reconciled; fails unless each invoice of the open batches was reconciled once."""
        assert self.sql("select count(*), count(distinct (batch, number)) from reconciliation") \
            == self.sql("select count(*), count(*) from invoice"), "skipped or repeated invoices"
        return {g for g, in self.sql("select distinct generation from reconciliation")}


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql("create database application")
        cluster.install_ledger("application")
        cluster.script(ROOT / "examples/invoices.sql", "application")
        cluster.sql("create role invoice_worker login in role pgleader_candidate")
        for statement in (
            "grant select, update on invoice_batch to invoice_worker",
            "grant select on invoice to invoice_worker",
            "grant insert on reconciliation to invoice_worker",
            "create table price (item int primary key, value numeric)",
            "grant select on price to invoice_worker",
            "select pgleader.register_duty('jobs/invoice-reconcile', lock_key => 742118)",
            "select pgleader.register_duty('jobs/publish', lock_key => 742119)",
            f"insert into invoice_batch select generate_series(1, {BATCHES})",
            f"insert into invoice select batch, generate_series(1, {INVOICES}) from invoice_batch",
        ):
            cluster.sql(statement, dbname="application")
        yield cluster


@pytest.fixture
def application(pg, request):
    return Application(pg, "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:20])


@pytest.fixture(params=EXAMPLES)
def example(request):
    return EXAMPLES[request.param]


def run_by_hand(application, example, generation):
    env = {"PATH": os.environ["PATH"], "PGLEADER_DUTY": DUTY, "PGLEADER_GENERATION": str(generation)}
    return subprocess.run([str(example), application.conninfo()], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=30)


def test_every_invoice_once(application, example):
    """Three candidates, two leaders lost in the middle of a run: the next goes on at the cursor."""
    runs = [application.candidate(name, example, "0.05") for name in "abc"]
    seen = []
    try:
        for run in runs:
            run.__enter__()
        for least in (10, 30):
            wait_until(lambda: (application.position() or 0) >= least, f"the cursor is at {least}")
            pid, generation = wait_until(application.owner, "somebody leads")
            seen.append(generation)
            assert application.sql("select pg_terminate_backend(%s)", [pid]) == [(True,)]
            wait_until(lambda: (application.owner() or (0, 0))[1] > generation, "another leads")
        assert [run.wait(60) for run in runs] == [0, 0, 0], "\n".join(run.log() for run in runs)
    finally:
        for run in runs:
            run.__exit__()
    assert application.generations() > set(seen)
    assert application.runs() == {"batch-1": "complete", "batch-2": "complete"}
    assert application.sql("select distinct receipt from pgleader.run") == [({"invoices": INVOICES},)]
    assert sum(run.log().count("resumed at") for run in runs) >= 2
    for term in "".join(run.log() for run in runs).split("rule=granted"):
        claims = re.findall(r"^(batch-\d): ", term, re.M)
        assert len(claims) == len(set(claims)), f"a run claimed twice in one term:\n{term}"


def test_stale(application, example):
    """Called with the generation of a past leader, it changes nothing and says so."""
    first, old = application.lead()
    application.claim("batch-1", old, 20)
    first.close()
    second, _ = application.lead()
    done = run_by_hand(application, example, old)
    second.close()
    assert done.returncode == 76 and "stale" in done.stderr, done.stderr
    assert application.position() == 20
    assert application.sql("select count(*) from reconciliation") == [(20,)]


def test_overtaken_in_the_middle(application, example):
    """Not only at its start: the step during which another has begun a term changes nothing."""
    first, old = application.lead()
    env = {"PATH": os.environ["PATH"], "PGLEADER_DUTY": DUTY, "PGLEADER_GENERATION": str(old)}
    with subprocess.Popen([str(example), application.conninfo(), "0.05"], env=env, stdin=subprocess.DEVNULL) as worker:
        wait_until(lambda: (application.position() or 0) >= 10, "the cursor moves")
        first.close()
        second, _ = application.lead()
        at = application.position()
        assert worker.wait(10) == 76
    second.close()
    assert application.position() == at
    assert application.sql("select count(*) from reconciliation") == [(at,)]


def test_sigterm_cancels_the_query(application, example):
    """It ends at once, although its query waits for a lock, and the query does not go on behind its back."""
    busy = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' " \
           "and query ilike 'insert into reconciliation%%'"
    with application.pg.connect(application.name) as blocker, blocker.transaction():
        blocker.execute("lock table reconciliation")
        with application.candidate("a", example) as run:
            wait_until(lambda: application.sql(busy), "the worker's query waits")
            run.signal(signal.SIGTERM)
            wait_until(lambda: not application.sql(busy), "the query is gone", 5)
            assert run.wait(10) == 143, run.log()
    assert application.position() is None and application.runs() == {"batch-1": "running"}
    assert application.sql("select end_reason from pgleader.current_term") == [("signal",)]


@pytest.mark.parametrize("run_key", ["batch-1", HOSTILE])
def test_a_withdrawn_batch_is_abandoned(application, example, run_key):
    """The partial run of a batch that is not open any more is marked so; the others go on."""
    first, generation = application.lead()
    application.claim(run_key, generation, INVOICES)
    application.sql("update invoice_batch set closed = true where batch = 1")
    first.close()
    with application.candidate("a", example) as run:
        assert run.wait() == 0, run.log()
    assert application.runs() == {run_key: "abandoned", "batch-2": "complete"}
    assert application.sql("select receipt from pgleader.run where run_key = %s", [run_key]) \
        == [({"why": "the batch was withdrawn"},)]
    assert application.sql("select count(*) from reconciliation where batch = 2") == [(INVOICES,)]


class Shop:
    """The target of examples/fencing; `address` is where a worker sends to."""

    def __init__(self, folder, *mode):
        self.port = free_port()
        self.log = folder / "shop.log"
        self.log = folder / "shop.log"
        self.argv = [str(ROOT / "examples/fencing/target.py"), str(self.port), str(folder / "shop.db"), *mode]

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: self.price(0) is None, "the shop answers")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def price(self, item):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", f"/prices/{item}")
        answer = connection.getresponse()
        text = answer.read().decode()
        return text if answer.status == 200 else None


    def answers(self):
        """The status of each PUT so far."""
        return re.findall(r'"PUT .*" (\d+)', self.log.read_text())


def unread_bytes(port):
    """What has come to a port of this machine and nobody has read."""
    listing = subprocess.run(["ss", "-Htn", "state", "established", f"sport = :{port}"], capture_output=True, text=True,
                             check=True)
    return sum(int(line.split()[0]) for line in listing.stdout.splitlines())


    def answers(self):
        """The status of each PUT so far."""
        return re.findall(r'"PUT .*" (\d+)', self.log.read_text())


def unread_bytes(port):
    """What has come to a port of this machine and nobody has read."""
    listing = subprocess.run(["ss", "-Htn", "state", "established", f"sport = :{port}"], capture_output=True, text=True,
                             check=True)
    return sum(int(line.split()[0]) for line in listing.stdout.splitlines())


@pytest.mark.parametrize("mode, shown", [([], "12"), (["--unchecked"], "10")])
def test_a_late_call_of_the_old_leader(application, tmp_path, mode, shown):
    """The old leader ends while its call is under way, and the call arrives after its successor's: refused, or it wins."""
    worker = ROOT / "examples/fencing/publish.py"
    application.sql("insert into price values (1, 10)")
    with Shop(tmp_path, *mode) as shop, Proxy(shop.port) as road:
        road.drop()  # what is sent does not arrive yet
        with application.candidate("old", worker, f"127.0.0.1:{road.port}", duty="jobs/publish", options=()) as run:
            wait_until(lambda: unread_bytes(road.port) > 0, "the call has left the worker")
            run.signal(signal.SIGTERM)
            run.wait()
        application.sql("update price set value = 12")
        with application.candidate("new", worker, f"127.0.0.1:{shop.port}", duty="jobs/publish", options=()) as run:
            assert run.wait() == 0, run.log()
        assert (shop.price(1), shop.answers()) == ("12", ["200"])
        road.pass_on()
        wait_until(lambda: len(shop.answers()) == 2, "the late call has arrived")
        assert (shop.price(1), shop.answers()[1]) == (shown, "200" if mode else "409")


def test_a_stale_publisher_stops(application, tmp_path):
    """The shop's refusal is enough: no database has to be asked."""
    with Shop(tmp_path) as shop:
        for generation, status in ((7, "200"), (6, "409"), (7, "200")):
            connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=5)
            connection.request("PUT", "/prices/1", "1", {"Duty": "jobs/publish", "Fencing-Token": str(generation)})
            assert str(connection.getresponse().status) == status
        application.sql("insert into price values (1, 10)")
        conn, generation = application.lead("jobs/publish", 742119)
        connection = http.client.HTTPConnection("127.0.0.1", shop.port, timeout=5)
        connection.request("PUT", "/prices/1", "1", {"Duty": "jobs/publish", "Fencing-Token": str(generation + 1)})
        connection.getresponse()
        env = {"PATH": os.environ["PATH"], "PGLEADER_DUTY": "jobs/publish", "PGLEADER_GENERATION": str(generation)}
        done = subprocess.run([str(ROOT / "examples/fencing/publish.py"), application.conninfo(), f"127.0.0.1:{shop.port}"],
                              env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        conn.close()
        assert done.returncode == 76 and f"generation {generation + 1}" in done.stderr
        assert shop.price(1) == "1"
