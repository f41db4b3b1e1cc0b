/* SPDX-License-Identifier: PostgreSQL */
/* Reads the kernel's clocks. */
#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

int64_t clock_monotonic_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_realtime_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_boottime_us(void)
{
    return read_clock(CLOCK_BOOTTIME);
}
