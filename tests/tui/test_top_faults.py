# SPDX-License-Identifier: PostgreSQL
"""pgleader top while its server is in trouble: what it shows is true, or said to be old or unknown, and why."""

import signal
from contextlib import closing

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import program
from tests.support.pooler import Pooler
from tests.support.scene import SEED_LEASE, config, lease_duty, lock_duty, server, take_lease
from tests.support.vterm import Vterm
from tests.support.wait import hold_for

TOP = program("pgleader")
OLD = r"STALE \d+s, picture of \d\d:\d\d:\d\dZ: "


class Fresh(Cluster):
    """A cluster with a system identifier of its own."""

    def init(self):
        self.command(self.bin / "initdb", "-D", self.data, "-U", self.user, "-A", "trust", "-N", "--locale=C", "-E", "UTF8")
        self.configure(self.settings)


def top_of(conninfo, *options, width=100, height=24):
    return Vterm([TOP, "top", "--interval=500ms", *options, conninfo], width, height)


def configured(path, *servers):
    path = path / "pgleader.yml"
    path.write_text(config(*servers, after="0s"))
    return Vterm([TOP, "top", "--interval=500ms", f"--config={path}"], 110, 30)


@pytest.fixture(scope="module")
def pg():
    with Cluster() as cluster:
        yield cluster


def line(screen, text):
    return next((line.rstrip() for line in screen.lines if text in line), "")


@pytest.mark.parametrize("trouble, why, over", [
    (lambda own: own.stop("immediate"), "could not connect: Connection refused", lambda own: own.start()),
    (lambda own: own.signal_all(signal.SIGSTOP), "no answer", lambda own: own.signal_all(signal.SIGCONT)),
], ids=["stopped", "frozen"])
def test_no_answer(trouble, why, over):
    """What was led is unknown, on every screen, with its age; when the server is back, so is the truth."""
    with Cluster() as own, closing(hold_lock(own, 42, application_name="alone@node-a")), top_of(own.conninfo()) as top:
        top.wait("alone@node-a .* led")
        trouble(own)
        screen = top.wait(OLD + ".*" + why)
        assert "UNKNOWN, was led" in line(screen, "alone@node-a")
        top.keys("\r")
        screen = top.wait("CANDIDATES")
        assert "UNKNOWN" in line(screen, "State") and "STALE" in screen.text
        top.keys("u")
        top.wait(OLD)
        top.keys("\x1b")
        over(own)
        top.when(lambda seen: "STALE" not in seen.text, "the picture is fresh", 40)


def test_another_server_on_the_same_port():
    """Started on another data directory: nothing of the old one is taken for the new one's."""
    with Cluster() as old, closing(hold_lock(old, 42, application_name="alone@old")), top_of(old.conninfo(), width=120) as top:
        top.wait("alone@old .* led")
        old.stop("immediate")
        top.wait(OLD)
        with Fresh(port=old.port) as new, closing(hold_lock(new, 42, application_name="other@new")):
            screen = top.wait("other@new .* led", 40)
            assert "alone@old" not in screen.text and "STALE" not in screen.text
            top.keys("\r")
            screen = top.wait("CANDIDATES")
            assert "other@new" in line(screen, "Owner") and "by this owner" not in line(screen, "Last")


def test_rights_are_taken_away(pg, tmp_path):
    """The lease's table, the ledger, and then the sight of other sessions: each is said, none reads as vacant."""
    pg.sql(SEED_LEASE.format(table="public.rights"))
    assert take_lease(pg, "nightly", "pod-1", length="10 hours", table="public.rights")
    pg.sql("create role oncall login; grant pg_read_all_stats to oncall; grant select on public.rights to oncall")
    duties = [lease_duty("jobs/nightly", "public.rights", "nightly"), lock_duty("jobs/locked", 43)]
    with closing(hold_lock(pg, 43, application_name="worker@node-a")), \
            configured(tmp_path, server(pg, user="oncall", duties=duties)) as top:
        top.wait("pod-1 .* led")
        pg.sql("revoke select on public.rights from oncall")
        screen = top.wait("PARTLY UNKNOWN, lease:.*permission denied")
        assert "UNKNOWN" in line(screen, "jobs/nightly") and "VACANT" not in screen.text
        assert line(screen, "jobs/locked").endswith(" led")
        pg.sql("revoke pg_read_all_stats from oncall")
        screen = top.wait("UNPRIVILEGED")
        assert "worker@node-a" in line(screen, "jobs/locked")
        top.keys("/locked\r\r")
        top.wait(r"Session +pid \d+, began \?")
        pg.sql("revoke select on pg_catalog.pg_locks from public")
        try:
            top.wait("permission denied for .*pg_lock")
            top.when(lambda seen: "UNKNOWN" in line(seen, "State"), "who leads is unknown")
        finally:
            pg.sql("grant select on pg_catalog.pg_locks to public")
        pg.sql("grant pg_read_all_stats to oncall; grant select on public.rights to oncall")
        top.when(lambda seen: "UNPRIVILEGED" not in seen.text and "denied" not in seen.text, "all is seen again", 40)


def test_the_role_is_dropped(pg):
    """The session that is there goes on; a new one is refused, and the banner has the server's words."""
    pg.sql("create role leaving login; grant pg_read_all_stats to leaving")
    with closing(hold_lock(pg, 44, application_name="worker@node-b")), top_of(pg.conninfo(user="leaving")) as top:
        top.wait("worker@node-b .* led")
        pg.sql("alter role leaving nologin")
        pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'leaving'")
        top.wait('role "leaving" is not permitted to log in')
        top.wait("worker@node-b .* UNKNOWN, was led")


def test_a_standby(pg, tmp_path):
    """Its locks say nothing of who leads: that is unknown, not vacant, until it is promoted."""
    standby = pg.standby()
    try:
        standby.start()
        with closing(hold_lock(standby, 45, application_name="reader@standby")):
            with top_of(standby.conninfo()) as top:
                screen = top.wait("advisory/45 .*UNKNOWN, not readable")
                assert "standby" in screen.lines[0] and "PRIMARY EXPECTED" in screen.lines[0]
            with configured(tmp_path, server(standby, expect="standby")) as top:
                screen = top.wait("advisory/45 .*UNKNOWN, not readable")
                assert "standby" in screen.lines[0] and "EXPECTED" not in screen.text
                standby.promote()
                top.wait("primary .*STANDBY EXPECTED", 40)
                top.wait("reader@standby .* led")
    finally:
        standby.destroy()


def test_through_a_pooler(pg):
    """What is read through PgBouncer is right, and that a pooler is between is said; nothing is left in its sessions."""
    with closing(hold_lock(pg, 46, application_name="worker@node-c")), Pooler(pg) as pooler, \
            top_of(pooler.conninfo(), width=120) as top:
        screen = top.wait("worker@node-c .* led")
        assert "POOLED" in screen.lines[0]
        hold_for(lambda: "STALE" not in top.look().text, "the picture is fresh", 2)
