# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The faces of `pgleader status`: JSON and its page, CSV, the table on a terminal and off it, --watch, and readers that go."""

import errno
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import unicodedata
from contextlib import ExitStack, closing

import jsonschema
import pytest

from tests.support.cluster import ROOT, Cluster, hold_lock
from tests.support.exporter import program
from tests.support.scene import SEED_LEASE, config, holding, lease_duty, server, take_lease
from tests.support.status import CHECK, SCHEMA, Picture, environment, rows, status, table
from tests.support.wait import wait_until

HOSTILE = "a\"b',\r\n\x1b[31m\x7f\x9b日本ё\u202egnp\u0301\\"
MANY = 500


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        cluster.sql(SEED_LEASE.format(table="public.leader_lease"))
        yield cluster


@pytest.fixture(scope="module")
def hostile(pg, tmp_path_factory):
    """A leader whose role, cursor and lease hold what nobody should write; the option that names the server."""
    pg.sql("select pgleader.register_duty('jobs/hostile', lock_key => 1)")
    pg.sql('create role "%s" superuser login' % HOSTILE.replace('"', '""').replace("%", "%%"))
    take_lease(pg, HOSTILE, HOSTILE, "1 hour")
    path = tmp_path_factory.mktemp("hostile") / "pgleader.yml"
    path.write_text(config(server(pg, duties=[lease_duty("reports/hostile", "public.leader_lease", HOSTILE)])))
    with holding(pg, 1, "it's \"me\",", user=HOSTILE) as conn:
        generation, = conn.execute("select pgleader.begin_term('jobs/hostile', 'me')").fetchone()
        conn.execute("select * from pgleader.claim_run('jobs/hostile', %s, %s, '1 hour')", (HOSTILE, generation))
        conn.execute("select pgleader.advance_run('jobs/hostile', %s, %s, %s)", (HOSTILE, generation, HOSTILE))
        yield f"--config={path}"


def flat(node, path=""):
    for name, field in node.get("properties", {}).items():
        kinds = [field["type"]] if isinstance(field["type"], str) else field["type"]
        here = f"{path}.{name}" if path else name
        here += "[]" if "array" in kinds else ""
        yield here, " or ".join(kinds), field["description"]
        yield from flat(field.get("items", field), here)


def test_the_page_has_every_field():
    """runbook/status-json.md says of each field what the schema says, in its order, and of no other."""
    page = (ROOT / "runbook/status-json.md").read_text()
    assert re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \| (.*) \|$", page, re.M) == list(flat(SCHEMA))
    codes = re.findall(r"^\| (\d+) \| ", page, re.M)
    assert codes == ["0", "1", "2", "64"]


def test_the_schema_is_strict():
    """Every object needs all of its fields, and here allows no other: a new one fails until it is documented."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)

    def walk(node):
        if "properties" in node:
            assert node["required"] == list(node["properties"])
        for child in [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])]:
            walk(child)
    walk(SCHEMA)
    golden = json.loads((ROOT / "tests/golden/status.json").read_text())
    CHECK.validate(golden)
    duty = golden["servers"][0]["duties"][0]
    for broken in ({**duty, "more": 1}, {**duty, "generation": 0.5}, {**duty, "state": "fine"}, {k: v for k, v in duty.items() if k != "run"}):
        golden["servers"][0]["duties"][0] = broken
        with pytest.raises(jsonschema.ValidationError):
            CHECK.validate(golden)


def test_hostile_names_as_json(hostile):
    """What the database holds is what the reader gets, and no control character is written as such."""
    seen = Picture(hostile, expect=0)
    job, lease = seen.duty("jobs/hostile"), seen.duty("reports/hostile")
    assert (job["owner"]["usename"], job["owner"]["application_name"]) == (HOSTILE, "it's \"me\",")
    assert (job["run"]["key"], job["run"]["cursor"], job["run"]["position"]) == (HOSTILE, HOSTILE, None)
    assert (lease["lease"]["holder"], lease["key"]) == (HOSTILE, "public.leader_lease:" + HOSTILE)
    text = status("--json", hostile).stdout
    assert not [c for c in text if unicodedata.category(c) == "Cc" and c != "\n"]


def test_hostile_names_as_csv(hostile):
    """Python's reader gets every field back; control characters that a terminal obeys are U+FFFD."""
    done = status("--csv", hostile)
    tame = re.sub("[\x1b\x7f\x9b]", "\ufffd", HOSTILE)
    found = {row["duty"]: row for row in rows(done)}
    assert (found["jobs/hostile"]["owner_usename"], found["jobs/hostile"]["run_cursor"]) == (tame, tame)
    assert (found["reports/hostile"]["lease_holder"], found["reports/hostile"]["lease_expires_at"][-1]) == (tame, "Z")
    assert all(None not in row and None not in row.values() for row in found.values()), "as many fields as the header"
    assert done.stdout.startswith("server,up,duty,state,") and done.stdout.endswith("\r\n")


