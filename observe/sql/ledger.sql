-- SPDX-License-Identifier: PostgreSQL
-- What the ledger knows of each duty that is not retired: the registry's row, the newest term and the
-- one before it, the newest unfinished run, the last complete run, and the yields' totals.
-- No parameters. One row a duty, from current rows and by index: history does not slow it.
--
--   duty text, mechanism text            mechanism is lock or lease
--   environment text
--   lock_classid int8, lock_objid int8, lock_objsubid int4
--                                        the key as pg_locks shows it, unsigned; NULL for a lease
--   next_lock_* likewise                 the key that the duty is moving to, held beside the other; NULL mostly
--   lease_table text, lease_row text     the table with its schema, quoted where SQL needs it; NULL for a lock
--   candidate_pattern text               LIKE pattern on application_name
--   team text, runbook text
--   min_candidates int4, stall_after_us int8, run_every_us int8, takeover_slow_after_us int8,
--   wait_slow_after_us int8              NULL where not declared
--   alerts_paused_until timestamptz
--   yieldable bool
--   generation int8 ... term_end_reason  the newest term, NULL before the first; term_ended_at NULL = open;
--                                        term_pid NULL for a lease; term_backend_start NULL = unreadable
--   previous_generation int8 ...         the term before it; its reason is superseded where its owner did not end it
--   yielding bool                        a yield of the newest term is open
--   run_key text ... run_finished_at     the newest run that is running (run_finished_at NULL) or partial
--   last_run_key text ...                the last complete run
--   yields_* int8                        outcomes ever recorded
--
SELECT
    d.duty, d.mechanism, d.environment,
    d.lock_classid, d.lock_objid, d.lock_objsubid,
    d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid,
    d.lease_table, d.lease_row,
    d.candidate_pattern, d.team, d.runbook, d.min_candidates,
    (pg_catalog.date_part('epoch', d.stall_after) * 1000000)::int8 AS stall_after_us,
    (pg_catalog.date_part('epoch', d.run_every) * 1000000)::int8 AS run_every_us,
    (pg_catalog.date_part('epoch', d.takeover_slow_after) * 1000000)::int8 AS takeover_slow_after_us,
    (pg_catalog.date_part('epoch', d.wait_slow_after) * 1000000)::int8 AS wait_slow_after_us,
    o.alerts_paused_until, d.yieldable,
    d.generation, d.term_pid, d.term_backend_start, d.term_instance, d.term_listens,
    d.term_acquired_at, d.term_last_refused_at, d.term_ended_at, d.term_end_reason,
    d.previous_generation, d.previous_instance, d.previous_acquired_at,
    d.previous_ended_at, d.previous_end_reason,
    coalesce(q.expires_at > pg_catalog.clock_timestamp(), false) AS yielding,
    r.run_key, r.status AS run_status, r.generation AS run_generation, r.cursor AS run_cursor,
    r."position" AS run_position, r.target AS run_target,
    r.started_at AS run_started_at, r.advanced_at AS run_advanced_at, r.deadline_at AS run_deadline_at,
    r.finished_at AS run_finished_at,
    l.run_key AS last_run_key, l.cursor AS last_run_cursor,
    l."position" AS last_run_position, l.finished_at AS last_run_finished_at,
    o.moved AS yields_moved, o.returned AS yields_returned, o.vacant AS yields_vacant,
    o.not_confirmed AS yields_not_confirmed, o.unknown AS yields_unknown, o.refused AS yields_refused
FROM pgleader.on_call o -- first the narrow rows, so that the wide ones are hashed once
LEFT JOIN pgleader.run r ON r.duty_id = o.duty_id AND r.place = 'newest'
LEFT JOIN pgleader.run l ON l.duty_id = o.duty_id AND l.place = 'last'
JOIN pgleader.duty d ON d.duty_id = o.duty_id
LEFT JOIN pgleader.yield q ON q.duty_id = d.duty_id AND q.generation = d.generation AND q.outcome IS NULL
WHERE d.retired_at IS NULL
