# SPDX-License-Identifier: PostgreSQL
# ctest: serial
"""The demo as a newcomer runs it: it shows a takeover, finds free ports, and leaves nothing behind."""

import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import ROOT
from tests.support.dialog import ask
from tests.support.terminal import Tmux
from tests.support.wait import wait_until

EXPORTER = Path(os.environ.get("PGLEADER_BIN", ROOT / "build/dev/bin"), "pgleader_exporter")
PORTS = (10187, 9093, 9090)


# The demo without installing and building.
DEMO = ["/usr/bin/python3", "-B", ROOT / "scripts/demo.py"]
DUTIES = (r"jobs/invoice-reconcile +worker-\d +\d+ .* led", r"reports/nightly +report-\d .* led", r"advisory/4711 +legacy-import +\d+ .* led")


def start(*arguments):
    return subprocess.Popen([*DEMO, EXPORTER, *arguments], cwd=ROOT,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def descendants(pid):
    """{pid: command} of everything below a process, however deep."""
    rows = [line.split(None, 2) for line in
            subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()]
    found, frontier = {}, {str(pid)}
    while frontier:
        level = {row[0]: row[2] for row in rows if row[1] in frontier and row[0] not in found}
        found.update(level)
        frontier = set(level)
    return {int(k): v for k, v in found.items()}


def folder_of(cast):
    """The temporary folder of a running demo, from the server's command line."""
    return Path(next(m[1] for words in cast.values() if (m := re.search(r"postgres -D (\S+)/data", words))))


def gone(cast):
    """True when no process of the cast runs any more."""
    return not any(Path(f"/proc/{pid}").exists() for pid in cast)


def full_cast(pid):
    cast = descendants(pid)
    words = "\n".join(cast.values())
    wanted = ["postgres -D", "pgleader-run --duty=jobs/", "pgleader-run --duty=reports/", "pgleader_exporter", "prometheus-alertmanager --",
              "prometheus --"]
    return cast if all(word in words for word in wanted) else None


@pytest.fixture
def taken_ports():
    """Somebody else listens on the default ports."""
    listeners = []
    for port in PORTS:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        s.listen()
        listeners.append(s)
    yield
    for s in listeners:
        s.close()


def test_check_shows_a_takeover_in_under_a_minute():
    """--check exits 0, and names the old and the new leader as Prometheus saw them."""
    process = start("--check")
    cast = wait_until(lambda: full_cast(process.pid), "all of the cast runs", 40)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    leaders = re.findall(r"^(before|after) +(worker-\d) leads jobs/invoice-reconcile: pid (\d+), generation (\d+)", output, re.M)
    assert [when for when, *_ in leaders] == ["before", "after"], output
    (_, old, old_pid, old_generation), (_, new, new_pid, new_generation) = leaders
    assert old != new and old_pid != new_pid and int(new_generation) > int(old_generation), output
    assert "the takeover took" in output
    assert gone(cast), "processes are left"
    assert not folder_of(cast).exists()


def test_a_closed_terminal_stops_everything():
    """Also where there was none: every process ends and the folder goes."""
    process = start()
    cast = wait_until(lambda: full_cast(process.pid), "all of the cast runs", 40)
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=40)
    assert process.returncode == 0, output
    assert gone(cast), "processes are left"
    assert not folder_of(cast).exists()


@contextmanager
def on_terminal():
    """(terminal, cast) of a demo whose screen shows the three duties."""
    with Tmux([*DEMO, EXPORTER], width=120, height=36, cwd=ROOT) as terminal:
        for duty in DUTIES:
            terminal.wait(duty, 60)
        cast = full_cast(terminal.pid())
        assert cast
        yield terminal, cast
        assert terminal.ended(40) == 0
        assert terminal.restored()
        assert gone(cast), "processes are left"
        assert not folder_of(cast).exists()


def test_on_a_terminal_the_live_screen_opens():
    """A duty can be yielded; q leaves it and shows what else there is, Enter opens it again; the last q leaves nothing."""
    with on_terminal() as (terminal, _):
        asked = ask(terminal, "jobs/invoice-reconcile")
        assert "none of 20 refuses" in asked and "kit: the leader listens" in asked, asked
        terminal.keys("Escape")
        terminal.wait("CANDIDATES")
        terminal.keys("Q")
        shown = terminal.wait(r"Enter opens the screen again; q or Ctrl-C stops all of it\.(.*\n)+.*worker-\d leads jobs/")
        for service in ("who leads +http://", "Prometheus +http://", "Alertmanager +http://", "pgleader yield jobs/invoice-reconcile"):
            assert re.search(service, shown), shown
        terminal.keys("Enter")
        terminal.wait(DUTIES[0])
        terminal.keys("q")
        terminal.wait(r"(?s)(worker-\d leads jobs/.*){2}")
        terminal.keys("q")


def test_ctrl_c_in_the_live_screen_stops_everything():
    with on_terminal() as (terminal, _):
        terminal.keys("C-c")


def test_nothing_outlives_a_killed_demo():
    """kill -9 leaves a folder, but no process."""
    process = start()
    cast = wait_until(lambda: full_cast(process.pid), "all of the cast runs", 40)
    process.kill()
    process.communicate(timeout=10)
    wait_until(lambda: gone(cast), "every process of the killed demo is gone", 20)
    shutil.rmtree(folder_of(cast))


def test_taken_ports_are_replaced(taken_ports):
    """The addresses printed are other ones, they answer, and the demo says so."""
    process = start("--check")
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    for port in PORTS:
        assert f"port {port} is taken" in output


def test_a_broken_exporter_is_the_reason_given(tmp_path):
    """When a part ends by itself, --check exits 1 at once and says which and why."""
    broken = tmp_path / "pgleader_exporter"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    broken.chmod(0o755)
    shutil.copy(EXPORTER.with_name("pgleader-run"), tmp_path)
    process = subprocess.run([*DEMO, broken, "--check"], cwd=ROOT,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert process.returncode == 1
    assert "exporter ended with status 3" in process.stderr and "no such luck" in process.stderr
