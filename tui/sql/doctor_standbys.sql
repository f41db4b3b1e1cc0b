-- SPDX-License-Identifier: PostgreSQL
-- How many standbys stream from here, and how many of them a commit waits for.
-- Columns: standbys int8, synchronous int8
SELECT count(*) AS standbys, count(*) FILTER (WHERE w.sync_state IN ('sync', 'quorum')) AS synchronous
FROM pg_catalog.pg_stat_get_wal_senders() AS w
WHERE w.state IN ('streaming', 'catchup')
