/* SPDX-License-Identifier: PostgreSQL */
/* Fills duties with what one reading says: locks, lease rows, progress, and whether a term is
 * believed. */
#pragma once

#include <stdbool.h>

#include "observe/candidates.h"
#include "observe/probe.h"
#include "observe/roles.h"
#include "observe/sessions.h"
#include "observe/snapshot.h"

/* One reading of pg_locks on its way into a snapshot; zero-initialise the rest. */
struct filling {
    const struct snapshot *snapshot;
    const struct sessions *sessions;
    struct candidates *candidates;
    struct roles *roles;
    struct arena_echo usename, address; /* mostly those of the duty before */
};

/* Owners, waiters and candidates of a lock duty; on a standby nothing, since its locks are not the
 * primary's. */
void fill_lock(struct filling *filling, struct duty *duty);

/* Every duty whose lease row the probe read. */
bool fill_leases(struct snapshot *snapshot, const struct probe *probe,
                 const struct pg_outcome *outcome, struct arena *scratch,
                 struct error *err) MUSTCHECK;

/* The cursor of the duty that the probe belongs to, under whatever name the registry has it. */
bool fill_progress(struct snapshot *snapshot, const struct probe *probe,
                   const struct config_server *server, const struct pg_answer *answer,
                   struct error *err) MUSTCHECK;

/* Whether the ledger's open term is the owner's: term_begun, term_unverified,
 * term_alive, generation. */
void fill_term(struct duty *duty, const struct sessions *sessions);
