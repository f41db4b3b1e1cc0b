/* SPDX-License-Identifier: PostgreSQL */
/* Which duties a picture shows: the ledger's registry, then the config, then discovery; the first
 * that names a lock has it. */
#pragma once

#include <stddef.h>

#include "observe/config.h"
#include "observe/sessions.h"
#include "observe/snapshot.h"

/* What the name of a discovered duty begins with; its key follows. */
#define DISCOVERED "advisory/"

struct definitions {
    const struct config_duty *registry; /* the ledger's, of its last good reading */
    size_t n_registry;
    const struct config_server *server;
    struct arena *arenas[2]; /* that they are in; NULL where they stay for ever */
};

/* The duties that are named, merged and in order: the same for as long as the definitions are. */
struct named;
struct named *named_new(const struct definitions *definitions);
void named_free(struct named *named); /* NULL is fine */

/* Lists the duties into snapshot->duties, sorted by name, each with its definition, which the
 * snapshot shares with `named`, and nothing read yet; also snapshot->watched and
 * snapshot->unregistered_locks. `previous` may be NULL. */
void duties_list(struct snapshot *snapshot, const struct named *named, const struct config *config,
                 const struct sessions *sessions, const struct snapshot *previous);
