/* SPDX-License-Identifier: PostgreSQL */
/* Who else stands at a lock: its queue, and locks that are none of this database's. For people;
 * no number is made of it. */
#pragma once

#include <stddef.h>

#include "observe/sessions.h"
#include "observe/snapshot.h"

/* Sets duty->queue from the key's rows: who waits, the longest first. */
void queue_fill(const struct snapshot *snapshot, struct duty *duty,
                const struct lock_row *const *rows, size_t n);

/* Sets snapshot->foreign. */
void queue_foreign(struct snapshot *snapshot, const struct sessions *sessions);
