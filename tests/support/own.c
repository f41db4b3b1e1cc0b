/* SPDX-License-Identifier: PostgreSQL */
/* An arena for a group of tests. */
#include "tests/support/own.h"

struct arena *own_memory;

int own_memory_make(void **state)
{
    (void)state;
    own_memory = arena_new();
    return 0;
}

int own_memory_free(void **state)
{
    (void)state;
    arena_free(own_memory);
    return 0;
}
