/* SPDX-License-Identifier: PostgreSQL */
/* What to watch: servers, duties and intervals, from a YAML file, a conninfo or the environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "pg/key.h"

enum mechanism { MECHANISM_LOCK, MECHANISM_LEASE };
enum expect { EXPECT_PRIMARY, EXPECT_STANDBY, EXPECT_ANY };

/* A duty's own thresholds. -1 is "not declared". */
struct thresholds {
    int32_t min_candidates;
    int64_t stall_after_us;
    int64_t run_every_us;
    int64_t takeover_slow_after_us;
    int64_t wait_slow_after_us;
    int64_t alerts_paused_until_us; /* TIME_UNKNOWN: not paused */
};

/* A lease row. Column names default to the common ones: job_name, holder, expires_at; the last two
 * are NULL where the table has no such column. */
struct config_lease {
    const char *table; /* public.leader_lease, however it was written */
    const char *row;   /* the key column's value */
    const char *key_column;
    const char *holder_column;
    const char *expires_column;
    const char *acquired_column;
    const char *generation_column;
};

/* Progress from a table of the application's own; table is NULL where there is none. `where` is
 * SQL. */
struct config_progress {
    const char *table;
    const char *column;
    const char *where;
};

struct config_duty {
    const char *name;
    int line; /* in the file, for messages; 0 where there is none */
    enum mechanism mechanism;
    struct lock_key key;      /* MECHANISM_LOCK */
    struct lock_key next_key; /* the registry's: what the duty moves to, held beside key */
    struct config_lease lease;
    const char *candidates; /* LIKE pattern on application_name, or NULL */
    const char *team;
    const char *runbook;
    struct thresholds limits;
    struct config_progress progress;
};

struct config_server {
    const char *name;          /* the `server` label; unique */
    const char *conninfo;      /* libpq's; never logged */
    const char *password_file; /* or NULL */
    const char *password;      /* from DATA_SOURCE_PASS, or NULL; never logged */
    enum expect expect;
    const struct config_duty *duties;
    size_t n_duties;
};

/* One arena; immutable. Freed by config_free. */
struct config {
    struct arena *arena;
    const char *path; /* the file it came from, or NULL */
    const struct config_server *servers;
    size_t n_servers;
    bool discovery_enabled;
    int64_t discovery_after_us;
    int discovery_limit;
    struct lock_key discovery_key; /* only this one, if its objsubid is set */
    const char *only_duty;         /* pictures need show no other, and no role's name; NULL: all */
    int silent_after_s; /* a server that is silent for so long is lost; 0: as libpq has it */
    int64_t poll_interval_us;
};

/* Reads and checks a whole file. On failure *ret_config is untouched and problems holds every
 * mistake as "FILE:LINE: could not ...: why", at least one. */
bool config_load(const char *path, struct config **ret_config, struct problems *problems) MUSTCHECK;

/* One server, no named duties, discovery on: from a conninfo, or with NULL from the environment:
 * DATA_SOURCE_NAME, DATA_SOURCE_URI/USER/PASS (each also _FILE), else PG* as libpq reads them. */
bool config_from_conninfo(const char *conninfo, struct config **ret_config,
                          struct problems *problems) MUSTCHECK;

void config_free(struct config *config); /* NULL is fine */

static inline void config_freep(struct config **config)
{
    config_free(*config);
}
