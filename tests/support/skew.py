# SPDX-License-Identifier: PostgreSQL
"""A candidate whose host has another wall clock, by libfaketime."""

import os
from pathlib import Path

from .candidate import Candidate


def library():
    """libfaketime, of the Debian package faketime."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert found, "could not find libfaketime: run scripts/install-deps --test"
    return str(found[0])


class Skewed(Candidate):
    """pgleader-run, and its command unless said otherwise, with another wall clock; the monotonic clocks are true.

    The library has a lock that all processes with the same clock share, and that one killed in it never gives back:
    a command that may be killed is better left out."""

    def __init__(self, offset, *args, command_too=True, **more):
        super().__init__(*args, **more)
        if not command_too:
            at = self.argv.index("--") + 1
            self.argv[at:at] = ["env", "-u", "LD_PRELOAD"]
        self.offset_file = self.base / "faketime"
        self.skew(offset)
        self.argv = ["env", f"LD_PRELOAD={library()}", f"FAKETIME_TIMESTAMP_FILE={self.offset_file}", "FAKETIME_NO_CACHE=1",
                     "FAKETIME_DONT_FAKE_MONOTONIC=1", *self.argv]

    def skew(self, seconds):
        fresh = self.base / "faketime.new"
        fresh.write_text(f"{seconds:+d}s\n")
        os.replace(fresh, self.offset_file)
