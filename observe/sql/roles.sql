-- SPDX-License-Identifier: PostgreSQL
-- Names of roles, asked only for oids not seen before.
-- $1 oid[]
-- Columns: oid oid, name name
SELECT r.oid, r.rolname AS name FROM pg_catalog.pg_roles AS r WHERE r.oid = ANY ($1::oid[])
