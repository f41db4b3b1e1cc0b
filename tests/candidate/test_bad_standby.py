# SPDX-License-Identifier: PostgreSQL
"""Standbys: no competing on them, a new term after promotion, and generations that never repeat."""

import time
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.candidate import Candidate, notes, overlaps, wait_for_note
from tests.support.cluster import Cluster
from tests.support.kit import beat_of_another, holder, register, spans, term
from tests.support.network import black_hole
from tests.support.wait import hold_for, wait_until


@contextmanager
def primary_and(count, test):
    """A primary with so many standbys, and a duty known to all of them."""
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster())
        primary.install_ledger()
        duty = register(primary, test)
        standbys = []
        for _ in range(count):
            other = primary.standby()
            stack.callback(other.destroy)
            other.start()
            standbys.append(other)
        for other in standbys:
            caught_up(primary, other)
        yield primary, *standbys, duty


@pytest.fixture
def pair(request):
    with primary_and(1, request.node.name) as made:
        yield made


@pytest.fixture
def trio(request):
    with primary_and(2, request.node.name) as made:
        yield made


def caught_up(primary, standby):
    target = primary.sql("select pg_current_wal_lsn()")[0][0]
    wait_until(lambda: standby.sql("select pg_last_wal_replay_lsn() >= %s::pg_lsn", (target,))[0][0], "it has replayed")


def hosts(*clusters, **more):
    words = {"host": ",".join("127.0.0.1" for _ in clusters), "port": ",".join(str(c if isinstance(c, int) else c.port)
                                                                              for c in clusters)}
    return " ".join(f"{k}={v}" for k, v in {**words, "user": "postgres", "dbname": "postgres", **more}.items())


@contextmanager
def paused_replay(standby):
    """It receives, and replays nothing; promotion would replay what it has, so it also stops receiving."""
    standby.sql("alter system set primary_conninfo = ''")
    standby.reload()
    wait_until(lambda: not standby.sql("select 1 from pg_stat_wal_receiver"), "it receives no more")
    yield


def test_two_lagging_standbys_promoted_in_turn(trio, shared):
    """Each lost the newest terms; no generation is given twice, and each is higher than what was before."""
    primary, one, two, duty = trio
    seen = []
    with paused_replay(one), paused_replay(two):
        with Candidate(primary.conninfo(), "p", duty, None, ["--recontend"], shared):
            seen.append(wait_for_note(shared, "beat")[3])
            primary.sql("select pgleader.request_yield(%s, %s, 'test', '10 s')", (duty, int(seen[0])))
            seen.append(beat_of_another(shared, seen[0])[3])
        primary.stop("immediate")
        for name, standby in (("one", one), ("two", two)):
            assert term(standby, duty) is None, "it lost the newest terms"
            standby.promote()
            with Candidate(standby.conninfo(), name, duty, None, ["--recontend"], shared):
                seen.append(wait_for_note(shared, "beat", name)[3])
            standby.stop("immediate")
    assert seen == sorted(set(seen), key=int), seen
    assert len({(i, g) for i, g in spans(shared)}) == len({g for _, g in spans(shared)})


def test_several_hosts(pair, shared):
    """The standby stands first in the list: the primary is found, and after a switch the new one."""
    primary, standby, duty = pair
    conninfo = hosts(standby, primary)
    with Candidate(conninfo, "a", duty, None, ["--recontend"], shared):
        first = wait_for_note(shared, "beat")
        assert holder(primary, duty)
        caught_up(primary, standby)
        primary.stop("immediate")
        standby.promote()
        second = beat_of_another(shared, first[3])
        assert int(second[3]) > int(first[3]) and holder(standby, duty)


def test_several_hosts_and_the_first_is_silent(pair, shared):
    """A dead route at the head of the list does not keep it from the others."""
    primary, _, duty = pair
    with black_hole() as port, Candidate(hosts(port, primary), "a", duty, None, ["--recontend"], shared):
        began = time.time()
        first = wait_for_note(shared, "beat", deadline=15)
        assert first[1] - began < 8
        primary.sql("select pg_terminate_backend(%s)", (holder(primary, duty),))
        assert int(beat_of_another(shared, first[3])[3]) > int(first[3])


def test_target_session_attrs(trio, shared):
    """libpq's own way of finding the primary works too."""
    primary, standby, other, duty = trio
    conninfo = hosts(other, standby, primary, target_session_attrs="read-write")
    with Candidate(conninfo, "a", duty, None, ["--recontend"], shared) as run:
        first = wait_for_note(shared, "beat")
        caught_up(primary, standby)
        primary.stop("immediate")
        standby.promote()
        second = beat_of_another(shared, first[3])
        assert int(second[3]) > int(first[3]) and holder(standby, duty)
        assert "a standby" not in run.log()


def test_followers_move_with_the_primary(pair, shared):
    """Three candidates and a switch: one leads at the new primary, nobody at the old."""
    primary, standby, duty = pair
    caught_up(primary, standby)
    with ExitStack() as stack:
        for name in "abc":
            stack.enter_context(Candidate(hosts(primary, standby), name, duty, None, ["--recontend"], shared))
        first = wait_for_note(shared, "beat")
        caught_up(primary, standby)
        primary.stop("fast")
        standby.promote()
        second = beat_of_another(shared, first[3])
        assert int(second[3]) > int(first[3]) and holder(standby, duty)
        hold_for(lambda: notes(shared)[-1][3] == notes(shared)[-2][3], "one works", 1)
        assert overlaps(shared) == []


def test_no_competing_before_promotion(pair, shared):
    """It waits, holds nothing there, says so once; promoted, a term of a higher generation starts there."""
    primary, standby, duty = pair
    with Candidate(primary.conninfo(), "p", duty, None, ["--recontend"], shared):
        first = wait_for_note(shared, "beat")
        caught_up(primary, standby)
        with Candidate(standby.conninfo(), "s", duty, None, ["--recontend"], shared) as run:
            wait_until(lambda: "is a standby" in run.log(), "it says why it waits")
            hold_for(lambda: not standby.sql("select 1 from pg_locks where locktype = 'advisory'"), "no lock there", 2.5)
            assert run.log().count("is a standby") == 1
            primary.stop("immediate")
            wait_for_note(shared, "stopped", "p")
            standby.promote()
            second = wait_for_note(shared, "beat", "s")
            assert int(second[3]) > int(first[3]) and term(standby, duty)[0] == int(second[3])
            assert holder(standby, duty)
            assert overlaps(shared) == []
