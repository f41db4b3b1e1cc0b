/* SPDX-License-Identifier: PostgreSQL */
/* When to poll next: intervals, costs, deadlines, reconnects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "observe/pace.h"
#include "tests/support/own.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MS (SECOND_US / 1000)

static const int64_t now_us = INT64_C(1700000000) * SECOND_US;

/* A picture of one duty that was lost so long ago. */
static struct snapshot one_duty(struct duty *duty, int64_t lost_ago_us)
{
    duty_init(duty);
    duty->source = SOURCE_CONFIG;
    duty->read = true;
    duty->trail.ever_owned = true;
    duty_past(duty, own_memory)->lost_upper_us = now_us - lost_ago_us;
    return (struct snapshot){.duties = duty, .n_duties = 1, .read_upper_us = now_us};
}

/* What the pace becomes when every poll costs that much. */
static struct pace settled(int64_t configured_us, int64_t cost_us)
{
    struct pace pace = {.configured_us = configured_us};
    for (int i = 0; i < 12; i++)
        pace_note_cost(&pace, cost_us);
    return pace;
}

static void test_interval(void **state)
{
    static const struct {
        int64_t configured_us, cost_us, calm_us, vacant_us;
    } rows[] = {
        {SECOND_US, 0, SECOND_US, 100 * MS},
        {SECOND_US, 1 * MS, SECOND_US, 100 * MS},
        {SECOND_US, 10 * MS, SECOND_US, 100 * MS},
        {SECOND_US, 15 * MS, SECOND_US, 150 * MS},
        {SECOND_US, 20 * MS, SECOND_US, 200 * MS},
        {SECOND_US, 21 * MS, 1050 * MS, 210 * MS},
        {SECOND_US, 100 * MS, 5 * SECOND_US, SECOND_US},
        {SECOND_US, 300 * MS, 15 * SECOND_US, 3 * SECOND_US},
        {SECOND_US, 1700 * MS, 15 * SECOND_US, 15 * SECOND_US},
        {100 * MS, 1 * MS, 100 * MS, 100 * MS},
        {100 * MS, 50 * MS, 2500 * MS, 500 * MS},
        {15 * SECOND_US, 10 * MS, 15 * SECOND_US, 100 * MS},
        {15 * SECOND_US, SECOND_US, 15 * SECOND_US, 10 * SECOND_US},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pace pace = settled(rows[i].configured_us, rows[i].cost_us);
        struct duty duty;
        const struct snapshot vacant = one_duty(&duty, SECOND_US);
        assert_int_equal(pace_interval_us(&pace, NULL), rows[i].calm_us);
        assert_int_equal(pace_interval_us(&pace, &vacant), rows[i].vacant_us);
        duty.owners = 1;
        assert_int_equal(pace_interval_us(&pace, &vacant), rows[i].calm_us);
    }
}

/* The share of wall time, whatever the cost: 2 %, and 10 % while a vacancy is measured, as long as
 * the longest interval allows it. */
static void test_wall_share(void **state)
{
    (void)state;
    for (int64_t cost = 1; cost <= 300 * MS; cost += 777) {
        struct pace pace = settled(SECOND_US, cost);
        struct duty duty;
        const struct snapshot vacant = one_duty(&duty, 0);
        assert_true(cost * 50 <= pace_interval_us(&pace, NULL));
        assert_true(cost * 10 <= pace_interval_us(&pace, &vacant));
        assert_true(pace_interval_us(&pace, NULL) <= 15 * SECOND_US);
    }
}

