/* SPDX-License-Identifier: PostgreSQL */
/* Numbers and label values as the exposition formats spell them, without printf: this is the hot
 * path of a scrape. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { EMIT_NUMBER_SIZE = 40 };

/* Each writes a number and returns its length; no NUL at the end. */
size_t emit_integer(char out[EMIT_NUMBER_SIZE], int64_t value);

/* Microseconds as decimal seconds, exact, trailing zeros cut: 1764437312.123456, -0.5, 3. */
size_t emit_seconds(char out[EMIT_NUMBER_SIZE], int64_t us);

/* The shortest of 15 or 17 digits that reads back as the same number; NaN, +Inf, -Inf. */
size_t emit_real(char out[EMIT_NUMBER_SIZE], double value);

/* A label's value without its quotes: backslash, quote and newline escaped, whatever is not UTF-8
 * as U+FFFD. NULL is empty. */
void emit_label_value(FILE *out, const char *text);
