-- SPDX-License-Identifier: PostgreSQL
-- Every advisory lock of the cluster with its session, and every named session of any database: one read of
-- pg_locks, one of the activity function (never of pg_stat_activity, which hangs while pg_authid or
-- pg_database is locked).
-- For PostgreSQL 14 and later.
-- $1 int4[]: pids of sessions that are wanted although they hold no lock and have no name
-- Columns: see struct lock_row in observe/sessions.h. Lock columns are NULL for a session without a lock,
--          session columns for the lock of a prepared transaction.
SELECT l.classid, l.objid, l.objsubid, l.database AS lock_database,
       l.mode = 'ExclusiveLock' AS exclusive, l.granted, l.waitstart AS waitstart,
       coalesce(s.pid, l.pid) AS pid, s.datid AS session_database, s.usesysid, s.application_name,
       s.client_addr, s.client_port, s.backend_start, s.xact_start,
       CASE WHEN l.locktype IS NOT NULL THEN pg_catalog.age(s.backend_xmin) END AS xmin_age
FROM (SELECT * FROM pg_catalog.pg_locks WHERE locktype = 'advisory') AS l
FULL JOIN pg_catalog.pg_stat_get_activity(NULL) AS s ON s.pid = l.pid
WHERE l.locktype IS NOT NULL OR s.pid = ANY ($1::int4[])
    -- a parallel worker has its leader's name, and is no candidate
    OR (s.application_name <> '' AND coalesce(s.backend_type, 'client backend') = 'client backend')
