/* SPDX-License-Identifier: PostgreSQL */
/* The statements of a candidate. Each is sent outside a transaction: a leader is never inside one.
 */
#include "candidate/asks.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "candidate/lease_text.h"
#include "pg/statement.h"

#define SET(name, value) "pg_catalog.set_config('" name "', " value ", false), "
/* Not pg_settings, which shows all of them each time: 2 ms. A time has its unit; what the socket
 * has been set to has none, and is in the setting's own (s, s, number, ms). */
#define TIMEOUT_MS(name)                                                                           \
    "(extract(epoch FROM pg_catalog.current_setting('" name "', true)::interval) * 1000)::int8 "   \
    "AS " name "_ms"
#define SOCKET_SETTING(name) "pg_catalog.current_setting('" name "')::int8 AS " name
#define LIMITS                                                                                     \
    "SELECT " SOCKET_SETTING("tcp_user_timeout") ", " SOCKET_SETTING(                              \
        "tcp_keepalives_idle") ", " SOCKET_SETTING("tcp_keepalives_interval") ", " SOCKET_SETTING("tcp_keepalives_count")

/* What a role may have set for all its sessions is set back for this one: it is the kit's own. */
#define SETUP                                                                                      \
    "SELECT " SET("tcp_keepalives_idle", "'2'") SET("tcp_keepalives_interval", "'1'")              \
        SET("tcp_keepalives_count", "'6'") SET("tcp_user_timeout", "$2")                           \
            SET("statement_timeout", "'0'") SET("lock_timeout", "'900ms'")                         \
                SET("idle_in_transaction_session_timeout", "'0'")                                  \
                    SET("default_transaction_read_only", "'off'")                                  \
                        SET("default_transaction_isolation", "'read committed'")                   \
                            SET("search_path", "''") SET("pgleader.nonce", "$1")

/* What this session holds of advisory locks, of pg_locks l; and whether one of them is that key. */
#define HELD_HERE                                                                                  \
    "l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' "                          \
    "AND l.pid = pg_catalog.pg_backend_pid()"
#define IS_KEY(classid, objid, objsubid)                                                           \
    "(l.classid, l.objid, l.objsubid) = (" classid "::oid, " objid "::oid, " objsubid "::int2)"

enum { VERSION_CONNECTION_CHECK = 140000 }; /* and idle_session_timeout */

static const char *const texts[ASKS] = {
    [ASK_IDENTIFY] =
        "SELECT pg_catalog.pg_backend_pid() AS pid, "
        "pg_catalog.pg_is_in_recovery() AS in_recovery, "
        "coalesce(pg_catalog.inet_client_port(), 0) AS seen_port, "
        "EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = 'pgleader' AND c.relname = 'schema_version') "
        "AS has_ledger, " TIMEOUT_MS("idle_session_timeout") ", " TIMEOUT_MS(
            "idle_in_transaction_session_timeout"),
    [ASK_TABLE] = LEASE_TABLE_FACTS,
    [ASK_LIMITS] = LIMITS,
    [ASK_KEY] =
        "SELECT coalesce(d.lock_classid, 0) AS classid, coalesce(d.lock_objid, 0) AS objid, "
        "coalesce(d.lock_objsubid, 0) AS objsubid, "
        "coalesce(d.next_lock_classid, 0) AS next_classid, "
        "coalesce(d.next_lock_objid, 0) AS next_objid, "
        "coalesce(d.next_lock_objsubid, 0) AS next_objsubid, d.lease_table, d.lease_row "
        "FROM pgleader.duty d WHERE d.duty = $1 AND d.retired_at IS NULL",
    [ASK_WARM] = "SELECT true AS yes FROM (SELECT pgleader.warm_up()) w",
    [ASK_REPORT] = "SELECT true AS yes FROM (SELECT pgleader.report_stopped($1, $2::int8, $3)) r",
    [ASK_COUNT] =
        "SELECT pg_catalog.count(DISTINCT (a.application_name, a.client_addr)) AS candidates "
        "FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE "
        "pg_catalog.starts_with(a.application_name, $1)",
    [ASK_QUEUE] = "SELECT pg_catalog.clock_timestamp() AS now, pgleader.wait_for_duty($1) AS yes",
    [ASK_CHECK] =
        "SELECT pg_catalog.pg_backend_pid() AS pid, "
        "pg_catalog.current_setting('pgleader.nonce', true) AS nonce, "
        "coalesce(pg_catalog.bool_or(" IS_KEY(
            "$1", "$2", "$3") "), false) AS yes, "
                              "coalesce(pg_catalog.bool_or(" IS_KEY(
                                  "$4", "$5", "$6") "), false) AS other "
                                                    "FROM pg_catalog.pg_locks l WHERE " HELD_HERE,
    [ASK_BEGIN] =
        "SELECT CASE WHEN (coalesce(d.next_lock_classid, 0), coalesce(d.next_lock_objid, 0), "
        "coalesce(d.next_lock_objsubid, 0)) = ($8::int8, $9::int8, $10::int4) "
        "THEN pgleader.begin_term($1, $2, true, $3::interval, " EPOCH_US(
            "$4") ") END AS generation, "
                  "pg_catalog.pg_backend_pid() AS pid, "
                  "pg_catalog.current_setting('pgleader.nonce', true) AS nonce, "
                  "coalesce((d.lock_classid, d.lock_objid, d.lock_objsubid) "
                  "= ($5::int8, $6::int8, $7::int4), false) AS yes "
                  "FROM (VALUES (1)) one LEFT JOIN pgleader.duty d ON d.duty = $1 AND d.retired_at "
                  "IS NULL",
    [ASK_END] = "SELECT true AS yes FROM (SELECT pgleader.end_term($1, $2::int8, $3)) r",
    [ASK_SETTLE] = "SELECT pg_catalog.clock_timestamp() AS now, t.settle_until AS wait_until "
                   "FROM pgleader.current_term t WHERE t.duty = $1",
    [ASK_YIELD] =
        "SELECT NOT EXISTS (SELECT FROM pgleader.current_term t WHERE t.duty = $1 AND "
        "t.generation = $2::int8 AND t.ended_at IS NULL AND t.yield_intent IS NULL) AS yes",
};

