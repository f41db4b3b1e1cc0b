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
        server.sql("create database template_ledger")
        server.install_ledger("template_ledger")
        for name, role in LOGINS.items():
            server.sql(f"create role {name} login" + (f" in role {role}" if role else ""))
        yield server


@pytest.fixture(scope="session")
def databases(cluster):
    """Two databases with the ledger, and one without. Making one is slow: tests share them."""
    for name in ("ledger", "other_ledger"):
        cluster.sql(f"create database {name} template template_ledger")
    cluster.sql("create database bare")
    made = {name: Ledger(cluster, name) for name in ("ledger", "other_ledger", "bare")}
    yield made
    for database in made.values():
        database.close()


@pytest.fixture
def ledger(databases):
    """A database with the ledger, in which each test uses duties of its own."""
    yield databases["ledger"]
    databases["ledger"].close_sessions()


@pytest.fixture
def own_ledger(ledger):
    """The same, with no duty in it yet."""
    ledger.empty()
    return ledger


@pytest.fixture
def other_ledger(databases):
    """A second database of the same server, with a ledger of its own."""
    yield databases["other_ledger"]
    databases["other_ledger"].close_sessions()


@pytest.fixture
def bare(cluster, databases):
    """The name of a database without the ledger."""
    databases["bare"].sql("drop schema if exists pgleader cascade")
    cluster.sql("alter database bare owner to postgres")
    return "bare"
