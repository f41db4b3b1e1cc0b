-- SPDX-License-Identifier: PostgreSQL
-- Who holds or waits for one advisory lock of this database, what else one session holds, and who has a name.
-- pg_locks is read once; sessions that have one of these locks are looked up one by one.
-- $1 int8[]: classid, objid, objsubid and pid of the session (0: none), and 1 where named sessions are wanted too
-- Columns: see struct yield_lock in tui/guard.h. Lock columns are NULL for a session without one of these locks.
SELECT l.classid, l.objid, l.objsubid::int4 AS objsubid, l.mode = 'ExclusiveLock' AS exclusive, l.granted,
       coalesce(s.pid, l.pid) AS pid, s.backend_start, s.application_name, s.client_addr
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS here
CROSS JOIN LATERAL (
    SELECT k.* FROM pg_catalog.pg_locks AS k
    WHERE k.locktype = 'advisory' AND k.database = here.datid
        AND (k.pid = ($1::int8[])[4] OR (k.classid::int8 = ($1::int8[])[1] AND k.objid::int8 = ($1::int8[])[2]
            AND k.objsubid = ($1::int8[])[3]))
) AS l
-- the lock of a prepared transaction has no pid, which would ask for every session
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(coalesce(l.pid, 0)) AS s ON s.pid = l.pid
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, s.pid, s.backend_start, s.application_name, s.client_addr
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS here
JOIN pg_catalog.pg_stat_get_activity(NULL) AS s ON s.datid = here.datid
WHERE ($1::int8[])[5] = 1 AND s.application_name <> '' AND coalesce(s.backend_type, 'client backend') = 'client backend'