static const char *key_places(const struct target *target)
{
    return target->key.objsubid == LOCK_OBJSUBID_PAIR ? "$1::int4, $2::int4" : "$1::int8";
}

static const char *try_text(const struct target *target, int version, struct arena *arena)
{
    (void)version;
    return arena_printf(arena,
                        "SELECT pg_catalog.clock_timestamp() AS now, "
                        "pg_catalog.pg_try_advisory_lock(%s) AS yes",
                        key_places(target));
}

/* As the lock functions take it. */
static const char *key_literal(struct lock_key key, struct arena *arena)
{
    if (key.objsubid == LOCK_OBJSUBID_PAIR)
        return arena_printf(arena, "'%" PRId32 "'::int4, '%" PRId32 "'::int4", (int32_t)key.classid,
                            (int32_t)key.objid);
    return arena_printf(arena, "'%" PRId64 "'::int8", lock_key_to_int8(key));
}

/* Never taken twice, whatever became of an earlier try, so that one unlock gives it back. */
static const char *next_text(const struct target *target, int version, struct arena *arena)
{
    (void)version;
    return arena_printf(
        arena,
        "SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE " HELD_HERE
        " AND " IS_KEY("'%" PRIu32 "'", "'%" PRIu32 "'",
                       "'%d'") ") THEN true ELSE pg_catalog.pg_try_advisory_lock(%s) END AS yes",
        target->next.classid, target->next.objid, target->next.objsubid,
        key_literal(target->next, arena));
}

static const char *drop_text(const struct target *target, int version, struct arena *arena)
{
    (void)version;
    return arena_printf(arena, "SELECT pg_catalog.pg_advisory_unlock(%s) AS yes",
                        key_literal(target->other, arena));
}

/* The release is told in the statement that unlocks: whoever hears of it finds the lock free.
 * Whoever wins the key finds the second one free. */
static const char *unlock_text(const struct target *target, int version, struct arena *arena)
{
    const char *other = "";
    (void)version;
    if (target->other.objsubid)
        other = arena_printf(arena, "pg_catalog.pg_advisory_unlock(%s) AS other, ",
                             key_literal(target->other, arena));
    return arena_printf(
        arena, "SELECT %spg_catalog.pg_advisory_unlock(%s) AS yes, pg_catalog.pg_notify($%d, %s)",
        other, key_places(target), target->key.objsubid == LOCK_OBJSUBID_PAIR ? 3 : 2,
        RELEASED_PAYLOAD);
}

static const char *listen_text(const struct target *target, int version, struct arena *arena)
{
    char channel[160];
    (void)version;
    pg_quote_channel(arena_printf(arena, "pgleader:%s", target->duty), channel, sizeof channel);
    return arena_printf(arena, "LISTEN %s", channel);
}

static const char *setup_text(const struct target *target, int version, struct arena *arena)
{
    (void)target;
    (void)arena;
    if (version < VERSION_CONNECTION_CHECK)
        return SETUP "true AS yes";
    return SETUP SET("client_connection_check_interval", "'1s'")
        SET("idle_session_timeout", "'0'") "true AS yes";
}

static const char *unlisten_text(const struct target *target, int version, struct arena *arena)
{
    return arena_printf(arena, "UN%s", listen_text(target, version, arena));
}

