# SPDX-License-Identifier: PostgreSQL
# ctest: serial asan tsan
"""pgleader top on a real terminal: found, read, steered, and left as it was found."""

import os
import signal
import threading
import time

import psycopg
import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import program
from tests.support.scene import four_leaders
from tests.support.terminal import Pty, Tmux, measured
from tests.support.wait import wait_until

TOP = program("pgleader")
Q_ANSWERS_WITHIN = 0.5 if os.environ.get("PGLEADER_VARIANT") else 0.1


@pytest.fixture(scope="module")
def pg():
    with four_leaders() as cluster:
        yield cluster


def wait_in_vain(conn, key):
    """Waits for a lock until the session is ended."""
    with pytest.raises(psycopg.OperationalError):
        conn.execute("select pg_advisory_lock(%s)", (key,))


def row(terminal, duty):
    """The duty's words, without the signs in front."""
    line = terminal.line(f"advisory/{duty} ")
    return line[2:].split() if line else None


def test_shows_who_leads(top, pg):
    pid = pg.sql("select pid from pg_stat_activity where application_name = 'worker-2@node-a'")[0][0]
    assert row(top, 702)[:3] == ["advisory/702", "worker-2@node-a", str(pid)]
    assert row(top, 702)[-1] == "led"
    assert "4 duties: 4 led" in top.screen()


def test_follows_a_change(top, pg):
    """A new leader, a waiter and a release appear by themselves."""
    holder = hold_lock(pg, 790, application_name="first@node-b")
    top.wait("first@node-b")
    waiter = pg.connect(application_name="second@node-b")
    thread = threading.Thread(target=lambda: waiter.execute("select pg_advisory_lock(790)"))
    thread.start()
    wait_until(lambda: row(top, 790)[-3] != "-", "the wait is shown")
    holder.close()
    thread.join()
    top.wait("second@node-b")
    waiter.close()
    top.wait(r"advisory/790 .*- none -.*released")
    top.keys("e")
    shown = top.wait("EVENTS")
    assert "takeover" in shown and "second@node-b" in shown and "lost" in shown


def test_find_detail_and_back(top):
    top.keys("/")
    top.wait("Find: _")
    top.type("worker-3")
    top.wait("Find: worker-3_")
    top.keys("Enter")
    top.wait(r">.advisory/703")
    top.keys("Enter")
    shown = top.wait("CANDIDATES")
    assert "advisory/703" in shown and "advisory 703 (classid 0, objid 703, objsubid 1)" in shown
    assert "worker-3@node-a" in shown and "worker-2@node-a" not in shown
    top.keys("Escape")
    top.wait(r">.advisory/703")


def test_queue_and_foreign_locks(top, pg):
    """The detail names who waits, the longest first; the view of locks those of other databases."""
    pg.sql("create database elsewhere")
    other = hold_lock(pg, 55, dbname="elsewhere", application_name="foreigner")
    waiters, threads = [], []
    for name in ("early@node-x", "late@node-y"):
        waiters.append(pg.connect(application_name=name))
        threads.append(threading.Thread(target=lambda c=waiters[-1]: wait_in_vain(c, 700)))
        threads[-1].start()
        wait_until(lambda n=name: pg.sql("select 1 from pg_locks l join pg_stat_activity a using (pid) "
                                         "where application_name = %s and not granted", (n,)), f"{name} waits")
    top.keys("g", "Enter")
    top.wait(r"1 early@node-x +pid \d+ +waits \d+\w+ .*\n +2 late@node-y +pid \d+ +waits")
    top.keys("u")
    top.wait(r"Foreign +1 .*\n +55 +pid \d+ +db \d+ +foreigner")
    pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name in ('early@node-x', 'late@node-y')")
    for thread, conn in zip(threads, waiters):
        thread.join()
        conn.close()
    other.close()


def test_filter_and_sort(top):
    top.keys("\\")
    top.type("worker-1")
    top.keys("Enter")
    shown = top.wait('filter "worker-1"')
    assert row(top, 701) and not row(top, 702), shown
    top.keys("Escape")
    top.wait("advisory/702")
    top.keys("I")
    top.wait("sort attention inverted")
    assert top.screen().index("advisory/703") < top.screen().index("advisory/700")
    top.keys(">")
    top.wait(r"Sort by \[attention\] duty owner held wait")
    top.keys("Right")
    top.wait("sort duty inverted")
    top.keys("w")
    top.wait("sort wait inverted")
    assert "Sort by" not in top.screen()


