/* SPDX-License-Identifier: PostgreSQL */
/* The states of a candidate and the rules that move it, as rows: the ids stand in logs, the ledger
 * and the documentation. From `uncertain` and `yielding` no new work starts. */
#pragma once

#include <stdbool.h>

enum lead_state {
    LEAD_FOLLOWER,
    LEAD_ACQUIRING,
    LEAD_LEADER,
    LEAD_YIELDING,
    LEAD_UNCERTAIN,
    LEAD_STATES
};

/* What happens to a candidate. */
enum lead_event {
    EVENT_TRY,        /* it is time to try for the lock */
    EVENT_REFUSED,    /* another session holds it */
    EVENT_TRY_FAILED, /* no answer in time, or an error: the session is closed, it may hold the lock
                       */
    EVENT_GRANTED,  /* the server says that it is ours, the predecessor's work has stopped, the term
                     * has begun
                     */
    EVENT_FINISHED, /* the work ended by itself */
    EVENT_SIGNAL,   /* SIGTERM, or pgleader_yield() */
    EVENT_YIELD_REQUEST, /* an operator asks, through the ledger */
    EVENT_SESSION_LOST,  /* connection error, closed socket, server shutdown */
    EVENT_CHECK_FAILED, /* the server answers that the lock is not ours, or the session is pooled */
    EVENT_CHECK_LATE,   /* the deadline passed without an answer */
    EVENT_WORK_STOPPED, /* the work is over and the lock is given back, or the session is closed */
    EVENT_NEXT_HELD,    /* another session holds the key that the duty moves to */
    LEAD_EVENTS,
};

struct lead_rule {
    const char *id; /* "session-lost" */
    enum lead_state from;
    enum lead_event event;
    enum lead_state to;
    const char *sentence;
};

/* Ended by a row without an id. */
extern const struct lead_rule lead_rules[];

/* The row for an event in a state; NULL where the event changes nothing there. */
const struct lead_rule *lead_rule_find(enum lead_state from, enum lead_event event);

/* True only in LEAD_LEADER: new work may start. */
bool lead_state_may_work(enum lead_state state);

const char *lead_state_name(enum lead_state state); /* "follower", ... */
