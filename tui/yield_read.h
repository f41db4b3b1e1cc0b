/* SPDX-License-Identifier: PostgreSQL */
/* One reading for a yield: the sections to ask, and facts from what they answered. */
#pragma once

#include <stddef.h>

#include "pg/batch.h"
#include "tui/guard.h"

enum { YIELD_SECTIONS = 4 };

/* The sections for that target, who holds or waits for that key, and every session with a name
 * where one of them may succeed; their strings live in the arena or as long as the target. */
void yield_sections(const struct yield_target *target, struct lock_key key, bool named,
                    struct arena *arena, struct pg_section out[YIELD_SECTIONS]);

/* Facts in an arena of their own, freed by yield_facts_free; NULL and err where the server or its
 * locks could not be read. */
struct yield_facts *yield_facts_take(const struct yield_target *target, struct lock_key key,
                                     const struct pg_batch *batch, struct error *err) MUSTCHECK;

void yield_facts_free(struct yield_facts *facts); /* NULL is fine */
