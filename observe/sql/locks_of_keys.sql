-- SPDX-License-Identifier: PostgreSQL
-- Some advisory locks of the cluster with their sessions, for a picture of one duty alone: pg_locks is read once, or
-- not at all while no lock is known; the sessions are looked up one by one. Since when one waits is left out.
-- $1 int8[]: the numbers of the keys that are wanted, whatever their order: other locks may come along
-- Columns: see struct lock_row in observe/sessions.h. Session columns are NULL for the lock of a prepared transaction.
SELECT l.classid, l.objid, l.objsubid, l.database AS lock_database,
       l.mode = 'ExclusiveLock' AS exclusive, l.granted, NULL::timestamptz AS waitstart,
       coalesce(s.pid, l.pid) AS pid, s.datid AS session_database, s.usesysid, s.application_name,
       s.client_addr, s.client_port, s.backend_start, s.xact_start,
       pg_catalog.age(s.backend_xmin) AS xmin_age
FROM (SELECT * FROM pg_catalog.pg_locks
      WHERE pg_catalog.cardinality($1::int8[]) > 0 AND locktype = 'advisory'
          AND classid::int8 = ANY ($1::int8[]) AND objid::int8 = ANY ($1::int8[])) AS l
-- no pid would ask for every session
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(coalesce(l.pid, 0)) AS s ON s.pid = l.pid
