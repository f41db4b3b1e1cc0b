-- SPDX-License-Identifier: PostgreSQL
-- The server, what we may do there, and how full it is.
-- Columns: see struct doctor_facts.
SELECT pg_catalog.pg_backend_pid() AS pid,
    a.datid AS database_oid, pg_catalog.current_database() AS database, SESSION_USER AS role,
    pg_catalog.pg_is_in_recovery() AS in_recovery,
    pg_catalog.pg_postmaster_start_time() AS postmaster_start,
    pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS reads_stats,
    pg_catalog.pg_has_role('pg_signal_backend', 'USAGE') AS signals,
    EXISTS (SELECT FROM pg_catalog.pg_proc AS p
        JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
        WHERE n.nspname = 'pgleader' AND p.proname = 'terminate_owner'
            AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
            AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) AS operates,
    pg_catalog.current_setting('synchronous_commit') AS synchronous_commit,
    (SELECT count(*) FROM pg_catalog.pg_stat_get_activity(NULL) AS s
        WHERE s.datid IS NOT NULL
            AND coalesce(s.backend_type, 'client backend') = 'client backend') AS connections,
    pg_catalog.current_setting('max_connections')::int8
        - pg_catalog.current_setting('superuser_reserved_connections')::int8
        - coalesce(pg_catalog.current_setting('reserved_connections', true)::int8, 0) AS connections_room,
    (SELECT count(DISTINCT (l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid,
            l.transactionid::text, l.classid, l.objid, l.objsubid))
        FROM pg_catalog.pg_locks AS l WHERE NOT l.fastpath) AS locks,
    pg_catalog.current_setting('max_locks_per_transaction')::int8
        * (pg_catalog.current_setting('max_connections')::int8
            + pg_catalog.current_setting('max_prepared_transactions')::int8) AS locks_room
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a
