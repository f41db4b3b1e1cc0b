# SPDX-License-Identifier: PostgreSQL
"""A ledger in a real server, for each major version in PGLEADER_TEST_MAJORS ("15", or "12,15,18")."""

import itertools
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


numbers = itertools.count(1)


def new_ledger(cluster):
    name = f"ledger_{next(numbers)}"
    cluster.sql(f"create database {name} template template_ledger")
    return Ledger(cluster, name)


@pytest.fixture(scope="module")
def ledger(cluster):
    """A database with the ledger, shared by a file's tests: each uses duties of its own."""
    with new_ledger(cluster) as made:
        yield made


@pytest.fixture
def own_ledger(cluster):
    """A database with the ledger for one test."""
    with new_ledger(cluster) as made:
        yield made
