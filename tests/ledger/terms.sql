-- SPDX-License-Identifier: PostgreSQL
-- Terms, fences and runs in one session that leads; rows are of one duty, jobs/t, with the key 31.
BEGIN;
SELECT no_plan();
SELECT lives_ok($$SELECT pgleader.register_duty('jobs/t', lock_key => 31)$$);
CREATE FUNCTION pg_temp.current() RETURNS bigint LANGUAGE sql AS $$SELECT generation FROM pgleader.duty WHERE duty = 'jobs/t'$$;

SELECT throws_ok($$SELECT pgleader.begin_term('jobs/none', 'a')$$, 'PL003', 'could not find duty "jobs/none"');
SELECT throws_ok($$SELECT pgleader.begin_term(NULL, 'a')$$, 'PL003', NULL, 'no duty');
SELECT throws_ok($$SELECT pgleader.begin_term('jobs/t', 'a')$$, 'PL002', NULL, 'not without the lock');
SELECT throws_ok($$SELECT pgleader.fence('jobs/t', 1)$$, 'PL001', NULL, 'no generation before the first term');
SELECT throws_ok($$SELECT pgleader.fence('jobs/t', NULL)$$, 'PL001', NULL, 'NULL is no generation');
SELECT lives_ok('SELECT pg_advisory_xact_lock_shared(31)');
SELECT throws_ok($$SELECT pgleader.begin_term('jobs/t', 'a')$$, 'PL002', NULL, 'not with the lock in share mode');
SELECT lives_ok('SELECT pg_advisory_xact_lock(0, 31)');
SELECT throws_ok($$SELECT pgleader.begin_term('jobs/t', 'a')$$, 'PL002', NULL, 'not with the pair of the same numbers');
SELECT lives_ok('SELECT pg_advisory_xact_lock(31)');
SELECT throws_ok(format('SELECT pgleader.begin_term(%L, %s)', 'jobs/t', arguments), '22023', NULL, arguments)
FROM unnest(ARRAY[$$NULL$$, $$''$$, $$repeat('x', 256)$$, $$'a', stop_within => '-1 s'$$, $$'a', stop_within => '2 h'$$]) arguments;
SELECT is(pg_temp.current(), NULL, 'no refused call left a term');

-- The first generation is the clock's; the next rises by one at least.
SELECT cmp_ok(pgleader.begin_term('jobs/t', 'a', true, '3 s', now()), '>=',
    floor(extract(epoch FROM now() - timestamptz '2025-01-01 00:00:00+00') * 1000)::bigint, 'milliseconds since 2025');
SELECT cmp_ok(pg_temp.current(), '<=',
    floor(extract(epoch FROM clock_timestamp() - timestamptz '2025-01-01 00:00:00+00') * 1000)::bigint, 'and no more');
SELECT row_eq($$SELECT instance, backend_pid, backend_start = (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()),
        listens, stop_within, last_refused_at, ended_at FROM pgleader.term$$,
    ROW('a'::text, pg_backend_pid(), true, true, interval '3 s', now(), NULL::timestamptz), 'a term has what was given');
CREATE TEMP TABLE first_term AS SELECT pg_temp.current() AS generation;
SELECT cmp_ok(pgleader.begin_term('jobs/t', 'b', last_refused_at => 'infinity'), '>', (SELECT generation FROM first_term), 'it rises');
SELECT is((SELECT term_last_refused_at FROM pgleader.duty WHERE duty = 'jobs/t'), NULL, 'no refusal lies in the future');
SELECT row_eq($$SELECT end_reason, ended_at = (SELECT acquired_at FROM pgleader.term ORDER BY generation DESC LIMIT 1)
    FROM pgleader.term ORDER BY generation LIMIT 1$$, ROW('superseded'::text, true), 'the open term is closed as superseded');
SELECT is((SELECT count(*) FROM pgleader.term WHERE ended_at IS NULL), 1::bigint, 'one is open');
SELECT row_eq($$SELECT previous_generation, previous_instance, previous_end_reason, term_instance, term_ended_at, term_stop_within
    FROM pgleader.duty WHERE duty = 'jobs/t'$$,
    ROW((SELECT generation FROM first_term), 'a'::text, 'superseded'::text, 'b'::text, NULL::timestamptz, interval '5 s'),
    'the duty carries both');
-- A ledger whose newest generation is ahead of the clock (it was set back) goes on from there.
UPDATE pgleader.duty SET generation = 4000000000000 WHERE duty = 'jobs/t';
SELECT is(pgleader.begin_term('jobs/t', 'c'), 4000000000001, 'one more than the newest');

