/* SPDX-License-Identifier: PostgreSQL */
/* A picture of one duty alone: which locks and which rows of the ledger decide what it shows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "observe/duties.h"

struct narrow {
    const struct lock_key *locks; /* what may be the duty's, as far as it is known */
    size_t n_locks;
    const char *keys;  /* int8[]: all numbers of those */
    const char *names; /* text[]: the duty's, its lease's row's, and what else may have the lock */
};

/* For config->only_duty; into the arena. */
struct narrow narrow_to(const struct config *config, const struct definitions *definitions,
                        struct arena *arena);

/* False where a reading of these locks says nothing of that key. */
bool narrow_has(const struct narrow *narrow, struct lock_key key);

/* The ledger's query, of the rows only that have one of the names ($1) or of the locks ($2); from
 * malloc. */
char *narrow_ledger_query(void);
