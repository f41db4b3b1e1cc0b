/* SPDX-License-Identifier: PostgreSQL */
/* States, durations and times in words. */
#include "tui/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "observe/bounds.h"
#include "tui/grid.h"

static bool too_few(const struct duty *duty)
{
    return duty->limits->min_candidates > 0 && duty->candidates >= 0 &&
           duty->candidates < duty->limits->min_candidates;
}

static bool waits_long(const struct duty *duty)
{
    return duty->limits->wait_slow_after_us >= 0 && duty->oldest_wait_us >= 0 &&
           duty->oldest_wait_us > duty->limits->wait_slow_after_us;
}

static bool term_missing(const struct duty *duty)
{
    return duty->in_ledger && duty->mechanism == MECHANISM_LOCK && !duty->term_begun &&
           !duty->term_unverified;
}

static bool weak(const struct duty *duty)
{
    return too_few(duty) || waits_long(duty) || term_missing(duty) || duty->trail.pooled;
}

enum urgency verdict_urgency(const struct duty *duty, bool fresh)
{
    if (!fresh || !duty->read)
        return URGENCY_UNKNOWN;
    switch (duty->state) {
    case DUTY_CONTESTED:
        return URGENCY_CONTESTED;
    case DUTY_VACANT:
        return duty->source == SOURCE_DISCOVERY ? URGENCY_GONE : URGENCY_VACANT;
    case DUTY_STALLED:
        return URGENCY_STALLED;
    case DUTY_YIELDING:
        return URGENCY_YIELDING;
    case DUTY_LED:
        return weak(duty) ? URGENCY_WEAK : URGENCY_FINE;
    case DUTY_UNKNOWN:
        break;
    }
    return URGENCY_UNKNOWN;
}

static void vacant_words(const struct duty *duty, char out[VERDICT_SIZE])
{
    const struct trail *trail = &duty->trail;
    char age[WORDS_SIZE];
    if (!trail->ever_owned) {
        (void)snprintf(out, VERDICT_SIZE, "VACANT, no owner seen yet");
        return;
    }
    words_since(trail->past->lost_upper_us, duty->read_upper_us, age);
    (void)snprintf(out, VERDICT_SIZE, "%s %s",
                   duty->source == SOURCE_DISCOVERY ? "released" : "VACANT", age);
}

static void stalled_words(const struct duty *duty, char out[VERDICT_SIZE])
{
    char age[WORDS_SIZE];
    if (duty->run->present && bounds_is_time(duty->run->advanced_us)) {
        words_since(duty->run->advanced_us, duty->read_upper_us, age);
        (void)snprintf(out, VERDICT_SIZE, "STALLED, no move %s", age);
    } else {
        (void)snprintf(out, VERDICT_SIZE, "STALLED, no progress");
    }
}

static void led_words(const struct duty *duty, char out[VERDICT_SIZE])
{
    char age[WORDS_SIZE];
    if (too_few(duty)) {
        (void)snprintf(out, VERDICT_SIZE, "led: %" PRId32 " of %" PRId32 " candidates",
                       duty->candidates, duty->limits->min_candidates);
    } else if (duty->trail.pooled) {
        (void)snprintf(out, VERDICT_SIZE, "led: through a pooler");
    } else if (waits_long(duty)) {
        words_duration(duty->oldest_wait_us, age);
        (void)snprintf(out, VERDICT_SIZE, "led: a follower waits %s", age);
    } else if (term_missing(duty)) {
        (void)snprintf(out, VERDICT_SIZE, "led: term not begun");
    } else if (duty->candidates == 1) {
        (void)snprintf(out, VERDICT_SIZE, "led, no successor");
    } else {
        (void)snprintf(out, VERDICT_SIZE, "led");
    }
}

void verdict_words(const struct duty *duty, bool fresh, char out[VERDICT_SIZE])
{
    if (!fresh) {
        (void)snprintf(out, VERDICT_SIZE, "UNKNOWN, was %s", duty_state_name(duty->state));
        return;
    }
    if (!duty->read) {
        (void)snprintf(out, VERDICT_SIZE, "UNKNOWN, not readable");
        return;
    }
    switch (duty->state) {
    case DUTY_CONTESTED:
        (void)snprintf(out, VERDICT_SIZE, "CONTESTED: %s",
                       duty->mismatch ? "two say they lead" : "several owners");
        return;
    case DUTY_VACANT:
        vacant_words(duty, out);
        return;
    case DUTY_STALLED:
        stalled_words(duty, out);
        return;
    case DUTY_YIELDING:
        (void)snprintf(out, VERDICT_SIZE, "YIELDING");
        return;
    case DUTY_LED:
        led_words(duty, out);
        return;
    case DUTY_UNKNOWN:
        break;
    }
    (void)snprintf(out, VERDICT_SIZE, "UNKNOWN");
}

