-- SPDX-License-Identifier: PostgreSQL
-- By the operator's own right: one statement, outside a transaction, finds the session again in the live pg_locks
-- and ends it in its outer target list. No row: nothing was sent. Everything is qualified, operators too, since the
-- search path may be a stranger's.
-- $1 classid, $2 objid, $3 objsubid, $4 pid, $5 its backend_start, $6 postmaster's start
-- Columns: pid int4, signalled bool
WITH target AS MATERIALIZED (
    SELECT s.pid
    FROM pg_catalog.pg_locks AS l
    JOIN pg_catalog.pg_stat_get_activity($4::pg_catalog.int4) AS s ON s.pid OPERATOR(pg_catalog.=) l.pid
    JOIN pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS here ON here.datid OPERATOR(pg_catalog.=) l.database
    WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory'
        AND l.granted
        AND l.mode OPERATOR(pg_catalog.=) 'ExclusiveLock'
        AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) $1::pg_catalog.int8
        AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) $2::pg_catalog.int8
        AND l.objsubid::pg_catalog.int4 OPERATOR(pg_catalog.=) $3::pg_catalog.int4
        AND s.backend_start OPERATOR(pg_catalog.=) $5::pg_catalog.timestamptz
        AND s.backend_type OPERATOR(pg_catalog.=) 'client backend'
        AND s.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
        AND pg_catalog.pg_postmaster_start_time() OPERATOR(pg_catalog.=) $6::pg_catalog.timestamptz
)
SELECT t.pid, pg_catalog.pg_terminate_backend(t.pid) AS signalled FROM target AS t
