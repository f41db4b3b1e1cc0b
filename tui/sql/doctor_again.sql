-- SPDX-License-Identifier: PostgreSQL
-- Which process answers now: behind a pooler it may be another one.
-- Columns: pid int4
SELECT pg_catalog.pg_backend_pid() AS pid
