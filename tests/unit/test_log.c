/* SPDX-License-Identifier: PostgreSQL */
/* Log lines: one a write, as logfmt or JSON, whatever the strings hold. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/memory.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int saved_stderr = -1, captured = -1;

static void capture(void)
{
    char path[] = "/tmp/pgleader-log-XXXXXX";
    captured = mkstemp(path);
    assert_true(captured >= 0);
    assert_int_equal(unlink(path), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(dup2(captured, STDERR_FILENO) >= 0);
}

/* What was written since capture(); the caller frees it. */
static char *release(void)
{
    assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
    (void)close(saved_stderr);
    off_t size = lseek(captured, 0, SEEK_END);
    char *text = xcalloc((size_t)size + 1, 1);
    assert_int_equal(pread(captured, text, (size_t)size, 0), size);
    (void)close(captured);
    return text;
}

/* What follows the time, which is "ts=2025-01-01T00:00:00.000Z ". */
static const char *after_time(const char *line)
{
    assert_memory_equal(line, "ts=2", 4);
    assert_memory_equal(line + strlen("ts=2025-01-01T00:00:00.000"), "Z ", 2);
    assert_int_equal(line[strlen("ts=2025-01-01")], 'T');
    return line + strlen("ts=2025-01-01T00:00:00.000Z ");
}

static void test_logfmt(void **state)
{
    static const struct {
        const char *message, *key, *value, *expected;
    } rows[] = {
        {"connected", "server", "prod", "level=info msg=connected server=prod\n"},
        {"is connected", "server", "a b", "level=info msg=\"is connected\" server=\"a b\"\n"},
        {"m", "k", "", "level=info msg=m\n"},
        {"m", "k", NULL, "level=info msg=m\n"},
        {"m", "k", "a=b", "level=info msg=m k=\"a=b\"\n"},
        {"m", "k", "say \"x\"", "level=info msg=m k=\"say \\\"x\\\"\"\n"},
        {"m", "k", "a\\b", "level=info msg=m k=\"a\\\\b\"\n"},
        {"m", "k", "a\nlevel=error", "level=info msg=m k=\"a\\nlevel=error\"\n"},
        {"m", "k", "\r\t\x1b[31m", "level=info msg=m k=\"\\u000d\\u0009\\u001b[31m\"\n"},
        {"m", "k", "\x7F", "level=info msg=m k=\"\\u007f\"\n"},
        {"m", "k", "\xC3\xA4", "level=info msg=m k=\"\xC3\xA4\"\n"},
        {"m", "k", "a\xFF", "level=info msg=m k=\"a\xEF\xBF\xBD\"\n"},
        {"m", "k", "\xE2\x82", "level=info msg=m k=\"\xEF\xBF\xBD\xEF\xBF\xBD\"\n"},
    };
    (void)state;
    log_configure(LOG_INFO, LOG_FORMAT_LOGFMT);
    for (size_t i = 0; i < COUNT(rows); i++) {
        capture();
        log_write(LOG_INFO, rows[i].message, rows[i].key, rows[i].value, NULL);
        char *line = release();
        assert_string_equal(after_time(line), rows[i].expected);
        free(line);
    }
}