-- Fences: current or PL001.
SELECT lives_ok(format('SELECT pgleader.fence(%L, %s)', 'jobs/t', pg_temp.current()));
SELECT throws_ok(format('SELECT pgleader.fence(%L, %s)', 'jobs/t', generation), 'PL001', 'generation ' || generation || ' of duty "jobs/t" is stale')
FROM (SELECT generation FROM first_term UNION ALL SELECT 4000000000002 UNION ALL SELECT 0 UNION ALL SELECT -1) v;
SELECT is(current_setting('idle_in_transaction_session_timeout'), '10s', 'a fenced transaction may not idle long');
SET LOCAL idle_in_transaction_session_timeout = '2s';
SELECT lives_ok(format('SELECT pgleader.fence(%L, %s)', 'jobs/t', pg_temp.current()));
SELECT is(current_setting('idle_in_transaction_session_timeout'), '2s', 'a shorter limit stays');
SELECT is(current_setting('lock_timeout'), '0', 'the caller''s lock_timeout is left alone');

-- Runs.
SELECT results_eq(format('SELECT * FROM pgleader.claim_run(%L, %L, %s, %L)', 'jobs/t', 'r1', pg_temp.current(), '1 h'),
    $$VALUES ('fresh'::text, NULL::text, NULL::numeric, NULL::bigint)$$, 'a run is fresh once');
SELECT results_eq(format('SELECT * FROM pgleader.claim_run(%L, %L, %s, NULL)', 'jobs/t', 'r1', pg_temp.current()),
    $$VALUES ('resumed'::text, NULL::text, NULL::numeric, 4000000000001)$$, 'then resumed');
SELECT is((SELECT deadline_at FROM pgleader.run), NULL, 'no deadline is none');
SELECT lives_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L, 12, 100)', 'jobs/t', 'r1', pg_temp.current(), 'page-12'));
CREATE TEMP TABLE seen AS SELECT * FROM pgleader.run;
SELECT lives_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L, 13)', 'jobs/t', 'r1', pg_temp.current(), 'page-12'));
SELECT row_eq('SELECT cursor, "position", target, advanced_at FROM pgleader.run',
    ROW('page-12'::text, 13::float8, 100::float8, (SELECT advanced_at FROM seen)), 'advanced_at moves only with the cursor');
SELECT lives_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L)', 'jobs/t', 'r1', pg_temp.current(), '14.5'));
SELECT row_eq('SELECT "position", target, advanced_at > (SELECT advanced_at FROM seen) FROM pgleader.run',
    ROW(14.5::float8, 100::float8, true), 'a cursor that is a number is its own position; the target stays');
SELECT lives_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L)', 'jobs/t', 'r1', pg_temp.current(), 'page-15'));
SELECT is((SELECT "position" FROM pgleader.run), NULL, 'an old number is not kept beside a new cursor');
SELECT throws_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %s)', 'jobs/t', 'r1', pg_temp.current(), arguments), state, NULL, arguments)
FROM (VALUES ($$'x', 'NaN'$$, '23514'), ($$'x', 1e400$$, '22003'), ($$'x', 1, 1.7e308$$, '23514'), ($$repeat('x', 8193)$$, '22023')) v (arguments, state);
SELECT throws_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L)', 'jobs/t', 'r2', pg_temp.current(), '1'), '55000',
    format('could not advance run "r2" of duty "jobs/t": generation %s has not claimed it', pg_temp.current()));
SELECT throws_ok(format('SELECT pgleader.claim_run(%L, %s, %s, %L)', 'jobs/t', key, pg_temp.current(), deadline), '22023', NULL, key || deadline)
FROM (VALUES ($$''$$, '1 h'), ('NULL', '1 h'), ($$repeat('x', 256)$$, '1 h'), ($$'x'$$, '-1 s'), ($$'x'$$, '20 years')) v (key, deadline);
SELECT throws_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %s, NULL)', 'jobs/t', 'r1', pg_temp.current(), status), '22023', NULL, status)
FROM unnest(ARRAY['NULL', $$'running'$$, $$'done'$$]) status;

