/* SPDX-License-Identifier: PostgreSQL */
/* Leases: the clock is the server's, read inside the statement once the row is locked. now() is the
 * transaction's start, and an expiry computed before a wait for the row would be committed already
 * stale.
 *
 * A row of a table of three columns is never taken before it has expired, not even by a candidate
 * of the same name: the work of an earlier process may still run, and no generation tells them
 * apart. */
#include "candidate/lease_text.h"

#include <stddef.h>

static const char ledger_acquire[] =
    "SELECT a.generation IS NOT NULL AS yes, coalesce(a.generation, -1) AS generation, "
    "false AS is_new, a.now FROM (SELECT pg_catalog.clock_timestamp() AS now, "
    "pgleader.acquire_lease($1, $2, $3::interval, true, $4::interval, " EPOCH_US(
        "$5") ") "
              "AS generation) a";

static const char ledger_renew[] =
    "SELECT pgleader.renew_lease($1, $2, $4::int8, $3::interval) IS NOT NULL AS yes";

static const char ledger_release[] =
    "SELECT true AS yes FROM (SELECT pgleader.release_lease($1, $2, $3::int8, $4)) r";

/* Followers are answered by `before`, without a lock that the leader's renewal would wait for. */
const char *lease_acquire_text(const struct target *target, int version, struct arena *arena)
{
    const char *table = target->lease_table;
    (void)version;
    if (target->own_lease)
        return ledger_acquire;
    return arena_printf(
        arena,
        "WITH before AS MATERIALIZED (SELECT l.expires_at FROM %s l WHERE l.job_name = $1::text), "
        "taken AS (INSERT INTO %s AS l (job_name, holder, expires_at) "
        "SELECT $1::text, $2::text, pg_catalog.clock_timestamp() + $3::interval WHERE NOT EXISTS "
        "(SELECT FROM before b WHERE b.expires_at > pg_catalog.clock_timestamp()) "
        "ON CONFLICT (job_name) DO UPDATE SET holder = excluded.holder, "
        "expires_at = pg_catalog.clock_timestamp() + $3::interval "
        "WHERE l.expires_at <= pg_catalog.clock_timestamp() RETURNING 1) "
        "SELECT EXISTS (SELECT FROM taken) AS yes, NOT EXISTS (SELECT FROM before) AS is_new, "
        "(-1)::int8 AS generation, pg_catalog.clock_timestamp() AS now",
        table, table);
}

/* The row is locked before the clock is read, or the expiry would be that of before the wait. */
const char *lease_renew_text(const struct target *target, int version, struct arena *arena)
{
    const char *table = target->lease_table;
    (void)version;
    if (target->own_lease)
        return ledger_renew;
    return arena_printf(
        arena,
        "WITH mine AS MATERIALIZED (SELECT l.job_name, l.holder, l.expires_at FROM %s l "
        "WHERE l.job_name = $1::text FOR NO KEY UPDATE), "
        "renewed AS (UPDATE %s l SET expires_at = pg_catalog.clock_timestamp() + $3::interval "
        "FROM mine m WHERE l.job_name = m.job_name AND m.holder = $2::text "
        "AND m.expires_at > pg_catalog.clock_timestamp() RETURNING 1) "
        "SELECT EXISTS (SELECT FROM renewed) AS yes",
        table, table);
}

const char *lease_release_text(const struct target *target, int version, struct arena *arena)
{
    const char *table = target->lease_table;
    (void)version;
    if (target->own_lease)
        return ledger_release;
    return arena_printf(
        arena,
        "WITH mine AS MATERIALIZED (SELECT l.job_name, l.holder, l.expires_at FROM %s l "
        "WHERE l.job_name = $1::text FOR NO KEY UPDATE), "
        "released AS (UPDATE %s l SET expires_at = pg_catalog.clock_timestamp() "
        "FROM mine m WHERE l.job_name = m.job_name AND m.holder = $2::text "
        "AND m.expires_at > pg_catalog.clock_timestamp() RETURNING 1) "
        "SELECT EXISTS (SELECT FROM released) AS yes, "
        "pg_catalog.pg_notify($3, " RELEASED_PAYLOAD ")",
        table, table);
}
