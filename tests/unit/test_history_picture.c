/* SPDX-License-Identifier: PostgreSQL */
/* What a whole picture takes over from the one before: each duty its own trail, events, counters,
 * the histogram; and what it does not. */
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

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t origin_us = INT64_C(1700000000) * SECOND_US;

/* "name owner": a lock duty; without an owner it is vacant, with "?" it was not read. The owner's
 * pid is its first letter. */
static void write_duty(struct duty *duty, const char *words, int64_t at_us, struct arena *arena)
{
    const char *space = strchr(words, ' ');
    const char *owner = space ? space + 1 : "";
    size_t size = space ? (size_t)(space - words) : strlen(words);
    duty_init(duty);
    duty->name = arena_strndup(arena, words, size);
    duty->key = lock_key_from_int8(42);
    duty->key_text = "42";
    duty->source = strncmp(words, "advisory/", 9) == 0 ? SOURCE_DISCOVERY : SOURCE_CONFIG;
    duty->read = strcmp(owner, "?") != 0;
    if (!duty->read)
        return;
    duty->read_lower_us = duty->read_upper_us = at_us;
    duty->owners = *owner != '\0';
    duty->owner = (struct owner){.pid = *owner,
                                 .backend_start_us = origin_us,
                                 .acquired_us = TIME_UNKNOWN,
                                 .holder = arena_strdup(arena, owner),
                                 .application_name = arena_strdup(arena, owner),
                                 .usename = arena_strdup(arena, "role"),
                                 .client_addr = arena_strdup(arena, "10.0.0.1")};
}

/* The next picture, of that second. Frees the one before. */
static struct snapshot *next_picture(struct snapshot *last, int64_t second,
                                     const char *const *duties, size_t n)
{
    struct snapshot *next = snapshot_new();
    int64_t at_us = origin_us + second * SECOND_US;
    next->read_lower_us = next->read_upper_us = at_us;
    next->facts.postmaster_start_us = origin_us;
    next->n_duties = n;
    next->duties = arena_array(next->arena, n, sizeof *next->duties);
    for (size_t i = 0; i < n; i++)
        write_duty(&next->duties[i], duties[i], at_us, next->arena);
    history_advance(last, next);
    snapshot_unref(last);
    return next;
}

#define NEXT(last, second, ...)                                                                    \
    next_picture((last), (second), (const char *const[]){__VA_ARGS__},                             \
                 COUNT(((const char *const[]){__VA_ARGS__})))

/* Duties come and go around those that stay. */
static void test_each_duty_has_its_own_trail(void **state)
{
    (void)state;
    struct snapshot *last = NEXT(NULL, 1, "b x", "d y", "f z");
    last = NEXT(last, 2, "a n", "b", "c n", "d y", "e", "f w", "g");
    static const struct {
        uint64_t lost, taken;
        bool held, ever_owned;
    } expected[] = {{0, 0, true, true},  {1, 0, false, true},  {0, 0, true, true},
                    {0, 0, true, true},  {0, 0, false, false}, {0, 1, true, true},
                    {0, 0, false, false}};
    for (size_t i = 0; i < COUNT(expected); i++) {
        const struct trail *trail = &last->duties[i].trail;
        assert_int_equal(trail->past->transitions[RULE_LOST], expected[i].lost);
        assert_int_equal(trail->past->transitions[RULE_TAKEOVER], expected[i].taken);
        assert_int_equal(trail->held, expected[i].held);
        assert_int_equal(trail->ever_owned, expected[i].ever_owned);
    }
    last = NEXT(last, 3, "d q", "g r");
    assert_int_equal(last->duties[0].trail.past->transitions[RULE_TAKEOVER], 1);
    assert_int_equal(last->duties[1].trail.past->transitions[RULE_ACQUIRED], 1);
    last = NEXT(last, 4, "0");
    assert_int_equal(last->n_events, 0);
    snapshot_unref(last);
}