def test_hostile_names_as_text(hostile):
    """One line each, whole, without anything that a terminal obeys or that turns the line round."""
    done = status(hostile)
    shown = HOSTILE
    for c in "\r\n\x1b\x7f\x9b\u202e":
        shown = shown.replace(c, "\ufffd")
    assert len(table(done)) == 2 and shown in done.stdout
    assert status(hostile, f"jobs/{HOSTILE}").stderr.startswith(f'pgleader status: could not find duty "jobs/{shown}": ')
    assert not [c for c in done.stdout if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]


def test_bytes_that_are_not_utf8(pg):
    """A database without an encoding: each bad byte becomes U+FFFD in every format."""
    pg.sql("create database bytes encoding sql_ascii lc_collate 'C' lc_ctype 'C' template template0")
    pg.sql(SEED_LEASE.format(table="public.leader_lease"), dbname="bytes")
    pg.sql("insert into leader_lease values ('r', E'bad\\xff\\xc3(', now() + interval '1 hour')", dbname="bytes",
           client_encoding="sql_ascii")
    path = pg.base / "bytes.yml"
    path.write_text(config(server(pg, dbname="bytes", duties=[lease_duty("reports/bytes", "leader_lease", "r")])))
    tame = "bad\ufffd\ufffd("
    assert Picture(f"--config={path}", expect=0).duty("reports/bytes")["lease"]["holder"] == tame
    assert rows(status("--csv", f"--config={path}"))[0]["lease_holder"] == tame
    assert tame in status(f"--config={path}").stdout


@pytest.fixture(scope="module")
def many(pg):
    """A database with 500 duties, all of them led by one session; the conninfo."""
    pg.sql("create database many")
    pg.install_ledger("many")
    pg.sql("select pgleader.register_duty('jobs/' || lpad(i::text, 40, 'x'), lock_key => i) from generate_series(1, %s) i",
           (MANY,), dbname="many")
    with closing(pg.connect("many", application_name="all-of-them")) as conn:
        conn.execute("select pg_advisory_lock(i) from generate_series(1, %s) i", (MANY,))
        yield pg.conninfo("many")


def test_five_hundred_duties(many):
    """All of them in every format, each whole where there is no terminal."""
    assert set(Picture(many, expect=0).states().values()) == {"led"}
    assert len(rows(status("--csv", many))) == MANY
    lines = table(status(many))
    assert len(lines) == MANY and all(len(line[1]) == 45 and line[0] == "led" for line in lines)


