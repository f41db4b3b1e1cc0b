/* SPDX-License-Identifier: PostgreSQL */
/* Allocation for programs: each of these returns memory or aborts. Not for libpgleader, which lives
 * in someone else's process. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/cleanup.h"

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xreallocarray(void *old, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((malloc, returns_nonnull));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
