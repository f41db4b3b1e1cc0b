/* SPDX-License-Identifier: PostgreSQL */
/* The statements of a candidate. Each is sent outside a transaction: a leader is never inside one.
 */
#include "candidate/asks.h"

#include <stddef.h>
#include <string.h>

#include "pg/statement.h"

#define LIMITS                                                                                     \
    "SELECT pg_catalog.set_config('tcp_keepalives_idle', '2', false), "                            \
    "pg_catalog.set_config('tcp_keepalives_interval', '1', false), "                               \
    "pg_catalog.set_config('tcp_keepalives_count', '6', false), "                                  \
    "pg_catalog.set_config('tcp_user_timeout', $2, false), "                                       \
    "pg_catalog.set_config('statement_timeout', '0', false), "                                     \
    "pg_catalog.set_config('search_path', '', false), "                                            \
    "pg_catalog.set_config('pgleader.nonce', $1, false), "
#define IDENTITY                                                                                   \
    "pg_catalog.pg_backend_pid() AS pid, "                                                         \
    "pg_catalog.pg_is_in_recovery() AS in_recovery, "                                              \
    "coalesce(pg_catalog.inet_client_port(), 0) AS seen_port, "                                    \
    "EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "         \
    "c.relnamespace "                                                                              \
    "WHERE n.nspname = 'pgleader' AND c.relname = 'schema_version') AS has_ledger"

enum { VERSION_CONNECTION_CHECK = 140000 };

static const char *const texts[ASKS] = {
    [ASK_SETUP] = LIMITS IDENTITY,
    [ASK_LIMITS] =
        "SELECT (SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'tcp_user_timeout') "
        "AS "
        "user_timeout_ms, "
        "(SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'tcp_keepalives_idle') AS "
        "idle_s, "
        "(SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'tcp_keepalives_interval') "
        "AS interval_s, "
        "(SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'tcp_keepalives_count') AS "
        "count, "
        "(SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout') "
        "AS idle_session_timeout_ms",
    [ASK_KEY] =
        "SELECT d.lock_classid AS classid, d.lock_objid AS objid, d.lock_objsubid AS objsubid "
        "FROM pgleader.duty d WHERE d.duty = $1 AND d.retired_at IS NULL AND d.lock_objsubid IS "
        "NOT NULL",
    [ASK_REPORT] = "SELECT true AS yes FROM (SELECT pgleader.report_stopped($1, $2::int8, $3)) r",
    [ASK_COUNT] =
        "SELECT pg_catalog.count(DISTINCT (a.application_name, a.client_addr)) AS candidates "
        "FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE "
        "pg_catalog.starts_with(a.application_name, $1)",
    [ASK_QUEUE] = "SELECT pgleader.wait_for_duty($1) AS yes",
    [ASK_CHECK] =
        "SELECT pg_catalog.pg_backend_pid() AS pid, "
        "pg_catalog.current_setting('pgleader.nonce', true) AS nonce, "
        "EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.granted "
        "AND l.mode = 'ExclusiveLock' AND l.pid = pg_catalog.pg_backend_pid() "
        "AND l.classid = $1::oid AND l.objid = $2::oid AND l.objsubid = $3::int2) AS yes",
    [ASK_BEGIN] =
        "SELECT pgleader.begin_term($1, $2, true, $3::interval, $4::timestamptz) AS generation",
    [ASK_SETTLE] =
        "SELECT pg_catalog.clock_timestamp() AS now, "
        "CASE WHEN t.previous_end_reason = 'superseded' AND t.previous_stopped_at IS NULL "
        "THEN t.acquired_at + t.previous_stop_within END AS wait_until "
        "FROM pgleader.current_term t WHERE t.duty = $1",
    [ASK_END] = "SELECT true AS yes FROM (SELECT pgleader.end_term($1, $2::int8, $3)) r",
};

static const char *lock_call(const char *function, const struct lock_key *key, struct arena *arena)
{
    const char *arguments = key->objsubid == LOCK_OBJSUBID_PAIR ? "$1::int4, $2::int4" : "$1::int8";
    return arena_printf(arena, "SELECT pg_catalog.%s(%s) AS yes", function, arguments);
}

const char *ask_text(enum ask ask, const struct lock_key *key, const char *duty, int version,
                     struct arena *arena)
{
    char channel[160];
    if (ask == ASK_TRY)
        return lock_call("pg_try_advisory_lock", key, arena);
    if (ask == ASK_UNLOCK)
        return lock_call("pg_advisory_unlock", key, arena);
    if (ask == ASK_SETUP && version >= VERSION_CONNECTION_CHECK)
        return LIMITS
            "pg_catalog.set_config('client_connection_check_interval', '1s', false), " IDENTITY;
    if (ask != ASK_LISTEN)
        return texts[ask];
    pg_quote_channel(arena_printf(arena, "pgleader:%s", duty), channel, sizeof channel);
    return arena_printf(arena, "LISTEN %s", channel);
}

#define FIELD(column, field, member)                                                               \
    {                                                                                              \
        column, field, offsetof(struct reply, member)                                              \
    }

static const struct pg_column columns[ASKS][8] = {
    [ASK_SETUP] = {FIELD("pid", PG_INT4, pid), FIELD("in_recovery", PG_BOOL, in_recovery),
                   FIELD("seen_port", PG_INT4, seen_port),
                   FIELD("has_ledger", PG_BOOL, has_ledger)},
    [ASK_LIMITS] = {FIELD("user_timeout_ms", PG_INT8, user_timeout_ms),
                    FIELD("idle_s", PG_INT8, idle_s), FIELD("interval_s", PG_INT8, interval_s),
                    FIELD("count", PG_INT8, count),
                    FIELD("idle_session_timeout_ms", PG_INT8, idle_session_timeout_ms)},
    [ASK_KEY] = {FIELD("classid", PG_INT8, classid), FIELD("objid", PG_INT8, objid),
                 FIELD("objsubid", PG_INT4, objsubid)},
    [ASK_REPORT] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_COUNT] = {FIELD("candidates", PG_INT8, candidates)},
    [ASK_TRY] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_QUEUE] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_CHECK] = {FIELD("pid", PG_INT4, pid), FIELD("nonce", PG_TEXT, nonce),
                   FIELD("yes", PG_BOOL, yes)},
    [ASK_BEGIN] = {FIELD("generation", PG_INT8, generation)},
    [ASK_SETTLE] = {FIELD("now", PG_TIME, now_us), FIELD("wait_until", PG_TIME, wait_until_us)},
    [ASK_END] = {FIELD("yes", PG_BOOL, yes)},
    [ASK_UNLOCK] = {FIELD("yes", PG_BOOL, yes)},
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
    return true;
}
