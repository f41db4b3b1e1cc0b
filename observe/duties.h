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
};

/* The duties that are named, merged and in order: the same for as long as the definitions are, to
 * which it points. */
struct named;
struct named *named_new(const struct definitions *definitions);
void named_free(struct named *named); /* NULL is fine */

/* Lists the duties into snapshot->duties, sorted by name, each with its definition and nothing read
 * yet; also snapshot->watched and snapshot->unregistered_locks. `previous` may be NULL. */
void duties_list(struct snapshot *snapshot, const struct named *named, const struct config *config,
                 const struct sessions *sessions, const struct snapshot *previous);
