/* SPDX-License-Identifier: PostgreSQL */
/* Walks two pictures side by side and writes each duty's trail: who leads now, and by which rule.
 * When it happened is for bounds.c to say. */
#include "observe/history.h"

#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/bounds.h"
#include "observe/judge.h"

/* The same worker in whatever session. Without a name nobody can tell, and it counts as another. */
static bool same_instance(const struct owner *a, const struct owner *b)
{
    bool same_address =
        !a->client_addr || !b->client_addr || text_equal(a->client_addr, b->client_addr);
    return *a->holder && text_equal(a->holder, b->holder) && same_address;
}

static const struct owner *copy_owner(const struct owner *owner, struct arena *arena)
{
    struct owner *copy = arena_copy(arena, owner, sizeof *owner);
    copy->holder = arena_strdup(arena, owner->holder);
    copy->application_name = arena_strdup(arena, owner->application_name);
    copy->usename = arena_strdup(arena, owner->usename);
    copy->client_addr = arena_strdup(arena, owner->client_addr);
    return copy;
}

/* What the trail points to belonged to the previous picture until now; most of it was replaced. */
static void adopt_trail(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct trail *before = step->before ? &step->before->trail : NULL;
    if (!before)
        return;
    if (trail->cursor == before->cursor)
        trail->cursor = arena_strdup(step->next->arena, before->cursor);
    if (trail->last == before->last && trail->ever_owned)
        trail->last = copy_owner(before->last, step->next->arena);
}

/* The past is this picture's own from the beginning, since it is written to. */
static void inherit_trail(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct past *none = trail->past;
    if (!step->before)
        return;
    *trail = step->before->trail;
    if (trail->past != none)
        trail->past = arena_copy(step->next->arena, trail->past, sizeof *trail->past);
}

/* Mostly there are none, and at most one a duty. */
static void make_room(struct snapshot *snapshot)
{
    size_t n = snapshot->n_events;
    if ((n & (n - 1)) != 0)
        return;
    struct event *events = arena_array(snapshot->arena, n ? 2 * n : 1, sizeof *events);
    if (n)
        memcpy(events, snapshot->events, n * sizeof *events);
    snapshot->events = events;
}

static void add_event(struct step *step, enum rule_id rule, int64_t lower_us, int64_t upper_us)
{
    struct snapshot *next = step->next;
    adopt_trail(step);
    make_room(next);
    duty_past(step->now, next->arena)->transitions[rule]++;
    const struct owner *owner = step->now->trail.last;
    next->events[next->n_events++] = (struct event){
        .duty = step->now->name,
        .rule = rule,
        .holder = step->now->trail.ever_owned ? owner->holder : NULL,
        .pid = owner->pid,
        .lower_us = lower_us,
        .upper_us = upper_us,
    };
}

/* At least this long, if anybody knows when it began. */
static void note_term_length(struct step *step)
{
    struct past *past = duty_past(step->now, step->next->arena);
    int64_t began = step->before->acquired_us;
    int64_t ended = past->lost_lower_us;
    bool known = began != TIME_UNKNOWN && ended != TIME_UNKNOWN;
    past->last_term_us = !known ? -1 : ended > began ? ended - began : 0;
}

/* Of named duties: what discovery finds comes and goes as it likes. */
static void count_takeover(struct step *step)
{
    struct snapshot *next = step->next;
    int64_t upper = step->now->trail.past->takeover_upper_us;
    int bucket = 0;
    if (upper < 0 || step->now->source == SOURCE_DISCOVERY)
        return;
    while (upper > takeover_bucket_us[bucket])
        bucket++;
    next->takeovers[bucket]++;
    next->takeover_sum_us += upper;
}

/* A lease outlives the server's restart. */
static bool ended_by_restart(const struct step *step)
{
    return step->restarted && step->now->mechanism == MECHANISM_LOCK;
}

static enum rule_id rule_of_gain(const struct step *step)
{
    const struct trail *trail = &step->now->trail;
    if (!trail->ever_owned)
        return RULE_ACQUIRED;
    if (!same_instance(trail->last, &step->now->owner))
        return RULE_TAKEOVER;
    return trail->held && ended_by_restart(step) ? RULE_RESTARTED : RULE_RETURNED;
}

/* The same pid in another session, while we could not see which: it changed who knows when. */
static bool reused_unseen(const struct step *step)
{
    const struct trail *trail = &step->now->trail;
    return trail->held && trail->unsure && trail->last->pid == step->now->owner.pid;
}

/* The old owner's end, if it was not seen before, then the new one's beginning. */
static void gain(struct step *step)
{
    struct trail *trail = &step->now->trail;
    enum rule_id rule = rule_of_gain(step);
    if (reused_unseen(step))
        trail->seen_lower_us = TIME_UNKNOWN;
    if (trail->held) {
        bounds_note_loss(step);
        note_term_length(step);
    }
    trail->generation = -1;
    bounds_note_acquisition(step);
    trail->acquisition_seen = true;
    trail->took_over = rule == RULE_TAKEOVER;
    bounds_sharpen(step);
    trail->last = &step->now->owner;
    trail->ever_owned = trail->held = true;
    trail->pooled = trail->unsure = false;
    trail->strangers = trail->rivals = 0;
    trail->lease_span_us = -1;
    if (rule == RULE_TAKEOVER) {
        count_takeover(step);
        add_event(step, rule, trail->past->takeover_lower_us, trail->past->takeover_upper_us);
    } else {
        add_event(step, rule, trail->acquired_lower_us, trail->acquired_upper_us);
    }
}

