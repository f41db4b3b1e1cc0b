/* SPDX-License-Identifier: PostgreSQL */
/* A term, by what the server answers: tried, begun, settled, led, given back. */
#include <string.h>

#include "base/text.h"
#include "candidate/lead_internal.h"

static const int64_t settle_look_us = SECOND_US / 20;

static bool by_lease(const struct lead *lead)
{
    return lead->target.lease_table != NULL;
}

enum ask lead_check_ask(const struct lead *lead)
{
    return by_lease(lead) ? ASK_RENEW : ASK_CHECK;
}

/* Checks are sent every check_every, whatever the answers take. */
void lead_check_next(struct lead *lead)
{
    int64_t due = lead->confirmed_us + lead->options.timing.check_every_us - clock_boottime_us();
    lead_wait(lead, due > 0 ? due : 0, lead_check_ask(lead));
}

/* For how long the work of a predecessor that nobody can tell of may go on. */
static void begin_to_settle(struct lead *lead, bool unknown_predecessor)
{
    int64_t wait = lead->options.settle_us;
    lead->settled = wait == 0;
    if (wait < 0 && unknown_predecessor)
        wait = timing_stop_within_us(&lead->options.timing);
    lead->settle_until_us = wait < 0 ? INT64_MAX : clock_boottime_us() + wait;
    if (unknown_predecessor && !lead->settled)
        lead_tell(lead, NULL, NULL,
                  "the lease's row was not there: somebody may have deleted it under a leader, so "
                  "work begins when that one's would have stopped");
}

static void took_lease(struct lead *lead, const struct reply *reply)
{
    lead->confirmed_us = lead->asked_us;
    lead->generation = reply->generation;
    begin_to_settle(lead, reply->is_new);
    if (!lead->target.own_lease && !reply->is_new)
        lead->settled = true; /* it had expired: its holder has stopped by its own deadline */
    lead_proceed(lead);
}

static void took_lock(struct lead *lead)
{
    bool named = lead->ask == ASK_QUEUE && lead->options.key; /* the queue is the registry's */
    begin_to_settle(lead, false);
    if (lead->deaf)
        lead_ask(lead, ASK_LISTEN);
    else if (!lead->ledger || lead->termless || named)
        lead_ask(lead, ASK_CHECK);
    else if (!lead_settle_keys(lead))
        lead_ask(lead, ASK_BEGIN);
}

void lead_took_try(struct lead *lead, const struct reply *reply)
{
    int64_t pause = timing_try_pause_us(lead->candidates, lead_random());
    if (reply->yes) {
        lead->holds = true;
        lead->hinted = false;
        lead->next_tries = 0;
        if (by_lease(lead))
            took_lease(lead, reply);
        else
            took_lock(lead);
        return;
    }
    lead->failures = 0;
    lead->refused_at_us = reply->now_us;
    (void)lead_move(lead, EVENT_REFUSED, NULL);
    if (lead->ask == ASK_QUEUE)
        pause = 0;
    else if (lead->woken)
        pause = timing_wake_pause_us(lead->candidates, lead_random());
    lead->woken = false;
    lead_follow(lead, pause);
}

void lead_give_back(struct lead *lead, enum lead_event event)
{
    lead->reason = lead_rule_find(LEAD_ACQUIRING, event);
    (void)lead_move(lead, event, NULL);
    lead_release(lead);
}

static void settle(struct lead *lead)
{
    int64_t now = clock_boottime_us();
    int64_t until = lead->settle_until_us;
    int64_t check_at = lead->confirmed_us + lead->options.timing.check_every_us;
    if (now >= until) {
        lead->settled = true;
        lead_proceed(lead);
    } else if (now >= check_at) {
        lead_ask(lead, lead_check_ask(lead));
    } else if (lead->generation >= 0) {
        lead_ask(lead, ASK_SETTLE);
    } else {
        lead_wait(lead, (until < check_at ? until : check_at) - now, lead_check_ask(lead));
    }
}

/* What is promised counts from the last check, which therefore is a fresh one when work begins. */
static void grant(struct lead *lead)
{
    int64_t age = clock_boottime_us() - lead->confirmed_us;
    if (age > lead->options.timing.check_every_us / 2) {
        lead_ask(lead, lead_check_ask(lead));
        return;
    }
    lead->failures = 0;
    lead_check_next(lead);
    (void)lead_move(lead, EVENT_GRANTED, NULL);
}

void lead_proceed(struct lead *lead)
{
    bool term = lead->ledger && !lead->termless && !by_lease(lead);
    if (lead->stopping)
        lead_give_back(lead, EVENT_SIGNAL);
    else if (lead->deaf)
        lead_ask(lead, ASK_LISTEN);
    else if (term && lead->generation < 0 && lead_settle_keys(lead))
        return;
    else if (term && lead->generation < 0)
        lead_ask(lead, ASK_BEGIN);
    else if (lead->hinted && lead->generation >= 0)
        lead_ask(lead, ASK_YIELD);
    else if (!lead->settled && (lead->generation >= 0 || lead->settle_until_us != INT64_MAX))
        settle(lead);
    else
        grant(lead);
}

