/* SPDX-License-Identifier: PostgreSQL */
/* Drives one candidate: one statement at a time on one session, each answer deciding the next.
 * Rules move the state; phases say what the session is at. */
#include "candidate/lead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/text.h"
#include "candidate/lead_internal.h"
#include "pg/statement.h"

static const int64_t connect_within_us = 2 * SECOND_US;
static const int64_t report_within_us = 2 * SECOND_US;
static const int64_t stand_back_us = SECOND_US * 3 / 2;
static const int64_t unhurried_us = SECOND_US / 5;

uint32_t lead_random(void)
{
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    return random;
}

void lead_tell(struct lead *lead, const struct lead_rule *rule, const struct error *err,
               const char *remark)
{
    if (lead->options.told)
        lead->options.told(lead->options.context, rule, err, remark);
}

void lead_remark(struct lead *lead, enum remark remark, const char *words)
{
    if (!(lead->remarked & 1U << remark))
        lead_tell(lead, NULL, NULL, words);
    lead->remarked |= 1U << remark;
}

/* Who lost it, or was asked to yield, lets another try first. */
static void stand_back(struct lead *lead)
{
    lead->counted_us = 0;
    lead->stands_back_until_us = clock_boottime_us() + stand_back_us;
}

bool lead_move(struct lead *lead, enum lead_event event, const struct error *err)
{
    const struct lead_rule *rule = lead_rule_find(lead->state, event);
    if (!rule)
        return false;
    bool loses = rule->from == LEAD_LEADER && lead->working && event != EVENT_FINISHED;
    lead->state = rule->to;
    if (rule->from == LEAD_LEADER)
        lead->reason = rule;
    if (rule->from == LEAD_LEADER || event == EVENT_YIELD_REQUEST)
        stand_back(lead);
    if (loses) /* the abort comes before the words */
        lead->options.lost(lead->options.context, lead->generation, rule);
    lead_tell(lead, rule, err, NULL);
    if (event == EVENT_GRANTED) {
        lead->working = true;
        lead->options.gained(lead->options.context, lead->generation);
    }
    return true;
}

void lead_wait(struct lead *lead, int64_t pause_us, enum ask next)
{
    lead->phase = PHASE_WAITING;
    lead->next = next;
    lead->due_us = clock_boottime_us() + pause_us;
}

void lead_drop_session(struct lead *lead, int64_t pause_us)
{
    pg_conn_close(STEAL(lead->conn));
    pg_answer_free(STEAL(lead->answer));
    lead->refusal = (struct error){0};
    lead->phase = PHASE_DOWN;
    lead->ask = ASK_NOTHING;
    lead->holds = lead->prepared = lead->listening = lead->termless = lead->woken = false;
    lead->deaf = false;
    lead->look = false;
    lead_forget_keys(lead);
    lead->refused_at_us = TIME_UNKNOWN; /* the next server's clock may be another */
    lead->due_us = clock_boottime_us() + pause_us;
}

/* The work is still to be aborted; nothing that the session says matters before it has stopped, and
 * closing it would free the lock. */
static void wait_for_work(struct lead *lead)
{
    lead->phase = PHASE_WAITING;
    lead->next = ASK_NOTHING;
    lead->due_us = INT64_MAX;
    lead->look = false;
}

/* A term that was begun is still open: its successor would wait for work that has stopped. */
static bool owes_last_words(struct lead *lead)
{
    if (lead->generation >= 0)
        lead->unreported = lead->generation;
    lead->generation = -1;
    return lead->ledger && lead->unreported >= 0 && lead->ending != LEAD_ENDED && !lead->last_words;
}

/* The lock is free when the session is closed; what is to be reported is, on another one. */
void lead_end_candidacy(struct lead *lead, enum lead_end end)
{
    if (lead->ending == LEAD_GOES_ON)
        lead->ending = end;
    if (lead->working) {
        (void)lead_move(lead, EVENT_CHECK_FAILED, NULL);
        wait_for_work(lead);
        return;
    }
    bool owes = owes_last_words(lead);
    lead_drop_session(lead, 0);
    if (!owes) {
        lead->end = lead->ending;
        return;
    }
    lead->last_words = lead->stopping = true;
    lead->report_by_us = clock_boottime_us() + report_within_us;
    (void)lead_move(lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_FAILED,
                    NULL);
    (void)lead_move(lead, EVENT_WORK_STOPPED, NULL);
}

