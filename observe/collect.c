/* SPDX-License-Identifier: PostgreSQL */
/* Turns the answers of a poll's sections into a snapshot. */
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
#include "observe/narrow.h"
#include "observe/plan.h"
#include "observe/probe.h"
#include "observe/roles.h"
#include "observe/sessions.h"
#include "observe/table_rows.h"
#include "sql.h"

static const int64_t identity_every_us = 15 * SECOND_US;
enum { VERSION_WAITSTART = 140000 };

struct collector {
    const struct config *config;
    const struct config_server *server;
    struct probes probes;
    struct plan plan;
    struct narrow narrow;         /* of the plan, where one duty alone is asked for */
    struct arena *registry_arena; /* the ledger's definitions */
    struct config_duty *registry;
    size_t n_registry;
    struct named *named;   /* NULL: to be made, of the registry and the config */
    const char *open_pids; /* '{...}', in registry_arena */
    bool registry_read;    /* since the ledger was found */
    bool registry_new;     /* in the last poll: the rows and sessions that it names come next */
    bool only_unread;      /* in the last poll: of the one duty that is asked for */
    struct identity *identity;
    struct roles *roles;
    int64_t cost_us;
    bool hidden; /* at the last poll there were sessions that we may not see */
};

/* What one poll decoded; lives in a scratch arena. */
struct reading {
    struct collector *collector;
    struct pg_batch *batch;
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
    plan_init(&collector->plan);
    collector->registry_arena = arena_new();
    collector->open_pids = "{}";
    collector->identity = identity_new();
    collector->roles = roles_new();
    probes_init(&collector->probes);
    if (config->only_duty)
        probe_ask(&collector->probes.items[PROBE_LEDGER], narrow_ledger_query());
    return collector;
}

void collector_free(struct collector *collector)
{
    if (!collector)
        return;
    probes_done(&collector->probes);
    roles_free(collector->roles);
    plan_done(&collector->plan);
    named_free(collector->named);
    arena_free(collector->registry_arena);
    identity_free(collector->identity);
    free(collector);
}

void collector_connected(struct collector *collector, const struct pg_session *conn)
{
    identity_connected(collector->identity, conn);
    probes_forget_session(&collector->probes);
    bool waitstart = identity_version(collector->identity) >= VERSION_WAITSTART;
    const char *query = collector->config->only_duty ? sql_locks_of_keys
                        : waitstart                  ? sql_locks
                                                     : sql_locks_before_14;
    probe_ask(&collector->probes.items[PROBE_LOCKS], xstrdup(query));
}

/* The lease rows and progress tables that the definitions name. */
static void want_tables(struct collector *collector, const struct config_duty *duties, size_t n)
{
    struct arena *arena = collector->plan.arena;
    for (size_t i = 0; i < n; i++) {
        const struct config_duty *duty = &duties[i];
        const char *only = collector->config->only_duty;
        if (only && strcmp(duty->name, only) != 0)
            continue;
        const char *query =
            duty->mechanism == MECHANISM_LEASE ? lease_query(&duty->lease, arena, NULL) : NULL;
        if (query) {
            const char *table = table_canonical(duty->lease.table, arena);
            struct probe *probe = probes_lease(&collector->probes, table, query);
            probe->wanted = true;
            probe_add_row(probe,
                          arena_strdup(arena, duty->lease.row)); /* may outlive the registry */
        }
        query = duty->progress.table ? progress_query(&duty->progress, arena, NULL) : NULL;
        if (query)
            probes_progress(&collector->probes, duty->name, query)->wanted = true;
    }
}

static struct definitions definitions_of(const struct collector *collector)
{
    return (struct definitions){
        .registry = collector->registry,
        .n_registry = collector->n_registry,
        .server = collector->server,
        .arenas = {collector->registry_arena, collector->config->arena},
    };
}

const struct pg_section *collector_plan(struct collector *collector, int64_t now_us, size_t *ret_n)
{
    const bool narrow = collector->config->only_duty != NULL;
    const struct definitions definitions = definitions_of(collector);
    const struct plan_needs needs = {.probes = &collector->probes,
                                     .identity = collector->identity,
                                     .roles = collector->roles,
                                     .open_pids = collector->open_pids,
                                     .narrow = narrow ? &collector->narrow : NULL};
    plan_begin(&collector->plan, now_us);
    if (narrow)
        collector->narrow = narrow_to(collector->config, &definitions, collector->plan.arena);
    collector->registry_new = false;
    probes_clear_wanted(&collector->probes);
    want_tables(collector, collector->registry, collector->n_registry);
    want_tables(collector, collector->server->duties, collector->server->n_duties);
    plan_make(&collector->plan, &needs);
    *ret_n = collector->plan.n;
    return collector->plan.sections;
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
    bool blocked = false, recovered = false;
    collector->cost_us = 0;
    for (size_t i = 0; i < collector->probes.n; i++) {
        const struct pg_outcome *outcome = outcome_of(reading, &collector->probes.items[i]);
        if (!outcome)
            continue;
        bool ok = outcome->rows != NULL;
        recovered = recovered || (ok && collector->probes.items[i].failures > 0);
        probes_note(&collector->probes, i, ok ? NULL : &outcome->error, collector->plan.now_us);
        blocked = blocked || collector->probes.items[i].blocked_us > 0;
        if (ok)
            collector->cost_us += outcome->clock_after_us - outcome->clock_before_us;
    }
    plan_note(&collector->plan, blocked, recovered);
}

