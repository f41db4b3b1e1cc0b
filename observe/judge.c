/* SPDX-License-Identifier: PostgreSQL */
/* From facts and trail to what a person is told. */
#include "observe/judge.h"

#include "base/arena.h"
#include "base/text.h"

/* A pair that disagrees counts when two polls running have seen it: one poll reads locks and ledger
 * a moment apart. */
enum { POLLS_TO_BELIEVE = 2 };

/* An acquisition is recorded by the ledger or the lease row, or was seen to happen, or is only
 * known to lie before the first poll that saw it. */
static void judge_age(const struct snapshot *snapshot, struct duty *duty)
{
    const struct trail *trail = &duty->trail;
    int64_t now = snapshot->read_upper_us;
    if (duty->term_begun && duty->term.acquired_us != TIME_UNKNOWN) {
        duty->acquired_source = "ledger";
        duty->acquired_us = duty->term.acquired_us;
    } else if (duty->mechanism == MECHANISM_LEASE && duty->owner.acquired_us != TIME_UNKNOWN) {
        duty->acquired_source = "lease";
        duty->acquired_us = duty->owner.acquired_us;
    } else if (trail->acquisition_seen) {
        duty->acquired_source = "seen";
        duty->acquired_us = trail->acquired_upper_us;
    } else {
        duty->acquired_source = "first seen held";
    }
    bool recorded = duty->acquired_us != TIME_UNKNOWN && !text_equal(duty->acquired_source, "seen");
    int64_t upper = recorded ? duty->acquired_us : trail->acquired_upper_us;
    int64_t lower = recorded ? duty->acquired_us : trail->acquired_lower_us;
    if (upper == TIME_UNKNOWN)
        return;
    duty->age_us = now > upper ? now - upper : 0;
    if (lower != TIME_UNKNOWN)
        duty->age_uncertainty_us = upper > lower ? upper - lower : 0;
}

/* A cursor of the application's own has no time of its own: it is the time at which we saw it
 * change. */
static void judge_progress(const struct snapshot *snapshot, struct duty *duty)
{
    struct trail *trail = &duty->trail;
    if (!duty->run.present || duty->run.key)
        return;
    if (!text_equal(trail->cursor, duty->run.cursor) || trail->cursor_changed_us == TIME_UNKNOWN)
        trail->cursor_changed_us = snapshot->read_upper_us;
    trail->cursor = duty->run.cursor;
    duty->run.advanced_us = trail->cursor_changed_us;
}

static void judge_mismatch(struct duty *duty)
{
    struct trail *trail = &duty->trail;
    bool stranger = duty->owners > 0 && duty->term_alive && !duty->term_begun;
    trail->strangers = stranger ? trail->strangers + 1 : 0;
    trail->rivals = duty->owners > 1 ? trail->rivals + 1 : 0;
    duty->mismatch = trail->strangers >= POLLS_TO_BELIEVE;
}

/* The table may not say for how long a lease is granted: the longest remaining time is the least
 * that it was. */
static void judge_lease(const struct snapshot *snapshot, struct duty *duty)
{
    if (duty->mechanism != MECHANISM_LEASE || duty->owners == 0 ||
        duty->lease_expires_us == INT64_MAX)
        return;
    int64_t remaining = duty->lease_expires_us - snapshot->read_upper_us;
    if (remaining > duty->trail.lease_span_us)
        duty->trail.lease_span_us = remaining;
    duty->lease_duration_us = duty->trail.lease_span_us;
}

/* A takeover that nobody watched, if the ledger tells of it: after the exporter's own restart. */
static void judge_recorded_takeover(struct duty *duty)
{
    struct trail *trail = &duty->trail;
    const struct term *term = &duty->term, *before = &duty->previous;
    if (trail->takeover_at_us != TIME_UNKNOWN || !duty->term_begun || before->generation < 0 ||
        text_equal(before->instance, term->instance))
        return;
    bool said = before->ended_us != TIME_UNKNOWN && !text_equal(before->end_reason, "superseded");
    int64_t loss = said ? before->ended_us : term->last_refused_us;
    if (loss == TIME_UNKNOWN || loss > term->acquired_us)
        return;
    trail->takeover_at_us = term->acquired_us;
    trail->takeover_lower_us = 0;
    trail->takeover_upper_us = term->acquired_us - loss;
}

static bool stalled(const struct snapshot *snapshot, const struct duty *duty)
{
    const struct run *run = &duty->run;
    int64_t since = run->advanced_us != TIME_UNKNOWN ? run->advanced_us : run->started_us;
    bool running = run->present && run->finished_us == TIME_UNKNOWN;
    return duty->limits.stall_after_us > 0 && running && since != TIME_UNKNOWN &&
           snapshot->read_lower_us - since > duty->limits.stall_after_us;
}

static enum duty_state state_of(const struct snapshot *snapshot, const struct duty *duty)
{
    if (!duty->read)
        return DUTY_UNKNOWN;
    if (duty->mismatch || duty->trail.rivals >= POLLS_TO_BELIEVE)
        return DUTY_CONTESTED;
    if (duty->owners == 0)
        return DUTY_VACANT;
    if (duty->yielding && duty->term_begun)
        return DUTY_YIELDING;
    return stalled(snapshot, duty) ? DUTY_STALLED : DUTY_LED;
}

void judge_duty(const struct snapshot *snapshot, struct duty *duty)
{
    judge_progress(snapshot, duty);
    if (duty->read) {
        judge_mismatch(duty);
        judge_lease(snapshot, duty);
        judge_recorded_takeover(duty);
    }
    if (duty->read && duty->owners > 0)
        judge_age(snapshot, duty);
    if (duty->term.ended_us != TIME_UNKNOWN && duty->term.acquired_us != TIME_UNKNOWN)
        duty->trail.last_term_us = duty->term.ended_us - duty->term.acquired_us;
    else if (duty->previous.ended_us != TIME_UNKNOWN &&
             duty->previous.acquired_us != TIME_UNKNOWN && duty->trail.last_term_us < 0)
        duty->trail.last_term_us = duty->previous.ended_us - duty->previous.acquired_us;
    duty->state = state_of(snapshot, duty);
}
