# SPDX-License-Identifier: PostgreSQL
"""Candidates of a lease, for tests: a row of a three-column table, or the ledger's own."""

from contextlib import ExitStack

from .candidate import Candidate
from .skew import Skewed

LEASE = 5.0
TIMES = ("--lease-duration=5s", "--kill-after=500ms")
TABLE = "public.leader_lease"
OWN = "pgleader.lease"


def create_table(cluster, name=TABLE, unlogged=False):
    cluster.sql(f"create {'unlogged' if unlogged else ''} table {name} (job_name text primary key, "
                "holder text not null, expires_at timestamptz not null)")


class Lease:
    """One lease and its candidates a, b, ...: `with Lease(pg, "name", path) as lease:`, then lease.runs["a"].

    A table's row is one that was led and given back, unless new: then nobody knows who led before. skew: how many seconds a candidate's clock is off."""

    def __init__(self, pg, name, path, table=TABLE, names="ab", options=("--recontend",), conninfo=None, new=False,
                 skew=None, command=None):
        self.pg, self.table, self.path = pg, table, path
        self.duty = f"jobs/{name}"
        self.row = self.duty if table == OWN else name
        self.names, self.options, self.conninfo, self.new = names, options, conninfo, new
        self.skew, self.command = skew or {}, command
        self.runs, self.stack = {}, ExitStack()

    def __enter__(self):
        where = ()
        if self.table == OWN:
            self.pg.sql("select pgleader.register_duty(%s, lease_table => %s, lease_row => %s)",
                        (self.duty, OWN, self.row))
        else:
            where = (f"--lease={self.table}:{self.row}",)
            if not self.new:
                self.change("insert into {} values (%s, 'nobody', now() - interval '1 hour')")
        for name in self.names:
            made = {"notes": self.path, "command": self.command, "options": (*where, *TIMES, *self.options)}
            about = (self.conninfo or self.pg.conninfo(), name, self.duty)
            run = Candidate(*about, **made) if name not in self.skew else Skewed(
                self.skew[name], *about, command_too=False, **made)
            self.runs[name] = self.stack.enter_context(run)
        return self

    def __exit__(self, *details):
        return self.stack.__exit__(*details)

    def change(self, statement, *more):
        """Runs a statement over the table; its first parameter is the row's name."""
        return self.pg.sql(statement.format(self.table), (self.row, *more))

    def read(self):
        """(holder, seconds left, now), by the server's clock."""
        return self.change("select holder, extract(epoch from expires_at - clock_timestamp())::float8, "
                           "extract(epoch from clock_timestamp())::float8 from {} where job_name = %s")[0]

    def holder(self):
        return self.read()[0]

    def left(self):
        return self.read()[1]

    def expiry(self):
        _, left, now = self.read()
        return now + left

    def other(self, name):
        return next(n for n in self.names if n != name)

    def terminate(self, name):
        """Ends that candidate's session."""
        return self.pg.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s",
                           (f"pgleader:{self.duty}:{name}",))

    def previous_end(self):
        return self.pg.sql("select previous_end_reason from pgleader.current_term where duty = %s", (self.duty,))[0][0]
