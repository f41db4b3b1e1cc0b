# SPDX-License-Identifier: PostgreSQL
"""The demo's stage: starts the cast in a temporary directory, and leaves nothing. scripts/demo runs this."""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.cluster import Cluster, ROOT, demote, free_port  # noqa: E402
from tests.support.wait import DeadlinePassed, wait_until  # noqa: E402

DUTY = "jobs/invoice-reconcile"
LEASE = "reports/nightly"
UNREGISTERED_LOCK = 4711
RESTART_SECONDS = 2
PAUSE_SECONDS = 0.25  # pretended work, for each five invoices
STARTUP_SECONDS = 30
TAKEOVER_SECONDS = 15

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
scrape_configs:
  - job_name: pgleader
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


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

    def stop(self):
        while self.running:
            _, process, stop, *_ = self.running.pop()
            if process.poll() is None:
                process.send_signal(stop)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


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
        self.stranger = None

    def put(self, source, name):
        """Copies a program to where the servers' user can read it."""
        target = self.folder / name
        shutil.copy(source, target)
        target.chmod(0o755)
        return target

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def start(self):
        self.pg.init()
        self.pg.start()
        self.pg.install_ledger()
        self.pg.script(ROOT / "examples/invoices.sql")
        self.pg.sql(SCHEMA)
        self.start_workers()
        self.stranger = self.pg.connect(application_name="legacy-import")
        self.stranger.execute("select pg_advisory_lock(%s)", [UNREGISTERED_LOCK])
        self.start_exporter()
        self.start_prometheus()

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

    def start_exporter(self):
        port = port_or_other(10187, "the exporter")
        config = self.write("pgleader.yml", CONFIG.format(conninfo=self.pg.conninfo(user="watcher").replace("'", "")))
        self.address = f"http://127.0.0.1:{port}"
        self.cast.start("exporter", self.folder, self.put(self.exporter, "pgleader_exporter"),
                        f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}")
        wait_until(lambda: self.cast.check() or urllib.request.urlopen(f"{self.address}/-/ready", timeout=2).status == 200,
                   "the exporter is ready", STARTUP_SECONDS)
        self.exporter_port = port

    def start_prometheus(self):
        port = port_or_other(9090, "Prometheus")
        config = self.write("prometheus.yml", PROMETHEUS.format(port=self.exporter_port))
        self.prometheus = f"http://127.0.0.1:{port}"
        self.cast.start("prometheus", self.folder, "prometheus", f"--config.file={config}",
                        f"--storage.tsdb.path={self.folder}/prometheus", f"--web.listen-address=127.0.0.1:{port}")
        wait_until(lambda: self.cast.check() or self.ask("pgleader_up") == [({"server": "demo"}, 1.0)],
                   "Prometheus shows pgleader_up 1", STARTUP_SECONDS)

    def ask(self, expression):
        """An instant query to Prometheus: [(labels without job, instance and name, value)]."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/query?{query}", timeout=5) as answer:
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


def describe(demo):
    graph = urllib.parse.urlencode({"g0.expr": f'pgleader_owner_pid{{duty="{DUTY}"}}', "g0.tab": "0", "g0.range_input": "5m"})
    psql = f"psql -h {demo.folder} -U postgres"
    print(f"""
who leads     {demo.address}/
metrics       {demo.address}/metrics
Prometheus    {demo.prometheus}/graph?{graph}
database      {psql}
the ledger    {psql} -c 'select * from pgleader.ownership'
end a leader  {psql} -c "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 742118"
logs          {demo.folder}/*.log

Ctrl-C stops all of it.""", flush=True)


def watch(demo):
    """Until Ctrl-C; says who leads when it changes."""
    describe(demo)
    last = None
    while True:
        demo.cast.check()
        try:
            now = demo.leader()
        except OSError:
            now = None
        if now and now != last:
            print(sentence(time.strftime("%H:%M:%S"), now, demo), flush=True)
            last = now
        time.sleep(0.5)


def progresses(demo):
    before = demo.number("pgleader_run_cursor")
    demo.wait(lambda: demo.number("pgleader_run_cursor") not in (None, before), f"the cursor of {DUTY} moves", STARTUP_SECONDS)


def scene_is_set(demo):
    """Everything that the stage holds is in Prometheus before a leader is ended."""
    demo.wait(demo.leader, f"Prometheus shows who leads {DUTY}", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_candidates") == 3, f"Prometheus shows 3 candidates of {DUTY}", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_leader_held", LEASE) == 1, f"Prometheus shows {LEASE} held", STARTUP_SECONDS)
    demo.wait(lambda: demo.number("pgleader_leader_held", f"advisory/{UNREGISTERED_LOCK}") == 1,
              f"Prometheus shows the unregistered lock {UNREGISTERED_LOCK}", STARTUP_SECONDS)
    progresses(demo)


def sentence(when, leader, demo):
    instance, pid, generation = leader
    return f"{when:7} {instance} leads {DUTY}: pid {pid}, generation {generation}, {demo.work()}"


def taken_over(demo, before, count):
    """The new leader, once Prometheus shows another pid, a higher generation and one more takeover."""
    now = demo.leader()
    moved = now and now[0] != before[0] and now[1] != before[1] and now[2] > before[2] and (demo.takeovers() or 0) > count
    return now if moved and demo.number("pgleader_last_takeover_seconds") is not None else None


def check(demo):
    scene_is_set(demo)
    before, count = demo.leader(), demo.takeovers() or 0
    print(sentence("before", before, demo), flush=True)
    started = time.monotonic()
    if demo.pg.sql("select pg_terminate_backend(%s)", [before[1]]) != [(True,)]:
        raise Failed(f"pid {before[1]}, which Prometheus shows as the leader, is not a session of the server")
    now = demo.wait(lambda: taken_over(demo, before, count), "Prometheus shows the new owner and the takeover", TAKEOVER_SECONDS)
    seen = time.monotonic() - started
    progresses(demo)
    lower, upper = demo.number("pgleader_last_takeover_lower_bound_seconds"), demo.number("pgleader_last_takeover_seconds")
    print(sentence("after", now, demo))
    print(f"the takeover took {lower:.3f} to {upper:.3f} s; Prometheus showed it {seen:.1f} s after the session was ended", flush=True)


def main(exporter, mode=None):
    def leave(number, _):
        raise SystemExit(0 if mode is None else 128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    demo = Demo(exporter)
    try:
        demo.start()
        (watch if mode is None else check)(demo)
    except (Failed, DeadlinePassed) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        demo.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
