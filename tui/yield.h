/* SPDX-License-Identifier: PostgreSQL */
/* The yield: asks, guards, sends once, and watches what comes of it. It never blocks and never
 * prints; its caller waits in poll(2) and shows the view. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/snapshot.h"
#include "pg/conn.h"
#include "tui/guard.h"
#include "tui/yield_outcome.h"

enum yield_phase {
    PHASE_LOOKING,    /* no picture of its own yet */
    PHASE_ASKING,     /* guards every 500 ms, until yield_confirm */
    PHASE_REQUESTING, /* the intent is on its way into the audit */
    PHASE_GRACE,      /* the leader was asked */
    PHASE_SENDING,    /* the one statement is on its way */
    PHASE_WATCHING,
    PHASE_RECORDING, /* the outcome is on its way into the audit */
    PHASE_DONE,
};

enum yield_end {
    END_OUTCOME,     /* view.outcome says which */
    END_REFUSED,     /* a guard; nothing was sent */
    END_UNAVAILABLE, /* no server; nothing was sent */
    END_NO_PERMISSION,
    END_CANCELLED, /* by the person; nothing was sent */
};

enum yield_sent { SENT_NO, SENT_ASKED, SENT_MAYBE, SENT_YES };

/* What happened when; "audit" ones belong into the local log where there is no ledger. */
struct yield_step {
    int64_t after_us; /* since the yield began, by the local clock */
    const char *sentence;
    bool audit;
};

struct yield_view {
    enum yield_phase phase;
    enum yield_end end; /* once it is done */
    enum yield_outcome outcome;
    const char *sentence; /* why it ended so, in words; lives as long as the yield */
    const struct yield_target *target;
    const struct yield_facts *facts; /* the newest reading, or NULL; until the next step */
    const struct yield_facts *asked; /* the reading that the guards judged last before sending */
    struct guard_list guards;        /* of that reading; frozen once it goes on */
    struct yield_sight sight;        /* once it is sent */
    enum yield_sent sent;
    int64_t intent;   /* -1: none */
    bool signalled;   /* valid with SENT_YES: the server said true */
    bool recorded;    /* the outcome stands in the ledger's audit */
    int64_t until_us; /* CLOCK_MONOTONIC: when the grace or the watch is over; 0: neither runs */
    int64_t read_us;  /* CLOCK_MONOTONIC: when the newest reading came; 0: there is none */
    const struct yield_step *steps;
    size_t n_steps;
};

/* How long a server may be silent before the session with it is given up. */
enum { YIELD_SILENT_AFTER_S = 10 };

struct yield_order {
    const struct config_server *server; /* this and all below must outlive the yield */
    const struct snapshot *snapshot;    /* what the person saw: identity is frozen from it */
    const struct duty *duty;            /* of that snapshot */
    const char *reason;                 /* may come with yield_confirm instead */
    const char *confirm; /* to be judged with the guards from the beginning; sends nothing */
    bool confirmed;      /* it stands as confirmation: the first reading decides */
    struct pg_session
        *session;       /* idle, with that server, the yield's from now on; NULL: it opens one */
    uint32_t overrides; /* one bit a guard_id */
    int64_t grace_us, wait_us;
    void *context;
    void (*step)(void *context, const struct yield_step *step); /* may be NULL */
};

struct yield;

struct yield *yield_new(const struct yield_order *order);
void yield_free(struct yield *yield); /* NULL is fine; what was asked for stands */

void yield_wants(const struct yield *yield, struct pollfd *ret_fd);
int64_t yield_due_us(const struct yield *yield); /* CLOCK_MONOTONIC */
void yield_step(struct yield *yield, bool ready);

/* What the person typed, and why; a fresh reading decides. Only while it asks. */
void yield_confirm(struct yield *yield, const char *confirm, const char *reason);

/* Judges the last reading anew, since it has grown older, with these overrides from now on. Only
 * while it asks. */
void yield_reconsider(struct yield *yield, uint32_t overrides);

/* Ends as the guards of the last reading say, if any of them refuses. Only while it asks. */
void yield_refuse(struct yield *yield);

/* Before anything was sent: nothing is. Afterwards: waits no longer, and the outcome is unknown. */
void yield_cancel(struct yield *yield);

const struct yield_view *yield_look(const struct yield *yield);
