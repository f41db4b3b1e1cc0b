/* SPDX-License-Identifier: PostgreSQL */
/* The arena over obstack(3). */
#include "base/arena.h"

#include <limits.h>
#include <obstack.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define obstack_chunk_alloc xmalloc
#define obstack_chunk_free free

/* Chunks grow with what is in them up to this size, from where on malloc(3) gives them back to the
 * system one by one. */
enum { CHUNK_MOST = 512 * 1024 };

/* An arena that another one points into. */
struct kept {
    struct arena *arena;
    struct kept *next;
};

struct arena {
    struct obstack stack;
    atomic_int owners;
    struct kept *kept; /* in the stack */
};

struct arena *arena_new(void)
{
    struct arena *arena = xmalloc(sizeof *arena);
    obstack_init(&arena->stack);
    atomic_init(&arena->owners, 1);
    arena->kept = NULL;
    return arena;
}

struct arena *arena_share(struct arena *arena)
{
    atomic_fetch_add(&arena->owners, 1);
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena || atomic_fetch_sub(&arena->owners, 1) != 1)
        return;
    for (const struct kept *kept = arena->kept; kept; kept = kept->next)
        arena_free(kept->arena);
    obstack_free(&arena->stack, NULL);
    free(arena);
}

void arena_keep(struct arena *arena, struct arena *other)
{
    struct kept *kept = arena_alloc(arena, sizeof *kept);
    *kept = (struct kept){.arena = arena_share(other), .next = arena->kept};
    arena->kept = kept;
}

/* obstack(3) aligns by arithmetic on a null pointer, to which clang's sanitizer objects. */
__attribute__((no_sanitize("pointer-overflow"))) void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > INT_MAX / 2)
        abort(); /* obstack(3) counts in int */
    if ((size_t)obstack_room(&arena->stack) < size &&
        obstack_chunk_size(&arena->stack) < CHUNK_MOST)
        obstack_chunk_size(&arena->stack) *= 2;
    void *p = obstack_alloc(&arena->stack, size ? size : 1);
    return memset(p, 0, size);
}

void *arena_array(struct arena *arena, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / 2 / size)
        abort();
    return arena_alloc(arena, n * size);
}

void *arena_copy(struct arena *arena, const void *from, size_t size)
{
    return memcpy(arena_alloc(arena, size), from, size);
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

const char *arena_strdup_again(struct arena *arena, struct arena_echo *echo, const char *text)
{
    if (text != echo->text)
        *echo = (struct arena_echo){.text = text, .copy = arena_strdup(arena, text)};
    return echo->copy;
}

char *arena_strndup(struct arena *arena, const char *text, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);
    return memcpy(copy, text, size);
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    CLEANUP(free_charp) char *text = xvasprintf(format, args);
    va_end(args);
    return arena_strndup(arena, text, strlen(text));
}
