-- SPDX-License-Identifier: PostgreSQL
-- Which cluster this is; a role may be denied it.
-- Columns: system_identifier text, timeline int4
SELECT s.system_identifier::text AS system_identifier, c.timeline_id AS timeline
FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_control_checkpoint() AS c
