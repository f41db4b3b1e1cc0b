-- SPDX-License-Identifier: PostgreSQL
-- Which cluster this is; a role may be denied it.
-- Columns: system_identifier text
SELECT s.system_identifier::text AS system_identifier FROM pg_catalog.pg_control_system() AS s
