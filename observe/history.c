/* SPDX-License-Identifier: PostgreSQL */
/* Walks two pictures side by side and writes each duty's trail.
 *
 * Every inferred instant has two bounds, from the clocks around the two readings that enclose it.
 * The ledger sharpens a bound and never replaces it: what an owner wrote before it unlocked bounds
 * the loss from below, what it wrote after the grant bounds the acquisition from above. */
#include "observe/history.h"

#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/judge.h"

/* One duty at two polls. */
struct step {
    const struct snapshot *previous;
    struct snapshot *next;
    const struct duty *before; /* NULL: not known then */
    struct duty *now;
    bool restarted; /* the server was, between the readings */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b; /* TIME_UNKNOWN is the smallest */
}

static int64_t earlier_known(int64_t a, int64_t b)
{
    return b != TIME_UNKNOWN && b < a ? b : a;
}

/* The same session or lease. A start that we may not see is no sign of change. */
static bool same_owner(const struct duty *duty, const struct owner *a, const struct owner *b)
{
    if (duty->mechanism == MECHANISM_LEASE)
        return text_equal(a->holder, b->holder) && a->acquired_us == b->acquired_us;
    return a->pid == b->pid &&
           (a->backend_start_us == b->backend_start_us || a->backend_start_us == TIME_UNKNOWN ||
            b->backend_start_us == TIME_UNKNOWN);
}

/* The same worker in whatever session. Without a name nobody can tell, and it counts as another. */
static bool same_instance(const struct owner *a, const struct owner *b)
{
    bool same_address =
        !a->client_addr || !b->client_addr || text_equal(a->client_addr, b->client_addr);
    return *a->holder && text_equal(a->holder, b->holder) && same_address;
}

static struct owner copy_owner(const struct owner *owner, struct arena *arena)
{
    struct owner copy = *owner;
    copy.holder = arena_strdup(arena, owner->holder);
    copy.application_name = arena_strdup(arena, owner->application_name);
    copy.usename = arena_strdup(arena, owner->usename);
    copy.client_addr = arena_strdup(arena, owner->client_addr);
    return copy;
}

static void add_event(struct step *step, enum rule_id rule, int64_t lower_us, int64_t upper_us)
{
    struct snapshot *next = step->next;
    const struct owner *owner = &step->now->trail.last;
    step->now->trail.transitions[rule]++;
    next->events[next->n_events++] = (struct event){
        .duty = step->now->name,
        .rule = rule,
        .holder = step->now->trail.ever_owned ? owner->holder : NULL,
        .pid = owner->pid,
        .lower_us = lower_us,
        .upper_us = upper_us,
    };
}

/* The previous owner ended itself, and said so before it unlocked. */
static int64_t ended_by_owner(const struct duty *now, const struct owner *last)
{
    const struct term *term = &now->term;
    bool its_own = term->ended_us != TIME_UNKNOWN && term->pid == last->pid &&
                   term->backend_start_us == last->backend_start_us;
    if (its_own && !text_equal(term->end_reason, "superseded"))
        return term->ended_us;
    bool before = now->term_begun && now->previous.ended_us != TIME_UNKNOWN &&
                  !text_equal(now->previous.end_reason, "superseded");
    return before ? now->previous.ended_us : TIME_UNKNOWN;
}

static void note_loss(struct step *step)
{
    struct trail *trail = &step->now->trail;
    int64_t upper = step->next->read_upper_us;
    trail->lost_lower_us = trail->seen_lower_us;
    trail->lost_upper_us = upper;
    const struct duty *before = step->before;
    if (step->now->mechanism == MECHANISM_LEASE && before->lease_expires_us != TIME_UNKNOWN &&
        before->lease_expires_us < upper) {
        /* It was not renewed: the row itself says when it ran out. */
        trail->lost_lower_us = later(trail->lost_lower_us, before->lease_expires_us);
    }
    int64_t ended = ended_by_owner(step->now, &trail->last);
    if (ended <= upper)
        trail->lost_lower_us = later(trail->lost_lower_us, ended);
}

