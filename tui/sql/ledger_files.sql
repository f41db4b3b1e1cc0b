-- SPDX-License-Identifier: PostgreSQL
-- Which files of the ledger are installed; 42P01 where there is none.
-- Columns: version int4, file text, installed_at timestamptz, installed_by text
SELECT v.version, v.file, v.installed_at, v.installed_by FROM pgleader.schema_version AS v ORDER BY v.version
