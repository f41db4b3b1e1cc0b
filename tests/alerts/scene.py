# SPDX-License-Identifier: PostgreSQL
"""Where faults are caused: a PostgreSQL with the ledger, a second one, and the exporters that watch them."""

import contextlib
import json
import subprocess
import threading

from tests.support.candidate import Candidate
from tests.support.cluster import ROOT, Cluster
from tests.support.exporter import Exporter, program
from tests.support.skew import library
from tests.support.wait import wait_until
from tests.support.yields import prepare

CONFIG = """
servers:
  - name: main
    conninfo: "{main}"
    duties: [{{duty: e2e/section, lease: {{table: public.leader_lease, row: section}}}}]
  - {{name: standby-wanted, conninfo: "{main}", expect: {expect}}}
  - {{name: unprivileged, conninfo: "{poor}"}}
  - {{name: away, conninfo: "{away}"}}
poll: {{interval: 100ms}}
discovery: {{enabled: false}}
"""
SPARE = """
servers: [{{name: {name}, conninfo: "{main}"}}]
poll: {{interval: 250ms}}
discovery: {{enabled: false}}
"""
SCHEMA = """
create role watcher login in role pgleader_reader;
create role poor login;
create table leader_lease (job_name text primary key, holder text not null, expires_at timestamptz not null);
insert into leader_lease values ('section', 'somebody', now() + interval '1 day');
grant select on leader_lease to watcher, poor;
"""
SPARES = ("spare-down", "spare-gone", "spare-reload", "spare-clock")

# A worker: claims runs and moves their cursors. The run of one that "works" never ends; one that "hangs" does so after a run.
WORKER = """
import itertools, os, sys, time, psycopg
duty, generation = os.environ["PGLEADER_DUTY"], int(os.environ["PGLEADER_GENERATION"])
with psycopg.connect(sys.argv[1], autocommit=True) as db:
    for run in itertools.count():
        db.execute("select pgleader.claim_run(%s, %s, %s, '1 hour')", (duty, f"{generation} {run}", generation))
        for step in itertools.count() if sys.argv[2] == "works" else range(3):
            db.execute("select pgleader.advance_run(%s, %s, %s, %s)", (duty, f"{generation} {run}", generation, str(step)))
            time.sleep(0.2)
        db.execute("select pgleader.finish_run(%s, %s, %s, 'complete', '{}')", (duty, f"{generation} {run}", generation))
        while sys.argv[2] == "hangs":
            time.sleep(60)
"""


class Scene:
    def __init__(self, watch):
        self.watch = watch
        self.stack = contextlib.ExitStack()
        self.keys = iter(range(9000, 9100))
        self.stopping = threading.Event()

    def __enter__(self):
        with self.stack as stack:
            self.pg, self.other = stack.enter_context(Cluster()), stack.enter_context(Cluster())
            prepare(self.pg)
            self.pg.sql(SCHEMA)
            self.main = stack.enter_context(Exporter(config=self.config("standby")))
            self.spares = {name: stack.enter_context(self.spare(name)) for name in SPARES}
            stack.callback(self.stopping.set)
            self.aim()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.stack.close()

    def config(self, expect):
        return CONFIG.format(main=self.pg.conninfo(user="watcher"), poor=self.pg.conninfo(user="poor"),
                             away=self.other.conninfo(), expect=expect)

    def spare(self, name):
        """An exporter of its own; the clock of one is 10 s ahead of the server's."""
        fake = {"LD_PRELOAD": library(), "FAKETIME": "+10s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"} if name == "spare-clock" else {}
        return Exporter(config=SPARE.format(name=name, main=self.pg.conninfo(user="watcher")), env=fake)

    def aim(self, without=()):
        ports = [self.main.port, *(e.port for name, e in self.spares.items() if name not in without)]
        self.watch.aim(*ports)

    def register(self, duty, **thresholds):
        """The duty's key."""
        key = next(self.keys)
        words = "".join(f", {name} => {value!r}" for name, value in thresholds.items())
        self.pg.sql(f"select pgleader.register_duty('{duty}', lock_key => {key}, team => 'e2e'{words})")
        return key

    def session(self, key=None, name="by hand", user="worker"):
        """A session, with the lock if a key is given, that ends with the scene at the latest."""
        session = self.stack.enter_context(contextlib.closing(self.pg.connect(user=user, application_name=name)))
        if key is not None:
            session.execute("select pg_advisory_lock(%s)", (key,))
        return session

    def candidate(self, duty, name, how=None, options=()):
        """pgleader-run with the worker, or with one that only waits."""
        door = self.pg.conninfo(user="worker")
        command = ["/usr/bin/python3", "-c", WORKER, door, how] if how else ["sleep", "600"]
        return self.stack.enter_context(Candidate(door, name, duty, command, ["--recontend", *options]))

    def leads(self, duty, name):
        """Waits until that instance has a term."""
        wait_until(lambda: self.pg.sql("select 1 from pgleader.current_term where duty = %s and instance = %s and ended_at is null",
                                       (duty, name)), f"{name} leads {duty}", deadline=60)

    def watch_sees(self, expression):
        wait_until(lambda: self.watch.query(expression), f"Prometheus has {expression}", deadline=30)

    def background(self, deed):
        """Does it in a thread again and again until stop() is called, or the scene ends."""
        ended = threading.Event()

        def run():
            while not (ended.is_set() or self.stopping.is_set()):
                deed()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def stop():
            ended.set()
            thread.join(30)
        self.stack.callback(stop)
        return stop

    def move(self, duty):
        """As the page says: a dry run for the token, then the yield."""
        command = [str(program("pgleader")), "yield", duty, "--json"]
        door = self.pg.conninfo(user="oncall")
        asked = subprocess.run([*command, "--dry-run", door], capture_output=True, text=True, timeout=60, cwd=ROOT)
        confirm = json.loads(asked.stdout)["confirm"]
        done = subprocess.run([*command, "--reason=stalled", f"--confirm={confirm}", "--grace=2s", door], capture_output=True, text=True,
                              timeout=120, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
