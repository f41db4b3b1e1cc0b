/* SPDX-License-Identifier: PostgreSQL */
/* libpgleader's one thread: drives the lead, tells gains and losses in order, and gives the lock
 * back only when the work has stopped. */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "candidate/library_cancel.h"
#include "candidate/library_candidate.h"

static const int64_t press_every_us = SECOND_US / 4;
static const int64_t look_again_us = SECOND_US / 500; /* while a cancel is under way */

/* The candidate whose thread this one is. */
static _Thread_local const struct pgleader *mine;

bool library_in_thread(const struct pgleader *p)
{
    return mine == p;
}

static void set_state(struct pgleader *p, enum pgleader_state state)
{
    if (atomic_load(&p->state) == (int)state)
        return;
    (void)pthread_mutex_lock(&p->mutex);
    atomic_store(&p->state, state);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->mutex);
}

/* What the lead has come to that no callback told. */
static void publish(struct pgleader *p)
{
    static const enum pgleader_state states[LEAD_STATES] = {
        [LEAD_FOLLOWER] = PGLEADER_STATE_FOLLOWER,   [LEAD_ACQUIRING] = PGLEADER_STATE_ACQUIRING,
        [LEAD_LEADER] = PGLEADER_STATE_LEADER,       [LEAD_YIELDING] = PGLEADER_STATE_YIELDING,
        [LEAD_UNCERTAIN] = PGLEADER_STATE_UNCERTAIN,
    };
    if (atomic_load(&p->term))
        atomic_store(&p->deadline_us, lead_deadline_us(p->lead));
    set_state(p, states[lead_state(p->lead)]);
}

static void gained(void *context, int64_t generation)
{
    struct pgleader *p = context;
    uint64_t count = 0;
    int64_t term = generation > 0 ? generation : --p->terms;
    p->lost_us = p->pressed_us = 0;
    p->overdue = false;
    (void)!read(p->abort_fd, &count, sizeof count);
    atomic_store(&p->deadline_us, lead_deadline_us(p->lead));
    (void)pthread_mutex_lock(&p->mutex);
    p->generation = term;
    p->losing = p->stopped = false;
    atomic_store(&p->term, term);
    atomic_store(&p->state, PGLEADER_STATE_LEADER);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->mutex);
    if (p->setup.options.gained)
        p->setup.options.gained(p->setup.options.context, term);
}

static void raise_abort(const struct pgleader *p)
{
    static const uint64_t one = 1;
    (void)!write(p->abort_fd, &one, sizeof one);
}

/* Everybody sees the loss before the callback tells it. */
static void lose(struct pgleader *p, const struct lead_rule *rule)
{
    int64_t term = atomic_exchange(&p->term, 0);
    if (!term)
        return;
    raise_abort(p);
    cancels_fire(p->cancels, term);
    p->lost_us = p->pressed_us = clock_boottime_us();
    (void)pthread_mutex_lock(&p->mutex);
    p->losing = true;
    atomic_store(&p->state,
                 rule->to == LEAD_UNCERTAIN ? PGLEADER_STATE_UNCERTAIN : PGLEADER_STATE_YIELDING);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->mutex);
    if (p->setup.options.lost)
        p->setup.options.lost(p->setup.options.context, term, rule->id);
}

static void lost(void *context, int64_t generation, const struct lead_rule *rule)
{
    (void)generation; /* ours is the one without a ledger, too */
    lose(context, rule);
}

static void say(const struct pgleader *p, enum pgleader_level level, const char *rule,
                const char *message, const char *hint)
{
    if (p->setup.options.log)
        p->setup.options.log(p->setup.options.context, level, rule, message,
                             hint && *hint ? hint : NULL);
}

/* Tries and their refusals are too many to tell. */
static void told(void *context, const struct lead_rule *rule, const struct error *err,
                 const char *remark)
{
    struct pgleader *p = context;
    if (err)
        p->last_error = *err;
    if (rule && rule->event != EVENT_TRY && rule->event != EVENT_REFUSED)
        say(p, err ? PGLEADER_WARNING : PGLEADER_INFO, rule->id, rule->sentence, NULL);
    if (err)
        say(p, PGLEADER_WARNING, rule ? rule->id : NULL, err->message, err->hint);
    if (remark)
        say(p, PGLEADER_WARNING, rule ? rule->id : NULL, remark, NULL);
}

void library_thread_prepare(struct pgleader *p)
{
    p->setup.lead.context = p;
    p->setup.lead.gained = gained;
    p->setup.lead.lost = lost;
    p->setup.lead.told = told;
}

static bool work_has_stopped(struct pgleader *p)
{
    if (!p->generation) /* written by this thread alone */
        return false;
    (void)pthread_mutex_lock(&p->mutex);
    bool stopped = p->stopped || atomic_load(&p->abandoned);
    (void)pthread_mutex_unlock(&p->mutex);
    return stopped;
}