static void note_term_length(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (trail->acquired_upper_us == TIME_UNKNOWN || trail->acquired_lower_us == TIME_UNKNOWN)
        return;
    int64_t began =
        trail->acquired_lower_us + (trail->acquired_upper_us - trail->acquired_lower_us) / 2;
    int64_t ended = trail->lost_lower_us + (trail->lost_upper_us - trail->lost_lower_us) / 2;
    trail->last_term_us = later(ended - began, 0);
}

/* The new owner's acquisition, as bounds: after the last reading that did not see it, before this
 * one. */
static void note_acquisition(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct owner *owner = &step->now->owner;
    int64_t upper = step->next->read_upper_us;
    trail->acquired_lower_us = later(trail->seen_lower_us, owner->backend_start_us);
    trail->acquired_upper_us = upper;
    if (owner->acquired_us != TIME_UNKNOWN && owner->acquired_us <= upper)
        trail->acquired_lower_us = trail->acquired_upper_us = owner->acquired_us;
    trail->acquisition_seen = true;
}

/* Between two bounds of loss and two of acquisition: the least and the most that nobody led. */
static void note_takeover(struct step *step)
{
    struct trail *trail = &step->now->trail;
    struct snapshot *next = step->next;
    trail->takeover_at_us = trail->acquired_upper_us;
    trail->takeover_lower_us = later(trail->acquired_lower_us - trail->lost_upper_us, 0);
    trail->takeover_upper_us =
        later(trail->acquired_upper_us - trail->lost_lower_us, trail->takeover_lower_us);
    for (int i = 0; i < TAKEOVER_BUCKETS; i++) {
        if (trail->takeover_upper_us <= takeover_bucket_us[i]) {
            next->takeovers[i]++;
            break;
        }
    }
    next->takeover_sum_us += trail->takeover_upper_us;
}

/* The acquisition's upper bound falls when the ledger records it, in this poll or in a later one.
 */
static void sharpen(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct duty *now = step->now;
    if (!now->term_begun || !trail->acquisition_seen ||
        now->term.acquired_us < trail->acquired_lower_us)
        return;
    bool is_takeover =
        trail->takeover_at_us != TIME_UNKNOWN && trail->takeover_at_us == trail->acquired_upper_us;
    trail->acquired_upper_us = earlier_known(trail->acquired_upper_us, now->term.acquired_us);
    if (!is_takeover)
        return;
    bool direct_successor = step->before && step->before->term.generation >= 0 &&
                            (now->previous.generation == step->before->term.generation ||
                             now->term.generation == step->before->term.generation);
    int64_t refused = direct_successor ? now->term.last_refused_us : TIME_UNKNOWN;
    int64_t ended = ended_by_owner(now, &trail->last);
    int64_t loss = later(later(trail->lost_lower_us, refused), ended);
    if (loss <= trail->acquired_upper_us)
        trail->lost_lower_us = loss;
    trail->takeover_at_us = trail->acquired_upper_us;
    trail->takeover_upper_us =
        later(trail->acquired_upper_us - trail->lost_lower_us, trail->takeover_lower_us);
}

static enum rule_id rule_of_gain(const struct step *step)
{
    const struct trail *trail = &step->now->trail;
    if (!trail->ever_owned)
        return RULE_ACQUIRED;
    if (!same_instance(&trail->last, &step->now->owner))
        return RULE_TAKEOVER;
    return trail->held && step->restarted ? RULE_RESTARTED : RULE_RETURNED;
}

static void gain(struct step *step)
{
    struct trail *trail = &step->now->trail;
    enum rule_id rule = rule_of_gain(step);
    if (trail->held) {
        note_loss(step);
        note_term_length(step);
    }
    note_acquisition(step);
    if (rule == RULE_TAKEOVER)
        note_takeover(step);
    trail->last = step->now->owner;
    trail->ever_owned = true;
    trail->held = true;
    trail->pooled = false;
    trail->lease_span_us = -1;
    if (rule == RULE_TAKEOVER)
        add_event(step, rule, trail->takeover_lower_us, trail->takeover_upper_us);
    else
        add_event(step, rule, trail->acquired_lower_us, trail->acquired_upper_us);
}