/* One event a change, with the owner that it is about and the bounds of when. */
static void test_events(void **state)
{
    static const struct {
        int64_t second;
        const char *duty;
        int rule; /* -1: none */
        const char *holder;
        int64_t lower, upper; /* seconds; of a takeover its latency */
    } steps[] = {
        {1, "j", -1, NULL, 0, 0},
        {2, "j ?", RULE_UNKNOWN, NULL, 1, 2},
        {3, "j", -1, NULL, 0, 0},
        {4, "j anna", RULE_ACQUIRED, "anna", 3, 4},
        {5, "j anna", -1, NULL, 0, 0},
        {6, "j", RULE_LOST, "anna", 5, 6},
        {7, "j", -1, NULL, 0, 0},
        {9, "j bert", RULE_TAKEOVER, "bert", 1, 4},
        {10, "j ?", RULE_UNKNOWN, "bert", 9, 10},
        {11, "j ?", -1, NULL, 0, 0},
        {12, "j cleo", RULE_TAKEOVER, "cleo", 0, 3},
        {13, "j", RULE_LOST, "cleo", 12, 13},
        {15, "j cleo", RULE_RETURNED, "cleo", 13, 15},
    };
    struct snapshot *last = NULL;
    (void)state;
    for (size_t i = 0; i < COUNT(steps); i++) {
        last = NEXT(last, steps[i].second, steps[i].duty);
        assert_int_equal(last->n_events, steps[i].rule >= 0);
        if (steps[i].rule < 0)
            continue;
        const struct event *event = &last->events[0];
        int64_t base = steps[i].rule == RULE_TAKEOVER ? 0 : origin_us;
        assert_string_equal(event->duty, "j");
        assert_int_equal(event->rule, steps[i].rule);
        assert_true(text_equal(event->holder, steps[i].holder));
        assert_int_equal(event->pid, steps[i].holder ? *steps[i].holder : 0);
        assert_int_equal(event->lower_us, base + steps[i].lower * SECOND_US);
        assert_int_equal(event->upper_us, base + steps[i].upper * SECOND_US);
    }
    static const uint64_t expected[RULE_COUNT] = {1, 2, 2, 1, 0, 2};
    assert_memory_equal(last->duties[0].trail.past->transitions, expected, sizeof expected);
    snapshot_unref(last);
}

/* The owner before a vacancy is remembered when its picture is long gone. */
static void test_the_last_owner_is_remembered(void **state)
{
    (void)state;
    struct snapshot *last = NEXT(NULL, 1, "j anna");
    for (int64_t second = 2; second < 5; second++)
        last = NEXT(last, second, "j");
    const struct owner *owner = last->duties[0].trail.last;
    assert_string_equal(owner->holder, "anna");
    assert_string_equal(owner->application_name, "anna");
    assert_string_equal(owner->usename, "role");
    assert_string_equal(owner->client_addr, "10.0.0.1");
    snapshot_unref(last);
}

/* Upper bounds of takeovers, of all duties of the server, from picture to picture; also of duties
 * that are gone. */
static void test_histogram(void **state)
{
    (void)state;
    struct snapshot *last = NEXT(NULL, 10, "j a", "k a", "l a");
    last = NEXT(last, 11, "j b", "k b", "l b");
    last = NEXT(last, 41, "j c");
    last = NEXT(last, 41 + 300, "j d");
    last = NEXT(last, 41 + 300 + 301, "j e");
    last = NEXT(last, 700, "j");
    static const uint64_t expected[TAKEOVER_BUCKETS] = {[6] = 3, [9] = 1, [11] = 1, [12] = 1};
    assert_memory_equal(last->takeovers, expected, sizeof expected);
    assert_int_equal(last->takeover_sum_us, (3 * 1 + 30 + 300 + 301) * SECOND_US);
    snapshot_unref(last);
}

/* The histogram is of named duties; what is discovered has its own counters. */
static void test_histogram_of_named_duties(void **state)
{
    (void)state;
    struct snapshot *last = NEXT(NULL, 10, "advisory/7 a", "j a");
    last = NEXT(last, 11, "advisory/7 b", "j b");
    assert_int_equal(last->takeovers[6], 1);
    assert_int_equal(last->takeover_sum_us, SECOND_US);
    assert_int_equal(last->duties[0].trail.past->transitions[RULE_TAKEOVER], 1);
    assert_int_equal(last->n_events, 2);
    snapshot_unref(last);
}

/* Of a takeover whose loss another clock saw, nobody knows the upper bound. */
static void test_histogram_without_upper_bound(void **state)
{
    (void)state;
    struct snapshot *last = NEXT(NULL, 600, "j a");
    last = NEXT(last, 5, "j b");
    static const uint64_t expected[TAKEOVER_BUCKETS] = {0};
    assert_int_equal(last->events[0].rule, RULE_TAKEOVER);
    assert_int_equal(last->events[0].upper_us, -1);
    assert_memory_equal(last->takeovers, expected, sizeof expected);
    assert_int_equal(last->takeover_sum_us, 0);
    snapshot_unref(last);
}

/* A name that changes under one lock means a pooler, for as long as that session holds it. */
static void test_pooled(void **state)
{
    static const struct {
        const char *duty;
        bool pooled;
    } steps[] = {
        {"j anna", false}, {"j anna", false}, {"j atze", true}, {"j anna", true},  {"j anna", true},
        {"j bert", false}, {"j bea", true},   {"j", true},      {"j cleo", false},
    };
    struct snapshot *last = NULL;
    (void)state;
    for (size_t i = 0; i < COUNT(steps); i++) {
        last = NEXT(last, 1 + (int64_t)i, steps[i].duty);
        assert_int_equal(last->duties[0].trail.pooled, steps[i].pooled);
    }
    snapshot_unref(last);
}

