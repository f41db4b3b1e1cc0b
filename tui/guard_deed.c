/* SPDX-License-Identifier: PostgreSQL */
/* Rules of the deed: may it be done, what ends with it, who succeeds, who notes it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/guard_rules.h"

void check_client(struct check *check)
{
    const struct yield_server *server = &check->facts->server;
    if (check_is_lease(check))
        check_pass(check, "A lease has no session.");
    else if (server->pid == check->target->pid && server->backend_type &&
             !text_equal(server->backend_type, "client backend"))
        check_fail(check,
                   arena_printf(check->arena, "The session is a \"%s\", no client's.",
                                server->backend_type),
                   "Stop what started it: a background worker is not a leader's session.");
    else
        check_pass(check, "The session is a client's.");
}

static void check_signal_by_ledger(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    const struct yield_server *server = &check->facts->server;
    const char *owner = ledger->function_owner ? ledger->function_owner : "the ledger's owner";
    if (server->target_superuser && !ledger->owner_superuser)
        check_fail_privilege(
            check,
            arena_printf(check->arena,
                         "The session is of the superuser \"%s\", which \"%s\" may not "
                         "end (42501).",
                         server->usename, owner),
            "A superuser has to end it; let workers connect as an ordinary role.");
    else if (!ledger->owner_may_signal && !ledger->owner_superuser)
        check_fail_privilege(
            check,
            arena_printf(check->arena, "The ledger's owner \"%s\" may not signal (42501).", owner),
            arena_printf(check->arena, "GRANT pg_signal_backend, pg_read_all_stats TO \"%s\";",
                         owner));
    else
        check_pass(check, arena_printf(check->arena, "The ledger's function may end it, as \"%s\".",
                                       owner));
}

void check_signal(struct check *check)
{
    const struct yield_server *server = &check->facts->server;
    if (check_is_lease(check))
        check_pass(check, "Nothing is signalled: a lease has no session.");
    else if (check_term_hidden(check))
        check_note(check, "Who may end it depends on its term, which cannot be told.",
                   "See the guard identity.");
    else if (check->road == ROAD_LEDGER)
        check_signal_by_ledger(check);
    else if (server->superuser)
        check_pass(check, "You may signal: you are a superuser.");
    else if (server->target_superuser)
        check_fail_privilege(check,
                             arena_printf(check->arena,
                                          "The session is of the superuser \"%s\", which only a "
                                          "superuser may end (42501).",
                                          server->usename),
                             "A superuser has to end it; let workers connect as an ordinary role.");
    else if (server->pid == check->target->pid && !server->may_signal)
        check_fail_privilege(check,
                             arena_printf(check->arena,
                                          "You may not signal a session of \"%s\" (42501).",
                                          server->usename ? server->usename : "?"),
                             "GRANT pg_signal_backend to your role, or that role itself.");
    else
        check_pass(check, "You may signal.");
}

void check_lease(struct check *check)
{
    const struct yield_target *target = check->target;
    if (!check_is_lease(check))
        check_pass(check, "A lock decides the duty.");
    else if (!is_own_lease(target))
        check_fail(
            check,
            "A lease of the application's own decides the duty. It is never overwritten: nothing "
            "can stop the old holder, and two would work at once.",
            "Stop the holder's process; the lease expires by itself.");
    else if (!check->facts->ledger || !check->facts->ledger->term_listens)
        check_fail(
            check,
            "The lease's holder does not listen, and nothing can stop it: a new holder would "
            "work beside it.",
            "Stop the holder's process; the lease expires by itself.");
    else
        check_pass(check, "The lease's holder listens: it is asked to release.");
}

void check_yieldable(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    if (ledger && !ledger->yieldable)
        check_fail(
            check, "The duty is registered as not yieldable.",
            "register_duty(..., yieldable => true) allows it; its team knows why it is not.");
    else
        check_pass(check, check->facts->ledger_denied
                              ? "Nothing is known against it: the ledger may not be read."
                              : "The duty may be yielded.");
}

void check_open(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    if (ledger && ledger->yield_open)
        check_fail(check,
                   arena_printf(check->arena, "Yield %" PRId64 " of \"%s\" is open.",
                                ledger->yield_intent, ledger->yield_by ? ledger->yield_by : "?"),
                   arena_printf(check->arena, "Wait for it; it expires at %s.",
                                yield_time(ledger->yield_expires_us, check->arena)));
    else
        check_pass(check, ledger ? "No other yield is open."
                          : check->facts->ledger_denied
                              ? "None is known: the ledger may not be read."
                              : "No other yield is known: without the ledger none is recorded.");
}

static void append(struct check *check, const char **list, const char *item)
{
    *list = **list ? arena_printf(check->arena, "%s, %s", *list, item) : item;
}

/* While the duty's key changes its leader holds the reserved one, too. */
static bool is_next_key(const struct yield_ledger *ledger, const struct yield_lock *lock)
{
    return ledger && lock->objsubid == ledger->next_objsubid &&
           lock->classid == ledger->next_classid && lock->objid == ledger->next_objid;
}

