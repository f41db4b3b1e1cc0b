-- SPDX-License-Identifier: PostgreSQL
-- What was observed, into the audit: to this very intent. Another server may answer by now, where the intent of the
-- same number is somebody else's.
-- $1 intent, $2 outcome, $3 duty, $4 its generation, $5 pid and $6 backend_start of the session, NULL for a lease
-- Columns: intent int8. No row: that intent is not here.
SELECT y.intent, pgleader.record_yield_outcome(y.intent, $2::pg_catalog.text)
FROM pgleader.yield AS y
JOIN pgleader.duty AS d ON d.duty_id OPERATOR(pg_catalog.=) y.duty_id
WHERE y.intent OPERATOR(pg_catalog.=) $1::pg_catalog.int8
    AND d.duty OPERATOR(pg_catalog.=) $3::pg_catalog.text
    AND y.generation OPERATOR(pg_catalog.=) $4::pg_catalog.int8
    AND coalesce(y.pid, 0) OPERATOR(pg_catalog.=) coalesce($5::pg_catalog.int4, 0)
    AND coalesce(y.backend_start, '-infinity') OPERATOR(pg_catalog.=) coalesce($6::pg_catalog.timestamptz, '-infinity')