/* Turns the only duty of a picture into a lease; the owner's acquisition is -1 where none is. */
static struct snapshot *next_lease(struct snapshot *last, int64_t second, const char *holder,
                                   int64_t expires)
{
    struct snapshot *next = snapshot_new();
    struct duty *duty = next->duties = arena_array(next->arena, 1, sizeof *duty);
    int64_t at_us = origin_us + second * SECOND_US;
    next->n_duties = 1;
    next->read_lower_us = next->read_upper_us = at_us;
    next->facts.postmaster_start_us = origin_us;
    write_duty(duty, "j", at_us, next->arena);
    duty->mechanism = MECHANISM_LEASE;
    duty->owners = 1;
    duty->owner.holder = arena_strdup(next->arena, holder);
    duty->lease_expires_us = origin_us + expires * SECOND_US;
    history_advance(last, next);
    snapshot_unref(last);
    return next;
}

/* The longest remaining time is of one holder. */
static void test_lease_duration_is_of_the_holder(void **state)
{
    (void)state;
    struct snapshot *last = next_lease(NULL, 1, "a", 31);
    last = next_lease(last, 20, "a", 31);
    assert_int_equal(last->duties[0].lease_duration_us, 30 * SECOND_US);
    last = next_lease(last, 21, "b", 31);
    assert_int_equal(last->duties[0].lease_duration_us, 10 * SECOND_US);
    assert_false(last->duties[0].trail.pooled);
    snapshot_unref(last);
}

static void test_another_mechanism_is_another_duty(void **state)
{
    (void)state;
    struct snapshot *last = next_lease(NULL, 1, "a", 31);
    last = NEXT(last, 2, "j");
    assert_int_equal(last->n_events, 0);
    last = next_lease(last, 3, "a", 31);
    assert_int_equal(last->n_events, 0);
    assert_int_equal(last->duties[0].trail.past->transitions[RULE_ACQUIRED], 0);
    snapshot_unref(last);
}

/* Another cluster or database has other locks of the same keys; what was not read is no sign. */
static void test_another_place(void **state)
{
    static const struct {
        const char *words, *cluster[2], *database[2];
        bool same;
    } rows[] = {
        {"the same", {"1", "1"}, {"app", "app"}, true},
        {"nothing known", {NULL, NULL}, {NULL, NULL}, true},
        {"not read at first", {NULL, "1"}, {"", "app"}, true},
        {"not read any more", {"1", NULL}, {"app", ""}, true},
        {"another cluster", {"1", "2"}, {"app", "app"}, false},
        {"another cluster, database not read", {"1", "2"}, {"app", NULL}, false},
        {"another database", {"1", "1"}, {"app", "other"}, false},
        {"another database, cluster not read", {NULL, NULL}, {"app", "other"}, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct snapshot *last = NEXT(NULL, 1, "j a");
        last->facts.system_identifier = rows[i].cluster[0];
        last->facts.database = rows[i].database[0];
        last->takeovers[3] = 7;
        struct snapshot *next = snapshot_new();
        next->n_duties = 1;
        next->duties = arena_array(next->arena, 1, sizeof *next->duties);
        next->facts = (struct server_facts){.system_identifier = rows[i].cluster[1],
                                            .database = rows[i].database[1],
                                            .postmaster_start_us = origin_us};
        write_duty(next->duties, "j b", origin_us + 2 * SECOND_US, next->arena);
        history_advance(last, next);
        if (next->n_events != rows[i].same)
            fail_msg("%s", rows[i].words);
        assert_int_equal(next->takeovers[3], 7); /* a counter of the server's name goes on */
        snapshot_unref(next);
        snapshot_unref(last);
    }
}

static void test_no_duties(void **state)
{
    (void)state;
    struct snapshot *last = next_picture(NULL, 1, NULL, 0);
    last = NEXT(last, 2, "j a");
    last = next_picture(last, 3, NULL, 0);
    assert_int_equal(last->n_events, 0);
    snapshot_unref(last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_duty_has_its_own_trail),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_the_last_owner_is_remembered),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_histogram_of_named_duties),
        cmocka_unit_test(test_histogram_without_upper_bound),
        cmocka_unit_test(test_pooled),
        cmocka_unit_test(test_lease_duration_is_of_the_holder),
        cmocka_unit_test(test_another_mechanism_is_another_duty),
        cmocka_unit_test(test_another_place),
        cmocka_unit_test(test_no_duties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
