# SPDX-License-Identifier: PostgreSQL
"""What most tests of `yield` and `top` start from: a server with the ledger and roles of little power, and `top` beside it."""

import pytest

from tests.support.cluster import Cluster
from tests.support.exporter import program
from tests.support.terminal import Tmux
from tests.support.yields import prepare


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        prepare(cluster)
        yield cluster


@pytest.fixture
def top(pg):
    """On a server where four workers lead."""
    with Tmux([program("pgleader"), "top", "--interval=500ms", pg.conninfo()]) as terminal:
        terminal.wait("worker-3@node-a")
        yield terminal
