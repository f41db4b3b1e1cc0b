/* SPDX-License-Identifier: PostgreSQL */
/* The server refused a statement; the session is still there. What follows depends on what was
 * asked and on the SQLSTATE. */
#include <stddef.h>

#include "base/text.h"
#include "candidate/lead_internal.h"

static const int64_t again_us = SECOND_US / 4;

/* Somebody held something for longer than our lock_timeout, or we were chosen to give way. */
static bool is_passing(const struct error *err)
{
    static const char *const states[] = {"55P03", "40001", "40P01", "57014"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (text_equal(err->sqlstate, states[i]))
            return true;
    }
    return false;
}

static bool is(const struct error *err, const char *sqlstate)
{
    return text_equal(err->sqlstate, sqlstate);
}

void lead_refused_otherwise(struct lead *lead, const struct error *err)
{
    if (is(err, "42501")) {
        lead_tell(lead, NULL, err, NULL);
        lead_end_candidacy(lead, LEAD_NO_PERMISSION);
    } else {
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED, err);
    }
}

/* A key that the registry named is asked for anew with the next session. */
static void refused_begin(struct lead *lead, const struct error *err)
{
    if (!lead_is_by_named_key(lead) && (is(err, "PL002") || is(err, "PL003"))) {
        lead_session_failed(lead, EVENT_TRY_FAILED, err);
    } else if (is(err, "PL003")) {
        lead_remark(lead, REMARK_UNKNOWN_DUTY,
                    "the ledger does not know this duty: no generation, and no settling");
        lead->termless = true;
        lead_proceed(lead);
    } else if (is(err, "PL002")) { /* the registry has another lock for the duty */
        lead_refuse(lead, err);
    } else if (is_passing(err)) { /* old fences: is it still ours? then begin again */
        lead_tell(lead, NULL, err, NULL);
        lead_ask(lead, ASK_CHECK);
    } else {
        lead_refused_otherwise(lead, err);
    }
}

static void refused_key(struct lead *lead, const struct error *err)
{
    lead_refused_key(lead, err, is_passing(err));
}

static void refused_queue(struct lead *lead, const struct error *err)
{
    if (!is(err, "PL003") && !is(err, "42883")) {
        lead_refused_otherwise(lead, err);
        return;
    }
    lead_remark(lead, REMARK_UNKNOWN_DUTY,
                "the ledger does not know this duty: trying instead of waiting in the queue");
    lead->queue = false;
    (void)lead_move(lead, EVENT_REFUSED, NULL);
    lead_follow(lead, 0);
}

/* The ledger has no such duty, or by another mechanism; the table is not as it was. */
static bool is_misfit(const struct error *err)
{
    return is(err, "PL003") || is(err, "55000") || is(err, "42P01") || is(err, "42703");
}

static void refused_acquire(struct lead *lead, const struct error *err)
{
    if (is_passing(err)) {
        (void)lead_move(lead, EVENT_REFUSED, NULL);
        lead_follow(lead, timing_try_pause_us(lead->candidates, lead_random()));
    } else if (is_misfit(err)) {
        lead_refuse(lead, err);
    } else {
        lead_refused_otherwise(lead, err);
    }
}

/* The ledger says that the lease is not ours, or that none decides this duty any more. */
static bool is_over(const struct lead *lead, const struct error *err)
{
    return lead->target.own_lease && (is(err, "PL001") || is(err, "PL003") || is(err, "55000"));
}

/* After anything else there is time until our own deadline. */
static void refused_renew(struct lead *lead, const struct error *err)
{
    if (is_over(lead, err) || lead->state != LEAD_LEADER) {
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED, err);
        return;
    }
    lead_tell(lead, NULL, err, NULL);
    lead_wait(lead, again_us, ASK_RENEW);
}

/* It only costs time later. */
static void refused_warm(struct lead *lead, const struct error *err)
{
    (void)err;
    lead_ready(lead);
}

static void refused_report(struct lead *lead, const struct error *err)
{
    if (is_passing(err)) {
        lead_wait(lead, again_us, ASK_REPORT);
        return;
    }
    lead_reported(lead); /* the term is not ours to report any more */
}

static void refused_count(struct lead *lead, const struct error *err)
{
    (void)err;
    lead->counted_us = clock_boottime_us();
    lead_follow(lead, 0);
}

static void refused_settle(struct lead *lead, const struct error *err)
{
    if (is_passing(err))
        lead_wait(lead, again_us, ASK_SETTLE);
    else
        lead_refused_otherwise(lead, err);
}

/* A leader asks again with its next check. */
static void refused_yield(struct lead *lead, const struct error *err)
{
    lead->hinted = is_passing(err) && lead->state == LEAD_LEADER;
    if (lead->state == LEAD_ACQUIRING)
        lead_proceed(lead);
    else
        lead_check_next(lead);
}

/* The unlock never waits for the ledger. A term that stays open is reported after it, so that
 * nobody waits for work that has stopped. */
static void refused_end(struct lead *lead, const struct error *err)
{
    if (!is(err, "PL001"))
        lead->unreported = lead->generation;
    lead_tell(lead, NULL, err, NULL);
    lead_ask(lead, ASK_UNLOCK);
}

void lead_refused(struct lead *lead, const struct error *err)
{
    static void (*const handlers[ASKS])(struct lead *, const struct error *) = {
        [ASK_WARM] = refused_warm,       [ASK_REPORT] = refused_report,
        [ASK_COUNT] = refused_count,     [ASK_QUEUE] = refused_queue,
        [ASK_BEGIN] = refused_begin,     [ASK_END] = refused_end,
        [ASK_ACQUIRE] = refused_acquire, [ASK_RENEW] = refused_renew,
        [ASK_SETTLE] = refused_settle,   [ASK_YIELD] = refused_yield,
        [ASK_KEY] = refused_key,         [ASK_NEXT] = lead_refused_other,
        [ASK_DROP] = lead_refused_other,
    };
    if (handlers[lead->ask])
        handlers[lead->ask](lead, err);
    else
        lead_refused_otherwise(lead, err);
}
