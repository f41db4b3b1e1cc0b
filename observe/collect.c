/* SPDX-License-Identifier: PostgreSQL */
/* Plans a poll's sections and turns their answers into a snapshot. */
#include "observe/collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/memory.h"
#include "observe/duties.h"
#include "observe/fill.h"
#include "observe/identity.h"
#include "observe/ledger_rows.h"
#include "observe/probe.h"
#include "observe/roles.h"
#include "observe/sessions.h"
#include "observe/table_rows.h"
#include "sql.h"

static const int64_t identity_every_us = 15 * SECOND_US;
static const int64_t section_lock_timeout_us = 200 * 1000;
static const int64_t section_statement_timeout_us = SECOND_US;
enum { VERSION_WAITSTART = 140000 };

struct collector {
    const struct config *config;
    const struct config_server *server;
    struct probes probes;
    struct pg_section *plan;
    size_t n_plan;
    struct arena *plan_arena;
    struct arena *registry_arena; /* the ledger's definitions */
    struct config_duty *registry;
    size_t n_registry;
    const char *open_pids; /* '{...}', in registry_arena */
    struct identity *identity;
    struct roles *roles;
    int64_t cost_us;
    int64_t now_us; /* of the plan */
};

/* What one poll decoded; lives in a scratch arena. */
struct reading {
    struct collector *collector;
    const struct pg_batch *batch;
    struct arena *scratch;
    struct sessions sessions;
    struct ledger_rows ledger;
    bool ledger_read;
};

struct collector *collector_new(const struct config *config, const struct config_server *server)
{
    struct collector *collector = xcalloc(1, sizeof *collector);
    collector->config = config;
    collector->server = server;
    collector->plan_arena = arena_new();
    collector->registry_arena = arena_new();
    collector->open_pids = "{}";
    collector->identity = identity_new();
    collector->roles = roles_new();
    probes_init(&collector->probes);
    return collector;
}

void collector_free(struct collector *collector)
{
    if (!collector)
        return;
    probes_done(&collector->probes);
    roles_free(collector->roles);
    arena_free(collector->plan_arena);
    arena_free(collector->registry_arena);
    identity_free(collector->identity);
    free(collector->plan);
    free(collector);
}

void collector_connected(struct collector *collector, const struct pg_conn *conn)
{
    struct probe *locks = &collector->probes.items[PROBE_LOCKS];
    identity_connected(collector->identity, conn);
    probes_forget_prepared(&collector->probes);
    free(locks->query);
    locks->query =
        xstrdup(identity_version(collector->identity) >= VERSION_WAITSTART ? sql_locks
                                                                           : sql_locks_before_14);
}

/* The lease rows and progress tables that the definitions name. */
static void want_tables(struct collector *collector, const struct config_duty *duties, size_t n)
{
    struct arena *arena = collector->plan_arena;
    for (size_t i = 0; i < n; i++) {
        const struct config_duty *duty = &duties[i];
        const char *query =
            duty->mechanism == MECHANISM_LEASE ? lease_query(&duty->lease, arena, NULL) : NULL;
        if (query) {
            struct probe *probe = probes_lease(&collector->probes, duty->lease.table, query);
            probe->wanted = true;
            probe_add_row(probe, duty->lease.row);
        }
        query = duty->progress.table ? progress_query(&duty->progress, arena, NULL) : NULL;
        if (query)
            probes_progress(&collector->probes, duty->name, query)->wanted = true;
    }
}

/* Whether there is anything to ask; a section that is not relevant any more is not shown as failed.
 */
static bool probe_relevant(const struct collector *collector, const struct probe *probe,
                           int64_t now_us)
{
    switch (probe->kind) {
    case PROBE_SERVER:
    case PROBE_LOCKS:
    case PROBE_IDENTITY:
        return true;
    case PROBE_ROLES:
        return roles_wanted(collector->roles, now_us);
    case PROBE_LEDGER_VERSION:
    case PROBE_LEDGER:
        return identity_has_ledger(collector->identity);
    case PROBE_LEASE:
    case PROBE_PROGRESS:
        return probe->wanted;
    }
    return false;
}

