/* SPDX-License-Identifier: PostgreSQL */
/* The option table: what a command line means, and what --help says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/option.h"
#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { WORDS = 8 };

struct values {
    bool flag, last;
    const char *string;
    struct option_list list;
    int64_t duration_us, size;
};

/* Parses words after the program's name, on fresh values. */
static bool parse(const char *const words[WORDS], struct values *values, int *ret_rest,
                  struct error *err)
{
    const struct option_row table[] = {
        {"check", NULL, "Checks.", NULL, OPTION_FLAG, &values->flag},
        {"config.file", "PATH", "Reads PATH.", "none", OPTION_STRING, &values->string},
        {"listen", "ADDRESS", "Listens.", NULL, OPTION_LIST, &values->list},
        {"wait", "TIME", "Waits.", "1s", OPTION_DURATION, &values->duration_us},
        {"limit", "N", "Limits.", NULL, OPTION_SIZE, &values->size},
        {"quiet", NULL, "Says less.", NULL, OPTION_FLAG, &values->last},
        {0},
    };
    char *argv[WORDS + 2] = {(char *)"prog"};
    int argc = 1;
    for (; argc <= WORDS && words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    *values = (struct values){.duration_us = -1, .size = -1};
    return option_parse(table, argc, argv, ret_rest, err);
}

static const struct {
    const char *words[WORDS];
    bool flag;
    const char *string;
    int listed;
    int64_t duration_us, size;
    int operands;
} good[] = {
    {{NULL}, false, NULL, 0, -1, -1, 0},
    {{"--check"}, true, NULL, 0, -1, -1, 0},
    {{"--config.file=/x"}, false, "/x", 0, -1, -1, 0},
    {{"--config.file", "/x"}, false, "/x", 0, -1, -1, 0},
    {{"--config.file="}, false, "", 0, -1, -1, 0},
    {{"--config.file=a=b"}, false, "a=b", 0, -1, -1, 0},
    {{"--config.file", "--check"}, false, "--check", 0, -1, -1, 0},
    {{"--config.file=/x", "--config.file=/y"}, false, "/y", 0, -1, -1, 0},
    {{"--listen=a", "--listen", "b", "--listen=c"}, false, NULL, 3, -1, -1, 0},
    {{"--wait=1m30s"}, false, NULL, 0, 90 * SECOND_US, -1, 0},
    {{"--wait=0"}, false, NULL, 0, 0, -1, 0},
    {{"--limit=0"}, false, NULL, 0, -1, 0, 0},
    {{"--limit=9223372036854775807"}, false, NULL, 0, -1, INT64_MAX, 0},
    {{"host=x"}, false, NULL, 0, -1, -1, 1},
    {{"host=x", "--check"}, true, NULL, 0, -1, -1, 1}, /* options may follow operands */
    {{"--check", "--", "--limit"}, true, NULL, 0, -1, -1, 1},
    {{"-"}, false, NULL, 0, -1, -1, 1},
};

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct values values;
        struct error err = {0};
        int rest = 0, words = 0;
        while (words < WORDS && good[i].words[words])
            words++;
        if (!parse(good[i].words, &values, &rest, &err))
            fail_msg("row %zu: %s", i, err.message);
        assert_int_equal(err.kind, ERROR_NONE);
        assert_string_equal(err.hint, "");
        assert_int_equal(values.flag, good[i].flag);
        assert_true(text_equal(values.string, good[i].string));
        assert_int_equal(values.list.n, good[i].listed);
        assert_int_equal(values.duration_us, good[i].duration_us);
        assert_int_equal(values.size, good[i].size);
        assert_int_equal(words + 1 - rest, good[i].operands);
        free(values.list.items);
    }
}

static void test_lists_are_in_order(void **state)
{
    static const char *const words[WORDS] = {"--listen=a", "--check", "--listen=b"};
    struct values values;
    int rest = 0;
    (void)state;
    assert_true(parse(words, &values, &rest, NULL));
    assert_string_equal(values.list.items[0], "a");
    assert_string_equal(values.list.items[1], "b");
    free(values.list.items);
}

static const struct {
    const char *words[WORDS];
    const char *message;
} bad[] = {
    {{"--nonsense"}, "could not read --nonsense: no such option"},
    {{"--check", "--nonsense=7"}, "could not read --nonsense=7: no such option"},
    {{"--checks"}, "could not read --checks: no such option"},
    {{"-z"}, "could not read -z: no such option"},
    {{"-zq"}, "could not read -z: no such option"},
    {{"operand", "-q"}, "could not read -q: no such option"},
    {{"--check=yes"}, "could not read --check=yes: it takes no value"},
    {{"--quiet=1"}, "could not read --quiet=1: it takes no value"},
    {{"--quiex=1"}, "could not read --quiex=1: no such option"},
    {{"--config.file"}, "could not read --config.file: it takes a value"},
    {{"--wait=5"}, "could not read --wait=5: not a duration such as 500ms, 10s or 5m"},
    {{"--wait="}, "could not read --wait=: not a duration such as 500ms, 10s or 5m"},
    {{"--wait", "-1s"}, "could not read --wait=-1s: not a duration such as 500ms, 10s or 5m"},
    {{"--limit=-1"}, "could not read --limit=-1: not a whole number"},
    {{"--limit=1.5"}, "could not read --limit=1.5: not a whole number"},
    {{"--limit=9223372036854775808"},
     "could not read --limit=9223372036854775808: not a whole number"},
    {{"--limit=1", "--limit=x"}, "could not read --limit=x: not a whole number"},
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct values values;
        struct error err = {0};
        int rest = 0;
        if (parse(bad[i].words, &values, &rest, &err))
            fail_msg("row %zu: taken", i);
        assert_string_equal(err.message, bad[i].message);
        assert_int_equal(err.kind, ERROR_USAGE);
        assert_string_equal(err.hint, "--help lists the options.");
        free(values.list.items);
    }
}

static void test_help(void **state)
{
    const struct option_row table[] = {
        {"check", NULL, "Checks.", NULL, OPTION_FLAG, NULL},
        {"wait", "TIME", "Waits.", "1s", OPTION_DURATION, NULL},
        {0},
    };
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    (void)state;
    option_print_help(table, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "  --check\n      Checks.\n"
                              "  --wait=TIME\n      Waits. Default: 1s.\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_lists_are_in_order),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