void lead_refuse(struct lead *lead, const struct error *err)
{
    lead_tell(lead, NULL, err, NULL);
    lead_end_candidacy(lead, LEAD_REFUSED);
}

/* The term is over and nothing of it runs; whoever comes next waits to hear that. */
static void forget_term(struct lead *lead)
{
    if (lead->generation >= 0)
        lead->unreported = lead->generation;
    lead->generation = -1;
    (void)lead_move(lead, EVENT_WORK_STOPPED, NULL);
    if (lead->ending != LEAD_GOES_ON && !lead->last_words)
        lead_end_candidacy(lead, lead->ending);
}

/* True while it waits to report, though it is to stop. */
static bool may_report(const struct lead *lead)
{
    return lead->ledger && lead->unreported >= 0 && clock_boottime_us() < lead->report_by_us;
}

/* Its work is over, its lease may last: it is given back on another session, if one comes soon. */
static bool only_gives_back(const struct lead *lead)
{
    return lead->target.lease_table && lead->state == LEAD_YIELDING && !lead->working &&
           !lead->holds;
}

/* A lease is not the session's. */
static bool is_outlived(const struct lead *lead)
{
    int64_t now = clock_boottime_us();
    if (!lead->target.lease_table || lead->unlogged)
        return false;
    return (lead->state == LEAD_LEADER && now < lead_deadline_us(lead)) ||
           (only_gives_back(lead) && now < lead->report_by_us);
}

void lead_session_failed(struct lead *lead, enum lead_event event, const struct error *err)
{
    bool outlives = event == EVENT_SESSION_LOST && is_outlived(lead);
    if (outlives || !lead_move(lead, event, err))
        lead_tell(lead, NULL, err, NULL);
    if (!outlives && lead->working) {
        wait_for_work(lead);
        return;
    }
    if (!outlives)
        forget_term(lead);
    if (lead->end != LEAD_GOES_ON)
        return;
    lead->attempts++;
    lead_drop_session(lead, timing_reconnect_pause_us(lead->failures++, lead_random()));
    if (lead->stopping && !outlives && !may_report(lead))
        lead_end_candidacy(lead, LEAD_ENDED);
}

static bool says(const struct pg_notification *notification, const char *event)
{
    return strstr(notification->payload, event) != NULL;
}

/* The leader has gone, or is known to have stopped: worth a try at once. */
static void wake(struct lead *lead)
{
    bool tries = lead->next == ASK_TRY || lead->next == ASK_ACQUIRE;
    if (lead->state == LEAD_ACQUIRING)
        lead->woken = true;
    else if (lead->state == LEAD_FOLLOWER && lead->phase == PHASE_WAITING && tries)
        lead_follow(lead, timing_wake_pause_us(lead->candidates, lead_random()));
}

/* Anybody may notify, as often as he likes: a request to yield is a hint, and the ledger is asked,
 * but not while a check is due. */
static void take_notification(struct lead *lead, const struct pg_notification *notification)
{
    bool waiting = lead->phase == PHASE_WAITING;
    bool stopped = says(notification, "\"stopped\"");
    if (says(notification, "\"key\""))
        lead->stale = lead->ledger && !lead->target.lease_table; /* asked when it matters */
    if (says(notification, "\"yield\"") && lead->generation >= 0) {
        lead->hinted = true;
        if (waiting && (lead->state == LEAD_LEADER || lead->next == ASK_SETTLE) &&
            clock_boottime_us() < lead->due_us)
            lead_ask(lead, ASK_YIELD);
    } else if (stopped && waiting && lead->next == ASK_SETTLE) {
        lead_wait(lead, 0, ASK_SETTLE);
    } else if (stopped || says(notification, "\"released\"")) {
        wake(lead);
    }
}

