/* SPDX-License-Identifier: PostgreSQL */
/* How many instances lead a duty or are ready to: one reading's sessions, counted by name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "observe/sessions.h"

/* Counts that several duties of one reading share, by pattern. */
struct candidates;

/* sessions must outlive it. */
struct candidates *candidates_new(const struct sessions *sessions);
void candidates_free(struct candidates *candidates);

/* Distinct instances (application_name and client address) among a key's holders and waiters (rows)
 * and the sessions that have the kit's name for the duty or match the LIKE pattern (NULL: none).
 * *ret_by_name is more than 0
 * when any session had the kit's name or matched. */
int32_t candidates_count(struct candidates *candidates, const char *duty, const char *pattern,
                         const struct lock_row *const *rows, size_t n_rows, int32_t *ret_by_name);
