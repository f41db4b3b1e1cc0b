/* SPDX-License-Identifier: PostgreSQL */
/* How numbers and label values are spelled. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exporter/emit.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        enum { INTEGER, SECONDS, REAL } kind;
        int64_t integer;
        double real;
        const char *expected;
    } rows[] = {
        {INTEGER, 0, 0, "0"},
        {INTEGER, -7, 0, "-7"},
        {INTEGER, INT64_MAX, 0, "9223372036854775807"},
        {INTEGER, INT64_MIN, 0, "-9223372036854775808"},
        {SECONDS, 0, 0, "0"},
        {SECONDS, 1764437312123456, 0, "1764437312.123456"},
        {SECONDS, 1764437312100000, 0, "1764437312.1"},
        {SECONDS, 3000000, 0, "3"},
        {SECONDS, 1, 0, "0.000001"},
        {SECONDS, -1, 0, "-0.000001"},
        {SECONDS, -1500000, 0, "-1.5"},
        {SECONDS, INT64_MAX, 0, "9223372036854.775807"},
        {SECONDS, INT64_MIN + 1, 0, "-9223372036854.775807"},
        {REAL, 0, 48210, "48210"},
        {REAL, 0, -3, "-3"},
        {REAL, 0, 0.1, "0.1"},
        {REAL, 0, 1.0 / 3, "0.33333333333333331"},
        {REAL, 0, 1e18, "1e+18"},
        {REAL, 0, 9007199254740993.5, "9007199254740994"},
        {REAL, 0, 5e-324, "4.94065645841247e-324"},
        {REAL, 0, 1.7976931348623157e308, "1.7976931348623157e+308"},
        {REAL, 0, NAN, "NaN"},
        {REAL, 0, INFINITY, "+Inf"},
        {REAL, 0, -INFINITY, "-Inf"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[EMIT_NUMBER_SIZE + 1];
        size_t n = rows[i].kind == INTEGER   ? emit_integer(text, rows[i].integer)
                   : rows[i].kind == SECONDS ? emit_seconds(text, rows[i].integer)
                                             : emit_real(text, rows[i].real);
        text[n] = '\0';
        assert_string_equal(text, rows[i].expected);
        if (rows[i].kind == REAL && !isnan(rows[i].real))
            assert_true(strtod(text, NULL) == rows[i].real);
    }
}

static void test_label_values(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {NULL, ""},
        {"", ""},
        {"jobs/a", "jobs/a"},
        {"a\\b", "a\\\\b"},
        {"say \"x\"", "say \\\"x\\\""},
        {"two\nlines", "two\\nlines"},
        {"\\", "\\\\"},
        {"\n", "\\n"},
        {"tab\tand\rreturn", "tab\tand\rreturn"},
        {"f\xC3\xBCr \xE2\x82\xAC \xF0\x9F\x90\x98", "f\xC3\xBCr \xE2\x82\xAC \xF0\x9F\x90\x98"},
        {"cut \xE2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xFF\"", "\xEF\xBF\xBD\\\""},
        {"\xC3\"", "\xEF\xBF\xBD\\\""}, /* a cut character must not swallow the quote */
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        emit_label_value(out, rows[i].text);
        (void)fclose(out);
        assert_string_equal(text, rows[i].expected);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_label_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
