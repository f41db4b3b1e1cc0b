/* SPDX-License-Identifier: PostgreSQL */
/* Advisory lock keys: as people write them, as pg_locks shows them, and as a name derives them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "pg/key.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *text;
    struct lock_key key;
} written[] = {
    {"0", {0, 0, 1}},
    {"742118", {0, 742118, 1}},
    {"-1", {4294967295, 4294967295, 1}},
    {"-5", {4294967295, 4294967291, 1}},
    {"4294967295", {0, 4294967295, 1}},
    {"4294967296", {1, 0, 1}},
    {"9223372036854775807", {2147483647, 4294967295, 1}},
    {"-9223372036854775808", {2147483648, 0, 1}},
    {"0,0", {0, 0, 2}},
    {"12,-7", {12, 4294967289, 2}},
    {"-1,-2", {4294967295, 4294967294, 2}},
    {"2147483647,-2147483648", {2147483647, 2147483648, 2}},
};

static void test_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(written); i++) {
        struct lock_key key;
        char text[LOCK_KEY_TEXT_SIZE];
        assert_true(lock_key_parse(written[i].text, &key));
        assert_true(lock_key_equal(key, written[i].key));
        lock_key_format(written[i].key, text);
        assert_string_equal(text, written[i].text);
    }
}

static void test_not_a_key(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "x",
        "1x",
        "1 ",
        " 1",
        "1.5",
        "0x1",
        "--1",
        "+-1",
        "-",
        "+",
        ",",
        "1,",
        ",1",
        "1,2,3",
        "1, 2",
        "1 ,2",
        "1,x",
        "1,2x",
        "9223372036854775808",
        "-9223372036854775809",
        "2147483648,0",
        "0,2147483648",
        "-2147483649,0",
        "0,-2147483649",
        "0000000000000001,1",
        "1,0000000000000001",
        "00000000000000000000000001,1",
        "1,00000000000000000000000000001",
        "1e3",
        "\xEF\xBC\x91",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct lock_key key = {7, 7, 7};
        if (lock_key_parse(texts[i], &key))
            fail_msg("\"%s\" was read", texts[i]);
        assert_true(lock_key_equal(key, (struct lock_key){7, 7, 7})); /* untouched */
    }
}

static void test_signs_are_read(void **state)
{
    struct lock_key key;
    (void)state;
    assert_true(lock_key_parse("+5", &key));
    assert_true(lock_key_equal(key, lock_key_from_int8(5)));
    assert_true(lock_key_parse("-0,+7", &key));
    assert_true(lock_key_equal(key, lock_key_from_pair(0, 7)));
}

/* An extension's lock is shown as it is; the longest fits. */
static void test_extension(void **state)
{
    char text[LOCK_KEY_TEXT_SIZE];
    (void)state;
    lock_key_format((struct lock_key){1, 2, 21}, text);
    assert_string_equal(text, "objsubid:21,classid:1,objid:2");
    lock_key_format((struct lock_key){4294967295, 4294967295, 65535}, text);
    assert_string_equal(text, "objsubid:65535,classid:4294967295,objid:4294967295");
}

static void test_int8_and_back(void **state)
{
    static const int64_t keys[] = {0,
                                   1,
                                   -1,
                                   742118,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_C(1) << 32,
                                   -(INT64_C(1) << 32),
                                   INT32_MIN,
                                   INT32_MAX,
                                   UINT32_MAX};
    (void)state;
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct lock_key key = lock_key_from_int8(keys[i]);
        assert_int_equal(key.objsubid, LOCK_OBJSUBID_INT8);
        assert_true(lock_key_to_int8(key) == keys[i]);
    }
}

/* By objsubid, then the halves, unsigned; a total order. */
static void test_order(void **state)
{
    static const struct lock_key sorted[] = {
        {0, 0, 1},          {0, 1, 1},
        {0, 4294967295, 1}, {1, 0, 1},
        {2147483648, 0, 1}, {4294967295, 4294967295, 1},
        {0, 0, 2},          {4294967295, 4294967295, 2},
        {0, 0, 21},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(sorted); i++) {
        for (size_t j = 0; j < COUNT(sorted); j++) {
            int expected = (i > j) - (i < j);
            assert_int_equal(lock_key_compare(sorted[i], sorted[j]), expected);
            assert_int_equal(lock_key_equal(sorted[i], sorted[j]), i == j);
        }
    }
}

