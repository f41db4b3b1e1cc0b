-- SPDX-License-Identifier: PostgreSQL
-- Yields that a guard refused before there was an intent, in the audit as well; and a deed whose audit
-- cannot be lost after the signal.
--
-- A refusal is no yield: it opens nothing, starts no cool-down, and is not in the totals of on_call.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(12, '012_refusals.sql') THEN
        RETURN;
    END IF;

    CREATE TABLE pgleader.refused_yield (
        refusal       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        duty_id       int NOT NULL REFERENCES pgleader.duty,
        generation    bigint,          -- what was asked for; NULL: the owner had no term
        pid           int,             -- NULL: a lease, or nobody
        backend_start timestamptz,
        guard         text,            -- NULL: the ledger's own functions refused
        why           text NOT NULL,
        reason        text,
        overrides     text[] NOT NULL DEFAULT '{}',
        refused_by    text NOT NULL DEFAULT SESSION_USER,
        refused_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
    );
    CREATE INDEX refused_yield_at ON pgleader.refused_yield (refused_at);

    -- Waits for nobody: it locks no row that a fence or an operator locks.
    CREATE FUNCTION pgleader.record_refusal(duty text, generation bigint, pid int,
        backend_start timestamptz, guard text, why text, reason text, overrides text[] DEFAULT '{}')
        RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d constant pgleader.duty := pgleader.find_duty(record_refusal.duty);
        new_refusal bigint;
    BEGIN
        INSERT INTO pgleader.refused_yield (duty_id, generation, pid, backend_start, guard, why, reason,
            overrides)
        VALUES (d.duty_id, record_refusal.generation, record_refusal.pid, record_refusal.backend_start,
            left(record_refusal.guard, 60), left(record_refusal.why, 1000),
            left(record_refusal.reason, 1000), coalesce(record_refusal.overrides, '{}'))
        RETURNING refusal INTO new_refusal;
        RETURN new_refusal;
    END
    $function$;

    -- Since when a session is idle; NULL while it runs a statement, or where there is none.
    CREATE FUNCTION pgleader.session_idle_since(pid int) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT a.state_change FROM pg_stat_get_activity(session_idle_since.pid) a WHERE a.state LIKE 'idle%'
    $function$;

    -- As before, but that the audit is written before the signal, so that what can fail fails before it.
    -- And pg_locks takes milliseconds to read where thousands of locks are held: an owner that was not
    -- idle all that time may have unlocked meanwhile without ending its term, and is looked up again.
    CREATE OR REPLACE FUNCTION pgleader.terminate_owner(intent bigint, OUT pid int, OUT signalled boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        y pgleader.yield := pgleader.take_intent(terminate_owner.intent);
        d pgleader.duty;
        why text;
        idle_since timestamptz;
    BEGIN
        SELECT x.* INTO d FROM pgleader.duty x WHERE x.duty_id = y.duty_id;
        d := pgleader.lock_duty(d.duty, false);
        UPDATE pgleader.yield x SET used_at = clock_timestamp(), used_by = session_user, signalled = true
        WHERE x.intent = y.intent;
        PERFORM pgleader.commit_durably();
        idle_since := pgleader.session_idle_since(y.pid);
        why := CASE
            WHEN d.mechanism <> 'lock' THEN 'no session holds a lease'
            WHEN d.generation <> y.generation THEN format('generation %s leads now', d.generation)
            WHEN d.term_ended_at IS NOT NULL THEN format('the term ended at %s', d.term_ended_at)
            WHEN d.term_pid IS DISTINCT FROM y.pid OR d.term_backend_start IS DISTINCT FROM y.backend_start
                THEN 'another session has the term'
            WHEN y.pid = pg_backend_pid() THEN 'it is this very session: ask without a pooler'
            WHEN y.backend_start IS NULL OR pgleader.session_start(y.pid) IS DISTINCT FROM y.backend_start
                THEN format('session %s is gone, or its start cannot be read', y.pid)
            WHEN NOT pgleader.session_holds(y.pid, d.lock_classid, d.lock_objid, d.lock_objsubid)
                THEN format('session %s does not hold the lock any more', y.pid)
        END;
        PERFORM pg_stat_clear_snapshot();
        IF why IS NULL AND coalesce(idle_since <> pgleader.session_idle_since(y.pid), true)
            AND NOT pgleader.session_holds(y.pid, d.lock_classid, d.lock_objid, d.lock_objsubid) THEN
            why := format('session %s does not hold the lock any more', y.pid);
        END IF;
        IF why IS NOT NULL THEN
            RAISE EXCEPTION 'could not use yield % of duty "%": %', y.intent, d.duty, why
                USING ERRCODE = 'PL005',
                    HINT = 'Nothing was signalled. Look who leads now, and request a yield anew.';
        END IF;
        pid := y.pid;
        signalled := pg_terminate_backend(y.pid);
        IF NOT signalled THEN
            UPDATE pgleader.yield x SET signalled = false WHERE x.intent = y.intent;
        END IF;
    END
    $function$;

    CREATE OR REPLACE FUNCTION pgleader.prune(keep interval, OUT terms bigint, OUT runs bigint,
        OUT yields bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        horizon constant timestamptz := clock_timestamp() - keep;
        refusals bigint;
    BEGIN
        IF coalesce(keep < interval '0', true) THEN
            RAISE EXCEPTION 'could not prune: keep is a time, not negative'
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        DELETE FROM pgleader.term t USING pgleader.duty d
        WHERE d.duty_id = t.duty_id AND t.ended_at < horizon
            AND t.generation < coalesce(d.previous_generation, d.generation);
        GET DIAGNOSTICS terms = ROW_COUNT;

        DELETE FROM pgleader.run r
        WHERE r.status IN ('complete', 'abandoned') AND r.finished_at < horizon AND r.place IS NULL;
        GET DIAGNOSTICS runs = ROW_COUNT;

        -- An old yield whose outcome nobody recorded is counted before it goes.
        PERFORM pgleader.expire_yield(x.intent) FROM pgleader.yield x
        WHERE x.outcome IS NULL AND x.requested_at < horizon AND x.expires_at < clock_timestamp();
        DELETE FROM pgleader.yield x WHERE x.outcome IS NOT NULL AND x.requested_at < horizon;
        GET DIAGNOSTICS yields = ROW_COUNT;
        DELETE FROM pgleader.refused_yield x WHERE x.refused_at < horizon;
        GET DIAGNOSTICS refusals = ROW_COUNT;
        yields := yields + refusals;
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