static void led_brief(const struct duty *duty, char out[VERDICT_SIZE])
{
    if (too_few(duty))
        (void)snprintf(out, VERDICT_SIZE, "led, %" PRId32 " of %" PRId32, duty->candidates,
                       duty->limits->min_candidates);
    else if (duty->trail.pooled)
        (void)snprintf(out, VERDICT_SIZE, "led, pooled");
    else if (waits_long(duty))
        (void)snprintf(out, VERDICT_SIZE, "led, slow wait");
    else if (term_missing(duty))
        (void)snprintf(out, VERDICT_SIZE, "led, no term");
    else
        (void)snprintf(out, VERDICT_SIZE, "led");
}

void verdict_brief(const struct duty *duty, bool fresh, char out[VERDICT_SIZE])
{
    char age[WORDS_SIZE];
    if (!fresh || !duty->read) {
        (void)snprintf(out, VERDICT_SIZE, "UNKNOWN");
    } else if (duty->state == DUTY_CONTESTED) {
        (void)snprintf(out, VERDICT_SIZE, "CONTESTED");
    } else if (duty->state == DUTY_STALLED) {
        words_since(duty->run->present ? duty->run->advanced_us : TIME_UNKNOWN, duty->read_upper_us,
                    age);
        (void)snprintf(out, VERDICT_SIZE, "STALLED%s%s", *age == '?' ? "" : " ",
                       *age == '?' ? "" : age);
    } else if (duty->state == DUTY_VACANT && !duty->trail.ever_owned) {
        (void)snprintf(out, VERDICT_SIZE, "VACANT");
    } else if (duty->state == DUTY_LED) {
        led_brief(duty, out);
    } else {
        verdict_words(duty, fresh, out);
    }
}

unsigned verdict_attr(enum urgency urgency)
{
    switch (urgency) {
    case URGENCY_CONTESTED:
    case URGENCY_VACANT:
        return GRID_BOLD | GRID_RED;
    case URGENCY_STALLED:
    case URGENCY_YIELDING:
        return GRID_BOLD | GRID_YELLOW;
    case URGENCY_WEAK:
        return GRID_YELLOW;
    case URGENCY_UNKNOWN:
        return GRID_BOLD;
    case URGENCY_GONE:
        return GRID_DIM;
    case URGENCY_FINE:
        break;
    }
    return GRID_PLAIN;
}

void words_duration(int64_t us, char out[WORDS_SIZE])
{
    int64_t s = us / SECOND_US;
    if (us < 0)
        (void)snprintf(out, WORDS_SIZE, "?");
    else if (us < SECOND_US)
        (void)snprintf(out, WORDS_SIZE, "%" PRId64 "ms", us / 1000);
    else if (us < MINUTE_US)
        (void)snprintf(out, WORDS_SIZE, "%" PRId64 "s", s);
    else if (us < HOUR_US)
        (void)snprintf(out, WORDS_SIZE, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (us < DAY_US)
        (void)snprintf(out, WORDS_SIZE, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, WORDS_SIZE, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
}

void words_since(int64_t from_us, int64_t until_us, char out[WORDS_SIZE])
{
    bool known = bounds_is_time(from_us) && bounds_is_time(until_us);
    int64_t age = known ? until_us - from_us : -1;
    words_duration(known && age < 0 ? 0 : age, out);
}

/* False where no calendar has it. */
static bool broken_down(enum time_style style, int64_t us, struct tm *out)
{
    time_t seconds = (time_t)(us / SECOND_US);
    return style == TIMES_LOCAL ? localtime_r(&seconds, out) != NULL
                                : gmtime_r(&seconds, out) != NULL;
}

/* The date and the offset, whatever is shown of them, take their words from the same place. */
static void calendar(enum time_style style, int64_t us, bool date, char out[WORDS_SIZE])
{
    struct tm tm;
    char day[WORDS_SIZE] = "", clock[WORDS_SIZE] = "", zone[WORDS_SIZE] = "Z";
    if (!bounds_is_time(us) || !broken_down(style, us, &tm)) {
        (void)snprintf(out, WORDS_SIZE, "?");
        return;
    }
    if (date)
        (void)strftime(day, sizeof day, "%Y-%m-%d ", &tm);
    (void)strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    if (style == TIMES_LOCAL)
        (void)strftime(zone, sizeof zone, "%z", &tm);
    (void)snprintf(out, WORDS_SIZE, "%.12s%.10s%.6s", day, clock, zone);
}

void words_instant(enum time_style style, int64_t us, int64_t now_us, char out[WORDS_SIZE])
{
    char age[WORDS_SIZE];
    if (style != TIMES_AGO || !bounds_is_time(us)) {
        calendar(style, us, true, out);
        return;
    }
    words_since(us, now_us, age);
    (void)snprintf(out, WORDS_SIZE, "%.20s ago", age);
}

void words_clock(enum time_style style, int64_t us, char out[WORDS_SIZE])
{
    calendar(style, us, false, out);
}

static void grouped(int64_t value, char out[WORDS_SIZE])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value < 0 ? -value : value);
    size_t at = 0;
    if (value < 0)
        out[at++] = '-';
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
}

void words_number(double value, char out[WORDS_SIZE])
{
    if (isnan(value))
        (void)snprintf(out, WORDS_SIZE, "?");
    else if (fabs(value) < 1e15 && value == trunc(value))
        grouped((int64_t)value, out);
    else
        (void)snprintf(out, WORDS_SIZE, "%.6g", value);
}
