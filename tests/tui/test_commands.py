# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""What every subcommand owes its caller: the server that was named and no other, no password for others to read, and no word lost in silence."""

import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.command import pgleader
from tests.support.exporter import program
from tests.support.scene import config, server
from tests.support.status import environment
from tests.support.wait import wait_until
from tests.support.yields import alive, begin, dry, stranger

SERVERS = [["status"], ["yield", "advisory/1", "--dry-run"], ["doctor"], ["key", "1"], ["ledger", "status"], ["ledger", "install", "--yes"]]
PRINTERS = [("status --json", 2), ("doctor", 2), ("doctor --json", 2), ("key 1", 74), ("key 1 --json", 74), ("ledger status", 74)]


def named(argv):
    return " ".join(argv)


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.sql("create database other")
        cluster.sql("create role worker login")
        yield cluster


@pytest.mark.parametrize("argv", SERVERS, ids=named)
def test_two_servers_are_meant(pg, tmp_path, argv):
    """A CONNINFO and a --config: neither is taken, and nothing is installed in either."""
    path = tmp_path / "pgleader.yml"
    path.write_text(config(server(pg)))
    done = pgleader(*argv, pg.conninfo("other"), "--config", path)
    assert done.returncode == 64 and "CONNINFO and --config exclude each other" in done.stderr and not done.stdout
    assert [pg.sql("select to_regnamespace('pgleader')", dbname=name) for name in ("postgres", "other")] == [[(None,)]] * 2


@pytest.mark.parametrize("argv", [*SERVERS, ["status", "--watch"], ["top"]], ids=named)
def test_a_password_is_not_for_ps(argv):
    """It stands on the command line no longer than it takes to read it, while the server has yet to answer."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        conninfo = f"host=127.0.0.1 port={port} dbname=app user=me password=hunter2"
        process = subprocess.Popen([program("pgleader"), *argv, conninfo], env=environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: f"127.0.0.1:{port}/app" in cmdline(process), "the command line is covered")
            assert "hunter2" not in cmdline(process)
        finally:
            process.kill()
            process.wait()


def cmdline(process):
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_many_that_do_not_answer(pg, tmp_path):
    """Servers are asked at once: four that are silent cost what one does, and the fifth is shown."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        path = tmp_path / "pgleader.yml"
        silent = [{"name": f"mute{n}", "conninfo": f"host=127.0.0.1 port={mute.getsockname()[1]} dbname=x user=u{n}"} for n in range(4)]
        path.write_text(config(*silent, server(pg, "well")))
        began = time.monotonic()
        asked = [subprocess.Popen([program("pgleader"), *words.split(), "--config", path], env=environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for words in ("status", "doctor", "ledger status", "key 1")]
        for process in asked:
            told, _ = process.communicate(timeout=60)
            assert process.returncode in (2, 69) and "mute3" in told and "well" in told, f"{process.args}: {told}"
        assert time.monotonic() - began < 20, "each server may take 10 s"


def test_a_terminal_obeys_nothing(pg):
    """What a worker calls itself and its run, and what was typed: no control character of it is printed, none that turns the line, no
    byte that is no character; the letters are."""
    evil = "\x1b[2J\u202eevil\n日本"
    pg.install_ledger()
    pg.sql("grant pgleader_candidate to worker; select pgleader.register_duty('jobs/evil', lock_key => 7101)")
    with closing(stranger(pg, 7101)) as leader:
        generation = begin(leader, "jobs/evil", evil)
        leader.execute("select * from pgleader.claim_run('jobs/evil', %s, %s, '1 hour')", (evil, generation))
        told = pgleader("yield", "jobs/evil", "--dry-run", pg.conninfo()).stdout
        assert "?[2J?evil?日本" in told and not {"\x1b", "\u202e"} & set(told)
        done = pgleader("yield", f"jobs/{evil}\udcff", "--dry-run", pg.conninfo())
        assert "jobs/?[2J?evil?日本?" in done.stderr and done.returncode == 64
    pg.sql("select pgleader.retire_duty('jobs/evil')")


FULL = {"a full disk": 'exec "$@" >/dev/full', "a file that may not grow": 'ulimit -f 0; exec "$@" >"$0"'}


def without_room(script, path, argv):
    return subprocess.run(["bash", "-c", FULL[script], path / "out", *argv], env=environment(), stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.parametrize("script", FULL)
@pytest.mark.parametrize("words, code", PRINTERS)
def test_no_room_for_the_result(pg, tmp_path, words, code, script):
    """What could not be written was not told: its own status, and why."""
    done = without_room(script, tmp_path, [program("pgleader"), *words.split(), pg.conninfo()])
    assert done.returncode == code and "could not write" in done.stderr, done


@pytest.mark.parametrize("script", FULL)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["steps", "json"])
def test_no_room_for_what_a_yield_says(pg, tmp_path, options, script):
    """The deed goes on to its end, and the status tells how it ended."""
    with closing(stranger(pg, 7102)) as leader:
        token = dry(pg.conninfo(), "advisory/7102").json["confirm"]
        argv = [program("pgleader"), "yield", "advisory/7102", "--reason=x", f"--confirm={token}", "--override=no-successor", "--wait=100ms",
                *options, pg.conninfo()]
        done = without_room(script, tmp_path, argv)
        assert done.returncode == 11 and "could not write the result" in done.stderr and not alive(pg, leader), done


@pytest.mark.parametrize("closed", ["1", "2", "1 2", "0 1 2"])
def test_closed_standard_files(pg, closed):
    """Started without them nothing is printed into the connection that would get their numbers: the deed is done, and the server hears
    nothing but its protocol."""
    shut = " ".join(f"{fd}>&-" for fd in closed.split())
    with closing(stranger(pg, 7100)) as leader:
        token = dry(pg.conninfo(), "advisory/7100").json["confirm"]
        argv = [program("pgleader"), "yield", "advisory/7100", "--reason=x", f"--confirm={token}", "--override=no-successor", "--wait=100ms",
                pg.conninfo()]
        done = subprocess.run(["bash", "-c", f'"$@" {shut}', "-", *argv], env=environment(), timeout=60)
        assert done.returncode == 11 and not alive(pg, leader)
        assert "invalid frontend message" not in pg.log_text()
        assert subprocess.run(["bash", "-c", f'"$@" {shut}', "-", program("pgleader"), "status", "--json", pg.conninfo()], env=environment(),
                              stdout=subprocess.DEVNULL, timeout=60).returncode == (2 if "1" in closed else 0)
