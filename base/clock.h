/* SPDX-License-Identifier: PostgreSQL */
/* Time in int64_t microseconds. Local clocks serve deadlines and the age of a picture, never the
 * truth. */
#pragma once

#include <stdint.h>

#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)
#define DAY_US (24 * HOUR_US)

/* A time or a duration that is not known. */
#define TIME_UNKNOWN INT64_MIN

int64_t clock_monotonic_us(void); /* CLOCK_MONOTONIC: deadlines, freshness */
int64_t clock_realtime_us(void);  /* since the Unix epoch: log lines, last_success */
int64_t clock_boottime_us(void);  /* CLOCK_BOOTTIME: goes on while the machine is suspended */
