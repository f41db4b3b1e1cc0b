-- SPDX-License-Identifier: PostgreSQL
-- A refusal before there was an intent, into the audit of the server that was asked about, while it is the same.
-- $1 duty, $2 generation, $3 pid and $4 backend_start of the session, each NULL where there is none, $5 guard (NULL: the
-- server itself), $6 why, $7 reason, $8 text[] of overrides, $9 postmaster's start
-- Columns: intent int8, the refusal's number. No row: it is another server.
SELECT pgleader.record_refusal($1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.int4,
    $4::pg_catalog.timestamptz, $5::pg_catalog.text, $6::pg_catalog.text, $7::pg_catalog.text, $8::pg_catalog.text[]) AS intent
WHERE pg_catalog.pg_postmaster_start_time() OPERATOR(pg_catalog.=) $9::pg_catalog.timestamptz
