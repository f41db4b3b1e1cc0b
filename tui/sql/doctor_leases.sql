-- SPDX-License-Identifier: PostgreSQL
-- Which tables of these are unlogged.
-- $1 text[]: quoted names with their schema
-- Columns: name text
SELECT t.name FROM pg_catalog.unnest($1::text[]) AS t (name)
JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(t.name)
WHERE c.relpersistence = 'u'
