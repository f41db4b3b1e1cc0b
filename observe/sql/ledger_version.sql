-- SPDX-License-Identifier: PostgreSQL
-- The version of the ledger in this database; 42P01 or 3F000 where there is none.
--
--   version int4    number of the newest file of ledger/ that is installed
--
SELECT pg_catalog.max(v.version) AS version FROM pgleader.schema_version v