const char *ask_text(enum ask ask, const struct target *target, int version, struct arena *arena)
{
    static const char *(*const makers[ASKS])(const struct target *, int, struct arena *) = {
        [ASK_SETUP] = setup_text,       [ASK_LISTEN] = listen_text,
        [ASK_UNLISTEN] = unlisten_text, [ASK_TRY] = try_text,
        [ASK_UNLOCK] = unlock_text,     [ASK_ACQUIRE] = lease_acquire_text,
        [ASK_RENEW] = lease_renew_text, [ASK_RELEASE] = lease_release_text,
        [ASK_NEXT] = next_text,         [ASK_DROP] = drop_text,
    };
    return makers[ask] ? makers[ask](target, version, arena) : texts[ask];
}

#define FIELD(column, field, member)                                                               \
    {                                                                                              \
        column, field, offsetof(struct reply, member)                                              \
    }

static const struct pg_column columns[ASKS][9] = {
    [ASK_IDENTIFY] = {FIELD("pid", PG_INT4, pid), FIELD("in_recovery", PG_BOOL, in_recovery),
                      FIELD("seen_port", PG_INT4, seen_port),
                      FIELD("has_ledger", PG_BOOL, has_ledger),
                      FIELD("idle_session_timeout_ms", PG_INT8, idle_session_timeout_ms),
                      FIELD("idle_in_transaction_session_timeout_ms", PG_INT8,
                            idle_transaction_timeout_ms)},
    [ASK_TABLE] = {FIELD("lease_table", PG_TEXT, lease_table), FIELD("unlogged", PG_BOOL, unlogged),
                   FIELD("yes", PG_BOOL, yes), FIELD("is_key", PG_BOOL, is_key)},
    [ASK_SETUP] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_LIMITS] = {FIELD("tcp_user_timeout", PG_INT8, user_timeout_ms),
                    FIELD("tcp_keepalives_idle", PG_INT8, idle_s),
                    FIELD("tcp_keepalives_interval", PG_INT8, interval_s),
                    FIELD("tcp_keepalives_count", PG_INT8, count)},
    [ASK_KEY] = {FIELD("classid", PG_INT8, classid), FIELD("objid", PG_INT8, objid),
                 FIELD("objsubid", PG_INT4, objsubid), FIELD("next_classid", PG_INT8, next_classid),
                 FIELD("next_objid", PG_INT8, next_objid),
                 FIELD("next_objsubid", PG_INT4, next_objsubid),
                 FIELD("lease_table", PG_TEXT, lease_table),
                 FIELD("lease_row", PG_TEXT, lease_row)},
    [ASK_WARM] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_REPORT] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_COUNT] = {FIELD("candidates", PG_INT8, candidates)},
    [ASK_TRY] = {FIELD("yes", PG_BOOL, yes), FIELD("now", PG_TIME, now_us)},
    [ASK_QUEUE] = {FIELD("yes", PG_BOOL, yes), FIELD("now", PG_TIME, now_us)},
    [ASK_CHECK] = {FIELD("pid", PG_INT4, pid), FIELD("nonce", PG_TEXT, nonce),
                   FIELD("yes", PG_BOOL, yes), FIELD("other", PG_BOOL, other)},
    [ASK_NEXT] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_DROP] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_BEGIN] = {FIELD("generation", PG_INT8, generation), FIELD("pid", PG_INT4, pid),
                   FIELD("nonce", PG_TEXT, nonce), FIELD("yes", PG_BOOL, yes)},
    [ASK_END] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_UNLOCK] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_ACQUIRE] = {FIELD("yes", PG_BOOL, yes), FIELD("is_new", PG_BOOL, is_new),
                     FIELD("generation", PG_INT8, generation), FIELD("now", PG_TIME, now_us)},
    [ASK_RENEW] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_RELEASE] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_SETTLE] = {FIELD("now", PG_TIME, now_us), FIELD("wait_until", PG_TIME, wait_until_us)},
    [ASK_YIELD] = {FIELD("yes", PG_BOOL, yes)},
};

bool ask_reply(enum ask ask, const struct pg_answer *answer, struct arena *arena, struct reply *ret,
               struct error *err)
{
    void *rows = NULL;
    size_t n = 0;
    *ret = (struct reply){0};
    if (!columns[ask][0].name)
        return true;
    if (!pg_answer_decode(answer, columns[ask], sizeof *ret, arena, &rows, &n, err))
        return false;
    if (n > 0)
        memcpy(ret, rows, sizeof *ret);
    else if (ask == ASK_KEY)
        ret->objsubid = -1;
    else if (ask == ASK_SETTLE)
        ret->wait_until_us = TIME_UNKNOWN;
    return true;
}
