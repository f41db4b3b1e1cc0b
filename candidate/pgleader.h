/* SPDX-License-Identifier: PostgreSQL */
/* libpgleader: leads a duty in PostgreSQL from inside a program.
 *
 *     struct pgleader_options options;
 *     pgleader_options_init(&options);
 *     options.conninfo = "host=db dbname=app";
 *     options.duty = "jobs/reconcile";
 *     struct pgleader *candidate = pgleader_new(&options, &error);
 *     if (!candidate || !pgleader_start(candidate, &error)) ...
 *     while ((generation = pgleader_wait(candidate, -1)) != 0) {
 *         ... work while pgleader_may_work(candidate, generation) ...
 *         pgleader_work_stopped(candidate, generation);
 *     }
 *     pgleader_free(candidate);
 *
 * A term of leadership is named by its generation. With a ledger it is the ledger's: positive,
 * rising, a fencing token. Without one it is negative, tells the terms of one candidate apart, and
 * fences nothing. 0 is no generation.
 *
 * Loss is cancellation. When leadership is lost or handed over, in this order: pgleader_may_work
 * becomes false and the abort descriptor readable, the queries that the work has registered are
 * cancelled, `lost` is called; then the library waits for pgleader_work_stopped, and only then
 * gives the lock back or closes its session. A library cannot kill a thread: work that does not
 * stop within kill_after_us is told of by `overdue`, and the lock, if it is still held, stays held.
 *
 * Threads: every function may be called by any thread at any time until pgleader_free, unless it
 * says otherwise; those that take a PGconn are for the thread that owns that connection. Callbacks
 * come from one thread of the library's, one at a time, and must be short: while one runs, nothing
 * is checked. That thread blocks all signals. The library changes no signal dispositions and never
 * writes to standard output or error or exits, but for one case: where memory runs out it calls
 * abort(3) with a word on standard error, since a leader without memory cannot keep its promises.
 *
 * fork(2): a child has no candidate. There pgleader_may_work is false, functions that can fail
 * fail, and pgleader_free does nothing. A child that does not exec keeps the session's socket open,
 * and with it the lock should this process be killed: fork before pgleader_start.
 *
 * Times are microseconds, _us; on strings nothing is kept: all are copied. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGLEADER_API __attribute__((visibility("default")))

/* libpq's own types, so that this header needs no other. */
typedef struct pg_conn PGconn;

/* ------------------------------------------------------------------------------------- errors */

enum pgleader_code {
    PGLEADER_OK,
    PGLEADER_ERROR_USAGE,    /* an argument, or the state of the connection given */
    PGLEADER_ERROR_CONFIG,   /* this server, or these times, cannot be led with */
    PGLEADER_ERROR_SYSTEM,   /* the operating system */
    PGLEADER_ERROR_CONNECT,  /* the session is lost: what a commit did is not known */
    PGLEADER_ERROR_STALE,    /* PL001, 40001: another term has begun, or this one has ended: stop */
    PGLEADER_ERROR_NOT_HELD, /* PL002: the session does not hold the duty's lock */
    PGLEADER_ERROR_UNKNOWN_DUTY, /* PL003 */
    PGLEADER_ERROR_NO_LEDGER,    /* 3F000, 42883: the ledger is not installed in this database */
    PGLEADER_ERROR_PERMISSION,   /* 42501 */
    PGLEADER_ERROR_CANCELLED,    /* 57014: by the loss, or by somebody else */
    PGLEADER_ERROR_BUSY, /* 40P01, 55P03: nothing was changed; the transaction can be retried */
    PGLEADER_ERROR_NOT_CLAIMED, /* 55000: the run is not claimed by this generation, or is over */
    PGLEADER_ERROR_QUERY,       /* any other refusal of the server's: see sqlstate */
};

/* Filled on failure only; NULL may be given for any. The texts are valid UTF-8 where the server's
 * are, and never hold a password. */
struct pgleader_error {
    enum pgleader_code code;
    char sqlstate[6];   /* "" where the server said nothing */
    char message[1024]; /* "could not X: why" */
    char hint[512];     /* what to do, or "" */
};

/* ------------------------------------------------------------------------------------ options */

enum pgleader_level { PGLEADER_INFO, PGLEADER_WARNING };

/* Flags of the options. */
#define PGLEADER_WAIT_QUEUE UINT64_C(1) /* wait in the lock's queue, through the ledger: 1 ms */
#define PGLEADER_NO_SETTLE                                                                         \
    UINT64_C(2) /* do not wait for a lost predecessor's work to stop: only                         \
                   where every effect is fenced */

/* Begin with pgleader_options_init. 0 and NULL are the defaults; `duty` has none. Later versions
 * add members at the end. */