-- Which run is shown: the newest claim that is not finished, and the last complete one.
CREATE FUNCTION pg_temp.shown() RETURNS text LANGUAGE sql AS $$SELECT string_agg(place || ' ' || run_key, ', ' ORDER BY place) FROM pgleader.run WHERE place IS NOT NULL$$;
SELECT is(pg_temp.shown(), 'newest r1');
SELECT lives_ok(format('SELECT pgleader.claim_run(%L, %L, %s, %L)', 'jobs/t', 'r2', pg_temp.current(), '1 h'));
SELECT is(pg_temp.shown(), 'newest r2', 'a new claim');
SELECT lives_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %L, %L)', 'jobs/t', 'r2', pg_temp.current(), 'complete', '{"rows": 3}'));
SELECT is(pg_temp.shown(), 'last r2, newest r1', 'its end brings the unfinished one back');
SELECT lives_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %L, %L)', 'jobs/t', 'r2', pg_temp.current(), 'complete', '{}'), 'asked twice, it agrees');
SELECT is((SELECT receipt FROM pgleader.run WHERE run_key = 'r2'), '{"rows": 3}', 'the first receipt stands');
SELECT throws_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %L, NULL)', 'jobs/t', 'r2', pg_temp.current(), 'abandoned'), '55000', NULL, 'another end is refused');
SELECT throws_ok(format('SELECT pgleader.advance_run(%L, %L, %s, %L)', 'jobs/t', 'r2', pg_temp.current(), '9'), '55000', NULL, 'a finished run does not advance');
SELECT results_eq(format('SELECT outcome, previous_generation FROM pgleader.claim_run(%L, %L, %s, NULL)', 'jobs/t', 'r2', pg_temp.current()),
    $$VALUES ('already_complete'::text, 4000000000001)$$, 'a complete run is done for good');
SELECT lives_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %L, NULL)', 'jobs/t', 'r1', pg_temp.current(), 'partial'));
SELECT is(pg_temp.shown(), 'last r2, newest r1', 'a partial run is still to do');
SELECT lives_ok(format('SELECT pgleader.claim_run(%L, %L, %s, %L)', 'jobs/t', 'r1', pg_temp.current(), '1 h'));
SELECT lives_ok(format('SELECT pgleader.finish_run(%L, %L, %s, %L, NULL)', 'jobs/t', 'r1', pg_temp.current(), 'abandoned'));
SELECT is(pg_temp.shown(), 'last r2', 'an abandoned one is not');
SELECT is((SELECT outcome FROM pgleader.claim_run('jobs/t', 'r1', pg_temp.current(), '1 h')), 'resumed', 'but may be claimed again');
SELECT is(pg_temp.shown(), 'last r2, newest r1');
SELECT is((SELECT claims FROM pgleader.run WHERE run_key = 'r1'), 4, 'claims are counted');
SELECT is((SELECT count(*) FROM pgleader.run), 2::bigint, 'one row a key');

-- The end, and what comes after it.
SELECT throws_ok(format('SELECT pgleader.end_term(%L, %s, %s)', 'jobs/t', pg_temp.current(), reason), '22023', NULL, reason)
FROM unnest(ARRAY['NULL', $$''$$, $$'superseded'$$, $$'retired'$$, $$repeat('x', 256)$$]) reason;
SELECT throws_ok(format('SELECT pgleader.end_term(%L, %s, %L)', 'jobs/t', (SELECT generation FROM first_term), 'done'), 'PL001', NULL, 'an old term');
SELECT lives_ok(format('SELECT pgleader.end_term(%L, %s, %L)', 'jobs/t', pg_temp.current(), 'released'));
SELECT throws_ok(format('SELECT pgleader.%s', call), 'PL001', NULL, call)
FROM (SELECT format(f, pg_temp.current()) FROM unnest(ARRAY[$$fence('jobs/t', %s)$$, $$end_term('jobs/t', %s, 'again')$$,
    $$claim_run('jobs/t', 'r3', %s, NULL)$$, $$advance_run('jobs/t', 'r1', %s, '1')$$, $$finish_run('jobs/t', 'r1', %s, 'complete', NULL)$$,
    $$request_yield('jobs/t', %s, 'why', '1 s')$$]) f) v (call);
SELECT lives_ok(format('SELECT pgleader.report_stopped(%L, %s, %L)', 'jobs/t', pg_temp.current(), 'c'), 'who ended may report');
SELECT throws_ok(format('SELECT pgleader.report_stopped(%L, %s, %L)', 'jobs/t', pg_temp.current(), 'd'), 'PL001', NULL, 'another instance may not');
SELECT throws_ok($$SELECT pgleader.report_stopped('jobs/t', 12, 'c')$$, 'PL001', NULL, 'nor of another term');
SELECT is(pgleader.begin_term('jobs/t', 'd'), 4000000000002, 'the next term');
SELECT row_eq('SELECT previous_end_reason, previous_stopped_at IS NOT NULL, previous_stop_within, yield_intent FROM pgleader.current_term',
    ROW('released'::text, true, interval '5 s', NULL::bigint), 'the successor sees how the last one ended');

SELECT * FROM finish();
ROLLBACK;
