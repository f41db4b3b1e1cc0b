-- SPDX-License-Identifier: PostgreSQL
-- The registry: which duties there are, which key or lease row decides each, and its thresholds.
--
-- register_duty is an upsert: an argument that is left out keeps what is there; '' or an interval or
-- number of 0 clears it. The key of a duty that was ever led does not change at once, since workers
-- of the old and of the new release would lead beside each other: the new key is reserved, both are
-- held while releases overlap, and complete_key_change makes it the authority.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(3, '003_registry.sql') THEN
        RETURN;
    END IF;

    CREATE FUNCTION pgleader.find_duty(duty text) RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        found_row pgleader.duty;
    BEGIN
        SELECT * INTO found_row FROM pgleader.duty d
        WHERE d.duty = find_duty.duty AND d.retired_at IS NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'could not find duty "%"', duty
                USING ERRCODE = 'PL003', HINT = 'register_duty registers one; select duty from pgleader.ownership lists them.';
        END IF;
        RETURN found_row;
    END
    $function$;

    -- Locks a duty's row until the transaction ends: shared for a fence, exclusively for a change.
    -- The advisory lock comes first: row share locks alone can overlap for ever and starve the change,
    -- whereas the advisory lock's queue lets no new fence pass a waiting begin_term. A caller without
    -- a lock_timeout gets one of 5 s, so that nobody waits for ever behind a frozen worker's fence.
    CREATE FUNCTION pgleader.lock_duty(duty text, exclusive boolean) RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        locked pgleader.duty := pgleader.find_duty(lock_duty.duty);
        unlimited boolean := current_setting('lock_timeout') = '0';
    BEGIN
        IF unlimited THEN
            PERFORM set_config('lock_timeout', '5s', true);
        END IF;
        IF exclusive THEN
            PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), locked.duty_id);
            SELECT * INTO locked FROM pgleader.duty d WHERE d.duty_id = locked.duty_id FOR NO KEY UPDATE;
        ELSE
            PERFORM pg_advisory_xact_lock_shared(pgleader.own_namespace(), locked.duty_id);
            SELECT * INTO locked FROM pgleader.duty d WHERE d.duty_id = locked.duty_id FOR SHARE;
        END IF;
        IF unlimited THEN
            PERFORM set_config('lock_timeout', '0', true);
        END IF;
        IF locked.retired_at IS NOT NULL THEN
            RAISE EXCEPTION 'could not find duty "%": it was retired meanwhile', duty USING ERRCODE = 'PL003';
        END IF;
        RETURN locked;
    END
    $function$;

    -- Refuses a key that another duty has or is moving to, naming both.
    CREATE FUNCTION pgleader.refuse_key_collision(duty text, classid bigint, objid bigint, objsubid int) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        other text;
    BEGIN
        IF objsubid = 2 AND pgleader.key_signed(classid) = pgleader.own_namespace() THEN
            RAISE EXCEPTION 'could not give duty "%" the key %: pairs that start with % are the ledger''s own',
                duty, pgleader.key_text(classid, objid, objsubid), pgleader.own_namespace()
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        SELECT d.duty INTO other FROM pgleader.duty d
        WHERE d.retired_at IS NULL AND d.duty <> refuse_key_collision.duty
            AND ((d.lock_classid, d.lock_objid, d.lock_objsubid) = (classid, objid, objsubid)
                OR (d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid) = (classid, objid, objsubid));
        IF FOUND THEN
            RAISE EXCEPTION 'could not give duty "%" the key %: duty "%" has it',
                duty, pgleader.key_text(classid, objid, objsubid), other
                USING ERRCODE = 'PL004', HINT = 'Two duties on one key would exclude each other. Choose another key, or retire one duty.';
        END IF;
    END
    $function$;

    CREATE FUNCTION pgleader.refuse_lease_collision(duty text, lease_table text, lease_row text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        other text;
    BEGIN
        IF lease_table = 'pgleader.lease' AND lease_row <> duty THEN
            RAISE EXCEPTION 'could not register duty "%": its row in pgleader.lease is its own name, not "%"',
                duty, lease_row USING ERRCODE = 'invalid_parameter_value';
        END IF;
        SELECT d.duty INTO other FROM pgleader.duty d
        WHERE d.retired_at IS NULL AND d.duty <> refuse_lease_collision.duty
            AND (d.lease_table, d.lease_row) = (refuse_lease_collision.lease_table, refuse_lease_collision.lease_row);
        IF FOUND THEN
            RAISE EXCEPTION 'could not give duty "%" the lease row "%" of %: duty "%" has it',
                duty, lease_row, lease_table, other USING ERRCODE = 'PL004';
        END IF;
    END
    $function$;

    -- The argument of register_duty that says what decides the duty, as registry columns in a duty row.
    CREATE FUNCTION pgleader.read_authority(duty text, lock_key bigint, lock_pair int[], environment text,
        key_version int, lease_table text, lease_row text) RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        wanted pgleader.duty;
        key bigint := lock_key;
    BEGIN
        wanted.mechanism := 'lock';
        IF num_nonnulls(lock_key, lock_pair, lease_table) > 1 OR (lease_row IS NOT NULL AND lease_table IS NULL) THEN
            RAISE EXCEPTION 'could not register duty "%": give one of lock_key, lock_pair or lease_table (lease_row goes with the last)', duty
                USING ERRCODE = 'invalid_parameter_value';
        ELSIF lease_table IS NOT NULL THEN
            wanted.mechanism := 'lease';
            wanted.lease_table := read_authority.lease_table;
            wanted.lease_row := coalesce(read_authority.lease_row, duty);
            PERFORM pgleader.refuse_lease_collision(duty, wanted.lease_table, wanted.lease_row);
            RETURN wanted;
        ELSIF lock_pair IS NOT NULL THEN
            IF array_ndims(lock_pair) <> 1 OR cardinality(lock_pair) <> 2 OR array_position(lock_pair, NULL) IS NOT NULL THEN
                RAISE EXCEPTION 'could not register duty "%": lock_pair is an array of two numbers', duty
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            wanted.lock_classid := pgleader.key_objid(lock_pair[array_lower(lock_pair, 1)]);
            wanted.lock_objid := pgleader.key_objid(lock_pair[array_upper(lock_pair, 1)]);
            wanted.lock_objsubid := 2;
        ELSE
            IF key IS NULL AND environment IS NULL THEN
                RAISE EXCEPTION 'could not register duty "%": nothing says what decides it', duty
                    USING ERRCODE = 'invalid_parameter_value',
                        HINT = 'Give one of lock_key, lock_pair, environment (the key is derived from it), or lease_table.';
            ELSIF key IS NULL THEN
                wanted.key_version := coalesce(read_authority.key_version, 1);
                key := pgleader.derive_key(environment, duty, wanted.key_version);
            END IF;
            wanted.lock_classid := pgleader.key_classid(key);
            wanted.lock_objid := pgleader.key_objid(key);
            wanted.lock_objsubid := 1;
        END IF;
        PERFORM pgleader.refuse_key_collision(duty, wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid);
        RETURN wanted;
    END
    $function$;

    -- Gives a known duty its authority, or for one that was ever led reserves the new key.
    CREATE FUNCTION pgleader.change_authority(known pgleader.duty, wanted pgleader.duty) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF (known.mechanism, known.lock_classid, known.lock_objid, known.lock_objsubid, known.lease_table, known.lease_row)
            IS NOT DISTINCT FROM
            (wanted.mechanism, wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid, wanted.lease_table, wanted.lease_row) THEN
            UPDATE pgleader.duty d SET key_version = wanted.key_version, next_key_version = NULL,
                next_lock_classid = NULL, next_lock_objid = NULL, next_lock_objsubid = NULL
            WHERE d.duty_id = known.duty_id;
        ELSIF known.generation IS NULL OR known.retired_at IS NOT NULL THEN
            UPDATE pgleader.duty d SET mechanism = wanted.mechanism, key_version = wanted.key_version,
                lock_classid = wanted.lock_classid, lock_objid = wanted.lock_objid, lock_objsubid = wanted.lock_objsubid,
                lease_table = wanted.lease_table, lease_row = wanted.lease_row, next_key_version = NULL,
                next_lock_classid = NULL, next_lock_objid = NULL, next_lock_objsubid = NULL
            WHERE d.duty_id = known.duty_id;
        ELSIF 'lease' IN (known.mechanism, wanted.mechanism) THEN
            RAISE EXCEPTION 'could not change what decides duty "%": it has been led by its %', known.duty, known.mechanism
                USING ERRCODE = 'object_in_use',
                    HINT = 'Stop its workers, retire_duty it, and register it anew; its generations go on.';
        ELSE
            UPDATE pgleader.duty d SET next_key_version = wanted.key_version, next_lock_classid = wanted.lock_classid,
                next_lock_objid = wanted.lock_objid, next_lock_objsubid = wanted.lock_objsubid
            WHERE d.duty_id = known.duty_id;
            RAISE NOTICE 'duty "%" keeps the key % until complete_key_change; leaders of the new release hold % beside it',
                known.duty, pgleader.key_text(known.lock_classid, known.lock_objid, known.lock_objsubid),
                pgleader.key_text(wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid);
        END IF;
    END
    $function$;

    CREATE FUNCTION pgleader.register_duty(duty text, lock_key bigint DEFAULT NULL, lock_pair int[] DEFAULT NULL,
        environment text DEFAULT NULL, key_version int DEFAULT NULL,
        lease_table text DEFAULT NULL, lease_row text DEFAULT NULL,
        candidates text DEFAULT NULL, min_candidates int DEFAULT NULL,
        stall_after interval DEFAULT NULL, run_every interval DEFAULT NULL,
        takeover_slow_after interval DEFAULT NULL, wait_slow_after interval DEFAULT NULL,
        yieldable boolean DEFAULT NULL, yield_cooldown interval DEFAULT NULL,
        team text DEFAULT NULL, runbook text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        known pgleader.duty;
        wanted pgleader.duty;
        named_authority boolean := num_nonnulls(lock_key, lock_pair, environment, key_version, lease_table, lease_row) > 0;
        none constant interval := interval '0';
    BEGIN
        PERFORM pgleader.check_duty_name(duty);
        -- One registration at a time: the checks for collisions then see each other.
        PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), 0);
        SELECT * INTO known FROM pgleader.duty d WHERE d.duty = register_duty.duty;
        IF known.duty_id IS NULL OR known.retired_at IS NOT NULL OR named_authority THEN
            wanted := pgleader.read_authority(duty, lock_key, lock_pair, environment, key_version, lease_table, lease_row);
        END IF;
        IF known.duty_id IS NULL THEN
            INSERT INTO pgleader.duty (duty, mechanism, key_version, lock_classid, lock_objid, lock_objsubid, lease_table, lease_row)
            VALUES (duty, wanted.mechanism, wanted.key_version, wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid,
                wanted.lease_table, wanted.lease_row)
            RETURNING * INTO known;
            INSERT INTO pgleader.yield_total (duty_id) VALUES (known.duty_id);
        ELSE
            PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), known.duty_id);
            SELECT * INTO known FROM pgleader.duty d WHERE d.duty_id = known.duty_id FOR NO KEY UPDATE;
            IF wanted.mechanism IS NOT NULL THEN
                PERFORM pgleader.change_authority(known, wanted);
            END IF;
        END IF;
        UPDATE pgleader.duty d SET
            retired_at          = NULL,
            environment         = coalesce(register_duty.environment, d.environment),
            candidate_pattern   = nullif(coalesce(candidates, d.candidate_pattern), ''),
            min_candidates      = nullif(coalesce(register_duty.min_candidates, d.min_candidates), 0),
            stall_after         = nullif(coalesce(register_duty.stall_after, d.stall_after::interval), none),
            run_every           = nullif(coalesce(register_duty.run_every, d.run_every::interval), none),
            takeover_slow_after = nullif(coalesce(register_duty.takeover_slow_after, d.takeover_slow_after::interval), none),
            wait_slow_after     = nullif(coalesce(register_duty.wait_slow_after, d.wait_slow_after::interval), none),
            yieldable           = coalesce(register_duty.yieldable, d.yieldable),
            yield_cooldown      = nullif(coalesce(register_duty.yield_cooldown, d.yield_cooldown::interval), none),
            team                = nullif(coalesce(register_duty.team, d.team), ''),
            runbook             = nullif(coalesce(register_duty.runbook, d.runbook), '')
        WHERE d.duty_id = known.duty_id;
    END
    $function$;

    -- Makes the reserved key the authority. Refused while a session leads by the old key alone.
    CREATE FUNCTION pgleader.complete_key_change(duty text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty;
        owner int;
    BEGIN
        PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), 0);
        d := pgleader.lock_duty(complete_key_change.duty, true);
        IF d.next_lock_objsubid IS NULL THEN
            RAISE EXCEPTION 'could not change the key of duty "%": no other key is reserved for it', d.duty
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        SELECT l.pid INTO owner FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
            AND l.database = (SELECT a.datid FROM pg_stat_get_activity(pg_backend_pid()) a)
            AND l.classid = d.lock_classid::oid AND l.objid = d.lock_objid::oid AND l.objsubid = d.lock_objsubid
            AND NOT (l.pid IS NOT NULL
                AND pgleader.session_holds(l.pid, d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid));
        IF FOUND THEN
            RAISE EXCEPTION 'could not change the key of duty "%": session % leads it by the old key alone', d.duty, owner
                USING ERRCODE = 'object_in_use', HINT = 'Replace that worker by one of the new release first.';
        END IF;
        UPDATE pgleader.duty x SET key_version = d.next_key_version, lock_classid = d.next_lock_classid,
            lock_objid = d.next_lock_objid, lock_objsubid = d.next_lock_objsubid, next_key_version = NULL,
            next_lock_classid = NULL, next_lock_objid = NULL, next_lock_objsubid = NULL
        WHERE x.duty_id = d.duty_id;
    END
    $function$;

    -- Takes a duty out of every picture; its history and its generations stay, its key is free.
    CREATE FUNCTION pgleader.retire_duty(duty text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.lock_duty(retire_duty.duty, true);
    BEGIN
        UPDATE pgleader.term t SET ended_at = clock_timestamp(), end_reason = 'retired'
        WHERE t.duty_id = d.duty_id AND t.ended_at IS NULL;
        UPDATE pgleader.duty x SET retired_at = clock_timestamp(),
            term_end_reason = CASE WHEN x.term_ended_at IS NULL AND x.generation IS NOT NULL THEN 'retired' ELSE x.term_end_reason END,
            term_ended_at = CASE WHEN x.generation IS NOT NULL THEN coalesce(x.term_ended_at, clock_timestamp()) END
        WHERE x.duty_id = d.duty_id;
    END
    $function$;

    -- Maintenance, always with an end; NULL ends it now.
    CREATE FUNCTION pgleader.pause_alerts(duty text, until timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.lock_duty(pause_alerts.duty, true);
    BEGIN
        IF NOT isfinite(until) THEN
            RAISE EXCEPTION 'could not pause the alerts of duty "%": a pause has an end', d.duty
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        UPDATE pgleader.duty x SET alerts_paused_until = until WHERE x.duty_id = d.duty_id;
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
