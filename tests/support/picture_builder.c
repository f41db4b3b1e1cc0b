/* SPDX-License-Identifier: PostgreSQL */
/* Pictures made by hand. */
#include "tests/support/picture_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "tests/support/own.h"

#define TAKEN_US (100 * SECOND_US) /* CLOCK_MONOTONIC */

struct snapshot *build_snapshot(size_t n_duties)
{
    struct snapshot *snapshot = snapshot_new();
    snapshot->facts = (struct server_facts){
        .system_identifier = "7412345678901234567",
        .timeline = 3,
        .database = "app",
        .version = "15.14",
        .version_num = 150014,
        .postmaster_start_us = BUILT_NOW_US - 30 * DAY_US,
        .privileged = true,
        .direct = true,
        .ledger_version = 1,
        .clock_skew_us = -1500,
    };
    snapshot->read_lower_us = BUILT_NOW_US - 800;
    snapshot->read_upper_us = BUILT_NOW_US;
    snapshot->unregistered_locks = 0;
    snapshot->foreign_locks = 0;
    snapshot->n_duties = n_duties;
    snapshot->duties = arena_array(snapshot->arena, n_duties, sizeof *snapshot->duties);
    for (size_t i = 0; i < n_duties; i++) {
        duty_init(&snapshot->duties[i]);
        snapshot->duties[i].read_lower_us = snapshot->read_lower_us;
        snapshot->duties[i].read_upper_us = snapshot->read_upper_us;
        snapshot->duties[i].name = "";
        snapshot->duties[i].key_text = "";
    }
    return snapshot;
}

void build_duty(struct duty *duty, const char *name, int64_t key)
{
    duty->name = name;
    duty->mechanism = MECHANISM_LOCK;
    duty->source = SOURCE_CONFIG;
    duty->key = (struct lock_key){
        .classid = (uint32_t)((uint64_t)key >> 32), .objid = (uint32_t)key, .objsubid = 1};
    duty->key_text = "742118";
    duty->read = true;
    duty->state = DUTY_VACANT;
    duty->trail.judged = true;
}

void build_owner(struct duty *duty, int32_t pid, const char *holder, int64_t age_us)
{
    duty->state = DUTY_LED;
    duty->owners = 1;
    duty->owner = (struct owner){
        .pid = pid,
        .backend_start_us = BUILT_NOW_US - age_us - MINUTE_US,
        .acquired_us = TIME_UNKNOWN,
        .holder = holder,
        .application_name = holder,
        .usename = "worker",
        .client_addr = "10.0.4.17",
    };
    duty->acquired_us = BUILT_NOW_US - age_us;
    duty->acquired_source = "seen";
    duty->age_us = age_us;
    duty->age_uncertainty_us = 1000000;
    duty->trail.held = duty->trail.ever_owned = duty->trail.acquisition_seen = true;
    duty->trail.last = &duty->owner;
}

struct published *build_published(const char *server, struct snapshot *snapshot)
{
    struct published *published = xcalloc(1, sizeof *published);
    atomic_init(&published->references, 1);
    published->server = xstrdup(server);
    published->snapshot = snapshot;
    published->success_monotonic_us = snapshot ? TAKEN_US - 250000 : TIME_UNKNOWN;
    published->fresh_for_us = 3 * SECOND_US;
    published->n_sections = 3;
    published->sections = xcalloc(3, sizeof *published->sections);
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"server", "locks", "ledger"};
        published->sections[i].name = xstrdup(names[i]);
        published->sections[i].up = snapshot != NULL;
    }
    published->stats = (struct poll_stats){
        .polls = {0, 40, 17, 2, 1},
        .poll_sum_us = 123456,
        .interval_us = SECOND_US,
        .last_poll_us = BUILT_NOW_US - 250000,
        .last_success_us = snapshot ? BUILT_NOW_US - 250000 : 0,
        .connects = 1,
        .tried = true,
    };
    return published;
}

void build_picture(struct picture *ret_picture, struct published *const *servers, size_t n)
{
    *ret_picture = (struct picture){
        .servers = xcalloc(n, sizeof *ret_picture->servers),
        .fresh = xcalloc(n, sizeof *ret_picture->fresh),
        .n = n,
        .serial = 1,
        .taken_us = TAKEN_US,
        .reload_ok = true,
        .reload_us = BUILT_NOW_US - HOUR_US,
    };
    for (size_t i = 0; i < n; i++) {
        ret_picture->servers[i] = servers[i];
        ret_picture->fresh[i] = servers[i]->snapshot != NULL;
    }
}

