/* SPDX-License-Identifier: PostgreSQL */
/* libpgleader reads the options of programs that were built against an older or a newer header. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "candidate/library_internal.h"

struct newer {
    struct pgleader_options options;
    int64_t member;
};

static struct newer filled(void)
{
    struct newer newer;
    memset(&newer, 0, sizeof newer);
    newer.options.size = sizeof newer;
    newer.options.duty = "jobs/x";
    newer.options.lock = "12,-7";
    newer.options.check_every_us = 500000;
    return newer;
}

static void test_of_a_newer_header(void **state)
{
    (void)state;
    struct error err = {0};
    struct library_setup setup;
    struct newer newer = filled();
    assert_true(library_setup_make(&newer.options, &setup, &err));
    assert_int_equal(setup.lead.timing.check_every_us, 500000);
    assert_int_equal(setup.lead.timing.kill_after_us, timing_default().kill_after_us);
    assert_int_equal(setup.lead.key->objid, (uint32_t)-7);
    assert_int_equal(setup.lead.settle_us, -1);
    library_setup_done(&setup);
    newer.member = 1;
    assert_false(library_setup_make(&newer.options, &setup, &err));
    assert_non_null(strstr(err.message, "does not know"));
}

/* A header before the last callbacks: what stands behind its end is not the caller's and is not
 * read. */
static void test_of_an_older_header(void **state)
{
    (void)state;
    struct error err = {0};
    struct library_setup setup;
    struct newer newer = filled();
    newer.options.size = offsetof(struct pgleader_options, gained);
    memset(&newer.options.gained, 0x5a, sizeof newer - newer.options.size);
    assert_true(library_setup_make(&newer.options, &setup, &err));
    assert_null(setup.options.gained);
    assert_null(setup.options.log);
    assert_string_equal(setup.lead.duty, "jobs/x");
    library_setup_done(&setup);
    newer.options.size = 0;
    assert_false(library_setup_make(&newer.options, &setup, &err));
    assert_non_null(strstr(err.message, "pgleader_options_init"));
}

static void test_nothing_of_the_caller_s_is_kept(void **state)
{
    (void)state;
    struct error err = {0};
    struct library_setup setup;
    char duty[] = "jobs/x", instance[] = "me";
    struct newer newer = filled();
    newer.options.duty = duty;
    newer.options.instance = instance;
    newer.options.flags = PGLEADER_NO_SETTLE;
    assert_true(library_setup_make(&newer.options, &setup, &err));
    memset(duty, 'z', sizeof duty - 1);
    memset(instance, 'z', sizeof instance - 1);
    assert_string_equal(setup.lead.duty, "jobs/x");
    assert_string_equal(setup.lead.instance, "me");
    assert_int_equal(setup.lead.settle_us, 0);
    library_setup_done(&setup);
}

/* (what the server said, what the caller is told) */
static const struct {
    enum error_kind kind;
    const char *sqlstate;
    enum pgleader_code code;
} errors[] = {
    {ERROR_QUERY, "PL001", PGLEADER_ERROR_STALE},
    {ERROR_QUERY, "40001", PGLEADER_ERROR_STALE},
    {ERROR_QUERY, "PL002", PGLEADER_ERROR_NOT_HELD},
    {ERROR_QUERY, "PL003", PGLEADER_ERROR_UNKNOWN_DUTY},
    {ERROR_QUERY, "3F000", PGLEADER_ERROR_NO_LEDGER},
    {ERROR_QUERY, "42501", PGLEADER_ERROR_PERMISSION},
    {ERROR_QUERY, "57014", PGLEADER_ERROR_CANCELLED},
    {ERROR_QUERY, "55P03", PGLEADER_ERROR_BUSY},
    {ERROR_QUERY, "25P02", PGLEADER_ERROR_QUERY},
    {ERROR_CONNECT, "57P01", PGLEADER_ERROR_CONNECT},
    {ERROR_TIMEOUT, "", PGLEADER_ERROR_CONNECT},
    {ERROR_SYSTEM, "", PGLEADER_ERROR_SYSTEM},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct pgleader_error told;
        struct error err = {.kind = errors[i].kind, .message = "could not x: y"};
        memcpy(err.sqlstate, errors[i].sqlstate, strlen(errors[i].sqlstate));
        assert_false(library_error(&told, &err));
        assert_int_equal(told.code, errors[i].code);
        assert_string_equal(told.sqlstate, errors[i].sqlstate);
        assert_string_equal(told.message, err.message);
        assert_false(library_error(NULL, &err));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_a_newer_header),
        cmocka_unit_test(test_of_an_older_header),
        cmocka_unit_test(test_nothing_of_the_caller_s_is_kept),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
