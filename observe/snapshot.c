/* SPDX-License-Identifier: PostgreSQL */
/* The life of a snapshot, and the words for its enums. */
#include "observe/snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

const char *const yield_outcome_names[YIELD_OUTCOMES] = {
    [YIELD_MOVED] = "moved",     [YIELD_RETURNED] = "returned",
    [YIELD_VACANT] = "vacant",   [YIELD_NOT_CONFIRMED] = "not-confirmed",
    [YIELD_UNKNOWN] = "unknown", [YIELD_REFUSED] = "refused",
};

const int64_t takeover_bucket_us[TAKEOVER_BUCKETS] = {
    1000,          5000,          25000,         100000,         250000,
    500000,        SECOND_US,     5 * SECOND_US, 15 * SECOND_US, 30 * SECOND_US,
    1 * MINUTE_US, 5 * MINUTE_US, INT64_MAX,
};

struct snapshot *snapshot_new(void)
{
    struct arena *arena = arena_new();
    struct snapshot *snapshot = arena_alloc(arena, sizeof *snapshot);
    snapshot->arena = arena;
    snapshot->unregistered_locks = -1;
    snapshot->foreign_locks = -1;
    atomic_init(&snapshot->references, 1);
    return snapshot;
}

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
    if (snapshot)
        atomic_fetch_add(&snapshot->references, 1);
    return snapshot;
}

void snapshot_unref(struct snapshot *snapshot)
{
    if (!snapshot || atomic_fetch_sub(&snapshot->references, 1) != 1)
        return;
    arena_free(snapshot->definitions);
    arena_free(snapshot->arena);
}

static int compare_name(const void *name, const void *duty)
{
    return strcmp(name, ((const struct duty *)duty)->name);
}

const struct duty *snapshot_find(const struct snapshot *snapshot, const char *name)
{
    if (snapshot->n_duties == 0)
        return NULL;
    return bsearch(name, snapshot->duties, snapshot->n_duties, sizeof *snapshot->duties,
                   compare_name);
}

static const struct thresholds no_limits = {
    .min_candidates = -1,
    .stall_after_us = -1,
    .run_every_us = -1,
    .takeover_slow_after_us = -1,
    .wait_slow_after_us = -1,
    .alerts_paused_until_us = TIME_UNKNOWN,
};

static const struct term no_term = {
    .generation = -1,
    .pid = -1,
    .backend_start_us = TIME_UNKNOWN,
    .acquired_us = TIME_UNKNOWN,
    .last_refused_us = TIME_UNKNOWN,
    .ended_us = TIME_UNKNOWN,
};

static const struct run no_run = {
    .position = NAN,
    .target = NAN,
    .started_us = TIME_UNKNOWN,
    .advanced_us = TIME_UNKNOWN,
    .deadline_us = TIME_UNKNOWN,
    .finished_us = TIME_UNKNOWN,
};

static const int64_t no_yields[YIELD_OUTCOMES] = {-1, -1, -1, -1, -1, -1};

static const struct owner no_owner = {
    .backend_start_us = TIME_UNKNOWN,
    .acquired_us = TIME_UNKNOWN,
};

static const struct past no_past = {
    .lost_lower_us = TIME_UNKNOWN,
    .lost_upper_us = TIME_UNKNOWN,
    .lost_seen_us = TIME_UNKNOWN,
    .lost_until_us = TIME_UNKNOWN,
    .lost_generation = -1,
    .last_term_us = -1,
    .takeover_at_us = TIME_UNKNOWN,
    .takeover_lower_us = -1,
    .takeover_upper_us = -1,
};

static const struct trail no_trail = {
    .seen_lower_us = TIME_UNKNOWN,
    .last = &no_owner,
    .past = &no_past,
    .acquired_lower_us = TIME_UNKNOWN,
    .acquired_upper_us = TIME_UNKNOWN,
    .generation = -1,
    .server_start_us = TIME_UNKNOWN,
    .stranger_generation = -1,
    .cursor_changed_us = TIME_UNKNOWN,
    .lease_span_us = -1,
    .seen_us = TIME_UNKNOWN,
};

void duty_init(struct duty *duty)
{
    *duty = (struct duty){
        .limits = &no_limits,
        .read_lower_us = TIME_UNKNOWN,
        .read_upper_us = TIME_UNKNOWN,
        .candidates = -1,
        .oldest_wait_us = -1,
        .owner_xmin_age = -1,
        .waiter_xmin_age = -1,
        .owner_xact_age_us = -1,
        .lease_expires_us = TIME_UNKNOWN,
        .lease_duration_us = -1,
        .term = &no_term,
        .previous = &no_term,
        .generation = -1,
        .run = &no_run,
        .last_run = &no_run,
        .yields = no_yields,
        .acquired_us = TIME_UNKNOWN,
        .age_us = -1,
        .age_uncertainty_us = -1,
        .trail = no_trail,
    };
}

/* What history carried over is in the arena already: only what all share is not one's own. */
struct past *duty_past(struct duty *duty, struct arena *arena)
{
    if (duty->trail.past == &no_past)
        duty->trail.past = arena_copy(arena, &no_past, sizeof no_past);
    return (struct past *)duty->trail.past;
}

const char *duty_state_name(enum duty_state state)
{
    static const char *const names[] = {
        [DUTY_UNKNOWN] = "unknown",     [DUTY_LED] = "led",
        [DUTY_VACANT] = "vacant",       [DUTY_STALLED] = "stalled",
        [DUTY_CONTESTED] = "contested", [DUTY_YIELDING] = "yielding",
    };
    return names[state];
}

const char *duty_source_name(enum duty_source source)
{
    static const char *const names[] = {
        [SOURCE_LEDGER] = "ledger",
        [SOURCE_CONFIG] = "config",
        [SOURCE_ADAPTER] = "adapter",
        [SOURCE_DISCOVERY] = "discovery",
    };
    return names[source];
}

const char *mechanism_name(enum mechanism mechanism)
{
    return mechanism == MECHANISM_LEASE ? "lease" : "lock";
}