static void lose(struct step *step)
{
    struct trail *trail = &step->now->trail;
    bounds_note_loss(step);
    note_term_length(step);
    trail->held = trail->acquisition_seen = trail->took_over = false;
    add_event(step, ended_by_restart(step) ? RULE_RESTARTED : RULE_LOST, trail->past->lost_lower_us,
              trail->past->lost_upper_us);
}

/* The owner of this reading; what we may not see of it now and saw before stays as it was. */
static const struct owner *same_owner(const struct step *step)
{
    const struct owner *now = &step->now->owner, *last = step->now->trail.last;
    bool start_hidden =
        now->backend_start_us == TIME_UNKNOWN && last->backend_start_us != TIME_UNKNOWN;
    bool address_hidden = !now->client_addr && last->client_addr;
    if (!start_hidden && !address_hidden)
        return now;
    struct owner *owner = arena_copy(step->next->arena, now, sizeof *now);
    if (start_hidden)
        owner->backend_start_us = last->backend_start_us;
    if (address_hidden)
        owner->client_addr = arena_strdup(step->next->arena, last->client_addr);
    return owner;
}

/* The same owner as before: its names may have become visible, or may have changed under it. */
static void keep(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct owner *owner = &step->now->owner;
    bool start_known = owner->backend_start_us != TIME_UNKNOWN;
    bool start_was_known = trail->last->backend_start_us != TIME_UNKNOWN;
    if (step->now->mechanism == MECHANISM_LOCK && !text_equal(trail->last->holder, owner->holder))
        trail->pooled = true;
    trail->unsure = !start_known && start_was_known;
    if (start_known && !start_was_known)
        bounds_note_start(step);
    trail->last = same_owner(step);
    bounds_sharpen(step);
}

/* The observer saw this duty held from the start: it did not see the acquisition. */
static void first_sight(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (step->now->owners == 0)
        return;
    trail->held = trail->ever_owned = true;
    trail->last = &step->now->owner;
    bounds_note_acquisition(step);
    bounds_sharpen(step);
}

static void advance_read(struct step *step)
{
    struct trail *trail = &step->now->trail;
    const struct owner *owner = &step->now->owner;
    bool held = step->now->owners > 0;
    bool first = trail->seen_lower_us == TIME_UNKNOWN;
    if (!bounds_comparable(step))
        bounds_forget(step);
    if (first)
        first_sight(step);
    else if (held && trail->held && bounds_same_owner(step, trail->last, owner))
        keep(step);
    else if (held)
        gain(step);
    else if (trail->held)
        lose(step);
    else
        bounds_sharpen(step);
    trail->judged = true;
    trail->seen_lower_us = step->now->read_lower_us;
    trail->server_start_us = step->next->facts.postmaster_start_us;
    if (held || step->now->shared_owners > 0)
        trail->seen_us = step->now->read_upper_us;
}

static void advance_unread(struct step *step)
{
    struct trail *trail = &step->now->trail;
    if (trail->judged)
        add_event(step, RULE_UNKNOWN, trail->seen_lower_us, step->next->read_upper_us);
    trail->judged = false;
    trail->strangers = trail->rivals = 0;
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
    struct trail *trail = &step->now->trail;
    inherit_trail(step);
    step->restarted = trail->server_start_us != TIME_UNKNOWN &&
                      trail->server_start_us != step->next->facts.postmaster_start_us;
    if (step->now->read)
        advance_read(step);
    else
        advance_unread(step);
    judge_duty(step->next, step->now);
    adopt_trail(step);
}

/* Another cluster or database has other locks of the same keys. What was not read is no sign. */
static bool same_place(const struct server_facts *a, const struct server_facts *b)
{
    bool same_cluster = !a->system_identifier || !b->system_identifier ||
                        text_equal(a->system_identifier, b->system_identifier);
    bool named = a->database && *a->database && b->database && *b->database;
    return same_cluster && (!named || text_equal(a->database, b->database));
}

/* Both pictures are sorted by name: *at moves on with the names. */
static const struct duty *find_before(const struct snapshot *previous, const struct duty *now,
                                      size_t *at)
{
    while (*at < previous->n_duties && strcmp(previous->duties[*at].name, now->name) < 0)
        ++*at;
    if (*at == previous->n_duties)
        return NULL;
    const struct duty *found = &previous->duties[*at];
    return strcmp(found->name, now->name) == 0 && same_duty(found, now) ? found : NULL;
}

void history_advance(const struct snapshot *previous, struct snapshot *next)
{
    size_t at = 0;
    if (previous) {
        memcpy(next->takeovers, previous->takeovers, sizeof next->takeovers);
        next->takeover_sum_us = previous->takeover_sum_us;
    }
    bool goes_on = previous && same_place(&previous->facts, &next->facts);
    for (size_t i = 0; i < next->n_duties; i++) {
        struct duty *now = &next->duties[i];
        const struct duty *before = goes_on ? find_before(previous, now, &at) : NULL;
        struct step step = {.next = next, .before = before, .now = now};
        advance_duty(&step);
    }
}