def test_pause_keeps_the_picture(top, pg):
    top.keys("Space")
    top.wait("PAUSED")
    conn = hold_lock(pg, 791, application_name="meanwhile@node-c")
    top.wait("PAUSED 2s")
    assert "meanwhile" not in top.screen()
    top.keys("Space")
    top.wait("meanwhile@node-c")
    conn.close()


def test_another_interval(top, pg):
    """Sessions and picture stay; the next look comes at the new pace."""
    sessions = "select count(*) from pg_stat_activity where application_name = 'pgleader'"
    before = pg.sql(sessions)
    top.keys("-")
    top.wait("every 1s")
    assert row(top, 700)
    conn = hold_lock(pg, 792, application_name="later@node-d")
    top.wait("later@node-d")
    assert pg.sql(sessions) == before
    conn.close()
    top.keys("+", "+")
    top.wait("No oftener than that")


def test_several_servers(pg, tmp_path):
    """Each has its line; one that is away hides nothing of the other, nor can it be taken for quiet."""
    config = tmp_path / "pgleader.yml"
    config.write_text(f"""servers:
  - name: here
    conninfo: {pg.conninfo()}
    duties: [{{duty: jobs/third, lock: 702}}, {{duty: jobs/nobody, lock: 9}}]
  - name: away
    conninfo: {pg.conninfo(port=1)}
""")
    with Tmux([TOP, "top", f"--config={config}"], width=120) as top:
        top.wait("1 of 2 servers live")
        lines = top.wait("away  NO PICTURE YET: could not connect: Connection refused").splitlines()
        assert "here" in lines[3] and "jobs/nobody" in lines[4] and "VACANT" in lines[4]
        assert top.line("jobs/third").split()[1] == "worker-2@node-a"
        top.keys("q")
        assert top.ended() == 0
    with Tmux([TOP, "top", f"--config={config}", "--server=here"], width=120) as top:
        assert "pgleader  here  primary" in top.wait("worker-2@node-a")


def test_too_little_privilege_is_said(pg):
    """Such a role sees who holds a lock, but cannot tell one session from another of the same pid."""
    pg.sql("create role plain login")
    with Tmux([TOP, "top", pg.conninfo(user="plain")], width=140) as top:
        assert "UNPRIVILEGED" in top.wait("worker-0@node-a").splitlines()[0]
        top.keys("Enter")
        top.wait(r"Session +pid \d+, began \?")


def test_help_lists_every_key(top):
    top.keys("?")
    shown = top.wait("KEYS")
    assert "Enter Right" in shown
    top.keys("G")
    top.wait("UNPRIVILEGED")
    top.keys("q")
    top.wait("worker-0@node-a")


def test_any_size(top):
    """From nothing to wide, in every screen; what is shown then is whole."""
    for key in ("Enter", "?", "Escape", "Escape", "u", "Escape"):
        for width, height in ((1, 1), (20, 5), (200, 60), (60, 10)):
            top.resize(width, height)
        top.keys(key)
    top.resize(140, 20)
    shown = top.wait("PROGRESS")
    assert "worker-3@node-a" in shown
    top.resize(60, 12)
    shown = top.wait("DUTY +OWNER +PID +HELD STATE")
    assert all(len(line) <= 60 for line in shown.splitlines())


def test_saves_the_screen(top, tmp_path):
    top.keys("S")
    name = top.wait(r"This screen is in pgleader-\S+\.txt")
    saved = next(top.home.glob("pgleader-*.txt")).read_text()
    assert "worker-0@node-a" in saved and "pgleader-" in name


@pytest.mark.parametrize("term", ["linux", "vt100"])
def test_a_terminal_without_another_screen(pg, term):
    """The picture stays, and the shell's words stand below it on a line of their own."""
    with Tmux([TOP, "top", pg.conninfo()], TERM=term) as top:
        top.wait("worker-3@node-a")
        top.keys("q")
        assert top.ended() == 0
        assert top.line("ended").strip() == "ended 0." and "worker-3@node-a" in top.screen()


def test_q_leaves_the_terminal_as_it_was(top):
    top.keys("q")
    assert top.ended() == 0
    assert top.restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGSEGV])
