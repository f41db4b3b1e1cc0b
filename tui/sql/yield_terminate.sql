-- SPDX-License-Identifier: PostgreSQL
-- By the ledger: its function takes the intent and checks that the term's session holds the lock. Here: that it is
-- still the same server, and the same key. No row: nothing was sent.
-- $1 intent, $2 postmaster's start, $3 duty, $4 classid, $5 objid, $6 objsubid
-- Columns: pid int4, signalled bool
WITH target AS MATERIALIZED (
    SELECT $1::pg_catalog.int8 AS intent
    FROM pgleader.duty AS d
    WHERE pg_catalog.pg_postmaster_start_time() OPERATOR(pg_catalog.=) $2::pg_catalog.timestamptz
        AND d.duty OPERATOR(pg_catalog.=) $3::pg_catalog.text
        AND d.retired_at IS NULL
        AND d.lock_classid OPERATOR(pg_catalog.=) $4::pg_catalog.int8
        AND d.lock_objid OPERATOR(pg_catalog.=) $5::pg_catalog.int8
        AND d.lock_objsubid OPERATOR(pg_catalog.=) $6::pg_catalog.int4
)
SELECT t.pid, t.signalled
FROM target CROSS JOIN LATERAL pgleader.terminate_owner(target.intent) AS t
