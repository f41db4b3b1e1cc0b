/* SPDX-License-Identifier: PostgreSQL */
/* The arena over obstack(3). */
#include "base/arena.h"

#include <limits.h>
#include <obstack.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define obstack_chunk_alloc xmalloc
#define obstack_chunk_free free

/* Chunks grow with what is in them up to this size, from where on malloc(3) gives them back to the
 * system one by one. */
enum { CHUNK_MOST = 512 * 1024 };

struct arena {
    struct obstack stack;
};

struct arena *arena_new(void)
{
    struct arena *arena = xmalloc(sizeof *arena);
    obstack_init(&arena->stack);
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    obstack_free(&arena->stack, NULL);
    free(arena);
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

char *arena_strdup(struct arena *arena, const char *text)
{
    return text ? arena_strndup(arena, text, strlen(text)) : NULL;
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
