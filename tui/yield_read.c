/* SPDX-License-Identifier: PostgreSQL */
/* Sections into facts. */
#include "tui/yield_read.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sql.h"

enum { SECTION_SERVER, SECTION_LOCKS, SECTION_CONTROL, SECTION_LEDGER };

static const struct pg_column server_columns[] = {
    {"database", PG_TEXT, offsetof(struct yield_server, database)},
    {"in_recovery", PG_BOOL, offsetof(struct yield_server, in_recovery)},
    {"postmaster_start", PG_TIME, offsetof(struct yield_server, postmaster_start_us)},
    {"pid", PG_INT4, offsetof(struct yield_server, pid)},
    {"backend_start", PG_TIME, offsetof(struct yield_server, backend_start_us)},
    {"application_name", PG_TEXT, offsetof(struct yield_server, application_name)},
    {"client_addr", PG_INET, offsetof(struct yield_server, client_addr)},
    {"client_port", PG_INT4, offsetof(struct yield_server, client_port)},
    {"backend_type", PG_TEXT, offsetof(struct yield_server, backend_type)},
    {"usename", PG_TEXT, offsetof(struct yield_server, usename)},
    {"xact_start", PG_TIME, offsetof(struct yield_server, xact_start_us)},
    {"target_superuser", PG_BOOL, offsetof(struct yield_server, target_superuser)},
    {"superuser", PG_BOOL, offsetof(struct yield_server, superuser)},
    {"may_signal", PG_BOOL, offsetof(struct yield_server, may_signal)},
    {0},
};

static const struct pg_column lock_columns[] = {
    {"classid", PG_INT8, offsetof(struct yield_lock, classid)},
    {"objid", PG_INT8, offsetof(struct yield_lock, objid)},
    {"objsubid", PG_INT4, offsetof(struct yield_lock, objsubid)},
    {"exclusive", PG_BOOL, offsetof(struct yield_lock, exclusive)},
    {"granted", PG_BOOL, offsetof(struct yield_lock, granted)},
    {"pid", PG_INT4, offsetof(struct yield_lock, pid)},
    {"backend_start", PG_TIME, offsetof(struct yield_lock, backend_start_us)},
    {"application_name", PG_TEXT, offsetof(struct yield_lock, application_name)},
    {"client_addr", PG_INET, offsetof(struct yield_lock, client_addr)},
    {0},
};

static const struct pg_column ledger_columns[] = {
    {"mechanism", PG_TEXT, offsetof(struct yield_ledger, mechanism)},
    {"classid", PG_INT8, offsetof(struct yield_ledger, classid)},
    {"objid", PG_INT8, offsetof(struct yield_ledger, objid)},
    {"objsubid", PG_INT4, offsetof(struct yield_ledger, objsubid)},
    {"next_classid", PG_INT8, offsetof(struct yield_ledger, next_classid)},
    {"next_objid", PG_INT8, offsetof(struct yield_ledger, next_objid)},
    {"next_objsubid", PG_INT4, offsetof(struct yield_ledger, next_objsubid)},
    {"also_leads", PG_TEXT, offsetof(struct yield_ledger, also_leads)},
    {"lease_table", PG_TEXT, offsetof(struct yield_ledger, lease_table)},
    {"candidate_pattern", PG_TEXT, offsetof(struct yield_ledger, candidate_pattern)},
    {"yieldable", PG_BOOL, offsetof(struct yield_ledger, yieldable)},
    {"generation", PG_INT8, offsetof(struct yield_ledger, generation)},
    {"term_pid", PG_INT4, offsetof(struct yield_ledger, term_pid)},
    {"term_backend_start", PG_TIME, offsetof(struct yield_ledger, term_backend_start_us)},
    {"term_instance", PG_TEXT, offsetof(struct yield_ledger, term_instance)},
    {"term_listens", PG_BOOL, offsetof(struct yield_ledger, term_listens)},
    {"term_open", PG_BOOL, offsetof(struct yield_ledger, term_open)},
    {"term_acquired_at", PG_TIME, offsetof(struct yield_ledger, term_acquired_us)},
    {"stop_within_us", PG_INT8, offsetof(struct yield_ledger, stop_within_us)},
    {"previous_generation", PG_INT8, offsetof(struct yield_ledger, previous_generation)},
    {"previous_stopped_at", PG_TIME, offsetof(struct yield_ledger, previous_stopped_us)},
    {"run_key", PG_TEXT, offsetof(struct yield_ledger, run_key)},
    {"run_generation", PG_INT8, offsetof(struct yield_ledger, run_generation)},
    {"run_cursor", PG_TEXT, offsetof(struct yield_ledger, run_cursor)},
    {"run_position", PG_FLOAT8, offsetof(struct yield_ledger, run_position)},
    {"run_target", PG_FLOAT8, offsetof(struct yield_ledger, run_target)},
    {"yield_open", PG_BOOL, offsetof(struct yield_ledger, yield_open)},
    {"yield_by", PG_TEXT, offsetof(struct yield_ledger, yield_by)},
    {"yield_intent", PG_INT8, offsetof(struct yield_ledger, yield_intent)},
    {"yield_expires_at", PG_TIME, offsetof(struct yield_ledger, yield_expires_us)},
    {"cooling", PG_BOOL, offsetof(struct yield_ledger, cooling)},
    {"cool_until", PG_TIME, offsetof(struct yield_ledger, cool_until_us)},
    {"lease_holder", PG_TEXT, offsetof(struct yield_ledger, lease_holder)},
    {"lease_generation", PG_INT8, offsetof(struct yield_ledger, lease_generation)},
    {"function_owner", PG_TEXT, offsetof(struct yield_ledger, function_owner)},
    {"may_request", PG_BOOL, offsetof(struct yield_ledger, may_request)},
    {"may_record_refusal", PG_BOOL, offsetof(struct yield_ledger, may_record_refusal)},
    {"owner_may_signal", PG_BOOL, offsetof(struct yield_ledger, owner_may_signal)},
    {"owner_superuser", PG_BOOL, offsetof(struct yield_ledger, owner_superuser)},
    {"read_only", PG_BOOL, offsetof(struct yield_ledger, read_only)},
    {0},
};

