-- SPDX-License-Identifier: PostgreSQL
-- The registry in one session: what is kept, what is refused, how a key changes.
BEGIN;
SELECT no_plan();

SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => -5, candidates => 'w-%', min_candidates => 2,
    stall_after => '5 min', run_every => '1 h', takeover_slow_after => '10 s', wait_slow_after => '1 min',
    yieldable => false, yield_cooldown => '2 min', team => 'billing', runbook => 'https://runbooks.example/one')$$);
SELECT row_eq($$SELECT mechanism, lock_classid, lock_objid, lock_objsubid, key_version, candidate_pattern, min_candidates,
        yieldable, team FROM pgleader.duty WHERE duty = 'jobs/one'$$,
    ROW('lock'::text, 4294967295::bigint, 4294967291::bigint, 1, NULL::int, 'w-%'::text, 2, false, 'billing'::text),
    'a registration is kept');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', stall_after => '7 min')$$, 'an upsert');
SELECT row_eq($$SELECT stall_after::interval, run_every::interval, lock_objid, team FROM pgleader.duty WHERE duty = 'jobs/one'$$,
    ROW(interval '7 min', interval '1 h', 4294967291::bigint, 'billing'::text), 'keeps what it does not name');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', run_every => '0', team => '', min_candidates => 0)$$, 'empty');
SELECT row_eq($$SELECT run_every::interval, team, min_candidates FROM pgleader.duty WHERE duty = 'jobs/one'$$,
    ROW(NULL::interval, NULL::text, NULL::int), 'clears');

SELECT lives_ok($$SELECT pgleader.register_duty('jobs/pair', lock_pair => '{12,-7}')$$);
SELECT row_eq($$SELECT lock_classid, lock_objid, lock_objsubid FROM pgleader.duty WHERE duty = 'jobs/pair'$$,
    ROW(12::bigint, 4294967289::bigint, 2), 'a pair');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/derived', environment => 'prod')$$);
SELECT is((SELECT (lock_classid << 32) | lock_objid FROM pgleader.duty WHERE duty = 'jobs/derived'),
    pgleader.derive_key('prod', 'jobs/derived'), 'a derived key');
SELECT is((SELECT key_version FROM pgleader.duty WHERE duty = 'jobs/derived'), 1, 'with its version');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/own-lease', lease_table => 'pgleader.lease')$$);
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/lease', lease_table => 'PUBLIC.leader_lease', lease_row => 'nightly')$$);
SELECT row_eq($$SELECT mechanism, lease_table, lease_row, lock_classid FROM pgleader.duty WHERE duty = 'jobs/lease'$$,
    ROW('lease'::text, 'public.leader_lease'::text, 'nightly'::text, NULL::bigint), 'a lease of the application');

SELECT throws_ok('SELECT pgleader.register_duty(' || call || ')', state, NULL, why) FROM (VALUES
    ($$'jobs/new'$$, '22023', 'nothing decides it'),
    ($$'jobs/new', lock_key => 1, lock_pair => '{1,2}'$$, '22023', 'two things decide it'),
    ($$'jobs/new', lock_key => 1, lease_table => 'a.b'$$, '22023', 'a lock and a lease'),
    ($$'jobs/new', lease_row => 'x'$$, '22023', 'a lease row without its table'),
    ($$'jobs/new', lock_key => 1, version => 1$$, '22023', 'a version of no derivation'),
    ($$'jobs/new', environment => 'prod', version => 2$$, '22023', 'an unknown version'),
    ($$'jobs/new', lock_pair => '{1}'$$, '22023', 'half a pair'),
    ($$'jobs/new', lock_pair => '{1,2,3}'$$, '22023', 'too much of a pair'),
    ($$'jobs/new', lock_pair => '{1,NULL}'$$, '22023', 'a pair with a hole'),
    ($$'jobs/new', lock_pair => '{}'$$, '22023', 'an empty pair'),
    ($$'jobs/new', lock_pair => '{1885826148,3}'$$, '22023', 'a key of the ledger''s own'),
    ($$'jobs/new', lease_table => 'leader_lease'$$, '22023', 'a table without its schema'),
    ($$'jobs/new', lease_table => 'a b; drop'$$, '22023', 'a table that is no name'),
    ($$'jobs/new', lease_table => 'pgleader.lease', lease_row => 'x'$$, '22023', 'a foreign row of our own table'),
    ($$'jobs/new', lock_key => 1, stall_after => '-1 s'$$, '23514', 'a negative threshold'),
    ($$'jobs/new', lock_key => 1, stall_after => '11 years'$$, '23514', 'an endless threshold'),
    ($$'jobs/new', lock_key => 1, min_candidates => -1$$, '23514', 'fewer than no candidates'),
    ($$'jobs/new', lock_key => 1, candidates => E'w\\'$$, '22025', 'a pattern that no LIKE takes'),
    ($$'jobs/New', lock_key => 1$$, '22023', 'a name with capitals'),
    ($$NULL, lock_key => 1$$, '22023', 'no name')
) v (call, state, why);
SELECT is((SELECT count(*) FROM pgleader.duty WHERE duty = 'jobs/new'), 0::bigint, 'and nothing of it is left');

