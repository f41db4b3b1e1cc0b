/* SPDX-License-Identifier: PostgreSQL */
/* Decodes the ledger's rows. */
#include "observe/ledger_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct ledger_row {
    const char *duty, *mechanism;
    int64_t lock_classid, lock_objid;
    int32_t lock_objsubid;
    int64_t next_lock_classid, next_lock_objid; /* -1: no other key is reserved */
    int32_t next_lock_objsubid;
    const char *lease_table, *lease_row, *candidate_pattern, *team, *runbook;
    struct thresholds limits;
    bool yieldable, yielding;
    struct term term, previous;
    struct run run, last_run;
    int64_t yields[YIELD_OUTCOMES];
};

#define FIELD(column, field, member)                                                               \
    {                                                                                              \
        column, field, offsetof(struct ledger_row, member)                                         \
    }

static const struct pg_column ledger_columns[] = {
    FIELD("duty", PG_TEXT, duty),
    FIELD("mechanism", PG_TEXT, mechanism),
    FIELD("lock_classid", PG_INT8, lock_classid),
    FIELD("lock_objid", PG_INT8, lock_objid),
    FIELD("lock_objsubid", PG_INT4, lock_objsubid),
    FIELD("next_lock_classid", PG_INT8, next_lock_classid),
    FIELD("next_lock_objid", PG_INT8, next_lock_objid),
    FIELD("next_lock_objsubid", PG_INT4, next_lock_objsubid),
    FIELD("lease_table", PG_TEXT, lease_table),
    FIELD("lease_row", PG_TEXT, lease_row),
    FIELD("candidate_pattern", PG_TEXT, candidate_pattern),
    FIELD("team", PG_TEXT, team),
    FIELD("runbook", PG_TEXT, runbook),
    FIELD("min_candidates", PG_INT4, limits.min_candidates),
    FIELD("stall_after_us", PG_INT8, limits.stall_after_us),
    FIELD("run_every_us", PG_INT8, limits.run_every_us),
    FIELD("takeover_slow_after_us", PG_INT8, limits.takeover_slow_after_us),
    FIELD("wait_slow_after_us", PG_INT8, limits.wait_slow_after_us),
    FIELD("alerts_paused_until", PG_TIME, limits.alerts_paused_until_us),
    FIELD("yieldable", PG_BOOL, yieldable),
    FIELD("yielding", PG_BOOL, yielding),
    FIELD("generation", PG_INT8, term.generation),
    FIELD("term_pid", PG_INT4, term.pid),
    FIELD("term_backend_start", PG_TIME, term.backend_start_us),
    FIELD("term_instance", PG_TEXT, term.instance),
    FIELD("term_listens", PG_BOOL, term.listens),
    FIELD("term_acquired_at", PG_TIME, term.acquired_us),
    FIELD("term_last_refused_at", PG_TIME, term.last_refused_us),
    FIELD("term_ended_at", PG_TIME, term.ended_us),
    FIELD("term_end_reason", PG_TEXT, term.end_reason),
    FIELD("previous_generation", PG_INT8, previous.generation),
    FIELD("previous_instance", PG_TEXT, previous.instance),
    FIELD("previous_acquired_at", PG_TIME, previous.acquired_us),
    FIELD("previous_ended_at", PG_TIME, previous.ended_us),
    FIELD("previous_end_reason", PG_TEXT, previous.end_reason),
    FIELD("run_key", PG_TEXT, run.key),
    FIELD("run_status", PG_TEXT, run.status),
    FIELD("run_cursor", PG_TEXT, run.cursor),
    FIELD("run_position", PG_FLOAT8, run.position),
    FIELD("run_target", PG_FLOAT8, run.target),
    FIELD("run_started_at", PG_TIME, run.started_us),
    FIELD("run_advanced_at", PG_TIME, run.advanced_us),
    FIELD("run_deadline_at", PG_TIME, run.deadline_us),
    FIELD("run_finished_at", PG_TIME, run.finished_us),
    FIELD("last_run_key", PG_TEXT, last_run.key),
    FIELD("last_run_cursor", PG_TEXT, last_run.cursor),
    FIELD("last_run_position", PG_FLOAT8, last_run.position),
    FIELD("last_run_finished_at", PG_TIME, last_run.finished_us),
    FIELD("yields_moved", PG_INT8, yields[YIELD_MOVED]),
    FIELD("yields_returned", PG_INT8, yields[YIELD_RETURNED]),
    FIELD("yields_vacant", PG_INT8, yields[YIELD_VACANT]),
    FIELD("yields_not_confirmed", PG_INT8, yields[YIELD_NOT_CONFIRMED]),
    FIELD("yields_unknown", PG_INT8, yields[YIELD_UNKNOWN]),
    FIELD("yields_refused", PG_INT8, yields[YIELD_REFUSED]),
    {0},
};

