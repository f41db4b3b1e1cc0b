/* SPDX-License-Identifier: PostgreSQL */
/* Times and numbers as programs read them, for JSON and CSV alike. */
#pragma once

#include <stdint.h>

enum { PLAIN_SIZE = 48 };

/* "2026-11-29T16:37:55.409594Z"; "" for what is unknown or infinite. */
void plain_time(char out[PLAIN_SIZE], int64_t time_us);

/* "12", "0.000001", "-3.5": exact, without an exponent. "" for TIME_UNKNOWN. */
void plain_seconds(char out[PLAIN_SIZE], int64_t us);

/* The shortest of 15 or 17 digits that reads back the same; "" where it is not finite. */
void plain_number(char out[PLAIN_SIZE], double value);
