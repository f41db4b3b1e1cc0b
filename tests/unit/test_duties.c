/* SPDX-License-Identifier: PostgreSQL */
/* Which duties a picture lists: whose word counts, what fills gaps, and what discovery adds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"
#include "observe/duties.h"
#include "observe/history.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t origin_us = INT64_C(1700000000) * SECOND_US;
enum { OURS = 5 };

static const struct thresholds nothing_declared = {-1, -1, -1, -1, -1, TIME_UNKNOWN};

static struct config_duty lock_duty(const char *name, int64_t key)
{
    return (struct config_duty){
        .name = name, .key = lock_key_from_int8(key), .limits = nothing_declared};
}

static struct config_duty lease_duty(const char *name, const char *table, const char *row)
{
    return (struct config_duty){.name = name,
                                .mechanism = MECHANISM_LEASE,
                                .lease = {.table = table, .row = row},
                                .limits = nothing_declared};
}

/* A server that is polled by hand. */
struct scene {
    struct config config;
    struct config_server server;
    struct definitions definitions;
    struct snapshot *last;
};

/* A lock that one session holds, or waits for. */
struct held {
    struct lock_key key;
    int32_t pid;
    bool waits, shared;
};

static struct scene scene_of(int64_t after_us, int limit)
{
    return (struct scene){.config = {.discovery_enabled = true,
                                     .discovery_after_us = after_us,
                                     .discovery_limit = limit}};
}

static void name_duties(struct scene *scene, const struct config_duty *registry, size_t n_registry,
                        const struct config_duty *config, size_t n_config)
{
    scene->definitions.registry = registry;
    scene->definitions.n_registry = n_registry;
    scene->server.duties = config;
    scene->server.n_duties = n_config;
}

static void fill(struct duty *duty, const struct sessions *sessions, int64_t at_us)
{
    size_t n = 0;
    const struct lock_row *const *rows = sessions_of_key(sessions, duty->key, &n);
    duty->read = true;
    duty->read_lower_us = duty->read_upper_us = at_us;
    for (size_t i = 0; i < n; i++) {
        duty->owners += rows[i]->granted && rows[i]->exclusive;
        duty->shared_owners += rows[i]->granted && !rows[i]->exclusive;
    }
    duty->owner = (struct owner){.pid = n ? rows[0]->pid : 0, .holder = "w"};
}

/* A poll: these locks are held at that second. The picture stays scene->last. */
static const struct snapshot *look(struct scene *scene, int64_t at_us, const struct held *held,
                                   size_t n)
{
    struct snapshot *next = snapshot_new();
    struct lock_row *rows = arena_array(next->arena, n, sizeof *rows);
    struct sessions sessions;
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct lock_row){.classid = held[i].key.classid,
                                    .objid = held[i].key.objid,
                                    .objsubid = held[i].key.objsubid,
                                    .lock_database = OURS,
                                    .exclusive = !held[i].shared,
                                    .granted = !held[i].waits,
                                    .pid = held[i].pid,
                                    .session_database = OURS};
    }
    sessions_index(rows, n, OURS, next->arena, &sessions);
    next->read_lower_us = next->read_upper_us = at_us;
    scene->definitions.config = &scene->config;
    scene->definitions.server = &scene->server;
    duties_list(next, &scene->definitions, &sessions, scene->last);
    for (size_t i = 0; i < next->n_duties; i++)
        fill(&next->duties[i], &sessions, at_us);
    history_advance(scene->last, next);
    snapshot_unref(scene->last);
    return scene->last = next;
}

static const struct snapshot *look_at(struct scene *scene, int64_t second, const struct held *held,
                                      size_t n)
{
    return look(scene, origin_us + second * SECOND_US, held, n);
}

