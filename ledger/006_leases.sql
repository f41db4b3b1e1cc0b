-- SPDX-License-Identifier: PostgreSQL
-- Leases: pgleader.lease is the three-column lease table of the examples, plus a generation.
--
-- A duty may as well be led by a lease table of the application's own, which its workers write by
-- themselves; these functions are for pgleader.lease only. clock_timestamp() throughout, and rows
-- locked before the clock is read: now() is the transaction's start, and an expiry computed before a
-- wait for the row would be committed already stale.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(6, '006_leases.sql') THEN
        RETURN;
    END IF;

    CREATE FUNCTION pgleader.require_own_lease(d pgleader.duty, duration interval) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF d.lease_table IS DISTINCT FROM 'pgleader.lease' THEN
            RAISE EXCEPTION 'could not use the lease of duty "%": it is led by %', d.duty,
                CASE d.mechanism WHEN 'lock' THEN 'an advisory lock' ELSE 'a lease in ' || d.lease_table END
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Register it with lease_table => ''pgleader.lease''.';
        ELSIF coalesce(duration <= interval '0' OR duration > interval '1 day', true) THEN
            RAISE EXCEPTION 'could not use the lease of duty "%": its duration is not between 0 and 1 day',
                d.duty USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END
    $function$;

    -- The new generation, or NULL while another holds the lease. The same holder gets a new generation
    -- too: its earlier process or thread, if there still is one, becomes stale.
    CREATE FUNCTION pgleader.acquire_lease(duty text, holder text, duration interval,
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

    CREATE FUNCTION pgleader.held_by_another(duty text, holder text) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT EXISTS (SELECT FROM pgleader.lease l WHERE l.job_name = held_by_another.duty
            AND l.holder <> held_by_another.holder AND l.expires_at > clock_timestamp())
    $function$;

    -- The new expiry. A lease that has lapsed is not renewed, even if nobody took it: PL001, acquire anew.
    CREATE FUNCTION pgleader.renew_lease(duty text, holder text, generation bigint, duration interval)
    RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(renew_lease.duty);
        new_expiry timestamptz;
    BEGIN
        PERFORM pgleader.require_own_lease(d, duration);
        PERFORM FROM pgleader.lease l WHERE l.job_name = d.duty FOR NO KEY UPDATE;
        UPDATE pgleader.lease l SET renewed_at = clock_timestamp(), expires_at = clock_timestamp() + duration
        WHERE l.job_name = d.duty AND l.holder = renew_lease.holder
            AND l.generation = renew_lease.generation AND l.expires_at > clock_timestamp()
        RETURNING l.expires_at INTO new_expiry;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'generation % of duty "%" is stale: "%" does not hold its lease any more',
                generation, d.duty, holder
                USING ERRCODE = 'PL001', HINT = 'Stop this work, then acquire_lease.';
        END IF;
        RETURN new_expiry;
    END
    $function$;

    -- Gives the lease up at once and ends its term.
    CREATE FUNCTION pgleader.release_lease(duty text, holder text, generation bigint,
        reason text DEFAULT 'released') RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.lock_duty(release_lease.duty, true);
    BEGIN
        PERFORM pgleader.require_generation(d, generation);
        UPDATE pgleader.lease l SET expires_at = least(l.expires_at, clock_timestamp())
        WHERE l.job_name = d.duty AND l.holder = release_lease.holder
            AND l.generation = release_lease.generation;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'generation % of duty "%" is stale: "%" does not hold its lease',
                generation, d.duty, holder USING ERRCODE = 'PL001';
        END IF;
        PERFORM pgleader.close_term(d, reason);
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
