/* SPDX-License-Identifier: PostgreSQL */
/* Drives one candidate: one statement at a time on one session, each answer deciding the next.
 * Rules move the state; phases say what the session is at. */
#include "candidate/lead.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/text.h"
#include "candidate/lead_internal.h"
#include "pg/statement.h"

static const int64_t connect_within_us = 2 * SECOND_US;

uint32_t lead_random(void)
{
    uint32_t random = 0;
    (void)!getrandom(&random, sizeof random, 0);
    return random;
}

/* application_name holds 63 bytes: of a long instance the tail, which tells pods apart. */
static void make_name(struct lead *lead)
{
    char prefix[64];
    int size = snprintf(prefix, sizeof prefix, "pgleader:%s:", lead->options.duty);
    size_t room = size < 63 ? 63 - (size_t)size : 0;
    size_t length = strlen(lead->options.instance);
    const char *tail = lead->options.instance + (length > room ? length - room : 0);
    (void)snprintf(lead->name, sizeof lead->name, "%s%s", prefix, tail);
}

struct lead *lead_new(const struct lead_options *options, struct error *err)
{
    if (!duty_name_valid(options->duty)) {
        (void)error_set(err, ERROR_USAGE,
                        "could not lead \"%s\": not namespace/name of [a-z0-9._-]", options->duty);
        return NULL;
    }
    if (!timing_check(&options->timing, err))
        return NULL;
    struct lead *lead = xcalloc(1, sizeof *lead);
    lead->options = *options;
    lead->arena = arena_new();
    lead->generation = lead->unreported = -1;
    lead->candidates = 2;
    lead->has_key = options->key != NULL;
    lead->queue = options->queue;
    if (options->key)
        lead->key = *options->key;
    make_name(lead);
    lead->due_us = clock_boottime_us();
    return lead;
}

void lead_free(struct lead *lead)
{
    if (!lead)
        return;
    pg_conn_close(lead->conn);
    pg_answer_free(lead->answer);
    arena_free(lead->arena);
    free(lead);
}

void lead_tell(struct lead *lead, const struct lead_rule *rule, const struct error *err,
               const char *remark)
{
    if (lead->options.told)
        lead->options.told(lead->options.context, rule, err, remark);
}

bool lead_move(struct lead *lead, enum lead_event event, const struct error *err)
{
    const struct lead_rule *rule = lead_rule_find(lead->state, event);
    if (!rule)
        return false;
    lead->state = rule->to;
    lead_tell(lead, rule, err, NULL);
    if (event == EVENT_GRANTED) {
        lead->working = true;
        lead->options.gained(lead->options.context, lead->generation);
    } else if (rule->from == LEAD_LEADER) {
        lead->reason = rule;
        if (lead->working)
            lead->options.lost(lead->options.context, lead->generation, rule);
    }
    return true;
}

void lead_wait(struct lead *lead, int64_t pause_us, enum ask next)
{
    lead->phase = PHASE_WAITING;
    lead->next = next;
    lead->due_us = clock_boottime_us() + pause_us;
}

/* Gives the session up. While work runs the socket stays open: closing it would free the lock. */
static void drop_session(struct lead *lead, int64_t pause_us)
{
    pg_conn_close(STEAL(lead->conn));
    pg_answer_free(STEAL(lead->answer));
    lead->refusal = (struct error){0};
    lead->phase = PHASE_DOWN;
    lead->ask = ASK_NOTHING;
    lead->holds = false;
    lead->due_us = clock_boottime_us() + pause_us;
}

void lead_end_candidacy(struct lead *lead, enum lead_end end)
{
    drop_session(lead, 0);
    lead->end = end;
}

/* The term is over and nothing of it runs. */
static void forget_term(struct lead *lead, bool reported)
{
    if (!reported && lead->ledger)
        lead->unreported = lead->generation;
    lead->generation = -1;
}

/* An error of the session in whatever state: work is aborted first; the session is closed when it
 * has stopped. */
void lead_session_failed(struct lead *lead, enum lead_event event, const struct error *err)
{
    bool moved = lead_move(lead, event, err);
    if (!moved)
        lead_tell(lead, NULL, err, NULL);
    if (lead->working) {
        lead->phase = PHASE_WAITING;
        lead->next = ASK_NOTHING;
        lead->due_us = INT64_MAX;
        return;
    }
    if (lead->generation >= 0)
        forget_term(lead, false);
    lead->failures++;
    drop_session(lead, timing_reconnect_pause_us(lead->failures - 1, lead_random()));
    if (lead->stopping)
        lead_end_candidacy(lead, LEAD_ENDED);
}

static int64_t answer_within(const struct lead *lead, enum ask ask)
{
    if (ask == ASK_CHECK && lead->state == LEAD_LEADER)
        return timing_abort_at_us(&lead->options.timing, lead->confirmed_us) - clock_boottime_us();
    return lead->options.timing.answer_within_us * 2;
}

