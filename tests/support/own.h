/* SPDX-License-Identifier: PostgreSQL */
/* Parts of a duty that pictures share or keep elsewhere, as its own in an arena, to be written by a
 * test. */
#pragma once

#include "base/arena.h"
#include "observe/snapshot.h"

/* Where there is no picture's: a group's, by its setup and teardown. */
extern struct arena *own_memory;
int own_memory_make(void **state);
int own_memory_free(void **state);

static inline struct term *own_term(struct arena *arena, const struct term **part)
{
    struct term *own = arena_copy(arena, *part, sizeof *own);
    *part = own;
    return own;
}

static inline struct run *own_run(struct arena *arena, const struct run **part)
{
    struct run *own = arena_copy(arena, *part, sizeof *own);
    *part = own;
    return own;
}

static inline struct thresholds *own_limits(struct arena *arena, struct duty *duty)
{
    struct thresholds *own = arena_copy(arena, duty->limits, sizeof *own);
    duty->limits = own;
    return own;
}

static inline int64_t *own_yields(struct arena *arena, struct duty *duty)
{
    int64_t *own = arena_copy(arena, duty->yields, YIELD_OUTCOMES * sizeof *own);
    duty->yields = own;
    return own;
}
