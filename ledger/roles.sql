-- SPDX-License-Identifier: PostgreSQL
-- The roles and what each may do. Runs after the numbered files, as often as wanted, and always states
-- all of it: a right that a former version granted and this one does not is taken back.
--
-- What the installer may not do (managed services, PostgreSQL 16 and later without ADMIN) is named in
-- a warning, with what does not work without it and the statement that a more powerful user can run.

BEGIN;

DO $roles$
DECLARE
    step record;
    owner_name text;
BEGIN
    IF pg_catalog.to_regclass('pgleader.schema_version') IS NULL THEN
        RAISE EXCEPTION 'could not set up the roles: the ledger is not installed in this database'
            USING HINT = 'Run the numbered files of the ledger first.';
    END IF;
    PERFORM pg_catalog.pg_advisory_xact_lock(1885826148, 0);

    -- Roles are of the whole cluster: another database's ledger may have made them.
    FOR step IN SELECT * FROM (VALUES
        ('pgleader_reader', 'exporters and screens cannot be given a role of their own'),
        ('pgleader_candidate', 'workers cannot be given a role of their own'),
        ('pgleader_operator', 'people on call cannot be given a role of their own')) v (role_name, loss)
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = step.role_name);
        BEGIN
            EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN INHERIT', step.role_name);
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE WARNING 'could not create role %: %', step.role_name, SQLERRM
                USING DETAIL = 'Without it ' || step.loss || '.',
                    HINT = pg_catalog.format('As a user with CREATEROLE: CREATE ROLE %I NOLOGIN; '
                        'then run roles.sql again.', step.role_name);
        WHEN duplicate_object OR unique_violation THEN
            NULL; -- an installer in another database was faster
        END;
    END LOOP;

    -- A superuser's SECURITY DEFINER functions would run as superuser: a role of little power owns them.
    IF pg_catalog.current_setting('is_superuser') = 'on' THEN
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = 'pgleader_owner') THEN
            CREATE ROLE pgleader_owner NOLOGIN INHERIT;
        END IF;
        FOR step IN
            SELECT 'SCHEMA pgleader' AS object
            UNION ALL
            SELECT pg_catalog.format('%s %s',
                CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass)
            FROM pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgleader'::regnamespace AND c.relkind IN ('r', 'v')
            UNION ALL
            SELECT pg_catalog.format('FUNCTION %s', p.oid::regprocedure)
            FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pgleader'::regnamespace
            UNION ALL
            SELECT pg_catalog.format('DOMAIN %s', t.oid::regtype)
            FROM pg_catalog.pg_type t
            WHERE t.typnamespace = 'pgleader'::regnamespace AND t.typtype = 'd'
        LOOP
            EXECUTE pg_catalog.format('ALTER %s OWNER TO pgleader_owner', step.object);
        END LOOP;
    END IF;
    SELECT r.rolname INTO owner_name FROM pg_catalog.pg_namespace n
    JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'pgleader';

    -- Predefined roles, which only some installers may grant.
    FOR step IN SELECT * FROM (VALUES
        ('pg_read_all_stats', 'pgleader_reader',
            'readers see who owns a duty, but not since when its session is there nor from where'),
        ('pg_read_all_stats', owner_name,
            'terms are recorded without the start of their session, and terminate_owner refuses'),
        ('pg_signal_backend', owner_name,
            'terminate_owner cannot end a session: a yield is graceful, or not at all')
        ) v (granted, grantee, loss)
    LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = step.grantee)
            OR pg_catalog.pg_has_role(step.grantee, step.granted, 'USAGE');
        BEGIN
            EXECUTE pg_catalog.format('GRANT %I TO %I', step.granted, step.grantee);
            IF NOT pg_catalog.pg_has_role(step.grantee, step.granted, 'USAGE') THEN
                RAISE WARNING '% was granted to %, which does not inherit it', step.granted, step.grantee
                    USING DETAIL = 'Without it ' || step.loss || '.',
                        HINT = pg_catalog.format('ALTER ROLE %I INHERIT; then grant it anew.', step.grantee);
            END IF;
        EXCEPTION WHEN insufficient_privilege OR invalid_grant_operation THEN
            RAISE WARNING 'could not grant % to %: %', step.granted, step.grantee, SQLERRM
                USING DETAIL = 'Without it ' || step.loss || '.',
                    HINT = pg_catalog.format('As a user who may: GRANT %I TO %I;',
                        step.granted, step.grantee);
        END;
    END LOOP;

    FOR step IN SELECT r.rolname FROM pg_catalog.pg_roles r
        WHERE r.rolname IN ('pgleader_reader', 'pgleader_candidate', 'pgleader_operator')
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA pgleader FROM %I', step.rolname);
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL TABLES IN SCHEMA pgleader FROM %I', step.rolname);
        EXECUTE pg_catalog.format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pgleader FROM %I', step.rolname);
        EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA pgleader TO %I', step.rolname);
    END LOOP;
    FOR step IN SELECT * FROM (VALUES
        ('pgleader_reader', 'SELECT', 'ALL TABLES IN SCHEMA pgleader'),
        ('pgleader_reader', 'EXECUTE', 'FUNCTION pgleader.derive_key, pgleader.check_duty_name, '
            'pgleader.read_lease'),
        ('pgleader_candidate', 'SELECT', 'pgleader.duty, pgleader.current_term, pgleader.current_run, '
            'pgleader.schema_version'),
        ('pgleader_candidate', 'EXECUTE', 'FUNCTION pgleader.derive_key, pgleader.check_duty_name, '
            'pgleader.wait_for_duty, pgleader.begin_term, pgleader.end_term, pgleader.report_stopped, '
            'pgleader.fence, pgleader.claim_run, pgleader.advance_run, pgleader.finish_run, '
            'pgleader.acquire_lease, pgleader.renew_lease, pgleader.release_lease, pgleader.warm_up'),
        ('pgleader_operator', 'SELECT', 'ALL TABLES IN SCHEMA pgleader'),
        ('pgleader_operator', 'EXECUTE', 'FUNCTION pgleader.derive_key, pgleader.check_duty_name, '
            'pgleader.read_lease, pgleader.register_duty, pgleader.complete_key_change, '
            'pgleader.retire_duty, pgleader.pause_alerts, pgleader.request_yield, '
            'pgleader.terminate_owner, pgleader.record_yield_outcome, pgleader.record_refusal, '
            'pgleader.prune')
        ) v (role_name, rights, objects)
    LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = step.role_name) THEN
            EXECUTE pg_catalog.format('GRANT %s ON %s TO %I', step.rights, step.objects, step.role_name);
        END IF;
    END LOOP;
END
$roles$;

COMMIT;