struct pgleader_options {
    size_t size;
    uint64_t flags;
    const char *conninfo;    /* libpq's; NULL: as the environment says. Not through a pooler. */
    const char *duty;        /* "jobs/reconcile" */
    const char *instance;    /* this candidate's name; NULL: HOST-PID */
    const char *lock;        /* "742118" or "12,-7"; NULL: as the ledger has it */
    const char *lease_table; /* "schema.table": lead by a lease in it; NULL: as the ledger has it */
    const char *lease_row;   /* the row's name in it; NULL: the duty's */
    int64_t lease_us;        /* how long a lease is; 15 s */

    /* Against silent packet loss this must hold, and an inconsistent sum is refused:
     * check_every + answer_within + kill_after + slack < server_holds. */
    int64_t check_every_us;   /* 1 s */
    int64_t answer_within_us; /* 1 s */
    int64_t kill_after_us;    /* 3 s: the work has so long to stop after a loss */
    int64_t slack_us;         /* 1 s */
    int64_t server_holds_us;  /* 8 s: how long the server keeps a session that it cannot reach */

    void *context; /* given to every callback */

    /* Work may start under this generation. Each term has exactly one `gained` and one `lost`. */
    void (*gained)(void *context, int64_t generation);
    /* Work must stop, then pgleader_work_stopped be called. `rule` says why: "session-lost",
     * "check-late", "check-failed", "yield-request", "signal", "finished"...; it lives for ever. */
    void (*lost)(void *context, int64_t generation, const char *rule);
    /* Work has not stopped kill_after_us after the loss: the sum above is broken, a successor may
     * begin. Where effects are not fenced in the database, end the process here (_exit): nothing
     * else stops a thread. Called at most once a term; without it there is a warning in `log`. */
    void (*overdue)(void *context, int64_t generation);
    /* What happened, in words; rule and hint may be NULL; the strings live as long as the call. */
    void (*log)(void *context, enum pgleader_level level, const char *rule, const char *message,
                const char *hint);
};

static inline void pgleader_options_init(struct pgleader_options *options)
{
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
}

/* -------------------------------------------------------------------------------- life cycle */

struct pgleader;

/* "0.1.0" */
PGLEADER_API const char *pgleader_version(void);

/* A candidate that does nothing yet; the options may go. NULL on failure: USAGE, CONFIG where the
 * sum does not hold, SYSTEM. No connection is made. */
PGLEADER_API struct pgleader *pgleader_new(const struct pgleader_options *options,
                                           struct pgleader_error *err);

/* Starts the library's thread, which connects and competes, for as long as the database is away
 * too. Once a candidate. */
PGLEADER_API bool pgleader_start(struct pgleader *candidate, struct pgleader_error *err);

/* Asks for the end: leadership is handed over as by pgleader_yield, and not competed for again.
 * Safe in a signal handler. */
PGLEADER_API void pgleader_request_stop(struct pgleader *candidate);

/* The same, and waits for the end: that includes pgleader_work_stopped. timeout_ms as poll(2)'s, -1
 * for ever. True when it has ended; it does not wait in a callback. */
PGLEADER_API bool pgleader_stop(struct pgleader *candidate, int timeout_ms);

/* Says that no work of its runs any more, hands over what it leads, waits for that (seconds at
 * most, and for a callback that is under way), and frees. No other thread may be in a call. Not
 * from a callback: there it does nothing. NULL is fine. */
PGLEADER_API void pgleader_free(struct pgleader *candidate);

/* ------------------------------------------------------------------------------------- states */

enum pgleader_state {
    PGLEADER_STATE_FOLLOWER,  /* not leading; also before the start */
    PGLEADER_STATE_ACQUIRING, /* trying, or waiting for a predecessor's work to stop */
    PGLEADER_STATE_LEADER,    /* the one state in which work may run */
    PGLEADER_STATE_YIELDING,  /* handing over: it holds the lock until the work has stopped */
    PGLEADER_STATE_UNCERTAIN, /* lost, or not known: the work is stopping */
    PGLEADER_STATE_ENDED,     /* no candidate any more: pgleader_ended says why */
};

PGLEADER_API enum pgleader_state pgleader_state(const struct pgleader *candidate);
PGLEADER_API const char *pgleader_state_name(enum pgleader_state state); /* "follower", ... */

/* The generation that leads now, or 0. */
PGLEADER_API int64_t pgleader_generation(const struct pgleader *candidate);

/* True while that generation leads and its deadline has not passed, by CLOCK_BOOTTIME now, also
 * where the library's thread did not get to run. Without a lock: ask before each piece of work.
 * False may become true again for the same generation, when a late answer confirms it; after a loss
 * never. */
PGLEADER_API bool pgleader_may_work(const struct pgleader *candidate, int64_t generation);

/* Waits until it leads a term whose work has not been said to have stopped. The generation; 0 after
 * timeout_ms (as poll(2)'s, -1 for ever) or when it has ended. Does not wait in a callback. */
