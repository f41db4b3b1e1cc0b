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

/* What the section is asked with; the text is the plan's. */
static int fill_params(const struct plan *plan, const struct plan_needs *needs,
                       const struct probe *probe, const char *out[PG_PARAMS_MAX])
{
    const struct narrow *narrow = needs->narrow;
    switch (probe->kind) {
    case PROBE_LOCKS:
        out[0] = narrow ? narrow->keys : needs->open_pids;
        return 1;
    case PROBE_LEDGER:
        if (!narrow)
            return 0;
        out[0] = narrow->names;
        out[1] = narrow->keys;
        return 2;
    case PROBE_ROLES:
        out[0] = roles_question(needs->roles, plan->arena);
        return 1;
    case PROBE_LEASE:
        out[0] = text_array(probe->rows, probe->n_rows, plan->arena);
        return 1;
    case PROBE_SERVER:
    case PROBE_IDENTITY:
    case PROBE_CONTROL:
    case PROBE_LEDGER_VERSION:
    case PROBE_PROGRESS:
        break;
    }
    return 0;
}

static void add(struct plan *plan, const struct plan_needs *needs, struct probe *probe)
{
    probe->planned = true;
    probe->position = plan->n;
    struct pg_section *section = &plan->sections[plan->n++];
    *section = (struct pg_section){
        .name = probe->name,
        .query = probe->query,
        .prepared = identity_direct(needs->identity) ? &probe->prepared : NULL,
        .lock_timeout_us = SECTION_LOCK_TIMEOUT_US,
        .statement_timeout_us = SECTION_STATEMENT_TIMEOUT_US,
    };
    section->n_params = fill_params(plan, needs, probe, section->params);
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
