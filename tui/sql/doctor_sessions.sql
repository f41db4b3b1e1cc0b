-- SPDX-License-Identifier: PostgreSQL
-- Every advisory lock with its session, and every named session: the columns of observe/sql/locks.sql, for
-- every version (waitstart is NULL before 14), and what the session does.
-- Columns: as struct lock_row of observe/sessions.h, then role name, state text, state_since timestamptz
SELECT l.classid, l.objid, l.objsubid, l.database AS lock_database,
    l.mode = 'ExclusiveLock' AS exclusive, l.granted,
    (pg_catalog.to_jsonb(l) ->> 'waitstart')::timestamptz AS waitstart,
    coalesce(s.pid, l.pid) AS pid, s.datid AS session_database, s.usesysid, s.application_name,
    s.client_addr, s.client_port, s.backend_start, s.xact_start,
    CASE WHEN l.locktype IS NOT NULL THEN pg_catalog.age(s.backend_xmin) END AS xmin_age,
    r.rolname AS role, s.state, s.state_change AS state_since
FROM (SELECT * FROM pg_catalog.pg_locks WHERE locktype = 'advisory') AS l
FULL JOIN pg_catalog.pg_stat_get_activity(NULL) AS s ON s.pid = l.pid
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.usesysid
WHERE l.locktype IS NOT NULL
    OR (s.application_name <> '' AND coalesce(s.backend_type, 'client backend') = 'client backend')
