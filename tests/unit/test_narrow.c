/* SPDX-License-Identifier: PostgreSQL */
/* What a picture of one duty alone has to read, by where the duty is known from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "observe/narrow.h"

static const struct config_duty registry[] = {
    {.name = "jobs/a", .key = {0, 7, 1}, .next_key = {0, 8, 1}},
    {.name = "jobs/b", .key = {1, 2, 2}},
    {.name = "jobs/leased", .mechanism = MECHANISM_LEASE, .lease = {.row = "its \"row\""}},
};
static const struct config_duty configured[] = {
    {.name = "advisory/5", .key = {0, 6, 1}},
    {.name = "jobs/a", .key = {0, 9, 1}},
    {.name = "jobs/c", .key = {UINT32_MAX, UINT32_MAX, 1}},
    {.name = "jobs/lease", .mechanism = MECHANISM_LEASE, .lease = {.row = "row"}},
};

static const struct {
    const char *only;
    uint32_t sought; /* the key in its name, if any */
    const char *keys, *names;
} rows[] = {
    {"jobs/a", 0, "{0,7,1,0,9,1}", "{\"jobs/a\"}"},
    {"jobs/b", 0, "{1,2,2}", "{\"jobs/b\"}"},
    {"jobs/c", 0, "{4294967295,4294967295,1}", "{\"jobs/c\"}"},
    {"jobs/lease", 0, "{}", "{\"jobs/lease\",\"row\"}"},
    {"jobs/leased", 0, "{}", "{\"jobs/leased\",\"its \\\"row\\\"\"}"},
    {"jobs/none", 0, "{}", "{\"jobs/none\"}"},
    {"jobs/\xff", 0, "{}", "{}"},
    {"jobs/\xc3\xa4", 0, "{}", "{}"},
    {"advisory/4", 4, "{0,4,1}", "{\"advisory/4\"}"},
    {"advisory/5", 5, "{0,5,1,0,6,1}", "{\"advisory/5\"}"},
    {"advisory/9", 9, "{0,9,1}", "{\"advisory/9\",\"jobs/a\"}"},
};

static void test_what_is_asked(void **state)
{
    const struct config_server server = {.duties = configured,
                                         .n_duties = sizeof configured / sizeof *configured};
    const struct definitions definitions = {
        .registry = registry, .n_registry = sizeof registry / sizeof *registry, .server = &server};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena *arena = arena_new();
        struct config config = {.only_duty = rows[i].only};
        if (rows[i].sought)
            config.discovery_key = lock_key_from_int8(rows[i].sought);
        const struct narrow narrow = narrow_to(&config, &definitions, arena);
        assert_string_equal(narrow.keys, rows[i].keys);
        assert_string_equal(narrow.names, rows[i].names);
        assert_int_equal(narrow.n_locks == 0, strcmp(rows[i].keys, "{}") == 0);
        arena_free(arena);
    }
}

/* The numbers let other locks through, but only the whole key was asked for. */
static void test_what_was_asked(void **state)
{
    const struct config_server server = {0};
    const struct definitions definitions = {
        .registry = registry, .n_registry = 2, .server = &server};
    const struct config config = {.only_duty = "jobs/b"};
    struct arena *arena = arena_new();
    const struct narrow narrow = narrow_to(&config, &definitions, arena);
    (void)state;
    assert_true(narrow_has(&narrow, (struct lock_key){1, 2, 2}));
    assert_false(narrow_has(&narrow, (struct lock_key){1, 2, 1}));
    assert_false(narrow_has(&narrow, (struct lock_key){2, 1, 2}));
    assert_false(narrow_has(&narrow, (struct lock_key){0, 7, 1}));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_asked),
        cmocka_unit_test(test_what_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
