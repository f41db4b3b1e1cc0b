/* SPDX-License-Identifier: PostgreSQL */
/* One statement at a time on the candidate's session. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "candidate/lead_internal.h"
#include "pg/statement.h"

enum { VALUES = 10 };

static const char *number(struct lead *lead, int64_t value)
{
    return arena_printf(lead->arena, "%" PRId64, value);
}

static const char *interval(struct lead *lead, int64_t us)
{
    return arena_printf(lead->arena, "%" PRId64 " us", us);
}

static const char *refused_at(struct lead *lead)
{
    return lead->refused_at_us == TIME_UNKNOWN ? NULL : number(lead, lead->refused_at_us);
}

static const char *channel(struct lead *lead)
{
    return arena_printf(lead->arena, "pgleader:%s", lead->options.duty);
}

static int key_parameters(struct lead *lead, const char *values[VALUES])
{
    const struct lock_key *key = &lead->target.key;
    if (key->objsubid != LOCK_OBJSUBID_PAIR) {
        values[0] = number(lead, lock_key_to_int8(*key));
        return 1;
    }
    values[0] = number(lead, (int32_t)key->classid);
    values[1] = number(lead, (int32_t)key->objid);
    return 2;
}

static int lease_parameters(struct lead *lead, enum ask ask, const char *values[VALUES])
{
    const struct lead_options *options = &lead->options;
    bool own = lead->target.own_lease;
    values[0] = own ? options->duty : lead->lease_row;
    values[1] = options->instance;
    values[2] = interval(lead, options->lease_us);
    if (ask == ASK_ACQUIRE) {
        values[3] = interval(lead, timing_stop_within_us(&options->timing));
        values[4] = refused_at(lead);
        return own ? 5 : 3;
    }
    if (ask == ASK_RENEW) {
        values[3] = number(lead, lead->generation);
        return own ? 4 : 3;
    }
    values[2] = own ? number(lead, lead->generation) : channel(lead);
    values[3] = lead->reason->id;
    return own ? 4 : 3;
}

/* The key as pg_locks shows it, and a second one. */
static int check_parameters(struct lead *lead, struct lock_key second, const char **values)
{
    const struct lock_key keys[] = {lead->target.key, second};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        values[n++] = number(lead, keys[i].classid);
        values[n++] = number(lead, keys[i].objid);
        values[n++] = number(lead, keys[i].objsubid);
    }
    return n;
}

static int term_parameters(struct lead *lead, enum ask ask, const char *values[VALUES])
{
    const struct lead_options *options = &lead->options;
    values[0] = options->duty;
    values[1] = number(lead, ask == ASK_REPORT ? lead->unreported : lead->generation);
    values[2] = ask == ASK_END ? lead->reason->id : options->instance;
    if (ask != ASK_BEGIN)
        return ask == ASK_YIELD ? 2 : 3;
    values[1] = options->instance;
    values[2] = interval(lead, timing_stop_within_us(&options->timing));
    values[3] = refused_at(lead);
    return 4 + check_parameters(lead, lead->target.next, values + 4);
}

/* The parameters of a statement, in the lead's arena; their number. */
static int parameters(struct lead *lead, enum ask ask, const char *values[VALUES])
{
    int n = 0;
    switch (ask) {
    case ASK_SETUP:
        values[0] = lead->nonce;
        values[1] = number(lead, lead->options.timing.server_holds_us / 1000);
        return 2;
    case ASK_TABLE:
        values[0] = lead->options.lease_table;
        return 1;
    case ASK_KEY:
    case ASK_QUEUE:
    case ASK_SETTLE:
        values[0] = lead->options.duty;
        return 1;
    case ASK_COUNT:
        values[0] = arena_printf(lead->arena, "pgleader:%s:", lead->options.duty);
        return 1;
    case ASK_TRY:
        return key_parameters(lead, values);
    case ASK_UNLOCK:
        n = key_parameters(lead, values);
        values[n] = channel(lead);
        return n + 1;
    case ASK_CHECK:
        return check_parameters(lead, lead->target.other, values);
    case ASK_BEGIN:
    case ASK_REPORT:
    case ASK_END:
    case ASK_YIELD:
        return term_parameters(lead, ask, values);
    case ASK_ACQUIRE:
    case ASK_RENEW:
    case ASK_RELEASE:
        return lease_parameters(lead, ask, values);
    case ASK_NOTHING:
    case ASK_IDENTIFY:
    case ASK_LIMITS:
    case ASK_LISTEN:
    case ASK_UNLISTEN:
    case ASK_WARM:
    case ASK_NEXT:
    case ASK_DROP:
    case ASKS:
        break;
    }
    return 0;
}