/* A cancel that is under way could hit what the connection is used for next. */
static bool cancel_in_the_way(const struct pgleader *p, int64_t now)
{
    return p->lost_us && now < p->lost_us + p->setup.lead.timing.kill_after_us &&
           cancels_busy(p->cancels);
}

/* The work is over: after a loss, or by itself, which is the loss then. Only now may the lock go.
 */
static void end_term(struct pgleader *p)
{
    cancels_clear(p->cancels); /* work that ended by itself has nothing left to cancel */
    lose(p, lead_rule_find(LEAD_LEADER, EVENT_FINISHED));
    (void)pthread_mutex_lock(&p->mutex);
    p->generation = 0;
    (void)pthread_mutex_unlock(&p->mutex);
    if (lead_ended(p->lead) == LEAD_GOES_ON)
        lead_work_stopped(p->lead);
}

static void take_requests(struct pgleader *p)
{
    uint64_t count = 0;
    (void)!read(p->wake_fd, &count, sizeof count);
    int64_t yield = atomic_exchange(&p->yield, 0);
    if (yield && yield == atomic_load(&p->term))
        lead_yield(p->lead);
    if (!p->stop_taken && atomic_load(&p->stop)) {
        p->stop_taken = true;
        lead_stop(p->lead);
    }
    if (work_has_stopped(p) && !cancel_in_the_way(p, clock_boottime_us()))
        end_term(p);
}

/* Work that goes on after its loss: its queries are cancelled again, the descriptor is raised again
 * should somebody have read it, and it is told of once. */
static void press(struct pgleader *p)
{
    int64_t now = clock_boottime_us();
    if (!p->generation || !p->lost_us || work_has_stopped(p))
        return;
    if (now >= p->pressed_us + press_every_us) {
        p->pressed_us = now;
        raise_abort(p);
        cancels_fire(p->cancels, p->generation);
    }
    if (p->overdue || now < p->lost_us + p->setup.lead.timing.kill_after_us)
        return;
    p->overdue = true;
    say(p, PGLEADER_WARNING, NULL,
        "the work has not stopped in time: a successor may begin beside it",
        "End the process, or let the ledger fence every effect.");
    if (p->setup.options.overdue)
        p->setup.options.overdue(p->setup.options.context, p->generation);
}

static int shorter(int timeout_ms, int64_t left_us)
{
    int64_t left_ms = left_us <= 0 ? 0 : (left_us + 999) / 1000;
    return left_ms < timeout_ms ? (int)left_ms : timeout_ms;
}

static int timeout_of(struct pgleader *p, int timeout_ms)
{
    if (!p->generation || !p->lost_us)
        return timeout_ms;
    int64_t now = clock_boottime_us();
    if (work_has_stopped(p))
        return shorter(timeout_ms, look_again_us);
    timeout_ms = shorter(timeout_ms, p->pressed_us + press_every_us - now);
    return p->overdue ? timeout_ms
                      : shorter(timeout_ms, p->lost_us + p->setup.lead.timing.kill_after_us - now);
}

static void wait_and_step(struct pgleader *p)
{
    struct pollfd fds[2] = {{.fd = p->wake_fd, .events = POLLIN}, {.fd = -1}};
    int timeout_ms = (int)(SECOND_US / 1000);
    if (lead_ended(p->lead) == LEAD_GOES_ON)
        lead_wants(p->lead, &fds[1], &timeout_ms);
    int n = poll(fds, 2, timeout_of(p, timeout_ms));
    lead_step(p->lead, n > 0 && fds[1].revents != 0);
}

static void end(struct pgleader *p)
{
    static const struct error unknown = {.kind = ERROR_CONFIG, .message = "could not lead"};
    enum lead_end how = lead_ended(p->lead);
    if (how != LEAD_ENDED) {
        (void)library_error(&p->end_error,
                            p->last_error.kind == ERROR_NONE ? &unknown : &p->last_error);
        p->end_error.code =
            how == LEAD_NO_PERMISSION ? PGLEADER_ERROR_PERMISSION : PGLEADER_ERROR_CONFIG;
    }
    set_state(p, PGLEADER_STATE_ENDED);
}

void *library_thread(void *candidate)
{
    struct pgleader *p = candidate;
    mine = p;
    (void)pthread_setname_np(pthread_self(), "pgleader");
    for (;;) {
        take_requests(p);
        press(p);
        publish(p);
        bool over = lead_ended(p->lead) != LEAD_GOES_ON;
        if (over && !p->generation)
            break;
        if (over)
            lose(p, lead_rule_find(LEAD_LEADER, EVENT_SESSION_LOST));
        wait_and_step(p);
    }
    end(p);
    return NULL;
}
