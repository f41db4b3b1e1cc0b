-- SPDX-License-Identifier: PostgreSQL
-- Yields: the audit of every request to end a leader's session, and the one statement that does it.
--
-- request_yield writes the intent and tells the leader. Only when that is committed can terminate_owner
-- use it: once, before it expires, and only against the session whose own begin_term opened the term,
-- while that session still holds the lock. So nobody makes a stranger killable by registering its key.
-- The outcome is what the operator's program observed afterwards, written by record_yield_outcome.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(7, '007_yields.sql') THEN
        RETURN;
    END IF;

    -- Ends a yield's row and counts its outcome; the caller holds the duty's row of on_call.
    CREATE FUNCTION pgleader.close_yield(y pgleader.yield, outcome text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        UPDATE pgleader.yield x SET outcome = close_yield.outcome, outcome_at = clock_timestamp(),
            outcome_by = session_user
        WHERE x.intent = y.intent;
        UPDATE pgleader.on_call c SET
            moved         = c.moved         + (outcome = 'moved')::int,
            returned      = c.returned      + (outcome = 'returned')::int,
            vacant        = c.vacant        + (outcome = 'vacant')::int,
            not_confirmed = c.not_confirmed + (outcome = 'not-confirmed')::int,
            unknown       = c.unknown       + (outcome = 'unknown')::int,
            refused       = c.refused       + (outcome = 'refused')::int
        WHERE c.duty_id = y.duty_id;
    END
    $function$;

    -- overrides names the guards that the operator chose to pass over; the ledger knows cool-down.
    CREATE FUNCTION pgleader.request_yield(duty text, generation bigint, reason text, grace interval,
        overrides text[] DEFAULT '{}') RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(request_yield.duty);
        grace_time constant interval := coalesce(grace, interval '10 s');
        newest pgleader.yield;
        new_intent bigint;
    BEGIN
        IF coalesce(btrim(reason), '') = '' OR octet_length(reason) > 1000 THEN
            RAISE EXCEPTION 'could not request a yield of duty "%": it needs a reason, of at most 1000 bytes',
                d.duty USING ERRCODE = 'invalid_parameter_value';
        ELSIF grace_time NOT BETWEEN interval '0' AND interval '1 hour' THEN
            RAISE EXCEPTION 'could not request a yield of duty "%": the grace is not between 0 and 1 hour',
                d.duty USING ERRCODE = 'invalid_parameter_value';
        ELSIF NOT d.yieldable THEN
            RAISE EXCEPTION 'could not request a yield of duty "%": it is registered as not yieldable',
                d.duty USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        -- Two operators queue here; the duty's own row belongs to the fences.
        PERFORM FROM pgleader.on_call c WHERE c.duty_id = d.duty_id FOR NO KEY UPDATE;
        d := pgleader.find_duty(request_yield.duty);
        PERFORM pgleader.require_generation(d, generation);
        SELECT * INTO newest FROM pgleader.yield y WHERE y.duty_id = d.duty_id
        ORDER BY y.intent DESC LIMIT 1;
        IF newest.intent IS NOT NULL AND newest.outcome IS NULL THEN
            IF newest.expires_at > clock_timestamp() THEN
                RAISE EXCEPTION 'could not request a yield of duty "%": yield % of % is open',
                    d.duty, newest.intent, newest.requested_by
                    USING ERRCODE = 'object_in_use', DETAIL = format('It was requested at %s and expires at '
                        '%s.', newest.requested_at, newest.expires_at);
            END IF;
            PERFORM pgleader.close_yield(newest, 'unknown');
        END IF;
        IF newest.requested_at + d.yield_cooldown > clock_timestamp()
            AND NOT 'cool-down' = ANY (coalesce(overrides, '{}')) THEN
            RAISE EXCEPTION 'could not request a yield of duty "%": the last one was at %',
                d.duty, newest.requested_at
                USING ERRCODE = 'object_in_use', DETAIL = format('The cool-down ends at %s.',
                        newest.requested_at + d.yield_cooldown),
                    HINT = 'Wait, or override the guard cool-down by name.';
        END IF;
        INSERT INTO pgleader.yield (duty_id, generation, pid, backend_start, instance, reason, overrides,
            requested_at, grace, expires_at)
        VALUES (d.duty_id, request_yield.generation, d.term_pid, d.term_backend_start, d.term_instance,
            request_yield.reason, coalesce(request_yield.overrides, '{}'),
            clock_timestamp(), grace_time, clock_timestamp() + grace_time + interval '60 s')
        RETURNING intent INTO new_intent;
        PERFORM pgleader.notify_duty(d.duty, jsonb_build_object('event', 'yield',
            'generation', generation, 'intent', new_intent,
            'grace_ms', floor(extract(epoch FROM grace_time) * 1000)::bigint));
        PERFORM pgleader.commit_durably();
        RETURN new_intent;
    END
    $function$;

    -- The intent, locked, if it can still be used; PL005 otherwise.
    CREATE FUNCTION pgleader.take_intent(intent bigint) RETURNS pgleader.yield
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        y pgleader.yield;
        why text;
    BEGIN
        SELECT * INTO y FROM pgleader.yield x WHERE x.intent = take_intent.intent FOR UPDATE;
        why := CASE
            WHEN y.intent IS NULL THEN 'there is no such yield'
            WHEN y.used_at IS NOT NULL THEN format('it was used at %s', y.used_at)
            WHEN y.outcome IS NOT NULL THEN format('it is over (%s)', y.outcome)
            WHEN y.expires_at <= clock_timestamp() THEN format('it expired at %s', y.expires_at)
            WHEN y.requested_xid = txid_current() THEN 'it is not committed yet'
        END;
        IF why IS NOT NULL THEN
            RAISE EXCEPTION 'could not use yield %: %', coalesce(intent::text, 'NULL'), why
                USING ERRCODE = 'PL005',
                    HINT = 'Nothing was signalled. Look who leads now, and request a yield anew.';
        END IF;
        RETURN y;
    END
    $function$;

    -- signalled says only that the signal was sent. What came of it is to be observed and recorded.
    CREATE FUNCTION pgleader.terminate_owner(intent bigint, OUT pid int, OUT signalled boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        y pgleader.yield := pgleader.take_intent(terminate_owner.intent);
        d pgleader.duty;
        why text;
    BEGIN
        SELECT x.* INTO d FROM pgleader.duty x WHERE x.duty_id = y.duty_id;
        d := pgleader.lock_duty(d.duty, false);
        why := CASE
            WHEN d.mechanism <> 'lock' THEN 'no session holds a lease'
            WHEN d.generation <> y.generation THEN format('generation %s leads now', d.generation)
            WHEN d.term_ended_at IS NOT NULL THEN format('the term ended at %s', d.term_ended_at)
            WHEN d.term_pid IS DISTINCT FROM y.pid OR d.term_backend_start IS DISTINCT FROM y.backend_start
                THEN 'another session has the term'
            WHEN y.backend_start IS NULL OR pgleader.session_start(y.pid) IS DISTINCT FROM y.backend_start
                THEN format('session %s is gone, or its start cannot be read', y.pid)
            WHEN NOT pgleader.session_holds(y.pid, d.lock_classid, d.lock_objid, d.lock_objsubid)
                THEN format('session %s does not hold the lock any more', y.pid)
        END;
        IF why IS NOT NULL THEN
            RAISE EXCEPTION 'could not use yield % of duty "%": %', y.intent, d.duty, why
                USING ERRCODE = 'PL005',
                    HINT = 'Nothing was signalled. Look who leads now, and request a yield anew.';
        END IF;
        pid := y.pid;
        signalled := pg_terminate_backend(y.pid);
        UPDATE pgleader.yield x SET used_at = clock_timestamp(), used_by = session_user,
            signalled = terminate_owner.signalled
        WHERE x.intent = y.intent;
        PERFORM pgleader.commit_durably();
    END
    $function$;

    CREATE FUNCTION pgleader.record_yield_outcome(intent bigint, outcome text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        y pgleader.yield;
    BEGIN
        IF outcome IS NULL OR outcome NOT IN
            ('moved', 'returned', 'vacant', 'not-confirmed', 'unknown', 'refused') THEN
            RAISE EXCEPTION 'could not record the outcome of yield %: "%" is not an outcome', intent, outcome
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'It is moved, returned, vacant, not-confirmed, unknown or refused.';
        END IF;
        -- This row before the audit's, the order of request_yield.
        PERFORM FROM pgleader.on_call c WHERE c.duty_id = (SELECT x.duty_id FROM pgleader.yield x
            WHERE x.intent = record_yield_outcome.intent) FOR NO KEY UPDATE;
        SELECT * INTO y FROM pgleader.yield x WHERE x.intent = record_yield_outcome.intent FOR UPDATE;
        IF y.intent IS NULL OR y.outcome IS NOT NULL THEN
            RAISE EXCEPTION 'could not record the outcome of yield %: %', coalesce(intent::text, 'NULL'),
                coalesce(format('it is recorded already (%s)', y.outcome), 'there is no such yield')
                USING ERRCODE = 'PL005';
        END IF;
        PERFORM pgleader.close_yield(y, outcome);
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
