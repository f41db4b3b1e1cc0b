# SPDX-License-Identifier: PostgreSQL
# ctest: serial asan
"""pgleader top takes the terminal and gives it back, on every way out and whatever becomes of the terminal."""

import os
import signal
import subprocess
import time

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import program
from tests.support.terminal import measured
from tests.support.vterm import Vterm, choke
from tests.support.wait import hold_for

TOP = program("pgleader")
Q_ANSWERS_WITHIN = 0.5 if os.environ.get("PGLEADER_VARIANT") else 0.1
ENDS_WITHIN = 5 if os.environ.get("PGLEADER_VARIANT") else 2


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        conn = hold_lock(cluster, 700, application_name="worker-0@node-a")
        yield cluster
        conn.close()


def top_of(pg, *wrapper, **more):
    return Vterm([*wrapper, TOP, "top", "--interval=500ms", pg.conninfo()], **more)


@pytest.fixture
def top(pg):
    with top_of(pg) as terminal:
        terminal.wait("worker-0@node-a")
        yield terminal


def given_back(terminal, status):
    """Ended so, and the terminal is as it was. Its last words may arrive after the end was known."""
    assert terminal.end().status == status
    return terminal.when(lambda screen: screen.given_back(), "the terminal is given back", 5)


def test_takes_the_terminal(top):
    """The other screen, no cursor, no echo, no line mode; Ctrl-S, which could freeze it, is a key like any other."""
    screen = top.look()
    assert screen.alternate and not screen.visible and screen.line != screen.before
    top.keys("\x13?")
    top.wait("KEYS")


WAYS_OUT = [("q", 0), ("Q", 0), ("?Q", 0), ("\x03", 128 + signal.SIGINT), ("\x1c", 128 + signal.SIGQUIT),
            *((number, 128 + number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT,
                                                    signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE))]


@pytest.mark.parametrize("way, status", WAYS_OUT, ids=[getattr(way, "name", repr(way)) for way, _ in WAYS_OUT])
def test_every_way_out(top, way, status):
    if isinstance(way, str):
        top.keys(way)
    else:
        os.kill(top.pid, way)
    screen = given_back(top, status)
    assert "worker-0" not in screen.text


@pytest.mark.parametrize("kill", [lambda top: top.keys("\x1a"), lambda top: os.kill(top.pid, signal.SIGTSTP)], ids=["Ctrl-Z", "SIGTSTP"])
def test_stops_and_goes_on(top, kill):
    """Meanwhile the terminal is the shell's; afterwards the screen is whole, at the size that the terminal has then."""
    taken = top.look().line
    for width in (100, 70):
        kill(top)
        top.when(lambda screen: screen.stopped and screen.given_back(), "it has stopped, and the terminal is given back")
        top.resize(width, 20)
        os.kill(top.pid, signal.SIGCONT)
        screen = top.wait("worker-0@node-a")
        assert screen.alternate and not screen.visible and screen.line == taken
        top.when(lambda screen: len(screen.lines[0].rstrip()) == width, f"the title is {width} wide")
    top.keys("\x1bOB\x1bOP")  # arrows and function keys are keys still
    top.wait("KEYS")
    top.keys("Q")
    given_back(top, 0)


def test_goes_on_after_a_stop_by_others(top):
    """SIGSTOP asks nobody: the shell has put the line right meanwhile, and the screen is drawn anew."""
    taken = top.look()
    os.kill(top.pid, signal.SIGSTOP)
    top.when(lambda screen: screen.stopped, "it has stopped")
    subprocess.run(["stty", "-F", f"/proc/{top.pid}/fd/0", "sane"], check=True)
    assert top.look().line != taken.line
    os.kill(top.pid, signal.SIGCONT)
    top.when(lambda screen: screen.line == taken.line and "worker-0@node-a" in screen.text, "it is as before")
    top.keys("q")
    given_back(top, 0)


def test_keys_that_ran_ahead_of_the_dialog_are_forgotten(pg):
    """Nobody fills in or confirms what was not on the screen yet."""
    with Vterm([TOP, "top", "--allow-yield", pg.conninfo()], width=100, height=40) as top:
        top.wait("worker-0@node-a")
        top.keys("\r")
        top.wait("CANDIDATES")
        os.kill(top.pid, signal.SIGSTOP)
        top.when(lambda screen: screen.stopped, "it has stopped")
        top.keys("Y\tfast fingers\radvisory/700")
        os.kill(top.pid, signal.SIGCONT)
        top.wait("Guards +[a-z0-9]+ of")
        hold_for(lambda: "fingers" not in top.look().text, "the dialog is empty", 0.5)


def test_a_terminal_that_was_stopped_before(pg):
    """Somebody pressed Ctrl-S at the shell."""
    with Vterm(["sh", "-c", "read _; exec \"$@\"", "sh", TOP, "top", pg.conninfo()]) as top:
        top.keys("\x13\n")
        top.wait("worker-0@node-a")
        top.keys("q")
        given_back(top, 0)


