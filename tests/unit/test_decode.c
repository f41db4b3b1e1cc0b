/* SPDX-License-Identifier: PostgreSQL */
/* PostgreSQL's binary format into structs, from results made by hand; and names as SQL reads them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "pg/decode.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
    BOOL = 16,
    INT8 = 20,
    INT2 = 21,
    INT4 = 23,
    TEXT = 25,
    OID = 26,
    FLOAT8 = 701,
    INET = 869,
    TIMESTAMPTZ = 1184,
    XID = 28
};

/* A result of one row and one column named "x"; size -1 is NULL. */
static struct pg_answer *answer_of(Oid type, const void *data, int size)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc column = {.name = (char *)"x", .format = 1, .typid = type};
    assert_true(PQsetResultAttrs(result, 1, &column));
    assert_true(PQsetvalue(result, 0, 0, (char *)data, size));
    return answer_new(result);
}

static union {
    bool flag;
    int32_t four;
    int64_t eight;
    double real;
    const char *text;
} decoded;

static bool decode(enum pg_field field, Oid type, const void *data, int size, struct arena *arena)
{
    const struct pg_column columns[] = {{"x", field, 0}, {0}};
    struct pg_answer *answer = answer_of(type, data, size);
    struct error err = {0};
    void *rows = NULL;
    size_t n = 0;
    bool ok = pg_answer_decode(answer, columns, sizeof decoded, arena, &rows, &n, &err);
    assert_int_equal(ok, err.kind == ERROR_NONE);
    if (ok) {
        assert_int_equal(n, 1);
        memcpy(&decoded, rows, sizeof decoded);
    }
    answer_free(answer);
    return ok;
}

static void test_integers(void **state)
{
    static const struct {
        enum pg_field field;
        Oid type;
        const char *data;
        int size;
        int64_t expected;
    } rows[] = {
        {PG_INT4, INT2, "\x00\x07", 2, 7},
        {PG_INT4, INT2, "\xFF\xFE", 2, -2},
        {PG_INT4, INT4, "\x7F\xFF\xFF\xFF", 4, INT32_MAX},
        {PG_INT4, INT4, "\x80\x00\x00\x00", 4, INT32_MIN},
        {PG_INT4, INT4, "", -1, -1},
        {PG_INT8, INT2, "\xFF\xFE", 2, -2},
        {PG_INT8, INT4, "\xFF\xFF\xFF\xFF", 4, -1},
        {PG_INT8, OID, "\xFF\xFF\xFF\xFF", 4, 4294967295},
        {PG_INT8, OID, "\x80\x00\x00\x00", 4, 2147483648},
        {PG_INT8, INT8, "\x80\x00\x00\x00\x00\x00\x00\x00", 8, INT64_MIN},
        {PG_INT8, INT8, "\x00\x00\x00\x01\x00\x00\x00\x02", 8, 4294967298},
        {PG_INT8, INT8, "", -1, -1},
    };
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(decode(rows[i].field, rows[i].type, rows[i].data, rows[i].size, arena));
        int64_t got = rows[i].field == PG_INT4 ? decoded.four : decoded.eight;
        assert_true(got == rows[i].expected);
    }
    arena_free(arena);
}

static void test_flags_and_reals(void **state)
{
    struct arena *arena = arena_new();
    (void)state;
    assert_true(decode(PG_BOOL, BOOL, "\x01", 1, arena) && decoded.flag);
    assert_true(decode(PG_BOOL, BOOL, "\x00", 1, arena) && !decoded.flag);
    assert_true(decode(PG_BOOL, BOOL, "", -1, arena) && !decoded.flag);
    assert_true(decode(PG_FLOAT8, FLOAT8, "\x3F\xF8\0\0\0\0\0\0", 8, arena));
    assert_true(decoded.real == 1.5);
    assert_true(decode(PG_FLOAT8, FLOAT8, "\xFF\xF0\0\0\0\0\0\0", 8, arena));
    assert_true(isinf(decoded.real) && decoded.real < 0);
    assert_true(decode(PG_FLOAT8, FLOAT8, "", -1, arena) && isnan(decoded.real));
    arena_free(arena);
}

