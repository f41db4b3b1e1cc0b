# SPDX-License-Identifier: PostgreSQL
"""The demo's stage: starts the cast in a temporary directory, and leaves nothing. scripts/demo and scripts/picture use it."""

import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.cluster import Cluster, ROOT, demote, free_port, hold_lock  # noqa: E402
from tests.support.wait import wait_until  # noqa: E402

DUTY = "jobs/invoice-reconcile"
LEASE = "reports/nightly"
UNREGISTERED_LOCK = 4711
RESTART_SECONDS = 2
PAUSE_SECONDS = 0.25  # pretended work, for each five invoices
STARTUP_SECONDS = 30

SCHEMA = """
CREATE FUNCTION open_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    next int := (SELECT coalesce(max(batch), 0) + 1 FROM invoice_batch);
BEGIN
    INSERT INTO invoice_batch VALUES (next);
    INSERT INTO invoice SELECT next, generate_series(1, 200);
    RETURN NULL;
END $$;
CREATE TRIGGER closed AFTER UPDATE ON invoice_batch FOR EACH ROW WHEN (NEW.closed) EXECUTE FUNCTION open_batch();
INSERT INTO invoice_batch VALUES (0);
UPDATE invoice_batch SET closed = true;
CREATE TABLE leader_lease (job_name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL);

CREATE ROLE invoice_worker LOGIN IN ROLE pgleader_candidate;
GRANT SELECT, UPDATE ON invoice_batch TO invoice_worker;
GRANT SELECT ON invoice TO invoice_worker;
GRANT INSERT ON reconciliation TO invoice_worker;
CREATE ROLE report_worker LOGIN;
GRANT SELECT, INSERT, UPDATE ON leader_lease TO report_worker;
GRANT SELECT ON reconciliation TO report_worker;
CREATE ROLE watcher LOGIN IN ROLE pgleader_reader;
GRANT SELECT ON leader_lease TO watcher;
CREATE ROLE oncall LOGIN IN ROLE pgleader_operator, pg_read_all_stats, pg_signal_backend;
GRANT SELECT ON leader_lease TO oncall;
CREATE ROLE legacy_import LOGIN;

SELECT pgleader.register_duty('jobs/invoice-reconcile', lock_key => 742118, min_candidates => 2,
    stall_after => '30 seconds', takeover_slow_after => '5 seconds', team => 'billing',
    candidates => 'pgleader:jobs/invoice-reconcile:%');
"""

REPORT = """
while :; do
    psql -X -A -t -d "$1" -c "SELECT clock_timestamp(), count(*), 'invoices' FROM reconciliation"
    sleep 5 & wait $!
done
"""

CONFIG = """\
servers:
  - name: demo
    conninfo: "{conninfo}"
    duties:
      - duty: reports/nightly
        lease: {{table: public.leader_lease, row: nightly_report}}
        team: finance
discovery: {{enabled: true, after: 5s}}
poll: {{interval: 1s}}
"""

PROMETHEUS = """\
global: {{scrape_interval: 1s}}
rule_files: [pgleader.rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{ports[alertmanager]}"]}}]}}]}}
scrape_configs:
  - job_name: pgleader
    static_configs: [{{targets: ["127.0.0.1:{ports[exporter]}"]}}]
"""
# The routes as shipped; their receivers send nothing.
ALERTMANAGER = re.sub(r"\n    webhook_configs:\n      - url: .*", "", (ROOT / "deploy/alertmanager/alertmanager.yml").read_text())


@dataclass(frozen=True)
class Service:
    """A program with an address."""

    name: str
    title: str
    port: int  # or another, where this one is taken
    config: tuple[str, str]  # a file and its text
    command: Callable  # (demo, file, port) -> argv
    ready: Callable  # (demo) -> whether it answers
    readiness: str


