/* SPDX-License-Identifier: PostgreSQL */
/* What is told of one duty, from its facts and its trail: state, progress, lease, owner's age. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/history.h"
#include "observe/judge.h"
#include "tests/support/own.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t now_us = INT64_C(1700000000) * SECOND_US;

static struct duty led_duty(void)
{
    struct duty duty;
    duty_init(&duty);
    duty.name = "jobs/x";
    duty.read = true;
    duty.read_lower_us = now_us - 1000;
    duty.read_upper_us = now_us;
    duty.owners = 1;
    duty.owner = (struct owner){
        .pid = 5, .backend_start_us = now_us - DAY_US, .acquired_us = TIME_UNKNOWN, .holder = "a"};
    duty.trail.acquired_lower_us = now_us - 70 * SECOND_US;
    duty.trail.acquired_upper_us = now_us - 60 * SECOND_US;
    duty.trail.acquisition_seen = true;
    return duty;
}

static void judge(struct duty *duty)
{
    const struct snapshot snapshot = {
        .arena = own_memory,
        .facts.postmaster_start_us = now_us - 2 * DAY_US,
        .read_lower_us = now_us - 1000,
        .read_upper_us = now_us,
    };
    judge_duty(&snapshot, duty);
}

/* Seconds; 0 is unknown. A duty that is stalled has not advanced, or not begun to, for long. */
static const struct {
    const char *words;
    enum duty_state expected;
    bool unread;
    int32_t owners;
    int64_t stall_after;
    bool run, partial;
    int64_t started_ago, advanced_ago;
    bool yielding, begun;
    int32_t strangers, rivals; /* before this poll */
    bool stranger;
} state_rows[] = {
    {"not read", DUTY_UNKNOWN, .unread = true, .owners = 1},
    {"not read, and a stranger before", DUTY_UNKNOWN, .unread = true, .owners = 1, .strangers = 1,
     .stranger = true},
    {"nobody leads", DUTY_VACANT, .owners = 0},
    {"led, no run", DUTY_LED, .owners = 1, .stall_after = 60},
    {"led, its run moves", DUTY_LED, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 900, .advanced_ago = 50},
    {"led, its run is at the limit", DUTY_LED, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 900, .advanced_ago = 60},
    {"led, its run stands", DUTY_STALLED, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 900, .advanced_ago = 61},
    {"led, its run never moved", DUTY_STALLED, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 61},
    {"led, its run has just begun", DUTY_LED, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 59},
    {"a run of no time at all", DUTY_LED, .owners = 1, .stall_after = 60, .run = true},
    {"a partial run waits for its successor", DUTY_LED, .owners = 1, .stall_after = 60, .run = true,
     .partial = true, .started_ago = 900, .advanced_ago = 900},
    {"no limit is declared", DUTY_LED, .owners = 1, .run = true, .started_ago = 900,
     .advanced_ago = 900},
    {"vacant is not stalled", DUTY_VACANT, .owners = 0, .stall_after = 60, .run = true,
     .started_ago = 900, .advanced_ago = 900},
    {"yielding", DUTY_YIELDING, .owners = 1, .yielding = true, .begun = true},
    {"the yield is of a term that is over", DUTY_LED, .owners = 1, .yielding = true},
    {"yielding comes before stalled", DUTY_YIELDING, .owners = 1, .stall_after = 60, .run = true,
     .started_ago = 900, .advanced_ago = 900, .yielding = true, .begun = true},
    {"a stranger for the first time", DUTY_LED, .owners = 1, .stranger = true},
    {"a stranger again", DUTY_CONTESTED, .owners = 1, .stranger = true, .strangers = 1},
    {"the stranger has gone", DUTY_LED, .owners = 1, .strangers = 5},
    {"the owner has begun the term", DUTY_LED, .owners = 1, .stranger = true, .begun = true,
     .strangers = 5},
    {"a stranger alone contests nothing", DUTY_VACANT, .owners = 0, .stranger = true,
     .strangers = 5},
    {"two owners for the first time", DUTY_LED, .owners = 2},
    {"two owners again", DUTY_CONTESTED, .owners = 2, .rivals = 1},
    {"one owner again", DUTY_LED, .owners = 1, .rivals = 5},
};

