/* SPDX-License-Identifier: PostgreSQL */
/* Puts the sections that are due in order. */
#include "observe/plan.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "observe/table_rows.h"

static const int64_t share_least_us = SECOND_US;
static const int64_t share_most_us = MINUTE_US;

void plan_init(struct plan *plan)
{
    *plan = (struct plan){.arena = arena_new(), .share_us = share_least_us};
}

void plan_done(struct plan *plan)
{
    arena_free(plan->arena);
    free(plan->sections);
}

void plan_begin(struct plan *plan, int64_t now_us)
{
    arena_free(plan->arena);
    plan->arena = arena_new();
    plan->now_us = now_us;
    plan->n = 0;
}

/* Whether there is anything to ask; a section that is not relevant any more is not shown as failed.
 */
static bool is_relevant(const struct plan_needs *needs, const struct probe *probe)
{
    switch (probe->kind) {
    case PROBE_SERVER:
    case PROBE_LOCKS:
    case PROBE_IDENTITY:
    case PROBE_CONTROL:
        return true;
    case PROBE_ROLES:
        return !needs->narrow;
    case PROBE_LEDGER_VERSION:
    case PROBE_LEDGER:
        return identity_has_ledger(needs->identity);
    case PROBE_LEASE:
    case PROBE_PROGRESS:
        return probe->wanted;
    }
    return false;
}

static void find_due(const struct plan_needs *needs, int64_t now_us)
{
    struct probes *probes = needs->probes;
    for (size_t i = 0; i < probes->n; i++) {
        struct probe *probe = &probes->items[i];
        bool relevant = is_relevant(needs, probe);
        if (!relevant)
            probes->status[i].known = false;
        probe->planned = false;
        probe->due = relevant && now_us >= probe->next_us;
        if (probe->kind == PROBE_ROLES)
            probe->due = probe->due && roles_wanted(needs->roles, now_us);
    }
}

static const char *parameter_of(const struct plan *plan, const struct plan_needs *needs,
                                const struct probe *probe)
{
    if (probe->kind == PROBE_LOCKS)
        return needs->narrow ? needs->narrow->keys : needs->open_pids;
    if (probe->kind == PROBE_LEDGER)
        return needs->narrow ? needs->narrow->names : NULL;
    if (probe->kind == PROBE_ROLES)
        return roles_question(needs->roles, plan->arena);
    if (probe->kind == PROBE_LEASE)
        return text_array(probe->rows, probe->n_rows, plan->arena);
    return NULL;
}

static void add(struct plan *plan, const struct plan_needs *needs, struct probe *probe)
{
    const char *parameter = parameter_of(plan, needs, probe);
    const char *second = needs->narrow && probe->kind == PROBE_LEDGER ? needs->narrow->keys : NULL;
    probe->planned = true;
    probe->position = plan->n;
    plan->sections[plan->n++] = (struct pg_section){
        .name = probe->name,
        .query = probe->query,
        .n_params = second      ? 2
                    : parameter ? 1
                                : 0,
        .params = {parameter, second},
        .prepared = identity_direct(needs->identity) ? &probe->prepared : NULL,
        .lock_timeout_us = SECTION_LOCK_TIMEOUT_US,
        .statement_timeout_us = SECTION_STATEMENT_TIMEOUT_US,
    };
}

static void add_failing(struct plan *plan, const struct plan_needs *needs)
{
    struct probes *probes = needs->probes;
    int64_t left = plan->share_us;
    size_t first = plan->next;
    for (size_t i = 0; i < probes->n; i++) {
        size_t index = (first + i) % probes->n;
        struct probe *probe = &probes->items[index];
        if (!probe->due || probe->planned || probe->blocked_us > left)
            continue;
        add(plan, needs, probe);
        left -= probe->blocked_us;
        plan->next = index + 1;
    }
}

void plan_make(struct plan *plan, const struct plan_needs *needs)
{
    struct probes *probes = needs->probes;
    plan->sections = xreallocarray(plan->sections, probes->n, sizeof *plan->sections);
    find_due(needs, plan->now_us);
    for (size_t i = 0; i < probes->n; i++) {
        struct probe *probe = &probes->items[i];
        if (probe->due && (i <= PROBE_LOCKS || probe->failures == 0))
            add(plan, needs, probe);
    }
    add_failing(plan, needs);
}

/* The share grows while sections are read again, so that many soon are. */
void plan_note(struct plan *plan, bool blocked, bool recovered)
{
    if (blocked)
        plan->share_us = share_least_us;
    else if (recovered && plan->share_us < share_most_us)
        plan->share_us *= 2;
}
