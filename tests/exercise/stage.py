# SPDX-License-Identifier: PostgreSQL
"""The stage: a server, candidates each in a network of its own, a supervisor, the target and the observer."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

import psycopg

from tests.support.cluster import Cluster
from tests.support.exporter import program
from tests.support.network import run
from tests.support.wait import wait_until

from .record import Record
from .target import Target

DUTY = "exercise/items"
KEY = 742118
HBA = "local all all trust\nlocal replication all trust\nhost all all 0.0.0.0/0 trust\n"
SCHEMA = """
CREATE TABLE effect (item bigint NOT NULL, generation bigint NOT NULL, instance text NOT NULL, at timestamptz NOT NULL);
CREATE ROLE worker LOGIN IN ROLE pgleader_candidate;
CREATE ROLE filler LOGIN;
GRANT SELECT, INSERT ON effect TO worker;
"""
REGISTER = {False: f"SELECT pgleader.register_duty('{DUTY}', lock_key => {KEY})",
            True: f"SELECT pgleader.register_duty('{DUTY}', lease_table => 'pgleader.lease', lease_row => '{DUTY}')"}
LOCK_OWNERS = f"""
SELECT coalesce(string_agg(l.pid::text, '+' ORDER BY l.pid), '0') FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' AND l.objsubid = 1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (l.classid::int8 << 32 | l.objid::int8) = {KEY}"""
LEASE_OWNER = f"""
SELECT coalesce((SELECT holder FROM pgleader.lease
WHERE job_name = '{DUTY}' AND expires_at > clock_timestamp()), '0')"""
# (what the observer calls it, pid, port of its client, instance)
SESSION = f"""
select case when %(lease)s then split_part(a.application_name, ':', 3) else a.pid::text end, a.pid, a.client_port,
split_part(a.application_name, ':', 3) from pg_stat_activity a where case when %(lease)s
then a.application_name = 'pgleader:{DUTY}:' || (select l.holder from pgleader.lease l
    where l.job_name = '{DUTY}' and l.expires_at > clock_timestamp())
else a.pid in (select pid from pg_locks where locktype = 'advisory' and objid = {KEY} and objsubid = 1
    and classid = 0 and granted) end"""
LEASE_DURATION = "8s"  # a third of it + answer 1 + kill 3 + slack 1 is less
Owner = namedtuple("Owner", "seen_as pid port instance")


class Link:
    """A network namespace behind a veth pair: a candidate's host. Needs root."""

    def __init__(self, number):
        self.name = f"pglx{os.getpid() % 100000}n{number}"
        net = f"10.{128 + os.getpid() % 100}.{os.getpid() // 100 % 256}"  # two exercises do not share addresses
        self.host, self.inside = f"{net}.{4 * number + 1}", f"{net}.{4 * number + 2}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "there", "netns", self.name)
        run("ip", "addr", "add", f"{self.host}/30", "dev", self.name)
        run("ip", "link", "set", self.name, "up")
        for words in (["addr", "add", f"{self.inside}/30", "dev", "there"], ["link", "set", "there", "up"]):
            run("ip", "-n", self.name, *words)

    @property
    def enter(self):
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def cut(self):
        """Nothing passes, in no direction, and nobody is told."""
        for chain in ("INPUT", "OUTPUT"):
            run(*self.enter, "iptables", "-w", "-I", chain, "-j", "DROP")

    def mend(self):
        run(*self.enter, "iptables", "-w", "-F")

    def reset(self, port):
        """Kills one connection, by the port of its end here: both ends see a reset."""
        run(*self.enter, "ss", "-K", "-t", "sport", "=", f":{port}")

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