/* What was decoded is copied. */
static void drop_rows(struct reading *reading, size_t probe)
{
    pg_batch_drop_rows(reading->batch, reading->collector->probes.items[probe].position);
}

/* A section whose rows could not be understood is as failed as one that the server refused. */
static void note_unread(struct reading *reading, size_t probe, const struct error *err)
{
    probes_note(&reading->collector->probes, probe, err, reading->collector->plan.now_us);
}

/* Both sections without which there is no picture. */
static const struct pg_answer *required_answer(const struct reading *reading, size_t probe,
                                               struct error *err)
{
    const struct probe *asked = &reading->collector->probes.items[probe];
    const struct pg_outcome *outcome = outcome_of(reading, asked);
    if (outcome->rows)
        return outcome->rows;
    *err = outcome->error; /* it is in every plan */
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
        collector->probes.items[PROBE_CONTROL].next_us = 0;
        collector->probes.items[PROBE_LEDGER_VERSION].next_us = 0;
    }
    return true;
}

/* What is read now and then: by `read`, if it was asked for this time. */
static void read_rarely(struct reading *reading, size_t index,
                        bool (*read)(struct identity *, const struct pg_answer *, struct error *))
{
    struct collector *collector = reading->collector;
    const struct pg_answer *answer = answer_of(reading, index);
    struct error err = {0};
    if (!answer)
        return;
    if (read(collector->identity, answer, &err))
        collector->probes.items[index].next_us = collector->plan.now_us + identity_every_us;
    else
        note_unread(reading, index, &err);
}

/* A server that was promoted or exchanged under the session has no picture until it is known who it
 * is: the next poll asks. */
static bool read_identity(struct reading *reading, struct error *err)
{
    const struct collector *collector = reading->collector;
    const struct section *status = &collector->probes.status[PROBE_IDENTITY];
    read_rarely(reading, PROBE_IDENTITY, identity_read);
    if (identity_known(collector->identity))
        return true;
    if (collector->probes.items[PROBE_IDENTITY].planned && status->message)
        return error_set(err, ERROR_QUERY, "%s", status->message);
    return error_set(err, ERROR_QUERY,
                     "could not tell who the server is: it was promoted or exchanged");
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
        probe->next_us = collector->plan.now_us + identity_every_us;
}

/* The registry outlives a poll in which the ledger could not be read: its locks are still watched.
 */
static void learn_registry(struct reading *reading)
{
    struct collector *collector = reading->collector;
    named_free(STEAL(collector->named));
    arena_free(collector->registry_arena);
    collector->registry_arena = arena_new();
    collector->registry =
        ledger_definitions(&reading->ledger, collector->registry_arena, &collector->n_registry);
    collector->open_pids = ledger_open_pids(&reading->ledger, collector->registry_arena);
    collector->registry_new = !collector->registry_read && collector->n_registry > 0;
    collector->registry_read = true;
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
    if (!reading->ledger_read) {
        note_unread(reading, PROBE_LEDGER, &err);
        return;
    }
    drop_rows(reading, PROBE_LEDGER);
    learn_registry(reading);
}

static void read_roles(struct reading *reading)
{
    const struct pg_answer *answer = answer_of(reading, PROBE_ROLES);
    struct error err = {0};
    if (answer &&
        !roles_learn(reading->collector->roles, answer, reading->collector->plan.now_us, &err))
        note_unread(reading, PROBE_ROLES, &err);
}

/* Sessions that begin or cease to be hidden mean that our privileges changed. */
static void note_hidden(struct collector *collector, bool hidden)
{
    if (hidden != collector->hidden)
        collector->probes.items[PROBE_IDENTITY].next_us = 0;
    collector->hidden = hidden;
}

