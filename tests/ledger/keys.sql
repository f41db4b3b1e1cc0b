-- SPDX-License-Identifier: PostgreSQL
-- Keys: derivation's refusals, and how pg_locks shows what a session holds.
BEGIN;
SELECT no_plan();

SELECT is(pgleader.derive_key('prod', 'jobs/invoice-reconcile'), pgleader.derive_key('prod', 'jobs/invoice-reconcile', 1),
    'version 1 is the default');
SELECT isnt(pgleader.derive_key('prod', 'jobs/x'), pgleader.derive_key('staging', 'jobs/x'),
    'another environment is another key');
SELECT throws_ok(format('SELECT pgleader.derive_key(%L, %L, %s)', environment, duty, version), '22023', NULL, why)
FROM (VALUES
    ('prod', 'jobs/x', 2, 'an unknown version is refused'),
    ('', 'jobs/x', 1, 'an empty environment is refused'),
    ('prod', 'jobs', 1, 'a name without a namespace is refused'),
    ('prod', 'jobs/', 1, 'an empty name is refused'),
    ('prod', '/x', 1, 'an empty namespace is refused'),
    ('prod', 'jobs/x/y', 1, 'a third part is refused'),
    ('prod', 'Jobs/x', 1, 'capitals are refused'),
    ('prod', 'jobs/.x', 1, 'a part that begins with a dot is refused'),
    ('prod', E'jobs/x\n', 1, 'a trailing newline is refused'),
    ('prod', 'jobs/é', 1, 'a letter outside ASCII is refused'),
    ('prod', 'jobs/' || repeat('x', 44), 1, '49 bytes are refused')
) v (environment, duty, version, why);
SELECT lives_ok(format('SELECT pgleader.derive_key(%L, %L)', 'prod', 'jobs/' || repeat('x', 43)), '48 bytes are not');

-- What pg_locks shows of a key is what the functions compute.
SELECT lives_ok(format('DO %L', format('BEGIN PERFORM pg_advisory_xact_lock(%L::bigint); END', key)), key::text)
FROM (VALUES (0), (1), (-1), (742118), (4294967296), (-2147483648), (9223372036854775807), (-9223372036854775807 - 1)) v (key);
SELECT bag_eq(
    $$SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid()$$,
    $$SELECT pgleader.key_classid(key), pgleader.key_objid(key)
      FROM (VALUES (0), (1), (-1), (742118), (4294967296), (-2147483648), (9223372036854775807), (-9223372036854775807 - 1)) v (key)$$,
    'int8 keys are split as pg_locks splits them');
SELECT is(pgleader.key_text(pgleader.key_classid(key), pgleader.key_objid(key), 1), key::text, key || ' is read back')
FROM (VALUES (0), (-1), (742118), (-2147483648), (9223372036854775807), (-9223372036854775807 - 1)) v (key);
SELECT is(pgleader.key_text(12, 4294967289, 2), '12,-7', 'a pair is written as people write it');

SELECT is(pgleader.session_holds(pg_backend_pid(), 0, 742118, 1), true, 'this session holds 742118');
SELECT is(pgleader.session_holds(pg_backend_pid(), 0, 742118, 2), false, 'but not the pair (0, 742118)');
SELECT lives_ok('SELECT pg_advisory_xact_lock_shared(55)', 'a shared lock');
SELECT is(pgleader.session_holds(pg_backend_pid(), 0, 55, 1), false, 'is not held exclusively');
SELECT is(pgleader.session_start(NULL), NULL, 'the start of no session is unknown');

SELECT * FROM finish();
ROLLBACK;
