/* SPDX-License-Identifier: PostgreSQL */
/* Locks that nobody named: which of them become duties, and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/scene.h"

static void test_a_lock_is_discovered_after_a_while(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held held[] = {held_by(7, 1),
                                {lock_key_from_pair(12, -7), 2, .shared = true},
                                {lock_key_from_int8(8), 3, .waits = true}};
    (void)state;
    assert_string_equal(names_in(look_at(&scene, 0, held, 3)), "");
    assert_int_equal(scene.last->unregistered_locks, 2);
    assert_string_equal(names_in(look_at(&scene, 59, held, 3)), "");
    const struct snapshot *picture = look_at(&scene, 60, held, 3);
    assert_string_equal(names_in(picture), "advisory/12,-7 advisory/7");
    assert_string_equal(picture->duties[0].key_text, "12,-7");
    assert_int_equal(picture->duties[0].source, SOURCE_DISCOVERY);
    assert_int_equal(picture->unregistered_locks, 2);
    snapshot_unref(scene.last);
}

/* One session that holds it, not one after the other. */
static void test_a_lock_that_goes_from_hand_to_hand_is_not_discovered(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    (void)state;
    for (int i = 0; i < 20; i++) {
        const struct held held[] = {held_by(7, 1 + i / 2)};
        assert_string_equal(names_in(look_at(&scene, 30L * i, held, 1)), "");
        assert_int_equal(scene.last->unregistered_locks, 1);
    }
    snapshot_unref(scene.last);
}

static void test_a_poll_without_the_lock_begins_anew(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held held[] = {held_by(7, 1)};
    (void)state;
    (void)look_at(&scene, 0, held, 1);
    (void)look_at(&scene, 50, held, 0);
    (void)look_at(&scene, 55, held, 1);
    assert_string_equal(names_in(look_at(&scene, 100, held, 1)), "");
    assert_string_equal(names_in(look_at(&scene, 115, held, 1)), "advisory/7");
    snapshot_unref(scene.last);
}

/* Several sessions share a lock: the one that has it longest counts. */
static void test_a_shared_lock_is_one_duty(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held held[] = {{lock_key_from_int8(7), 1, .shared = true},
                                {lock_key_from_int8(7), 2, .shared = true},
                                {lock_key_from_int8(7), 3, .shared = true}};
    (void)state;
    (void)look_at(&scene, 0, held + 2, 1);
    (void)look_at(&scene, 30, held, 3);
    assert_string_equal(names_in(look_at(&scene, 60, held, 3)), "advisory/7");
    assert_int_equal(scene.last->unregistered_locks, 1);
    (void)look_at(&scene, 100, held, 3);
    /* released, it stays for a while like any other */
    assert_string_equal(names_in(look_at(&scene, 100 + 899, held, 0)), "advisory/7");
    assert_string_equal(names_in(look_at(&scene, 100 + 900, held, 0)), "");
    snapshot_unref(scene.last);
}

static void test_after_nothing_at_once(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {held_by(7, 1)};
    (void)state;
    assert_string_equal(names_in(look_at(&scene, 0, held, 1)), "advisory/7");
    snapshot_unref(scene.last);
}

static void test_discovery_can_be_off(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {held_by(7, 1)};
    (void)state;
    (void)look_at(&scene, 0, held, 1);
    scene.config.discovery_enabled = false;
    assert_string_equal(names_in(look_at(&scene, 1, held, 1)), "");
    assert_int_equal(scene.last->unregistered_locks, 1);
    snapshot_unref(scene.last);
}

static void test_a_released_lock_stays_vacant_for_a_while(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {held_by(7, 1)};
    (void)state;
    (void)look_at(&scene, 0, held, 1);
    (void)look_at(&scene, 100, held, 1);
    for (int64_t second = 101; second < 100 + 900; second += 100) {
        const struct snapshot *picture = look_at(&scene, second, NULL, 0);
        assert_string_equal(names_in(picture), "advisory/7");
        assert_int_equal(picture->duties[0].state, DUTY_VACANT);
        assert_int_equal(picture->duties[0].trail.past->transitions[RULE_LOST], 1);
    }
    assert_string_equal(names_in(look_at(&scene, 100 + 899, NULL, 0)), "advisory/7");
    assert_string_equal(names_in(look_at(&scene, 100 + 900, NULL, 0)), "");
    snapshot_unref(scene.last);
}

