/* SPDX-License-Identifier: PostgreSQL */
/* What is installed of the ledger in one database, and what it lacks. */
#pragma once

#include "base/arena.h"
#include "pg/batch.h"
#include "tui/registry.h"

struct ledger_file {
    int32_t version;
    const char *file, *installed_by;
    int64_t installed_at_us;
};

struct ledger_missing {
    const char *what, *loss, *statement;
};

struct ledger_facts {
    struct ledger_file *files; /* by version */
    size_t n_files;
    int32_t version; /* 0: no ledger; -1: not readable */
    struct ledger_missing *missing;
    size_t n_missing;
    struct registry registry;
    struct error error; /* where something could not be read */
};

enum { LEDGER_SECTIONS = 3 };

/* The sections to ask, and what comes of them; strings go into the arena. */
void ledger_sections(struct pg_section out[LEDGER_SECTIONS]);
void ledger_take(const struct pg_batch *batch, size_t first, struct arena *arena,
                 struct ledger_facts *ret_facts);

/* The version that this program brings. */
int32_t ledger_program_version(void);
