# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""Signals, the terminal and descriptors: the command has them as if it had been started alone."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster
from tests.support.exporter import program
from tests.support.wait import hold_for, wait_until

COUNT = """
for s in HUP USR1 USR2 TERM INT QUIT CONT; do trap "echo $s 1 x 1 >>\\"$NOTES\\"" $s; done
echo beat 1 x 1 >>"$NOTES"
while [ ! -e "$NOTES.end" ]; do sleep 0.02; done
"""
SPIN = 'echo beat $$ x 1 >>"$NOTES"; exec sleep 300'


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


def locked(pg, key):
    return pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = %s", (key,))


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


def worker(run):
    """The pid that the command noted."""
    return int(wait_until(lambda: run.notes.exists() and run.notes.read_text().split(), "the command runs")[1])


def test_each_is_forwarded_once(pg):
    with Candidate(pg.conninfo(), "x", "jobs/signals", ["bash", "-c", COUNT], ["--lock=1", "--kill-after=2500ms"]) as run:
        wait_for_note(run.notes, "beat")
        for name in ("HUP", "USR1", "USR2", "CONT"):
            run.signal(getattr(signal, f"SIG{name}"))
            wait_for_note(run.notes, name)
        assert locked(pg, 1)
        run.signal(signal.SIGINT)
        wait_for_note(run.notes, "INT")
        run.signal(signal.SIGTERM)
        wait_for_note(run.notes, "TERM")
        run.signal(signal.SIGTERM)
        wait_until(lambda: run.notes.read_text().count("TERM") == 2, "a second one is forwarded too")
        assert locked(pg, 1), "the lock is held until the command has stopped"
        (run.base / "notes.end").touch()
        assert run.wait() == 0
        told = [line.split()[0] for line in run.notes.read_text().splitlines()]
        assert sorted(set(told) - {"CONT"}) == ["HUP", "INT", "TERM", "USR1", "USR2", "beat"]
        assert [told.count(name) for name in ("HUP", "USR1", "USR2", "INT", "TERM")] == [1, 1, 1, 1, 2]


def test_what_was_ignored_stays_ignored(pg):
    """nohup pgleader-run, and a parent that ignores SIGCHLD: none could be waited for."""
    wrap = """import os, signal, sys
for s in range(1, 32):
    if s not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(s, signal.SIG_IGN if s in (signal.SIGHUP, signal.SIGCHLD) else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.execv(sys.argv[1], sys.argv[1:])
"""
    show, stay = (Candidate(pg.conninfo(), "x", "jobs/signals", command, ["--lock=1"])
                  for command in (["cat", "/proc/self/status"], ["sh", "-c", SPIN]))
    for run in (show, stay):
        run.argv = ["/usr/bin/python3", "-c", wrap, *run.argv]
    with show:
        assert show.wait() == 0
        found = {name: int(mask, 16) for name, mask in re.findall(r"Sig(Ign|Blk):\s*([0-9a-f]+)", show.log())}
        assert found == {"Ign": bit(signal.SIGHUP) | bit(signal.SIGCHLD), "Blk": bit(signal.SIGUSR2)}
    with stay:
        worker(stay)
        stay.signal(signal.SIGHUP)
        hold_for(lambda: stay.process.poll() is None, "SIGHUP is nothing to it", 0.3)
        stay.signal(signal.SIGTERM)
        assert stay.wait() == 143


def bit(signo):
    return 1 << (signo - 1)


def test_a_second_one_while_it_gives_back(pg):
    """The server does not answer: the operator's second Ctrl-C does not wait for it."""
    with Candidate(pg.conninfo(), "x", "jobs/signals", ["sh", "-c", SPIN], ["--lock=1"]) as run:
        worker(run)
        backend = pg.sql("select pid from pg_locks where locktype = 'advisory' and objid = 1")[0][0]
        os.kill(backend, signal.SIGSTOP)
        try:
            run.signal(signal.SIGTERM)
            wait_until(lambda: "state=yielding" in run.log(), "it yields")
            wait_until(lambda: state(worker(run)) is None, "the command is gone")
            began = time.monotonic()
            run.signal(signal.SIGTERM)
            assert run.wait() == 143 and time.monotonic() - began < 1
        finally:
            os.kill(backend, signal.SIGCONT)


@pytest.mark.parametrize("how", [signal.SIGTERM, "terminate"])
def test_a_stopped_command_can_be_ended(pg, how):
    with Candidate(pg.conninfo(), "x", "jobs/signals", ["sh", "-c", SPIN], ["--lock=1", "--kill-after=3s"]) as run:
        pid = worker(run)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: "the command is stopped" in run.log(), "it is said")
        began = time.monotonic()
        if how == "terminate":
            pg.sql("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 1")
        else:
            run.signal(how)
        assert run.wait() == (76 if how == "terminate" else 143)
        assert time.monotonic() - began < 2, "SIGTERM was enough"


