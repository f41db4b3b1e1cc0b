/* SPDX-License-Identifier: PostgreSQL */
/* From one reading into duties. */
#include "observe/fill.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "observe/queue.h"
#include "observe/table_rows.h"

static const char *address_of(const struct lock_row *row)
{
    if (row->client_addr)
        return row->client_addr;
    bool visible = row->backend_start_us != TIME_UNKNOWN;
    return visible && row->client_port == -1 ? "local" : NULL;
}

static struct owner owner_of(struct filling *filling, const struct lock_row *row)
{
    struct arena *arena = filling->snapshot->arena;
    if (row->pid < 0)
        return (struct owner){.backend_start_us = TIME_UNKNOWN,
                              .acquired_us = TIME_UNKNOWN,
                              .holder = "prepared transaction"};
    const char *name = arena_strdup(arena, row->application_name ? row->application_name : "");
    return (struct owner){
        .pid = row->pid,
        .backend_start_us = row->backend_start_us,
        .acquired_us = TIME_UNKNOWN,
        .holder = name,
        .application_name = name,
        .usename =
            arena_strdup_again(arena, &filling->usename, roles_name(filling->roles, row->usesysid)),
        .client_addr = arena_strdup_again(arena, &filling->address, address_of(row)),
    };
}

static void note_owner(struct filling *filling, struct duty *duty, const struct lock_row *row)
{
    if (duty->owners++ > 0)
        return;
    duty->owner = owner_of(filling, row);
    duty->owner_xmin_age = row->xmin_age;
    if (row->xact_start_us != TIME_UNKNOWN)
        duty->owner_xact_age_us = filling->snapshot->read_lower_us - row->xact_start_us;
}

static void note_waiter(const struct snapshot *snapshot, struct duty *duty,
                        const struct lock_row *row)
{
    duty->waiters++;
    if (row->xmin_age > duty->waiter_xmin_age)
        duty->waiter_xmin_age = row->xmin_age;
    if (row->waitstart_us == TIME_UNKNOWN)
        return;
    int64_t waited = snapshot->read_lower_us - row->waitstart_us;
    if (waited < 0)
        waited = 0; /* it began within this very reading */
    if (waited > duty->oldest_wait_us)
        duty->oldest_wait_us = waited;
}

