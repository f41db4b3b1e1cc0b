/* SPDX-License-Identifier: PostgreSQL */
/* One line of what happened, appended to a file that many processes share: its time first. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int64_t now_ns(void); /* CLOCK_MONOTONIC, the same in every network namespace */

/* Opens FILE of $EXERCISE_DIR for appending; exits where it cannot. */
int note_open(const char *file);

/* "NANOSECONDS WORDS\n" in one write, also from a signal handler: async-signal-safe. */
void note_write(int fd, int64_t at_ns, const char *words);

/* The path of a file in $EXERCISE_DIR. */
void note_path(const char *file, char *path, size_t size);