/* A member that is held again keeps its place, and its history, without the wait. */
static void test_a_member_is_held_again(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held first[] = {held_by(7, 1)}, second[] = {held_by(7, 2)};
    (void)state;
    (void)look_at(&scene, 0, first, 1);
    (void)look_at(&scene, 60, first, 1);
    (void)look_at(&scene, 100, NULL, 0);
    const struct snapshot *picture = look_at(&scene, 101, second, 1);
    assert_string_equal(names_in(picture), "advisory/7");
    assert_int_equal(picture->duties[0].trail.past->transitions[RULE_LOST], 1);
    assert_int_equal(picture->duties[0].trail.past->transitions[RULE_RETURNED], 1);
    /* held when its time is over: it was seen a moment ago */
    (void)look_at(&scene, 3000, second, 1);
    assert_string_equal(names_in(look_at(&scene, 3100, NULL, 0)), "advisory/7");
    snapshot_unref(scene.last);
}

/* Held for as long as nobody looked: a member all the same. */
static void test_a_member_that_is_held_stays_after_a_long_gap(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held held[] = {held_by(7, 1)};
    (void)state;
    (void)look_at(&scene, 0, held, 1);
    (void)look_at(&scene, 60, held, 1);
    assert_string_equal(names_in(look_at(&scene, 9000, held, 1)), "advisory/7");
    snapshot_unref(scene.last);
}

static void test_a_full_set_keeps_its_members(void **state)
{
    struct scene scene = scene_of(0, 2);
    const struct held held[] = {held_by(5, 1), held_by(6, 2), held_by(1, 3), held_by(2, 4)};
    (void)state;
    assert_string_equal(names_in(look_at(&scene, 0, held, 2)), "advisory/5 advisory/6");
    assert_string_equal(names_in(look_at(&scene, 1, held, 4)), "advisory/5 advisory/6");
    assert_int_equal(scene.last->unregistered_locks, 4);
    /* 5 is released: its place is free when it goes */
    assert_string_equal(names_in(look_at(&scene, 2, held + 1, 3)), "advisory/5 advisory/6");
    assert_string_equal(names_in(look_at(&scene, 901, held + 1, 3)), "advisory/1 advisory/6");
    snapshot_unref(scene.last);
}

static void test_a_smaller_limit_drops_members(void **state)
{
    struct scene scene = scene_of(0, 3);
    const struct held held[] = {held_by(5, 1), held_by(6, 2), held_by(7, 3)};
    (void)state;
    (void)look_at(&scene, 0, held, 3);
    scene.config.discovery_limit = 1;
    assert_string_equal(names_in(look_at(&scene, 1, held, 3)), "advisory/5");
    snapshot_unref(scene.last);
}

static void test_one_key_may_be_sought_alone(void **state)
{
    struct scene scene = scene_of(0, 1);
    const struct held held[] = {held_by(5, 1), held_by(6, 2), held_by(7, 3)};
    (void)state;
    scene.config.discovery_key = lock_key_from_pair(0, 6);
    assert_string_equal(names_in(look_at(&scene, 0, held, 3)), "");
    scene.config.discovery_key = lock_key_from_int8(6);
    assert_string_equal(names_in(look_at(&scene, 1, held, 3)), "advisory/6");
    assert_int_equal(scene.last->unregistered_locks, 3);
    snapshot_unref(scene.last);
}

/* Thousands of short random locks: not one series comes or goes. */
static void test_short_random_locks_are_no_churn(void **state)
{
    enum { LOCKS = 200 };
    struct scene scene = scene_of(60 * SECOND_US, 50);
    uint64_t random = 88172645463325252u;
    (void)state;
    for (int i = 0; i < 300; i++) {
        struct held held[LOCKS + 1] = {held_by(7, 9999)};
        for (int j = 1; j <= LOCKS; j++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            held[j] = held_by((int64_t)(random >> 40), 1 + (int32_t)(random >> 58));
        }
        const struct snapshot *picture = look_at(&scene, i, held, LOCKS + 1);
        assert_string_equal(names_in(picture), i < 60 ? "" : "advisory/7");
        assert_int_equal(picture->n_watched, LOCKS + 1);
    }
    snapshot_unref(scene.last);
}

/* A lock that gets a name is not shown twice, and the ledger's own locks are never shown. */
static void test_named_locks_are_not_discovered(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {
        held_by(7, 1),
        {lock_key_from_pair(LOCK_LEDGER_CLASSID, 1), 2, .waits = false},
        {lock_key_from_pair(LOCK_LEDGER_CLASSID, -1), 2, .waits = false},
        {lock_key_from_int8((int64_t)LOCK_LEDGER_CLASSID << 32), 3, .waits = false}};
    struct config_duty named = lock_duty("jobs/x", 7);
    (void)state;
    assert_string_equal(names_in(look_at(&scene, 0, held, 4)),
                        "advisory/7 advisory/8099561631601655808");
    assert_int_equal(scene.last->unregistered_locks, 2);
    name_duties(&scene, &named, 1, NULL, 0);
    assert_string_equal(names_in(look_at(&scene, 1, held, 3)),
                        "advisory/8099561631601655808 jobs/x");
    assert_int_equal(scene.last->unregistered_locks, 0);
    snapshot_unref(scene.last);
}

