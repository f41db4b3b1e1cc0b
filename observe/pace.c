/* SPDX-License-Identifier: PostgreSQL */
/* The observer must be harmless, and quick when it matters. */
#include "observe/pace.h"

#include "base/clock.h"

static const int64_t interval_longest_us = 15 * SECOND_US;
static const int64_t interval_burst_us = SECOND_US / 10;
static const int64_t burst_for_us = 30 * SECOND_US;
static const int64_t fresh_least_us = 3 * SECOND_US;
static const int64_t deadline_margin_us = 3 * SECOND_US / 10;
static const int64_t reconnect_least_us = SECOND_US / 4;
static const int64_t reconnect_longest_us = 15 * SECOND_US;

enum {
    WALL_SHARE = 50,       /* polls take at most 1/50 of wall time on the server ... */
    WALL_SHARE_BURST = 10, /* ... and 1/10 while a vacancy is measured */
    FRESH_POLLS = 3,
};

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is asked for, or what the cost allowed at the last poll. */
static int64_t stretched_us(const struct pace *pace)
{
    return at_least(pace->configured_us, pace->stretched_us);
}

void pace_note_cost(struct pace *pace, int64_t cost_us)
{
    if (cost_us < 0 || cost_us > pace_poll_deadline_us(pace))
        return; /* the server's clock was set meanwhile */
    int64_t most = at_most(2 * stretched_us(pace), interval_longest_us);
    pace->cost_us = at_most(pace->last_cost_us, cost_us);
    pace->last_cost_us = cost_us;
    pace->stretched_us = at_most(pace->cost_us * WALL_SHARE, most);
}

static bool vacancy_to_measure(const struct snapshot *snapshot)
{
    for (size_t i = 0; snapshot && i < snapshot->n_duties; i++) {
        const struct duty *duty = &snapshot->duties[i];
        int64_t lost = duty->trail.past->lost_upper_us;
        bool vacant = duty->read && duty->owners == 0 && duty->source != SOURCE_DISCOVERY;
        if (vacant && lost != TIME_UNKNOWN && snapshot->read_upper_us - lost < burst_for_us)
            return true;
    }
    return false;
}

int64_t pace_interval_us(const struct pace *pace, const struct snapshot *snapshot)
{
    int64_t interval = stretched_us(pace);
    if (!vacancy_to_measure(snapshot))
        return interval;
    int64_t burst = at_least(interval_burst_us, pace->cost_us * WALL_SHARE_BURST);
    return at_most(interval, burst);
}

/* While polls go well, a stretched interval counts, else a costly server would blink between known
 * and unknown; from the first failure on only what was asked for does. */
int64_t pace_fresh_for_us(const struct pace *pace, bool failing)
{
    int64_t asked = at_least(FRESH_POLLS * pace->configured_us, fresh_least_us);
    return failing ? asked : at_least(asked, stretched_us(pace) + pace_poll_deadline_us(pace));
}

int64_t pace_statement_timeout_us(int64_t configured_us)
{
    return at_most(at_least(configured_us, SECOND_US), 5 * SECOND_US);
}

/* A poll that hangs is given up while there is still time for another session before the last
 * picture is too old. */
int64_t pace_poll_deadline_us(const struct pace *pace)
{
    return 2 * pace_statement_timeout_us(pace->configured_us) - deadline_margin_us;
}

int64_t pace_connect_deadline_us(const struct pace *pace)
{
    return 2 * pace_statement_timeout_us(pace->configured_us);
}

int64_t pace_reconnect_us(int failures, int64_t lived_us, uint32_t random)
{
    if (failures <= 1)
        return at_least(reconnect_least_us - lived_us, 0);
    int64_t ceiling = reconnect_longest_us;
    if (failures < 8)
        ceiling = at_most(reconnect_least_us << (failures - 1), reconnect_longest_us);
    return reconnect_least_us + (int64_t)random % (ceiling - reconnect_least_us + 1);
}
