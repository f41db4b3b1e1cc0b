# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""What pgleader top puts into each cell of a terminal: any size at any moment, any name, and nothing but its own."""

import os
import random
import re

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import program
from tests.support.scene import SEED_LEASE, config, lease_duty, lock_duty, server, take_lease, waiting
from tests.support.vterm import COLOUR, Vterm

TOP = program("pgleader")

# What a lease's holder calls itself; each would shift or hide what stands beside it.
HOSTILE = {
    "wide": "名前の長い労働者",
    "too-wide": "名前" * 200 + "の端",
    "odd-wide": "a名前b" * 20,
    "combining": "e\u0301o\u0308n\u0303" * 8,
    "stacked": "Z\u0301\u0302\u0303\u0304\u0305\u0306\u0307",
    "bare-mark": "\u0301begins with a mark",
    "escape": "\x1b[2J\x1b[31m\x1b]0;owned\x07",
    "control": "a\rb\tc\x08\x08d\x0be\x7f",
    "c1": "\x9b31m\x85\x90",
    "turned": "\u202eright to left\u200b\u2066\ufeff",
    "lines": "first\nsecond\u2028third",
    "face": "\U0001f600 smiles",
    "format": "%s%n%d",
    "long": "x" * 300,
}

@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql(SEED_LEASE.format(table="public.leader_lease"))
        for row, holder in HOSTILE.items():
            assert take_lease(cluster, row, holder, length="10 hours")
        held = [hold_lock(cluster, 700 + i, application_name=f"worker-{i}@node-a") for i in range(3)]
        yield cluster
        for conn in held:
            conn.close()


@pytest.fixture(scope="module")
def many(pg, tmp_path_factory):
    """A configuration of more duties than a screen has lines: led, vacant, leased."""
    path = tmp_path_factory.mktemp("many") / "pgleader.yml"
    duties = [lock_duty(f"jobs/number-{i}", 700 + i) for i in range(30)]
    duties += [lease_duty(f"leases/{row}", "public.leader_lease", row) for row in HOSTILE]
    path.write_text(config(server(pg, duties=duties)))
    return path


def top_of(path, *options, **more):
    return Vterm([TOP, "top", f"--config={path}", "--interval=500ms", *options], **more)


def press(top, keys):
    """One key after the other, each once the last has been drawn."""
    for key, shown in keys:
        top.keys(key)
        top.wait(shown)


# keys that lead to a screen, with what it shows then
SCREENS = {
    "list": [],
    "vacant duty": [("/", "Find: _"), ("number-17\r", r">.jobs/number-17"), ("\r", "nobody waits")],
    "help": [("?", "KEYS")],
    "locks": [("u", "LOCKS")],
}
SIZES = [(2, 1), (20, 5), (60, 10), (137, 41), (300, 100)]


def storm(top, random, rounds):
    """Other sizes at any moment: before, while and after a picture is drawn, also while keys are pressed."""
    for _ in range(rounds):
        width, height = random.choice(SIZES) if random.random() < 0.2 else (random.randint(2, 300), random.randint(1, 100))
        top.resize(width, height)
        if random.random() < 0.1:
            top.keys(random.choice("jk\x0c"))
        if random.random() < 0.05:
            top.look()


@pytest.mark.parametrize("name", SCREENS)
def test_a_storm_of_sizes_leaves_nothing_behind(many, name):
    """After it the terminal shows what one that was never resized shows."""
    chance = random.Random(name)
    with top_of(many, width=100, height=30) as top:
        top.wait("jobs/number")
        press(top, SCREENS[name])
        for width, height in SIZES:
            storm(top, chance, 60)
            top.keys("g")
            top.resize(width, height)
            with top_of(many, width=100, height=30) as fresh:
                fresh.wait("jobs/number")
                press(fresh, SCREENS[name])
                fresh.keys("g")
                fresh.resize(width, height)
                top.when(lambda screen: screen.steady() == fresh.look().steady(), f"{name} at {width}x{height} is whole")
        top.keys("Q")
        assert top.end().status == 0


def column_of(screen, title, text):
    """The cell in which a title begins; each of its cells holds one character."""
    cells = screen.row(title)
    return next(i for i in range(len(cells)) if "".join(cells[i:i + len(text)]) == text)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_name_moves_what_stands_beside_it(many, width):
    """In each row the state begins below its title, the numbers end below theirs, and the rows are as wide as the screen."""
    with top_of(many, width=width, height=60) as top:
        screen = top.wait("leases/wide")
        state = column_of(screen, " PID ", " STATE")
        held = column_of(screen, " PID ", "HELD ") + len("HELD")
        rows = [cells for cells, line in zip(screen.cells, screen.lines) if "es/" in line]
        assert len(rows) == len(HOSTILE)
        for cells in rows:
            assert len(cells) == width
            assert "".join(cells[state:state + 5]) == " led ", "".join(cells)
            assert re.fullmatch(r"\d[smh0-9]*\+ ", "".join(cells[held - 4:held + 1]).lstrip()), "".join(cells)
        for row in rows:  # nothing is drawn that would move a cursor or turn the line
            assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", "".join(row))
        assert "owned" not in "".join(screen.lines[-2:])


