-- SPDX-License-Identifier: PostgreSQL
-- By the operator's own right: one statement, outside a transaction, finds the session again in the live pg_locks
-- and ends it in its outer target list. No row: nothing was sent. Everything is qualified, operators too, since the
-- search path may be a stranger's.
--
-- Reading pg_locks takes milliseconds where thousands of locks are held, and the session may give its own back
-- meanwhile. To do so it runs a statement, which shows: a session that was idle before and is in the very same idle
-- state after has run none, and still holds what it held. Any other is looked up in pg_locks once more.
--
-- $1 classid, $2 objid, $3 objsubid, $4 pid, $5 its backend_start, $6 postmaster's start
-- Columns: pid int4, signalled bool
WITH target AS MATERIALIZED (
    SELECT s.pid, pg_catalog.left(s.state, 4) AS state, s.state_change,
        (SELECT here.datid FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS here) AS datid
    FROM pg_catalog.pg_stat_get_activity($4::pg_catalog.int4) AS s
    WHERE s.backend_start OPERATOR(pg_catalog.=) $5::pg_catalog.timestamptz
        AND s.backend_type OPERATOR(pg_catalog.=) 'client backend'
        AND s.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
        AND pg_catalog.pg_postmaster_start_time() OPERATOR(pg_catalog.=) $6::pg_catalog.timestamptz
), owner AS MATERIALIZED (
    -- A subquery over the row, so that this comes after it.
    SELECT t.* FROM target AS t
    WHERE (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
        WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory'
            AND l.granted
            AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
            AND l.pid OPERATOR(pg_catalog.=) t.pid
            AND l.database OPERATOR(pg_catalog.=) t.datid
            AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) $1::pg_catalog.int8
            AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) $2::pg_catalog.int8
            AND l.objsubid::pg_catalog.int4 OPERATOR(pg_catalog.=) $3::pg_catalog.int4) OPERATOR(pg_catalog.>) 0
), still AS MATERIALIZED (
    SELECT o.pid FROM owner AS o
    CROSS JOIN LATERAL (
        -- What a transaction has read of sessions once it reads again only when told to.
        SELECT CASE WHEN pg_catalog.pg_stat_clear_snapshot() IS NULL THEN o.pid ELSE o.pid END AS pid OFFSET 0
    ) AS again
    CROSS JOIN LATERAL pg_catalog.pg_stat_get_activity(again.pid) AS now
    WHERE now.backend_start OPERATOR(pg_catalog.=) $5::pg_catalog.timestamptz
        AND CASE
            WHEN o.state OPERATOR(pg_catalog.=) 'idle' AND pg_catalog.left(now.state, 4) OPERATOR(pg_catalog.=) 'idle'
                AND now.state_change OPERATOR(pg_catalog.=) o.state_change THEN true
            ELSE (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks AS l
                WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory'
                    AND l.granted
                    AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
                    AND l.pid OPERATOR(pg_catalog.=) now.pid
                    AND l.database OPERATOR(pg_catalog.=) o.datid
                    AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) $1::pg_catalog.int8
                    AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) $2::pg_catalog.int8
                    AND l.objsubid::pg_catalog.int4 OPERATOR(pg_catalog.=) $3::pg_catalog.int4) OPERATOR(pg_catalog.>) 0
        END
)
SELECT t.pid, pg_catalog.pg_terminate_backend(t.pid) AS signalled FROM still AS t
