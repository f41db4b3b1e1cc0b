/* SPDX-License-Identifier: PostgreSQL */
/* When to poll next: the interval in force, deadlines, reconnects. Pure arithmetic on microseconds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "observe/snapshot.h"

struct pace {
    int64_t configured_us; /* the interval asked for */
    int64_t last_cost_us;  /* of the last good poll on the server; 0: there was none */
    int64_t cost_us;       /* the lesser of the last two: one slow poll says nothing of the next */
    int64_t stretched_us;  /* what cost allows; at most doubled by one poll. 0: as configured */
};

/* Takes the cost of a good poll into account. */
void pace_note_cost(struct pace *pace, int64_t cost_us);

/* The interval now in force: short while a named duty has just become vacant, longer where polls
 * are costly. */
int64_t pace_interval_us(const struct pace *pace, const struct snapshot *snapshot);

/* For how long a good poll is fresh; failing: the last attempt was not good. */
int64_t pace_fresh_for_us(const struct pace *pace, bool failing);

int64_t pace_statement_timeout_us(int64_t configured_us);
int64_t pace_poll_deadline_us(const struct pace *pace);
int64_t pace_connect_deadline_us(const struct pace *pace);

/* The pause before the attempt after that many failures in a row, the last of a session that was
 * begun so long ago: none at first, then full jitter. Sessions that end as soon as they are begun
 * are not begun faster than that either. `random` is any number. */
int64_t pace_reconnect_us(int failures, int64_t lived_us, uint32_t random);
