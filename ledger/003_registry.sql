-- SPDX-License-Identifier: PostgreSQL
-- The registry: which duties there are, which key or lease row decides each, and its thresholds.
--
-- register_duty is an upsert: an argument that is left out keeps what is there; '', 0 or an interval
-- of 0 clears it. The key of a duty that was ever led does not change at once, since workers of the
-- old and of the new release would lead beside each other: the new key is reserved, leaders of the
-- new release hold both while releases overlap, and complete_key_change makes it the authority.

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
                USING ERRCODE = 'PL003', HINT = 'register_duty registers one.';
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
        id constant int := (pgleader.find_duty(duty)).duty_id;
        unlimited constant boolean := current_setting('lock_timeout') = '0';
        locked pgleader.duty;
    BEGIN
        IF unlimited THEN
            PERFORM set_config('lock_timeout', '5s', true);
        END IF;
        IF exclusive THEN
            PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), id);
            SELECT * INTO locked FROM pgleader.duty d WHERE d.duty_id = id FOR NO KEY UPDATE;
        ELSE
            PERFORM pg_advisory_xact_lock_shared(pgleader.own_namespace(), id);
            SELECT * INTO locked FROM pgleader.duty d WHERE d.duty_id = id FOR SHARE;
        END IF;
        IF unlimited THEN
            PERFORM set_config('lock_timeout', '0', true);
        END IF;
        IF locked.retired_at IS NOT NULL THEN
            RAISE EXCEPTION 'could not find duty "%": it was retired meanwhile', duty
                USING ERRCODE = 'PL003';
        END IF;
        RETURN locked;
    END
    $function$;

    -- Refuses a lock key or a lease row that another duty has, or a key that one is moving to.
    CREATE FUNCTION pgleader.refuse_collision(wanted pgleader.duty) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        authority text := format('lease row "%s" of %s', wanted.lease_row, wanted.lease_table);
        other text;
    BEGIN
        IF wanted.mechanism = 'lock' THEN
            authority := 'key ' || pgleader.key_text(wanted.lock_classid, wanted.lock_objid,
                wanted.lock_objsubid);
            IF wanted.lock_objsubid = 2
                AND pgleader.key_signed(wanted.lock_classid) = pgleader.own_namespace() THEN
                RAISE EXCEPTION 'could not give duty "%" the %: it is of the ledger''s own',
                    wanted.duty, authority USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END IF;
        SELECT d.duty INTO other FROM pgleader.duty d
        WHERE d.retired_at IS NULL AND d.duty <> wanted.duty AND (
            (d.lock_classid, d.lock_objid, d.lock_objsubid)
                = (wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid)
            OR (d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid)
                = (wanted.lock_classid, wanted.lock_objid, wanted.lock_objsubid)
            OR (d.lease_table, d.lease_row) = (wanted.lease_table, wanted.lease_row));
        IF FOUND THEN
            RAISE EXCEPTION 'could not give duty "%" the %: duty "%" has it',
                wanted.duty, authority, other
                USING ERRCODE = 'PL004', HINT = 'Two duties decided by one thing would exclude each '
                    'other. Choose another, or retire one duty.';
        END IF;
    END
    $function$;

    -- A table's name as SQL needs it, with its schema: search paths differ between its readers.
    CREATE FUNCTION pgleader.qualified_table(name text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        parts constant text[] := parse_ident(name);
    BEGIN
        IF cardinality(parts) <> 2 THEN
            RAISE EXCEPTION 'could not use the lease table "%": name it with its schema', name
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN format('%I.%I', parts[1], parts[2]);
    END
    $function$;

    -- What decides a duty, from register_duty's arguments: a duty row with only that filled.
    CREATE FUNCTION pgleader.read_authority(duty text, lock_key bigint, lock_pair int[],
        environment text, version int, lease_table text, lease_row text) RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        wanted pgleader.duty;
        key bigint := lock_key;
    BEGIN
        wanted.duty := read_authority.duty;
        wanted.mechanism := 'lock';
        IF num_nonnulls(lock_key, lock_pair, lease_table) > 1
            OR (lease_row IS NOT NULL AND lease_table IS NULL)
            OR (version IS NOT NULL AND num_nonnulls(lock_key, lock_pair, lease_table) > 0) THEN
            RAISE EXCEPTION 'could not register duty "%": more than one thing decides it', duty
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Give one of lock_key, lock_pair, environment (with version), or '
                        'lease_table (with lease_row).';
        ELSIF lease_table IS NOT NULL THEN
            wanted.mechanism := 'lease';
            wanted.lease_table := pgleader.qualified_table(read_authority.lease_table);
            wanted.lease_row := coalesce(read_authority.lease_row, duty);
            IF wanted.lease_table = 'pgleader.lease' AND wanted.lease_row <> duty THEN
                RAISE EXCEPTION 'could not register duty "%": its row in pgleader.lease is its own name',
                    duty USING ERRCODE = 'invalid_parameter_value';
            END IF;
        ELSIF lock_pair IS NOT NULL THEN
            IF array_ndims(lock_pair) IS DISTINCT FROM 1 OR cardinality(lock_pair) <> 2
                OR array_position(lock_pair, NULL) IS NOT NULL THEN
                RAISE EXCEPTION 'could not register duty "%": lock_pair is an array of two numbers',
                    duty USING ERRCODE = 'invalid_parameter_value';
            END IF;
            wanted.lock_classid := pgleader.key_objid(lock_pair[array_lower(lock_pair, 1)]);
            wanted.lock_objid := pgleader.key_objid(lock_pair[array_upper(lock_pair, 1)]);
            wanted.lock_objsubid := 2;
        ELSIF key IS NULL AND environment IS NULL THEN
            RAISE EXCEPTION 'could not register duty "%": nothing says what decides it', duty
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Give one of lock_key, lock_pair, environment (the key is derived from '
                        'it), or lease_table.';
        ELSE
            IF key IS NULL THEN
                wanted.key_version := coalesce(version, 1);
                key := pgleader.derive_key(environment, duty, wanted.key_version);
            END IF;
            wanted.lock_classid := pgleader.key_classid(key);
            wanted.lock_objid := pgleader.key_objid(key);
            wanted.lock_objsubid := 1;
        END IF;
        RETURN wanted;
    END
    $function$;

    -- The known row, decided by what is wanted; for a duty that was ever led, with the new key reserved.
    CREATE FUNCTION pgleader.with_authority(known pgleader.duty, wanted pgleader.duty)
    RETURNS pgleader.duty
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        same constant boolean := (known.mechanism, known.lock_classid, known.lock_objid,
                known.lock_objsubid, known.lease_table, known.lease_row)
            IS NOT DISTINCT FROM (wanted.mechanism, wanted.lock_classid, wanted.lock_objid,
                wanted.lock_objsubid, wanted.lease_table, wanted.lease_row);
        settled constant boolean := known.generation IS NOT NULL AND known.retired_at IS NULL;
    BEGIN
        IF settled AND NOT same AND 'lease' IN (known.mechanism, wanted.mechanism) THEN
            RAISE EXCEPTION 'could not change what decides duty "%": it has been led by its %',
                known.duty, known.mechanism
                USING ERRCODE = 'object_in_use', HINT = 'Stop its workers, retire it, and register it '
                    'anew; its generations go on.';
        ELSIF settled AND NOT same THEN
            known.next_key_version := wanted.key_version;
            known.next_lock_classid := wanted.lock_classid;
            known.next_lock_objid := wanted.lock_objid;
            known.next_lock_objsubid := wanted.lock_objsubid;
            RAISE NOTICE 'duty "%" is decided by its key % until complete_key_change', known.duty,
                pgleader.key_text(known.lock_classid, known.lock_objid, known.lock_objsubid)
                USING HINT = 'Leaders of the new release hold both keys.';
            RETURN known;
        END IF;
        known.duty := wanted.duty;
        known.mechanism := wanted.mechanism;
        known.key_version := wanted.key_version;
        known.lock_classid := wanted.lock_classid;
        known.lock_objid := wanted.lock_objid;
        known.lock_objsubid := wanted.lock_objsubid;
        known.lease_table := wanted.lease_table;
        known.lease_row := wanted.lease_row;
        known.next_key_version := NULL;
        known.next_lock_classid := NULL;
        known.next_lock_objid := NULL;
        known.next_lock_objsubid := NULL;
        RETURN known;
    END
    $function$;

    -- A pattern that ends in half an escape would fail in every query that uses it.
    CREATE FUNCTION pgleader.check_pattern(duty text, pattern text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF pattern ~ '(^|[^\\])(\\\\)*\\$' THEN
            RAISE EXCEPTION 'could not register duty "%": its candidates pattern ends in a lone \', duty
                USING ERRCODE = 'invalid_escape_sequence';
        END IF;
    END
    $function$;

    CREATE FUNCTION pgleader.register_duty(duty text,
        lock_key bigint DEFAULT NULL, lock_pair int[] DEFAULT NULL,
        environment text DEFAULT NULL, version int DEFAULT NULL,
        lease_table text DEFAULT NULL, lease_row text DEFAULT NULL,
        candidates text DEFAULT NULL, min_candidates int DEFAULT NULL,
        stall_after interval DEFAULT NULL, run_every interval DEFAULT NULL,
        takeover_slow_after interval DEFAULT NULL, wait_slow_after interval DEFAULT NULL,
        yieldable boolean DEFAULT NULL, yield_cooldown interval DEFAULT NULL,
        team text DEFAULT NULL, runbook text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        known pgleader.duty;
        d pgleader.duty;
        none constant interval := interval '0';
    BEGIN
        PERFORM pgleader.check_duty_name(duty);
        PERFORM pgleader.check_pattern(duty, candidates);
        -- One registration at a time: the checks for collisions then see each other.
        PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), 0);
        SELECT * INTO known FROM pgleader.duty x WHERE x.duty = register_duty.duty;
        d := known;
        IF known.duty_id IS NULL
            OR num_nonnulls(lock_key, lock_pair, environment, version, lease_table, lease_row) > 0 THEN
            d := pgleader.with_authority(known, pgleader.read_authority(duty, lock_key, lock_pair,
                coalesce(environment, known.environment), version, lease_table, lease_row));
        END IF;
        d.retired_at          := NULL;
        d.environment         := coalesce(register_duty.environment, known.environment);
        d.candidate_pattern   := nullif(coalesce(candidates, known.candidate_pattern), '');
        d.min_candidates      := nullif(coalesce(register_duty.min_candidates, known.min_candidates), 0);
        d.stall_after         := nullif(coalesce(register_duty.stall_after,
            known.stall_after::interval), none);
        d.run_every           := nullif(coalesce(register_duty.run_every,
            known.run_every::interval), none);
        d.takeover_slow_after := nullif(coalesce(register_duty.takeover_slow_after,
            known.takeover_slow_after::interval), none);
        d.wait_slow_after     := nullif(coalesce(register_duty.wait_slow_after,
            known.wait_slow_after::interval), none);
        d.yieldable           := coalesce(register_duty.yieldable, known.yieldable, true);
        d.yield_cooldown      := nullif(coalesce(register_duty.yield_cooldown,
            known.yield_cooldown::interval), none);
        d.team                := nullif(coalesce(register_duty.team, known.team), '');
        d.runbook             := nullif(coalesce(register_duty.runbook, known.runbook), '');
        PERFORM pgleader.save_duty(known, d);
    END
    $function$;

    -- Writes what register_duty worked out. Nothing changed, nothing locked: workers may register at
    -- every start without a fence noticing.
    CREATE FUNCTION pgleader.save_duty(known pgleader.duty, d pgleader.duty) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        reserved pgleader.duty := d;
        id int := known.duty_id;
    BEGIN
        IF d IS NOT DISTINCT FROM known THEN
            RETURN;
        END IF;
        PERFORM pgleader.refuse_collision(d);
        IF d.next_lock_objsubid IS NOT NULL THEN
            reserved.lock_classid := d.next_lock_classid;
            reserved.lock_objid := d.next_lock_objid;
            reserved.lock_objsubid := d.next_lock_objsubid;
            PERFORM pgleader.refuse_collision(reserved);
        END IF;
        IF id IS NULL THEN
            INSERT INTO pgleader.duty (duty, mechanism,
                lock_classid, lock_objid, lock_objsubid, lease_table, lease_row)
            VALUES (d.duty, d.mechanism,
                d.lock_classid, d.lock_objid, d.lock_objsubid, d.lease_table, d.lease_row)
            RETURNING duty_id INTO id;
            INSERT INTO pgleader.on_call (duty_id) VALUES (id);
        ELSIF known.retired_at IS NULL THEN
            PERFORM pgleader.lock_duty(known.duty, true);
        END IF;
        UPDATE pgleader.duty x SET
            mechanism = d.mechanism, environment = d.environment, key_version = d.key_version,
            lock_classid = d.lock_classid, lock_objid = d.lock_objid, lock_objsubid = d.lock_objsubid,
            next_key_version = d.next_key_version, next_lock_classid = d.next_lock_classid,
            next_lock_objid = d.next_lock_objid, next_lock_objsubid = d.next_lock_objsubid,
            lease_table = d.lease_table, lease_row = d.lease_row,
            candidate_pattern = d.candidate_pattern, min_candidates = d.min_candidates,
            stall_after = d.stall_after, run_every = d.run_every,
            takeover_slow_after = d.takeover_slow_after, wait_slow_after = d.wait_slow_after,
            yieldable = d.yieldable, yield_cooldown = d.yield_cooldown,
            team = d.team, runbook = d.runbook, retired_at = NULL
        WHERE x.duty_id = id;
    END
    $function$;

    -- Makes the reserved key the authority. Refused while a session leads by the old key alone.
    CREATE FUNCTION pgleader.complete_key_change(duty text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty;
        owner_pid int;
    BEGIN
        PERFORM pg_advisory_xact_lock(pgleader.own_namespace(), 0);
        d := pgleader.lock_duty(complete_key_change.duty, true);
        IF d.next_lock_objsubid IS NULL THEN
            RAISE EXCEPTION 'could not change the key of duty "%": no other is reserved for it', d.duty
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        SELECT l.pid INTO owner_pid FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
            AND l.database = pgleader.this_database()
            AND l.classid = d.lock_classid::oid AND l.objid = d.lock_objid::oid
            AND l.objsubid = d.lock_objsubid
            AND NOT coalesce(pgleader.session_holds(l.pid, d.next_lock_classid, d.next_lock_objid,
                d.next_lock_objsubid), false);
        IF FOUND THEN
            RAISE EXCEPTION 'could not change the key of duty "%": session % leads by the old one alone',
                d.duty, owner_pid
                USING ERRCODE = 'object_in_use', HINT = 'Replace that worker by the new release first.';
        END IF;
        UPDATE pgleader.duty x SET key_version = d.next_key_version, next_key_version = NULL,
            lock_classid = d.next_lock_classid, next_lock_classid = NULL,
            lock_objid = d.next_lock_objid, next_lock_objid = NULL,
            lock_objsubid = d.next_lock_objsubid, next_lock_objsubid = NULL
        WHERE x.duty_id = d.duty_id;
    END
    $function$;

    -- Takes a duty out of every picture. Its history and its generations stay; its key is free.
    CREATE FUNCTION pgleader.retire_duty(duty text) RETURNS void
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
        END IF;
    END
    $function$;

    -- Maintenance, always with an end; NULL ends it now.
    CREATE FUNCTION pgleader.pause_alerts(duty text, until timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        d pgleader.duty := pgleader.find_duty(pause_alerts.duty);
    BEGIN
        IF NOT isfinite(until) THEN
            RAISE EXCEPTION 'could not pause the alerts of duty "%": a pause has an end', d.duty
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        UPDATE pgleader.on_call c SET alerts_paused_until = until WHERE c.duty_id = d.duty_id;
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
