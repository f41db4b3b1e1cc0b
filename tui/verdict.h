/* SPDX-License-Identifier: PostgreSQL */
/* The state of a duty in words, and how much it wants a person. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "observe/snapshot.h"

/* The smaller, the sooner somebody should look. From URGENCY_FINE on nobody must. */
enum urgency {
    URGENCY_CONTESTED,
    URGENCY_VACANT,
    URGENCY_STALLED,
    URGENCY_UNKNOWN,
    URGENCY_YIELDING,
    URGENCY_WEAK, /* led, but something about it is not as declared */
    URGENCY_FINE,
    URGENCY_GONE, /* a discovered lock that was released: it may never come back */
};

enum { VERDICT_SIZE = 80 };

enum urgency verdict_urgency(const struct duty *duty, bool fresh);

/* "led", "VACANT 1m08s", "led: 1 of 2 candidates". */
void verdict_words(const struct duty *duty, bool fresh, char out[VERDICT_SIZE]);

/* The same in at most 14 cells: "led, 1 of 2". */
void verdict_brief(const struct duty *duty, bool fresh, char out[VERDICT_SIZE]);

/* How it is drawn: bits of enum grid_attr. */
unsigned verdict_attr(enum urgency urgency);

enum { WORDS_SIZE = 32 };

/* "350ms", "12s", "4m12s", "2h40m", "6d04h"; "?" where it is not known. */
void words_duration(int64_t us, char out[WORDS_SIZE]);

/* The same, where it begins at an instant and ends at another; "?" if either is unknown. */
void words_since(int64_t from_us, int64_t until_us, char out[WORDS_SIZE]);

/* How instants are shown. */
enum time_style { TIMES_UTC, TIMES_LOCAL, TIMES_AGO, TIMES };

/* "2026-11-29 16:35:59Z", the same in local time with its offset, or "4m12s ago" of now_us, all by
 * the server's clock; "?" where it is not known. */
void words_instant(enum time_style style, int64_t us, int64_t now_us, char out[WORDS_SIZE]);

/* "16:35:59Z" */
void words_clock(enum time_style style, int64_t us, char out[WORDS_SIZE]);

/* "72,110", "0.1"; "?" for NAN. */
void words_number(double value, char out[WORDS_SIZE]);
