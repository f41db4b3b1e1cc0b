# SPDX-License-Identifier: PostgreSQL
"""Real terminals: tmux, whose screen is read as text, and a bare pty, which can hang up."""

import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import tempfile
import termios
import time
import fcntl
from pathlib import Path

from .wait import wait_until

SCREEN_ENV = {"LC_ALL": "C.UTF-8", "TERM": "screen-256color"}


class Tmux:
    """A terminal of its own, with a shell in it that runs one command and then waits."""

    def __init__(self, argv, width=100, height=24, cwd=None, **env):
        self.home = Path(tempfile.mkdtemp(prefix="pgleader-tmux-"))
        self.argv = [str(a) for a in argv]
        words = " ".join(f"{k}={shlex.quote(v)}" for k, v in {**SCREEN_ENV, **env}.items())
        script = self.home / "run"
        script.write_text(f"cd {shlex.quote(str(cwd or self.home))}\nstty -g >{self.home}/before\n"
                          f"env {words} {shlex.join(self.argv)} & echo $! >{self.home}/pid; fg >/dev/null\n"
                          f"status=$?; stty -g >{self.home}/after; echo \"ended $status.\"\nread _\n")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-s", "s",
                  f"bash --norc -m {script}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-u", "-S", f"{self.home}/socket", *map(str, words)], capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=20)
        assert done.returncode == 0, f"tmux {words}: {done.stderr}"
        return done.stdout

    def close(self):
        """Ends the program, if it is still there, and its terminal.

        In this order: a hang-up wakes stopped processes, and LeakSanitizer, which stops its own to look at it, would
        wait for ever.
        """
        if (self.home / "pid").exists() and not (self.home / "after").exists():
            try:
                os.kill(self.pid(), signal.SIGKILL)
            except ProcessLookupError:
                pass
        subprocess.run(["tmux", "-S", f"{self.home}/socket", "kill-server"], capture_output=True, timeout=20)
        subprocess.run(["rm", "-rf", str(self.home)], check=True)

    def screen(self, *words):
        return self.tmux("capture-pane", "-p", *words)

    def line(self, text):
        """The line that holds the text, or None."""
        return next((line for line in self.screen().splitlines() if text in line), None)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def wait(self, text, deadline=15.0):
        """Until the text (a regular expression) is on the screen; returns the screen."""
        def seen():
            self.last = self.screen()
            return self.last if re.search(text, self.last) else None
        try:
            return wait_until(seen, f"{text!r} on the screen", deadline, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last}") from None

    def pid(self):
        return wait_until(lambda: int((self.home / "pid").read_text()), "the program is started")

    def ended(self, deadline=10.0):
        """Waits for the end of the program; returns its exit status."""
        return int(re.search(r"ended (\d+)\.", self.wait(r"ended \d+\.", deadline))[1])

    def restored(self):
        """True if the terminal is as it was: main screen, cursor, line settings."""
        flags = self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}").split()
        settings = [(self.home / name).read_text() for name in ("before", "after")]
        return flags == ["0", "1"] and settings[0] == settings[1]


class Pty:
    """A program on a pty whose other side is held here."""

    def __init__(self, argv, width=80, height=24, ignored=(), **env):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            os.execvpe(str(argv[0]), [str(a) for a in argv], {**os.environ, **SCREEN_ENV, **env})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.status = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.fd is not None:
            os.close(self.fd)
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass

    def read(self, seconds=0.0):
        """What the program writes within that time, added to `seen`."""
        if self.fd is not None and select.select([self.fd], [], [], seconds)[0]:
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                pass
        return self.seen

    def wait(self, text, deadline=15.0):
        return wait_until(lambda: text in self.read(0.02), f"{text!r} on the terminal", deadline, every=0)

    def send(self, text):
        os.write(self.fd, text)

    def hang_up(self):
        os.close(self.fd)
        self.fd = None

    def ended(self, deadline=10.0):
        """Waits for the end; the status as a shell shows it."""
        def gone():
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code
            return self.status is not None
        wait_until(gone, "the program ends", deadline, every=0.001)
        return self.status


def cpu_seconds(pid):
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(pid, seconds):
    """The share of a core that a process takes for so long."""
    begin, start = cpu_seconds(pid), time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        select.select([], [], [], seconds - passed)
    return (cpu_seconds(pid) - begin) / passed
