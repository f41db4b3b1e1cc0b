/* SPDX-License-Identifier: PostgreSQL */
/* The ledger's rows as the poll reads them: what a duty is (its definition) and what is noted of
 * it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "observe/config.h"
#include "observe/snapshot.h"
#include "pg/batch.h"

struct ledger_row; /* columns of observe/sql/ledger.sql */

struct ledger_rows {
    struct ledger_row *rows; /* by duty */
    size_t n;
};

/* Decodes into the arena. */
bool ledger_decode(const struct pg_answer *answer, struct arena *arena, struct ledger_rows *ret,
                   struct error *err) MUSTCHECK;

/* The registry's definitions, copied whole into the arena: *ret_n of them, sorted by name. */
struct config_duty *ledger_definitions(const struct ledger_rows *rows, struct arena *arena,
                                       size_t *ret_n);

/* Fills term, previous, run, last_run and yields of the duty from its row, if it has one; strings
 * are copied into the arena. */
void ledger_fill(const struct ledger_rows *rows, struct duty *duty, struct arena *arena);

/* Pids of open terms, for the sessions that the next reading must include: "{12,345}"; into the
 * arena. */
const char *ledger_open_pids(const struct ledger_rows *rows, struct arena *arena);
