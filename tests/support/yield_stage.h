/* SPDX-License-Identifier: PostgreSQL */
/* A yield by hand: who was asked about, what was read, and the screen that it is on. */
#pragma once

#include "tests/support/picture_builder.h"
#include "tui/guard.h"
#include "tui/ui.h"

#define STAGE_NOW_US (100 * SECOND_US) /* when the built pictures were taken */

/* A leader with a term and a run, and one that waits. */
struct stage {
    struct yield_target target;
    struct yield_facts before, after;
    struct yield_ledger ledger, later;
    struct yield_lock locks[2], later_locks[1];
    struct yield_step steps[6];
    struct guard_context context;
    struct yield_view view;
    struct arena *arena;
    struct picture picture;
    struct ui ui;
    bool helped;
};

void stage_set_up(struct stage *stage);
void stage_tear_down(struct stage *stage);

/* Everything points to where it is now: a row may have changed any of it. */
void stage_wire(struct stage *stage);

/* What the engine has done by then. */
void stage_step(struct stage *stage, int64_t after_us, const char *sentence);

/* The successor leads, in a term of its own, and the old session is gone. */
void stage_see_successor(struct stage *stage);

/* The screen as text; from malloc. */
char *stage_print(struct stage *stage, int width, int height, bool unicode, size_t *ret_size);

void stage_type(struct stage *stage, enum form_field field, const char *text);

/* Before stage_wire: the dialog, and who leads. */
void stage_as_it_opens(struct stage *stage);
void stage_half_typed(struct stage *stage);
void stage_ready(struct stage *stage);
void stage_strange_worker(struct stage *stage);
void stage_overridden(struct stage *stage);
void stage_strange_lease(struct stage *stage);
