-- SPDX-License-Identifier: PostgreSQL
-- Runs: one row per (duty, run_key), whatever the number of takeovers, and every write of it fenced.
--
-- A successor claims the key of an unfinished run and gets its cursor back. A run that was abandoned
-- can be claimed again; only a complete one is done for good.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(5, '005_runs.sql') THEN
        RETURN;
    END IF;

    -- Claims and ends of a duty's runs queue, since they move the marks that the poll reads by. Not on
    -- the duty's row, which the fences share.
    CREATE FUNCTION pgleader.lock_runs(d pgleader.duty) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT pg_advisory_xact_lock(pgleader.own_namespace(), -d.duty_id) $function$;

    CREATE FUNCTION pgleader.place_newest(d pgleader.duty) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        newest text;
    BEGIN
        SELECT x.run_key INTO newest FROM pgleader.run x
        WHERE x.duty_id = d.duty_id AND x.status IN ('running', 'partial')
        ORDER BY x.claimed_at DESC LIMIT 1;
        UPDATE pgleader.run x SET place = NULL
        WHERE x.duty_id = d.duty_id AND x.place = 'newest' AND x.run_key IS DISTINCT FROM newest;
        UPDATE pgleader.run x SET place = 'newest'
        WHERE x.duty_id = d.duty_id AND x.run_key = newest AND x.place IS NULL;
    END
    $function$;

    CREATE FUNCTION pgleader.claim_run(duty text, run_key text, generation bigint, deadline interval,
        OUT outcome text, OUT cursor text, OUT "position" numeric, OUT previous_generation bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.hold_generation(claim_run.duty, claim_run.generation);
        claiming_at constant timestamptz := clock_timestamp();
        r pgleader.run;
    BEGIN
        IF coalesce(octet_length(run_key), 0) NOT BETWEEN 1 AND 255 THEN
            RAISE EXCEPTION 'could not claim a run of duty "%": the run key is not of 1 to 255 bytes', d.duty
                USING ERRCODE = 'invalid_parameter_value';
        ELSIF deadline NOT BETWEEN interval '0' AND interval '10 years' THEN
            RAISE EXCEPTION 'could not claim run "%" of duty "%": the deadline is not between 0 and 10 years',
                run_key, d.duty USING ERRCODE = 'invalid_parameter_value';
        END IF;
        PERFORM pgleader.lock_runs(d);
        INSERT INTO pgleader.run (duty_id, run_key, status, generation, started_at, claimed_at, deadline_at)
        VALUES (d.duty_id, claim_run.run_key, 'running', claim_run.generation, claiming_at, claiming_at,
            claiming_at + deadline)
        ON CONFLICT ON CONSTRAINT run_pkey DO NOTHING;
        IF FOUND THEN
            outcome := 'fresh';
            PERFORM pgleader.place_newest(d);
            RETURN;
        END IF;

        SELECT * INTO r FROM pgleader.run x
        WHERE x.duty_id = d.duty_id AND x.run_key = claim_run.run_key FOR UPDATE;
        cursor := r.cursor;
        "position" := r."position";
        previous_generation := r.generation;
        IF r.status = 'complete' THEN
            outcome := 'already_complete';
            RETURN;
        END IF;
        outcome := 'resumed';
        UPDATE pgleader.run x SET status = 'running', generation = claim_run.generation,
            claimed_at = claiming_at, deadline_at = claiming_at + deadline,
            finished_at = NULL, receipt = NULL, claims = x.claims + 1
        WHERE x.duty_id = d.duty_id AND x.run_key = claim_run.run_key;
        PERFORM pgleader.place_newest(d);
    END
    $function$;

    -- The run that this generation works at, locked; raises unless it is running and claimed by it.
    CREATE FUNCTION pgleader.own_run(d pgleader.duty, run_key text, generation bigint, deed text)
    RETURNS pgleader.run
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        r pgleader.run;
    BEGIN
        SELECT * INTO r FROM pgleader.run x
        WHERE x.duty_id = d.duty_id AND x.run_key = own_run.run_key FOR UPDATE;
        IF r.generation IS DISTINCT FROM own_run.generation THEN
            RAISE EXCEPTION 'could not % run "%" of duty "%": generation % has not claimed it',
                deed, run_key, d.duty, generation
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'claim_run first: it returns the cursor to go on from.';
        END IF;
        RETURN r;
    END
    $function$;

    -- A cursor that reads as a number is its own position, unless one is given.
    CREATE FUNCTION pgleader.cursor_position(cursor text) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT CASE WHEN cursor ~ '^-?[0-9]{1,100}(\.[0-9]{1,100})?$' THEN cursor::numeric END
    $function$;

    -- advanced_at moves only when the cursor does: it is what a stalled leader cannot fake by calling.
    CREATE FUNCTION pgleader.advance_run(duty text, run_key text, generation bigint, cursor text,
        "position" numeric DEFAULT NULL, target numeric DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.hold_generation(advance_run.duty, advance_run.generation);
        r pgleader.run := pgleader.own_run(d, advance_run.run_key, advance_run.generation, 'advance');
    BEGIN
        IF r.status <> 'running' THEN
            RAISE EXCEPTION 'could not advance run "%" of duty "%": it is %', run_key, d.duty, r.status
                USING ERRCODE = 'object_not_in_prerequisite_state';
        ELSIF octet_length(cursor) > 8192 THEN
            RAISE EXCEPTION 'could not advance run "%" of duty "%": the cursor is longer than 8 kB',
                run_key, d.duty USING ERRCODE = 'invalid_parameter_value';
        END IF;
        UPDATE pgleader.run x SET
            cursor = advance_run.cursor,
            "position" = coalesce(advance_run."position", pgleader.cursor_position(advance_run.cursor)),
            target = coalesce(advance_run.target, x.target),
            advanced_at = CASE WHEN x.cursor IS DISTINCT FROM advance_run.cursor
                THEN clock_timestamp() ELSE x.advanced_at END
        WHERE x.duty_id = d.duty_id AND x.run_key = advance_run.run_key;
    END
    $function$;

    -- Asked twice by the same generation for the same end (a commit whose answer was lost), it agrees.
    CREATE FUNCTION pgleader.finish_run(duty text, run_key text, generation bigint, status text,
        receipt jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.hold_generation(finish_run.duty, finish_run.generation);
        r pgleader.run;
    BEGIN
        PERFORM pgleader.lock_runs(d);
        r := pgleader.own_run(d, finish_run.run_key, finish_run.generation, 'finish');
        IF status IS NULL OR status NOT IN ('complete', 'partial', 'abandoned') THEN
            RAISE EXCEPTION 'could not finish run "%" of duty "%": "%" is not complete, partial or abandoned',
                run_key, d.duty, status USING ERRCODE = 'invalid_parameter_value';
        ELSIF r.status = finish_run.status THEN
            RETURN;
        ELSIF r.status <> 'running' THEN
            RAISE EXCEPTION 'could not finish run "%" of duty "%": it is % already', run_key, d.duty, r.status
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF finish_run.status = 'complete' THEN
            UPDATE pgleader.run x SET place = NULL WHERE x.duty_id = d.duty_id AND x.place = 'last';
        END IF;
        UPDATE pgleader.run x SET status = finish_run.status, receipt = finish_run.receipt,
            finished_at = clock_timestamp(),
            place = CASE finish_run.status WHEN 'complete' THEN 'last' WHEN 'partial' THEN x.place END
        WHERE x.duty_id = d.duty_id AND x.run_key = finish_run.run_key;
        PERFORM pgleader.place_newest(d);
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