/* The names in a picture, with spaces between. */
static const char *names_in(const struct snapshot *snapshot)
{
    static char text[512];
    FILE *out = fmemopen(text, sizeof text, "w");
    for (size_t i = 0; i < snapshot->n_duties; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", snapshot->duties[i].name);
    (void)putc('\0', out);
    (void)fclose(out);
    return text;
}

static struct held held_by(int64_t key, int32_t pid)
{
    return (struct held){.key = lock_key_from_int8(key), .pid = pid};
}

/* Definitions, as "name=key" or "name=table:row", and what is listed, as "name=key/source". */
static const struct {
    const char *words;
    const char *registry[4], *config[4];
    const char *expected;
} precedence_rows[] = {
    {"nothing", {NULL}, {NULL}, ""},
    {"sorted by name",
     {"b/b=2", "a/a=1"},
     {"c/c=3", "a/b=4"},
     "a/a=1/ledger a/b=4/config b/b=2/ledger c/c=3/config"},
    {"one lock, two names", {"jobs/ours=7"}, {"jobs/theirs=7"}, "jobs/ours=7/ledger"},
    {"one name, two locks", {"jobs/x=7"}, {"jobs/x=8"}, "jobs/x=7/ledger"},
    {"one name and one lock", {"jobs/x=7"}, {"jobs/x=7"}, "jobs/x=7/ledger"},
    {"crossed", {"jobs/x=7"}, {"jobs/x=8", "jobs/y=7"}, "jobs/x=7/ledger"},
    {"a pair is another lock", {"jobs/x=7"}, {"jobs/y=0,7"}, "jobs/x=7/ledger jobs/y=0,7/config"},
    {"a lease is another than a lock",
     {"jobs/x=7"},
     {"jobs/y=public.l:7"},
     "jobs/x=7/ledger jobs/y=public.l:7/config"},
    {"one lease, two names",
     {"jobs/x=public.l:r"},
     {"jobs/y=public.l:r"},
     "jobs/x=public.l:r/ledger"},
    {"one table, spelled otherwise",
     {"jobs/x=public.l:r"},
     {"jobs/y=\"public\".L:r"},
     "jobs/x=public.l:r/ledger"},
    {"two rows of one table",
     {"jobs/x=public.l:r"},
     {"jobs/y=public.l:s"},
     "jobs/x=public.l:r/ledger jobs/y=public.l:s/config"},
    {"one row's name in two tables",
     {"jobs/x=a.l:r"},
     {"jobs/y=b.l:r"},
     "jobs/x=a.l:r/ledger jobs/y=b.l:r/config"},
    {"a name's bytes are unsigned",
     {"a/\xC3\xA4=1"},
     {"a/z=2"},
     "a/z=2/config a/\xC3\xA4=1/ledger"},
};

static size_t definitions_of(const char *const texts[4], struct config_duty *out,
                             struct arena *arena)
{
    size_t n = 0;
    for (; n < 4 && texts[n]; n++) {
        const char *equals = strchr(texts[n], '='), *colon = strchr(equals, ':');
        const char *name = arena_strndup(arena, texts[n], (size_t)(equals - texts[n]));
        if (colon) {
            const char *table = arena_strndup(arena, equals + 1, (size_t)(colon - equals - 1));
            out[n] = lease_duty(name, table, colon + 1);
        } else {
            out[n] = lock_duty(name, 0);
            assert_true(lock_key_parse(equals + 1, &out[n].key));
        }
    }
    return n;
}

static void test_precedence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(precedence_rows); i++) {
        struct scene scene = {.config.discovery_limit = 0};
        struct config_duty registry[4], config[4];
        struct arena *arena = arena_new();
        size_t n_registry = definitions_of(precedence_rows[i].registry, registry, arena);
        size_t n_config = definitions_of(precedence_rows[i].config, config, arena);
        name_duties(&scene, registry, n_registry, config, n_config);
        const struct snapshot *picture = look_at(&scene, 0, NULL, 0);
        char got[256];
        FILE *out = fmemopen(got, sizeof got, "w");
        for (size_t j = 0; j < picture->n_duties; j++)
            (void)fprintf(out, "%s%s=%s/%s", j ? " " : "", picture->duties[j].name,
                          picture->duties[j].key_text, duty_source_name(picture->duties[j].source));
        (void)putc('\0', out);
        (void)fclose(out);
        if (strcmp(got, precedence_rows[i].expected) != 0)
            fail_msg("%s: %s", precedence_rows[i].words, got);
        snapshot_unref(scene.last);
        arena_free(arena);
    }
}

/* What the registry leaves open, the config may say, for the same lock under whatever name. */
static void test_gaps_are_filled(void **state)
{
    struct config_duty registry = lock_duty("jobs/x", 7), config = lock_duty("jobs/y", 7);
    struct scene scene = {.config.discovery_limit = 0};
    (void)state;
    registry.team = "ours";
    registry.limits.min_candidates = 3;
    registry.limits.run_every_us = 1;
    config.team = "theirs";
    config.runbook = "https://example.com";
    config.candidates = "w-%";
    config.limits = (struct thresholds){7, 11, 12, 13, 14, 15};
    name_duties(&scene, &registry, 1, &config, 1);
    const struct duty *duty = &look_at(&scene, 0, NULL, 0)->duties[0];
    assert_string_equal(duty->name, "jobs/x");
    assert_string_equal(duty->team, "ours");
    assert_string_equal(duty->runbook, "https://example.com");
    assert_string_equal(duty->candidate_pattern, "w-%");
    assert_int_equal(duty->limits.min_candidates, 3);
    assert_int_equal(duty->limits.stall_after_us, 11);
    assert_int_equal(duty->limits.run_every_us, 1);
    assert_int_equal(duty->limits.takeover_slow_after_us, 13);
    assert_int_equal(duty->limits.wait_slow_after_us, 14);
    assert_int_equal(duty->limits.alerts_paused_until_us, 15);
    snapshot_unref(scene.last);
}

/* A definition for another lock fills nothing, and nothing is filled where there is one alone. */
static void test_gaps_stay_open(void **state)
{
    struct config_duty registry = lock_duty("jobs/x", 7), config = lock_duty("jobs/x", 8);
    struct scene scene = {.config.discovery_limit = 0};
    (void)state;
    config.team = "theirs";
    config.limits.min_candidates = 7;
    name_duties(&scene, &registry, 1, &config, 1);
    const struct duty *duty = &look_at(&scene, 0, NULL, 0)->duties[0];
    assert_null(duty->team);
    assert_null(duty->runbook);
    assert_null(duty->candidate_pattern);
    assert_int_equal(duty->limits.min_candidates, -1);
    assert_int_equal(duty->limits.stall_after_us, -1);
    assert_int_equal(duty->limits.run_every_us, -1);
    assert_int_equal(duty->limits.takeover_slow_after_us, -1);
    assert_int_equal(duty->limits.wait_slow_after_us, -1);
    assert_int_equal(duty->limits.alerts_paused_until_us, TIME_UNKNOWN);
    snapshot_unref(scene.last);
}

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
        assert_int_equal(picture->duties[0].trail.transitions[RULE_LOST], 1);
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
    assert_int_equal(picture->duties[0].trail.transitions[RULE_LOST], 1);
    assert_int_equal(picture->duties[0].trail.transitions[RULE_RETURNED], 1);
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
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_gaps_are_filled),
        cmocka_unit_test(test_gaps_stay_open),
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
        cmocka_unit_test(test_a_name_is_given_once),
        cmocka_unit_test(test_a_clock_that_was_set_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
