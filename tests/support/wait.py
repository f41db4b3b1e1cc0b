# SPDX-License-Identifier: PostgreSQL
"""Waiting with a deadline: the only place in the tests where time passes."""

import time


class DeadlinePassed(AssertionError):
    """What was waited for did not come true in time."""


def wait_until(condition, what, deadline=15.0, every=0.02):
    """Calls condition() until it returns something true, and returns that.

    An exception of condition() counts as "not yet" and is shown when the deadline passes.
    """
    end = time.monotonic() + deadline
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except Exception as error:  # the last one is part of the failure's message
            last = error
        if time.monotonic() >= end:
            raise DeadlinePassed(f"after {deadline} s still not: {what} (last seen: {last!r})")
        time.sleep(every)


def hold_for(condition, what, seconds, every=0.05):
    """Calls condition() for that many seconds and fails at once when it is not true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), f"did not hold: {what}"
        time.sleep(every)
