-- SPDX-License-Identifier: PostgreSQL
-- Settling: until when the work of earlier leaders may still run.
--
-- A successor of a term that its owner did not end waits until that work is reported stopped, at most
-- stop_within. Its predecessor may have been lost while it waited itself, and so on back: the wait is
-- for the latest of them all. A lease that expired by itself is another matter: its holder had stopped
-- by its own deadline, so that its term ends as expired, at the expiry, and nobody waits.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(10, '010_settling.sql') THEN
        RETURN;
    END IF;

    CREATE OR REPLACE VIEW pgleader.current_term AS
    SELECT d.duty, d.generation, d.term_instance AS instance, d.term_pid AS backend_pid,
        d.term_backend_start AS backend_start, d.term_listens AS listens, d.term_stop_within AS stop_within,
        d.term_acquired_at AS acquired_at, d.term_last_refused_at AS last_refused_at,
        d.term_ended_at AS ended_at, d.term_end_reason AS end_reason,
        d.previous_generation, d.previous_instance, d.previous_ended_at, d.previous_end_reason,
        p.stop_within AS previous_stop_within, p.stopped_at AS previous_stopped_at,
        y.intent AS yield_intent, y.reason AS yield_reason, y.requested_at + y.grace AS yield_until,
        -- Past the newest 64 terms nobody looks: no duty changes hands so often within a stop_within.
        (SELECT pg_catalog.max(e.ended_at + e.stop_within) FROM (
            SELECT x.ended_at, x.stop_within, x.end_reason, x.stopped_at FROM pgleader.term x
            WHERE x.duty_id = d.duty_id AND x.generation < d.generation
            ORDER BY x.generation DESC LIMIT 64) e
        WHERE e.end_reason = 'superseded' AND e.stopped_at IS NULL) AS settle_until
    FROM pgleader.duty d
    LEFT JOIN pgleader.term p ON p.duty_id = d.duty_id AND p.generation = d.previous_generation
    LEFT JOIN pgleader.yield y ON y.duty_id = d.duty_id AND y.outcome IS NULL
        AND y.generation = d.generation AND y.expires_at > pg_catalog.clock_timestamp()
    WHERE d.retired_at IS NULL AND d.generation IS NOT NULL;

    -- Ends the open term of a duty whose lease has lapsed; the caller has locked the duty's row and
    -- the lease's. Not where the row is of another generation, or gone: that is nobody's expiry.
    CREATE FUNCTION pgleader.end_expired(INOUT d pgleader.duty)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        expired_at timestamptz;
    BEGIN
        SELECT l.expires_at INTO expired_at FROM pgleader.lease l
        WHERE l.job_name = d.duty AND l.generation = d.generation AND d.term_ended_at IS NULL
            AND l.expires_at <= clock_timestamp();
        IF NOT FOUND THEN
            RETURN;
        END IF;
        d.term_ended_at := greatest(expired_at, d.term_acquired_at);
        d.term_end_reason := 'expired';
        UPDATE pgleader.term t SET ended_at = d.term_ended_at, end_reason = d.term_end_reason
        WHERE t.duty_id = d.duty_id AND t.ended_at IS NULL;
        UPDATE pgleader.duty x SET term_ended_at = d.term_ended_at, term_end_reason = d.term_end_reason
        WHERE x.duty_id = d.duty_id;
    END
    $function$;

    CREATE OR REPLACE FUNCTION pgleader.acquire_lease(duty text, holder text, duration interval,
        listens boolean DEFAULT false, stop_within interval DEFAULT NULL,
        last_refused_at timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(acquire_lease.duty);
        new_generation bigint;
        acquired_at timestamptz;
    BEGIN
        PERFORM pgleader.require_own_lease(d, duration);
        -- Followers ask often: they are answered here, without a lock that the leader would notice.
        IF pgleader.held_by_another(d.duty, holder) THEN
            RETURN NULL;
        END IF;
        d := pgleader.lock_duty(acquire_lease.duty, true);
        PERFORM pgleader.require_own_lease(d, duration);
        PERFORM FROM pgleader.lease l WHERE l.job_name = d.duty FOR UPDATE;
        IF pgleader.held_by_another(d.duty, holder) THEN
            RETURN NULL;
        END IF;
        d := pgleader.end_expired(d);
        new_generation := pgleader.open_term(d, holder, listens, stop_within, last_refused_at, NULL);
        acquired_at := clock_timestamp();
        INSERT INTO pgleader.lease (job_name, holder, expires_at, generation, acquired_at, renewed_at)
        VALUES (d.duty, acquire_lease.holder, acquired_at + duration, new_generation,
            acquired_at, acquired_at)
        ON CONFLICT ON CONSTRAINT lease_pkey DO UPDATE SET holder = excluded.holder,
            expires_at = excluded.expires_at, generation = excluded.generation,
            acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at;
        RETURN new_generation;
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
