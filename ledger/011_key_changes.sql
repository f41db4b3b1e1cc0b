-- SPDX-License-Identifier: PostgreSQL
-- Changes of keys are told: {"event": "key"} on the duty's channel when a key is reserved, when a change
-- is called off and when it is completed.
--
-- A leader that hears of it reads the registry, takes the reserved key beside its own, and after the
-- completion gives the old one back: no worker has to stop. Nobody asks meanwhile, so that a change that
-- may never come costs a leader nothing.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(11, '011_key_changes.sql') THEN
        RETURN;
    END IF;

    CREATE FUNCTION pgleader.notify_key(d pgleader.duty) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT pgleader.notify_duty(d.duty, jsonb_build_object('event', 'key', 'generation', d.generation))
    $function$;

    -- As before, but that a key which is reserved, called off or changed is told.
    CREATE OR REPLACE FUNCTION pgleader.save_duty(known pgleader.duty, d pgleader.duty) RETURNS void
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
        IF (known.lock_classid, known.lock_objid, known.lock_objsubid,
                known.next_lock_classid, known.next_lock_objid, known.next_lock_objsubid)
            IS DISTINCT FROM (d.lock_classid, d.lock_objid, d.lock_objsubid,
                d.next_lock_classid, d.next_lock_objid, d.next_lock_objsubid) THEN
            PERFORM pgleader.notify_key(d);
        END IF;
    END
    $function$;

    -- As before, but that it is told.
    CREATE OR REPLACE FUNCTION pgleader.complete_key_change(duty text) RETURNS void
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
                USING ERRCODE = 'object_in_use', HINT = 'A leader of the kit takes the new one within '
                    'seconds, unless another session holds it. Replace any other worker by the new '
                    'release first.';
        END IF;
        UPDATE pgleader.duty x SET key_version = d.next_key_version, next_key_version = NULL,
            lock_classid = d.next_lock_classid, next_lock_classid = NULL,
            lock_objid = d.next_lock_objid, next_lock_objid = NULL,
            lock_objsubid = d.next_lock_objsubid, next_lock_objsubid = NULL
        WHERE x.duty_id = d.duty_id;
        PERFORM pgleader.notify_key(d);
    END
    $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
