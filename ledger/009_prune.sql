-- SPDX-License-Identifier: PostgreSQL
-- Deletes old history, never a total and never what a picture or a takeover still needs.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(9, '009_prune.sql') THEN
        RETURN;
    END IF;

    -- Kept whatever their age: a duty's newest and previous term, unfinished runs, the last complete
    -- run, open yields. A run that is gone can be claimed afresh: keep longer than a key can return.
    CREATE FUNCTION pgleader.prune(keep interval, OUT terms bigint, OUT runs bigint, OUT yields bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        horizon constant timestamptz := clock_timestamp() - keep;
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
    END
    $function$;

    CREATE FUNCTION pgleader.expire_yield(intent bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        y pgleader.yield;
    BEGIN
        PERFORM FROM pgleader.on_call c WHERE c.duty_id = (SELECT x.duty_id FROM pgleader.yield x
            WHERE x.intent = expire_yield.intent) FOR NO KEY UPDATE;
        SELECT * INTO y FROM pgleader.yield x
        WHERE x.intent = expire_yield.intent AND x.outcome IS NULL FOR UPDATE;
        IF FOUND THEN
            PERFORM pgleader.close_yield(y, 'unknown');
        END IF;
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
