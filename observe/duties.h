/* SPDX-License-Identifier: PostgreSQL */
/* Which duties a picture shows: the ledger's registry, then the config, then discovery; the first
 * that names a lock has it. */
#pragma once

#include <stddef.h>

#include "observe/config.h"
#include "observe/sessions.h"
#include "observe/snapshot.h"

struct definitions {
    const struct config_duty *registry; /* the ledger's, of its last good reading */
    size_t n_registry;
    const struct config_server *server;
    const struct config *config;
};

/* Lists the duties into snapshot->duties, sorted by name, each with its definition and nothing read
 * yet; also snapshot->watched and snapshot->unregistered_locks. `previous` may be NULL. */
void duties_list(struct snapshot *snapshot, const struct definitions *definitions,
                 const struct sessions *sessions, const struct snapshot *previous);
