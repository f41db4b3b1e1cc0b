# SPDX-License-Identifier: PostgreSQL
"""What the tests of `pgleader yield` share: running it, on a terminal or not, and what it left."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager

from .cluster import hold_lock
from .exporter import program
from .kit import register
from .scene import pid_of, waiting
from .wait import wait_until

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm"}


class Result:
    """How one call ended: status, the JSON object (or None), and what stood on standard error."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.json = json.loads(out) if out.startswith("{") else None

    def __repr__(self):
        guards = "".join(f"\n  {g['code']}: {g['sentence']}" for g in self.json["guards"] if g["state"] != "ok") if self.json else self.out
        words = {k: self.json[k] for k in ("end", "outcome", "sentence", "sent", "road")} if self.json else {}
        return f"status {self.status} {words}{guards}\n{self.err}"

    def guard(self, code):
        return next(g for g in self.json["guards"] if g["code"] == code)

    def refused(self):
        return [g["code"] for g in self.json["guards"] if g["state"] == "refused"]


def argv_of(conninfo, duty, *options, reason="test"):
    return [str(program("pgleader")), "yield", duty, *([f"--reason={reason}"] if reason else []), *options, conninfo]


def start(conninfo, duty, *options, **more):
    return subprocess.Popen(argv_of(conninfo, duty, *options, "--json", **more), env=ENV, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, timeout=60):
    out, err = process.communicate(timeout=timeout)
    return Result(process.returncode, out, err)


def run(conninfo, duty, *options, **more):
    return finish(start(conninfo, duty, *options, **more))


def dry(conninfo, duty, *options):
    return run(conninfo, duty, "--dry-run", *options, reason=None)


def confirmed(conninfo, duty, *options):
    """A dry run for the exact confirmation, then the yield."""
    asked = dry(conninfo, duty)
    assert asked.json["confirm"], asked
    return run(conninfo, duty, f"--confirm={asked.json['confirm']}", *options)


ROLES = """create role worker login; create role oncall login; create role signaller login;
    grant pg_signal_backend, pg_read_all_stats to signaller"""
GRANTS = "grant pgleader_candidate to worker; grant pgleader_operator, pg_read_all_stats to oncall"


def prepare(cluster, ledger=True):
    """Roles of little power, as they should be: worker leads, oncall yields by the ledger, signaller by its own right."""
    cluster.sql(ROLES)
    if ledger:
        cluster.install_ledger()
        cluster.sql(GRANTS)


def oncall(pg, dbname="postgres"):
    return pg.conninfo(dbname, user="oncall")


def signaller(pg, dbname="postgres"):
    return pg.conninfo(dbname, user="signaller")


def stranger(pg, key, name="worker-a", user="worker", **kw):
    """A session without the kit that holds a lock."""
    return hold_lock(pg, key, name, user=user, **kw)


def begin(conn, duty, instance="worker-a", listens=False):
    """Begins a term in the session that holds the lock: its generation."""
    return conn.execute("select pgleader.begin_term(%s, %s, %s)", (duty, instance, listens)).fetchone()[0]


def key_of(pg, duty):
    return pg.sql("select lock_objid from pgleader.duty where duty = %s", (duty,))[0][0]


@contextmanager
def led(pg, request, listens=False, follower=True):
    """(duty, key, leader, generation): a session without the kit leads a duty named after the test; a successor waits."""
    duty = register(pg, request.node.name)
    key = key_of(pg, duty)
    with ExitStack() as stack:
        leader = stack.enter_context(closing(stranger(pg, key)))
        generation = begin(leader, duty, listens=listens)
        if follower:
            stack.enter_context(waiting(pg, key, "worker-b"))
        yield duty, key, leader, generation


def alive(pg, conn_or_pid, **kw):
    pid = conn_or_pid if isinstance(conn_or_pid, int) else pid_of(conn_or_pid)
    return bool(pg.sql("select 1 from pg_stat_activity where pid = %s", (pid,), **kw))


def audit(pg, duty, dbname="postgres"):
    """(outcome, signalled, reason, overrides) of the newest yield, or None."""
    rows = pg.sql("select y.outcome, y.signalled, y.reason, y.overrides from pgleader.yield y join pgleader.duty d using (duty_id) "
                  "where d.duty = %s order by y.intent desc limit 1", (duty,), dbname=dbname)
    return rows[0] if rows else None


def refusals(pg, duty):
    """(guard, sentence, reason) of each refusal that stands in the ledger."""
    return pg.sql("select guard, why, reason from pgleader.refused_yield join pgleader.duty d using (duty_id) where d.duty = %s order by refusal",
                  (duty,))


class Terminal:
    """`pgleader yield` on a terminal of its own: with Terminal(...) as t: t.wait_for("Type"), t.type("..."), t.end()."""

    def __init__(self, conninfo, duty, *options, **more):
        self.argv = argv_of(conninfo, duty, *options, **more)
        self.text = ""

    def __enter__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(self.argv[0], self.argv, ENV)
        self.status = None
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def pump(self, seconds):
        """Reads what is there; False at the end."""
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            self.text += data.decode(errors="replace")
            return bool(data)
        return True

    def wait_for(self, words, deadline=20):
        end = time.monotonic() + deadline
        while not re.search(words, self.text):
            assert self.pump(0.05) and time.monotonic() < end, f"no {words!r} in:\n{self.text}"
        return re.search(words, self.text)

    def token(self):
        """What it asks the person to type."""
        return self.wait_for(r'Type "([^"]+)" to confirm')[1]

    def type(self, text):
        os.write(self.fd, text.encode() + b"\n")

    def end(self, deadline=60):
        """The exit status."""
        end = time.monotonic() + deadline
        while self.pump(0.05):
            assert time.monotonic() < end, self.text
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status


def wait_gone(pg, conn):
    pid = conn if isinstance(conn, int) else pid_of(conn)
    wait_until(lambda: not alive(pg, pid), f"session {pid} is gone")
