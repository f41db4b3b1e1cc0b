/* SPDX-License-Identifier: PostgreSQL */
/* From facts to an outcome. */
#include "tui/yield_outcome.h"

#include <inttypes.h>

#include "base/text.h"

static const struct yield_lock *session_of(const struct yield_facts *facts, int32_t pid,
                                           int64_t backend_start_us)
{
    for (size_t i = 0; i < facts->n_locks; i++) {
        if (facts->locks[i].pid == pid && facts->locks[i].backend_start_us == backend_start_us)
            return &facts->locks[i];
    }
    return NULL;
}

static bool same_address(const struct yield_lock *lock, const char *client_addr)
{
    return text_equal(lock->client_addr ? lock->client_addr : "local",
                      client_addr ? client_addr : "local");
}

/* The term that the holder began after the frozen one. */
static const struct yield_ledger *newer_term(const struct yield_target *target,
                                             const struct yield_facts *facts,
                                             const struct yield_lock *holder)
{
    const struct yield_ledger *ledger = facts->ledger;
    bool newer = ledger && ledger->term_open && ledger->generation > target->generation;
    if (target->mechanism == MECHANISM_LOCK)
        newer = newer && ledger->term_pid == holder->pid &&
                ledger->term_backend_start_us == holder->backend_start_us;
    return newer ? ledger : NULL;
}

static void see_lease(const struct yield_target *target, const struct yield_facts *facts,
                      struct arena *arena, struct yield_sight *sight)
{
    const struct yield_ledger *ledger = facts->ledger;
    if (!ledger || !ledger->lease_holder)
        return;
    sight->led = true;
    sight->held = ledger->lease_generation == target->generation;
    sight->same_instance = text_equal(ledger->lease_holder, target->holder);
    sight->begun = !sight->held;
    sight->generation = ledger->lease_generation;
    sight->successor = arena_printf(arena, "\"%s\"", ledger->lease_holder);
}

static bool is_targets(const struct yield_target *target, const struct yield_lock *holder)
{
    return holder && holder->pid == target->pid &&
           holder->backend_start_us == target->backend_start_us;
}

static bool is_same_instance(const struct yield_target *target, const struct yield_lock *holder,
                             const struct yield_ledger *term)
{
    const char *name = holder->application_name ? holder->application_name : "";
    if (is_targets(target, holder))
        return true;
    if (term && target->instance)
        return text_equal(term->term_instance, target->instance);
    return *name && text_equal(name, target->application_name) &&
           same_address(holder, target->client_addr);
}

/* By the key that decides now; the frozen session that keeps the frozen one is not gone either. */
static const struct yield_lock *leader_of(const struct yield_target *target,
                                          const struct yield_facts *facts)
{
    const struct yield_lock *holder = yield_holder(facts->key, facts);
    const struct yield_lock *before = yield_holder(target->key, facts);
    return holder || !is_targets(target, before) ? holder : before;
}

static void see_lock(const struct yield_target *target, const struct yield_facts *facts,
                     struct arena *arena, struct yield_sight *sight)
{
    const struct yield_lock *holder = leader_of(target, facts);
    if (!holder)
        return;
    const struct yield_ledger *term = newer_term(target, facts, holder);
    bool same = is_targets(target, holder);
    sight->led = true;
    sight->held = same && !(target->generation >= 0 && term);
    sight->same_instance = is_same_instance(target, holder, term);
    sight->begun = target->generation < 0 || term;
    sight->pid = holder->pid;
    sight->backend_start_us = holder->backend_start_us;
    sight->generation = term ? term->generation : -1;
    const char *name =
        holder->application_name && *holder->application_name ? holder->application_name : "";
    sight->successor = term
                           ? arena_printf(arena, "\"%s\" (pid %d, generation %" PRId64 ")",
                                          term->term_instance, holder->pid, term->generation)
                           : arena_printf(arena, "pid %d%s%s", holder->pid, *name ? " " : "", name);
}

/* A restart alone is no other server: its sessions are gone, and its locks say who leads. */
static bool is_elsewhere(const struct yield_target *target, const struct yield_facts *facts)
{
    bool other = target->system_identifier && facts->system_identifier &&
                 !text_equal(target->system_identifier, facts->system_identifier);
    return other || facts->server.in_recovery ||
           !text_equal(target->database, facts->server.database);
}

struct yield_sight yield_see(const struct yield_target *target, const struct yield_facts *facts,
                             struct arena *arena)
{
    struct yield_sight sight = {.generation = -1, .backend_start_us = TIME_UNKNOWN};
    const struct yield_ledger *ledger = facts->ledger;
    sight.elsewhere = is_elsewhere(target, facts);
    if (sight.elsewhere)
        return sight;
    if (target->mechanism == MECHANISM_LEASE)
        see_lease(target, facts, arena, &sight);
    else
        see_lock(target, facts, arena, &sight);
    sight.old_session =
        (target->pid > 0 && session_of(facts, target->pid, target->backend_start_us)) ||
        (target->pid > 0 && facts->server.pid == target->pid &&
         facts->server.backend_start_us == target->backend_start_us);
    sight.old_stopped = ledger && target->generation >= 0 &&
                        ledger->previous_generation == target->generation &&
                        ledger->previous_stopped_us != TIME_UNKNOWN;
    return sight;
}

bool yield_settled(const struct yield_sight *sight)
{
    return sight->led && !sight->held && (sight->begun || sight->same_instance);
}

enum yield_outcome yield_judge(const struct yield_sight *sight)
{
    if (sight->elsewhere)
        return YIELD_UNKNOWN;
    if (sight->held)
        return YIELD_NOT_CONFIRMED;
    if (!sight->led)
        return YIELD_VACANT;
    return sight->same_instance ? YIELD_RETURNED : YIELD_MOVED;
}
