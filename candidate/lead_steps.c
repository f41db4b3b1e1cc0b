/* SPDX-License-Identifier: PostgreSQL */
/* What a candidate does next, by what its server has answered. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "candidate/lead_internal.h"

static const int64_t count_every_us = 10 * SECOND_US;
static const int64_t settle_look_us = SECOND_US / 20;
static const int64_t standby_pause_us = SECOND_US;

/* Followers: count now and then, report what we owe, then try. */
static enum ask next_of_follower(const struct lead *lead)
{
    if (lead->ledger && lead->unreported >= 0)
        return ASK_REPORT;
    if (clock_boottime_us() - lead->counted_us > count_every_us)
        return ASK_COUNT;
    return lead->queue && lead->ledger ? ASK_QUEUE : ASK_TRY;
}

static void follow(struct lead *lead, int64_t pause_us)
{
    if (lead->stopping)
        lead_end_candidacy(lead, LEAD_ENDED);
    else
        lead_wait(lead, pause_us, next_of_follower(lead));
}

/* Proof at connect: the protocol's backend is the server's, or something stands between. */
static void took_setup(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    if (reply->pid != pg_conn_backend_pid(lead->conn)) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not lead through this connection: the server's backend is %" PRId32
                        ", the connection's is %d: a pooler stands between, and a lock taken "
                        "through it would be the "
                        "pooler's",
                        reply->pid, pg_conn_backend_pid(lead->conn));
        error_hint(&err, "Connect to PostgreSQL directly.");
        lead_tell(lead, NULL, &err, NULL);
        lead_end_candidacy(lead, LEAD_REFUSED);
        return;
    }
    lead->failures = 0;
    if (!reply->has_ledger && !lead->warned)
        lead_tell(lead, NULL, NULL,
                  lead->queue ? "there is no ledger in this database: no generations, no settling, "
                                "and trying instead of waiting in the queue"
                              : "there is no ledger in this database: no generations, no settling");
    lead->warned = !reply->has_ledger;
    lead->ledger = reply->has_ledger;
    if (reply->in_recovery) {
        lead_tell(lead, NULL, NULL,
                  "this server is a standby: its locks are not the primary's, waiting");
        lead_wait(lead, standby_pause_us, ASK_SETUP);
        return;
    }
    lead_ask(lead, ASK_LIMITS);
}

static void after_key(struct lead *lead)
{
    if (lead->ledger)
        lead_ask(lead, ASK_LISTEN);
    else
        follow(lead, timing_wake_pause_us(lead->candidates, lead_random()));
}

static void took_limits(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    int64_t holds = timing_server_holds_us(reply->user_timeout_ms, reply->idle_s, reply->interval_s,
                                           reply->count);
    struct timing timing = lead->options.timing;
    timing.server_holds_us = holds ? holds : timing.server_holds_us; /* 0: a local socket */
    if (!timing_check(&timing, &err)) {
        lead_tell(lead, NULL, &err, NULL);
        lead_end_candidacy(lead, LEAD_REFUSED);
        return;
    }
    if (reply->idle_session_timeout_ms > 0 &&
        reply->idle_session_timeout_ms * 1000 <= 2 * lead->options.timing.check_every_us)
        lead_tell(
            lead, NULL, NULL,
            "idle_session_timeout of this server is so short that it may end a leader's session");
    if (lead->has_key)
        after_key(lead);
    else if (lead->ledger)
        lead_ask(lead, ASK_KEY);
    else {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not find the lock of %s: there is no ledger to ask",
                        lead->options.duty);
        error_hint(&err, "Install the ledger and register the duty, or name the lock.");
        lead_tell(lead, NULL, &err, NULL);
        lead_end_candidacy(lead, LEAD_REFUSED);
    }
}

static void took_key(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    if (reply->objsubid <= 0) {
        (void)error_set(&err, ERROR_CONFIG,
                        "could not find the lock of %s: the ledger has no such lock duty",
                        lead->options.duty);
        lead_tell(lead, NULL, &err, NULL);
        lead_end_candidacy(lead, LEAD_REFUSED);
        return;
    }
    lead->key = (struct lock_key){(uint32_t)reply->classid, (uint32_t)reply->objid,
                                  (uint16_t)reply->objsubid};
    lead->has_key = true;
    after_key(lead);
}

static void granted(struct lead *lead)
{
    (void)lead_move(lead, EVENT_GRANTED, NULL);
    if (lead->state == LEAD_LEADER)
        lead_wait(lead, lead->options.timing.check_every_us, ASK_CHECK);
}

static void took_try(struct lead *lead, const struct reply *reply)
{
    if (reply->yes) {
        lead->holds = true;
        lead_ask(lead, ASK_CHECK);
        return;
    }
    (void)lead_move(lead, EVENT_REFUSED, NULL);
    follow(lead, lead->ask == ASK_QUEUE ? 0 : timing_try_pause_us(lead->candidates, lead_random()));
}

