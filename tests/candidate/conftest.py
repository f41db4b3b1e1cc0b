# SPDX-License-Identifier: PostgreSQL
"""What most tests of candidates start from: a server with the ledger and a lease table, a duty, a file for the work's notes."""

import pytest

from tests.support.cluster import Cluster
from tests.support.kit import register
from tests.support.lease import create_table


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        cluster.install_ledger()
        create_table(cluster)
        yield cluster


@pytest.fixture
def duty(pg, request):
    """A registered duty of the test's own, led by a lock."""
    return register(pg, request.node.name)


@pytest.fixture
def name(request):
    """Of a lease, after the test."""
    return request.node.name[5:].replace("_", "-").replace("[", "-").rstrip("]")[-36:].lstrip("-")


@pytest.fixture
def shared(tmp_path):
    """Notes that any user's worker may write."""
    tmp_path.chmod(0o777)
    return tmp_path / "notes"
