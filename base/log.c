/* SPDX-License-Identifier: PostgreSQL */
/* logfmt and JSON lines. */
#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

static enum log_level log_threshold = LOG_INFO;
static enum log_format log_style = LOG_FORMAT_LOGFMT;

static atomic_uint lost_lines;

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"logfmt", "json"};

static bool find_name(const char *name, const char *const *names, int n, int *ret_index)
{
    for (int i = 0; i < n; i++) {
        if (text_equal(name, names[i])) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

bool log_level_parse(const char *name, enum log_level *ret_level)
{
    int index = 0;
    if (!find_name(name, level_names, 4, &index))
        return false;
    *ret_level = (enum log_level)index;
    return true;
}

bool log_format_parse(const char *name, enum log_format *ret_format)
{
    int index = 0;
    if (!find_name(name, format_names, 2, &index))
        return false;
    *ret_format = (enum log_format)index;
    return true;
}

void log_configure(enum log_level level, enum log_format format)
{
    log_threshold = level;
    log_style = format;
}

static bool needs_quotes(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text == '"' || *text == '=' || *text == '\\' || *text == 0x7F)
            return true;
    }
    return false;
}

static void write_pair(FILE *out, const char *key, const char *value, bool first)
{
    bool json = log_style == LOG_FORMAT_JSON;
    bool quote = json || needs_quotes(value);
    if (!first)
        (void)putc(json ? ',' : ' ', out);
    (void)fprintf(out, json ? "\"%s\":" : "%s=", key);
    if (quote)
        (void)putc('"', out);
    text_json_escape(out, value);
    if (quote)
        (void)putc('"', out);
}

static void format_time(char *out, size_t size)
{
    int64_t now = clock_realtime_us();
    time_t seconds = (time_t)(now / SECOND_US);
    struct tm parts;
    (void)gmtime_r(&seconds, &parts);
    size_t used = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + used, size - used, ".%03dZ", (int)(now % SECOND_US / 1000));
}

/* A pipe that nobody reads or a stopped terminal must not stop the program: a line up to PIPE_BUF
 * does not block where poll(2) finds room. */
static bool has_room(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&fd, 1, 0) != 0; /* errors are write(2)'s */
}

/* How many lines were lost before this one, as a text; "" for none. */
static void take_lost(char *out, size_t size)
{
    unsigned lost = atomic_exchange(&lost_lines, 0);
    *out = '\0';
    if (lost)
        (void)snprintf(out, size, "%u", lost);
}

void log_write(enum log_level level, const char *message, ...)
{
    char lost[16];
    if (level < log_threshold)
        return;
    if (!has_room()) {
        (void)atomic_fetch_add(&lost_lines, 1);
        return;
    }
    take_lost(lost, sizeof lost);
    CLEANUP(free_charp) char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (!out)
        return;
    char time[40];
    format_time(time, sizeof time);
    if (log_style == LOG_FORMAT_JSON)
        (void)putc('{', out);
    write_pair(out, "ts", time, true);
    write_pair(out, "level", level_names[level], false);
    write_pair(out, "msg", message, false);
    va_list args;
    va_start(args, message);
    for (const char *key = NULL; (key = va_arg(args, const char *));) {
        const char *value = va_arg(args, const char *);
        if (value && *value)
            write_pair(out, key, value, false);
    }
    va_end(args);
    if (*lost)
        write_pair(out, "lost_lines", lost, false);
    (void)fputs(log_style == LOG_FORMAT_JSON ? "}\n" : "\n", out);
    if (fclose(out) == 0)
        (void)!write(STDERR_FILENO, line, size);
}
