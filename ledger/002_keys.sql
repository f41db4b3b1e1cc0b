-- SPDX-License-Identifier: PostgreSQL
-- Advisory lock keys: how one is derived from a duty's name, and how pg_locks shows it.

BEGIN;

DO $migration$
BEGIN
    IF NOT pgleader.begin_migration(2, '002_keys.sql') THEN
        RETURN;
    END IF;

    -- Version 1: the first 8 bytes, big-endian, of sha256("pgleader:1:ENVIRONMENT:NAMESPACE/NAME").
    -- pgleader's C programs compute the same; tests/key_vectors.tsv holds both to it.
    CREATE FUNCTION pgleader.derive_key(environment text, duty text, version int DEFAULT 1)
    RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF version <> 1 THEN
            RAISE EXCEPTION 'could not derive a key: version % of the derivation is not known', version
                USING ERRCODE = 'invalid_parameter_value', HINT = 'This ledger knows version 1.';
        END IF;
        IF environment = '' THEN
            RAISE EXCEPTION 'could not derive a key of "%": the environment is empty', duty
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        PERFORM pgleader.check_duty_name(duty);
        RETURN ('x' || encode(substr(sha256(convert_to(
            'pgleader:1:' || environment || ':' || duty, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;
    END
    $function$;

    CREATE FUNCTION pgleader.check_duty_name(duty text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        IF duty IS NULL OR octet_length(duty) > 48
            OR duty COLLATE "C" !~ '^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$' THEN
            RAISE EXCEPTION 'could not use "%" as the name of a duty', left(duty, 60)
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'A name is namespace/name, each part [a-z0-9][a-z0-9._-]*, at most 48 '
                        'bytes in all.';
        END IF;
    END
    $function$;

    -- The two halves of an int8 key, unsigned as pg_locks shows them (objsubid 1).
    CREATE FUNCTION pgleader.key_classid(key bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT (key >> 32) & 4294967295 $function$;

    CREATE FUNCTION pgleader.key_objid(key bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT key & 4294967295 $function$;

    -- One half as the signed int4 that the two-argument lock functions take.
    CREATE FUNCTION pgleader.key_signed(half bigint) RETURNS int
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT half::bit(32)::int $function$;

    -- As people write it: 742118, or 12,-7 for a pair.
    CREATE FUNCTION pgleader.key_text(classid bigint, objid bigint, objsubid int) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT CASE objsubid
            WHEN 1 THEN ((classid << 32) | objid)::text
            ELSE pgleader.key_signed(classid) || ',' || pgleader.key_signed(objid)
        END
    $function$;

    -- First number of the pairs that the ledger itself locks, always for a transaction: ASCII "pgld".
    -- The second is duty_id for the duty's fence, -duty_id for claims of its runs, 0 for the registry
    -- and for installation. Nothing discovers these, and no duty may have such a key.
    CREATE FUNCTION pgleader.own_namespace() RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT 1885826148 $function$;

    -- Of this session, since pg_database may be locked.
    CREATE FUNCTION pgleader.this_database() RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT a.datid FROM pg_stat_get_activity(pg_backend_pid()) a $function$;

    -- Does that session hold the key, exclusively, in this database?
    CREATE FUNCTION pgleader.session_holds(pid int, classid bigint, objid bigint, objsubid int)
    RETURNS boolean
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp
    AS $function$
        SELECT EXISTS (
            SELECT FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
                AND l.pid = session_holds.pid
                AND l.database = pgleader.this_database()
                AND l.classid = session_holds.classid::oid
                AND l.objid = session_holds.objid::oid
                AND l.objsubid = session_holds.objsubid)
    $function$;

    -- NULL where there is no such session or the ledger's owner may not read it. STRICT matters: of
    -- NULL, pg_stat_get_activity returns every session.
    CREATE FUNCTION pgleader.session_start(pid int) RETURNS timestamptz
    LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp
    AS $function$ SELECT a.backend_start FROM pg_stat_get_activity(session_start.pid) a $function$;

    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM PUBLIC;
END
$migration$;

COMMIT;
