/* SPDX-License-Identifier: PostgreSQL */
/* Rules of who is meant: the same server, the same session, the same key and generation, and what
 * was typed. */
#include <inttypes.h>

#include "tui/guard_rules.h"

static const char *const look_again = "Look who leads now, and ask anew.";

void check_primary(struct check *check)
{
    if (check->facts->server.in_recovery)
        check_fail(check, "The server is a standby: its locks are not its primary's.",
                   "Connect to the primary.");
    else
        check_pass(check, "The server is a primary.");
}

void check_server(struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_facts *facts = check->facts;
    struct arena *arena = check->arena;
    bool other = target->system_identifier && facts->system_identifier &&
                 !text_equal(target->system_identifier, facts->system_identifier);
    if (other)
        check_fail(
            check,
            arena_printf(arena, "Another server answers: system identifier %s, not %s.",
                         facts->system_identifier, target->system_identifier),
            "A process number means nothing on another server. Look where the connection leads.");
    else if (facts->server.postmaster_start_us != target->postmaster_start_us)
        check_fail(check,
                   arena_printf(arena,
                                "The server was restarted at %s: every session of before is gone.",
                                yield_time(facts->server.postmaster_start_us, arena)),
                   look_again);
    else if (!text_equal(facts->server.database, target->database))
        check_fail(check,
                   arena_printf(arena, "The database is \"%s\", not \"%s\".",
                                facts->server.database, target->database),
                   "The same key in another database is another lock. Correct the connection.");
    else
        check_pass(check, arena_printf(
                              arena, "It is the same server: system identifier %s, up since %s.",
                              facts->system_identifier ? facts->system_identifier : "not readable",
                              yield_time(facts->server.postmaster_start_us, arena)));
}

static const int64_t fresh_for_us = 3 * SECOND_US;

void check_fresh(struct check *check)
{
    const struct guard_context *context = check->context;
    int64_t age = context->reading_age_us;
    if (!check->facts || age < 0)
        check_fail(check, "The server gave no picture yet.", "Wait, or look at the connection.");
    else if (!context->connected)
        check_fail(check, "The connection is lost: the picture is old.",
                   "Wait until the server answers again.");
    else if (check->facts->ledger_unread)
        check_fail(
            check, "The ledger could not be read.",
            "Something may hold a lock on its tables, or a right is missing: look at pg_locks, "
            "and grant pgleader_operator.");
    else if (age > fresh_for_us)
        check_fail(
            check,
            arena_printf(check->arena, "The picture is %.1f s old.", (double)age / SECOND_US),
            "Wait until the server answers again.");
    else
        check_pass(check, arena_printf(check->arena, "The picture is %.1f s old.",
                                       (double)age / SECOND_US));
}

void check_led(struct check *check)
{
    const struct yield_target *target = check->target;
    if (target->owners == 0)
        check_fail(check, "Nobody leads this duty.", "There is nothing to yield.");
    else if (target->owners > 1)
        check_fail(check, arena_printf(check->arena, "%d owners hold it at once.", target->owners),
                   "Find out which is right first: `pgleader doctor`.");
    else if (!check_is_lease(check) && target->pid <= 0)
        check_fail(check, "A prepared transaction holds the lock, and no session.",
                   "COMMIT PREPARED or ROLLBACK PREPARED it: see pg_prepared_xacts.");
    else
        check_pass(check, "One owner leads.");
}

void check_identity(struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_server *server = &check->facts->server;
    bool present = check_is_lease(check) || server->pid == target->pid;
    bool readable =
        check_is_lease(check) || (target->backend_start_us != TIME_UNKNOWN &&
                                  (!present || server->backend_start_us != TIME_UNKNOWN));
    if (!check_is_lease(check) && target->pid <= 0)
        check_note(check, "There is no session whose identity could be read.", "");
    else if (!readable)
        check_fail_privilege(
            check, "Cannot verify who the owner is: the start of its session may not be read.",
            "GRANT pg_read_all_stats (or pgleader_reader) to your role.");
    else
        check_pass(check, "The owner's identity can be read.");
}

const char *check_describe(const struct yield_lock *lock, struct arena *arena)
{
    return arena_printf(arena, "pid %d%s%s, since %s", lock->pid,
                        lock->application_name && *lock->application_name ? " " : "",
                        lock->application_name ? lock->application_name : "",
                        yield_time(lock->backend_start_us, arena));
}

const struct yield_lock *yield_holder(struct lock_key key, const struct yield_facts *facts)
{
    for (size_t i = 0; i < facts->n_locks; i++) {
        const struct yield_lock *lock = &facts->locks[i];
        if (lock->objsubid == key.objsubid && lock->classid == key.classid &&
            lock->objid == key.objid && lock->granted && lock->exclusive)
            return lock;
    }
    return NULL;
}

static void check_lease_owner(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    const char *holder = ledger ? ledger->lease_holder : NULL;
    if (!is_own_lease(check->target))
        check_pass(check, "The lease's row is looked at by its holder alone.");
    else if (!text_equal(holder, check->target->holder))
        check_fail(check,
                   holder ? arena_printf(check->arena, "\"%s\" holds the lease now.", holder)
                          : "Nobody holds the lease any more.",
                   look_again);
    else
        check_pass(check, arena_printf(check->arena, "\"%s\" still holds the lease.", holder));
}

