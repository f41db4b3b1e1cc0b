-- SPDX-License-Identifier: PostgreSQL
-- What is installed: tables, functions with the signatures that workers call, and how they run.
BEGIN;
SELECT no_plan();

SELECT tables_are('pgleader', ARRAY['duty', 'term', 'run', 'lease', 'yield', 'on_call', 'refused_yield', 'schema_version']);
SELECT views_are('pgleader', ARRAY['ownership', 'current_term', 'current_run']);

-- Signatures, as a table. What returns void is called for its effect alone.
SELECT is((SELECT pg_get_function_result(p.oid) FROM pg_proc p
           WHERE p.pronamespace = 'pgleader'::regnamespace AND p.proname = v.name
               AND pg_get_function_identity_arguments(p.oid) = v.arguments),
          v.result, v.name || ' has its signature')
FROM (VALUES
    ('derive_key', 'environment text, duty text, version integer', 'bigint'),
    ('retire_duty', 'duty text', 'void'),
    ('pause_alerts', 'duty text, until timestamp with time zone', 'void'),
    ('begin_term', 'duty text, instance text, listens boolean, stop_within interval, last_refused_at timestamp with time zone', 'bigint'),
    ('end_term', 'duty text, generation bigint, reason text', 'void'),
    ('report_stopped', 'duty text, generation bigint, instance text', 'void'),
    ('claim_run', 'duty text, run_key text, generation bigint, deadline interval, OUT outcome text, OUT cursor text, OUT "position" numeric, OUT previous_generation bigint', 'record'),
    ('advance_run', 'duty text, run_key text, generation bigint, cursor text, "position" numeric, target numeric', 'void'),
    ('finish_run', 'duty text, run_key text, generation bigint, status text, receipt jsonb', 'void'),
    ('fence', 'duty text, generation bigint', 'void'),
    ('request_yield', 'duty text, generation bigint, reason text, grace interval, overrides text[]', 'bigint'),
    ('terminate_owner', 'intent bigint, OUT pid integer, OUT signalled boolean', 'record'),
    ('record_yield_outcome', 'intent bigint, outcome text', 'void'),
    ('wait_for_duty', 'duty text', 'boolean'),
    ('acquire_lease', 'duty text, holder text, duration interval, listens boolean, stop_within interval, last_refused_at timestamp with time zone', 'bigint'),
    ('renew_lease', 'duty text, holder text, generation bigint, duration interval', 'timestamp with time zone'),
    ('release_lease', 'duty text, holder text, generation bigint, reason text', 'void'),
    ('prune', 'keep interval, OUT terms bigint, OUT runs bigint, OUT yields bigint', 'record')
) v (name, arguments, result);

SELECT volatility_is('pgleader', 'derive_key', ARRAY['text', 'text', 'integer'], 'immutable');

-- Who calls them has no rights on the tables; they run as their owner, and look names up nowhere else.
SELECT is_definer('pgleader', name, name || ' runs as its owner')
FROM unnest(ARRAY['register_duty', 'complete_key_change', 'retire_duty', 'pause_alerts', 'begin_term',
    'end_term', 'report_stopped', 'wait_for_duty', 'fence', 'claim_run', 'advance_run', 'finish_run',
    'acquire_lease', 'renew_lease', 'release_lease', 'request_yield', 'terminate_owner',
    'record_yield_outcome', 'prune']) name;
SELECT is_empty($$
    SELECT p.oid::regprocedure FROM pg_proc p
    WHERE p.pronamespace = 'pgleader'::regnamespace
        AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']
    $$, 'every function has search_path = pg_catalog, pg_temp');
SELECT is_empty($$
    SELECT p.oid::regprocedure FROM pg_proc p
    WHERE p.pronamespace = 'pgleader'::regnamespace AND has_function_privilege('stranger', p.oid, 'EXECUTE')
    $$, 'PUBLIC may execute nothing');
SELECT schema_owner_is('pgleader', 'pgleader_owner');
SELECT is_empty($$
    SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'pgleader'::regnamespace
        AND pg_get_userbyid(c.relowner) <> 'pgleader_owner'
    UNION ALL
    SELECT p.oid::regproc::text FROM pg_proc p WHERE p.pronamespace = 'pgleader'::regnamespace
        AND pg_get_userbyid(p.proowner) <> 'pgleader_owner'
    $$, 'everything belongs to a role that is no superuser');
SELECT is((SELECT rolsuper OR rolcanlogin OR NOT rolinherit FROM pg_roles WHERE rolname = 'pgleader_owner'),
    false, 'that role is no superuser, cannot log in, and inherits');

SELECT indexes_are('pgleader', 'run', ARRAY['run_pkey', 'run_unfinished', 'run_newest', 'run_last', 'run_finished']);
SELECT is((SELECT max(version) FROM pgleader.schema_version), 12, 'the version is that of the newest file');
SELECT results_eq('SELECT version FROM pgleader.schema_version ORDER BY 1', 'SELECT generate_series(1, 12)',
    'each file recorded itself');

SELECT * FROM finish();
ROLLBACK;