def prometheus(demo, file, port):
    demo.put(ROOT / "alerts/pgleader.rules.yml", "pgleader.rules.yml")
    return ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={demo.folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{port}"]


SERVICES = (
    Service("exporter", "the exporter", 10187, ("pgleader.yml", CONFIG),
            lambda demo, file, port: [demo.put(demo.exporter, "pgleader_exporter"), f"--config.file={file}",
                                      f"--web.listen-address=127.0.0.1:{port}"],
            lambda demo: urllib.request.urlopen(f"{demo.address('exporter')}/-/ready", timeout=2).status == 200,
            "the exporter is ready"),
    Service("alertmanager", "Alertmanager", 9093, ("alertmanager.yml", ALERTMANAGER),
            lambda demo, file, port: ["prometheus-alertmanager", f"--config.file={file}",
                                      f"--storage.path={demo.folder}/alertmanager",
                                      f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
            lambda demo: urllib.request.urlopen(f"{demo.address('alertmanager')}/-/ready", timeout=2).status == 200,
            "Alertmanager is ready"),
    Service("prometheus", "Prometheus", 9090, ("prometheus.yml", PROMETHEUS), prometheus,
            lambda demo: demo.ask("pgleader_up") == [({"server": "demo"}, 1.0)],
            "Prometheus shows pgleader_up 1"),
)


class Failed(BaseException):
    """The demo cannot go on; the words say why. No Exception, so that no wait takes it for "not yet"."""


def server_major():
    """The newest PostgreSQL of the distribution."""
    found = [int(p.parts[-3]) for p in Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres") if p.parts[-3].isdigit()]
    if not found:
        raise Failed("could not find a PostgreSQL server below /usr/lib/postgresql")
    return max(found)


def port_or_other(port, what):
    """The port if it is free, else another one, and says so."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
            return port
        except OSError:
            other = free_port()
            print(f"port {port} is taken: {what} is on {other}", flush=True)
            return other


def await_end(process):
    """Of one that was told to stop; at last by force."""
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cast:
    """The processes of the demo. Each dies with it, and is ended by pid, last started first."""

    def __init__(self):
        self.running = []
        self.due = []  # to be started again: (when, arguments of start)

    def start(self, name, folder, *argv, stop=signal.SIGTERM, again=False):
        """again: whoever has run for a while and ends is started again, as systemd would."""
        with open(folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", stop.name.removeprefix("SIG"), "--", *map(str, argv)],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder), "TZ": "UTC"}, **demote())
        anew = functools.partial(self.start, name, folder, *argv, stop=stop, again=again) if again else None
        self.running.append((name, process, stop, folder / f"{name}.log", anew, time.monotonic()))

    def check(self):
        """Starts again who is due for it. Raises if another has ended by itself."""
        for entry in [e for e in self.running if e[1].poll() is not None]:
            name, process, _, log, anew, since = entry
            if not anew or time.monotonic() - since < RESTART_SECONDS:
                raise Failed(f"{name} ended with status {process.returncode}:\n{log.read_text()[-2000:]}")
            self.running.remove(entry)
            self.due.append((time.monotonic() + RESTART_SECONDS, anew))
        for entry in [e for e in self.due if e[0] <= time.monotonic()]:
            self.due.remove(entry)
            entry[1]()

    def rest(self, prefix):
        """Ends all whose names begin so: {name: what starts it again}, which nothing else does."""
        resting = [e for e in self.running if e[0].startswith(prefix)]
        self.running = [e for e in self.running if e not in resting]
        for entry in resting:
            entry[1].send_signal(entry[2])
        for entry in resting:
            await_end(entry[1])
        return {entry[0]: entry[4] for entry in resting}

    def stop(self):
        while self.running:
            _, process, stop, *_ = self.running.pop()
            process.send_signal(stop)
            await_end(process)


class Stage(Cluster):
    """A PostgreSQL on a socket in its own private directory, run as a child of the demo."""

    def __init__(self, cast):
        super().__init__(server_major(), settings={"listen_addresses": "''", "max_connections": "50"}, port=5432)
        self.base.chmod(0o700)
        self.cast = cast

    def start(self):
        self.cast.start("postgres", self.base, self.bin / "postgres", "-D", self.data, stop=signal.SIGINT)
        wait_until(lambda: self.cast.check() or self.sql("select 1"), "PostgreSQL answers", STARTUP_SECONDS)

    def conninfo(self, dbname="postgres", user=None, host=None, **more):
        return super().conninfo(dbname, user, host or str(self.base), **more)

    def destroy(self):
        self.cast.stop()
        shutil.rmtree(self.base, ignore_errors=True)


class Demo:
    def __init__(self, exporter):
        self.cast = Cast()
        self.pg = Stage(self.cast)
        self.folder = self.pg.base
        self.exporter = Path(exporter).resolve()
        self.pgleader = self.exporter.parent / "pgleader"
        self.ports = {}
        self.stranger = None

    def put(self, source, name):
        """Copies a program to where the servers' user can read it."""
        target = self.folder / name
        shutil.copy(source, target)
        target.chmod(0o755)
        return target

    def write(self, name, text, user="watcher"):
        """A configuration, in which servers are met as that user."""
        path = self.folder / name
        path.write_text(text.format(conninfo=self.pg.conninfo(user=user).replace("'", ""), ports=self.ports))
        path.chmod(0o644)
        return path

    def address(self, service):
        return f"http://127.0.0.1:{self.ports[service]}"

    def start(self):
        self.start_duties()
        for service in SERVICES:
            self.start_service(service)

    def start_duties(self):
        """The database and whoever leads in it, without those that watch it."""
        self.pg.init()
        self.pg.start()
        self.pg.install_ledger()
        self.pg.script(ROOT / "examples/invoices.sql")
        self.pg.sql(SCHEMA)
        self.start_workers()
        self.stranger = hold_lock(self.pg, UNREGISTERED_LOCK, "legacy-import", user="legacy_import")
        self.operator_config = self.write("oncall.yml", CONFIG, user="oncall")
        self.top = [self.pgleader, "top", "--interval=1s", "--allow-yield", f"--config={self.operator_config}"]

    def start_workers(self):
        """For the lock two workers in Python and one in shell: the duty does not care. For the lease a line of shell."""
        python = self.put(ROOT / "examples/python/reconcile.py", "reconcile.py")
        shell = self.put(ROOT / "examples/shell/reconcile", "reconcile")
        run = self.put(self.exporter.parent / "pgleader-run", "pgleader-run")
        for n, worker in enumerate((python, shell, python), 1):
            self.start_candidate(run, f"worker-{n}", DUTY, "invoice_worker", worker, "CONNINFO", PAUSE_SECONDS)
        for n in (1, 2):
            self.start_candidate(run, f"report-{n}", LEASE, "report_worker", "bash", "-c", REPORT, "report", "CONNINFO",
                                 options=["--lease=public.leader_lease:nightly_report"])

    def start_candidate(self, run, name, duty, user, *command, options=()):
        conninfo = self.pg.conninfo(user=user)
        self.cast.start(name, self.folder, run, f"--duty={duty}", f"--name={name}", *options, conninfo, "--",
                        *(conninfo if word == "CONNINFO" else word for word in command), again=True)

    def start_service(self, service):
        self.ports[service.name] = port = port_or_other(service.port, service.title)
        command = service.command(self, self.write(*service.config), port)
        self.cast.start(service.name, self.folder, *command)
        wait_until(lambda: self.cast.check() or service.ready(self), service.readiness, STARTUP_SECONDS)

    def ask(self, expression):
        """An instant query to Prometheus: [(labels without job, instance and name, value)]."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.address('prometheus')}/api/v1/query?{query}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
        return [({k: v for k, v in row["metric"].items() if k not in ("__name__", "job", "instance")}, float(row["value"][1]))
                for row in result]

    def number(self, metric, duty=DUTY, more=""):
        """The one value of a metric of a duty, by Prometheus; None while it has none."""
        rows = self.ask(f'{metric}{{server="demo",duty="{duty}"{more}}}')
        return rows[0][1] if len(rows) == 1 else None

    def leader(self):
        """(instance, pid, generation) of the duty by Prometheus, once its rows agree; else None."""
        info = self.ask(f'pgleader_owner_info{{server="demo",duty="{DUTY}"}}')
        pid, generation = self.number("pgleader_owner_pid"), self.number("pgleader_generation")
        if len(info) != 1 or not pid or not generation:
            return None
        return info[0][0]["holder"].rsplit(":", 1)[-1], int(pid), int(generation)

    def work(self):
        """How far the duty's run is, in words; its cursor is a number here."""
        cursor, target = self.number("pgleader_run_cursor"), self.number("pgleader_run_target")
        return "between two runs" if cursor is None or target is None else f"work at {cursor:.0f} of {target:.0f}"

    def takeovers(self):
        return self.number("pgleader_transitions_total", more=',rule="takeover"')

    def wait(self, condition, what, seconds):
        return wait_until(lambda: self.cast.check() or condition(), what, seconds, every=0.2)

    def close(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if self.stranger is not None:
            self.stranger.close()
        self.pg.destroy()