/* The same vectors hold the ledger's SQL function: environment, duty, key, classid, objid. */
static void test_vectors(void **state)
{
    FILE *in = fopen(SOURCE_DIR "/tests/key_vectors.tsv", "r");
    char *line = NULL;
    size_t room = 0, n = 0;
    (void)state;
    assert_non_null(in);
    while (getline(&line, &room, in) > 0) {
        char *fields[5], *rest = line;
        line[strcspn(line, "\n")] = '\0';
        if (*line == '#' || *line == '\0')
            continue;
        for (size_t i = 0; i < COUNT(fields); i++)
            assert_non_null(fields[i] = strsep(&rest, "\t"));
        assert_null(rest);
        struct lock_key key;
        struct error err = {0};
        int64_t expected = 0, classid = 0, objid = 0;
        assert_true(text_to_int64(fields[2], &expected) && text_to_int64(fields[3], &classid) &&
                    text_to_int64(fields[4], &objid));
        if (!lock_key_derive(fields[0], fields[1], 1, &key, &err))
            fail_msg("%s %s: %s", fields[0], fields[1], err.message);
        assert_true(lock_key_to_int8(key) == expected);
        assert_int_equal(key.classid, classid);
        assert_int_equal(key.objid, objid);
        assert_int_equal(key.objsubid, LOCK_OBJSUBID_INT8);
        n++;
    }
    assert_true(n >= 10);
    free(line);
    assert_int_equal(fclose(in), 0);
}

static const struct {
    const char *name;
    bool valid;
} names[] = {
    {"jobs/x", true},
    {"0/9", true},
    {"a.b_c-d/e.f_g-h", true},
    {"jobs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},   /* 48 bytes */
    {"jobs/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false}, /* 49 */
    {"", false},
    {"/", false},
    {"jobs", false},
    {"jobs/", false},
    {"/x", false},
    {"jobs/x/y", false},
    {"jobs//x", false},
    {"Jobs/x", false},
    {"jobs/X", false},
    {"jobs/x ", false},
    {" jobs/x", false},
    {"jobs/x\n", false},
    {".jobs/x", false},
    {"jobs/-x", false},
    {"jobs/_x", false},
    {"jobs/x:y", false},
    {"jobs/\xC3\xA4", false},
};

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct lock_key key = {7, 7, 7};
        struct error err = {0};
        if (duty_name_valid(names[i].name) != names[i].valid)
            fail_msg("\"%s\"", names[i].name);
        assert_int_equal(lock_key_derive("prod", names[i].name, 1, &key, &err), names[i].valid);
        if (names[i].valid)
            continue;
        assert_int_equal(err.kind, ERROR_USAGE);
        assert_true(lock_key_equal(key, (struct lock_key){7, 7, 7}));
    }
}

static void test_not_derived(void **state)
{
    static const struct {
        const char *environment;
        int version;
    } rows[] = {{"prod", 0}, {"prod", 2}, {"prod", -1}, {"", 1}};
    char *long_environment = NULL;
    struct lock_key key = {7, 7, 7};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct error err = {0};
        assert_false(lock_key_derive(rows[i].environment, "jobs/x", rows[i].version, &key, &err));
        assert_int_equal(err.kind, ERROR_USAGE);
    }
    /* with the rest of it, the longest is 1023 bytes */
    int room = 1023 - (int)strlen("pgleader:1::jobs/x");
    assert_true(asprintf(&long_environment, "%0*d", room, 0) > 0);
    assert_true(lock_key_derive(long_environment, "jobs/x", 1, &key, NULL));
    free(long_environment);
    key = (struct lock_key){7, 7, 7};
    assert_true(asprintf(&long_environment, "%0*d", room + 1, 0) > 0);
    assert_false(lock_key_derive(long_environment, "jobs/x", 1, &key, NULL));
    free(long_environment);
    assert_true(lock_key_equal(key, (struct lock_key){7, 7, 7}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),        cmocka_unit_test(test_not_a_key),
        cmocka_unit_test(test_signs_are_read), cmocka_unit_test(test_extension),
        cmocka_unit_test(test_int8_and_back),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_vectors),        cmocka_unit_test(test_names),
        cmocka_unit_test(test_not_derived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