static void test_states(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(state_rows); i++) {
        struct duty duty = led_duty();
        duty.read = !state_rows[i].unread;
        duty.owners = state_rows[i].owners;
        duty.yielding = state_rows[i].yielding;
        duty.term_begun = state_rows[i].begun;
        duty.term_alive = state_rows[i].stranger;
        duty.trail.strangers = state_rows[i].strangers;
        duty.trail.rivals = state_rows[i].rivals;
        if (state_rows[i].stall_after)
            own_limits(own_memory, &duty)->stall_after_us = state_rows[i].stall_after * SECOND_US;
        struct run *run = own_run(own_memory, &duty.run);
        run->present = state_rows[i].run;
        run->key = "r";
        if (state_rows[i].partial)
            run->finished_us = now_us - SECOND_US;
        int64_t base = now_us - 1000;
        if (state_rows[i].started_ago)
            run->started_us = base - state_rows[i].started_ago * SECOND_US;
        if (state_rows[i].advanced_ago)
            run->advanced_us = base - state_rows[i].advanced_ago * SECOND_US;
        judge(&duty);
        if (duty.state != state_rows[i].expected)
            fail_msg("%s: %s", state_rows[i].words, duty_state_name(duty.state));
        bool contested = state_rows[i].expected == DUTY_CONTESTED;
        assert_int_equal(duty.mismatch, contested && state_rows[i].stranger);
    }
}

/* A cursor of the application's own has the time at which we saw it change. */
static void test_progress(void **state)
{
    static const struct {
        const char *before, *now;
        int64_t changed_ago, expected_ago; /* seconds; -1 unknown */
        const char *run_key;
    } rows[] = {
        {NULL, "5", -1, 0, NULL}, {"5", "5", 90, 90, NULL},     {"5", "6", 90, 0, NULL},
        {"5", NULL, 90, 0, NULL}, {NULL, NULL, 90, 90, NULL},   {NULL, NULL, -1, 0, NULL},
        {"6", "5", 90, 0, NULL},  {"5", "6", 90, -1, "ledger"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct duty duty = led_duty();
        duty.trail.cursor = rows[i].before;
        if (rows[i].changed_ago >= 0)
            duty.trail.cursor_changed_us = now_us - rows[i].changed_ago * SECOND_US;
        struct run *run = own_run(own_memory, &duty.run);
        run->present = true;
        run->key = rows[i].run_key;
        run->cursor = rows[i].now;
        judge(&duty);
        int64_t expected =
            rows[i].expected_ago < 0 ? TIME_UNKNOWN : now_us - rows[i].expected_ago * SECOND_US;
        assert_int_equal(duty.run->advanced_us, expected);
        if (!rows[i].run_key)
            assert_true(text_equal(duty.trail.cursor, rows[i].now));
    }
}

/* Where progress cannot be read for a while, nothing is forgotten. */
static void test_progress_unread(void **state)
{
    (void)state;
    struct duty duty = led_duty();
    duty.trail.cursor = "5";
    duty.trail.cursor_changed_us = now_us - MINUTE_US;
    judge(&duty);
    assert_string_equal(duty.trail.cursor, "5");
    assert_int_equal(duty.trail.cursor_changed_us, now_us - MINUTE_US);
    assert_int_equal(duty.run->advanced_us, TIME_UNKNOWN);
}

static struct snapshot *picture_of(int64_t at_us, const char *cursor)
{
    struct snapshot *snapshot = snapshot_new();
    snapshot->n_duties = 1;
    struct duty *duty = snapshot->duties = arena_array(snapshot->arena, 1, sizeof *duty);
    *duty = led_duty();
    duty->trail.acquired_lower_us = duty->trail.acquired_upper_us = TIME_UNKNOWN;
    duty->trail.acquisition_seen = false;
    duty->key_text = "1";
    snapshot->read_lower_us = snapshot->read_upper_us = at_us;
    duty->read_lower_us = duty->read_upper_us = at_us;
    struct run *run = own_run(snapshot->arena, &duty->run);
    run->present = true;
    run->cursor = arena_strdup(snapshot->arena, cursor);
    return snapshot;
}

/* From picture to picture: the cursor's time is carried on, and never lies in the future. */
static void test_progress_is_carried_on(void **state)
{
    static const struct {
        int64_t second;
        const char *cursor;
        int64_t expected;
    } rows[] = {{100, "5", 100}, {160, "5", 100}, {170, "6", 170},
                {200, "6", 170}, {50, "6", 50},   {60, "6", 50}};
    struct snapshot *last = NULL;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct snapshot *next = picture_of(now_us + rows[i].second * SECOND_US, rows[i].cursor);
        history_advance(last, next);
        snapshot_unref(last);
        last = next;
        assert_int_equal(next->duties[0].run->advanced_us, now_us + rows[i].expected * SECOND_US);
    }
    snapshot_unref(last);
}

