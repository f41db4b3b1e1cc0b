/* SPDX-License-Identifier: PostgreSQL */
/* One connection, one call of the ledger. */
#include "candidate/report.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "pg/conn.h"
#include "pg/statement.h"

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

static bool call_within(struct pg_session *conn, const char *const *values, int64_t deadline_us,
                        struct error *err)
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
        pg_answer_free(answer);
        return ok;
    }
}

bool report_stopped(const char *conninfo, const char *duty, int64_t generation,
                    const char *instance, int64_t within_us, struct error *err)
{
    char text[32];
    int64_t deadline = clock_boottime_us() + within_us;
    const struct pg_conn_options options = {.conninfo = conninfo,
                                            .application_name = "pgleader-guard"};
    const char *values[] = {duty, text, instance};
    (void)snprintf(text, sizeof text, "%" PRId64, generation);
    struct pg_session *conn = pg_conn_start(&options, err);
    bool ok =
        conn && connect_within(conn, deadline, err) && call_within(conn, values, deadline, err);
    pg_conn_close(conn);
    return ok;
}
