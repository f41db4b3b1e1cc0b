/* SPDX-License-Identifier: PostgreSQL */
/* Numbers, durations, UTF-8, LIKE and HTML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_equal(void **state)
{
    (void)state;
    assert_true(text_equal(NULL, NULL));
    assert_true(text_equal("", ""));
    assert_true(text_equal("a", "a"));
    assert_false(text_equal(NULL, ""));
    assert_false(text_equal("", NULL));
    assert_false(text_equal("a", "A"));
}

static void test_int64(void **state)
{
    static const struct {
        const char *text;
        bool valid;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"+7", true, 7},
        {"007", true, 7},
        {"-12", true, -12},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+", false, 0},
        {"--1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1\n", false, 0},
        {"0x10", false, 0},
        {"1e3", false, 0},
        {"1.0", false, 0},
        {"- 1", false, 0},
        {"\t1", false, 0},
        {"abc", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t value = 42;
        if (text_to_int64(rows[i].text, &value) != rows[i].valid)
            fail_msg("\"%s\"", rows[i].text);
        assert_true(value == (rows[i].valid ? rows[i].value : 42));
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t us; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"0s", 0},
        {"0ms", 0},
        {"1us", 1},
        {"250ms", 250000},
        {"1s", SECOND_US},
        {"5m", 5 * MINUTE_US},
        {"1h", HOUR_US},
        {"2d", 2 * DAY_US},
        {"1h30m", 90 * MINUTE_US},
        {"1d2h3m4s5ms6us", DAY_US + 2 * HOUR_US + 3 * MINUTE_US + 4 * SECOND_US + 5006},
        {"1m1m", 2 * MINUTE_US},
        {"1s1m", 61 * SECOND_US},
        {"007s", 7 * SECOND_US},
        {"106751991d", INT64_C(106751991) * DAY_US},
        {"9223372036854775807us", INT64_MAX},
        {"", -1},
        {"1", -1},
        {"60", -1},
        {"00", -1},
        {"-1s", -1},
        {"+1s", -1},
        {"1.5s", -1},
        {"1 s", -1},
        {" 1s", -1},
        {"1s ", -1},
        {"s", -1},
        {"1S", -1},
        {"1sec", -1},
        {"1min", -1},
        {"1w", -1},
        {"1y", -1},
        {"1h30", -1},
        {"1h,30m", -1},
        {"1e3s", -1},
        {"1s-1s", -1},
        {"106751992d", -1},
        {"9223372036854775808us", -1},
        {"99999999999999999999s", -1},
        {"9223372036854775807us1us", -1},
        {"1s", SECOND_US},
        {"1m", MINUTE_US},
        {"infinity", -1},
        {"1\xC2\xB5s", -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t us = -1;
        bool read = text_to_duration_us(rows[i].text, &us);
        if (read != (rows[i].us >= 0) || us != rows[i].us)
            fail_msg("\"%s\": %lld", rows[i].text, (long long)us);
    }
}

/* Each text begins with a character of that many bytes, or with none: 0. */
static void test_utf8_length(void **state)
{
    static const struct {
        const char *text;
        size_t size, length;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 1},
        {"\0", 1, 1},
        {"\x7F", 1, 1},
        {"\xC2\x80", 2, 2},
        {"\xDF\xBF", 2, 2},
        {"\xC3\xA4x", 3, 2},
        {"\xE0\xA0\x80", 3, 3},
        {"\xED\x9F\xBF", 3, 3},
        {"\xEE\x80\x80", 3, 3},
        {"\xEF\xBF\xBF", 3, 3},
        {"\xF0\x90\x80\x80", 4, 4},
        {"\xF4\x8F\xBF\xBF", 4, 4},
        {"\x80", 1, 0},
        {"\xBF", 1, 0}, /* continuation alone */
        {"\xC2", 1, 0},
        {"\xE2\x82", 2, 0},
        {"\xF0\x9F\x98", 3, 0}, /* cut off */
        {"\xC2\x41", 2, 0},
        {"\xE2\x28\xA1", 3, 0},
        {"\xE2\x82\x28", 3, 0}, /* no continuation */
        {"\xF0\x28\x8C\xBC", 4, 0},
        {"\xF0\x90\x28\xBC", 4, 0},
        {"\xF0\x28\x8C\x28", 4, 0},
        {"\xC2\xC2", 2, 0},
        {"\xC2\xFF", 2, 0},
        {"\xC0\x80", 2, 0},
        {"\xC1\xBF", 2, 0}, /* overlong */
        {"\xE0\x80\x80", 3, 0},
        {"\xE0\x9F\xBF", 3, 0},
        {"\xF0\x80\x80\x80", 4, 0},
        {"\xF0\x8F\xBF\xBF", 4, 0},
        {"\xED\xA0\x80", 3, 0},
        {"\xED\xBF\xBF", 3, 0}, /* surrogates */
        {"\xF4\x90\x80\x80", 4, 0},
        {"\xF5\x80\x80\x80", 4, 0}, /* past U+10FFFF */
        {"\xF8\x88\x80\x80\x80", 5, 0},
        {"\xFE", 1, 0},
        {"\xFF", 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *exact = xmalloc(rows[i].size + 1); /* so that reading past the end is noticed */
        char *copy = exact + 1;
        memcpy(copy, rows[i].text, rows[i].size);
        if (text_utf8_length(copy, rows[i].size) != rows[i].length)
            fail_msg("row %zu", i);
        free(exact);
    }
}

#define BAD "\xEF\xBF\xBD"

