/* SPDX-License-Identifier: PostgreSQL */
/* What the guards' rules share: what each sees, and how it says its verdict. */
#pragma once

#include "base/text.h"
#include "tui/guard.h"

/* What each guard sees, and where it puts its verdict. */
struct check {
    const struct yield_target *target;
    const struct yield_facts *facts; /* NULL only for `fresh` */
    const struct guard_context *context;
    enum yield_road road;
    struct arena *arena;
    struct guard *row;
};

void check_pass(struct check *check, const char *sentence);
void check_note(struct check *check, const char *sentence, const char *remedy);
void check_fail(struct check *check, const char *sentence, const char *remedy);
void check_fail_privilege(struct check *check, const char *sentence, const char *remedy);

bool check_is_lease(const struct check *check);

/* The ledger's open term has the owner's pid, and whether it is that session's cannot be told: its
 * start may not be read. */
bool check_term_hidden(const struct check *check);
const char *check_describe(const struct yield_lock *lock, struct arena *arena);

static inline bool is_own_lease(const struct yield_target *target)
{
    return text_equal(target->lease_table, "pgleader.lease");
}

void check_primary(struct check *check);
void check_server(struct check *check);
void check_fresh(struct check *check);
void check_led(struct check *check);
void check_identity(struct check *check);
void check_owner(struct check *check);
void check_key(struct check *check);
void check_generation(struct check *check);
void check_confirm(struct check *check);
void check_client(struct check *check);
void check_signal(struct check *check);
void check_lease(struct check *check);
void check_yieldable(struct check *check);
void check_open(struct check *check);
void check_duties(struct check *check);
void check_run(struct check *check);
void check_successor(struct check *check);
void check_cooldown(struct check *check);
void check_pooled(struct check *check);
void check_audit(struct check *check);
