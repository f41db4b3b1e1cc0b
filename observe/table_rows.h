/* SPDX-License-Identifier: PostgreSQL */
/* Tables that are not ours: lease rows, and progress that an application keeps for itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "observe/config.h"
#include "observe/snapshot.h"
#include "pg/batch.h"

struct lease_row {
    const char *row;
    const char *holder;
    int64_t expires_us;
    int64_t acquired_us; /* TIME_UNKNOWN where the table has none */
    int64_t generation;  /* -1 where the table has none */
};

struct lease_rows {
    struct lease_row *rows; /* by row */
    size_t n;
};

/* A table's name as the registry writes it: with its schema, which is public where none is given,
 * in lower case and unquoted where that is the same. What is no name comes back as it is. */
const char *table_canonical(const char *name, struct arena *arena);

/* The query that reads lease rows of a table, with $1 text[] of their keys. Leases of one table and
 * the same columns give the same text. ERROR_CONFIG if a name is no identifier. */
const char *lease_query(const struct config_lease *lease, struct arena *arena, struct error *err);

bool lease_decode(const struct pg_answer *answer, struct arena *arena, struct lease_rows *ret,
                  struct error *err) MUSTCHECK;

/* Sets authority of a lease duty from its row: held while it expires after the clock. */
void lease_fill(const struct lease_rows *rows, const char *row, int64_t clock_us, struct duty *duty,
                struct arena *arena);

/* The query that reads an application's own cursor; ERROR_CONFIG as above. */
const char *progress_query(const struct config_progress *progress, struct arena *arena,
                           struct error *err);

/* Sets duty->run from it, unless the ledger has a run. More than one row is an error: which is the
 * cursor? */
bool progress_fill(const struct pg_answer *answer, struct duty *duty, struct arena *arena,
                   struct error *err) MUSTCHECK;

/* '{"a","b"}' from n strings, as PostgreSQL reads arrays. */
const char *text_array(const char *const *items, size_t n, struct arena *arena);