static void take_input(struct lead *lead)
{
    struct error err = {0};
    struct pg_notification notification;
    lead->look = false;
    if (lead->phase == PHASE_ASKING)
        lead_take_answer(lead);
    else if (!pg_conn_idle(lead->conn, &err))
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
    while (lead->conn && pg_notification_take(lead->conn, &notification))
        take_notification(lead, &notification);
}

static void start_connecting(struct lead *lead)
{
    struct error err = {0};
    unsigned char bytes[16] = {0};
    (void)!getrandom(bytes, sizeof bytes, 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(lead->nonce + 2 * i, 3, "%02x", bytes[i]);
    const struct pg_conn_options options = {
        .conninfo = lead->options.conninfo,
        .own_name = lead->name,
        .silent_after_s = (int)(lead->options.timing.server_holds_us / SECOND_US),
        .first_host = lead->attempts};
    lead->conn = pg_conn_start(&options, &err);
    lead->phase = PHASE_CONNECTING;
    lead->due_us = clock_boottime_us() + connect_within_us;
    if (!lead->conn)
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

/* What waiting will not mend. A server that knew us once may do so again. */
static bool is_denied(const struct lead *lead, const struct error *err)
{
    return text_equal(err->sqlstate, "42501") ||
           (!lead->was_up &&
            (text_equal(err->sqlstate, "28P01") || text_equal(err->sqlstate, "28000")));
}

static void go_on_connecting(struct lead *lead)
{
    struct error err = {0};
    enum pg_progress progress = pg_conn_connect(lead->conn, &err);
    if (progress == PG_DONE) {
        lead_ask(lead, ASK_IDENTIFY);
    } else if (progress == PG_FAILED && is_denied(lead, &err)) {
        lead_tell(lead, NULL, &err, NULL);
        lead_end_candidacy(lead, LEAD_NO_PERMISSION);
    } else if (progress == PG_FAILED) {
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
    }
}

/* No answer in time. A leader by lease asks again on another session. */
static void answer_is_late(struct lead *lead)
{
    struct error err = {0};
    enum lead_event event = EVENT_CHECK_LATE;
    (void)error_set(&err, ERROR_TIMEOUT, "could not hear from the server in time");
    if (lead->state == LEAD_ACQUIRING)
        event = EVENT_TRY_FAILED;
    else if (lead->target.lease_table && lead->state == LEAD_LEADER)
        event = EVENT_SESSION_LOST;
    lead_session_failed(lead, event, &err);
}

static bool is_try(enum ask ask)
{
    return ask == ASK_TRY || ask == ASK_QUEUE || ask == ASK_ACQUIRE;
}

void lead_try(struct lead *lead)
{
    (void)lead_move(lead, EVENT_TRY, NULL);
    lead_ask(lead, lead->next);
}

static void wait_is_over(struct lead *lead)
{
    if (is_try(lead->next) && lead->stale) {
        lead_ask(lead, ASK_KEY);
        return;
    }
    if (is_try(lead->next))
        lead_try(lead);
    else if (lead->next == ASK_SETTLE)
        lead_proceed(lead); /* checks and deadlines go on meanwhile */
    else
        lead_ask(lead, lead->next);
}

/* A deadline or a wait is over. */
static void run_out(struct lead *lead)
{
    if (lead->phase == PHASE_DOWN) {
        start_connecting(lead);
    } else if (lead->phase == PHASE_WAITING) {
        wait_is_over(lead);
    } else {
        answer_is_late(lead);
    }
}

/* While nothing is left of it but a report, or to give back a lease: when that is given up. */
static int64_t report_deadline_us(const struct lead *lead)
{
    bool only_reports =
        lead->stopping && lead->state == LEAD_FOLLOWER && !lead->working && !lead->holds;
    return only_reports || only_gives_back(lead) ? lead->report_by_us : INT64_MAX;
}

int64_t lead_deadline_us(const struct lead *lead)
{
    const struct timing *timing = &lead->options.timing;
    if (lead->state != LEAD_LEADER)
        return INT64_MAX;
    return lead->target.lease_table ? timing_lease_abort_at_us(timing, lead->confirmed_us)
                                    : timing_abort_at_us(timing, lead->confirmed_us);
}

/* Nothing that the session says matters before the work has stopped. */
static bool is_deaf(const struct lead *lead)
{
    return lead->working && lead->due_us == INT64_MAX;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void lead_wants(const struct lead *lead, struct pollfd *ret_fd, int *ret_timeout_ms)
{
    int64_t due = least(lead->due_us, least(lead_deadline_us(lead), report_deadline_us(lead)));
    int64_t left = due == INT64_MAX ? SECOND_US : due - clock_boottime_us();
    *ret_fd = (struct pollfd){.fd = -1};
    if (lead->conn && !is_deaf(lead)) {
        ret_fd->fd = pg_conn_fd(lead->conn);
        ret_fd->events = pg_conn_events(lead->conn);
    }
    if (lead->look || left < 0)
        left = 0;
    *ret_timeout_ms = (int)(least(left, SECOND_US) + 999) / 1000;
}

void lead_step(struct lead *lead, bool ready)
{
    struct error err = {0};
    if (lead->end != LEAD_GOES_ON)
        return;
    if (ready && lead->phase == PHASE_CONNECTING)
        go_on_connecting(lead);
    else if ((ready || lead->look) && lead->conn && lead->phase != PHASE_CONNECTING &&
             !is_deaf(lead))
        take_input(lead);
    if (lead->end != LEAD_GOES_ON)
        return;
    if (clock_boottime_us() >= lead_deadline_us(lead)) {
        (void)error_set(&err, ERROR_TIMEOUT, "could not hear from the server in time");
        lead_session_failed(lead, EVENT_CHECK_LATE, &err);
    } else if (clock_boottime_us() >= report_deadline_us(lead) && lead->state == LEAD_YIELDING) {
        lead_keep_lease(lead);
    } else if (clock_boottime_us() >= report_deadline_us(lead)) {
        lead_end_candidacy(lead, LEAD_ENDED);
    } else if (clock_boottime_us() >= lead->due_us) {
        run_out(lead);
    }
}

/* A successor that settles waits for our report. Where none does, a new session in this moment
 * would only be in its way; we stand back for longer than that anyway. */
static int64_t report_pause_us(const struct lead *lead)
{
    return lead->options.settle_us == 0 && !lead->stopping ? unhurried_us : 0;
}

void lead_work_stopped(struct lead *lead)
{
    lead->working = false;
    lead->report_by_us = clock_boottime_us() + report_within_us;
    if (lead->state == LEAD_LEADER)
        (void)lead_move(lead, EVENT_FINISHED, NULL);
    if (lead->state == LEAD_YIELDING) {
        lead_release(lead);
        return;
    }
    if (lead->state != LEAD_UNCERTAIN)
        return;
    forget_term(lead);
    if (lead->end == LEAD_GOES_ON)
        lead_drop_session(lead, report_pause_us(lead));
    if (lead->end == LEAD_GOES_ON && lead->stopping && !may_report(lead))
        lead_end_candidacy(lead, LEAD_ENDED);
}

void lead_yield(struct lead *lead)
{
    if (lead->state == LEAD_LEADER)
        (void)lead_move(lead, EVENT_SIGNAL, NULL);
}

void lead_stop(struct lead *lead)
{
    lead->stopping = true;
    lead->report_by_us = clock_boottime_us() + report_within_us;
    if (lead->state == LEAD_LEADER) {
        (void)lead_move(lead, EVENT_SIGNAL, NULL);
    } else if (lead->working || lead->state == LEAD_YIELDING) {
        return; /* it ends when the work has */
    } else if (lead->holds) {
        if (lead->state == LEAD_ACQUIRING && lead->phase == PHASE_WAITING)
            lead_proceed(lead); /* else with the answer */
    } else if (may_report(lead)) {
        if (lead->phase == PHASE_DOWN)
            lead->due_us = clock_boottime_us();
    } else if (lead->phase != PHASE_ASKING || lead->ask != ASK_ACQUIRE) {
        lead_end_candidacy(lead, LEAD_ENDED);
    } /* else with the answer: nobody would give back a lease that it brings */
}