/* pid, nonce and key in one statement: only all three prove that this session holds the lock. */
static void took_check(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    bool ours = reply->yes && reply->pid == pg_conn_backend_pid(lead->conn) &&
                text_equal(reply->nonce, lead->nonce);
    if (!ours) {
        (void)error_set(&err, ERROR_QUERY, "could not find the lock of %s in this session",
                        lead->options.duty);
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED, &err);
        return;
    }
    lead->confirmed_us = lead->asked_us;
    if (lead->state == LEAD_ACQUIRING && lead->ledger)
        lead_ask(lead, ASK_BEGIN);
    else if (lead->state == LEAD_ACQUIRING)
        granted(lead);
    else if (lead->state == LEAD_YIELDING && !lead->working)
        lead_release(lead);
    else
        lead_wait(lead, lead->options.timing.check_every_us, ASK_CHECK);
}

static void took_settle(struct lead *lead, const struct reply *reply)
{
    bool wait = reply->wait_until_us != TIME_UNKNOWN && reply->now_us < reply->wait_until_us;
    if (wait && lead->options.settle_us != 0)
        lead_wait(lead, settle_look_us, ASK_SETTLE);
    else
        granted(lead);
}

static void took_unlock(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    lead->holds = false;
    if (!reply->yes) {
        (void)error_set(&err, ERROR_QUERY,
                        "could not give back the lock of %s: the server says that it was not held",
                        lead->options.duty);
        lead_session_failed(lead, EVENT_CHECK_FAILED, &err);
        return;
    }
    (void)lead_move(lead, EVENT_WORK_STOPPED, NULL);
    lead->generation = -1;
    follow(lead, timing_try_pause_us(lead->candidates, lead_random()));
}

void lead_took_reply(struct lead *lead, const struct reply *reply)
{
    switch (lead->ask) {
    case ASK_SETUP:
        took_setup(lead, reply);
        return;
    case ASK_LIMITS:
        took_limits(lead, reply);
        return;
    case ASK_KEY:
        took_key(lead, reply);
        return;
    case ASK_LISTEN:
        follow(lead, timing_wake_pause_us(lead->candidates, lead_random()));
        return;
    case ASK_REPORT:
        lead->unreported = -1;
        follow(lead, 0);
        return;
    case ASK_COUNT:
        lead->candidates = reply->candidates > 1 ? (int32_t)reply->candidates : 2;
        lead->counted_us = clock_boottime_us();
        follow(lead, 0);
        return;
    case ASK_TRY:
    case ASK_QUEUE:
        took_try(lead, reply);
        return;
    case ASK_CHECK:
        took_check(lead, reply);
        return;
    case ASK_BEGIN:
        lead->generation = reply->generation;
        lead_ask(lead, ASK_SETTLE);
        return;
    case ASK_SETTLE:
        took_settle(lead, reply);
        return;
    case ASK_END:
        lead_ask(lead, ASK_UNLOCK);
        return;
    case ASK_UNLOCK:
        took_unlock(lead, reply);
        return;
    case ASK_NOTHING:
    case ASKS:
        return;
    }
}

/* The server refused a statement; the session is still there. */
void lead_refused(struct lead *lead, const struct error *err)
{
    bool beginning = lead->ask == ASK_BEGIN;
    if (strcmp(err->sqlstate, "42501") == 0) {
        lead_tell(lead, NULL, err, NULL);
        lead_end_candidacy(lead, LEAD_NO_PERMISSION);
    } else if (beginning && strcmp(err->sqlstate, "PL003") == 0) {
        lead_tell(lead, NULL, NULL,
                  "the ledger does not know this duty: no generation, and no settling");
        granted(lead);
    } else if (beginning && strcmp(err->sqlstate, "PL002") == 0) {
        lead_tell(lead, NULL, err, NULL); /* the registry has another lock for the duty */
        lead_end_candidacy(lead, LEAD_REFUSED);
    } else if (lead->ask == ASK_QUEUE && strcmp(err->sqlstate, "PL003") == 0) {
        lead_tell(lead, NULL, NULL,
                  "the ledger does not know this duty: trying instead of waiting in the queue");
        lead->queue = false;
        (void)lead_move(lead, EVENT_REFUSED, NULL);
        follow(lead, 0);
    } else if (lead->ask == ASK_REPORT) {
        lead->unreported = -1; /* the term is not ours to report any more */
        follow(lead, 0);
    } else if (lead->ask == ASK_END) {
        lead_tell(lead, NULL, err, NULL); /* the unlock never waits for the ledger */
        lead_ask(lead, ASK_UNLOCK);
    } else {
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED, err);
    }
}

/* A graceful end: the term is ended, then the lock is given back. */
void lead_release(struct lead *lead)
{
    if (lead->phase == PHASE_ASKING)
        return; /* a check is under way: its answer comes first */
    lead_ask(lead, lead->generation >= 0 ? ASK_END : ASK_UNLOCK);
}