void lead_ask(struct lead *lead, enum ask ask)
{
    const char *values[VALUES] = {0};
    struct error err = {0};
    arena_free(lead->arena);
    lead->arena = arena_new();
    const char *text = ask_text(ask, &lead->target, pg_conn_version(lead->conn), lead->arena);
    int n = parameters(lead, ask, values);
    lead->phase = PHASE_ASKING;
    lead->ask = ask;
    lead->asked_us = clock_boottime_us();
    int64_t answers = ask == ASK_BEGIN ? 3 : 2; /* it waits for several locks in turn */
    lead->due_us = lead->asked_us + answers * lead->options.timing.answer_within_us;
    lead->look = true; /* what came while it was sent does not wake poll(2) any more */
    if (!pg_statement_send(lead->conn, text, n, values, &err))
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

/* A successor waits for the report, which therefore comes before all else. */
static void took_setup(struct lead *lead, const struct reply *reply)
{
    (void)reply;
    lead_ask(lead, lead->ledger && lead->unreported >= 0 ? ASK_REPORT : ASK_LIMITS);
}

static void took_warm(struct lead *lead, const struct reply *reply)
{
    (void)reply;
    lead_ready(lead);
}

void lead_reported(struct lead *lead)
{
    lead->unreported = -1;
    if (lead->prepared || lead->pooled || lead->stopping)
        lead_follow(lead, 0);
    else
        lead_ask(lead, ASK_LIMITS);
}

static void took_report(struct lead *lead, const struct reply *reply)
{
    (void)reply;
    lead_reported(lead);
}

/* The ledger has found the lock in the session that the statement ran in; or the duty moves to
 * another key than we knew. */
static void took_begin(struct lead *lead, const struct reply *reply)
{
    lead->generation = reply->generation;
    if (reply->generation < 0)
        lead_ask(lead, ASK_KEY);
    else
        lead_took_check(lead, reply);
}

static void took_end(struct lead *lead, const struct reply *reply)
{
    (void)reply;
    lead_ask(lead, ASK_UNLOCK);
}

static void (*const takers[ASKS])(struct lead *, const struct reply *) = {
    [ASK_IDENTIFY] = lead_took_identity,
    [ASK_TABLE] = lead_took_table,
    [ASK_SETUP] = took_setup,
    [ASK_LIMITS] = lead_took_limits,
    [ASK_KEY] = lead_took_key,
    [ASK_LISTEN] = lead_took_listen,
    [ASK_UNLISTEN] = lead_took_unlisten,
    [ASK_WARM] = took_warm,
    [ASK_REPORT] = took_report,
    [ASK_COUNT] = lead_took_count,
    [ASK_TRY] = lead_took_try,
    [ASK_QUEUE] = lead_took_try,
    [ASK_CHECK] = lead_took_check,
    [ASK_NEXT] = lead_took_next,
    [ASK_BEGIN] = took_begin,
    [ASK_END] = took_end,
    [ASK_DROP] = lead_took_drop,
    [ASK_UNLOCK] = lead_took_unlock,
    [ASK_ACQUIRE] = lead_took_try,
    [ASK_RENEW] = lead_took_check,
    [ASK_RELEASE] = lead_took_unlock,
    [ASK_SETTLE] = lead_took_settle,
    [ASK_YIELD] = lead_took_yield,
};

/* Rows and refusal may come some steps before the statement ends. */
void lead_take_answer(struct lead *lead)
{
    struct error err = {0};
    struct reply reply;
    enum pg_progress progress = pg_statement_step(lead->conn, &lead->answer, &lead->refusal);
    if (progress == PG_AGAIN)
        return;
    struct pg_answer *answer = STEAL(lead->answer);
    lead->phase = PHASE_WAITING; /* nothing is under way: what follows may ask */
    const struct error refusal = lead->refusal;
    lead->refusal = (struct error){0};
    if (progress == PG_FAILED)
        lead_session_failed(lead, EVENT_SESSION_LOST, &refusal);
    else if (refusal.kind != ERROR_NONE)
        lead_refused(lead, &refusal);
    else if (ask_reply(lead->ask, answer, lead->arena, &reply, &err))
        takers[lead->ask](lead, &reply);
    else
        lead_session_failed(lead, EVENT_CHECK_FAILED, &err);
    pg_answer_free(answer);
}
