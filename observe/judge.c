/* SPDX-License-Identifier: PostgreSQL */
/* From facts and trail to what a person is told. */
#include "observe/judge.h"

#include "base/arena.h"
#include "base/text.h"
#include "observe/bounds.h"

/* A pair that disagrees counts when two polls running have seen it: one poll reads locks and ledger
 * a moment apart. */
enum { POLLS_TO_BELIEVE = 2 };

/* When the ledger or the lease's row says that the owner began, where that agrees with what was
 * seen: a session may have begun its term long after it was seen to hold the lock, or in an earlier
 * tenure. */
static int64_t recorded(const struct duty *duty)
{
    const struct trail *trail = &duty->trail;
    bool by_row = duty->mechanism == MECHANISM_LEASE && duty->owner.acquired_us != TIME_UNKNOWN;
    int64_t us = by_row ? duty->owner.acquired_us : TIME_UNKNOWN;
    if (!by_row && duty->term_begun)
        us = duty->term->acquired_us;
    bool agrees = us >= trail->acquired_lower_us && us <= trail->acquired_upper_us;
    return bounds_is_time(us) && agrees ? us : TIME_UNKNOWN;
}

/* An acquisition is recorded, or was seen to happen, or is only known to lie before the first poll
 * that saw it. */
static void judge_age(struct duty *duty)
{
    const struct trail *trail = &duty->trail;
    int64_t lower = trail->acquired_lower_us, upper = trail->acquired_upper_us;
    int64_t record = recorded(duty);
    if (record != TIME_UNKNOWN) {
        duty->acquired_source = duty->term_begun ? "ledger" : "lease";
        duty->acquired_us = lower = upper = record;
    } else if (trail->acquisition_seen) {
        duty->acquired_source = "seen";
        duty->acquired_us = upper;
    } else {
        duty->acquired_source = "first seen held";
    }
    duty->age_us = duty->read_upper_us > upper ? duty->read_upper_us - upper : 0;
    if (lower != TIME_UNKNOWN)
        duty->age_uncertainty_us = upper - lower;
}

/* A cursor of the application's own has no time of its own: it is the time at which we saw it
 * change. */
static void judge_progress(const struct snapshot *snapshot, struct duty *duty)
{
    struct trail *trail = &duty->trail;
    if (!duty->run->present || duty->run->key)
        return;
    if (!text_equal(trail->cursor, duty->run->cursor) || trail->cursor_changed_us == TIME_UNKNOWN)
        trail->cursor_changed_us = snapshot->read_upper_us;
    struct run *run = arena_copy(snapshot->arena, duty->run, sizeof *run);
    run->advanced_us = trail->cursor_changed_us;
    trail->cursor = run->cursor;
    duty->run = run;
}

/* The same pair: history starts anew with another owner, this with another term. */
static void judge_mismatch(struct duty *duty)
{
    struct trail *trail = &duty->trail;
    bool stranger = duty->owners > 0 && duty->term_alive && !duty->term_begun;
    bool same_term = duty->term->generation == trail->stranger_generation;
    trail->strangers = !stranger ? 0 : same_term ? trail->strangers + 1 : 1;
    trail->stranger_generation = duty->term->generation;
    trail->rivals = duty->owners > 1 ? trail->rivals + 1 : 0;
    duty->mismatch = trail->strangers >= POLLS_TO_BELIEVE;
}

/* The table may not say for how long a lease is granted: the longest remaining time is the least
 * that it was. */
static void judge_lease(struct duty *duty)
{
    if (duty->mechanism != MECHANISM_LEASE || duty->owners == 0 ||
        !bounds_is_time(duty->lease_expires_us))
        return;
    int64_t remaining = duty->lease_expires_us - duty->read_upper_us;
    if (remaining > duty->trail.lease_span_us)
        duty->trail.lease_span_us = remaining;
    duty->lease_duration_us = duty->trail.lease_span_us;
}

/* A takeover that nobody watched, if the ledger tells of it: after the exporter's own restart. A
 * refusal counts if this server gave it; a lease may have run out before its holder ended it. */
static void judge_recorded_takeover(const struct snapshot *snapshot, struct duty *duty)
{
    const struct term *term = duty->term, *before = duty->previous;
    if (duty->trail.past->takeover_at_us != TIME_UNKNOWN || !duty->term_begun ||
        before->generation < 0 || text_equal(before->instance, term->instance))
        return;
    bool said = duty->mechanism == MECHANISM_LOCK && before->ended_us != TIME_UNKNOWN &&
                !text_equal(before->end_reason, "superseded");
    bool here = term->last_refused_us >= snapshot->facts.postmaster_start_us;
    int64_t loss = said ? before->ended_us : here ? term->last_refused_us : TIME_UNKNOWN;
    if (loss == TIME_UNKNOWN || loss > term->acquired_us)
        return;
    struct past *past = duty_past(duty, snapshot->arena);
    past->takeover_at_us = term->acquired_us;
    past->takeover_lower_us = 0;
    past->takeover_upper_us = term->acquired_us - loss;
}

/* A term that its owner ended is measured exactly, if it is the one that was seen to end last, or
 * if none was. The end of one that was superseded is only the next one's beginning. */
static void judge_last_term(const struct snapshot *snapshot, struct duty *duty)
{
    const struct past *past = duty->trail.past;
    bool over = duty->term->ended_us != TIME_UNKNOWN;
    const struct term *last = over ? duty->term : duty->previous;
    bool of_the_last = past->lost_upper_us == TIME_UNKNOWN ||
                       (last->generation >= 0 && last->generation == past->lost_generation);
    if (of_the_last && last->acquired_us != TIME_UNKNOWN && last->ended_us >= last->acquired_us &&
        !text_equal(last->end_reason, "superseded"))
        duty_past(duty, snapshot->arena)->last_term_us = last->ended_us - last->acquired_us;
}

static bool stalled(const struct snapshot *snapshot, const struct duty *duty)
{
    const struct run *run = duty->run;
    int64_t since = run->advanced_us != TIME_UNKNOWN ? run->advanced_us : run->started_us;
    bool running = run->present && run->finished_us == TIME_UNKNOWN;
    return duty->limits->stall_after_us > 0 && running && since != TIME_UNKNOWN &&
           snapshot->read_lower_us - since > duty->limits->stall_after_us;
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
    judge_last_term(snapshot, duty);
    if (duty->read) {
        judge_mismatch(duty);
        judge_lease(duty);
        judge_recorded_takeover(snapshot, duty);
    }
    if (duty->read && duty->owners > 0)
        judge_age(duty);
    duty->state = state_of(snapshot, duty);
}