/* Only a vacancy that has just begun, of a duty that somebody named, is measured. */
static void test_burst(void **state)
{
    static const struct {
        const char *words;
        int64_t lost_ago_us;
        enum duty_source source;
        bool unread, never, burst;
    } rows[] = {
        {"just lost", 0, SOURCE_CONFIG, .burst = true},
        {"of the ledger", SECOND_US, SOURCE_LEDGER, .burst = true},
        {"lost for almost 30 s", 30 * SECOND_US - 1, SOURCE_CONFIG, .burst = true},
        {"lost for 30 s", 30 * SECOND_US, SOURCE_CONFIG, .burst = false},
        {"discovered", SECOND_US, SOURCE_DISCOVERY, .burst = false},
        {"not read", SECOND_US, SOURCE_CONFIG, .unread = true, .burst = false},
        {"never owned", SECOND_US, SOURCE_CONFIG, .never = true, .burst = false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pace pace = {.configured_us = SECOND_US};
        struct duty duty;
        const struct snapshot snapshot = one_duty(&duty, rows[i].lost_ago_us);
        duty.source = rows[i].source;
        duty.read = !rows[i].unread;
        if (rows[i].never)
            duty_past(&duty, own_memory)->lost_upper_us = TIME_UNKNOWN;
        bool burst = pace_interval_us(&pace, &snapshot) < SECOND_US;
        if (burst != rows[i].burst)
            fail_msg("%s", rows[i].words);
    }
}

static void test_burst_looks_at_every_duty(void **state)
{
    struct pace pace = {.configured_us = SECOND_US};
    struct duty duties[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        (void)one_duty(&duties[i], MINUTE_US);
        duties[i].owners = 1;
    }
    const struct snapshot snapshot = {.duties = duties, .n_duties = 3, .read_upper_us = now_us};
    assert_int_equal(pace_interval_us(&pace, &snapshot), SECOND_US);
    duties[2].owners = 0;
    duty_past(&duties[2], own_memory)->lost_upper_us = now_us;
    assert_int_equal(pace_interval_us(&pace, &snapshot), 100 * MS);
}

/* One slow poll says nothing of the next: a cold cache, a burst of load. */
static void test_one_slow_poll_is_no_cost(void **state)
{
    struct pace pace = {.configured_us = SECOND_US};
    (void)state;
    pace_note_cost(&pace, 900 * MS);
    assert_int_equal(pace_interval_us(&pace, NULL), SECOND_US);
    pace_note_cost(&pace, 2 * MS);
    assert_int_equal(pace_interval_us(&pace, NULL), SECOND_US);
    pace_note_cost(&pace, 900 * MS);
    assert_int_equal(pace.cost_us, 2 * MS);
}

/* A server that has become dear is asked less often step by step, and at once again when it is not.
 */
static void test_stretches_step_by_step(void **state)
{
    static const int64_t expected[] = {1, 2, 4, 8, 15, 15};
    struct pace pace = {.configured_us = SECOND_US};
    (void)state;
    for (size_t i = 0; i < COUNT(expected); i++) {
        pace_note_cost(&pace, SECOND_US);
        assert_int_equal(pace_interval_us(&pace, NULL), expected[i] * SECOND_US);
    }
    pace_note_cost(&pace, MS);
    assert_int_equal(pace_interval_us(&pace, NULL), SECOND_US);
}

/* The cost is by the server's clock; nothing takes longer than the poll's deadline. */
static void test_a_clock_that_was_set_costs_nothing(void **state)
{
    struct pace pace = settled(SECOND_US, 8 * MS);
    (void)state;
    pace_note_cost(&pace, -HOUR_US);
    assert_int_equal(pace.cost_us, 8 * MS);
    pace_note_cost(&pace, HOUR_US);
    pace_note_cost(&pace, HOUR_US);
    assert_int_equal(pace.cost_us, 8 * MS);
    pace_note_cost(&pace, pace_poll_deadline_us(&pace));
    pace_note_cost(&pace, pace_poll_deadline_us(&pace));
    assert_true(pace.cost_us > 8 * MS);
}

/* Fresh for max(3 intervals, 3 s); a stretched interval that goes well is not old in between. */
static void test_freshness(void **state)
{
    static const struct {
        int64_t configured_us, cost_us, failing_us;
    } rows[] = {
        {100 * MS, 0, 3 * SECOND_US},         {SECOND_US, 0, 3 * SECOND_US},
        {SECOND_US, 300 * MS, 3 * SECOND_US}, {1001 * MS, 0, 3003 * MS},
        {15 * SECOND_US, 0, 45 * SECOND_US},  {100 * MS, SECOND_US, 3 * SECOND_US},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pace pace = settled(rows[i].configured_us, rows[i].cost_us);
        assert_int_equal(pace_fresh_for_us(&pace, true), rows[i].failing_us);
        int64_t calm = pace_fresh_for_us(&pace, false);
        assert_true(calm >= rows[i].failing_us);
        assert_true(calm >= pace_interval_us(&pace, NULL) + pace_poll_deadline_us(&pace));
        if (pace_interval_us(&pace, NULL) > 3 * rows[i].configured_us)
            assert_true(calm > rows[i].failing_us);
    }
}

static void test_deadlines(void **state)
{
    static const struct {
        int64_t configured_us, statement_us;
    } rows[] = {
        {100 * MS, SECOND_US},
        {SECOND_US, SECOND_US},
        {3 * SECOND_US, 3 * SECOND_US},
        {15 * SECOND_US, 5 * SECOND_US},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct pace pace = {.configured_us = rows[i].configured_us};
        assert_int_equal(pace_statement_timeout_us(rows[i].configured_us), rows[i].statement_us);
        int64_t poll = pace_poll_deadline_us(&pace), connect = pace_connect_deadline_us(&pace);
        /* a hung poll is given up while the picture is fresh, and so is an attempt to connect */
        assert_true(poll > rows[i].statement_us && poll < pace_fresh_for_us(&pace, true));
        assert_true(connect > rows[i].statement_us && connect < pace_fresh_for_us(&pace, true));
    }
}

static uint32_t next_random(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    return *random;
}

/* Full jitter: from 250 ms to a ceiling that doubles up to 15 s, and the whole range is used. */
static void test_reconnect(void **state)
{
    static const struct {
        int failures;
        int64_t ceiling_us;
    } rows[] = {
        {2, 500 * MS},
        {3, SECOND_US},
        {4, 2 * SECOND_US},
        {5, 4 * SECOND_US},
        {6, 8 * SECOND_US},
        {7, 15 * SECOND_US},
        {8, 15 * SECOND_US},
        {9, 15 * SECOND_US},
        {63, 15 * SECOND_US},
        {64, 15 * SECOND_US},
        {INT32_MAX, 15 * SECOND_US},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t random = 2463534242u;
        int64_t least = INT64_MAX, most = 0;
        for (int j = 0; j < 20000; j++) {
            int64_t pause = pace_reconnect_us(rows[i].failures, 0, next_random(&random));
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        int64_t span = rows[i].ceiling_us - 250 * MS;
        assert_in_range(least, 250 * MS, 250 * MS + span / 100);
        assert_in_range(most, rows[i].ceiling_us - span / 100, rows[i].ceiling_us);
    }
    for (int failures = 2; failures < 40; failures++) {
        assert_in_range(pace_reconnect_us(failures, 0, 0), 250 * MS, 15 * SECOND_US);
        assert_in_range(pace_reconnect_us(failures, 0, UINT32_MAX), 250 * MS, 15 * SECOND_US);
    }
}

/* At once after a good poll; but sessions that end as they begin are 250 ms apart. */
static void test_reconnect_at_once(void **state)
{
    static const struct {
        int failures;
        int64_t lived_us, expected_us;
    } rows[] = {
        {0, HOUR_US, 0},       {1, HOUR_US, 0},       {1, 250 * MS, 0},
        {1, 249 * MS, 1 * MS}, {1, 3 * MS, 247 * MS}, {1, 0, 250 * MS},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(pace_reconnect_us(rows[i].failures, rows[i].lived_us, 12345),
                         rows[i].expected_us);
}

/* Whatever happens, no more than four sessions are begun a second. */
static void test_no_tight_loop(void **state)
{
    uint32_t random = 88172645;
    int64_t now = 0, begun = 0;
    int failures = 0;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        int64_t lived = next_random(&random) % (300 * MS);
        failures = next_random(&random) % 3 ? failures + 1 : 1; /* after a good poll */
        now += lived;
        now += pace_reconnect_us(failures, now - begun, next_random(&random));
        assert_true(now - begun >= 250 * MS);
        begun = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_wall_share),
        cmocka_unit_test(test_burst),
        cmocka_unit_test(test_burst_looks_at_every_duty),
        cmocka_unit_test(test_one_slow_poll_is_no_cost),
        cmocka_unit_test(test_stretches_step_by_step),
        cmocka_unit_test(test_a_clock_that_was_set_costs_nothing),
        cmocka_unit_test(test_freshness),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_reconnect),
        cmocka_unit_test(test_reconnect_at_once),
        cmocka_unit_test(test_no_tight_loop),
    };
    return cmocka_run_group_tests(tests, own_memory_make, own_memory_free);
}
