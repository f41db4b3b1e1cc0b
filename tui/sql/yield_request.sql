-- SPDX-License-Identifier: PostgreSQL
-- The intent, in a transaction of its own; the leader is told by it.
-- $1 duty, $2 generation, $3 reason, $4 grace in microseconds, $5 text[] of overrides
-- Columns: intent int8
SELECT pgleader.request_yield($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.text,
    pg_catalog.make_interval(secs => $4::pg_catalog.float8 OPERATOR(pg_catalog./) 1000000), $5::pg_catalog.text[]) AS intent
