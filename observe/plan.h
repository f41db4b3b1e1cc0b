/* SPDX-License-Identifier: PostgreSQL */
/* Which sections the next poll asks, and in what order. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "observe/identity.h"
#include "observe/narrow.h"
#include "observe/probe.h"
#include "observe/roles.h"
#include "pg/batch.h"

struct plan {
    struct pg_section *sections;
    size_t n;
    struct arena *arena; /* what the sections point at */
    int64_t now_us;      /* CLOCK_MONOTONIC */
    int64_t share_us;    /* for how long failing sections may block a poll */
    size_t next;         /* whose turn it is among them */
};

/* What it depends on. */
struct plan_needs {
    struct probes *probes;
    const struct identity *identity;
    const struct roles *roles;
    const char *open_pids;       /* '{...}' */
    const struct narrow *narrow; /* NULL: every duty is asked for */
};

void plan_init(struct plan *plan);
void plan_done(struct plan *plan);

/* Empties the plan; what is put into its arena from now on lives as long as the plan that is made
 * next. */
void plan_begin(struct plan *plan, int64_t now_us);

/* Every section that is due, in order: those that failed stand last and take turns, so that the
 * poll stays within its deadline however many of them wait for one lock. */
void plan_make(struct plan *plan, const struct plan_needs *needs);

/* How the sections went: whether one of them was waited for, whether one that had failed is read
 * again. */
void plan_note(struct plan *plan, bool blocked, bool recovered);