static bool read_locks(struct reading *reading, struct snapshot *snapshot, struct error *err)
{
    const struct pg_answer *answer = required_answer(reading, PROBE_LOCKS, err);
    struct collector *collector = reading->collector;
    if (!answer)
        return false;
    const struct pg_outcome *outcome = outcome_of(reading, &collector->probes.items[PROBE_LOCKS]);
    snapshot->read_lower_us = outcome->clock_before_us;
    snapshot->read_upper_us = outcome->clock_after_us;
    if (!sessions_decode(answer, identity_database(collector->identity), reading->scratch,
                         &reading->sessions, err)) {
        note_unread(reading, PROBE_LOCKS, err);
        return false;
    }
    drop_rows(reading, PROBE_LOCKS);
    note_hidden(collector, reading->sessions.hidden);
    return true;
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

/* Nothing is known of a lock that was not asked for. */
static bool was_asked(const struct collector *collector, const struct duty *duty)
{
    return !collector->config->only_duty || duty->mechanism == MECHANISM_LEASE ||
           narrow_has(&collector->narrow, duty->key);
}

static void fill_duties(struct reading *reading, struct snapshot *snapshot)
{
    struct filling filling = {.snapshot = snapshot,
                              .sessions = &reading->sessions,
                              .candidates = candidates_new(&reading->sessions),
                              .roles = reading->collector->roles};
    for (size_t i = 0; i < snapshot->n_duties; i++) {
        struct duty *duty = &snapshot->duties[i];
        if (reading->ledger_read && duty->source == SOURCE_LEDGER)
            ledger_fill(&reading->ledger, duty, snapshot->arena);
        if (was_asked(reading->collector, duty))
            fill_lock(&filling, duty);
    }
    candidates_free(filling.candidates);
    fill_from_tables(reading, snapshot);
    for (size_t i = 0; i < snapshot->n_duties; i++)
        fill_term(&snapshot->duties[i], &reading->sessions);
}

static struct named *name_duties(const struct collector *collector)
{
    const struct definitions definitions = definitions_of(collector);
    return named_new(&definitions);
}

static void note_only(struct collector *collector, const struct snapshot *snapshot)
{
    const char *only = collector->config->only_duty;
    const struct duty *duty = only ? snapshot_find(snapshot, only) : NULL;
    collector->only_unread = duty && !duty->read;
}

static struct snapshot *make_snapshot(struct reading *reading, const struct snapshot *previous,
                                      struct error *err)
{
    struct collector *collector = reading->collector;
    struct snapshot *snapshot = snapshot_new();
    bool ok = read_server(reading, err) && read_locks(reading, snapshot, err) &&
              read_identity(reading, err);
    if (!ok) {
        snapshot_unref(snapshot);
        return NULL;
    }
    read_rarely(reading, PROBE_CONTROL, identity_read_control);
    if (!identity_has_ledger(collector->identity) && collector->registry_read) {
        named_free(STEAL(collector->named));
        collector->n_registry = 0;
        collector->registry_read = false;
    }
    read_ledger_version(reading);
    read_ledger(reading);
    read_roles(reading);
    snapshot->facts = identity_facts(collector->identity, snapshot->arena);
    snapshot->foreign_locks = reading->sessions.foreign;
    if (!collector->named)
        collector->named = name_duties(collector);
    duties_list(snapshot, collector->named, collector->config, &reading->sessions, previous);
    fill_duties(reading, snapshot);
    note_only(collector, snapshot);
    return snapshot;
}

/* The server gave no answer, not even to the first questions: that is no section's own failure. */
static bool is_lost(const struct reading *reading, struct error *err)
{
    const struct probe *probes = reading->collector->probes.items;
    for (size_t i = PROBE_SERVER; i <= PROBE_LOCKS; i++) {
        const struct pg_outcome *outcome = outcome_of(reading, &probes[i]);
        if (outcome->error.kind != ERROR_TIMEOUT)
            continue;
        *err = outcome->error;
        return true;
    }
    return false;
}

struct snapshot *collector_take(struct collector *collector, struct pg_batch *batch,
                                const struct snapshot *previous, int64_t started_us,
                                int64_t ended_us, struct error *err)
{
    struct reading reading = {.collector = collector, .batch = batch, .scratch = arena_new()};
    struct snapshot *snapshot = NULL;
    if (!is_lost(&reading, err)) {
        note_outcomes(&reading);
        snapshot = make_snapshot(&reading, previous, err);
    }
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

bool collector_incomplete(const struct collector *collector)
{
    const struct probe *roles = &collector->probes.items[PROBE_ROLES];
    const struct probe *identity = &collector->probes.items[PROBE_IDENTITY];
    const struct probe *ledger = &collector->probes.items[PROBE_LEDGER];
    bool found =
        identity_has_ledger(collector->identity) && !ledger->planned && ledger->failures == 0;
    bool narrow = collector->config->only_duty != NULL;
    bool names = !narrow && !roles->planned && roles->failures == 0 &&
                 roles_wanted(collector->roles, collector->plan.now_us);
    bool rows = collector->registry_new && (!narrow || collector->only_unread);
    return names || found || rows ||
           (!identity->planned && identity->failures == 0 && identity->next_us == 0);
}

void collector_failed(struct collector *collector, const struct error *err)
{
    probes_note_lost(&collector->probes, err);
}

int64_t collector_cost_us(const struct collector *collector)
{
    return collector->cost_us;
}