static void test_lease(void **state)
{
    static const struct {
        enum mechanism mechanism;
        int32_t owners;
        int64_t expires_us, span_us, expected_us;
    } rows[] = {
        {MECHANISM_LEASE, 1, now_us + 7 * SECOND_US, -1, 7 * SECOND_US},
        {MECHANISM_LEASE, 1, now_us + 7 * SECOND_US, 10 * SECOND_US, 10 * SECOND_US},
        {MECHANISM_LEASE, 1, now_us + 12 * SECOND_US, 10 * SECOND_US, 12 * SECOND_US},
        {MECHANISM_LEASE, 1, INT64_MAX, 10 * SECOND_US, -1}, /* infinity */
        {MECHANISM_LEASE, 1, TIME_UNKNOWN, 10 * SECOND_US, -1},
        {MECHANISM_LEASE, 0, now_us - SECOND_US, 10 * SECOND_US, -1},
        {MECHANISM_LOCK, 1, now_us + 7 * SECOND_US, -1, -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct duty duty = led_duty();
        duty.mechanism = rows[i].mechanism;
        duty.owners = rows[i].owners;
        duty.lease_expires_us = rows[i].expires_us;
        duty.trail.lease_span_us = rows[i].span_us;
        judge(&duty);
        assert_int_equal(duty.lease_duration_us, rows[i].expected_us);
    }
}

/* Acquisitions, as seconds ago; the trail says between 70 and 60. */
static void test_age(void **state)
{
    static const struct {
        const char *words, *source;
        int64_t acquired, age, uncertainty; /* expected */
        int64_t lease, term;
        bool begun, first, open_lower;
    } rows[] = {
        {"seen", "seen", 60, 60, 10, .begun = false},
        {"first seen held", "first seen held", -1, 60, 10, .first = true},
        {"first seen held, no privilege", "first seen held", -1, 60, -1, .first = true,
         .open_lower = true},
        {"recorded", "ledger", 65, 65, 0, .term = 65, .begun = true},
        {"recorded, at the bounds", "ledger", 70, 70, 0, .term = 70, .begun = true},
        {"recorded, at the other", "ledger", 60, 60, 0, .term = 60, .begun = true},
        {"recorded, first seen held", "ledger", 65, 65, 0, .term = 65, .begun = true,
         .first = true},
        {"recorded, no privilege", "ledger", 9000, 9000, 0, .term = 9000, .begun = true,
         .first = true, .open_lower = true},
        {"a term of another session", "seen", 60, 60, 10, .term = 65},
        {"a term begun late", "seen", 60, 60, 10, .term = 59, .begun = true},
        {"a term of an earlier tenure", "seen", 60, 60, 10, .term = 71, .begun = true},
        {"a term of no time", "seen", 60, 60, 10, .begun = true},
        {"a lease's row", "lease", 65, 65, 0, .lease = 65},
        {"a lease's row against its term", "ledger", 65, 65, 0, .lease = 65, .term = 66,
         .begun = true},
        {"a lease's row of another tenure", "seen", 60, 60, 10, .lease = 71},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct duty duty = led_duty();
        duty.term_begun = rows[i].begun;
        if (rows[i].lease) {
            duty.mechanism = MECHANISM_LEASE;
            duty.owner.acquired_us = now_us - rows[i].lease * SECOND_US;
        }
        if (rows[i].term)
            own_term(own_memory, &duty.term)->acquired_us = now_us - rows[i].term * SECOND_US;
        duty.trail.acquisition_seen = !rows[i].first;
        if (rows[i].open_lower)
            duty.trail.acquired_lower_us = TIME_UNKNOWN;
        judge(&duty);
        if (!text_equal(duty.acquired_source, rows[i].source))
            fail_msg("%s: %s", rows[i].words, duty.acquired_source);
        int64_t acquired =
            rows[i].acquired < 0 ? TIME_UNKNOWN : now_us - rows[i].acquired * SECOND_US;
        assert_int_equal(duty.acquired_us, acquired);
        assert_int_equal(duty.age_us, rows[i].age * SECOND_US);
        assert_int_equal(duty.age_uncertainty_us,
                         rows[i].uncertainty < 0 ? -1 : rows[i].uncertainty * SECOND_US);
    }
}

/* -infinity, which a lease's row may say, is no time. */
static void test_infinite_acquisition(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct duty duty = led_duty();
        duty.mechanism = MECHANISM_LEASE;
        duty.owner.acquired_us = i ? INT64_MAX : TIME_UNKNOWN + 1;
        duty.trail.acquired_lower_us = TIME_UNKNOWN;
        duty.trail.acquisition_seen = false;
        judge(&duty);
        assert_string_equal(duty.acquired_source, "first seen held");
        assert_int_equal(duty.age_us, MINUTE_US);
    }
}

