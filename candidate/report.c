/* SPDX-License-Identifier: PostgreSQL */
/* One connection, one call of the ledger. */
#include "candidate/report.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "pg/conn.h"
#include "pg/statement.h"

/* The database may be starting again, or the first of several hosts be gone. */
static const int64_t attempt_within_us = 2 * SECOND_US;
static const int again_ms = 200;

static bool wait_for(const struct pg_session *conn, int64_t deadline_us, struct error *err)
{
    struct pollfd fd = {.fd = pg_conn_fd(conn), .events = pg_conn_events(conn)};
    int64_t left = deadline_us - clock_boottime_us();
    if (left <= 0)
        return error_set(err, ERROR_TIMEOUT,
                         "could not report that the work has stopped: no answer in time");
    (void)poll(&fd, 1, (int)(left / 1000) + 1);
    return true;
}

static bool connect_within(struct pg_session *conn, int64_t deadline_us, struct error *err)
{
    for (;;) {
        if (!wait_for(conn, deadline_us, err))
            return false;
        enum pg_progress progress = pg_conn_connect(conn, err);
        if (progress != PG_AGAIN)
            return progress == PG_DONE;
    }
}

/* *ret_refused: there was an answer, and asking again will not change it. */
static bool call_within(struct pg_session *conn, const char *const *values, int64_t deadline_us,
                        bool *ret_refused, struct error *err)
{
    struct pg_answer *answer = NULL;
    if (!pg_statement_send(conn, "SELECT pgleader.report_stopped($1, $2::int8, $3)", 3, values,
                           err))
        return false;
    for (;;) {
        if (!wait_for(conn, deadline_us, err)) {
            pg_answer_free(answer);
            return false;
        }
        enum pg_progress progress = pg_statement_step(conn, &answer, err);
        if (progress == PG_AGAIN)
            continue;
        bool ok = progress == PG_DONE && answer;
        *ret_refused = progress == PG_DONE && !answer;
        pg_answer_free(answer);
        return ok;
    }
}

static bool try_to_report(const char *conninfo, const char *const *values, size_t attempt,
                          int64_t deadline_us, bool *ret_refused, struct error *err)
{
    const struct pg_conn_options options = {
        .conninfo = conninfo, .application_name = "pgleader-guard", .first_host = attempt};
    struct pg_session *conn = pg_conn_start(&options, err);
    bool ok = conn && connect_within(conn, deadline_us, err) &&
              call_within(conn, values, deadline_us, ret_refused, err);
    pg_conn_close(conn);
    return ok;
}

bool report_stopped(const char *conninfo, const char *duty, int64_t generation,
                    const char *instance, int64_t within_us, struct error *err)
{
    char text[32];
    bool refused = false;
    int64_t deadline = clock_boottime_us() + within_us;
    const char *values[] = {duty, text, instance};
    (void)snprintf(text, sizeof text, "%" PRId64, generation);
    for (size_t attempt = 0;; attempt++) {
        int64_t now = clock_boottime_us();
        int64_t enough = now + attempt_within_us < deadline ? now + attempt_within_us : deadline;
        if (try_to_report(conninfo, values, attempt, enough, &refused, err))
            return true;
        if (refused || clock_boottime_us() + again_ms * 1000 >= deadline)
            return false;
        (void)poll(NULL, 0, again_ms);
    }
}
