# SPDX-License-Identifier: PostgreSQL
"""scripts/install-deps: what it says is missing, and the servers that it fetched."""

import subprocess

import pytest

from tests.support.cluster import ROOT, bindir, demote

SCRIPT = ROOT / "scripts/install-deps"


def run(*arguments):
    return subprocess.run([SCRIPT, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def test_nothing_is_missing_after_installing():
    """Where the tests run, everything that they need is there: the list has no name that a package does not have."""
    done = run("--test", "--versions", "--print")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("arguments, status, words", [
    (["--help"], 0, "create_main_cluster"),
    (["--no-such-option"], 1, "unknown option --no-such-option"),
])
def test_usage(arguments, status, words):
    done = run(*arguments)
    assert done.returncode == status
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize("major", range(12, 19))
def test_every_server_runs_as_the_servers_user(major):
    """Also for root, whose servers run as another user, who must be able to read them."""
    done = subprocess.run([bindir(major) / "postgres", "--version"], cwd="/", capture_output=True, text=True, **demote())
    assert done.returncode == 0, done.stderr
    assert f"PostgreSQL) {major}." in done.stdout
