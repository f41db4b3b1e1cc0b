-- SPDX-License-Identifier: PostgreSQL
-- What may change from one poll to the next; touches no catalog.
-- Columns: pid int4 (the server's word for this session), database_oid oid, in_recovery bool,
--          postmaster_start timestamptz
SELECT a.pid,
       a.datid AS database_oid,
       pg_catalog.pg_is_in_recovery() AS in_recovery,
       pg_catalog.pg_postmaster_start_time() AS postmaster_start
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
