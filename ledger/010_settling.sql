-- SPDX-License-Identifier: PostgreSQL
-- Settling: until when the work of earlier leaders may still run.
--
-- A successor of a term that its owner did not end waits until that work is reported stopped, at most
-- stop_within. Its predecessor may have been lost while it waited itself, and so on back: the wait is
-- for the latest of them all. A lease that expired by itself is another matter: its holder had stopped
-- by its own deadline, so that its term ends as expired, at the expiry, and nobody waits.
--
-- The first term of a duty on a timeline waits too: a standby that was promoted, or a restored backup,
-- may have lost the newest terms, so that the leader to wait for is not known.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(10, '010_settling.sql') THEN
        RETURN;
    END IF;

    ALTER TABLE pgleader.term ADD COLUMN timeline bigint; -- NULL: begun before this was noted

    -- Of the write-ahead log as it is written now; the control file's stays behind for minutes.
    CREATE FUNCTION pgleader.timeline() RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint
    $function$;

    CREATE OR REPLACE VIEW pgleader.current_term AS
    SELECT d.duty, d.generation, d.term_instance AS instance, d.term_pid AS backend_pid,
        d.term_backend_start AS backend_start, d.term_listens AS listens, d.term_stop_within AS stop_within,
        d.term_acquired_at AS acquired_at, d.term_last_refused_at AS last_refused_at,
        d.term_ended_at AS ended_at, d.term_end_reason AS end_reason,
        d.previous_generation, d.previous_instance, d.previous_ended_at, d.previous_end_reason,
        p.stop_within AS previous_stop_within, p.stopped_at AS previous_stopped_at,
        y.intent AS yield_intent, y.reason AS yield_reason, y.requested_at + y.grace AS yield_until,
        -- Past the newest 64 terms nobody looks: no duty changes hands so often within a stop_within.
        greatest(CASE WHEN t.timeline IS DISTINCT FROM p.timeline AND p.generation IS NOT NULL
                THEN t.acquired_at + greatest(t.stop_within, p.stop_within) END,
            (SELECT pg_catalog.max(e.ended_at + e.stop_within) FROM (
                SELECT x.ended_at, x.stop_within, x.end_reason, x.stopped_at FROM pgleader.term x
                WHERE x.duty_id = d.duty_id AND x.generation < d.generation
                ORDER BY x.generation DESC LIMIT 64) e
            WHERE e.end_reason IN ('superseded', 'retired') AND e.stopped_at IS NULL)) AS settle_until
    FROM pgleader.duty d
    LEFT JOIN pgleader.term t ON t.duty_id = d.duty_id AND t.generation = d.generation
    LEFT JOIN pgleader.term p ON p.duty_id = d.duty_id AND p.generation = d.previous_generation
    LEFT JOIN pgleader.yield y ON y.duty_id = d.duty_id AND y.outcome IS NULL
        AND y.generation = d.generation AND y.expires_at > pg_catalog.clock_timestamp()
    WHERE d.retired_at IS NULL AND d.generation IS NOT NULL;

    -- As before, but for two things. The clock's part of a generation counts milliseconds: with whole
    -- seconds a duty that changes hands twice within one runs ahead of the clock, and a lagging standby
    -- promoted then hands out what it had lost. And a term notes the timeline that it began on.
    CREATE OR REPLACE FUNCTION pgleader.open_term(d pgleader.duty, instance text, listens boolean,
        stop_within interval, last_refused_at timestamptz, pid int) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        t pgleader.term;
    BEGIN
        IF coalesce(octet_length(instance), 0) NOT BETWEEN 1 AND 255 THEN
            RAISE EXCEPTION 'could not begin a term of duty "%": the instance has no name of 1 to 255 bytes',
                d.duty USING ERRCODE = 'invalid_parameter_value';
        ELSIF stop_within NOT BETWEEN interval '0' AND interval '1 hour' THEN
            RAISE EXCEPTION 'could not begin a term of duty "%": stop_within is not between 0 and 1 hour',
                d.duty USING ERRCODE = 'invalid_parameter_value';
        END IF;
        t.duty_id := d.duty_id;
        t.acquired_at := clock_timestamp();
        t.generation := greatest(coalesce(d.generation, 0) + 1,
            floor(extract(epoch FROM t.acquired_at - timestamptz '2025-01-01 00:00:00+00') * 1000)::bigint);
        t.instance := open_term.instance;
        t.backend_pid := open_term.pid;
        t.backend_start := pgleader.session_start(open_term.pid);
        t.listens := coalesce(open_term.listens, false);
        t.stop_within := coalesce(open_term.stop_within, interval '5 s');
        -- Not worth refusing leadership for: a refusal in the future or of no time is left out.
        t.last_refused_at := CASE WHEN isfinite(open_term.last_refused_at)
            AND open_term.last_refused_at <= t.acquired_at THEN open_term.last_refused_at END;
        t.timeline := pgleader.timeline();

        UPDATE pgleader.term x SET ended_at = t.acquired_at, end_reason = 'superseded'
        WHERE x.duty_id = d.duty_id AND x.ended_at IS NULL;
        UPDATE pgleader.duty x SET
            previous_generation = d.generation, previous_instance = d.term_instance,
            previous_acquired_at = d.term_acquired_at,
            previous_ended_at = CASE WHEN d.generation IS NOT NULL
                THEN coalesce(d.term_ended_at, t.acquired_at) END,
            previous_end_reason = CASE WHEN d.generation IS NOT NULL
                THEN coalesce(d.term_end_reason, 'superseded') END,
            generation = t.generation, term_pid = t.backend_pid, term_backend_start = t.backend_start,
            term_instance = t.instance, term_listens = t.listens, term_stop_within = t.stop_within,
            term_acquired_at = t.acquired_at, term_last_refused_at = t.last_refused_at,
            term_ended_at = NULL, term_end_reason = NULL
        WHERE x.duty_id = d.duty_id;
        INSERT INTO pgleader.term SELECT t.*;
        PERFORM pgleader.commit_durably();
        RETURN t.generation;
    END
    $function$;

    -- As before, but that pg_locks is read once: while this runs its session can give nothing back, so
    -- that after the wait only the key may have changed.
    CREATE OR REPLACE FUNCTION pgleader.begin_term(duty text, instance text, listens boolean DEFAULT false,
        stop_within interval DEFAULT NULL, last_refused_at timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        found constant pgleader.duty := pgleader.find_duty(begin_term.duty);
        d pgleader.duty;
    BEGIN
        -- Before the fence, which a stranger must not hold up.
        PERFORM pgleader.require_lock(found, 'begin a term of');
        d := pgleader.lock_duty(begin_term.duty, true);
        IF (d.lock_classid, d.lock_objid, d.lock_objsubid)
            IS DISTINCT FROM (found.lock_classid, found.lock_objid, found.lock_objsubid) THEN
            PERFORM pgleader.require_lock(d, 'begin a term of');
        END IF;
        RETURN pgleader.open_term(d, instance, listens, stop_within, last_refused_at, pg_backend_pid());
    END
    $function$;

    -- As before, but that the leader is told: by the next registration another may lead.
    CREATE OR REPLACE FUNCTION pgleader.retire_duty(duty text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.lock_duty(retire_duty.duty, true);
        ended constant timestamptz := clock_timestamp();
    BEGIN
        UPDATE pgleader.duty x SET retired_at = ended WHERE x.duty_id = d.duty_id;
        IF d.generation IS NOT NULL AND d.term_ended_at IS NULL THEN
            UPDATE pgleader.duty x SET term_ended_at = ended, term_end_reason = 'retired'
            WHERE x.duty_id = d.duty_id;
            UPDATE pgleader.term t SET ended_at = ended, end_reason = 'retired'
            WHERE t.duty_id = d.duty_id AND t.ended_at IS NULL;
            PERFORM pgleader.notify_duty(d.duty,
                jsonb_build_object('event', 'yield', 'generation', d.generation));
        END IF;
    END
    $function$;

    -- Ends the open term of a duty whose lease has lapsed; the caller has locked the duty's row and
    -- the lease's. Not where the row is gone or not as that term left it: that is nobody's expiry.
    CREATE FUNCTION pgleader.end_expired(INOUT d pgleader.duty)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        expired_at timestamptz;
    BEGIN
        SELECT l.expires_at INTO expired_at FROM pgleader.lease l
        WHERE l.job_name = d.duty AND l.generation = d.generation AND l.holder = d.term_instance
            AND d.term_ended_at IS NULL AND l.expires_at BETWEEN d.term_acquired_at AND clock_timestamp();
        IF NOT FOUND THEN
            RETURN;
        END IF;
        d.term_ended_at := expired_at;
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

    -- Has this session compile and plan what a term needs, which costs the first term of a session
    -- 10 to 20 ms otherwise, while nobody leads. Changes nothing and waits for nothing: each call is
    -- for a duty that is none, and fails at the last moment.
    CREATE FUNCTION pgleader.warm_up() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        nobody pgleader.duty;
    BEGIN
        BEGIN
            PERFORM pgleader.begin_term('', 'nobody');
        EXCEPTION WHEN SQLSTATE 'PL003' THEN
            NULL;
        END;
        BEGIN
            PERFORM pgleader.end_term('', 0, 'nothing');
        EXCEPTION WHEN SQLSTATE 'PL003' THEN
            NULL;
        END;
        BEGIN
            PERFORM pgleader.lock_duty('', true);
        EXCEPTION WHEN SQLSTATE 'PL003' THEN
            NULL;
        END;
        BEGIN
            PERFORM pgleader.open_term(nobody, 'nobody', false, NULL, NULL, NULL);
        EXCEPTION WHEN not_null_violation THEN
            NULL;
        END;
        BEGIN
            PERFORM pgleader.close_term(nobody, 'nothing');
        EXCEPTION WHEN invalid_parameter_value THEN
            NULL; -- no channel has no name
        END;
        BEGIN
            PERFORM pgleader.require_lock(nobody, 'lead');
        EXCEPTION WHEN SQLSTATE 'PL002' THEN
            NULL;
        END;
        BEGIN
            PERFORM pgleader.require_generation(nobody, 0);
        EXCEPTION WHEN SQLSTATE 'PL001' THEN
            NULL;
        END;
        PERFORM pgleader.session_holds(pg_backend_pid(), 0, 0, 1), pgleader.session_start(pg_backend_pid());
        PERFORM FROM pgleader.current_term t WHERE t.duty = '';
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