/* The parameters of a statement, in the lead's arena. */
static int parameters(struct lead *lead, enum ask ask, const char *values[4])
{
    struct arena *arena = lead->arena;
    const struct lead_options *options = &lead->options;
    bool pair = lead->key.objsubid == LOCK_OBJSUBID_PAIR;
    switch (ask) {
    case ASK_SETUP:
        values[0] = lead->nonce;
        values[1] = arena_printf(arena, "%" PRId64, options->timing.server_holds_us / 1000);
        return 2;
    case ASK_KEY:
    case ASK_QUEUE:
    case ASK_SETTLE:
        values[0] = options->duty;
        return 1;
    case ASK_COUNT:
        values[0] = arena_printf(arena, "pgleader:%s:", options->duty);
        return 1;
    case ASK_TRY:
    case ASK_UNLOCK:
        values[0] = pair ? arena_printf(arena, "%" PRId32, (int32_t)lead->key.classid)
                         : arena_printf(arena, "%" PRId64, lock_key_to_int8(lead->key));
        values[1] = pair ? arena_printf(arena, "%" PRId32, (int32_t)lead->key.objid) : NULL;
        return pair ? 2 : 1;
    case ASK_CHECK:
        values[0] = arena_printf(arena, "%" PRIu32, lead->key.classid);
        values[1] = arena_printf(arena, "%" PRIu32, lead->key.objid);
        values[2] = arena_printf(arena, "%u", lead->key.objsubid);
        return 3;
    case ASK_BEGIN:
        values[0] = options->duty;
        values[1] = options->instance;
        values[2] = arena_printf(arena, "%" PRId64 " us", timing_stop_within_us(&options->timing));
        values[3] = NULL;
        return 4;
    case ASK_REPORT:
    case ASK_END:
        values[0] = options->duty;
        values[1] =
            arena_printf(arena, "%" PRId64, ask == ASK_END ? lead->generation : lead->unreported);
        values[2] = ask == ASK_END ? lead->reason->id : options->instance;
        return 3;
    case ASK_NOTHING:
    case ASK_LIMITS:
    case ASK_LISTEN:
    case ASKS:
        break;
    }
    return 0;
}

