/* SPDX-License-Identifier: PostgreSQL */
/* The cache of answers: rendered once a picture, judged at each scrape, and gzip that is one sound
 * member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/memory.h"
#include "exporter/exposition.h"
#include "exporter/metrics.h"
#include "tests/support/exposition_syntax.h"
#include "tests/support/picture_builder.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Publishes n led duties as of now; the server is fresh for that long. */
static void publish(struct board *board, const char *name, size_t n, int64_t fresh_for_us)
{
    struct snapshot *snapshot = build_snapshot(n);
    for (size_t i = 0; i < n; i++) {
        static char names[8][16];
        (void)snprintf(names[i % 8], sizeof names[0], "jobs/%zu", i % 8);
        build_duty(&snapshot->duties[i], names[i % 8], (int64_t)i);
        build_owner(&snapshot->duties[i], 4000 + (int32_t)i, "worker", MINUTE_US);
    }
    struct published *published = build_published(name, snapshot);
    published->success_monotonic_us = clock_monotonic_us();
    published->fresh_for_us = fresh_for_us;
    board_publish(board, published);
}

static struct board *board_of(size_t n_servers)
{
    static const struct config_server servers[] = {{.name = "a"}, {.name = "b"}};
    struct board *board = board_new();
    board_set_servers(board, &(struct config){.servers = servers, .n_servers = n_servers});
    return board;
}

static bool contains(const struct body *body, const char *text)
{
    return memmem(body->data, body->size, text, strlen(text)) != NULL;
}

/* Inflates exactly one gzip member; fails if anything follows it. */
static char *gunzip(const struct body *body, size_t *ret_size)
{
    z_stream z = {.next_in = (Bytef *)body->data, .avail_in = (uInt)body->size};
    size_t capacity = 64 * body->size + 4096;
    char *text = xmalloc(capacity);
    z.next_out = (Bytef *)text;
    z.avail_out = (uInt)capacity;
    assert_int_equal(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END); /* checks CRC and length */
    assert_int_equal(z.avail_in, 0);
    *ret_size = capacity - z.avail_out;
    assert_int_equal(inflateEnd(&z), Z_OK);
    return text;
}