-- Collisions name both duties.
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/two', lock_key => -5)$$, 'PL004',
    'could not give duty "jobs/two" the key -5: duty "jobs/one" has it');
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/two', lock_pair => '{12,-7}')$$, 'PL004',
    'could not give duty "jobs/two" the key 12,-7: duty "jobs/pair" has it');
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/two', lease_table => 'public.leader_lease', lease_row => 'nightly')$$,
    'PL004', 'could not give duty "jobs/two" the lease row "nightly" of public.leader_lease: duty "jobs/lease" has it');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/two', lock_key => (12::bigint << 32) | 4294967289)$$,
    'an int8 and a pair of the same numbers are two locks');

-- Retired: out of sight, key free; registered again: back, unless the key is taken.
SELECT lives_ok($$SELECT pgleader.retire_duty('jobs/one')$$);
SELECT throws_ok($$SELECT pgleader.retire_duty('jobs/one')$$, 'PL003', NULL, 'a retired duty is unknown');
SELECT throws_ok($$SELECT pgleader.pause_alerts('jobs/one', now())$$, 'PL003', NULL, 'to every function');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/heir', lock_key => -5)$$, 'its key is free');
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/one')$$, 'PL004', NULL, 'and taken when it comes back with it');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => 6)$$, 'with another key it comes back');
SELECT is((SELECT retired_at FROM pgleader.duty WHERE duty = 'jobs/one'), NULL, 'not retired');

-- Before the first term a key simply changes; after it, it is reserved until the change is complete.
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => 7)$$);
SELECT is((SELECT lock_objid FROM pgleader.duty WHERE duty = 'jobs/one'), 7::bigint, 'changed at once');
SELECT throws_ok($$SELECT pgleader.complete_key_change('jobs/one')$$, '55000', NULL, 'no change to complete');
SELECT lives_ok('SELECT pg_advisory_xact_lock(7)');
SELECT lives_ok($$SELECT pgleader.begin_term('jobs/one', 'a')$$);
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => 8)$$);
SELECT row_eq($$SELECT lock_objid, next_lock_objid FROM pgleader.duty WHERE duty = 'jobs/one'$$,
    ROW(7::bigint, 8::bigint), 'the old key decides, the new one is reserved');
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/three', lock_key => 8)$$, 'PL004',
    'could not give duty "jobs/three" the key 8: duty "jobs/one" has it');
SELECT throws_ok($$SELECT pgleader.complete_key_change('jobs/one')$$, '55006', NULL, 'its leader holds the old key alone');
SELECT lives_ok('SELECT pg_advisory_xact_lock(8)');
SELECT lives_ok($$SELECT pgleader.complete_key_change('jobs/one')$$, 'its leader holds both');
SELECT row_eq($$SELECT lock_objid, next_lock_objid, next_lock_objsubid FROM pgleader.duty WHERE duty = 'jobs/one'$$,
    ROW(8::bigint, NULL::bigint, NULL::int), 'the new key decides');
SELECT throws_ok($$SELECT pgleader.register_duty('jobs/one', lease_table => 'pgleader.lease')$$, '55006', NULL,
    'a duty that was led by a lock does not become a lease under its workers');
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => 9)$$);
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/one', lock_key => 8)$$, 'the change is called off');
SELECT is((SELECT next_lock_objid FROM pgleader.duty WHERE duty = 'jobs/one'), NULL, 'and nothing is reserved');

SELECT throws_ok($$SELECT pgleader.pause_alerts('jobs/one', 'infinity')$$, '22023', NULL, 'a pause has an end');
SELECT lives_ok($$SELECT pgleader.pause_alerts('jobs/one', '2100-01-01')$$);
SELECT is((SELECT alerts_paused_until FROM pgleader.ownership WHERE duty = 'jobs/one'), '2100-01-01'::timestamptz);
SELECT lives_ok($$SELECT pgleader.pause_alerts('jobs/one', NULL)$$);
SELECT is((SELECT alerts_paused_until FROM pgleader.ownership WHERE duty = 'jobs/one'), NULL, 'and ends when told');

SELECT * FROM finish();
ROLLBACK;
