/* SPDX-License-Identifier: PostgreSQL */
/* Bounds of what happened between two readings, and the evidence that narrows them. */
#include "observe/bounds.h"

#include "base/text.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b; /* TIME_UNKNOWN is the smallest */
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Raises *lower to what is known to lie between it and upper; what lies outside is of another
 * change. */
static void raise_to(int64_t *lower, int64_t upper, int64_t known)
{
    if (bounds_is_time(known) && known > *lower && known <= upper)
        *lower = known;
}

static bool same_time(int64_t a, int64_t b)
{
    return a == b || a == TIME_UNKNOWN || b == TIME_UNKNOWN;
}

bool bounds_same_owner(const struct step *step, const struct owner *a, const struct owner *b)
{
    if (step->now->mechanism == MECHANISM_LEASE)
        return text_equal(a->holder, b->holder) && same_time(a->acquired_us, b->acquired_us);
    return !step->restarted && a->pid == b->pid &&
           same_time(a->backend_start_us, b->backend_start_us);
}

/* A server that ran before the last reading is not the one which answered then. */
bool bounds_comparable(const struct step *step)
{
    int64_t seen = step->now->trail.seen_lower_us;
    return step->now->read_lower_us >= seen &&
           (!step->restarted || step->next->facts.postmaster_start_us >= seen);
}

void bounds_forget(struct step *step)
{
    struct trail *trail = &step->now->trail;
    int64_t now = step->now->read_upper_us;
    step->set_back = !step->restarted;
    trail->seen_lower_us = TIME_UNKNOWN;
    if (trail->past->lost_upper_us != TIME_UNKNOWN) {
        struct past *past = duty_past(step->now, step->next->arena);
        past->lost_lower_us = past->lost_upper_us = TIME_UNKNOWN;
    }
    trail->acquired_lower_us = TIME_UNKNOWN;
    trail->acquired_upper_us = now;
    trail->acquisition_seen = trail->took_over = false;
    trail->seen_us = earlier(trail->seen_us, now);
    trail->cursor_changed_us = earlier(trail->cursor_changed_us, now);
}

/* True if the ledger's newest term is that owner's. A lease's term opens just before its row says
 * that it was acquired. */
static bool is_term_of(const struct duty *duty, const struct owner *owner)
{
    const struct term *term = duty->term;
    if (duty->mechanism == MECHANISM_LEASE)
        return text_equal(term->instance, owner->holder) &&
               (owner->acquired_us == TIME_UNKNOWN || term->acquired_us <= owner->acquired_us);
    return term->pid == owner->pid && term->backend_start_us != TIME_UNKNOWN &&
           term->backend_start_us == owner->backend_start_us;
}

/* What the owner wrote itself before it let go; a lease may have run out before that. */
static int64_t own_end(const struct duty *duty, const struct term *term)
{
    bool superseded = text_equal(term->end_reason, "superseded");
    bool too_late =
        duty->mechanism == MECHANISM_LEASE && term->ended_us > duty->trail.past->lost_until_us;
    return superseded || too_late ? TIME_UNKNOWN : term->ended_us;
}

/* Whoever was refused saw it held; whose lease has not run out had not lost it. What may lie after
 * the reading that saw the loss may be of a tenure that nobody saw. */
static void sharpen_loss(struct step *step)
{
    const struct duty *now = step->now;
    const struct trail *trail = &step->now->trail;
    if (trail->past->lost_lower_us == TIME_UNKNOWN)
        return; /* not seen, or by another clock than this evidence */
    struct past *past = duty_past(step->now, step->next->arena);
    int64_t *lower = &past->lost_lower_us, upper = past->lost_seen_us;
    if (now->owners == 0 && is_term_of(now, trail->last))
        raise_to(lower, upper, own_end(now, now->term));
    if (now->owners == 0 && now->mechanism == MECHANISM_LEASE &&
        bounds_same_owner(step, &now->owner, trail->last))
        raise_to(lower, upper, now->lease_expires_us);
    bool successor = now->term_begun && past->lost_generation >= 0 &&
                     now->previous->generation == past->lost_generation;
    if (!successor)
        return;
    raise_to(lower, upper, own_end(now, now->previous));
    raise_to(lower, upper, now->term->last_refused_us);
}

/* A term's time follows the grant of a lock, and precedes the commit that makes a lease visible. */
static void sharpen_acquisition(struct step *step)
{
    const struct duty *now = step->now;
    struct trail *trail = &step->now->trail;
    int64_t *lower = &trail->acquired_lower_us, *upper = &trail->acquired_upper_us;
    raise_to(lower, *upper, now->owner.acquired_us);
    if (!now->term_begun || now->term->acquired_us < *lower || now->term->acquired_us > *upper)
        return;
    *(now->mechanism == MECHANISM_LEASE ? lower : upper) = now->term->acquired_us;
}

void bounds_note_loss(struct step *step)
{
    const struct trail *trail = &step->now->trail;
    struct past *past = duty_past(step->now, step->next->arena);
    past->lost_lower_us = trail->seen_lower_us;
    past->lost_upper_us = step->now->read_upper_us;
    past->lost_seen_us = step->now->read_lower_us;
    past->lost_until_us = step->before->lease_expires_us;
    past->lost_generation = step->restarted ? -1 : trail->generation;
    /* Its term may have begun since, and another session lead already; of a lease that would as
     * well be the next term of the same holder. */
    bool its_own = step->now->owners == 0 || step->now->mechanism == MECHANISM_LOCK;
    if (its_own && !step->restarted && is_term_of(step->now, trail->last))
        past->lost_generation = step->now->term->generation;
    sharpen_loss(step);
}

void bounds_note_start(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (!step->set_back)
        raise_to(&trail->acquired_lower_us, trail->acquired_upper_us,
                 step->now->owner.backend_start_us);
}

void bounds_note_acquisition(struct step *step)
{
    struct trail *trail = &step->now->trail;
    trail->acquired_lower_us = trail->seen_lower_us;
    trail->acquired_upper_us = step->now->read_upper_us;
    bounds_note_start(step);
}

void bounds_note_takeover(struct step *step)
{
    const struct trail *trail = &step->now->trail;
    struct past *past = duty_past(step->now, step->next->arena);
    int64_t least = 0;
    if (trail->acquired_lower_us != TIME_UNKNOWN && past->lost_upper_us != TIME_UNKNOWN)
        least = later(trail->acquired_lower_us - past->lost_upper_us, 0);
    past->takeover_at_us = trail->acquired_upper_us;
    past->takeover_lower_us = least;
    past->takeover_upper_us = past->lost_lower_us == TIME_UNKNOWN
                                  ? -1
                                  : later(trail->acquired_upper_us - past->lost_lower_us, least);
}

void bounds_sharpen(struct step *step)
{
    struct trail *trail = &step->now->trail;
    sharpen_loss(step);
    if (step->now->owners == 0)
        return;
    sharpen_acquisition(step);
    if (is_term_of(step->now, &step->now->owner))
        trail->generation = step->now->term->generation;
    if (trail->took_over)
        bounds_note_takeover(step);
}