@pytest.mark.parametrize("wrapper", [[], ["sh", "-c", "ulimit -f 0; exec \"$@\"", "sh"]], ids=["", "no file may grow"])
@pytest.mark.parametrize("way, status", [("q", 0), ("?Q", 0), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGSEGV, 128 + signal.SIGSEGV)])
def test_a_terminal_that_takes_nothing(pg, way, status, wrapper):
    """The network to the person is dead: pictures are dropped, keys and signals still end it, and it does not spin."""
    with top_of(pg, *wrapper, width=300, height=100) as top:
        top.wait("worker-0@node-a")
        choke(top)
        assert measured(top.pid, 1.0) < 0.3
        if isinstance(way, str):
            top.keys(way)
        else:
            os.kill(top.pid, way)
        begin = time.monotonic()
        screen = top.end()
        assert screen.status == status and screen.line == screen.before
        assert screen.ended - begin < ENDS_WITHIN


def test_pictures_come_again(pg):
    """A terminal that goes on after a pause shows the newest picture, whole."""
    with top_of(pg, width=300, height=100) as top, top_of(pg, width=300, height=100) as fresh:
        top.wait("worker-0@node-a")
        choke(top)
        top.keys("?")
        top.read()
        top.wait("KEYS")
        fresh.wait("worker-0@node-a")
        fresh.keys("?")
        fresh.wait("KEYS")
        top.when(lambda screen: screen.steady() == fresh.look().steady(), "both show the same")


def test_a_hang_up_ends_it(pg):
    """With SIGHUP ignored, as under nohup, the terminal's end is seen all the same; nothing spins until then or after."""
    for wrapper in ([], ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]):
        with top_of(pg, *wrapper) as top:
            top.wait("worker-0@node-a")
            begin = time.monotonic()
            top.hang_up()
            screen = top.end()
            assert screen.status == 128 + signal.SIGHUP
            assert screen.ended - begin < ENDS_WITHIN
            assert screen.cpu < ENDS_WITHIN / 4, f"{screen.cpu} s of a processor"


def test_a_full_disk(pg, tmp_path):
    """The screen cannot be saved: it says so, leaves no half a file, and nothing ends."""
    mount = tmp_path / "full"
    mount.mkdir()
    small = ["unshare", "--mount", "--map-root-user", "sh", "-c",
             f"mount -t tmpfs -o size=4k none {mount} && cd {mount} && echo >full && exec \"$@\"", "sh"]
    with top_of(pg, *small, width=200, height=60) as top:
        top.wait("worker-0@node-a")
        top.keys("?S")
        top.wait(r"Could not write pgleader-\S+\.txt: No space left on device")
        assert os.listdir(f"/proc/{top.pid}/cwd") == ["full"]
        top.keys("Q")
        given_back(top, 0)


def test_a_file_that_may_not_grow(pg, tmp_path):
    """The shell's ulimit -f: SIGXFSZ would end it."""
    with top_of(pg, "sh", "-c", "ulimit -f 0; exec \"$@\"", "sh", cwd=tmp_path) as top:
        top.wait("worker-0@node-a")
        top.keys("S")
        top.wait(r"Could not write pgleader-\S+\.txt: File too large")
        assert not list(tmp_path.iterdir())
        top.keys("q")
        given_back(top, 0)


def test_q_answers_at_once_while_the_server_is_frozen(pg):
    """From the moment it freezes, before anybody knows, until the banner says so."""
    for known in (False, True):
        with top_of(pg, width=100) as top:
            top.wait("worker-0@node-a")
            pg.signal_all(signal.SIGSTOP)
            try:
                if known:
                    top.wait("STALE")
                begin = time.monotonic()
                top.keys("q")
                screen = given_back(top, 0)
                assert screen.ended - begin < Q_ANSWERS_WITHIN
            finally:
                pg.signal_all(signal.SIGCONT)


def without_cup(folder):
    """A terminal that is known, but cannot move its cursor."""
    entry = subprocess.run(["infocmp", "-x", "xterm-256color"], capture_output=True, text=True, check=True).stdout
    words = entry.replace("xterm-256color|", "nocup|", 1).replace("cup=", "XXcup=")
    (folder / "entry").write_text(words)
    subprocess.run(["tic", "-x", "-o", folder, folder / "entry"], check=True, capture_output=True)
    return {"TERM": "nocup", "TERMINFO": str(folder)}


@pytest.mark.parametrize("env", [lambda folder: {"TERM": "dumb"}, without_cup], ids=["dumb", "no cup"])
def test_a_terminal_that_cannot_move_its_cursor(pg, tmp_path, env):
    """The same, line by line; the terminal is never taken."""
    with top_of(pg, **env(tmp_path)) as top:
        screen = top.wait("worker-0@node-a")
        assert not screen.alternate and screen.line == screen.before
        os.kill(top.pid, signal.SIGTERM)
        given_back(top, 0)


def test_no_colour_where_none_is_wanted(pg):
    """Words and weight say the same; an empty NO_COLOR is none."""
    for env, coloured in (({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)):
        with Vterm([TOP, "top", pg.conninfo(port=1)], **env) as top:
            screen = top.wait("NO PICTURE YET")
            assert screen.coloured() == coloured, env
            assert any(look for row in screen.looks for look in row)
