# SPDX-License-Identifier: PostgreSQL
"""A ledger in a real server, for each major version in PGLEADER_TEST_MAJORS ("15", or "12,15,18")."""

import os

import pytest

from tests.support.cluster import Cluster

from .ledger import Ledger

MAJORS = [int(word) for word in os.environ.get("PGLEADER_TEST_MAJORS", "15").split(",")]

# Logins, each with one of the ledger's roles, or none. Not superusers: those pass every check.
LOGINS = {"worker": "pgleader_candidate", "watcher": "pgleader_reader", "oncall": "pgleader_operator",
          "stranger": None}


@pytest.fixture(scope="session", params=MAJORS, ids="pg{}".format)
def cluster(request):
    with Cluster(request.param) as server:
        server.sql("create database ledger")
        server.install_ledger("ledger")
        for name, role in LOGINS.items():
            server.sql(f"create role {name} login" + (f" in role {role}" if role else ""))
        yield server


@pytest.fixture(scope="session")
def shared_ledger(cluster):
    made = Ledger(cluster, "ledger")
    yield made
    made.close()


@pytest.fixture
def ledger(shared_ledger):
    """A database with the ledger, in which each test uses duties of its own: making one is slow."""
    yield shared_ledger
    shared_ledger.close_sessions()


@pytest.fixture
def own_ledger(ledger):
    """The same, with no duty in it yet."""
    ledger.empty()
    return ledger


@pytest.fixture
def other_ledger(cluster):
    """A second database of the same server, with a ledger of its own."""
    cluster.sql("create database other_ledger")
    cluster.install_ledger("other_ledger")
    made = Ledger(cluster, "other_ledger")
    yield made
    made.close()
    cluster.sql("drop database other_ledger")


@pytest.fixture(scope="session")
def bare_database(cluster):
    cluster.sql("create database bare")
    return "bare"


@pytest.fixture
def bare(cluster, bare_database):
    """The name of a database without the ledger."""
    cluster.sql("drop schema if exists pgleader cascade", dbname=bare_database)
    cluster.sql("alter database bare owner to postgres")
    return bare_database
