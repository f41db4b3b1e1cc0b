-- SPDX-License-Identifier: PostgreSQL
-- The server and one session of it, for the guards of a yield.
-- $1 int8[]: classid, objid, objsubid and pid of the session (0: none), and more
-- Columns: see struct yield_server in tui/guard.h. Those of a session that is gone are NULL.
SELECT pg_catalog.current_database() AS database,
       pg_catalog.pg_is_in_recovery() AS in_recovery,
       pg_catalog.pg_postmaster_start_time() AS postmaster_start,
       s.pid, s.backend_start, s.application_name, s.client_addr, s.client_port, s.backend_type,
       r.rolname AS usename, s.xact_start, r.rolsuper AS target_superuser,
       me.rolsuper AS superuser,
       pg_catalog.pg_has_role('pg_signal_backend', 'USAGE') OR pg_catalog.pg_has_role(s.usesysid, 'USAGE') AS may_signal
FROM pg_catalog.pg_roles AS me
LEFT JOIN pg_catalog.pg_stat_get_activity(($1::int8[])[4]::int4) AS s ON true
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.usesysid
WHERE me.rolname = CURRENT_USER