static const char *probe_parameter(const struct collector *collector, const struct probe *probe)
{
    if (probe->kind == PROBE_LOCKS)
        return collector->open_pids;
    if (probe->kind == PROBE_ROLES)
        return roles_question(collector->roles, collector->plan_arena);
    if (probe->kind == PROBE_LEASE)
        return text_array(probe->rows, probe->n_rows, collector->plan_arena);
    return NULL;
}

static void plan_probe(struct collector *collector, struct probe *probe)
{
    const char *parameter = probe_parameter(collector, probe);
    probe->planned = true;
    probe->position = collector->n_plan;
    collector->plan[collector->n_plan++] = (struct pg_section){
        .name = probe->name,
        .query = probe->query,
        .n_params = parameter ? 1 : 0,
        .params = {parameter},
        .prepared = identity_direct(collector->identity) ? &probe->prepared : NULL,
        .lock_timeout_us = section_lock_timeout_us,
        .statement_timeout_us = section_statement_timeout_us,
    };
}

const struct pg_section *collector_plan(struct collector *collector, int64_t now_us, size_t *ret_n)
{
    arena_free(collector->plan_arena);
    collector->plan_arena = arena_new();
    collector->now_us = now_us;
    probes_clear_wanted(&collector->probes);
    want_tables(collector, collector->registry, collector->n_registry);
    want_tables(collector, collector->server->duties, collector->server->n_duties);
    struct probes *probes = &collector->probes;
    collector->plan = xreallocarray(collector->plan, probes->n, sizeof *collector->plan);
    collector->n_plan = 0;
    for (size_t i = 0; i < probes->n; i++) {
        probes->items[i].planned = false;
        if (!probe_relevant(collector, &probes->items[i], now_us))
            probes->status[i].known = false;
        else if (now_us >= probes->items[i].next_us)
            plan_probe(collector, &probes->items[i]);
    }
    *ret_n = collector->n_plan;
    return collector->plan;
}

static const struct pg_outcome *outcome_of(const struct reading *reading, const struct probe *probe)
{
    return probe->planned ? pg_batch_outcome(reading->batch, probe->position) : NULL;
}

/* The probe's rows of this poll; NULL if it was not asked or failed. */
static const struct pg_answer *answer_of(const struct reading *reading, size_t probe)
{
    const struct pg_outcome *outcome =
        outcome_of(reading, &reading->collector->probes.items[probe]);
    return outcome ? outcome->rows : NULL;
}

static void note_outcomes(struct reading *reading)
{
    struct collector *collector = reading->collector;
    collector->cost_us = 0;
    for (size_t i = 0; i < collector->probes.n; i++) {
        const struct pg_outcome *outcome = outcome_of(reading, &collector->probes.items[i]);
        if (!outcome)
            continue;
        bool ok = outcome->rows != NULL;
        probes_note(&collector->probes, i, ok ? NULL : &outcome->error, collector->now_us);
        if (ok)
            collector->cost_us += outcome->clock_after_us - outcome->clock_before_us;
    }
}

/* A section whose rows could not be understood is as failed as one that the server refused. */
static void note_unread(struct reading *reading, size_t probe, const struct error *err)
{
    probes_note(&reading->collector->probes, probe, err, reading->collector->now_us);
}

/* Both sections without which there is no picture. */
static const struct pg_answer *required_answer(const struct reading *reading, size_t probe,
                                               struct error *err)
{
    const struct probe *asked = &reading->collector->probes.items[probe];
    const struct pg_outcome *outcome = outcome_of(reading, asked);
    if (outcome && outcome->rows)
        return outcome->rows;
    if (outcome)
        *err = outcome->error;
    else
        (void)error_set(
            err, ERROR_QUERY,
            "could not read section \"%s\": it keeps failing and is not asked for a while",
            asked->name);
    return NULL;
}

