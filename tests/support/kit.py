# SPDX-License-Identifier: PostgreSQL
"""What the bad-day tests of candidates share: a registered duty, who holds its lock, and an observer of it."""

import ctypes
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

from .candidate import Candidate, notes
from .wait import wait_until

PIDFD_GETFD = 438
HELD = ("select l.pid from pg_locks l join pgleader.duty d on l.classid = d.lock_classid::oid and l.objid = "
        "d.lock_objid::oid and l.objsubid = d.lock_objsubid where d.duty = %s and l.locktype = 'advisory' "
        "and l.mode = 'ExclusiveLock' and l.granted")


def register(pg, test, **more):
    """Registers a duty named after a test, with a key of its own, and returns its name."""
    name = f"jobs/{test.split('[')[0].replace('_', '-')[5:33].strip('-')}-{time.time_ns() % 10000:04}"
    pg.sql("select pgleader.register_duty(%s, lock_key => (random() * 1e9)::int)", (name,), **more)
    return name


def holder(pg, duty, **more):
    """The pid of the one session that holds the duty's lock, or None."""
    rows = pg.sql(HELD, (duty,), **more)
    assert len(rows) < 2, f"two sessions hold the lock of {duty}: {rows}"
    return rows[0][0] if rows else None


def wait_holder(pg, duty, other_than=None, deadline=20):
    return wait_until(lambda: (pid := holder(pg, duty)) != other_than and pid, f"somebody leads {duty}", deadline)


def term(pg, duty):
    """The current term, as the ledger has it."""
    rows = pg.sql("select generation, instance, ended_at is null, end_reason from pgleader.current_term "
                  "where duty = %s", (duty,))
    return rows[0] if rows else None


def reason(pg, duty, generation):
    """(why a term ended, whether its work was reported stopped)."""
    return pg.sql("select end_reason, stopped_at is not null from pgleader.term t join pgleader.duty d using (duty_id) "
                  "where d.duty = %s and t.generation = %s", (duty, generation))[0]


def spans(path):
    """{(instance, generation): (first note, last note)}: when the work of each term was seen."""
    seen = {}
    for _, when, instance, generation in notes(path):
        first, last = seen.get((instance, generation), (when, when))
        seen[instance, generation] = (min(first, when), max(last, when))
    return seen


def beat_of_another(path, generation, deadline=20, after=0.0):
    """The first beat of a later generation, or of one without."""
    def later(note):
        return note[0] == "beat" and note[1] > after and (note[3] == "none" or int(note[3]) > int(generation))
    return wait_until(lambda: next(filter(later, notes(path)), None), f"a term after {generation} works", deadline)


@contextmanager
def several(pg, duty, path, names, options=("--recontend",), **more):
    """Candidates of one duty, by name."""
    with ExitStack() as stack:
        yield {n: stack.enter_context(Candidate(pg.conninfo(), n, duty, options=options, notes=path, **more))
               for n in names}


def guard_of(run):
    """The pid of pgleader-run's guard."""
    def found():
        for pid in run.children():
            with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                if comm.read().strip() == "pgleader-guard":
                    return pid
        return None
    return wait_until(found, "the guard runs")


def child_of(run):
    """The pid of the command that pgleader-run runs."""
    guard = guard_of(run)
    return wait_until(lambda: next((pid for pid in run.children() if pid != guard), None), "the command runs")


def gone(pid):
    """True when no such process does anything any more: a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class LockWatch:
    """Polls pg_locks for a duty's lock as fast as it can; `with LockWatch(pg, duty) as w:` then w.reads."""

    def __init__(self, pg, duty):
        self.pg, self.duty = pg, duty
        self.reads = []  # (clock before, clock after, pids that hold it)
        self.error = None
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.reads or self.error, "the observer reads")
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if self.error:
            raise self.error

    def run(self):
        try:
            with self.pg.connect(application_name="observer") as conn:
                while not self.done.wait(0.004):
                    before = time.time()
                    pids = [row[0] for row in conn.execute(HELD, (self.duty,))]
                    self.reads.append((before, time.time(), pids))
        except Exception as error:  # told by the test's own thread
            self.error = error

    def released(self, pid):
        """Between which clocks the session gave the lock up: the last read that saw it hold, the first that did not."""
        reads = list(self.reads)
        first = next((i for i, read in enumerate(reads) if pid in read[2]), None)
        assert first is not None, f"session {pid} was never seen to hold the lock"
        end = next((i for i, read in enumerate(reads) if i > first and pid not in read[2]), None)
        return end and (reads[end - 1][0], reads[end][1])

    def freed(self, pid):
        """The earliest moment of the release; None: it holds the lock."""
        bounds = self.released(pid)
        return bounds and bounds[0]

    def free_by(self, pid):
        """The latest moment of the release; None: it holds the lock."""
        bounds = self.released(pid)
        return bounds and bounds[1]

    def most(self):
        return max(len(pids) for _, _, pids in self.reads)


def server_socket(backend_pid, port):
    """A copy of the socket through which a backend talks to its client; needs root."""
    process = os.pidfd_open(backend_pid)
    try:
        for name in os.listdir(f"/proc/{backend_pid}/fd"):
            if not os.readlink(f"/proc/{backend_pid}/fd/{name}").startswith("socket:"):
                continue
            fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, int(name), 0)
            assert fd >= 0, os.strerror(ctypes.get_errno())
            copy = socket.socket(fileno=fd)
            try:
                copy.getpeername()
                if copy.family == socket.AF_INET and port in (copy.getsockname()[1], copy.getpeername()[1]):
                    return copy
            except OSError:
                pass
            copy.close()
    finally:
        os.close(process)
    raise AssertionError(f"process {backend_pid} has no socket of port {port}")
