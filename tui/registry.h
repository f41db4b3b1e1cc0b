/* SPDX-License-Identifier: PostgreSQL */
/* The ledger's registry as subcommands read it: definitions alone, at one look. */
#pragma once

#include "base/arena.h"
#include "observe/config.h"
#include "pg/batch.h"

struct registry_duty {
    struct config_duty duty; /* next_key.objsubid is 0 where no key is reserved */
    bool lease_unlogged;
};

struct registry {
    struct registry_duty *items; /* by name */
    size_t n;
    bool installed; /* there is a ledger, readable or not */
    bool read;
    struct error error; /* why it was not read, where it is installed */
};

/* The section to ask. */
struct pg_section registry_section(void);

/* Takes its outcome; strings go into the arena. */
void registry_take(const struct pg_outcome *outcome, struct arena *arena,
                   struct registry *ret_registry);

const struct registry_duty *registry_find(const struct registry *registry, const char *duty);

/* Where the registry and the configuration of one server do not say the same. */
enum drift_kind {
    DRIFT_UNREGISTERED, /* a duty of the configuration has no row in the registry */
    DRIFT_DIFFERS,      /* both have it, with another key or lease row */
};

struct drift {
    enum drift_kind kind;
    const char *duty, *sentence;
};

/* Compares; nothing where the registry was not read. *ret_n of them, in the arena. */
struct drift *registry_drift(const struct registry *registry, const struct config_server *server,
                             struct arena *arena, size_t *ret_n);

/* "key 742118", "lease public.x row y"; in the arena. */
const char *duty_authority(const struct config_duty *duty, struct arena *arena);