void check_duties(struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_ledger *ledger = check->facts->ledger;
    bool termed = yield_term_is_targets(target, check->facts);
    const char *others = "";
    for (size_t i = 0; i < check->facts->n_locks && target->pid > 0; i++) {
        const struct yield_lock *lock = &check->facts->locks[i];
        struct lock_key key = {(uint32_t)lock->classid, (uint32_t)lock->objid,
                               (uint16_t)lock->objsubid};
        char text[LOCK_KEY_TEXT_SIZE];
        if (lock->pid != target->pid || lock->objsubid < 0 || !lock->granted ||
            lock_key_equal(key, target->key) || (termed && is_next_key(ledger, lock)))
            continue;
        lock_key_format(key, text);
        append(check, &others, arena_strdup(check->arena, text));
    }
    if (*others)
        check_note(check,
                   arena_printf(check->arena,
                                "The same session also holds %s: these end with it.%s%s%s", others,
                                termed && ledger->also_leads ? " It leads " : "",
                                termed && ledger->also_leads ? ledger->also_leads : "",
                                termed && ledger->also_leads ? ", too." : ""),
                   "Be sure that those duties may move, too.");
    else
        check_pass(check, "The session holds no other advisory lock.");
}

static const char *percent(const struct yield_ledger *ledger, struct arena *arena)
{
    double share = 100 * ledger->run_position / ledger->run_target;
    return isfinite(share) ? arena_printf(arena, " (%.0f %%)", share) : "";
}

void check_run(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    const struct yield_server *server = &check->facts->server;
    if (ledger && ledger->run_key)
        check_note(
            check,
            arena_printf(check->arena,
                         "Run %s is at \"%s\"%s: the successor resumes there, and does again "
                         "what came after.",
                         ledger->run_key, ledger->run_cursor ? ledger->run_cursor : "the start",
                         percent(ledger, check->arena)),
            "");
    else if (server->pid == check->target->pid && server->xact_start_us != TIME_UNKNOWN)
        check_note(check,
                   arena_printf(check->arena,
                                "The session is in a transaction since %s: it rolls back.",
                                yield_time(server->xact_start_us, check->arena)),
                   "");
    else
        check_pass(check, ledger ? "No run is under way." : "Nothing is known of runs.");
}

static bool same_instance(const struct yield_lock *a, const struct yield_lock *b)
{
    bool named = a->application_name && *a->application_name;
    return a->pid == b->pid || (named && text_equal(a->application_name, b->application_name) &&
                                text_equal(a->client_addr, b->client_addr));
}