static void test_sanitize(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        const char *expected;
    } rows[] = {
        {"", 0, ""},
        {"plain", 5, "plain"},
        {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", 9, "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"a\xFFz", 3, "a" BAD "z"},
        {"\xE2\x82", 2, BAD BAD},
        {"\xE2\x82z", 3, BAD BAD "z"},
        {"\xC0\x80", 2, BAD BAD},
        {"\xED\xA0\x80", 3, BAD BAD BAD},
        {"\xFF\xFF\xFF", 3, BAD BAD BAD},
        {"\xF0\x9F\x98\xC3\xA4", 5, BAD BAD BAD "\xC3\xA4"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *out = xmalloc(3 * rows[i].size + 1);
        size_t size = text_utf8_sanitize(rows[i].text, rows[i].size, out);
        assert_string_equal(out, rows[i].expected);
        assert_int_equal(size, strlen(rows[i].expected));
        free(out);
    }
}

/* As SELECT text LIKE pattern answers. */
static void test_like(void **state)
{
    static const struct {
        const char *text, *pattern;
        bool matches;
    } rows[] = {
        {"", "", true},
        {"", "%", true},
        {"", "%%", true},
        {"", "_", false},
        {"", "\\", false},
        {"a", "", false},
        {"a", "a", true},
        {"a", "A", false},
        {"a", "_", true},
        {"a", "%", true},
        {"a", "__", false},
        {"ab", "_", false},
        {"ab", "__", true},
        {"ab", "a", false},
        {"ab", "b", false},
        {"ab", "%b", true},
        {"ab", "a%", true},
        {"ab", "%a", false},
        {"ab", "b%", false},
        {"abc", "a%c", true},
        {"abc", "a_c", true},
        {"abc", "a%b", false},
        {"abcabc", "%abc", true},
        {"abcabd", "%abc", false},
        {"aab", "%ab", true},
        {"aaab", "%aab", true},
        {"mississippi", "m%iss%ip%i", true},
        {"mississippi", "m%iss%ip%p", false},
        {"ab", "%%%", true},
        {"ab", "_%_", true},
        {"a", "_%_", false},
        {"ab", "%_%_%", true},
        {"a", "a%%%", true},
        {"a%b", "a\\%b", true},
        {"axb", "a\\%b", false},
        {"a_b", "a\\_b", true},
        {"axb", "a\\_b", false},
        {"a\\b", "a\\\\b", true},
        {"ab", "a\\b", true},
        {"a%", "%\\%", true},
        {"a", "%\\%", false},
        {"%", "\\%", true},
        {"100%", "100\\%", true},
        {"xa%b%c", "%a\\%b\\%c", true},
        {"xa%bxc", "%a\\%b\\%c", false},
        {"worker-1", "worker-%", true},
        {"worker", "worker-%", false},
        {"\xC3\xA4", "__", true},
        {"\xC3\xA4", "_", false}, /* byte by byte */
        {"\xFF", "_", true},
        {"a\nb", "a%b", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (text_like(rows[i].text, rows[i].pattern) != rows[i].matches)
            fail_msg("'%s' LIKE '%s'", rows[i].text, rows[i].pattern);
    }
}

/* All texts and patterns of up to five characters against the definition, which is exponential. */
static bool like_by_definition(const char *text, const char *pattern)
{
    if (!*pattern)
        return !*text;
    if (*pattern == '%')
        return like_by_definition(text, pattern + 1) ||
               (*text && like_by_definition(text + 1, pattern));
    return *text && (*pattern == '_' || *pattern == *text) &&
           like_by_definition(text + 1, pattern + 1);
}

static void nth_word(unsigned n, const char *letters, char out[8])
{
    size_t count = strlen(letters);
    for (; n > 0; n = (n - 1) / (unsigned)count)
        *out++ = letters[(n - 1) % count];
    *out = '\0';
}

static void test_like_by_definition(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 63; i++) {
        for (unsigned j = 0; j < 1365; j++) {
            char text[8], pattern[8];
            nth_word(i, "ab", text);
            nth_word(j, "ab_%", pattern);
            if (text_like(text, pattern) != like_by_definition(text, pattern))
                fail_msg("'%s' LIKE '%s'", text, pattern);
        }
    }
}

/* Patterns that take a naive matcher years take as long as text times pattern at most. */
static void test_like_never_explodes(void **state)
{
    static const char *const patterns[] = {
        "%a%a%a%a%b",
        "%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b",
        "%_%_%_%_%_%_%_%_%b",
        "%aaaaaaaaaaaaaaab%",
        "%%%%%%%%%%%%%%%%%%%%b",
        "%a_a_a_a_a_a_ab",
    };
    enum { SIZE = 200000 };
    char *text = xmalloc(SIZE + 1);
    (void)state;
    memset(text, 'a', SIZE);
    text[SIZE] = '\0';
    clock_t began = clock();
    for (size_t i = 0; i < COUNT(patterns); i++)
        assert_false(text_like(text, patterns[i]));
    text[SIZE - 1] = 'b';
    for (size_t i = 0; i < COUNT(patterns); i++)
        assert_true(text_like(text, patterns[i]));
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 30);
    free(text);
}

static void test_html(void **state)
{
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", ""},
        {"plain \xC3\xA4", "plain \xC3\xA4"},
        {"<a href=\"x\" title='y'>&amp;</a>",
         "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *buffer = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&buffer, &size);
        text_html_escape(out, rows[i].text);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(buffer, rows[i].expected);
        free(buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_int64),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_utf8_length),
        cmocka_unit_test(test_sanitize),
        cmocka_unit_test(test_like),
        cmocka_unit_test(test_like_by_definition),
        cmocka_unit_test(test_like_never_explodes),
        cmocka_unit_test(test_html),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