/* A led duty with everything that the ledger knows. */
static void build_recorded(struct duty *duty, const char *name, int64_t key, int32_t pid,
                           struct arena *arena)
{
    build_duty(duty, name, key);
    build_owner(duty, pid, "invoice-worker-7c9f", 3 * HOUR_US + 120 * SECOND_US);
    duty->source = SOURCE_LEDGER;
    duty->in_ledger = duty->yieldable = duty->term_begun = true;
    duty->acquired_source = "ledger";
    duty->age_uncertainty_us = 0;
    duty->generation = own_term(arena, &duty->term)->generation = 28834112;
    duty->team = "billing";
    duty->candidates = 3;
    duty->waiters = 1;
    duty->oldest_wait_us = 1234567;
    struct thresholds *limits = own_limits(arena, duty);
    limits->min_candidates = 2;
    limits->stall_after_us = 5 * MINUTE_US;
    struct past *past = duty_past(duty, arena);
    past->transitions[RULE_ACQUIRED] = 1;
    past->transitions[RULE_TAKEOVER] = 2;
    past->last_term_us = 7 * DAY_US + 1;
    past->takeover_at_us = duty->acquired_us;
    past->takeover_lower_us = 41000;
    past->takeover_upper_us = 143250;
    *own_run(arena, &duty->run) = (struct run){
        .present = true,
        .key = "2025-11-29",
        .status = "running",
        .cursor = "48210",
        .position = 48210,
        .target = 120000,
        .started_us = BUILT_NOW_US - 40 * MINUTE_US,
        .advanced_us = BUILT_NOW_US - 2500000,
        .deadline_us = BUILT_NOW_US + HOUR_US,
        .finished_us = TIME_UNKNOWN,
    };
    int64_t *yields = own_yields(arena, duty);
    for (int i = 0; i < YIELD_OUTCOMES; i++)
        yields[i] = i == YIELD_MOVED;
}

static void build_lease(struct duty *duty, const char *name, struct arena *arena)
{
    build_duty(duty, name, 0);
    build_owner(duty, 0, "pod-\"a\\b\"-\xC3\xA4", 90 * SECOND_US);
    duty->mechanism = MECHANISM_LEASE;
    duty->key_text = "public.leader_lease:nightly_report";
    duty->owner.backend_start_us = TIME_UNKNOWN;
    duty->owner.application_name = "";
    duty->owner.usename = duty->owner.client_addr = NULL;
    duty->acquired_us = TIME_UNKNOWN;
    duty->age_uncertainty_us = -1;
    duty->lease_expires_us = BUILT_NOW_US + 7250000;
    duty->lease_duration_us = 10 * SECOND_US;
    struct run *run = own_run(arena, &duty->run);
    run->present = true; /* from a table of the application's own */
    run->cursor = "0.1";
    run->position = 0.1;
    run->advanced_us = BUILT_NOW_US - 61 * SECOND_US;
}

static void build_contested(struct duty *duty, struct arena *arena)
{
    build_duty(duty, "jobs/contested", 5);
    build_owner(duty, 4102, "worker-b", 20 * SECOND_US);
    duty->state = DUTY_CONTESTED;
    duty->source = SOURCE_LEDGER;
    duty->in_ledger = duty->mismatch = true;
    own_limits(arena, duty)->alerts_paused_until_us = BUILT_NOW_US + HOUR_US;
}

static void build_pooled(struct duty *duty)
{
    build_duty(duty, "jobs/pooled", 6);
    build_owner(duty, 4103, "worker-c", 5 * MINUTE_US);
    duty->state = DUTY_STALLED;
    duty->trail.pooled = true;
    duty->age_uncertainty_us = 2 * DAY_US;
    duty->acquired_us = TIME_UNKNOWN;
    duty->acquired_source = "first seen held";
    duty->owner_xmin_age = 1200345;
    duty->owner_xact_age_us = 4 * MINUTE_US;
}

static void build_unread(struct duty *duty)
{
    build_duty(duty, "jobs/unread", 7);
    duty->read = false;
    duty->state = DUTY_UNKNOWN;
}

