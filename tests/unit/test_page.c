/* SPDX-License-Identifier: PostgreSQL */
/* The page of `/`: what it shows, what it does not know, and that nothing becomes markup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/text.h"
#include "exporter/page.h"
#include "exporter/page_text.h"
#include "tests/support/golden.h"
#include "tests/support/picture_builder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static char *render(const struct picture *picture)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    page_render(picture, "/metrics", out);
    (void)fclose(out);
    return text;
}

static void check_golden(const char *name, const char *text, size_t size)
{
    CLEANUP(free_charp) char *wrong = golden_difference(name, text, size);
    if (wrong)
        fail_msg("%s", wrong);
}

static void test_golden(void **state)
{
    (void)state;
    struct picture picture;
    build_example(&picture);
    char *text = render(&picture);
    check_golden("page.html", text, strlen(text));
    free(text);
    picture_done(&picture);
}

/* Nobody is shown a leader of a server that has not answered for a while, nor on a standby. */
static void test_unknown_is_not_old(void **state)
{
    (void)state;
    static const char *const shown[] = {"invoice-worker-7c9f", "28834112", "pid 4", ">led<"};
    struct picture picture;
    build_many(&picture, 1);
    for (int stale = 0; stale < 3; stale++) {
        picture.fresh[0] = stale != 1;
        picture.servers[0]->snapshot->facts.in_recovery = stale == 2;
        char *text = render(&picture);
        for (size_t i = 0; i < COUNT(shown); i++) {
            bool absent = stale == 1 || (stale == 2 && i != 1);
            if (absent != (strstr(text, shown[i]) == NULL))
                fail_msg("case %d: %s should %sbe shown", stale, shown[i], absent ? "not " : "");
        }
        assert_non_null(strstr(text, "jobs/invoice-reconcile-00000"));
        if (stale)
            assert_non_null(strstr(text, ">unknown<"));
        free(text);
    }
    picture_done(&picture);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        int64_t least_us, more_us;
        const char *expected;
    } rows[] = {
        {0, 0, "0 ms"},
        {350000, 0, "350 ms"},
        {12 * SECOND_US, 0, "12 s"},
        {5 * MINUTE_US, 0, "5 min"},
        {5 * MINUTE_US + 3 * SECOND_US, 400000, "5 min 3 s"},
        {3 * HOUR_US + 120 * SECOND_US, 0, "3 h 2 min"},
        {5 * DAY_US + 3 * HOUR_US + 59 * MINUTE_US, 0, "5 d 3 h"},
        {-1, 0, "unknown"},
        {TIME_UNKNOWN, -1, "unknown"},
        {90 * SECOND_US, -1, "at least 1 min 30 s"},
        {INT64_MAX, 1, "at least 106751991 d 4 h"},
        {SECOND_US, SECOND_US,
         "<span class=k>at least 1 s,</span> <span class=k>at most 2 s</span>"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        page_bounds(out, rows[i].least_us, rows[i].more_us);
        (void)fclose(out);
        assert_string_equal(text, rows[i].expected);
        free(text);
    }
}

static size_t count(const char *text, const char *wanted)
{
    size_t n = 0, length = strlen(wanted);
    for (size_t i = 0; text[i]; i++)
        n += strncmp(text + i, wanted, length) == 0;
    return n;
}

static void test_hostile(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<script>alert(1)</script>",
        "\" onload=\"x",
        "' x='",
        "</td></table>",
        "&lt;",
        "\xC3<b>",
        "\xFF",
    };
    struct picture harmless;
    build_hostile(&harmless, "x");
    char *expected = render(&harmless);
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct picture picture;
        build_hostile(&picture, texts[i]);
        char *text = render(&picture);
        assert_int_equal(count(text, "<"), count(expected, "<"));
        assert_int_equal(count(text, "\""), count(expected, "\""));
        for (size_t at = 0, size = strlen(text); at < size;) {
            size_t length = text_utf8_length(text + at, size - at);
            assert_true(length > 0);
            at += length;
        }
        free(text);
        picture_done(&picture);
    }
    free(expected);
    picture_done(&harmless);
}

/* A page that reloads itself stays small, and says what it leaves out; trouble comes first. */
static void test_many(void **state)
{
    (void)state;
    struct picture picture;
    build_many(&picture, 700);
    struct duty *last = &picture.servers[0]->snapshot->duties[699];
    last->owners = 0;
    last->state = DUTY_VACANT;
    char *text = render(&picture);
    assert_int_equal(count(text, "<span class=name>jobs/"), 500);
    const char *vacant = strstr(text, "jobs/invoice-reconcile-00699");
    assert_non_null(vacant);
    assert_true(vacant < strstr(text, "jobs/invoice-reconcile-00000"));
    assert_non_null(strstr(text, "200 more are in the metrics."));
    assert_non_null(strstr(text, "1 needs a look"));
    free(text);
    picture_done(&picture);
}

static void test_empty(void **state)
{
    (void)state;
    struct picture picture;
    struct published *server = build_published("db", NULL);
    build_picture(&picture, &server, 1);
    char *text = render(&picture);
    assert_non_null(strstr(text, "No duties are known."));
    assert_non_null(strstr(text, "none yet"));
    free(text);
    picture_done(&picture);
}

int main(int argc, char **argv)
{
    golden_begin(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),    cmocka_unit_test(test_unknown_is_not_old),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_many),      cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
