/* SPDX-License-Identifier: PostgreSQL */
/* Decodes what the sections say of the ledger. */
#include "tui/ledger_facts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql.h"
#include "tui/ledger.h"

static const int64_t timeout_us = 5 * SECOND_US;

static const struct pg_column file_columns[] = {
    {"version", PG_INT4, offsetof(struct ledger_file, version)},
    {"file", PG_TEXT, offsetof(struct ledger_file, file)},
    {"installed_at", PG_TIME, offsetof(struct ledger_file, installed_at_us)},
    {"installed_by", PG_TEXT, offsetof(struct ledger_file, installed_by)},
    {0},
};

static const struct pg_column missing_columns[] = {
    {"what", PG_TEXT, offsetof(struct ledger_missing, what)},
    {"loss", PG_TEXT, offsetof(struct ledger_missing, loss)},
    {"statement", PG_TEXT, offsetof(struct ledger_missing, statement)},
    {0},
};

static struct pg_section section(const char *name, const char *query)
{
    return (struct pg_section){
        .name = name,
        .query = query,
        .lock_timeout_us = SECOND_US,
        .statement_timeout_us = timeout_us,
    };
}

void ledger_sections(struct pg_section out[LEDGER_SECTIONS])
{
    out[0] = section("ledger", sql_ledger_files);
    out[1] = section("rights", sql_ledger_rights);
    out[2] = registry_section();
}

static bool is_absent(const struct error *err)
{
    return strcmp(err->sqlstate, "42P01") == 0 || strcmp(err->sqlstate, "3F000") == 0;
}

void ledger_take(const struct pg_batch *batch, size_t first, struct arena *arena,
                 struct ledger_facts *ret_facts)
{
    struct ledger_facts facts = {0};
    const struct pg_outcome *files = pg_batch_outcome(batch, first);
    const struct pg_outcome *rights = pg_batch_outcome(batch, first + 1);
    void *rows = NULL;
    registry_take(pg_batch_outcome(batch, first + 2), arena, &facts.registry);
    facts.error = facts.registry.installed ? facts.registry.error : (struct error){0};
    if (!files->rows) {
        facts.version = is_absent(&files->error) ? 0 : -1;
        if (facts.version < 0)
            facts.error = files->error;
    } else if (pg_answer_decode(files->rows, file_columns, sizeof(struct ledger_file), arena, &rows,
                                &facts.n_files, &facts.error)) {
        facts.files = rows;
        facts.version = facts.n_files ? facts.files[facts.n_files - 1].version : 0;
    }
    if (!rights->rows && !is_absent(&rights->error))
        facts.error = rights->error;
    if (rights->rows &&
        pg_answer_decode(rights->rows, missing_columns, sizeof(struct ledger_missing), arena, &rows,
                         &facts.n_missing, &facts.error))
        facts.missing = rows;
    *ret_facts = facts;
}

int32_t ledger_program_version(void)
{
    int32_t newest = 0;
    for (const struct embedded_file *file = ledger_files; file->name; file++) {
        if (isdigit((unsigned char)file->name[0]))
            newest = (int32_t)strtol(file->name, NULL, 10);
    }
    return newest;
}