/* The lock: pid, nonce and key in one statement; only all three prove that this session holds it.
 * A lease: the renewal found it ours. */
static bool is_ours(const struct lead *lead, const struct reply *reply)
{
    return reply->yes && (by_lease(lead) || (reply->pid == pg_conn_backend_pid(lead->conn) &&
                                             text_equal(reply->nonce, lead->nonce)));
}

/* The ledger's queue gave us the registry's lock, which is not the one that was named. */
static bool is_of_another_key(const struct lead *lead, const struct reply *reply)
{
    return !reply->yes && lead->queue && lead_is_by_named_key(lead) && lead->generation < 0 &&
           lead->state == LEAD_ACQUIRING;
}

/* Behind a pooler no request to yield is heard, and each check asks. */
void lead_took_check(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    if (is_of_another_key(lead, reply)) {
        lead_refuse_named_key(lead);
        return;
    }
    if (!is_ours(lead, reply)) {
        if (by_lease(lead))
            (void)error_set(&err, ERROR_QUERY,
                            "could not renew the lease of %s: row \"%s\" of %s is not held by %s "
                            "any more",
                            lead->options.duty, lead->lease_row, lead->lease_table,
                            lead->options.instance);
        else
            (void)error_set(&err, ERROR_QUERY, "could not find the lock of %s in this session",
                            lead->options.duty);
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED, &err);
        return;
    }
    lead->confirmed_us = lead->asked_us;
    if (lead->ask == ASK_CHECK)
        lead_checked_other(lead, reply->other);
    if (lead->state != LEAD_ACQUIRING)
        lead->failures = 0;
    if (lead->state != LEAD_ACQUIRING && (lead->state != LEAD_YIELDING || lead->working) &&
        (lead->hinted || lead->pooled) && lead->generation >= 0)
        lead_ask(lead, ASK_YIELD);
    else
        lead_go_on(lead);
}

void lead_took_settle(struct lead *lead, const struct reply *reply)
{
    bool wait = reply->wait_until_us != TIME_UNKNOWN && reply->now_us < reply->wait_until_us;
    if (wait && !lead->stopping && !lead->hinted) {
        lead_wait(lead, settle_look_us, ASK_SETTLE);
        return;
    }
    lead->settled = !wait;
    lead_proceed(lead);
}

void lead_took_yield(struct lead *lead, const struct reply *reply)
{
    bool obeys = reply->yes && lead->state == LEAD_LEADER;
    lead->hinted = false;
    if (lead->state == LEAD_ACQUIRING && reply->yes)
        lead_give_back(lead, EVENT_YIELD_REQUEST);
    else if (!obeys)
        lead_go_on(lead);
    else
        lead_check_next(lead);
    if (obeys)
        (void)lead_move(lead, EVENT_YIELD_REQUEST, NULL);
}

void lead_took_unlock(struct lead *lead, const struct reply *reply)
{
    struct error err = {0};
    lead->holds = false;
    if (!reply->yes) {
        (void)error_set(&err, ERROR_QUERY,
                        "could not give back the %s of %s: the server says that it was not held",
                        by_lease(lead) ? "lease" : "lock", lead->options.duty);
        lead_session_failed(lead, EVENT_CHECK_FAILED, &err);
        return;
    }
    lead_forget_other(lead);
    if (lead->options.key && !lead_is_by_named_key(lead))
        lead->stale = lead->ledger; /* it led on by the registry's */
    (void)lead_move(lead, EVENT_WORK_STOPPED, NULL);
    lead->generation = -1;
    lead_follow(lead, timing_try_pause_us(lead->candidates, lead_random()));
}

void lead_keep_lease(struct lead *lead)
{
    struct error err = {0};
    (void)error_set(&err, ERROR_CONNECT, "could not give back the lease of %s: there is no session",
                    lead->options.duty);
    lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

void lead_release(struct lead *lead)
{
    bool ready = lead->conn && lead->phase != PHASE_CONNECTING && (lead->listening || lead->pooled);
    if (!ready && clock_boottime_us() < lead->report_by_us) { /* a lease, between two sessions */
        if (lead->phase == PHASE_DOWN)
            lead->due_us = clock_boottime_us();
    } else if (!ready) {
        lead_keep_lease(lead);
    } else if (lead->phase == PHASE_ASKING) {
        return; /* a check is under way: its answer comes first */
    } else if (by_lease(lead)) {
        lead_ask(lead, ASK_RELEASE);
    } else {
        lead_ask(lead, lead->generation >= 0 ? ASK_END : ASK_UNLOCK);
    }
}
