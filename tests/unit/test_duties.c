/* SPDX-License-Identifier: PostgreSQL */
/* Which duties a picture lists: whose word counts, and what fills its gaps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "tests/support/scene.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

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
    {"locks and leases, each twice",
     {"a/1=3", "a/2=public.l:b", "a/3=1", "a/4=public.l:a"},
     {"b/1=public.l:a", "b/2=1", "b/3=public.l:b", "b/4=3"},
     "a/1=3/ledger a/2=public.l:b/ledger a/3=1/ledger a/4=public.l:a/ledger"},
    {"leases before locks",
     {"a/1=public.l:a", "a/2=0"},
     {"b/1=0", "b/2=public.k:a", "b/3=-1"},
     "a/1=public.l:a/ledger a/2=0/ledger b/2=public.k:a/config b/3=-1/config"},
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
    assert_int_equal(duty->limits->min_candidates, 3);
    assert_int_equal(duty->limits->stall_after_us, 11);
    assert_int_equal(duty->limits->run_every_us, 1);
    assert_int_equal(duty->limits->takeover_slow_after_us, 13);
    assert_int_equal(duty->limits->wait_slow_after_us, 14);
    assert_int_equal(duty->limits->alerts_paused_until_us, 15);
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
    assert_int_equal(duty->limits->min_candidates, -1);
    assert_int_equal(duty->limits->stall_after_us, -1);
    assert_int_equal(duty->limits->run_every_us, -1);
    assert_int_equal(duty->limits->takeover_slow_after_us, -1);
    assert_int_equal(duty->limits->wait_slow_after_us, -1);
    assert_int_equal(duty->limits->alerts_paused_until_us, TIME_UNKNOWN);
    snapshot_unref(scene.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_gaps_are_filled),
        cmocka_unit_test(test_gaps_stay_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
