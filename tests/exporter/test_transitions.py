# SPDX-License-Identifier: PostgreSQL
"""Each change of leadership has exactly one name: in the counters and in the log."""

import signal
import time
from contextlib import ExitStack

import pytest

from tests.support.cluster import Cluster, hold_lock
from tests.support.exporter import Exporter
from tests.support.scene import SEED_LEASE, config, end_session, lease_duty, lock_duty, pid_of, server, take_lease, waiting
from tests.support.wait import hold_for, wait_until

RULES = ("acquired", "lost", "takeover", "returned", "restarted", "unknown")


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as pg:
        pg.sql(SEED_LEASE.format(table="public.leader_lease"))
        yield pg


DUTIES = [lock_duty(f"jobs/{name}", key) for key, name in enumerate(["lock", "queue", "restart", "quick", "idle"], 1)] + [
    lease_duty("jobs/lease", "public.leader_lease", "nightly")]


@pytest.fixture(scope="module")
def exporter(cluster):
    with Exporter(config=config(server(cluster, duties=DUTIES))) as e:
        e.wait_for(lambda s: len(s.duties()) == len(DUTIES), "every duty is shown")
        yield e


def counted(samples, duty):
    return {rule: int(samples.one("transitions_total", duty=duty, rule=rule)) for rule in RULES}


class Story:
    """Counts what is expected, and checks after each step that nothing else was counted, nor logged."""

    def __init__(self, exporter, duty):
        self.exporter, self.duty = exporter, duty
        self.expected = counted(exporter.scrape(), duty)
        self.log_start, self.unchecked = len(exporter.log()), []

    def expect(self, *rules, settle=True, **wanted):
        for rule in rules:
            self.expected[rule] += 1
        self.unchecked += rules
        self.exporter.wait_for(lambda s: counted(s, self.duty) == self.expected
                               and all(s.one(f, duty=self.duty) == v for f, v in wanted.items()), f"{self.duty}: {rules} {wanted}")
        if not settle:
            return
        hold_for(lambda: counted(self.exporter.scrape(), self.duty) == self.expected, "no second name for it", 0.3)
        logged = [line.split(" rule=")[1].split()[0] for line in self.exporter.log()[self.log_start:].splitlines()
                  if f"duty={self.duty} " in line]
        assert sorted(logged) == sorted(self.unchecked)
        self.log_start, self.unchecked = len(self.exporter.log()), []


def test_a_lock_s_story(cluster, exporter):
    story = Story(exporter, "jobs/lock")
    a = hold_lock(cluster, 1, "a")
    story.expect("acquired", leader_held=1)
    end_session(cluster, pid_of(a))
    story.expect("lost", leader_held=0)
    a = hold_lock(cluster, 1, "a")
    story.expect("returned", leader_held=1)
    end_session(cluster, pid_of(a))
    story.expect("lost", leader_held=0)
    b = hold_lock(cluster, 1, "b")
    story.expect("takeover", leader_held=1)
    b.execute("select pg_advisory_lock(1::int8)")  # once more in the same session
    b.execute("set application_name = 'b2'")
    story.expect(leader_held=1)
    end_session(cluster, pid_of(b))
    story.expect("lost", leader_held=0)
    c = hold_lock(cluster, 1, "")
    story.expect("takeover", leader_held=1)
    end_session(cluster, pid_of(c))
    story.expect("lost", leader_held=0)
    d = hold_lock(cluster, 1, "")  # without a name nobody can tell that it is the same
    story.expect("takeover", leader_held=1)
    end_session(cluster, pid_of(d))
    story.expect("lost", leader_held=0)


def test_a_queue_hands_over_directly(cluster, exporter):
    """No vacancy is ever seen, so none is counted."""
    story = Story(exporter, "jobs/queue")
    with ExitStack() as stack:
        a = hold_lock(cluster, 2, "a")
        story.expect("acquired")
        b = stack.enter_context(waiting(cluster, 2, "b"))
        end_session(cluster, pid_of(a))
        story.expect("takeover", owner_pid=pid_of(b))
        again = stack.enter_context(waiting(cluster, 2, "b"))
        end_session(cluster, pid_of(b))
        story.expect("returned", owner_pid=pid_of(again))
        end_session(cluster, pid_of(again))
        story.expect("lost")