@pytest.mark.parametrize("option", ["", "--json", "--csv", "--watch --interval=100ms"])
def test_a_reader_that_goes(many, option):
    """head -1 has its line; nothing is said, and the status is that of the duties."""
    script = f'"$0" status {option} "$1" | head -c 20 >/dev/null; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", script, program("pgleader"), many], env=environment(), capture_output=True,
                          text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_full_disk(many):
    """What could not be written was not told: 2, and why; --watch ends by it."""
    for option in ([], ["--json"], ["--watch"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([program("pgleader"), "status", *option, many], env=environment(), stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (2, "pgleader status: could not write: No space left on device\n")


def terminal(width, *argv, lang="C.UTF-8", term="xterm", **env):
    """What `pgleader status` writes to a terminal of that width, and its exit status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen([program("pgleader"), "status", *argv], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**environment(**env), "LC_ALL": lang, "TERM": term})
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError as error:
        assert error.errno == errno.EIO  # the other side is closed
    os.close(ours)
    return process.wait(timeout=10), text.decode("utf-8").replace("\r\n", "\n")


def cells(line):
    """How many cells a line takes: wide characters two, those that combine none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140, 200])
def test_the_table_fits_a_terminal(hostile, width):
    """No line of it is wider; state, duty and owner are there at every usual width; a narrow one cuts."""
    code, text = terminal(width, hostile, NO_COLOR="1")
    lines = text.split("\n\n")[1].splitlines()
    assert code == 0 and len(lines) == 3 and max(map(cells, lines)) <= width, text
    if width >= 40:
        assert "DUTY" in lines[0] and "led  " in lines[1]
    if width == 200:
        assert "jobs/hostile" in text and "GENERATION" in lines[0] and "PROGRESS" in lines[0]


def test_colour_is_for_terminals_that_want_it(hostile):
    """Never the only sign, and none with NO_COLOR or TERM=dumb."""
    assert "\033[32mled\033[0m" in terminal(100, hostile, NO_COLOR="")[1]
    for kind in ({"NO_COLOR": "1"}, {"term": "dumb"}):
        assert "\033" not in terminal(100, hostile, **kind)[1]


def test_a_terminal_without_unicode(hostile):
    """Its locale is obeyed: what it cannot show is a question mark."""
    text = terminal(100, hostile, lang="C", NO_COLOR="1")[1]
    assert text.isascii() and "??" in text
    assert not status(hostile).stdout.isascii(), "a program reads UTF-8 whatever the locale"


def watching(*argv):
    return subprocess.Popen([program("pgleader"), "status", "--watch", "--interval=100ms", *argv],
                            env=environment(TERM="dumb"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_watch_sees_a_takeover(pg, sent):
    """Picture after picture on one connection: led, vacant, led by another; a signal ends it with 0."""
    pg.sql("select pgleader.register_duty('jobs/watched', lock_key => 5)")
    with ExitStack() as stack:
        first = stack.enter_context(closing(hold_lock(pg, 5, "first")))
        process = watching("jobs/watched", pg.conninfo())
        try:
            def line(start):
                return wait_until(lambda: (found := process.stdout.readline()).startswith(start) and found, start)
            assert "first@" in line("led ")
            sessions = "select pid from pg_stat_activity where application_name = 'pgleader'"
            pid = pg.sql(sessions)
            first.close()
            assert "nobody" in line("vacant ")
            stack.enter_context(closing(hold_lock(pg, 5, "second")))
            assert "second@" in line("led ")
            assert pg.sql(sessions) == pid, "one connection"
            process.send_signal(sent)
            output, errors = process.communicate(timeout=10)
            assert (process.returncode, errors) == (0, "") and "\033" not in output
        finally:
            process.kill()
            process.wait()
    pg.sql("select pgleader.retire_duty('jobs/watched')")


def test_watch_outlives_the_server():
    """DOWN and how old the last picture is, the duties as unknown; then up again."""
    with Cluster() as cluster, closing(hold_lock(cluster, 6, "holder")):
        path = cluster.base / "watch.yml"
        path.write_text(json.dumps({"servers": [{"name": "db", "conninfo": cluster.conninfo(), "duties": [{"duty": "jobs/six", "lock": 6}]}]}))
        process = watching(f"--config={path}")
        try:
            def line(start):
                return wait_until(lambda: (found := process.stdout.readline()).startswith(start) and found, start, deadline=30)
            assert "jobs/six" in line("led ")
            cluster.stop("immediate")
            down = line("server db: DOWN: could not ")
            assert re.search(r"; the last good picture is \d+s old$", down), down
            assert "jobs/six" in line("unknown ")
            cluster.start()
            line("server db: up, primary")
            assert "jobs/six" in line("vacant ")
        finally:
            process.kill()
            process.communicate()
