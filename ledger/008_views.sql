-- SPDX-License-Identifier: PostgreSQL
-- The views: ownership for people, at night; current_term and current_run for programs.
--
-- ownership believes pg_locks (for a lease, its row and the server's clock) and shows what the ledger
-- adds only where the open term is of the session that holds the lock now.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(8, '008_views.sql') THEN
        RETURN;
    END IF;

    -- yield_intent is the open yield of this generation, until yield_until to be obeyed by the leader.
    CREATE VIEW pgleader.current_term AS
    SELECT d.duty, d.generation, d.term_instance AS instance, d.term_pid AS backend_pid,
        d.term_backend_start AS backend_start, d.term_listens AS listens, d.term_stop_within AS stop_within,
        d.term_acquired_at AS acquired_at, d.term_last_refused_at AS last_refused_at,
        d.term_ended_at AS ended_at, d.term_end_reason AS end_reason,
        d.previous_generation, d.previous_instance, d.previous_ended_at, d.previous_end_reason,
        p.stop_within AS previous_stop_within, p.stopped_at AS previous_stopped_at,
        y.intent AS yield_intent, y.reason AS yield_reason, y.requested_at + y.grace AS yield_until
    FROM pgleader.duty d
    LEFT JOIN pgleader.term p ON p.duty_id = d.duty_id AND p.generation = d.previous_generation
    LEFT JOIN pgleader.yield y ON y.duty_id = d.duty_id AND y.outcome IS NULL
        AND y.generation = d.generation AND y.expires_at > pg_catalog.clock_timestamp()
    WHERE d.retired_at IS NULL AND d.generation IS NOT NULL;

    CREATE VIEW pgleader.current_run AS
    SELECT d.duty, r.run_key, r.status, r.generation, r.cursor, r."position", r.target,
        r.started_at, r.claimed_at, r.advanced_at, r.deadline_at, r.claims
    FROM pgleader.duty d
    JOIN pgleader.run r ON r.duty_id = d.duty_id AND r.place = 'newest'
    WHERE d.retired_at IS NULL;

    -- A lease as its own table has it, read with the caller's rights; readable is false if it cannot
    -- be read at once. Only from a table whose columns are of built-in types: anything else could run
    -- code of its owner's as whoever looks at ownership.
    CREATE FUNCTION pgleader.read_lease(lease_table text, lease_row text,
        OUT holder text, OUT expires_at timestamptz, OUT readable boolean)
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        relation constant oid := to_regclass(lease_table);
        caller_timeout constant text := current_setting('lock_timeout');
    BEGIN
        SELECT count(*) = 3 INTO readable FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.oid = relation AND c.relkind IN ('r', 'p') AND (
            (a.attname IN ('job_name', 'holder') AND a.atttypid IN ('text'::regtype, 'varchar'::regtype))
            OR (a.attname = 'expires_at' AND a.atttypid = 'timestamptz'::regtype));
        IF NOT readable THEN
            RETURN;
        END IF;
        PERFORM set_config('lock_timeout', '100', true);
        BEGIN
            EXECUTE format('SELECT holder, expires_at FROM %s WHERE job_name = $1', relation::regclass)
                INTO holder, expires_at USING lease_row;
        EXCEPTION WHEN lock_not_available OR insufficient_privilege OR undefined_table
            OR feature_not_supported THEN
            readable := false; -- locked, not granted, dropped meanwhile, unlogged on a standby
        END;
        PERFORM set_config('lock_timeout', caller_timeout, true);
    END
    $function$;

    CREATE VIEW pgleader.ownership AS
    WITH here AS MATERIALIZED (
        SELECT a.datid FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a
    ), sessions AS MATERIALIZED (
        SELECT a.pid, a.backend_start, a.application_name, a.client_addr
        FROM pg_catalog.pg_stat_get_activity(NULL) a JOIN here ON here.datid = a.datid
    ), locks AS MATERIALIZED (
        SELECT d.duty_id, l.pid, l.granted AND l.mode = 'ExclusiveLock' AS owns, l.granted
        FROM pg_catalog.pg_locks l
        JOIN here ON here.datid = l.database
        JOIN pgleader.duty d ON d.lock_classid = l.classid::bigint AND d.lock_objid = l.objid::bigint
            AND d.lock_objsubid = l.objsubid
        WHERE l.locktype = 'advisory' AND d.retired_at IS NULL
    ), owners AS (
        SELECT d.duty_id, l.duty_id IS NOT NULL AS held, l.pid, s.application_name,
            l.pid = d.term_pid AND d.term_ended_at IS NULL AS same_pid,
            s.backend_start = d.term_backend_start AS same_start
        FROM pgleader.duty d
        LEFT JOIN locks l ON l.duty_id = d.duty_id AND l.owns
        LEFT JOIN sessions s ON s.pid = l.pid
    ), facts AS (
        SELECT d.*, o.held, o.pid, o.application_name, f.holder, f.readable,
            f.expires_at > pg_catalog.clock_timestamp() AS leased,
            CASE d.mechanism
                WHEN 'lock' THEN coalesce(o.same_pid AND o.same_start, false)
                ELSE d.lease_table = 'pgleader.lease' AND d.term_ended_at IS NULL
                    AND f.holder = d.term_instance
            END AS term_believed,
            coalesce(o.same_pid AND o.same_start IS NULL, false) AS unverified
        FROM pgleader.duty d
        JOIN owners o ON o.duty_id = d.duty_id
        LEFT JOIN LATERAL pgleader.read_lease(d.lease_table, d.lease_row) f ON true
        WHERE d.retired_at IS NULL
    )
    SELECT f.duty,
        CASE
            WHEN pg_catalog.pg_is_in_recovery() AND f.mechanism = 'lock' THEN 'unknown: this is a standby'
            WHEN f.mechanism = 'lease' AND NOT f.readable THEN 'unknown: lease not readable'
            WHEN NOT coalesce(CASE f.mechanism WHEN 'lock' THEN f.held ELSE f.leased END, false)
                THEN 'vacant'
            WHEN f.unverified THEN 'led, term not verified'
            WHEN f.mechanism = 'lock' AND NOT f.term_believed THEN 'led, term not begun'
            ELSE 'led'
        END AS state,
        CASE f.mechanism
            WHEN 'lock' THEN CASE WHEN f.term_believed THEN f.term_instance ELSE f.application_name END
            ELSE CASE WHEN f.leased THEN f.holder END
        END AS owner,
        f.pid AS owner_pid,
        CASE WHEN f.term_believed THEN f.generation END AS generation,
        CASE WHEN f.term_believed THEN pg_catalog.date_trunc('second',
            pg_catalog.clock_timestamp() - f.term_acquired_at) END AS age,
        CASE WHEN f.candidate_pattern IS NOT NULL OR c.of_the_kit > 0 THEN c.instances END AS candidates,
        r.run_key AS run, r.cursor,
        nullif(pg_catalog.concat_ws(', ',
            pg_catalog.round(100 * r."position" / nullif(r.target, 0)) || ' %',
            'advanced ' || pg_catalog.date_trunc('second',
                pg_catalog.clock_timestamp() - r.advanced_at) || ' ago'), '') AS progress,
        p.alerts_paused_until, f.team, f.runbook
    FROM facts f
    JOIN pgleader.on_call p ON p.duty_id = f.duty_id
    LEFT JOIN pgleader.current_run r ON r.duty = f.duty
    CROSS JOIN LATERAL (
        SELECT count(DISTINCT (s.application_name, s.client_addr)) AS instances,
            count(*) FILTER (WHERE pg_catalog.starts_with(s.application_name,
                'pgleader:' || f.duty || ':')) AS of_the_kit
        FROM sessions s
        WHERE s.application_name LIKE f.candidate_pattern
            OR pg_catalog.starts_with(s.application_name, 'pgleader:' || f.duty || ':')
            OR s.pid IN (SELECT l.pid FROM locks l
                WHERE l.duty_id = f.duty_id AND (l.owns OR NOT l.granted))) c
    ORDER BY f.duty;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