class Candidate:
    """One place for a pgleader-run, which the supervisor starts again whenever it ends."""

    def __init__(self, stage, number, link=None):
        self.stage, self.link = stage, link
        self.name = f"c{number}"
        self.host = link.host if link else "127.0.0.1"
        self.process = None
        self.ends = []  # (when it was seen, status)

    def start(self):
        stage = self.stage
        conninfo = stage.pg.conninfo(host=self.host, user="worker")
        argv = [*(self.link.enter if self.link else []), str(program("pgleader-run")), f"--duty={DUTY}",
                f"--name={self.name}", *stage.options, conninfo, "--", *stage.command]
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "EXERCISE_DIR": str(stage.folder),
               "EXERCISE_CONNINFO": f"{conninfo} connect_timeout=2", "PGLEADER_EXERCISE": stage.marker}
        with open(stage.folder / f"log-{self.name}", "ab") as log:
            self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def children(self):
        """The guard and the work."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text().split()]


class Supervisor:
    """Starts candidates again when they end, as systemd or a kubelet would."""

    def __init__(self, candidates):
        self.candidates = candidates
        self.stopping = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stopping:
            for candidate in self.candidates:
                status = candidate.process.poll()
                if status is not None and not self.stopping:
                    candidate.ends.append((time.monotonic_ns(), status))
                    candidate.start()
            time.sleep(0.01)


class Stage:
    """`with Stage(...) as stage:` is a duty at work; nothing of it is left behind."""

    def __init__(self, candidates=3, options=("--recontend",), networks=True, command=None, settings=None, lease=False):
        self.options = [*options, *([f"--lease-duration={LEASE_DURATION}"] if lease else [])]
        self.lease = lease
        self.command = command or [str(program("exercise_duty")), str(program("exercise_worker"))]
        self.marker = secrets.token_hex(8)
        self.folder = Path(tempfile.mkdtemp(prefix="pgleader-exercise-"))
        self.folder.chmod(0o755)
        (self.folder / "alive").mkdir()
        self.count, self.networks = candidates, networks
        self.pg = Cluster(settings={"listen_addresses": "'*'", "max_connections": "50", **(settings or {})}, hba=HBA)
        self.old_servers = []
        self.links, self.candidates = [], []
        self.control = self.observer = None
        self.record = Record(self.folder)

    def __enter__(self):
        try:
            self.pg.__enter__()
            self.pg.install_ledger()
            self.sql(SCHEMA)
            self.sql(REGISTER[self.lease])
            self.target = Target(self.folder / "target").__enter__()
            self.observer = subprocess.Popen(
                [program("exercise_observer"), self.pg.conninfo(connect_timeout=2), LEASE_OWNER if self.lease else LOCK_OWNERS],
                env={"EXERCISE_DIR": str(self.folder)})
            self.open_candidates()
        except BaseException:
            self.__exit__()
            raise
        return self

    def open_candidates(self):
        for number in range(self.count):
            self.links += [Link(number)] if self.networks else []
            self.candidates.append(Candidate(self, number, self.links[-1] if self.networks else None))
        for candidate in self.candidates:
            candidate.start()
        self.supervisor = Supervisor(self.candidates)
        self.supervisor.thread.start()

    def __exit__(self, *_):
        if self.candidates:
            self.supervisor.stopping = True
            self.supervisor.thread.join()
        for pid in self.marked():
            self.signal(pid, signal.SIGCONT)
        for candidate in self.candidates:
            candidate.process.terminate()
        for candidate in self.candidates:
            try:
                candidate.process.wait(10)
            except subprocess.TimeoutExpired:
                candidate.process.kill()
                candidate.process.wait()
        try:
            wait_until(lambda: not self.marked(), "every process of the exercise is gone", deadline=20)
        finally:
            self.clean()

    def clean(self):
        for pid in self.marked():
            self.signal(pid, signal.SIGKILL)
        if self.observer:
            self.observer.kill()
            self.observer.wait()
        self.target.__exit__()
        if self.control:
            self.control.close()
        for server in [self.pg, *self.old_servers]:
            server.destroy()
        for link in self.links:
            link.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, query, params=None):
        """On a session that stays, and that is made again after a restart."""
        for last in (False, True):
            try:
                if self.control is None or self.control.closed:
                    self.control = self.pg.connect(application_name="exercise")
                cursor = self.control.execute(query, params)
                return cursor.fetchall() if cursor.description else None
            except psycopg.OperationalError:
                self.control = None
                if last:
                    raise

    @staticmethod
    def signal(pid, sig):
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass

    def marked(self):
        """Every living process of this exercise: candidates, guards and workers."""
        return [pid for pid, _ in self.environments()]

    def environments(self):
        wanted = f"PGLEADER_EXERCISE={self.marker}".encode()
        for entry in os.scandir("/proc"):
            try:
                words = Path(entry.path, "environ").read_bytes().split(b"\0") if entry.name.isdigit() else ()
            except OSError:
                continue
            if wanted in words:
                yield int(entry.name), words

    def owner(self):
        """The session of the owner, an Owner; None: nobody's, or its session is gone (a lease outlives it)."""
        rows = self.sql(SESSION, {"lease": self.lease})
        return Owner(*rows[0]) if rows else None

    def evidence(self):
        """The end of what each candidate and the server have written."""
        logs = [self.folder / f"log-{c.name}" for c in self.candidates] + [self.pg.log]
        return {log.name: log.read_text(errors="replace")[-1500:].splitlines()[-8:] for log in logs if log.exists()}

    def candidate(self, instance):
        return next(c for c in self.candidates if c.name == instance)

    def connected(self):
        return self.sql("select count(distinct application_name) from pg_stat_activity where starts_with("
                        "application_name, %s)", (f"pgleader:{DUTY}:",))[0][0]

    def steady(self, deadline=40):
        """Waits until every candidate is connected and one works; returns its term."""
        wait_until(lambda: self.connected() == self.count, "all candidates are connected", deadline=deadline)

        def settled():
            owner = self.owner()
            term = self.record.working(after_ns=time.monotonic_ns() - 200_000_000)
            return term if owner and term and term.instance == owner.instance else None
        return wait_until(settled, "one candidate leads and works", deadline=deadline, every=0.005)
