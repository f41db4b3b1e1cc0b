/* SPDX-License-Identifier: PostgreSQL */
/* Decodes tui/sql/registry.sql. */
#include "tui/registry.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sql.h"

static const int64_t timeout_us = 5 * SECOND_US;

struct row {
    const char *duty, *mechanism, *lease_table, *lease_row, *lease_persistence, *pattern;
    int64_t classid, objid, next_classid, next_objid;
    int32_t objsubid, next_objsubid, min_candidates;
};

static const struct pg_column columns[] = {
    {"duty", PG_TEXT, offsetof(struct row, duty)},
    {"mechanism", PG_TEXT, offsetof(struct row, mechanism)},
    {"lock_classid", PG_INT8, offsetof(struct row, classid)},
    {"lock_objid", PG_INT8, offsetof(struct row, objid)},
    {"lock_objsubid", PG_INT4, offsetof(struct row, objsubid)},
    {"next_lock_classid", PG_INT8, offsetof(struct row, next_classid)},
    {"next_lock_objid", PG_INT8, offsetof(struct row, next_objid)},
    {"next_lock_objsubid", PG_INT4, offsetof(struct row, next_objsubid)},
    {"lease_table", PG_TEXT, offsetof(struct row, lease_table)},
    {"lease_row", PG_TEXT, offsetof(struct row, lease_row)},
    {"lease_persistence", PG_TEXT, offsetof(struct row, lease_persistence)},
    {"candidate_pattern", PG_TEXT, offsetof(struct row, pattern)},
    {"min_candidates", PG_INT4, offsetof(struct row, min_candidates)},
    {0},
};

static struct lock_key key_of(int64_t classid, int64_t objid, int32_t objsubid)
{
    if (objsubid < 0)
        return (struct lock_key){0};
    return (struct lock_key){(uint32_t)classid, (uint32_t)objid, (uint16_t)objsubid};
}

static struct registry_duty duty_of(const struct row *row)
{
    return (struct registry_duty){
        .duty =
            {
                .name = row->duty,
                .mechanism = text_equal(row->mechanism, "lease") ? MECHANISM_LEASE : MECHANISM_LOCK,
                .key = key_of(row->classid, row->objid, row->objsubid),
                .next_key = key_of(row->next_classid, row->next_objid, row->next_objsubid),
                .lease = {.table = row->lease_table, .row = row->lease_row},
                .candidates = row->pattern,
                .limits = {.min_candidates = row->min_candidates},
            },
        .lease_unlogged = text_equal(row->lease_persistence, "u"),
    };
}

struct pg_section registry_section(void)
{
    return (struct pg_section){
        .name = "registry",
        .query = sql_registry,
        .lock_timeout_us = SECOND_US,
        .statement_timeout_us = timeout_us,
    };
}

void registry_take(const struct pg_outcome *outcome, struct arena *arena,
                   struct registry *ret_registry)
{
    struct registry registry = {.installed = true};
    void *rows = NULL;
    registry.error = outcome->error;
    if (!outcome->rows) {
        registry.installed = strcmp(outcome->error.sqlstate, "42P01") != 0;
    } else if (pg_answer_decode(outcome->rows, columns, sizeof(struct row), arena, &rows,
                                &registry.n, &registry.error)) {
        registry.read = true;
        registry.items = arena_array(arena, registry.n + 1, sizeof *registry.items);
        for (size_t i = 0; i < registry.n; i++)
            registry.items[i] = duty_of(&((struct row *)rows)[i]);
    }
    *ret_registry = registry;
}

const struct registry_duty *registry_find(const struct registry *registry, const char *duty)
{
    for (size_t i = 0; i < registry->n; i++) {
        if (text_equal(registry->items[i].duty.name, duty))
            return &registry->items[i];
    }
    return NULL;
}

const char *duty_authority(const struct config_duty *duty, struct arena *arena)
{
    char text[LOCK_KEY_TEXT_SIZE];
    if (duty->mechanism == MECHANISM_LEASE)
        return arena_printf(arena, "lease %s row %s", duty->lease.table, duty->lease.row);
    lock_key_format(duty->key, text);
    return arena_printf(arena, "key %s", text);
}

/* A table's name may be written in several ways. */
static bool same_table(const char *a, const char *b, struct arena *arena)
{
    const char *x = NULL, *y = NULL;
    return pg_quote_name(arena, a, &x) && pg_quote_name(arena, b, &y) && text_equal(x, y);
}

static bool same_authority(const struct config_duty *a, const struct config_duty *b,
                           struct arena *arena)
{
    if (a->mechanism != b->mechanism)
        return false;
    if (a->mechanism == MECHANISM_LOCK)
        return lock_key_equal(a->key, b->key);
    return text_equal(a->lease.row, b->lease.row) &&
           same_table(a->lease.table, b->lease.table, arena);
}

struct drift *registry_drift(const struct registry *registry, const struct config_server *server,
                             struct arena *arena, size_t *ret_n)
{
    struct drift *drift = arena_array(arena, server->n_duties + 1, sizeof *drift);
    *ret_n = 0;
    for (size_t i = 0; i < server->n_duties && registry->read; i++) {
        const struct config_duty *duty = &server->duties[i];
        const struct registry_duty *row = registry_find(registry, duty->name);
        if (!row)
            drift[(*ret_n)++] = (struct drift){
                DRIFT_UNREGISTERED, duty->name,
                arena_printf(arena, "duty %s stands in the configuration alone", duty->name)};
        else if (!same_authority(duty, &row->duty, arena))
            drift[(*ret_n)++] = (struct drift){
                DRIFT_DIFFERS, duty->name,
                arena_printf(arena, "duty %s is %s in the configuration, and %s in the registry",
                             duty->name, duty_authority(duty, arena),
                             duty_authority(&row->duty, arena))};
    }
    return drift;
}