def test_signals_leave_the_terminal_as_it_was(top, number):
    os.kill(top.pid(), number)
    assert top.ended() == 128 + number
    assert top.restored()


def test_ctrl_c_ends_it(top):
    top.keys("C-c")
    assert top.ended() == 128 + signal.SIGINT
    assert top.restored()


def test_ctrl_z_gives_the_terminal_back(top):
    pid = top.pid()
    top.keys("C-z")
    assert top.ended() == 128 + signal.SIGSTOP
    assert top.restored()
    os.kill(pid, signal.SIGKILL)


def test_nothing_else_reaches_the_screen(pg):
    """What is written to standard error meanwhile is kept, and shown at the end."""
    with Tmux([TOP, "top", "--interval=500ms", pg.conninfo()]) as top:
        top.wait("worker-0@node-a")
        with open(f"/proc/{top.pid()}/fd/2", "w", encoding="utf-8") as stream:
            stream.write("noise of a library\n")
        top.keys("C-l", "j")
        top.wait(">.advisory/701")
        assert "noise" not in top.screen()
        top.keys("q")
        top.ended()
        assert "noise of a library" in top.screen()


def test_a_hang_up_ends_it_even_unheard(pg):
    """Without SIGHUP, as under nohup, the terminal's end is seen all the same, and nothing spins."""
    with Pty([TOP, "top", pg.conninfo()], ignored=[signal.SIGHUP]) as terminal:
        terminal.wait(b"worker-0@node-a")
        terminal.hang_up()
        assert terminal.ended(2.0) == 128 + signal.SIGHUP


def test_the_screen_outlives_the_server():
    """Stopped: why and how old; started again: live again."""
    with Cluster() as own:
        conn = hold_lock(own, 42, application_name="alone@node-a")
        with Tmux([TOP, "top", "--interval=500ms", own.conninfo()]) as top:
            top.wait("alone@node-a.* led")
            own.stop("immediate")
            conn.close()
            shown = top.wait(r"STALE \d+s, picture of \d\d:\d\d:\d\dZ: could not connect: Connection refused *\n")
            assert "UNKNOWN, was led" in shown and "alone@node-a" in shown
            own.start()
            top.wait(r"1 duty: 1 released|0 duties")
            top.keys("q")
            assert top.ended() == 0 and top.restored()


def test_a_frozen_server_freezes_nothing():
    with Cluster() as own:
        conn = hold_lock(own, 42, application_name="alone@node-a")
        with Pty([TOP, "top", "--interval=500ms", own.conninfo()], width=100) as terminal:
            terminal.wait(b"alone@node-a")
            own.signal_all(signal.SIGSTOP)
            try:
                terminal.wait(b"STALE")
                terminal.wait(b"UNKNOWN, was led")
                begin = time.monotonic()
                terminal.send(b"?")
                terminal.wait(b"KEYS", Q_ANSWERS_WITHIN)
                terminal.send(b"Q")
                assert terminal.ended() == 0
                assert time.monotonic() - begin < 2 * Q_ANSWERS_WITHIN
            finally:
                own.signal_all(signal.SIGCONT)
        conn.close()


def test_a_terminal_that_cannot_move_its_cursor(pg):
    """The same lines, one picture after the other, and no escape."""
    with Pty([TOP, "top", pg.conninfo()], TERM="dumb") as terminal:
        terminal.wait(b"worker-0@node-a")
        assert b"\x1b" not in terminal.seen


def test_without_a_command_on_a_terminal(pg):
    with Tmux([TOP], PGHOST="127.0.0.1", PGPORT=str(pg.port), PGUSER=pg.user, PGDATABASE="postgres") as top:
        top.wait("worker-0@node-a")
        top.keys("q")
        assert top.ended() == 0


def test_no_colour_where_none_is_wanted(pg):
    """A vacancy is red; with NO_COLOR it is said in words and weight alone."""
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        gone = pg.conninfo(port=1)
        with Pty([TOP, "top", gone], **env) as terminal:
            terminal.wait(b"NO PICTURE YET")
            assert (b"\x1b[31m" in terminal.seen) == coloured


def test_idle_costs_nothing(pg):
    with Tmux([TOP, "top", pg.conninfo()]) as top:
        top.wait("worker-0@node-a")
        share = measured(top.pid(), 6.0)
        assert share < 0.01, f"{share:.2%} of a core"