/* From the ledger alone: when, at least nothing, and at most since the end before. */
static void test_recorded_takeover(void **state)
{
    struct duty duty = led_duty();
    (void)state;
    duty.term_begun = true;
    struct term *term = own_term(own_memory, &duty.term);
    term->instance = "b";
    term->acquired_us = now_us - 65 * SECOND_US;
    struct term *previous = own_term(own_memory, &duty.previous);
    previous->instance = "a";
    previous->generation = 7;
    previous->ended_us = now_us - 66 * SECOND_US;
    previous->end_reason = "shutdown";
    judge(&duty);
    assert_int_equal(duty.trail.past->takeover_at_us, now_us - 65 * SECOND_US);
    assert_int_equal(duty.trail.past->takeover_lower_us, 0);
    assert_int_equal(duty.trail.past->takeover_upper_us, SECOND_US);
    /* said once, it stays */
    previous->ended_us = now_us - 69 * SECOND_US;
    judge(&duty);
    assert_int_equal(duty.trail.past->takeover_upper_us, SECOND_US);
}

/* Nothing is told of an owner that there is not, or whom nobody could read. */
static void test_no_owner(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct duty duty = led_duty();
        duty.owners = i;
        duty.read = i == 0;
        judge(&duty);
        assert_null(duty.acquired_source);
        assert_int_equal(duty.age_us, -1);
        assert_int_equal(duty.age_uncertainty_us, -1);
        assert_int_equal(duty.acquired_us, TIME_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_progress_unread),
        cmocka_unit_test(test_progress_is_carried_on),
        cmocka_unit_test(test_lease),
        cmocka_unit_test(test_age),
        cmocka_unit_test(test_infinite_acquisition),
        cmocka_unit_test(test_recorded_takeover),
        cmocka_unit_test(test_no_owner),
    };
    return cmocka_run_group_tests(tests, own_memory_make, own_memory_free);
}