/* Each line is one JSON object, whatever the strings hold. */
static void test_json(void **state)
{
    static const struct {
        const char *value, *expected;
    } rows[] = {
        {"plain", "plain"},
        {"say \"x\"", "say \\\"x\\\""},
        {"a\\b", "a\\\\b"},
        {"a\nb", "a\\nb"},
        {"\x01\x1f\x7f\b\f\r\t", "\\u0001\\u001f\\u007f\\u0008\\u000c\\u000d\\u0009"},
        {"\xC3\xA4\xF0\x9F\x98\x80/", "\xC3\xA4\xF0\x9F\x98\x80/"},
        {"a\xFFz\xC0\x80", "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    (void)state;
    log_configure(LOG_INFO, LOG_FORMAT_JSON);
    for (size_t i = 0; i < COUNT(rows); i++) {
        capture();
        log_write(LOG_WARN, rows[i].value, "key", rows[i].value, "none", NULL, "empty", "", NULL);
        char *line = release();
        char *expected = xasprintf(",\"level\":\"warn\",\"msg\":\"%s\",\"key\":\"%s\"}\n",
                                   rows[i].expected, rows[i].expected);
        assert_memory_equal(line, "{\"ts\":\"2", 8);
        assert_string_equal(line + strlen("{\"ts\":\"2025-01-01T00:00:00.000Z\""), expected);
        free(expected);
        free(line);
    }
}

static void test_levels(void **state)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    (void)state;
    for (int threshold = LOG_DEBUG; threshold <= LOG_ERROR; threshold++) {
        for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
            log_configure((enum log_level)threshold, LOG_FORMAT_LOGFMT);
            capture();
            log_write((enum log_level)level, "m", NULL);
            char *line = release(), *expected = xasprintf("level=%s msg=m\n", names[level]);
            if (level < threshold)
                assert_string_equal(line, "");
            else
                assert_string_equal(after_time(line), expected);
            free(expected);
            free(line);
        }
    }
}

static void test_names(void **state)
{
    enum log_level level = LOG_ERROR;
    enum log_format format = LOG_FORMAT_LOGFMT;
    (void)state;
    assert_true(log_level_parse("debug", &level) && level == LOG_DEBUG);
    assert_true(log_level_parse("info", &level) && level == LOG_INFO);
    assert_true(log_level_parse("warn", &level) && level == LOG_WARN);
    assert_true(log_level_parse("error", &level) && level == LOG_ERROR);
    assert_false(log_level_parse("Info", &level) || log_level_parse("", &level) ||
                 log_level_parse("warning", &level));
    assert_true(log_format_parse("json", &format) && format == LOG_FORMAT_JSON);
    assert_true(log_format_parse("logfmt", &format) && format == LOG_FORMAT_LOGFMT);
    assert_false(log_format_parse("text", &format) || log_format_parse("", &format));
}

static void *write_many(void *argument)
{
    for (int i = 0; i < 200; i++)
        log_write(LOG_INFO, "m", "who", (const char *)argument, "more", "0123456789", NULL);
    return NULL;
}

/* Lines of several threads are never mixed: one write each, to a file opened for appending. */
static void test_threads(void **state)
{
    static const char *const who[] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    (void)state;
    log_configure(LOG_INFO, LOG_FORMAT_LOGFMT);
    capture();
    assert_int_equal(fcntl(captured, F_SETFL, O_APPEND), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)who[i]), 0);
    for (size_t i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    char *text = release(), *rest = text, *line = NULL;
    size_t n = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        const char *said = after_time(line);
        assert_memory_equal(said, "level=info msg=m who=", 21);
        assert_string_equal(said + 22, " more=0123456789");
        n++;
    }
    assert_int_equal(n, 800);
    free(text);
}

/* A full pipe: nothing waits, and the next line that finds room tells of those that did not. */
static void test_nobody_reads(void **state)
{
    int ends[2], saved = dup(STDERR_FILENO);
    char text[1 << 16];
    (void)state;
    log_configure(LOG_INFO, LOG_FORMAT_LOGFMT);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    for (int i = 0; i < 5000; i++)
        log_write(LOG_INFO, "0123456789012345678901234567890123456789", NULL);
    assert_true(read(ends[0], text, sizeof text) > 4096);
    log_write(LOG_INFO, "heard", NULL);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    ssize_t size = 0, got = 0;
    while ((got = read(ends[0], text, sizeof text - 1)) > 0)
        size = got;
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    text[size] = '\0';
    const char *heard = strstr(text, "msg=heard lost_lines=");
    assert_non_null(heard);
    assert_true(strtol(heard + strlen("msg=heard lost_lines="), NULL, 10) > 1000);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logfmt),  cmocka_unit_test(test_json),
        cmocka_unit_test(test_levels),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
