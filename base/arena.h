/* SPDX-License-Identifier: PostgreSQL */
/* Memory that is allocated piece by piece and freed at once: an obstack of libc behind a short
 * name. */
#pragma once

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *arena); /* NULL is fine */

/* Zeroed memory, aligned for any type; lives until arena_free. Aborts when there is none. */
void *arena_alloc(struct arena *arena, size_t size) __attribute__((returns_nonnull));
void *arena_array(struct arena *arena, size_t n, size_t size) __attribute__((returns_nonnull));

/* Copies into the arena; arena_strdup(NULL) is NULL. */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t size)
    __attribute__((returns_nonnull));
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));
