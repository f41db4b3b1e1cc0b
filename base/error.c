/* SPDX-License-Identifier: PostgreSQL */
/* Fills struct error and struct problems. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static void format_into(char *out, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Cuts an incomplete UTF-8 character off the end of a string that filled its buffer. */
static void cut_at_character(char *out, size_t size)
{
    size_t end = size - 1;
    size_t start = end;
    while (start > 0 && ((unsigned char)out[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)out[start - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (end - (start - 1) < want)
        out[start - 1] = '\0';
}

static void format_into(char *out, size_t size, const char *format, va_list args)
{
    int wanted = vsnprintf(out, size, format, args);
    if (wanted >= (int)size)
        cut_at_character(out, size);
}

bool error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
    if (!err)
        return false;
    struct error set = {.kind = kind}; /* the arguments may be parts of *err */
    va_list args;
    va_start(args, format);
    format_into(set.message, sizeof set.message, format, args);
    va_end(args);
    *err = set;
    return false;
}

bool error_set_errno(struct error *err, int errnum, const char *format, ...)
{
    if (!err)
        return false;
    char what[sizeof err->message];
    va_list args;
    va_start(args, format);
    format_into(what, sizeof what, format, args);
    va_end(args);
    char buffer[128];
    return error_set(err, ERROR_SYSTEM, "%s: %s", what, strerror_r(errnum, buffer, sizeof buffer));
}

void error_hint(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    format_into(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

const char *error_kind_name(enum error_kind kind)
{
    static const char *const names[] = {
        [ERROR_NONE] = "none",       [ERROR_USAGE] = "usage",     [ERROR_CONFIG] = "config",
        [ERROR_SYSTEM] = "system",   [ERROR_CONNECT] = "connect", [ERROR_QUERY] = "query",
        [ERROR_TIMEOUT] = "timeout",
    };
    return names[kind];
}

void problems_add(struct problems *problems, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *item = xvasprintf(format, args);
    va_end(args);
    problems->items = xreallocarray(problems->items, problems->n + 1, sizeof *problems->items);
    problems->items[problems->n++] = item;
}

void problems_done(struct problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        free(problems->items[i]);
    free(problems->items);
    *problems = (struct problems){0};
}
