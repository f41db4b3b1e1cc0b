/* SPDX-License-Identifier: PostgreSQL */
/* What the two files of a candidate share: lead.c drives the session, lead_steps.c decides by its
 * answers. */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "candidate/asks.h"
#include "candidate/lead.h"
#include "pg/conn.h"

enum phase { PHASE_DOWN, PHASE_CONNECTING, PHASE_ASKING, PHASE_WAITING };

struct lead {
    struct lead_options options;
    char name[80]; /* application_name */
    char nonce[33];
    enum lead_state state;
    enum phase phase;
    enum ask ask;  /* under way */
    enum ask next; /* when a wait is over */
    struct pg_session *conn;
    struct pg_answer *answer; /* of the statement under way, as far as it has come */
    struct error refusal;
    struct arena *arena;  /* of one statement and its answer */
    int64_t due_us;       /* CLOCK_BOOTTIME: the deadline, or when the wait is over */
    int64_t asked_us;     /* when the statement under way was sent */
    int64_t confirmed_us; /* when the last check that was answered well was sent */
    int64_t counted_us;
    int failures;
    int32_t candidates;
    struct lock_key key;
    bool has_key, ledger, queue, warned, working, stopping, holds;
    int64_t generation;             /* of the present term, -1: none */
    int64_t unreported;             /* of a term lost, whose work has stopped; -1: none */
    const struct lead_rule *reason; /* of giving up */
    enum lead_end end;
};

/* The one function that moves the state; work is told of every gain and every loss exactly once.
 * False: the event changes nothing. */
bool lead_move(struct lead *lead, enum lead_event event, const struct error *err);

void lead_tell(struct lead *lead, const struct lead_rule *rule, const struct error *err,
               const char *remark);
void lead_ask(struct lead *lead, enum ask ask);                     /* sends it */
void lead_wait(struct lead *lead, int64_t pause_us, enum ask next); /* then sends that */
void lead_end_candidacy(struct lead *lead, enum lead_end end);

/* An error of the session in whatever state: work is aborted first; the session is closed when it
 * has stopped. */
void lead_session_failed(struct lead *lead, enum lead_event event, const struct error *err);
uint32_t lead_random(void);

/* Decides by an answer, or by the server's refusal of the statement under way. */
void lead_took_reply(struct lead *lead, const struct reply *reply);
void lead_refused(struct lead *lead, const struct error *err);

/* A graceful end: the term is ended, then the lock is given back. */
void lead_release(struct lead *lead);
