/* SPDX-License-Identifier: PostgreSQL */
/* Errors, lists of problems, and the arena. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

static void test_set(void **state)
{
    struct error err = {.kind = ERROR_QUERY, .sqlstate = "42P01", .detail = "old", .hint = "old"};
    (void)state;
    assert_false(error_set(&err, ERROR_CONFIG, "could not read \"%s\": %d", "x", 7));
    assert_int_equal(err.kind, ERROR_CONFIG);
    assert_string_equal(err.message, "could not read \"x\": 7");
    assert_string_equal(err.sqlstate, "");
    assert_string_equal(err.detail, "");
    assert_string_equal(err.hint, "");
    error_hint(&err, "Try %s.", "harder");
    assert_string_equal(err.hint, "Try harder.");
    assert_string_equal(err.message, "could not read \"x\": 7");
}

static void test_set_errno(void **state)
{
    struct error err = {0};
    (void)state;
    assert_false(error_set_errno(&err, ENOENT, "could not open \"%s\"", "/x"));
    assert_int_equal(err.kind, ERROR_SYSTEM);
    assert_string_equal(err.message, "could not open \"/x\": No such file or directory");
}

static void test_nobody_wants_it(void **state)
{
    (void)state;
    assert_false(error_set(NULL, ERROR_QUERY, "x"));
    assert_false(error_set_errno(NULL, ENOENT, "x"));
    error_hint(NULL, "x");
}

/* Words of the error itself may be wrapped in the next. */
static void test_set_from_its_own_parts(void **state)
{
    struct error err = {0};
    (void)state;
    (void)error_set(&err, ERROR_SYSTEM, "no such file");
    (void)error_set(&err, ERROR_CONFIG, "could not read the password: %s", err.message);
    assert_string_equal(err.message, "could not read the password: no such file");
    (void)error_set_errno(&err, EACCES, "%s", err.message);
    assert_string_equal(err.message,
                        "could not read the password: no such file: Permission denied");
}

/* What does not fit is cut between two characters, wherever they lie. */
static void test_cut(void **state)
{
    static const char *const characters[] = {"x", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t shift = 0; shift < 5; shift++) {
            char text[2048];
            size_t used = shift, size = strlen(characters[i]);
            memset(text, '.', shift);
            for (; used + size < sizeof text; used += size)
                memcpy(text + used, characters[i], size);
            text[used] = '\0';
            struct error err;
            (void)error_set(&err, ERROR_QUERY, "%s", text);
            size_t length = strlen(err.message);
            assert_in_range(length, sizeof err.message - 1 - size + 1, sizeof err.message - 1);
            assert_memory_equal(err.message, text, length);
            assert_int_equal((length - shift) % size, 0);
        }
    }
}

static void test_cut_of_what_fits(void **state)
{
    char text[sizeof((struct error){0}.message)];
    struct error err;
    (void)state;
    memset(text, 'x', sizeof text - 3);
    memcpy(text + sizeof text - 3, "\xC3\xA4", 3);
    (void)error_set(&err, ERROR_QUERY, "%s", text);
    assert_string_equal(err.message, text);
}

/* What is no text at all is cut as well. */
static void test_cut_of_no_text(void **state)
{
    char text[2048];
    struct error err;
    (void)state;
    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)error_set(&err, ERROR_QUERY, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static void test_kinds(void **state)
{
    (void)state;
    assert_string_equal(error_kind_name(ERROR_NONE), "none");
    assert_string_equal(error_kind_name(ERROR_USAGE), "usage");
    assert_string_equal(error_kind_name(ERROR_CONFIG), "config");
    assert_string_equal(error_kind_name(ERROR_SYSTEM), "system");
    assert_string_equal(error_kind_name(ERROR_CONNECT), "connect");
    assert_string_equal(error_kind_name(ERROR_QUERY), "query");
    assert_string_equal(error_kind_name(ERROR_TIMEOUT), "timeout");
}

static void test_problems(void **state)
{
    struct problems problems = {0};
    (void)state;
    problems_done(&problems);
    for (size_t i = 0; i < 100; i++)
        problems_add(&problems, "%s:%zu: could not", "f.yml", i);
    assert_int_equal(problems.n, 100);
    assert_string_equal(problems.items[0], "f.yml:0: could not");
    assert_string_equal(problems.items[99], "f.yml:99: could not");
    problems_done(&problems);
    assert_int_equal(problems.n, 0);
    assert_null(problems.items);
}

/* Zeroed, aligned, apart from each other, and all of it there until the end. */
static void test_arena(void **state)
{
    enum { PIECES = 2000 };
    unsigned char *pieces[PIECES];
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < PIECES; i++) {
        size_t size = i * 7 % 300;
        pieces[i] = arena_alloc(arena, size);
        assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)(i % 251) + 1, size);
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t j = 0; j < i * 7 % 300; j++)
            assert_int_equal(pieces[i][j], i % 251 + 1);
    }
    arena_free(arena);
    arena_free(NULL);
}

static void test_arena_large(void **state)
{
    struct arena *arena = arena_new();
    (void)state;
    int64_t *array = arena_array(arena, 1000000, sizeof *array);
    array[999999] = 7;
    assert_int_equal(array[0], 0);
    assert_non_null(arena_array(arena, 0, sizeof *array));
    assert_non_null(arena_array(arena, 1000000, 0));
    arena_free(arena);
}

static void test_arena_text(void **state)
{
    struct arena *arena = arena_new();
    char text[] = "abc";
    (void)state;
    const char *copy = arena_strdup(arena, text), *part = arena_strndup(arena, text, 2);
    text[0] = 'x';
    assert_string_equal(copy, "abc");
    assert_string_equal(part, "ab");
    assert_string_equal(arena_strndup(arena, "", 0), "");
    assert_null(arena_strdup(arena, NULL));
    assert_string_equal(arena_printf(arena, "%s/%d", "a", 7), "a/7");
    assert_int_equal(strlen(arena_printf(arena, "%*d", 100000, 7)), 100000);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_set_errno),
        cmocka_unit_test(test_nobody_wants_it),
        cmocka_unit_test(test_set_from_its_own_parts),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_of_what_fits),
        cmocka_unit_test(test_cut_of_no_text),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_large),
        cmocka_unit_test(test_arena_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