static bool read_server(struct reading *reading, struct error *err)
{
    struct collector *collector = reading->collector;
    const struct pg_answer *answer = required_answer(reading, PROBE_SERVER, err);
    bool moved = false;
    if (!answer)
        return false;
    if (!identity_read_server(collector->identity, answer, &moved, err)) {
        note_unread(reading, PROBE_SERVER, err);
        return false;
    }
    if (moved) {
        collector->probes.items[PROBE_IDENTITY].next_us = 0;
        collector->probes.items[PROBE_LEDGER_VERSION].next_us = 0;
    }
    return true;
}

static void read_identity(struct reading *reading)
{
    struct collector *collector = reading->collector;
    const struct pg_answer *answer = answer_of(reading, PROBE_IDENTITY);
    struct error err = {0};
    if (!answer)
        return;
    if (!identity_read(collector->identity, answer, &err)) {
        note_unread(reading, PROBE_IDENTITY, &err);
        return;
    }
    collector->probes.items[PROBE_IDENTITY].next_us = collector->now_us + identity_every_us;
    if (!identity_has_ledger(collector->identity))
        collector->n_registry = 0;
}

static void read_ledger_version(struct reading *reading)
{
    struct collector *collector = reading->collector;
    struct probe *probe = &collector->probes.items[PROBE_LEDGER_VERSION];
    const struct pg_answer *answer = answer_of(reading, PROBE_LEDGER_VERSION);
    struct error err = {0};
    if (!probe->planned)
        return;
    if (!identity_read_ledger_version(collector->identity, answer, &err))
        note_unread(reading, PROBE_LEDGER_VERSION, &err);
    else if (answer)
        probe->next_us = collector->now_us + identity_every_us;
}

/* The registry outlives a poll in which the ledger could not be read: its locks are still watched.
 */
static void learn_registry(struct reading *reading)
{
    struct collector *collector = reading->collector;
    arena_free(collector->registry_arena);
    collector->registry_arena = arena_new();
    collector->registry =
        ledger_definitions(&reading->ledger, collector->registry_arena, &collector->n_registry);
    collector->open_pids = ledger_open_pids(&reading->ledger, collector->registry_arena);
}

static void read_ledger(struct reading *reading)
{
    const struct pg_answer *answer = answer_of(reading, PROBE_LEDGER);
    struct error err = {0};
    if (!answer) {
        const struct section *status = &reading->collector->probes.status[PROBE_LEDGER];
        bool gone =
            strcmp(status->sqlstate, "42P01") == 0 || strcmp(status->sqlstate, "3F000") == 0;
        if (gone)
            reading->collector->probes.items[PROBE_IDENTITY].next_us = 0;
        return;
    }
    reading->ledger_read = ledger_decode(answer, reading->scratch, &reading->ledger, &err);
    if (reading->ledger_read)
        learn_registry(reading);
    else
        note_unread(reading, PROBE_LEDGER, &err);
}

static void read_roles(struct reading *reading)
{
    const struct pg_answer *answer = answer_of(reading, PROBE_ROLES);
    struct error err = {0};
    if (answer && !roles_learn(reading->collector->roles, answer, reading->collector->now_us, &err))
        note_unread(reading, PROBE_ROLES, &err);
}

static bool read_locks(struct reading *reading, struct snapshot *snapshot, struct error *err)
{
    const struct pg_answer *answer = required_answer(reading, PROBE_LOCKS, err);
    if (!answer)
        return false;
    const struct pg_outcome *outcome =
        outcome_of(reading, &reading->collector->probes.items[PROBE_LOCKS]);
    snapshot->read_lower_us = outcome->clock_before_us;
    snapshot->read_upper_us = outcome->clock_after_us;
    if (sessions_decode(answer, identity_database(reading->collector->identity), reading->scratch,
                        &reading->sessions, err))
        return true;
    note_unread(reading, PROBE_LOCKS, err);
    return false;
}

