-- SPDX-License-Identifier: PostgreSQL
-- What was observed, into the audit.
-- $1 intent, $2 outcome
-- Columns: none that is read
SELECT pgleader.record_yield_outcome($1::pg_catalog.int8, $2::pg_catalog.text)