struct control_row {
    const char *system_identifier;
};

static const struct pg_column control_columns[] = {
    {"system_identifier", PG_TEXT, offsetof(struct control_row, system_identifier)},
    {0},
};

void yield_sections(const struct yield_target *target, struct lock_key key, bool named,
                    struct arena *arena, struct pg_section out[YIELD_SECTIONS])
{
    const char *session =
        arena_printf(arena, "{%" PRIu32 ",%" PRIu32 ",%u,%d,%d}", key.classid, key.objid,
                     key.objsubid, target->pid > 0 ? target->pid : 0, named);
    const struct pg_section sections[YIELD_SECTIONS] = {
        [SECTION_SERVER] = {.name = "server", .query = sql_yield_server, .params = {session}},
        [SECTION_LOCKS] = {.name = "locks", .query = sql_yield_locks, .params = {session}},
        [SECTION_CONTROL] = {.name = "control", .query = sql_yield_control},
        [SECTION_LEDGER] = {.name = "ledger", .query = sql_yield_ledger, .params = {target->duty}},
    };
    for (int i = 0; i < YIELD_SECTIONS; i++) {
        out[i] = sections[i];
        out[i].n_params = sections[i].params[0] ? 1 : 0;
        out[i].lock_timeout_us = SECOND_US / 5;
        out[i].statement_timeout_us = SECOND_US;
    }
}

/* The one row of a section, or NULL. */
static const void *one_row(const struct pg_batch *batch, int section,
                           const struct pg_column *columns, size_t size, struct arena *arena,
                           struct error *err)
{
    const struct pg_outcome *outcome = pg_batch_outcome(batch, (size_t)section);
    void *rows = NULL;
    size_t n = 0;
    if (!outcome->rows) {
        *err = outcome->error;
        return NULL;
    }
    if (!pg_answer_decode(outcome->rows, columns, size, arena, &rows, &n, err))
        return NULL;
    return n == 1 ? rows : NULL;
}

/* Without a ledger there is no such table or schema; anything else means that it is there. */
static bool is_absent(const struct error *err)
{
    return strcmp(err->sqlstate, "42P01") == 0 || strcmp(err->sqlstate, "3F000") == 0;
}

static void take_ledger(const struct yield_target *target, const struct pg_batch *batch,
                        struct yield_facts *facts)
{
    struct error why = {0};
    facts->ledger = one_row(batch, SECTION_LEDGER, ledger_columns, sizeof(struct yield_ledger),
                            facts->arena, &why);
    /* A duty that was never seen in the ledger may be led in spite of a ledger that is not ours
     * to read. */
    facts->ledger_denied = !target->registered && strcmp(why.sqlstate, "42501") == 0;
    facts->ledger_unread = why.kind != ERROR_NONE && !is_absent(&why) && !facts->ledger_denied;
}

struct yield_facts *yield_facts_take(const struct yield_target *target, struct lock_key key,
                                     const struct pg_batch *batch, struct error *err)
{
    struct arena *arena = arena_new();
    struct yield_facts *facts = arena_alloc(arena, sizeof *facts);
    const struct pg_outcome *locks = pg_batch_outcome(batch, SECTION_LOCKS);
    struct error ignored = {0};
    void *rows = NULL;
    facts->arena = arena;
    const struct yield_server *server =
        one_row(batch, SECTION_SERVER, server_columns, sizeof *server, arena, err);
    if (server && !locks->rows)
        *err = locks->error;
    if (!server || !locks->rows ||
        !pg_answer_decode(locks->rows, lock_columns, sizeof(struct yield_lock), arena, &rows,
                          &facts->n_locks, err)) {
        arena_free(arena);
        return NULL;
    }
    facts->server = *server;
    facts->key = key;
    facts->locks = rows;
    facts->read_lower_us = locks->clock_before_us;
    facts->read_upper_us = locks->clock_after_us;
    const struct control_row *control = one_row(batch, SECTION_CONTROL, control_columns,
                                                sizeof(struct control_row), arena, &ignored);
    facts->system_identifier = control ? control->system_identifier : NULL;
    take_ledger(target, batch, facts);
    return facts;
}

void yield_facts_free(struct yield_facts *facts)
{
    if (facts)
        arena_free(facts->arena);
}