PGLEADER_API int64_t pgleader_wait(struct pgleader *candidate, int timeout_ms);

/* Why it ended: PGLEADER_OK where it was asked to; PERMISSION or CONFIG where it could not go on,
 * and then err is filled. Before the end: PGLEADER_OK. */
PGLEADER_API enum pgleader_code pgleader_ended(const struct pgleader *candidate,
                                               struct pgleader_error *err);

/* --------------------------------------------------------------------------------------- loss */

/* Hands that generation over and stays a candidate: the work is aborted, the term ended, the lock
 * given back. Where no other candidate is quicker it leads again. Another generation than the one
 * that leads: nothing happens. */
PGLEADER_API void pgleader_yield(struct pgleader *candidate, int64_t generation);

/* The work of that generation is over and will touch nothing more: after a loss, or by itself,
 * which hands over. Before this the lock is not given back. An old generation: nothing happens. */
PGLEADER_API void pgleader_work_stopped(struct pgleader *candidate, int64_t generation);

/* A descriptor for poll(2): readable whenever no work may run, that is from the loss of a term
 * until the next is gained, and before the first. One for the candidate's whole life. Do not read,
 * write or close it. */
PGLEADER_API int pgleader_abort_fd(const struct pgleader *candidate);

/* Registers the work's own connection: what it runs when that generation is lost is cancelled
 * (57014), and again every 250 ms until the work has stopped, so that a query begun a moment later
 * is too. The next term is not gained before a cancel under way is over (but at most kill_after_us
 * after the loss). False, and nothing is registered: STALE where that generation does not lead any
 * more (do not begin), USAGE where the connection is not there. Once a connection and term; the
 * owning thread calls it. */
PGLEADER_API bool pgleader_cancel_on_loss(struct pgleader *candidate, int64_t generation,
                                          PGconn *conn, struct pgleader_error *err);

/* Takes a connection out again, to say goodbye on it undisturbed or to close it; waits for a cancel
 * that is under way, at most kill_after_us. */
PGLEADER_API void pgleader_no_cancel(struct pgleader *candidate, const PGconn *conn);

/* --------------------------------------------------------------------------------------- runs */

/* What follows works on the work's own connection to the database with the ledger, and blocks as
 * PQexecParams does. Inside a transaction of the caller's it is part of it, and a failure aborts
 * it: roll back. Outside it is one of its own. The connection must be idle or in a transaction, and
 * not in pipeline mode; any isolation level is right, but with others than READ COMMITTED a 40001
 * means stale, too. Texts are in the connection's encoding. No candidate is needed: a program that
 * got its generation otherwise may call these. */

enum pgleader_outcome { PGLEADER_FRESH, PGLEADER_RESUMED, PGLEADER_ALREADY_COMPLETE };

struct pgleader_claim {
    enum pgleader_outcome outcome;
    int64_t previous_generation; /* that had claimed it before; 0: none */
    char *cursor;                /* where to go on; NULL: at the beginning */
    char *position;              /* as a decimal number, or NULL */
};

/* Claims the run for this generation, whoever had it. deadline_us: from now, 0: none. On success
 * *ret_claim is the caller's, to be cleared. */
PGLEADER_API bool pgleader_claim_run(PGconn *conn, const char *duty, const char *run_key,
                                     int64_t generation, int64_t deadline_us,
                                     struct pgleader_claim *ret_claim, struct pgleader_error *err);

/* Frees the texts and zeroes it; a zeroed claim is fine. */
PGLEADER_API void pgleader_claim_clear(struct pgleader_claim *claim);

/* Moves the cursor: in the transaction of the effects that it stands for. position and target are
 * decimal numbers for progress, or NULL: a cursor that is a number is its own position. */
PGLEADER_API bool pgleader_advance_run(PGconn *conn, const char *duty, const char *run_key,
                                       int64_t generation, const char *cursor, const char *position,
                                       const char *target, struct pgleader_error *err);

enum pgleader_status { PGLEADER_COMPLETE, PGLEADER_PARTIAL, PGLEADER_ABANDONED };

/* Ends the run with a receipt, JSON or NULL. Asked twice for the same end, it agrees. */
PGLEADER_API bool pgleader_finish_run(PGconn *conn, const char *duty, const char *run_key,
                                      int64_t generation, enum pgleader_status status,
                                      const char *receipt_json, struct pgleader_error *err);

/* Holds the generation current until the transaction ends, or fails with STALE: before effects that
 * no call above accompanies. USAGE outside a transaction, where it would hold nothing. */
PGLEADER_API bool pgleader_fence(PGconn *conn, const char *duty, int64_t generation,
                                 struct pgleader_error *err);

#ifdef __cplusplus
}
#endif