def test_the_ends_of_a_long_name_are_seen(many):
    with top_of(many, width=100, height=60) as top:
        line = next(line for line in top.wait("leases/wide").lines if "leases/too-wide" in line)
        assert re.search("[名前]…[名前]*の端 ", line), line


@pytest.mark.parametrize("row", HOSTILE)
def test_a_name_in_the_detail(many, row):
    """Its own line, and no other is touched."""
    with top_of(many, width=80, height=60) as top:
        top.wait("leases/wide")
        press(top, [("/", "Find: _"), (f"leases/{row}\r", f">.leases/{row} "), ("\r", "CANDIDATES")])
        lines = top.look().text.split("\n")
        assert lines[2] == f"leases/{row}" and lines[3].startswith("State       led")
        assert lines[4].startswith("Owner       ") and [line[:10] for line in lines if line.startswith("Held")] == ["Held      "]


def test_without_unicode(many):
    """In the locale C nothing but ASCII is written, whatever the names; the columns stay."""
    with top_of(many, width=100, height=60, LC_ALL="C") as top:
        screen = top.wait("leases/wide")
        assert all(cell.isascii() and len(cell) == 1 for row in screen.cells for cell in row)
        state = column_of(screen, " PID ", " STATE")
        assert {"".join(cells[state:state + 5]) for cells, line in zip(screen.cells, screen.lines) if "leases/" in line} == {" led "}


@pytest.mark.parametrize("name, drawn", [("xx_XX.UTF-8", "─"), ("xx_XX.utf8", "─"), ("xx_XX.ISO-8859-1", "-"), ("xx_XX", "-")])
def test_a_locale_that_is_not_there(many, name, drawn):
    """ssh brings its name along, and what it says of the terminal holds."""
    with top_of(many, height=60, LC_ALL=name) as top:
        assert top.wait("leases/wide").lines[-2].startswith(drawn)


def test_without_colour_nothing_is_lost(many):
    """The same characters, and the same looks but for the colours."""
    with top_of(many, width=100, height=60) as coloured, top_of(many, width=100, height=60, NO_COLOR="1") as plain:
        assert coloured.wait("leases/wide").coloured()
        plain.wait("leases/wide")
        text, looks = plain.look().steady()
        assert not plain.look().coloured()
        seen = coloured.when(lambda screen: screen.steady()[0] == text, "both show the same")
        assert [[look % COLOUR for look in row] for row in seen.looks] == looks


def test_hostile_names_of_a_database(pg, tmp_path):
    """Role, database and application, where PostgreSQL lets them be anything."""
    role, database = "ro\x1b[2Jle 名\u0301", "da\nta名"
    pg.sql(f'create role "{role}" superuser login')
    pg.sql(f'create database "{database}"')
    with hold_lock(pg, 4711, dbname=database, user=role, application_name="app\x1b[5m"), \
            waiting(pg, 4711, "waiter\x9b\t名前", dbname=database, user=role), \
            Vterm([TOP, "top", pg.conninfo(database)], width=100, height=30) as top:
        top.wait("advisory/4711")
        press(top, [("\r", "CANDIDATES")])
        lines = top.wait("  1 waiter").lines
        assert next(line for line in lines if line.startswith("Role")).startswith("Role        ro\ufffd[2Jle 名\u0301, from 127")
        assert next(line for line in lines if line.startswith("Owner")).rstrip() == "Owner       app?[5m"
        assert next(line for line in lines if line.startswith("  1")).count(" pid ") == 1


def test_what_libpq_and_the_server_say_stays_off_the_screen(pg):
    """Every message that a server can send with its answers, on the way in and while it works, and at a lost connection."""
    pg.sql("create database chatty")
    for setting in ("client_min_messages = debug5", "log_duration = on", "debug_print_plan = on", "debug_print_parse = on"):
        pg.sql(f"alter database chatty set {setting}")
    with Vterm([TOP, "top", "--interval=500ms", pg.conninfo("chatty")], width=100, height=30) as top:
        clean = top.wait("0 duties")
        with hold_lock(pg, 4712, dbname="chatty", application_name="worker@chatty"):
            screen = top.wait("worker@chatty")
        pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'chatty' and application_name like 'pgleader%'")
        screen = top.wait("released")
        assert len(screen.lines) == len(clean.lines)
        for words in ("DEBUG", "LOG", "NOTICE", "FATAL", "StartTransaction", "duration"):
            assert words not in screen.text
        top.keys("q")
        ended = top.end()
        assert ended.status == 0
        top.when(lambda seen: seen.given_back(), "the terminal is given back")
        assert not ended.text.strip()
