/* SPDX-License-Identifier: PostgreSQL */
/* The SQLSTATE in libpq's verbose words, and the words as they are by default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pg/words.h"

static const struct row {
    const char *verbose, *wanted, *sqlstate;
} rows[] = {
    {"", "", ""},
    {"out of memory\n", "out of memory\n", ""},
    {"failed: FATAL:  28P01: password authentication failed\nLOCATION:  auth_failed, auth.c:334\n",
     "failed: FATAL:  password authentication failed\n", "28P01"},
    {"FATAL:  42501: permission denied\nDETAIL:  User does not have CONNECT privilege.\n"
     "LOCATION:  CheckMyDatabase, postinit.c:370",
     "FATAL:  permission denied\nDETAIL:  User does not have CONNECT privilege.\n", "42501"},
    {"a failed: Connection refused\nb failed: FATAL:  57P03: starting up\nLOCATION:  x",
     "a failed: Connection refused\nb failed: FATAL:  starting up\n", "57P03"},
    {"FATAL:  57P03: starting up\nFATAL:  28000: role \"a:  42501: b\" is not permitted",
     "FATAL:  starting up\nFATAL:  role \"a:  42501: b\" is not permitted", "28000"},
    {"FATAL:  28p01: small", "FATAL:  28p01: small", ""},
    {"FATAL:  28P011: long", "FATAL:  28P011: long", ""},
    {"FATAL:  28P01:", "FATAL:  28P01:", ""},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[256], sqlstate[SQLSTATE_SIZE];
        (void)snprintf(words, sizeof words, "%s", rows[i].verbose);
        words_take_sqlstate(words, sqlstate);
        assert_string_equal(words, rows[i].wanted);
        assert_string_equal(sqlstate, rows[i].sqlstate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
