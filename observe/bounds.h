/* SPDX-License-Identifier: PostgreSQL */
/* When a change happened: each instant that was only inferred has two bounds, from the clocks
 * around the two readings that enclose it. The ledger sharpens a bound and never replaces it.
 *
 * All of it works on the trail of step->now; a bound that nobody can tell is TIME_UNKNOWN. */
#pragma once

#include "observe/snapshot.h"

/* One duty at two polls. */
struct step {
    struct snapshot *next;
    const struct duty *before; /* at the poll before; NULL: not known then */
    struct duty *now;
    bool restarted; /* the server was, since the last reading of this duty */
    bool set_back;  /* so was its clock: what it stamped before is not comparable either */
};

/* Neither unknown nor infinite. */
static inline bool bounds_is_time(int64_t us)
{
    return us > TIME_UNKNOWN + 1 && us < INT64_MAX;
}

/* The same session, or the same lease. What we may not see is no sign of change. */
bool bounds_same_owner(const struct step *step, const struct owner *a, const struct owner *b);

/* False when the last reading's clock is not this reading's: it was set back, or another server
 * answers. */
bool bounds_comparable(const struct step *step);

/* Drops every time of another clock: what is held is as if first seen held. */
void bounds_forget(struct step *step);

/* The owner of the last reading has been lost since. */
void bounds_note_loss(struct step *step);

/* The owner of this reading has begun since the last one. */
void bounds_note_acquisition(struct step *step);

/* When its session began has become visible. */
void bounds_note_start(struct step *step);

/* Between the bounds of the loss and those of the acquisition: the least and the most that nobody
 * led. */
void bounds_note_takeover(struct step *step);

/* What the ledger and the lease's row say of the loss and of the acquisition, in the poll that saw
 * them or in a later one. */
void bounds_sharpen(struct step *step);
