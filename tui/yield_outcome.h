/* SPDX-License-Identifier: PostgreSQL */
/* What came of a yield, judged from what is seen afterwards; pure. */
#pragma once

#include "observe/snapshot.h"
#include "tui/guard.h"

/* Whether the frozen owner still leads, and who does. */
struct yield_sight {
    bool elsewhere;        /* another server answers, or a standby: nothing below is known */
    bool held;             /* by the frozen session, in the frozen term */
    bool led;              /* by anybody */
    bool same_instance;    /* another session or term of the same instance leads */
    bool begun;            /* with a risen generation of its own, or there is no ledger to say */
    const char *successor; /* in words; NULL */
    int32_t pid;           /* of the successor; 0 */
    int64_t backend_start_us;
    int64_t generation; /* the successor's; -1 */
    bool old_session;   /* the frozen session is still there, whether it leads or not */
    bool old_stopped;   /* its work was reported stopped */
};

struct yield_sight yield_see(const struct yield_target *target, const struct yield_facts *facts,
                             struct arena *arena);

/* True when nothing better can come: moved and begun, or returned. */
bool yield_settled(const struct yield_sight *sight);

/* The outcome as of that sight, once nobody waits longer; YIELD_UNKNOWN elsewhere. */
enum yield_outcome yield_judge(const struct yield_sight *sight);
