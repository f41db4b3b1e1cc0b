# SPDX-License-Identifier: PostgreSQL
"""Starts real candidates: pgleader-run with a worker that notes when it works."""

import json
import signal
import subprocess
import tempfile
from pathlib import Path

from .exporter import program
from .wait import wait_until

# Notes its start, its end and every beat, each with the nanosecond, so that overlaps show.
WORKER = """
note() { echo "$1 $(date +%s.%N) $PGLEADER_INSTANCE ${PGLEADER_GENERATION:-none}" >> "$NOTES"; }
trap 'note stopped; exit 0' TERM
note started
while :; do note beat; sleep 0.02 & wait $!; done
"""


class Candidate:
    """One pgleader-run; `with Candidate(...) as c:` ends it and its worker whatever happens."""

    def __init__(self, conninfo, name="w", duty="jobs/kit", command=None, options=(), notes=None, env=None):
        self.base = Path(tempfile.mkdtemp(prefix="pgleader-run-"))
        self.notes = notes or self.base / "notes"
        self.status_file = self.base / "status.json"
        self.log_path = self.base / "log"
        command = command or ["bash", "-c", WORKER]
        self.argv = [str(program("pgleader-run")), f"--duty={duty}", f"--name={name}",
                     f"--status-file={self.status_file}", *options, conninfo, "--", *command]
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "NOTES": str(self.notes), "LC_ALL": "C", **(env or {})}
        self.process = None

    def __enter__(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise

    def signal(self, sig):
        self.process.send_signal(sig)

    def wait(self, deadline=20):
        return self.process.wait(deadline)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def status(self):
        return json.loads(self.status_file.read_text())

    def children(self):
        listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listing.stdout.split()]


def notes(path):
    """(what, when, instance, generation) of every note so far."""
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return [(r[0], float(r[1]), r[2], r[3]) for r in rows if len(r) == 4]


def wait_for_note(path, what, instance=None, after=0.0, deadline=20):
    """The first note of that kind, by that instance, after that time."""
    def found():
        return next((n for n in notes(path) if n[0] == what and n[1] > after and instance in (None, n[2])), None)
    return wait_until(found, f"{instance or 'somebody'} notes {what}", deadline=deadline)


def spells(path):
    """[[instance, generation, first note, last note], ...]: each stretch of work from its start on, by its first note."""
    current, all_of_them = {}, []
    for what, when, instance, generation in sorted(notes(path), key=lambda note: note[1]):
        if what == "started" or instance not in current:
            current[instance] = [instance, generation, when, when]
            all_of_them.append(current[instance])
        current[instance][3] = when
        if what == "stopped":  # one that is told to stop before it says that it started says only that
            del current[instance]
    return all_of_them


def overlaps(path):
    """Pairs of instances that worked at the same time."""
    ordered = spells(path)
    return [(a[0], b[0]) for a, b in zip(ordered, ordered[1:]) if b[2] < a[3]]
