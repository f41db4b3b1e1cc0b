-- SPDX-License-Identifier: PostgreSQL
-- What we may see, and whether there is a ledger; read at connect and now and then, since it touches catalogs.
-- Columns: database name, privileged bool, has_ledger bool
SELECT pg_catalog.current_database() AS database,
       pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS privileged,
       EXISTS (SELECT FROM pg_catalog.pg_class AS c
               JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
               WHERE n.nspname = 'pgleader' AND c.relname = 'schema_version') AS has_ledger