void fill_lock(struct filling *filling, struct duty *duty)
{
    const struct snapshot *snapshot = filling->snapshot;
    size_t n = 0;
    int32_t by_name = 0;
    bool lock = duty->mechanism == MECHANISM_LOCK;
    const struct lock_row *const *rows = NULL;
    if (lock)
        rows = sessions_of_key(filling->sessions, duty->key, &n);
    if (snapshot->facts.in_recovery)
        return;
    duty->read = lock;
    duty->read_lower_us = snapshot->read_lower_us;
    duty->read_upper_us = snapshot->read_upper_us;
    for (size_t i = 0; i < n; i++) {
        if (!rows[i]->granted)
            note_waiter(snapshot, duty, rows[i]);
        else if (rows[i]->exclusive)
            note_owner(filling, duty, rows[i]);
        else
            duty->shared_owners++;
    }
    queue_fill(snapshot, duty, rows, n);
    int32_t counted = candidates_count(filling->candidates, duty->name, duty->candidate_pattern,
                                       rows, n, &by_name);
    if (duty->candidate_pattern || by_name > 0 || duty->limits->min_candidates >= 0)
        duty->candidates = counted;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys that the probe asked for, sorted: two probes may read one table by different columns. */
static const char **sorted_rows(const struct probe *probe, struct arena *scratch)
{
    const char **rows = arena_array(scratch, probe->n_rows, sizeof *rows);
    if (probe->n_rows == 0)
        return rows;
    memcpy(rows, probe->rows, probe->n_rows * sizeof *rows);
    qsort(rows, probe->n_rows, sizeof *rows, compare_text);
    return rows;
}

/* The row that decides the duty, if it stands in that table; else NULL. */
static const char *row_in(const struct duty *duty, const char *table)
{
    size_t size = strlen(table);
    bool there = duty->mechanism == MECHANISM_LEASE && strncmp(duty->key_text, table, size) == 0 &&
                 duty->key_text[size] == ':';
    return there ? duty->key_text + size + 1 : NULL;
}

bool fill_leases(struct snapshot *snapshot, const struct probe *probe,
                 const struct pg_outcome *outcome, struct arena *scratch, struct error *err)
{
    struct lease_rows rows;
    const char **asked = sorted_rows(probe, scratch);
    if (!lease_decode(outcome->rows, scratch, &rows, err))
        return false;
    for (size_t i = 0; i < snapshot->n_duties && !snapshot->facts.in_recovery; i++) {
        struct duty *duty = &snapshot->duties[i];
        const char *row = row_in(duty, probe->subject);
        if (!row || probe->n_rows == 0 ||
            !bsearch(&row, asked, probe->n_rows, sizeof *asked, compare_text))
            continue;
        lease_fill(&rows, row, outcome->clock_before_us, duty, snapshot->arena);
        duty->read_lower_us = outcome->clock_before_us;
        duty->read_upper_us = outcome->clock_after_us;
    }
    return true;
}

static bool is_defined_by(const struct duty *duty, const struct config_duty *definition,
                          struct arena *arena)
{
    if (definition->mechanism == MECHANISM_LOCK)
        return duty->mechanism == MECHANISM_LOCK && lock_key_equal(duty->key, definition->key);
    const char *row = row_in(duty, table_canonical(definition->lease.table, arena));
    return row && strcmp(row, definition->lease.row) == 0;
}

/* The duty whose progress that is: by its name, or, where the registry calls the same lock or lease
 * otherwise, by that. NULL if there is none. */
static struct duty *duty_of_progress(struct snapshot *snapshot, const char *name,
                                     const struct config_server *server)
{
    const struct duty *found = snapshot_find(snapshot, name);
    for (size_t i = 0; !found && i < server->n_duties; i++) {
        if (strcmp(server->duties[i].name, name) != 0)
            continue;
        for (size_t j = 0; !found && j < snapshot->n_duties; j++) {
            if (is_defined_by(&snapshot->duties[j], &server->duties[i], snapshot->arena))
                found = &snapshot->duties[j];
        }
    }
    return (struct duty *)found;
}

bool fill_progress(struct snapshot *snapshot, const struct probe *probe,
                   const struct config_server *server, const struct pg_answer *answer,
                   struct error *err)
{
    struct duty *duty = duty_of_progress(snapshot, probe->subject, server);
    return !duty || progress_fill(answer, duty, snapshot->arena, err);
}

void fill_term(struct duty *duty, const struct sessions *sessions)
{
    const struct term *term = duty->term;
    const struct owner *owner = &duty->owner;
    if (!duty->read || term->generation < 0 || term->ended_us != TIME_UNKNOWN)
        return;
    if (duty->mechanism == MECHANISM_LEASE) {
        bool same = duty->generation < 0 || duty->generation == term->generation;
        duty->term_begun = same && duty->owners > 0 && text_equal(term->instance, owner->holder);
        if (duty->term_begun && duty->generation < 0)
            duty->generation = term->generation;
        return;
    }
    bool same_pid = duty->owners > 0 && owner->pid == term->pid;
    bool seen = owner->backend_start_us != TIME_UNKNOWN && term->backend_start_us != TIME_UNKNOWN;
    duty->term_begun = same_pid && seen && owner->backend_start_us == term->backend_start_us;
    duty->term_unverified = same_pid && !seen;
    if (duty->term_begun)
        duty->generation = term->generation;
    duty->term_alive = !same_pid && sessions_alive(sessions, term->pid, term->backend_start_us);
}