void lead_ask(struct lead *lead, enum ask ask)
{
    const char *values[4] = {0};
    struct error err = {0};
    arena_free(lead->arena);
    lead->arena = arena_new();
    const char *text =
        ask_text(ask, &lead->key, lead->options.duty, pg_conn_version(lead->conn), lead->arena);
    int n = parameters(lead, ask, values);
    lead->phase = PHASE_ASKING;
    lead->ask = ask;
    lead->asked_us = clock_boottime_us();
    lead->due_us = lead->asked_us + answer_within(lead, ask);
    if (!pg_statement_send(lead->conn, text, n, values, &err))
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

/* Rows and refusal may come some steps before the statement ends. */
static void take_answer(struct lead *lead)
{
    struct error err = {0};
    struct reply reply;
    enum pg_progress progress = pg_statement_step(lead->conn, &lead->answer, &lead->refusal);
    if (progress == PG_AGAIN)
        return;
    struct pg_answer *answer = STEAL(lead->answer);
    const struct error refusal = lead->refusal;
    lead->refusal = (struct error){0};
    if (progress == PG_FAILED)
        lead_session_failed(lead, EVENT_SESSION_LOST, &refusal);
    else if (refusal.kind != ERROR_NONE)
        lead_refused(lead, &refusal);
    else if (ask_reply(lead->ask, answer, lead->arena, &reply, &err))
        lead_took_reply(lead, &reply);
    else
        lead_session_failed(lead, EVENT_CHECK_FAILED, &err);
    pg_answer_free(answer);
}

/* A release is worth a try at once; a request to yield is obeyed. */
static void take_notifications(struct lead *lead)
{
    struct pg_notification notification;
    while (lead->conn && pg_notification_take(lead->conn, &notification)) {
        if (lead->state == LEAD_LEADER && strstr(notification.payload, "\"yield"))
            (void)lead_move(lead, EVENT_YIELD_REQUEST, NULL);
        else if (lead->phase == PHASE_WAITING && lead->state == LEAD_FOLLOWER &&
                 lead->next == ASK_TRY)
            lead_wait(lead, timing_wake_pause_us(lead->candidates, lead_random()), ASK_TRY);
        else if (lead->phase == PHASE_WAITING && lead->next == ASK_SETTLE)
            lead_wait(lead, 0, ASK_SETTLE);
    }
}

static void take_input(struct lead *lead)
{
    struct error err = {0};
    if (lead->phase == PHASE_ASKING)
        take_answer(lead);
    else if (!pg_conn_idle(lead->conn, &err))
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
    take_notifications(lead);
}

static void start_connecting(struct lead *lead)
{
    struct error err = {0};
    unsigned char bytes[16] = {0};
    (void)!getrandom(bytes, sizeof bytes, 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(lead->nonce + 2 * i, 3, "%02x", bytes[i]);
    const struct pg_conn_options options = {.conninfo = lead->options.conninfo,
                                            .application_name = lead->name};
    lead->conn = pg_conn_start(&options, &err);
    lead->phase = PHASE_CONNECTING;
    lead->due_us = clock_boottime_us() + connect_within_us;
    if (!lead->conn)
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

static void go_on_connecting(struct lead *lead)
{
    struct error err = {0};
    enum pg_progress progress = pg_conn_connect(lead->conn, &err);
    if (progress == PG_DONE)
        lead_ask(lead, ASK_SETUP);
    else if (progress == PG_FAILED)
        lead_session_failed(lead, EVENT_SESSION_LOST, &err);
}

/* A deadline or a wait is over. */
static void run_out(struct lead *lead)
{
    struct error err = {0};
    if (lead->phase == PHASE_DOWN) {
        start_connecting(lead);
    } else if (lead->phase == PHASE_WAITING) {
        if (lead->next == ASK_TRY || lead->next == ASK_QUEUE)
            (void)lead_move(lead, EVENT_TRY, NULL);
        lead_ask(lead, lead->next);
    } else {
        (void)error_set(&err, ERROR_TIMEOUT, "could not hear from the server in time");
        lead_session_failed(
            lead, lead->state == LEAD_ACQUIRING ? EVENT_TRY_FAILED : EVENT_CHECK_LATE, &err);
    }
}

void lead_wants(const struct lead *lead, struct pollfd *ret_fd, int *ret_timeout_ms)
{
    int64_t now = clock_boottime_us();
    *ret_fd = (struct pollfd){.fd = -1};
    if (lead->conn) {
        ret_fd->fd = pg_conn_fd(lead->conn);
        ret_fd->events = pg_conn_events(lead->conn);
    }
    if (lead->working && lead->state == LEAD_UNCERTAIN)
        ret_fd->fd = -1; /* nothing it says matters before the work has stopped */
    int64_t left = lead->due_us == INT64_MAX ? SECOND_US : lead->due_us - now;
    *ret_timeout_ms = left <= 0 ? 0 : (int)((left < SECOND_US ? left : SECOND_US) + 999) / 1000;
}

void lead_step(struct lead *lead, bool ready)
{
    if (lead->end != LEAD_GOES_ON)
        return;
    if (ready && lead->phase == PHASE_CONNECTING)
        go_on_connecting(lead);
    else if (ready && lead->conn && !(lead->working && lead->state == LEAD_UNCERTAIN))
        take_input(lead);
    if (lead->end == LEAD_GOES_ON && clock_boottime_us() >= lead->due_us)
        run_out(lead);
}

void lead_work_stopped(struct lead *lead)
{
    lead->working = false;
    if (lead->state == LEAD_LEADER)
        (void)lead_move(lead, EVENT_FINISHED, NULL);
    if (lead->state == LEAD_YIELDING) {
        lead_release(lead);
        return;
    }
    if (lead->state != LEAD_UNCERTAIN)
        return;
    forget_term(lead, false);
    (void)lead_move(lead, EVENT_WORK_STOPPED, NULL);
    drop_session(lead, 0);
    if (lead->stopping)
        lead_end_candidacy(lead, LEAD_ENDED);
}

/* It holds the lock and has begun a term, but no work: hands both back at once. */
static bool give_back_unused(struct lead *lead)
{
    bool can = lead->state == LEAD_ACQUIRING && lead->holds && lead->phase == PHASE_WAITING;
    if (!can)
        return false;
    lead->reason = lead_rule_find(LEAD_ACQUIRING, EVENT_SIGNAL);
    (void)lead_move(lead, EVENT_SIGNAL, NULL);
    lead_release(lead);
    return true;
}

void lead_yield(struct lead *lead)
{
    if (lead->state == LEAD_LEADER)
        (void)lead_move(lead, EVENT_SIGNAL, NULL);
}

void lead_stop(struct lead *lead)
{
    lead->stopping = true;
    if (lead->state == LEAD_LEADER)
        (void)lead_move(lead, EVENT_SIGNAL, NULL);
    else if (!lead->working && lead->state != LEAD_YIELDING && !give_back_unused(lead))
        lead_end_candidacy(lead, LEAD_ENDED);
}

enum lead_end lead_ended(const struct lead *lead)
{
    return lead->end;
}

enum lead_state lead_state(const struct lead *lead)
{
    return lead->state;
}

int64_t lead_generation(const struct lead *lead)
{
    return lead->generation;
}

bool lead_connected(const struct lead *lead)
{
    return lead->conn && lead->phase >= PHASE_ASKING;
}

const struct lock_key *lead_key(const struct lead *lead)
{
    return lead->has_key ? &lead->key : NULL;
}
