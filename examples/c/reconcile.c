/* SPDX-License-Identifier: PostgreSQL */
/* A worker that leads by itself, with libpgleader: each invoice is reconciled once, whoever leads
 * and however often that changes.
 *
 *     reconcile DUTY CONNINFO [PAUSE_MS]
 *
 * Needs the ledger, the duty in its registry, and examples/invoices.sql. PAUSE_MS is pretended
 * work, in the database and outside it, a step. Exit status: 0 nothing is left to do, 1 it could
 * not go on, 143 SIGTERM. */
#include <inttypes.h>
#include <pgleader.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <libpq-fe.h>

enum {
    STEP = 5
}; /* invoices a transaction; short, since a successor's begin_term waits for its end */

enum result { WORK_DONE, WORK_STOPPED, WORK_FAILED };

struct work {
    struct pgleader *candidate;
    PGconn *conn;
    const char *duty;
    int64_t generation;
    int pause_ms;
    struct pgleader_error error;
};

static struct pgleader *to_stop;
static volatile sig_atomic_t terminated;

static void on_sigterm(int signo)
{
    (void)signo;
    terminated = 1;
    pgleader_request_stop(to_stop); /* safe here: the loss that follows stops the work */
}

static void on_lost(void *context, int64_t generation, const char *rule)
{
    (void)context;
    (void)fprintf(stderr, "lost %" PRId64 " %s\n", generation, rule);
}

/* The work cannot be stopped, and a successor may begin: nothing but the end of this process helps.
 */
static void on_overdue(void *context, int64_t generation)
{
    (void)context;
    (void)generation;
    _exit(1);
}

/* A connection that is gone, a query that is cancelled, a generation that is stale: all end the
 * work alike. What was not committed did not happen. */
static enum result stop(const struct work *w, const char *what, const char *why)
{
    bool lost = !pgleader_may_work(w->candidate, w->generation);
    (void)fprintf(stderr, "stopped %" PRId64 ": could not %s: %s\n", w->generation, what, why);
    return lost || w->error.code == PGLEADER_ERROR_STALE ? WORK_STOPPED : WORK_FAILED;
}

static enum result stop_by_error(const struct work *w)
{
    return stop(w, "go on", w->error.message);
}

