/* SPDX-License-Identifier: PostgreSQL */
/* The state machine, as rows. */
#include "candidate/rules.h"

#include <stddef.h>

const struct lead_rule lead_rules[] = {
    {"try", LEAD_FOLLOWER, EVENT_TRY, LEAD_ACQUIRING, "It is time to try for the lock."},
    {"refused", LEAD_ACQUIRING, EVENT_REFUSED, LEAD_FOLLOWER, "Another session holds the lock."},
    {"try-failed", LEAD_ACQUIRING, EVENT_TRY_FAILED, LEAD_FOLLOWER,
     "The try had no answer in time or failed; its session is closed, since the server may have "
     "granted it."},
    {"try-lost", LEAD_ACQUIRING, EVENT_SESSION_LOST, LEAD_FOLLOWER,
     "The session ended while it tried."},
    {"try-signal", LEAD_ACQUIRING, EVENT_SIGNAL, LEAD_FOLLOWER,
     "It was told to stop before it led."},
    {"try-yield", LEAD_ACQUIRING, EVENT_YIELD_REQUEST, LEAD_FOLLOWER,
     "An operator asked it to yield before its work began."},
    {"next-held", LEAD_ACQUIRING, EVENT_NEXT_HELD, LEAD_FOLLOWER,
     "Another session holds the key that the duty moves to; its own is given back."},
    {"granted", LEAD_ACQUIRING, EVENT_GRANTED, LEAD_LEADER,
     "The server says that it is ours, the predecessor's work has stopped, the term has begun."},
    {"finished", LEAD_LEADER, EVENT_FINISHED, LEAD_YIELDING, "The work ended by itself."},
    {"signal", LEAD_LEADER, EVENT_SIGNAL, LEAD_YIELDING, "It was told to stop."},
    {"yield-request", LEAD_LEADER, EVENT_YIELD_REQUEST, LEAD_YIELDING,
     "An operator asked it to yield, or retired the duty."},
    {"session-lost", LEAD_LEADER, EVENT_SESSION_LOST, LEAD_UNCERTAIN,
     "The session ended: the server has freed the lock, or will."},
    {"check-failed", LEAD_LEADER, EVENT_CHECK_FAILED, LEAD_UNCERTAIN,
     "The server says that the lock is not this session's."},
    {"check-late", LEAD_LEADER, EVENT_CHECK_LATE, LEAD_UNCERTAIN,
     "No answer before the deadline: the server may have let go."},
    {"yield-lost", LEAD_YIELDING, EVENT_SESSION_LOST, LEAD_UNCERTAIN,
     "The session ended while it yielded."},
    {"yield-check-failed", LEAD_YIELDING, EVENT_CHECK_FAILED, LEAD_UNCERTAIN,
     "The lock was found lost while it yielded."},
    {"yield-check-late", LEAD_YIELDING, EVENT_CHECK_LATE, LEAD_UNCERTAIN,
     "No answer while it yielded."},
    {"released", LEAD_YIELDING, EVENT_WORK_STOPPED, LEAD_FOLLOWER,
     "The work has stopped, the term is ended and the lock is given back."},
    {"aborted", LEAD_UNCERTAIN, EVENT_WORK_STOPPED, LEAD_FOLLOWER,
     "The work has stopped; the session is closed."},
    {0},
};

const struct lead_rule *lead_rule_find(enum lead_state from, enum lead_event event)
{
    for (const struct lead_rule *rule = lead_rules; rule->id; rule++) {
        if (rule->from == from && rule->event == event)
            return rule;
    }
    return NULL;
}

bool lead_state_may_work(enum lead_state state)
{
    return state == LEAD_LEADER;
}

const char *lead_state_name(enum lead_state state)
{
    static const char *const names[LEAD_STATES] = {
        [LEAD_FOLLOWER] = "follower", [LEAD_ACQUIRING] = "acquiring", [LEAD_LEADER] = "leader",
        [LEAD_YIELDING] = "yielding", [LEAD_UNCERTAIN] = "uncertain",
    };
    return names[state];
}
