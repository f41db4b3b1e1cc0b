/* SPDX-License-Identifier: PostgreSQL */
/* Words of the page: durations, counts, ages with their bounds. */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Text as HTML, whatever is not UTF-8 as U+FFFD; NULL is empty. */
void page_escape(FILE *out, const char *text);

/* "350 ms", "12 s", "5 min 3 s", "3 h 2 min", "5 d 3 h"; below 0 or TIME_UNKNOWN: "unknown". */
void page_duration(FILE *out, int64_t us);

/* "at least 5 min 3 s, at most 2 d 5 h", or once where both read the same. more_us below 0: no
 * upper bound is known. */
void page_bounds(FILE *out, int64_t least_us, int64_t more_us);

/* An integer in groups of three digits. */
void page_integer(FILE *out, int64_t value);

/* A number of an application: an integer as above, anything else as the metrics print it. */
void page_number(FILE *out, double value);

/* A stylesheet of this size and kind belongs in C as little as anywhere, but a page that needs no
 * second request works through every proxy. */
extern const char page_style[];