def test_a_lease_s_story(cluster, exporter):
    """Renewals are none; an expiry is a loss; a release and an overwrite by hand are what they look like."""
    story = Story(exporter, "jobs/lease")
    assert take_lease(cluster, "nightly", "a", "1 hour")
    story.expect("acquired", leader_held=1)
    assert take_lease(cluster, "nightly", "a", "1 hour")
    story.expect(leader_held=1)
    assert take_lease(cluster, "nightly", "a", "300 ms")
    story.expect("lost", leader_held=0)
    assert take_lease(cluster, "nightly", "a", "1 hour")
    story.expect("returned", leader_held=1)
    cluster.sql("delete from public.leader_lease")
    story.expect("lost", leader_held=0)
    assert take_lease(cluster, "nightly", "b", "1 hour")
    story.expect("takeover", leader_held=1)
    cluster.sql("update public.leader_lease set holder = 'c'")
    story.expect("takeover", leader_held=1)
    cluster.sql("alter table public.leader_lease rename to hidden")
    story.expect("unknown", leader_held=None, duty_state=0, settle=False)
    cluster.sql("alter table public.hidden rename to leader_lease")
    story.expect(leader_held=1, duty_state=1)
    cluster.sql("alter table public.leader_lease rename to hidden")
    story.expect("unknown", leader_held=None)
    cluster.sql("update public.hidden set holder = 'd'; alter table public.hidden rename to leader_lease")
    story.expect("takeover", leader_held=1)


def test_a_server_s_restart(cluster, exporter):
    """The restart ends the owner: that is its name. Who comes after it is named as ever."""
    idle, lease = Story(exporter, "jobs/idle"), Story(exporter, "jobs/lease")
    story = Story(exporter, "jobs/restart")
    first = hold_lock(cluster, 3, "a")
    story.expect("acquired", leader_held=1)
    cluster.restart()
    first.close()
    story.expect("restarted", leader_held=0)
    a = hold_lock(cluster, 3, "a")
    story.expect("returned", leader_held=1)
    end_session(cluster, pid_of(a))
    story.expect("lost")
    idle.expect(leader_held=0)
    lease.expect(leader_held=1)


@pytest.mark.parametrize("successor, rule", [("a", "restarted"), ("b", "takeover")])
def test_a_restart_that_no_poll_saw(cluster, exporter, successor, rule):
    """The exporter is frozen meanwhile; afterwards it sees the lock held by a session of the new server."""
    story = Story(exporter, "jobs/quick")
    first = hold_lock(cluster, 4, "a")
    story.expect("returned" if story.expected["acquired"] else "acquired", leader_held=1)
    exporter.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: open(f"/proc/{exporter.pid}/stat").read().split()[2] == "T", "the exporter is frozen")
    cluster.restart()
    conn = hold_lock(cluster, 4, successor)
    exporter.process.send_signal(signal.SIGCONT)
    story.expect(rule, owner_pid=pid_of(conn))
    assert pid_of(first) != pid_of(conn)
    end_session(cluster, pid_of(conn))
    story.expect("lost", leader_held=0)


def test_an_exporter_s_start_is_no_change(cluster):
    conn = hold_lock(cluster, 5, "a")
    with Exporter(config=config(server(cluster, duties=DUTIES))) as e:
        samples = e.wait_for(lambda s: s.one("leader_held", duty="jobs/idle") == 1, "led")
        assert samples.find("transitions_total") == [0] * len(RULES) * len(DUTIES)
        assert " rule=" not in e.log()
        assert samples.one("acquisition_age_seconds", duty="jobs/idle") < time.time()
        end_session(cluster, pid_of(conn))
        e.wait_for(lambda s: s.one("transitions_total", duty="jobs/idle", rule="lost") == 1, "the loss is one")
