/* SPDX-License-Identifier: PostgreSQL */
/* What the files of a candidate share. lead.c drives: state, phase, deadlines. lead_ask.c sends
 * statements and reads their answers; what follows from an answer is in lead_session.c (until a
 * session is ready), lead_keys.c (which locks to take), lead_term.c (from the try to the release)
 * and lead_refused.c (the server's errors). */
#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "candidate/asks.h"
#include "candidate/lead.h"
#include "pg/conn.h"

/* What is said once, or until it changes. */
enum remark {
    REMARK_NO_LEDGER,
    REMARK_POOLED,
    REMARK_PROXY,
    REMARK_IDLE_SESSION,
    REMARK_IDLE_TRANSACTION,
    REMARK_UNKNOWN_DUTY,
    REMARK_NO_GENERATION,
    REMARK_UNLOGGED,
    REMARK_STANDBY,
};

#define LEAD_OWN_LEASE "pgleader.lease"

enum phase { PHASE_DOWN, PHASE_CONNECTING, PHASE_ASKING, PHASE_WAITING };

struct lead {
    struct lead_options options;
    char name[80]; /* application_name */
    char nonce[33];
    struct target target;
    char *lease_table, *lease_row;           /* of the target, owned */
    char *registered_table, *registered_row; /* as the registry names them, owned */
    bool found;                              /* the target is known */
    bool several_hosts;
    unsigned remarked; /* bits of enum remark */
    enum lead_state state;

    enum phase phase;
    enum ask ask;  /* under way */
    enum ask next; /* when a wait is over */
    struct pg_session *conn;
    struct pg_answer *answer; /* of the statement under way, as far as it has come */
    struct error refusal;
    struct arena *arena; /* of one statement and its answer */
    int64_t due_us;      /* CLOCK_BOOTTIME: the deadline, or when the wait is over */
    int64_t asked_us;    /* when the statement under way was sent */

    /* of the session */
    bool ledger, pooled, queue;
    bool prepared, listening; /* its limits are set, the channel is heard */
    bool deaf;                /* the channel is not heard at present: enough others hear it */
    uint32_t lot;             /* decides who hears it */
    bool termless;            /* the ledger does not know the duty */
    bool look;                /* an answer may have come while the statement was sent */
    int failures;             /* since one last came up */
    size_t attempts;          /* which of several hosts is tried first */
    int32_t candidates;
    int64_t counted_us;
    int64_t refused_at_us; /* the server's clock: another held it still; TIME_UNKNOWN: never seen */
    int64_t stands_back_until_us; /* after a loss: another may try first */
    bool woken;                   /* a release was told while a try was under way */

    /* of a duty that moves to another key */
    bool knows_registry; /* it was read in this session */
    bool stale;          /* it may say something else by now */
    bool holds_other;    /* target.other is held for certain */
    bool next_held;      /* by another session: said once */
    int next_tries;      /* of this acquisition */
    int next_failures;   /* acquisitions given back for it */
    int64_t next_due_us; /* a leader's next try */
    int64_t held_off_until_us;

    /* of the term */
    bool working, holds, unlogged, settled, hinted; /* hinted: somebody may want us to yield */
    int64_t confirmed_us;    /* when the last check that was answered well was sent */
    int64_t settle_until_us; /* CLOCK_BOOTTIME: at the latest; INT64_MAX: as the ledger says */
    int64_t generation;      /* -1: none */
    int64_t unreported;      /* of a term lost, whose work has stopped; -1: none */
    const struct lead_rule *reason; /* of giving up */

    bool stopping, was_up, last_words; /* last_words: only a report is left to do */
    int64_t report_by_us;      /* while stopping: how long a last report is worth waiting for */
    enum lead_end end, ending; /* ending: as soon as the work has stopped */
};

/* lead.c */

/* The one function that moves the state; work is told of every gain and every loss exactly once.
 * False: the event changes nothing. */
bool lead_move(struct lead *lead, enum lead_event event, const struct error *err);

void lead_tell(struct lead *lead, const struct lead_rule *rule, const struct error *err,
               const char *remark);
void lead_remark(struct lead *lead, enum remark remark, const char *words); /* once */
void lead_wait(struct lead *lead, int64_t pause_us, enum ask next);         /* then sends that */
void lead_drop_session(struct lead *lead, int64_t pause_us);                /* then connects anew */
void lead_end_candidacy(struct lead *lead, enum lead_end end);
void lead_refuse(struct lead *lead, const struct error *err); /* says why, and ends it */
uint32_t lead_random(void);

/* An error of the session in whatever state: work is aborted first; the session is closed when it
 * has stopped. A leader by lease goes on until its own deadline. */
void lead_session_failed(struct lead *lead, enum lead_event event, const struct error *err);

/* lead_ask.c */
void lead_ask(struct lead *lead, enum ask ask); /* sends it */
void lead_take_answer(struct lead *lead);
void lead_reported(struct lead *lead); /* or it cannot be: what comes next in its session */

/* lead_session.c: answers until the session is ready, then what a follower does. */
void lead_took_identity(struct lead *lead, const struct reply *reply);
void lead_took_table(struct lead *lead, const struct reply *reply);
void lead_took_limits(struct lead *lead, const struct reply *reply);
void lead_prepare(struct lead *lead); /* the next step of a session's beginning */
void lead_ready(struct lead *lead);
void lead_took_listen(struct lead *lead, const struct reply *reply);
void lead_took_unlisten(struct lead *lead, const struct reply *reply);
void lead_took_count(struct lead *lead, const struct reply *reply);
void lead_follow(struct lead *lead, int64_t pause_us);
void lead_try(struct lead *lead); /* lead->next is one */

/* lead_keys.c */
void lead_took_key(struct lead *lead, const struct reply *reply);
void lead_took_next(struct lead *lead, const struct reply *reply);
void lead_took_drop(struct lead *lead, const struct reply *reply);
void lead_refused_key(struct lead *lead, const struct error *err, bool passing);
void lead_refused_other(struct lead *lead, const struct error *err);
bool lead_is_by_named_key(const struct lead *lead);
void lead_refuse_named_key(struct lead *lead); /* ends it */
bool lead_settle_keys(struct lead *lead);      /* before a term: true while a key is to be taken, or
                                                * given      back */
void lead_look_after_keys(struct lead *lead);  /* a leader's, between two checks */
void lead_go_on(struct lead *lead);            /* it holds, in whatever state */
void lead_checked_other(struct lead *lead, bool held);
void lead_forget_other(struct lead *lead); /* it was given back */
void lead_forget_keys(struct lead *lead);  /* the session is closed */

/* lead_term.c: answers from the try to the release. */
void lead_took_try(struct lead *lead, const struct reply *reply);
void lead_took_check(struct lead *lead, const struct reply *reply);
void lead_took_settle(struct lead *lead, const struct reply *reply);
void lead_took_yield(struct lead *lead, const struct reply *reply);
void lead_took_unlock(struct lead *lead, const struct reply *reply);
void lead_give_back(struct lead *lead, enum lead_event event); /* it holds, but will not work */
void lead_proceed(struct lead *lead); /* it holds: what is still to do before it leads */
void lead_check_next(struct lead *lead);
void lead_release(struct lead *lead); /* the term is ended, then the lock given back */
void lead_keep_lease(
    struct lead *lead); /* no session to give it back through: it expires by itself */
enum ask lead_check_ask(const struct lead *lead);

/* lead_refused.c: the server refused the statement under way; the session is still there. */
void lead_refused(struct lead *lead, const struct error *err);
void lead_refused_otherwise(struct lead *lead,
                            const struct error *err); /* as most statements are */