static void build_vacant(struct duty *duty, struct arena *arena)
{
    build_duty(duty, "jobs/vacant", 8);
    duty->trail.ever_owned = true;
    struct past *past = duty_past(duty, arena);
    past->lost_upper_us = BUILT_NOW_US - 42 * SECOND_US;
    past->last_term_us = 12 * MINUTE_US;
    duty->candidates = 0;
    struct run *last = own_run(arena, &duty->last_run);
    last->present = true;
    last->position = 1e18;
    last->finished_us = BUILT_NOW_US - 3 * HOUR_US;
}

static void build_discovered(struct duty *duty)
{
    build_duty(duty, "advisory/12,-7", 0);
    build_owner(duty, 4100, "psql", 2 * MINUTE_US);
    duty->source = SOURCE_DISCOVERY;
    duty->key_text = "12,-7";
}

static struct snapshot *build_primary(void)
{
    struct snapshot *snapshot = build_snapshot(7);
    struct duty *duties = snapshot->duties;
    build_discovered(&duties[0]);
    build_contested(&duties[1], snapshot->arena);
    build_recorded(&duties[2], "jobs/invoice-reconcile", 742118, 4101, snapshot->arena);
    build_pooled(&duties[3]);
    build_unread(&duties[4]);
    build_vacant(&duties[5], snapshot->arena);
    build_lease(&duties[6], "reports/nightly", snapshot->arena);
    snapshot->unregistered_locks = 1;
    snapshot->takeovers[4] = 2;
    snapshot->takeovers[7] = 1;
    snapshot->takeover_sum_us = 3143250;
    return snapshot;
}

static struct snapshot *build_standby(void)
{
    struct snapshot *snapshot = build_snapshot(1);
    snapshot->facts.in_recovery = true;
    snapshot->facts.system_identifier = NULL;
    snapshot->facts.timeline = -1;
    snapshot->facts.privileged = false;
    snapshot->facts.ledger_version = -1;
    snapshot->facts.clock_skew_us = TIME_UNKNOWN;
    snapshot->unregistered_locks = snapshot->foreign_locks = -1;
    build_duty(&snapshot->duties[0], "jobs/invoice-reconcile", 742118);
    build_owner(&snapshot->duties[0], 77, "stranger", MINUTE_US);
    snapshot->duties[0].state = DUTY_UNKNOWN;
    return snapshot;
}

void build_example(struct picture *ret_picture)
{
    struct published *servers[] = {
        build_published("prod-us", build_primary()),
        build_published("prod-us-standby", build_standby()),
        build_published("prod-eu", build_primary()),
        build_published("never-reached", NULL),
    };
    build_picture(ret_picture, servers, 4);
    servers[2]->success_monotonic_us = TAKEN_US - 95 * SECOND_US;
    ret_picture->fresh[2] = false;
}

void build_many(struct picture *ret_picture, size_t n)
{
    struct snapshot *snapshot = build_snapshot(n);
    for (size_t i = 0; i < n; i++)
        build_recorded(&snapshot->duties[i],
                       arena_printf(snapshot->arena, "jobs/invoice-reconcile-%05zu", i),
                       742118 + (int64_t)i, 4000 + (int32_t)i, snapshot->arena);
    struct published *server = build_published("prod-us", snapshot);
    build_picture(ret_picture, &server, 1);
}

void build_hostile(struct picture *ret_picture, const char *text)
{
    struct snapshot *snapshot = build_snapshot(1);
    struct duty *duty = &snapshot->duties[0];
    const char *copy = arena_strdup(snapshot->arena, text);
    build_recorded(duty, copy, 1, 1, snapshot->arena);
    duty->key_text = duty->team = duty->runbook = duty->candidate_pattern = copy;
    duty->owner.holder = duty->owner.application_name = copy;
    duty->owner.usename = duty->owner.client_addr = copy;
    duty->acquired_source = copy;
    struct run *run = own_run(snapshot->arena, &duty->run);
    run->key = run->status = run->cursor = copy;
    struct term *term = own_term(snapshot->arena, &duty->term);
    term->instance = term->end_reason = copy;
    snapshot->facts.system_identifier = snapshot->facts.database = copy;
    snapshot->facts.version = copy;
    struct published *server = build_published(text, snapshot);
    free((char *)server->sections[2].name);
    server->sections[2].name = xstrdup(text);
    server->sections[2].message = xstrdup(text);
    build_picture(ret_picture, &server, 1);
}