void check_owner(struct check *check)
{
    const struct yield_target *target = check->target;
    if (check_is_lease(check)) {
        check_lease_owner(check);
        return;
    }
    const struct yield_lock *holder = yield_holder(target->key, check->facts);
    if (!holder)
        check_fail(check, "Nobody holds the lock any more.", look_again);
    else if (holder->pid != target->pid)
        check_fail(check,
                   arena_printf(check->arena, "Another session holds the lock now: %s.",
                                check_describe(holder, check->arena)),
                   look_again);
    else if (holder->backend_start_us != TIME_UNKNOWN &&
             holder->backend_start_us != target->backend_start_us)
        check_fail(check,
                   arena_printf(check->arena,
                                "The process number was used again: pid %d began at %s.",
                                holder->pid, yield_time(holder->backend_start_us, check->arena)),
                   look_again);
    else
        check_pass(check, arena_printf(check->arena, "The owner is the same: %s.",
                                       check_describe(holder, check->arena)));
}

static bool same_authority(const struct yield_target *target, const struct yield_ledger *ledger)
{
    if (target->mechanism == MECHANISM_LEASE)
        return text_equal(ledger->mechanism, "lease") &&
               text_equal(ledger->lease_table, target->lease_table);
    return text_equal(ledger->mechanism, "lock") && ledger->classid == target->key.classid &&
           ledger->objid == target->key.objid && ledger->objsubid == target->key.objsubid;
}

void check_key(struct check *check)
{
    const struct yield_ledger *ledger = check->facts->ledger;
    if (check->facts->ledger_unread)
        check_fail(check, "It cannot be told: the ledger could not be read.", look_again);
    else if (check->target->registered && !ledger)
        check_fail(check, "The duty is not in the ledger any more.", look_again);
    else if (ledger && !same_authority(check->target, ledger))
        check_fail(check,
                   arena_printf(check->arena, "Another key decides the duty now, not %s.",
                                check->target->key_text),
                   look_again);
    else if (check->facts->ledger_denied)
        check_note(check,
                   arena_printf(check->arena,
                                "The key is the same: %s. There is a ledger that you may not read: "
                                "it may know this key by another name, and say that it is not to "
                                "be yielded.",
                                check->target->key_text),
                   "GRANT pgleader_operator (or pgleader_reader) to your role.");
    else
        check_pass(check,
                   arena_printf(check->arena, "The key is the same: %s.", check->target->key_text));
}

bool yield_term_is_targets(const struct yield_target *target, const struct yield_facts *facts)
{
    const struct yield_ledger *ledger = facts->ledger;
    if (!ledger || !ledger->term_open || target->generation < 0 ||
        ledger->generation != target->generation)
        return false;
    if (target->mechanism == MECHANISM_LEASE)
        return is_own_lease(target) && ledger->lease_generation == ledger->generation;
    return ledger->term_pid == target->pid && target->backend_start_us != TIME_UNKNOWN &&
           ledger->term_backend_start_us == target->backend_start_us;
}

bool check_term_hidden(const struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_ledger *ledger = check->facts->ledger;
    return ledger && ledger->term_open && !check_is_lease(check) && target->pid > 0 &&
           ledger->term_pid == target->pid && target->backend_start_us == TIME_UNKNOWN;
}

static const char *why_no_generation(const struct check *check)
{
    if (check->facts->ledger_denied)
        return "No generation is known: the ledger may not be read.";
    return check->target->registered ? "The owner has begun no term: it has no generation."
                                     : "There is no ledger entry: the duty has no generation.";
}

/* Without a generation, none may have begun either: then the token names too little. */
void check_generation(struct check *check)
{
    const struct yield_target *target = check->target;
    const struct yield_ledger *ledger = check->facts->ledger;
    bool begun = ledger && ledger->term_open && !check_is_lease(check) &&
                 ledger->term_pid == target->pid &&
                 ledger->term_backend_start_us == target->backend_start_us;
    if (ledger && check_term_hidden(check))
        check_note(check,
                   arena_printf(check->arena,
                                "Whether generation %" PRId64 " is this owner's cannot be told.",
                                ledger->generation),
                   "See the guard identity.");
    else if (target->generation < 0 && !begun)
        check_pass(check, why_no_generation(check));
    else if (target->generation >= 0 && yield_term_is_targets(target, check->facts))
        check_pass(check, arena_printf(check->arena, "Generation %" PRId64 " is the open term.",
                                       target->generation));
    else if (ledger)
        check_fail(check,
                   arena_printf(check->arena, "The generation moved: %" PRId64 "%s now.",
                                ledger->generation, ledger->term_open ? "" : ", which has ended,"),
                   look_again);
    else
        check_fail(check, "The generation cannot be read any more.", look_again);
}

const char *yield_token(const struct yield_target *target, struct arena *arena)
{
    if (target->generation > 0)
        return arena_printf(arena, "%" PRId64, target->generation);
    if (target->mechanism == MECHANISM_LEASE || target->pid <= 0 ||
        target->backend_start_us == TIME_UNKNOWN)
        return NULL;
    return arena_printf(arena, "pid:%d@%s", target->pid,
                        yield_time(target->backend_start_us, arena));
}

void check_confirm(struct check *check)
{
    const struct yield_target *target = check->target;
    const char *token = yield_token(target, check->arena);
    const char *typed = check->context->confirm;
    const char *wanted = token ? arena_printf(check->arena, "%s %s", target->duty, token) : NULL;
    if (!wanted)
        check_fail(check,
                   "There is nothing that could be confirmed: no generation, and no session.",
                   "See the other guards.");
    else if (!typed)
        check_note(check, arena_printf(check->arena, "To be confirmed by: %s", wanted), "");
    else if (!text_equal(typed, wanted))
        check_fail(check,
                   arena_printf(check->arena,
                                "What was confirmed is \"%s\", but who leads is \"%s\".", typed,
                                wanted),
                   "`pgleader yield --dry-run --json` prints the exact text as `confirm`.");
    else
        check_pass(check, arena_printf(check->arena, "Confirmed: %s", wanted));
}
