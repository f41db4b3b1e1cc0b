#!/usr/bin/python3
# SPDX-License-Identifier: PostgreSQL
"""A worker for pgleader-run: each invoice is reconciled once, whoever leads and however often that changes.

    pgleader-run --duty jobs/invoice-reconcile CONNINFO -- examples/python/reconcile.py CONNINFO [PAUSE]

Needs the ledger and examples/invoices.sql. PAUSE is pretended work, in seconds a step.
Exit status: 0 nothing is left to do, 76 its generation is stale, 143 SIGTERM.
"""

import os
import signal
import sys
import time

import psycopg

DUTY = os.environ["PGLEADER_DUTY"]
GENERATION = int(os.environ["PGLEADER_GENERATION"])
STEP = 5  # invoices a transaction; keep it short, since a successor's begin_term waits for its end


def row(conn, query, *params):
    return conn.execute(query, params).fetchone()


def claim(conn, run_key):
    """(outcome, position): fresh, resumed at a position, or already_complete."""
    outcome, _, position, _ = row(conn, "SELECT * FROM pgleader.claim_run(%s, %s, %s, '1 hour')", DUTY, run_key, GENERATION)
    print(f"{run_key}: {outcome}" + (f" at {position}" if position else ""), file=sys.stderr, flush=True)
    return outcome, int(position or 0)


def finish(conn, run_key, status, receipt):
    conn.execute("SELECT pgleader.finish_run(%s, %s, %s, %s, %s)",
                 [DUTY, run_key, GENERATION, status, psycopg.types.json.Jsonb(receipt)])


def reconcile_first(conn):
    """What a predecessor left unfinished: main goes on with it, unless its batch was withdrawn meanwhile."""
    left = row(conn, "SELECT run_key FROM pgleader.current_run WHERE duty = %s AND NOT EXISTS "
                     "(SELECT FROM invoice_batch WHERE 'batch-' || batch = run_key AND NOT closed)", DUTY)
    if left:
        claim(conn, left[0])
        finish(conn, left[0], "abandoned", {"why": "the batch was withdrawn"})


def step(conn, run_key, batch, done, target):
    """The cursor and the effects in one transaction: both or neither. advance_run fences it, so it comes first."""
    upto = min(done + STEP, target)
    with conn.transaction():
        conn.execute("SELECT pgleader.advance_run(%s, %s, %s, %s, %s, %s)",
                     [DUTY, run_key, GENERATION, f"invoice {upto}", upto, target])
        conn.execute("INSERT INTO reconciliation SELECT batch, number, %s FROM invoice "
                     "WHERE batch = %s AND number > %s AND number <= %s", [GENERATION, batch, done, upto])
    return upto


def work_on(conn, batch, pause):
    run_key = f"batch-{batch}"
    outcome, done = claim(conn, run_key)
    target, = row(conn, "SELECT coalesce(max(number), 0) FROM invoice WHERE batch = %s", batch)
    while outcome != "already_complete" and done < target:
        done = step(conn, run_key, batch, done, target)
        time.sleep(pause)
    with conn.transaction():
        if outcome != "already_complete":
            finish(conn, run_key, "complete", {"invoices": done})
        conn.execute("UPDATE invoice_batch SET closed = true WHERE batch = %s", [batch])


def main(conninfo, pause="0"):
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # psycopg cancels the query in flight, then raises
    try:
        with psycopg.connect(conninfo, autocommit=True, application_name="invoice-worker") as conn:
            reconcile_first(conn)
            while (batch := row(conn, "SELECT min(batch) FROM invoice_batch WHERE NOT closed")[0]) is not None:
                work_on(conn, batch, float(pause))
    except KeyboardInterrupt:
        return 143
    except psycopg.Error as error:
        print(f"stopped: {str(error).strip()}", file=sys.stderr)
        return 76 if error.sqlstate == "PL001" else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
