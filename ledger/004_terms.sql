-- SPDX-License-Identifier: PostgreSQL
-- Terms: one begins only in the session that holds the duty's lock, and its generation never repeats.
--
-- A generation is greatest(previous + 1, whole seconds since 2025-01-01 by the server's clock). The
-- clock keeps it rising when the newest rows were lost: an asynchronous standby promoted, a restore
-- to a point in time, a crash with synchronous_commit off. Its limit: a server clock set back.
--
-- Notifications go to the channel pgleader:DUTY (at most 57 bytes) as JSON: {"event": "released",
-- "stopped" or "yield", "generation": N, ...}. They are hints: who acts on one reads the ledger first.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(4, '004_terms.sql') THEN
        RETURN;
    END IF;

    CREATE FUNCTION pgleader.notify_duty(duty text, event jsonb) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT pg_notify('pgleader:' || duty, event::text) $function$;

    -- For what a crash must not lose although the caller runs with synchronous_commit off. In the
    -- body, since a function's SET clause is undone before the commit.
    CREATE FUNCTION pgleader.commit_durably() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF current_setting('synchronous_commit') IN ('off', 'local') THEN
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
    END
    $function$;

    CREATE FUNCTION pgleader.require_lock(d pgleader.duty, deed text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF d.mechanism <> 'lock' THEN
            RAISE EXCEPTION 'could not % duty "%": it is led by a lease in %', deed, d.duty, d.lease_table
                USING ERRCODE = 'PL002',
                    HINT = 'For a lease in pgleader.lease there are acquire_lease and release_lease.';
        ELSIF NOT pgleader.session_holds(pg_backend_pid(),
            d.lock_classid, d.lock_objid, d.lock_objsubid) THEN
            RAISE EXCEPTION 'could not % duty "%": this session (pid %) does not hold its lock %', deed,
                d.duty, pg_backend_pid(), pgleader.key_text(d.lock_classid, d.lock_objid, d.lock_objsubid)
                USING ERRCODE = 'PL002',
                    HINT = 'Take the lock first, exclusively, in this session and this database. Behind '
                        'a pooler every statement may run in another session.';
        END IF;
    END
    $function$;

    -- Refuses a generation that is not the duty's current, open term.
    CREATE FUNCTION pgleader.require_generation(d pgleader.duty, generation bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        now_current constant text := CASE
            WHEN d.generation IS NULL THEN 'The duty has had no term.'
            WHEN d.term_ended_at IS NULL THEN format('The current generation is %s.', d.generation)
            ELSE format('Generation %s ended at %s (%s).', d.generation, d.term_ended_at, d.term_end_reason)
        END;
    BEGIN
        IF d.generation IS DISTINCT FROM require_generation.generation OR d.generation IS NULL
            OR d.term_ended_at IS NOT NULL THEN
            RAISE EXCEPTION 'generation % of duty "%" is stale', coalesce(generation::text, 'NULL'), d.duty
                USING ERRCODE = 'PL001', DETAIL = now_current,
                    HINT = 'Stop this work: another leader may be at it.';
        END IF;
    END
    $function$;

    -- Begins a term of a duty whose row the caller has locked exclusively. pid is NULL for a lease.
    CREATE FUNCTION pgleader.open_term(d pgleader.duty, instance text, listens boolean,
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
            floor(extract(epoch FROM t.acquired_at - timestamptz '2025-01-01 00:00:00+00'))::bigint);
        t.instance := open_term.instance;
        t.backend_pid := open_term.pid;
        t.backend_start := pgleader.session_start(open_term.pid);
        t.listens := coalesce(open_term.listens, false);
        t.stop_within := coalesce(open_term.stop_within, interval '5 s');
        -- Not worth refusing leadership for: a refusal in the future or of no time is left out.
        t.last_refused_at := CASE WHEN isfinite(open_term.last_refused_at)
            AND open_term.last_refused_at <= t.acquired_at THEN open_term.last_refused_at END;

        UPDATE pgleader.term x SET ended_at = t.acquired_at, end_reason = 'superseded'
        WHERE x.duty_id = d.duty_id AND x.ended_at IS NULL;
        INSERT INTO pgleader.term SELECT t.*;
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
        PERFORM pgleader.commit_durably();
        RETURN t.generation;
    END
    $function$;

    -- Ends the open term of a duty whose row the caller has locked exclusively.
    CREATE FUNCTION pgleader.close_term(d pgleader.duty, reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        ended constant timestamptz := clock_timestamp();
    BEGIN
        IF coalesce(octet_length(reason), 0) NOT BETWEEN 1 AND 255
            OR reason IN ('superseded', 'retired') THEN
            RAISE EXCEPTION 'could not end the term of duty "%": "%" is not a reason of its owner''s',
                d.duty, left(reason, 60)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'A reason is a text of 1 to 255 bytes; '
                    'superseded and retired are the ledger''s own.';
        END IF;
        UPDATE pgleader.term t SET ended_at = ended, end_reason = reason
        WHERE t.duty_id = d.duty_id AND t.ended_at IS NULL;
        UPDATE pgleader.duty x SET term_ended_at = ended, term_end_reason = reason
        WHERE x.duty_id = d.duty_id;
        PERFORM pgleader.notify_duty(d.duty,
            jsonb_build_object('event', 'released', 'generation', d.generation));
    END
    $function$;

    CREATE FUNCTION pgleader.begin_term(duty text, instance text, listens boolean DEFAULT false,
        stop_within interval DEFAULT NULL, last_refused_at timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(begin_term.duty);
    BEGIN
        -- Before the fence, which a stranger must not hold up; and after it, as the key may have changed.
        PERFORM pgleader.require_lock(d, 'begin a term of');
        d := pgleader.lock_duty(begin_term.duty, true);
        PERFORM pgleader.require_lock(d, 'begin a term of');
        RETURN pgleader.open_term(d, instance, listens, stop_within, last_refused_at, pg_backend_pid());
    END
    $function$;

    -- By the owner itself, before it unlocks: only that makes ended_at a bound of the loss.
    CREATE FUNCTION pgleader.end_term(duty text, generation bigint, reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(end_term.duty);
    BEGIN
        PERFORM pgleader.require_generation(d, generation);
        PERFORM pgleader.require_lock(d, 'end the term of');
        d := pgleader.lock_duty(end_term.duty, true);
        PERFORM pgleader.require_generation(d, generation);
        IF d.term_pid <> pg_backend_pid()
            OR d.term_backend_start <> pgleader.session_start(pg_backend_pid()) THEN
            RAISE EXCEPTION 'generation % of duty "%" is stale: the session that began it is gone',
                generation, d.duty
                USING ERRCODE = 'PL001', HINT = 'This session holds the lock: begin a term of its own.';
        END IF;
        PERFORM pgleader.close_term(d, reason);
    END
    $function$;

    -- From any session, after a loss. The successor of a term that its owner did not end waits for
    -- this, no longer than stop_within. The first report stands.
    CREATE FUNCTION pgleader.report_stopped(duty text, generation bigint, instance text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(report_stopped.duty);
    BEGIN
        UPDATE pgleader.term t SET stopped_at = coalesce(t.stopped_at, clock_timestamp())
        WHERE t.duty_id = d.duty_id AND t.generation = report_stopped.generation
            AND t.instance = report_stopped.instance;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'could not report generation % of duty "%" stopped: it is not a term of "%"',
                generation, d.duty, instance USING ERRCODE = 'PL001';
        END IF;
        PERFORM pgleader.notify_duty(d.duty,
            jsonb_build_object('event', 'stopped', 'generation', generation));
    END
    $function$;

    -- Holds a generation current until the transaction ends, or raises PL001. Who stops between two
    -- statements of a fenced transaction keeps a successor waiting, hence the idle timeout: fenced
    -- sessions belong to the work, so that the kit cannot set theirs.
    CREATE FUNCTION pgleader.hold_generation(duty text, generation bigint) RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.lock_duty(hold_generation.duty, false);
        idle_limit interval := current_setting('idle_in_transaction_session_timeout')::interval;
    BEGIN
        PERFORM pgleader.require_generation(d, generation);
        IF d.mechanism = 'lease' AND NOT EXISTS (SELECT FROM pgleader.lease l WHERE l.job_name = d.duty
            AND l.generation = hold_generation.generation AND l.expires_at > clock_timestamp()) THEN
            RAISE EXCEPTION 'generation % of duty "%" is stale: its lease has expired', generation, d.duty
                USING ERRCODE = 'PL001', HINT = 'Stop this work: another leader may be at it.';
        END IF;
        IF idle_limit = interval '0' OR idle_limit > interval '10 s' THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
        END IF;
        RETURN d;
    END
    $function$;

    CREATE FUNCTION pgleader.fence(duty text, generation bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        PERFORM pgleader.hold_generation(fence.duty, fence.generation);
    END
    $function$;

    -- Waits in the queue of the duty's lock for at most 0.9 s; true when this session holds it now.
    -- What counts is pg_locks, since a grant can arrive while the timeout is pending. Shorter than
    -- deadlock_timeout, so that waiting candidates never start the deadlock detector. The caller's
    -- statement_timeout has to be 0: its clock runs before this starts. Never takes the lock twice,
    -- so that one unlock releases it.
    CREATE FUNCTION pgleader.wait_for_duty(duty text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(wait_for_duty.duty);
        caller_timeout constant text := current_setting('lock_timeout');
        patience constant interval := least(interval '900 ms',
            0.9 * current_setting('deadlock_timeout')::interval);
    BEGIN
        IF d.mechanism <> 'lock' THEN
            RAISE EXCEPTION 'could not wait for duty "%": it is led by a lease in %', d.duty, d.lease_table
                USING ERRCODE = 'PL002';
        ELSIF pg_is_in_recovery() THEN
            RAISE EXCEPTION 'could not wait for duty "%": this server is a standby', d.duty
                USING ERRCODE = 'read_only_sql_transaction',
                    HINT = 'Its locks are not its primary''s: two sessions would lead. Connect to the '
                        'primary.';
        ELSIF pgleader.session_holds(pg_backend_pid(), d.lock_classid, d.lock_objid, d.lock_objsubid) THEN
            RETURN true;
        END IF;
        PERFORM set_config('lock_timeout',
            greatest(1, floor(extract(epoch FROM patience) * 1000))::text, true);
        BEGIN
            IF d.lock_objsubid = 1 THEN
                PERFORM pg_advisory_lock((d.lock_classid << 32) | d.lock_objid);
            ELSE
                PERFORM pg_advisory_lock(pgleader.key_signed(d.lock_classid),
                    pgleader.key_signed(d.lock_objid));
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
        PERFORM set_config('lock_timeout', caller_timeout, true);
        RETURN pgleader.session_holds(pg_backend_pid(), d.lock_classid, d.lock_objid, d.lock_objsubid);
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