static void test_times(void **state)
{
    static const struct {
        const char *data;
        int size;
        int64_t expected;
    } rows[] = {
        {"\0\0\0\0\0\0\0\0", 8, INT64_C(946684800000000)},
        {"\0\0\0\0\0\0\0\x01", 8, INT64_C(946684800000001)},
        {"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, INT64_C(946684799999999)},
        {"\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, INT64_MAX}, /* infinity */
        {"\x80\0\0\0\0\0\0\0", 8, INT64_MIN + 1},           /* -infinity, which is known */
        {"\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFE", 8, INT64_MAX}, /* beyond what fits */
        {"\x80\0\0\0\0\0\0\x01", 8, INT64_MIN + 1 + INT64_C(946684800000000)},
        {"", -1, TIME_UNKNOWN},
    };
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(decode(PG_TIME, TIMESTAMPTZ, rows[i].data, rows[i].size, arena));
        assert_true(decoded.eight == rows[i].expected);
    }
    arena_free(arena);
}

static void test_texts(void **state)
{
    static const struct {
        const char *data;
        int size;
        const char *expected;
    } rows[] = {
        {"abc", 3, "abc"},
        {"", 0, ""},
        {"\xC3\xA4", 2, "\xC3\xA4"},
        {"a\xFFz", 3, "a\xEF\xBF\xBDz"},
        {"a\xC3", 2, "a\xEF\xBF\xBD"},
    };
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(decode(PG_TEXT, TEXT, rows[i].data, rows[i].size, arena));
        assert_string_equal(decoded.text, rows[i].expected);
    }
    assert_true(decode(PG_TEXT, TEXT, "", -1, arena) && !decoded.text);
    arena_free(arena);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *data;
        int size;
        const char *expected;
    } rows[] = {
        {"\x02\x20\x00\x04\x0A\x00\x00\x01", 8, "10.0.0.1"},
        {"\x03\x80\x00\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 20, "::1"},
        {"\x02\x20\x00\x04\x0A\x00\x00", 7, NULL}, /* cut off */
        {"\x03\x80\x00\x10\0\0\0\0", 8, NULL},
        {"\x02", 1, NULL},
        {"", 0, NULL},
        {"", -1, NULL},
    };
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(decode(PG_INET, INET, rows[i].data, rows[i].size, arena));
        if (rows[i].expected)
            assert_string_equal(decoded.text, rows[i].expected);
        else
            assert_null(decoded.text);
    }
    arena_free(arena);
}

/* A column of another type, or of no such name, is refused before anything is read. */
static void test_wrong_columns(void **state)
{
    static const struct {
        enum pg_field field;
        Oid type;
    } rows[] = {{PG_BOOL, INT4},   {PG_INT4, INT8}, {PG_INT4, OID},  {PG_INT8, XID},
                {PG_FLOAT8, INT8}, {PG_TIME, INT8}, {PG_TEXT, INT4}, {PG_INET, TEXT}};
    const struct pg_column missing[] = {{"x", PG_INT4, 0}, {"y", PG_INT4, 0}, {0}};
    struct arena *arena = arena_new();
    struct pg_answer *answer = answer_of(INT4, "\0\0\0\x07", 4);
    struct error err = {0};
    void *found = arena;
    size_t n = 99;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_false(decode(rows[i].field, rows[i].type, "\0\0\0\0\0\0\0\0", 8, arena));
    assert_false(pg_answer_decode(answer, missing, 8, arena, &found, &n, &err));
    assert_int_equal(err.kind, ERROR_QUERY);
    assert_non_null(strstr(err.message, "\"y\""));
    assert_true(found == arena && n == 99); /* untouched */
    answer_free(answer);
    answer_free(NULL);
    arena_free(arena);
}

static void test_decode_time(void **state)
{
    struct arena *arena = arena_new();
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc column = {.name = (char *)"x", .format = 1, .typid = TIMESTAMPTZ};
    int64_t us = 7;
    (void)state;
    assert_true(PQsetResultAttrs(result, 1, &column));
    assert_false(decode_time(result, 0, &us)); /* no row */
    assert_true(PQsetvalue(result, 0, 0, (char *)"\0\0\0\0\0\0\0\x01", 8));
    assert_false(decode_time(result, -1, &us));
    assert_int_equal(us, 7);
    assert_true(decode_time(result, 0, &us));
    assert_true(us == INT64_C(946684800000001));
    assert_true(PQsetvalue(result, 0, 0, NULL, -1));
    assert_false(decode_time(result, 0, &us));
    PQclear(result);
    arena_free(arena);
}

/* As SQL reads a name: without quotes in lower case, with them as it stands. */
static void test_names(void **state)
{
    static const struct {
        const char *name, *quoted; /* NULL: refused */
    } rows[] = {
        {"lease", "\"lease\""},
        {"public.leader_lease", "\"public\".\"leader_lease\""},
        {"Public.Leader_Lease", "\"public\".\"leader_lease\""},
        {"\"Public\".lease", "\"Public\".\"lease\""},
        {"\"Odd Name\".\"x.y\"", "\"Odd Name\".\"x.y\""},
        {"\"say \"\"hi\"\"\"", "\"say \"\"hi\"\"\""},
        {"\"\"\"\"", "\"\"\"\""},
        {"a;drop table b", NULL},
        {"a;drop", "\"a;drop\""},
        {"a--b", "\"a--b\""},
        {"\xC3\x84pfel", "\"\xC3\x84pfel\""},
        {"", NULL},
        {".", NULL},
        {"a.", NULL},
        {".a", NULL},
        {"a.b.c", NULL},
        {"a b", NULL},
        {" a", NULL},
        {"a\n", NULL},
        {"\"", NULL},
        {"\"\"", NULL},
        {"\"a", NULL},
        {"\"a\"b", NULL},
        {"a\"b\"", NULL},
        {"\"a\"\"", NULL},
    };
    struct arena *arena = arena_new();
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *quoted = NULL;
        if (pg_quote_name(arena, rows[i].name, &quoted) != (rows[i].quoted != NULL))
            fail_msg("'%s'", rows[i].name);
        if (rows[i].quoted)
            assert_string_equal(quoted, rows[i].quoted);
        else
            assert_null(quoted);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),    cmocka_unit_test(test_flags_and_reals),
        cmocka_unit_test(test_times),       cmocka_unit_test(test_texts),
        cmocka_unit_test(test_addresses),   cmocka_unit_test(test_wrong_columns),
        cmocka_unit_test(test_decode_time), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
