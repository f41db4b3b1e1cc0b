/* SPDX-License-Identifier: PostgreSQL */
/* Plays scenarios through history_advance. */
#include "tests/support/scenario.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "observe/history.h"

#define ORIGIN_US INT64_C(1700000000000000)

static int64_t instant(int64_t ms)
{
    return ms ? ORIGIN_US + ms * 1000 : TIME_UNKNOWN;
}

static const struct term *term_of(const struct given_term *given, struct arena *arena)
{
    const struct term term = {
        .generation = given->generation ? given->generation : -1,
        .pid = given->pid ? given->pid : -1,
        .backend_start_us = instant(given->start),
        .acquired_us = instant(given->acquired),
        .last_refused_us = instant(given->refused),
        .ended_us = instant(given->ended),
        .end_reason = given->reason,
        .instance = given->instance,
    };
    return arena_copy(arena, &term, sizeof term);
}

/* Strings are copied: a trail must not point into the picture before. */
static void read_lock(struct duty *duty, const struct reading *reading, struct arena *arena)
{
    duty->owners = reading->pid != 0;
    if (!duty->owners)
        return;
    duty->owner = (struct owner){
        .pid = reading->pid,
        .backend_start_us = instant(reading->start),
        .acquired_us = TIME_UNKNOWN,
        .holder = arena_strdup(arena, reading->name),
        .application_name = arena_strdup(arena, reading->name),
        .client_addr = arena_strdup(arena, reading->address),
    };
}

static void read_lease(struct duty *duty, const struct reading *reading, struct arena *arena)
{
    duty->owners = reading->expires > reading->upper;
    duty->lease_expires_us = instant(reading->expires);
    duty->owner = (struct owner){
        .backend_start_us = TIME_UNKNOWN,
        .acquired_us = instant(reading->acquired),
        .holder = arena_strdup(arena, reading->name ? reading->name : ""),
    };
}

/* As fill_term does it. */
static void match_term(struct duty *duty, bool alive)
{
    bool open = duty->term->generation >= 0 && duty->term->ended_us == TIME_UNKNOWN;
    if (duty->mechanism == MECHANISM_LEASE)
        duty->term_begun =
            open && duty->owners > 0 && text_equal(duty->term->instance, duty->owner.holder);
    else
        duty->term_begun = open && duty->owners > 0 && duty->owner.pid == duty->term->pid &&
                           duty->owner.backend_start_us == duty->term->backend_start_us;
    duty->term_alive = alive;
}

static struct snapshot *picture(const struct reading *reading, enum mechanism mechanism)
{
    struct snapshot *snapshot = snapshot_new();
    snapshot->facts.postmaster_start_us = instant(reading->boot ? reading->boot : SCENARIO_BOOT);
    snapshot->read_lower_us = instant(reading->lower);
    snapshot->read_upper_us = instant(reading->upper);
    if (reading->missing)
        return snapshot;
    snapshot->n_duties = 1;
    struct duty *duty = snapshot->duties = arena_array(snapshot->arena, 1, sizeof *duty);
    duty_init(duty);
    duty->name = "jobs/x";
    duty->mechanism = mechanism;
    duty->key = lock_key_from_int8(reading->key ? reading->key : 42);
    duty->key_text = "42";
    if (reading->unread)
        return snapshot;
    duty->read = true;
    duty->read_lower_us = snapshot->read_lower_us;
    duty->read_upper_us = snapshot->read_upper_us;
    duty->term = term_of(&reading->term, snapshot->arena);
    duty->previous = term_of(&reading->previous, snapshot->arena);
    (mechanism == MECHANISM_LEASE ? read_lease : read_lock)(duty, reading, snapshot->arena);
    match_term(duty, reading->alive);
    return snapshot;
}

/* Goes through a scenario; the rules that came, as words. The last picture is the caller's. */
static struct snapshot *play(const struct scenario *scenario, char *rules_out, size_t size)
{
    struct snapshot *last = NULL;
    FILE *out = fmemopen(rules_out, size, "w");
    const char *separator = "";
    for (size_t i = 0; i < SCENARIO_READINGS && scenario->readings[i].upper; i++) {
        struct snapshot *next = picture(&scenario->readings[i], scenario->mechanism);
        history_advance(last, next);
        snapshot_unref(last);
        last = next;
        for (size_t j = 0; j < next->n_events; j++, separator = " ")
            (void)fprintf(out, "%s%s", separator, rules[next->events[j].rule].id);
    }
    (void)putc('\0', out);
    (void)fclose(out);
    return last;
}

static bool wrong(const char *words, const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return false;
    (void)fprintf(stderr, "%s: %s is %lld, not %lld\n", words, what, (long long)got,
                  (long long)want);
    return true;
}

static bool wrong_words(const char *words, const char *what, const char *got, const char *want)
{
    if (text_equal(got, want))
        return false;
    (void)fprintf(stderr, "%s: %s \"%s\", not \"%s\"\n", words, what, got ? got : "-",
                  want ? want : "-");
    return true;
}

static int64_t ms_of(int64_t us)
{
    return us == TIME_UNKNOWN ? 0 : (us - ORIGIN_US) / 1000;
}

static int64_t span_ms(int64_t us)
{
    return us < 0 ? us : us / 1000;
}

static int check(const struct scenario *scenario)
{
    char got_rules[256];
    struct snapshot *last = play(scenario, got_rules, sizeof got_rules);
    const struct duty *duty = &last->duties[0];
    const struct trail *trail = &duty->trail;
    const struct told *told = &scenario->told;
    const char *words = scenario->words;
    int bad = 0;
    bad += wrong_words(words, "rules are", got_rules, told->rules);
    bad += wrong(words, "acquired from", ms_of(trail->acquired_lower_us), told->acquired[0]);
    bad += wrong(words, "acquired to", ms_of(trail->acquired_upper_us), told->acquired[1]);
    bad += wrong(words, "lost from", ms_of(trail->past->lost_lower_us), told->lost[0]);
    bad += wrong(words, "lost to", ms_of(trail->past->lost_upper_us), told->lost[1]);
    bad +=
        wrong(words, "takeover from", span_ms(trail->past->takeover_lower_us), told->takeover[0]);
    bad += wrong(words, "takeover to", span_ms(trail->past->takeover_upper_us), told->takeover[1]);
    bad += wrong(words, "last term", span_ms(trail->past->last_term_us), told->last_term);
    bad += wrong(words, "age", span_ms(duty->age_us), told->age);
    bad += wrong(words, "uncertainty", span_ms(duty->age_uncertainty_us), told->uncertainty);
    bad += wrong_words(words, "source is", duty->acquired_source, told->source);
    bad += wrong(words, "state", (int64_t)duty->state, (int64_t)told->state);
    snapshot_unref(last);
    return bad;
}

int scenarios_check(const struct scenario *scenarios, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += check(&scenarios[i]);
    return bad;
}
