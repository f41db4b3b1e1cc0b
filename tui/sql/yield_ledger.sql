-- SPDX-License-Identifier: PostgreSQL
-- What the ledger knows of one duty that matters for a yield; 42P01 or 3F000 where there is none.
-- $1 text: the duty
-- Columns: see struct yield_ledger in tui/guard.h. No row: the duty is not registered. Ledgers before version 11
-- have no reserved key.
SELECT d.mechanism, d.lock_classid AS classid, d.lock_objid AS objid, d.lock_objsubid AS objsubid, d.lease_table,
       (pg_catalog.to_jsonb(d) ->> 'next_lock_classid')::int8 AS next_classid,
       (pg_catalog.to_jsonb(d) ->> 'next_lock_objid')::int8 AS next_objid,
       (pg_catalog.to_jsonb(d) ->> 'next_lock_objsubid')::int4 AS next_objsubid,
       d.candidate_pattern, d.yieldable,
       (SELECT pg_catalog.string_agg(o.duty, ', ' ORDER BY o.duty) FROM pgleader.duty AS o
        WHERE o.term_pid = d.term_pid AND o.term_backend_start = d.term_backend_start AND o.term_ended_at IS NULL
            AND o.duty_id <> d.duty_id AND o.retired_at IS NULL) AS also_leads,
       d.generation, d.term_pid, d.term_backend_start, d.term_instance, d.term_listens,
       d.generation IS NOT NULL AND d.term_ended_at IS NULL AS term_open, d.term_acquired_at,
       (pg_catalog.date_part('epoch', d.term_stop_within) * 1000000)::int8 AS stop_within_us,
       d.previous_generation, p.stopped_at AS previous_stopped_at,
       r.run_key, r.generation AS run_generation, r.cursor AS run_cursor, r."position" AS run_position,
       r.target AS run_target,
       coalesce(y.outcome IS NULL AND y.expires_at > pg_catalog.clock_timestamp(), false) AS yield_open,
       y.requested_by AS yield_by, y.intent AS yield_intent, y.expires_at AS yield_expires_at,
       coalesce(y.requested_at + d.yield_cooldown > pg_catalog.clock_timestamp(), false) AS cooling,
       y.requested_at + d.yield_cooldown AS cool_until,
       l.holder AS lease_holder, l.generation AS lease_generation,
       o.rolname AS function_owner,
       coalesce(pg_catalog.has_function_privilege(f.oid, 'EXECUTE')
           AND pg_catalog.has_function_privilege(
               pg_catalog.to_regprocedure('pgleader.request_yield(text,bigint,text,interval,text[])'), 'EXECUTE')
           AND pg_catalog.has_function_privilege(
               pg_catalog.to_regprocedure('pgleader.record_yield_outcome(bigint,text)'), 'EXECUTE'), false) AS may_request,
       coalesce(pg_catalog.has_function_privilege(pg_catalog.to_regprocedure(
           'pgleader.record_refusal(text,bigint,int,timestamptz,text,text,text,text[])'), 'EXECUTE'), false) AS may_record_refusal,
       coalesce(pg_catalog.pg_has_role(f.proowner, 'pg_signal_backend', 'USAGE')
           AND pg_catalog.pg_has_role(f.proowner, 'pg_read_all_stats', 'USAGE'), false) AS owner_may_signal,
       o.rolsuper AS owner_superuser,
       pg_catalog.current_setting('default_transaction_read_only') = 'on' AS read_only
FROM pgleader.duty AS d
LEFT JOIN pgleader.term AS p ON p.duty_id = d.duty_id AND p.generation = d.previous_generation
LEFT JOIN pgleader.run AS r ON r.duty_id = d.duty_id AND r.place = 'newest'
LEFT JOIN LATERAL (
    SELECT x.* FROM pgleader.yield AS x WHERE x.duty_id = d.duty_id ORDER BY x.intent DESC LIMIT 1
) AS y ON true
LEFT JOIN pgleader.lease AS l ON l.job_name = d.duty AND l.expires_at > pg_catalog.clock_timestamp()
LEFT JOIN pg_catalog.pg_proc AS f ON f.oid = pg_catalog.to_regprocedure('pgleader.terminate_owner(bigint)')
LEFT JOIN pg_catalog.pg_roles AS o ON o.oid = f.proowner
WHERE d.duty = $1 AND d.retired_at IS NULL
