/* SPDX-License-Identifier: PostgreSQL */
/* Times and numbers as programs read them. */
#include "tui/plain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "observe/bounds.h"

void plain_time(char out[PLAIN_SIZE], int64_t time_us)
{
    *out = '\0';
    if (!bounds_is_time(time_us))
        return;
    int64_t below = time_us % SECOND_US;
    below += below < 0 ? SECOND_US : 0;
    time_t seconds = (time_t)((time_us - below) / SECOND_US);
    struct tm parts;
    if (!gmtime_r(&seconds, &parts))
        return;
    size_t used = strftime(out, PLAIN_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + used, PLAIN_SIZE - used, ".%06dZ", (int)below);
}

void plain_seconds(char out[PLAIN_SIZE], int64_t us)
{
    *out = '\0';
    if (us == TIME_UNKNOWN)
        return;
    int64_t size = us < 0 ? -us : us;
    int used = snprintf(out, PLAIN_SIZE, "%s%" PRId64 ".%06" PRId64, us < 0 ? "-" : "",
                        size / SECOND_US, size % SECOND_US);
    while (out[used - 1] == '0')
        out[--used] = '\0';
    if (out[used - 1] == '.')
        out[--used] = '\0';
}

void plain_number(char out[PLAIN_SIZE], double value)
{
    *out = '\0';
    if (!isfinite(value))
        return;
    (void)snprintf(out, PLAIN_SIZE, "%.15g", value);
    if (strtod(out, NULL) != value)
        (void)snprintf(out, PLAIN_SIZE, "%.17g", value);
}