static bool run(const struct work *w, const char *query, int n, const char *const *values)
{
    PGresult *result = PQexecParams(w->conn, query, n, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* A number, or -1 where there is none. */
static bool ask_number(const struct work *w, const char *query, const char *value, long *ret)
{
    PGresult *result = PQexecParams(w->conn, query, value ? 1 : 0, NULL, &value, NULL, NULL, 0);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    if (ok)
        *ret = PQntuples(result) && !PQgetisnull(result, 0, 0)
                   ? strtol(PQgetvalue(result, 0, 0), NULL, 10)
                   : -1;
    PQclear(result);
    return ok;
}

/* The cursor and the effects in one transaction: both or neither. advance_run fences it, so it
 * comes first. */
static bool step(struct work *w, const char *run_key, long batch, long done, long upto)
{
    char texts[4][32];
    (void)snprintf(texts[0], sizeof texts[0], "%ld", batch);
    (void)snprintf(texts[1], sizeof texts[1], "%ld", done);
    (void)snprintf(texts[2], sizeof texts[2], "%ld", upto);
    (void)snprintf(texts[3], sizeof texts[3], "%" PRId64, w->generation);
    const char *values[] = {texts[0], texts[1], texts[2], texts[3]};
    char pause[64];
    (void)snprintf(pause, sizeof pause, "SELECT pg_sleep(%d / 1000.0)", w->pause_ms);
    return run(w, "BEGIN", 0, NULL) &&
           pgleader_advance_run(w->conn, w->duty, run_key, w->generation, texts[2], NULL, NULL,
                                &w->error) &&
           run(w,
               "INSERT INTO reconciliation SELECT batch, number, $4::int8 FROM invoice "
               "WHERE batch = $1::int AND number > $2::int AND number <= $3::int",
               4, values) &&
           run(w, pause, 0, NULL) && run(w, "COMMIT", 0, NULL);
}

/* Waiting outside the database ends at once when leadership does. */
static bool pause_or_abort(const struct work *w)
{
    struct pollfd fd = {.fd = pgleader_abort_fd(w->candidate), .events = POLLIN};
    return poll(&fd, 1, w->pause_ms) <= 0;
}

static bool close_batch(struct work *w, const char *run_key, long batch, long done)
{
    char number[32], receipt[64];
    (void)snprintf(number, sizeof number, "%ld", batch);
    (void)snprintf(receipt, sizeof receipt, "{\"invoices\": %ld}", done);
    const char *values[] = {number};
    return run(w, "BEGIN", 0, NULL) &&
           pgleader_finish_run(w->conn, w->duty, run_key, w->generation, PGLEADER_COMPLETE, receipt,
                               &w->error) &&
           run(w, "UPDATE invoice_batch SET closed = true WHERE batch = $1::int", 1, values) &&
           run(w, "COMMIT", 0, NULL);
}

/* One batch is one run: it goes on where its predecessor's last committed step ended. */
static enum result work_on(struct work *w, long batch)
{
    static const int64_t one_hour_us = INT64_C(3600) * 1000000;
    char run_key[32], number[32];
    struct pgleader_claim claim;
    long target = 0;
    (void)snprintf(run_key, sizeof run_key, "batch-%ld", batch);
    (void)snprintf(number, sizeof number, "%ld", batch);
    if (!pgleader_claim_run(w->conn, w->duty, run_key, w->generation, one_hour_us, &claim,
                            &w->error))
        return stop_by_error(w);
    long done = claim.cursor ? strtol(claim.cursor, NULL, 10) : 0;
    (void)fprintf(stderr, "claimed %" PRId64 " %s: %s at %ld\n", w->generation, run_key,
                  claim.outcome == PGLEADER_FRESH ? "fresh" : "resumed", done);
    pgleader_claim_clear(&claim);
    if (!ask_number(w, "SELECT max(number) FROM invoice WHERE batch = $1::int", number, &target))
        return stop(w, "count the invoices", PQerrorMessage(w->conn));
    while (done < target) {
        long upto = done + STEP < target ? done + STEP : target;
        if (!pgleader_may_work(w->candidate, w->generation))
            return stop(w, "go on", "leadership is lost");
        if (!step(w, run_key, batch, done, upto))
            return stop(w, "reconcile invoices",
                        *w->error.message ? w->error.message : PQerrorMessage(w->conn));
        done = upto;
        if (!pause_or_abort(w))
            return stop(w, "go on", "leadership is lost");
    }
    return close_batch(w, run_key, batch, done) ? WORK_DONE : stop_by_error(w);
}

static enum result work_on_all(struct work *w)
{
    if (PQstatus(w->conn) != CONNECTION_OK)
        return stop(w, "connect", PQerrorMessage(w->conn));
    if (!pgleader_cancel_on_loss(w->candidate, w->generation, w->conn, &w->error))
        return stop_by_error(w);
    for (;;) {
        long batch = 0;
        if (!ask_number(w, "SELECT min(batch) FROM invoice_batch WHERE NOT closed", NULL, &batch))
            return stop(w, "look for a batch", PQerrorMessage(w->conn));
        if (batch < 0)
            return WORK_DONE;
        enum result result = work_on(w, batch);
        if (result != WORK_DONE)
            return result;
    }
}

/* One term: its own connection, which is gone when pgleader_work_stopped is called. */
static enum result work(struct pgleader *candidate, const char *duty, const char *conninfo,
                        int64_t generation, int pause_ms)
{
    struct work w = {.candidate = candidate,
                     .conn = PQconnectdb(conninfo),
                     .duty = duty,
                     .generation = generation,
                     .pause_ms = pause_ms};
    (void)fprintf(stderr, "leads %" PRId64 "\n", generation);
    enum result result = work_on_all(&w);
    pgleader_no_cancel(candidate, w.conn);
    PQfinish(w.conn);
    return result;
}

static enum result lead(struct pgleader *candidate, const char *duty, const char *conninfo,
                        int pause_ms)
{
    int64_t generation = 0;
    enum result result = WORK_STOPPED;
    while (result == WORK_STOPPED && (generation = pgleader_wait(candidate, -1)) != 0) {
        result = work(candidate, duty, conninfo, generation, pause_ms);
        pgleader_work_stopped(candidate, generation);
    }
    return result;
}

int main(int argc, char **argv)
{
    struct pgleader_options options;
    struct pgleader_error error = {0};
    if (argc < 3) {
        (void)fprintf(stderr, "Usage: reconcile DUTY CONNINFO [PAUSE_MS]\n");
        return 2;
    }
    pgleader_options_init(&options);
    options.duty = argv[1];
    options.conninfo = argv[2];
    options.lost = on_lost;
    options.overdue = on_overdue;
    to_stop = pgleader_new(&options, &error);
    if (!to_stop || !pgleader_start(to_stop, &error)) {
        (void)fprintf(stderr, "%s\n%s\n", error.message, error.hint);
        pgleader_free(to_stop);
        return 1;
    }
    (void)signal(SIGTERM, on_sigterm);
    enum result result =
        lead(to_stop, argv[1], argv[2], argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0);
    (void)pgleader_stop(to_stop, -1);
    if (pgleader_ended(to_stop, &error) != PGLEADER_OK) {
        (void)fprintf(stderr, "%s\n%s\n", error.message, error.hint);
        result = WORK_FAILED;
    }
    (void)signal(SIGTERM, SIG_DFL);
    pgleader_free(to_stop);
    return terminated ? 128 + SIGTERM : result == WORK_DONE ? 0 : 1;
}
