#!/usr/bin/python3
# SPDX-License-Identifier: PostgreSQL
"""A worker for pgleader-run whose effects are outside the database: it tells a shop each price, with its generation as token.

    pgleader-run --duty jobs/publish CONNINFO -- examples/fencing/publish.py CONNINFO HOST:PORT

Needs the ledger and: CREATE TABLE price (item int PRIMARY KEY, value numeric). Exit status: 0 all is published, 76 it is stale.
"""

import http.client
import os
import sys

import psycopg

DUTY = os.environ["PGLEADER_DUTY"]
GENERATION = int(os.environ["PGLEADER_GENERATION"])
RUN = "2026-11-29"


class Stale(Exception):
    """The shop has heard from a later generation."""


def publish(shop, item, value):
    """Repeating it is harmless, since it sets a value. An effect that must not be repeated (a payment) needs a key, too."""
    connection = http.client.HTTPConnection(shop, timeout=10)
    connection.request("PUT", f"/prices/{item}", str(value), {"Duty": DUTY, "Fencing-Token": str(GENERATION)})
    answer = connection.getresponse()
    if answer.status == 409:
        raise Stale(f"the shop has heard generation {answer.read().decode()}")
    if answer.status != 200:
        raise OSError(f"the shop answered {answer.status}")


def run(conn, shop):
    outcome, _, position, _ = conn.execute("SELECT * FROM pgleader.claim_run(%s, %s, %s, '1 hour')",
                                           [DUTY, RUN, GENERATION]).fetchone()
    if outcome == "already_complete":
        return
    # First the effect, then the cursor: the other way round a price could be skipped. So the one at the cursor may
    # be sent twice, by one leader or by two.
    for item, value in conn.execute("SELECT item, value FROM price WHERE item > %s ORDER BY item", [position or 0]).fetchall():
        publish(shop, item, value)
        conn.execute("SELECT pgleader.advance_run(%s, %s, %s, %s)", [DUTY, RUN, GENERATION, str(item)])
    conn.execute("SELECT pgleader.finish_run(%s, %s, %s, 'complete', '{}')", [DUTY, RUN, GENERATION])


def main(conninfo, shop):
    try:
        with psycopg.connect(conninfo, autocommit=True, application_name="price-publisher") as conn:
            run(conn, shop)
    except Stale as error:
        print(f"stopped: {error}", file=sys.stderr)
        return 76
    except psycopg.Error as error:
        print(f"stopped: {str(error).strip()}", file=sys.stderr)
        return 76 if error.sqlstate == "PL001" else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