static void lose(struct step *step)
{
    struct trail *trail = &step->now->trail;
    note_loss(step);
    note_term_length(step);
    trail->held = false;
    trail->acquisition_seen = false;
    add_event(step, step->restarted ? RULE_RESTARTED : RULE_LOST, trail->lost_lower_us,
              trail->lost_upper_us);
}

/* The same owner as before: its names may have become visible, or may have changed under it. */
static void keep(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct owner *owner = &step->now->owner;
    bool renamed =
        step->now->mechanism == MECHANISM_LOCK && !text_equal(trail->last.holder, owner->holder);
    trail->pooled = trail->pooled || renamed;
    trail->last = *owner;
}

/* The observer saw this duty held from the start: it did not see the acquisition. */
static void first_sight(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (step->now->owners == 0)
        return;
    trail->held = true;
    trail->ever_owned = true;
    trail->last = step->now->owner;
    trail->acquired_upper_us = step->next->read_upper_us;
    trail->acquired_lower_us = step->now->owner.backend_start_us;
}

static void advance_read(struct step *step)
{
    struct trail *trail = &step->now->trail;
    bool held = step->now->owners > 0;
    if (trail->seen_lower_us == TIME_UNKNOWN)
        first_sight(step);
    else if (held && !(trail->held && same_owner(step->now, &trail->last, &step->now->owner)))
        gain(step);
    else if (held)
        keep(step);
    else if (trail->held)
        lose(step);
    sharpen(step);
    trail->judged = true;
    trail->seen_lower_us = step->next->read_lower_us;
    if (held)
        trail->seen_us = step->next->read_upper_us;
}

static void advance_unread(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (trail->judged)
        add_event(step, RULE_UNKNOWN, trail->seen_lower_us, step->next->read_upper_us);
    trail->judged = false;
}

/* Strings of the trail belong to the previous picture and are copied into this one. */
static void inherit(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (!step->before)
        return;
    *trail = step->before->trail;
    trail->cursor = arena_strdup(step->next->arena, trail->cursor);
    if (trail->ever_owned)
        trail->last = copy_owner(&trail->last, step->next->arena);
}

static bool same_duty(const struct duty *a, const struct duty *b)
{
    if (a->mechanism != b->mechanism)
        return false;
    return a->mechanism == MECHANISM_LOCK ? lock_key_equal(a->key, b->key)
                                          : text_equal(a->key_text, b->key_text);
}

static void advance_duty(struct step *step)
{
    inherit(step);
    if (step->now->read)
        advance_read(step);
    else
        advance_unread(step);
    judge_duty(step->next, step->now);
}

void history_advance(const struct snapshot *previous, struct snapshot *next)
{
    size_t at = 0;
    next->events = arena_array(next->arena, next->n_duties, sizeof *next->events);
    if (previous) {
        memcpy(next->takeovers, previous->takeovers, sizeof next->takeovers);
        next->takeover_sum_us = previous->takeover_sum_us;
    }
    for (size_t i = 0; i < next->n_duties; i++) {
        struct step step = {.previous = previous, .next = next, .now = &next->duties[i]};
        while (previous && at < previous->n_duties &&
               strcmp(previous->duties[at].name, step.now->name) < 0)
            at++;
        const struct duty *found =
            previous && at < previous->n_duties ? &previous->duties[at] : NULL;
        if (found && strcmp(found->name, step.now->name) == 0 && same_duty(found, step.now))
            step.before = found;
        step.restarted =
            previous && previous->facts.postmaster_start_us != next->facts.postmaster_start_us;
        advance_duty(&step);
    }
}
