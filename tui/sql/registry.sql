-- SPDX-License-Identifier: PostgreSQL
-- The duties that the ledger's registry has; 42P01 where there is no ledger.
-- Columns: see registry.c. lease_persistence is that of the lease's table, NULL where there is none.
SELECT d.duty, d.mechanism, d.lock_classid, d.lock_objid, d.lock_objsubid,
       d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid, d.lease_table, d.lease_row,
       (SELECT c.relpersistence::text FROM pg_catalog.pg_class AS c
        WHERE c.oid = pg_catalog.to_regclass(d.lease_table)) AS lease_persistence,
       d.candidate_pattern, d.min_candidates
FROM pgleader.duty AS d
WHERE d.retired_at IS NULL
ORDER BY d.duty
