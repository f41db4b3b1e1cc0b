/* SPDX-License-Identifier: PostgreSQL */
/* Memory that is allocated piece by piece and freed at once: an obstack of libc behind a short
 * name. */
#pragma once

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
struct arena *arena_share(struct arena *arena); /* one more owner, whose thread may be another */
void arena_free(struct arena *arena); /* with its last owner the memory goes; NULL is fine */

/* The other lives at least as long as this one, which points into it. */
void arena_keep(struct arena *arena, struct arena *other);

/* Zeroed memory, aligned for any type; lives until arena_free. Aborts when there is none. */
void *arena_alloc(struct arena *arena, size_t size) __attribute__((returns_nonnull));
void *arena_array(struct arena *arena, size_t n, size_t size) __attribute__((returns_nonnull));

/* Copies into the arena, the first byte for byte; arena_strdup(NULL) is NULL. */
void *arena_copy(struct arena *arena, const void *from, size_t size)
    __attribute__((returns_nonnull));
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t size)
    __attribute__((returns_nonnull));
/* A copy that serves again while the same text, by its address, comes again. */
struct arena_echo {
    const char *text, *copy;
};
const char *arena_strdup_again(struct arena *arena, struct arena_echo *echo, const char *text);

char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));