/* Lease rows and progress of every table that answered. */
static void fill_from_tables(struct reading *reading, struct snapshot *snapshot)
{
    struct probes *probes = &reading->collector->probes;
    for (size_t i = PROBE_FIXED; i < probes->n; i++) {
        const struct pg_outcome *outcome = outcome_of(reading, &probes->items[i]);
        struct error err = {0};
        if (!outcome || !outcome->rows)
            continue;
        bool ok = probes->items[i].kind == PROBE_LEASE
                      ? fill_leases(snapshot, &probes->items[i], outcome, reading->scratch, &err)
                      : fill_progress(snapshot, &probes->items[i], reading->collector->server,
                                      outcome->rows, &err);
        if (!ok)
            note_unread(reading, i, &err);
    }
}

static void fill_duties(struct reading *reading, struct snapshot *snapshot)
{
    struct candidates *candidates = candidates_new(&reading->sessions);
    for (size_t i = 0; i < snapshot->n_duties; i++) {
        struct duty *duty = &snapshot->duties[i];
        if (reading->ledger_read && duty->source == SOURCE_LEDGER)
            ledger_fill(&reading->ledger, duty, snapshot->arena);
        fill_lock(snapshot, duty, &reading->sessions, candidates, reading->collector->roles);
    }
    candidates_free(candidates);
    fill_from_tables(reading, snapshot);
    for (size_t i = 0; i < snapshot->n_duties; i++)
        fill_term(&snapshot->duties[i], &reading->sessions);
}

static struct snapshot *make_snapshot(struct reading *reading, const struct snapshot *previous,
                                      struct error *err)
{
    struct collector *collector = reading->collector;
    struct snapshot *snapshot = snapshot_new();
    bool ok = read_server(reading, err) && read_locks(reading, snapshot, err);
    if (!ok) {
        snapshot_unref(snapshot);
        return NULL;
    }
    read_identity(reading);
    read_ledger_version(reading);
    read_ledger(reading);
    read_roles(reading);
    snapshot->facts = identity_facts(collector->identity, snapshot->arena);
    snapshot->foreign_locks = reading->sessions.foreign;
    const struct definitions definitions = {.registry = collector->registry,
                                            .n_registry = collector->n_registry,
                                            .server = collector->server,
                                            .config = collector->config};
    duties_list(snapshot, &definitions, &reading->sessions, previous);
    fill_duties(reading, snapshot);
    return snapshot;
}

struct snapshot *collector_take(struct collector *collector, const struct pg_batch *batch,
                                const struct snapshot *previous, int64_t started_us,
                                int64_t ended_us, struct error *err)
{
    struct reading reading = {.collector = collector, .batch = batch, .scratch = arena_new()};
    note_outcomes(&reading);
    struct snapshot *snapshot = make_snapshot(&reading, previous, err);
    arena_free(reading.scratch);
    if (snapshot)
        snapshot->facts.clock_skew_us = snapshot->read_lower_us +
                                        (snapshot->read_upper_us - snapshot->read_lower_us) / 2 -
                                        (started_us + (ended_us - started_us) / 2);
    return snapshot;
}

const struct section *collector_sections(const struct collector *collector, size_t *ret_n)
{
    *ret_n = collector->probes.n;
    return collector->probes.status;
}

void collector_failed(struct collector *collector, const struct error *err)
{
    struct probes *probes = &collector->probes;
    for (size_t i = 0; i < probes->n; i++) {
        if (i == PROBE_SERVER || i == PROBE_LOCKS || probes->status[i].known)
            probes_note(probes, i, err, collector->now_us);
    }
}

int64_t collector_cost_us(const struct collector *collector)
{
    return collector->cost_us;
}