/* Waits without sleeping blindly: until the body has the text, and no longer than 5 s. */
static struct body *get_until(struct exposition *exposition, const char *text)
{
    int64_t deadline_us = clock_monotonic_us() + 5 * SECOND_US;
    for (;;) {
        struct body *body = exposition_get(exposition, NULL, FORMAT_TEXT, false);
        if (contains(body, text))
            return body;
        body_unref(body);
        if (clock_monotonic_us() > deadline_us)
            fail_msg("after 5 s still no %s", text);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void test_complete(void **state)
{
    (void)state;
    struct board *board = board_of(2);
    struct exposition *exposition = exposition_new(board);
    publish(board, "a", 3, HOUR_US);
    for (int format = 0; format < FORMAT_COUNT; format++) {
        struct body *body = exposition_get(exposition, NULL, (enum exposition_format)format, false);
        assert_true(contains(body, "pgleader_up{server=\"a\"} 1\npgleader_up{server=\"b\"} 0\n"));
        assert_true(contains(body, "pgleader_leader_held{server=\"a\",duty=\"jobs/2\"} 1\n"));
        assert_true(contains(body, "\nprocess_open_fds "));
        assert_int_equal(contains(body, "\n# EOF\n"), format == FORMAT_OPENMETRICS);
        char *text = strndup(body->data, body->size);
        assert_null(exposition_bad_line(text, body->size));
        free(text);
        body_unref(body);
    }
    exposition_free(exposition);
    board_free(board);
}

/* Two scrapes within a tenth of a second share one body. A slow machine may need several tries. */
static struct body *get_shared(struct exposition *exposition, bool gzip)
{
    int64_t deadline_us = clock_monotonic_us() + 5 * SECOND_US;
    for (;;) {
        struct body *first = exposition_get(exposition, NULL, FORMAT_TEXT, gzip);
        struct body *second = exposition_get(exposition, NULL, FORMAT_TEXT, gzip);
        body_unref(second);
        if (first == second)
            return first;
        body_unref(first);
        if (clock_monotonic_us() > deadline_us)
            fail_msg("after 5 s no two scrapes shared a body");
    }
}

/* Scrapes of one picture share one body; a new picture makes another, and the old one stays
 * sound for whoever is still sending it. */
static void test_shared(void **state)
{
    (void)state;
    struct board *board = board_of(1);
    struct exposition *exposition = exposition_new(board);
    publish(board, "a", 1, HOUR_US);
    for (int gzip = 0; gzip < 2; gzip++) {
        struct body *first = get_shared(exposition, gzip);
        char *copy = memcpy(xmalloc(first->size), first->data, first->size);
        publish(board, "a", 2, HOUR_US);
        struct body *third = exposition_get(exposition, NULL, FORMAT_TEXT, gzip);
        assert_ptr_not_equal(first, third);
        assert_int_equal(atomic_load(&first->references), 1); /* ours: the cache let it go */
        assert_memory_equal(first->data, copy, first->size);
        free(copy);
        body_unref(first);
        body_unref(third);
    }
    exposition_free(exposition);
    board_free(board);
}

/* A poller that has stopped publishes nothing: the scrape alone finds out that the truth is old. */
static void test_judged_at_the_scrape(void **state)
{
    (void)state;
    struct board *board = board_of(1);
    struct exposition *exposition = exposition_new(board);
    publish(board, "a", 1, 200000);
    struct body *body = exposition_get(exposition, NULL, FORMAT_TEXT, false);
    assert_true(contains(body, "pgleader_up{server=\"a\"} 1\n"));
    body_unref(body);
    body = get_until(exposition, "pgleader_up{server=\"a\"} 0\n");
    assert_false(contains(body, "duty=\"jobs/0\""));
    body_unref(body);
    exposition_free(exposition);
    board_free(board);
}

static void test_reload_shows_at_once(void **state)
{
    (void)state;
    static const struct {
        bool ok;
        int64_t at_us;
        const char *expected;
    } rows[] = {
        {true, 5000000, "reload_successful 1\n"},
        {true, 5000000, "reload_timestamp_seconds 5\n"},
        {false, 7000000, "reload_successful 0\n"},
        {false, 7000000, "reload_timestamp_seconds 5\n"},
    };
    struct board *board = board_of(1);
    struct exposition *exposition = exposition_new(board);
    for (size_t i = 0; i < COUNT(rows); i++) {
        board_set_reload(board, rows[i].ok, rows[i].at_us);
        struct body *body = exposition_get(exposition, NULL, FORMAT_TEXT, false);
        assert_true(contains(body, rows[i].expected));
        body_unref(body);
    }
    exposition_free(exposition);
    board_free(board);
}

static void test_target(void **state)
{
    (void)state;
    struct board *board = board_of(2);
    struct exposition *exposition = exposition_new(board);
    publish(board, "a", 1, HOUR_US);
    publish(board, "b", 1, HOUR_US);
    assert_null(exposition_get(exposition, "c", FORMAT_TEXT, false));
    assert_null(exposition_get(exposition, "", FORMAT_TEXT, true));
    struct body *body = exposition_get(exposition, "b", FORMAT_TEXT, false);
    assert_true(contains(body, "pgleader_up{server=\"b\"} 1\n"));
    assert_false(contains(body, "server=\"a\""));
    publish(board, "a", 2, HOUR_US); /* is not b's business */
    struct body *again = exposition_get(exposition, "b", FORMAT_TEXT, false);
    assert_memory_equal(body->data, again->data, 1000);
    body_unref(body);
    body_unref(again);
    board_set_servers(board, &(struct config){.n_servers = 0});
    assert_null(exposition_get(exposition, "b", FORMAT_TEXT, false));
    exposition_free(exposition);
    board_free(board);
}

/* For sizes from a few lines to several deflate blocks, and again with a newer tail. */
static void test_gzip(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 8, 700, 5000};
    struct board *board = board_of(1);
    struct exposition *exposition = exposition_new(board);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        publish(board, "a", sizes[i], HOUR_US);
        for (int round = 0; round < 3; round++) {
            board_set_reload(board, true, (round + 1) * SECOND_US); /* makes another tail */
            struct body *plain = exposition_get(exposition, NULL, FORMAT_OPENMETRICS, false);
            struct body *body = exposition_get(exposition, NULL, FORMAT_OPENMETRICS, true);
            size_t size = 0;
            char *text = gunzip(body, &size);
            const char *tail = memmem(text, size, "process_cpu_seconds_total", 25);
            assert_non_null(tail);
            assert_memory_equal(text, plain->data, (size_t)(tail - text));
            assert_memory_equal(text + size - 7, "\n# EOF\n", 7);
            free(text);
            body_unref(plain);
            body_unref(body);
        }
    }
    exposition_free(exposition);
    board_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_judged_at_the_scrape),
        cmocka_unit_test(test_reload_shows_at_once),
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_gzip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
