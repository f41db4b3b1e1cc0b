/* SPDX-License-Identifier: PostgreSQL */
/* Allocation that aborts when there is none. */
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static void *or_abort(void *p)
{
    if (!p) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return or_abort(malloc(size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
    return or_abort(calloc(n ? n : 1, size ? size : 1));
}

void *xreallocarray(void *old, size_t n, size_t size)
{
    return or_abort(reallocarray(old, n ? n : 1, size));
}

char *xstrdup(const char *text)
{
    return or_abort(strdup(text));
}

char *xasprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    return text;
}

char *xvasprintf(const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    return or_abort(text);
}
