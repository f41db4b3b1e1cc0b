/* SPDX-License-Identifier: PostgreSQL */
/* Deadlines and pauses of a candidate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "candidate/timing.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_the_sum_must_hold(void **state)
{
    static const struct {
        int64_t check, answer, kill, slack, holds;
        bool ok;
    } rows[] = {
        {1, 1, 3, 1, 8, true},  {1, 1, 3, 1, 7, true},    {1, 1, 3, 1, 6, false},
        {1, 1, 3, 1, 0, false}, {5, 5, 10, 1, 20, false}, {5, 5, 10, 1, 22, true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct error err = {0};
        const struct timing timing = {rows[i].check * SECOND_US, rows[i].answer * SECOND_US,
                                      rows[i].kill * SECOND_US, rows[i].slack * SECOND_US,
                                      rows[i].holds * SECOND_US};
        assert_int_equal(timing_check(&timing, &err), rows[i].ok);
        assert_int_equal(err.kind != ERROR_NONE, !rows[i].ok);
    }
}

/* Who sets it wrongly reads every part and the sum. */
static void test_the_refusal_names_the_sum(void **state)
{
    struct timing timing = timing_default();
    struct error err = {0};
    (void)state;
    timing.kill_after_us = 10 * SECOND_US;
    assert_false(timing_check(&timing, &err));
    assert_non_null(strstr(err.message, "kill after 10 s"));
    assert_non_null(strstr(err.message, "= 13 s"));
    assert_non_null(strstr(err.message, "8 s after which"));
}

/* Renewed at a third; aborted so late that the work can just be stopped before the expiry. */
static void test_a_lease(void **state)
{
    const struct timing lock = timing_default();
    const struct timing lease = timing_of_lease(&lock, 15 * SECOND_US);
    struct error err = {0};
    (void)state;
    assert_int_equal(lease.check_every_us, 5 * SECOND_US);
    assert_true(timing_check(&lease, &err));
    int64_t abort_at = timing_lease_abort_at_us(&lease, 100 * SECOND_US);
    assert_int_equal(abort_at + lease.kill_after_us + lease.slack_us, 115 * SECOND_US);
    assert_true(abort_at > timing_abort_at_us(&lease, 100 * SECOND_US));
    const struct timing brief = timing_of_lease(&lock, 7 * SECOND_US);
    assert_false(timing_check(&brief, &err));
}

static void test_what_the_server_holds(void **state)
{
    static const struct {
        int64_t user_timeout_ms, idle_s, interval_s, count, holds_us;
    } rows[] = {
        {8000, 2, 1, 6, 8 * SECOND_US},     {0, 2, 1, 6, 8 * SECOND_US},
        {0, 7200, 75, 9, 7875 * SECOND_US}, {0, 0, 0, 0, 0},
        {250, 0, 0, 0, 250 * 1000},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(timing_server_holds_us(rows[i].user_timeout_ms, rows[i].idle_s,
                                                rows[i].interval_s, rows[i].count),
                         rows[i].holds_us);
}

/* The work is aborted early enough to be killed, with slack, while the server still holds. */
static void test_abort_leaves_time_to_kill(void **state)
{
    const struct timing timing = timing_default();
    (void)state;
    int64_t killed = timing_abort_at_us(&timing, 0) + timing.kill_after_us + timing.slack_us;
    assert_true(killed < timing.server_holds_us);
    assert_int_equal(timing_stop_within_us(&timing), 5 * SECOND_US);
}

/* Tries of a whole duty in a second, by the mean pause of each follower: four, from 3 to 200
 * candidates. */
static void test_tries_do_not_grow_with_candidates(void **state)
{
    static const int32_t candidates[] = {2, 3, 10, 50, 200};
    enum { STEPS = 10000 };
    (void)state;
    for (size_t i = 0; i < COUNT(candidates); i++) {
        double sum = 0;
        for (uint32_t step = 0; step < STEPS; step++) {
            int64_t pause = timing_try_pause_us(candidates[i], UINT32_MAX / STEPS * step);
            assert_true(pause >= 0);
            sum += (double)pause;
        }
        double tries = (candidates[i] - 1) / (sum / STEPS / SECOND_US);
        assert_true(tries > 3.4 && tries < 3.6);
    }
}

static void test_bounds_of_pauses(void **state)
{
    (void)state;
    assert_int_equal(timing_wake_pause_us(200, UINT32_MAX), TIMING_HEARERS * SECOND_US / 500);
    assert_int_equal(timing_wake_pause_us(200, 0), 0);
    assert_int_equal(timing_reconnect_pause_us(0, UINT32_MAX), SECOND_US / 10);
    assert_int_equal(timing_reconnect_pause_us(1000, UINT32_MAX), 15 * SECOND_US);
    assert_int_equal(timing_reconnect_pause_us(1000, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sum_must_hold),
        cmocka_unit_test(test_the_refusal_names_the_sum),
        cmocka_unit_test(test_a_lease),
        cmocka_unit_test(test_what_the_server_holds),
        cmocka_unit_test(test_abort_leaves_time_to_kill),
        cmocka_unit_test(test_tries_do_not_grow_with_candidates),
        cmocka_unit_test(test_bounds_of_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
