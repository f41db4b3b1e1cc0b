-- SPDX-License-Identifier: PostgreSQL
-- Who this server is and what we may see; read at connect and now and then, since it touches catalogs.
-- Columns: system_identifier text, timeline int4, database name, privileged bool, has_ledger bool
SELECT (SELECT system_identifier::text FROM pg_catalog.pg_control_system()) AS system_identifier,
       (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()) AS timeline,
       pg_catalog.current_database() AS database,
       pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS privileged,
       EXISTS (SELECT FROM pg_catalog.pg_class AS c
               JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = 'pgleader' AND c.relname = 'schema_version') AS has_ledger
