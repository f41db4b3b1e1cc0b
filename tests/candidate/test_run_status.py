# SPDX-License-Identifier: PostgreSQL
# ctest: asan
"""The status file: whole and valid at every moment, whatever it is and whatever the strings hold."""

import json
import os
import stat
import subprocess
import threading

import pytest

from tests.support.candidate import Candidate, wait_for_note
from tests.support.cluster import Cluster, free_port
from tests.support.exporter import program
from tests.support.wait import wait_until

NAMES = ['quo"te', "back\\slash", "new\nline", "tab\t", "\x01\x1f\x7f", "snow\u2603man", "\U0001f418", "</script>", "x" * 900]


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


def away(path, *options):
    """A pgleader-run that gives up at once."""
    argv = [program("pgleader-run"), "--duty=jobs/away", "--lock=1", "--timeout=1ms", f"--status-file={path}", *options,
            f"host=127.0.0.1 port={free_port()}", "--", "true"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_valid_whatever_the_name(tmp_path, name):
    path = tmp_path / "status"
    assert away(path, f"--name={name}").returncode == 69
    assert json.loads(path.read_text())["instance"] == name


def test_running_until_it_ends(pg, tmp_path):
    """It says so from the first moment, and no reader ever sees half a file or an older run's end."""
    with Candidate(pg.conninfo(), "x", "jobs/status", None, ["--lock=5"]) as run:
        run.status_file.write_text('{"outcome": "lost", "status": 76}')
    with Candidate(pg.conninfo(), "x", "jobs/status", None, ["--lock=5"]) as run:
        wait_for_note(run.notes, "beat")
        status = run.status()
        assert (status["outcome"], status["pid"]) == ("running", run.process.pid) and "status" not in status
        seen, stop = [], threading.Event()

        def read_all_the_time():
            while not stop.is_set():
                seen.append(json.loads(run.status_file.read_text())["outcome"])

        reader = threading.Thread(target=read_all_the_time)
        reader.start()
        run.signal(15)
        assert run.wait() == 0
        wait_until(lambda: seen[-1] == "command-ended", "the reader has seen the end")
        stop.set()
        reader.join()
        assert set(seen) == {"running", "command-ended"}
        assert list(run.base.iterdir()) and not [p for p in run.base.iterdir() if p.name.startswith("status.json.")]


@pytest.mark.parametrize("where", ["missing/status", "folder", "file/status"])
def test_unwritable_is_an_error_at_the_start(tmp_path, where):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    done = away(tmp_path / where)
    assert done.returncode == 64 and "could not write the status file" in done.stderr
    assert [p.name for p in tmp_path.rglob("*")] == [p.name for p in tmp_path.rglob("*") if p.name in ("folder", "file")]


def test_what_must_not_be_replaced(tmp_path):
    """A device, a pipe and a symbolic link stay what they are."""
    link, target, fifo = tmp_path / "link", tmp_path / "target", tmp_path / "fifo"
    target.write_text("old, and longer than what is written now " * 40)
    link.symlink_to(target)
    assert away(link).returncode == 69
    assert link.is_symlink() and json.loads(target.read_text())["outcome"] == "unavailable"
    assert away("/dev/null").returncode == 69 and stat.S_ISCHR(os.stat("/dev/null").st_mode)
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert away(fifo).returncode == 69
    assert [json.loads(line)["outcome"] for line in os.read(reader, 65536).splitlines()] == ["running", "unavailable"]
    os.close(reader)


def test_permissions_are_the_umask_s(tmp_path):
    path = tmp_path / "status"
    os.umask(0o027)
    assert away(path).returncode == 69
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_in_a_folder_that_is_not_ours(tmp_path):
    """As a container's termination log: the file can be written, nothing beside it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "status"
    path.write_text("old, and longer than what is written now " * 40)
    mounted = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0" && exec "$@"', path]
    argv = [program("pgleader-run"), "--duty=jobs/away", "--lock=1", "--timeout=1ms", f"--status-file={path}",
            f"host=127.0.0.1 port={free_port()}", "--", "true"]
    done = subprocess.run([*mounted, *argv], capture_output=True, text=True, timeout=20)
    assert done.returncode == 69, done.stderr
    assert json.loads(path.read_text())["outcome"] == "unavailable"
    assert [p.name for p in folder.iterdir()] == ["status"]