static bool is_candidate(const struct check *check, const struct yield_lock *lock)
{
    const struct yield_target *target = check->target;
    const char *pattern = check->facts->ledger && check->facts->ledger->candidate_pattern
                              ? check->facts->ledger->candidate_pattern
                              : target->candidate_pattern;
    const char *name = lock->application_name ? lock->application_name : "";
    char prefix[128];
    int size = snprintf(prefix, sizeof prefix, "pgleader:%.100s:", target->duty);
    bool waits = !check_is_lease(check) && lock->objsubid == target->key.objsubid &&
                 !lock->granted && lock->exclusive && lock->classid == target->key.classid &&
                 lock->objid == target->key.objid;
    return waits || strncmp(name, prefix, (size_t)size) == 0 ||
           (pattern && text_like(name, pattern));
}

/* The owner as a session; of a lease, its holder's name says which that is. */
static bool is_owner(const struct check *check, const struct yield_lock *lock)
{
    const struct yield_lock *holder = yield_holder(check->target->key, check->facts);
    if (!check_is_lease(check))
        return holder && same_instance(holder, lock);
    const char *wanted = arena_printf(check->arena, "pgleader:%s:%s", check->target->duty,
                                      check->target->holder ? check->target->holder : "");
    return text_equal(lock->application_name, wanted);
}

void check_successor(struct check *check)
{
    int ready = 0;
    const char *first = NULL;
    for (size_t i = 0; i < check->facts->n_locks; i++) {
        const struct yield_lock *lock = &check->facts->locks[i];
        if (!is_candidate(check, lock) || is_owner(check, lock))
            continue;
        ready++;
        if (!first)
            first = check_describe(lock, check->arena);
    }
    if (ready == 0)
        check_fail(
            check, "No successor is ready: nobody waits, and no other candidate has a session.",
            "Start one, or name the candidates' pattern; or --override no-successor, and the "
            "duty may stay vacant.");
    else
        check_pass(check, arena_printf(check->arena, "%d session%s ready to succeed, such as %s.",
                                       ready, ready == 1 ? " is" : "s are", first));
}

void check_cooldown(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    if (ledger && ledger->cooling)
        check_fail(check,
                   arena_printf(check->arena,
                                "The last yield is too young: the cool-down ends at %s.",
                                yield_time(ledger->cool_until_us, check->arena)),
                   "Wait, or --override cool-down.");
    else
        check_pass(check, ledger ? "No cool-down is running."
                          : check->facts->ledger_denied
                              ? "None is known: the ledger may not be read."
                              : "No cool-down is declared.");
}

void check_pooled(struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_server *server = &check->facts->server;
    bool renamed = !check_is_lease(check) && server->pid == target->pid &&
                   server->backend_start_us == target->backend_start_us &&
                   server->application_name &&
                   !text_equal(server->application_name, target->application_name);
    if (target->pooled || renamed)
        check_fail(
            check,
            "The owner's session is pooled: its name changes under the lock, so that others use "
            "it too, and its end may hit their work.",
            "Let candidates connect directly; or --override pooled.");
    else
        check_pass(check, "Nothing says that the session is pooled.");
}

void check_audit(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    bool wanted = yield_term_is_targets(check->target, check->facts);
    if (check_term_hidden(check))
        check_note(check, "Who takes the audit depends on the term, which cannot be told.",
                   "See the guard identity.");
    else if (!wanted)
        check_pass(check,
                   check->facts->ledger_denied
                       ? "The local log takes the audit: the ledger may not be read."
                       : "The local log takes the audit: the owner has no term in a ledger.");
    else if (!ledger->may_request)
        check->row->privilege = true;
    else if (!ledger->read_only)
        check_pass(check, "The ledger takes the audit.");
    if (!wanted || (ledger->may_request && !ledger->read_only))
        return;
    check_fail(
        check,
        ledger->may_request
            ? "The audit cannot be written: your transactions are read-only."
            : "The audit cannot be written: you may not call the ledger's functions (42501).",
        ledger->may_request ? "ALTER ROLE ... RESET default_transaction_read_only; or --override "
                              "audit, and the local log takes it."
                            : "GRANT pgleader_operator to your role; or --override audit, and the "
                              "local log takes it.");
}