/* Whatever the order of names and keys, and beside leases; a key that is reserved is named too. */
static void test_many_names(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {held_by(1, 1), held_by(2, 2), held_by(3, 3), held_by(-4, 4),
                                held_by(5, 5), held_by(0, 6), held_by(99, 7)};
    struct config_duty named[] = {lock_duty("a/a", 5), lock_duty("b/b", 1),
                                  lock_duty("c/c", 3), lock_duty("d/d", -4),
                                  lock_duty("e/e", 2), lease_duty("f/f", "public.l", "r")};
    (void)state;
    named[2].next_key = lock_key_from_int8(99);
    name_duties(&scene, named, 3, named + 3, 3);
    assert_string_equal(names_in(look_at(&scene, 0, held, 7)),
                        "a/a advisory/0 b/b c/c d/d e/e f/f");
    assert_int_equal(scene.last->unregistered_locks, 1);
    snapshot_unref(scene.last);
}

/* Sessions that share a lock are watched each by itself, in whatever order they come. */
static void test_watched_by_session(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    struct lock_key key = lock_key_from_int8(7);
    const struct held held[] = {{key, 30, .shared = true},
                                {key, 10, .shared = true},
                                {key, 20, .shared = true},
                                {key, 50, .shared = true},
                                {key, 40, .shared = true}};
    (void)state;
    for (size_t n = 1; n <= 5; n++)
        (void)look_at(&scene, 10 * (int64_t)n, held, n);
    for (size_t i = 0; i < 5; i++) {
        static const int64_t since[] = {20, 30, 10, 50, 40}; /* by pid */
        assert_int_equal(scene.last->watched[i].pid, 10 + 10 * (int)i);
        assert_int_equal(scene.last->watched[i].since_us,
                         INT64_C(1700000000) * SECOND_US + since[i] * SECOND_US);
    }
    snapshot_unref(scene.last);
}

/* A duty may have the name that discovery would give to another lock. */
static void test_a_name_is_given_once(void **state)
{
    struct scene scene = scene_of(0, 50);
    const struct held held[] = {held_by(7, 1), held_by(8, 2)};
    struct config_duty named = lock_duty("advisory/7", 1);
    (void)state;
    name_duties(&scene, NULL, 0, &named, 1);
    const struct snapshot *picture = look_at(&scene, 0, held, 2);
    assert_string_equal(names_in(picture), "advisory/7 advisory/8");
    assert_int_equal(picture->duties[0].source, SOURCE_CONFIG);
    assert_int_equal(picture->unregistered_locks, 2);
    snapshot_unref(scene.last);
}

/* A clock that was set back by a year neither hides a lock for a year nor keeps one for it. */
static void test_a_clock_that_was_set_back(void **state)
{
    struct scene scene = scene_of(60 * SECOND_US, 50);
    const struct held held[] = {held_by(7, 1), held_by(8, 2)};
    int64_t year = 365 * 86400L;
    (void)state;
    (void)look_at(&scene, year, held, 1);
    (void)look_at(&scene, year + 60, held, 2);
    assert_string_equal(names_in(scene.last), "advisory/7");
    (void)look_at(&scene, 0, held + 1, 1);
    (void)look_at(&scene, 60, held + 1, 1);
    assert_string_equal(names_in(scene.last), "advisory/7 advisory/8");
    (void)look_at(&scene, 900, held + 1, 1);
    assert_string_equal(names_in(scene.last), "advisory/8");
    snapshot_unref(scene.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lock_is_discovered_after_a_while),
        cmocka_unit_test(test_a_lock_that_goes_from_hand_to_hand_is_not_discovered),
        cmocka_unit_test(test_a_poll_without_the_lock_begins_anew),
        cmocka_unit_test(test_a_shared_lock_is_one_duty),
        cmocka_unit_test(test_after_nothing_at_once),
        cmocka_unit_test(test_discovery_can_be_off),
        cmocka_unit_test(test_a_released_lock_stays_vacant_for_a_while),
        cmocka_unit_test(test_a_member_is_held_again),
        cmocka_unit_test(test_a_member_that_is_held_stays_after_a_long_gap),
        cmocka_unit_test(test_a_full_set_keeps_its_members),
        cmocka_unit_test(test_a_smaller_limit_drops_members),
        cmocka_unit_test(test_short_random_locks_are_no_churn),
        cmocka_unit_test(test_named_locks_are_not_discovered),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_watched_by_session),
        cmocka_unit_test(test_one_key_may_be_sought_alone),
        cmocka_unit_test(test_a_name_is_given_once),
        cmocka_unit_test(test_a_clock_that_was_set_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