def test_descriptors(pg):
    """The command has those that pgleader-run was given, and none of ours."""
    given, other = os.pipe()
    os.set_inheritable(given, True)
    listing = ["ls", "-l", "/proc/self/fd"]
    run = Candidate(pg.conninfo(), "x", "jobs/signals", listing, ["--lock=1", "--health=127.0.0.1:0"])
    try:
        with open(run.log_path, "wb") as log:
            run.process = subprocess.Popen(run.argv, env=run.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           pass_fds=[given])
        assert run.wait() == 0
        found = {int(number): target for number, target in re.findall(r"(\d+) -> (.*)", run.log())}
        own = {number for number, target in found.items() if target.startswith("/proc/")}
        assert set(found) - own == {0, 1, 2, given} and len(own) == 1, found
        assert found[given].startswith("pipe:") and found[0] == "/dev/null"
    finally:
        run.__exit__()
        os.close(given)
        os.close(other)


class Terminal:
    """A program that has a terminal of its own."""

    def __init__(self, argv, env):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, env)
        self.status = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.ended() is None:
            os.killpg(self.pid, signal.SIGTERM)
            wait_until(lambda: self.ended() is not None, "it has ended")
        os.close(self.fd)

    def read(self):
        try:
            while select.select([self.fd], [], [], 0)[0]:
                self.text += os.read(self.fd, 4096).decode(errors="replace")
        except OSError:
            pass
        return self.text

    def wait_for(self, words):
        return wait_until(lambda: words in self.read(), f"{words!r} on the terminal, not {self.text!r}")

    def type(self, text):
        os.write(self.fd, text.encode())

    def ended(self):
        if self.status is None:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def wait(self):
        wait_until(lambda: self.ended() is not None, "it ends")
        return self.status


def on_terminal(pg, command, *around, options=()):
    """pgleader-run, or a program around it that gets its command line as arguments, on a terminal."""
    argv = [str(program("pgleader-run")), "--duty=jobs/terminal", "--lock=3", *options, pg.conninfo(), "--", *command]
    return Terminal([*around, *argv], {"PATH": "/usr/local/bin:/usr/bin:/bin", "PS1": "$ ", "TERM": "dumb", "LC_ALL": "C"})


ASK = ["sh", "-c", 'echo ready; while read line; do echo "got $line"; done']


def test_the_command_reads_the_terminal_and_gets_its_ctrl_c(pg):
    with on_terminal(pg, ASK) as terminal:
        terminal.wait_for("ready")
        terminal.type("hello\n")
        terminal.wait_for("got hello")
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "command-ended" in terminal.read()


def test_ctrl_c_and_ctrl_z_while_it_waits(pg):
    with pg.connect() as stranger:
        stranger.execute("select pg_advisory_lock(3)")
        with on_terminal(pg, ASK) as terminal:
            wait_until(lambda: pg.sql("select 1 from pg_stat_activity where application_name like "
                                      "'pgleader:jobs/terminal:%%'"), "it is connected")
            terminal.type("\x1a")
            terminal.wait_for("cannot be suspended")
            terminal.type("\x03")
            assert terminal.wait() == 130


def test_ctrl_z_does_not_suspend_a_leader(pg):
    with on_terminal(pg, ASK) as terminal:
        terminal.wait_for("ready")
        terminal.type("\x1a")
        terminal.wait_for("a leader cannot be suspended")
        terminal.type("still there\n")
        terminal.wait_for("got still there")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_the_terminal_is_given_back(pg):
    """Who comes after pgleader-run in a script reads it, also after the command was killed."""
    around = ["/bin/sh", "-c", '"$0" "$@"; echo "ended $?"; read line; echo "then $line"; exit 5']
    with on_terminal(pg, ["sh", "-c", "echo ready; exec sleep 300"], *around) as terminal:
        terminal.wait_for("ready")
        pg.sql("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 3")
        terminal.wait_for("ended 76")
        terminal.type("more\n")
        terminal.wait_for("then more")
        assert terminal.wait() == 5


def test_background_and_foreground(pg):
    """In the background the command waits when it reads the terminal, and goes on when it is brought in front."""
    with on_terminal(pg, ASK, "/bin/bash", "--norc", "-i", "-c", 'set -m; "$0" "$@" & echo now; read go; fg') as terminal:
        terminal.wait_for("now")
        terminal.wait_for("waits for the terminal")
        assert pg.sql("select 1 from pg_locks where locktype = 'advisory' and objid = 3 and granted")
        terminal.type("go\n")
        terminal.wait_for('"$0"')
        terminal.type("hello\n")
        terminal.wait_for("got hello")
        terminal.type("\x04")
        assert terminal.wait() == 0
