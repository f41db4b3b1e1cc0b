/* SPDX-License-Identifier: PostgreSQL */
/* The statements over a lease: the ledger's own, by its functions, or a table of three columns. */
#pragma once

#include "candidate/asks.h"

/* What a release says in the duty's channel, as an SQL literal. */
#define RELEASED_PAYLOAD "'{\"event\": \"released\"}'"

/* A parameter that is microseconds since the Unix epoch, as a timestamptz. */
#define EPOCH_US(parameter) "'epoch'::timestamptz + " parameter "::int8 * '1 microsecond'::interval"

/* What kind of table that is: whether it has the three columns, whether job_name tells its rows
 * apart, and whether a crash empties it. */
#define LEASE_TABLE_FACTS                                                                          \
    "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS lease_table, "                     \
    "c.relpersistence = 'u' AS unlogged, "                                                         \
    "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid "         \
    "AND NOT a.attisdropped AND (a.attname IN ('job_name', 'holder') "                             \
    "OR a.attname = 'expires_at' AND a.atttypid = 'pg_catalog.timestamptz'::pg_catalog.regtype)) " \
    "= 3 AS yes, "                                                                                 \
    "EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a "                    \
    "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indrelid = c.oid "              \
    "AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 "              \
    "AND a.attname = 'job_name') AS is_key "                                                       \
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "         \
    "WHERE c.oid = pg_catalog.to_regclass($1)"

/* As ask_text. */
const char *lease_acquire_text(const struct target *target, int version, struct arena *arena);
const char *lease_renew_text(const struct target *target, int version, struct arena *arena);
const char *lease_release_text(const struct target *target, int version, struct arena *arena);