static int compare_rows(const void *a, const void *b)
{
    return strcmp(((const struct ledger_row *)a)->duty, ((const struct ledger_row *)b)->duty);
}

bool ledger_decode(const struct pg_answer *answer, struct arena *arena, struct ledger_rows *ret,
                   struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    if (!pg_answer_decode(answer, ledger_columns, sizeof(struct ledger_row), arena, &rows, &n, err))
        return false;
    if (n > 1)
        qsort(rows, n, sizeof(struct ledger_row), compare_rows);
    *ret = (struct ledger_rows){.rows = rows, .n = n};
    return true;
}

/* The ledger's own lease table has the common column names and two more. */
static struct config_lease lease_of(const struct ledger_row *row, struct arena *arena)
{
    bool own = strcmp(row->lease_table, "pgleader.lease") == 0;
    return (struct config_lease){
        .table = arena_strdup(arena, row->lease_table),
        .row = arena_strdup(arena, row->lease_row),
        .key_column = "job_name",
        .holder_column = "holder",
        .expires_column = "expires_at",
        .acquired_column = own ? "acquired_at" : NULL,
        .generation_column = own ? "generation" : NULL,
    };
}

static struct lock_key key_of(int64_t classid, int64_t objid, int32_t objsubid)
{
    return (struct lock_key){(uint32_t)classid, (uint32_t)objid, (uint16_t)objsubid};
}

static struct config_duty definition_of(const struct ledger_row *row, struct arena *arena)
{
    struct config_duty duty = {
        .name = arena_strdup(arena, row->duty),
        .candidates = arena_strdup(arena, row->candidate_pattern),
        .team = arena_strdup(arena, row->team),
        .runbook = arena_strdup(arena, row->runbook),
        .limits = row->limits,
    };
    if (row->lease_table && row->lease_row) {
        duty.mechanism = MECHANISM_LEASE;
        duty.lease = lease_of(row, arena);
    } else {
        duty.key = key_of(row->lock_classid, row->lock_objid, row->lock_objsubid);
        if (row->next_lock_objsubid > 0)
            duty.next_key =
                key_of(row->next_lock_classid, row->next_lock_objid, row->next_lock_objsubid);
    }
    return duty;
}

struct config_duty *ledger_definitions(const struct ledger_rows *rows, struct arena *arena,
                                       size_t *ret_n)
{
    struct config_duty *duties = arena_array(arena, rows->n, sizeof *duties);
    for (size_t i = 0; i < rows->n; i++)
        duties[i] = definition_of(&rows->rows[i], arena);
    *ret_n = rows->n;
    return duties;
}

static const struct term *term_of(const struct term *read, struct arena *arena)
{
    struct term *term = arena_copy(arena, read, sizeof *read);
    term->instance = arena_strdup(arena, read->instance);
    term->end_reason = arena_strdup(arena, read->end_reason);
    return term;
}

static const struct run *run_of(const struct run *read, struct arena *arena)
{
    struct run *run = arena_copy(arena, read, sizeof *read);
    run->present = true;
    run->key = arena_strdup(arena, read->key);
    run->status = arena_strdup(arena, read->status);
    run->cursor = arena_strdup(arena, read->cursor);
    return run;
}

void ledger_fill(const struct ledger_rows *rows, struct duty *duty, struct arena *arena)
{
    struct ledger_row key = {.duty = duty->name};
    const struct ledger_row *row =
        rows->n ? bsearch(&key, rows->rows, rows->n, sizeof *rows->rows, compare_rows) : NULL;
    if (!row)
        return;
    duty->in_ledger = true;
    duty->yieldable = row->yieldable;
    duty->yielding = row->yielding;
    duty->yields = arena_copy(arena, row->yields, sizeof row->yields);
    if (row->term.generation >= 0)
        duty->term = term_of(&row->term, arena);
    if (row->previous.generation >= 0)
        duty->previous = term_of(&row->previous, arena);
    if (row->run.key)
        duty->run = run_of(&row->run, arena);
    if (row->last_run.key)
        duty->last_run = run_of(&row->last_run, arena);
}

const char *ledger_open_pids(const struct ledger_rows *rows, struct arena *arena)
{
    CLEANUP(free_charp) char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const char *separator = "{";
    for (size_t i = 0; i < rows->n; i++) {
        const struct term *term = &rows->rows[i].term;
        if (term->pid > 0 && term->ended_us == TIME_UNKNOWN) {
            (void)fprintf(out, "%s%d", separator, term->pid);
            separator = ",";
        }
    }
    (void)fputs(*separator == '{' ? "{}" : "}", out);
    (void)fclose(out);
    return arena_strndup(arena, text, size);
}
